"""Continuing from a checkpoint with one value of the state changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, copy_checkpoint
from langgraph.checkpoint.base.id import uuid6

from harness import pipeline
from harness.errors import ChangeError, UsageError
from harness.integrations.langgraph._apart import forks_of_threads
from harness.integrations.langgraph._install import install
from harness.record import Recording
from harness.replay import RunOutcome, live_run, replay_run
from harness.session import Mode, Sink


def fork_from(
    graph: Any,
    checkpointer: BaseCheckpointSaver[Any],
    thread_id: str,
    checkpoint_id: str,
    *,
    override: Mapping[str, Any],
    run: Recording | str | None = None,
    mode: Mode | str = Mode.AUTO,
    sink: Sink | None = None,
) -> RunOutcome:
    """Run what follows a checkpoint, with values of its state replaced (a reducer is not applied to them).

    The fork has a thread of its own: the thread that it was forked from stays as it is. Nothing before the checkpoint
    is executed. What a nested graph with a checkpointer of its own remembered is not taken along.

    Args:
        graph: The compiled graph, with or without a checkpointer.
        checkpointer: Where the checkpoint is; it is looked up before anything runs.
        thread_id: The thread.
        checkpoint_id: The checkpoint within it.
        override: New values by state key.
        run: The recording of the run that wrote the checkpoint, or a reference to it. Model calls that the override
            leaves equal are answered from it; without it all are made.
        mode: With ``run``: ``auto`` makes calls that were not recorded, ``replay`` refuses them.
        sink: Where the new run is recorded; nowhere by default.

    Returns:
        The outcome; its ``metadata`` names the new thread and checkpoint.

    Raises:
        UsageError: There is no such checkpoint, or nothing follows it.
        ChangeError: The state has no such key, or its value cannot be replaced.
    """
    found = _found(checkpointer, thread_id, checkpoint_id)
    _require_keys(graph, override)
    forked = copy.copy(graph)
    forked.checkpointer = checkpointer
    forks_of_threads.add(forked)
    config = _written(forked, found, override)
    if not forked.get_state(config).next:
        raise UsageError(f"checkpoint {checkpoint_id!r} of thread {thread_id!r} ends its run; take an earlier one")
    if run is None:
        outcome = live_run(_continuing(forked, config, None), {}, sink=sink)
    else:
        workflow = run.run.workflow if isinstance(run, Recording) else None
        outcome = replay_run(run, target=_continuing(forked, config, workflow), mode=mode, sink=sink)
    return replace(outcome, metadata={**outcome.metadata, **config["configurable"]})


def _found(checkpointer: BaseCheckpointSaver[Any], thread_id: str, checkpoint_id: str) -> CheckpointTuple:
    wanted = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    found = checkpointer.get_tuple({"configurable": wanted})
    if found is None:
        thread: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        ids = [known.checkpoint["id"] for known in checkpointer.list(thread, limit=5)]
        has = f"its latest: {', '.join(ids)}" if ids else "it has none"
        raise UsageError(
            f"thread {thread_id!r} has no checkpoint {checkpoint_id!r} here ({has}); name one that is there"
        )
    return found


def _require_keys(graph: Any, override: Mapping[str, Any]) -> None:
    known = {name: channel for name, channel in graph.channels.items() if name in graph.builder.channels}
    if not override:
        raise ChangeError("nothing is overridden; name a state key and its new value")
    for name, value in override.items():
        if name not in known:
            raise ChangeError(f"the state has no key {name!r}; it has: {', '.join(sorted(known)) or 'none'}")
        held = known[name].from_checkpoint(value)
        if held.checkpoint() is not value and held.checkpoint() != value:
            kind = type(known[name]).__name__
            raise ChangeError(
                f"the value of {name!r} is kept by a {kind}, which cannot be overridden; take another key"
            )


def _written(graph: Any, found: CheckpointTuple, override: Mapping[str, Any]) -> Any:
    """Write the changed checkpoint as the first one of a thread of its own."""
    checkpointer = graph.checkpointer
    checkpoint = copy_checkpoint(found.checkpoint)
    checkpoint["id"] = str(uuid6())
    checkpoint["ts"] = datetime.now(UTC).isoformat()
    for name, value in override.items():
        checkpoint["channel_values"][name] = value
        now = checkpoint["channel_versions"].get(name)
        checkpoint["channel_versions"][name] = checkpointer.get_next_version(now, None)
    thread = f"{found.config['configurable']['thread_id']}-fork-{checkpoint['id']}"
    metadata = {**found.metadata, "source": "fork"}
    config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    return checkpointer.put(config, checkpoint, metadata, dict(checkpoint["channel_versions"]))


def _continuing(graph: Any, config: Any, workflow: str | None) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        with install():
            if workflow is None or workflow == graph.get_name():
                return graph.invoke(None, config)
            with pipeline.workflow(workflow) as block:
                block.output = graph.invoke(None, config)
            return block.output

    call.__name__ = workflow or graph.get_name()
    call.__goldfork__ = "workflow"  # type: ignore[attr-defined]  # a mark for replay
    return call
