"""The report for a terminal: 80 columns are enough, ASCII will do."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from harness.experiment import Word
from harness.report import _format as write
from harness.report._counterfactual import BY_CHANCE, GIVEN
from harness.report.summary import Problem, ScoreRow, Summary, ToolTally

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_STYLES: dict[Word, str] = {
    "improved": "bold green",
    "equivalent": "bold green",
    "regressed": "bold red",
    "inconclusive": "bold yellow",
    "not_measurable": "bold magenta",
}
CASES = 20
"""Cases listed by name; the file reports list all."""


def to_terminal(summary: Summary, console: Console) -> None:
    """Print the report.

    Args:
        summary: What ``build`` made.
        console: Its width and encoding decide the layout.
    """
    for block in _blocks(summary, ascii_only=console.options.ascii_only):
        console.print(block)


def render_text(summary: Summary) -> str:
    """The same report as plain text, 100 columns wide."""
    from rich.console import Console

    file = io.StringIO()
    to_terminal(summary, Console(file=file, width=100, color_system=None, force_terminal=False, highlight=False))
    lines = (line.rstrip() for line in file.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _blocks(summary: Summary, *, ascii_only: bool) -> Iterator[RenderableType]:
    yield _verdict(summary, ascii_only=ascii_only)
    yield _facts(summary, ascii_only=ascii_only)
    if summary.scores:
        shown = tuple(row for row in summary.scores if "[" not in row.name)
        yield _scores(shown, ascii_only=ascii_only)
        if len(shown) < len(summary.scores):
            more = len(summary.scores) - len(shown)
            folded = f"and {more} scores of single labels, in the report files (-o report.html)"
            yield _text(folded, "dim", ascii_only=ascii_only)
    if summary.checks:
        yield _checks(summary, ascii_only=ascii_only)
    yield _counts(summary, ascii_only=ascii_only)
    if summary.divergences:
        yield _divergences(summary, ascii_only=ascii_only)
    if summary.tallies:
        yield _tallies(summary, ascii_only=ascii_only)
    if told := [row for row in summary.tools if summary.change or row.told != "answered by recording"]:
        yield _tools(told, ascii_only=ascii_only)
    if summary.effects:
        yield _effects(summary, ascii_only=ascii_only)
        yield _text(f"{GIVEN} {BY_CHANCE}", "dim", ascii_only=ascii_only)
    if summary.problems:
        yield _problems(summary, ascii_only=ascii_only)
    lines = [f"note: {line}" for line in summary.notes] + [f"drift: {line}" for line in summary.drift]
    lines += [f"undeclared: {line}" for line in summary.undeclared]
    if lines:
        yield _text("\n" + "\n".join(write.one_line(line, 400) for line in lines), ascii_only=ascii_only)


def _text(text: str, style: str = "", *, ascii_only: bool) -> Text:
    """Never markup: what models and datasets wrote stays text."""
    from rich.text import Text

    plain = write.visible(text)
    return Text(plain.encode("ascii", "backslashreplace").decode() if ascii_only else plain, style=style)


def _verdict(summary: Summary, *, ascii_only: bool) -> Text:
    line = _text(write.word(summary.verdict).upper(), _STYLES[summary.verdict], ascii_only=ascii_only)
    line.append_text(_text(f"  {summary.outcome}, exit code {summary.exit_code}: ", "bold", ascii_only=ascii_only))
    line.append_text(_text(write.one_line(summary.headline, 240), ascii_only=ascii_only))
    return line


def _table(title: str, *, header: bool = True, gap: int = 2) -> Table:
    from rich.table import Table

    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None,
        show_header=header,
        padding=(0, gap, 0, 0),
        pad_edge=False,
    )


def _facts(summary: Summary, *, ascii_only: bool) -> Table:
    table = _table("", header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    seconds = (summary.ended_at - summary.started_at).total_seconds()
    rows = [
        ("dataset", f"{summary.dataset} v{summary.version} ({summary.digest[:12]})"),
        ("experiment", summary.experiment),
        ("target", f"{summary.target}, mode {summary.mode}, {seconds:,.1f} s"),
    ]
    if summary.change:
        rows.append(("change", summary.change))
    states = ", ".join(f"{write.STATES[state]} {amount:,}" for state, amount in summary.states)
    trials = f"{write.plural(len(summary.cases), 'case')}, {write.plural(summary.trials, 'trial')}"
    rows.append(("cases", f"{trials}: {states}" if states else trials))
    for name, value in rows:
        table.add_row(name, _text(write.one_line(value), ascii_only=ascii_only))
    return table


def _scores(rows: tuple[ScoreRow, ...], *, ascii_only: bool) -> Table:
    table = _table("\nScores", gap=1)
    table.add_column("score", overflow="fold", min_width=12)
    for name in ("candidate", "baseline", "diff"):
        table.add_column(name, justify="right", no_wrap=False, overflow="fold")
    table.add_column("interval", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("miss", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        cells = (
            _name(row.name),
            write.one_line(write.measured(row.candidate), 30),
            write.one_line(write.measured(row.baseline), 30),
            write.signed(row.difference),
            write.interval(row.low, row.high),
            write.count(row.n) if row.n is not None else write.UNKNOWN,
            write.count(row.missing),
        )
        verdict = _text(_verdict_cell(row), _STYLES[row.word] if row.word else "", ascii_only=ascii_only)
        table.add_row(*(_text(cell, ascii_only=ascii_only) for cell in cells), verdict)
    return table


def _name(name: str) -> str:
    """A dotted name breaks after its first dot rather than anywhere."""
    flat = write.one_line(name, 60)
    return flat.replace(".", ".\n", 1) if len(flat) > 12 else flat


def _verdict_cell(row: ScoreRow) -> str:
    """One word a line, so that the column stays narrow."""
    if row.word is None:
        return write.UNKNOWN
    lines = write.word(row.word).split()
    return "\n".join(lines if write.tested(row) else [*lines, "(not tested)"])


def _checks(summary: Summary, *, ascii_only: bool) -> Table:
    table = _table("\nGate", header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in sorted(summary.checks, key=lambda check: check.passed):
        mark = _text("pass" if check.passed else "FAIL", "green" if check.passed else "bold red", ascii_only=ascii_only)
        reason = f"{write.one_line(check.name, 80)}: {write.one_line(check.reason, 600)}"
        table.add_row(mark, _text(reason, ascii_only=ascii_only))
    return table


def _counts(summary: Summary, *, ascii_only: bool) -> Table:
    table = _table("\nWork", header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    work, spent = summary.work, summary.spending
    used, money = write.tokens(spent), write.cost(spent)
    tokens = f"{used[0]} spent, {used[1]} saved"
    if spent.unknown_usage:
        tokens += f" ({write.plural(spent.unknown_usage, 'message')} without reported usage)"
    controls = summary.control_counts
    rows = [
        ("steps", f"{work.steps_reused:,} reused, {work.steps_run:,} run"),
        ("tools", f"{work.tools_answered:,} answered, {work.tools_called:,} called, {work.tools_dry:,} dry"),
        ("provider", write.plural(work.provider_calls, "call")),
        ("tokens", tokens),
        ("money", f"{money[0]} spent, {money[1]} saved"),
        ("outputs", f"{summary.outputs_equal:,} of {summary.outputs_compared:,} equal to the recorded ones"),
    ]
    if summary.controls:
        tokens_spent = write.count(controls.tokens[0], least=controls.tokens_spent)
        calls = write.plural(controls.provider_calls, "call")
        rows.append(("controls", f"of these, {calls} and {tokens_spent} tokens for control forks"))
    for name, value in rows:
        table.add_row(name, _text(value, ascii_only=ascii_only))
    return table


def _divergences(summary: Summary, *, ascii_only: bool) -> Table:
    table = _table("\nFirst divergence")
    table.add_column("step", overflow="fold")
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("which", overflow="fold")
    for row in summary.divergences[:CASES]:
        names = ", ".join(write.one_line(name, 40) for name in row.cases[:3])
        more = f", and {len(row.cases) - 3:,} more" if len(row.cases) > 3 else ""
        cells = write.one_line(row.step, 120), f"{len(row.cases):,}", names + more
        table.add_row(*(_text(cell, ascii_only=ascii_only) for cell in cells))
    return table


def _tallies(summary: Summary, *, ascii_only: bool) -> Table:
    table = _table("\nSteps")
    table.add_column("step", overflow="fold")
    for name in ("settled by recording", "re-run", "dry", "added", "removed", "differs"):
        table.add_column(name, justify="right")
    for row in summary.tallies[:CASES]:
        cells = (row.settled, row.rerun, row.dry, row.added, row.removed, row.differs)
        step = _text(write.one_line(row.step, 120), ascii_only=ascii_only)
        table.add_row(step, *(f"{cell:,}" if cell else "" for cell in cells))
    if len(summary.tallies) > CASES:
        table.add_row(f"and {len(summary.tallies) - CASES:,} more steps")
    return table


def _tools(rows: list[ToolTally], *, ascii_only: bool) -> Table:
    table = _table("\nTools and chance")
    table.add_column("step", overflow="fold", max_width=32)
    table.add_column("what", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("how", overflow="fold")
    for row in rows[:CASES]:
        cells = (write.one_line(row.step, 80), row.word, f"{row.times:,}", f"{len(row.cases):,}")
        told = write.one_line(row.told, 200)
        table.add_row(*(_text(cell, ascii_only=ascii_only) for cell in (*cells, told)))
    if len(rows) > CASES:
        table.add_row(f"and {len(rows) - CASES:,} more")
    return table


def _effects(summary: Summary, *, ascii_only: bool) -> Table:
    controls = write.plural(summary.controls, "control fork")
    table = _table(f"\nEffect beside jitter ({controls} of each trial)", gap=1)
    table.add_column("score", overflow="fold", min_width=12)
    for name in ("fork - recorded", "controls - recorded", "fork - controls"):
        table.add_column(name, justify="right")
    table.add_column("beyond / within / unknown", justify="right")
    table.add_column("over all cases")
    for row in summary.effects:
        words = [f"{row.count(word):,}" for word in ("beyond jitter", "within jitter", "unknown")]
        cells = (
            _name(row.name),
            *(write.estimated(value) for value in (row.effect, row.jitter, row.net)),
            " / ".join(words),
            row.word,
        )
        table.add_row(*(_text(cell, ascii_only=ascii_only) for cell in cells))
    return table


def _problems(summary: Summary, *, ascii_only: bool) -> Table:
    groups = [(case, list(found)) for case, found in groupby(summary.problems, key=lambda one: one.case)]
    table = _table(f"\nFailing or missing ({write.plural(len(groups), 'case')})")
    table.add_column("case", overflow="fold", max_width=24)
    table.add_column("why", overflow="fold")
    for case, found in groups[:CASES]:
        lines = [_reason(problem) for problem in found[:3]]
        if len(found) > 3:
            lines.append(f"and {len(found) - 3:,} more")
        table.add_row(
            _text(write.one_line(case, 80), ascii_only=ascii_only), _text("\n".join(lines), ascii_only=ascii_only)
        )
    if len(groups) > CASES:
        table.add_row("...", f"and {len(groups) - CASES:,} more cases; a report file (-o report.html) lists all")
    return table


def _reason(problem: Problem) -> str:
    trial = f" in trial {problem.trial}" if problem.trial else ""
    return f"{write.PROBLEMS[problem.kind]}{trial}: {write.one_line(problem.reason, 600)}"
