"""One difference, shown in four places: ``run diff``, ``experiment compare``, the HTML report, and for machines."""

import html
import json
import re

import pytest

from harness.testing import ScriptedServer

TOOL = """
@tool(determinism="deterministic", version="1")
def rate(text):
    return 1


@workflow("toy")
def run(text):
    found = answer(look(text))
    rate(found)
    return {"answer": found}
"""
SHARED = "shared (lexical, not meaning)"
UNSET = "no embedder is set (GOLDFORK_EMBEDDER)"


@pytest.fixture(scope="module")
def rated(recorded, tmp_path_factory, tools, server_of_module):
    """One case whose answer is also the argument of a tool."""
    toy = tools.copied(recorded, tmp_path_factory.mktemp("rated"))
    toy.edit("toy.py", "import prompt, step, workflow", "import prompt, step, tool, workflow")
    text = (toy.path / "toy.py").read_text()
    (toy.path / "toy.py").write_text(f"{text.partition('@workflow')[0]}{TOOL}")
    made = toy("eval", "toyset", "--mode", "live", "--save-recordings", TOY_URL=server_of_module.url)
    assert made.code == 0, made.err
    toy.dataset.snapshot()
    assert toy("eval", "toyset", "--case", "ants", "--report-only").code == 0
    return toy


@pytest.fixture(scope="module")
def server_of_module():
    with ScriptedServer(rule=lambda seen: f"reply to {seen.json['messages'][0]['content']}") as running:
        yield running


def newest(toy, command):
    return json.loads(toy(command, "list", "--json").out.splitlines()[0])


def fork(toy, value):
    """The machine's and the person's forms of one dictated answer, from all commands that show it."""
    plain = newest(toy, "experiment")["experiment"]
    before = next(
        row["run"]
        for row in map(json.loads, toy("run", "list", "--json").out.splitlines())
        if row["experiment"] == plain and row["workflow"] == "toy"
    )
    page = toy.path / "report.html"
    done = toy(
        "eval", "toyset", "--mode", "auto", "--case", "ants", "--fork-at", "answer", "--set", f"output={value}",
        "--report-only", "-o", str(page), "--json",
    )  # fmt: skip
    assert done.code in {0, 4}, done.err
    after = next(
        row["run"]
        for row in map(json.loads, toy("run", "list", "--json").out.splitlines())
        if row["experiment"] == done.json["experiment"] and row["workflow"] == "toy"
    )
    told = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))))
    pair = ("experiment", "compare", plain, done.json["experiment"])
    diff = ("run", "diff", before, after)
    return {
        "run diff": (toy(*diff, "--json").json, " ".join(toy(*diff).out.split())),
        "compare": (toy(*pair, "--json").json["differing"], " ".join(toy(*pair).out.split())),
        "page": told,
        "calls": toy(*diff, "--json").json["tool_calls"],
    }


@pytest.mark.parametrize(
    ("value", "kind", "told", "place", "semantic"),
    [
        ("quite other words", "content", "differs", ("$.answer", "text"), f"in words: 0% {SHARED}"),
        ('"reply  to Answer this: ants"', "formatting", "differs in formatting alone", ("$.answer", "formatting"), ""),
        ("5", "content", "differs", ("$.answer", "value"), ""),
    ],
    ids=["text", "formatting", "value"],
)
def test_it_is_classified_alike_wherever_it_is_shown(rated, value, kind, told, place, semantic):
    plain = rated("eval", "toyset", "--case", "ants", "--report-only", "--json")
    assert plain.json["outputs_equal"] == 1
    found = fork(rated, value)
    one, [other] = found["run diff"][0], found["compare"][0]
    assert one["output"] == other["output"]
    assert one["output"]["kind"] == kind
    assert [(row["path"], row["kind"]) for row in one["output"]["places"]] == [place]
    # The dictated step itself differs at its root, in the same way.
    steps = {step["name"]: step["difference"] for step in one["steps"]}
    assert steps == {step["name"]: step["difference"] for step in other["steps"]}
    assert [(row["path"], row["kind"]) for row in steps["answer"]["places"]] == [("$", place[1])]
    for text in (found["run diff"][1], found["compare"][1]):
        assert f"output of the run: {told}" in text
        assert f"{place[0]}: {place[1]}" in text
        assert (semantic in text) if semantic else "in words" not in text
        assert (f"difference in meaning: not measured, {UNSET}" in text) == bool(semantic)
    page = found["page"]
    assert (f"in meaning are not measured: {UNSET}" in page) == bool(semantic)
    assert f"{told[0].upper()}{told[1:]} at {place[0]} ({place[1]}" in page
    assert (f"Difference {semantic}" in page) if semantic else "Difference in words" not in page
    # The tool was called with the answer.
    for calls in (one["tool_calls"], other["tool_calls"]):
        assert [(call["name"], call["kind"]) for call in calls] == [("rate", "arguments")]
        assert [row["path"] for row in calls[0]["arguments"]] == ["$.text"]
    for text in (found["run diff"][1], found["compare"][1]):
        assert "tool call rate: arguments at $.text" in text
    assert "rate: arguments, call 1 in both" in page


def test_a_set_embedder_measures_the_meaning(rated):
    assert rated("eval", "toyset", "--case", "ants", "--report-only").code == 0
    fork(rated, "quite other words")
    rows = [json.loads(line) for line in rated("run", "list", "--workflow", "toy", "--json").out.splitlines()]
    with ScriptedServer() as embeddings:
        setting = f"tiny@{embeddings.url}"
        shown = rated("run", "diff", rows[1]["run"], rows[0]["run"], GOLDFORK_EMBEDDER=setting)
    assert "in meaning: cosine" in shown.out
    assert "by tiny" in shown.out
