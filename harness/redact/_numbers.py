"""Payment cards and phone numbers, told from all the other numbers in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
"""What any of the patterns could match; they are slow, so they look only around such runs of digits."""
_BEFORE, _AFTER, _LONG_URL = 64, 40, 512
_IN_URL = re.compile(r"https?://\S*\Z", re.IGNORECASE)


class _Window(NamedTuple):
    """The text around a run of digits: wide enough for a label before it, and for a whole UUID."""

    offset: int
    text: str
    first: int
    last: int
    """Within ``text``, what is found lies between these; nearer its ends, the cut may hide what stood before."""
    in_url: bool


def _windows(text: str) -> Iterator[_Window]:
    for run in _RUN.finditer(text):
        start, end = run.span()
        offset = max(0, start - _BEFORE)
        in_url = _IN_URL.search(text, max(0, start - _LONG_URL), start) is not None
        # A number may begin with a plus and a bracket before its first digit.
        yield _Window(offset, text[offset : end + _AFTER], start - offset - 2, end - offset, in_url)


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Numbers with an issuer's prefix and length and a valid check digit."""
    for window in _windows(text):
        for found in _CARD.finditer(window.text):
            digits = re.sub(r"\D", "", found[0])
            if _ISSUERS.fullmatch(digits) and is_luhn(digits):
                yield from _placed(found.span(), window)


def _placed(span: tuple[int, int], window: _Window) -> Iterator[tuple[int, int]]:
    if window.first <= span[0] and span[1] <= window.last:
        yield window.offset + span[0], window.offset + span[1]


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
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b",
    re.IGNORECASE,
)
"""UUIDs, dates and times, network addresses: never phone numbers."""

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


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """Numbers that are introduced as phone numbers, or grouped as only phone numbers are."""
    for window in _windows(text):
        if not window.in_url:
            # Blanked with letters, which no pattern crosses.
            blanked = _NO_PHONE.sub(lambda found: "x" * len(found[0]), window.text)
            for span in _phones_in(blanked):
                yield from _placed(span, window)


def _phones_in(text: str) -> Iterator[tuple[int, int]]:
    for found in _CUED.finditer(text):
        yield found.span("number")
    for pattern in _UNCUED:
        for found in pattern.finditer(text):
            if _is_phone(found["number"]) and not _LABELLED.search(text, max(0, found.start() - 24), found.start()):
                yield found.span("number")


def _is_phone(number: str) -> bool:
    digits = re.sub(r"\D", "", number)
    if number.startswith("00"):
        return len(digits) < len(number)
    if number.startswith("+"):
        return re.fullmatch(r"\+\d+\.\d+", number) is None
    return 9 <= len(digits) <= 12
