"""What a function's code reads besides its arguments, told from its compiled code without running it."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_UNTOLD = frozenset({"eval", "exec", "globals", "__import__", "import_module", "compile", "open", "input"})
"""Names through which a function may read what its code does not show."""
_DYNAMIC = frozenset({"getattr", "vars", "dir"})
_FILES = frozenset({"read_text", "read_bytes", "open"})
_ENVIRONMENT = frozenset({"environ", "getenv", "environb", "getenvb"})


@dataclass(frozen=True, slots=True)
class Reads:
    """What one function reads by name, nested functions included."""

    globals: tuple[str, ...]
    """Names of globals, in order of first use."""
    attributes: frozenset[str]
    """Names of attributes of anything; which object they belong to is not known before the code runs."""
    imports: tuple[tuple[str, int, tuple[str, ...]], ...]
    """Imports inside the function: module, level of a relative one, names taken from it."""
    variables: tuple[str, ...]
    """Names of environment variables that it asks for."""
    dynamic: bool
    """Whether it looks attributes up by names that it computes."""
    untold: str
    """Why it cannot be told what the function reads; empty when it can."""


@lru_cache(maxsize=4096)
def reads(code: CodeType) -> Reads:
    """The reads of a code object and of those nested in it."""
    names: dict[str, None] = {}
    attributes: set[str] = set()
    imports: dict[tuple[str, int, tuple[str, ...]], None] = {}
    for each in _nested(code):
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
    variables = _asked_for(code) if _ENVIRONMENT & (attributes | names.keys()) else ()
    return Reads(
        globals=tuple(names),
        attributes=frozenset(attributes),
        imports=tuple(imports),
        variables=variables or (),
        dynamic=bool(_DYNAMIC & names.keys()),
        untold=_untold(names.keys(), attributes)
        or ("it reads environment variables by names that its code does not show" if variables is None else ""),
    )


def _asked_for(code: CodeType) -> tuple[str, ...] | None:
    """The environment variables that the source asks for, all by literal names; ``None`` when one is not."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, IndexError):
        return None
    asked: dict[str, None] = {}
    fine: set[int] = set()
    for node in ast.walk(tree):
        found = _literal_use(node)
        if found is not None:
            environment, name = found
            fine.add(id(environment))
            asked[name] = None
    uses = (node for node in ast.walk(tree) if _is_environment(node))
    return tuple(asked) if all(id(node) in fine for node in uses) else None


def _literal_use(node: ast.AST) -> tuple[ast.AST, str] | None:
    """``environ["X"]``, ``environ.get("X", …)``, ``getenv("X", …)``, ``"X" in environ``: what is read, and the name."""
    place: ast.AST
    key: ast.AST
    if isinstance(node, ast.Subscript):
        place, key = node.value, node.slice
    elif isinstance(node, ast.Call) and node.args:
        function, key = node.func, node.args[0]
        got = isinstance(function, ast.Attribute) and function.attr == "get"
        place = function.value if got and isinstance(function, ast.Attribute) else function
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
        place, key = node.comparators[0], node.left
    else:
        return None
    if _is_environment(place) and isinstance(key, ast.Constant) and isinstance(key.value, str):
        return place, key.value
    return None


def _is_environment(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _ENVIRONMENT


def _nested(code: CodeType) -> list[CodeType]:
    found = [code]
    for each in found:
        found.extend(value for value in each.co_consts if isinstance(value, CodeType))
    return found


def _untold(names: AbstractSet[str], attributes: AbstractSet[str]) -> str:
    called = (_UNTOLD & names) | ({"import_module"} & attributes)
    if called:
        return f"it calls {min(called)}()"
    if "modules" in attributes and "sys" in names:
        return "it reads sys.modules"
    # Data files of the package are part of the code version; other files are not.
    if _FILES & attributes and not {"files", "joinpath"} <= attributes:
        return "it reads files"
    return ""
