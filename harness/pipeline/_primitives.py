"""What schedules and what synchronises: which of it is state that a body may hang on."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Set as AbstractSet
from typing import Any

_LOCKS = (type(threading.Lock()), type(threading.RLock()), asyncio.Lock)
_SEMAPHORES = (threading.Semaphore, asyncio.Semaphore)
_CONDITIONS = (threading.Condition, asyncio.Condition)
_EVENTS = (threading.Event, asyncio.Event)
_QUEUES = (queue.Queue, asyncio.Queue)
_BY_HAND = frozenset({"acquire", "release", "locked", "acquire_lock", "release_lock", "_value", "_locked"})
_SIGNALS = frozenset({"wait", "wait_for", "notify", "notify_all"})


def is_primitive(value: Any) -> bool:
    """Whether it is a lock, an event, a queue, a loop: something that tasks and threads meet at."""
    kinds = (*_LOCKS, *_SEMAPHORES, *_CONDITIONS, *_EVENTS, *_QUEUES, asyncio.AbstractEventLoop)
    return isinstance(value, kinds) and type(value).__module__.partition(".")[0] in _OWN


_OWN = frozenset({"threading", "_thread", "asyncio", "queue", "uvloop"})


def state_of(value: Any, names: AbstractSet[str]) -> Any:
    """What of it counts, as a value; ``None`` when it cannot be told.

    A lock or a semaphore that the code only ever enters by ``with`` is as it was when the body returns, so it counts
    for nothing; one that is taken and released by hand may be a signal to another step.

    Args:
        value: What ``is_primitive`` accepted.
        names: Attributes that the code names.
    """
    if isinstance(value, asyncio.AbstractEventLoop):
        return "loop"
    if isinstance(value, _EVENTS):
        return value.is_set()
    if isinstance(value, _QUEUES):
        held = getattr(value, "queue", None)
        items = list(held if held is not None else getattr(value, "_queue", ()))
        return [value.maxsize, items, getattr(value, "unfinished_tasks", getattr(value, "_unfinished_tasks", None))]
    if isinstance(value, _CONDITIONS):
        return None if _SIGNALS & names else "condition"
    if not _BY_HAND & names:
        return "held by with"
    if isinstance(value, _SEMAPHORES):
        return value._value  # noqa: SLF001 - there is no public name for it
    return _is_held(value)


def _is_held(lock: Any) -> bool:
    locked = getattr(lock, "locked", None)
    return bool(locked() if locked is not None else lock._is_owned())  # noqa: SLF001 - an RLock tells no other way
