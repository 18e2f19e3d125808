"""The terminal report, pinned at 80 columns."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.report import build, render_text, to_terminal

HERE = Path(__file__).parent


def printed(summary, encoding: str) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    to_terminal(summary, Console(file=file, width=80, color_system=None, highlight=False))
    file.flush()
    return "".join(f"{line.rstrip()}\n" for line in raw.getvalue().decode(encoding).splitlines())


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_the_text_is_pinned(result, encoding):
    pinned = HERE / f"terminal-{encoding}.txt"

    assert printed(build(result), encoding) == pinned.read_text(encoding="utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_hostile_text_neither_breaks_the_layout_nor_reaches_the_terminal(hostile, encoding):
    text = printed(build(hostile), encoding)

    assert max(map(len, text.splitlines())) <= 80
    assert not set(text) & {"\x1b", "\x00", "\u202e", "\u200b", "\t"}
    assert "<b>x</b>{{7*7}}" in text


@pytest.mark.parametrize(("encoding", "name"), [("ascii", "gr\\xf6\\xdfe"), ("utf-8", "größe")])
def test_names_survive_a_terminal_that_cannot_show_them(result, encoding, name):
    crashed = next(trial for trial in result.trials if trial.outcome.error)
    text = printed(build(replace(result, trials=(replace(crashed, case="größe"),))), encoding)

    assert f"\n{name}  crashed: ValueError" in text


def test_the_verdict_stands_on_top(result):
    assert printed(build(result), "utf-8").startswith("REGRESSED  gate failed, exit code 1: category.f1_macro 0.981")


def test_a_text_file_needs_no_terminal(result):
    text = render_text(build(result))

    assert "wrong-item" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_many_cases_are_cut_and_counted(large):
    text = printed(large, "utf-8")

    assert "more cases; a report file (-o report.html) lists all" in " ".join(text.split())
    assert len(text.splitlines()) < 140
