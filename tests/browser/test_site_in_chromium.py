"""The built site in a browser: nothing complains, every picture is there, no page is wider than the window.

`make docs` builds it; without that these tests are skipped, or fail where LEGENDRE_CI is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, started
from selenium.webdriver.common.by import By

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = sorted(page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html") if "_static" not in page.parts)
# of each kind of page one or two, to be looked at in every width and colour
KINDS = [
    "index.html", "start/five-minutes.html", "start/calls.html", "guides/effects.html", "guides/balancing.html",
    "background/results.html", "gallery/index.html", "gallery/events/flights.html", "reference/index.html",
    "reference/generated/legendre.decompose.html", "search.html", "genindex.html",
]  # fmt: skip
# pages of the reference are made from one template: one in eight is opened, while links and files are checked of all
GENERATED = [page for page in PAGES if page.startswith("reference/generated/")]
OPENED = sorted({*PAGES} - {*GENERATED} | {*GENERATED[::8], *KINDS} & {*PAGES})
BROKEN = "return [...document.images].filter((i) => i.complete && i.naturalWidth === 0).map((i) => i.src)"
LAZY = "for (const i of document.images) i.loading = 'eager'"
# elements of the text that stick out of the window, unless something smaller than the article around them scrolls
WIDE = """return [...document.querySelectorAll('main *')].filter((e) => {
    const box = e.getBoundingClientRect();
    if (box.width === 0 || box.right <= window.innerWidth + 1) return false;
    for (let up = e; up && !up.matches('.bd-article-container'); up = up.parentElement)
        if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return false;
    return true;
}).map((e) => e.tagName + ' ' + e.className + ': ' + e.textContent.slice(0, 60))"""

# calls in tables that are broken within a word
CUT = """return [...document.querySelectorAll('main td code .pre')]
    .filter((e) => /^[\\w.()]+$/.test(e.textContent) && e.getClientRects().length > 1).map((e) => e.textContent)"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (SITE / "index.html").is_file():
        said = f"{SITE} is not there: run make docs first"
        if os.environ.get("LEGENDRE_CI"):
            pytest.fail(said)
        pytest.skip(said)
    found = started(tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


def faults(browser: Browser, page: str) -> list[str]:
    """List what is wrong with the page that is open."""
    found = [f"{page}: {entry['message']}" for entry in browser.complaints() if entry["level"] in ("WARNING", "SEVERE")]
    browser.run(LAZY)
    found += [f"{page}: no picture at {source}" for source in browser.run(BROKEN)]
    if not browser.run("return document.documentElement.scrollWidth <= window.innerWidth"):
        found.append(f"{page}: wider than the window")
    return found + [f"{page}: sticks out: {what}" for what in browser.run(WIDE)]


@pytest.mark.parametrize(("width", "dark", "pages"), [(390, True, OPENED), (1200, False, KINDS)], ids=["phone", "desk"])
def test_pages_open(browser: Browser, width: int, dark: bool, pages: list[str]) -> None:
    browser.complaints()
    wrong: list[str] = []
    for page in pages:
        browser.open(SITE / page, width=width, dark=dark)
        wrong += faults(browser, page)
        if browser.run("return document.querySelector('a.navbar-brand') === null"):
            wrong.append(f"{page}: no way back to the front page")
        wrong += [f"{page}: {call} is broken in two" for call in browser.run(CUT)]
    assert wrong == []
    assert len(PAGES) > 100


def test_the_search_finds_a_name(browser: Browser) -> None:
    browser.open(SITE / "search.html")
    browser.driver.get((SITE / "search.html").as_uri() + "?q=decompose")
    browser.driver.implicitly_wait(5)
    assert browser.driver.find_elements(By.CSS_SELECTOR, "#search-results a[href*='decompose']")
    browser.driver.implicitly_wait(0)
