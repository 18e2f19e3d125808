"""Places in JSON values, written as JSON paths (RFC 9535)."""

from __future__ import annotations

import json
import re

_PLAIN = re.compile(r"[^\W\d]\w*\Z")


def member(path: str, key: str) -> str:
    """The path of a member of the object at ``path``; a key that is no plain name is quoted, as in ``$['a.b']``."""
    if _PLAIN.match(key):
        return f"{path}.{key}"
    # Unlike in JSON, a double quote stands for itself and a single one is escaped.
    inner = json.dumps(key, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"{path}['{inner}']"
