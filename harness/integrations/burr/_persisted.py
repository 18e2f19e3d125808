"""States that a Burr persister keeps: forking from them, and reading them again in a replay."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from burr.core.application import ApplicationBuilder
from burr.core.persistence import BaseStateLoader
from burr.core.state import State
from burr.lifecycle.internal import LifecycleAdapterSet

from harness.errors import ChangeError, UsageError
from harness.integrations.burr._execution import placed
from harness.integrations.burr._reads import public, values_of
from harness.pipeline import tool
from harness.session import current, current_block, entered


def fork_from(
    builder: ApplicationBuilder[Any],
    persister: BaseStateLoader,
    *,
    app_id: str,
    sequence_id: int,
    entrypoint: str,
    override: Mapping[str, Any] | None = None,
    partition_key: str | None = None,
) -> ApplicationBuilder[Any]:
    """Have a builder start from a persisted state, at the action after it, with at most one value changed.

    Args:
        builder: A builder with its graph, and an app id other than ``app_id``.
        persister: Where the states are, for example a ``SQLitePersister``.
        app_id: The application to fork.
        sequence_id: The sequence whose state to start from; the next action runs first, or the same one if it failed.
        entrypoint: Burr asks for one; a fork does not start there.
        override: The one state value to change.
        partition_key: The application's partition.

    A replay takes the state from its recording, so that the database need not hold it any more.

    Returns:
        The builder, to go on with.

    Raises:
        UsageError: There is no such application or sequence. Burr itself would start from the default state.
        ChangeError: More than one value is to be changed, or one that the state does not hold.
    """
    override = dict(override or {})
    if len(override) > 1:
        raise ChangeError(f"a fork changes one state value, not {', '.join(sorted(map(repr, override)))}")
    partition: Any = partition_key
    if not dry():
        _require(persister, app_id, sequence_id, override, partition)
    return builder.initialize_from(
        persister,
        resume_at_next_action=True,
        default_state={},
        default_entrypoint=entrypoint,
        fork_from_app_id=app_id,
        fork_from_partition_key=partition,
        fork_from_sequence_id=sequence_id,
        override_state_values=override,
    )


def _require(
    persister: BaseStateLoader, app_id: str, sequence_id: int, override: Mapping[str, Any], partition: Any
) -> None:
    where = f"app {app_id!r}" + (f" of partition {partition!r}" if partition else "")
    latest = persister.load(partition, app_id)
    if latest is None:
        raise UsageError(f"the persister holds no {where}; `persister.list_app_ids({partition!r})` shows what it holds")
    found = persister.load(partition, app_id, sequence_id)
    if found is None:
        last = latest["sequence_id"]
        raise UsageError(f"the persister holds no sequence {sequence_id} of {where}; its last one is {last}")
    held = sorted(public(found["state"]))
    for name in override:
        if name not in held:
            raise ChangeError(
                f"sequence {sequence_id} of {where} has no state value {name!r}; it has: {', '.join(held)}"
            )


def dry() -> bool:
    """Whether the current run is one that leaves the world alone: a replay, a fork, an experiment."""
    frame = current()
    return frame is not None and frame.run.plan.dry


def hooks(original: Callable[..., Any]) -> Callable[..., Any]:
    """The application's hooks and trackers do not run where nothing may change, unless their class says they may."""

    @functools.wraps(original)
    def call(adapters: Any, *args: Any, **kwargs: Any) -> Any:
        block, frame = current_block(), current()
        plan = frame.run.plan if frame is not None else block.plan if block is not None else None
        if plan is not None and plan.dry:
            kept = [adapter for adapter in adapters.adapters if _may_run(type(adapter))]
            adapters = LifecycleAdapterSet(*kept)
        return original(adapters, *args, **kwargs)

    return call


def _may_run(kind: type) -> bool:
    # A persister's hook reads as well; that it writes nothing is seen to below.
    return kind.__module__ == "burr.core.persistence" or getattr(kind, "__goldfork_dry__", False) is True


def building(original: Callable[..., Any]) -> Callable[..., Any]:
    """A replay or fork is not tracked: Burr's own page would show it as another run of the application."""

    @functools.wraps(original)
    def build(builder: Any) -> Any:
        if dry():
            builder.lifecycle_adapters = [
                adapter for adapter in builder.lifecycle_adapters if adapter is not builder.tracker
            ]
        return original(builder)

    return build


def saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """A replay or fork writes nothing into the application's own database."""

    @functools.wraps(original)
    def save(hook: Any, *args: Any, **kwargs: Any) -> None:
        if not dry():
            original(hook, *args, **kwargs)

    return save


def saving_async(original: Callable[..., Any]) -> Callable[..., Any]:
    """As ``saving``, for async persisters."""

    @functools.wraps(original)
    async def save(hook: Any, *args: Any, **kwargs: Any) -> None:
        if not dry():
            await original(hook, *args, **kwargs)

    return save


class _Loader:
    """A persister whose answers are recorded, and given again in a replay."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load(self, partition_key: Any, app_id: Any, sequence_id: Any = None, **kwargs: Any) -> Any:
        """As the persister's own; an id made afresh on every run does not tell one load from another."""

        @tool(name="load_state", determinism="time-bound", version="burr")
        def load(sequence_id: Any) -> Any:
            return _plain(self._inner.load(partition_key, app_id, sequence_id, **kwargs))

        return _loaded(load(sequence_id))


class _AsyncLoader(_Loader):
    """As ``_Loader``, for async persisters."""

    async def load(self, partition_key: Any, app_id: Any, sequence_id: Any = None, **kwargs: Any) -> Any:
        """As the persister's own."""

        @tool(name="load_state", determinism="time-bound", version="burr")
        async def load(sequence_id: Any) -> Any:
            return _plain(await self._inner.load(partition_key, app_id, sequence_id, **kwargs))

        return _loaded(await load(sequence_id))


def _plain(found: Any) -> Any:
    """What a persister gave, as a snapshot can hold it."""
    return found and {**found, "state": found["state"] and values_of(found["state"])}


def _loaded(found: Any) -> Any:
    return found and {**found, "state": None if found["state"] is None else State(found["state"])}


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """A builder that starts from a persisted state inside a run: which one is part of the recording."""

    @functools.wraps(original)
    def load(builder: Any) -> None:
        with _recorded(builder, _Loader):
            original(builder)

    return load


def loading_async(original: Callable[..., Any]) -> Callable[..., Any]:
    """As ``loading``, for async persisters."""

    @functools.wraps(original)
    async def load(builder: Any) -> None:
        with _recorded(builder, _AsyncLoader):
            await original(builder)

    return load


@contextlib.contextmanager
def _recorded(builder: Any, kind: type[_Loader]) -> Iterator[None]:
    frame = placed(builder.app_id)
    if frame is None:
        yield
        return
    own = builder.state_initializer
    builder.state_initializer = kind(own)
    try:
        with entered(frame):
            yield
    finally:
        builder.state_initializer = own
