"""LangGraph applications as runs and steps, without edits to them."""

from harness.integrations.langgraph._fork import fork_from
from harness.integrations.langgraph._install import install
from harness.integrations.langgraph._seam import SUPPORTED
from harness.integrations.langgraph._target import target

__all__ = ["SUPPORTED", "fork_from", "install", "target"]
