"""Every small fault that a source file can be given: one changed expression or statement each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_DESCRIBED = frozenset({"cast", "column"})
_TALK = frozenset({"debug", "info", "warning", "error", "exception", "warn"})


@dataclass(frozen=True)
class Mutation:
    """One replaced piece of a source file."""

    file: str
    line: int
    start: int
    """Where the replaced bytes begin."""
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """The mutated source."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file}:{self.line}: {before} -> {after}"


def mutations(file: Path, source: str) -> list[Mutation]:
    """All mutations of a file, in order of place; each gives a file that still parses."""
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutation] = []
    for node, text in _walk(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        made = Mutation(file.as_posix(), node.lineno, start, end, data[start:end].decode(), text)
        if made not in found and _parses(made.apply(data)):
            found.append(made)
    return sorted(found, key=lambda one: (one.start, one.end, one.after))


def _parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _walk(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    if isinstance(node, ast.expr):
        yield from ((node, f"({ast.unparse(new)})") for new in _expressions(node))
    elif isinstance(node, ast.stmt):
        yield from _statements(node)
    for child in _children(node):
        yield from _walk(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below that make a difference when the program runs, and are no text for people."""
    if _is_inert(node):
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _DESCRIBED:
        # cast(TYPE, value); column(TYPE, description, …)
        yield from node.args[1:] if ast.unparse(node.func) == "cast" else [*node.args[2:], *node.keywords]
        return
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_text(child):
                yield child


def _is_inert(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.arg():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Subscript(value=ast.Name(id="Literal" | "Annotated")):
            return True
        case ast.ClassDef(bases=[ast.Name(id="Protocol"), *_]):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _TALK
        case ast.keyword(arg="comment" | "doc" | "help"):
            return True
    return False


def _is_text(node: ast.AST) -> bool:
    """A string that stands alone documents what is before it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for index, op in enumerate(node.ops):
                new = deepcopy(node)
                new.ops[index] = _COMPARE[type(op)]()
                yield new
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant():
            yield from (ast.Constant(value) for value in _constants(node.value))
        case ast.Subscript(slice=ast.Slice()):
            yield from _slices(node, node.slice)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _conditions(node)


def _slices(node: ast.Subscript, bounds: ast.Slice) -> Iterator[ast.expr]:
    if bounds.lower:
        yield ast.Subscript(node.value, ast.Slice(None, bounds.upper, bounds.step), node.ctx)
    if bounds.upper:
        yield ast.Subscript(node.value, ast.Slice(bounds.lower, None, bounds.step), node.ctx)


def _conditions(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[ast.expr]:
    for index, part in enumerate(node.generators):
        for place, condition in enumerate(part.ifs):
            if _is_negated_otherwise(condition):
                continue
            new = deepcopy(node)
            new.generators[index].ifs[place] = ast.UnaryOp(ast.Not(), condition)
            yield new


def _is_negated_otherwise(test: ast.expr) -> bool:
    """Whether the mutation of the condition itself is already its negation."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield value + "X"
    elif isinstance(value, bytes):
        yield value + b"X"


def _statements(node: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.If(test=test) | ast.While(test=test) if not _is_negated_otherwise(test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.Return(value=ast.Constant(value=None | bool())):
            return
        case ast.Return(value=ast.expr()):
            yield node, "return None"
        case ast.Expr(value=ast.Call() as call) if not (
            isinstance(call.func, ast.Attribute) and call.func.attr in _TALK
        ):
            yield node, "pass"
        case ast.Raise() | ast.AugAssign():
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Continue():
            yield node, "break"
        case ast.Break():
            yield node, "continue"
