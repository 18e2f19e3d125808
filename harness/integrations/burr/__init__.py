"""Burr applications as runs and steps, without edits to them: ``install``, ``target`` and ``fork_from``."""

from importlib.util import find_spec

if find_spec("burr") is None:
    raise ImportError("harness.integrations.burr needs Burr; install goldfork[burr]")

from harness.integrations.burr._install import SUPPORTED, install
from harness.integrations.burr._persisted import fork_from
from harness.integrations.burr._target import target

__all__ = ["SUPPORTED", "fork_from", "install", "target"]
