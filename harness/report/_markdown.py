"""The report as a pull-request comment.

Foreign text is inert by construction: every character that Markdown, its tables or its extensions could act on is
written as a numeric entity, which renders as that character and never as markup. Differences stand in ``<pre>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from harness.report import _format as write
from harness.report._counterfactual import BY_CHANCE, GIVEN
from harness.report.summary import CaseView, Piece, ScoreRow, StepView, Summary, TrialView

LIMIT = 60_000
"""Characters that a comment may have; GitHub takes 65,536."""
_LISTED = 25
_RESERVE = 400
_ACTIVE = re.compile(r"[^\w\s\-,;.()/%+=?']|_|(?<=[wW])\.|^[-+=]|^\d(?=\d*[.)](\s|$))")
"""All punctuation but the harmless; that only where it could begin a list, a rule or a web address."""
_GLYPHS = {"improved": "▲", "equivalent": "=", "regressed": "▼", "inconclusive": "?", "not_measurable": "∅"}


def render_markdown(summary: Summary) -> str:
    """The comment, below ``LIMIT`` characters; cases that do not fit are counted."""
    parts = [part for part in _sections(summary) if part]
    room = LIMIT - _RESERVE - sum(len(part) + 2 for part in parts)
    shown = [view for view in summary.cases if view.problems or view.state not in {"equal", "unmeasured"}]
    shown.sort(key=lambda view: not view.problems)
    left_out = 0
    for view in shown:
        block = _case(view)
        if len(block) + 2 > room:
            left_out += 1
            continue
        room -= len(block) + 2
        parts.append(block)
    if left_out:
        parts.append(f"Details of {write.plural(left_out, 'case')} do not fit here; the HTML report holds all.")
    return "\n\n".join(parts) + "\n"


def inert(text: str, limit: int = 200) -> str:
    """Foreign text on one line, without any effect; mentions and references are broken up."""
    return _entities(write.one_line(text, limit))


def _entities(text: str) -> str:
    return _ACTIVE.sub(lambda match: _entity(match.group()), text)


def _entity(character: str) -> str:
    if not character.isascii():
        return character
    entity = f"&#{ord(character)};"
    return f"{entity}<!-- -->" if character in "@#" else entity


def code(text: str, limit: int = 120) -> str:
    """The same in a fixed-width font."""
    return f"<code>{inert(text, limit)}</code>"


def _sections(summary: Summary) -> Iterator[str]:
    glyph = _GLYPHS[summary.verdict]
    yield (
        f"**{glyph} {write.word(summary.verdict)}**: {summary.outcome} (exit code {summary.exit_code}). "
        f"{inert(summary.headline, 300)}"
    )
    facts = f"Dataset {code(summary.dataset)} v{summary.version}, target {code(summary.target)}, mode {summary.mode}"
    yield facts + (f", change {code(summary.change)}" if summary.change else "")
    yield _scores(summary.scores)
    yield _checks(summary)
    yield _divergences(summary)
    yield _tallies(summary)
    yield _tools(summary)
    yield _effects(summary)
    yield _problems(summary)
    yield _work(summary)
    told = [*summary.notes, *(f"undeclared, {line}" for line in summary.undeclared)]
    told += [f"drift: {line}" for line in summary.drift]
    yield "\n".join(f"- {inert(line, 300)}" for line in told[:_LISTED])


def _table(header: tuple[str, ...], align: str, rows: Sequence[tuple[str, ...]], *, more: int = 0) -> str:
    marks = {"l": ":--", "r": "--:"}
    lines: list[tuple[str, ...]] = [header, tuple(marks[letter] for letter in align), *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\nand {more:,} more" if more > 0 else text


def _scores(scores: tuple[ScoreRow, ...]) -> str:
    if not scores:
        return ""
    rows = [
        (
            code(row.name, 80),
            inert(write.measured(row.candidate), 40),
            inert(write.measured(row.baseline), 40),
            write.signed(row.difference),
            write.interval(row.low, row.high),
            write.count(row.n) if row.n is not None else write.UNKNOWN,
            write.count(row.missing),
            f"**{write.verdict(row)}**" if row.gating else write.verdict(row),
        )
        for row in scores[:_LISTED]
    ]
    header = ("score", "candidate", "baseline", "difference", "interval", "n", "missing", "verdict")
    return _table(header, "lrrrrrrl", rows, more=len(scores) - _LISTED)


def _checks(summary: Summary) -> str:
    failed = [check for check in summary.checks if not check.passed]
    lines = [f"- **gate failed** {code(check.name)}: {inert(check.reason, 300)}" for check in failed[:_LISTED]]
    if len(failed) > _LISTED:
        lines.append(f"- and {len(failed) - _LISTED:,} more")
    return "\n".join(lines)


def _divergences(summary: Summary) -> str:
    if not summary.divergences:
        return ""
    rows = [
        (
            code(row.step),
            f"{len(row.cases):,}",
            ", ".join(code(name, 40) for name in row.cases[:3]) + (", ..." if len(row.cases) > 3 else ""),
        )
        for row in summary.divergences[:_LISTED]
    ]
    more = len(summary.divergences) - _LISTED
    return _table(("first divergence", "cases", "which"), "lrl", rows, more=more)


def _tallies(summary: Summary) -> str:
    rows = [
        (code(row.step), *(f"{cell:,}" for cell in (row.settled, row.rerun, row.dry, row.added, row.removed)))
        for row in summary.tallies[:_LISTED]
    ]
    header = ("step", "settled by recording", "re-run", "dry", "added", "removed")
    return _table(header, "lrrrrr", rows, more=len(summary.tallies) - _LISTED) if rows else ""


def _tools(summary: Summary) -> str:
    rows = [
        (code(row.step, 80), row.word, f"{row.times:,}", f"{len(row.cases):,}", inert(row.told, 160))
        for row in summary.tools[:_LISTED]
    ]
    header = ("step", "what", "calls", "cases", "how")
    return _table(header, "llrrl", rows, more=len(summary.tools) - _LISTED) if rows else ""


def _effects(summary: Summary) -> str:
    """Effect beside jitter: the scorers, then the cases that moved beyond it."""
    if not summary.effects:
        return ""
    rows = [
        (
            code(row.name, 80),
            *(inert(write.estimated(value), 60) for value in (row.effect, row.jitter, row.net)),
            *(f"{row.count(word):,}" for word in ("beyond jitter", "within jitter", "unknown")),
            row.word,
        )
        for row in summary.effects[:_LISTED]
    ]
    header = (
        "score",
        "fork - recorded",
        "controls - recorded",
        "fork - controls",
        "beyond",
        "within",
        "unknown",
        "all",
    )
    beyond = [
        f"- {code(row.name, 80)} of {code(case.case, 60)}: {write.signed(case.effect)}, {inert(case.reason, 200)}"
        for row in summary.effects
        for case in row.cases
        if case.word == "beyond jitter"
    ]
    more = [f"- and {len(beyond) - _LISTED:,} more"] if len(beyond) > _LISTED else []
    controls = write.plural(summary.controls, "control fork")
    title = f"**Effect beside jitter** ({controls} of each trial). {inert(GIVEN, 400)}"
    told = "\n".join(["Cases beyond jitter:", "", *beyond[:_LISTED], *more]) if beyond else "No case is beyond jitter."
    return "\n\n".join([title, _table(header, "lrrrrrrl", rows, more=len(summary.effects) - _LISTED), told, BY_CHANCE])


def _problems(summary: Summary) -> str:
    groups = [(case, list(found)) for case, found in groupby(summary.problems, key=lambda one: one.case)]
    if not groups:
        return ""
    rows = []
    for case, found in groups[:_LISTED]:
        reasons = [f"{write.PROBLEMS[one.kind]}: {inert(one.reason, 160)}" for one in found[:2]]
        more = f" (and {len(found) - 2:,} more)" if len(found) > 2 else ""
        rows.append((code(case, 60), "; ".join(reasons) + more))
    title = f"**Failing or missing: {write.plural(len(groups), 'case')}**\n\n"
    return title + _table(("case", "why"), "ll", rows, more=len(groups) - _LISTED)


def _work(summary: Summary) -> str:
    work, spent = summary.work, summary.spending
    tokens, money = write.tokens(spent), write.cost(spent)
    return (
        f"{summary.outputs_equal:,} of {summary.outputs_compared:,} outputs equal; "
        f"steps {work.steps_reused:,} reused, {work.steps_run:,} run; "
        f"tools {work.tools_answered:,} answered, {work.tools_called:,} called, {work.tools_dry:,} dry; "
        f"{write.plural(work.provider_calls, 'provider call')}; "
        f"tokens {tokens[0]} spent, {tokens[1]} saved; "
        f"money {inert(money[0])} spent, {inert(money[1])} saved."
    )


def _case(view: CaseView) -> str:
    lines = [f"<details><summary>{code(view.case, 80)}: {write.STATES[view.state]}</summary>"]
    if view.problems:
        lines.append("")
    lines += [f"- {write.PROBLEMS[one.kind]}: {inert(one.reason, 300)}" for one in view.problems[:5]]
    for trial in view.trials[:3]:
        lines += _trial(trial)
    if len(view.trials) > 3:
        lines += ["", f"and {len(view.trials) - 3:,} more trials"]
    return "\n".join([*lines, "", "</details>"])


def _trial(trial: TrialView) -> Iterator[str]:
    yield ""
    where = "stopped" if trial.misses else "first divergence"
    first = f", {where} at {code(trial.first_divergence)}" if trial.first_divergence else ""
    yield f"Trial {trial.trial}: {write.STATES[trial.state]}{first}"
    if trial.steps:
        names = (
            f"{code(step.address, 60)} {step.state}{' ≠' if step.equal is False else ''}" for step in trial.steps[:20]
        )
        yield ""
        yield "Steps: " + ", ".join(names) + (", ..." if len(trial.steps) > 20 or trial.more_steps else "")
    reasons = [f"- {code(step.address, 60)}: {inert(step.why, 200)}" for step in trial.steps if step.why][:5]
    reasons += [
        f"- tool call {code(call.address, 60)}: {call.kind}, {inert(call.told)}" for call in trial.tool_calls[:5]
    ]
    reasons += [f"- control {one.number}: {inert(one.told, 200)}" for one in trial.controls[:5]]
    if reasons:
        yield ""
        yield from reasons
    if trial.difference:
        yield ""
        yield f"<pre>{''.join(_pieces(trial.difference))}</pre>"


def _step(step: StepView) -> str:
    return f"{code(step.address, 60)} {step.state}{' ≠' if step.equal is False else ''}"


def _pieces(pieces: tuple[Piece, ...], limit: int = 3_000) -> Iterator[str]:
    """Removed words struck through, new ones underlined; ``<pre>`` holds no Markdown, but blank lines stay out."""
    tags = {"gone": ("<del>", "</del>"), "new": ("<ins>", "</ins>"), "left_out": (" [", "] "), "same": ("", "")}
    for piece in pieces:
        text = write.visible(piece.text[:limit])
        limit -= len(piece.text)
        before, after = tags[piece.kind]
        yield f"{before}{_entities(text)}{after}".replace("\n", "&#10;")
        if limit <= 0:
            yield " [the rest is not shown here]"
            return
