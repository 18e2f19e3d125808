"""The pytest plugin: model calls in tests come from a recording, or fail.

::

    @pytest.mark.goldfork("datasets/triage:parcel-late")
    def test_reply(): ...

Options and marker carry the product's name, since several recorders claim the shorter ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from harness.gateway import FORBID_LIVE
from harness.session import Mode, recording


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--goldfork-mode``."""
    group = parser.getgroup("goldfork", "recorded model calls")
    group.addoption(
        "--goldfork-mode",
        choices=[mode.value for mode in Mode],
        default=Mode.REPLAY.value,
        help="Mode of tests marked @pytest.mark.goldfork: replay (default), auto, live or off.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "goldfork(recording): answer this test's model calls from a recording")


@pytest.fixture(autouse=True)
def _goldfork_recording(request: pytest.FixtureRequest) -> Iterator[None]:
    """Answer a marked test from its recording; in replay no live call is possible."""
    marker = request.node.get_closest_marker("goldfork")
    if marker is None:
        yield
        return
    if len(marker.args) != 1 or not isinstance(marker.args[0], str):
        raise pytest.UsageError('@pytest.mark.goldfork takes one recording, such as "datasets/triage:parcel-late"')
    mode = Mode(request.config.getoption("--goldfork-mode"))
    before = os.environ.get(FORBID_LIVE)
    if mode is Mode.REPLAY:
        os.environ[FORBID_LIVE] = "1"
    try:
        with recording(marker.args[0], mode=mode):
            yield
    finally:
        if before is None:
            os.environ.pop(FORBID_LIVE, None)
        else:
            os.environ[FORBID_LIVE] = before
