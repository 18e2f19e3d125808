"""``dataset push``: a golden dataset written into Langfuse, compared first, so that nothing is written twice.

Every write of an item makes a new version of it there, an equal one too; a null field keeps its old value; a dataset
written without its whole definition loses the rest. Hence: list, compare, write only what differs, and look at each
answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from harness.dataset import GoldenDataset
from harness.errors import DatasetError
from harness.mirror._items import (
    OURS,
    Found,
    Wanted,
    case_findings,
    differing,
    findings,
    generation_id,
    nulled,
    same,
    split_id,
    wanted,
)
from harness.mirror._patience import Patient, Unanswered
from harness.mirror._project import ONCE, Project
from harness.redact import Redactor

if TYPE_CHECKING:
    from langfuse.api.commons.types.dataset import Dataset
    from langfuse.api.commons.types.dataset_item import DatasetItem
    from langfuse.api.dataset_items.client import DatasetItemsClient
    from langfuse.api.dataset_items.types.paginated_dataset_items import PaginatedDatasetItems
    from langfuse.api.datasets.client import DatasetsClient

_PAGE = 100
_GENERATIONS = 50
"""How many ids are tried for an item whose null fields the server will not take."""

Action = Literal["create", "update", "replace", "archive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """One item that is to be written."""

    action: Action
    """``replace``: a field is to be null, which the server does not do; the item is archived and made anew."""
    case: str
    item: str
    """Its id now; of a new item the id that it is to get."""
    fields: tuple[str, ...] = ()
    """What differs."""
    nulled: tuple[str, ...] = ()
    """Fields that are to be null and are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPlan:
    """What a push would write."""

    dataset: str
    exists: bool
    """Whether Langfuse has the dataset."""
    definition: tuple[str, ...]
    """What differs in the dataset's own definition."""
    changes: tuple[ItemChange, ...]
    unchanged: int
    foreign: int
    """Items that people made in Langfuse and no case was made of; they are left alone."""
    findings: tuple[Found, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return self.exists and not self.definition and not self.changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What Langfuse holds after a push."""

    dataset_id: str
    project_id: str
    at: datetime | None
    """Time of the server at which this content is current; ``None`` for a dataset without items."""
    items: dict[str, str]
    """Item id by case."""
    versions: dict[str, str]
    """ISO time at which each item became current, by case."""
    written: int


class DatasetPush:
    """Compares a dataset with what Langfuse holds, and writes what differs."""

    def __init__(
        self, dataset: GoldenDataset, project: Project, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.dataset = dataset
        self._patient = Patient(project, sleep=sleep)
        self._project = project
        everything = wanted(dataset.name, (*dataset.cases, *dataset.staged))
        self._wanted = {case.id: everything[case.id] for case in dataset.cases}
        self._staged = {everything[case.id].base for case in dataset.staged}
        self._remote = remote_dataset(self._patient, dataset.name)
        listed = remote_items(self._patient, dataset.name) if self._remote else []
        self._items = {item.id: item for item in listed}

    def plan(self) -> PushPlan:
        """What is to be written; reads only."""
        held, leftovers, foreign = self._held()
        changes: list[ItemChange] = []
        for case, want in sorted(self._wanted.items()):
            item = held.get(case)
            change = _change(want, item)
            changes += [change] if change else []
        changes += [ItemChange(action="archive", case=case_of(item) or item.id, item=item.id) for item in leftovers]
        return PushPlan(
            dataset=self.dataset.name,
            exists=self._remote is not None,
            definition=self._definition_differs(),
            changes=tuple(changes),
            unchanged=sum(case in held and _change(want, held[case]) is None for case, want in self._wanted.items()),
            foreign=foreign,
            findings=tuple(self._findings()),
        )

    def write(self, plan: PushPlan) -> Pushed:
        """Write what the plan says.

        Raises:
            DatasetError: Langfuse refuses an item, or keeps values that are to be null under every id tried.
            Unanswered: Langfuse does not answer.
        """
        if not plan.exists or plan.definition:
            self._remote = self._define()
        for change in plan.changes:
            if change.action == "archive":
                self._archive(change.item)
            elif change.action == "update":
                self._put(self._wanted[change.case], change.item)
            else:
                self._make(change)
        assert self._remote is not None  # noqa: S101 - a plan for no dataset defines it
        held, _, _ = self._held()
        times = [_since(item) for item in self._items.values()]
        return Pushed(
            dataset_id=self._remote.id,
            project_id=self._remote.project_id,
            at=max(times, default=None),
            items={case: item.id for case, item in sorted(held.items())},
            versions={case: _since(item).isoformat() for case, item in sorted(held.items())},
            written=len(plan.changes),
        )

    def _held(self) -> tuple[dict[str, DatasetItem], list[DatasetItem], int]:
        """The active item of each case, our active items that no case needs, and how many are not ours."""
        bases = {want.base: case for case, want in self._wanted.items()}
        held: dict[str, DatasetItem] = {}
        leftovers: list[DatasetItem] = []
        foreign = 0
        # The newest generation last: it stands in for those before it.
        active = (item for item in self._items.values() if item.status.value == "ACTIVE")
        for item in sorted(active, key=lambda item: split_id(item.id)[1]):
            base = item.id if item.id in bases or item.id in self._staged else split_id(item.id)[0]
            if base in bases:
                case = bases[base]
                leftovers += [held[case]] if case in held else []
                held[case] = item
            elif base in self._staged:
                continue
            elif is_ours(item):
                leftovers.append(item)
            else:
                foreign += 1
        return held, leftovers, foreign

    def _findings(self) -> Iterator[Found]:
        manifest = self.dataset.manifest
        told = {name: getattr(manifest, name) for name in ("description", "target", "licence")}
        yield from findings("dataset.toml", told)
        for case in self.dataset.cases:
            yield from case_findings(case)

    def _definition(self) -> dict[str, Any]:
        manifest = self.dataset.manifest
        about = {
            "version": manifest.version,
            "digest": manifest.digest,
            "target": manifest.target,
            "licence": manifest.licence,
        }
        known = self._remote.metadata if self._remote and isinstance(self._remote.metadata, Mapping) else {}
        return {
            "description": Redactor().text(manifest.description),
            "metadata": {**known, OURS: Redactor().value(about)},
        }

    def _definition_differs(self) -> tuple[str, ...]:
        if self._remote is None:
            return ()
        wants = self._definition()
        differs = []
        if wants["description"] != (self._remote.description or ""):
            differs.append("description")
        if not same(wants["metadata"], self._remote.metadata):
            differs.append("metadata")
        return tuple(differs)

    def _define(self) -> Dataset:
        # A schema that somebody set there would be erased by leaving it out.
        schemas = {
            name: value
            for name in ("input_schema", "expected_output_schema")
            if self._remote and (value := getattr(self._remote, name)) is not None
        }
        definition = {"name": self.dataset.name, **self._definition(), **schemas}
        api: DatasetsClient = self._project.api.datasets
        return self._patient.ask(
            f"dataset {self.dataset.name!r} cannot be written",
            lambda: api.create(**definition, request_options=ONCE),
        )

    def _make(self, change: ItemChange) -> None:
        """Make an item; an id that was used before may keep old values in its null fields, and is passed over."""
        want = self._wanted[change.case]
        known = 1 if change.item == want.base else split_id(change.item)[1]
        first = known if change.action == "create" else known + 1
        for number in range(first, first + _GENERATIONS):
            made = self._put(want, generation_id(want.base, number))
            if not nulled(want, made):
                break
            self._archive(made.id)
        else:
            raise self._stuck(want)
        if change.action == "replace":
            self._archive(change.item)

    def _stuck(self, want: Wanted) -> DatasetError:
        return DatasetError(
            f"case {want.case!r} cannot be pushed: Langfuse keeps old values in the place of its null fields under "
            f"{_GENERATIONS} ids from {want.base!r} on; give the case another id"
        )

    def _put(self, want: Wanted, item: str) -> DatasetItem:
        api: DatasetItemsClient = self._project.api.dataset_items
        status: Any = "ACTIVE"
        try:
            made = self._patient.ask(
                f"item {item!r} of case {want.case!r} cannot be written",
                lambda: api.create(
                    dataset_name=self.dataset.name,
                    id=item,
                    input=want.input,
                    expected_output=want.expected_output,
                    metadata=want.metadata,
                    source_trace_id=want.source,
                    status=status,
                    request_options=ONCE,
                ),
            )
        except Unanswered as error:
            if error.status != 409:
                raise
            raise DatasetError(
                f"item {item!r} of case {want.case!r} belongs to another dataset of this Langfuse project; "
                "rename the case or the dataset"
            ) from error
        self._items[made.id] = made
        return made

    def _archive(self, item: str) -> None:
        api: DatasetItemsClient = self._project.api.dataset_items
        status: Any = "ARCHIVED"
        self._items[item] = self._patient.ask(
            f"item {item!r} cannot be archived",
            lambda: api.create(dataset_name=self.dataset.name, id=item, status=status, request_options=ONCE),
        )


def remote_dataset(patient: Patient, name: str) -> Dataset | None:
    """A dataset of Langfuse by name, or ``None``."""
    api: DatasetsClient = patient.project.api.datasets
    try:
        return patient.ask(
            f"dataset {name!r} cannot be read", lambda: api.get(quote(name, safe=""), request_options=ONCE)
        )
    except Unanswered as error:
        if error.status == 404:
            return None
        raise


def remote_items(patient: Patient, name: str) -> list[DatasetItem]:
    """All items of a dataset that are neither archived nor deleted, page by page."""
    return list({item.id: item for item in _pages(patient, name)}.values())


def _pages(patient: Patient, name: str) -> Iterator[DatasetItem]:
    def ask(number: int) -> PaginatedDatasetItems:
        api: DatasetItemsClient = patient.project.api.dataset_items
        return api.list(dataset_name=name, page=number, limit=_PAGE, request_options=ONCE)

    number, last = 1, 1
    while number <= last:
        page = patient.ask(f"the items of dataset {name!r} cannot be listed", partial(ask, number))
        yield from page.data
        # Whatever the server says of its pages: an empty one is the last.
        number, last = number + 1, page.meta.total_pages if page.data else 0


def is_ours(item: DatasetItem) -> bool:
    """Whether a case stands, or stood, behind an item."""
    return item.id.startswith(f"{OURS}:") or (isinstance(item.metadata, Mapping) and OURS in item.metadata)


def _change(want: Wanted, item: DatasetItem | None) -> ItemChange | None:
    if item is None:
        return ItemChange(action="create", case=want.case, item=want.base)
    fields = tuple(differing(want, item))
    if not fields:
        return None
    lost = tuple(nulled(want, item))
    return ItemChange(action="replace" if lost else "update", case=want.case, item=item.id, fields=fields, nulled=lost)


def case_of(item: DatasetItem) -> str | None:
    """The case that an item says it was made of."""
    about = item.metadata.get(OURS) if isinstance(item.metadata, Mapping) else None
    case = about.get("case") if isinstance(about, Mapping) else None
    return case if isinstance(case, str) else None


def _since(item: DatasetItem) -> datetime:
    """When the item became what it is, by the server's clock."""
    return (item.version or item.updated_at).astimezone(UTC)
