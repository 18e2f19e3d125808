"""What an answer of the server, or the lack of one, means for what was sent."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from harness.redact import Redactor

if TYPE_CHECKING:
    import httpx
    from langfuse.api.core.api_error import ApiError

T = TypeVar("T")

Outcome = Literal["accepted", "ambiguous", "retry", "refused", "denied"]
"""``accepted``: 2xx. ``ambiguous``: it was sent, and no answer came. ``retry``: not taken, try again. ``refused``: the
content is at fault. ``denied``: the keys or the address are at fault, nothing will go through."""

MAX_WAIT: Final = 300.0
"""Longest pause between two tries, in seconds, unless the server asks for a longer one."""

MAX_WORDS: Final = 300
"""How many characters of what a server says are kept."""

_READ: Final = 16_384
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_RETRIED = frozenset({408, 425, 429})
_REFUSED = frozenset({400, 413, 422})
_FIRST_WAIT = 1.0
_MAX_RETRY_AFTER = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of one request."""

    outcome: Outcome
    status: int | None = None
    """HTTP status; ``None`` when no answer came."""
    words: str = ""
    """What the server or the transport said: redacted, at most ``MAX_WORDS`` characters."""
    retry_after: float | None = None
    """Seconds that the server asked to wait."""


def by_status(status: int, headers: Mapping[str, str], text: str, *, now: datetime) -> Sent:
    """Judge an answer by its status.

    Only 2xx is success: a redirect is usually a login page in front of the server, and following it would lose
    everything quietly.
    """
    outcome: Outcome
    if 200 <= status < 300:
        outcome = "accepted"
    elif status in _RETRIED or status >= 500 or status < 400:
        outcome = "retry"
    elif status in _REFUSED:
        outcome = "refused"
    else:
        outcome = "denied"
    # A 207 is an acceptance with reservations, and those are in its words.
    words = bounded(f"HTTP {status}: {text}" if text else f"HTTP {status}") if text or outcome != "accepted" else ""
    return Sent(outcome=outcome, status=status, words=words, retry_after=retry_after(headers, now=now))


def by_error(error: httpx.RequestError) -> Sent:
    """Judge a failed exchange: whether the server may have the request, or cannot have it."""
    import httpx

    # Before the connection stands nothing has left; after that the server may have read the request to its end.
    never_left = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
    words = bounded(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    return Sent(outcome="retry" if isinstance(error, never_left) else "ambiguous", words=words)


def by_api_error(error: ApiError, *, now: datetime) -> Sent:
    """Judge an error that the REST client raised: an answer other than 2xx, or a 2xx that is no JSON."""
    status = error.status_code or 0
    text = "" if error.body is None else str(error.body)
    if 200 <= status < 300:
        # An answer that is not the server's: a captive portal or a proxy's page.
        return Sent(outcome="retry", status=status, words=bounded(f"HTTP {status} that is no JSON: {text}"))
    return by_status(status, error.headers or {}, text, now=now)


def ask(call: Callable[[], T], *, now: datetime) -> T | Sent:
    """Make one REST call; what fails comes back as a ``Sent`` in place of the answer."""
    import httpx
    from langfuse.api.core.api_error import ApiError
    from pydantic import ValidationError

    try:
        return call()
    except ApiError as error:
        return by_api_error(error, now=now)
    except httpx.RequestError as error:
        return by_error(error)
    except ValidationError as error:
        return Sent(outcome="retry", words=bounded(f"an answer of unknown shape: {error.errors()[0]['msg']}"))
    except RecursionError:
        return Sent(outcome="retry", words="an answer that is nested too deeply")


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The seconds of a ``Retry-After`` header, in seconds or as an HTTP date; ``None`` without a usable one."""
    value = next((v for k, v in headers.items() if k.lower() == "retry-after"), "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), _MAX_RETRY_AFTER)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return min(max((when - now).total_seconds(), 0.0), _MAX_RETRY_AFTER)


def backoff(failures: int, *, asked: float | None = None, jitter: Callable[[], float] = random.random) -> float:
    """Seconds to wait after so many failures in a row: doubling from 1 s to 5 min, jittered; never under ``asked``."""
    wait = min(_FIRST_WAIT * 2.0 ** min(failures - 1, 20), MAX_WAIT) * (0.5 + jitter() / 2)
    return max(wait, asked or 0.0)


def bounded(text: Any, longest: int = MAX_WORDS) -> str:
    """Foreign words fit to be kept and shown: without secrets, on one line, short, nothing in them out of sight."""
    line = " ".join(Redactor().text(str(text)[:_READ]).split())
    line = _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
    return line if len(line) <= longest else line[: longest - 1] + "…"
