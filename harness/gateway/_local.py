"""Recording something that this process computes itself, as if a provider had answered it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.canonical import canonical_json, parse_json
from harness.gateway._call import deliver, open_local
from harness.gateway._outgoing import Outgoing
from harness.gateway._secrets import Credentials
from harness.gateway._served import Served
from harness.record import LOCAL

_HEADERS = (("content-type", "application/json"),)


def record_local(
    endpoint: str,
    request: Mapping[str, Any],
    compute: Callable[[], Mapping[str, Any]],
    *,
    model: str | None = None,
) -> dict[str, Any]:
    """Answer a request from the recording, or compute and record it: for a local embedder or classifier.

    It is matched like any model call, so a clone that lacks the local model replays its answers.

    Args:
        endpoint: Path below the API root whose shape the answer has, such as ``/embeddings``.
        request: JSON-ready; everything that decides the answer, the model's name and version included.
        compute: Makes the JSON-ready answer; not called when the recording has it.
        model: Name of the model, where the request does not hold it under ``model``.

    Returns:
        The answer as it is stored, so that it is the same live and replayed.

    Raises:
        RecordingMissing: Replay, and it was not recorded.
        CanonicalError: Request or answer has no JSON form.
    """
    asked = dict(request) if model is None or "model" in request else {**request, "model": model}
    body = canonical_json(asked)
    outgoing = Outgoing(
        method="POST",
        path=endpoint,
        body=body,
        stored=body,
        content_type="application/json",
        query="",
        headers=_HEADERS,
        provider=LOCAL,
        credentials=Credentials(()),
    )
    outgoing, call = open_local(outgoing)
    if isinstance(call, Served):
        return _parsed(call.body)
    if call is None:
        return _parsed(canonical_json(dict(compute())))
    try:
        body = canonical_json(dict(compute()))
    except BaseException as error:
        call.failed(error)
        raise
    reply = call.answered(200, _HEADERS)
    reply.take(body)
    _, commit = reply.end()
    deliver(call.run, commit, body)
    return _parsed(body)


def _parsed(body: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = parse_json(body)
    return answer
