"""Sparse input: every door against a dictionary of cells, other libraries' dense forms, and what is refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import legendre as ld
from legendre.core.cells import index_type
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.sparse_tensor import SparseTensor

pyttb = import_module("pyttb")
NAN, INF = float("nan"), float("inf")
HUGE = 2**62
Entries = list[tuple[tuple[int, ...], float]]


def as_dict(x: SparseTensor) -> dict[tuple[int, ...], float]:
    return dict(zip(map(tuple, x.cells.tolist()), x.values.tolist(), strict=True))


def levels_of(x: SparseTensor) -> list[list[Any] | None]:
    return [None if own is None else own.tolist() for own in x.levels or ()]


def check_form(x: SparseTensor) -> None:
    """Check what every reader promises of its list."""
    cells = list(map(tuple, x.cells.tolist()))
    assert cells == sorted(set(cells))
    assert x.cells.shape == (x.nnz, len(x.shape))
    assert x.cells.dtype == index_type(x.shape)
    assert all(x.cells[:, k].flags.c_contiguous for k in range(len(x.shape)))
    assert not x.cells.flags.writeable
    assert not x.values.flags.writeable
    assert x.values.dtype in (np.float64, np.int64)
    assert (x.values > 0).all()
    assert all(0 <= i < size for cell in cells for i, size in zip(cell, x.shape, strict=True))


@st.composite
def lists(draw: st.DrawFn, most_modes: int = 5) -> tuple[tuple[int, ...], Entries]:
    """Draw a shape, sizes up to 2^62, and entries: few distinct cells, so that some repeat; some values 0."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 300, 70_000, 2**33, HUGE]), min_size=1, max_size=most_modes)))
    # few indices per mode: cells that differ in one mode only are the hard ones
    some = [st.sampled_from(sorted({0, size // 2, size - 1})) for size in shape]
    cells = draw(st.lists(st.tuples(*some), min_size=1, max_size=8))
    values = st.sampled_from([0.0, 0.25, 1.0, 3.0, 1e-300])
    return shape, draw(st.lists(st.tuples(st.sampled_from(cells), values), min_size=1, max_size=30))


def summed(entries: Entries) -> dict[tuple[int, ...], float]:
    """Add in the order of the list: the definition."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for cell, value in entries:
        found[cell] += value
    return {cell: value for cell, value in found.items() if value > 0}


@given(lists())
def test_lists_are_summed_and_sorted(drawn: tuple[tuple[int, ...], Entries]) -> None:
    shape, entries = drawn
    cells, values = np.array([cell for cell, _ in entries]), np.array([value for _, value in entries])
    expected = summed(entries)
    for given_cells in (cells, np.asfortranarray(cells), tuple(cells.T), cells.tolist(), cells.astype(object).tolist()):
        x = ld.from_coords(given_cells, values, shape)
        check_form(x)
        assert x.shape == shape
        assert as_dict(x).keys() == expected.keys()
        assert [as_dict(x)[cell] for cell in expected] == pytest.approx(list(expected.values()), rel=1e-15)
    counted = ld.from_coords(cells, shape=shape)
    check_form(counted)
    assert counted.values.dtype == np.int64
    assert as_dict(counted) == Counter(cell for cell, _ in entries)
    smallest = ld.from_coords(cells, values)
    assert smallest.shape == tuple(int(i) + 1 for i in cells.max(axis=0))
    assert as_dict(smallest) == as_dict(x)


@given(st.integers(0, 2**32 - 1), st.integers(1, 130))
def test_as_many_modes_as_you_like(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    pool = np.tile(rng.integers(0, 3, order, dtype=np.int8), (5, 1))
    pool[range(5), rng.integers(0, order, 5)] = rng.integers(0, 3, 5)  # rows that differ in one mode or two
    rows = pool[rng.integers(0, 5, 40)]
    x = ld.from_coords(rows, shape=(3,) * order)
    check_form(x)
    assert x.cells.dtype == np.uint8
    assert as_dict(x) == Counter(map(tuple, rows.tolist()))
    assert x.n_cells == 3**order


def test_integers_stay_integers_and_do_not_overflow() -> None:
    small = ld.from_coords([[0], [0], [1]], np.array([200, 100, 7], dtype=np.uint8))
    assert (str(small.values.dtype), small.values.tolist()) == ("int64", [300, 7])
    large = ld.from_coords([[0], [0]], np.array([2**63, 2**63], dtype=np.uint64))
    assert (str(large.values.dtype), large.values.tolist()) == ("float64", [2.0**64])
    assert ld.from_coords([[0]], np.array([0.5], dtype=np.float32)).values.dtype == np.float64


def test_what_is_passed_is_copied_and_left_alone() -> None:
    cells, values = np.array([[1, 0], [0, 1]], dtype=np.uint8), np.array([1.0, 2.0])
    ordered = np.asfortranarray(cells[::-1])
    x = ld.from_coords(ordered, values)
    ordered[:], values[:] = 0, 9.0
    assert as_dict(x) == {(0, 1): 1.0, (1, 0): 2.0}
    ld.from_coords(cells)
    assert cells.tolist() == [[1, 0], [0, 1]]


def test_an_empty_list_is_the_zero_tensor_of_its_shape() -> None:
    for x in (
        ld.from_coords(np.empty((0, 2), dtype=int), shape=(2, 3)),
        ld.from_coords([[0, 1]], [0.0], shape=(2, 3)),
        as_sparse_tensor(scipy.sparse.coo_array((2, 3))),
    ):
        assert x is not None
        check_form(x)
        assert (x.nnz, x.shape) == (0, (2, 3))
        assert x.toarray().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_large_grids_are_not_written_out() -> None:
    x = ld.from_coords([[0, 2**31]])
    assert repr(x) == "SparseTensor: 1 entry > 0 of 2,147,483,649 cells (1 x 2147483649), int64"
    with pytest.raises(ld.errors.InvalidQuery, match=r"2,147,483,649 cells .* too large for a dense array: the limit"):
        x.toarray()
    with pytest.raises(ld.errors.InvalidQuery, match="33 modes"):
        ld.from_coords(np.zeros((1, 33), dtype=int)).toarray()


def test_a_sparse_tensor_is_saved_and_loaded(tmp_path: Path) -> None:
    x = ld.from_rows({"day": ["Mon", "Tue", "Mon"], "n": [7, 8, 8]})
    ld.save(x, tmp_path / "x.npz")
    again = ld.load(tmp_path / "x.npz")
    check_form(again)
    assert (as_dict(again), again.names, levels_of(again)) == (as_dict(x), x.names, levels_of(x))


BAD_LISTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "negative": (
        ([[0, 1], [1, 0]], [1.0, -2.0]),
        r"values\[1\] = -2, the value of cell \[1, 0\]\. .* be finite",
    ),
    "nan": (
        ([[0, 1]], [NAN]),
        r"values\[0\] = nan, .* a list cannot say which cells are missing\. Leave the entry out",
    ),
    "too_few": (([[4], [3]], [1.0]), r"values has shape \(1,\); it must hold 2 numbers"),
    "below": (([[0, 1], [1, -3]],), r"cells: the index of mode 1 is -3 in entry 1; it must lie between 0 and"),
    "above": (
        ([[0, 1], [1, 5]], None, (2, 3)),
        r"the index of mode 1 is 5 in entry 1; it must lie between 0 and 2",
    ),
    "names": (([["a"]],), r"the index of mode 0 has dtype <U1; indices are integers .* read by legendre\.from_rows"),
    "one_dimension": (([0, 1, 2],), r"cells has shape \(3,\); it needs one row per entry .*reshape\(-1, 1\)"),
    "ragged_columns": ((([0, 1], [2]),), r"their shapes are \(2,\), \(1,\)\. For rows pass a list or array"),
    "transposed": (
        ([[0, 1, 2], [0, 1, 2]], [1, 1, 1]),
        r"values has shape \(3,\); it must hold 2 numbers",
    ),
    "nothing": ((np.empty((0, 2), dtype=int),), r"the list of cells is empty and does not determine the shape"),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_bad_lists(name: str) -> None:
    arguments, message = BAD_LISTS[name]
    with pytest.raises(ld.errors.InvalidTensor, match=message):
        ld.from_coords(*arguments)


def _of_pydata(X: Any, kind: str) -> Any:
    return sparse.COO.from_numpy(X).asformat(kind)


FORMS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{kind}_{form}": getattr(scipy.sparse, f"{kind}_{form}")
        for kind in ("coo", "csr", "csc", "bsr", "dia", "dok", "lil")
        for form in ("array", "matrix")
    },
    **{kind: partial(_of_pydata, kind=kind) for kind in ("coo", "gcxs", "dok")},
    "pyttb": lambda X: pyttb.tensor(X.astype(float)).to_sptensor(),
}


@pytest.mark.parametrize("kind", FORMS)
def test_sparse_arrays_of_other_libraries(kind: str, rng: np.random.Generator) -> None:
    shape = (6, 9) if "_" in kind else (3, 5, 4)
    dense = rng.integers(0, 4, shape) * rng.integers(0, 2, shape)
    x = as_sparse_tensor(FORMS[kind](dense))
    assert x is not None
    check_form(x)
    assert_array_equal(x.toarray(), dense)


def test_sparse_arrays_that_are_refused() -> None:
    coo = scipy.sparse.coo_array
    for array, message in (
        (coo(np.array([[0, -2.0]])), r"X\.data\[0\] = -2, the value of cell \[0, 1\]\. .* must be finite and >= 0"),
        (coo(np.array([[0, NAN]])), r"X\.data\[0\] = nan, the value of cell \[0, 1\]\. A cell that is not listed is 0"),
        (coo(np.array([[True]])), r"X\.data has dtype bool; .* If True counts as 1"),
        (coo(np.array([[1j]])), r"X\.data has dtype complex128"),
        (coo((0, 3)), r"X is empty: its shape is \(0, 3\)"),
        (sparse.COO.from_numpy(np.ones((2, 2)), fill_value=1), r"X has fill_value 1(\.0)?: .* X\.todense\(\)"),
        (sparse.COO.from_numpy(np.ones((2, 2)), fill_value=NAN), r"X has fill_value nan"),
    ):
        with pytest.raises(ld.errors.InvalidTensor, match=message):
            as_sparse_tensor(array)


@pytest.mark.parametrize("seed", range(20))
def test_tables_of_every_library_count_alike(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pools: list[Any] = [["b", "a", "é", "aa", "Z", ""], range(6), ["x"], range(3)]
    n, chosen = int(rng.integers(1, 13)), [pools[i] for i in rng.permutation(4)[: seed % 4 + 1]]
    columns: dict[str, Any] = {f"c{k}": rng.choice(pool, n).tolist() for k, pool in enumerate(chosen)}
    rows = list(zip(*columns.values(), strict=True))
    for table in (
        columns,
        {name: np.array(column) for name, column in columns.items()},
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype("category").astype({n: int for n, c in columns.items() if isinstance(c[0], int)}),
        pl.DataFrame(columns),
        pa.table(columns),
        pa.table(columns).to_batches()[0],
        np.array(rows, dtype=object),
        rows,
    ):
        x = ld.from_rows(table)
        check_form(x)
        labels = x.origin.of(x.shape)
        assert {labels.values_at(cell): n for cell, n in zip(x.cells, x.values.tolist(), strict=True)} == Counter(rows)
        assert levels_of(x) == [sorted(set(column)) for column in columns.values()]
        assert x.shape == tuple(len(set(column)) for column in columns.values())


def test_columns_weights_and_levels() -> None:
    table = pd.DataFrame(
        {"w": [0.5, 2.0, 0.0, 1.0], "day": ["Tue", "Mon", "Mon", "Tue"], "year": [2013, 2015, 2013, 2013]}
    )
    x = ld.from_rows(
        table, ["year", "day"], counts="w", levels={"day": ["Mon", "Tue", "Wed"], "year": [2013, 2014, 2015]}
    )
    assert (x.shape, x.names) == ((3, 3), ("year", "day"))
    assert as_dict(x) == {(0, 1): 1.5, (2, 0): 2.0}
    assert levels_of(x) == [[2013, 2014, 2015], ["Mon", "Tue", "Wed"]]
    assert ld.from_rows(table, counts="w").names == ("day", "year")
    assert ld.from_rows(table, ["day"], counts=[1, 2, 3, 4]).values.tolist() == [5, 5]
    by_place = ld.from_rows(np.array([[3, 1, 0], [3, 0, 0]]), [2, 0], levels=[1, 5])
    assert (by_place.shape, as_dict(by_place), by_place.names) == ((1, 5), {(0, 3): 2}, None)


def test_ordered_categories_keep_their_order_and_empty_levels() -> None:
    sizes = ["small", "large", "huge"]
    rows = ["large", "small", "large"]
    ordered = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1]), pa.array(sizes), ordered=True)
    for table in (
        pd.DataFrame({"s": pd.Categorical(rows, sizes, ordered=True)}),
        pl.DataFrame({"s": pl.Series(rows, dtype=pl.Enum(sizes))}),
        pa.table({"s": ordered}),
        pa.table({"s": pa.chunked_array([ordered, ordered[:0]])}),
    ):
        x = ld.from_rows(table)
        assert (x.shape, levels_of(x)[0], as_dict(x)) == ((3,), sizes, {(0,): 1, (1,): 2})
    for table in (
        pd.DataFrame({"s": pd.Categorical(rows, sizes)}),
        pl.DataFrame({"s": pl.Series(rows, dtype=pl.Categorical)}),
        pa.table({"s": pa.array(rows).dictionary_encode()}),
    ):
        x = ld.from_rows(table)
        assert (levels_of(x)[0], as_dict(x)) == (["large", "small"], {(0,): 2, (1,): 1})


def test_other_kinds_of_columns() -> None:
    days = np.array(["2020-01-02", "2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    for table in ({"d": days}, pd.DataFrame({"d": days}), pl.DataFrame({"d": days}), pa.table({"d": days})):
        x = ld.from_rows(table)
        assert as_dict(x) == {(0,): 1, (1,): 2}
        assert str(x.origin.of(x.shape).level(0, 0)).startswith("2020-01-01")
    floats = pd.DataFrame({"i": [1.0, 0.0, 1.0], "b": [True, False, True], "n": pd.array([2, 0, 2], dtype="Int64")})
    for table in (floats, pl.from_pandas(floats), pa.Table.from_pandas(floats)):
        x = ld.from_rows(table)
        assert levels_of(x) == [[0, 1], [False, True], [0, 2]]
        assert as_dict(x) == {(0, 0, 0): 1, (1, 1, 1): 2}
    mixed = ld.from_rows({"m": ["a", 1, 1]}, levels={"m": [1, "a"]})
    assert as_dict(mixed) == {(0,): 2, (1,): 1}
    assert levels_of(mixed)[0] == [1, "a"]


NO_VALUE: dict[str, Any] = {
    "pandas": pd.DataFrame({"k": [0, 1], "d": ["x", None]}),
    "pandas_integer": pd.DataFrame({"k": [0, 1], "d": pd.array([1, None], dtype="Int64")}),
    "pyarrow_float": pa.table({"k": [0, 1], "d": [1.0, NAN]}),
    "times": {"k": [0, 1], "d": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]")},
    "masked": {"k": [0, 1], "d": np.ma.masked_array([1, 2], mask=[False, True])},
    "list_na": {"k": [0, 1], "d": ["x", pd.NA]},
}


@pytest.mark.parametrize("name", NO_VALUE)
def test_missing_values_are_named_by_row_and_column(name: str) -> None:
    with pytest.raises(ld.errors.InvalidSamples, match=r"column 'd' is missing in row 1\. Leave such rows out"):
        ld.from_rows(NO_VALUE[name])


BAD_ROWS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "fraction": (
        {"y": [0.5]},
        {},
        r"column 'y' holds 0\.5 in row 0; .*Bin them first",
    ),
    "above": (
        {"y": [0, 7]},
        {"levels": 3},
        r"column 'y' is 7 in entry 1; it must lie between 0 and 2",
    ),
    "unlisted": (
        {"y": ["a", "c"]},
        {"levels": {"y": ["a", "b"]}},
        r"'y' holds 'c' in row 1, which is not among its",
    ),
    "uneven": ({"y": [0, 1], "z": [0]}, {}, r"column 'z' has 1 rows, the table has 2"),
    "no_rows": (pd.DataFrame({"y": []}), {}, "there are no rows or no columns"),
    "lazy": (nw.from_native(pl.LazyFrame({"y": [1]})), {}, r"table is a LazyFrame, .*\.collect\(\) it first"),
    "twice": (pd.DataFrame([[1, 2]], columns=["y", "y"]), {}, r"two columns of the same name. Rename one .*'y'"),
    "unknown": (
        {"year": [1]},
        {"columns": ["yaer"]},
        r"unknown column 'yaer'; did you mean 'year'\?",
    ),
    "negative_weight": ({"y": [1]}, {"counts": [-1.0]}, r"counts\[0\] = -1\."),
    "nan_weight": ({"y": [1]}, {"counts": [NAN]}, r"counts\[0\] = nan. A cell that is not listed"),
    "levels_unknown": ({"y": [1]}, {"levels": {"z": 3}}, r"levels: unknown column 'z'"),
    "polars_128": (pl.DataFrame({"d": pl.Series([1, 2**100], dtype=pl.Int128)}), {}, r"holds Int128, which"),
    "pandas_list": (pd.DataFrame({"d": ["x", [2]]}), {}, r"column 'd' holds \[2\] in row 1, where"),
    "pandas_complex": (pd.DataFrame({"d": [1j]}), {}, r"Complex data not supported: column 'd' has dtype complex128"),
    "levels_size": (
        {"y": ["a"]},
        {"levels": {"y": 2}},
        "column 'y' has dtype object; indices are integers",
    ),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(name: str) -> None:
    table, options, message = BAD_ROWS[name]
    with pytest.raises(ld.LegendreError, match=message):
        ld.from_rows(table, **options)


def test_categories_that_are_numbers_are_levels() -> None:
    for table in (
        pd.DataFrame({"s": pd.Categorical([30, 10, 30])}),
        pa.table({"s": pa.array([30, 10, 30]).dictionary_encode()}),
        {"s": pd.Series([30, 10, 30], dtype="category")},
    ):
        x = ld.from_rows(table)
        assert (levels_of(x)[0], as_dict(x)) == ([10, 30], {(0,): 1, (1,): 2})
    ordered = ld.from_rows(pd.DataFrame({"s": pd.Categorical([30, 10], [30, 20, 10], ordered=True)}))
    assert (levels_of(ordered)[0], as_dict(ordered)) == ([30, 20, 10], {(0,): 1, (2,): 1})


def events(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Draw events with names, indices and weights."""
    where = rng.choice(np.array(["BOS", "ATL", "SFO", "LAX"]), n)
    return pd.DataFrame({"where": where, "hour": rng.integers(0, 24, n), "weight": rng.integers(0, 3, n)})


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 6))
def test_batches_are_counted_like_one_table(seed: int, n: int, pieces: int) -> None:
    rng = np.random.default_rng(seed)
    table = events(rng, n)
    cuts = np.sort(rng.integers(0, n + 1, pieces - 1))
    parts = [table.iloc[a:b] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    for settings_ in ({}, {"counts": "weight"}, {"columns": ["hour", "where"], "levels": {"hour": 24}}):
        whole, found = ld.from_rows(table, **settings_), ld.from_rows(iter(parts), **settings_)
        assert_array_equal(found.cells, whole.cells)
        assert_array_equal(found.values, whole.values)
        assert (found.shape, found.names) == (whole.shape, whole.names)
        assert levels_of(found) == levels_of(whole)


def test_batches_of_parquet_and_dask(tmp_path: Path) -> None:
    import dask.dataframe as dd
    import pyarrow.dataset
    import pyarrow.parquet as pq

    table = events(np.random.default_rng(0), 500)
    whole = ld.from_rows(table, counts="weight")
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "events.parquet")
    read = pq.ParquetFile(tmp_path / "events.parquet").iter_batches(batch_size=70)
    for found in (
        ld.from_rows(read, counts="weight"),
        ld.from_rows(dd.from_pandas(table, npartitions=11), counts="weight"),
        ld.from_rows(pyarrow.dataset.dataset(tmp_path / "events.parquet"), counts="weight"),
        ld.from_rows(pl.scan_parquet(tmp_path / "events.parquet"), ["where", "hour"], counts="weight"),
    ):
        assert_array_equal(found.cells, whole.cells)
        assert_array_equal(found.values, whole.values)
        assert levels_of(found)[0] == ["ATL", "BOS", "LAX", "SFO"]
    with pytest.raises(ld.errors.InvalidSamples, match="unknown column 'huor'; did you mean 'hour'"):
        ld.from_rows(pl.scan_parquet(tmp_path / "events.parquet"), ["huor"])


@pytest.mark.parametrize("pieces", [1, 3, 20])
def test_what_is_left_out_of_parts_is_added_up(pieces: int, rng: np.random.Generator) -> None:
    """Each part had a note of its own; and a part in which nothing was left raised an error."""
    import dask.dataframe as dd

    table = events(rng, 60).astype({"where": object})
    table.loc[rng.random(60) < 0.2, "where"] = None
    table.loc[30:33, "where"] = None
    whole = ld.from_rows(table, ["where", "hour"], missing="drop")
    frame = dd.from_pandas(table, npartitions=pieces)
    for parts in (
        [table[k : k + 60 // pieces] for k in range(0, 60, 60 // pieces)],
        frame,
        pl.from_pandas(table).lazy(),
    ):
        found = ld.from_rows(iter(parts) if isinstance(parts, list) else parts, ["where", "hour"], missing="drop")
        assert (found.notes, as_dict(found)) == (whole.notes, as_dict(whole))
    with pytest.raises(
        ld.errors.InvalidSamples, match=r"no row is left\. Left out: 4 of 4 rows, which lack a value of"
    ):
        ld.from_rows(table[30:34], ["where"], missing="drop")
    with pytest.raises(ld.errors.InvalidSamples, match=r"part 1 of the rows: column 'where' has no value in any row"):
        ld.from_rows([{"where": ["BOS"]}, table[30:34]], ["where"])


def test_levels_of_arrays_in_batches_are_those_of_all_of_them() -> None:
    found = ld.from_rows([np.array([[0, 1]]), np.empty((0, 2), dtype=int), np.array([[5, 0], [0, 1]])])
    assert (found.shape, found.cells.tolist(), found.values.tolist()) == ((2, 2), [[0, 1], [1, 0]], [2, 1])
    assert levels_of(found) == [[0, 5], [0, 1]]


@pytest.mark.parametrize(
    ("batches", "arguments", "error", "text"),
    [
        (iter(()), {}, ld.errors.InvalidSamples, "there are no rows or no columns"),
        ([{"a": [0]}, {"b": [0]}], {}, ld.errors.InvalidSamples, r"different columns: \('a',\) first, then \('b',\)"),
        (
            [{"a": [0]}, {"a": ["x"]}],
            {},
            ld.errors.InvalidSamples,
            "column 'a' of several tables mixes values of types int, str",
        ),
        (
            [{"a": [0]}],
            {"counts": [1.0]},
            ld.errors.InvalidSetting,
            "counts of tables that come in parts are a column's name",
        ),
    ],
)
def test_batches_that_do_not_fit(batches: Any, arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ld.from_rows(batches, **arguments)
