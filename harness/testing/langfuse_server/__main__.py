"""The loopback Langfuse as a process of its own: one JSON line with its address and keys, then it serves."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading

from harness.testing.langfuse_server._server import LangfuseServer


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m harness.testing.langfuse_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 for any")
    parser.add_argument("--version", default="4.59.0", help="the server version it says it is")
    parser.add_argument("--lag", type=float, default=0.0, help="seconds between an answer and its effect")
    parser.add_argument("--merge-every", type=float, default=None, help="seconds between merges; none by default")
    given = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    with LangfuseServer(given.version, given.lag, port=given.port, keep_requests=False) as server:
        line = {"url": server.url, "public_key": server.public_key, "secret_key": server.secret_key}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        while not stopped.wait(given.merge_every):
            server.merge()


if __name__ == "__main__":
    main()
