"""Reading a verdict out of a judge's reply: structured output first, prose as the fallback.

A reply without one clear verdict is *unscored*, with the reason; it is never 0 and never "fail".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from evaluators._scale import PASS_WORDS, Scale, Verdict

KEYS = ("verdict", "score", "grade", "rating", "pass", "passed")
"""Keys that may hold the verdict; the first is the one asked for."""
_LONGEST = 50_000
"""Characters read, from the end."""
_MARK = r"(?<![^\W_])(?:verdict|score|grade|rating)(?![^\W_])\s*(?:is\b)?\s*[:=]?\s*[*_`\"'(\[]*\s*"
_NUMBER = r"(?<![\w.])-?\d{1,9}(?:\.\d{1,9})?"
_OF = re.compile(rf"({_NUMBER})\s*\(?\s*(?:/|out\s+of)\s*(\d{{1,9}})(?![\w/]|\.\d)", re.IGNORECASE)
_MARKED_NUMBER = re.compile(rf"{_MARK}({_NUMBER})(?!\w)", re.IGNORECASE)
_ANY_NUMBER = re.compile(rf"{_NUMBER}(?!\w)")
_REFUSAL = re.compile(
    r"\b(?:can(?:no|['’])t|unable to|not able to|won['’]t|will not|must decline)\b[^.\n]{0,60}"
    r"\b(?:help|assist|rat(?:e|ing)|grad(?:e|ing)|judg(?:e|ing)|evaluat\w+|comply|provide)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reply says."""

    verdict: Verdict | None = None
    reason: str | None = None
    """The judge's reason."""
    unscored: str | None = None
    """Why there is no verdict; ``None`` when there is one."""
    notes: tuple[str, ...] = ()
    """What was coerced, or that prose was read."""
    retry: bool = True
    """Whether asking again might help; not after a refusal, nor when the limit of tokens was reached."""


def read_reply(reply: str | None, scale: Scale, *, finish_reason: str | None = "stop") -> Reading:
    """Read a judge's reply.

    Args:
        reply: Its text as it came.
        scale: What a verdict may be.
        finish_reason: ``length`` says that the reply was cut off.
    """
    text = _visible(reply or "")[-_LONGEST:]
    text = text.rpartition("</think>")[2].strip()
    cut = finish_reason == "length"
    if cut and "<think>" in text:
        return _truncated()
    if not text:
        return _truncated() if cut else Reading(unscored="empty reply")
    objects = list(_objects(text))
    verdicts = [found for found in objects if any(key in found for key in KEYS)]
    if verdicts:
        return _from_object(verdicts[-1], scale)
    if cut:
        return _truncated()
    if objects:
        return Reading(unscored="no verdict", reason=_reason(objects[-1]))
    return _from_prose(text, scale)


def _truncated() -> Reading:
    return Reading(unscored="truncated: the reply reached its token limit; raise max_tokens in params", retry=False)


def _visible(text: str) -> str:
    """Without invisible format characters, which split or hide a verdict."""
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in the text, in order, nested ones left out."""
    decoder = json.JSONDecoder(parse_constant=float)
    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _from_object(found: dict[str, Any], scale: Scale) -> Reading:
    reason = _reason(found)
    named = [(key, found[key]) for key in KEYS if key in found]
    key, value = named[0]
    own = scale if scale.kind == "pass" or not key.startswith("pass") else Scale("pass")
    verdict, note = own.read(value)
    if verdict is None or own is not scale:
        return Reading(unscored=note or "no verdict on the scale", reason=reason)
    if any(_contradicts(verdict, other, scale) for _, other in named[1:]):
        said = ", ".join(f"{key} {json.dumps(value)[:40]}" for key, value in named)
        return Reading(unscored=f"contradiction ({said})", reason=reason)
    return Reading(verdict=verdict, reason=reason, notes=(note,) if note else ())


def _contradicts(verdict: Verdict, other: Any, scale: Scale) -> bool:
    """Whether a second verdict in the same reply speaks against the first."""
    if isinstance(verdict, bool) == isinstance(other, bool):
        if isinstance(verdict, bool):
            return verdict is not other
        return scale.read(other)[0] not in (None, verdict)
    passed, number = (verdict, other) if isinstance(verdict, bool) else (other, verdict)
    if isinstance(number, str):
        return PASS_WORDS.get(number.strip().casefold(), passed) is not passed
    if not isinstance(number, int | float):
        return False
    return number <= scale.low if passed else number >= scale.high


def _reason(found: dict[str, Any]) -> str | None:
    reason = found.get("reason")
    return reason if isinstance(reason, str) else None


def _from_prose(text: str, scale: Scale) -> Reading:
    found = _number_in(text, scale) if scale.kind == "range" else _word_in(text, scale)
    if found is not None:
        return found if found.unscored else Reading(verdict=found.verdict, notes=("read from prose",))
    if _REFUSAL.search(text):
        return Reading(unscored="refusal", retry=False)
    if scale.kind == "range" and len({match.group() for match in _ANY_NUMBER.finditer(text)}) > 1:
        return Reading(unscored="ambiguous (several numbers, none marked as the verdict)")
    return Reading(unscored="no verdict")


def _number_in(text: str, scale: Scale) -> Reading | None:
    """The last number marked as verdict or as a share of the scale's end; a bare number when it is all there is."""
    places: list[tuple[int, str]] = []
    for match in _OF.finditer(text):
        if int(match[2]) != scale.high:
            return Reading(unscored=f"on another scale ({match.group()})")
        places.append((match.start(1), match[1]))
    places += [(match.start(1), match[1]) for match in _MARKED_NUMBER.finditer(text)]
    bare = _ANY_NUMBER.fullmatch(text.strip("*_`\"'. \n"))
    if bare:
        places.append((0, bare.group()))
    if not places:
        return None
    verdict, note = scale.read(float(max(places)[1]))
    return Reading(verdict=verdict, unscored=note if verdict is None else None)


def _word_in(text: str, scale: Scale) -> Reading | None:
    """The last label after a mark, or the label that the whole reply is."""
    known: dict[str, Verdict] = dict(PASS_WORDS) if scale.kind == "pass" else {
        label.casefold(): label for label in scale.labels
    }
    label = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    bare = text.strip("*_`\"'. \n").casefold()
    if bare in known:
        return Reading(verdict=known[bare])
    marked = re.compile(
        rf"{_MARK.replace('[:=]?', '[:=]')}({label})(?!\w)(?P<more>[*_`\"')\]]*\s*(?:/|\||,|\bor\b|\band\b)\s*(?:{label})(?!\w))?",
        re.IGNORECASE,
    )
    last = None
    for last in marked.finditer(text):
        pass
    if last is None:
        return None
    if last["more"]:
        return Reading(unscored=f"ambiguous ({last.group().strip()!r})")
    return Reading(verdict=known[last[1].casefold()])
