"""A case as a dataset item of Langfuse, and back: ids, content, redaction, equality."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.dataset import Case
from harness.errors import DatasetError
from harness.mirror._ids import trace_id
from harness.redact import Redactor, scan_value

if TYPE_CHECKING:
    from langfuse.api.commons.types.dataset_item import DatasetItem

OURS: Final = "goldfork"
"""Key of an item's metadata, and prefix of an item's id, that say that a case is behind it."""
BOUND: Final = "langfuse"
"""Key of a case's provenance: the dataset and item it was pulled from."""
MAX_ID: Final = 255
_GENERATION = re.compile(r"(.*)~([2-9]|[1-9]\d{1,2})", re.DOTALL)
FIELDS: Final = ("input", "expected_output", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an item is to say about a case: redacted, JSON-ready."""

    case: str
    base: str
    """Id of the item, without the mark of a later generation."""
    input: Any
    expected_output: Any
    metadata: dict[str, Any]
    """The case's own, and under ``goldfork`` its id, tags, split and group."""
    source: str | None
    """Trace of the run that the case was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Something that looks like personal data or a secret in what is to be pushed; never the thing itself."""

    file: str
    path: str
    kind: str
    count: int


def item_id(dataset: str, case: str) -> str:
    """Id of a case's item: unique in a project, whichever datasets hold an equal case; a hash where it is too long."""
    text = f"{OURS}:{dataset}:{case}"
    if len(text) <= MAX_ID - len("~999") and Redactor().text(text) == text:
        return text
    return f"{OURS}:{hashlib.sha256(text.encode()).hexdigest()}"


def split_id(item: str) -> tuple[str, int]:
    """The base of an item's id and its generation, 1 where the id carries no mark."""
    found = _GENERATION.fullmatch(item)
    return (found[1], int(found[2])) if found else (item, 1)


def generation_id(base: str, number: int) -> str:
    """The id of a generation of an item; the inverse of ``split_id``."""
    return base if number == 1 else f"{base}~{number}"


def wanted(dataset: str, cases: Iterable[Case]) -> dict[str, Wanted]:
    """The item that each case is to be, by case.

    Raises:
        DatasetError: A case's own metadata uses the key that Goldfork needs.
    """
    made: dict[str, Wanted] = {}
    taken: set[str] = set()
    for case in sorted(cases, key=lambda case: case.id):
        bound = _bound(dataset, case)
        # A copy of a pulled case's file names the same item; only the first can be it.
        base = bound if bound and bound not in taken else item_id(dataset, case.id)
        taken.add(base)
        made[case.id] = _wanted(case, base)
    return made


def _wanted(case: Case, base: str) -> Wanted:
    if OURS in case.metadata:
        raise DatasetError(
            f"case {case.id!r} has the metadata key {OURS!r}, which its item in Langfuse needs; rename it"
        )
    about = {"case": case.id, "tags": list(case.tags), "split": case.split, "group": case.group}
    # One redactor per case: a new case must not renumber the placeholders of the others.
    redactor = Redactor()
    clean = redactor.value(
        {
            "input": case.input,
            "expected_output": case.expected_output,
            "metadata": {**case.metadata, OURS: about},
        }
    )
    run = case.provenance.get("run")
    return Wanted(
        case=case.id,
        base=base,
        source=trace_id(run) if isinstance(run, str) else None,
        **clean,
    )


def _bound(dataset: str, case: Case) -> str | None:
    """The item that the case was pulled from, if that was an item of this dataset."""
    bound = case.provenance.get(BOUND)
    if isinstance(bound, Mapping) and bound.get("dataset") == dataset and isinstance(bound.get("item"), str):
        return str(bound["item"])
    return None


def findings(file: str, told: Mapping[str, Any]) -> list[Found]:
    """What the redaction scan finds in those parts of a file that are pushed."""
    counts = Counter((path, str(finding.kind)) for path, finding in scan_value(told))
    return [Found(file=file, path=path, kind=kind, count=count) for (path, kind), count in counts.items()]


def case_findings(case: Case) -> list[Found]:
    """What the redaction scan finds in those parts of a case that an item holds."""
    names = ("id", "input", "expected_output", "metadata", "tags", "split", "group")
    return findings(f"cases/{case.id}.json", {name: getattr(case, name) for name in names})


def differing(want: Wanted, item: DatasetItem) -> list[str]:
    """Names of the fields in which an item is not what is wanted."""
    return [name for name in FIELDS if not same(getattr(want, name), getattr(item, name))]


def nulled(want: Wanted, item: DatasetItem) -> list[str]:
    """Fields that are to be null and are not; the server keeps the old value of a null field."""
    return [name for name in FIELDS if getattr(want, name) is None and getattr(item, name) is not None]


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal to a server that keeps numbers as doubles; true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other or _double(one) == _double(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
