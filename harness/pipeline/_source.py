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
        if file is None:
            return ""
        stat = Path(file).stat()
        # A deployment may bring the old time along with a new text; when the file itself was changed cannot be set.
        if max(stat.st_mtime, stat.st_ctime) >= _LOADED:
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
    shape = (code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    handlers = getattr(code, "co_exceptiontable", b"").hex()
    return repr((sys.version_info[:2], code.co_code.hex(), shape, names, handlers, inner))
