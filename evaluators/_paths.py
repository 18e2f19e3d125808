"""A small part of JSON path: one place in a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from evaluators._options import refuse, text

_STEP = re.compile(r"""\.?([^.\[\]'"\s]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")


class Missing:
    """What a path yields where there is nothing; ``None`` is a value."""


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path."""

    text: str
    steps: tuple[str | int, ...]

    def of(self, value: Any) -> Any:
        """The value at this place, or ``MISSING``."""
        for step in self.steps:
            if isinstance(step, int):
                if not isinstance(value, list | tuple) or step >= len(value):
                    return MISSING
                value = value[step]
            elif isinstance(value, dict) and step in value:
                value = value[step]
            else:
                return MISSING
        return value


def parse_path(evaluator: str, option: str, value: object) -> Path:
    """Read ``category``, ``$.reply.text``, ``entities[0]``, ``$['odd name']``, or ``$`` for the whole value.

    Raises:
        EvaluatorError: It is not such a path.
    """
    written = text(evaluator, option, value)
    rest = written.removeprefix("$")
    steps: list[str | int] = []
    position = 0
    while position < len(rest):
        found = _STEP.match(rest, position)
        if found is None:
            raise refuse(evaluator, option, value, "write a place such as category, $.reply.text or items[0]")
        plain, index, single, double = found.groups()
        steps.append(int(index) if index is not None else next(s for s in (plain, single, double) if s is not None))
        position = found.end()
    return Path(written, tuple(steps))
