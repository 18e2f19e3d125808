"""The ``goldfork`` command: one file per noun."""

from harness.cli._app import main

__all__ = ["main"]
