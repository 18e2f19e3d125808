"""The whole way with a real store: record, read the recording back from SQL, replay without the provider."""

import openai

from harness.gateway import wrap
from harness.session import Mode, RecordedAnswers, RunPlan, planned
from harness.store import open_store
from harness.testing import Scripted

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_recorded_into_sql_and_replayed_from_it(server, tmp_path):
    server.script(Scripted(status=503, headers={"retry-after-ms": "1"}), "first", "second", "third")
    options = {"base_url": server.url, "api_key": "sk-canary-0123456789", "max_retries": 1}
    store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
    with store, wrap(openai.OpenAI(**options)) as client:

        def work():
            plain = client.chat.completions.create(**ASK).choices[0].message.content
            stream = client.chat.completions.create(stream=True, **ASK)
            streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            return plain, streamed, client.responses.create(model="m", input="hi").output_text

        with planned(RunPlan(mode=Mode.LIVE, sink=store)) as runs:
            live = work()
        recording = store.recording(runs[0].id)
        before = server.calls
        with planned(RunPlan(mode=Mode.REPLAY, sink=store, resolver=RecordedAnswers(recording))) as replays:
            assert work() == live == ("first", "second", "third")
        assert server.calls == before
        assert [len(message.exchanges) for message in recording.messages] == [2, 1, 1]
        again = store.recording(replays[0].id)
        assert [message.replay_of for message in again.messages] == [message.id for message in recording.messages]
        assert store.check().ok
    assert b"sk-canary" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
