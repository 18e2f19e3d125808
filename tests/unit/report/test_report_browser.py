"""Saved reports opened in a real browser."""

from __future__ import annotations

import shutil

import pytest

from harness.report import build, render_html, write

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def browser():
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a summary's page; ``requests`` and ``complaints`` record what the page did."""
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def go(summary):
        path = write(summary, tmp_path / "report.html")
        page.goto(path.as_uri())
        return page, [url for url in requests if url != path.as_uri()], complaints

    yield go
    page.close()


def test_nothing_in_a_hostile_report_acts(opened, hostile):
    page, requests, complaints = opened(build(hostile))
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.wait_for_timeout(100)

    assert page.evaluate("window.pwned") is None
    assert page.locator("script, img, iframe, object, link, [onerror], [onload]").count() == 0
    assert requests == []
    assert complaints == []


def test_the_policy_stops_a_script_that_got_in_all_the_same(browser, result, tmp_path):
    path = tmp_path / "report.html"
    attack = "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'></body>"
    path.write_text(render_html(build(result)).replace("</body>", attack), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_timeout(100)

    assert page.locator("script").count() == 1
    assert page.evaluate("window.pwned") is None
    page.close()


def test_styles_hold_under_the_pages_own_policy(opened, result):
    page, requests, complaints = opened(build(result))

    assert page.evaluate("getComputedStyle(document.querySelector('.badge')).borderTopStyle") == "solid"
    assert requests == []
    assert complaints == []


def test_the_filter_hides_what_did_not_change(opened, result):
    page, _, _ = opened(build(result))
    page.check("#show-problems")

    assert page.locator(".case:visible").count() == 7
    page.check("#show-changed")
    assert page.locator(".case:visible").count() == 10


def test_the_page_fits_a_phone(opened, result):
    page, _, _ = opened(build(result))
    page.set_viewport_size({"width": 390, "height": 800})

    assert page.evaluate("document.documentElement.scrollWidth") == 390


CUT = """
[...document.querySelectorAll('.scroll')]
  .filter(box => box.querySelector('table') && box.scrollWidth > box.clientWidth + 1)
  .map(box => box.querySelector('caption').textContent)
"""
BROKEN = """
[...document.querySelectorAll('.stack td, .stack th')].filter(cell => {
  const range = document.createRange();
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode())
    for (const word of node.data.matchAll(/[A-Za-z]{2,12}/g)) {
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(one => Math.round(one.top))).size > 1) return true;
    }
  return false;
}).map(cell => cell.textContent)
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_table_is_cut_and_no_word_is_broken(opened, forked, width):
    page, _, complaints = opened(forked)
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")

    assert page.evaluate(CUT) == []
    assert page.evaluate(BROKEN) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert complaints == []


def test_a_phone_names_every_figure(opened, forked):
    page, _, _ = opened(forked)
    page.set_viewport_size({"width": 390, "height": 900})
    names = "[...document.querySelectorAll('.stack td[data-l]')].map(one => getComputedStyle(one, '::before').content)"

    assert {'"Candidate: "', '"Fork − recorded: "', '"Re-run: "', '"Calls: "'} <= set(page.evaluate(names))
    assert page.evaluate("getComputedStyle(document.querySelector('.stack thead')).position") == "absolute"


def test_what_a_fork_did_comes_before_its_scores(opened, forked):
    page, _, _ = opened(forked)

    heads = page.locator("h2").all_text_contents()
    assert heads[:5] == ["First divergence", "Steps", "Tools and chance", "Effect beside jitter", "Scores"]


def test_a_dark_screen_prints_on_white(opened, result):
    page, _, _ = opened(build(result))
    page.emulate_media(color_scheme="dark")
    look = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    dark = page.evaluate(look)
    page.emulate_media(color_scheme="dark", media="print")

    assert dark == ["rgb(21, 23, 26)", "rgb(230, 232, 234)"]
    assert page.evaluate(look) == ["rgb(255, 255, 255)", "rgb(28, 31, 35)"]


def test_a_thousand_cases_open(opened, large):
    page, requests, _ = opened(large)

    assert page.locator("details.case").count() == 1_000
    assert requests == []
