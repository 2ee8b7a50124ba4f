"""Text files of tensors: the compiled reader against the grammar, the grammar against a dictionary; pyttb's files."""

from __future__ import annotations

import gzip
import io
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import legendre as ld
from legendre.cli.read import Asked
from legendre.cli.read import read_input as read_with_labels
from legendre.core import limits
from legendre.core.types import AnyArray
from legendre.data.readers import tns as blocks
from legendre.data.readers.tns_lines import LineFormat
from legendre.data.sparse_tensor import SparseTensor

pyttb = import_module("pyttb")


def as_dict(x: SparseTensor | AnyArray) -> dict[tuple[int, ...], float]:
    assert isinstance(x, SparseTensor)
    return dict(zip(map(tuple, x.cells.tolist()), x.values.tolist(), strict=True))


@pytest.fixture(params=["by_line", "compiled"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read small files by either reader, in blocks of a few bytes."""
    monkeypatch.setattr(limits, "COMPILED_TEXT", 1 if request.param == "compiled" else 1 << 60)
    monkeypatch.setattr(blocks, "BLOCK", 7)
    return str(request.param)


numbers = st.one_of(
    st.integers(0, 10**25).map(str),
    st.floats(0, 1e308).map(repr),
    st.floats(0, 1e308).map("{:.16e}".format),
    st.floats(0, 1e9).map("{:.6f}".format),
    st.builds("{}.{}e{}".format, st.integers(0, 10**20), st.integers(0, 10**9), st.integers(-40, 40)),
    st.sampled_from(["0", "-0", "+3", ".5", "5.", "1e+05", "3.0", "1E5", "0e0", "-0.0", "5e-324", "1e-400", "00012"]),
    st.sampled_from(["10000000000000000000", "0.10000000000000000000", "1000000000000000000000e-3"]),
    st.sampled_from(["9007199254740993", "9007199254740992", "0.1", "123456789012345678901234567890"]),
)
indices = st.one_of(st.integers(1, 40).map(str), st.sampled_from(["3.0", "1e1", "007", "+2", "12.00e0", "2."]))
blanks = st.sampled_from([" ", "\t", "  ", " \x0b", "\x0c"])


@st.composite
def texts(draw: st.DrawFn) -> tuple[int, list[tuple[list[str], str]], str]:
    """Draw entries and a file that lists them, with comments, blank lines and either line end."""
    order = draw(st.integers(1, 4))
    entries = draw(
        st.lists(st.tuples(st.lists(indices, min_size=order, max_size=order), numbers), min_size=1, max_size=12)
    )
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for cell, value in entries:
        lines.extend(draw(st.lists(st.sampled_from(["", "  ", "# 1 2 3", " #"]), max_size=1)))
        gaps = [draw(blanks) for _ in cell]
        tail = draw(st.sampled_from(["", "", " ", " # a comment", "#x"]))
        lines.append("".join(i + gap for i, gap in zip(cell, gaps, strict=True)) + value + tail)
    return order, entries, end.join(lines) + draw(st.sampled_from(["", end, end + end]))


@pytest.mark.uncompiled
@given(texts())
def test_the_compiled_reader_is_the_grammar(drawn: tuple[int, list[tuple[list[str], str]], str]) -> None:
    order, entries, text = drawn
    layout = LineFormat("f", order, 1, None, None, False, 1)
    for read in (blocks._by_line, blocks._compiled):
        cells, values = read(layout, 1, text.encode())
        assert cells.T.tolist() == [[int(float(i)) - 1 for i in cell] for cell, _ in entries]
        assert_array_equal(values, [float(value) for _, value in entries])  # to the last bit


@given(texts(), st.integers(1, 40))
def test_files_in_blocks_of_any_size(drawn: tuple[int, list[tuple[list[str], str]], str], size: int) -> None:
    """Blocks are whole lines, and all of them; their numbers are those of the file."""
    text = drawn[2].encode()
    source = blocks.Source(io.BytesIO(text), lambda: None, "x.tns")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", size)
        found = list(source.blocks())
    assert b"".join(block for _, block in found) == text
    for line, block in found:
        assert text.split(b"\n")[line - 1 : line - 1 + len(block.splitlines())] == block.removesuffix(b"\n").split(
            b"\n"
        )


@pytest.mark.usefixtures("reader")
def test_a_file_is_read_summed_and_sorted(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_text("# a comment\n\n2 3 1.5\n1 1 4\n2\t3 1e-1 # twice\n1 2 0\n\n")
    x = ld.read_tns(file)
    assert isinstance(x, SparseTensor)
    assert (x.shape, as_dict(x)) == ((2, 3), {(0, 0): 4.0, (1, 2): 1.6})
    assert (str(x.cells.dtype), str(x.values.dtype)) == ("uint8", "float64")
    wider = ld.read_tns(file, shape=(4, 5))
    assert (wider.shape, as_dict(wider)) == ((4, 5), as_dict(x))
    packed = tmp_path / "x.tns.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert as_dict(ld.read_tns(packed)) == as_dict(x)
    assert as_dict(ld.read_tns(str(file), progress=True)) == as_dict(x)
    file.write_bytes(b"\xef\xbb\xbf0 7 1\r\n3 0 2\r\n")
    assert as_dict(ld.read_tns(file, start=0)) == {(0, 7): 1.0, (3, 0): 2.0}


@pytest.mark.usefixtures("reader")
def test_headers(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_text("2\n4 5\n1 1 3\n")
    assert (ld.read_tns(file).shape, as_dict(ld.read_tns(file))) == ((4, 5), {(0, 0): 3.0})
    file.write_text("sptensor\n# sizes\n2\n4 5\n0\n")
    with pytest.raises(ld.errors.InvalidFile, match="holds no entry"):
        ld.read_tns(file)
    file.write_text("SPTENSOR \n2 \n4 5 \n1 \n2 5 3.5 \n")
    assert (ld.read_tns(file, (4, 5)).shape, as_dict(ld.read_tns(file))) == ((4, 5), {(1, 4): 3.5})
    with pytest.raises(
        ld.errors.InvalidFile, match=r"line 1: the file says that its shape is \(4, 5\); shape=\(4, 6\) was"
    ):
        ld.read_tns(file, (4, 6))


@pytest.mark.usefixtures("reader")
def test_what_pyttb_writes_is_read_back(tmp_path: Path, rng: np.random.Generator) -> None:
    dense = rng.random((3, 4, 2)) * rng.integers(0, 2, (3, 4, 2))
    file = tmp_path / "x.tns"
    pyttb.export_data(pyttb.tensor(dense).to_sptensor(), str(file))
    x = ld.read_tns(file)
    assert isinstance(x, SparseTensor)
    assert_array_equal(x.toarray(), dense)
    pyttb.export_data(pyttb.tensor(dense), str(file))
    full = ld.read_tns(file)
    assert isinstance(full, np.ndarray)
    assert_array_equal(full, dense)


def test_a_dense_file_may_have_missing_cells(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_text("tensor\n2\n2 2\n1 nan\n3 4 # all\n")
    assert_array_equal(ld.read_tns(file), [[1, 3], [np.nan, 4]])


BAD_FILES: dict[str, tuple[str, str]] = {
    "empty": ("", "holds no entry"),
    "only_comments": ("# nothing\n\n", "holds no entry"),
    "few": ("1 1 2\n1 2\n", "line 2: 2 fields; line 1 sets 2 indices and a value for every line"),
    "many": ("# x\n1 1 2\n\n1 2 3 4\n", "line 4: 4 fields; line 2 sets 2 indices and a value"),
    "zero": ("1 1 2\n1 0 2\n", "line 2: '0' in column 2 is not an index: they count from 1. For files .* start=0"),
    "below": ("1 1 2\n-1 1 2\n", "line 2: '-1' in column 1 is not an index: they count from 1"),
    "fraction": ("1 1 2\n1 1.5 2\n", "line 2: '1.5' in column 2 is not an index: indices are whole numbers from 1"),
    "exponent": ("1 1 1\n1e17 1 1\n", "line 2: '1e17' in column 1 is not an index"),
    "large_exponent": ("1 1 1\n1 1e22 1\n", "line 2: '1e22' in column 2 is not an index"),
    "inexact": ("9007199254740993.0 1\n", "line 1: '9007199254740993.0' in column 1 is not an index"),
    "enormous": ("9223372036854775808 1\n", "line 1: '9223372036854775808' in column 1 is too large"),
    "more_enormous": (f"1{'0' * 5000} 1\n", "line 1: '1000.*' in column 1 is not an index"),
    "negative": ("1 1 2\n1 1 -2\n", "line 2: the value '-2' is negative. .* every entry must be >= 0"),
    "nan": ("1 1 2\n1 1 NaN\n", "line 2: the value is NaN. .* Leave the line out"),
    "infinite": ("1 1 2\n1 1 inf\n", "line 2: the value 'inf' is infinite"),
    "overflow": ("1 1 2\n1 1 1e999\n1 1 1\n", "line 2: the value '1e999' is infinite"),
    "word": ("1 1 2\n1 x 2\n", "line 2: 'x' in column 2 is not a number"),
    "word_value": ("1 1 2\n1 1 2x\n", "line 2: '2x' in column 3 is not a number"),
    "half_exponent": ("1 1 2\n1 1 2e\n", "line 2: '2e' in column 3 is not a number"),
    "underscore": ("1 1 2\n1 1 1_0\n", "line 2: '1_0' in column 3 is not a number"),
    "commas": ("1,1,2\n", "line 1: '1,1,2' is not the number of modes"),
    "commas_later": ("1 1 2\n1,1,2\n", "line 2: 1 field; .* Fields are separated by spaces or tabs"),
    "comma": ("1 1 2\n1, 1 2\n", "line 2: '1,' in column 1 is not a number. Fields are separated by spaces or tabs"),
    "bytes": ("1 1 2\n1 1 \x00\n", "line 2: .*x00' in column 3 is not a number"),
    "header": ("i j value\n1 1 2\n", "line 1: starts with 'i', not with a number. .* commented out with #"),
    "matrix": ("matrix\n2\n2 2\n1 2 3 4\n", "line 1: a 'matrix' file cannot be read: programs disagree"),
    "ktensor": ("ktensor\n2\n2 2\n", "line 1: a 'ktensor' file cannot be read: it holds factors"),
    "no_order": ("sptensor\n", "line 1: the file ends after this header; the number of modes should follow"),
    "two_orders": ("sptensor\n2 3\n", "line 2: 2 fields; the number of modes stands here, alone"),
    "bad_order": ("sptensor\n0\n", "line 2: '0' is not the number of modes: an integer >= 1"),
    "no_sizes": ("sptensor\n2\n", "line 2: the file ends after this header; the 2 sizes should follow"),
    "few_sizes": ("sptensor\n2\n3\n", "line 3: 1 fields; line 2 says that there are 2 modes"),
    "bad_size": ("sptensor\n2\n3 x\n", "line 3: 'x' is not a size: an integer >= 1"),
    "bad_count": ("sptensor\n2\n3 3\n1 1 5\n", "line 4: 3 fields; the number of entries stands here, alone"),
    "cut_off": ("sptensor\n2\n3 3\n2\n1 1 5\n", "holds 1 entries; its header says 2. Is it cut off"),
    "outside": ("sptensor\n2\n3 3\n1\n1 4 5\n", "line 5: '4' in column 2: mode 1 has size 3, so .* from 1 to 3"),
    "fields": ("sptensor\n2\n3 3\n1\n1 4\n", "line 5: 2 fields; line 1 sets 2 indices and a value"),
    "dense_cut_off": ("tensor\n2\n2 2\n1\n2\n3\n", "holds 3 values; its header says 2 x 2 = 4"),
    "dense_word": ("tensor\n2\n2 2\n1\n2 x\n3\n", "line 5: 'x' in column 1 is not a number"),
    "dense_negative": ("tensor\n1\n2\n1\n-2\n", "line 5: the value '-2' is negative"),
}


@pytest.mark.usefixtures("reader")
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
    with pytest.raises(ld.errors.InvalidFile, match=r"line 1: 3 fields, .* shape=\(2,\) has 1 modes"):
        ld.read_tns(file, (2,))
    with pytest.raises(
        ld.errors.InvalidFile, match=r"line 1: '1' in column 1: mode 0 has size 1, so its indices run from 0 to 0"
    ):
        ld.read_tns(file, (1, 2), start=0)
    file.write_text("1 1 2\n1 1\n")
    with pytest.raises(ld.errors.InvalidFile, match=r"line 2: 2 fields; 2 indices and a value are expected"):
        ld.read_tns(file, (2, 2))
    with pytest.raises(ld.errors.InvalidSetting, match=r"shape must hold integers >= 1, one per mode; got \(0, 1\)"):
        ld.read_tns(file, (0, 1))
    with pytest.raises(ld.errors.InvalidSetting, match="start must be 0 or 1"):
        ld.read_tns(file, start=2)
    with pytest.raises(ld.errors.InvalidFile, match="No such file"):
        ld.read_tns(tmp_path / "y.tns")
    with pytest.raises(ld.errors.InvalidFile, match="directory"):
        ld.read_tns(tmp_path)
    whole = gzip.compress(b"1 1 2\n" * 1000)
    for damaged in (whole[:-20], whole[:12] + b"\xff" * 20 + whole[32:], whole[:-4] + b"1234"):
        file.write_bytes(damaged)
        with pytest.raises(ld.errors.InvalidFile, match=r"cannot read .*x\.tns"):
            ld.read_tns(file)


def read_input(path: Path, asked: Asked | None = None) -> Any:
    return read_with_labels(path, asked).X


@pytest.mark.parametrize(
    ("text", "line"),
    [(b"1 1 2.0\r2 2 3.0\r", 1), (b"1 1 2.0\n# note\r2 2 5.0\n2 1 1\n", 2), (b"1 1 2\n\n1 2 3\r1 1 1", 3)],
)
def test_a_carriage_return_within_a_line_is_refused(tmp_path: Path, text: bytes, line: int) -> None:
    """Else what follows is part of the line: of its comment, or an entry of five modes."""
    file = tmp_path / "x.tns"
    file.write_bytes(text)
    with pytest.raises(ld.errors.InvalidFile, match=rf"x\.tns, line {line}: a carriage return .* Convert the file\."):
        ld.read_tns(file)


def test_carriage_returns_before_the_end_of_a_line_are_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_bytes(b"1 1 2.0\r\n# note\r\r\n2 2 3.0\r")
    x = ld.read_tns(file)
    assert isinstance(x, ld.SparseTensor)
    assert x.values.tolist() == [2.0, 3.0]


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
    assert_array_equal(read_input(tmp_path / "coo.npz", Asked(variable="data")), coo.data)
    cube = scipy.sparse.coo_array(rng.integers(0, 2, (2, 3, 4)))
    scipy.sparse.save_npz(tmp_path / "cube.npz", cube)
    x = read_input(tmp_path / "cube.npz")
    assert isinstance(x, SparseTensor)
    assert_array_equal(x.toarray(), cube.toarray())
    (tmp_path / "dense.tns").write_text("tensor\n2\n1 2\n3 4\n")
    assert_array_equal(read_input(tmp_path / "dense.tns"), [[3, 4]])


def test_archives_that_are_refused(tmp_path: Path) -> None:
    good: dict[str, Any] = {"format": b"coo", "shape": [2, 2], "data": [1.0], "row": [0], "col": [1]}
    pydata: dict[str, Any] = {"coords": [[0], [1]], "shape": [2, 2], "data": [1.0], "fill_value": 0.0}
    for arrays, message in (
        ({**good, "format": b"lil"}, "its format is 'lil'; csr, csc, coo, bsr and dia can be read"),
        ({**good, "row": [7]}, "its parts do not fit together"),
        ({"format": b"csr", "shape": [2, 2], "data": [1.0]}, "its parts do not fit together"),
        ({**good, "shape": 3}, "its parts do not fit together"),
        ({**good, "data": [-1.0]}, r"X\.data\[0\] = -1, stored for X\[0, 1\]"),
        ({**pydata, "fill_value": 1.0}, "X has fill_value 1"),
        ({**pydata, "format": "coo", "fill_value": float("nan")}, "X has fill_value nan"),
        ({"format": b"csr", "shape": [2], "data": [1.0], "indices": [0], "indptr": [0, 1, 1]}, "cut the entries"),
        ({**pydata, "coords": [[0], [5]]}, r"X\.coords\[1\]\[0\] = 5: mode 1 has size 2"),
        ({**pydata, "data": [1.0, 2.0]}, r"X\.data has shape \(2,\)"),
    ):
        np.savez(tmp_path / "x.npz", **arrays)
        with pytest.raises(
            ld.errors.InvalidFile, match=rf"x\.npz holds a sparse array that cannot be read: .*{message}"
        ):
            read_input(tmp_path / "x.npz")


def test_what_pydata_sparse_itself_writes_is_refused_if_it_fills_with_a_number(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "x.npz", sparse.COO.from_numpy(np.array([[1.0, 2.0], [1.0, 1.0]]), fill_value=1.0))
    with pytest.raises(ld.errors.InvalidFile, match="X has fill_value 1"):
        read_input(tmp_path / "x.npz")


def test_reading_warns_of_nothing(tmp_path: Path) -> None:
    """A file beyond the threshold of the compiled reader, as users have them."""
    line = b"12 7 3 0.5\n"
    file = tmp_path / "x.tns"
    file.write_bytes(line * (limits.COMPILED_TEXT // len(line) + 10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = ld.read_tns(file)
    assert as_dict(x) == {(11, 6, 2): 0.5 * (limits.COMPILED_TEXT // len(line) + 10)}
