"""The quick looks before the detectors change no result."""

import json
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.redact import Redactor, scan, scan_value
from harness.redact._scan import _DETECTORS, Finding, _folded, _scan

PIECES = [
    "sk-abcdefghijklmnop1234", "pk-lf-1234567890abcdef12", "rk_live_0123456789abc", "AKIA1234567890ABCD12",
    "ghp_0123456789abcdefghij0123456789abcd", "github_pat_0123456789abcdefghijkl1", "glpat-0123456789abcdefghij",
    "xoxb-1234567890ab", "AIza0123456789abcdefghij0123456789abcde", "ya29.0123456789abcdefghij",
    "hf_0123456789abcdefghij0123", "lsv2_pt-0123456789abcdefghij0123", "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "Bearer 0aZ9-bY8_cX7dW6", "BAſIC 0aZ9bY8cX7dW6e", "bearer", "api_key = 9xK2mQ7wZ4", "\"password\":\"h7Gk29Lm\"",
    "paſſword: h7Gk29Lm", "\u212aey", "api\u212aey: 9xK2mQ7wZ4", "secret=>Zx81Qw92", "token:  \\\"Zx81Qw92Lm\\\"",
    "pwd:=Zx81Qw92", "postgres://user:Zx81Qw92@db/x", "jane.roe@example.org", "icon@2x.png",
    "4111 1111 1111 1111", "378282246310005", "+49 170 1234567",
    "tel 030 1234567", "(415) 555-2671", "0033 6 12 34 56 78",
    "order 4711-88", "2026-11-30T10:00:05Z", "127.0.0.1", "0123456789",
    "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668",
    "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----",
    "İ", "ı", " ", "\n", "\u2003", "'", '"', ".", ":",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=12).map("".join) | st.lists(
    st.sampled_from(PIECES), max_size=12
).map(" ".join)


def everything(text):
    """The scan with every detector, whatever its quick look says."""
    return _scan(text, [(kind, find) for kind, find, _ in _DETECTORS])


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_the_quick_looks_change_no_result(text):
    assert scan(text) == everything(text)


def test_each_piece_alone_is_found_as_without_the_quick_looks():
    for piece in PIECES:
        assert scan(piece) == everything(piece), piece
    assert sum(bool(scan(piece)) for piece in PIECES) > 25


def test_folding_knows_every_letter_that_a_pattern_takes_for_an_ascii_one():
    letters = re.compile("[a-z]", re.IGNORECASE)
    folded = re.compile("[a-z]")
    odd = [chr(code) for code in range(sys.maxunicode + 1) if letters.fullmatch(chr(code))]
    assert len(odd) > 52
    assert all(folded.fullmatch(_folded(letter)) for letter in odd)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["password", "phone", "Api-Key", "content", "a"]) | TEXTS, inner, max_size=3)
    ),
    max_leaves=10,
)


def plainly(value):
    """Redaction as it is defined: find everything, then replace leaf by leaf."""
    redactor = Redactor()
    for _, finding in scan_value(value):
        redactor._placeholder(finding)
    return redactor._value("", value), redactor.counts


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_remembered_scans_redact_as_fresh_ones(value):
    redactor = Redactor()
    assert (redactor.value(value), redactor.counts) == plainly(value)


def test_a_name_that_tells_is_not_forgotten_for_an_equal_text_elsewhere():
    made = Redactor().value([{"note": "5551234"}, {"phone": "5551234"}])
    assert made == [{"note": "5551234"}, {"phone": "⟦phone#1⟧"}]
    assert scan("5551234") == []
    assert isinstance(scan("jane.roe@example.org")[0], Finding)


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("secret", ["+49 170 1234567", "jo@example.org", "4111 1111 1111 1111"])
def test_what_begins_a_line_of_json_within_text_is_found(secret, level):
    text = f"a\n{secret}\n"
    for _ in range(level):
        text = json.dumps(text)
    assert [finding.text for finding in scan(text)] == [secret]
