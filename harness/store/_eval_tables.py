"""Datasets, experiments, scores and bookkeeping: what evaluation and the workers write.

Each keeps what its columns do not name in ``extra``, so that a newer writer loses nothing on an older schema;
``Store.save`` and ``Store.load`` fold it in and out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

from sqlalchemy import Boolean, Float, Index, Integer, LargeBinary

from harness.store._columns import BigKey, Table, column
from harness.store._types import Json, Money, Sha256, Time, Words

_EXTRA = "JSON object of what has no column of its own."


def _now() -> datetime:
    return datetime.now(UTC)


class ToolCache(Table, table=True):
    """Results of tools that asked for a cache in live runs."""

    __tablename__: ClassVar[str] = "tool_cache"

    key: str = column(Words, "Key of tool, version and arguments.", primary_key=True)
    tool: str | None = column(Words, "Name of the tool.", nullable=True)
    version: str | None = column(Words, "Version tag of the tool.", nullable=True)
    determinism: str | None = column(Words, "deterministic or time-bound.", nullable=True)
    output_hash: str | None = column(Sha256, "Snapshot of the result; see blobs.", nullable=True)
    ttl: float | None = column(Float, "Seconds that the result holds; null is for ever.", nullable=True)
    stored_at: datetime = column(Time, "When the result was stored.", default=_now)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Label(Table, table=True):
    """A person's verdict on an output, bound to a rubric version."""

    __tablename__: ClassVar[str] = "labels"
    __table_args__ = (Index("ix_labels_run_id", "run_id"),)

    id: str = column(Words, "Id of the label.", primary_key=True)
    run_id: str | None = column(Words, "Run whose output was judged.", nullable=True)
    step_id: str | None = column(Words, "Step whose output was judged; null for the run's.", nullable=True)
    case: str | None = column(Words, "Case it belongs to.", nullable=True)
    output_hash: str | None = column(Sha256, "The output that was judged.", nullable=True)
    name: str | None = column(Words, "What is judged: name of the score.", nullable=True)
    value: Any = column(Json, "The verdict, a JSON value.", nullable=True)
    rubric: str | None = column(Words, "Version of the rubric.", nullable=True)
    annotator: str | None = column(Words, "Who judged.", nullable=True)
    comment: str | None = column(Words, "Why.", nullable=True)
    created_at: datetime = column(Time, "When.", default=_now)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Review(Table, table=True):
    """An entry of the review queue: something proposed for a dataset, waiting for a person."""

    __tablename__: ClassVar[str] = "reviews"
    __table_args__ = (Index("ix_reviews_state", "state"),)

    id: str = column(Words, "Id of the entry.", primary_key=True)
    dataset: str | None = column(Words, "Dataset it is proposed for.", nullable=True)
    run_id: str | None = column(Words, "Run that is proposed.", nullable=True)
    case: str | None = column(Words, "Case that is proposed.", nullable=True)
    reason: str | None = column(Words, "Why it was proposed.", nullable=True)
    state: str | None = column(Words, "pending, approved or rejected.", nullable=True)
    reviewer: str | None = column(Words, "Who decided.", nullable=True)
    created_at: datetime = column(Time, "When it was proposed.", default=_now)
    decided_at: datetime | None = column(Time, "When it was decided.", nullable=True)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Dataset(Table, table=True):
    """A golden dataset that this store has met; its files in git are the truth."""

    __tablename__: ClassVar[str] = "datasets"

    name: str = column(Words, "Name of the dataset.", primary_key=True)
    path: str | None = column(Words, "Folder it was last read from.", nullable=True)
    version: int | None = column(Integer, "Newest version met.", nullable=True)
    digest: str | None = column(Words, "Digest of that version.", nullable=True)
    seen_at: datetime = column(Time, "When it was last read.", default=_now)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class DatasetVersion(Table, table=True):
    """An immutable version of a golden dataset."""

    __tablename__: ClassVar[str] = "dataset_versions"

    dataset: str = column(Words, "Name of the dataset.", primary_key=True)
    version: int = column(Integer, "Number of the version.", primary_key=True)
    digest: str | None = column(Words, "Digest over its files.", nullable=True)
    cases: int | None = column(Integer, "Number of approved cases.", nullable=True)
    note: str | None = column(Words, "What changed.", nullable=True)
    created_at: datetime = column(Time, "When this store first met it.", default=_now)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class CaseRow(Table, table=True):
    """A case of a dataset version."""

    __tablename__: ClassVar[str] = "cases"

    dataset: str = column(Words, "Name of the dataset.", primary_key=True)
    version: int = column(Integer, "Version of the dataset.", primary_key=True)
    case: str = column(Words, "Id of the case.", primary_key=True)
    digest: str | None = column(Words, "Digest of the case.", nullable=True)
    split: str | None = column(Words, "Split, such as test.", nullable=True)
    group: str | None = column(Words, "Group of cases that are not independent.", nullable=True)
    tags: list[str] | None = column(Json, "JSON list of tags.", nullable=True)
    run_id: str | None = column(Words, "Run it was made from.", nullable=True)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Experiment(Table, table=True):
    """One evaluation of a dataset version under one configuration."""

    __tablename__: ClassVar[str] = "experiments"
    __table_args__ = (Index("ix_experiments_dataset", "dataset"),)

    id: str = column(Words, "Id of the experiment, time-ordered.", primary_key=True)
    dataset: str | None = column(Words, "Name of the dataset.", nullable=True)
    version: int | None = column(Integer, "Version of the dataset.", nullable=True)
    digest: str | None = column(Words, "Digest of that version.", nullable=True)
    target: str | None = column(Words, "What was run: module:name.", nullable=True)
    mode: str | None = column(Words, "replay, auto or live.", nullable=True)
    change: dict[str, Any] | None = column(Json, "JSON object: the declared change of a fork.", nullable=True)
    code_version: str | None = column(Words, "Digest of the code that ran.", nullable=True)
    status: str | None = column(Words, "running, ok, error or interrupted.", nullable=True)
    verdict: str | None = column(Words, "The overall word.", nullable=True)
    exit_code: int | None = column(Integer, "Exit code of the gate.", nullable=True)
    budget: Decimal | None = column(Money, "Most money that it may spend.", nullable=True)
    started_at: datetime = column(Time, "Start.", default=_now)
    ended_at: datetime | None = column(Time, "End; null while it runs.", nullable=True)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Trial(Table, table=True):
    """The k-th repetition of a case in an experiment, for one arm."""

    __tablename__: ClassVar[str] = "trials"
    __table_args__ = (Index("ix_trials_run_id", "run_id"),)

    experiment: str = column(Words, "The experiment.", primary_key=True)
    case: str = column(Words, "The case.", primary_key=True)
    arm: str = column(Words, "The arm.", primary_key=True, default="recorded")
    trial: int = column(Integer, "Which repetition, from 0.", primary_key=True, default=0)
    run_id: str | None = column(Words, "The run that executed it.", nullable=True)
    status: str | None = column(Words, "ok, error or missing.", nullable=True)
    output_hash: str | None = column(Sha256, "Snapshot of the output.", nullable=True)
    equal: bool | None = column(Boolean, "Whether the output equals the recorded one.", nullable=True)
    error: str | None = column(Words, "Type and message of the exception.", nullable=True)
    attempt: str | None = column(Words, "Id of the attempt whose result this is.", nullable=True)
    stored_at: datetime = column(Time, "When it was committed.", default=_now)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Reservation(Table, table=True):
    """Budget set aside before a call and settled after it."""

    __tablename__: ClassVar[str] = "reservations"
    __table_args__ = (Index("ix_reservations_experiment", "experiment"),)

    id: str = column(Words, "Id of the reservation.", primary_key=True)
    experiment: str | None = column(Words, "The experiment whose budget it is.", nullable=True)
    case: str | None = column(Words, "The case.", nullable=True)
    amount: Decimal | None = column(Money, "Money set aside.", nullable=True)
    tokens: int | None = column(BigKey, "Tokens set aside.", nullable=True)
    spent: Decimal | None = column(Money, "Money spent; null until settled.", nullable=True)
    spent_tokens: int | None = column(BigKey, "Tokens spent; null until settled.", nullable=True)
    state: str | None = column(Words, "open or settled.", nullable=True)
    created_at: datetime = column(Time, "When it was made.", default=_now)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class ScoreRow(Table, table=True):
    """One evaluator's finding on a trial, or on the experiment as a whole."""

    __tablename__: ClassVar[str] = "scores"

    experiment: str = column(Words, "The experiment.", primary_key=True)
    case: str = column(Words, "The case; empty for a score of the experiment.", primary_key=True, default="")
    arm: str = column(Words, "The arm.", primary_key=True, default="recorded")
    trial: int = column(Integer, "Which repetition; 0 for a score of the experiment.", primary_key=True, default=0)
    evaluator: str = column(Words, "Name of the evaluator.", primary_key=True, default="")
    name: str = column(Words, "Name of the score.", primary_key=True)
    version: str | None = column(Words, "Version of the evaluator.", nullable=True)
    status: str | None = column(Words, "scored, skipped, failed or undefined.", nullable=True)
    value: Any = column(Json, "Bool, number or label; null unless scored.", nullable=True)
    reason: str | None = column(Words, "Why.", nullable=True)
    low: float | None = column(Float, "Lower end of a 95 % interval.", nullable=True)
    high: float | None = column(Float, "Upper end of a 95 % interval.", nullable=True)
    n: int | None = column(Integer, "Units that a summary score rests on.", nullable=True)
    detail: Any = column(Json, "JSON extras for the report.", nullable=True)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class Outbox(Table, table=True):
    """What the mirror still has to send. The transaction that finishes a run enters its kind and id, nothing else."""

    __tablename__: ClassVar[str] = "outbox"
    __table_args__ = (
        Index("ix_outbox_kind_state_due_at", "kind", "state", "due_at"),
        Index("ix_outbox_kind_state_created_at", "kind", "state", "created_at"),
    )

    kind: str = column(Words, "run, score, otel or span (a refused piece of a run).", primary_key=True)
    id: str = column(Words, "Id of what is to be sent.", primary_key=True)
    state: str = column(Words, "pending, accepted, verified or dead.")
    attempts: int = column(Integer, "How often it was sent.", default=0)
    created_at: datetime = column(Time, "When it was entered.", default=_now)
    due_at: datetime = column(Time, "When it is to be looked at next.", default=_now)
    updated_at: datetime | None = column(Time, "When its state last changed.", nullable=True)
    error: str | None = column(Words, "Why the last attempt failed.", nullable=True)
    frozen: bytes | None = column(LargeBinary, "The bytes that every attempt sends; null once verified.", nullable=True)
    frozen_hash: str | None = column(Sha256, "SHA-256 of these bytes.", nullable=True)
    round: int = column(Integer, "How often it was entered anew.", default=0)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)


class OutboxCount(Table, table=True):
    """How many entries of the outbox there are in each state. Triggers keep it: counting a million takes too long.

    On PostgreSQL each session counts in a share of its own, so that none waits for another; the sum is the number.
    """

    __tablename__: ClassVar[str] = "outbox_counts"
    __table_args__: ClassVar[dict[str, Any]] = {"sqlite_with_rowid": False}

    kind: str = column(Words, "As in the outbox.", primary_key=True)
    state: str = column(Words, "As in the outbox.", primary_key=True)
    share: int = column(Integer, "Whose count it is; 0 on SQLite.", primary_key=True)
    entries: int = column(BigKey, "What that share has added, less what it has taken away.")


class Lease(Table, table=True):
    """Who works on something, and until when."""

    __tablename__: ClassVar[str] = "leases"

    name: str = column(Words, "What is leased.", primary_key=True)
    owner: str | None = column(Words, "host:pid:start of the holder.", nullable=True)
    expires_at: datetime | None = column(Time, "When it may be taken over.", nullable=True)
    extra: dict[str, Any] | None = column(Json, _EXTRA, nullable=True)
