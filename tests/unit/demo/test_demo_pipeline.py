"""The support desk: its tools, and its recordings replayed and forked without a model."""

from pathlib import Path

import pytest

from harness.dataset import GoldenDataset
from harness.demo.record import shorter_draft
from harness.demo.triage import triage
from harness.demo.triage._tools import lookup_customer, search_kb, send_reply
from harness.replay import ReplayOptions, code_version, fork_run, replay_run
from harness.session import Mode, NullSink, RunPlan, planned

DATASET = GoldenDataset.load(Path(__file__).parents[3] / "datasets" / "triage")
VERSION = code_version(DATASET.code)


@pytest.fixture
def unrecorded():
    with planned(RunPlan(mode=Mode.OFF, sink=NullSink())):
        yield


@pytest.mark.usefixtures("unrecorded")
def test_lookup_knows_customers_and_says_none_for_others():
    customer = lookup_customer("C-101")
    assert customer is not None
    assert customer["name"] == "Ada Finch"
    assert lookup_customer("C-999") is None


@pytest.mark.usefixtures("unrecorded")
@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("Rillo drips at the tap", "rillo-leak"),
        ("forgot my password", "password"),
        ("two charges on my card", "double-charge"),
    ],
)
def test_search_puts_the_article_that_answers_first(query, best):
    found = search_kb(query)
    assert found[0]["id"] == best
    assert len(found) <= 2


@pytest.mark.usefixtures("unrecorded")
@pytest.mark.parametrize("query", ["", "the of and", "xylophone"])
def test_search_finds_nothing_for_words_that_no_article_has(query):
    assert search_kb(query) == []


@pytest.mark.usefixtures("unrecorded")
def test_a_reply_is_sent_in_a_live_run():
    assert send_reply("C-101", "Hello", sent_at="2026-11-30T12:00:00+00:00")["status"] == "sent"


@pytest.mark.parametrize("case", DATASET.cases, ids=lambda case: case.id)
def test_a_recorded_case_replays_without_a_single_call(case, monkeypatch):
    monkeypatch.setenv("GOLDFORK_FORBID_LIVE", "1")
    recording = DATASET.recording(case.id)
    outcome = replay_run(recording, target=triage, options=ReplayOptions(code_version=VERSION))
    assert outcome.status == "ok"
    assert outcome.diff.output_equal is True
    assert all(step.equal for step in outcome.diff.steps)
    assert outcome.counts.provider_calls == outcome.counts.tokens_spent == outcome.counts.steps_reused == 0
    assert outcome.counts.steps_run == 8
    assert outcome.counts.tools_dry == 1


@pytest.mark.parametrize("case", DATASET.cases[::6], ids=lambda case: case.id)
def test_the_shipped_fork_replays_and_skips_what_the_prompt_does_not_reach(case, monkeypatch):
    monkeypatch.setenv("GOLDFORK_FORBID_LIVE", "1")
    change = shorter_draft()
    arm = DATASET.recording(case.id, arm=change.arm)
    outcome = fork_run(
        DATASET.recording(case.id),
        change=change,
        target=triage,
        mode="replay",
        arm=arm,
        options=ReplayOptions(code_version=VERSION),
    )
    assert outcome.status == "ok"
    states = {step.name: step.state for step in outcome.diff.steps}
    assert {states[name] for name in ("classify", "lookup", "search")} == {"reused"}
    assert states["draft"] == "run"
    assert outcome.counts.provider_calls == 0


def test_a_fork_that_writes_another_reply_does_not_claim_to_have_sent_it():
    change = shorter_draft()
    outcomes = [
        fork_run(
            DATASET.recording(case.id),
            change=change,
            target=triage,
            mode="replay",
            arm=DATASET.recording(case.id, arm=change.arm),
            options=ReplayOptions(code_version=VERSION),
        )
        for case in DATASET.cases[:4]
    ]
    changed = [outcome for outcome in outcomes if not outcome.diff.output_equal]
    assert changed
    assert {outcome.output["sent"]["status"] for outcome in changed} == {"not sent"}
