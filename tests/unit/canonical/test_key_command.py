"""``goldfork key`` prints the keys that the gateway would use."""

import json

import pytest
from typer.testing import CliRunner

import harness.cli._key
from harness.canonical import request_keys
from harness.cli._app import app
from harness.errors import UsageError

BODY = b'{"messages":[{"role":"user","content":"[bold]hi[/bold]\xc2\x9b31m"}],"model":"m","n":9007199254740993}'
assert harness.cli._key  # Importing it registers the command.


def goldfork(*arguments, stdin=b""):
    return CliRunner().invoke(app, list(arguments), input=stdin, env={"COLUMNS": "20"})


def test_machine_output(tmp_path):
    file = tmp_path / "body.json"
    file.write_bytes(BODY)
    done = goldfork("key", str(file), "--json")
    keys = request_keys("POST", "/v1/chat/completions", BODY)
    assert json.loads(done.stdout) == {
        "exact": keys.exact,
        "semantic": keys.semantic,
        "canonical": keys.canonical.decode(),
    }


def test_options_reach_the_key():
    done = goldfork(
        "key", "-", "--path", "/v1/responses?a=1", "--method", "PUT", "--header", "OpenAI-Beta: x", "--json", stdin=BODY
    )
    keys = request_keys("PUT", "/v1/responses", BODY, query="a=1", headers=[("openai-beta", "x")])
    assert json.loads(done.stdout)["exact"] == keys.exact


def test_output_for_people_shows_hostile_text_as_text():
    done = goldfork("key", "-", stdin=BODY)
    text = done.stdout
    assert "[bold]hi[/bold]\\u009b31m" in text
    assert request_keys("POST", "/v1/chat/completions", BODY).semantic in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("key", "no/such/file"), "'no/such/file'"), (("key", "-", "--header", "nonsense"), "NAME:VALUE")],
)
def test_what_cannot_be_read_is_a_usage_error(arguments, message):
    done = goldfork(*arguments)
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)
