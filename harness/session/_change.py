"""The one thing a fork changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from harness.canonical import canonical_json, content_hash, parse_json
from harness.errors import CanonicalError, ChangeError
from harness.session._prompts import fetch_prompt, prompt_schemes, source_ref

ChangeKind = Literal[
    "input",
    "output",
    "prompt",
    "model",
    "param",
    "tool",
    "tool-version",
    "tool-schema",
    "request",
    "code",
    "refresh",
]

_KINDS: tuple[ChangeKind, ...] = (
    "input",
    "output",
    "prompt",
    "model",
    "param",
    "tool",
    "tool-version",
    "tool-schema",
    "request",
)
_NAMED = {"prompt", "param", "tool", "tool-version", "tool-schema", "request"}
_NAMELESS = {"model", "output"}
_TEXTS = {"prompt", "model", "tool-version"}
REQUEST_KINDS = frozenset({"model", "param", "tool-schema", "request"})
"""Kinds that rewrite a request, so that they may address a single message."""
_MESSAGE = re.compile(r"~(\d+)\Z")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Exactly one declared difference between a fork and its parent.

    ``at`` is the address of the fork step (``draft``, ``draft#1``, ``plan/search``), of the run's root (its workflow,
    or nothing), or of one model call made in a step itself (``draft~0``: the first one of ``draft``; ``~2``: the
    third one of the root).
    """

    kind: ChangeKind
    at: str
    value: Any
    name: str = ""
    """Which prompt, parameter, input field, tool, function or place in the request; empty for ``model``, ``output``,
    ``code`` and a whole input."""
    origin: Mapping[str, Any] | None = field(default=None, compare=False)
    """Of a prompt's text that was fetched: source, name, version and label. It is not part of the change: equal text
    from elsewhere is the same change."""

    def addresses(self, scope: str, name: str, occurrence: int) -> bool:
        """Whether ``at`` names this step: by full address, by path (any occurrence), or by bare name."""
        path, at = f"{scope}/{name}" if scope else name, self.step
        if "#" in at:
            return at == f"{path}#{occurrence}"
        return at in {path, name}

    @property
    def step(self) -> str:
        """Address of the fork step alone."""
        return _MESSAGE.sub("", self.at)

    @property
    def message(self) -> int | None:
        """Which of the step's own model calls it addresses, from 0; ``None`` for all of them and those below."""
        found = _MESSAGE.search(self.at)
        return int(found[1]) if found else None

    def rooted(self, workflow: str) -> Change:
        """The same with the root named, where ``at`` names no step."""
        return self if self.step else replace(self, at=f"{workflow}{self.at}")

    @property
    def digest(self) -> str:
        """Sixteen hex digits that name the fork's arm."""
        return content_hash(canonical_json(self._meaning()))[:16]

    @property
    def arm(self) -> str:
        """The arm under which the fork's own calls are recorded."""
        return f"fork:{self.digest}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form, kept with the run; ``origin`` only where there is one."""
        return {**self._meaning(), **({"origin": dict(self.origin)} if self.origin else {})}

    def _meaning(self) -> dict[str, Any]:
        return {"kind": self.kind, "at": self.at, "name": self.name, "value": self.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        """The inverse of ``as_dict``."""
        return cls(
            kind=data["kind"],
            at=data["at"],
            name=data.get("name", ""),
            value=data["value"],
            origin=data.get("origin"),
        )

    @classmethod
    def parse(cls, text: str, *, at: str) -> Change:
        """Read ``KIND[:NAME]=VALUE`` as written on the command line; ``@FILE`` takes the value from a file.

        A prompt's value may name an installed prompt source, as in ``prompt:draft=langfuse:triage-draft@production``:
        the text is fetched here and now, and is the value from then on.

        Args:
            text: For example ``prompt:draft=@new.txt``, ``model=gpt-5-mini``, ``param:temperature=0``,
                ``input:ticket=Where is my parcel?``, ``output=@reply.json``, ``tool:search=@result.json``,
                ``tool-version:search=2``, ``tool-schema:search=@schema.json``,
                ``request:/messages/0/content=@system.txt``, or ``code`` alone.
            at: Address of the fork step.

        Raises:
            ChangeError: The text has another shape, or the file cannot be read.
            PromptError: The source does not give the prompt.
        """
        if text.strip() == "code":
            return _checked(cls(kind="code", at=at, value=None), text)
        left, equals, raw = text.partition("=")
        kind, _, name = left.strip().partition(":")
        if not equals or kind not in _KINDS:
            raise ChangeError(
                f"--set {text!r}: write KIND[:NAME]=VALUE with KIND one of {', '.join(_KINDS)}, "
                "for example prompt:draft=@new.txt; or code alone"
            )
        if kind in _NAMED and not name:
            raise ChangeError(f"--set {text!r}: say which one, as in {kind}:NAME=VALUE")
        if kind in _NAMELESS and name:
            raise ChangeError(f"--set {text!r}: {kind} takes no name; write {kind}=VALUE")
        if kind == "prompt" and _is_source(raw, text):
            fetched = fetch_prompt(raw)
            return _checked(cls(kind=kind, at=at, name=name, value=fetched.text, origin=fetched.origin), text)
        return _checked(cls(kind=kind, at=at, name=name, value=_value(kind, _text(raw, text))), text)


def _checked(change: Change, text: str) -> Change:
    if change.message is not None and change.kind not in REQUEST_KINDS:
        raise ChangeError(
            f"--at {change.at!r} addresses one model call, which a change of {change.kind} does not alter; "
            f"only {', '.join(sorted(REQUEST_KINDS))} do"
        )
    if change.kind == "request" and not _POINTER.match(change.name):
        raise ChangeError(
            f"--set {text!r}: name the place in the request as a JSON pointer (RFC 6901), "
            "as in request:/messages/0/content=@new.txt"
        )
    if change.kind == "tool-schema" and not isinstance(change.value, Mapping):
        raise ChangeError(f"--set {text!r}: a tool's schema is a JSON object; write it into a file, =@schema.json")
    return change


def _is_source(raw: str, whole: str) -> bool:
    """Whether a prompt's value names a source; one that looks like it and is not installed is hardly the text."""
    source = source_ref(raw)
    known = prompt_schemes() if source else []
    if source is None or source[0] in known:
        return source is not None
    if "@" in source[1]:
        raise ChangeError(
            f"--set {whole!r}: there is no prompt source {source[0]!r}, installed: {', '.join(known) or 'none'}; "
            "if this is the text itself, put it into a file and write @FILE"
        )
    return False


def _text(raw: str, whole: str) -> str:
    if not raw.startswith("@"):
        return raw
    path = Path(raw[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ChangeError(f"--set {whole!r}: cannot read {str(path)!r}: {error}") from error


def _value(kind: str, text: str) -> Any:
    """Prompts, models and versions are text; the others are JSON where they parse as JSON, else text."""
    if kind in _TEXTS:
        return text
    try:
        return parse_json(text.encode())
    except CanonicalError:
        return text
