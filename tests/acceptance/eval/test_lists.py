"""Lists on a narrow and a wide terminal: ids stay whole, nothing is broken anywhere."""

import json


def test_ids_stay_whole_on_eighty_columns(toy):
    assert toy("eval", "toyset", "--report-only").code == 0
    runs = [json.loads(line) for line in toy("run", "list", "--json").out.splitlines()]
    lines = toy("run", "list", COLUMNS="80").out.splitlines()
    assert lines[0].split() == ["run", "status", "mode", "started"]
    assert [line.split()[0] for line in lines[1::2]] == [run["run"] for run in runs]
    assert [line.strip() for line in lines[2::2]] == [f"toy · {run['case']} · recorded" for run in runs]
    assert max(map(len, lines)) <= 80


def test_a_wide_terminal_has_a_line_for_each(toy):
    assert toy("eval", "toyset", "--report-only").code == 0
    lines = toy("run", "list", COLUMNS="160").out.splitlines()
    assert lines[0].split() == ["run", "status", "mode", "started", "workflow", "case", "arm"]
    assert len(lines) == 4


def test_experiments_stay_readable(toy):
    assert toy("eval", "toyset", "--fork-at", "answer", "--set", "output=1", "--report-only").code in {0, 4}
    made = json.loads(toy("experiment", "list", "--json").out)
    [head, first, second] = toy("experiment", "list", COLUMNS="80").out.splitlines()
    assert head.split() == ["experiment", "status", "verdict", "exit"]
    assert first.startswith(f"{made['experiment']}  ok")
    assert second.strip().startswith("toyset v2 · replay · output at answer · 20")
    assert max(len(first), len(second)) <= 80


def test_an_empty_list_says_what_to_do(toy):
    assert "goldfork eval PATH" in toy("experiment", "list").out
    assert "docs/quickstart.md" in toy("run", "list").out
