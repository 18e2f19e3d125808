"""pydantic-evals' side of the evaluation benchmark; the argument is the number of cases."""

from __future__ import annotations

import sys

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected


async def target(text: str) -> str:
    """What is evaluated; no model."""
    return text.upper()


def main(count: int) -> None:
    """Evaluate."""
    texts = [f"case number {number} of a golden dataset" for number in range(count)]
    dataset = Dataset(
        name="bench",
        cases=[Case(name=text, inputs=text, expected_output=text.upper()) for text in texts],
        evaluators=[EqualsExpected()],
    )
    report = dataset.evaluate_sync(target, progress=False)
    averages = report.averages()
    assert averages is not None
    assert averages.assertions == 1.0
    assert len(report.cases) == count


if __name__ == "__main__":
    main(int(sys.argv[1]))
