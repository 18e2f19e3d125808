"""Ten thousand runs through every fault of the list; prints what each took.

    python tests/benchmarks/mirror_chaos.py [--quick]

Time is simulated (a day without Langfuse passes in seconds), the database, the sender and the server are real. At the
end each run, step, message and score is there exactly once, or the script fails.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from measuring import HERE, heading, module, options, say, table
from mirror_store import fleet

from harness.mirror import Sender
from harness.store import open_store
from harness.testing.langfuse_server import LangfuseServer


def main() -> None:
    """Run and print."""
    quick = options(__doc__ or "").parse_args().quick
    runs = 280 if quick else 10_000
    helpers, test = fleet(), module(HERE.parent / "acceptance" / "mirror" / "test_mirror_chaos.py")
    clock = helpers.Clock()
    rows: list[list[str]] = []

    def passed(fault: str, count: int, simulated: float, requests: int, took: float) -> None:
        rows.append([fault, f"{count:,}", f"{simulated / 3600:.2f}", f"{requests:,}", f"{took:.1f}"])

    say(heading(["httpx"]))
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(f"sqlite:///{Path(folder, 'goldfork.db')}", durability="normal") as store,
        LangfuseServer(clock=clock.unix) as server,
    ):
        project = helpers.project_of(server, clock=clock, timeout=0.5)
        sender = Sender(store, project, clock=clock, sleep=clock.sleep)
        began = time.perf_counter()
        there = test.weather(helpers, store, server, sender, clock, runs, passed=passed)
        test.check(helpers, store, server, there, runs)
        sender.close()
    say(table(["fault", "runs", "simulated hours", "requests", "seconds"], rows))
    say(f"\n{runs:,} runs, {len(there):,} spans, each exactly once, in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
