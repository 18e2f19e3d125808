"""What a tool raised, changed or was stopped in, when it is answered from a recording; and what stands in for it."""

import asyncio
import errno
import json
from pathlib import Path

import httpx
import pytest

from harness.errors import UsageError
from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, replay_run
from harness.session import Change


class NotFound(Exception):
    """An application's own error."""


class Coded(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


class Slotted(NotFound):
    __slots__ = ("where",)

    def __init__(self, where):
        self.where = where


class Connected(Exception):
    def __init__(self, connection):
        super().__init__("lost")
        self.connection = connection


class Counted(Exception):
    made = 0

    def __init__(self, text):
        super().__init__(text)
        Counted.made += 1


def asking(raiser, told=lambda error: (type(error).__qualname__, str(error))):
    """A workflow with one tool, whose step says what it caught: whether the same class as at first, and ``told``."""

    @tool(determinism="deterministic", version="1")
    def look(key):
        raiser()

    @step
    def ask(key):
        try:
            return look(key)
        except Exception as error:
            caught.append(type(error))
            return [caught[-1] is caught[0], told(error)]

    caught = []

    @workflow("asking")
    def run(key):
        return ask(key)

    return run


def throw(error):
    raise error


def read_response(response):
    response.raise_for_status()


RAISED = {
    "own": (lambda: throw(NotFound("x")), str),
    "with a field": (lambda: throw(Coded(404)), lambda error: error.code),
    "with a slot": (lambda: throw(Slotted("shelf 3")), lambda error: (error.where, error.args)),
    "httpx.ReadTimeout": (lambda: throw(httpx.ReadTimeout("slow")), str),
    "JSONDecodeError": (lambda: json.loads('{"a":'), lambda error: (error.pos, error.doc)),
    "OSError": (Path("/no/such/file").read_text, lambda error: (error.errno, error.strerror, error.filename)),
    "UnicodeDecodeError": (lambda: b"\xff".decode(), lambda error: (error.start, error.reason)),
    "KeyError": (lambda: {}["gone"], lambda error: error.args),
    "with a note": (lambda: throw(_noted()), lambda error: error.__notes__),
}


def _noted():
    error = ValueError("no")
    error.add_note("the shelf is empty")
    return error


@pytest.mark.parametrize("name", RAISED)
def test_a_recorded_error_is_raised_again_as_what_it_was(name):
    raiser, told = RAISED[name]
    run = asking(raiser, told)
    parent = live_run(run, {"key": "k"}, dry=False)
    again = replay_run(parent.run, target=run)
    assert again.output == parent.output
    assert again.output[0] is True
    assert again.diff.output_equal
    # A recording made of the replay answers as well.
    assert replay_run(again.run, target=run).output == parent.output


def test_no_code_of_the_error_is_called_to_raise_it_again():
    run = asking(lambda: throw(Counted("no")))
    parent = live_run(run, {"key": "k"}, dry=False)
    made = Counted.made
    assert replay_run(parent.run, target=run).output == parent.output
    assert Counted.made == made


def test_an_error_with_a_client_in_it_is_a_miss_that_names_its_class():
    run = asking(lambda: throw(Connected(object())))
    parent = live_run(run, {"key": "k"}, dry=False)
    again = replay_run(parent.run, target=run)
    assert again.status == "missing"
    assert "tool 'ask/look'" in again.misses[0]
    assert "Connected" in again.misses[0]
    assert "connection" in again.misses[0]


def test_a_class_that_is_not_loaded_at_the_top_of_a_module_is_a_miss():
    class Inner(Exception):
        pass

    run = asking(lambda: throw(Inner("x")))
    again = replay_run(live_run(run, {"key": "k"}, dry=False).run, target=run)
    assert again.status == "missing"
    assert "Inner" in again.misses[0]


def test_a_library_error_lacks_only_what_could_not_be_recorded():
    request = httpx.Request("GET", "https://shop.example/")

    def answer():
        read_response(httpx.Response(404, request=request))

    run = asking(answer, lambda error: isinstance(error, httpx.HTTPError))
    parent = live_run(run, {"key": "k"}, dry=False)
    again = replay_run(parent.run, target=run)
    assert (parent.output, again.output) == ([True, True], [False, True])

    reading = asking(answer, lambda error: error.response.status_code)
    missing = replay_run(live_run(reading, {"key": "k"}, dry=False).run, target=reading)
    assert missing.status == "missing"
    assert "'response'" in missing.error


def test_an_error_that_ends_the_process_is_not_raised_for_a_recording():
    @tool(determinism="deterministic", version="1")
    def look(key):
        if key == "live":
            raise SystemExit(3)

    @workflow("leaving")
    def run(key):
        try:
            look(key)
        except SystemExit:
            return "left"

    parent = live_run(run, {"key": "live"}, dry=False)
    assert parent.output == "left"
    again = replay_run(parent.run, target=run)
    assert again.status == "missing"
    assert "builtins:SystemExit" in again.misses[0]


def test_a_system_error_keeps_its_number_in_a_fork():
    @tool(determinism="deterministic", version="1")
    def read(path):
        return Path(path).read_text()

    @step
    def load(path):
        try:
            return read(path)
        except FileNotFoundError as error:
            return error.errno

    @step
    def mark(number):
        return number

    @workflow("loading")
    def run(path):
        return [mark(1), load(path)]

    parent = live_run(run, {"path": "/no/such/file"}, dry=False)
    fork = fork_run(parent.run, target=run, change="output=2", at="mark", mode="replay")
    assert fork.output == [2, errno.ENOENT]


def test_a_cancelled_tool_is_no_answer():
    @tool(determinism="deterministic", version="1")
    async def slow(n):
        await asyncio.sleep(60)

    @workflow("late")
    async def run(n):
        try:
            return await asyncio.wait_for(slow(n), 0.01)
        except TimeoutError:
            return "late"

    parent = live_run(run, {"n": 1}, dry=False)
    (call,) = [one for one in parent.run.steps if one.kind == "tool"]
    assert (parent.output, call.status) == ("late", "interrupted")
    again = replay_run(parent.run, target=run)
    assert again.status == "missing"
    assert "cancelled" in again.misses[0]


def test_a_tool_that_changed_an_argument_is_not_answered_without_the_change():
    @tool(determinism="deterministic", version="1")
    def fill(box):
        box["k"] = 1
        return True

    @workflow("filling")
    def run(n):
        box = {}
        fill(box)
        return box

    parent = live_run(run, {"n": 1}, dry=False)
    again = replay_run(parent.run, target=run)
    assert (parent.output, again.status) == ({"k": 1}, "missing")
    assert "tool 'fill' changed its argument 'box'" in again.misses[0]
    assert "return a new value" in again.misses[0]


class Service:
    """A client: its calls are told apart without it."""

    def __init__(self):
        self.socket = object()

    @tool(determinism="deterministic", version="1")
    def find(self, key):
        return [key]


def test_a_method_of_a_client_changed_nothing():
    @workflow("finding")
    def run(key):
        return Service().find(key)

    parent = live_run(run, {"key": "k"}, dry=False)
    again = replay_run(parent.run, target=run)
    assert (again.status, again.output) == ("ok", ["k"])


async def instead(text):
    await asyncio.sleep(0)
    return f"not sent: {text}"


def test_an_async_stand_in_is_waited_for():
    @tool(determinism="side-effect", stand_in=instead)
    async def send(text):
        raise AssertionError("sent")

    @workflow("sending")
    async def run(text):
        return await send(text)

    outcome = live_run(run, {"text": "hi"})
    assert (outcome.output, outcome.counts.tools_dry) == ("not sent: hi", 1)
    (call,) = [one for one in outcome.run.steps if one.kind == "tool"]
    assert (call.status, call.state) == ("ok", "dry")
    assert call.output_hash == outcome.run.run.output_hash


def test_a_plain_tool_takes_no_async_stand_in():
    with pytest.raises(UsageError, match="'.*send' is a plain function and its stand-in an async one"):

        @tool(determinism="side-effect", stand_in=instead)
        def send(text):
            return text


class Receipt:
    def __call__(self, text):
        raise AssertionError("called")


@pytest.mark.parametrize("value", [Receipt, Receipt()], ids=["class", "object"])
def test_a_class_or_an_object_is_a_stand_in_and_not_called(value):
    @tool(determinism="side-effect", stand_in=value)
    def send(text):
        return text

    @workflow("receipt")
    def run(text):
        got = send(text)
        return [isinstance(got, Receipt), got is Receipt]

    assert live_run(run, {"text": "hi"}).output == [value is not Receipt, value is Receipt]


def test_an_effect_that_was_cancelled_in_an_earlier_attempt_is_not_made_again():
    sent = []

    @tool(determinism="side-effect", version="1")
    async def send(text):
        sent.append(text)
        if text == "two":
            await asyncio.sleep(60 if len(sent) == 1 else 0)

    @step
    def word(n):
        return "one"

    @workflow("posting")
    async def run(n):
        await asyncio.wait_for(send(word(n)), 0.05)

    parent = live_run(run, {"n": 1})
    assert parent.status == "missing"
    recorded = live_run(run, {"n": 1}, dry=False).run
    sent.clear()
    change = Change(kind="output", at="word", value="two")
    options = ReplayOptions(allow_side_effects=True, allow_undeclared=True)
    forked = {"target": run, "change": change, "options": options}
    with pytest.warns(RuntimeWarning, match="side effects are executed"):
        first = fork_run(recorded, **forked)
    assert (first.status, sent) == ("error", ["two"])
    with pytest.warns(RuntimeWarning, match="side effects are executed"):
        second = fork_run(recorded, arm=first.run, **forked)
    assert sent == ["two"]
    assert "may have happened" in second.error
