"""JSON as the files of a dataset hold it: read strictly, written the same way every time."""

from __future__ import annotations

import json
from typing import Any

from harness.errors import DatasetError

_BOMS = (b"\xff\xfe", b"\xfe\xff")


def decode_text(data: bytes, where: str) -> str:
    """UTF-8 text, with or without a byte-order mark.

    Raises:
        DatasetError: The bytes are in another encoding.
    """
    if data.startswith(_BOMS):
        raise DatasetError(f"{where} is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where} is not UTF-8 (byte {error.start}); save it as UTF-8") from error


def read_json(data: bytes, where: str) -> Any:
    """Parse JSON; integers stay exact.

    Raises:
        DatasetError: Not JSON, a key that occurs twice, NaN or an infinity, nested too deeply, or not UTF-8.
    """
    text = decode_text(data, where)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where} is not JSON: {error.msg} (line {error.lineno})") from error
    except RecursionError as error:
        raise DatasetError(f"{where} is nested too deeply") from error
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from error


def line_json(value: Any) -> bytes:
    """One line: keys sorted, no spaces, UTF-8.

    Raises:
        DatasetError: The value holds NaN, an infinity or a type that JSON lacks.
    """
    return _dump(value, separators=(",", ":"))


def pretty_json(value: Any) -> bytes:
    """Keys sorted, indented by two, one newline at the end: what a person edits and git compares."""
    return _dump(value, indent=2) + b"\n"


def _dump(value: Any, **layout: Any) -> bytes:
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, **layout)
    except (TypeError, ValueError, RecursionError) as error:
        raise DatasetError(f"a value cannot be written as JSON: {error}") from error
    # A lone surrogate has no UTF-8 form; its backslash form is the very escape that JSON has for it.
    return text.encode("utf-8", "backslashreplace")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} occurs twice")
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
