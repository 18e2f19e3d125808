"""The version that a tool has where none is declared: what its code is, its helpers' included."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from harness.canonical import content_hash
from harness.pipeline._class_parts import class_source
from harness.pipeline._ownership import is_application
from harness.pipeline._reads import reads
from harness.pipeline._source import code_digest

_DIGITS = 12
_CONSTANTS = (bool, int, float, complex, str, bytes, date, datetime, time, timedelta, Decimal)
_texts: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""By code object, or by class."""


def source_version(target: Callable[..., Any]) -> str:
    """Twelve hex digits over the code of a function and of the application's helpers that it names.

    Comments and layout do not count. Constants written in upper case count; other globals do not, since a tool's own
    state (a connection, a cache) changes with every call without making it another tool.
    """
    own = _text(target)
    beside = sorted({text for text in _helpers(target) if text != own})
    return content_hash("\n".join([own, *beside]).encode("utf-8", "surrogatepass"))[:_DIGITS]


def _text(target: Callable[..., Any]) -> str:
    """Source without comments and layout; where there is none, the compiled code."""
    code = getattr(inspect.unwrap(target), "__code__", None)
    known = None if code is None else _texts.get(code)
    if known is not None:
        return known
    try:
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(target))))
    except (OSError, TypeError, SyntaxError):
        name = getattr(target, "__qualname__", type(target).__qualname__)
        text = f"{target.__module__}:{name}:{code_digest(code) if code else ''}"
    if code is not None:
        _texts[code] = text
    return text


def _helpers(target: Callable[..., Any]) -> Iterator[str]:
    """Texts of the functions, classes and constants that the code names, and of those that these name."""
    seen: set[int] = set()
    waiting: list[Any] = [inspect.unwrap(target)]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType) and is_application(value.__module__):
            yield _text(value)
            yield from _constants(value)
            waiting.extend(_named(value))
        elif isinstance(value, type) and is_application(value.__module__):
            if value not in _texts:
                _texts[value] = class_source(value)
            yield _texts[value]
            waiting.extend(member for member in vars(value).values() if isinstance(member, FunctionType))


def _constants(function: FunctionType) -> Iterator[str]:
    for name in reads(function.__code__).globals:
        value = function.__globals__.get(name)
        if name.isupper() and type(value) in _CONSTANTS:
            yield f"{name} = {value!r}"


def _named(function: FunctionType) -> Iterator[Any]:
    """Functions and classes that the code reads: globals, attributes of the application's modules, closure cells."""
    found = reads(function.__code__)
    for name in found.globals:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            if is_application(value.__name__):
                yield from (inspect.unwrap(part) for part in _parts(value, found.attributes))
        elif isinstance(value, FunctionType | type):
            yield inspect.unwrap(value)
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if isinstance(value, FunctionType | type):
            yield inspect.unwrap(value)


def _parts(module: ModuleType, names: frozenset[str]) -> Iterator[Any]:
    values = (vars(module).get(name) for name in sorted(names))
    return (value for value in values if isinstance(value, FunctionType | type))
