"""Synthetic experiments: a realistic fork of a support-triage pipeline, and one where every string is hostile."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from harness.errors import DatasetMissing
from harness.experiment import ControlTrial, ExperimentResult, GateCheck, TrialResult, Verdict
from harness.record import Recording, RunRecord
from harness.replay import (
    Counts,
    Difference,
    RunDiff,
    RunOutcome,
    Semantic,
    StepDiff,
    ToolCallDiff,
    ValueChange,
)
from harness.report import Summary, build
from harness.score import Score
from harness.session import Change

START = datetime(2026, 5, 4, 2, 30, tzinfo=UTC)

HOSTILE = (
    "<img src=x onerror=window.pwned=1>",
    'a"><svg onload=window.pwned=1>',
    "</script><script>window.pwned=1</script><!--",
    "[see](javascript:window.pwned=1)",
    "<b>x</b>{{7*7}}",
    "=1+1",
    "\t=1+1",
    "\u200b@x",
    "| cut | `tick` ``` fence\n```\n# head\n![i](https://evil.example/p.png) https://evil.example @team #1",
    "\x1b[31mred\x00\ud800\ufffe\u202egnirts",
    "]]> --> ${x} {% raw %} </td></details></style><style>*{display:none}</style>",
)

_TICKETS = (
    ("parcel-late", "shipping", "My parcel was due on Monday and the tracking page has not moved since."),
    ("refund-twice", "billing", "You charged my card twice for order 4471. Please refund one of them."),
    ("address-change", "shipping", "Can I still change the delivery address? I move on Friday."),
    ("login-loop", "account", "After the update I am sent back to the login page each time."),
    ("invoice-vat", "billing", "The invoice lacks our VAT number. Our accountant cannot book it like this."),
    ("broken-screen", "returns", "The screen arrived cracked. Photos are attached."),
    ("cancel-order", "orders", "Please cancel order 4502, I chose the wrong size."),
    ("angry-third-mail", "complaint", "This is my third mail. Nobody answers. I want a manager."),
    ("gift-wrap", "orders", "Do you offer gift wrapping for more than one item?"),
    ("password-reset", "account", "The reset mail never arrives, also not in the spam folder."),
    ("wrong-item", "returns", "I ordered the blue lamp and received a green one."),
    ("customs-fee", "shipping", "The courier asks for a customs fee that was not shown at checkout."),
    ("two-accounts", "account", "I have two accounts by mistake, can you join them?"),
    ("voucher-expired", "billing", "My voucher expired yesterday, could you make an exception?"),
    ("empty-box", "returns", "The box was empty when I opened it."),
    ("dark-pattern", "complaint", "Your newsletter box was ticked by default. That is not legal here."),
)


class Blobs(dict):
    """Content by hash, as a recording reads it."""

    def put(self, value: object) -> str:
        data = json.dumps(value, ensure_ascii=True, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        self[digest] = data
        return digest

    def read(self, digest: str) -> bytes:
        if digest not in self:
            raise DatasetMissing(f"no content {digest!r}")
        return self[digest]


def recording(blobs: Blobs, case: str, *, output: str | None, arm: str = "recorded") -> Recording:
    run = RunRecord(
        id=f"0196a1b2-{hashlib.sha256((case + arm).encode()).hexdigest()[:4]}-7000-8000-000000000001",
        workflow="triage",
        status="ok",
        mode="auto",
        arm=arm,
        case=case,
        started_at=START,
        output_hash=output,
    )
    return Recording(run=run, steps=(), messages=(), volatile=(), read=blobs.read)


def step(name: str, state: str, *, kind="agent", before: str | None = None, after: str | None = None, scope=""):
    equal = None if before is None or after is None else before == after
    return StepDiff(
        key=f"{scope}/{name}",
        name=name,
        scope=scope,
        occurrence=0,
        kind=kind,
        state=state,
        input_hash=None,
        output_hash=after,
        parent_output_hash=before,
        equal=equal,
    )


def _reply(subject: str, tone: str) -> str:
    start = "Thank you for writing to us." if tone == "long" else "Hello,"
    middle = f"we have looked into your message about {subject} and passed it to the colleagues in charge."
    end = "You will hear from us within two working days." if tone == "long" else "You will hear from us by Friday."
    return f"{start} {middle} {end} Kind regards, the support team"


def _steps(before: dict, after: dict, category: str, *, kind: str, blobs: Blobs) -> list[StepDiff]:
    label, facts = blobs.put(category), blobs.put([{"title": "Delivery times", "score": 0.82}])
    old_draft, new_draft = blobs.put(before["reply"]), blobs.put(after["reply"])
    ended = kind not in {"missing", "crash"}
    steps = [
        step("classify", "reused", before=label, after=label),
        step("search_kb", "answered", kind="tool", before=facts, after=facts, scope="research"),
        step("research", "reused", before=facts, after=facts),
        step("draft", "run", before=old_draft, after=new_draft if ended else None),
    ]
    if kind == "wrong":
        steps.append(step("escalate", "added", after=blobs.put({"queue": "night shift"})))
        steps.append(step("check_tone", "removed", before=blobs.put("polite")))
    steps.append(step("send_reply", "dry", kind="tool", before=blobs.put("sent"), after=blobs.put("sent")))
    return steps


def _places(kind: str) -> tuple[ValueChange, ...]:
    return () if kind == "same" else (ValueChange(path="$.reply", kind="text", before="a", after="b"),)


def _outcome(case: str, category: str, *, kind: str, blobs: Blobs) -> tuple[RunOutcome, str]:
    """One forked run: ``same``, ``worded``, ``wrong``, ``missing`` or ``crash``."""
    before = {"category": category, "reply": _reply(case.replace("-", " "), "long")}
    after = dict(before)
    if kind != "same":
        after["reply"] = _reply(case.replace("-", " "), "short")
    if kind == "wrong":
        after["category"] = "orders" if category != "orders" else "shipping"
    old, new = blobs.put(before), blobs.put(after)
    ended = kind not in {"missing", "crash"}
    steps = _steps(before, after, category, kind=kind, blobs=blobs)
    outcome = RunOutcome(
        run=recording(blobs, case, output=new if ended else None, arm="fork:9f2c11d04be7a356"),
        parent=recording(blobs, case, output=old),
        output=after if ended else None,
        error="ValueError: the reply has no greeting" if kind == "crash" else None,
        misses=("draft: POST /chat/completions was never recorded; the prompt changed",) if kind == "missing" else (),
        blocked=({"tool": "send_reply", "arguments": {"to": f"{case}@example.org"}, "answered_by": "stand-in"},),
        change=None,
        counts=Counts(
            steps_reused=2,
            steps_run=1,
            tools_answered=1,
            tools_dry=1,
            provider_calls=1,
            tokens_spent=412,
            tokens_saved=1_904,
            cost_spent=Decimal("0.000618"),
            cost_saved=Decimal("0.002856"),
        ),
        diff=RunDiff(
            steps=tuple(steps),
            first_divergence=None if kind == "same" else "draft",
            output_equal=old == new if ended else None,
            output=_places(kind),
            difference=None if kind == "same" or not ended else Difference(kind="content", places=_places(kind)),
        ),
        drift=("model served gpt-5-mini-2026-04 instead of gpt-5-mini-2026-01",) if kind == "wrong" else (),
        duration_ms=812.5,
    )
    return outcome, old


def _trial(case: str, category: str, ticket: str, *, kind: str, blobs: Blobs) -> TrialResult:
    outcome, recorded = _outcome(case, category, kind=kind, blobs=blobs)
    stamp = {"evaluator": "category", "version": "1"}
    judge = {"evaluator": "helpful", "version": "3"}
    scored = outcome.status == "ok"
    helpful = {"same": 0.9, "worded": 0.8, "wrong": 0.4}.get(kind)
    scores = (
        Score(name="category.correct", value=kind != "wrong", reason=f"expected {category}", **stamp)
        if scored
        else Score(name="category.correct", status="failed", reason="the run gave no output", **stamp),
        Score(name="helpful", value=helpful, reason="Greets, names the next step, gives a date.", **judge)
        if helpful is not None and case != "gift-wrap"
        else Score(name="helpful", status="failed", reason="TimeoutError: the judge did not answer", **judge),
    )
    return TrialResult(
        case=case,
        trial=0,
        split="test",
        group=None,
        tags=("mail", category),
        input={"ticket": ticket, "channel": "mail"},
        expected_output={"category": category},
        outcome=outcome,
        recorded_output_hash=recorded,
        scores=scores,
        baseline_scores={
            "category.correct": Score(name="category.correct", value=True, **stamp),
            "helpful": Score(name="helpful", value=0.9, **judge),
        },
    )


_SCORES = (
    Score(name="category.f1_macro", value=0.708, low=0.51, high=0.86, n=14, evaluator="category"),
    Score(name="category.accuracy", value=0.714, low=0.48, high=0.9, n=14, evaluator="category"),
    Score(name="helpful", value=0.731, low=0.64, high=0.81, n=13, evaluator="helpful"),
    Score(name="agreement.kappa", status="undefined", reason="every label is the same", n=0),
)
_BASELINE = {
    "category.f1_macro": Score(name="category.f1_macro", value=0.981, low=0.93, high=1.0, n=16),
    "category.accuracy": Score(name="category.accuracy", value=1.0, low=0.81, high=1.0, n=16),
    "helpful": Score(name="helpful", value=0.9, low=0.86, high=0.93, n=16),
}
_VERDICTS = {
    "category.f1_macro": Verdict(
        word="regressed",
        basis="statistics",
        baseline=0.981,
        candidate=0.708,
        difference=-0.273,
        low=-0.462,
        high=-0.071,
        margin=0.05,
        reason="paired bootstrap over 14 cases: the interval lies below -0.05",
        gating=True,
    ),
    "helpful": Verdict(
        word="inconclusive",
        basis="statistics",
        baseline=0.9,
        candidate=0.731,
        difference=-0.169,
        low=-0.29,
        high=-0.02,
        margin=0.05,
        reason="paired t over 13 cases",
    ),
}


def make_result(*, cases: int = 16) -> ExperimentResult:
    blobs = Blobs()
    kinds = ("same", "worded", "wrong", "same", "worded", "same", "wrong", "missing", "worded", "crash", "wrong")
    kinds += ("same", "worded", "same", "wrong", "same")
    trials = []
    for index in range(cases):
        name, category, ticket = _TICKETS[index % len(_TICKETS)]
        case = name if index < len(_TICKETS) else f"{name}-{index:04d}"
        trials.append(_trial(case, category, ticket, kind=kinds[index % len(kinds)], blobs=blobs))
    trials.sort(key=lambda trial: trial.case)
    return ExperimentResult(
        id="0196a1b2-5c3d-7e4f-8a9b-0c1d2e3f4a5b",
        dataset="triage",
        dataset_path="datasets/triage",
        version=3,
        digest="7d1f" * 16,
        target="harness.demo:triage",
        mode="auto",
        change=Change(kind="prompt", at="draft", name="draft", value="Write a short reply to {ticket}.\nGreet first."),
        started_at=START,
        ended_at=START + timedelta(seconds=41.7),
        trials=tuple(trials),
        scores=_SCORES,
        baseline_scores=_BASELINE,
        verdicts=_VERDICTS,
        checks=(
            GateCheck(name="category.f1_macro", passed=False, reason="regressed; the gate asks for at most -0.050"),
            GateCheck(name="min_measured", passed=True, reason="14 of 16 trials measured, 0.80 asked for"),
        ),
        verdict="regressed",
        exit_code=1,
        notes=("judge 'helpful' is uncalibrated: 12 labels, 30 asked for",),
    )


def make_equal() -> ExperimentResult:
    """A replay of unchanged code: everything equal, nothing spent."""
    result = make_result(cases=6)
    steps = ("classify", "draft")
    trials = []
    for trial in result.trials:
        outcome = trial.outcome
        same = outcome.parent.run.output_hash
        diff = RunDiff(
            steps=tuple(step(name, "run", before=same, after=same) for name in steps),
            first_divergence=None,
            output_equal=True,
        )
        run = replace(outcome.run, run=replace(outcome.run.run, output_hash=same))
        counts = Counts(steps_run=2, tools_answered=1, tools_dry=1, tokens_saved=2_316, cost_saved=Decimal("0.003474"))
        done = replace(outcome, run=run, error=None, misses=(), drift=(), counts=counts, diff=diff)
        score = Score(name="category.correct", value=True, evaluator="category", version="1")
        trials.append(replace(trial, outcome=done, scores=(score,)))
    name = "category.f1_macro"
    return replace(
        result,
        mode="replay",
        change=None,
        trials=tuple(trials),
        scores=(Score(name=name, value=1.0, low=0.61, high=1.0, n=6, evaluator="category"),),
        verdicts={
            name: Verdict(
                word="equivalent",
                basis="identity",
                baseline=1.0,
                candidate=1.0,
                difference=0.0,
                reason="every measured output equals the recorded one, by hash",
                gating=True,
            )
        },
        checks=(GateCheck(name="measured", passed=True, reason="6 of 6 trials finished, 90% needed"),),
        verdict="equivalent",
        exit_code=0,
        notes=(),
    )


def make_forked() -> ExperimentResult:
    """The fork with what only a fork has: settled steps, control forks, old results, calls that may vary."""
    result = make_result()
    words = {"reused": "settled by recording", "answered": "settled by recording", "dry": "dry", "removed": None}
    old = {"tool": "search_kb", "step": "research/search_kb", "age_s": 90_000.0, "ttl_s": 3600.0, "action": "kept"}
    recorded = {"helpful": 0.9, "category.correct": True}
    trials = []
    for number, trial in enumerate(result.trials):
        steps = tuple(replace(one, settled=words.get(one.state, "re-run")) for one in trial.outcome.diff.steps)
        outcome = replace(
            trial.outcome,
            diff=replace(trial.outcome.diff, steps=steps),
            undeclared=("the output of step 'classify' has hash 0011aabb, recorded 2233ccdd (first at $)",),
            jitter=("draft: gpt-5-mini was called anew with temperature 0.7",),
            expired=(old,),
        )
        controls = tuple(_control(k, helpful=0.8 + 0.1 * ((number + k) % 3)) for k in (1, 2, 3))
        before = {name: Score(name=name, value=value, evaluator=name) for name, value in recorded.items()}
        trials.append(replace(trial, outcome=outcome, controls=controls, recorded_scores=before))
    return replace(result, trials=tuple(trials))


def _control(number: int, *, helpful: float) -> ControlTrial:
    return ControlTrial(
        number=number,
        arm=f"control:{number}@draft",
        run=f"0196a1b2-0000-7000-8000-00000000000{number}",
        status="ok",
        output_hash="a" * 64,
        equal=False,
        first_divergence="draft",
        scores=(
            Score(name="helpful", value=helpful, evaluator="helpful"),
            Score(name="category.correct", value=True, evaluator="category"),
        ),
    )


def make_hostile() -> ExperimentResult:
    """Every string that a model, a tool or a dataset file may hold is hostile."""
    result = make_result(cases=len(HOSTILE))
    blobs = Blobs()
    trials = tuple(_hostile_trial(trial, text, blobs) for trial, text in zip(result.trials, HOSTILE, strict=True))
    scores = tuple(
        Score(name=f"{text}{index}", value=text, reason=text, evaluator=text, version=text, n=1)
        for index, text in enumerate(HOSTILE)
    )
    verdict = result.verdicts["category.f1_macro"]
    return replace(
        result,
        id=HOSTILE[0],
        dataset=HOSTILE[1],
        dataset_path=HOSTILE[2],
        target=HOSTILE[3],
        digest=HOSTILE[4],
        change=Change(kind="prompt", at=HOSTILE[8], name=HOSTILE[0], value="".join(HOSTILE)),
        trials=trials,
        scores=scores,
        baseline_scores={},
        verdicts={score.name: replace(verdict, reason=text) for score, text in zip(scores, HOSTILE, strict=True)},
        checks=tuple(GateCheck(name=text, passed=False, reason=text) for text in HOSTILE),
        notes=HOSTILE,
    )


def _hostile_trial(trial: TrialResult, text: str, blobs: Blobs) -> TrialResult:
    old, new = blobs.put(text), blobs.put({text: [text, "".join(HOSTILE)]})
    steps = tuple(
        step(text, state, kind="tool", before=old, after=new, scope=text)
        for state in ("reused", "run", "answered", "called", "dry", "added", "removed")
    )
    place = ValueChange(path=f"$.{text}", kind="text", before=text, after=text)
    outcome = trial.outcome
    return replace(
        trial,
        case=text,
        split=text,
        group=text,
        tags=HOSTILE,
        input={text: text},
        expected_output=text,
        recorded_output_hash=old,
        outcome=replace(
            outcome,
            run=replace(outcome.run, run=replace(outcome.run.run, output_hash=new), read=blobs.read),
            parent=replace(outcome.parent, run=replace(outcome.parent.run, output_hash=old), read=blobs.read),
            error=text,
            misses=(text,) if trial.case.startswith("a") else (),
            blocked=({"tool": text, "arguments": {text: text}, "answered_by": text},),
            undeclared=(text,),
            drift=(text,),
            diff=RunDiff(
                steps=tuple(
                    replace(one, settled="re-run", difference=_hostile_difference(text, place)) for one in steps
                ),
                first_divergence=steps[0].address,
                output_equal=False,
                output=(place,),
                difference=_hostile_difference(text, place),
                tool_calls=(
                    ToolCallDiff(name=text, scope=text, kind="arguments", before=0, after=1, places=(place,)),
                    ToolCallDiff(name=text, scope=text, kind="removed", before=0, after=None, places=(place,)),
                ),
            ),
        ),
        controls=(
            ControlTrial(
                number=1,
                arm=text,
                run=text,
                status="error",
                output_hash=None,
                equal=None,
                first_divergence=text,
                error=text,
                scores=(Score(name=f"{text}#", value=0.5, evaluator=text),),
                drift=(text,),
            ),
        ),
        recorded_scores={f"{text}#": Score(name=f"{text}#", value=0.25, evaluator=text)},
        scores=(
            Score(name=text, value=text, reason=text, evaluator=text),
            Score(name=f"{text}!", status="failed", reason=text),
            Score(name=f"{text}#", value=0.75, evaluator=text),
        ),
        baseline_scores={text: Score(name=text, value=text)},
    )


def _hostile_difference(text: str, place: ValueChange) -> Difference:
    semantic = Semantic(cosine=0.5, note=text)
    return Difference(kind="error", places=(place,), note=text, semantic=semantic)


@pytest.fixture(scope="session")
def result() -> ExperimentResult:
    return make_result()


@pytest.fixture(scope="session")
def forked() -> Summary:
    return build(make_forked())


@pytest.fixture(scope="session")
def equal() -> ExperimentResult:
    return make_equal()


@pytest.fixture(scope="session")
def large() -> Summary:
    """Of a thousand cases; built once, for it takes a moment."""
    return build(make_result(cases=1_000))


@pytest.fixture(scope="session")
def hostile() -> ExperimentResult:
    return make_hostile()


@pytest.fixture(scope="session")
def hostile_strings() -> tuple[str, ...]:
    return HOSTILE
