"""Keeps a call's own credential out of everything that is recorded."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

_CREDENTIAL_HEADERS = {"authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"}
_CREDENTIAL_QUERY = {"key", "api_key", "api-key", "apikey", "access_token", "token", "sig", "signature"}
_NOT_KEPT = {
    "set-cookie",
    "set-cookie2",
    "authorization",
    "proxy-authorization",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
}
_REQUEST_MARK = b"[credential]"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials that one request carries, and how they may be echoed."""

    forms: tuple[bytes, ...]
    """Longest first: as sent, URL-quoted, in base64."""

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str]], query: str, userinfo: tuple[str, str] = ("", "")) -> Credentials:
        """Collect them from a request's headers, query and URL user info."""
        found = [part for part in userinfo if part]
        for name, value in headers:
            if name.lower() in _CREDENTIAL_HEADERS:
                found += _header_values(value)
        found += [value for name, value in parse_qsl(query) if name.lower() in _CREDENTIAL_QUERY]
        forms = {form for value in found if _tells(value) for form in _forms(value)}
        return cls(tuple(sorted(forms, key=len, reverse=True)))

    def masked(self, data: bytes) -> bytes:
        """The bytes with every credential starred out, lengths unchanged, so that offsets stay valid."""
        for form in self.forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        return data

    def masked_text(self, text: str) -> str:
        """The text with every credential starred out."""
        return self.masked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def removed(self, body: bytes) -> bytes:
        """A request body with the same mark for any credential, so that another key finds the same recording."""
        for form in self.forms:
            body = body.replace(form, _REQUEST_MARK)
        return body

    def held_back(self, data: bytes) -> int:
        """How many trailing bytes could be the beginning of a credential that the next chunk completes."""
        longest = 0
        for form in self.forms:
            for size in range(min(len(form) - 1, len(data)), longest, -1):
                if data.endswith(form[:size]):
                    longest = size
                    break
        return longest


def kept_headers(headers: Iterable[tuple[str, str]], credentials: Credentials) -> tuple[tuple[str, str], ...]:
    """Response headers worth keeping: end to end, and none that holds a credential or a cookie."""
    return tuple((name, credentials.masked_text(value)) for name, value in headers if name.lower() not in _NOT_KEPT)


def _header_values(value: str) -> list[str]:
    """The credential inside a header: without its scheme, and the parts of a Basic one or of a cookie."""
    scheme, _, rest = value.strip().partition(" ")
    found = [rest.strip() or scheme]
    if scheme.lower() == "basic":
        try:
            found += base64.b64decode(rest, validate=True).decode().split(":", 1)
        except (binascii.Error, UnicodeDecodeError):
            return found
    elif ";" in value or "=" in scheme:
        found += [part.partition("=")[2].strip() for part in value.split(";")]
    return found


def _tells(value: str) -> bool:
    """Whether a value is a secret rather than a placeholder such as ``none`` or ``ollama``, which are words."""
    return len(value) >= 16 or (len(value) >= 6 and any(character.isdigit() for character in value))


def _forms(value: str) -> set[bytes]:
    raw = value.encode("utf-8", "surrogateescape")
    quoted, escaped = quote(value, safe="").encode(), json.dumps(value)[1:-1].encode()
    return {raw, quoted, escaped, base64.b64encode(raw), base64.urlsafe_b64encode(raw)}
