"""The OpenAI-compatible client that evaluators call models with: wrapped, so that every call is recorded."""

from __future__ import annotations

import os
import threading
from typing import Any

_NO_KEY = "no-key"
"""Sent when no key is set: local servers take any, and a replay needs none."""


class LazyClient:
    """Builds the client at first use, so that an evaluator can be made without openai, key or network."""

    def __init__(self, *, base_url: str | None = None, base_url_env: str | None = None, key_env: str) -> None:
        self._base_url = base_url
        self._base_url_env = base_url_env
        self._key_env = key_env
        self._lock = threading.Lock()
        self._client: Any = None

    def get(self) -> Any:
        """The wrapped ``openai.OpenAI``, one per evaluator."""
        with self._lock:
            if self._client is None:
                self._client = self._build()
            return self._client

    def _build(self) -> Any:
        import openai

        from harness.gateway import wrap

        base_url = self._base_url
        if base_url is None and self._base_url_env is not None:
            base_url = os.environ.get(self._base_url_env) or None
        return wrap(openai.OpenAI(base_url=base_url, api_key=os.environ.get(self._key_env) or _NO_KEY))
