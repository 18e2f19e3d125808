"""The scale of a judge: pass or fail, whole numbers between two ends, or a few labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evaluators._options import refuse

Verdict = bool | int | float | str

PASS_WORDS: Mapping[str, bool] = {
    "pass": True, "passed": True, "true": True, "yes": True,
    "fail": False, "failed": False, "false": False, "no": False,
}  # fmt: skip
_WANTED = 'write "pass", two whole numbers as in [0, 5], or a list of labels as in ["C", "I"]'
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """What a verdict may be."""

    kind: Literal["pass", "range", "labels"]
    low: int = 0
    high: int = 1
    """Ends of the mean's scale; 0 and 1 for pass or fail."""
    labels: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """JSON schema of a verdict."""
        if self.kind == "pass":
            return {"type": "boolean"}
        if self.kind == "range":
            return {"type": "integer", "enum": list(range(self.low, self.high + 1))}
        return {"type": "string", "enum": list(self.labels)}

    def describe(self) -> str:
        """The scale in words, for the judge."""
        if self.kind == "pass":
            return "true if the rubric is met, false if it is not"
        if self.kind == "range":
            return f"a whole number from {self.low} (worst) to {self.high} (best)"
        return "one of " + ", ".join(f'"{label}"' for label in self.labels)

    def texts(self) -> dict[str, Verdict]:
        """Every verdict by the text that stands for it in JSON, quotes left out."""
        if self.kind == "pass":
            return {"true": True, "false": False}
        if self.kind == "range":
            return {str(value): value for value in range(self.low, self.high + 1)}
        return {label: label for label in self.labels}

    def read(self, value: Any) -> tuple[Verdict | None, str]:
        """A JSON value as a verdict, and a note: why there is none, or what was coerced.

        A boolean is no number, and a number is no boolean.
        """
        if self.kind == "pass":
            return _read_pass(value)
        if self.kind == "range":
            return self._read_number(value)
        if not isinstance(value, str):
            return None, f"wrong type ({_type(value)} instead of a label)"
        known = {label.casefold(): label for label in self.labels}
        label = known.get(value.strip().casefold())
        if label is None:
            return None, f"{value[:40]!r} is not on the scale"
        return label, "" if label == value else f"{value[:40]!r} was read as {label!r}"

    def _read_number(self, value: Any) -> tuple[Verdict | None, str]:
        note = ""
        if isinstance(value, str):
            text = value.strip()
            try:
                number = float(text) if len(text) < 20 else math.nan
            except ValueError:
                return None, f"wrong type (text {text[:40]!r} instead of a number)"
            note, value = f"the text {text!r} was read as a number", number
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None, f"wrong type ({_type(value)} instead of a number)"
        if not math.isfinite(value):
            return None, "not finite"
        if not self.low <= value <= self.high:
            return None, f"out of range ({value:g} is not between {self.low} and {self.high})"
        return (int(value) if float(value).is_integer() else float(value)), note

    def human(self, value: Any) -> Verdict | None:
        """A person's label as a verdict; 0 and 1 count as fail and pass."""
        if self.kind == "pass" and not isinstance(value, bool) and value in (0, 1):
            return bool(value)
        return self.read(value)[0]


def _read_pass(value: Any) -> tuple[Verdict | None, str]:
    if isinstance(value, bool):
        return value, ""
    if isinstance(value, str):
        known = PASS_WORDS.get(value.strip().casefold())
        if known is not None:
            return known, f"the text {value.strip()!r} was read as {str(known).lower()}"
    return None, f"wrong type ({_type(value)} instead of true or false)"


def _type(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", str: "text", dict: "object", list: "list"}.get(type(value), "number")


def parse_scale(value: object) -> Scale:
    """Read the option ``scale``.

    Raises:
        EvaluatorError: It is none of the three kinds.
    """
    if value == "pass":
        return Scale("pass")
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) < 2:
        raise refuse("judge", "scale", value, _WANTED)
    if all(isinstance(end, int) and not isinstance(end, bool) for end in value):
        low, high = value[0], value[-1]
        if len(value) != 2 or not low < high <= low + _MOST_STEPS:
            raise refuse("judge", "scale", value, f"{_WANTED}; at most {_MOST_STEPS} steps apart, the worse end first")
        return Scale("range", low, high)
    if not all(isinstance(label, str) and label.strip() == label != "" for label in value):
        raise refuse("judge", "scale", value, _WANTED)
    if len({label.casefold() for label in value}) < len(value):
        raise refuse("judge", "scale", value, "write labels that differ in more than upper and lower case")
    return Scale("labels", labels=tuple(value))
