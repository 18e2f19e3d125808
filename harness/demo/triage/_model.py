"""The model behind the steps: any OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import harness

if TYPE_CHECKING:
    from openai import OpenAI

RECORDED_MODEL = "qwen2.5-coder-0.5b"
"""What the shipped recordings were made with; ``TRIAGE_MODEL`` names another."""

Turn = dict[str, str]


def user(content: str) -> Turn:
    """A turn of the user."""
    return {"role": "user", "content": content}


def assistant(content: str) -> Turn:
    """A turn of the model, as an example of what is wanted."""
    return {"role": "assistant", "content": content}


def ask(system: str, turns: Sequence[Turn], **options: Any) -> Any:
    """One chat completion.

    Args:
        system: The instruction.
        turns: Examples and the question.
        **options: Further parameters of the request.

    Returns:
        The message that the model answered.
    """
    client = _client(os.environ.get("OPENAI_BASE_URL"), os.environ.get("OPENAI_API_KEY"))
    messages: list[Any] = [{"role": "system", "content": system}, *turns]
    model = os.environ.get("TRIAGE_MODEL", RECORDED_MODEL)
    reply = client.chat.completions.create(model=model, messages=messages, **options)
    return reply.choices[0].message


def answer_schema(name: str, **properties: Any) -> dict[str, Any]:
    """A ``response_format`` for an object in which every property is required."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


@cache
def _client(base_url: str | None, key: str | None) -> OpenAI:
    """Made at first use; a replay sends nothing, and a local server takes any key."""
    from openai import OpenAI

    return harness.wrap(OpenAI(base_url=base_url or None, api_key=key or "no-key"))
