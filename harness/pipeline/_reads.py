"""What a function's code reads besides its arguments, told from its compiled code without running it."""

from __future__ import annotations

import dis
import re
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_UNTOLD = frozenset({"eval", "exec", "globals", "__import__", "compile", "open", "input"})
"""Builtins through which a function may read what its code does not show."""
_FILES = frozenset({"read_text", "read_bytes"})
_ENVIRONMENT = frozenset({"environ", "getenv"})
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Reads:
    """What one function reads by name, nested functions included."""

    globals: tuple[str, ...]
    """Names of globals, in order of first use."""
    attributes: frozenset[str]
    """Names of attributes of anything; which object they belong to is not known before the code runs."""
    imports: tuple[tuple[str, int, tuple[str, ...]], ...]
    """Imports inside the function: module, level of a relative one, names taken from it."""
    variables: tuple[str, ...] | None
    """Names of environment variables; ``None`` when it reads the environment by names that its code does not show."""
    untold: str
    """Why it cannot be told what the function reads; empty when it can."""


@lru_cache(maxsize=4096)
def reads(code: CodeType) -> Reads:
    """The reads of a code object and of those nested in it."""
    names: dict[str, None] = {}
    attributes: set[str] = set()
    imports: dict[tuple[str, int, tuple[str, ...]], None] = {}
    constants: set[str] = set()
    for each in _nested(code):
        constants |= {value for value in each.co_consts if isinstance(value, str)}
        # The two constants before an import are its level and the names that it takes.
        last: list[object] = [0, None]
        for step in dis.get_instructions(each):
            if step.opname in _LOADS:
                names[step.argval] = None
            elif step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")):
                attributes.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                level = last[0] if isinstance(last[0], int) else 0
                taken = tuple(map(str, last[1])) if isinstance(last[1], tuple) else ()
                imports[step.argval, level, taken] = None
            elif step.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
                last = [last[1], step.argval]
    reading = _ENVIRONMENT & (attributes | names.keys())
    variables = tuple(sorted(filter(_VARIABLE.match, constants))) if reading else ()
    return Reads(
        globals=tuple(names),
        attributes=frozenset(attributes),
        imports=tuple(imports),
        variables=None if reading and not variables else variables,
        untold=_untold(names.keys(), attributes),
    )


def _nested(code: CodeType) -> list[CodeType]:
    found = [code]
    for each in found:
        found.extend(value for value in each.co_consts if isinstance(value, CodeType))
    return found


def _untold(names: object, attributes: set[str]) -> str:
    called = _UNTOLD.intersection(names)  # type: ignore[arg-type]  # a keys view
    if called:
        return f"it calls {min(called)}()"
    # Data files of the package are part of the code version; other files are not.
    if _FILES & attributes and not {"files", "joinpath"} <= attributes:
        return "it reads files"
    return ""
