"""Keeps a call's own credential out of everything that is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl

from harness.redact import secret_forms, secret_headers

_QUERY = {"key", "api_key", "api-key", "apikey", "access_token", "token", "sig", "signature"}
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authenticate"}
_SPOKEN = re.compile(
    rb'("(?:content|text|delta|arguments|refusal|reasoning|reasoning_content)"\s*:\s*")((?:[^"\\]|\\.)*)(")'
)
"""Where the events of a stream carry what the model says."""
_REQUEST_MARK = b"[credential]"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials that one request carries, in every form in which a reply may echo them."""

    forms: tuple[bytes, ...]
    """Longest first."""

    @classmethod
    def of(cls, headers: Iterable[tuple[str, str]], query: str, userinfo: tuple[str, str] = ("", "")) -> Credentials:
        """Collect them from a request's headers, query and URL user info."""
        found = [part for part in (":".join(userinfo), userinfo[1]) if part.strip(":")]
        for name, value in headers:
            if name in secret_headers:
                found.append(value)
                found += [part.partition("=")[2].strip() for part in value.split(";") if name.lower() == "cookie"]
        found += [value for name, value in parse_qsl(query) if name.lower() in _QUERY]
        return cls(_forms(tuple(found)))

    def masked(self, data: bytes) -> bytes:
        """The bytes with every credential starred out, lengths unchanged, so that offsets stay valid."""
        for form in self.forms:
            if form in data:
                data = data.replace(form, b"*" * len(form))
        return data

    def masked_text(self, text: str) -> str:
        """The text with every credential starred out."""
        return self.masked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def starred(self, events: bytes) -> bytes:
        """A stream's events with all text starred out when a credential is spelt across several of them.

        No single event holds it then, but whoever joins the text has it, and so would every later replay. What the
        model said is lost to the recording; lengths are unchanged, so that chunk boundaries stay valid.
        """
        joined = b"".join(match.group(2) for match in _SPOKEN.finditer(events))
        if self.masked(joined) == joined:
            return events
        return _SPOKEN.sub(lambda match: match[1] + b"*" * len(match[2]) + match[3], events)

    def removed(self, body: bytes) -> bytes:
        """A request body with the same mark for any credential, so that another key finds the same recording."""
        for form in self.forms:
            if form in body:
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


@lru_cache(maxsize=64)
def _forms(secrets: tuple[str, ...]) -> tuple[bytes, ...]:
    return secret_forms(secrets)


def kept_headers(headers: Iterable[tuple[str, str]], credentials: Credentials) -> tuple[tuple[str, str], ...]:
    """Response headers worth keeping: end to end, and none that holds a credential or a cookie."""
    return tuple(
        (name, credentials.masked_text(value))
        for name, value in headers
        if name not in secret_headers and name.lower() not in _HOP_BY_HOP
    )
