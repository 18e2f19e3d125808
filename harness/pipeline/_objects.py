"""What objects hold, and which of them hold nothing that counts."""

from __future__ import annotations

import re
from typing import Any

_CLIENTS = re.compile(r"(openai|anthropic|httpx2?)\..*(Client|OpenAI|Anthropic\w*)\Z")
_SCHEDULING = frozenset({"asyncio.locks", "asyncio.queues", "concurrent.futures.thread", "concurrent.futures.process"})
"""Clients, whose requests and answers are recorded, and what schedules: their state does not count."""


def is_opaque(kind: type) -> bool:
    """Clients, and classes that say of themselves that their state does not count: ``__goldfork_opaque__ = True``."""
    if getattr(kind, "__goldfork_opaque__", False) is True or kind.__module__ in _SCHEDULING:
        return True
    return any(_CLIENTS.match(f"{base.__module__}.{base.__qualname__}") for base in kind.__mro__)


def fields_of(value: Any) -> dict[str, Any]:
    """What an object holds, in its dict and its slots."""
    fields = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                fields[name] = getattr(value, name)
    return fields
