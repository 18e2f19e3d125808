"""The child process of ``LocalModel``: llama.cpp's own server until standard input closes.

Run as a module with one JSON argument; prints the address it listens on as its only line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import xllamacpp


def main(options: dict[str, Any]) -> None:
    """Serve until standard input ends, which it does when the parent stops or dies.

    Args:
        options: ``weights``, ``alias``, ``context`` (tokens a slot), ``slots``, ``template`` (may be ``None``) and
            ``embedding``.
    """
    params = xllamacpp.CommonParams()
    params.model.path = options["weights"]
    params.model_alias = {options["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = options["slots"]
    params.n_ctx = options["context"] * options["slots"]
    # One thread, no prompt reuse, a cache per slot: with these the same request gives the same bytes.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_prompt = False
    params.kv_unified = False
    params.use_jinja = True
    params.embedding = options["embedding"]
    params.ui = False
    if options["template"]:
        params.chat_template = options["template"]
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
