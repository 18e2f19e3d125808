"""Bringing OpenTelemetry spans out of files into the store, as runs: their structure, and the content they carry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from harness.errors import CanonicalError, StoreError, UsageError
from harness.mirror._import_run import SOURCE, Built, root_id
from harness.mirror._observation import Malformed
from harness.mirror._otel_in_json import Piece, field_of, id_of, objects, pieces, spans_in
from harness.mirror._otel_in_run import VIA, Mended, mend, run_of
from harness.mirror._otel_in_span import PROJECT
from harness.mirror._otel_in_spool import Spool

if TYPE_CHECKING:
    from harness.store import Store

_REASON: Final = 300
_AT_ONCE: Final = 32
_RECORDS_AT_ONCE: Final = 20_000
_LINES: Final = 20
"""Broken lines of a file that are named; the rest is counted."""
_PROVOKED: Final = (Malformed, CanonicalError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
                     RecursionError)  # fmt: skip
"""What a stranger could provoke by what is put into a span; the trace is named and the others come in."""
_OTHER: Final = {"resourceLogs": "logs", "resourceMetrics": "metrics"}
_PACKED: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"BZh": "bzip2"}


@dataclass(slots=True, kw_only=True)
class SpansImported:
    """What an import of spans did, and how far it is."""

    spans: int = 0
    """Spans read."""
    bytes: int = 0
    """Read of the files."""
    traces: int = 0
    """Traces found; 0 until everything is read."""
    done: int = 0
    """Traces looked at."""
    imported: list[str] = field(default_factory=list)
    """Ids of new runs."""
    updated: list[str] = field(default_factory=list)
    """Ids of runs that had changed since an earlier import."""
    unchanged: int = 0
    """Runs that an earlier import brought, and of which the files tell nothing newer."""
    recorded: int = 0
    """Runs that this store recorded itself; they are never overwritten."""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Traces, and lines of files as ``FILE:LINE``, that could not be made runs, each with the reason."""
    mended: list[tuple[str, str]] = field(default_factory=list)
    """Traces that came in whole although something in them was wrong, each with what that was."""


def import_spans(
    store: Store,
    sources: Iterable[tuple[str, IO[bytes]]],
    *,
    progress: Callable[[SpansImported], None] | None = None,
) -> SpansImported:
    """Import the traces of OTLP/JSON files as runs with fidelity ``imported``.

    A trace may be spread over several files. In memory there is one request or one trace at a time; what was read
    lies in a temporary file meanwhile. A trace that is met again is written again only when it tells more.

    Args:
        store: Where the runs go.
        sources: Names and contents of the files.
        progress: Called after every request that was read, and after every trace.

    Raises:
        UsageError: A file holds no spans at all; nothing was written.
    """
    result = SpansImported()
    with Spool() as spool:
        for name, content in sources:
            _read(name, content, spool, result, progress)
        result.traces = len(spool.traces)
        work = _Import(store, result)
        for trace_id in spool.traces:
            work.take(trace_id, spool)
            result.done += 1
            if progress is not None:
                progress(result)
        work.settle()
    return result


def _read(
    name: str, content: IO[bytes], spool: Spool, result: SpansImported, progress: Callable[[SpansImported], None] | None
) -> None:
    """Read one file into the spool."""
    before, bad, other = result.spans, 0, ""
    for piece in pieces(_checked(name, content)):
        result.bytes += piece.size
        reason = piece.reason or _take(piece, spool, result)
        other = other or _other(piece)
        if reason:
            bad += 1
            if bad <= _LINES:
                _leave_out(result, f"{name}:{piece.line}", reason)
        if progress is not None:
            progress(result)
    if result.spans == before:
        raise UsageError(
            f"{name!r} holds no spans{f' but {other}' if other else ''}; give files of OTLP/JSON traces, as the "
            "OpenTelemetry collector's file exporter writes them"
        )
    if bad > _LINES:
        _leave_out(result, name, f"{bad - _LINES} more lines like these")


def _checked(name: str, content: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, unless its first bytes say that it is packed."""
    for number, line in enumerate(content):
        packed = next((kind for start, kind in _PACKED.items() if line.startswith(start)), "") if number == 0 else ""
        if packed:
            raise UsageError(
                f"{name!r} is packed with {packed}; unpack it and give what was in it, - for standard input"
            )
        yield line


def _take(piece: Piece, spool: Spool, result: SpansImported) -> str:
    """Put the spans of a request into the spool; what is wrong with some, empty for nothing."""
    lost = 0
    for raw in spans_in(piece.value):
        result.spans += 1
        trace_id = id_of(field_of(raw.span, "traceId"), 16)
        if trace_id:
            spool.add(trace_id, raw)
        else:
            lost += 1
    return f"{lost} {'span has' if lost == 1 else 'spans have'} no trace id of 16 bytes" if lost else ""


def _other(piece: Piece) -> str:
    requests = objects(piece.value) if isinstance(piece.value, list) else [piece.value]
    return next((words for one in requests for name, words in _OTHER.items() if field_of(one, name) is not None), "")


def _leave_out(result: SpansImported, identifier: str, reason: str) -> None:
    result.left_out.append((identifier, _line(reason)))


def _line(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= _REASON else f"{line[: _REASON - 1]}…"


class _Import:
    """Takes traces in, one after another."""

    def __init__(self, store: Store, result: SpansImported) -> None:
        self._store = store
        self._result = result
        self._writing: list[tuple[str, bool, str, Future[None]]] = []
        self._records = 0

    def settle(self) -> None:
        """Wait until everything is committed; what the store refused is left out."""
        for trace_id, new, run, future in self._writing:
            error = future.exception()
            if error is None:
                (self._result.imported if new else self._result.updated).append(run)
            elif isinstance(error, StoreError):
                _leave_out(self._result, trace_id, str(error))
            else:
                raise error
        self._writing.clear()
        self._records = 0

    def take(self, trace_id: str, spool: Spool) -> None:
        """Make a run of one trace and write it; what is wrong with it is kept as a reason."""
        try:
            mended = mend(trace_id, spool.spans(trace_id))
            self._take(mended)
        except _PROVOKED as error:
            _leave_out(self._result, trace_id, str(error) or type(error).__name__)
            return
        if mended.remarks:
            self._result.mended.append((trace_id, _line("; ".join(mended.remarks))))
        if len(self._writing) >= _AT_ONCE or self._records >= _RECORDS_AT_ONCE:
            self.settle()

    def _take(self, mended: Mended) -> None:
        known = self._known(mended)
        if known is not None and known["fidelity"] != "imported":
            self._result.recorded += 1
            return
        source = {} if known is None else self._source(str(known["id"]))
        if known is not None and (source.get("via") != VIA or source.get("digest") == mended.digest):
            # What came over Langfuse tells more of a run than spans do.
            self._result.unchanged += 1
            return
        built = run_of(mended, known=None if known is None else str(known["id"]))
        if known is not None and not self._newer(built, source, mended):
            self._result.unchanged += 1
            return
        records = built.records
        self._records += len(records)
        future = self._store.write(*records, blobs=built.blobs)
        self._writing.append((mended.trace_id, known is None, built.run.id, future))

    def _known(self, mended: Mended) -> dict[str, Any] | None:
        """The row of the run that the trace is, or was made by an earlier import."""
        steps = self._store.load("steps", id=root_id(PROJECT, mended.trace_id))
        run = mended.own or (str(steps[0]["run_id"]) if steps else None)
        rows = self._store.load("runs", id=run) if run else []
        return rows[0] if rows else None

    def _source(self, run_id: str) -> dict[str, Any]:
        """From where an imported run came; empty when it does not say."""
        for row in self._store.load("volatile", run_id=run_id, name=SOURCE):
            try:
                found = json.loads(row["value"])
            except (ValueError, TypeError):
                continue
            return found if isinstance(found, dict) else {}
        return {}

    def _newer(self, built: Built, source: dict[str, Any], mended: Mended) -> bool:
        """Whether the files tell something that an earlier import did not know.

        Raises:
            Malformed: Each knows parts that the other does not.
        """
        top = root_id(PROJECT, mended.trace_id)
        has = {step.id for step in built.steps} | {message.id for message in built.messages}
        has.discard(top)
        had = {
            str(row["id"]) for table in ("steps", "messages") for row in self._store.load(table, run_id=built.run.id)
        } - {top}
        if had - has and has - had:
            raise Malformed(
                f"an earlier import made run {built.run.id!r} of {len(had - has)} spans that are missing here; "
                "give all files of the trace in one command"
            )
        ended = source.get("ended")
        return bool(has - had) or (has == had and not (isinstance(ended, int) and mended.ended < ended))
