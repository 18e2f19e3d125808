"""``prompt``: a named text, versioned by content, that a fork can replace."""

from __future__ import annotations

import string
from typing import Any

from harness.canonical import content_hash
from harness.errors import ChangeError, UsageError
from harness.record import VolatileRecord
from harness.session import current


class Prompt:
    """A named prompt template with ``{field}`` places.

    Fields are plain names: attribute and index access would let a template read what it was not given.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        _fields(name, text, UsageError)

    @property
    def text(self) -> str:
        """The template that holds here: the written one, or the one a fork puts in its place.

        Reading it is a use of the prompt, as ``format`` is: a fork of the prompt runs the step again.
        """
        self._note()
        return self._held()

    @property
    def version(self) -> str:
        """Twelve hex digits over the template that holds here."""
        return content_hash(self._held().encode())[:12]

    def format(self, **fields: Any) -> str:
        """Fill the fields in; messages of the same step are linked to this prompt and version.

        Raises:
            ChangeError: The replaced template names a field that is not given.
            UsageError: The written template does.
        """
        text = self._held()
        kind = UsageError if text is self._text else ChangeError
        missing = sorted(_fields(self.name, text, kind) - fields.keys())
        if missing:
            given = ", ".join(sorted(fields)) or "none"
            raise kind(f"prompt {self.name!r} names {{{missing[0]}}}, which is not given; given: {given}")
        self._note()
        return text.format(**fields)

    def _held(self) -> str:
        frame = current()
        change = frame.run.plan.change if frame else None
        if frame is not None and change is not None and change.kind == "prompt" and change.name == self.name:
            frame.run.applied = True
            return str(change.value)
        return self._text

    def _note(self) -> None:
        frame = current()
        if frame is None:
            return
        version = self.version
        frame.step.prompt = (self.name, version)
        name = f"prompt:{self.name}"
        frame.run.emit(
            VolatileRecord(
                run_id=frame.run.id,
                step_id=frame.step.record.id,
                scope=frame.scope,
                name=name,
                occurrence=frame.run.occurrence("volatile", frame.scope, name),
                value=version,
            )
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Prompt({self.name!r}, version={self.version!r})"


def prompt(name: str, text: str) -> Prompt:
    """Name a prompt template, so that its version is recorded and a fork can replace it.

    Args:
        name: What ``--set prompt:NAME=…`` addresses.
        text: Template with ``{field}`` places.

    Raises:
        UsageError: A place is not a plain name.
    """
    return Prompt(name, text)


def _fields(name: str, text: str, kind: type[UsageError | ChangeError]) -> set[str]:
    try:
        found = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError as error:
        raise kind(f"prompt {name!r} is not a template: {error}; write literal braces as {{{{ and }}}}") from error
    for field in found:
        if not field.isidentifier():
            raise kind(f"prompt {name!r} has the place {{{field}}}; a place is a plain name")
    return found
