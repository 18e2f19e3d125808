"""Public doubles for tests: a sink in memory, a scripted provider on loopback."""

from harness.testing._scripted import Scripted, ScriptedServer
from harness.testing._sink import MemorySink

__all__ = ["MemorySink", "Scripted", "ScriptedServer"]
