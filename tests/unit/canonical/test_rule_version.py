"""Stored recordings are found by these digests: one that changes here needs a new RULES version and a re-keying."""

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID, SafeUUID

import pytest

from harness.canonical import RULES, _endpoint, _rules, canonical_json, content_hash, request_keys, tool_key

FORM = (
    b'--B\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav\r\n\r\nabc\r\n'
    b'--B\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n--B--\r\n'
)


def test_the_rule_set_is_that_of_its_version():
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return sorted(value) if isinstance(value, frozenset) else value

    modules = {"rules": _rules, "endpoint": _endpoint}
    tables = {
        f"{name}.{key}": plain(value)
        for name, module in modules.items()
        for key, value in vars(module).items()
        if key.isupper() and isinstance(value, dict | frozenset | tuple | int | str)
    }
    assert len(tables) > 15
    assert (RULES, content_hash(canonical_json(tables))[:16]) == ("v1", "c9246bb3758ff37d")


@pytest.mark.parametrize(
    ("body", "content_type", "exact"),
    [(FORM, "multipart/form-data; boundary=B", "284cfc2635937c4f"), (b"\x00\x01", "audio/wav", "e333125b6a099167")],
)
def test_bodies_that_are_no_json(body, content_type, exact):
    made = request_keys("POST", "/v1/audio/transcriptions", body, content_type=content_type)
    assert made.exact == made.semantic
    assert made.exact[:19] == f"v1:{exact}"


def test_tool_arguments_of_every_kind():
    arguments = {
        "plain": [None, True, 1, 2**60, 1.5, "text", {"⟦key": "⟦text"}],
        "numbers": [math.inf, math.nan, Decimal("1.50")],
        "times": [date(2026, 1, 2), datetime(2026, 1, 2, 3, tzinfo=UTC), time(4, 5), timedelta(1, 2, 3)],
        "others": [b"x", {2, 1}, {1: "a", "b": 2}, UUID(int=7), PurePosixPath("a/b"), SafeUUID.safe],
    }
    assert tool_key("t", "1", arguments)[:19] == "v1:4ad5e2d9eec0a532"
