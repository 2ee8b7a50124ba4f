"""The command line where the world is not as it should be: no text in names, no letters, no room, nobody who reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import legendre as ld

CODE = "import sys; sys.argv[0] = 'legendre'; from legendre.cli import main; main()"
PLAIN = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def command(*words: str | bytes, out: int = subprocess.PIPE, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command line in a process of its own."""
    path = os.pathsep.join([str(Path(ld.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", CODE, *words],
        env=os.environ | {"PYTHONPATH": path} | (env or {}),
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
    )
    return ended.returncode, (ended.stdout or b"").decode(), ended.stderr.decode()


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "fit.npz"
    ld.decompose(np.ones((3, 2)), "B1").save(path)
    return str(path)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are text there")
def test_compare_reads_a_file_name_that_is_no_text_on_a_terminal_without_letters(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/X\xff\xe9.npy"
    with open(name, "wb") as stream:  # noqa: PTH123
        np.save(stream, np.random.default_rng(0).random((3, 3)))
    folder = tmp_path / "out"
    code, out, err = command("compare", name, "--params", "4", "--no-peers", "--output", str(folder), env=PLAIN)
    assert (code, err) == (0, "")
    assert out.startswith("Errors by number of parameters")
    assert out.isascii()
    assert (folder / "compare.csv").is_file()


def test_a_missing_file_whose_name_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    code, _, err = command("show", os.fsencode(tmp_path) + b"/\xff.npz")
    assert code == 2
    assert err.startswith("legendre: cannot read ")
    assert err.endswith("\\udcff.npz: No such file or directory.\n")
    assert err.count("\n") == 1


def test_a_pipe_that_nobody_reads_ends_quietly(saved: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = command("show", saved, out=writer)
    os.close(writer)
    assert (code, err) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_sentence(saved: str) -> None:
    with Path("/dev/full").open("wb") as full:
        code, _, err = command("show", saved, out=full.fileno())
    assert (code, err) == (2, "legendre: cannot write: No space left on device.\n")
