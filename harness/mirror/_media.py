"""Files within messages: found, taken out, and replaced by a note of what was there."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

Field = Literal["input", "output", "metadata"]
TOO_DEEP: Final = "⟦nested too deeply⟧"
"""Stands for a value that nests deeper than anyone has to put up with."""
_DEEPEST: Final = 200
_TYPE = r"[A-Za-z0-9][\w.+-]{0,63}/[\w.+-]{1,64}"
_DATA_URL = re.compile(
    rf"data:(?P<type>{_TYPE})?(?:;[\w.-]{{1,32}}=[\w.-]{{1,64}}){{0,4}};base64,(?P<data>[A-Za-z0-9+/_-]*={{0,2}})",
    re.ASCII | re.IGNORECASE,
)
_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A file that stood in a message."""

    span_id: str
    field: Field
    """Where in the span it stood."""
    content_type: str
    sha256: str
    """Of the file, 64 lower-case hex digits."""
    data: bytes


class Extraction:
    """Takes the files out of one span's values.

    Attributes:
        found: The files, in order.
    """

    def __init__(self, span_id: str) -> None:
        self.found: list[Media] = []
        self._span_id = span_id

    def value(self, value: Any, field: Field) -> Any:
        """A JSON value with each file replaced by a note such as ``⟦image/png, 1,234 bytes, sha256 …⟧``."""
        return self._value(value, field, 0)

    def _value(self, value: Any, field: Field, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, field) if "base64," in value or "BASE64," in value else value
        if not isinstance(value, (dict, list)):
            return value
        if depth >= _DEEPEST:
            return TOO_DEEP
        if isinstance(value, list):
            return [self._value(item, field, depth + 1) for item in value]
        sound = value.get("input_audio")
        if isinstance(sound, Mapping) and isinstance(sound.get("data"), str):
            value = {**value, "input_audio": {**sound, "data": self._sound(sound, field)}}
        return {
            self._text(key, field) if "," in key else key: self._value(item, field, depth + 1)
            for key, item in value.items()
        }

    def _text(self, text: str, field: Field) -> str:
        return _DATA_URL.sub(lambda url: self._note(url["type"] or "text/plain", url["data"], field), text)

    def _sound(self, sound: Mapping[str, Any], field: Field) -> str:
        kind = str(sound.get("format"))
        return self._note(f"audio/{kind}" if re.fullmatch(r"\w{1,16}", kind) else "audio/wav", sound["data"], field)

    def _note(self, kind: str, encoded: str, field: Field) -> str:
        plain = encoded.rstrip("=").translate(_URL_SAFE)
        try:
            data = base64.b64decode(plain + "=" * (-len(plain) % 4))
        except (binascii.Error, ValueError):
            return f"⟦{kind}, {len(encoded):,} characters that are no base64⟧"
        digest = sha256(data).hexdigest()
        self.found.append(Media(span_id=self._span_id, field=field, content_type=kind, sha256=digest, data=data))
        return f"⟦{kind}, {len(data):,} bytes, sha256 {digest}⟧"
