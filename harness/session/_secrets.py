"""Credentials of this process, which are never written anywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterable

_secrets_lock = threading.Lock()
_secrets: frozenset[bytes] = frozenset()
"""Credentials of this process's clients, known before any call carries one; never written anywhere."""


def keep_secret(forms: Iterable[bytes]) -> None:
    """Star these bytes out of every snapshot and error text of this process from now on."""
    global _secrets  # noqa: PLW0603 - a client belongs to no run
    with _secrets_lock:
        _secrets = _secrets.union(forms)


def masked(data: bytes, secrets: frozenset[bytes] = frozenset()) -> bytes:
    """The bytes with these credentials and those of the process starred out, lengths unchanged."""
    for form in sorted(_secrets | secrets, key=len, reverse=True):
        if form in data:
            data = data.replace(form, b"*" * len(form))
    return data
