"""``goldfork run``: look at runs, replay and fork them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import typer
from rich.text import Text
from rich.tree import Tree

from harness.cli._app import JsonOption, app, console, print_json, visible
from harness.cli._controls import Controls, controls_json, failed, print_controls, run_controls
from harness.cli._diff import print_diff, with_meaning
from harness.cli._fork_tools import (
    EffectsOption,
    ExpiredOption,
    RefreshOption,
    declared_change,
    mutations_json,
    print_mutations,
    print_tools,
    tools_json,
    warn_of_effects,
)
from harness.cli._listing import print_listing
from harness.cli._plan import show_plan
from harness.cli._references import earlier_runs, note, require_recorded_controls, stored_run
from harness.errors import UsageError
from harness.record import MessageRecord, StepRecord
from harness.replay import (
    Counts,
    ReplayOptions,
    RunOutcome,
    code_version,
    compare,
    content,
    fork_run,
    load_target,
    plan_fork,
    replay_run,
)
from harness.report import diff_json
from harness.session import process_store, require_usable
from harness.settings import load_settings
from harness.store import RunStatus, RunSummary

run_app = typer.Typer(help="Look at recorded runs, replay them, fork them at a step.", no_args_is_help=True)
app.add_typer(run_app, name="run")

RunArgument = Annotated[str, typer.Argument(help="Run id, the start of one, or a workflow's name (its latest run).")]
TargetOption = Annotated[str, typer.Option(help="The pipeline: package.module:function.")]
CodeOption = Annotated[
    str, typer.Option(help="Package that counts as the pipeline's code; the target's own by default.")
]


@run_app.command("list")
def list_runs(
    *,
    workflow: Annotated[str, typer.Option(help="Only runs of this workflow.")] = "",
    status: Annotated[RunStatus | None, typer.Option(help="Only runs that ended, or stand, so.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many, newest first.")] = 20,
    json: JsonOption = False,
) -> None:
    """List runs, newest first. Example: goldfork run list --workflow triage --status error."""
    rows = process_store().runs(limit=limit, workflow=workflow or None, status=status)
    if json:
        for row in rows:
            print_json(_run_row(row))
        return
    if not rows:
        console().print("No runs yet: call a workflow, or see docs/quickstart.md.")
        return
    cells = [
        (row.id, row.status, row.mode, f"{row.started_at:%Y-%m-%d %H:%M:%S}", row.workflow, row.case or "", row.arm)
        for row in rows
    ]
    print_listing(("run", "status", "mode", "started", "workflow", "case", "arm"), cells, first=4)


def _run_row(row: RunSummary) -> dict[str, Any]:
    return {
        "run": row.id,
        "workflow": row.workflow,
        "status": row.status,
        "mode": row.mode,
        "arm": row.arm,
        "trial": row.trial,
        "case": row.case,
        "experiment": row.experiment,
        "parent": row.parent_run_id,
        "started_at": row.started_at.isoformat(),
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "steps": row.steps,
        "messages": row.messages,
        "tokens": {"input": row.input_tokens, "output": row.output_tokens},
        "cost": None if row.cost is None else f"{row.cost:f}",
        "currency": row.currency,
        "error": row.error,
    }


@run_app.command("show")
def show_run(run: RunArgument, *, json: JsonOption = False) -> None:
    """Show a run's steps and messages with states, tokens and cost."""
    from harness.mirror import run_link  # what the other commands of this file need not load

    recording = stored_run(run)
    if json:
        print_json(
            {
                "run": recording.run.id,
                "workflow": recording.run.workflow,
                "status": recording.run.status,
                "input": content(recording, recording.run.input_hash),
                "output": content(recording, recording.run.output_hash),
                "steps": [_step_json(step) for step in recording.steps],
                "messages": [_message_json(message) for message in recording.messages],
                "mutations": mutations_json(recording),
                "langfuse": run_link(process_store(), recording.run.id),
            }
        )
        return
    root = recording.steps[0] if recording.steps else None
    tree = Tree(Text(visible(f"{recording.run.workflow} {recording.run.id} · {recording.run.status}")))
    branches = {root.id: tree} if root else {}
    items: list[StepRecord | MessageRecord] = [*recording.steps[1:], *recording.messages]
    for item in sorted(items, key=lambda item: item.seq):
        if isinstance(item, StepRecord):
            branches[item.id] = branches.get(item.parent_id or "", tree).add(_step_line(item))
        else:
            branches.get(item.step_id or "", tree).add(_message_line(item))
    console().print(tree)
    print_mutations(recording)
    if link := run_link(process_store(), recording.run.id):
        console().print(f"Langfuse: {visible(link)}", markup=False, soft_wrap=True)


def _step_line(step: StepRecord) -> Text:
    note = f" {step.status}" if step.status != "ok" else ""
    hash_ = (step.output_hash or "-")[:8]
    line = f"{step.name} {step.kind} · {step.state}{note} · {step.duration_ms:.0f} ms · {hash_}"
    return Text(visible(line), style="red" if note else "")


def _message_line(message: MessageRecord) -> Text:
    used = "? tokens" if message.usage.total is None else f"{message.usage.total} tokens"
    cost = "" if message.cost is None else f" · {message.cost:f} {message.currency}"
    return Text(
        visible(f"{message.endpoint} {message.model or ''} · {message.cache_state} · {used}{cost} · {message.status}")
    )


def _step_json(step: StepRecord) -> dict[str, Any]:
    return {
        "id": step.id,
        "address": step.address,
        "kind": step.kind,
        "state": step.state,
        "status": step.status,
        "input_hash": step.input_hash,
        "output_hash": step.output_hash,
        "duration_ms": step.duration_ms,
        "error": step.error,
    }


def _message_json(message: MessageRecord) -> dict[str, Any]:
    return {
        "id": message.id,
        "step": message.step_id,
        "endpoint": message.endpoint,
        "model": message.model,
        "model_served": message.model_served,
        "cache_state": message.cache_state,
        "status": message.status,
        "exact_key": message.exact_key,
        "input_tokens": message.usage.input_tokens,
        "output_tokens": message.usage.output_tokens,
        "cost": None if message.cost is None else f"{message.cost:f}",
        "currency": message.currency,
        "latency_ms": message.latency_ms,
    }


@run_app.command("tag")
def tag(
    run: RunArgument,
    tags: Annotated[list[str] | None, typer.Argument(help="The tags; none takes all away.")] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Replace a finished run's tags; what the mirror has sent is corrected by its next round.

    Example: goldfork run tag 01a22e7d good-answer reviewed
    """
    found = stored_run(run).run
    for word in tags or ():
        if not word or not word.isprintable():
            raise UsageError(f"tag {visible(word)!r} is empty or not printable; give words")
    process_store().tag(found.id, tuple(tags or ()))
    if json:
        print_json({"run": found.id, "tags": list(tags or ()), "before": list(found.tags)})
        return
    console().print(visible(f"{found.id}: {', '.join(tags or ()) or 'no tags'}"), markup=False)


@run_app.command("replay")
def replay(run: RunArgument, *, target: TargetOption, code: CodeOption = "", json: JsonOption = False) -> None:
    """Run the current code with all answers from the recording, and say what differs. Costs nothing."""
    parent = require_usable(stored_run(run))
    outcome = replay_run(
        parent,
        target=load_target(target),
        sink=process_store(),
        options=ReplayOptions(code_version=code_version(code) if code else None),
    )
    _show(outcome, json=json)


_AT = (
    "Address of the step to fork at, e.g. draft or plan/search#1; without it the whole run. "
    "draft~0 is the first model call made in draft itself, ~2 the third one outside any step."
)
_MODE = (
    "auto calls the provider for what neither the run nor an earlier fork with this change was answered; "
    "replay never calls it; live asks anew what an earlier fork was answered."
)
_SET = (
    "The one change: prompt:NAME=@FILE or =langfuse:NAME@LABEL, model=NAME, param:NAME=VALUE, input:NAME=…, output=…, "
    "tool:NAME=@RESULT.json (its result), tool-version:NAME=V, tool-schema:NAME=@SCHEMA.json, "
    "request:/messages/0/content=@FILE (a JSON pointer into the request), or code (what is edited is the change)."
)


@run_app.command("fork")
def fork(
    run: RunArgument,
    *,
    target: TargetOption,
    set_: Annotated[str, typer.Option("--set", help=_SET)] = "",
    refresh: RefreshOption = None,
    at: Annotated[str, typer.Option("--at", help=_AT)] = "",
    allow: Annotated[
        bool, typer.Option("--allow", help="Go on where the code itself gives something else; the result says what.")
    ] = False,
    code: CodeOption = "",
    mode: Annotated[Literal["auto", "replay", "live"], typer.Option(help=_MODE)] = "auto",
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what would be reused, run and kept dry, and about what it costs.")
    ] = False,
    controls: Annotated[
        int, typer.Option(min=0, metavar="K", help="Also fork K times with nothing changed, to tell it from jitter.")
    ] = 0,
    expired: ExpiredOption = "keep",
    allow_side_effects: EffectsOption = False,
    json: JsonOption = False,
) -> None:
    """Run a finished run again with exactly one change; only what the change touches is executed.

    Example: goldfork run fork triage --target app:triage --at draft --set prompt:draft=@new.txt
    """
    parent = require_usable(stored_run(run))
    change, function = declared_change(set_, refresh, at).rooted(parent.run.workflow), load_target(target)
    version = code_version(code) if code else None
    options = ReplayOptions(
        code_version=version, allow_undeclared=allow, expired=expired, allow_side_effects=allow_side_effects
    )
    if plan:
        prices, store = load_settings().prices, process_store()
        show_plan(plan_fork(parent, change, target=function, options=options, prices=prices, store=store), json=json)
        return
    earlier = earlier_runs(parent, mode)
    if controls and mode == "replay":
        require_recorded_controls(parent, change, controls, earlier)
    if allow_side_effects:
        warn_of_effects(f"this fork of run {parent.run.id}")
    # What is asked to happen anew, or in the world, no earlier fork stands for.
    anew = mode != "replay" and (allow_side_effects or expired == "refresh" or change.kind == "refresh")
    arm = () if anew else earlier(change.arm)
    for one in arm:
        note(f"an earlier fork with this change, {one.run.id}, answers first; --mode live asks anew")
    calls = "replay" if mode == "replay" else "auto"
    outcome = fork_run(
        parent,
        target=function,
        change=change,
        mode=calls,
        arm=arm,
        sink=process_store(),
        options=options,
    )
    beside = None
    if controls and outcome.status == "ok":
        beside = run_controls(
            parent,
            change=change,
            count=controls,
            target=function,
            sink=process_store(),
            mode=calls,
            code_version=version,
            earlier=earlier,
        )
    _show(outcome, json=json, controls=beside)


@run_app.command("diff")
def diff(run: RunArgument, other: RunArgument, *, json: JsonOption = False) -> None:
    """Compare two recorded runs step by step, hashes first."""
    ours, theirs = stored_run(other), stored_run(run)
    result = with_meaning(compare(ours, theirs), ours, theirs)
    if json:
        print_json({"run": ours.run.id, "parent": theirs.run.id, **diff_json(result)})
        return
    print_diff(result)


def _show(outcome: RunOutcome, *, json: bool, controls: Controls | None = None) -> None:
    outcome = replace(outcome, diff=with_meaning(outcome.diff, outcome.run, outcome.parent))
    if json:
        print_json(outcome_json(outcome) | (controls_json(controls, outcome) if controls else {}))
    else:
        print_diff(outcome.diff)
        counts = outcome.counts
        console().print(
            f"steps: {counts.steps_reused} reused, {counts.steps_run} run · tools: {counts.tools_answered} answered, "
            f"{counts.tools_called} called, {counts.tools_dry} dry · "
            f"tokens: {_tokens(counts)}"
        )
        for line in (*outcome.misses, *([outcome.error] if outcome.error and not outcome.misses else [])):
            console().print(visible(line), style="red", markup=False)
        for line in outcome.undeclared:
            console().print(visible(f"undeclared change: {line}"), style="yellow", markup=False)
        print_mutations(outcome.run)
        print_tools(outcome)
        if controls is not None:
            print_controls(controls, outcome)
    if outcome.status != "ok" or (controls is not None and failed(controls.trials)):
        raise typer.Exit(1)


def _tokens(counts: Counts) -> str:
    spent = f"{'at least ' * (counts.unknown_spent > 0)}{counts.tokens_spent} spent"
    return f"{spent}, {'at least ' * (counts.unknown_saved > 0)}{counts.tokens_saved} saved"


def outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    """The machine form of a replay or fork (docs/json.md)."""
    counts = outcome.counts
    tokens = dict(zip(("spent", "saved"), counts.tokens, strict=True))
    money = {
        side: None if cost is None else f"{cost:f}" for side, cost in zip(("spent", "saved"), counts.cost, strict=True)
    }
    fork_part = {} if outcome.change is None else {"at": outcome.change.at, "change": outcome.change.as_dict()}
    return {
        "run": outcome.run.run.id,
        "parent": outcome.parent.run.id if outcome.parent else None,
        **fork_part,
        "status": outcome.status,
        "error": outcome.error,
        "missing": list(outcome.misses),
        **diff_json(outcome.diff),
        "tokens": tokens,
        "unknown_usage": {"spent": counts.unknown_spent, "saved": counts.unknown_saved},
        "cost": {**money, "currency": counts.currency},
        "provider_calls": counts.provider_calls,
        "undeclared": list(outcome.undeclared),
        "drift": list(outcome.drift),
        "mutations": mutations_json(outcome.run),
        **tools_json(outcome),
    }
