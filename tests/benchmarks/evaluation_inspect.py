"""Inspect AI's side of the evaluation benchmark; the argument is the number of cases. Its own solver calls no model."""

from __future__ import annotations

import os
import sys

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import exact
from inspect_ai.solver import Generate, Solver, TaskState, solver


@solver
def target() -> Solver:
    """What is evaluated; no model."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output.completion = state.input_text.upper()
        return state

    return solve


def main(count: int) -> None:
    """Evaluate."""
    texts = [f"case number {number} of a golden dataset" for number in range(count)]
    dataset = MemoryDataset([Sample(input=text, target=text.upper()) for text in texts])
    task = Task(dataset=dataset, solver=target(), scorer=exact())
    [log] = evaluate(task, model="mockllm/model", display="none", log_dir=os.environ["INSPECT_LOG_DIR"])
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.results.completed_samples == count
    assert log.results.scores[0].metrics["mean"].value == 1.0


if __name__ == "__main__":
    main(int(sys.argv[1]))
