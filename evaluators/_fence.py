"""Showing hostile text to a judge: between tags that the text cannot close, with nothing invisible in it.

The same text always gives the same fence (no nonce), so that a judge's request is found again in its recording.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from harness.canonical import canonical_json

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKERS = re.compile(r"\[(/?[A-Z][A-Z_]{2,40})\]")
"""Control markers of chat templates such as ``[INST]``."""


def fenced(name: str, value: Any) -> str:
    """A value as text between ``<material>`` tags.

    Args:
        name: What it is, such as ``output.reply``.
        value: A string is shown as it is, anything else as canonical JSON.
    """
    text = value if isinstance(value, str) else canonical_json(value).decode()
    return f'<material name="{neutral(name)}">\n{neutral(text)}\n</material>'


def neutral(text: str) -> str:
    """Text that closes no tag, opens none, and hides nothing; reversible."""
    text = "".join(_ENTITIES.get(character) or _shown(character) for character in text)
    return _MARKERS.sub(r"&#91;\1&#93;", text).replace('"', "&quot;") if _is_name(text) else _MARKERS.sub(
        r"&#91;\1&#93;", text
    )
