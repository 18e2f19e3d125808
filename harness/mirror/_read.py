"""Reading observations back from a Langfuse server, as raw JSON.

The package's REST client is not used here for two reasons: one malformed observation would fail its whole page, and
it reads money into floats. Source of the protocol: ``GET /api/public/v2/observations`` of Langfuse 4.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from harness.errors import ReadError, UsageError
from harness.mirror._observation import Malformed, Observation, looks_cut
from harness.mirror._wire import MAX_WAIT, backoff, by_error, by_status

if TYPE_CHECKING:
    from harness.mirror._project import Project

GROUPS: Final = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
_OURS: Final = "goldfork"
_PATH: Final = "/api/public/v2/observations"
_HEALTH: Final = "/api/public/health"
_ROOTS_PER_PAGE: Final = 100
_PER_PAGE: Final = 200
_TRIES: Final = 6
_KEYS_AT_ONCE: Final = 50
_MOST_PAGES: Final = 10_000
_DIGITS: Final = 1_000
_COLUMNS: Final = {"user": "userId", "session": "sessionId", "name": "traceName"}

FILTERS: Final = ("environment", "tag", "name", "user", "session")
"""What an import may be narrowed by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What is imported: root observations that started in a frozen stretch of time."""

    since: datetime
    until: datetime
    """Exclusive."""
    filters: tuple[tuple[str, str], ...] = ()
    """Pairs of a name of ``FILTERS`` and a value, all of which must hold; several environments are alternatives."""

    def __post_init__(self) -> None:
        names = [name for name, _ in self.filters]
        for name in names:
            if name not in FILTERS:
                raise UsageError(f"--filter {name}=… is unknown; filter by {', '.join(FILTERS)}")
            if name in _COLUMNS and names.count(name) > 1:
                raise UsageError(f"--filter {name}=… can be given once")
        if self.since >= self.until:
            raise UsageError("--since must be before --until")

    def values(self, name: str) -> list[str]:
        """The values of one filter."""
        return [value for known, value in self.filters if known == name]

    def holds(self, observation: Observation) -> bool:
        """Whether a root observation passes the filters; a server may not know all of them."""
        environments = self.values("environment")
        single = {
            "user": observation.user_id,
            "session": observation.session_id,
            "name": observation.trace_name or observation.name,
        }
        return (
            (not environments or observation.environment in environments)
            and set(self.values("tag")) <= set(observation.tags)
            and all(value == single[name] for name in single for value in self.values(name))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of root observations."""

    traces: tuple[str, ...]
    """Ids of their traces, each once."""
    nameless: tuple[str, ...]
    """Ids of observations that belong to no trace."""
    cursor: str | None
    """Of the next page; ``None`` after the last."""


class ObservationReader:
    """Asks one project for its observations, patiently and within bounds."""

    def __init__(self, project: Project, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._project = project
        self._sleep = sleep

    def roots(self, window: Window, cursor: str | None) -> Page:
        """A page of root observations, newest first, core fields only.

        Raises:
            UsageError: The server has no list of observations, or refuses the keys.
            ReadError: It does not answer, or answers something else.
        """
        asked = {**_asked(window), "fields": "core", "limit": str(_ROOTS_PER_PAGE)}
        try:
            rows, following = self._page({**asked, **({"cursor": cursor} if cursor else {})})
        except Malformed as error:
            raise ReadError(
                f"{self._project.host} gave no page of observations ({error}); check LANGFUSE_BASE_URL and the filters"
            ) from error
        traces = [row.get("traceId") for row in rows]
        nameless = [str(row.get("id")) for row in rows if not isinstance(row.get("traceId"), str)]
        known = dict.fromkeys(trace for trace in traces if isinstance(trace, str))
        return Page(traces=tuple(known), nameless=tuple(nameless), cursor=following)

    def trace(self, trace_id: str) -> list[Observation]:
        """All observations of a trace with all their fields, each once in its newest state, in no order.

        Metadata that the server cut is asked for again by name.

        Raises:
            Malformed: One of them lacks an id or a start, or the server does not give just this trace.
            ReadError: The server does not answer.
        """
        try:
            return self._trace(trace_id)
        except ReadError as error:
            # A server may choke on one trace alone; it is named, as long as others can be had.
            self._get({"fields": "core", "limit": "1"})
            raise Malformed(str(error)) from error

    def _trace(self, trace_id: str) -> list[Observation]:
        asked = {"traceId": trace_id, "fields": GROUPS, "limit": str(_PER_PAGE), "expandMetadata": _OURS}
        found = newest(Observation.read(row) for row in self._rows(asked) if row.get("traceId") == trace_id)
        cut = sorted({key for one in found for key, value in one.metadata.items() if key != _OURS and looks_cut(value)})
        # A comma separates keys, so that a key with one in it cannot be named.
        named = [key for key in cut if "," not in key]
        whole: dict[str, dict[str, Any]] = {}
        for start in range(0, len(named), _KEYS_AT_ONCE):
            keys = named[start : start + _KEYS_AT_ONCE]
            again = {**asked, "fields": "core,metadata,time", "expandMetadata": ",".join(keys)}
            for one in newest(map(Observation.read, self._rows(again))):
                kept = {key: one.metadata[key] for key in keys if key in one.metadata}
                whole.setdefault(one.id, {}).update(kept)
        return [one.with_metadata(whole.get(one.id, {})) for one in found]

    def _rows(self, asked: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            before = cursor
            rows, cursor = self._page({**asked, **({"cursor": cursor} if cursor else {})})
            yield from rows
            if cursor is None:
                return
            if cursor == before:
                break
        raise Malformed("its list of observations has no end")

    def _page(self, asked: Mapping[str, str]) -> tuple[list[Mapping[str, Any]], str | None]:
        answer = self._get(asked)
        data = answer.get("data")
        if not isinstance(data, list):
            raise Malformed("the answer holds no list of observations")
        rows = [row for row in data if isinstance(row, Mapping)]
        if len(rows) != len(data):
            raise Malformed("an observation is no object")
        meta = answer.get("meta")
        cursor = meta.get("cursor") if isinstance(meta, Mapping) else None
        return rows, cursor if isinstance(cursor, str) and cursor else None

    def _get(self, asked: Mapping[str, str]) -> Mapping[str, Any]:
        """One answer; what may pass is tried again a few times."""
        import httpx

        project = self._project
        words = ""
        for failures in range(1, _TRIES + 1):
            try:
                answer = project.http.get(f"{project.base_url}{_PATH}", params=dict(asked))
            except httpx.RequestError as error:
                sent = by_error(error)
            else:
                if answer.is_success:
                    return _parsed(answer.content)
                self._refuse(answer.status_code)
                sent = by_status(answer.status_code, answer.headers, answer.text, now=project.clock())
                if sent.outcome == "refused":
                    raise Malformed(f"the server refuses the question: {sent.words}")
            words = sent.words
            if failures < _TRIES:
                self._sleep(min(backoff(failures, asked=sent.retry_after), MAX_WAIT))
        raise ReadError(f"{project.host} does not answer ({words}); start the import again later, it goes on from here")

    def _refuse(self, status: int) -> None:
        host = self._project.host
        if status in {401, 403}:
            raise UsageError(
                f"{host} refuses the keys (HTTP {status}); set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY to good ones"
            )
        if status in {404, 405, 410}:
            version = self._version()
            raise UsageError(
                f"{host} has no v2 observations API{f' (it is Langfuse {version})' if version else ''}; "
                "importing needs Langfuse 4 or later, so upgrade the server"
            )
        if 300 <= status < 400:
            raise UsageError(
                f"{host} redirects (HTTP {status}) and does not answer; set LANGFUSE_BASE_URL to where it is"
            )

    def _version(self) -> str | None:
        import httpx

        try:
            answer = self._project.http.get(f"{self._project.base_url}{_HEALTH}")
            found = answer.json()
        except (httpx.RequestError, ValueError):
            return None
        version = found.get("version") if isinstance(found, Mapping) else None
        return version[:40] if isinstance(version, str) else None


def newest(observations: Iterable[Observation]) -> list[Observation]:
    """Each observation of a trace once: the one with the greatest ``updatedAt``, the later one of equals."""
    kept: dict[str, Observation] = {}
    for one in observations:
        known = kept.get(one.id)
        if known is None or one.touched >= known.touched:
            kept[one.id] = one
    return list(kept.values())


def _asked(window: Window) -> dict[str, str]:
    """The window as a question. A filter overrides every plain parameter, so all of it goes into one or the other."""
    since, until = _iso(window.since), _iso(window.until)
    environments = window.values("environment")
    if {name for name, _ in window.filters} <= {"environment"} and len(environments) <= 1:
        plain = {"isRootObservation": "true", "fromStartTime": since, "toStartTime": until}
        return {**plain, **({"environment": environments[0]} if environments else {})}
    conditions: list[dict[str, Any]] = [
        {"type": "boolean", "column": "isRootObservation", "operator": "=", "value": True},
        {"type": "datetime", "column": "startTime", "operator": ">=", "value": since},
        {"type": "datetime", "column": "startTime", "operator": "<", "value": until},
    ]
    if environments:
        options = {"type": "stringOptions", "column": "environment", "operator": "any of"}
        conditions.append({**options, "value": environments})
    if window.values("tag"):
        options = {"type": "arrayOptions", "column": "tags", "operator": "all of"}
        conditions.append({**options, "value": window.values("tag")})
    for name, column in _COLUMNS.items():
        equal = {"type": "string", "column": column, "operator": "="}
        conditions += [{**equal, "value": value} for value in window.values(name)]
    return {"filter": json.dumps(conditions)}


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parsed(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content, parse_float=_decimal, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the answer cannot be read: {type(error).__name__}") from error
    if not isinstance(found, Mapping):
        raise Malformed("the answer is no object")
    return found


def _decimal(text: str) -> Decimal | str:
    return Decimal(text) if len(text) <= _DIGITS else text


def _integer(text: str) -> int | str:
    """Digits beyond all reason stay text: turning them into a number takes quadratic time."""
    return int(text) if len(text) <= _DIGITS else text


__all__ = ["FILTERS", "GROUPS", "ObservationReader", "Page", "Window", "newest"]
