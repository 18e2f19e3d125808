"""How far two outputs are apart in meaning: by an embedder where one is set, else by their words, and saying so."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import entry_points

from harness.errors import CanonicalError, DatasetMissing, EvaluatorError, GoldforkStop, StoreError
from harness.gateway import FORBID_LIVE
from harness.record import Hash, Recording
from harness.replay._changes import content
from harness.replay._values import Difference, RunDiff, Semantic

Embedder = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Texts to vectors, all of one length."""
Meaning = Callable[[str, str], Semantic]
"""How far two texts are apart."""
GROUP = "goldfork.embedders"
"""Entry point group: ``default`` is a function from a model and ``endpoint=`` to an ``Embedder``."""
_UNSET = "no embedder is set (GOLDFORK_EMBEDDER)"


def measured(diff: RunDiff, run: Recording, parent: Recording | None, *, meaning: Meaning) -> RunDiff:
    """The comparison with the difference in meaning of every output whose text differs.

    Args:
        diff: Of ``run`` with ``parent``.
        run: The run.
        parent: Its parent.
        meaning: What measures it, as from ``meaning_by``.
    """
    if parent is None:
        return diff
    steps = [
        replace(
            step,
            difference=_semantic(
                step.difference, (parent, step.parent_output_hash), (run, step.output_hash), meaning=meaning
            ),
        )
        if step.difference is not None
        else step
        for step in diff.steps
    ]
    before, after = parent.run.output_hash, run.run.output_hash
    whole = _semantic(diff.difference, (parent, before), (run, after), meaning=meaning)
    return replace(diff, steps=tuple(steps), difference=whole)


def meaning_by(setting: str, *, calls: bool = True) -> Meaning:
    """What measures differences in meaning, by the setting ``embedder``.

    Args:
        setting: A sentence-transformers model, by name or folder; ``MODEL@URL`` asks an OpenAI-compatible endpoint
            (its base URL) with the key in OPENAI_API_KEY; empty compares words.
        calls: Whether an endpoint may be asked, whose calls nobody counts. Where it may not, or does not answer, words
            are compared.
    """
    model, _, endpoint = setting.partition("@http")
    if not setting:
        return lambda before, after: Semantic(lexical=shared_words(before, after), note=_UNSET)
    url = f"http{endpoint}" if endpoint else None
    if url is not None and not calls:
        note = f"an experiment does not ask embedder {model!r} at an endpoint"
        return lambda before, after: Semantic(lexical=shared_words(before, after), note=note)
    return _ByEmbedder(model, url)


def by_vectors(embed: Embedder, *, name: str) -> Meaning:
    """A measure made of any function from texts to vectors.

    Args:
        embed: Gives a vector for each text.
        name: What it is called in the output.
    """

    def compare(before: str, after: str) -> Semantic:
        one, two = embed([before, after])
        size = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in two))
        if not size:
            return Semantic(note=f"unmeasured: {name} gives a vector of length 0")
        return Semantic(cosine=sum(x * y for x, y in zip(one, two, strict=True)) / size, note=f"by {name}")

    return compare


def shared_words(before: str, after: str) -> float:
    """Share of words that two texts have in common in the same order, 0 to 1; of both together."""
    from rapidfuzz.distance import Indel

    return Indel.normalized_similarity(before.split(), after.split())


class _ByEmbedder:
    """An embedder that is loaded at the first text; when it fails once, words are compared from then on."""

    def __init__(self, model: str, url: str | None) -> None:
        self._model, self._url = model, url
        self._lock = threading.Lock()
        self._compare: Meaning | None = None
        self._failed = ""

    def __call__(self, before: str, after: str) -> Semantic:
        if not self._failed:
            try:
                return self._loaded()(before, after)
            except (EvaluatorError, GoldforkStop) as error:
                self._failed = f"embedder {self._model!r} failed ({error})"
        return Semantic(lexical=shared_words(before, after), note=self._failed)

    def _loaded(self) -> Meaning:
        with self._lock:
            if self._compare is None:
                if self._url is not None and os.environ.get(FORBID_LIVE):
                    raise EvaluatorError(f"{FORBID_LIVE} is set")
                self._compare = by_vectors(_embedder(self._model, self._url), name=self._model)
            return self._compare


def _embedder(model: str, url: str | None) -> Embedder:
    known = {point.name: point for point in entry_points(group=GROUP)}
    if "default" not in known:
        raise EvaluatorError(f"no package offers a {GROUP} entry point; install goldfork again")
    made: Embedder = known["default"].load()(model, endpoint=url)
    return made


def _semantic(
    difference: Difference | None,
    before: tuple[Recording, Hash | None],
    after: tuple[Recording, Hash | None],
    *,
    meaning: Meaning,
) -> Difference | None:
    if difference is None or difference.kind != "content" or before[1] is None or after[1] is None:
        return difference
    if difference.places and not any(place.kind == "text" for place in difference.places):
        # Numbers, and what was added or removed, are told by their places.
        return difference
    try:
        texts = [_text(content(*side)) for side in (before, after)]
    except (DatasetMissing, StoreError, CanonicalError) as error:
        return replace(difference, semantic=Semantic(note=f"unmeasured: {error}"))
    return replace(difference, semantic=meaning(*texts))


def _text(value: object) -> str:
    """All text of a JSON value, in order."""
    if isinstance(value, dict):
        return "\n".join(_text(item) for item in value.values())
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return str(value)
