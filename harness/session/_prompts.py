"""Prompts whose text lives outside the code: what a source gives, and the cache before it."""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.canonical import canonical_json, parse_json
from harness.errors import CanonicalError, PromptError
from harness.redact import Redactor

GROUP = "goldfork.prompt_sources"
"""Entry point group: scheme = class without arguments that has ``fetch``."""
KEPT_S = 60.0
"""For how many seconds a process does not ask a source again."""
FALLBACK = "fallback"
"""``FetchedPrompt.source`` of the text written in the code, where it stands in for the source's."""
CHANGED = "change"
"""``FetchedPrompt.source`` of a text that a fork puts in the place of the source's."""
_WORDS = 300
"""How much of a foreign error's text is kept."""
_REF = re.compile(r"([a-z][a-z0-9_-]*):(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPrompt:
    """A prompt's text as it was at one moment, and where it came from."""

    text: str
    """Template with ``{field}`` places, literal braces doubled."""
    name: str
    """Its name at the source."""
    version: int | str
    """Its version there."""
    label: str = ""
    """The label it was asked for by; empty for none."""
    source: str = ""
    """Scheme of the source (``langfuse``), ``fallback`` or ``change``."""

    @property
    def origin(self) -> dict[str, Any]:
        """Where it came from, JSON-ready, without the text."""
        return {"source": self.source, "name": self.name, "version": self.version, "label": self.label}

    def recorded(self) -> str:
        """The form kept with a run: JSON text."""
        return canonical_json({"text": self.text, **self.origin}).decode()

    @classmethod
    def from_recorded(cls, value: Any) -> FetchedPrompt:
        """The inverse of ``recorded``.

        Raises:
            PromptError: A recording that was edited by hand holds something else.
        """
        try:
            data = parse_json(str(value).encode())
        except CanonicalError:
            data = None
        if not isinstance(data, Mapping) or not isinstance(data.get("text"), str):
            raise PromptError("the recording holds a prompt source that cannot be read; record the run again")
        version = data.get("version")
        return cls(
            text=data["text"],
            name=str(data.get("name", "")),
            version=version if isinstance(version, int) else str(version),
            label=str(data.get("label", "")),
            source=str(data.get("source", "")),
        )


class PromptSource(Protocol):
    """Gives the current text of a named prompt; ``harness.mirror.LangfusePrompts`` is one.

    A source is found by the entry point of its scheme in the group ``goldfork.prompt_sources`` and made without
    arguments.
    """

    def fetch(self, ref: str) -> FetchedPrompt:
        """The prompt that ``ref`` (what stands behind the scheme's colon) names now.

        Raises:
            PromptError: It cannot be fetched, or is no text prompt.
        """
        ...


def source_ref(text: str) -> tuple[str, str] | None:
    """Scheme and reference of ``SCHEME:REF``; ``None`` for text of another shape."""
    found = _REF.fullmatch(text)
    return (found[1], found[2]) if found else None


def prompt_schemes() -> list[str]:
    """Schemes of the installed sources, sorted."""
    from importlib.metadata import entry_points  # reads every distribution's metadata

    return sorted({entry.name for entry in entry_points(group=GROUP)})


def fetch_prompt(ref: str, *, monotonic: Callable[[], float] = time.monotonic) -> FetchedPrompt:
    """Fetch a prompt, unless this process did so in the last 60 s; a failure is kept for as long.

    When a source that gave the prompt before fails, the text that it gave last holds on, with one warning.

    Args:
        ref: ``SCHEME:REF``, as in ``langfuse:triage-draft@production``.
        monotonic: Counts the seconds.

    Raises:
        PromptError: The source is not installed, or cannot give the prompt and never did.
    """
    # By process: a forked child must not wait for a lock that a thread of its parent held.
    return _caches.setdefault(os.getpid(), _Cache()).get(ref, monotonic)


def warn_fallback(name: str, error: PromptError) -> None:
    """Say once in a process that a prompt's written text stands in for the one its source does not give."""
    _warn_once(
        f"prompt {name!r} falls back to the text written in the code, which is recorded as such", error, stacklevel=3
    )


def _warn_once(what: str, error: PromptError, *, stacklevel: int) -> None:
    with _warned_lock:
        known = what in _warned
        _warned.add(what)
    if not known:
        warnings.warn(f"{what}: {error}", RuntimeWarning, stacklevel=stacklevel)


class _Cache:
    """What the sources gave, by reference."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def get(self, ref: str, monotonic: Callable[[], float]) -> FetchedPrompt:
        with self._lock:
            entry = self._entries.setdefault(ref, _Entry())
        return entry.get(ref, monotonic)


class _Entry:
    """One reference; a slow source of one prompt keeps nobody from another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = 0.0
        self._good: FetchedPrompt | None = None
        self._error: PromptError | None = None

    def get(self, ref: str, monotonic: Callable[[], float]) -> FetchedPrompt:
        # Held while fetching: parallel runs that start together ask the source once.
        with self._lock:
            fresh = (self._good or self._error) and 0 <= monotonic() - self._at < KEPT_S
            if not fresh:
                found = _fetch(ref)
                self._at = monotonic()
                self._error = found if isinstance(found, PromptError) else None
                self._good = found if isinstance(found, FetchedPrompt) else self._good
            good, error = self._good, self._error
        if error is not None and good is not None:
            # An outage of the source must not change what an agent in production says.
            _warn_once(f"prompt {ref!r} stays as it was fetched before (version {good.version})", error, stacklevel=2)
        elif error is not None:
            raise PromptError(str(error))
        assert good is not None  # noqa: S101 - there is a text or an error
        return good


_caches: dict[int, _Cache] = {}
_warned: set[str] = set()
_warned_lock = threading.Lock()


def _fetch(ref: str) -> FetchedPrompt | PromptError:
    from importlib.metadata import entry_points  # reads every distribution's metadata

    split = source_ref(ref)
    entry = next(iter(entry_points(group=GROUP, name=split[0])), None) if split else None
    if split is None or entry is None:
        known = ", ".join(prompt_schemes()) or "none"
        return PromptError(f"prompt source {ref!r} names no installed source; write SCHEME:NAME with one of: {known}")
    try:
        source: PromptSource = entry.load()()
        fetched = replace(source.fetch(split[1]), source=split[0])
        fetched.recorded()
        return fetched
    except PromptError as error:
        return error
    except CanonicalError as error:
        return PromptError(f"prompt {ref!r} has a text that cannot be recorded: {error}")
    except ImportError as error:
        return PromptError(f"prompt source {entry.value!r} cannot be imported: {error}; install it again")
    except Exception as error:  # noqa: BLE001 - somebody else's code: whatever it raises, the written text stands in
        words = " ".join(Redactor().text(f"{type(error).__name__}: {error}").split())[:_WORDS]
        return PromptError(f"prompt {ref!r} cannot be fetched, its source {entry.value!r} fails: {words}")
