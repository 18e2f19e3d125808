"""A scripted provider in a process of its own: prints its base URL and serves until its standard input ends."""

from __future__ import annotations

import sys

from harness.testing import ScriptedServer
from harness.testing._scripted import Seen

ANSWER = "Your parcel left the depot this morning and should reach you by tomorrow noon. " * 6


def answer(seen: Seen) -> str:
    """About half a kilobyte, another one on every call."""
    return f"{seen.number}: {ANSWER}"


if __name__ == "__main__":
    with ScriptedServer(rule=answer) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
