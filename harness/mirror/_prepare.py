"""From rows to frozen bytes: what is committed to the outbox before the first byte is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from harness.errors import GoldforkError, StoreError
from harness.mirror._freeze import freeze_run
from harness.mirror._lane import CLOSED, LANE
from harness.mirror._render import Context
from harness.mirror._wire import bounded

if TYPE_CHECKING:
    from harness.mirror._freeze import FrozenRun
    from harness.mirror._lane import Lane
    from harness.mirror._project import Project
    from harness.mirror._upload import Uploads
    from harness.record import Recording, RunRecord
    from harness.store import OutboxEntry, Store

_AT_ONCE: Final = 50


class Preparation:
    """Renders, redacts and freezes runs for one project."""

    def __init__(
        self, store: Store, project: Project, *, lane: Lane, run_url: str = "", uploads: Uploads | None = None
    ) -> None:
        self._lane = lane
        self._uploads = uploads
        self._store = store
        self._project = project
        self._run_url = run_url
        self._experiments: dict[str, dict[str, Any] | None] = {}
        self._datasets: dict[str, Mapping[str, Any]] = {}

    def frozen(self, entries: Sequence[OutboxEntry]) -> Iterator[list[OutboxEntry]]:
        """The entries with their bytes, a few at a time so that memory stays flat; what cannot be rendered is dead.

        Ends early when the lane closes; an entry that it closed before is given as it came.
        """
        self._experiments.clear()
        self._datasets.clear()
        for start in range(0, len(entries), _AT_ONCE):
            if not self._lane.ready:
                return
            some = entries[start : start + _AT_ONCE]
            recordings = {found.run.id: found for found in self._store.recordings([entry.id for entry in some])}
            yield [self._freeze(entry, recordings.get(entry.id)) for entry in some]

    def render(self, recording: Recording) -> FrozenRun:
        """Freeze one run with all that its spans say beyond its own rows."""
        run = recording.run
        experiment = self._experiment(run.experiment) if run.experiment else None
        return freeze_run(recording, self._context(run, experiment))

    def _freeze(self, entry: OutboxEntry, recording: Recording | None) -> OutboxEntry:
        if recording is None:
            return replace(entry, state="dead", error="the run is no longer in the store")
        try:
            frozen = self.render(recording)
        except (GoldforkError, StoreError, ValueError) as error:
            return replace(entry, state="dead", error=bounded(f"cannot be rendered: {error}"))
        trouble = self._uploads.upload(frozen) if self._uploads else None
        if trouble is CLOSED:
            return entry
        if trouble is not None:
            self._lane.heard(trouble)
            return replace(entry, error=trouble.words)
        return replace(entry, frozen=frozen.data, frozen_hash=frozen.hash)

    def _experiment(self, name: str) -> dict[str, Any] | None:
        if name not in self._experiments:
            self._experiments[name] = next(iter(self._store.load("experiments", id=name)), None)
        return self._experiments[name]

    def _context(self, run: RunRecord, experiment: Mapping[str, Any] | None) -> Context:
        case = run.case
        pushed = self._pushed(experiment["dataset"]) if experiment and case else {}
        return Context(
            environment=self._project.environment,
            release=self._project.release,
            run_url=self._run_url,
            experiment=experiment,
            dataset_id=pushed.get("dataset_id"),
            item_id=pushed.get("items", {}).get(case),
            item_version=pushed.get("item_versions", {}).get(case),
            expected_output=self._expected(run, experiment) if experiment and case else None,
        )

    def _expected(self, run: RunRecord, experiment: Mapping[str, Any]) -> Any:
        """What the run's case expects, by the version of the dataset that the experiment runs."""
        if run.arm.startswith("evaluator:"):
            # An evaluator's own run is about the case too, but its output is no answer to it.
            return None
        place = {name: experiment[name] for name in ("dataset", "version")}
        if None in place.values():
            return None
        return next((row.get("expected_output") for row in self._store.load("cases", **place, case=run.case)), None)

    def _pushed(self, dataset: str) -> Mapping[str, Any]:
        """Where a dataset and its items stand in this project, as ``goldfork dataset push`` noted it."""
        if dataset not in self._datasets:
            notes = self._store.outbox.notes(f"dataset:{dataset}")
            here = self._store.outbox.notes(LANE).get("project_id")
            self._datasets[dataset] = notes if notes.get("project_id") == here else {}
        return self._datasets[dataset]
