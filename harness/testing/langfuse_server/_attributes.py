"""Reads attribute values the way the server does."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from harness.testing.langfuse_server._wire import Refusal, milliseconds

CUT: Final = 200
"""Characters of a metadata value that are shown when its key is not asked for."""
QUIET_SCOPE: Final = "langfuse-sdk"
"""Scopes that begin so do not get their raw attributes repeated in the metadata."""
_SAFE: Final = 2**53 - 1
_NUMBER: Final = re.compile(r"-?\d+")
_METADATA: Final = ("langfuse.trace.metadata", "langfuse.observation.metadata")
_OPENAI_USAGE: Final = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the spans of one request part share."""

    resource: Mapping[str, Any]
    scope_name: str
    metadata: Mapping[str, Any]
    """What they add to the metadata of every span, by dotted path."""


def flag(value: Any) -> bool:
    """A boolean attribute, also as text."""
    return value is True or value == "true"


def opaque(attributes: Mapping[str, Any], *names: str) -> str | None:
    """The first of the attributes that is there, as text and untouched."""
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value if isinstance(value, str) else orjson.dumps(value).decode()
    return None


def decoded(value: Any) -> Any:
    """Text as the JSON it holds, if it is any; an integer a double cannot hold stays text."""
    if not isinstance(value, str):
        return value
    if _NUMBER.fullmatch(value) and abs(int(value[:40])) > _SAFE:
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def mapping(value: Any) -> dict[str, Any]:
    """An object in JSON text; empty for anything else."""
    found = decoded(value)
    return found if isinstance(found, dict) else {}


def tags(value: Any) -> list[str]:
    """Tags from a list, a JSON list or comma-separated text."""
    if isinstance(value, str):
        found = decoded(value)
        value = found if isinstance(found, list) else [part.strip() for part in value.split(",") if part.strip()]
    return sorted({str(each) for each in value}) if isinstance(value, list) else []


def moment(value: Any) -> int | None:
    """ISO text, plain or as a JSON string, as unix milliseconds."""
    try:
        return milliseconds(decoded(value), "completionStartTime") if value else None
    except Refusal:
        return None


def usage(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Usage by bucket. One value that is not a non-negative integer loses all of it."""
    given = mapping(attributes.get("langfuse.observation.usage_details"))
    if not given:
        prefix = "gen_ai.usage."
        given = {key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)}
    if any(name in given for name in _OPENAI_USAGE):
        given = _split(given)
    found = {name: _count(value) for name, value in given.items() if value is not None}
    if not found or any(value is None for value in found.values()):
        return {}
    kept = {name: value for name, value in found.items() if value is not None}
    return {**kept, "total": kept.get("total", sum(kept.values()))}


def _count(value: Any) -> int | None:
    """A count of units; ``None`` if it is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _split(given: Mapping[str, Any]) -> dict[str, Any]:
    """Usage in the shape of the OpenAI API as disjoint buckets."""
    buckets: dict[str, Any] = {}
    for side, names in {"input": ("prompt", "input"), "output": ("completion", "output")}.items():
        total = next((given[f"{name}_tokens"] for name in names if f"{name}_tokens" in given), None)
        details: Any = next((given[f"{n}_tokens_details"] for n in names if given.get(f"{n}_tokens_details")), {})
        if isinstance(details, dict):
            for name, value in details.items():
                buckets[f"{side}_{name}"] = value
                if isinstance(total, int) and isinstance(value, int):
                    total = max(0, total - value)
        if total is not None:
            buckets[side] = total
    if "total_tokens" in given:
        buckets["total"] = given["total_tokens"]
    return buckets


def cost(value: Any) -> dict[str, float]:
    """Cost in USD by bucket; explicit values always win, a total is added."""
    kept = {
        name: float(each)
        for name, each in mapping(value).items()
        if isinstance(each, int | float) and not isinstance(each, bool)
    }
    return {**kept, "total": kept.get("total", sum(kept.values()))} if kept else {}


def metadata(attributes: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """An observation's metadata: its own, its trace's and what the server adds."""
    flat = dict(origin.metadata)
    if not origin.scope_name.startswith(QUIET_SCOPE):
        _flatten("attributes", dict(attributes), into=flat)
    for prefix in _METADATA:
        whole = decoded(attributes.get(prefix))
        if isinstance(whole, dict):
            for key, value in whole.items():
                _flatten(key, value, into=flat)
        elif whole is not None:
            flat["metadata"] = whole
        dotted = f"{prefix}."
        for key, value in attributes.items():
            if key.startswith(dotted):
                _flatten(key[len(dotted) :], decoded(value), into=flat)
    return nested(flat)


def shared(resource: Mapping[str, Any], scope: Mapping[str, Any]) -> dict[str, Any]:
    """What the server adds to the metadata of every span of a request part, by dotted path."""
    flat: dict[str, Any] = {}
    _flatten("resourceAttributes", dict(resource), into=flat)
    _flatten("scope", dict(scope), into=flat)
    return flat


def _flatten(path: str, value: Any, *, into: dict[str, Any]) -> None:
    """Objects become dotted paths; an empty one has no path, so that it is lost."""
    if isinstance(value, dict):
        for key, each in value.items():
            _flatten(f"{path}.{key}", each, into=into)
    else:
        into[path] = value


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted paths as objects; a path that runs through a value keeps its dots."""
    root: dict[str, Any] = {}
    for path, value in flat.items():
        place = root
        *above, last = path.split(".")
        for name in above:
            below = place.setdefault(name, {})
            if not isinstance(below, dict):
                place, last = root, path
                break
            place = below
        if isinstance(place.get(last), dict):
            root[path] = value
        else:
            place[last] = value
    return root


def shortened(metadata: Mapping[str, Any], expanded: Container[str]) -> dict[str, Any]:
    """Metadata as a list shows it: what is not under an expanded top-level key is cut."""
    return {key: value if key in expanded else cut(value) for key, value in metadata.items()}


def cut(value: Any) -> Any:
    """A metadata value as a list shows it: leaves of more than 200 characters are cut."""
    if isinstance(value, dict):
        return {key: cut(each) for key, each in value.items()}
    if isinstance(value, str):
        return value[:CUT]
    if isinstance(value, list):
        text = orjson.dumps(value).decode()
        return text[:CUT] if len(text) > CUT else value
    return value
