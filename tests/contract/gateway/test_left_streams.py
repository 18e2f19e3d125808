"""A stream that the application leaves by ``break`` belongs to its run, and replays."""

import openai

from harness.gateway import wrap
from harness.pipeline import workflow
from harness.replay import live_run, replay_run
from harness.testing import ScriptedServer


def test_a_stream_left_by_break_is_recorded_as_interrupted_and_replays():
    with ScriptedServer() as server:
        made = openai.OpenAI(base_url=server.url, api_key="sk-test-0123456789")
        client = wrap(made)

        @workflow("left")
        def run():
            message = {"role": "user", "content": "hi"}
            for piece in client.chat.completions.create(model="m", messages=[message], stream=True):
                if piece.choices and piece.choices[0].delta.content:
                    return piece.choices[0].delta.content

        outcome = live_run(run, {})
        [message] = outcome.run.messages
        assert message.status == "interrupted"
        again = replay_run(outcome.run, target=run)
        client.close()
        made.close()
    assert (again.status, again.output) == ("ok", outcome.output)
