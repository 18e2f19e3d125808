"""Public doubles for tests: a sink in memory, a scripted provider on loopback."""

from harness.testing._answers import chat_answer, chat_events, event
from harness.testing._scripted import Rule, Scripted, ScriptedServer, Seen
from harness.testing._sink import MemorySink

__all__ = [
    "MemorySink",
    "Rule",
    "Scripted",
    "ScriptedServer",
    "Seen",
    "chat_answer",
    "chat_events",
    "event",
]
