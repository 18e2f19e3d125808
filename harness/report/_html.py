"""The report as one HTML page that needs nothing else: no script, no request, its own style.

Every expression of the template is escaped by Jinja and made visible by ``_format.visible``; the page's policy
allows its one style element, by hash, and nothing more.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from harness.report import _format, _plots
from harness.report._counterfactual import BY_CHANCE, GIVEN
from harness.report.summary import CaseView, ScoreRow, Summary

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

STEP_GLYPHS = {
    "reused": "=",
    "run": "▶",
    "answered": "↩",
    "called": "↗",
    "dry": "◌",
    "added": "+",
    "removed": "−",
}
"""So that a step's state never rests on colour alone."""
JITTER_GLYPHS = {"beyond jitter": "≠", "within jitter": "≈", "unknown": "?"}
CASE_GLYPHS = {"equal": "=", "differs": "≠", "unmeasured": "?", "missing": "∅", "error": "✗"}
VERDICT_GLYPHS = {
    "improved": "▲",
    "equivalent": "=",
    "regressed": "▼",
    "inconclusive": "?",
    "not_measurable": "∅",
}


def render_html(summary: Summary) -> str:
    """The whole page as text."""
    style = _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    tokens, money = _plots.shares(summary.spending)
    return _template().render(
        summary=summary,
        rows=[row for row in summary.scores if not _single_label(row)],
        label_rows=[row for row in summary.scores if _single_label(row)],
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        intervals=_plots.interval_plots(tuple(row for row in summary.scores if not _single_label(row))),
        case_plots=_plots.case_plots(summary.scores),
        tokens=tokens,
        money=money,
        used=_format.tokens(summary.spending),
        paid=_format.cost(summary.spending),
        unmeasured=_unmeasured(summary),
        anchors={view.case: f"case-{index}" for index, view in enumerate(summary.cases)},
        seconds=(summary.ended_at - summary.started_at).total_seconds(),
    )


def _asset(name: str) -> str:
    return files("harness.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        breaking=_breaking,
        case_title=_case_title,
        count=_format.count,
        estimated=_format.estimated,
        interval=_format.interval,
        measured=_format.measured,
        money=_format.money,
        number=_format.number,
        one_line=_format.one_line,
        plural=_format.plural,
        short=_plots.short,
        signed=_format.signed,
        verdict=_format.verdict,
        word=_format.word,
    )
    environment.globals.update(
        problem_kinds=_format.PROBLEMS,
        states=_format.STATES,
        step_glyphs=STEP_GLYPHS,
        case_glyphs=CASE_GLYPHS,
        verdict_glyphs=VERDICT_GLYPHS,
        width=_plots.WIDTH,
        given=GIVEN,
        by_chance=BY_CHANCE,
        jitter_glyphs=JITTER_GLYPHS,
    )
    return environment.from_string(_asset("page.html"))


def _shown(value: Any) -> Any:
    """Called by Jinja with each value before it is escaped; our own markup is of another type."""
    return _format.visible(value) if type(value) is str else value


def _unmeasured(summary: Summary) -> tuple[str, ...]:
    """Why differences are not told in meaning, each reason once."""
    views = [
        view
        for case in summary.cases
        for trial in case.trials
        for view in (trial.differs, *(step.differs for step in trial.steps))
        if view is not None and view.unmeasured
    ]
    return tuple(dict.fromkeys(view.unmeasured for view in views))[:3]


def _single_label(row: ScoreRow) -> bool:
    """Whether it is of one label, as ``f1[billing]``; those that gate stay in sight."""
    return "[" in row.name and not row.gating


def _breaking(text: str) -> Markup:
    """A name that may break behind its dots, slashes and underscores, rather than anywhere."""
    from markupsafe import Markup, escape

    parts = re.split(r"(?<=[./_])", _format.visible(text))
    return Markup("<wbr>").join(escape(part) for part in parts)


def _case_title(view: CaseView) -> str:
    """What stands beside a case's name while it is folded."""
    steps = dict.fromkeys(trial.first_divergence for trial in view.trials if trial.first_divergence)
    parts = [_format.STATES[view.state]]
    parts += dict.fromkeys(_format.PROBLEMS[one.kind] for one in view.problems if one.kind in {"gate", "score"})
    if view.jitter is not None:
        parts.append(view.jitter[0])
    if steps and view.state != "equal":
        parts.append(
            ("stopped at " if view.state == "missing" else "first at ")
            + ", ".join(_format.one_line(step, 60) for step in steps)
        )
    return ", ".join(parts)
