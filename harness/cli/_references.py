"""Which stored run a command means, and which earlier runs answer a fork that is made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from harness.cli._app import visible
from harness.errors import UsageError
from harness.record import RECORDED, Recording
from harness.replay import control_arm
from harness.session import Change, process_store
from harness.store import RunSummary

_LOOKED_AT = 1000
"""Newest runs of a workflow among which a replay of it is looked for."""

Earlier = Callable[[str], Sequence[Recording]]
"""The recordings that answer a fork's arm before its parent does."""


def note(text: str) -> None:
    """Say something beside the result, on the error stream."""
    Console(stderr=True, highlight=False).print(visible(f"note: {text}"), style="dim", markup=False, soft_wrap=True)


def stored_run(ref: str) -> Recording:
    """The run of an id or the start of one, or the newest good run of a workflow.

    A workflow that the store knows from experiments alone is stood for by the newest replay in one, and a note says so.

    Raises:
        UsageError: There is none; it says which there are.
    """
    store = process_store()
    found = store.run(ref)
    recording = store.recording(found.id if found else ref)
    if recording is not None:
        return recording
    rows = store.runs(limit=_LOOKED_AT, workflow=ref)
    if not rows:
        raise UsageError(f"there is no run {ref!r}; `goldfork run list` shows what the store holds")
    good = [row for row in rows if _serves(row)]
    # Rather an experiment's than what an earlier command made of it.
    chosen = next((row for row in good if row.experiment), good[0] if good else None)
    whole = None if chosen is None else store.recording(chosen.id)
    if chosen is None or whole is None:
        raise UsageError(
            f"workflow {ref!r} has no good run of its own to be meant by its name; the newest of its runs is "
            f"{rows[0].id} ({_kind(rows[0])}): name one by its id, `goldfork run list --workflow {ref}` shows them"
        )
    note(f"{ref!r} has no run of its own; taken is {chosen.id}, {_kind(chosen)}")
    return whole


def _serves(row: RunSummary) -> bool:
    return row.status == "ok" and row.usable and row.fidelity == "wire" and row.arm == RECORDED


def _kind(row: RunSummary) -> str:
    place = f" of case {row.case!r}" if row.case else ""
    experiment = f" in experiment {row.experiment}" if row.experiment else ""
    if row.fidelity == "imported":
        return "an imported one"
    what = "a replay" if row.arm == RECORDED else row.arm
    return f"{what}{place}{experiment}" + ("" if row.status == "ok" else f", {row.status}")


def earlier_runs(parent: Recording, mode: str) -> Earlier:
    """Finds earlier recordings of a fork of this run in the store: the newest good one, else one that did not end well.

    Args:
        parent: The run that is forked.
        mode: In ``replay`` they answer all they hold; in ``auto`` a call that failed is made again; in ``live`` there
            are none.
    """

    def find(arm: str) -> Sequence[Recording]:
        if mode == "live":
            return ()
        store = process_store()
        rows = store.load("runs", parent_run_id=parent.run.id, arm=arm)
        usable = [row for row in rows if row["usable"] and row["fidelity"] == "wire"]
        order = sorted(usable, key=lambda row: (row["status"] == "ok", row["id"]), reverse=True)
        # One that is still running answers nothing: what it is being told may change under the reader.
        found = next(
            (one for row in order for one in store.recordings([row["id"]]) if one.run.status != "running"), None
        )
        if found is None:
            return ()
        return (found if mode == "replay" else _without_failures(found),)

    return find


def _without_failures(run: Recording) -> Recording:
    return replace(run, steps=tuple(step for step in run.steps if step.kind != "tool" or step.status == "ok"))


def require_recorded_controls(parent: Recording, change: Change, count: int, earlier: Earlier) -> None:
    """Refuse to replay control forks that nobody has recorded.

    Raises:
        UsageError: Some are not; it names their arms.
    """
    arms = [control_arm(parent, change, number) for number in range(1, count + 1)]
    missing = [arm for arm in arms if not earlier(arm)]
    if missing:
        raise UsageError(
            f"{len(missing)} of {count} control forks of run {parent.run.id} are not recorded ({', '.join(missing)}); "
            "record them with --mode auto"
        )
