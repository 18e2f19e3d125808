"""What an embedding does not see: numbers, dates, negations and names that differ between two texts.

The words are English. Numbers and ISO dates work in any language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = r"(jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY_FIRST = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\.?\s{{1,3}}(?:of\s)?{_MONTH}(?:,?\s(\d{{4}}))?\b", re.IGNORECASE
)
_MONTH_FIRST = re.compile(rf"\b{_MONTH}\s{{1,3}}(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(\d{{4}}))?", re.IGNORECASE)
_SLASHED = re.compile(r"\b\d{1,2}([./])\d{1,2}\1(?:\d{4}|\d{2})\b")
_DAY_WORD = re.compile(
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:today|tomorrow|yesterday|tonight)\b", re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d{1,30}(?:,\d{3}){0,9}(?:\.\d{1,30})?(?![\d])\s?%?")
_COUNTED = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNT_WORDS = {word: str(value) for value, word in enumerate(_COUNTED, start=2)}
_COUNT = re.compile(rf"\b(?:{'|'.join(_COUNT_WORDS)})\b", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|neither|nor|cannot|without|unable|hardly)\b|n['’]t\b", re.IGNORECASE
)
_OPPOSITES: tuple[tuple[str, str], ...] = (
    (r"approv\w*", r"den(?:y|ied|ies|ial)|reject\w*|declin\w*|refus\w*"),
    (r"accept\w*", r"reject\w*|declin\w*|refus\w*"),
    (r"allow\w*|permit\w*", r"forbid\w*|forbidden|prohibit\w*|den(?:y|ied|ies)"),
    (r"continu\w*|resum\w*", r"withhold\w*|withheld|stop\w*|discontinu\w*|paus\w*"),
    (r"increas\w*|rais\w*|ris(?:e|es|ing)", r"decreas\w*|reduc\w*|lower\w*|fall\w*"),
    (r"enabl\w*", r"disabl\w*"),
    (r"includ\w*", r"exclud\w*"),
    (r"before", r"after"),
    (r"always", r"never"),
    (r"yes", r"no"),
    (r"valid", r"invalid"),
    (r"available", r"unavailable"),
    (r"possible", r"impossible"),
    (r"open\w*", r"clos\w*"),
    (r"start\w*|begin\w*", r"stop\w*|end(?:s|ed|ing)?"),
    (r"success\w*|succeed\w*", r"fail\w*"),
)
_POLES = tuple(
    (re.compile(rf"\b(?:{left})\b", re.IGNORECASE), re.compile(rf"\b(?:{right})\b", re.IGNORECASE))
    for left, right in _OPPOSITES
)
_NAME = re.compile(r"[A-Z][\w'’-]{1,40}(?:\s[A-Z][\w'’-]{1,40}){0,4}")
_SENTENCE_END = re.compile(r"(?:^|[.!?:\n\"“])\s*$")

Difference = dict[str, list[str]]
"""``missing`` (expected, not there) and ``extra`` (there, not expected)."""


def differences(expected: str, got: str) -> dict[str, Difference]:
    """What differs, by guard: ``numbers``, ``dates``, ``negation``, ``names`` (those that differ only)."""
    found: dict[str, Difference] = {}
    for name, read in _READERS.items():
        wanted, seen = read(expected), read(got)
        missing, extra = sorted(wanted - seen), sorted(seen - wanted)
        if missing or extra:
            found[name] = {"missing": missing, "extra": extra}
    opposed = _opposed(expected, got)
    if opposed:
        negation = found.setdefault("negation", {"missing": [], "extra": []})
        negation["missing"] += [left for left, _ in opposed]
        negation["extra"] += [right for _, right in opposed]
    return found


def dates(text: str) -> set[str]:
    """Dates and day words; month names and ISO dates come out alike, ``2026-03-05``, or ``--03-05`` without a year."""
    found = {f"{year}-{month}-{day}" for year, month, day in _ISO.findall(text)}
    found |= {_date(year, month, day) for day, month, year in _DAY_FIRST.findall(text)}
    found |= {_date(year, month, day) for month, day, year in _MONTH_FIRST.findall(text)}
    found |= {match.group() for match in _SLASHED.finditer(text)}
    return found | {match.group().lower() for match in _DAY_WORD.finditer(text)}


def _date(year: str, month: str, day: str) -> str:
    number = next(i for i, name in enumerate(_MONTHS, start=1) if name.startswith(month.lower()[:3]))
    return f"{year or '-'}-{number:02d}-{int(day):02d}"


def numbers(text: str) -> set[str]:
    """Numbers outside dates, without grouping or trailing zeros; a percentage keeps its sign."""
    for pattern in (_ISO, _DAY_FIRST, _MONTH_FIRST, _SLASHED):
        text = pattern.sub(" ", text)
    found = {_plain(match.group()) for match in _NUMBER.finditer(text)}
    return found | {_COUNT_WORDS[match.group().lower()] for match in _COUNT.finditer(text)}


def _plain(written: str) -> str:
    percent = written.endswith("%")
    value = Decimal(written.rstrip("% ").replace(",", ""))
    return f"{value.normalize():f}" + ("%" if percent else "")


def negation(text: str) -> set[str]:
    """``not`` when the text negates an odd number of times."""
    return {"not"} if len(_NOT.findall(text)) % 2 else set()


def _opposed(expected: str, got: str) -> list[tuple[str, str]]:
    """Words of which one text has only the one and the other only its opposite."""
    found = []
    for left, right in _POLES:
        for one, other in ((left, right), (right, left)):
            here, there = one.search(expected), other.search(got)
            if here and there and not other.search(expected) and not one.search(got):
                found.append((here.group().lower(), there.group().lower()))
    return found


def names(text: str) -> set[str]:
    """Capitalised words inside a sentence, joined where they stand together; a sentence's first word is none."""
    found = set()
    for match in _NAME.finditer(text):
        words = match.group().split()
        if _SENTENCE_END.search(text[max(0, match.start() - 4) : match.start()]):
            words = words[1:]
        if words and not _DAY_WORD.fullmatch(words[0]) and words[0].lower() not in _MONTHS:
            found.add(" ".join(words))
    return found


_READERS: Mapping[str, Callable[[str], set[str]]] = {
    "numbers": numbers,
    "dates": dates,
    "negation": negation,
    "names": names,
}
BLOCKING = ("numbers", "dates", "negation")
"""Guards that no cosine outweighs; names are too often a matter of style, so they are only listed."""
