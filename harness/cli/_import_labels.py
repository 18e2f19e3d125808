"""``goldfork import labels``: people's verdicts come back from Langfuse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from harness.cli._app import JsonOption, console, print_json, visible
from harness.cli._import import import_app
from harness.errors import UsageError
from harness.session import process_store


@import_app.command("labels")
def labels(
    *,
    since: Annotated[str, typer.Option(help="Only verdicts from this time on: 2026-11-01, or ISO with zone.")] = "",
    json: JsonOption = False,
) -> None:
    """Take over what people said about this store's runs in Langfuse (scores of the source ANNOTATION) as labels.

    Running it again changes nothing but labels that were changed there. Verdicts about runs that this store does not
    hold, and about whole sessions or experiments, are counted and left out.

    Example: goldfork import labels --since 2026-11-01
    """
    from harness.mirror import Project, import_labels

    project = Project.from_environment()
    try:
        done = import_labels(process_store(), project, since=_moment(since) if since else None)
    finally:
        project.close()
    if json:
        left = {"elsewhere": done.left["elsewhere"], "whole": done.left["whole"]}
        print_json({"new": done.new, "changed": done.changed, "unchanged": done.unchanged, "left_out": left})
        return
    _say(f"{done.new} new labels, {done.changed} changed, {done.unchanged} unchanged")
    if done.left["elsewhere"]:
        _say(f"{done.left['elsewhere']} left out: they are about runs or steps that this store does not hold")
    if done.left["whole"]:
        _say(f"{done.left['whole']} left out: they are about a whole session or experiment")


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"--since {text!r} is no time; write 2026-11-01 or 2026-11-01T08:30:00+01:00") from None


def _say(text: str) -> None:
    console().print(Text(visible(text)), soft_wrap=True)
