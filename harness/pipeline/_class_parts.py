"""What a class is made of, as its author wrote it: the same under every version of Python and of pydantic."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from types import CodeType, GetSetDescriptorType, MemberDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from harness.pipeline._source import source_of

_MADE = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl", "__annotations__"}
    | {"__static_attributes__", "__firstlineno__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
    | {"__dataclass_params__", "__dataclass_fields__", "__parameters__", "__orig_bases__", "__match_args__"}
    | {"__signature__", "__subclasshook__", "__protocol_attrs__", "__non_callable_proto_members__", "__hash__"}
    | {"__annotations_func__", "__conditional_annotations__", "__qualname__", "__replace__", "_field_types"}
    | {"_protocol_attrs", "__callable_proto_members_only__", "__class_getitem__", "__total__"}
    | {"_generate_next_value_", "_new_member_", "_use_args_", "_member_type_", "_value_repr_", "_unhashable_values_"}
    | {"__pydantic_fields__", "__pydantic_complete__", "__private_attributes__", "model_fields"}
    | {"model_computed_fields"}
)
"""Members that Python and pydantic derive from the rest, unless they are functions of the class's author."""
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_OF_FIELDS = (
    *("alias", "alias_priority", "validation_alias", "serialization_alias", "title", "description", "examples"),
    *("exclude", "discriminator", "deprecated", "json_schema_extra", "frozen", "validate_default", "repr"),
    *("init", "init_var", "kw_only", "metadata", "annotation", "coerce_numbers_to_str", "strict"),
)
"""What pydantic keeps of a field besides its default."""
_DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType, WrapperDescriptorType)


def class_parts(kind: type) -> Iterator[tuple[str, Any]]:
    """Names and values that tell one version of a class from another."""
    if issubclass(kind, Enum):
        yield from ((name, member.value) for name, member in kind.__members__.items())
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            yield f"field {field.name}", _or_none(field.default)
            yield f"factory of {field.name}", _or_none(field.default_factory)
            yield f"flags of {field.name}", (field.init, field.repr, field.hash, field.compare, field.kw_only is True)
    fields = vars(kind).get("__pydantic_fields__") or {}
    for name, info in fields.items():
        yield f"field {name}", info.default if not info.is_required() else None
        yield f"factory of {name}", info.default_factory
        given = {option: getattr(info, option, None) for option in _OF_FIELDS}
        yield f"options of {name}", {option: value for option, value in given.items() if value not in (None, [])}
    for name, attribute in (vars(kind).get("__private_attributes__") or {}).items():
        if attribute.default_factory is not None or attribute.get_default() is not _undefined():
            yield f"private {name}", attribute.default_factory or attribute.get_default()
    for name, value in sorted(vars(kind).items()):
        if not _is_made(kind, name, value):
            yield name, value


def _undefined() -> Any:
    """What pydantic says where there is no default; it is loaded wherever there is a model."""
    return getattr(sys.modules.get("pydantic_core"), "PydanticUndefined", None)


def class_source(kind: type) -> str:
    """The text of a class: limits of fields, docstring, configuration; empty where there is none."""
    return source_of(kind)


def classes_named(kind: type) -> Iterator[Any]:
    """What the annotations of a class name: classes that its fields are made of, validators, aliases."""
    yield from named_in(vars(kind).get("__annotations__", {}), vars(sys.modules.get(kind.__module__, kind)))


def named_in(annotations: Mapping[str, Any], module: Mapping[str, Any]) -> Iterator[Any]:
    """What annotations name: themselves, and where they are texts what their names stand for in a module."""
    for annotation in annotations.values():
        if not isinstance(annotation, str):
            yield annotation
        text = annotation if isinstance(annotation, str) else "" if isinstance(annotation, type) else repr(annotation)
        for dotted in dict.fromkeys(_NAME.findall(text)):
            first, *rest = dotted.split(".")
            found = module.get(first)
            for part in rest:
                found = vars(found).get(part) if isinstance(found, ModuleType) else found
            if found is not None and not isinstance(found, ModuleType):
                yield found


def _or_none(value: Any) -> Any:
    return None if value is dataclasses.MISSING else value


def _is_made(kind: type, name: str, value: Any) -> bool:
    if isinstance(value, _DESCRIPTORS) or type(value).__module__ == "_collections":
        return True
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if isinstance(code, CodeType):
        # What dataclasses, enums and named tuples generate has no file, or one of Python.
        return code.co_filename.startswith("<") or (name in _MADE and not _is_of(value, kind))
    if name in _MADE or (name.startswith(("__pydantic_", "__class_vars__")) and hasattr(kind, "__pydantic_fields__")):
        return True
    return issubclass(kind, Enum) and (name in kind.__members__ or name.endswith("_") or name == "_member_names_")


def _is_of(value: Any, kind: type) -> bool:
    """Whether a function is of the module of its class, so that Python did not put it there."""
    function = getattr(value, "__func__", value)
    return getattr(function, "__module__", None) == kind.__module__
