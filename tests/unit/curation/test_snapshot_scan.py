"""Freezing after the redaction scan."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from harness.canonical import content_hash
from harness.curation import Draft, snapshot, stage
from harness.dataset import Case, GoldenDataset
from harness.record import Exchange, MessageRecord, Recording, RunRecord

MAIL = "jane.doe" + "@" + "mail-provider.org"
MOMENT = datetime(2026, 11, 30, tzinfo=UTC)


def with_reply(body: bytes, content_type: str, request: object = "hi") -> Recording:
    """A run of one model call with that answer."""
    asked = json.dumps({"messages": [{"role": "user", "content": request}]}).encode()
    blobs = {content_hash(data): data for data in (body, asked)}
    exchange = Exchange(status=200, headers=(("content-type", content_type),), body_hash=content_hash(body))
    message = MessageRecord(
        id="m",
        run_id="r",
        step_id=None,
        seq=1,
        scope="",
        method="POST",
        endpoint="/chat/completions",
        provider="",
        exact_key="k",
        semantic_key="k",
        occurrence=0,
        request_hash=content_hash(asked),
        exchanges=(exchange,),
        streamed="event-stream" in content_type,
        status="ok",
        started_at=MOMENT,
    )
    run = RunRecord(id="r", workflow="w", status="ok", mode="live", started_at=MOMENT)
    return Recording(run=run, steps=(), messages=(message,), volatile=(), read=blobs.__getitem__)


def test_a_clean_dataset_is_frozen(runs, recorded, dataset) -> None:
    stage(runs, recorded, dataset, draft=Draft(id="a"))
    done = snapshot(dataset, approve="ann", note="first")
    assert done.findings == ()
    assert (done.frozen.version, done.frozen.approved) == (1, ("a",))
    assert dataset.verify() == ()
    assert snapshot(dataset).frozen.created is False


def test_findings_stop_it_and_are_named_by_place_not_by_text(dataset) -> None:
    dataset.put_case(Case(id="a", input={"from": MAIL, "text": "hello"}, approver="ann"))
    done = snapshot(dataset)
    assert done.frozen is None
    assert [(p.file, p.path, p.kind, p.count) for p in done.findings] == [("cases/a.json", "$.input.from", "mail", 1)]
    assert MAIL not in repr(done)
    assert GoldenDataset.load(dataset.path).version == 0


def test_accepted_findings_stand_in_the_history(dataset) -> None:
    dataset.put_case(Case(id="a", input=MAIL, approver="ann"))
    assert snapshot(dataset, accept_findings=True).frozen.version == 1
    assert dataset.manifest.history[0].accepted_findings == {"mail": 1}
    assert snapshot(dataset).frozen.created is False, "what was accepted does not stop a snapshot of nothing new"


def test_staged_cases_are_scanned_only_when_they_are_approved(dataset) -> None:
    dataset.put_case(Case(id="a", input=1, approver="ann"))
    dataset.put_case(Case(id="b", input=MAIL))
    assert snapshot(dataset).frozen.version == 1
    assert snapshot(dataset, approve="ann").frozen is None
    assert dataset.case("b").staged


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps({"choices": [{"message": {"content": f"write to {MAIL}"}}]}).encode(), "application/json"),
        (f"plain {MAIL}".encode(), "text/plain"),
        (
            b"".join(
                b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}).encode() + b"\n\n"
                for piece in (MAIL[:6], MAIL[6:12], MAIL[12:])
            )
            + b"data: [DONE]\n\n",
            "text/event-stream",
        ),
    ],
)
def test_replies_are_scanned_streams_joined(dataset, body: bytes, kind: str) -> None:
    dataset.put_case(Case(id="a", input=1, approver="ann"))
    dataset.put_recording("a", with_reply(body, kind))
    (found,) = snapshot(dataset).findings
    assert (found.kind, found.file) == ("mail", f"recordings/{dataset.arms('a')[0].digest}.jsonl")
    assert found.path.startswith("$.messages[0].response")


def test_what_a_conversation_repeats_counts_once(dataset) -> None:
    dataset.put_case(Case(id="a", input=1, approver="ann"))
    first = with_reply(b"{}", "application/json", request=f"I am {MAIL}")
    again = dataclasses.replace(first.messages[0], id="m2", seq=2, occurrence=1)
    dataset.put_recording("a", dataclasses.replace(first, messages=(*first.messages, again)))
    (found,) = snapshot(dataset).findings
    assert (found.path, found.count) == ("$.messages[0].request.messages[0].content", 1)


def test_an_edited_recording_is_frozen_under_a_new_digest_and_said(runs, recorded, dataset) -> None:
    stage(runs, recorded, dataset, draft=Draft(id="a"))
    snapshot(dataset, approve="ann")
    path = dataset.path / f"recordings/{dataset.arms('a')[0].digest}.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(line for line in lines if b'"record":"volatile"' not in line))
    done = snapshot(dataset)
    assert done.frozen.version == 2
    assert "case 'a'" in done.readdressed[0]
    assert dataset.verify() == ()
