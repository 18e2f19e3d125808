"""How sure the judge's model was: the log-probability of its verdict against the best other one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluators._scale import Scale

_VALUE = re.compile(r'"verdict"\s*:\s*"?')


def margin(logprobs: Mapping[str, Any] | None, scale: Scale, verdict: object) -> float | None:
    """Log-probability of the first token of the verdict minus that of the likeliest other verdict.

    Args:
        logprobs: ``choices[0].logprobs`` of a chat completion, with ``top_logprobs``.
        scale: What a verdict may be.
        verdict: The verdict that was read.

    Returns:
        ``None`` when the server gave none, or the alternatives hold no other verdict.
    """
    token = _verdict_token(_tokens(logprobs))
    if token is None:
        return None
    ours, others = [], []
    for option in _options(token):
        meant = {value for text, value in scale.texts().items() if _begins(text, option["token"])}
        if meant == {verdict}:
            ours.append(option["logprob"])
        elif meant and verdict not in meant:
            others.append(option["logprob"])
    return max(ours) - max(others) if ours and others else None


def _tokens(logprobs: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, Sequence):
        return []
    return [token for token in content if isinstance(token, Mapping) and isinstance(token.get("token"), str)]


def _verdict_token(tokens: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The token with which the value of the last ``verdict`` key begins."""
    text = "".join(token["token"] for token in tokens)
    starts = [match.end() for match in _VALUE.finditer(text)]
    end = 0
    for token in tokens:
        end += len(token["token"])
        if starts and end > starts[-1]:
            return token
    return None


def _options(token: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    known = {token["token"]: token}
    for option in token.get("top_logprobs") or ():
        if isinstance(option, Mapping) and isinstance(option.get("token"), str):
            known.setdefault(option["token"], option)
    return [option for option in known.values() if isinstance(option.get("logprob"), int | float)]


def _begins(text: str, token: str) -> bool:
    start = token.strip().lstrip('"').rstrip('",}')
    return bool(start) and (text.startswith(start) or start == text)
