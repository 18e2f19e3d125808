"""What a function's code reads and sets besides its arguments, told from its compiled code without running it."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_SET_GLOBALS = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_UNTOLD = (
    frozenset({"eval", "exec", "globals", "__import__", "import_module", "compile", "open", "input", "resolve_name"})
    | frozenset({"run_path", "run_module", "_getframe", "currentframe", "get_objects", "get_referrers"})
    | frozenset({"__globals__", "__builtins__", "f_globals", "__subclasses__"})
)
"""Names through which a function may read what its code does not show."""
_ONLY_CALLED = frozenset({"eval", "exec", "globals", "compile", "open", "input"})
"""Those that count as names only: as attributes they are methods of other things (``re.compile``)."""
_FILES = frozenset(
    {"read_text", "read_bytes", "open", "write_text", "write_bytes", "iterdir", "glob", "rglob", "exists"}
    | {"is_file", "is_dir", "listdir", "scandir", "stat", "lstat", "touch", "mkdir", "rmdir", "unlink", "stdin"}
    | {"read_csv", "read_parquet", "read_json", "read_excel", "read_table", "scan_csv", "scan_parquet", "loadtxt"}
    | {"genfromtxt", "fromfile", "memmap", "load_dotenv", "dotenv_values"}
)
_PACKAGED = frozenset({"read_text", "read_bytes", "open", "iterdir", "is_file", "is_dir"})
_ENVIRONMENT = frozenset({"environ", "getenv", "environb", "getenvb"})
_CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "sort", "reverse", "update", "setdefault"}
    | {"add", "discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end", "shuffle", "setattr"}
    | {"delattr", "setitem", "delitem", "heappush", "heappop", "heapify", "heapreplace", "insort", "subtract"}
    | {"difference_update", "intersection_update", "symmetric_difference_update", "__setitem__", "__setattr__"}
)
"""Names by which containers and objects are changed."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import inside a function."""

    module: str
    level: int
    """Dots of a relative one."""
    taken: tuple[str, ...]
    """Names taken from it."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What one function reads by name, nested functions included."""

    globals: tuple[str, ...]
    """Names of globals that it reads or sets, in order of first use."""
    attributes: frozenset[str]
    """Names of attributes of anything, read or set; which object they belong to is not known before the code runs."""
    chains: frozenset[tuple[str, ...]]
    """Each use of a global with the attributes that follow at once: ``("os", "path", "join")``."""
    imports: tuple[Import, ...]
    """Imports inside the function."""
    imported: frozenset[tuple[Import, str, tuple[str, ...]]]
    """Each use of what was imported: where from, which name (empty for the module itself), attributes that follow."""
    variables: tuple[str, ...]
    """Names of environment variables that it asks for."""
    packages: tuple[str, ...]
    """Packages whose data files it reads; ``__package__`` and ``__name__`` stand for the function's own."""
    changes: bool
    """Whether it may change a container or an object."""
    untold: str
    """Why it cannot be told what the function reads; empty when it can."""


@dataclass(slots=True)
class _Found:
    names: dict[str, None] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)
    chains: set[tuple[str, ...]] = field(default_factory=set)
    imports: dict[Import, None] = field(default_factory=dict)
    bound: dict[str, tuple[Import, str]] = field(default_factory=dict)
    """Local names of what was imported."""
    locals: set[tuple[str, ...]] = field(default_factory=set)
    """Uses of local names with the attributes that follow at once."""
    changes: bool = False

    def take(self, code: CodeType) -> None:
        """Go over the instructions of one code object."""
        # The two constants before an import are its level and the names that it takes.
        last: list[object] = [0, None]
        taking: tuple[Import, str] | None = None
        chain: list[str] = []
        local = False
        for step in dis.get_instructions(code):
            name, value = step.opname, step.argval
            attribute = name.startswith(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"))
            if chain and attribute:
                chain.append(str(value))
            elif chain and name not in {"COPY", "DUP_TOP", "CACHE", "EXTENDED_ARG", "PUSH_NULL"}:
                (self.locals if local else self.chains).add(tuple(chain))
                chain = []
            if attribute:
                self.attributes.add(str(value))
            self.changes = self.changes or _is_change(name, step.argrepr)
            if name in _GLOBALS or name in _SET_GLOBALS:
                self.names[str(value)] = None
                chain, local = ([str(value)] if name in _GLOBALS else []), False
            elif name.startswith(("LOAD_FAST", "LOAD_DEREF", "STORE_FAST_LOAD_FAST")):
                *others, only = value if isinstance(value, tuple) else (value,)
                self.locals.update((str(each),) for each in others)
                chain, local = [str(only)], True
            else:
                taking = self._imports(name, value, last, taking)
                if name.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
                    last = [last[1], value]

    def _imports(
        self, name: str, value: Any, last: list[object], taking: tuple[Import, str] | None
    ) -> tuple[Import, str] | None:
        """Follow an import to the local name that it is bound to."""
        if name == "IMPORT_NAME":
            return self._import(str(value), last)
        if name == "IMPORT_FROM":
            self.attributes.add(str(value))
            return None if taking is None else (taking[0], str(value) if taking[0].taken else "")
        if name.startswith("STORE_") and taking is not None:
            self.bound[str(value)] = taking
        return taking

    def _import(self, module: str, last: list[object]) -> tuple[Import, str]:
        level = last[0] if isinstance(last[0], int) else 0
        taken = tuple(map(str, last[1])) if isinstance(last[1], tuple) else ()
        found = Import(module, level, taken)
        self.imports[found] = None
        # Without ``as``, ``import a.b`` binds ``a``.
        return found, "" if taken else "."

    def imported(self) -> Iterator[tuple[Import, str, tuple[str, ...]]]:
        """Uses of what was imported."""
        for name, *attributes in self.locals | self.chains:
            if name in self.bound:
                yield (*self.bound[name], tuple(attributes))


@lru_cache(maxsize=4096)
def reads(code: CodeType) -> Reads:
    """The reads of a code object and of those nested in it."""
    found = _Found()
    for each in _nested(code):
        found.take(each)
    names, attributes = found.names.keys(), found.attributes
    variables = _asked_for(code) if _ENVIRONMENT & (attributes | names) else ()
    packages = _packages_read(code) if "files" in attributes | names and _PACKAGED & attributes else ()
    return Reads(
        globals=tuple(found.names),
        attributes=frozenset(attributes),
        chains=frozenset(found.chains),
        imports=tuple(found.imports),
        imported=frozenset(found.imported()),
        variables=variables or (),
        packages=packages,
        changes=found.changes or bool(_CHANGING & (attributes | names)),
        untold=_untold(names, attributes, packages=bool(packages))
        or ("it reads environment variables by names that its code does not show" if variables is None else ""),
    )


def _is_change(name: str, shown: str) -> bool:
    if name == "BINARY_OP":
        return shown.endswith("=")
    return name.startswith(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "DELETE_ATTR", "STORE_SLICE", "INPLACE_"))


def _asked_for(code: CodeType) -> tuple[str, ...] | None:
    """The environment variables that the source asks for, all by literal names; ``None`` when one is not."""
    tree = _tree(code)
    if tree is None:
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


def _packages_read(code: CodeType) -> tuple[str, ...]:
    """The packages whose data files the source reads, when it reads no others: ``files("a").joinpath("b").open()``."""
    tree = _tree(code)
    found: dict[str, None] = {}
    for node in () if tree is None else ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _FILES:
            package = _package_below(node.value)
            if package is None:
                return ()
            found[package] = None
    return tuple(found)


def _package_below(node: ast.AST) -> str | None:
    while True:
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Attribute):
            node = node.value
        elif isinstance(node, ast.Call) and _is_files(node.func):
            break
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return None
    named = node.args[0] if node.args else None
    if isinstance(named, ast.Constant) and isinstance(named.value, str):
        return named.value
    return named.id if isinstance(named, ast.Name) and named.id in {"__package__", "__name__"} else None


def _is_files(node: ast.AST) -> bool:
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "files"


def _tree(code: CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, IndexError):
        return None


def _nested(code: CodeType) -> list[CodeType]:
    found = [code]
    for each in found:
        found.extend(value for value in each.co_consts if isinstance(value, CodeType))
    return found


def _untold(names: AbstractSet[str], attributes: AbstractSet[str], *, packages: bool) -> str:
    called = (_UNTOLD & names) | ((_UNTOLD - _ONLY_CALLED) & attributes)
    if called:
        return f"it calls {min(called)}()"
    if "modules" in attributes and "sys" in names:
        return "it reads sys.modules"
    # Data files of a package that is named count as its code; other files are not seen.
    if not packages and _FILES & (attributes | names):
        return "it reads files"
    return ""
