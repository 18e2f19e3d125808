"""Ids that order by time, and the name of this process."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A time-ordered UUID (version 7, RFC 9562), strictly growing within the process.

    The twelve bits after the time count within a millisecond.
    """
    global _last  # noqa: PLW0603 - one clock per process keeps ids ordered across threads
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        milliseconds, counter = _last >> 12, _last & 0xFFF
    value = (milliseconds << 80) | (0x7 << 76) | (counter << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=value))


_START = time.time_ns() // 1_000_000


def process_owner() -> str:
    """``host:pid:start`` of this process; survives neither a restart nor a reused pid."""
    return f"{socket.gethostname()}:{os.getpid()}:{_START}"


def lane() -> tuple[int, int]:
    """The thread and the task that the calling code runs in; no task is 0."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.get_ident(), id(task) if task is not None else 0
