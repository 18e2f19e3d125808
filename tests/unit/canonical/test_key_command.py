"""``goldfork key`` prints the keys that the gateway would use."""

import json
import subprocess
import sys

import pytest

from harness.canonical import request_keys

BODY = b'{"messages":[{"role":"user","content":"[bold]hi[/bold]\xc2\x9b31m"}],"model":"m","n":9007199254740993}'
RUN = "import sys; from harness.cli._app import main; import harness.cli._key; sys.argv[0]='goldfork'; main()"


def goldfork(*arguments, stdin=b""):
    return subprocess.run([sys.executable, "-c", RUN, *arguments], input=stdin, capture_output=True, check=False)


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
    text = done.stdout.decode()
    assert "[bold]hi[/bold]\\u009b31m" in text
    assert request_keys("POST", "/v1/chat/completions", BODY).semantic in text


@pytest.mark.parametrize("arguments", [("key", "no/such/file"), ("key", "-", "--header", "nonsense")])
def test_a_usage_error_is_one_line_and_exit_code_2(arguments):
    done = goldfork(*arguments)
    assert done.returncode == 2
    assert done.stderr.decode().startswith("goldfork: ")
    assert done.stderr.count(b"\n") == 1
