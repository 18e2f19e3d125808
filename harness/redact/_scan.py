"""The detectors.

They prefer a miss to a false alarm: what looks like an order number, a date, a UUID, a hash or a price is not
reported. They take time linear in the text, since the text may be hostile.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.redact._numbers import find_cards, find_phones, may_hold_number

Kind = Literal["mail", "phone", "card", "key", "token", "private-key", "secret"]
"""``key``: an API key of a known shape; ``token``: a bearer token or JWT; ``secret``: a value assigned to a name such
as ``api_key``, or the password in a URL."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not leave the house."""

    kind: Kind
    start: int
    end: int
    """Character offsets: ``text[start:end]`` of the scanned text is the thing itself."""
    text: str


def scan(text: str) -> list[Finding]:
    """What in a text looks like personal data or a secret, in order, without overlaps."""
    if not may_hold(text):
        return []
    return _scan(text, [(kind, find) for kind, find, may in _DETECTORS if may(text)])


def _scan(text: str, detectors: Sequence[tuple[Kind, Callable[[str], _Spans]]]) -> list[Finding]:
    found: list[Finding] = []
    used = bytearray(len(text) if detectors else 0)
    # In JSON within a text a line ends with a letter, which would look like the beginning of a word.
    seen = _ESCAPES.sub(lambda escape: " " * len(escape[0]), text) if "\\" in text else text
    for kind, find in detectors:
        for start, end in find(seen):
            if not any(used[start:end]):
                used[start:end] = b"\x01" * (end - start)
                found.append(Finding(kind, start, end, text[start:end]))
    return sorted(found, key=lambda finding: finding.start)


_ESCAPES = re.compile(r"\\+[nrtbf]")

may_hold = re.compile(r"[\d@]|eyJ|-----BEGIN").search
"""Every detector needs a digit, but for mail and user info (@), tokens (eyJ) and private keys (BEGIN)."""


def is_blank(text: str) -> bool:
    """Whether a value only stands in for a secret: a mask, a path, a reference to the environment, a placeholder."""
    return text.startswith(("$", "<", "{", "⟦", "/", "./", "http", "os.", "env.", "process.")) or bool(
        _BLANK.fullmatch(text)
    )


_BLANK = re.compile(r"[\W_]*|[xX*.]+|(?:your|my|the|some|example|test|dummy|placeholder)[-_ ].*", re.IGNORECASE)

_Spans = Iterator[tuple[int, int]]

_DOMAIN = re.compile(r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?P<top>[^\W\d_]{2,24})(?![\w@-])")
_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}\Z")
_URL_HEAD = re.compile(r"://[^\s/]*\Z")
_FILE_TYPES = frozenset({"css", "gif", "html", "jpeg", "jpg", "js", "json", "pdf", "png", "svg", "txt", "webp"})


def _mails(text: str) -> _Spans:
    for found in _DOMAIN.finditer(text):
        local = _LOCAL.search(text, max(0, found.start() - 64), found.start())
        # An icon@2x.png is a file, git@host begins an address for machines, and so does the user in a URL.
        if local is None or found["top"].lower() in _FILE_TYPES or local[0] == "git":
            continue
        if _URL_HEAD.search(text, max(0, local.start() - 128), found.start()):
            continue
        start = local.start() + len(local[0]) - len(local[0].lstrip(".!#$%&'*/=?^`{|}~-"))
        if start < found.start():
            yield start, found.end()


_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def _private_keys(text: str) -> _Spans:
    done = 0
    while begin := _BEGIN.search(text, done):
        end = _END.search(text, begin.end())
        # Cut off by a length limit, a key is still a key.
        done = end.end() if end else len(text)
        yield begin.start(), done


_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}(?![\w-])")
_BEARER = re.compile(r"\b(?:bearer|basic)\s{1,4}(?P<value>[\w.~+/-]{12,}=*)", re.IGNORECASE)


def _tokens(text: str) -> _Spans:
    yield from (found.span() for found in _JWT.finditer(text))
    for found in _BEARER.finditer(text):
        if _is_mixed(found["value"]):
            yield found.span("value")


_KEYS = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"[sp]k-[\w-]{16,}"
    r"|[srp]k_(?:live|test)_\w{10,}"
    r"|(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|xox[abeprs]-[\w-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}"
    r"|(?:hf|gsk|npm|pypi|xai|r8|lsv2_pt|lsv2_sk)[_-][A-Za-z0-9_-]{24,}"
    r")(?![\w-])"
)


def _keys(text: str) -> _Spans:
    return (found.span() for found in _KEYS.finditer(text) if _is_mixed(found[0]))


_ASSIGNED = re.compile(
    r"(?:api[_-]?key|(?<![^\W_])(?:access[_-]?key|secret(?:[_-]?(?:access[_-]?)?key)?|client[_-]?secret"
    r"|(?:access|auth|refresh|session)?[_-]?token|password|passwd|pwd))"
    r"(?:\\?[\"'])?\s{0,3}(?:=>|:=|[:=])\s{0,3}(?:\\?[\"'])?(?P<value>[^\s\"'`,;<>(){}\[\]⟦⟧]{6,})",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)(?P<user>[^\s/:@\"'<>]{1,64}):(?P<value>[^\s/@\"'<>]{1,128})@")


def _secrets(text: str) -> _Spans:
    for found in _ASSIGNED.finditer(text):
        value = found["value"].rstrip(".!?\\")
        if len(value) >= 6 and _is_mixed(value) and not is_blank(value):
            start = found.start("value")
            yield start, start + len(value)
    for found in _USER_INFO.finditer(text):
        if not is_blank(found["value"]) and found["value"].lower() not in {"pass", "password", "pw"}:
            yield found.span("value")


def _is_mixed(value: str) -> bool:
    """Letters and digits, spread widely: what chance makes and people seldom write."""
    if not (re.search(r"\d", value) and re.search(r"[A-Za-z]", value)):
        return False
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy >= min(2.5, math.log2(len(value)) - 0.5)


_DOTLESS = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s"})
"""What a pattern that ignores case takes for an ASCII letter and ``lower`` does not."""
# fmt: off
_KEY_STEMS = (
    ("-", ("sk-", "pk-", "glpat-", "hf-", "gsk-", "npm-", "pypi-", "xai-", "r8-", "lsv2_pt-", "lsv2_sk-", "xox")),
    ("_", ("k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "hf_", "gsk_", "npm_", "pypi_",
           "xai_", "r8_", "lsv2_pt_", "lsv2_sk_")),
    ("A", ("AKIA", "ASIA", "AROA", "AIDA", "AGPA", "ANPA", "AIza")),
    ("ya29.", ("ya29.",)),
)
# fmt: on
"""How keys begin, by a character that is in all of them."""
_ASSIGNMENT = re.compile(r"(?:key|secret|token|passw(?:or)?d|pwd)(?:\\?[\"'])?\s{0,3}[:=]")


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_DOTLESS).lower()


def _may_hold_key(text: str) -> bool:
    return any(sign in text and any(stem in text for stem in stems) for sign, stems in _KEY_STEMS)


def _may_hold_token(text: str) -> bool:
    if "eyJ" in text:
        return True
    folded = _folded(text)
    return "bearer" in folded or "basic" in folded


def _may_hold_secret(text: str) -> bool:
    if "://" in text and "@" in text:
        return True
    return ("=" in text or ":" in text) and _ASSIGNMENT.search(_folded(text)) is not None


_DETECTORS: tuple[tuple[Kind, Callable[[str], _Spans], Callable[[str], bool]], ...] = (
    ("private-key", _private_keys, lambda text: "-----BEGIN " in text),
    ("key", _keys, _may_hold_key),
    ("token", _tokens, _may_hold_token),
    ("secret", _secrets, _may_hold_secret),
    ("mail", _mails, lambda text: "@" in text),
    ("card", find_cards, may_hold_number),
    ("phone", find_phones, may_hold_number),
)
"""First come, first served: a key within a bearer header is a key. The last of each says quickly, and without ever
missing one, whether there can be any: most text has none."""
