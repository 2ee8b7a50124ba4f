"""Tensors with labels: from every object that has some, through every view, into a file and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld

CARRIERS, DESTS, HOURS = ["AA", "DL", "UA"], ["BOS", "SFO"], [6, 7, 8, 20]
NAMES = ["carrier", "dest", "hour"]
LEVELS: list[list[Any]] = [CARRIERS, DESTS, HOURS]
COUNTS = np.random.default_rng(3).integers(1, 30, (3, 2, 4))


def as_rows() -> pd.DataFrame:
    cells = np.argwhere(COUNTS)
    columns = {name: np.array(LEVELS[k])[cells[:, k]] for k, name in enumerate(NAMES)}
    return pd.DataFrame({**columns, "n": COUNTS.ravel()}).sample(frac=1.0, random_state=1)


def as_series() -> Any:
    return pd.Series(COUNTS.ravel(), index=pd.MultiIndex.from_product(LEVELS, names=NAMES))


def as_table() -> Any:
    return as_series().unstack("hour")


MADE: dict[str, Any] = {
    "xarray": lambda: xr.DataArray(COUNTS, dims=NAMES, coords=dict(zip(NAMES, LEVELS, strict=True))),
    "series": as_series,
    "cross table": as_table,
    "rows of pandas": lambda: ld.from_rows(as_rows(), counts="n"),
    "rows of polars": lambda: ld.from_rows(pl.from_pandas(as_rows()), counts="n"),
    "rows of pyarrow": lambda: ld.from_rows(pa.Table.from_pandas(as_rows(), preserve_index=False), counts="n"),
}


def cells_of(found: Any) -> dict[tuple[Any, ...], float]:
    """List the entries of a labelled answer by the labels of their modes, in the order of NAMES."""
    if isinstance(found, xr.DataArray):
        found = found.to_series()
    if isinstance(found, pd.DataFrame):
        found = found.stack(list(range(found.columns.nlevels)))
    if isinstance(found, pl.DataFrame | pa.Table):
        frame = found.to_pandas()
        found = frame.set_index(list(frame.columns[:-1]))[frame.columns[-1]]
    frame = found.rename("entry").reset_index()
    modes = [name for name in NAMES if name in frame.columns]
    return {tuple(row[:-1]): row[-1] for row in frame[[*modes, "entry"]].itertuples(index=False)}


def dense(modes: list[int], array: Any) -> dict[tuple[Any, ...], float]:
    """List the entries of an array over some modes by labels, in the order of NAMES."""
    array = np.moveaxis(array, range(len(modes)), np.argsort(np.argsort(modes)))
    rising = sorted(modes)
    return {
        tuple(LEVELS[k][i] for k, i in zip(rising, cell, strict=True)): float(array[cell])
        for cell in np.ndindex(array.shape)
    }


def agree(found: Any, modes: list[int], right: Any) -> None:
    one, other = cells_of(found), dense(modes, right)
    assert one.keys() == other.keys()
    for cell, value in other.items():
        assert one[cell] == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", MADE)
def test_every_view_has_the_labels_before_and_after_the_file(kind: str, tmp_path: Path) -> None:
    fit = ld.decompose(MADE[kind](), ld.interactions([("carrier", "dest"), ("hour",)]))
    plain = ld.decompose(COUNTS, ld.interactions([(0, 1), (2,)]))
    fit.save(tmp_path / "fit.npz")
    for one in (fit, ld.load(tmp_path / "fit.npz")):
        assert one.labels.names == tuple(NAMES)
        agree(one.tensor(), [0, 1, 2], plain.tensor())
        agree(one.theta_tensor(), [0, 1, 2], plain.theta_tensor())
        agree(one.eta_tensor(), [0, 1, 2], plain.eta_tensor())
        agree(one.marginal("dest"), [1], plain.marginal(1))
        if one.data is not None:
            agree(one.inference().residuals(), [0, 1, 2], plain.inference().residuals())
        agree(one.marginal(["hour", "carrier"]), [2, 0], plain.marginal([2, 0]))
        agree(one.marginal("dest", given={"hour": 8}), [1], plain.marginal(1, given={2: 2}))
        agree(one.condition({"carrier": "UA", "hour": 20}), [1], plain.condition({0: 2, 2: 3}))
        mean = plain.expectation(lambda h: np.array(HOURS)[h], modes=2)
        assert one.expectation(lambda hour: hour, modes="hour") == pytest.approx(mean, rel=1e-12)
        best = plain.most_probable()
        assert one.most_probable() == tuple(LEVELS[k][i] for k, i in enumerate(best))
        drawn, cells = one.sample(5, rng=0), plain.sample(5, rng=0)
        for k, name in enumerate(NAMES):
            assert [str(v) for v in np.asarray(drawn[name])] == [str(LEVELS[k][i]) for i in cells[:, k]]
        assert "carrier (3), dest (2), hour (4)" in one.summary()
        assert_allclose(one.without_labels().tensor(), plain.tensor(), rtol=1e-9)


@pytest.mark.parametrize("kind", MADE)
def test_tasks_keep_the_labels(kind: str, tmp_path: Path) -> None:
    X = MADE[kind]()
    balanced = ld.balance(X, {"dest": [30.0, 70.0], "hour": {20: 40.0, 6: 10.0, 7: 20.0, 8: 30.0}})
    right = ld.balance(COUNTS, {1: [30.0, 70.0], 2: [10.0, 20.0, 30.0, 40.0]})
    smooth, plain_smooth = ld.complete(X, folds=2), ld.complete(COUNTS, folds=2)
    done = ld.complete(X, "B1")
    hidden = ld.hidden(X, ld.interactions([("carrier", 3), ("dest", 3), ("hour", 3)]), 2, restarts=1, tol=1e-5)
    for result, same in ((balanced, right.tensor()), (smooth, plain_smooth.tensor()), (done, COUNTS)):
        agree(result.tensor(), [0, 1, 2], same)
        result.save(tmp_path / "result.npz")
        agree(ld.load(tmp_path / "result.npz").tensor(), [0, 1, 2], same)
    agree(hidden.tensor(), [0, 1, 2], hidden.without_labels().tensor())
    if kind != "rows of polars":
        assert "hidden 0" in str(hidden.fit.labels.names)


def test_names_and_levels_of_a_plain_array() -> None:
    fit = ld.decompose(COUNTS, ld.B3(2, axis="hour"), names=NAMES, levels={"carrier": CARRIERS, "hour": HOURS})
    same = ld.decompose(COUNTS, ld.B3(2, axis=2))
    assert_array_equal(fit.theta, same.theta)
    assert isinstance(fit.tensor(), np.ndarray)
    assert_array_equal(fit.marginal("dest", given={"hour": 8}), same.marginal(1, given={2: 2}))
    assert fit.most_probable()[1] in (0, 1)
    assert ld.decompose(COUNTS, "B3(2, axis='hour')", names=NAMES).basis.tolist() == same.basis.tolist()
    assert str(ld.plan(COUNTS, "interactions([('carrier', 'dest')])", names=NAMES)).startswith("24 cells")


# what is not listed, and what is missing


def test_combinations_that_a_series_of_counts_does_not_list_are_zero() -> None:
    X = as_series()
    X.iloc[5] = 0
    fit = ld.decompose(X[X > 0], "interactions(1)")
    assert_array_equal(fit.theta, ld.decompose(X, "interactions(1)").theta)
    assert (
        "1 of 24 combinations of levels are not listed in X; they are read as 0, for X holds counts." in fit.summary()
    )


def test_combinations_that_a_series_of_amounts_does_not_list_are_missing() -> None:
    X = as_series() + 0.5
    gaps = np.where(np.arange(24).reshape(COUNTS.shape) == 5, np.nan, COUNTS + 0.5)
    fit = ld.decompose(X.drop(X.index[5]), "B1")
    assert_array_equal(fit.theta, ld.decompose(gaps, "B1").theta)
    assert "they are read as missing, for X holds no counts." in " ".join(fit.summary().split())


def test_nan_in_a_pivoted_table_of_counts_asks_for_zeros() -> None:
    table = as_table().astype(float)
    table.iloc[0, 0] = np.nan
    said = " ".join(ld.decompose(table, "B1").summary().split())
    assert "1 cells of X are NaN and count as missing" in said
    assert "Were zeros meant? Then pass X.fillna(0)." in said
    assert "fillna" not in ld.decompose(table + 0.5, "B1").summary()


def test_a_long_list_of_counts_stays_a_list() -> None:
    index = pd.MultiIndex.from_arrays([np.arange(400), np.arange(400), np.arange(400) % 7], names=["a", "b", "c"])
    fit = ld.decompose(pd.Series(np.ones(400, int), index=index), "interactions(1)", support="nonzero")
    assert fit.model.support.points is not None
    assert fit.marginal("c").index.tolist() == list(range(7))


# nothing is read as something else


REFUSED: dict[str, tuple[Any, str]] = {
    "rows": (
        as_rows(),
        r"^X is a DataFrame whose column 'carrier' holds no numbers\. .*ld\.from_rows\(frame, counts='n'\)",
    ),
    "codes and counts": (
        pd.DataFrame({"code": [1, 2], "year": [2012, 2013], "n": [5, 6]}),
        r"^X is a DataFrame whose rows are only numbered, with columns 'code', 'year', 'n'\. .*counts='n'\).* If it is "
        r"a matrix of values, name its rows \(X\.index\) or pass X\.to_numpy\(\)\.$",
    ),
    "polars": (pl.from_pandas(as_rows()), r"^X is a DataFrame of polars\. .*ld\.from_rows\(frame, counts='n'\)"),
    "pyarrow": (pa.table({"a": [1]}), r"^X is a Table of pyarrow\. .*ld\.from_rows\(frame\)"),
    "margins": (
        pd.crosstab(as_rows()["carrier"], as_rows()["dest"], margins=True),
        r"^the last row or column of X is 'All' and holds the sums of the others, .* Leave it out: X\.iloc\[:-1\]",
    ),
    "margins of columns": (
        pd.crosstab(as_rows()["carrier"], as_rows()["dest"], margins=True).iloc[:-1],
        r"^the last row or column of X is 'All' and holds the sums of the others",
    ),
    "twice": (
        pd.Series([1, 2, 3], index=pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("a", 1)])),
        r"columns of X hold \('a', 1\) more than once\. Add .* up first: X\.groupby\(level=\[0, 1\]\)",
    ),
    "no label": (
        pd.Series([1, 2], index=["a", None]),
        r"have no label in place 1\. Drop it",
    ),
    "texts": (pd.Series(["1", "2"], index=["a", "b"]), r"^X holds str where numbers should stand\. Convert it"),
    "dataset": (MADE["xarray"]().to_dataset(name="flights"), r"^X is a Dataset of xarray, .*\('flights'\)\. Pass one"),
    "stacked": (MADE["xarray"]().stack(both=["carrier", "dest"]), r"^the dimension 'both' of X stacks .*unstack"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_tensor_is_refused_with_the_way_out(kind: str) -> None:
    X, text = REFUSED[kind]
    with pytest.raises(ld.errors.InvalidTensor, match=text):
        ld.decompose(X, "B1")


def test_a_table_of_another_order_of_levels_is_no_base_measure() -> None:
    X = MADE["xarray"]()
    with pytest.raises(ld.errors.InvalidSupport, match=r"other levels of carrier than X\.$"):
        ld.decompose(X, "B1", base=X.isel(carrier=[2, 1, 0]))
    with pytest.raises(ld.errors.InvalidSupport, match=r"^the modes of X are \('carrier', "):
        ld.decompose(X, "B1", base=X.rename(hour="time"))


def test_cells_are_named_by_labels_too() -> None:
    frame = pd.DataFrame(
        {
            "who": list("xyzxyzxyyz"),
            "status": [200, 404, 500, 200, 200, 500, 404, 200, 404, 200],
            "day": pd.to_datetime(["2024-05-03", "2024-05-04"] * 5),
        }
    )
    fit = ld.decompose(ld.from_rows(frame), ld.adaptive(4), unordered=["who", "status"])
    assert list(fit.arrangement) == ["who", "status"]
    q = fit.marginal(["who", "status", "day"])
    drawn = fit.sample(20, rng=0)
    assert_allclose(np.exp(fit.log_prob(drawn)), q.loc[pd.MultiIndex.from_frame(drawn)], rtol=1e-9)
    assert_allclose(np.exp(fit.log_prob(["y", 404, "2024-05-04"])), q["y", 404, "2024-05-04"], rtol=1e-9)
    assert_allclose(fit.log_prob([["y", 404, "2024-05-04"]]), fit.log_prob([[1, 1, 1]]), rtol=1e-12)
    with pytest.raises(ld.errors.InvalidQuery, match=r"^log_prob: status has no level '404'\. The level is 404\."):
        fit.log_prob([["y", "404", "2024-05-04"]])
    with pytest.raises(ld.errors.InvalidBasis, match=r"^cells must be integers, k x 3; got shape \(1, 2\)"):
        fit.log_prob([["y", 404]])
    plain = ld.decompose(COUNTS, "B1")
    with pytest.raises(ld.errors.InvalidBasis, match=r"dtype <U3\. They are indices, counted from 0\.$"):
        plain.log_prob([["SFO"] * COUNTS.ndim])


def test_questions_by_labels_that_are_not_there() -> None:
    fit = ld.decompose(MADE["series"](), "B1")
    with pytest.raises(ld.errors.InvalidQuery, match=r"^marginal: unknown mode 'dst'; did you mean 'dest'\?"):
        fit.marginal("dst")
    with pytest.raises(ld.errors.InvalidQuery, match=r"^condition: hour has no level 9\. The nearest is 8\."):
        fit.condition({"hour": 9})
    with pytest.raises(ld.errors.InvalidQuery, match=r"^marginal: mode 'dest' is asked for and given\.$"):
        fit.marginal("dest", given={"dest": "SFO"})
    with pytest.raises(ld.errors.InvalidBasis, match=r"^interactions: .*unknown mode 'dst'"):
        ld.decompose(MADE["series"](), ld.interactions([("dst",)]))
    with pytest.raises(ld.errors.InvalidBasis, match=r"'dest' is no mode of X.* no names: pass names="):
        ld.decompose(COUNTS, ld.interactions([("dest",)]))
    with pytest.raises(ld.errors.InvalidMargins, match=r"^margin 2 has no entry for '20'"):
        ld.balance(MADE["series"](), {"hour": {6: 1.0, 7: 2.0, 8: 1.0}})


def test_an_impossible_event_is_named_by_its_labels() -> None:
    X = MADE["xarray"]().copy()
    X.loc[{"carrier": "DL"}] = 0
    with pytest.raises(ld.errors.ImpossibleEvent, match=r"^condition\(\{carrier: DL\}\): the event has probability 0"):
        ld.decompose(X, "interactions(1)").condition({"carrier": "DL"})
