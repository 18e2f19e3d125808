"""A provider on loopback whose answers depend on the question alone, and a list of what ran."""

import hashlib

import openai
import pytest

import harness
from harness.testing import ScriptedServer


class World:
    """What bodies can reach; nothing in it counts as something that they hang on or leave behind."""

    __goldfork_opaque__ = True

    def __init__(self):
        self.server = ScriptedServer(rule=lambda seen: self.digest(seen.json["messages"][-1]["content"]))
        self.sent = []
        self.ran = []

    def __enter__(self):
        self.server.start()
        self.where = {"base_url": self.server.url, "api_key": "sk-test-0123456789"}
        self.client = harness.wrap(openai.OpenAI(**self.where, http_client=openai.DefaultHttpxClient(verify=False)))
        return self

    def __exit__(self, *error):
        self.client.close()
        self.server.close()

    @staticmethod
    def digest(text):
        """An answer that any change of the question changes."""
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def ask(self, text):
        made = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return made.choices[0].message.content

    async def ask_async(self, text):
        # A client belongs to one event loop, and every run has its own.
        quick = openai.DefaultAsyncHttpxClient(verify=False)
        async with harness.wrap(openai.AsyncOpenAI(**self.where, http_client=quick)) as client:
            made = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return made.choices[0].message.content

    def stream(self, text):
        for chunk in self.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": text}], stream=True
        ):
            yield from (choice.delta.content for choice in chunk.choices if choice.delta.content)


@pytest.fixture
def world():
    with World() as made:
        yield made
