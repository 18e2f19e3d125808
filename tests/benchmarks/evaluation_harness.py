"""Our side of the evaluation benchmark.

evaluation_harness.py make FOLDER CASES         write datasets with CASES cases and with one, recorded
evaluation_harness.py run FOLDER MODE CASES     evaluate the one with CASES cases
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

TARGET = "evaluation_harness:target"
MANIFEST = """\
name = "{name}"
target = "{target}"

[[evaluators]]
name = "exact"
use = "evaluation_harness:exact"

[gate]
thresholds = {{ exact = 0.5 }}
"""


def target(text: str) -> str:
    """What is evaluated; no model."""
    return text.upper()


def exact(output: str, expected_output: str) -> bool:
    """Exact match."""
    return output == expected_output


def make(folder: Path, count: int) -> None:
    """A frozen dataset whose every case has a recording."""
    from harness.dataset import Case, GoldenDataset
    from harness.replay import live_run

    path = folder / f"cases-{count}"
    dataset = GoldenDataset.create(path, target=TARGET)
    (path / "dataset.toml").write_text(MANIFEST.format(name=path.name, target=TARGET))
    for number in range(count):
        text = f"case number {number} of a golden dataset"
        name = f"case-{number:04}"
        dataset.put_case(Case(id=name, input={"text": text}, expected_output=text.upper(), approver="bench"))
        dataset.put_recording(name, live_run(target, {"text": text}).run)
    dataset.snapshot()


def run(folder: Path, mode: Any, count: int) -> None:
    """One experiment, as ``goldfork eval`` runs it."""
    from harness.dataset import GoldenDataset
    from harness.experiment import EvalOptions, run_experiment
    from harness.session import process_store

    dataset = GoldenDataset.load(folder / f"cases-{count}")
    result = run_experiment(dataset, EvalOptions(mode=mode), store=process_store())
    assert len(result.trials) == count
    assert [score.value for score in result.scores if score.name == "exact"] == [1.0], result.scores


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    if what == "make":
        for size in sorted({1, int(rest[0])}):
            make(Path(where), size)
    else:
        run(Path(where), rest[0], int(rest[1]))
