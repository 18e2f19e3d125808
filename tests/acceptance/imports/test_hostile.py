"""A server that answers nonsense: each bad trace is named, the rest comes in."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.errors import ReadError, UsageError
from harness.mirror import Project, import_runs
from harness.pipeline import plain
from harness.testing import Scripted, ScriptedServer

START = "2026-11-10T09:00:00.000Z"


def one(trace, identifier="a", **more):
    """An observation as a server tells it."""
    core = {"id": identifier, "traceId": trace, "projectId": "p", "startTime": START, "type": "SPAN", "name": "n"}
    return {**core, "endTime": START, "updatedAt": START, "isRootObservation": True, **more}


class Server:
    """Answers the list of observations from a dict of traces; bytes are answers as they are."""

    def __init__(self, traces):
        self.traces = traces
        self.expanded: list[str] = []

    def __call__(self, seen):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(seen.path).query).items()}
        if "traceId" not in asked:
            rows = [row for name, found in self.traces.items() for row in self._heads(name, found)]
            return _page(rows)
        found = self.traces[asked["traceId"]]
        self.expanded.append(asked.get("expandMetadata", ""))
        return Scripted(body=found) if isinstance(found, bytes) else _page(found)

    @staticmethod
    def _heads(name, found):
        return [one(name)] if isinstance(found, bytes) else found[:1]


def _page(rows):
    return Scripted(body=json.dumps({"data": rows, "meta": {}}).encode())


def load(store, window, traces):
    rule = Server(traces)
    with ScriptedServer(rule=rule) as running:
        base = running.url.removesuffix("/v1")
        project = Project(public_key="pk", secret_key="sk", base_url=base)
        try:
            return import_runs(store, project, window, sleep=lambda _: None), rule
        finally:
            project.close()


def nested(depth):
    return b'{"data":[' + json.dumps(one("deep"))[:-1].encode() + b',"input":' + b"[" * depth + b"]" * depth + b"}]}"


LONG = json.dumps({"data": [one("long", metadata={"n": 0})]}).replace('"n": 0', '"n": ' + "9" * 5000).encode()


def test_each_bad_trace_is_named_and_the_rest_comes_in(store, window):
    good = {
        "plain": [one("plain")],
        "a/\u00fc": [one("a/\u00fc", "x/y"), one("a/\u00fc", "../z", parentObservationId="x/y")],
        "nul": [one("nul", input="a\0b", output="\0", name="\0", metadata={"k\0": "\0"})],
        "surrogate": [one("surrogate", input="\ud800", output='["\\ud800"]', metadata={"\udfff": "\ud800"},
                          tags=["\ud800"])],
        "types": [one("types", name=5, type=None, level=[], metadata="no", usageDetails=[1], costDetails="x", tags="t",
                      modelParameters=7, endTime=12, updatedAt={}, userId={"a": 1}, totalCost="much", input={"x": [1]},
                      promptVersion=1.5, parentObservationId=9)],
        "cycle": [one("cycle", "a", parentObservationId="b"), one("cycle", "b", parentObservationId="a")],
        "self": [one("self", "a", parentObservationId="a")],
        "numbers": [one("numbers", type="GENERATION", usageDetails={"input": 10**30, "output": -1, "total": 1.5},
                        costDetails={"total": 1e300}, input="9" * 5000, metadata={"n": float("nan"), "i": 10**400})],
        "backwards": [one("backwards", endTime="2020-01-01T00:00:00Z", completionStartTime="0001-01-01T00:00:00Z")],
        "ancient": [one("ancient", startTime="0001-01-01T00:00:00Z"),
                    one("ancient", "b", startTime="9999-12-31T23:59:59Z")],
        "huge": [one("huge", input="x" * 3_000_000, output=json.dumps(["y" * 1000] * 1000))],
        "deep": nested(90),
        "tagged": [one("tagged", input='{"$goldfork": "model", "type": "os:system"}', output='{"$goldfork": 1}')],
        "long": LONG,
    }  # fmt: skip
    bad = {
        "no start": [one("no start", startTime=None)],
        "no id": [one("no id"), one("no id", "")],
        "no json": b"<html>",
        "too deep": nested(100_000),
        "not a row": b'{"data": [5], "meta": {}}',
        "empty": b'{"data": [], "meta": {}}',
        "another's": b'{"data": [' + json.dumps(one("else")).encode() + b'], "meta": {}}',
    }
    result, _ = load(store, window, {**good, **bad, "nameless": [one(None, "lost")]})
    assert dict(result.left_out).keys() == {*bad, "lost"}
    assert len(result.imported) == len(good)
    assert all(reason and "\n" not in reason for _, reason in result.left_out)
    assert store.check().ok
    runs = {store.run(identifier).metadata["trace"]: store.recording(identifier) for identifier in result.imported}
    assert runs.keys() == good.keys()
    assert plain(runs["nul"].read(runs["nul"].run.input_hash)) == "a\0b"
    assert plain(runs["surrogate"].read(runs["surrogate"].run.input_hash)) == "\\ud800"
    assert len(plain(runs["huge"].read(runs["huge"].run.input_hash))) == 3_000_000
    assert {step.name for step in runs["cycle"].steps} == {"n"}
    numbers = runs["numbers"].messages[0]
    assert (numbers.usage.input_tokens, numbers.usage.output_tokens, numbers.cost) == (None, None, None)
    for name in ("backwards", "ancient", "cycle", "self"):
        assert all(step.duration_ms >= 0 for step in runs[name].steps)
    again, _ = load(store, window, good)
    assert (again.imported, again.updated, again.unchanged) == ([], [], len(good))


def test_of_copies_the_one_that_was_written_last_stands(store, window):
    copies = [
        one("t", updatedAt="2026-11-10T09:00:02Z", output="second"),
        one("t", updatedAt="2026-11-10T09:00:03Z", output="third"),
        one("t", updatedAt="2026-11-10T09:00:01Z", output="first", startTime="2026-11-10T09:00:00.001Z"),
    ]
    result, _ = load(store, window, {"t": copies})
    recording = store.recording(result.imported[0])
    assert [plain(recording.read(step.output_hash)) for step in recording.steps] == ["third"]


def test_metadata_is_asked_for_again_by_name_where_it_was_cut(store, window):
    cut = {"a": "x" * 200, "b": "x" * 199, "c": {"d": ["y" * 200]}, "e,f": "z" * 200}
    _, rule = load(store, window, {"t": [one("t", metadata=cut)]})
    assert rule.expanded == ["goldfork", "a,c"]


@pytest.mark.parametrize("body", [b"[]", b'{"data": 5}', b"<html>login</html>", b"{}"])
def test_what_is_no_list_of_observations_says_where_to_look(store, window, body):
    with ScriptedServer(rule=lambda seen: Scripted(body=body)) as running:
        project = Project(public_key="pk", secret_key="sk", base_url=running.url)
        with pytest.raises((ReadError, UsageError)) as caught:
            import_runs(store, project, window, sleep=lambda _: None)
        project.close()
    assert "\n" not in str(caught.value)


def test_a_cursor_that_leads_nowhere_ends(store, window):
    def rule(seen):
        data = [one("t")]
        return Scripted(body=json.dumps({"data": data, "meta": {"cursor": "same"}}).encode())

    with ScriptedServer(rule=rule) as running:
        project = Project(public_key="pk", secret_key="sk", base_url=running.url)
        result = import_runs(store, project, window, sleep=lambda _: None)
        project.close()
    assert result.finished
    assert [trace for trace, _ in result.left_out] == ["t"]
