"""The report page in a browser: nothing is loaded, nothing complains, and every control does what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import NASTY, Browser, started, written_pages
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PAGES = ["grown", "loaded", "completed", "balanced", "smoothed", "vector", "four"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = started(tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return written_pages(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1200])
def test_pages_open_without_a_complaint_and_ask_for_nothing(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.complaints(), browser.requests(pages[name])
    browser.open(pages[name], width=width)
    assert browser.complaints() == []
    assert [url for url in browser.requests(pages[name]) if not url.startswith("data:")] == [pages[name].as_uri()]
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.run("return window.innerWidth") == width


def test_labels_are_text_whatever_they_say(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["grown"])
    assert browser.run("return window.stolen") is None
    assert browser.run("return document.images.length") == 0
    slider = browser.driver.find_element(By.ID, "slice")
    slider.send_keys(Keys.END)
    assert browser.texts("#viewer output")[0] == NASTY[:24] + " ... " + NASTY[-12:]
    assert browser.complaints() == []


def test_the_slider_changes_the_slice(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["grown"])
    slider = browser.driver.find_element(By.ID, "slice")
    slider.send_keys(Keys.HOME)
    assert browser.texts("#viewer output") == ["Mon"]
    before = [browser.picture(k) for k in range(3)]
    slider.send_keys(Keys.ARROW_RIGHT)
    assert browser.texts("#viewer output") == ["Tue"]
    assert slider.get_attribute("aria-valuetext") == "day Tue"
    assert all(browser.picture(k) != before[k] for k in range(3))
    slider.send_keys(Keys.ARROW_LEFT)
    assert [browser.picture(k) for k in range(3)] == before


def test_single_cells_are_read_with_the_arrow_keys(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["four"])
    picture = browser.driver.find_element(By.CSS_SELECTOR, "#viewer .map")
    browser.run("arguments[0].focus()", picture)
    first = browser.texts("#reading")[0]
    assert "X − Q" in first
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert browser.texts("#reading")[0] != first
    ActionChains(browser.driver).send_keys(Keys.ARROW_LEFT).perform()
    assert browser.texts("#reading")[0] == first
    assert browser.run("return getComputedStyle(arguments[0]).outlineStyle", picture) == "solid"


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def test_the_table_of_parameters_sorts(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["grown"])
    more = browser.driver.find_element(By.CSS_SELECTOR, "#parameter-table .more")
    browser.click(more)
    buttons = browser.driver.find_elements(By.CSS_SELECTOR, "#parameter-table thead button")
    heads = browser.driver.find_elements(By.CSS_SELECTOR, "#parameter-table thead th")
    for column in (0, 2, 3, 4):
        for order, sign in (("descending", -1.0), ("ascending", 1.0)):
            buttons[column].send_keys(Keys.ENTER)  # by keyboard
            values = [number(t) for t in browser.texts(f"#parameter-table td:nth-child({column + 1})")]
            assert len(values) == 24
            assert values == sorted(values, key=lambda v: sign * v)
            assert heads[column].get_attribute("aria-sort") == order
    browser.click(buttons[1])
    names = browser.texts("#parameter-table td:nth-child(2)")
    assert names[0].startswith("day")
    assert heads[4].get_attribute("aria-sort") is None


@pytest.mark.parametrize("dark", [False, True])
def test_colours_follow_the_reader_and_can_be_changed(browser: Browser, pages: dict[str, Path], dark: bool) -> None:
    browser.open(pages["grown"], dark=dark)
    ground = "return getComputedStyle(document.body).backgroundColor"
    light, night = "rgb(246, 245, 242)", "rgb(17, 20, 24)"
    assert browser.run(ground) == (night if dark else light)
    residuals, maps = browser.picture(2), browser.picture(0)
    browser.click(browser.driver.find_element(By.ID, "theme"))
    assert browser.run(ground) == (light if dark else night)
    assert browser.picture(2) != residuals  # white in the middle becomes black
    assert browser.picture(0) == maps
    assert browser.texts("#theme") == ["Dark" if dark else "Light"]


def test_effects_and_path_are_drawn(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["grown"])
    assert [text.split()[0] for text in browser.texts("#effect-lines h3")] != []
    curves = browser.run("return document.querySelectorAll('#effect-lines svg .curve, #effect-lines svg .dot').length")
    assert curves > 3
    assert browser.run("return document.querySelectorAll('#path-charts svg .chosen').length") == 3
    assert any("24 parameters" in text for text in browser.texts("#path-charts figcaption"))
    line = browser.driver.find_element(By.CSS_SELECTOR, "#effect-lines svg")
    browser.run("arguments[0].focus()", line)
    ActionChains(browser.driver).send_keys(Keys.ARROW_LEFT).perform()
    assert "×" in browser.texts("#effect-lines figcaption")[0]


def test_a_fit_from_a_file_says_that_x_is_not_there(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["loaded"])
    assert "does not hold X" in browser.texts("#slices p")[0]
    assert browser.texts("nav a[href='#residuals']") == []
    assert browser.texts("#residuals") == []
    assert len(browser.texts("#parameter-table tbody tr")) == 10


def test_cells_that_were_not_observed_are_grey(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["completed"])
    grey = browser.run(
        """const c = document.querySelector('#viewer canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i] === 214 && d[i + 1] === 212 && d[i + 2] === 206;
        return n"""
    )
    assert 0 < grey < 40


@pytest.mark.parametrize("name", PAGES)
def test_no_text_of_a_chart_is_cut_off(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    outside = """return [...document.querySelectorAll("main svg text")].filter((text) => {
        const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
        return box.x < -1 || box.x + box.width > view.width + 1;
    }).map((text) => text.textContent)"""
    assert browser.run(outside) == []
