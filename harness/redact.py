"""Finds personal data and secrets in text, replaces them consistently, and keeps credentials off the disk.

The detectors prefer a miss to a false alarm: what looks like an order number, a date, a UUID, a hash or a price is
not reported. They take time linear in the text, since the text may be hostile.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlsplit

__all__ = ["Finding", "Kind", "Redactor", "scan", "scan_value", "scrub_secrets", "secret_headers"]

Kind = Literal["mail", "phone", "card", "key", "token", "private-key", "secret"]
"""``key``: an API key of a known shape; ``token``: a bearer token or JWT; ``secret``: a value assigned to a name such
as ``api_key``, or the password in a URL."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not leave the house."""

    kind: Kind
    start: int
    end: int
    """Character offsets; ``text[start:end]`` is the thing itself."""
    text: str


def scan(text: str) -> list[Finding]:
    """What in a text looks like personal data or a secret, in order, without overlaps."""
    taken: list[Finding] = []
    if len(text) < _SHORTEST:
        return taken
    used = bytearray(len(text))
    for kind, find in _DETECTORS:
        for start, end in find(text):
            if not any(used[start:end]):
                used[start:end] = b"\x01" * (end - start)
                taken.append(Finding(kind, start, end, text[start:end]))
    return sorted(taken, key=lambda finding: finding.start)


def scan_value(value: Any) -> list[tuple[str, Finding]]:
    """Findings in a JSON value with the JSON path of the text each stands in; a key's path is that of its member.

    Offsets count within the text at the path. Numbers are read as text; a field named ``password``, ``api_key`` or
    ``phone`` makes its value a finding that it would not be elsewhere.
    """
    found: list[tuple[str, Finding]] = []
    for path, name, item, is_key in _leaves(value):
        found.extend((path, finding) for finding in (scan(item) if is_key else _scan_leaf(name, item)))
    return found


class Redactor:
    """Replaces what ``scan`` finds; the same thing gets the same placeholder, such as ``⟦mail#1⟧``, everywhere.

    One redactor serves everything that belongs together: request, reply, chunks and snapshots.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Kind, str], str] = {}
        self._counts: Counter[Kind] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """How many different things of each kind were replaced."""
        return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """The text with every finding replaced."""
        return self._replaced(text, scan(text))

    def value(self, value: Any) -> Any:
        """A JSON value with every finding replaced, keys included; a number that is one becomes text."""
        return self._value("", value)

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(str(key)): self._value(str(key), item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._value(name, item) for item in value]
        if value is None or isinstance(value, (bool, float)):
            return value
        text = str(value)
        findings = _scan_leaf(name, text)
        return self._replaced(text, findings) if findings else value

    def _replaced(self, text: str, findings: Sequence[Finding]) -> str:
        pieces: list[str] = []
        done = 0
        for finding in findings:
            pieces += (text[done : finding.start], self._placeholder(finding))
            done = finding.end
        return "".join([*pieces, text[done:]])

    def _placeholder(self, finding: Finding) -> str:
        known = finding.kind, _same(finding)
        if known not in self._numbers:
            self._counts[finding.kind] += 1
            self._numbers[known] = f"⟦{finding.kind}#{self._counts[finding.kind]}⟧"
        return self._numbers[known]


class _HeaderNames(Collection[str]):
    """Header names, compared without regard to case; names that end like one that holds a secret are in as well."""

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
    | {"set-cookie", "set-cookie2", "www-authenticate", "x-amz-security-token", "x-api-key", "x-auth-token"}
    | {"x-csrf-token", "x-goog-api-key"},
    ("-api-key", "-authorization", "-secret", "-token"),
)
"""Headers whose values never reach the disk: ``name in secret_headers``, whatever the case of the name."""


def scrub_secrets(data: bytes, secrets: Sequence[str]) -> bytes:
    """Mask a call's own credentials where a reply echoes them: plain, JSON-escaped, percent-encoded or in base64.

    Each is overwritten by as many ``*``, so that lengths and chunk boundaries stay as they were.

    Args:
        data: A body, not compressed.
        secrets: Credentials as sent: keys, header values (``Bearer …``), URLs with user info. Stand-ins for a key
            (``not-needed``) and those too short to be told from ordinary text are left alone.
    """
    for form in sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True):
        data = data.replace(form, b"*" * len(form))
    return data


_STAND_INS = frozenset(
    {"anything", "api-key", "api_key", "dummy-key", "dummy_key", "localhost", "no-key-required", "no-key", "none"}
    | {"not-needed", "not-required", "password", "placeholder", "test-key", "your-api-key"}
)


def _forms(secret: str) -> Iterator[bytes]:
    for part in _credentials(secret):
        lower = part.lower()
        distinct = len(part) >= 8 or (len(part) >= 6 and any(map(str.isdigit, part)))
        if not distinct or lower in _STAND_INS:
            continue
        raw = part.encode("utf-8", "surrogatepass")
        yield raw
        for ascii_only in (True, False):
            yield json.dumps(part, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")
        yield json.dumps(part)[1:-1].replace("/", "\\/").encode()
        yield quote(raw, safe="").encode()
        encoded = base64.b64encode(raw)
        yield encoded.rstrip(b"=")
        yield encoded.translate(bytes.maketrans(b"+/", b"-_")).rstrip(b"=")


def _credentials(secret: str) -> Iterator[str]:
    """A secret as it stands, and what of it is secret by itself: the token after its scheme, a URL's password."""
    if "://" in secret:
        user_info = urlsplit(secret).netloc.rpartition("@")[0]
        yield from (user_info, user_info.partition(":")[2])
        return
    secret = secret.strip()
    yield secret
    scheme, space, token = secret.partition(" ")
    if not space:
        return
    yield token
    if scheme.lower() == "basic":
        try:
            pair = base64.b64decode(token, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield from (pair, pair.partition(":")[2])


_SHORTEST = 6
_NAMED_SECRETS = frozenset(
    {"accesstoken", "apikey", "authtoken", "clientsecret", "passwd", "password", "privatekey", "refreshtoken"}
    | {"secret", "secretkey", "xapikey"}
)
_NAMED_PHONES = frozenset({"fax", "mobile", "phone", "phonenumber", "tel", "telephone"})
_BLANK = re.compile(r"[\W_]*|[xX*]+|(?:your|my|the|some|example|test|dummy|placeholder)[-_ ].*", re.IGNORECASE)


def _leaves(value: Any) -> Iterator[tuple[str, str, str, bool]]:
    """(path, name of the member, text, whether the text is a key) without recursion, in order."""
    stack: list[tuple[str, str, Any, bool]] = [("$", "", value, False)]
    while stack:
        path, name, item, is_key = stack.pop()
        if isinstance(item, dict):
            for key, inner in reversed(item.items()):
                key = str(key)  # noqa: PLW2901 - a key of any type is shown as text
                below = f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key)}]"
                stack += ((below, key, inner, False), (below, name, key, True))
        elif isinstance(item, (list, tuple)):
            stack.extend((f"{path}[{n}]", name, inner, False) for n, inner in reversed(list(enumerate(item))))
        elif isinstance(item, str) or (isinstance(item, int) and not isinstance(item, bool)):
            yield path, name, str(item), is_key


def _scan_leaf(name: str, text: str) -> list[Finding]:
    plain = re.sub(r"[\W_]", "", name).lower()
    if plain in _NAMED_SECRETS and len(text) >= _SHORTEST and not _is_blank(text):
        return [Finding("secret", 0, len(text), text)]
    digits = re.sub(r"\D", "", text)
    if plain in _NAMED_PHONES and 7 <= len(digits) <= 15 and re.fullmatch(r"\+?[\d\s().\-/]+", text):
        return [Finding("phone", 0, len(text), text)]
    return scan(text)


def _is_blank(text: str) -> bool:
    """Whether a value stands in for a secret: a mask, a reference to the environment, a placeholder."""
    return text.startswith(("$", "<", "{", "⟦", "os.", "env.", "process.")) or bool(_BLANK.fullmatch(text))


def _same(finding: Finding) -> str:
    """What two spellings of one thing have in common."""
    if finding.kind == "mail":
        return finding.text.lower()
    if finding.kind in {"phone", "card"}:
        return re.sub(r"\D", "", finding.text)
    return finding.text
