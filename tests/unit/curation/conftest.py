"""A pipeline that can be imported, runs of it, and a store that holds them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.dataset import GoldenDataset
from harness.record import RECORDED, Recording
from harness.replay import live_run

MODULE = "curation_pipeline"
SOURCE = """
from harness.pipeline import now, step, tool, uuid, workflow

BROKEN = False


@tool(determinism="deterministic")
def find(query):
    return [query.upper()]


@step
def plan(ticket):
    return {"ticket": ticket, "id": str(uuid())}


@step
def draft(planned):
    if BROKEN:
        return "something else"
    return f"{planned['id']}: {find(planned['ticket'])[0]}"


@workflow("curation-test")
def answer(ticket):
    if ticket == "bad":
        raise ValueError("no such ticket")
    return {"reply": draft(plan(ticket))}
"""


class Runs:
    """A source of recordings by run id or workflow name."""

    def __init__(self) -> None:
        self.kept: dict[str, Recording] = {}

    def add(self, recording: Recording) -> str:
        self.kept[recording.run.id] = self.kept[recording.run.workflow] = recording
        return recording.run.id

    def recording(self, ref: str, *, arm: str = RECORDED, trial: int = 0) -> Recording | None:
        return self.kept.get(ref)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("code")
    (folder / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield importlib.import_module(MODULE)
    sys.path.remove(str(folder))
    del sys.modules[MODULE]


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def recorded(pipeline: ModuleType, runs: Runs) -> str:
    """Id of a good run."""
    return runs.add(live_run(pipeline.answer, {"ticket": "parcel"}).run)


@pytest.fixture
def dataset(tmp_path: Path) -> GoldenDataset:
    """An empty dataset of the pipeline."""
    return GoldenDataset.create(tmp_path / "tickets", target=f"{MODULE}:answer")
