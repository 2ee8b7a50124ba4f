"""The map in CONTRIBUTING.md: every file that it names is there, once, in the folder under which it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import legendre

ROOT = Path(__file__).parents[1]
PACKAGE = Path(legendre.__file__).parent
GUIDE = ROOT / "CONTRIBUTING.md"
TEXT = GUIDE.read_text(encoding="utf-8")
FILE = re.compile(r"[\w/]+\.(?:py|html|css|js)\b|\b[\w/]+/(?=[\s,;:)]|$)")
LINE = re.compile(r"^    ( *)(\S.*?)(?:  +(.*))?$")


def section(title: str) -> str:
    """Return what stands between a heading and the next one."""
    return re.split(r"^#", TEXT.split(f"# {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def map_lines(text: str) -> Iterator[tuple[Path, str, str]]:
    """List the entries of a map: the folder in which each stands, by its indentation; its names; what is said of it."""
    folders: list[Path] = []
    for line in text.splitlines():
        found = LINE.match(line)
        if found is None:
            continue
        depth, names = len(found[1]) // 2, found[2]
        folder = PACKAGE if depth == 0 else folders[depth - 1]
        yield folder, names, found[3] or ""
        if names.endswith("/"):
            folders[depth:] = [folder / names]


def missing(text: str) -> list[str]:
    """List what a map names that is not there: beside its line, below it, or from the root of the package."""
    absent = []
    for folder, names, said in map_lines(text):
        absent += [name for name in names.split(", ") if not (folder / name).exists()]
        here = folder / names if names.endswith("/") else folder
        absent += [
            name for name in FILE.findall(said) if not any((at / name).exists() for at in (here, folder, PACKAGE))
        ]
    return absent


def test_every_file_of_the_map_is_there() -> None:
    assert len(list(map_lines(section("The map")))) > 150
    assert missing(section("The map")) == []


def test_every_package_and_folder_is_on_the_map() -> None:
    shown = {folder / names for folder, names, _ in map_lines(section("The map")) if names.endswith("/")}
    assert {path.parent for path in PACKAGE.rglob("*.py")} - shown == {PACKAGE}


def test_no_file_is_on_the_map_twice() -> None:
    every = [folder / name for folder, names, _ in map_lines(section("The map")) for name in names.split(", ")]
    assert len(every) == len(set(every))


def test_every_decision_has_its_file() -> None:
    lines = re.findall(r"^    (\S+\.py)  ", section("Where it is decided"), re.MULTILINE)
    assert len(lines) > 10
    assert [name for name in lines if not (PACKAGE / name).is_file()] == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"(?<![\w/>.])\w+(?:/\w+)+\.(?:py|md)\b", TEXT))))
def test_every_path_exists(name: str) -> None:
    assert (PACKAGE / name).is_file() or (ROOT / name).is_file()


@pytest.mark.parametrize(("path", "function"), re.findall(r"^    ([\w/]+\.py) +(_\w+)  ", TEXT, re.MULTILINE))
def test_every_function_that_is_named_with_its_file_is_in_it(path: str, function: str) -> None:
    assert f"def {function}(" in (PACKAGE / path).read_text(encoding="utf-8")


def test_every_file_says_in_its_first_line_what_it_is() -> None:
    """So that a file which the map leaves out can be understood by opening it."""
    assert [path for path in PACKAGE.rglob("*.py") if not path.read_text(encoding="utf-8").startswith('"""')] == []


def test_lines_are_short() -> None:
    assert [line for line in TEXT.splitlines() if len(line) > 120] == []


def test_the_check_sees_a_file_that_is_gone() -> None:
    text = "    core/      nothing\n      gone.py   with cells.py and lost.py\n      sums/   zeta.py, no.py\n"
    assert missing(text) == ["gone.py", "lost.py", "no.py"]
