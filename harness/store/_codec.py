"""How content stands on disk: as it is, or zlib with a preset dictionary of what such content repeats.

Small bodies compress badly alone, because they are over before a pattern recurs; the dictionary is what they have
in common. Its bytes are part of the file format: dictionary 1 never changes, a better one is a new codec.
A piece that repeats an earlier one, as the next request repeats the last reply, takes that as its dictionary too.
"""

from __future__ import annotations

import zlib
from typing import Final

RAW: Final = 0
ZLIB: Final = 1
CHAIN: Final = 2
BASED: Final = 3
BASE_BYTES: Final = 24_000
"""A longer base would not fit into zlib's window together with the dictionary."""

_MIN = 48
"""Shorter content is kept as it is."""
_MAX_OUT = 1 << 32
_LEVEL = 6

_WORDS = (
    "because before between different following however important information language looking message "
    "number please possible problem provide question request response result should something support "
    "system through together understand without would customer order payment account delivery parcel invoice refund "
    "address contact service product available today tomorrow yesterday morning thank thanks sorry help need want "
    "I'm I'll you're don't can't it's that's with this have from they will been what when which there their "
    "about other could would should these those after where every still under first the and for are but not you "
    "all can had her was one our out day get has him his how its may new now old see two way who did yes use "
    " in the  of the  to the  on the  for the  and the  is a  it is  you are  you can  I am  we are  to be . The  . It "
)
_JSON = (
    '{"type":"object","properties":{"name":{"type":"string","description":"The '
    '"enum":["number"],"integer","boolean","array","items":{"type":"additionalProperties":false,"required":["'
    '"strict":true,"$schema":"format":"date-time","default":null,"minimum":0,"maximum":"anyOf":[{'
    '{"error":{"message":"","type":"invalid_request_error","param":null,"code":null}}'
    "Rate limit reached for requests per min. Please try again in "
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,'
    '"item_id":"msg_","output_index":0,"content_index":0,"delta":" ","logprobs":[],"obfuscation":""}\n\n'
    'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_","object":"response",'
    '"created_at":17,"status":"completed","background":false,"error":null,"incomplete_details":null,'
    '"instructions":null,"max_output_tokens":null,"output":[{"id":"msg_","type":"message","status":"completed",'
    '"content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"'
    '"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},'
    '"store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto",'
    '"tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{"input_tokens":0,'
    '"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},'
    '"total_tokens":0},"user":null,"metadata":{}}}\n\n'
    'data: {"id":"chatcmpl-","object":"chat.completion.chunk","created":17,"model":"gpt-4o-mini-2024-07-18",'
    '"service_tier":"default","system_fingerprint":"fp_","choices":[{"index":0,"delta":{"content":" "},'
    '"logprobs":null,"finish_reason":null}],"usage":null}\n\ndata: [DONE]\n\n'
    '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.0,-0.0],"model":"text-embedding-3-small"'
    '[["content-type","application/json"],["content-type","text/event-stream; charset=utf-8"],'
    '["date","Mon, 30 Nov 2026 10:00:00 GMT"],["server","uvicorn"],["transfer-encoding","chunked"],'
    '["connection","keep-alive"],["content-encoding","gzip"],["vary","Accept-Encoding"],["cf-cache-status","DYNAMIC"],'
    '["x-ratelimit-limit-requests","10000"],["x-ratelimit-limit-tokens","200000"],'
    '["x-ratelimit-remaining-requests","9999"],["x-ratelimit-remaining-tokens","199"],'
    '["x-ratelimit-reset-requests","8.64s"],["x-ratelimit-reset-tokens","6ms"],["openai-organization","user-"],'
    '["openai-processing-ms","512"],["openai-version","2020-10-01"],["openai-project","proj_"],["x-request-id","req_"],'
    '["strict-transport-security","max-age=31536000; includeSubDomains; preload"],["x-content-type-options","nosniff"],'
    '["cache-control","no-cache"],["content-length","1024"],["access-control-expose-headers","X-Request-ID"],'
    '["alt-svc","h3=\\":443\\"; ma=86400"],["cf-ray","'
    '{"role":"system","content":"You are a helpful assistant. You are an expert '
    '{"role":"tool","tool_call_id":"call_","content":"{\\"results\\":[{\\"id\\":\\"status\\":\\"ok\\",\\"name\\":\\"'
    '{"role":"assistant","content":null,"tool_calls":[{"id":"call_","type":"function","function":{"name":"search",'
    '"arguments":"{\\"query\\":\\"\\"}"}}],"refusal":null}'
    '{"role":"user","content":[{"type":"text","text":"","type":"image_url","image_url":{"url":"data:image/png;base64,'
    '{"id":"chatcmpl-","object":"chat.completion","created":17,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,'
    '"message":{"role":"assistant","content":"","refusal":null,"annotations":[],"reasoning_content":"","tool_calls":[]},'
    '"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,'
    '"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,'
    '"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default",'
    '"system_fingerprint":"fp_"}'
    '{"role":"assistant","content":"{"role":"user","content":"'
)
_DICTIONARY_1 = (_WORDS + _JSON).encode()


def encode(content: bytes) -> tuple[int, bytes]:
    """The codec and the bytes to store, whichever is shorter."""
    if len(content) < _MIN:
        return RAW, content
    packed = _deflated(content, _DICTIONARY_1)
    return (ZLIB, packed) if len(packed) < len(content) else (RAW, content)


def encode_against(content: bytes, base: bytes) -> bytes:
    """The bytes to store under codec ``BASED``; ``base`` has at most ``BASE_BYTES``."""
    return _deflated(content, _DICTIONARY_1 + base)


def decode(codec: int, data: bytes, size: int | None = None, base: bytes | None = None) -> bytes:
    """The content that ``encode`` or ``encode_against`` stored.

    Args:
        codec: As stored.
        data: As stored.
        size: Bytes to expect; more are never unpacked.
        base: For ``BASED``: the content it relies on.

    Raises:
        ValueError: The codec is unknown, or the bytes are damaged.
    """
    if codec == RAW:
        return bytes(data)
    if codec != ZLIB and (codec != BASED or base is None):
        raise ValueError(f"codec {codec} is unknown, or what it relies on is gone")
    unpacker = zlib.decompressobj(wbits=-15, zdict=_DICTIONARY_1 + (base or b""))
    try:
        content = unpacker.decompress(data, _MAX_OUT if size is None else max(size, 1))
    except zlib.error as error:
        raise ValueError(f"compressed content is damaged: {error}") from error
    if not unpacker.eof and unpacker.unconsumed_tail:
        raise ValueError("compressed content is longer than its recorded size")
    return content


def _deflated(content: bytes, dictionary: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=-15, zdict=dictionary)
    return packer.compress(content) + packer.flush()


def pack(content: bytes) -> bytes:
    """Codec and content in one value, for columns that are no blobs of their own."""
    codec, data = encode(content)
    return bytes((codec,)) + data


def unpack(value: bytes) -> bytes:
    """The inverse of ``pack``.

    Raises:
        ValueError: The bytes are damaged.
    """
    return decode(value[0], value[1:])
