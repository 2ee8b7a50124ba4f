"""The reference of the site has a page for every public name, and each has an example and a See Also section."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import legendre as ld

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def public() -> dict[str, object]:
    """List what users reach: the names of the package, and those of its public submodules."""
    found: dict[str, object] = {}
    for name in ld.__all__:
        value = getattr(ld, name)
        if isinstance(value, ModuleType):
            found |= {f"{name}.{inner}": getattr(value, inner) for inner in value.__all__}
        else:
            found[name] = value
    return found


PUBLIC = public()


def listed(page: Path) -> list[str]:
    """List the names for which a page of the reference generates pages, without ``legendre.``."""
    text = page.read_text()
    module = re.findall(r"^\.\. currentmodule:: (\S+)$", text, re.MULTILINE)
    names = re.findall(r"^   ([A-Za-z]\w*)$", text.split("currentmodule", 1)[-1], re.MULTILINE)
    return [f"{module[0]}.{name}".removeprefix("legendre.") for name in names] if module else []


def test_every_public_name_has_a_page_and_only_one() -> None:
    pages = {page.stem: listed(page) for page in REFERENCE.glob("*.rst")}
    del pages["plot"]  # classes that users reach as `fit.plot`
    assert sorted(name for names in pages.values() for name in names) == sorted({*PUBLIC} - TWICE)


# errors that are names of the package, too: their page is among the other errors
TWICE = {"ConvergenceWarning", "LegendreError"}


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_have_an_example_and_lead_on(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name])
    assert text is not None
    assert "Examples\n--------\n" in text, f"legendre.{name} has no section Examples"
    assert ">>> " in text.split("Examples\n--------\n")[1]
    assert text.count("See Also\n--------\n") == 1, f"legendre.{name} needs one section See Also"
    section = text.split("See Also\n--------\n")[1].split("\n\n")[0]
    for line in section.splitlines():
        target, _, said = line.partition(" : ")
        assert target.removeprefix("legendre.") in PUBLIC, f"legendre.{name}: See Also names {target!r}"
        assert said.endswith("."), line
