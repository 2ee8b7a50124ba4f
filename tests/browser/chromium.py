"""A real browser: chromium without a window, driven by Selenium, with a fresh profile and no network needed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

import legendre as ld

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,900",
)  # fmt: skip
NASTY = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 2'>"


class Browser:
    """Pages as a reader sees them."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1200, dark: bool = False) -> None:
        """Open a page from its file, in a window of some width, by a reader who likes it light or dark."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.command("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.command("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.driver.get(page.as_uri())

    def click(self, element: WebElement) -> None:
        """Click at what has been scrolled to the middle of the window."""
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def command(self, name: str, arguments: dict[str, Any]) -> None:
        self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )
        return found

    def picture(self, place: int) -> str:
        """Return what one of the three pictures of the slice viewer shows."""
        found: str = self.run("return document.querySelectorAll('#viewer canvas')[arguments[0]].toDataURL()", place)
        return found

    def complaints(self) -> list[dict[str, Any]]:
        """List what the console said since it was last asked."""
        found: list[dict[str, Any]] = self.driver.get_log("browser")
        return found

    def requests(self, page: Path) -> list[str]:
        """List the addresses that a page asked for since this was last asked."""
        entries: list[dict[str, Any]] = self.driver.get_log("performance")
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [event["request"]["url"] for event in sent if event["documentURL"] == page.as_uri()]


def programs() -> tuple[str, str]:
    """Find chromium and its driver; skip the test where they are missing, and fail it in CI."""
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        said = "chromium and chromedriver are not installed (on Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("LEGENDRE_CI") or os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    return chromium, driver


def started(profile: Path) -> Browser:
    """Start chromium with a fresh profile."""
    chromium, driver = programs()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Browser(webdriver.Chrome(options=options, service=Service(driver)))


def written_pages(folder: Path) -> dict[str, Path]:
    """Write pages of different kinds of results."""
    rng = np.random.default_rng(7)
    rows, columns = np.arange(9)[:, None, None], np.arange(12)[:, None]
    X = rng.poisson(4000.0 * np.exp(np.sin(rows / 3 + columns / 4) + np.arange(5) / 5))
    named: Any = {"names": ["station", "hour", "day"], "levels": {"day": ["Mon", "Tue", "Wed", "Thu", NASTY]}}
    fit = ld.decompose(X, "adaptive(24)", unordered=(), **named)
    fit.report(folder / "grown.html")
    fit.save(folder / "fit.npz")
    ld.load(folder / "fit.npz").report(folder / "loaded.html")
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    ld.complete(gaps, "interactions(2)").report(folder / "completed.html")
    ld.balance(X + 1.0).report(folder / "balanced.html")
    ld.complete(np.where(np.eye(6, 7) > 0, np.nan, np.arange(1.0, 43.0).reshape(6, 7))).report(folder / "smoothed.html")
    ld.decompose([1.0, 2.0, 4.0], "full").report(folder / "vector.html")
    ld.decompose(rng.random((2, 3, 2, 3)) + 0.1, "interactions(2)").report(folder / "four.html")
    return {page.stem: page for page in folder.glob("*.html")}
