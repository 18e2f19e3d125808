"""How numbers and hostile text are written, the same in every format."""

from __future__ import annotations

import re
from decimal import Decimal

from harness.report.summary import CaseState, Measured, ProblemKind, ScoreRow, Spending
from harness.score import Value
from harness.statistics import Interval

UNKNOWN = "-"

_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, those that reorder or hide text, and those that no encoding or XML document can hold."""

STATES: dict[CaseState, str] = {
    "error": "crashed",
    "missing": "recording missing",
    "differs": "output differs",
    "unmeasured": "nothing to compare with",
    "equal": "output equal",
}
"""What each state is called, worst first."""
PROBLEMS: dict[ProblemKind, str] = {
    "missing": "recording missing",
    "error": "crashed",
    "gate": "lowered the score",
    "score": "evaluator failed",
    "undeclared": "undeclared change",
}


def visible(text: str) -> str:
    r"""The text with characters that hide, reorder or control written as escapes such as ``\u202e``."""
    return _INVISIBLE.sub(lambda match: _escape(match.group()), text.replace("\r\n", "\n"))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, limit: int = 200) -> str:
    """The text visible, on one line, cut with an ellipsis."""
    flat = " ".join(visible(text[: limit * 4]).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."


def number(value: Value | None) -> str:
    """A score's value: three decimals, whole numbers bare, labels as they are."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def measured(side: Measured | None) -> str:
    """A summary score, or the status that says why there is none."""
    if side is None:
        return UNKNOWN
    return number(side.value) if side.status == "scored" else side.status


def signed(value: float | None) -> str:
    """A difference, with its sign; a rounded zero has none."""
    if value is None:
        return UNKNOWN
    text = f"{value:+.3f}" if abs(value) < 1000 else f"{value:+,.0f}"
    return "0.000" if text in {"+0.000", "-0.000"} else text


def interval(low: float | None, high: float | None) -> str:
    """Both ends with their signs, or unknown."""
    if low is None or high is None:
        return UNKNOWN
    return f"{signed(low)} to {signed(high)}"


def count(value: int | None, *, least: int | None = None) -> str:
    """A whole number with thousands separated; unknown, the least that it can be."""
    if value is None:
        return f"at least {least:,}" if least else "unknown"
    return f"{value:,}"


def decimal(value: Decimal | None) -> str | None:
    """Money for machines: plain digits without exponent."""
    return None if value is None else format(value, "f")


def money(value: Decimal | None, currency: str, *, least: Decimal | None = None) -> str:
    """Money for people: two decimals, more only where they say something; unknown, the least that it can be."""
    if value is None:
        return f"at least {money(least, currency)}" if least else "unknown"
    rounded = value.quantize(Decimal("0.0001")) if abs(value) < 1 else value.quantize(Decimal("0.01"))
    if value and not rounded:
        return f"under 0.0001 {currency}"
    whole, _, fraction = format(rounded, ",f").partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')} {currency}"


def tokens(spending: Spending) -> tuple[str, str]:
    """Tokens spent and saved."""
    known = spending.known
    return (
        count(spending.tokens_spent, least=known.tokens_spent),
        count(spending.tokens_saved, least=known.tokens_saved),
    )


def cost(spending: Spending) -> tuple[str, str]:
    """Money spent and saved."""
    known, currency = spending.known, spending.currency
    return (
        money(spending.cost_spent, currency, least=known.cost_spent),
        money(spending.cost_saved, currency, least=known.cost_saved),
    )


def estimated(value: Interval | float) -> str:
    """A mean difference with its interval where it has one."""
    if isinstance(value, float):
        return signed(value)
    return f"{signed(value.value)} [{signed(value.low)}, {signed(value.high)}]"


def verdict(row: ScoreRow) -> str:
    """The verdict's word, and whether it was tested at all."""
    if row.word is None:
        return UNKNOWN
    return word(row.word) if tested(row) else f"{word(row.word)} (not tested)"


def tested(row: ScoreRow) -> bool:
    """Scorers outside the gate show an interval but take no part in the test."""
    return row.gating or row.basis != "statistics"


def word(text: str) -> str:
    """A word as people write it."""
    return text.replace("_", " ")


def plural(amount: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"
