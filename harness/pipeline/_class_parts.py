"""What a class is made of, as its author wrote it: the same under every version of Python and of pydantic."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType
from typing import Any

from harness.pipeline._source import source_of

_MADE = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl", "__annotations__"}
    | {"__static_attributes__", "__firstlineno__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
    | {"__dataclass_params__", "__dataclass_fields__", "__parameters__", "__orig_bases__", "__match_args__"}
    | {"__signature__", "__subclasshook__", "__protocol_attrs__", "__non_callable_proto_members__", "__hash__"}
    | {"__annotations_func__", "__conditional_annotations__", "__qualname__", "__replace__", "_field_types"}
    | {"_protocol_attrs", "__callable_proto_members_only__", "__class_getitem__", "__total__"}
)
"""Members that Python derives from the rest."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType)


def class_parts(kind: type) -> Iterator[tuple[str, Any]]:
    """Names and values that tell one version of a class from another."""
    if issubclass(kind, Enum):
        yield from ((name, member.value) for name, member in kind.__members__.items())
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            yield f"field {field.name}", _or_none(field.default)
            yield f"factory of {field.name}", _or_none(field.default_factory)
    fields = vars(kind).get("__pydantic_fields__") or {}
    for name, info in fields.items():
        yield f"field {name}: {info.annotation!r}", info.default if not info.is_required() else None
        yield f"factory of {name}", info.default_factory
    for name, value in sorted(vars(kind).items()):
        if not _is_made(kind, name, value):
            yield name, value


def class_source(kind: type) -> str:
    """The text of a class: limits of fields, docstring, configuration; empty where there is none."""
    return source_of(kind)


def classes_named(kind: type) -> Iterator[type]:
    """Classes that the annotations of a class name: what its fields are made of."""
    module = vars(sys.modules.get(kind.__module__, kind))
    for annotation in vars(kind).get("__annotations__", {}).values():
        for name in dict.fromkeys(_NAME.findall(annotation if isinstance(annotation, str) else repr(annotation))):
            found = module.get(name)
            if isinstance(found, type):
                yield found


def _or_none(value: Any) -> Any:
    return None if value is dataclasses.MISSING else value


def _is_made(kind: type, name: str, value: Any) -> bool:
    if name in _MADE or isinstance(value, _DESCRIPTORS) or type(value).__module__ == "_collections":
        return True
    if name.startswith(("__pydantic_", "__private_", "__class_vars__", "model_")) and hasattr(
        kind, "__pydantic_fields__"
    ):
        return name not in vars(kind) or not isinstance(value, FunctionType)
    if issubclass(kind, Enum):
        return name.startswith("_") or name in kind.__members__
    # What dataclasses and named tuples generate has no file.
    return isinstance(value, FunctionType) and value.__code__.co_filename.startswith("<")
