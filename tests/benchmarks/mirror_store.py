"""What the benchmarks of the mirror share: a store full of runs, and a Langfuse in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from measuring import HERE, module

from harness.mirror import Project


def fleet() -> ModuleType:
    """The helpers of the mirror's acceptance tests: the benchmarks send the same runs."""
    return module(HERE.parent / "acceptance" / "mirror" / "conftest.py")


@contextmanager
def double() -> Iterator[Project]:
    """A project on a loopback Langfuse whose CPU is not counted."""
    command = [sys.executable, str(HERE / "langfuse_double.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        try:
            url, public_key, secret_key = child.stdout.readline().split()
            yield Project(public_key=public_key, secret_key=secret_key, base_url=url)
        finally:
            child.stdin.close()
