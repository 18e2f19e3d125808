"""What objects hold, and which of them hold nothing that counts."""

from __future__ import annotations

import re
from types import (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any
from weakref import WeakKeyDictionary

_CLIENTS = re.compile(r"(openai|anthropic|httpx2?)\..*(Client|OpenAI|Anthropic\w*)\Z")
_SCHEDULING = frozenset({"concurrent.futures.thread", "concurrent.futures.process"})
"""Clients, whose requests and answers are recorded, and what schedules: their state does not count."""
_FOREIGN_DESCRIPTORS = (
    MethodDescriptorType,
    WrapperDescriptorType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
_hiding: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


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
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = _mangled(base, slot)
            if slot not in {"__dict__", "__weakref__"} and hasattr(value, name):
                fields[name] = getattr(value, name)
    return fields


def _mangled(owner: type, name: str) -> str:
    """What ``__name`` is called outside the class."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{owner.__name__.lstrip('_')}{name}" if private else name


def hides_state(base: type) -> bool:
    """Whether a class is written in C, so that its objects may hold what no field shows."""
    known = _hiding.get(base)
    if known is None:
        slots = vars(base).get("__slots__", ())
        shown = {
            "__dict__",
            "__weakref__",
            *(_mangled(base, name) for name in ([slots] if isinstance(slots, str) else slots)),
        }
        known = _hiding[base] = base is not object and any(
            isinstance(value, _FOREIGN_DESCRIPTORS) and value.__objclass__ is base and name not in shown
            for name, value in vars(base).items()
        )
    return known
