"""Which answer belongs to which path."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import unquote

from harness.testing.langfuse_server import _legacy, _observations, _otlp, _scores, _things
from harness.testing.langfuse_server._state import Call, State
from harness.testing.langfuse_server._wire import PROJECT, Refusal, Reply, Request, missing

Answer = Callable[..., Reply]
"""Called with the call and the path's own parts, unquoted."""


def spans(call: Call) -> Reply:
    """POST of an OTLP trace request: queued, answered with the job."""
    direct = _otlp.direct(call.request)
    rows = _otlp.rows(call.request, received=call.state.now)
    if not rows:
        return Reply(payload={})
    with call.state.lock:
        call.state.catch_up()
        call.state.accept(rows, direct=direct)
        return Reply(payload=call.state.job("otel-ingestion-job", {"payload": {"data": {"fileKey": "otel"}}}))


def observations(call: Call) -> Reply:
    """GET of the list of observations."""
    if not call.state.has_observations:
        raise Refusal(404, "Not found", error="NotFound")
    return _observations.listed(call.state.table, call.request, prompt_id=call.state.prompts.id)


def delete_trace(call: Call, trace_id: str) -> Reply:
    """DELETE of a trace: all its rows, later."""
    return _delete(call.state, [trace_id])


def delete_traces(call: Call) -> Reply:
    """DELETE of several traces."""
    ids = call.request.fields().get("traceIds")
    if not isinstance(ids, list) or not ids:
        raise Refusal(400, "Invalid request data: traceIds must be a non-empty list")
    return _delete(call.state, [str(each) for each in ids])


def _delete(state: State, trace_ids: Sequence[str]) -> Reply:
    state.apply(lambda: state.table.remove(trace_ids))
    return Reply(payload={"message": "Traces deleted successfully"})


def create_scores(call: Call) -> Reply:
    """POST of scores: a list, or one object on an older server."""
    given = call.request.json
    if not call.state.takes_lists:
        score = _scores.checked(given)
        _put(call.state, score, timed=False)
        return Reply(payload={"id": score["id"]})
    if not isinstance(given, list) or not given:
        raise Refusal(400, "Invalid request data: expected a non-empty array of scores")
    errors: list[dict[str, str]] = []
    for each in given:
        try:
            score = _scores.checked(each)
            if call.state.faults.on_part("207", score):
                raise Refusal(400, "Score was refused")
        except Refusal as refusal:
            errors.append({"message": str(refusal)})
        else:
            _put(call.state, score, timed=True)
    if errors:
        counts = {"accepted": len(given) - len(errors), "rejected": len(errors), "errors": errors}
        return Reply(status=207, payload=counts)
    return Reply(status=202, payload={"message": "Accepted"})


def _put(state: State, score: dict[str, Any], *, timed: bool) -> None:
    if state.faults.on_part("lose-score", score):
        return
    now = state.now
    state.apply(lambda: (state.scores.put(score, now, timed=timed), None)[1])


def list_scores(call: Call) -> Reply:
    """GET of the list of scores, version 3."""
    if not call.state.has_observations:
        raise Refusal(404, "Not found", error="NotFound")
    return call.state.scores.listed(call.request)


def delete_score(call: Call, score_id: str) -> Reply:
    """DELETE of a score."""
    return _scores.removed(call.state.scores, score_id)


def health(call: Call) -> Reply:
    """GET of the health: no evidence of anything but the version."""
    return Reply(payload={"status": "OK", "version": call.state.version})


def projects(_call: Call) -> Reply:
    """GET of the project behind the keys."""
    organization = {"id": "organization-goldfork-double", "name": "Goldfork"}
    found = {"id": PROJECT, "name": "double", "organization": organization, "metadata": {}, "retentionDays": None}
    return Reply(payload={"data": [found]})


_ROUTES: Final[Sequence[tuple[str, str, Answer]]] = (
    ("POST", "otel/v1/traces", spans),
    ("GET", "v2/observations", observations),
    ("DELETE", "traces", delete_traces),
    ("DELETE", "traces/([^/]+)", delete_trace),
    ("POST", "scores", create_scores),
    ("DELETE", "scores/([^/]+)", delete_score),
    ("GET", "v3/scores", list_scores),
    ("GET", "health", health),
    ("GET", "projects", projects),
    ("POST", "v2/datasets", _things.put_dataset),
    ("GET", "v2/datasets", _things.list_datasets),
    ("GET", "v2/datasets/(.+)", _things.get_dataset),
    ("POST", "dataset-items", _things.put_item),
    ("GET", "dataset-items", _things.list_items),
    ("GET", "dataset-items/(.+)", _things.get_item),
    ("DELETE", "dataset-items/(.+)", _things.delete_item),
    ("GET", "experiments", _things.list_experiments),
    ("GET", "experiment-items", _things.list_experiment_items),
    ("GET", "v2/metrics", _things.totals),
    ("PATCH", "v2/prompts/(.+)/versions/([^/]+)", _things.label_prompt),
    ("POST", "v2/prompts", _things.create_prompt),
    ("GET", "v2/prompts", _things.list_prompts),
    ("GET", "v2/prompts/(.+)", _things.get_prompt),
    ("DELETE", "v2/prompts/(.+)", _things.delete_prompt),
    ("POST", "media", _things.media_address),
    ("PATCH", "media/([^/]+)", _things.media_outcome),
    ("GET", "media/([^/]+)", _things.get_media),
    ("PUT", "double-uploads/([^/]+)", _things.upload),
    ("GET", "double-uploads/([^/]+)", _things.download),
    ("POST", "comments", _things.create_comment),
    ("GET", "comments", _things.list_comments),
    ("GET", "comments/([^/]+)", _things.get_comment),
    ("POST", "ingestion", _legacy.batch),
    ("POST", "dataset-run-items", _legacy.run_item),
    ("GET", "dataset-run-items", _legacy.gone),
    ("GET", "traces|observations|sessions|scores|v2/scores", _legacy.gone),
    ("GET", "(?:traces|observations|sessions|scores|v2/scores)/([^/]+)", _legacy.gone),
    ("GET", "datasets/(.+)/runs", _legacy.gone),
)
_PREFIX: Final = "/api/public/"
OPEN: Final = frozenset({"/api/public/health"})
"""Paths that need no keys."""


class Router:
    """Finds the answer to a request.

    Args:
        routes: Method, pattern of the path below ``/api/public/``, answer.
    """

    def __init__(self, routes: Sequence[tuple[str, str, Answer]]) -> None:
        self._routes = [(method, re.compile(pattern), answer) for method, pattern, answer in routes]

    def answer(self, state: State, request: Request) -> Reply:
        """The answer, refusals included."""
        try:
            return self._answer(state, request)
        except Refusal as refusal:
            return refusal.reply

    def _answer(self, state: State, request: Request) -> Reply:
        path = request.path.removeprefix(_PREFIX)
        if path == request.path:
            raise missing("Page")
        known = False
        for method, pattern, answer in self._routes:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            known = True
            if method == request.method:
                parts = [unquote(part) for part in match.groups()]
                if answer is spans:
                    # Decoding is the long part: it must not hold the lock.
                    return answer(Call(state=state, request=request), *parts)
                with state.lock:
                    state.catch_up()
                    return answer(Call(state=state, request=request), *parts)
        if known:
            raise Refusal(405, "Method not allowed", error="MethodNotAllowedError")
        raise Refusal(404, "Not found", error="NotFound")


ROUTER: Final = Router(_ROUTES)
