"""What a tool raised, as a snapshot, and the same error again."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from harness.canonical import canonical_json, content_hash, from_canonical
from harness.errors import RecordingMissing
from harness.pipeline._codec import TAG, Encoder, NotReusable, decode
from harness.pipeline._ownership import is_application
from harness.pipeline._snapshot import Snapshot, guarded
from harness.session import RunState, current

_KIND = "error"
_NOTES = "__notes__"


def raised_snapshot(error: BaseException, run: RunState) -> Snapshot | None:
    """Class, arguments and attributes of an error; ``None`` where they cannot be read.

    What it was raised from is not part of it.
    """
    try:
        data = run.masked(guarded(lambda: _written(error)))
    except NotReusable:
        return None
    return Snapshot(data, content_hash(data))


def raised_again(data: bytes) -> Exception:
    """The error that a snapshot was taken of, equal in class, arguments and attributes.

    No code of its class is called, and nothing is imported. An attribute that could not be recorded stops the run
    when it is read.

    Raises:
        NotReusable: Its class is not loaded here, or it holds what no snapshot holds; the text names the class.
    """
    return guarded(lambda: _made(from_canonical(data)["v"]))


def _written(error: BaseException) -> bytes:
    kind = type(error)
    lost: list[str] = []
    body: dict[str, Any] = {"type": f"{kind.__module__}:{kind.__qualname__}", "args": _arguments(error)}
    try:
        body["args"] = Encoder().encode(list(body["args"]))
    except NotReusable:
        body["args"] = []
        lost.append("args")
    for name, held in (("state", dict(vars(error))), ("fields", dict(_fields(error)))):
        kept = {}
        for key, value in held.items():
            try:
                kept[key] = Encoder().encode(value)
            except NotReusable:
                lost.append(key)
        body |= {name: kept} if kept else {}
    body |= {"lost": sorted(lost)} if lost else {}
    return canonical_json({TAG: _KIND, "v": body})


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """Its ``args``, with the file names that an ``OSError`` keeps apart from them."""
    if not isinstance(error, OSError) or error.filename is None:
        return error.args
    more = (None, error.filename2) if error.filename2 is not None else ()
    return (*error.args[:2], error.filename, *more)


def _builtin(kind: type) -> type[BaseException]:
    """The class of the interpreter that an error's class is made from, which alone may be called."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and issubclass(base, BaseException))


def _descriptors(kind: type) -> Iterator[tuple[str, Any]]:
    for base in kind.__mro__:
        if base in {BaseException, object}:
            continue
        for name, held in vars(base).items():
            if isinstance(held, MemberDescriptorType | GetSetDescriptorType) and not name.startswith("__"):
                yield name, held


def _fields(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What is kept in slots, not in ``__dict__``, and is not empty."""
    for name, descriptor in _descriptors(type(error)):
        try:
            value = descriptor.__get__(error)
        except AttributeError:
            continue
        if value is not None:
            yield name, value


def _made(body: Mapping[str, Any]) -> Exception:
    name = str(body["type"])
    kind = _class(name)
    lost = list(map(str, body.get("lost", ())))
    _require_whole(kind, name, lost)
    arguments = decode(body["args"])
    state = {key: decode(value) for key, value in body.get("state", {}).items()}
    if any(key.startswith("__") and key != _NOTES for key in state):
        raise NotReusable(f"{name} has no attribute {min(state)!r}")
    base = _builtin(kind)
    try:
        made = base.__new__(_with_gaps(kind, name, lost) if lost else kind, *arguments)
        base.__init__(made, *arguments)
    except TypeError as error:
        raise NotReusable(f"{name} is not made from its recorded arguments: {error}") from error
    descriptors = dict(_descriptors(kind))
    for key, value in body.get("fields", {}).items():
        descriptors[key].__set__(made, decode(value))
    vars(made).update(state)
    if not lost and _written(made) != canonical_json({TAG: _KIND, "v": body}):
        raise NotReusable(f"{name} does not come back equal")
    return made


def _class(name: str) -> type[Exception]:
    """The loaded class of that name; one that is no ``Exception`` (``SystemExit``) is never raised for a recording."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = None if found is None else vars(found).get(part)
    if not isinstance(found, type) or not issubclass(found, Exception):
        raise NotReusable(f"{name} is no exception class that is loaded here")
    return found


def _require_whole(kind: type, name: str, lost: list[str]) -> None:
    """Refuse an error that lacks something, unless reading what it lacks can be told and stopped."""
    if not lost:
        return
    # A class below one of the application's own would be seen by it, and by the digest of what its steps hang on.
    seen = is_application(kind.__module__) or any("__init_subclass__" in vars(base) for base in kind.__mro__[:-1])
    if "args" in lost or seen or type(kind) is not type:
        raise NotReusable(f"{name} holds values that cannot be serialised: {', '.join(lost)}")


def _with_gaps(kind: type[Exception], name: str, lost: list[str]) -> type[Exception]:
    """The class with attributes that stop the run when they are read; in all else as the class itself."""

    def gap(attribute: str) -> property:
        def read(self: Any) -> Any:
            del self
            text = (
                f"attribute {attribute!r} of a recorded {name} could not be serialised, so a replay cannot give it; "
                "have the tool turn the error into one with plain attributes"
            )
            if (frame := current()) is not None:
                frame.run.misses.append(text)
            raise RecordingMissing(text)

        return property(read)

    # Of a built-in error it is what Python itself looks at for a traceback, such as the object of an AttributeError.
    own = {attribute: gap(attribute) for attribute in lost if not hasattr(_builtin(kind), attribute)}
    body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, **own}
    return type(kind.__name__, (kind,), body)
