"""Checking options, and the version that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from harness.canonical import canonical_json, content_hash
from harness.errors import CanonicalError, EvaluatorError

Choice = TypeVar("Choice", bound=str)


def refuse(evaluator: str, option: str, value: object, wanted: str) -> EvaluatorError:
    """The error for an option that cannot be used."""
    return EvaluatorError(f"evaluator {evaluator!r}: option {option!r} is {value!r}; {wanted}")


def text(evaluator: str, option: str, value: object) -> str:
    """A non-empty string.

    Raises:
        EvaluatorError: It is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise refuse(evaluator, option, value, "write a non-empty string")
    return value


def choice(evaluator: str, option: str, value: object, known: Sequence[Choice]) -> Choice:
    """One of a few words.

    Raises:
        EvaluatorError: It is another one.
    """
    for word in known:
        if value == word:
            return word
    raise refuse(evaluator, option, value, f"write one of {', '.join(known)}")


def number(evaluator: str, option: str, value: object, *, low: float, high: float) -> float:
    """A number between two ends, both allowed.

    Raises:
        EvaluatorError: It is outside, or no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise refuse(evaluator, option, value, f"write a number from {low:g} to {high:g}")
    return float(value)


def content_version(evaluator: str, revision: int, options: dict[str, Any]) -> str:
    """Twelve hex digits that change with the evaluator's options and with its own rules.

    Args:
        evaluator: What evaluates, ``judge`` say; not the name that a dataset gives to it.
        revision: Raised whenever the same options would score the same output differently.
        options: Whatever influences a score; JSON values.

    Raises:
        EvaluatorError: An option is not a JSON value.
    """
    try:
        data = canonical_json({"evaluator": evaluator, "revision": revision, "options": options})
    except CanonicalError as error:
        raise EvaluatorError(f"evaluator {evaluator!r}: an option is not a JSON value: {error}") from error
    return content_hash(data)[:12]
