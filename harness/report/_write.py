"""Report files: the suffix names the format."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path

from harness.errors import UsageError
from harness.report._html import render_html
from harness.report._json import render_json
from harness.report._junit import render_junit
from harness.report._markdown import render_markdown
from harness.report._terminal import render_text
from harness.report.summary import Summary

FORMATS: dict[str, Callable[[Summary], str]] = {
    ".html": render_html,
    ".json": render_json,
    ".md": render_markdown,
    ".txt": render_text,
    ".xml": render_junit,
}
"""Renderer by suffix."""


def write(summary: Summary, path: Path | str) -> Path:
    """Write a report; an existing file is replaced in one step, missing folders are made.

    Raises:
        UsageError: The suffix names no format, or the file cannot be written.
    """
    path = Path(path)
    render = renderer(path)
    text = render(summary)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"report {str(path)!r} cannot be written: {error.strerror or error}; name another file with -o"
        ) from error
    return path


def renderer(path: Path | str) -> Callable[[Summary], str]:
    """The renderer for a path; call it early, so that a wrong suffix is known before an experiment runs.

    Raises:
        UsageError: The suffix names no format.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"report {str(path)!r}: unknown suffix {suffix!r}; use one of {', '.join(FORMATS)}")
    return FORMATS[suffix]


def _replace(path: Path, content: bytes) -> None:
    """Write beside the target, then rename, so that nobody ever reads half a report."""
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
