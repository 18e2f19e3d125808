"""Credentials never reach the disk: not as headers, not as echoes."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.redact import scrub_secrets, secret_forms, secret_headers


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "api-key",
        "x-api-key",
        "cookie",
        "set-cookie",
        "proxy-authorization",
        "x-goog-api-key",
        "x-amz-security-token",
        "x-team-api-key",
        "x-app-token",
        "x-client-secret",
    ],
)
def test_secret_headers_whatever_their_case(name):
    assert name in secret_headers
    assert name.upper() in secret_headers
    assert name.title() in secret_headers


@pytest.mark.parametrize(
    "name",
    ["content-type", "x-request-id", "openai-organization", "x-ratelimit-remaining-tokens", "idempotency-key", "date"],
)
def test_other_headers_are_kept(name):
    assert name not in secret_headers


def test_the_names_can_be_listed():
    assert len(secret_headers) == len(list(secret_headers)) > 5
    assert 7 not in secret_headers


KEY = 'sk-t"est/é1~?>'


@pytest.mark.parametrize(
    "written",
    [
        KEY.encode(),
        json.dumps(KEY).encode(),
        json.dumps(KEY, ensure_ascii=False).encode(),
        json.dumps(KEY).replace("/", "\\/").encode(),
        quote(KEY, safe="").encode(),
        base64.b64encode(KEY.encode()),
        base64.urlsafe_b64encode(KEY.encode()),
    ],
)
def test_an_echoed_key_is_masked_in_every_spelling(written):
    body = b'{"error":"bad key ' + written + b" given twice: " + written + b'"}'
    clean = scrub_secrets(body, [f"Bearer {KEY}"])
    assert len(clean) == len(body)
    for form in (KEY.encode(), written.strip(b'"=')):
        assert form not in clean
    assert clean.startswith(b'{"error":"bad key ')


@pytest.mark.parametrize(
    ("secret", "body", "clean"),
    [
        ("Bearer MARK-A1", b"key provided: MARK-A1", b"key provided: *******"),
        ("MARK-A2", b"x MARK-A2 x", b"x ******* x"),
        ("https://bob:Tr0ub4dor@h/", b"at https://bob:Tr0ub4dor@h/", b"at https://*************@h/"),
        ("https://bob:Tr0ub4%21@h/", b"saw Tr0ub4!", b"saw *******"),
        ("Basic " + base64.b64encode(b"bob:Tr0ub4dor").decode(), b"no Tr0ub4dor", b"no *********"),
        ("not-needed", b"it is not-needed", b"it is not-needed"),
        ("EMPTY", b"EMPTY", b"EMPTY"),
        ("", b"text", b"text"),
        ("https://h/", b"https://h/", b"https://h/"),
        ("Basic ???", b"Basic", b"Basic"),
    ],
)
def test_scrubbing(secret, body, clean):
    assert scrub_secrets(body, [secret]) == clean


@given(st.lists(st.text("abcdefgh0123456789", min_size=8), min_size=1, max_size=3), st.lists(st.binary(max_size=8)))
def test_no_secret_survives_and_no_length_changes(secrets, between):
    body = b"".join(part for gap in between for part in (gap, *(secret.encode() for secret in secrets)))
    clean = scrub_secrets(body, secrets)
    assert len(clean) == len(body)
    assert not any(secret.encode() in clean for secret in secrets)


def test_forms_come_longest_first_so_that_none_hides_another():
    forms = secret_forms(["Bearer abc/def+123", "abc/def+123"])
    assert list(forms) == sorted(forms, key=lambda form: (-len(form), form))
    assert b"abc/def+123" in forms
    assert b"Bearer abc/def+123" in forms
    assert secret_forms(["short", ""]) == ()
