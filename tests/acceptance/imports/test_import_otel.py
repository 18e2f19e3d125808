"""``goldfork import otel`` as a user runs it: files and standard input, twice, broken, huge; then a case of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from harness.testing import ScriptedServer

BEGIN = 1_764_500_400_000_000_000
PIPELINE = """
import openai
import harness


@harness.step
def draft(text):
    client = harness.wrap(openai.OpenAI(max_retries=0))
    message = {"role": "user", "content": text}
    return client.chat.completions.create(model="m-1", messages=[message]).choices[0].message.content


@harness.workflow("desk")
def desk(text):
    return draft(text)
"""


def span(trace, number, parent=0, name="work", start=0, **attributes):
    pairs = [{"key": key.replace("__", "."), "value": {"stringValue": said}} for key, said in attributes.items()]
    return {
        "traceId": f"{trace:032x}", "spanId": f"{number:016x}", "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name, "attributes": pairs, "startTimeUnixNano": str(BEGIN + start * 1000),
        "endTimeUnixNano": str(BEGIN + start * 1000 + 500),
    }  # fmt: skip


def line(*spans):
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]})


ROOT = span(7, 1, name="desk", openinference__span__kind="CHAIN", input__value='{"text": "hello"}')
CALL = span(7, 2, 1, "chat m-1", 2, gen_ai__operation__name="chat", gen_ai__request__model="m-1")


@pytest.fixture
def goldfork(tmp_path):
    """Run the command in an empty folder; the process's limits are raised by nobody."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(tmp_path),
        "GOLDFORK_DATABASE_URL": f"sqlite:///{tmp_path}/goldfork.db",
        "OPENAI_API_KEY": "sk-test-0123456789",
        "NO_COLOR": "1",
    }

    def go(*arguments, given=None, **more):
        return subprocess.run(
            [sys.executable, "-c", "from harness.cli import main; main()", *arguments],
            cwd=tmp_path, env={**environment, **more}, input=given, capture_output=True, text=True, check=False,
            timeout=240,
        )  # fmt: skip

    go.environment = environment
    return go


def said(done, code=0):
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_file_comes_in_once_and_from_standard_input_too(goldfork, tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(json.loads(line(ROOT, CALL)), indent=2))
    first = said(goldfork("import", "otel", "one.json", "--json"))
    told = {"files": 1, "spans": 2, "traces": 1, "imported": 1, "updated": 0, "unchanged": 0, "recorded": 0,
            "left_out": [], "mended": [], "exit_code": 0}  # fmt: skip
    assert first == {**told, "runs": first["runs"]}
    again = said(goldfork("import", "otel", "-", "--json", given=line(CALL, ROOT)))
    assert again == {**told, "imported": 0, "unchanged": 1, "runs": []}
    shown = goldfork("run", "show", first["runs"][0])
    assert shown.returncode == 0, shown.stderr
    assert "m-1" in shown.stdout


def test_people_read_what_came_in_and_what_did_not(goldfork, tmp_path):
    lines = [line(ROOT, CALL), "oops \x1b[31m", line(span(8, 1, 99, "\x1b[2Ja"), span(8, 2, 98, "b")), line(span(0, 1))]
    (tmp_path / "spans.jsonl").write_text("\n".join(lines))
    done = goldfork("import", "otel", "spans.jsonl")
    assert done.returncode == 1
    told = done.stdout.splitlines()
    assert told[:2] == ["5 spans in 2 traces", "2 imported, 0 updated, 0 unchanged, 0 recorded here"]
    assert told[2].startswith(f"mended '{8:032x}': spans name parents that are not there ('0000000000000062', ")
    assert told[3:5] == [
        "left out 'spans.jsonl:2': it is no JSON",
        "left out 'spans.jsonl:4': 1 span has no trace id of 16 bytes",
    ]
    assert told[5].startswith("next: `goldfork run show ")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (("gone.json",), "'gone.json' is no file"),
        (("good.json", "text.txt"), "'text.txt' holds no spans"),
        (("-", "-"), "can be read once"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_file_that_is_of_no_use_is_one_line_and_nothing_is_written(goldfork, tmp_path, files, says):
    (tmp_path / "good.json").write_text(line(ROOT))
    (tmp_path / "text.txt").write_text("hello\nworld\n")
    done = goldfork("import", "otel", *files, given="")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert said(goldfork("import", "otel", "good.json", "--json"))["imported"] == 1


def test_a_case_of_it_is_refused_by_replay_until_it_is_rerecorded(goldfork, tmp_path):
    (tmp_path / "support.py").write_text(PIPELINE)
    (tmp_path / "one.json").write_text(line(ROOT, CALL))
    run = said(goldfork("import", "otel", "one.json", "--json"))["runs"][0]
    refused = goldfork("run", "replay", run, "--target", "support:desk")
    assert refused.returncode == 2
    assert "goldfork dataset rerecord" in refused.stderr
    added = goldfork("dataset", "add", run, "--to", "datasets/desk", "--target", "support:desk", "--id", "one")
    assert added.returncode == 0, added.stderr
    with ScriptedServer() as server:
        again = goldfork("dataset", "rerecord", "datasets/desk", "--imported", OPENAI_BASE_URL=server.url)
        assert again.returncode == 0, again.stdout + again.stderr
        assert server.calls == 1
    case = json.loads((tmp_path / "datasets" / "desk" / "cases" / "one.json").read_text())
    assert (case["input"], case["provenance"]["fidelity"]) == ({"text": "hello"}, "wire")


def many(path, traces, spans):
    """Lines that each hold one span of fifty traces: every trace is spread over the file."""
    with path.open("w") as file:
        for start in range(1, traces + 1, 50):
            for number in range(1, spans + 1):
                told = [
                    span(trace, trace * 1000 + number, trace * 1000 + 1 if number > 1 else 0, start=number,
                         gen_ai__prompt="x" * 300)
                    for trace in range(start, min(start + 50, traces + 1))
                ]  # fmt: skip
                file.write(line(*told) + "\n")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_traces(goldfork, tmp_path):
    peaks = []
    for traces in (100, 1500):
        path = tmp_path / f"{traces}.jsonl"
        many(path, traces, 12)
        command = [sys.executable, "-c", "from harness.cli import main; main()", "import", "otel", str(path), "--json"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=goldfork.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        out = process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert json.loads(out)["spans"] == traces * 12
        peaks.append(usage.ru_maxrss)
    assert peaks[1] < peaks[0] * 1.3, f"{peaks} KiB"


@pytest.mark.slow
def test_killed_in_the_middle_the_rest_comes_in_later(goldfork, tmp_path):
    path = tmp_path / "many.jsonl"
    many(path, 400, 5)
    command = [sys.executable, "-c", "from harness.cli import main; main()", "import", "otel", str(path), "--json"]
    with subprocess.Popen(command, cwd=tmp_path, env=goldfork.environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:  # fmt: skip
        base = tmp_path / "goldfork.db"
        while process.poll() is None and not (base.exists() and base.with_name("goldfork.db-wal").exists()):
            time.sleep(0.02)
        time.sleep(1.0)
        process.send_signal(signal.SIGKILL)
    rest = said(goldfork("import", "otel", str(path), "--json"))
    assert rest["imported"] + rest["updated"] + rest["unchanged"] == 400
    assert said(goldfork("import", "otel", str(path), "--json"))["unchanged"] == 400


def test_an_attribute_of_thirty_thousand_levels_costs_itself(goldfork, tmp_path):
    deep = '{"kvlistValue":{"values":[{"key":"a","value":' * 30_000 + "{}" + "}]}}" * 30_000
    text = line(ROOT, CALL, span(9, 1, name="fine")).replace('{"stringValue": "chat"}', deep)
    (tmp_path / "deep.json").write_text(text)
    done = said(goldfork("import", "otel", "deep.json", "--json"))
    assert (done["imported"], done["left_out"]) == (2, [])
