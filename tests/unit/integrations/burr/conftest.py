"""A provider on loopback whose answers depend on the question alone, and a list of what ran."""

import hashlib

import openai
import pytest

import harness
from harness.replay import fork_run, null_replay
from harness.session import Change
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
        where = {"base_url": self.server.url, "api_key": "sk-test-0123456789"}
        self.client = harness.wrap(openai.OpenAI(**where, http_client=openai.DefaultHttpxClient(verify=False)))
        self.where = where
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
    with World() as world:
        yield world


@pytest.fixture
def fork(world):
    """Fork a run with one change; ``world.ran`` then holds what the fork ran, and not what its null replay did."""

    def fork(run, *, target, change, at=""):
        change = Change.parse(change, at=at) if isinstance(change, str) else change
        # Whatever else changes in the folder of these tests while they run.
        same = {"target": target, "change": change, "code_version": run.run.code_version}
        null = null_replay(run, **same)
        assert null.undeclared == ()
        world.ran.clear()
        return fork_run(run, null=null, **same)

    return fork
