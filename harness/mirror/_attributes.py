"""Redacted spans written down as OTLP/JSON, with the attribute names the server reads.

Source: the attributes that Langfuse's OpenTelemetry endpoint documents, server 4, and the OTLP/JSON encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from harness.mirror import _dictionary as words
from harness.mirror._experiments import experiment_id, suffix
from harness.mirror._ids import trace_id
from harness.mirror._media import Extraction
from harness.mirror._render import Context, Rendered, marks
from harness.mirror._spans import Span
from harness.record import RunRecord
from harness.redact import Redactor

_INTERNAL, _ERROR = 1, 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ID = re.compile(r"(?:v[1-9]\d?:)?[0-9a-f]{64}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
"""Hashes, keys and ids of ours."""
_ID_LENGTHS = frozenset({36, 64, 67, 68})
_SMALL = 10**6
"""Whole numbers below this are no phone number, card or key."""
_O = "langfuse.observation."
_E = "langfuse.experiment."


def written(rendered: Rendered, context: Context) -> list[bytes]:
    """The spans as OTLP/JSON objects, everything foreign in them redacted, in the order given."""
    told = [_Told(span) for span in rendered.spans]
    shared = _shared(rendered.run, context)
    # All at once: what is recognised as a secret in one place is replaced in the others, earlier ones included.
    given = [shared, [each.foreign for each in told], rendered.meta]
    clean = Redactor().value(given)
    if clean is not given:
        for each, found in zip(told, clean[1], strict=True):
            each.clean(found)
    common = _common(rendered.run, context, shared, clean[0], root=rendered.spans[0].id)
    trace = trace_id(rendered.run.id)
    # The root is what stands for the case.
    before = [_fragment([*common, *_expected(clean[0])]), *[_fragment(common)] * (len(told) - 1)]
    return [orjson.dumps(_encoded(trace, each.span, said, clean[2])) for each, said in zip(told, before, strict=True)]


def _fragment(pairs: Sequence[Mapping[str, Any]]) -> orjson.Fragment:
    """Elements of a list, written down once; there is always one."""
    return orjson.Fragment(orjson.dumps(pairs)[1:-1])


class _Told:
    """What of a span goes through the redactor, and back into its place."""

    def __init__(self, span: Span) -> None:
        self.span = span
        parts = (part for part in (span.meta, span.meta.get("row"), span.meta.get("root")) if part)
        self._places: list[tuple[dict[str, Any], str]] = [(part, name) for part in parts for name in _foreign(part)]
        self.foreign: list[Any] = [getattr(span, name) for name in _FOREIGN]
        self.foreign += [*span.texts.values(), *(part[name] for part, name in self._places)]

    def clean(self, found: list[Any]) -> None:
        """Put back what the redactor made of it."""
        span, values = self.span, iter(found)
        for name in _FOREIGN:
            setattr(span, name, next(values))
        span.texts = {name: next(values) for name in span.texts}
        for part, name in self._places:
            part[name] = next(values)


_FOREIGN = ("name", "status", "input", "output", "request", "params")


def _foreign(part: Mapping[str, Any]) -> list[str]:
    """The keys whose values may hold what came from outside; rows are parts by themselves."""
    return [name for name, value in part.items() if value is not None and name not in _OWN and _is_foreign(value)]


_OWN = words.OWN | {"row", "root"}


def _is_foreign(value: Any) -> bool:
    if isinstance(value, str):
        # Most text has another length, and to look at it takes longer.
        return len(value) not in _ID_LENGTHS or _ID.fullmatch(value) is None
    return isinstance(value, (dict, list)) or (isinstance(value, int) and abs(value) >= _SMALL)


def _shared(run: RunRecord, context: Context) -> dict[str, Any]:
    """What every span of the run says, before redaction."""
    shared: dict[str, Any] = {
        "name": run.workflow,
        "tags": list(run.tags),
        "owner": [run.metadata.get("user_id"), run.metadata.get("session_id")],
        "release": context.release,
    }
    experiment = context.experiment
    if experiment is not None:
        shared["experiment"] = {
            "id": experiment.get("id"),
            "name": experiment.get("name") or experiment.get("id"),
            "description": experiment.get("description"),
            "metadata": {
                name: _plain(experiment[name])
                for name in ("dataset", "version", "digest", "target", "mode", "change", "code_version")
                if experiment.get(name) is not None
            },
            "dataset": context.dataset_id,
            "item": context.item_id or run.case,
            "case": run.case,
            "arm": run.arm,
            # A file in it is told by its note, like those of inputs and outputs.
            "expected": Extraction(run.id).value(context.expected_output, "output"),
        }
    return shared


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | dict | list) else str(value)


def _common(
    run: RunRecord, context: Context, given: Mapping[str, Any], clean: Mapping[str, Any], *, root: str
) -> list[dict[str, Any]]:
    """The attributes that every span of the run has."""
    experiment = clean.get("experiment")
    place = words.EXPERIMENT_ENVIRONMENT if experiment else words.environment(context.environment)
    attributes: dict[str, Any] = {
        "langfuse.trace.name": words.bounded(clean["name"]),
        "langfuse.environment": place,
        "langfuse.release": words.bounded(clean["release"]) if clean["release"] else None,
    }
    names = ("user.id", "session.id")
    for name, before, after in zip(names, given["owner"], clean["owner"], strict=True):
        # With a placeholder in it, everybody's would be the same one.
        if isinstance(before, str | int) and not isinstance(before, bool) and before == after and str(after):
            attributes[name] = words.bounded_ascii(str(after))
    if experiment:
        attributes |= _experiment(run, context, experiment, root=root)
    pairs = [_pair(name, value) for name, value in attributes.items() if value is not None]
    tags = list(dict.fromkeys([*(words.bounded(str(tag)) for tag in clean["tags"]), *marks(run)]))
    if tags:
        listed = [{"stringValue": _well_formed(tag)} for tag in tags]
        pairs.append({"key": "langfuse.trace.tags", "value": {"arrayValue": {"values": listed}}})
    return pairs


def _experiment(run: RunRecord, context: Context, clean: Mapping[str, Any], *, root: str) -> dict[str, Any]:
    row = context.experiment or {}
    end = suffix(row, arm=run.arm, trial=run.trial)
    attributes = {
        "id": experiment_id(row, arm=run.arm, trial=run.trial),
        "name": f"{words.bounded(str(clean['name']), words.LONGEST - len(end))}{end}",
        "description": clean["description"],
        "metadata": words.json_text({**clean["metadata"], "trial": run.trial}),
        "dataset.id": clean["dataset"],
    }
    if clean["item"] is not None:
        attributes |= {
            "item.id": clean["item"],
            "item.version": context.item_version,
            "item.metadata": words.json_text({"case": clean["case"], "arm": clean["arm"]}),
            "item.root_observation_id": root,
        }
    return {f"{_E}{name}": value for name, value in attributes.items() if value is not None}


def _expected(clean: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the case expects, as an attribute of its item; none where that is not known."""
    experiment = clean.get("experiment") or {}
    if experiment.get("item") is None or experiment["expected"] is None:
        return []
    return [_pair(f"{_E}item.expected_output", words.json_text(experiment["expected"]))]


def _encoded(trace: str, span: Span, common: orjson.Fragment, meta: Mapping[str, Any]) -> dict[str, Any]:
    encoded: dict[str, Any] = {"traceId": trace, "spanId": span.id}
    if span.parent is not None:
        encoded["parentSpanId"] = span.parent
    encoded |= {
        "name": words.bounded(_well_formed(span.name)),
        "kind": _INTERNAL,
        "startTimeUnixNano": str(span.start * 1_000_000),
        "endTimeUnixNano": str(span.end * 1_000_000),
        "attributes": [common, *(_pair(name, value) for name, value in _own(span, meta))],
        "status": {"code": _ERROR} if span.level == "ERROR" else {},
    }
    return encoded


def _own(span: Span, meta: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The attributes of one span; input and output first, so that a limit on their number cuts the rest."""
    yield f"{_O}type", span.type
    yield f"{_O}level", span.level
    if span.status is not None:
        yield f"{_O}status_message", span.status
    if span.input is not None:
        yield f"{_O}input", words.json_text(span.input)
    if span.output is not None:
        yield f"{_O}output", words.json_text(span.output)
    yield from span.fixed.items()
    for name, value in span.texts.items():
        yield name, words.bounded(value)
    if span.params:
        yield f"{_O}model.parameters", words.json_text(span.params)
    if span.first_chunk_ms is not None and 0 <= span.first_chunk_ms < span.end:
        at = min(span.start + int(span.first_chunk_ms), span.end)
        when = _EPOCH + timedelta(milliseconds=at)
        yield f"{_O}completion_start_time", when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    beside = {"request": span.request} if span.request else {}
    yield f"{_O}metadata.{words.KEY}", words.json_text(words.packed({**meta, **span.meta, **beside}))
    # The run's own metadata stand under their own keys; one with the name of our object is in that only.
    own = span.meta.get("root", {}).get("metadata", {})
    given = {name: value for name, value in own.items() if name != words.KEY}
    if given:
        yield "langfuse.trace.metadata", words.json_text(given)


def _pair(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": _well_formed(str(value))}}


def _well_formed(text: str) -> str:
    """The text with each lone surrogate, which UTF-8 cannot hold, spelled out as JSON does it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
