"""The ``goldfork`` command: one file per noun."""

from harness.cli import (  # noqa: F401 - importing a file registers its commands
    _baseline,
    _dataset,
    _dataset_mirror,
    _dataset_rerecord,
    _demo,
    _eval,
    _experiment,
    _import,
    _import_labels,
    _import_otel,
    _init,
    _key,
    _mirror,
    _run,
    _store,
)
from harness.cli._app import main

__all__ = ["main"]
