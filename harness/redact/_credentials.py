"""Keeping credentials off the disk: headers that are never written, and echoes of a call's own key."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import quote, unquote, urlsplit


class _HeaderNames(Collection[str]):
    """Header names, compared without regard to case; names that end as a secret's do are in as well."""

    def __init__(self, names: Collection[str], endings: tuple[str, ...]) -> None:
        self._names = frozenset(names)
        self._endings = endings

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        lower = name.strip().lower()
        return lower in self._names or lower.endswith(self._endings)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)


secret_headers: Collection[str] = _HeaderNames(
    {"api-key", "apikey", "authorization", "cookie", "ocp-apim-subscription-key", "proxy-authorization"}
    | {"set-cookie", "set-cookie2", "x-amz-security-token", "x-api-key", "x-auth-token", "x-goog-api-key"},
    ("-api-key", "-authorization", "-secret", "-token"),
)
"""Headers whose values never reach the disk: ``name in secret_headers``, whatever the case of the name."""

_STAND_INS = frozenset(
    {"anything", "api-key", "api_key", "dummy-key", "dummy_key", "localhost", "no-key-required", "not-needed"}
    | {"not-required", "password", "placeholder", "test-key", "your-api-key"}
)


def scrub_secrets(data: bytes, secrets: Sequence[str]) -> bytes:
    """Mask a call's own credentials where a reply echoes them: plain, JSON-escaped, percent-encoded or in base64.

    Each is overwritten by as many ``*``, so that lengths and chunk boundaries stay as they were.

    Args:
        data: A body, not compressed.
        secrets: Credentials as sent: keys, header values (``Bearer …``), URLs with user info. Stand-ins for a key
            (``not-needed``) and those too short to be told from ordinary text are left alone.
    """
    for form in secret_forms(secrets):
        data = data.replace(form, b"*" * len(form))
    return data


def secret_forms(secrets: Sequence[str]) -> tuple[bytes, ...]:
    """Every form in which the credentials may be echoed, longest first; what ``scrub_secrets`` looks for."""
    forms = {form for secret in secrets for part in _parts(secret) if _is_distinct(part) for form in _forms(part)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _is_distinct(part: str) -> bool:
    long = len(part) >= 8 or (len(part) >= 6 and any(map(str.isdigit, part)))
    return long and part.lower() not in _STAND_INS


def _forms(part: str) -> Iterator[bytes]:
    """How a credential may be written in a reply."""
    raw = part.encode("utf-8", "surrogatepass")
    yield raw
    escaped = json.dumps(part)[1:-1]
    yield escaped.encode()
    yield escaped.replace("/", "\\/").encode()
    yield json.dumps(part, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
    yield quote(raw, safe="").encode()
    encoded = base64.b64encode(raw).rstrip(b"=")
    yield encoded
    yield encoded.translate(bytes.maketrans(b"+/", b"-_"))


def _parts(secret: str) -> Iterator[str]:
    """A secret as it stands, and what of it is secret by itself: the token after its scheme, a URL's password."""
    secret = secret.strip()
    if "://" in secret:
        user_info = urlsplit(secret).netloc.rpartition("@")[0]
        password = user_info.partition(":")[2]
        yield from (user_info, password, unquote(password))
        return
    yield secret
    scheme, _, token = secret.partition(" ")
    yield token
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(token, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield from (pair, pair.partition(":")[2])
