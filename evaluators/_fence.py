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
_HIDDEN = ("Cc", "Cf", "Co", "Cs")
"""Unicode categories that show nothing: control and format characters, private use, surrogates."""


def fenced(name: str, value: Any) -> str:
    """A value as text between ``<material>`` tags.

    Args:
        name: What it is, such as ``output.reply``.
        value: A string is shown as it is, anything else as canonical JSON.
    """
    text = value if isinstance(value, str) else canonical_json(value).decode()
    return f'<material name="{neutral(name)}">\n{neutral(text)}\n</material>'


def neutral(text: str) -> str:
    r"""Text that opens and closes no tag, holds no control marker, and hides nothing.

    ``& < >`` become entities, as does the bracket of a marker; a character that shows nothing becomes ``\u{…}``.
    """
    return _MARKERS.sub(r"&#91;\1&#93;", "".join(_shown(character) for character in text))


def _shown(character: str) -> str:
    if character in _ENTITIES:
        return _ENTITIES[character]
    code = ord(character)
    hidden = unicodedata.category(character) in _HIDDEN and character not in "\n\t"
    if hidden or 0xE0100 <= code <= 0xE01EF:
        return f"\\u{{{code:x}}}"
    return character
