"""A credential is in no byte of any file that recording, promoting, evaluating and reporting leave behind."""

import base64
import json
import os
import subprocess
import sys

import pytest

from harness.store import open_store
from harness.testing import Scripted, ScriptedServer

KEY = "sk-canary-AAAA1111bbbb2222"
USER = "canaryuser77:canarypass88"
ENVIRONMENT = "canary-env-CCCC3333dddd"

AGENT = """
import os
import openai
import harness

client = harness.wrap(openai.OpenAI(max_retries=0, default_headers={"X-Api-Key": os.environ["OPENAI_API_KEY"]}))


@harness.step
def ask(text):
    try:
        message = {"role": "user", "content": text}
        reply = client.chat.completions.create(model="m", messages=[message])
        pieces = client.chat.completions.create(model="m", messages=[message], stream=True)
        told = [piece.choices[0].delta.content or "" for piece in pieces if piece.choices]
        return [reply.choices[0].message.content, "".join(told)]
    except openai.APIStatusError as error:
        return str(error)


@harness.workflow("desk")
def desk(text):
    return [ask(text), ask(text + " again")]


if __name__ == "__main__":
    from agent import desk as workflow

    workflow("hello")
"""


def echoing(seen):
    """A careless provider: it repeats the credential in body, headers and error."""
    header = seen.headers["authorization"].removeprefix("Bearer ")
    if "again" in str(seen.json):
        return Scripted(status=401, body={"error": {"message": f"Incorrect API key provided: {header}"}})
    if seen.json.get("stream"):
        half = len(header) // 2
        events = [
            json.dumps({"id": "r", "choices": [{"index": 0, "delta": {"content": text}}]})
            for text in ("your key is ", header[:half], header[half:], f" or {header}")
        ]
        return Scripted(pieces=[f"data: {event}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"])
    body = {
        "id": "r",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": f"your key is {header}"}}],
    }
    return Scripted(body=body, headers={"set-cookie": f"sid={header}", "x-echo": header})


def forms(secret):
    """The secret as it stands, in base64 at each of its three alignments, and in hex."""
    data = secret.encode()
    yield data
    yield data.hex().encode()
    for offset in range(3):
        yield base64.b64encode(b"x" * offset + data)[4 : -4 if offset else None]


@pytest.mark.parametrize("where", ["header", "url"])
def test_no_file_holds_a_credential(tmp_path, where):
    (tmp_path / "agent.py").write_text(AGENT)
    with ScriptedServer(rule=echoing) as server:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.url.replace("://", f"://{USER}@") if where == "url" else server.url,
            "DEPLOY_TOKEN": ENVIRONMENT,
        }

        def go(*command, code=(0,)):
            done = subprocess.run(
                [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=60
            )
            assert done.returncode in code, done.stdout + done.stderr
            return done.stdout + done.stderr

        main = ["-c", "from harness.cli import main; main()"]
        printed = go("agent.py")
        printed += go(*main, "run", "show", "desk", "--json")
        printed += go(
            *main, "dataset", "add", "desk", "--to", "datasets/d", "--target", "agent:desk", "--id", "c", code=(0, 1)
        )
        printed += go(*main, "dataset", "snapshot", "datasets/d", "--approve", "--by", "me", "--accept-findings")
        reports = [f"-oreport.{suffix}" for suffix in ("html", "md", "xml", "json", "txt")]
        printed += go(*main, "eval", "datasets/d", "--report-only", *reports, code=(0, 1, 3, 4))
        assert server.requests
    written = {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert len([path for path in written if path.name.startswith("report.")]) == 5
    haystacks = {**written, "printed": printed, "content": stored_content(tmp_path)}
    for secret in (KEY, *USER.split(":"), ENVIRONMENT):
        for form in forms(secret):
            found = {
                str(name): data[max(0, data.find(form) - 80) : data.find(form) + 60]
                for name, data in haystacks.items()
                if form in data
            }
            assert found == {}, (secret, form)


def stored_content(folder):
    """What the database holds once unpacked: compression must not hide a secret from this test."""
    store = open_store(f"sqlite:///{folder / '.goldfork' / 'goldfork.db'}")
    try:
        parts = []
        for summary in store.runs():
            recording = store.recording(summary.id)
            for message in recording.messages:
                parts.append(recording.read(message.request_hash))
                parts += [recording.read(e.body_hash) for e in message.exchanges if e.body_hash]
                parts.append(repr(message).encode())
            for step in recording.steps:
                parts += [recording.read(digest) for digest in (step.input_hash, step.output_hash) if digest]
        assert parts
        return b"\n".join(parts)
    finally:
        store.close()


def test_the_search_itself_finds_what_is_there():
    assert any(form in base64.b64encode(b"user:" + KEY.encode() + b"!") for form in forms(KEY))
    assert any(form in f"Bearer {KEY}".encode() for form in forms(KEY))
