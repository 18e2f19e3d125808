"""``goldfork key``: what a request is known by, without sending it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.canonical import request_keys
from harness.cli._app import JsonOption, app, console, print_json
from harness.errors import UsageError

_CONTROLS = re.compile(r"[\x7f-\x9f]")


@app.command("key")
def key(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Request body, or - for standard input.")],
    *,
    path: Annotated[str, typer.Option(help="URL path the body is sent to, query included.")] = "/v1/chat/completions",
    method: Annotated[str, typer.Option(help="HTTP method.")] = "POST",
    content_type: Annotated[str, typer.Option(help="Media type of the body.")] = "application/json",
    header: Annotated[list[str] | None, typer.Option(help="Request header as NAME:VALUE; repeatable.")] = None,
    json: JsonOption = False,
) -> None:
    """Show the exact key, the semantic key and the canonical form of a request body."""
    headers = [_header(text) for text in header or ()]
    keys = request_keys(method, path, _read(file), content_type=content_type, headers=headers)
    canonical = keys.canonical.decode()
    if json:
        print_json({"exact": keys.exact, "semantic": keys.semantic, "canonical": canonical})
        return
    out = console()
    rows = {"exact": keys.exact, "semantic": keys.semantic, "endpoint": keys.endpoint, "canonical": canonical}
    if keys.flags:
        rows["flags"] = ", ".join(keys.flags)
    for name, text in rows.items():
        # The body is hostile text: neither markup nor terminal control codes may act.
        plain = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        out.print(f"{name:<10}{plain}", markup=False, soft_wrap=True)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the request body {file!r}: {error.strerror}; name a file, or - for stdin"
        ) from error


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise UsageError(f"--header {text!r}: write NAME:VALUE, as in openai-beta:assistants=v2")
    return name.strip(), value.strip()
