"""Payment cards and phone numbers, told from all the other numbers in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CARD = re.compile(
    r"(?<![\w.,+-])"
    r"(?:\d{4}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{1,7}|\d{4}(?P<amex>[ -])\d{6}(?P=amex)\d{4,5}|\d{13,19})"
    r"(?![\w-]|[.,]\d)"
)
_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]\d{2}|222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}"
    r"|(?:6011|65\d{2}|64[4-9]\d)\d{12,15}"
    r"|35(?:2[89]|[3-8]\d)\d{12}"
    r"|3(?:0[0-5]|[689]\d)\d{11}"
    r"|62\d{14,17}"
)


def find_cards(text: str) -> Iterator[tuple[int, int]]:
    """Numbers with an issuer's prefix and length and a valid check digit."""
    for found in _CARD.finditer(text):
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
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|\bhttps?://\S+",
    re.IGNORECASE,
)
"""UUIDs, dates and times, network addresses, web addresses: never phone numbers."""

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
    # Blanked with letters, which no pattern crosses.
    text = _NO_PHONE.sub(lambda found: "x" * len(found[0]), text)
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
