"""Reading a verdict out of a judge's reply: structured output first, prose as the fallback.

A reply without one clear verdict is *unscored*, with the reason; it is never 0 and never "fail".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evaluators._scale import PASS_WORDS, Scale, Verdict

KEYS = ("verdict", "score", "grade", "rating", "pass", "passed")
"""Keys that may hold the verdict; the first is the one asked for."""
_PASS_KEYS = ("pass", "passed")
_LONGEST = 20_000
"""Characters read, from the end."""
_MARK = r"(?<![^\W_])(?:verdict|score|grade|rating)(?![^\W_])[*_`]*\s*(?:is\b|of\b|[:=])\s*[*_`\"'(\[]*\s*"
_NUMBER = r"(?<![\w.])-?\d{1,9}(?:\.\d{1,9})?"
_OF = re.compile(rf"({_NUMBER})\s*\(?\s*(?:/|out\s+of)\s*(\d{{1,9}})(?![\w/]|\.\d)", re.IGNORECASE)
_MARKED_NUMBER = re.compile(rf"{_MARK}({_NUMBER})(?!\w)", re.IGNORECASE)
_ANY_NUMBER = re.compile(rf"{_NUMBER}(?!\w)")
_DECORATION = "*_`\"'. \n"
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
    keys = sorted((key for key in KEYS if key in found), key=lambda key: _rank(key, scale))
    if scale.kind != "pass" and keys[0] in _PASS_KEYS:
        return Reading(unscored="no verdict on the scale", reason=reason)
    verdict, note = scale.read(found[keys[0]])
    if verdict is None:
        return Reading(unscored=note, reason=reason)
    if any(_contradicts(verdict, found[key], scale) for key in keys[1:]):
        said = ", ".join(f"{key} {json.dumps(found[key])[:40]}" for key in keys)
        return Reading(unscored=f"contradiction ({said})", reason=reason)
    return Reading(verdict=verdict, reason=reason, notes=(note,) if note else ())


def _rank(key: str, scale: Scale) -> tuple[bool, bool, int]:
    """The key that was asked for first, then those whose kind is the scale's."""
    return key != KEYS[0], (key in _PASS_KEYS) != (scale.kind == "pass"), KEYS.index(key)


def _contradicts(verdict: Verdict, other: Any, scale: Scale) -> bool:
    """Whether a second verdict in the same reply speaks against the first."""
    if isinstance(verdict, bool):
        if isinstance(other, int | float) and not isinstance(other, bool):
            return verdict and other <= 0
        second = scale.read(other)[0]
        return second is not None and second is not verdict
    if isinstance(other, bool):
        worst, best = verdict == scale.low, verdict == scale.high
        return scale.kind == "range" and (worst if other else best)
    second = scale.read(other)[0]
    return second is not None and second != verdict


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
    """The last number marked as the verdict, or given as a share of the scale's end, or all that the reply is."""
    shares = [match for match in _OF.finditer(text) if int(match[2]) == scale.high]
    marked = [(match.start(1), match[1]) for match in _MARKED_NUMBER.finditer(text)]
    if not marked and len({match[1] for match in shares}) > 1:
        return Reading(unscored="ambiguous (several shares, none marked as the verdict)")
    places = marked + [(match.start(1), match[1]) for match in shares]
    if not places and (other := _OF.search(text)):
        return Reading(unscored=f"on another scale ({other.group()})")
    if not places and (bare := _ANY_NUMBER.fullmatch(text.strip(_DECORATION))):
        places.append((0, bare.group()))
    if not places:
        return None
    verdict, note = scale.read(float(max(places)[1]))
    return Reading(verdict=verdict, unscored=note if verdict is None else None)


def _word_in(text: str, scale: Scale) -> Reading | None:
    """The last label after a mark, or the label that is all the reply."""
    known: dict[str, Verdict] = {label.casefold(): label for label in scale.labels}
    if scale.kind == "pass":
        known = dict(PASS_WORDS)
    bare = text.strip(_DECORATION).casefold()
    if bare in known:
        return Reading(verdict=known[bare])
    label = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    second = rf"(?P<more>\W{{0,3}}(?:/|\||,|\bor\b|\band\b)\W{{0,3}}(?:{label})(?!\w))?"
    found = list(re.finditer(rf"{_MARK}({label})(?!\w){second}", text, re.IGNORECASE))
    if not found:
        return None
    if found[-1]["more"]:
        return Reading(unscored=f"ambiguous ({found[-1].group().strip()!r})")
    return Reading(verdict=known[found[-1][1].casefold()])
