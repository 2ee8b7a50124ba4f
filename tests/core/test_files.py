"""Files are replaced whole, and only ordinary files are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from legendre.core.errors import InvalidFile
from legendre.core.files import numpy_file, replacing


def write(path: Path, content: bytes = b"new") -> None:
    with replacing(path) as stream:
        stream.write(content)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_the_mode_of_a_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFile, match="is not an ordinary file"):
        write(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "fit"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path) as stream:
            stream.write(b"half of it")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_long_names(tmp_path: Path) -> None:
    write(tmp_path / ("n" * 250))
    with pytest.raises(InvalidFile, match="File name too long"):
        write(tmp_path / ("n" * 300))


def test_what_is_no_numpy_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(9.0))
    whole = path.read_bytes()
    for content, message in [
        (b"", "or not a NumPy file"),
        (b"words", "or not a NumPy file"),
        (whole[:100], "damaged or truncated"),
        (whole[:-3], "damaged or truncated"),
        (whole.replace(b"(9,)", b"(-9,"), "damaged or truncated"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InvalidFile, match=message), numpy_file(path):
            pass
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidFile, match="damaged or truncated"), numpy_file(path):
        pass
