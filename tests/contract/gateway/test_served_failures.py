"""A recorded failure is the end of its call: an SDK must not wait for it and ask again."""

import openai
import pytest

from harness.gateway import wrap
from harness.pipeline import workflow
from harness.replay import live_run, replay_run
from harness.testing import Scripted, ScriptedServer


def test_a_recorded_refusal_is_served_once_and_kept_as_it_was():
    seen = []
    with ScriptedServer() as server, wrap(openai.OpenAI(base_url=server.url, api_key="k", max_retries=1)) as client:
        refused = Scripted(status=429, headers={"retry-after": "0.001"}, body={"error": {"message": "slow"}})
        server.script(refused, refused)

        @workflow("w")
        def run():
            with pytest.raises(openai.RateLimitError) as caught:
                client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
            seen.append(caught.value.response)
            return "fallback"

        live = live_run(run, {})
        replayed = replay_run(live.run, target=run)
    assert server.calls == 2
    assert replayed.status == "ok"
    assert seen[1].headers["x-should-retry"] == "false"
    assert "retry-after" not in seen[1].headers
    assert seen[1].request.headers["x-stainless-retry-count"] == "0"
    kept = dict(replayed.run.messages[0].answer.headers)
    assert kept["retry-after"] == "0.001"
