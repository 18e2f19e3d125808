"""LangGraph's own values in snapshots."""

from __future__ import annotations

from typing import Any

from langgraph.types import Interrupt, Send

from harness.pipeline import NotReusable, register_codec


def teach() -> None:
    """Let ``Send`` and ``Interrupt`` stand in what a node or graph returned."""
    register_codec(Send, name="langgraph:Send", encode=_sent, decode=_send)
    register_codec(Interrupt, name="langgraph:Interrupt", encode=_interrupted, decode=_refuse)


def _sent(packet: Any) -> list[Any]:
    return [packet.node, packet.arg, packet.timeout]


def _send(body: Any) -> Any:
    node, arg, timeout = body
    return Send(node, arg, timeout=timeout)


def _interrupted(pause: Any) -> list[Any]:
    # Its id is made of the checkpoint's, which is made of the time.
    return [pause.value]


def _refuse(body: Any) -> Any:
    del body
    raise NotReusable("an interrupt is not turned back into one")
