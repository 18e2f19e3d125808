"""People's verdicts in a Langfuse come back as labels of the runs, steps and outputs they are about."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from harness.mirror import Unanswered, Window, import_labels, import_runs
from harness.mirror._ids import span_id, trace_id
from harness.pipeline import step, workflow
from harness.replay import Place, live_run


@pytest.fixture
def run(store):
    @step
    def draft(text):
        return text.upper()

    @workflow("letters")
    def letters(text):
        return {"reply": draft(text)}

    outcome = live_run(letters, {"text": "hi"}, sink=store, place=Place(case="greeting"))
    store.flush()
    return outcome.run


def say(server, author="user-7", **score):
    known = {"name": "tone", "value": 1, "dataType": "NUMERIC"}
    return server.annotate({**known, **score}, author=author)


def labels(store):
    return {row["id"].removeprefix("langfuse:"): row for row in store.load("labels")}


def test_a_verdict_on_a_trace_is_a_label_of_the_runs_output(server, project, store, run):
    told = say(server, traceId=trace_id(run.run.id), value=0.5, comment="too curt")
    done = import_labels(store, project)
    assert (done.new, done.changed, done.unchanged) == (1, 0, 0)
    row = labels(store)[told]
    assert (row["run_id"], row["step_id"], row["case"]) == (run.run.id, None, "greeting")
    assert row["output_hash"] == run.run.output_hash
    assert (row["name"], row["value"], row["annotator"], row["comment"]) == ("tone", 0.5, "user-7", "too curt")
    assert row["created_at"].tzinfo is not None


def test_a_verdict_on_an_observation_is_a_label_of_its_step(server, project, store, run):
    root, draft = run.steps
    on_step = say(server, traceId=trace_id(run.run.id), observationId=span_id("step", draft.id))
    on_root = say(server, traceId=trace_id(run.run.id), observationId=span_id("step", root.id))
    import_labels(store, project)
    rows = labels(store)
    assert (rows[on_step]["step_id"], rows[on_step]["output_hash"]) == (draft.id, draft.output_hash)
    assert (rows[on_root]["step_id"], rows[on_root]["output_hash"]) == (None, run.run.output_hash)


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [("NUMERIC", 3, 3), ("BOOLEAN", 1, True), ("CATEGORICAL", "rude", "rude"), ("TEXT", "a story", "a story")],
)
def test_a_value_keeps_its_kind(server, project, store, run, kind, value, kept):
    told = say(server, traceId=trace_id(run.run.id), dataType=kind, value=value)
    import_labels(store, project)
    found = labels(store)[told]["value"]
    assert found == kept
    assert isinstance(found, bool) == isinstance(kept, bool)


def test_importing_again_changes_nothing_but_what_was_changed(server, project, store, run):
    about = {"traceId": trace_id(run.run.id), "timestamp": "2026-11-30T10:00:00Z"}
    told = say(server, **about, comment="first thought")
    say(server, **about, name="facts")
    import_labels(store, project)
    done = import_labels(store, project)
    assert (done.new, done.changed, done.unchanged) == (0, 0, 2)
    say(server, id=told, **about, value=0, comment="second thought")
    done = import_labels(store, project)
    assert (done.new, done.changed, done.unchanged) == (0, 1, 1)
    assert (labels(store)[told]["value"], labels(store)[told]["comment"]) == (0, "second thought")


def test_what_was_sent_by_programs_never_comes_back(server, project, store, run):
    """Neither another program's scores nor our own, whatever source the server gives them."""
    about = {"traceId": trace_id(run.run.id), "name": "n", "value": 1, "dataType": "NUMERIC"}
    sent = project.post(
        "/api/public/scores", json.dumps([about]).encode(), headers={"content-type": "application/json"}
    )
    assert sent.outcome == "accepted"
    say(server, traceId=trace_id(run.run.id), metadata={"goldfork": {"experiment": "e"}})
    assert {score["source"] for score in server.scores()} == {"API", "ANNOTATION"}
    done = import_labels(store, project)
    assert (done.new, labels(store)) == (0, {})


def test_verdicts_about_other_things_are_counted(server, project, store, run):
    say(server, sessionId="s-1")
    say(server, traceId="f" * 32)
    say(server, traceId="no hex at all")
    say(server, traceId=trace_id(run.run.id), observationId="f" * 16)
    done = import_labels(store, project)
    assert (done.new, done.left["elsewhere"], done.left["whole"]) == (0, 3, 1)


def test_a_comment_may_hold_anything(server, project, store, run):
    told = say(server, traceId=trace_id(run.run.id), comment="nul \x00 <b>")
    import_labels(store, project)
    assert labels(store)[told]["comment"].startswith("nul ")
    assert import_labels(store, project).unchanged == 1


def test_many_pages_and_a_beginning(server, project, store, run):
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    for minute in range(230):
        when = (noon + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
        say(server, traceId=trace_id(run.run.id), name=f"n{minute}", timestamp=when)
    assert import_labels(store, project, since=noon + timedelta(minutes=200)).new == 30
    done = import_labels(store, project)
    assert (done.new, done.unchanged) == (200, 30)


def test_a_server_that_does_not_answer_is_a_sentence(server, project, store):
    server.fault("302")
    with pytest.raises(Unanswered, match="the scores cannot be listed at .*HTTP 302.*try again later"):
        import_labels(store, project, sleep=lambda seconds: None)


def test_a_verdict_on_a_trace_that_was_imported_finds_its_run_and_steps(server, project, store):
    def span(name, parent, kind):
        told = {"langfuse.observation.type": kind, "langfuse.observation.output": json.dumps(f"said {name}")}
        return {
            "traceId": "ab" * 16,
            "spanId": name,
            **({"parentSpanId": parent} if parent else {}),
            "name": name,
            "startTimeUnixNano": str(1_796_000_000_000_000_000 + int(name, 16)),
            "endTimeUnixNano": str(1_796_000_001_000_000_000),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in told.items()],
        }

    root, work, call = "1".zfill(16), "2".zfill(16), "3".zfill(16)
    spans = [span(root, None, "span"), span(work, root, "tool"), span(call, root, "generation")]
    scoped = [{"scope": {"name": "langfuse-sdk"}, "spans": spans}]
    body = json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": scoped}]}).encode()
    assert project.post_spans(body).outcome == "accepted"
    began = datetime.fromtimestamp(1_796_000_000, UTC)
    window = Window(since=began - timedelta(days=1), until=began + timedelta(days=1))
    (run,) = import_runs(store, project, window).imported
    told = {
        name: say(server, traceId="ab" * 16, **({"observationId": name} if name else {}))
        for name in ("", root, work, call, "9" * 16)
    }
    done = import_labels(store, project)
    assert (done.new, done.left["elsewhere"]) == (4, 1)
    rows = labels(store)
    tool = next(row for row in store.load("steps", run_id=run) if row["kind"] == "tool")
    assert {rows[told[name]]["run_id"] for name in ("", root, work, call)} == {run}
    assert rows[told[""]]["step_id"] is rows[told[root]]["step_id"] is None
    assert rows[told[work]]["step_id"] == tool["id"]
    # A model's reply is no step: the verdict is about the step around it, here the root.
    assert rows[told[call]]["step_id"] is None
