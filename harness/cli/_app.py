"""What every command shares: the app, machine output, and errors as one line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from harness import __version__
from harness.errors import GoldforkError, GoldforkStop

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout, all else to stderr.")]

app = typer.Typer(
    name="goldfork",
    help="Says what a change did to your LLM agent: record, replay for free, fork one step, score.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Options:
    """Options before the command."""

    debug = False


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"goldfork {__version__}\n")
        raise typer.Exit


@app.callback()
def _common(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version
    _Options.debug = debug


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Characters that control, hide or reorder spelled out: text of a model must not drive the terminal."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def console(*, json: bool = False) -> Console:
    """The console for people: stdout, or stderr when stdout is for a machine."""
    return Console(stderr=json, highlight=False, soft_wrap=False)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line (JSON lines when called once per item). Unknown is null, money a string."""
    try:
        text = orjson.dumps(value, default=str).decode()
    except TypeError:
        # orjson refuses integers beyond 64 bits and lone surrogates; a case may hold either.
        text = json.dumps(value, default=str)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Entry point of ``goldfork``: usage and configuration errors are one line and exit code 2."""
    try:
        app()
    except (GoldforkError, GoldforkStop) as error:
        if _Options.debug:
            raise
        sys.stderr.write(f"goldfork: {visible(str(error))}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
