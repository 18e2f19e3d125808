"""Scanning and replacing in whole JSON values."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from harness.redact._scan import Finding, Kind, is_blank, may_hold, scan

_NAMED_SECRETS = frozenset(
    {"accesstoken", "apikey", "authtoken", "clientsecret", "passwd", "password", "privatekey", "refreshtoken"}
    | {"secret", "secretkey", "xapikey"}
)
_NAMED_PHONES = frozenset({"fax", "mobile", "phone", "phonenumber", "tel", "telephone"})
_NAMED = _NAMED_SECRETS | _NAMED_PHONES
_SECRET_KINDS = frozenset({"key", "token", "secret"})
_DIGITS = re.compile(r"\+?[\d\s().\-/]+")
_LONG = 6
_PLAIN = frozenset({type(None), bool, float})
_SHORT = 64
"""Characters of a text whose scan is remembered."""


def scan_value(value: Any) -> list[tuple[str, Finding]]:
    """Findings in a JSON value, each with the JSON path of the text it stands in; a key's is that of its member.

    Offsets count within that text; whole numbers are read as text. A field named ``password``, ``api_key`` or
    ``phone`` makes its value a finding that it would not be elsewhere.
    """
    return [(path, finding) for path, name, text in _leaves(value) for finding in _scan_leaf(name, text)]


class Redactor:
    """Replaces what ``scan`` finds; the same thing gets the same placeholder, such as ``⟦mail#1⟧``, everywhere.

    One redactor serves everything that belongs together: request, reply, chunks and snapshots. A secret that was once
    recognised by its surroundings is from then on recognised without them.
    """

    def __init__(self) -> None:
        self._placeholders: dict[tuple[Kind, str], str] = {}
        self._counts: Counter[Kind] = Counter()
        self._secrets: dict[str, Kind] = {}
        self._pattern: re.Pattern[str] | None = None
        self._scanned: dict[tuple[str, str], list[Finding]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many different things of each kind were replaced."""
        return {str(kind): count for kind, count in sorted(self._counts.items())}

    def text(self, text: str) -> str:
        """The text with every finding replaced."""
        return self._leaf("", text)

    def value(self, value: Any) -> Any:
        """A JSON value with every finding replaced, keys included; a number that is a finding becomes text."""
        # On the stack is only what is worth a look.
        stack: list[tuple[str, Any]] = [("", value)] if _is_worth(value, "") else []
        while stack:
            name, item = stack.pop()
            if isinstance(item, (str, int)):
                for finding in self._scan(name, str(item)):
                    self._placeholder(finding)
            else:
                stack += _inside(name, item)
        if not self._placeholders:
            return value
        return self._value("", value)

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._leaf("", str(key)): self._value(str(key), item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._value(name, item) for item in value]
        if value is None or isinstance(value, (bool, float)):
            return value
        text = str(value)
        made = self._leaf(name, text)
        return value if made == text else made

    def _leaf(self, name: str, text: str) -> str:
        if not self._secrets and not _is_worth(text, name):
            return text
        findings = self._scan(name, text)
        for finding in findings:
            self._placeholder(finding)
        findings = [*findings, *self._known(text, findings)]
        if not findings:
            return text
        pieces: list[str] = []
        done = 0
        for finding in sorted(findings, key=lambda finding: finding.start):
            pieces += (text[done : finding.start], self._placeholder(finding))
            done = finding.end
        return "".join([*pieces, text[done:]])

    def _scan(self, name: str, text: str) -> list[Finding]:
        """As ``_scan_leaf``; what belongs together repeats itself."""
        bare = _bare(name) if name else ""
        key = bare if bare in _NAMED else "", text
        known = self._scanned.get(key)
        if known is None:
            known = self._scanned[key] = _scan_leaf(name, text)
        return known

    def _known(self, text: str, findings: Sequence[Finding]) -> list[Finding]:
        """Secrets met before that stand outside the findings."""
        if not self._secrets:
            return []
        if self._pattern is None:
            longest_first = sorted(self._secrets, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return [
            Finding(self._secrets[found[0]], found.start(), found.end(), found[0])
            for found in self._pattern.finditer(text)
            if all(found.end() <= finding.start or finding.end <= found.start() for finding in findings)
        ]

    def _placeholder(self, finding: Finding) -> str:
        known = finding.kind, _same(finding)
        if known not in self._placeholders:
            self._counts[finding.kind] += 1
            self._placeholders[known] = f"⟦{finding.kind}#{self._counts[finding.kind]}⟧"
            if finding.kind in _SECRET_KINDS and len(finding.text) >= _LONG:
                self._secrets.setdefault(finding.text, finding.kind)
                self._pattern = None
        return self._placeholders[known]


def _leaves(value: Any) -> Iterator[tuple[str, str, str]]:
    """(path, name of the member, text) in order, keys included, without recursion: values may nest deeply."""
    stack: list[tuple[str, str, Any]] = [("$", "", value)]
    while stack:
        path, name, item = stack.pop()
        if isinstance(item, dict):
            for key, inner in reversed(item.items()):
                text = str(key)
                below = f"{path}.{text}" if text.isidentifier() else f"{path}[{json.dumps(text)}]"
                stack += ((below, text, inner), (below, "", text))
        elif isinstance(item, (list, tuple)):
            stack.extend((f"{path}[{n}]", name, inner) for n, inner in reversed(list(enumerate(item))))
        elif isinstance(item, (str, int)) and not isinstance(item, bool):
            yield path, name, str(item)


def _scan_leaf(name: str, text: str) -> list[Finding]:
    plain = _bare(name) if name else ""
    if plain in _NAMED_SECRETS and len(text) >= _LONG and not is_blank(text):
        return [Finding("secret", 0, len(text), text)]
    if plain in _NAMED_PHONES and _DIGITS.fullmatch(text) and 7 <= len(re.sub(r"\D", "", text)) <= 15:
        return [Finding("phone", 0, len(text), text)]
    return scan(text) if len(text) > _SHORT else list(_scan_short(text))


@lru_cache(maxsize=8192)
def _scan_short(text: str) -> tuple[Finding, ...]:
    """The scan of a name, a model, an address: what is short comes again and again."""
    return tuple(scan(text))


def _inside(name: str, value: Any) -> list[tuple[str, Any]]:
    """What in a value is worth a look, names of members before what they hold, the last one first."""
    if isinstance(value, (list, tuple)):
        return [(name, inner) for inner in reversed(value) if inner is not None and _is_worth(inner, name)]
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        for key, inner in reversed(value.items()):
            text = key if type(key) is str else str(key)
            if _is_worth(inner, text):
                found.append((text, inner))
            if may_hold(text):
                found.append(("", text))
    return found


def _is_worth(value: Any, name: str) -> bool:
    """Whether a value has to be looked into: most texts hold nothing that any detector looks for.

    Args:
        value: Of a member, an element, or all there is.
        name: Of the member that it stands in.
    """
    kind = type(value)
    if kind is str:
        return may_hold(value) is not None or (name != "" and _bare(name) in _NAMED)
    return kind not in _PLAIN


@lru_cache(maxsize=4096)
def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _same(finding: Finding) -> str:
    """What two spellings of one thing have in common."""
    if finding.kind == "mail":
        return finding.text.lower()
    if finding.kind in {"phone", "card"}:
        return re.sub(r"\D", "", finding.text)
    return finding.text
