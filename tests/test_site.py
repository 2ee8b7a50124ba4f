"""What `make docs` checks of the built site is found where it is wrong."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "check_links.py"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_links", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "guides").mkdir()
    (tmp_path / "dot.png").write_bytes(b"")
    (tmp_path / "index.html").write_text('<a href="guides/one.html#there">one</a><img src="dot.png">')
    (tmp_path / "guides" / "one.html").write_text('<h2 id="there">1</h2><a href="../index.html">back</a>')
    return tmp_path


def test_a_sound_site_has_no_faults(check: ModuleType, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.faults(site) == []
    assert check.main(str(site)) == 0
    assert capsys.readouterr().out == "2 pages: every link inside leads somewhere.\n"


@pytest.mark.parametrize(
    ("page", "added", "fault"),
    [
        ("index.html", '<a href="gone.html">x</a>', "index.html: gone.html is not there"),
        ("index.html", '<img src="gone.png">', "index.html: gone.png is not there"),
        (
            "index.html",
            '<a href="guides/one.html#no">x</a>',
            "guides/one.html#no names a place that is not on the page",
        ),
        ("two.html", '<a href="guides/one.html">x</a>', "two.html: no way back to the front page"),
        ("two.html", '<a href="index.html">x</a>', "two.html: no page leads to it"),
    ],
)
def test_faults_are_found(check: ModuleType, site: Path, page: str, added: str, fault: str) -> None:
    with (site / page).open("a") as file:
        file.write(added)
    assert any(fault in line for line in check.faults(site))
    assert check.main(str(site)) == 1


def test_addresses_elsewhere_are_not_looked_up(check: ModuleType, site: Path) -> None:
    with (site / "index.html").open("a") as file:
        file.write('<a href="https://example.org/x">x</a><a href="mailto:a@example.org">y</a>')
    assert check.faults(site) == []


def test_a_site_that_is_not_built_is_said(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(str(tmp_path)) == 1
    assert "run make docs first" in capsys.readouterr().err
