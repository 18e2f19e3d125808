"""``prompt``: a named text, versioned by content, that a fork can replace and a source can give."""

from __future__ import annotations

import string
import time
from collections.abc import Callable
from typing import Any, NoReturn

from harness.canonical import content_hash
from harness.errors import ChangeError, PromptError, RecordingMissing, UsageError
from harness.record import VolatileRecord
from harness.session import (
    CHANGED,
    FALLBACK,
    FetchedPrompt,
    Mode,
    RunState,
    call_frame,
    current,
    current_block,
    fetch_prompt,
    source_ref,
    warn_fallback,
)


class Prompt:
    """A named prompt template with ``{field}`` places.

    Fields are plain names: attribute and index access would let a template read what it was not given.
    """

    def __init__(self, name: str, text: str | None = None, *, source: str | None = None) -> None:
        self.name = name
        self._text = text
        self._source = source
        if text is not None:
            _fields(name, text, UsageError)
        elif source is None:
            raise UsageError(f"prompt {name!r} has neither a text nor a source; give one of them")
        if source is not None and source_ref(source) is None:
            raise UsageError(
                f"prompt {name!r} has the source {source!r}; write SCHEME:NAME, as in langfuse:{name}@production"
            )

    @property
    def text(self) -> str:
        """The template that holds here: the written or fetched one, or the one a fork puts in its place.

        Reading it is a use of the prompt, as ``format`` is: a fork of the prompt runs the step again.

        Raises:
            PromptError: The source does not give it, and there is no written text to fall back to.
        """
        text = self._held()
        self._note(text)
        return text

    @property
    def declared(self) -> str:
        """What the code says of it, written text and source, for the code's version; never fetches."""
        return self._text or "" if self._source is None else f"{self._source}\n{self._text or ''}"

    @property
    def version(self) -> str:
        """Twelve hex digits over the template that holds here; reading it is a use of the prompt, as of ``text``."""
        return _version(self.text)

    def format(self, **fields: Any) -> str:
        """Fill the fields in; messages of the same step are linked to this prompt and version.

        Raises:
            ChangeError: The replaced template names a field that is not given.
            PromptError: The fetched template does, or it cannot be fetched and no text is written here.
            UsageError: The written template does.
        """
        text = self._held()
        kind = self._blame(text)
        missing = sorted(_fields(self.name, text, kind) - fields.keys())
        if missing:
            given = ", ".join(sorted(fields)) or "none"
            raise kind(f"prompt {self.name!r} names {{{missing[0]}}}, which is not given; given: {given}")
        self._note(text)
        return text.format(**fields)

    def _blame(self, text: str) -> type[UsageError | ChangeError]:
        """Whose fault a template is that does not fit."""
        frame = current()
        if frame is not None and self._replaced(frame.run) is not None:
            return ChangeError
        return UsageError if text == self._text else PromptError

    def _held(self) -> str:
        frame = current()
        replaced = self._replaced(frame.run) if frame else None
        if frame is not None and replaced is not None:
            if self._source is not None or replaced.source != CHANGED:
                frame.run.freeze_prompt(self.name, replaced)
            return replaced.text
        if self._source is not None:
            return self._sourced(self._source, frame.run if frame else _implicit_run())
        return self._written().text

    def _replaced(self, run: RunState) -> FetchedPrompt | None:
        """What the run's change puts in this prompt's place."""
        mine = [change for change in run.plan.changes if change.kind == "prompt" and change.name == self.name]
        if not mine:
            return None
        change = mine[-1]
        run.apply(change)
        text, origin = str(change.value), change.origin or {}
        return FetchedPrompt(
            text=text,
            name=origin.get("name", self.name),
            version=origin.get("version", _version(text)),
            label=origin.get("label", ""),
            source=origin.get("source", CHANGED),
        )

    def _sourced(self, ref: str, run: RunState | None) -> str:
        """The source's text; in a run the one that it began with, in a replay the recorded one."""
        if run is None:
            return self._fetched(ref, time.monotonic).text
        held = run.prompt(self.name) or self._recorded(run)
        if held is None and self._not_to_fetch(run):
            if self._text is None:
                self._miss(run)
            held = self._written()
        return run.freeze_prompt(self.name, held or self._fetched(ref, run.plan.clock.monotonic)).text

    def _recorded(self, run: RunState) -> FetchedPrompt | None:
        resolver = run.plan.resolver
        if resolver is None or run.plan.mode is Mode.LIVE:
            return None
        found = resolver.volatile("", f"prompt-source:{self.name}", 0)
        return FetchedPrompt.from_recorded(found.value) if found else None

    def _not_to_fetch(self, run: RunState) -> bool:
        """Whether the run is a replay, or its recording used a text without a source."""
        if run.plan.mode is Mode.REPLAY:
            return True
        if run.plan.mode is Mode.LIVE or run.plan.resolver is None:
            return False
        # Today's text in place of the recorded run's would be a change that nobody declared.
        used = (value.name for recording in run.plan.resolver.recordings for value in recording.volatile)
        return f"prompt:{self.name}" in used

    def _fetched(self, ref: str, monotonic: Callable[[], float]) -> FetchedPrompt:
        try:
            fetched = fetch_prompt(ref, monotonic=monotonic)
            _fields(self.name, fetched.text, PromptError)
        except PromptError as error:
            if self._text is None:
                raise PromptError(f"prompt {self.name!r} has no text: {error}") from error
            warn_fallback(self.name, error)
            return self._written()
        return fetched

    def _written(self) -> FetchedPrompt:
        text = self._text or ""
        return FetchedPrompt(text=text, name=self.name, version=_version(text), source=FALLBACK)

    def _miss(self, run: RunState) -> NoReturn:
        text = (
            f"the recording holds no text of prompt {self.name!r}, which comes from {self._source!r}; "
            "record the run again, or write a text beside the source"
        )
        run.misses.append(text)
        raise RecordingMissing(text)

    def _note(self, text: str) -> None:
        frame = current()
        if frame is None:
            return
        version = _version(text)
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
        # Never fetches: a debugger or a log line may show it.
        shown = f"source={self._source!r}" if self._source else f"version={_version(self._text or '')!r}"
        return f"Prompt({self.name!r}, {shown})"


def prompt(name: str, text: str | None = None, *, source: str | None = None) -> Prompt:
    """Name a prompt template, so that its version is recorded and a fork can replace it.

    ::

        DRAFT = harness.prompt("draft", "Write a reply to {ticket} ...")
        DRAFT = harness.prompt("draft", source="langfuse:triage-draft@production")

    A source's text is fetched at a run's first use of the prompt, which waits for it; it holds for the whole run and
    is recorded: replays and forks answer from the recording. A process asks a source at most once in 60 s, and keeps
    the text it got last while the source cannot be reached.

    Args:
        name: What ``--set prompt:NAME=…`` addresses.
        text: Template with ``{field}`` places; beside a source, what stands in when the source cannot be reached.
        source: Where the text is kept: ``SCHEME:NAME``, for Langfuse with the label to follow behind ``@``.

    Raises:
        UsageError: A place is not a plain name; neither text nor source is given.
    """
    return Prompt(name, text, source=source)


def _implicit_run() -> RunState | None:
    """The run that code outside any workflow belongs to, where its text must come from, or go into, a recording."""
    from harness.settings import load_settings  # late: reading settings needs pydantic-settings

    if current_block() is not None or load_settings().mode == "replay":
        return call_frame().run
    return None


def _version(text: str) -> str:
    return content_hash(text.encode())[:12]


def _fields(name: str, text: str, kind: type[UsageError | ChangeError]) -> set[str]:
    try:
        found = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
    except ValueError as error:
        raise kind(f"prompt {name!r} is not a template: {error}; write literal braces as {{{{ and }}}}") from error
    for field in found:
        if not field.isidentifier():
            raise kind(f"prompt {name!r} has the place {{{field}}}; a place is a plain name")
    return found
