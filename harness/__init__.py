"""Goldfork: record an LLM agent's runs, replay them for free, fork one step, and score what changed."""

from harness.errors import (
    GoldforkError,
    GoldforkStop,
    RecordingMissing,
    SideEffectBlocked,
    StoreError,
)
from harness.gateway import install, wrap
from harness.pipeline import annotate, carry, now, prompt, random, step, tool, uuid, workflow
from harness.replay import fork_run, replay_run
from harness.session import Change, branch, recording

__version__ = "0.1.0"

__all__ = [
    "Change",
    "GoldforkError",
    "GoldforkStop",
    "RecordingMissing",
    "SideEffectBlocked",
    "StoreError",
    "annotate",
    "branch",
    "carry",
    "fork_run",
    "install",
    "now",
    "prompt",
    "random",
    "recording",
    "replay_run",
    "step",
    "tool",
    "uuid",
    "workflow",
    "wrap",
]
