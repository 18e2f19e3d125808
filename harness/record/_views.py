"""Reading requests and responses: from bytes to what was asked and said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.record._chat_view import ChatAssembler, error_text
from harness.record._encoding import BodyDecoder, decode_body
from harness.record._responses_view import ResponsesAssembler
from harness.record._sse import SseParser
from harness.record._values import Exchange
from harness.record._view_values import RequestView, ResponseView, items, text_or_none

_EXCERPT = 2000
_LONG = 256
_CHOICES = {"/chat/completions", "/completions"}
_NOT_PARAMS = {"model", "stream", "input", "prompt", "instructions", "previous_response_id", "user"}


class StreamView:
    """Follows an event stream while it passes, from raw bytes cut anywhere.

    Attributes:
        finished: The stream has announced its end: ``[DONE]``, a terminal response event, an error.
    """

    def __init__(self, endpoint: str, *, encoding: str = "") -> None:
        self.finished = False
        self._decoder = BodyDecoder(encoding)
        self._parser = SseParser()
        self._events = 0
        self._assembler: ChatAssembler | ResponsesAssembler = (
            ResponsesAssembler() if endpoint == "/responses" else ChatAssembler()
        )
        self._strict = endpoint in _CHOICES or endpoint == "/responses"

    def feed(self, data: bytes) -> bytes:
        """Take more bytes as received; returns them without their content encoding."""
        plain = self._decoder.feed(data)
        for event in self._parser.feed(plain):
            if event.data.startswith("[DONE]"):
                self.finished = True
                continue
            value = _json(event.data)
            if isinstance(value, Mapping):
                self._events += 1
                self._assembler.add(value)
        self.finished = self.finished or self._assembler.finished
        return plain

    def view(self, status: int | None) -> ResponseView:
        """What was said up to now."""
        done = self.finished or (isinstance(self._assembler, ChatAssembler) and self._assembler.all_finished)
        view = self._assembler.view(status, complete=done or not self._strict)
        error = view.error or self._decoder.error
        if error is None and self._strict and not self._events:
            error = "the stream holds no event with data"
        return _with_error(view, error)


def view_response(endpoint: str, exchange: Exchange, body: bytes) -> ResponseView:
    """What a response says.

    Args:
        endpoint: Path below the API root, such as ``/chat/completions``.
        exchange: The attempt that brought it: status and headers.
        body: Body bytes as received, still content-encoded.
    """
    headers = {name.lower(): value for name, value in exchange.headers}
    encoding, kind = headers.get("content-encoding", ""), headers.get("content-type", "")
    if exchange.status is None and not body:
        return ResponseView(error=exchange.error or "nothing came back", complete=False)
    if _is_stream(kind, body):
        follower = StreamView(endpoint, encoding=encoding)
        follower.feed(body)
        return _with_error(follower.view(exchange.status), exchange.error)
    plain, problem = decode_body(body, encoding)
    view = _plain_view(endpoint, exchange.status, kind, plain)
    return _with_error(view, exchange.error or problem)


def is_event_stream(content_type: str) -> bool:
    """Whether a response header announces server-sent events."""
    return content_type.split(";", maxsplit=1)[0].strip().lower() == "text/event-stream"


def request_view(endpoint: str, body: bytes) -> RequestView:
    """What a request asks; an empty view when the body is not a JSON object.

    Args:
        endpoint: Path below the API root.
        body: Body bytes as sent.
    """
    data = _json(body.decode("utf-8", "replace"))
    if not isinstance(data, Mapping):
        return RequestView()
    params = {
        name: value
        for name, value in data.items()
        if name not in _NOT_PARAMS and isinstance(value, bool | int | float | str) and len(str(value)) <= _LONG
    }
    return RequestView(
        model=text_or_none(data.get("model")),
        stream=data.get("stream") is True,
        params=params,
        messages=_asked(endpoint, data),
        tools=tuple(tool for tool in items(data.get("tools")) if isinstance(tool, Mapping)),
    )


def _asked(endpoint: str, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if endpoint == "/responses":
        asked = data.get("input")
        head = [{"role": "system", "content": data["instructions"]}] if data.get("instructions") else []
        listed = [{"role": "user", "content": asked}] if isinstance(asked, str) else items(asked)
        return tuple(item for item in [*head, *listed] if isinstance(item, Mapping))
    if endpoint == "/completions":
        prompts = data.get("prompt")
        listed = prompts if isinstance(prompts, list) else [prompts]
        return tuple({"role": "user", "content": prompt} for prompt in listed if isinstance(prompt, str))
    return tuple(message for message in items(data.get("messages")) if isinstance(message, Mapping))


def _is_stream(kind: str, body: bytes) -> bool:
    return is_event_stream(kind) or (not kind and body.lstrip().startswith((b"data:", b"event:", b":")))


def _plain_view(endpoint: str, status: int | None, kind: str, plain: bytes) -> ResponseView:
    data = _json(plain.decode("utf-8", "replace"))
    failed = status is not None and status >= 400
    if not isinstance(data, Mapping):
        return ResponseView(status=status, error=_excerpt(status, kind, plain))
    if failed:
        said = error_text(data.get("error") or data)
        return ResponseView(status=status, error=f"HTTP {status}: {said}")
    if endpoint == "/responses":
        answer = ResponsesAssembler()
        answer.add({name: value for name, value in data.items() if name != "type"})
        return answer.view(status, complete=True)
    chat = ChatAssembler()
    chat.add(data)
    view = chat.view(status, complete=True)
    if endpoint in _CHOICES and not view.choices and view.error is None:
        return _with_error(view, _excerpt(status, kind, plain))
    return view


def _excerpt(status: int | None, kind: str, plain: bytes) -> str:
    said = plain[: 4 * _EXCERPT].decode("utf-8", "replace")[:_EXCERPT]
    return f"HTTP {status} {kind or 'without a content type'} holds no answer: {said or '(empty body)'}"


def _with_error(view: ResponseView, error: str | None) -> ResponseView:
    if error is None or error == view.error:
        return view
    return replace(view, error=error)


def _json(text: str) -> Any:
    """The JSON value, or ``None`` for anything that is not one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
