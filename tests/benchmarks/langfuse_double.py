"""A loopback Langfuse in a process of its own: prints its address and serves until its standard input ends."""

from __future__ import annotations

import sys

from harness.testing.langfuse_server import LangfuseServer

if __name__ == "__main__":
    with LangfuseServer() as server:
        sys.stdout.write(f"{server.url} {server.public_key} {server.secret_key}\n")
        sys.stdout.flush()
        sys.stdin.read()
