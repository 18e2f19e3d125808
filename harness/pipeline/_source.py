"""The source of code that runs, where the file still holds what was loaded."""

from __future__ import annotations

import inspect
import sys
import textwrap
import time
from hashlib import sha256
from pathlib import Path
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

_LOADED = time.time()
"""About when this process loaded its code; a file that is newer may hold another text than what runs."""


def source_of(value: CodeType | type[Any]) -> str:
    """The text of a function or a class without its indent; empty where there is none, or the file has been edited."""
    try:
        file = value.co_filename if isinstance(value, CodeType) else inspect.getsourcefile(value)
        if file is None or Path(file).stat().st_mtime >= _LOADED:
            return ""
        return textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError, SyntaxError, IndexError):
        return ""


_codes: WeakKeyDictionary[CodeType, str] = WeakKeyDictionary()


def code_digest(code: CodeType) -> str:
    """Digest of a function's source; of its compiled form where there is none."""
    known = _codes.get(code)
    if known is None:
        # Several lambdas may share a line.
        text = _compiled(code) if code.co_name == "<lambda>" else source_of(code) or _compiled(code)
        known = _codes[code] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return known


def _compiled(code: CodeType) -> str:
    """A text of a code object; it differs between versions of Python."""
    inner = [_compiled(value) if isinstance(value, CodeType) else repr(value) for value in code.co_consts]
    return repr((sys.version_info[:2], code.co_code.hex(), code.co_names, code.co_varnames, inner))
