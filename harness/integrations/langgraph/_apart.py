"""What production keeps, threads and long-term memory, kept from being written by a run that must change nothing."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchOp
from langgraph.store.memory import InMemoryStore

from harness.session import RunState, current

_stand_ins: WeakKeyDictionary[RunState, dict[int, tuple[Any, Any]]] = WeakKeyDictionary()
"""Of each run, what stands in for a saver or a store, by the id of the real one, which is held beside it."""

forks_of_threads: WeakSet[Pregel[Any, Any, Any, Any]] = WeakSet()
"""Graphs that go on in a thread of their own, which was made for them where the real threads are."""
STATE_METHODS = (
    *("get_state", "get_state_history", "update_state", "bulk_update_state"),
    *("aget_state", "aget_state_history", "aupdate_state", "abulk_update_state"),
)
"""Methods of a graph that read or write its threads without running it."""


class Threads(InMemorySaver):
    """The threads of one run, in memory; never taken for production's."""


class Overlay(BaseStore):
    """A store that is read through to the real one, and written in memory only."""

    def __init__(self, real: BaseStore) -> None:
        self._real = real
        self._made = InMemoryStore()
        self._touched: set[tuple[tuple[str, ...], str]] = set()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations in order; writes go to memory."""
        return [self._one(op, self._real.batch([self._wider(op)])[0] if self._asks(op) else None) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As ``batch``."""
        return [
            self._one(op, (await self._real.abatch([self._wider(op)]))[0] if self._asks(op) else None) for op in ops
        ]

    def _asks(self, op: Op) -> bool:
        if isinstance(op, GetOp):
            return (op.namespace, op.key) not in self._touched
        return not isinstance(op, PutOp)

    def _wider(self, op: Op) -> Op:
        """A page from the beginning, so long that a page is left when what was written here has taken its place."""
        if not isinstance(op, SearchOp | ListNamespacesOp):
            return op
        return op._replace(limit=op.limit + op.offset + len(self._touched), offset=0)

    def _one(self, op: Op, found: Any) -> Any:
        if isinstance(op, PutOp):
            self._touched.add((op.namespace, op.key))
        own: Any = self._made.batch([self._wider(op)])[0]
        if isinstance(op, PutOp):
            return None
        if isinstance(op, GetOp):
            return own if (op.namespace, op.key) in self._touched else found
        if isinstance(op, ListNamespacesOp):
            return sorted({*found, *own})[op.offset : op.offset + op.limit]
        return self._merged(op, found, own)

    def _merged(self, op: SearchOp, found: list[Any], own: list[Any]) -> Any:
        kept: list[Item] = [item for item in found if (item.namespace, item.key) not in self._touched]
        return [*own, *kept][op.offset : op.offset + op.limit]


def apart(graph: Any) -> Any:
    """The graph as the run under way may use it: in a dry run its threads and its store are copies.

    Threads begin empty, since the real ones went on after the recording; a store is read through.
    """
    frame = current()
    if frame is None or not frame.run.plan.dry:
        return graph
    saver, store = graph.checkpointer, graph.store
    used = graph
    own = isinstance(saver, Threads) or graph in forks_of_threads
    if isinstance(saver, BaseCheckpointSaver) and not own:
        used = copy.copy(used)
        used.checkpointer = _stand_in(frame.run, saver, Threads)
    if isinstance(store, BaseStore) and not isinstance(store, Overlay):
        used = copy.copy(used) if used is graph else used
        used.store = _stand_in(frame.run, store, lambda: Overlay(store))
    return used


def _stand_in(run: RunState, real: Any, make: Callable[[], Any]) -> Any:
    known = _stand_ins.setdefault(run, {})
    return known.setdefault(id(real), (real, make()))[1]


def kept_apart(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method of ``STATE_METHODS``; inside a dry run, of the graph's copy."""

    @functools.wraps(original)
    def method(self: Pregel[Any, Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        return original(apart(self), *args, **kwargs)

    return method
