"""A wrapped client's credentials are kept out of what is recorded before any call carries them."""

import httpx2
import openai
import pytest

import harness
from harness.pipeline import step, tool, workflow
from harness.replay import ReplayOptions, fork_run, live_run, replay_run

CODE = "c" * 64
OPTIONS = ReplayOptions(code_version=CODE)


def http(**options):
    return httpx2.Client(**options)


@pytest.mark.parametrize(
    ("secret", "make"),
    [
        ("sk-known-from-the-key-1", lambda s: openai.OpenAI(api_key=s)),
        ("known-from-a-header-22", lambda s: openai.OpenAI(api_key="none", default_headers={"X-Api-Key": s})),
        ("known-from-the-query-3", lambda s: openai.OpenAI(api_key="none", default_query={"api_key": s})),
        ("known-from-the-url-444", lambda s: openai.OpenAI(api_key="none", base_url=f"http://me:{s}@127.0.0.1/v1")),
        ("known-from-http-header", lambda s: http(headers={"Authorization": f"Bearer {s}"})),
    ],
)
def test_a_credential_in_the_inputs_is_starred_out(secret, make):
    @step
    def use(key):
        return {"used": key}

    @workflow("w")
    def run(key):
        return use(key)

    client = make(secret)
    with client, harness.wrap(client):
        outcome = live_run(run, {"key": secret})
    contents = [outcome.run.read(outcome.run.run.input_hash)]
    contents += [outcome.run.read(d) for s in outcome.run.steps for d in (s.input_hash, s.output_hash) if d]
    assert all(secret.encode() not in content for content in contents)
    assert outcome.output == {"used": "*" * len(secret)}


def test_a_stand_in_key_is_ordinary_text():
    with openai.OpenAI(api_key="test-key") as client, harness.wrap(client):
        assert live_run(workflow("w")(lambda x: x), {"x": "a test-key"}).output == "a test-key"


def test_a_starred_output_is_never_handed_on_as_the_value():
    secret, used = "sk-echoed-by-a-step-99", []

    @tool(determinism="deterministic", version="1")
    def vault():
        return "vault " + secret

    @step
    def fetch():
        vault()
        return {"key": secret, "a": 1}

    @step
    def use(key):
        used.append(key)
        return len(key)

    @workflow("w")
    def run(x):
        return use(fetch()["key"])

    with openai.OpenAI(api_key=secret) as client, harness.wrap(client):
        parent = live_run(run, {"x": 1}, code_version=CODE).run
    outcome = fork_run(parent, target=run, change="input:key=short", at="use", mode="replay", options=OPTIONS)
    assert [s.state for s in outcome.diff.steps if s.name == "fetch"] == ["run"]
    assert outcome.output == 5
    again = replay_run(parent, target=run)
    assert again.diff.output_equal
    assert used[-1] == secret
