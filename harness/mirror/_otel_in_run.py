"""The spans of one trace as a run: what is wrong with them is mended and said, and costs no other span."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from harness.mirror._ids import trace_id as trace_of
from harness.mirror._import_run import SOURCE, Built, build, made_id
from harness.mirror._observation import Malformed, Observation
from harness.mirror._otel_in_json import LAST
from harness.mirror._otel_in_messages import reason_of
from harness.mirror._otel_in_span import PROJECT, Span, observation
from harness.mirror._otel_in_spool import digest_of
from harness.record import (
    LOCAL,
    CacheState,
    Determinism,
    MessageRecord,
    RunRecord,
    Status,
    StepRecord,
    StepState,
    VolatileRecord,
)

VIA: Final = "otel"
_SHOWN: Final = 3
_SHORT: Final = 8
_ENDED: Final[Mapping[str, Status]] = {"ok": "ok", "error": "error", "interrupted": "interrupted"}
_STATES: Final[Mapping[str, CacheState]] = {word: word for word in get_args(CacheState)}
_STEP_STATES: Final[Mapping[str, StepState]] = {word: word for word in get_args(StepState)}
_DETERMINISM: Final[Mapping[str, Determinism]] = {word: word for word in get_args(Determinism)}
_PLACES: Final = range(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The spans of a trace, fit to be a run."""

    trace_id: str
    spans: Mapping[str, Span]
    """By id, each once."""
    own: str | None
    """Id of the run that the trace is goldfork's own export of; ``None`` for a stranger's."""
    digest: str
    """Hash of all that its spans say."""
    ended: int
    """Unix nanoseconds at which its last span ended."""
    remarks: tuple[str, ...]
    """What was wrong."""


def mend(trace_id: str, told: Iterable[tuple[Span, bytes]]) -> Mended:
    """Give each span of a trace an id of its own, and find out what is wrong with them.

    Args:
        trace_id: In hex.
        told: The spans, each with the hash of all that it says.

    Raises:
        Malformed: No span says when it began or ended.
    """
    known: dict[str, Span] = {}
    digests: list[bytes] = []
    wrong: Counter[str] = Counter()
    for span, digest in told:
        digests.append(digest)
        identifier = span.id
        if not identifier:
            wrong["no id"] += 1
            identifier = f"no id, {digest.hex()[:_SHORT]}"
        had = known.get(identifier)
        if had is not None and (had.name, had.start) != (span.name, span.start):
            # Two spans, and not one that was sent twice.
            wrong["shared id"] += 1
            identifier = f"{identifier}, {digest.hex()[:_SHORT]}"
            had = known.get(identifier)
        if had is None or (span.end or 0) >= (had.end or 0):
            known[identifier] = span if span.id == identifier else replace(span, id=identifier)
    times = [time for span in known.values() for time in (span.start, span.end) if time is not None]
    if not times:
        raise Malformed("none of its spans says when it began")
    wrong["no start"] = sum(span.start is None for span in known.values())
    wrong["backwards"] = sum((span.end or LAST) < (span.start or 0) for span in known.values())
    return Mended(
        trace_id=trace_id,
        spans=known,
        own=_own(trace_id, known.values()),
        digest=digest_of(digests),
        ended=max(times),
        remarks=tuple(_remarks(known, wrong)),
    )


def _remarks(known: Mapping[str, Span], wrong: Mapping[str, int]) -> Iterable[str]:
    tops = _tops(known)
    lost = sorted({span.parent_id for span in tops if span.parent_id})
    if lost and len(tops) > 1:
        shown = ", ".join(map(repr, lost[:_SHOWN])) + (", …" if len(lost) > _SHOWN else "")
        yield f"spans name parents that are not there ({shown}) and hang from the run"
    circling = len(known) - _below(known, tops)
    if circling:
        yield f"{circling} spans lie in or below a circle of parents, which was cut at its earliest"
    for name, words in _WRONG.items():
        if wrong[name]:
            yield f"{wrong[name]} {'span' if wrong[name] == 1 else 'spans'} {words}"


_WRONG: Final = {
    "no id": "had no id of 8 bytes and got one",
    "shared id": "shared an id with another and got one",
    "no start": "told no time after 1970 at which they began",
    "backwards": "ended before they began and last 0 ms",
}


def _tops(known: Mapping[str, Span]) -> list[Span]:
    """Spans that nothing in the trace encloses."""
    return [span for span in known.values() if span.parent_id not in known]


def _below(known: Mapping[str, Span], tops: Iterable[Span]) -> int:
    """How many spans are reached from the top."""
    children: defaultdict[str, list[str]] = defaultdict(list)
    for span in known.values():
        if span.parent_id in known:
            children[span.parent_id or ""].append(span.id)
    reached = 0
    waiting = [span.id for span in tops]
    while waiting:
        reached += 1
        waiting += children[waiting.pop()]
    return reached


def _own(trace_id: str, spans: Iterable[Span]) -> str | None:
    """The run that every span of a trace says it belongs to, and that has the trace's id."""
    runs = {str(span.attributes.get("goldfork.run.id")) for span in spans}
    return next(iter(runs)) if len(runs) == 1 and trace_of(min(runs)) == trace_id else None


def run_of(mended: Mended, *, known: str | None) -> Built:
    """Make a run of a trace.

    Args:
        mended: Its spans.
        known: Id of the run that an earlier import made of it.
    """
    spans = mended.spans
    observations = _observations(mended)
    built = build(mended.trace_id, observations, known=known or mended.own)
    calls = {made_id(PROJECT, mended.trace_id, "message", span.id): span for span in spans.values()}
    built.messages = [_message(message, calls[message.id], own=bool(mended.own)) for message in built.messages]
    if mended.own:
        work = {made_id(PROJECT, mended.trace_id, "step", span.id): span for span in spans.values()}
        built.steps = [_step(step, work[step.id]) if step.id in work else step for step in built.steps]
        top = next((span for span in spans.values() if span.parent_id is None), None)
        built.run = built.run if top is None else _run(built.run, top.attributes)
    value = {
        "trace": mended.trace_id,
        "updated_at": max(one.touched for one in observations).isoformat(),
        "parts": len(observations),
        "via": VIA,
        "digest": mended.digest,
        "ended": mended.ended,
    }
    built.source = VolatileRecord(run_id=built.run.id, scope="", name=SOURCE, occurrence=0, value=json.dumps(value))
    return built


def _observations(mended: Mended) -> list[Observation]:
    spans = list(mended.spans.values())
    first = min(time for span in spans for time in (span.start, span.end) if time is not None)
    begun = {span.id: span.start or span.end or first for span in spans}
    places = [span.attributes.get("goldfork.seq") for span in spans]
    told = mended.own is not None and all(map(_is_place, places)) and len(set(places)) == len(places)
    parentless = [span for span in spans if span.parent_id is None]
    tops = parentless or _tops(mended.spans)
    made = [
        observation(
            span,
            trace_id=mended.trace_id,
            # Of a trace that began elsewhere only the part that is here can stand for the run.
            root=len(tops) == 1 and span is tops[0],
            start=begun[span.id],
            rank=span.attributes["goldfork.seq"] if told else begun[span.id],
        )
        for span in spans
    ]
    # Instrumentations put them on the call; a run has them as a whole.
    session = next((one.session_id for one in made if one.session_id), None)
    user = next((one.user_id for one in made if one.user_id), None)
    return made if session is user is None else [replace(one, session_id=session, user_id=user) for one in made]


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _PLACES


def _message(message: MessageRecord, span: Span, *, own: bool) -> MessageRecord:
    """A message with what the import of traces has no place for: who answered, and as what."""
    found = span.attributes
    reasons = found.get("gen_ai.response.finish_reasons")
    state = _STATES.get(str(found.get("goldfork.cache_state"))) if own else None
    currency = found.get("goldfork.currency")
    return replace(
        message,
        provider=_provider(span) or message.provider,
        model_served=span.first(("gen_ai.response.model", "llm.response.model_name", "llm.model_name")),
        system_fingerprint=span.first(
            ("openai.response.system_fingerprint", "gen_ai.openai.response.system_fingerprint")
        ),
        streamed=any(found.get(name) is True for name in ("gen_ai.request.stream", "gen_ai.is_streaming")),
        finish_reasons=tuple(filter(None, map(reason_of, reasons)))
        if isinstance(reasons, list)
        else message.finish_reasons,
        prompt_name=span.first(("gen_ai.prompt.name",)),
        prompt_version=span.first(("goldfork.prompt.version",)),
        cache_state=state or "live",
        currency=currency if own and isinstance(currency, str) else message.currency,
    )


def _provider(span: Span) -> str | None:
    """Host and port that were asked, else the name of who answered."""
    host, port = span.first(("server.address",)), span.attributes.get("server.port")
    name = span.first(("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"))
    if name == LOCAL or not host:
        return name
    return f"{host}:{port}" if isinstance(port, int) and port in range(1, 2**16) else host


def _step(step: StepRecord, span: Span) -> StepRecord:
    found = span.attributes
    return replace(
        step,
        state=_STEP_STATES.get(str(found.get("goldfork.state")), step.state),
        determinism=_DETERMINISM.get(str(found.get("goldfork.determinism"))),
    )


def _run(run: RunRecord, found: Mapping[str, Any]) -> RunRecord:
    """A run that goldfork exported, with what its root says of it."""

    def word(name: str) -> str | None:
        value = found.get(f"goldfork.{name}")
        return value if isinstance(value, str) else None

    trial = found.get("goldfork.trial")
    return replace(
        run,
        status=_ENDED.get(word("status") or "", run.status),
        mode=word("mode") or run.mode,
        arm=word("arm") or run.arm,
        trial=trial if isinstance(trial, int) and _is_place(trial) else 0,
        case=word("case"),
        parent_run_id=word("parent_run.id"),
        fork_step=word("fork_step"),
        code_version=word("code_version"),
    )
