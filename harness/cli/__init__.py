"""The ``goldfork`` command: one file per noun."""

from harness.cli import _baseline, _dataset, _eval, _experiment  # noqa: F401 - importing a file registers its commands
from harness.cli._app import main

__all__ = ["main"]
