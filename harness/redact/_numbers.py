"""Payment cards and phone numbers, told from all the other numbers in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_CARD = re.compile(
    r"(?<![\w.,+-])"
    r"(?:\d{4}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{1,7}|\d{4}(?P<amex>[ -])\d{6}(?P=amex)\d{4,5}|\d{13,19})"
    r"(?![\w-]|[.,]\d)"
)
# Today's lengths only: barcodes have 13 digits and begin with a 4 as well, database ids have 19.
_ISSUERS = re.compile(
    r"4\d{15}"
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}"
    r"|(?:6011|65\d{2}|64[4-9]\d)\d{12}"
    r"|35(?:2[89]|[3-8]\d)\d{12}"
    r"|3(?:0[0-5]|[689]\d)\d{11}"
    r"|62\d{14,17}"
)


_RUN = re.compile(r"\d(?:[ .\-/()]{0,2}\d){6,}")
"""What any of the patterns can match; they are slow, so they are tried at such runs of digits only."""
_ASCII_RUN = re.compile(_RUN.pattern, re.ASCII)
"""The same for ASCII text, and faster."""
_SHORTEST_CARD = 13


def may_hold_number(text: str) -> bool:
    """Whether there is a run of digits as any card or phone number has one."""
    return bool(_runs(text))


@lru_cache(maxsize=1)
def _runs(text: str) -> tuple[tuple[int, int], ...]:
    """Where such runs are; one text is asked for by several detectors in turn."""
    pattern = _ASCII_RUN if text.isascii() else _RUN
    return tuple(run.span() for run in pattern.finditer(text))


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Numbers with an issuer's prefix and length and a valid check digit."""
    for start, end in _runs(text):
        if end - start < _SHORTEST_CARD:
            continue
        # Two more characters, so that the pattern sees what follows.
        for found in _CARD.finditer(text, start, end + 2):
            digits = re.sub(r"\D", "", found[0])
            if _ISSUERS.fullmatch(digits) and is_luhn(digits):
                yield found.span()


def is_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


_NO_PHONE = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?)?(?:Z| ?[+-]\d{2}:?\d{2}\b)?"
    r"|\b\d{1,2}[./-]\d{1,2}[./-]\d{4}\b"
    r"|\b(?<!\d\.)\d{1,3}(?:\.\d{1,3}){3}\b(?!\.\d)",
    re.IGNORECASE,
)
"""UUIDs, dates and times, network addresses: never phone numbers."""

_CUES = ("phone", "tel", "mobil", "cell", "fax", "call", "whatsapp", "sms", "handy")
_CUED = re.compile(
    r"\b(?:phone|telephone|tel|mobile|cell|fax|call|whatsapp|sms|handy|telefon|mobil)\b\.?"
    r"(?:\s(?:number|no\.?|nr\.?|is|at|on|me at|us at|me on|us on))?\s{0,2}[:=]?\s{0,2}"
    r"(?P<number>\+?\(?\d(?:[ .\-/()]{0,2}\d){6,14})(?![\w-])",
    re.IGNORECASE,
)
_UNCUED = tuple(
    re.compile(rf"(?<![\w+/.,:#=$€£-])(?:(?=\+)|(?<!\d ))(?P<number>{pattern})(?![\w/-]|[.,:]\d)")
    for pattern in (
        r"\+[1-9](?:[ .\-/()]{0,2}\d){8,14}",
        r"00[1-9](?:[ .\-/()]{0,2}\d){8,13}",
        r"(?:1[ .-])?\([2-9]\d{2}\)[ -]?\d{3}[ .-]\d{4}",
        r"(?:1[ .-])?[2-9]\d{2}(?P<gap>[.-])\d{3}(?P=gap)\d{4}",
        r"0[1-9](?P<gap>[ .-])\d{2}(?:(?P=gap)\d{2}){3}",
        r"(?:\(0[1-9]\d{1,4}\)|0[1-9]\d{1,4})[ /-]\d{3,8}(?:[ -]\d{2,8}){0,2}",
    )
)
_LABELLED = re.compile(
    r"(?:\b(?:order|invoice|ref|reference|ticket|case|sku|isbn|issn|item|part|serial|tracking|parcel|id|no|nr|number"
    r"|account|customer|version|code|bestellung|rechnung|auftrag)|#)\W{0,3}\Z",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"https?://\S*\Z", re.IGNORECASE)
_NEAR, _LONG_URL = 40, 512


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Numbers that are introduced as phone numbers, or grouped as only phone numbers are."""
    lower = text.lower()
    if any(cue in lower for cue in _CUES):
        yield from (
            found.span("number") for found in _CUED.finditer(text) if not _is_other(text, *found.span("number"))
        )
    for start, _ in _runs(text):
        found = _uncued(text, start)
        if found and not _LABELLED.search(text, max(0, found.start() - _NEAR), found.start()):
            yield found.span()


def _uncued(text: str, digit: int) -> re.Match[str] | None:
    """The phone number whose first digit stands at ``digit``; before it there may be a plus or a bracket."""
    starts = (digit - 1, digit) if digit and text[digit - 1] in "+(" else (digit,)
    for start in starts:
        for pattern in _UNCUED:
            found = pattern.match(text, start)
            if found and _is_phone(found["number"]) and not _is_other(text, *found.span()):
                return found
    return None


def _is_other(text: str, start: int, end: int) -> bool:
    """Whether a number is part of a UUID, a date, an address of the network or the web."""
    if _IN_URL.search(text, max(0, start - _LONG_URL), start):
        return True
    near = max(0, start - _NEAR)
    return any(
        found.start() + near < end and start < found.end() + near
        for found in _NO_PHONE.finditer(text[near : end + _NEAR])
    )


def _is_phone(number: str) -> bool:
    digits = re.sub(r"\D", "", number)
    if number.startswith("00"):
        return len(digits) < len(number)
    if number.startswith("+"):
        return re.fullmatch(r"\+\d+\.\d+", number) is None
    return 9 <= len(digits) <= 12
