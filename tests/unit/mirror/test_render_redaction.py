"""Nothing personal and no secret leaves in a span, wherever in the rows it stands."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.mirror import Context, thaw
from harness.record import VolatileRecord

SECRETS = {
    "mail": "jane.roe@example.org",
    "card": "4111 1111 1111 1111",
    "phone": "+49 170 1234567",
    "key": "sk-abcdefghijklmnop1234",
}
EXPERIMENT = {"id": "0198c0de-0000-7000-8000-00000000e001", "dataset": "triage"}


def _run(name):
    return lambda book, said: setattr(book, "run", replace(book.run, **{name: said}))


def _step(name, row=2):
    return lambda book, said: book.steps.__setitem__(row, replace(book.steps[row], **{name: said}))


def _message(name):
    return lambda book, said: book.messages.__setitem__(0, replace(book.messages[0], **{name: said}))


def _run_metadata(book, said):
    book.run = replace(book.run, metadata={said: 1, "deep": {"list": [said]}, "user_id": said, "session_id": said})


def _content(book, said):
    request = {"messages": [{"role": "user", "content": said, said: 1}], "tools": [{"function": {"name": said}}]}
    call = {"id": said, "type": "function", "function": {"name": said, "arguments": json.dumps({"q": said})}}
    message = {"role": "assistant", "content": said, "refusal": said, "tool_calls": [call]}
    book.messages = [book.message(request, {"choices": [{"index": 0, "message": message}]})]


def _bare_content(book, said):
    book.messages = [book.message(f"no json {said}".encode(), f"<p>{said}</p>".encode())]


def _media(book, said):
    urls = [f"data:{said}/png;base64,aGVsbG8=", f"data:image/png;name= {said} ;base64,aGVsbG8="]
    # A number between a colon and a slash is no phone number to the redactor.
    parts = [{"image_url": {"url": url}} for url in urls["+" in said :]]
    book.messages = [book.message({"messages": [{"role": "user", "content": parts}]})]


def _snapshots(book, said):
    book.steps[1] = replace(book.steps[1], input_hash=book.put({said: [said]}), output_hash=book.put(said))


def _prompt(book, said):
    value = json.dumps({"text": said, "name": said, "version": 3, "label": said, "source": "langfuse"})
    book.volatile = [VolatileRecord(run_id=book.RUN, scope="", name="prompt-source:draft", occurrence=0, value=value)]


def _error(book, said):
    answer = replace(book.messages[0].exchanges[0], error=said)
    book.messages = [replace(book.messages[0], status="error", error=said, exchanges=(answer,))]


PLACES = {
    **{f"run {name}": _run(name) for name in ("workflow", "mode", "arm", "case", "error", "fork_step", "code_version")},
    **{f"step {name}": _step(name) for name in ("name", "scope", "key", "version", "error", "reused_from")},
    **{
        f"message {name}": _message(name)
        for name in ("scope", "method", "endpoint", "provider", "exact_key", "model", "model_served", "prompt_name",
                     "prompt_version", "system_fingerprint", "error", "request_type", "replay_of", "currency")
    },
    "run tags": lambda book, said: _run("tags")(book, (said, f"{'x' * 190} {said}")),
    "run change": lambda book, said: _run("change")(book, {"kind": "prompt", "name": said, said: said}),
    "run failed": lambda book, said: setattr(book, "run", replace(book.run, status="error", error=f"at {said}")),
    "step failed": lambda book, said: book.steps.__setitem__(2, replace(book.steps[2], status="error", error=said)),
    "message params": lambda book, said: _message("params")(book, {said: said}),
    "message finish": lambda book, said: _message("finish_reasons")(book, (said,)),
    "run metadata": _run_metadata,
    "content": _content,
    "content that is no JSON": _bare_content,
    "media": _media,
    "snapshots": _snapshots,
    "prompt": _prompt,
    "errors of attempts": _error,
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", SECRETS)
def test_what_is_planted_anywhere_is_in_no_byte(book, kind, place):
    secret = SECRETS[kind]
    PLACES[place](book, secret)
    context = Context(environment="production", release=secret, run_url=f"https://ui.example.org/ {secret} {{run}}",
                      experiment={**EXPERIMENT, "name": secret, "description": secret, "target": secret},
                      item_id=secret)  # fmt: skip
    for each in (book.PLAIN, context):
        sent = b"\n".join(thaw(book.frozen(each).data)).decode()
        for form in (secret, json.dumps(secret)[1:-1], secret.replace(" ", "")):
            assert form not in sent, place


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(PLACES)), min_size=1, max_size=4, unique=True), st.data())
def test_what_is_planted_in_several_places_within_other_text_is_in_no_byte(books, places, data):
    book = books()
    before, after = (
        data.draw(st.sampled_from(["", "I am ", "a\n", "ü ", "mail: "])),
        data.draw(st.sampled_from(["", " b", "\n"])),
    )
    secret = data.draw(st.sampled_from(sorted(SECRETS.values())))
    for place in places:
        PLACES[place](book, f"{before}{secret}{after}")
    sent = b"\n".join(thaw(book.frozen().data)).decode()
    assert secret not in sent


def test_one_thing_is_one_placeholder_in_the_whole_run(book):
    _content(book, SECRETS["mail"])
    _snapshots(book, SECRETS["mail"].upper())
    sent = b"".join(thaw(book.frozen().data)).decode()
    assert "⟦mail#1⟧" in sent
    assert "⟦mail#2⟧" not in sent


def test_a_secret_known_from_one_place_is_replaced_where_nothing_gives_it_away(book):
    book.steps[1] = replace(book.steps[1], error="api_key = Zx81Qw92Lm", status="error")
    book.steps[0] = replace(book.steps[0], name="about Zx81Qw92Lm")
    assert b"Zx81Qw92Lm" not in b"".join(thaw(book.frozen().data))


def test_a_user_who_is_a_mail_address_is_left_out_instead_of_being_everybody(book):
    book.run = replace(book.run, metadata={"user_id": SECRETS["mail"], "session_id": "s-1"})
    span = book.step(book.ROOT)
    assert "user.id" not in span["attributes"]
    assert span["attributes"]["session.id"] == "s-1"
