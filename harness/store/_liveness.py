"""Whether the process that owns a run still runs it."""

from __future__ import annotations

import math
import os
import socket
import time
from datetime import datetime, timedelta
from pathlib import Path

_SILENT = timedelta(minutes=1)
_CLOCK_SLACK_MS = 5_000


def abandoned(owner: str, heartbeat_at: datetime | None, now: datetime) -> bool:
    """Whether a run that says ``running`` is run by nobody.

    Args:
        owner: ``host:pid:start`` of its process, start in milliseconds since 1970.
        heartbeat_at: When that process last said that it is alive.
        now: The aware time to compare with.
    """
    match owner.rsplit(":", 2):
        case [host, pid, start] if host == socket.gethostname() and pid.isdigit() and start.isdigit():
            if _gone(int(pid), int(start)):
                return True
    return heartbeat_at is None or now - heartbeat_at > _SILENT


def _gone(pid: int, start_ms: int) -> bool:
    """No such process, or another one that started later and got the same number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    started = _started_ms(pid)
    return started is not None and started > start_ms + _CLOCK_SLACK_MS


def _started_ms(pid: int) -> float | None:
    """When a living process started, where the system says so; a dead one not yet waited for never did."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        if fields[0] == "Z":
            return math.inf
        ticks = float(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return (time.time() - uptime + ticks) * 1000
