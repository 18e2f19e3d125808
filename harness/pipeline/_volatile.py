"""Declared volatile values: what differs from run to run without being a change. They are replayed."""

from __future__ import annotations

import random as _random
import uuid as _uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from harness.errors import RecordingMissing
from harness.record import VolatileRecord
from harness.session import Mode, SystemClock, current, refuse_lost


def now() -> datetime:
    """The aware UTC time; in a replay, the recorded one."""
    frame = current()
    clock = frame.run.plan.clock if frame else SystemClock()
    return datetime.fromisoformat(_value("now", lambda: clock.now().isoformat()))


def uuid() -> _uuid.UUID:
    """A random UUID; in a replay, the recorded one."""
    return _uuid.UUID(_value("uuid", lambda: str(_uuid.uuid4())))


def random() -> float:
    """A random number in [0, 1); in a replay, the recorded one."""
    return float(_value("random", lambda: repr(_random.random())))  # noqa: S311 - not for secrets


def _value(name: str, fresh: Callable[[], str]) -> Any:
    """The recorded value of this occurrence in this scope, else a fresh one, which is recorded.

    Values are kept as text, so that they can be found again inside a request.
    """
    frame = current()
    if frame is None:
        refuse_lost(f"harness.{name}()")
        return fresh()
    run, scope = frame.run, frame.scope
    occurrence = run.occurrence("volatile", scope, name)
    resolver = run.plan.resolver
    found = resolver.volatile(scope, name, occurrence) if resolver else None
    if found is None and run.plan.mode is Mode.REPLAY:
        text = (
            f"harness.{name}() is called for the {occurrence + 1}. time in {scope or 'the root step'!r}, "
            "but the recording holds fewer; the code has changed there"
        )
        run.misses.append(text)
        raise RecordingMissing(text)
    value = found.value if found is not None else fresh()
    step = frame.step.record.id
    run.emit(VolatileRecord(run_id=run.id, step_id=step, scope=scope, name=name, occurrence=occurrence, value=value))
    return value
