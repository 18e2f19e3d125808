"""The API a pipeline is written with: workflow, step, tool, prompt, and declared volatile values."""

from harness.pipeline._annotate import annotate
from harness.pipeline._code import code_of, code_version
from harness.pipeline._codec import NotReusable, register_codec
from harness.pipeline._prompt import Prompt, prompt
from harness.pipeline._snapshot import Snapshot, plain, restore, snapshot
from harness.pipeline._step import StepBlock, step
from harness.pipeline._tool import tool
from harness.pipeline._volatile import now, random, uuid
from harness.pipeline._workflow import Workflow, carry, registered, workflow

__all__ = [
    "NotReusable",
    "Prompt",
    "Snapshot",
    "StepBlock",
    "Workflow",
    "annotate",
    "carry",
    "code_of",
    "code_version",
    "now",
    "plain",
    "prompt",
    "random",
    "register_codec",
    "registered",
    "restore",
    "snapshot",
    "step",
    "tool",
    "uuid",
    "workflow",
]
