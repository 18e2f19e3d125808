"""The sender killed at any moment, and another one that finishes its work."""

import multiprocessing
import os
import random
import runpy
import signal
import time

import pytest

from harness.store import open_store
from harness.testing.langfuse_server import LangfuseServer

SENDER = """
import threading
from harness.mirror import Project, Sender
from harness.store import open_store

with open_store({database!r}, durability="normal") as store:
    project = Project(public_key={public_key!r}, secret_key={secret_key!r}, base_url={url!r})
    Sender(store, project).run(threading.Event())
"""


@pytest.mark.slow
def test_killed_at_fifty_moments_and_then_finished(tmp_path, fleet):
    chance = random.Random(20261201)
    database = f"sqlite:///{tmp_path / 'goldfork.db'}"
    # Every sender is a process of its own, forked off one that has loaded the code already.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.mirror", "harness.store._database", "httpx"])
    rows, lane, interrupted = [], None, 0
    with LangfuseServer() as server, open_store(database, durability="normal") as store:
        lane = "mirror:langfuse"
        script = tmp_path / "sender.py"
        keys = {"public_key": server.public_key, "secret_key": server.secret_key, "url": server.url}
        script.write_text(SENDER.format(database=database, **keys))
        for number in range(50):
            rows += fleet.fill(store, 30, first=30 * number, scores=3 if number == 0 else 0)
            seen = len(server.requests)
            child = context.Process(target=runpy.run_path, args=(str(script),))
            child.start()
            end = time.monotonic() + 20
            while len(server.requests) == seen and time.monotonic() < end:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.15))
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            interrupted += store.outbox.counts()["pending"] > 0
            # The lease of a killed holder would keep the next sender out for minutes.
            assert store.outbox.lease(lane, "nobody", seconds=0, now=fleet.tomorrow())
            store.outbox.release(lane, "nobody")
        sender = fleet.Sender(store, fleet.project_of(server))
        end = time.monotonic() + 60
        while not sender.flush(2.0) and time.monotonic() < end:
            # Some were sent twice, as a kill between sending and noting it must have it.
            server.merge()
        sender.close()
        found = fleet.seen_rows(server)
        assert fleet.once_each(found) == set()
        assert set(found) == set(rows)
        assert len(server.scores()) == 3
        assert store.outbox.counts() == {"pending": 0, "accepted": 0, "verified": 1503, "dead": 0}
        # The moments were in the middle of work, not after it.
        assert interrupted >= 20
