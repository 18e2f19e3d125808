"""Recording and its parts: frozen values shared by dataset, store, gateway and replay."""

from harness.record._encoding import decode_body
from harness.record._parts import Prefix, Split, join_body, layout_parts, split_body
from harness.record._sse import SseEvent, SseParser
from harness.record._values import (
    LOCAL,
    RECORDED,
    CacheState,
    ChunkRecord,
    Determinism,
    Exchange,
    Hash,
    MessageRecord,
    Record,
    Recording,
    RecordingSource,
    RunRecord,
    Status,
    StepKind,
    StepRecord,
    StepState,
    Usage,
    VolatileRecord,
)
from harness.record._view_values import ChoiceView, RequestView, ResponseView, ToolCallView
from harness.record._views import StreamView, is_event_stream, request_view, view_response

__all__ = [
    "LOCAL",
    "RECORDED",
    "CacheState",
    "ChoiceView",
    "ChunkRecord",
    "Determinism",
    "Exchange",
    "Hash",
    "MessageRecord",
    "Prefix",
    "Record",
    "Recording",
    "RecordingSource",
    "RequestView",
    "ResponseView",
    "RunRecord",
    "Split",
    "SseEvent",
    "SseParser",
    "Status",
    "StepKind",
    "StepRecord",
    "StepState",
    "StreamView",
    "ToolCallView",
    "Usage",
    "VolatileRecord",
    "decode_body",
    "is_event_stream",
    "join_body",
    "layout_parts",
    "request_view",
    "split_body",
    "view_response",
]
