"""The HTML page, as text; ``test_report_browser`` opens it."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from harness.report import build, render_html

OURS = {
    "a", "b", "body", "caption", "circle", "code", "dd", "del", "details", "div", "dl", "dt", "fieldset", "figcaption",
    "figure", "footer", "h1", "h2", "h3", "h4", "head", "header", "html", "i", "input", "ins", "label", "legend", "li",
    "line", "main", "meta", "ol", "p", "pre", "rect", "section", "span", "strong", "style", "summary", "svg", "table",
    "tbody", "td", "text", "th", "thead", "title", "tr", "ul", "wbr",
}  # fmt: skip
VOID = {"meta", "input", "br", "wbr"}


class Page(HTMLParser):
    """Tags, attributes and text; checks that tags are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in {"href", "src"}:
                self.links.append(value)
            if name == "id":
                self.ids.append(value)
        if tag not in VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page(result):
    return Page(render_html(build(result)))


def test_the_page_is_well_formed_and_all_links_lead_somewhere(page):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)


def test_the_page_loads_nothing_and_runs_nothing(page):
    assert page.tags <= OURS
    assert not [name for name in page.attributes if name.startswith("on") or name in {"style", "src", "srcset"}]


def test_the_policy_allows_only_the_pages_own_style(result):
    html = render_html(build(result))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(styles[0].encode()).digest()).decode()

    assert len(styles) == 1
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_hostile_text_stays_text_in_every_field(hostile, hostile_strings):
    html = render_html(build(hostile))
    page = Page(html)
    text = "".join(page.text)

    assert page.tags <= OURS
    assert page.open == []
    assert all(link.startswith("#case-") for link in page.links)
    assert not [name for name in page.attributes if name.startswith("on") or name == "src"]
    for one in hostile_strings[:7]:
        assert one in text
    assert "49" not in re.findall(r"<b>x</b>(\d+)", text)
    assert not set(text) & {"\x1b", "\x00", "\u202e", "\u200b"}


def test_each_case_says_what_became_of_it(page):
    text = " ".join("".join(page.text).split())

    assert "wrong-item output differs, lowered the score, first at draft" in text
    assert "angry-third-mail recording missing" in text
    assert "▶ draft run, differs, first divergence" in text
    assert "what would have been sent" in text
    assert "wrong-item@example.org" in text
    assert "Differs at $.reply (text)" in text
    assert "Recording missing. draft: POST /chat/completions was never recorded" in text


def test_plots_are_drawn_for_scores_and_cases(result):
    html = render_html(build(result))

    assert html.count('class="band"') == 2, "a margin for each compared scorer"
    assert html.count('<circle class="down"') == 4 + 7, "lowered cases of both scorers"
    assert 'aria-label="Tokens: 6,592 spent, 30,464 saved"' in html


def test_an_experiment_without_trials_has_a_page(equal):
    empty = replace(equal, trials=(), scores=(), verdicts={}, checks=(), verdict="not_measurable", exit_code=130)

    assert "interrupted" in render_html(build(empty))


def test_a_thousand_cases_stay_small(large):
    html = render_html(large)

    assert len(html) < 4_000_000
    assert html.count('<details class="case') == 1_000
    assert "The report is bounded" in html
