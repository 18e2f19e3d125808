"""A pipeline with model calls that this process answers itself, so that every call is counted."""

import itertools

import pytest

from harness.gateway import record_local
from harness.pipeline import prompt, step, tool, workflow


class Shop:
    """classify → draft (a model call, a tool, a nested step) → send; every body and call that happens is logged."""

    def __init__(self):
        self.done = []
        self.served = ("m-1", "fp-1")
        self._numbers = itertools.count()
        self.run = self._make()

    def ask(self, text, **options):
        def compute():
            self.done.append(f"model {text}")
            answer = {"role": "assistant", "content": f"{text}! ({next(self._numbers)})"}
            return {
                "object": "chat.completion",
                "model": self.served[0],
                "system_fingerprint": self.served[1],
                "choices": [{"index": 0, "message": answer, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
            }

        request = {"model": "m", "messages": [{"role": "user", "content": text}], **options}
        return record_local("/chat/completions", request, compute)["choices"][0]["message"]["content"]

    def _make(self):
        opening = prompt("opening", "Dear {who}")

        @tool(determinism="deterministic", version="1")
        def look(key):
            self.done.append(f"look {key}")
            return [key, next(self._numbers)]

        @tool(determinism="side-effect", stand_in="not sent", version="1")
        def send(text):
            self.done.append("send")
            return f"sent {next(self._numbers)}"

        @step
        def polish(text):
            self.done.append("polish")
            return self.ask(f"polish {text[:4]}")

        @step
        def classify(ticket):
            self.done.append("classify")
            return [self.ask("classify"), look("rules"), polish(ticket), send("note")]

        @step
        def draft(ticket):
            self.done.append("draft")
            return [opening.format(who=ticket), self.ask("draft"), look("orders")]

        @workflow("shop")
        def run(ticket):
            return {"class": classify(ticket), "drafts": [draft(ticket), draft(ticket)], "sent": send(ticket)}

        return run


@pytest.fixture
def shop():
    return Shop()
