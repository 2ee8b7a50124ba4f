"""Text files of tensors against a dictionary; sparse archives of SciPy and pydata/sparse."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sparse
from numpy.testing import assert_array_equal

import legendre as ld
from legendre.cli.readers import Options, read_input
from legendre.data.sparse_tensor import SparseTensor


def as_dict(x: SparseTensor) -> dict[tuple[int, ...], float]:
    return dict(zip(map(tuple, x.cells.tolist()), x.values.tolist(), strict=True))


def test_a_file_is_read_summed_and_sorted(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_text("# a comment\n\n2 3 1.5\n1 1 4\n2\t3 1e-1 # twice\n1 2 0\n\n")
    x = ld.read_tns(file)
    assert (x.shape, as_dict(x)) == ((2, 3), {(0, 0): 4.0, (1, 2): 1.6})
    assert (str(x.cells.dtype), str(x.values.dtype)) == ("uint8", "float64")
    wider = ld.read_tns(file, shape=(4, 5))
    assert (wider.shape, as_dict(wider)) == ((4, 5), as_dict(x))
    packed = tmp_path / "x.tns.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert as_dict(ld.read_tns(packed)) == as_dict(x)
    file.write_bytes(b"\xef\xbb\xbf1 8 1\r\n4 1 2\r\n")
    assert as_dict(ld.read_tns(file)) == {(0, 7): 1.0, (3, 0): 2.0}


BAD_FILES: dict[str, tuple[str, str]] = {
    "only_comments": ("# nothing\n\n", "holds no entry"),
    "few": ("1 1 2\n1 2\n", "the number of columns changed from 3 to 2 at row 2"),
    "zero": ("1 1 2\n1 0 2\n", "counted from 0, the index of mode 1 is -1 in entry 1; it must"),
    "fraction": (
        "1 1 2\n1 1.5 2\n",
        "the index of mode 1 is 0.5 in entry 1. Indices are whole numbers",
    ),
    "negative": ("1 1 2\n1 1 -2\n", r"values\[1\] = -2, .* every entry must be finite and >= 0"),
    "nan": ("1 1 2\n1 1 NaN\n", r"values\[1\] = nan, .* Leave the entry out"),
    "word": ("1 1 2\n1 x 2\n", "could not convert string 'x' to float64 at row 1, column 2"),
    "comma": ("1 1 2\n1, 1 2\n", "could not convert string '1,' .* separated by whitespace"),
    "header": ("2\n4 5\n1 1 3\n", "the number of columns changed from 1 to 2 at row 2.* Leave a header out"),
    "toolbox": ("sptensor\n2\n4 5\n1\n1 1 3\n", "could not convert string 'sptensor' .* Leave a header out"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name: str, tmp_path: Path) -> None:
    text, message = BAD_FILES[name]
    file = tmp_path / "x.tns"
    file.write_text(text)
    with pytest.raises(ld.errors.InvalidFile, match=rf"x\.tns.*{message}"):
        ld.read_tns(file)


def test_bad_arguments_and_damaged_files(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_text("1 1 2\n")
    with pytest.raises(
        ld.errors.InvalidFile, match=r"shape must hold an integer >= 1 for each of the 2 modes of the cells; got \(2,\)"
    ):
        ld.read_tns(file, (2,))
    with pytest.raises(ld.errors.InvalidFile, match=r"shape must hold an integer >= 1 .* got \(0, 1\)"):
        ld.read_tns(file, (0, 1))
    with pytest.raises(ld.errors.InvalidFile, match=r"y\.tns not found"):
        ld.read_tns(tmp_path / "y.tns")
    with pytest.raises(ld.errors.InvalidFile, match="directory"):
        ld.read_tns(tmp_path)
    whole, file = gzip.compress(b"1 1 2\n" * 1000), tmp_path / "x.tns.gz"
    for damaged in (whole[:-20], whole[:12] + b"\xff" * 20 + whole[32:], whole[:-4] + b"1234"):
        file.write_bytes(damaged)
        with pytest.raises(ld.errors.InvalidFile, match=r"cannot read .*x\.tns"):
            ld.read_tns(file)


def test_the_command_line_reads_them_all(tmp_path: Path, rng: np.random.Generator) -> None:
    dense = rng.integers(0, 3, (4, 5)).astype(float)
    dense[-1, -1] = 2.0
    coo = scipy.sparse.coo_array(dense)
    entries = zip(*coo.coords, coo.data, strict=True)
    text = "".join(f"{i + 1} {j + 1} {value}\n" for i, j, value in entries)
    (tmp_path / "a.tns").write_text(text)
    (tmp_path / "b.TNS.gz").write_bytes(gzip.compress(text.encode()))
    for kind in ("coo", "csr", "csc", "bsr", "dia"):
        scipy.sparse.save_npz(tmp_path / f"{kind}.npz", coo.asformat(kind))
    scipy.sparse.save_npz(tmp_path / "old.npz", scipy.sparse.csr_matrix(dense))
    sparse.save_npz(tmp_path / "pydata.npz", sparse.COO.from_numpy(dense))
    for file in sorted(tmp_path.iterdir()):
        x = read_input(file)
        assert isinstance(x, SparseTensor), file
        assert_array_equal(x.toarray(), dense)
    assert_array_equal(read_input(tmp_path / "coo.npz", Options(variable="data")), coo.data)
    cube = scipy.sparse.coo_array(rng.integers(0, 2, (2, 3, 4)))
    scipy.sparse.save_npz(tmp_path / "cube.npz", cube)
    x = read_input(tmp_path / "cube.npz")
    assert isinstance(x, SparseTensor)
    assert_array_equal(x.toarray(), cube.toarray())


def test_archives_that_are_refused(tmp_path: Path) -> None:
    good: dict[str, Any] = {"format": b"coo", "shape": [2, 2], "data": [1.0], "row": [0], "col": [1]}
    for arrays in (
        {**good, "format": b"lil"},
        {**good, "row": [7]},
        {**good, "shape": 3},
        {"format": b"csr", "shape": [2, 2], "data": [1.0]},
        {"format": b"csr", "shape": [2, 2], "data": [1.0], "indices": [9], "indptr": [0, 1, 1]},
    ):
        np.savez(tmp_path / "x.npz", **arrays)
        with pytest.raises(ld.errors.InvalidFile, match=r"cannot read .*x\.npz: "):
            read_input(tmp_path / "x.npz")


def test_what_pydata_sparse_itself_writes_is_refused_if_it_fills_with_a_number(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.COO.from_numpy(np.array([[1.0, 2.0], [1.0, 1.0]]), fill_value=1.0))
    with pytest.raises(ld.errors.InvalidFile, match="cells that are not listed are 1"):
        read_input(tmp_path / "x.npz")
