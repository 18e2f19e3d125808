"""What becomes of a call: answered from the recording, sent and recorded, passed through, or refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, NoReturn

from harness.canonical import RequestKeys
from harness.errors import (
    DatasetMissing,
    GoldforkError,
    LiveCallForbidden,
    RecordingExhausted,
    RecordingMissing,
    StatefulFork,
    StoreError,
    StoreOpenError,
)
from harness.gateway._explain import explain
from harness.gateway._live import LiveCall
from harness.gateway._outgoing import Outgoing
from harness.gateway._renamed import find_renamed, minted_ids
from harness.gateway._served import Served, serve
from harness.record import VolatileRecord
from harness.session import Call, Frame, Mode, RunState, call_frame

FORBID_LIVE = "GOLDFORK_FORBID_LIVE"
"""Environment variable that turns every live model call into ``LiveCallForbidden``."""

_HOSTED = "api.openai.com"
_REAL_KEY = len("Bearer ") + 20
"""Shorter is a stand-in such as ``no-key``, which a pipeline uses so that a replay needs none."""

_last: ContextVar[LiveCall | Served | None] = ContextVar("goldfork_last_call", default=None)
"""The call of this task or thread whose attempt failed: what an SDK's retry belongs to."""


def open_call(outgoing: Outgoing, *, whole_client: bool) -> tuple[Outgoing, LiveCall | Served | None]:
    """Decide about a request before it is sent; call it when the call starts.

    Args:
        outgoing: The request.
        whole_client: The client is ours: in replay nothing of it may reach a socket, and every POST is recorded.

    Returns:
        The request as it is to be sent, and the call; ``None`` for one that passes through unrecorded.

    Raises:
        RecordingMissing: Replay, and the recording does not hold it (``RecordingExhausted``: no more of it).
        LiveCallForbidden: It would have to go out and the environment forbids that.
        StatefulFork: It continues a recorded response at a live provider.
    """
    frame = _frame(outgoing)
    mode = frame.run.plan.mode
    if mode is Mode.OFF:
        return outgoing, None
    if not (outgoing.is_model_call or (whole_client and outgoing.method == "POST")):
        if mode is Mode.REPLAY and whole_client:
            _miss(frame.run, RecordingMissing, _unrecordable(outgoing))
        return outgoing, None
    outgoing = outgoing.changed(frame)
    return outgoing, _model_call(outgoing, frame, mode)


def open_local(outgoing: Outgoing) -> tuple[Outgoing, LiveCall | Served | None]:
    """As ``open_call``, for what this process computes itself: nothing leaves it, so nothing is forbidden."""
    frame = _frame(outgoing)
    mode = frame.run.plan.mode
    return outgoing, None if mode is Mode.OFF else _model_call(outgoing, frame, mode, local=True)


def _frame(outgoing: Outgoing) -> Frame:
    """Where the call belongs."""
    try:
        return call_frame(f"{outgoing.method} {outgoing.path}")
    except StoreOpenError as error:
        raise StoreError(str(error)) from error
    except GoldforkError as error:
        # An exception raised inside a transport is retried and wrapped by SDKs; a stop is not.
        raise RecordingMissing(str(error)) from error


def _model_call(outgoing: Outgoing, frame: Frame, mode: Mode, *, local: bool = False) -> LiveCall | Served:
    run = frame.run
    run.keep_secret(outgoing.credentials.forms)
    volatile = declared(list(run.volatile), frame.scope)
    keys = outgoing.keys(volatile)
    earlier = _last.get()
    if outgoing.retry and earlier is not None and _same(earlier, frame, keys.exact):
        if isinstance(earlier, LiveCall):
            earlier.repeat()
        return earlier
    call = Call(
        scope=frame.scope,
        method=outgoing.method,
        endpoint=keys.endpoint,
        exact_key=keys.exact,
        semantic_key=keys.semantic,
        occurrence=run.occurrence("message", frame.scope, keys.exact),
        body=outgoing.stored,
    )
    resolver = run.plan.resolver
    answer = resolver.message(call) if resolver is not None and mode is not Mode.LIVE else None
    if answer is not None:
        try:
            served = serve(answer, frame, outgoing, keys, call.occurrence)
        except DatasetMissing as error:
            _miss(run, RecordingMissing, f"message {answer.message.id!r} has lost its content: {error}")
        remember(served, served.exchange.status)
        return served
    if mode is not Mode.LIVE and (renamed := _renamed(call, frame, outgoing, keys, volatile)) is not None:
        return renamed
    if mode is Mode.REPLAY:
        used = resolver.recorded(call) if resolver is not None else 0
        kind = RecordingExhausted if used else RecordingMissing
        _miss(run, kind, explain(call, resolver.recordings if resolver else (), used=used))
    if not local:
        _may_go_out(outgoing, run)
    return LiveCall(frame, outgoing, keys, call.occurrence)


_renaming = threading.Lock()
"""Two calls at once are not given the same recorded answer."""


def _renamed(
    call: Call, frame: Frame, outgoing: Outgoing, keys: RequestKeys, volatile: list[tuple[str, str]]
) -> Served | None:
    with _renaming:
        found = find_renamed(call, frame.run, outgoing, volatile)
        if found is None:
            return None
        try:
            served = serve(found.answer, frame, outgoing, keys, call.occurrence, names=found.names)
        except DatasetMissing:
            return None
    remember(served, served.exchange.status)
    return served


def declared(volatile: Iterable[VolatileRecord], scope: str) -> list[tuple[str, str]]:
    """Those values of a call's step and of the steps around it, in an order that parallel steps cannot change."""
    values = [value for value in volatile if is_declared(value, scope)]
    values.sort(key=lambda value: (len(value.scope), value.name, value.occurrence))
    return [(value.name, str(value.value)) for value in values]


def is_declared(value: VolatileRecord, scope: str) -> bool:
    """Whether a value counts as declared for the calls of a step: its own, or of a step around it."""
    if value.scope and not f"{scope}/".startswith(f"{value.scope}/"):
        return False
    return not value.name.startswith(("prompt:", "prompt-source:"))


def remember(call: LiveCall | Served, status: int | None) -> None:
    """Keep a failed attempt in mind, in case the SDK repeats it."""
    _last.set(call if status is None or status >= 400 else None)


def deliver(run: RunState, commit: Future[None] | None, reply: bytes) -> None:
    """Wait until a reply is stored.

    Raises:
        StoreError: It could not be stored and the plan says ``raise``; it carries ``reply``.
    """
    if commit is not None:
        run.deliver(commit, reply=reply)


async def deliver_async(run: RunState, commit: Future[None] | None, reply: bytes) -> None:
    """Wait until a reply is stored, without blocking the event loop.

    Raises:
        StoreError: It could not be stored and the plan says ``raise``; it carries ``reply``.
    """
    if commit is None:
        return
    if not commit.done() and _in_asyncio():
        # asyncio.wait leaves the commit alone when this task is cancelled; awaiting it would cancel the write.
        await asyncio.wait([asyncio.ensure_future(_settled(commit))])
    run.deliver(commit, reply=reply)


async def _settled(commit: Future[None]) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def wake(_: Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may have been closed in the meantime
            loop.call_soon_threadsafe(settle)

    commit.add_done_callback(wake)
    await done


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _same(earlier: LiveCall | Served, frame: Frame, exact_key: str) -> bool:
    record = earlier.record if isinstance(earlier, LiveCall) else earlier.message
    return (record.run_id, record.scope, record.exact_key) == (frame.run.id, frame.scope, exact_key)


def _miss(run: RunState, kind: type[RecordingMissing], text: str) -> NoReturn:
    run.misses.append(text)
    raise kind(text)


def _unrecordable(outgoing: Outgoing) -> str:
    return (
        f"{outgoing.method} {outgoing.path} is not a model call, so no recording answers it; "
        "keep it out of what is replayed, or make it with a client that is not wrapped"
    )


def _may_go_out(outgoing: Outgoing, run: RunState) -> None:
    if os.environ.get(FORBID_LIVE) == "1":
        raise LiveCallForbidden(
            f"{outgoing.method} {outgoing.path} to {outgoing.provider} is not recorded and {FORBID_LIVE}=1 "
            "forbids live calls; replay a recording that holds it, or unset the variable"
        )
    if outgoing.provider == _HOSTED and len(dict(outgoing.headers).get("authorization", "")) < _REAL_KEY:
        raise LiveCallForbidden(
            f"{outgoing.method} {outgoing.path} would go to {_HOSTED} without a key; set OPENAI_API_KEY, "
            "or OPENAI_BASE_URL for a server of your own"
        )
    for what, identifier in _continues(outgoing.body):
        if _from_recording(what, identifier, run):
            raise StatefulFork(
                f"the request continues {what} {identifier!r}, which came from a recording, so the provider "
                f"cannot be asked to go on from it; send the conversation itself instead of {_FIELDS[what]}"
            )


_FIELDS = {
    "response": "previous_response_id",
    "conversation": "conversation",
    "item": "a reference to an item",
}
"""What the provider remembers, and the field of a request that names it."""


def _continues(body: bytes) -> Iterator[tuple[str, str]]:
    """What a request leaves to the provider's memory: a response, a conversation, items."""
    if not any(word in body for word in (b"previous_response_id", b'"conversation"', b"item_reference")):
        return
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return
    if not isinstance(data, dict):
        return
    conversation, items = data.get("conversation"), data.get("input")
    named = [
        ("response", data.get("previous_response_id")),
        ("conversation", conversation.get("id") if isinstance(conversation, dict) else conversation),
        *(
            ("item", item.get("id"))
            for item in (items if isinstance(items, list) else ())
            if isinstance(item, dict) and item.get("type") == "item_reference"
        ),
    ]
    yield from ((what, identifier) for what, identifier in named if isinstance(identifier, str))


def _from_recording(what: str, identifier: str, run: RunState) -> bool:
    for recording in run.plan.resolver.recordings if run.plan.resolver is not None else ():
        if what != "conversation":
            if identifier in minted_ids(recording):
                return True
            continue
        # Whatever was said in it since is in the provider's memory, and not what this run has seen.
        for message in recording.messages:
            with contextlib.suppress(DatasetMissing):
                if ("conversation", identifier) in _continues(recording.read(message.request_hash)):
                    return True
    return False
