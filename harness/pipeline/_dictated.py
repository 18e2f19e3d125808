"""What a fork's change makes of a tool call: another version of the tool, or a result given instead of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.pipeline._begin import Begun, end
from harness.pipeline._handed import handed_over
from harness.pipeline._tool_answer import ToolSpec
from harness.session import Frame


def versioned(spec: ToolSpec, parent: Frame) -> ToolSpec:
    """The tool as it is declared, or under the version that a change gives it in this step."""
    for change in parent.run.plan.changes:
        if change.kind == "tool-version" and change.name == spec.step.name and parent.within(change):
            parent.run.apply(change)
            spec = replace(spec, version=str(change.value))
    return spec


def dictated(begun: Begun, parent: Frame) -> tuple[Any] | None:
    """The result that a change gives this call, recorded as its own; ``None`` where there is none."""
    given: tuple[Any] | None = None
    for change in parent.run.plan.changes:
        if change.kind == "tool" and change.name == begun.spec.name and parent.within(change):
            parent.run.apply(change)
            given = (handed_over(change.value),)
    if given is not None:
        begun.frame.step.record = replace(begun.frame.step.record, state="answered")
        end(begun, given[0])
    return given
