"""Files are replaced whole, and only ordinary files are."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from legendre.core.errors import InvalidFile
from legendre.core.files import numpy_file, read_arrays, replacing
from legendre.core.npz import checksum


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


def test_a_header_that_is_no_python_is_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.npy"
    np.save(path, np.ones(3))
    path.write_bytes(path.read_bytes().replace(b"{'descr'", b"(((((((("))
    with pytest.raises(InvalidFile, match="damaged or truncated"), numpy_file(path):
        pass


def npy(shape: str = "(3,)", dtype: str = "'<f8'") -> bytes:
    """Write three ones as NumPy does; the header may say something else."""
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + np.ones(3).tobytes()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("shape", ["(137438953472,)", "(-3,)", "(2.5,)", "('a',)", "3", "(True,)"])
def test_a_header_is_compared_with_the_bytes_before_room_is_made(shape: str, ending: str, tmp_path: Path) -> None:
    """A terabyte of zeros was a MemoryError."""
    content, path = npy(shape), tmp_path / f"x.{ending}"
    if ending == "npz":
        archive(path, x=content)
    else:
        path.write_bytes(content)
    with (
        pytest.raises(InvalidFile, match=r"cannot read .*x\.np.: damaged or truncated \(.* claims shape .*\)\.$"),
        numpy_file(path) as found,
    ):
        _ = found["x"]


def test_a_size_that_no_deflated_stream_can_have_is_refused(tmp_path: Path) -> None:
    """The directory of the zip file says how long a member is; that is no more than 1032 times its bytes."""
    path = archive(tmp_path / "x.npz", x=npy())
    content, size = path.read_bytes(), len(npy()).to_bytes(4, "little")
    at = content.rindex(size)
    path.write_bytes(content[:at] + (2**31).to_bytes(4, "little") + content[at + 4 :])
    with pytest.raises(InvalidFile, match=r"'x' claims 2,147,483,648 bytes, of which the file holds at most"):
        read_arrays(path)


def test_a_directory_that_has_lost_members_is_refused(tmp_path: Path) -> None:
    """One byte of the end of a zip file says how long its directory is; zipfile then lists the last members only."""
    path = archive(tmp_path / "x.npz", x=npy(), y=npy())
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x05\x06") + 12
    content[at] //= 2  # the two entries are of one length
    path.write_bytes(content)
    with zipfile.ZipFile(path) as left:
        assert left.namelist() == ["y.npy"]
    with pytest.raises(InvalidFile, match=r"the bytes from 0 to \d+ are of no part that its directory lists"):
        read_arrays(path)


def test_an_encrypted_archive_is_a_sentence(tmp_path: Path) -> None:
    """It was a RuntimeError."""
    path = archive(tmp_path / "x.npz", x=npy())
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"cannot read .*x\.npz: damaged or truncated \('x' is encrypted\)\."):
        read_arrays(path)


def test_other_archives_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("x.npy", npy())
    with pytest.raises(InvalidFile, match="'x' is compressed in a way that NumPy does not write"):
        read_arrays(path)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("x.npy", npy())
        with pytest.warns(UserWarning, match="Duplicate"):
            made.writestr("x.npy", npy())
    with pytest.raises(InvalidFile, match="it holds 'x' twice"):
        read_arrays(path)
    archive(path, x=npy() + b"more")
    with pytest.raises(InvalidFile, match="'x' is longer than it says"):
        read_arrays(path)
    archive(path, x=npy()[:-1])
    with pytest.raises(InvalidFile, match=r"'x' claims shape \(3,\) of float64, for which there are 23 bytes"):
        read_arrays(path)
    archive(path, x=b"no array")
    with pytest.raises(InvalidFile, match="damaged or truncated"):
        read_arrays(path)
    path.write_bytes(b"")
    with pytest.raises(InvalidFile, match="the file is empty"):
        read_arrays(path)
    for dtype, said in (("'<q9'", "dtype '<q9'"), ("'|O8'", "Python objects"), ("[('a', '<f8')]", "numbers or texts")):
        archive(path, x=npy(dtype=dtype))
        with pytest.raises(InvalidFile, match=said):
            read_arrays(path)


def test_one_wrong_byte_in_a_member_is_noticed(tmp_path: Path) -> None:
    """Every byte goes into the zip format's checksum before an array is handed out, whatever way it is stored."""
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "x.npz", x=np.arange(40.0))
        content = (tmp_path / "x.npz").read_bytes()
        first, last = content.index(b"x.npy") + 5, content.index(b"PK\x01\x02")
        for place in range(first + 24, last, 7):
            (tmp_path / "y.npz").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(InvalidFile):
                read_arrays(tmp_path / "y.npz")


def test_arrays_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = {
        "by_columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "text": np.array("words"),
        "no_text": np.array(""),
        "number": np.array(3),
        "none": np.empty((0, 3)),
        "swapped": np.arange(3, dtype=">i4"),
        "bits": np.array([True, False]),
    }
    np.savez(tmp_path / "x.npz", **written)  # type: ignore[arg-type]
    found = read_arrays(tmp_path / "x.npz")
    assert list(found) == list(written)
    for name, array in written.items():
        assert found[name].dtype == array.dtype
        assert found[name].flags.f_contiguous == array.flags.f_contiguous
        assert_array_equal(found[name], array)
    assert checksum(found) == checksum(written)
    assert checksum(found) != checksum({**written, "number": np.array(4)})
