"""What an integration makes runs, steps and tools of another framework with; a pipeline needs none of it."""

from harness.pipeline._begin import Begun, StepSpec, begin, end, fail, skip
from harness.pipeline._generator import Flow, wrap_async_generator, wrap_generator
from harness.pipeline._handed import handed_over
from harness.pipeline._places import member
from harness.pipeline._tool import OpenedTool, open_tool
from harness.pipeline._tool_answer import UNSET, ToolSpec
from harness.pipeline._tool_cache import before_body, drive, drive_async
from harness.pipeline._tool_version import source_version
from harness.pipeline._workflow import Execution, loaded_code

__all__ = [
    "UNSET",
    "Begun",
    "Execution",
    "Flow",
    "OpenedTool",
    "StepSpec",
    "ToolSpec",
    "before_body",
    "begin",
    "drive",
    "drive_async",
    "end",
    "fail",
    "handed_over",
    "loaded_code",
    "member",
    "open_tool",
    "skip",
    "source_version",
    "wrap_async_generator",
    "wrap_generator",
]
