"""Recording of LangGraph switched on; the provider on loopback is that of all integrations."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("langgraph") else ["test_*.py"]


@pytest.fixture(autouse=True)
def installed():
    from harness.integrations.langgraph import install

    with install():
        yield
