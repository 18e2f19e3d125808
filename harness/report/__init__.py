"""Reports: one summary value first, then renderers for people and machines."""

from harness.report._build import build
from harness.report._counterfactual import GIVEN
from harness.report._difference import difference as word_difference
from harness.report._differs import diff_json, difference_view
from harness.report._html import render_html
from harness.report._json import render_json, to_json
from harness.report._junit import render_junit
from harness.report._markdown import render_markdown
from harness.report._terminal import render_text, to_terminal
from harness.report._write import renderer, write
from harness.report.summary import PlaceView, Summary

__all__ = [
    "GIVEN",
    "PlaceView",
    "Summary",
    "build",
    "diff_json",
    "difference_view",
    "render_html",
    "render_json",
    "render_junit",
    "render_markdown",
    "render_text",
    "renderer",
    "to_json",
    "to_terminal",
    "word_difference",
    "write",
]
