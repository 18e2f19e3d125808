"""``dataset pull``: what people changed or added in Langfuse comes back as staged cases, which nobody has approved."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.dataset import Case, GoldenDataset
from harness.errors import DatasetError
from harness.mirror._datasets import case_of, remote_dataset, remote_items
from harness.mirror._items import BOUND, OURS, Wanted, item_id, same, split_id, wanted
from harness.mirror._patience import Patient
from harness.mirror._project import Project

if TYPE_CHECKING:
    from langfuse.api.commons.types.dataset_item import DatasetItem

_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """One item that differs from its case, or has none yet."""

    action: Literal["new", "changed", "refused"]
    case: str
    item: str
    fields: tuple[str, ...] = ()
    """What differs."""
    reason: str = ""
    """Why it cannot become a case; empty when it can."""
    staged: Case | None = None
    """The case as it is to be staged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullPlan:
    """What a pull would stage."""

    dataset: str
    source: str
    """The dataset of Langfuse."""
    items: tuple[Pulled, ...]
    unchanged: int
    gone: tuple[str, ...]
    """Cases that were pushed and whose item is archived or deleted there now; they are left as they are."""


class DatasetPull:
    """Compares a dataset of Langfuse with a golden dataset, and stages what differs."""

    def __init__(
        self,
        dataset: GoldenDataset,
        project: Project,
        *,
        source: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._dataset = dataset
        self.source = source or dataset.name
        """The dataset of Langfuse."""
        patient = Patient(project, sleep=sleep)
        if remote_dataset(patient, self.source) is None:
            raise DatasetError(f"Langfuse at {project.host} has no dataset {self.source!r}; name another with --from")
        self._items = remote_items(patient, self.source)
        self._cases = {case.id: case for case in (*dataset.cases, *dataset.staged)}
        self._wanted = wanted(self.source, self._cases.values())

    def plan(self, pushed: Mapping[str, str] | None = None) -> PullPlan:
        """What is to be staged; reads only.

        Args:
            pushed: Item id by case as the last push left them, to tell which are gone.
        """
        chosen = self._by_case()
        found = [self._compare(case, item) for case, item in sorted(chosen.items())]
        here = {item.id for item in self._items}
        gone = tuple(sorted(c for c, item in (pushed or {}).items() if c in self._cases and item not in here))
        return PullPlan(
            dataset=self._dataset.name,
            source=self.source,
            items=tuple(pulled for pulled in found if pulled is not None),
            unchanged=sum(pulled is None for pulled in found),
            gone=gone,
        )

    def stage(self, plan: PullPlan) -> list[str]:
        """Write the cases of a plan as staged ones, and say which could not be written, each with the reason."""
        problems = [f"item {pulled.item!r}: {pulled.reason}" for pulled in plan.items if pulled.staged is None]
        for pulled in plan.items:
            if pulled.staged is None:
                continue
            try:
                self._dataset.put_case(pulled.staged)
            except DatasetError as error:
                problems.append(f"item {pulled.item!r}: {error}")
        return problems

    def _by_case(self) -> dict[str, DatasetItem]:
        """The item that stands for each case; of several generations the newest."""
        bases = {want.base: case for case, want in self._wanted.items()}
        chosen: dict[str, DatasetItem] = {}
        for item in sorted(self._items, key=lambda item: (split_id(item.id)[1], item.id)):
            base = item.id if item.id in bases else split_id(item.id)[0]
            chosen[bases.get(base) or self._new_id(item, chosen)] = item
        return chosen

    def _new_id(self, item: DatasetItem, taken: Mapping[str, DatasetItem]) -> str:
        """Id of the case that an item without one gets: the same in every pull, and never another case's."""
        named = _ours(self.source, item)
        if named:
            return named
        if _NAME.fullmatch(item.id) and item.id not in self._cases and item.id not in taken:
            return item.id
        word = _OTHER.sub("-", item.id).strip("-_")[:60] or "item"
        return f"{word}-{hashlib.sha256(item.id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"

    def _compare(self, case: str, item: DatasetItem) -> Pulled | None:
        held, want = self._cases.get(case), self._wanted.get(case)
        if held is None or want is None:
            return self._pulled("new", case, item, None)
        fields = tuple(_differing(want, item))
        return self._pulled("changed", case, item, (held, want), fields) if fields else None

    def _pulled(
        self,
        action: Literal["new", "changed"],
        case: str,
        item: DatasetItem,
        known: tuple[Case, Wanted] | None,
        fields: tuple[str, ...] = (),
    ) -> Pulled:
        try:
            staged = _changed(*known, item) if known else self._new(case, item)
        except ValueError as error:
            lines = str(error).splitlines()
            reason = f"it is no case: {'; '.join(line.strip() for line in lines[1:3]) or lines[0]}"
            return Pulled(action="refused", case=case, item=item.id, fields=fields, reason=reason)
        return Pulled(action=action, case=case, item=item.id, fields=fields, staged=staged)

    def _new(self, case: str, item: DatasetItem) -> Case:
        # An id of ours is made from the case's again; another one has to be remembered.
        bound = {} if _ours(self.source, item) else {BOUND: {"dataset": self.source, "item": item.id}}
        return Case(
            id=case, input=item.input, expected_output=item.expected_output, provenance=bound, **_told(item.metadata)
        )


def _ours(dataset: str, item: DatasetItem) -> str | None:
    """The case whose push made this item, in another checkout say."""
    named = case_of(item)
    return named if named and item_id(dataset, named) == split_id(item.id)[0] else None


def _differing(want: Wanted, item: DatasetItem) -> list[str]:
    """The fields in which an item says something else than the case; it need not say all that a case does."""
    pushed, told = _told(want.metadata), _told(item.metadata)
    differs = [name for name in ("input", "expected_output") if not same(getattr(want, name), getattr(item, name))]
    return [*differs, *(name for name, value in told.items() if not same(value, pushed[name]))]


def _changed(held: Case, want: Wanted, item: DatasetItem) -> Case:
    """The case with what the item says, not approved; recordings stay where the input does."""
    pushed = {"input": want.input, "expected_output": want.expected_output, **_told(want.metadata)}
    told = {"input": item.input, "expected_output": item.expected_output, **_told(item.metadata)}
    data = {name: getattr(held, name) for name in Case.model_fields}
    data |= {name: _own_words(data[name], pushed[name], value) for name, value in told.items()}
    recordings = held.recordings if same(want.input, item.input) else ()
    return Case(**{**data, "recordings": recordings, "approver": None})


def _own_words(held: Any, pushed: Any, told: Any) -> Any:
    """What the item says; where that is what was pushed, the case's own words, not the redaction's placeholders."""
    if same(pushed, told):
        return held
    if isinstance(held, Mapping) and isinstance(pushed, Mapping) and isinstance(told, Mapping):
        known = held.keys() & pushed.keys()
        return {key: _own_words(held[key], pushed[key], told[key]) if key in known else told[key] for key in told}
    return told


def _told(metadata: Any) -> dict[str, Any]:
    """What an item's metadata says of a case. It is hostile: the case checks it."""
    if metadata is None:
        return {"metadata": {}}
    if not isinstance(metadata, Mapping):
        return {"metadata": {"value": metadata}}
    about = metadata.get(OURS)
    own = {key: value for key, value in metadata.items() if key != OURS}
    if not isinstance(about, Mapping):
        return {"metadata": own}
    return {"metadata": own, **{name: about[name] for name in ("tags", "split", "group") if name in about}}
