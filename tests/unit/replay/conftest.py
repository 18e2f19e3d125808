"""A pipeline with model calls that this process answers itself, so that every call is counted."""

import itertools

import pytest
from openai import OpenAI

from harness.gateway import record_local, wrap
from harness.pipeline import prompt, step, tool, workflow
from harness.replay._null import NullAnswers
from harness.session import current
from harness.testing import ScriptedServer


class Witness(list):
    """Notes which bodies run, without counting as something that a step leaves behind.

    The null replay that a fork begins with is left out: what is asked is what the fork runs.
    """

    __goldfork_opaque__ = True

    def append(self, item):
        frame = current()
        if frame is None or not isinstance(frame.run.plan.resolver, NullAnswers):
            super().append(item)


@pytest.fixture
def executed():
    return Witness()


class Shop:
    """classify → draft (a model call, a tool, a nested step) → send; every body and call that happens is logged."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.done = Witness()
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


@pytest.fixture
def provider():
    """look → draft → check against a scripted server: real calls with usage, so that there is something to count."""
    replies = Replies()
    with ScriptedServer(rule=replies) as server:
        yield Desk(server, replies)


class Replies:
    """The same reply to the same question, until ``jitter`` numbers them."""

    def __init__(self):
        self.jitter = None

    def __call__(self, seen):
        number = "" if self.jitter is None else f" {next(self.jitter)}"
        return f"reply{number} to {seen.json['messages'][0]['content']}"


class Desk:
    """Three steps, one call each; ``look`` comes first and is reached by nothing that ``draft`` does."""

    __goldfork_opaque__ = True

    def __init__(self, server, replies):
        self.server, self.replies = server, replies
        self.client = wrap(OpenAI(base_url=server.url, api_key="sk-0123456789abcdef01234567", max_retries=0))
        self.run = self._make()

    def ask(self, text):
        reply = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return reply.choices[0].message.content

    def _make(self):
        opening = prompt("opening", "Dear {who}")

        @step
        def look(ticket):
            return self.ask(f"look {ticket}")

        @step
        def draft(found):
            return self.ask(opening.format(who=found))

        @step
        def check(text):
            return self.ask(f"check {text}")

        @workflow("desk")
        def run(ticket):
            return check(draft(look(ticket)))

        return run
