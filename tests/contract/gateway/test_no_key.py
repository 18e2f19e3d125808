"""A live call to the hosted provider with a stand-in for a key is refused before it leaves."""

import openai
import pytest

from harness.errors import LiveCallForbidden
from harness.gateway import wrap
from harness.session import Mode, NullSink, RunPlan, planned


def test_a_stand_in_key_goes_nowhere():
    made = openai.OpenAI(api_key="no-key", base_url="https://api.openai.com/v1")
    client = wrap(made)
    message = {"role": "user", "content": "hi"}
    with pytest.raises(LiveCallForbidden, match="OPENAI_API_KEY"), planned(RunPlan(mode=Mode.LIVE, sink=NullSink())):
        client.chat.completions.create(model="m", messages=[message])
    client.close()
    made.close()
