"""Hooks and the workflow of a public forge run the commands of the Makefile and of .ci/run, and no others."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

import legendre

ROOT = Path(__file__).parent.parent
MAKEFILE, HOOKS, WORKFLOW, SCRIPT = (
    ROOT / name for name in ("Makefile", ".pre-commit-config.yaml", ".github/workflows/ci.yml", ".ci/run")
)

pytestmark = pytest.mark.skipif(not MAKEFILE.is_file(), reason="only in a checkout")


def recipes() -> dict[str, list[str]]:
    """Read the commands of each target, with the default environment in place of $(BIN)."""
    found: dict[str, list[str]] = {}
    for line in MAKEFILE.read_text().splitlines():
        if target := re.match(r"([^\s#:]+):", line):
            name = target[1]
            found[name] = []
        elif line.startswith("\t") and found:
            found[name].append(line.strip().replace("$(BIN)", ".venv/bin"))
    return found


def made(text: str) -> list[str]:
    """List the targets that a text makes."""
    return re.findall(r"\bmake ([a-z-]+)", re.sub(r"#.*", "", text))


def test_hooks_are_the_commands_of_make_lint() -> None:
    entries = re.findall(r"entry: (.+)", HOOKS.read_text())
    assert entries == recipes()["lint"]
    assert "VENV ?= .venv\n" in MAKEFILE.read_text()


def test_hooks_look_at_the_whole_project_as_make_lint_does() -> None:
    text = HOOKS.read_text()
    assert text.count("pass_filenames: false") == text.count("language: system") == text.count("- id: ") == 3


@pytest.mark.parametrize(
    ("file", "targets"), [(WORKFLOW, ["test", "test"]), (SCRIPT, ["test", "docs", "test-browser", "demo"])], ids=str
)
def test_targets_that_are_made_exist(file: Path, targets: list[str]) -> None:
    assert made(file.read_text()) == targets
    assert set(targets) <= recipes().keys()


def test_the_workflow_runs_the_script_once_and_tests_every_supported_python() -> None:
    text = WORKFLOW.read_text()
    assert re.findall(r"command: (.+)", text) == ["bash .ci/run", "make test", "make test"]
    assert os.access(SCRIPT, os.X_OK)
    versions = re.findall(r'python: "(.+)"', text)
    assert versions == ["3.11", "3.12", "3.13"]
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert required == f">={versions[0]}"
    assert "secrets" not in text
    tried = re.search(r"SUPPORTED = \((.+)\)", (ROOT / "tools" / "test_matrix.py").read_text())
    assert tried is not None
    assert re.findall(r'"(.+?)"', tried[1]) == versions


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {legendre.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == legendre.__version__
