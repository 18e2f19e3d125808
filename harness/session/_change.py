"""The one thing a fork changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.canonical import canonical_json, content_hash, parse_json
from harness.errors import CanonicalError, ChangeError

ChangeKind = Literal["input", "output", "prompt", "model", "param"]

_KINDS: tuple[ChangeKind, ...] = ("input", "output", "prompt", "model", "param")
_NAMED = {"prompt", "param"}
_NAMELESS = {"model", "output"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Exactly one declared difference between a fork and its parent.

    ``at`` is the address of the fork step (``draft``, ``draft#1``, ``plan/search``).
    """

    kind: ChangeKind
    at: str
    value: Any
    name: str = ""
    """Which prompt, parameter or input field; empty for ``model``, ``output`` and a whole input."""

    def addresses(self, scope: str, name: str, occurrence: int) -> bool:
        """Whether ``at`` names this step: by full address, by path (any occurrence), or by bare name."""
        path = f"{scope}/{name}" if scope else name
        if "#" in self.at:
            return self.at == f"{path}#{occurrence}"
        return self.at in {path, name}

    @property
    def digest(self) -> str:
        """Sixteen hex digits that name the fork's arm."""
        return content_hash(canonical_json(self.as_dict()))[:16]

    @property
    def arm(self) -> str:
        """The arm under which the fork's own calls are recorded."""
        return f"fork:{self.digest}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form, kept with the run."""
        return {"kind": self.kind, "at": self.at, "name": self.name, "value": self.value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        """The inverse of ``as_dict``."""
        return cls(kind=data["kind"], at=data["at"], name=data.get("name", ""), value=data["value"])

    @classmethod
    def parse(cls, text: str, *, at: str) -> Change:
        """Read ``KIND[:NAME]=VALUE`` as written on the command line; ``@FILE`` takes the value from a file.

        Args:
            text: For example ``prompt:draft=@new.txt``, ``model=gpt-5-mini``, ``param:temperature=0``,
                ``input:ticket=Where is my parcel?`` or ``output=@reply.json``.
            at: Address of the fork step.

        Raises:
            ChangeError: The text has another shape, or the file cannot be read.
        """
        left, equals, raw = text.partition("=")
        kind, _, name = left.strip().partition(":")
        if not equals or kind not in _KINDS:
            raise ChangeError(
                f"--set {text!r}: write KIND[:NAME]=VALUE with KIND one of {', '.join(_KINDS)}, "
                "for example prompt:draft=@new.txt"
            )
        if kind in _NAMED and not name:
            raise ChangeError(f"--set {text!r}: say which one, as in {kind}:NAME=VALUE")
        if kind in _NAMELESS and name:
            raise ChangeError(f"--set {text!r}: {kind} takes no name; write {kind}=VALUE")
        return cls(kind=kind, at=at, name=name, value=_value(kind, _text(raw, text)))


def _text(raw: str, whole: str) -> str:
    if not raw.startswith("@"):
        return raw
    path = Path(raw[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ChangeError(f"--set {whole!r}: cannot read {str(path)!r}: {error}") from error


def _value(kind: str, text: str) -> Any:
    """Prompts and models are text; the others are JSON where they parse as JSON, else text."""
    if kind in {"prompt", "model"}:
        return text
    try:
        return parse_json(text.encode())
    except CanonicalError:
        return text
