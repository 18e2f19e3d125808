"""A trial in the store: with its scores or not at all, whatever happens in between."""

import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import time
from datetime import UTC, datetime

import pytest

from harness.errors import StoreError
from harness.experiment._history import begin, keep_trial
from harness.store import open_store

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
IDENTITY = dict.fromkeys(("dataset", "version", "digest", "target", "mode", "change", "code_version"))


def pairs(store):
    """The trials, and the trials that scores and outbox entries are of; all three are to be the same."""
    trials = {row["case"] for row in store.load("trials")}
    scores = store.load("scores")
    return trials, {row["case"] for row in scores}, len(store.outbox.entries(("score",), ("pending",), limit=10_000))


def test_a_trial_that_the_database_does_not_take_leaves_no_score(tmp_path, make_trial):
    with open_store(f"sqlite:///{tmp_path / 'goldfork.db'}", durability="normal") as store:
        begin(store, "e-1", IDENTITY, NOON)
        keep_trial(store, "e-1", make_trial("a", values={"exact": 1.0, "tone": 0.5}))
        with contextlib.closing(sqlite3.connect(tmp_path / "goldfork.db")) as raw:
            raw.execute("CREATE TRIGGER full BEFORE INSERT ON trials BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        with pytest.raises(StoreError, match="disk is full"):
            keep_trial(store, "e-1", make_trial("b", values={"exact": 1.0, "tone": 0.5}))
        assert pairs(store) == ({"a"}, {"a"}, 2)


def _keep_for_ever(url, make, started):
    with open_store(url, durability="normal") as store:
        started.set()
        for number in range(100_000):
            keep_trial(store, "e-1", make(f"{os.getpid()}-{number}", values={"exact": 1.0, "tone": 0.5}))


def test_killed_at_any_moment_no_score_is_without_its_trial(tmp_path, make_trial):
    url = f"sqlite:///{tmp_path / 'goldfork.db'}"
    chance, context = random.Random(20261201), multiprocessing.get_context("fork")
    with open_store(url) as store:
        begin(store, "e-1", IDENTITY, NOON)
    for _ in range(12):
        started = context.Event()
        child = context.Process(target=_keep_for_ever, args=(url, make_trial, started))
        child.start()
        assert started.wait(30)
        time.sleep(0.05 + chance.uniform(0, 0.05))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    with open_store(url) as store:
        trials, scored, entries = pairs(store)
    assert len(trials) >= 12
    assert scored == trials
    assert entries == 2 * len(trials)
