"""Why a recording does not answer a call: the nearest recorded request and the first difference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.errors import DatasetMissing
from harness.record import MessageRecord, Recording
from harness.session import Call

Cause = Literal["model", "parameter", "messages", "tools", "endpoint", "step", "body"]

_CANDIDATES = 200
_EXCERPT = 48
_PROMPT_FIELDS = {"messages", "input", "instructions", "prompt", "system"}
_ABSENT: Any = object()
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}|\b\d{10,13}(\.\d+)?\b|\b[0-9a-f]{16,}\b"
)
_HELP = "If the change is meant, run in mode auto (--mode auto, or GOLDFORK_MODE=auto) to record what is new."


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where a request differs from a recorded one."""

    cause: Cause
    name: str
    """What differs, in words: ``parameter 'temperature'``, ``message 2 (user)``, ``tool 'search'``."""
    before: str = ""
    after: str = ""
    volatile: bool = False
    """Both sides look like a clock or an id there."""

    def __str__(self) -> str:
        """Name, and the recorded and the present text."""
        return f"{self.name} (recorded {self.before}, now {self.after})" if self.before else self.name


def explain(call: Call, recordings: Sequence[Recording], *, used: int = 0) -> str:
    """Say why a call has no answer.

    Args:
        call: The call that was not answered.
        recordings: What was searched.
        used: How many recordings of this very request there are; when any, they are all used.
    """
    here = f"{call.endpoint} in step {call.scope!r}" if call.scope else f"{call.endpoint} outside any step"
    if call.occurrence < used:
        return f"{here} was recorded {used} times, but call number {call.occurrence + 1} of it got no answer. {_HELP}"
    if used:
        held = "one recording" if used == 1 else f"{used} recordings"
        return (
            f"{here} was asked once too often: there {'is' if used == 1 else 'are'} {held} of this request, "
            f"all used, and this is call number {call.occurrence + 1}. {_HELP}"
        )
    found = _nearest(call, recordings)
    if found is None:
        return f"{here} is not recorded, nor is any other call of {call.endpoint}. {_HELP}"
    message, body, recording = found
    near = f"the nearest is message {message.id!r} of run {recording.run.id!r}"
    if message.exact_key == call.exact_key:
        return f"{here} is not recorded; {near}, {_same_request(message, call)}. {_HELP}"
    found_differences = differences(body, call.body)
    text = f"{here} is not recorded; {near}. Different: {'; '.join(map(str, found_differences))}."
    agreeing = _agreeing(body, call.body)
    if agreeing:
        text += f" The same: {', '.join(agreeing)}."
    if any(difference.volatile for difference in found_differences):
        text += " It looks like a clock or an id: take it from harness.now(), uuid() or random()."
    elif message.semantic_key == call.semantic_key:
        text += " The meaning is the same, only the form differs."
    return f"{text} {_HELP}"


def differences(before: bytes, after: bytes) -> tuple[Difference, ...]:
    """Where two request bodies differ: model first, then parameters, tools, and the prompt.

    Args:
        before: The recorded body.
        after: The present one.
    """
    old, new = _object(before), _object(after)
    if old is None or new is None:
        return (Difference(cause="body", name="the body", before=_short(before), after=_short(after)),)
    found = [
        difference
        for name in _ordered(old, new)
        if not _equal(old.get(name, _ABSENT), new.get(name, _ABSENT))
        for difference in _field(name, old.get(name, _ABSENT), new.get(name, _ABSENT))
    ]
    form = Difference(cause="body", name="the form of the body (order or spelling of equal values)")
    return tuple(found) or (form,)


def _same_request(message: MessageRecord, call: Call) -> str:
    if message.scope != call.scope:
        return f"the very same request in step {message.scope!r}: the step was renamed or moved"
    return f"the very same request, but call number {message.occurrence + 1} and not {call.occurrence + 1}"


def _nearest(call: Call, recordings: Sequence[Recording]) -> tuple[MessageRecord, bytes, Recording] | None:
    """The recorded message of this endpoint that agrees most; the scope's own ones come first."""
    candidates = [
        (message, recording)
        for recording in recordings
        for message in recording.messages
        if message.endpoint == call.endpoint
    ]
    candidates.sort(key=lambda pair: (pair[0].scope != call.scope, pair[0].exact_key != call.exact_key))
    best: tuple[MessageRecord, bytes, Recording] | None = None
    best_score: tuple[bool, bool, bool, int, int] | None = None
    for message, recording in candidates[:_CANDIDATES]:
        try:
            body = recording.read(message.request_hash)
        except DatasetMissing:
            continue
        score = (
            message.exact_key == call.exact_key,
            message.semantic_key == call.semantic_key,
            message.scope == call.scope,
            _agreement(body, call.body),
            -abs(message.occurrence - call.occurrence),
        )
        if best_score is None or score > best_score:
            best, best_score = (message, body, recording), score
    return best


def _agreement(before: bytes, after: bytes) -> int:
    """How much two requests have in common; each equal leading message counts as much as a parameter."""
    old, new = _object(before), _object(after)
    if old is None or new is None:
        return 0
    total = sum(2 for name in old.keys() & new.keys() if _equal(old[name], new[name]))
    for name in _PROMPT_FIELDS:
        left, right = old.get(name), new.get(name)
        if isinstance(left, list) and isinstance(right, list):
            equal = [_equal(a, b) for a, b in zip(left, right, strict=False)]
            total += equal.index(False) if False in equal else len(equal)
        elif isinstance(left, str) and isinstance(right, str):
            total += 1 if left[:_EXCERPT] == right[:_EXCERPT] else 0
    return total


def _agreeing(before: bytes, after: bytes) -> list[str]:
    old, new = _object(before) or {}, _object(after) or {}
    return [name for name in _ordered(old, new) if _equal(old.get(name, _ABSENT), new.get(name, _ABSENT))]


def _ordered(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    rank = {"model": 0, "tools": 2, "functions": 2}
    names = list(dict.fromkeys([*new, *old]))
    return sorted(names, key=lambda name: rank.get(name, 3 if name in _PROMPT_FIELDS else 1))


def _field(name: str, old: Any, new: Any) -> Iterator[Difference]:
    if name == "model":
        yield Difference(cause="model", name="the model", before=_short(old), after=_short(new))
    elif name in {"tools", "functions"}:
        yield from _tools(old, new)
    elif name in _PROMPT_FIELDS:
        yield _prompt(name, old, new)
    else:
        path, left, right = _first(old, new)
        yield _made("parameter", f"parameter {name + path!r}", left, right)


def _tools(old: Any, new: Any) -> Iterator[Difference]:
    left, right = _named(old), _named(new)
    for name in dict.fromkeys([*left, *right]):
        if name not in right:
            yield Difference(cause="tools", name=f"tool {name!r} is gone")
        elif name not in left:
            yield Difference(cause="tools", name=f"tool {name!r} is new")
        elif not _equal(left[name], right[name]):
            path, a, b = _first(left[name], right[name])
            yield _made("tools", f"tool {name!r} at {path.lstrip('.')!r}", a, b)
    if left.keys() == right.keys() and list(left) != list(right):
        yield Difference(cause="tools", name="the order of the tools")


def _named(tools: Any) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        body = tool.get("function", tool) if isinstance(tool, dict) else {}
        name = body.get("name") if isinstance(body, dict) else None
        table[name if isinstance(name, str) else f"#{index}"] = tool
    return table


def _prompt(field: str, old: Any, new: Any) -> Difference:
    if not (isinstance(old, list) and isinstance(new, list)):
        path, left, right = _first(old, new)
        return _made("messages", f"the prompt ({field + path})", left, right)
    for index, (left, right) in enumerate(zip(old, new, strict=False)):
        if not _equal(left, right):
            path, a, b = _first(left, right)
            role = right.get("role") if isinstance(right, dict) else None
            if not isinstance(role, str):
                return _made("messages", f"{field}[{index}]{path}", a, b)
            return _made("messages", f"message {index} ({role}) at {path.lstrip('.') or 'its form'!r}", a, b)
    count = f"the count of {field}"
    return Difference(cause="messages", name=count, before=str(len(old)), after=str(len(new)))


def _first(old: Any, new: Any) -> tuple[str, Any, Any]:
    """Path of the first difference, and the two values there."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*new, *old]):
            left, right = old.get(name, _ABSENT), new.get(name, _ABSENT)
            if not _equal(left, right):
                path, a, b = _first(left, right)
                return f".{name}{path}", a, b
        return " (order of its fields)", _ABSENT, _ABSENT
    if isinstance(old, list) and isinstance(new, list):
        for index, (left, right) in enumerate(zip(old, new, strict=False)):
            if not _equal(left, right):
                path, a, b = _first(left, right)
                return f"[{index}]{path}", a, b
    return "", old, new


def _made(cause: Cause, name: str, old: Any, new: Any) -> Difference:
    if not (isinstance(old, str) and isinstance(new, str)):
        return Difference(cause=cause, name=name, before=_short(old), after=_short(new))
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    near = slice(max(0, start - 24), start + 24)
    volatile = bool(_VOLATILE.search(old[near]) and _VOLATILE.search(new[near]))
    before, after = _window(old, start), _window(new, start)
    return Difference(cause=cause, name=name, before=before, after=after, volatile=volatile)


def _window(text: str, start: int) -> str:
    begin = max(0, start - _EXCERPT // 3)
    piece = text[begin : begin + _EXCERPT]
    head, tail = "…" if begin else "", "…" if begin + _EXCERPT < len(text) else ""
    return f"{head}{piece!r}{tail}"


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = repr(value) if isinstance(value, str | bytes) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"


def _equal(left: Any, right: Any) -> bool:
    """Equal as JSON: ``true`` is not 1, and the order of an object's fields counts at depth (schemas)."""
    if left is _ABSENT or right is _ABSENT:
        return left is right
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, dict | list):
        return type(left) is type(right) and json.dumps(left) == json.dumps(right)
    return bool(left == right)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
