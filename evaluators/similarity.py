"""Similarity: how close in meaning is the reply to the expected one, with guards for what embeddings miss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evaluators._embedding import Vector, cosine, local, mean, remote, unrecorded
from evaluators._guards import BLOCKING, differences
from evaluators._options import content_version, number, text
from evaluators._paths import MISSING, parse_path
from evaluators._windows import BUDGET, estimate, windows
from harness.errors import EvaluatorError
from harness.score import Score

MOST_WINDOWS = 100
"""Windows of one text, about 75,000 characters of prose; beyond, a trial fails instead of embedding for minutes."""
_REVISION = 1


def embedder(
    model: str, *, endpoint: str | None = None, key_env: str = "OPENAI_API_KEY"
) -> Callable[[Sequence[str]], list[Vector]]:
    """Whole texts to vectors, as the evaluator makes them, but outside of any run: nothing is recorded.

    Args:
        model: As for ``Similarity``.
        endpoint: Base URL of an OpenAI-compatible API whose ``/embeddings`` is asked instead of a local model.
        key_env: Environment variable with the endpoint's key.

    Returns:
        A function that raises ``EvaluatorError`` when the model is not there or the endpoint does not answer.
    """
    embed = unrecorded(model, endpoint=endpoint, key_env=key_env)

    def whole(content: str) -> Vector:
        slices = windows(content) or [content]
        if len(slices) > MOST_WINDOWS:
            raise EvaluatorError(
                f"a text has {len(slices)} windows of {BUDGET} tokens; at most {MOST_WINDOWS} are embedded"
            )
        return _whole([embed(one) for one in slices], slices)

    def texts(contents: Sequence[str]) -> list[Vector]:
        from openai import OpenAIError

        try:
            return [whole(content) for content in contents]
        except OpenAIError as error:
            reason = " ".join(str(error).split())[:200]
            raise EvaluatorError(f"embedding model {model!r} did not answer: {reason}") from error

    return texts


class Similarity:
    """Cosine between the embeddings of a text of the output and of the expected output.

    Long texts are embedded window by window, and the mean of the windows is compared. Texts that are equal need no
    model and score 1; an output without a text scores 0 and says so. Numbers, dates, negations and names that
    differ stand in the detail: a cosine hardly sees them ("approved" and "denied" are close). With a threshold,
    a second score says whether the cosine reaches it while no number, date or negation differs.
    """

    def __init__(
        self,
        *,
        field: str = "reply",
        model: str = "all-MiniLM-L6-v2",
        endpoint: str | None = None,
        threshold: float | None = None,
        key_env: str = "OPENAI_API_KEY",
        name: str = "similarity",
    ) -> None:
        """Take the options; nothing is loaded before a text needs it.

        Args:
            field: Where the text stands in output and expected output: ``reply``, ``$.answer.text``, ``$``.
            model: A sentence-transformers model (name or folder), or the endpoint's model name. Weights are taken
                from an installed package that carries them, else from where sentence-transformers finds them.
            endpoint: Base URL of an OpenAI-compatible API whose ``/embeddings`` is asked instead.
            threshold: Smallest cosine, -1 to 1, of a reply that is close enough.
            key_env: Environment variable with the endpoint's key.
            name: Name of the cosine score, and prefix of the other's.

        Raises:
            EvaluatorError: An option cannot be used.
        """
        self.name = text("similarity", "name", name)
        self._path = parse_path("similarity", "field", field)
        self._model = text("similarity", "model", model)
        self._threshold = None if threshold is None else number("similarity", "threshold", threshold, low=-1, high=1)
        if endpoint is None:
            self._embed = local(self._model)
        else:
            key_env = text("similarity", "key_env", key_env)
            self._embed = remote(self._model, text("similarity", "endpoint", endpoint), key_env)
        options = {
            "field": field,
            "model": self._model,
            "where": "local" if endpoint is None else "endpoint",
            "threshold": self._threshold,
            "window": BUDGET,
        }
        self.version = content_version("similarity", _REVISION, options)

    def evaluate(self, output: Any, expected_output: Any) -> list[Score]:
        """The score ``<name>`` (the cosine) and, with a threshold, ``<name>.close``.

        Raises:
            EvaluatorError: The case expects something other than a text there, a text is longer than ``MOST_WINDOWS``,
                or the embedder fails.
        """
        expected = self._path.of(expected_output)
        if expected is MISSING or expected is None or (isinstance(expected, str) and not expected.strip()):
            reason = f"the case expects no text at {self._path.text!r}"
            return [Score(name=name, status="skipped", reason=reason) for name in self._names()]
        if not isinstance(expected, str):
            raise EvaluatorError(
                f"evaluator {self.name!r}: the case expects {type(expected).__name__} at {self._path.text!r}; "
                "similarity compares texts"
            )
        got = self._path.of(output)
        if not isinstance(got, str) or not got.strip():
            reason = f"the output has no text at {self._path.text!r}"
            return self._scores(0.0, {"threshold": self._threshold}, [], reason)
        guards = differences(expected, got)
        value, detail = self._compare(expected, got)
        detail |= {"model": self._model, "threshold": self._threshold, "guards": guards}
        return self._scores(value, detail, [name for name in BLOCKING if name in guards], None)

    def _compare(self, expected: str, got: str) -> tuple[float, dict[str, Any]]:
        if expected == got:
            return 1.0, {"equal": True}
        ours, theirs = windows(expected), windows(got)
        longest = max(len(ours), len(theirs))
        if longest > MOST_WINDOWS:
            raise EvaluatorError(
                f"evaluator {self.name!r}: a text has {longest} windows of {BUDGET} tokens; at most {MOST_WINDOWS} are "
                "embedded; compare a shorter field, as nothing is cut silently"
            )
        a, b = [self._embed(window) for window in ours], [self._embed(window) for window in theirs]
        detail: dict[str, Any] = {"windows": [len(ours), len(theirs)]}
        if len(ours) > 1 or len(theirs) > 1:
            detail["covered"] = [max(cosine(one, other) for other in b) for one in a]
        return cosine(_whole(a, ours), _whole(b, theirs)), detail

    def _names(self) -> list[str]:
        return [self.name] if self._threshold is None else [self.name, f"{self.name}.close"]

    def _scores(self, value: float, detail: dict[str, Any], blocked: Sequence[str], reason: str | None) -> list[Score]:
        scores = [Score(name=self.name, value=value, reason=reason, detail=detail)]
        if self._threshold is not None:
            near = value >= self._threshold
            why = [reason] if reason else []
            if not reason and not near:
                why.append(f"cosine {value:.3f} is below {self._threshold:g}")
            why += [f"{name} differ" for name in blocked]
            scores.append(
                Score(
                    name=f"{self.name}.close",
                    value=near and not blocked and not reason,
                    reason="; ".join(why) or None,
                    detail=detail,
                )
            )
        return scores


def _whole(vectors: Sequence[Vector], slices: Sequence[str]) -> Vector:
    return mean(vectors, [estimate(piece) for piece in slices])
