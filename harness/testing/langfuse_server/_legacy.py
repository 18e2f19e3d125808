"""What is left of the older interfaces when only observations are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from harness.testing.langfuse_server import _scores
from harness.testing.langfuse_server._state import Call, State
from harness.testing.langfuse_server._wire import Refusal, Reply, iso

_REFUSED: Final = ("trace-create", "span-", "generation-", "event-create", "observation-")


def gone(call: Call, *_parts: str) -> Reply:
    """Reads of the tables that are no longer there."""
    raise Refusal(404, f"{call.request.path} is not available when only observations are stored", error="NotFound")


def batch(call: Call) -> Reply:
    """POST of a batch of events: scores and SDK logs are taken, traces and observations refused one by one."""
    events = call.request.fields().get("batch")
    if not isinstance(events, list):
        raise Refusal(400, "Invalid request data: batch must be a list")
    successes: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for event in events:
        name = str(event.get("id")) if isinstance(event, dict) else ""
        try:
            _take(call.state, event)
        except Refusal as refusal:
            message = str(refusal)
            errors.append({"id": name, "status": 400, "message": message, "error": message})
        else:
            successes.append({"id": name, "status": 201})
    return Reply(status=207, payload={"successes": successes, "errors": errors})


def _take(state: State, event: Any) -> None:
    kind = event.get("type") if isinstance(event, dict) else None
    if not isinstance(kind, str) or kind.startswith(_REFUSED):
        raise Refusal(400, f"Events of type {kind!r} are not accepted: send OpenTelemetry spans")
    if kind == "score-create":
        body = event.get("body")
        given: Mapping[str, Any] = body if isinstance(body, dict) else {}
        score = _scores.checked({**given, "timestamp": given.get("timestamp") or event.get("timestamp")})
        now = state.now

        def put() -> None:
            state.scores.put(score, now, timed=True)

        state.apply(put)


def run_item(call: Call) -> Reply:
    """POST of a dataset run item: answered as ever, and nothing is stored."""
    given, now = call.request.fields(), iso(call.state.now)
    return Reply(
        payload={
            "id": str(uuid4()),
            "datasetRunId": str(uuid4()),
            "datasetRunName": given.get("runName"),
            "datasetItemId": given.get("datasetItemId"),
            "traceId": given.get("traceId"),
            "observationId": given.get("observationId"),
            "createdAt": now,
            "updatedAt": now,
        }
    )
