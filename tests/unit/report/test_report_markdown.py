"""The pull-request comment."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from harness.report import build, render_markdown
from harness.report._markdown import LIMIT, inert

OURS = {
    "code", "del", "details", "ins", "li", "p", "pre", "strong", "summary", "table", "tbody", "td", "th", "thead",
    "tr", "ul",
}  # fmt: skip


def rendered(text: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)


def tags(html: str) -> set[str]:
    return set(re.findall(r"</?([a-zA-Z][\w-]*)", html))


def test_the_verdict_is_the_first_line(result):
    first = render_markdown(build(result)).splitlines()[0]

    assert first.startswith("**▼ regressed**: gate failed (exit code 1). category.f1")
    assert "-0.462 to -0.071" in first


def test_hostile_text_yields_no_markup_of_its_own(hostile):
    assert tags(rendered(render_markdown(build(hostile)))) <= OURS


def test_hostile_text_is_still_readable(hostile, hostile_strings):
    html = rendered(render_markdown(build(hostile)))
    plain = re.sub(r"<[^>]*>", "", html)

    assert "&lt;img src=x onerror=window.pwned=1&gt;" in plain
    assert "[see](javascript:window.pwned=1)" in plain


@pytest.mark.parametrize(
    "text",
    [
        "@team", "#12", "www.evil.example", "https://evil.example", "`a` | b", "*a* _b_ ~~c~~", "![i](u)", "[l](u)",
        "<b>", "&lt;b&gt;", "- item", "1. item", "1) item", "# head", "> quote", "$x$", ":tada:", "\\", "a\\|b", "---",
    ],
)  # fmt: skip
def test_no_character_acts(text):
    once = inert(text)
    html = rendered(f"- {once}\n\n| a | b |\n| :-- | :-- |\n| {once} | end |\n")

    assert tags(html) <= {"ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
    assert html.count("<td") == 2
    assert html.count("<li>") == 1
    assert not re.search(r"@|(?<!&)#|://|www\.\w", once)


def test_a_large_run_fits_a_comment_and_counts_what_does_not(large):
    text = render_markdown(large)

    assert len(text) < LIMIT
    assert re.search(r"Details of \d+ cases do not fit here", text)


def test_many_hostile_scores_fit_too(hostile):
    assert len(render_markdown(build(hostile))) < LIMIT
