"""A loopback Langfuse for tests: the public API as a server of the fourth generation was seen to answer it."""

from harness.testing.langfuse_server._faults import Fault, Kind
from harness.testing.langfuse_server._rows import Row
from harness.testing.langfuse_server._server import LangfuseServer
from harness.testing.langfuse_server._wire import Request

__all__ = ["Fault", "Kind", "LangfuseServer", "Request", "Row"]
