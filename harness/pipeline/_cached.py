"""What functions under ``functools.cache`` hold: objects that live on between steps."""

from __future__ import annotations

import gc
import marshal
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from harness.pipeline._codec import NotReusable
from harness.pipeline._objects import is_opaque
from harness.pipeline._snapshot import fixed

_LINK = "_lru_list_elem"
_first: WeakKeyDictionary[Any, dict[Any, bytes]] = WeakKeyDictionary()
"""By cached function and arguments: data as it was when first seen; empty when it may have been changed before."""


def results(wrapper: Any, *, changes: bool, size: Callable[[Any], str]) -> Iterator[str]:
    """What of a cached function's results counts, each as one digest.

    Values that cannot be changed and clients never count, and neither does plain data as long as it is what the
    function returned: whether it was called before is no difference. Objects always count, since they are where an
    application keeps its state.

    Args:
        wrapper: The cached function.
        changes: Whether the code around it changes containers, so that data may have been changed when it is first
            seen.
        size: Gives the digest of a value.
    """
    for key, result in _held(wrapper):
        if fixed(result) or is_opaque(type(result)):
            continue
        try:
            data = marshal.dumps(result, 2)
        except ValueError:
            yield f"object {size(result)}"
            continue
        first = _first.setdefault(wrapper, {}).setdefault(key, b"" if changes else data)
        if first != data:
            yield f"data {size(result)}"


def _held(wrapper: Any) -> list[tuple[Any, Any]]:
    """Keys and results; CPython shows them to its garbage collector only.

    Raises:
        NotReusable: This Python shows them in another way.
    """
    count = wrapper.cache_info().currsize
    if count == 0:
        return []
    shown = gc.get_referents(wrapper)
    table = next((each for each in shown if type(each) is dict and each is not vars(wrapper)), {})
    pairs = list(table.items())
    if any(type(item).__name__ == _LINK for item in table.values()):
        # A cache of limited size shows key, result and the type of its link, one after the other.
        places = [place for place, each in enumerate(shown) if isinstance(each, type) and each.__name__ == _LINK]
        pairs = [(shown[place - 2], shown[place - 1]) for place in places if place >= 2][:count]
    if len(pairs) != count or any(key not in table for key, _ in pairs):
        raise NotReusable(f"it cannot be told what the cache of {wrapper.__qualname__} holds")
    return pairs
