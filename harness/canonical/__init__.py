"""Canonical JSON, content hashes, and the keys by which requests and tool calls are recognised."""

from harness.canonical._json import MAX_DEPTH, canonical_json, content_hash, from_canonical, parse_json
from harness.canonical._keys import RequestKeys, preimage, request_keys
from harness.canonical._rules import MINTED, RULES
from harness.canonical._tool import tool_key

__all__ = [
    "MAX_DEPTH",
    "MINTED",
    "RULES",
    "RequestKeys",
    "canonical_json",
    "content_hash",
    "from_canonical",
    "parse_json",
    "preimage",
    "request_keys",
    "tool_key",
]
