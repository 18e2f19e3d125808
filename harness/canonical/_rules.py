"""The rule set, as data: what counts in which key. A change here is a new version, and re-keys from raw bytes."""

from __future__ import annotations

RULES = "v1"
"""Version of the rules below and of everything in this package that a key depends on."""

_CHAT = frozenset(
    {"user", "safety_identifier", "metadata"} | {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
)
_MODEL_ENDPOINTS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/embeddings",
    "/messages",
    "/moderations",
    "/images/generations",
    "/images/edits",
    "/images/variations",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
)
UNKEYED = dict.fromkeys(_MODEL_ENDPOINTS, _CHAT)
"""Per endpoint: top-level parameters that are in neither key. Elsewhere they may be content, so they count."""

UNKEYED_SEMANTIC = frozenset({"service_tier", "store", "stream", "stream_options"})
"""Top-level parameters that are in the exact key only."""

OPTIONAL_PARAMETERS = frozenset(
    {"audio", "background", "conversation", "dimensions", "encoding_format", "frequency_penalty", "function_call"}
    | {"functions", "include", "instructions", "logit_bias", "logprobs", "max_completion_tokens"}
    | {"max_output_tokens", "max_tokens", "max_tool_calls", "modalities", "n", "parallel_tool_calls", "prediction"}
    | {"presence_penalty", "previous_response_id", "prompt", "reasoning", "reasoning_effort", "response_format"}
    | {"seed", "stop", "stop_sequences", "system", "temperature", "text", "thinking", "tool_choice", "tools"}
    | {"top_k", "top_logprobs", "top_p", "truncation", "verbosity", "web_search_options"}
)
"""Top-level parameters for which null means absent in the semantic key."""

OPTIONAL_FIELDS = frozenset({"annotations", "audio", "function_call", "logprobs", "name", "refusal", "tool_calls"})
"""Message fields for which null, and an empty list, mean absent in the semantic key."""

MINTED = frozenset({"approval_request_id", "call_id", "id", "item_id", "tool_call_id", "tool_use_id"})
"""Fields of messages, items, content parts and tool calls that hold an id which the provider made up."""

CARRIERS = frozenset({"b64_json", "data", "file_data", "file_url", "image_url", "url"})
"""Fields whose text may be a data URL or bare base64; text elsewhere is text, whatever it looks like."""

LONG_BASE64 = 64
"""Bare base64 shorter than this many characters stays text."""

CONTENT = frozenset({"input", "instructions", "messages", "prompt", "system"})
"""Top-level parameters that hold what is said; all others may hold JSON schemas, whose order matters to a model."""

SCHEMA_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Schema keywords that map names to schemas."""

SCHEMA_VALUES = frozenset({"const", "default", "enum", "example", "examples"})
"""Schema keywords that hold data, which is no schema."""
