"""Tensors with labels: from every object that has some, through every view, into a file and back."""

from __future__ import annotations

import warnings
from datetime import date, datetime
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
    assert "1 of 24 combinations of levels are not in X; they are read as 0, because X holds counts." in fit.summary()


def test_combinations_that_a_series_of_amounts_does_not_list_are_missing() -> None:
    X = as_series() + 0.5
    gaps = np.where(np.arange(24).reshape(COUNTS.shape) == 5, np.nan, COUNTS + 0.5)
    fit = ld.decompose(X.drop(X.index[5]), "B1")
    assert_array_equal(fit.theta, ld.decompose(gaps, "B1").theta)
    assert "they are read as missing, because X does not hold counts." in " ".join(fit.summary().split())


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
    "texts": (pd.Series(["1", "2"], index=["a", "b"]), r"^X holds str where numbers are expected\. Convert it"),
    "dataset": (MADE["xarray"]().to_dataset(name="flights"), r"^X is a Dataset of xarray, .*\('flights'\)\. Pass one"),
    "stacked": (MADE["xarray"]().stack(both=["carrier", "dest"]), r"^the dimension 'both' of X stacks .*unstack"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_tensor_is_refused_with_the_way_out(kind: str) -> None:
    X, text = REFUSED[kind]
    with pytest.raises(ld.errors.InvalidTensor, match=text):
        ld.decompose(X, "B1")


def test_a_base_measure_is_matched_by_its_labels() -> None:
    X = MADE["xarray"]()
    own = ld.decompose(X, "B1", base=X)
    for turned in (X.isel(carrier=[2, 1, 0]), X.transpose(*X.dims[::-1])):
        assert ld.decompose(X, "B1", base=turned).kl == pytest.approx(own.kl, abs=1e-12)
    with pytest.raises(ld.errors.InvalidSupport, match=r"lacks the level .* of carrier, unlike X\.$"):
        ld.decompose(X, "B1", base=X.isel(carrier=[1, 2]))
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
    assert_allclose(fit.log_prob([["y", 404, "2024-05-04"]]), fit.log_prob([[1, 1, 1]], indices=True), rtol=1e-12)
    with pytest.raises(ld.errors.InvalidQuery, match=r"^log_prob: status has no level '404'\. Did you mean 404\?"):
        fit.log_prob([["y", "404", "2024-05-04"]])
    with pytest.raises(ld.errors.InvalidBasis, match=r"^cells must be integers, k x 3; got shape \(1, 2\)"):
        fit.log_prob([["y", 404]])
    plain = ld.decompose(COUNTS, "B1")
    with pytest.raises(ld.errors.InvalidBasis, match=r"dtype <U3\. They are indices, counted from 0\.$"):
        plain.log_prob([["SFO"] * COUNTS.ndim])


MONTHS = {"month": [1, 1, 2, 3, 3, 3, 2, 1], "hour": [1, 2, 3, 1, 1, 1, 2, 3]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_log_prob_and_residuals_read_numbers_as_labels(library: Any) -> None:
    """They were read as indices, and columns of frames by position; every other question read labels."""
    fit = ld.decompose(ld.from_rows(pd.DataFrame(MONTHS)), ld.full())
    assert fit.most_probable() == (3, 1)
    assert_allclose(np.exp(fit.log_prob(fit.most_probable())), [0.375], rtol=1e-9)
    assert_allclose(np.exp(fit.log_prob([[2, 0]], indices=True)), [0.375], rtol=1e-9)
    swapped = library({"hour": MONTHS["hour"], "month": MONTHS["month"]})
    wanted = fit.log_prob(np.column_stack(list(MONTHS.values())))
    assert_array_equal(fit.log_prob(swapped), wanted)
    assert_allclose(np.exp(wanted), np.array([1, 1, 1, 3, 3, 3, 1, 1]) / 8, rtol=1e-9)
    with pytest.raises(ld.errors.InvalidSamples, match="cells has no column 'hour'"):
        fit.log_prob(library({"time": MONTHS["hour"], "month": MONTHS["month"]}))
    with pytest.raises(ld.errors.InvalidQuery, match=r"log_prob: month has no level 0\. Its levels: 1, 2, 3"):
        fit.log_prob([[0, 1]])
    tests = ld.decompose(ld.from_rows(pd.DataFrame(MONTHS)), "B1").inference()
    assert_array_equal(tests.residuals(cells=swapped), tests.residuals().loc[list(zip(*MONTHS.values(), strict=True))])


def test_levels_that_fall_or_are_unsorted_are_named_by_what_is_true_of_them() -> None:
    """Doses 100, 10, 1 and 0.1: "dose >= 1.0" was said of 1 and 0.1."""
    X, names = [[20, 20, 100, 100]] * 2, ["r", "dose"]
    for levels, name, interval in (
        ([100, 10, 1, 0.1], "dose <= 1", "1 to 0.1"),
        (["65+", "35-64", "18-34", "<18"], "dose <= 18-34", "18-34 to <18"),
        ([1, 10, 100, 1000], "dose >= 100", "100 to 1000"),
        ([1, 100, 10, 0.1], "dose in 10, 0.1", "10, 0.1"),
        ([date(2024, month, 1) for month in (4, 3, 2, 1)], "dose <= 2024-02-01", "2024-02-01 to 2024-01-01"),
        ([datetime(2024, month, 1) for month in (4, 3, 2, 1)], "dose <= 2024-02-01", "2024-02-01 to 2024-01-01"),
        (["none", 5, 10, 20], "dose in 10, 20", "10, 20"),
    ):
        fit = ld.decompose(X, ld.adaptive(1), names=names, levels=[[1, 2], levels], unordered=[])
        assert fit.parameters().names == (name,)
        assert fit.labels.name_levels(1, 2, 4) == interval
        assert name in str(fit.parameters())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_ordered_categories_stay_ordered_in_answers(library: str, tmp_path: Path) -> None:
    levels = ["low", "mid", "high"]
    frame: Any = pd.DataFrame(
        {"edu": pd.Categorical(levels * 2, levels, ordered=True), "sex": list("fffmmm"), "n": [10, 20, 40, 15, 30, 60]}
    )
    if library == "polars":
        frame = pl.from_pandas(frame).with_columns(pl.col("edu").cast(pl.Enum(levels)))
    elif library == "pyarrow":
        frame = pa.Table.from_pandas(frame)
    model = ld.loglinear(frame, "edu + sex", counts="n")
    fit = ld.decompose(ld.from_rows(frame, counts="n"), "B1")
    fit.save(tmp_path / "fit.npz")
    table = ld.from_rows(frame, counts="n").to_frame()
    for answer in (model.fitted(), model.residuals(), table, ld.load(tmp_path / "fit.npz").tensor(), fit.sample(9, 0)):
        if isinstance(answer, pd.Series):
            answer = answer.rename("value").reset_index()
        edu = answer["edu"]
        if library == "pandas":
            assert edu.dtype == pd.CategoricalDtype(levels, ordered=True)
        else:
            assert edu.dtype == pl.Enum(levels) if library == "polars" else edu.type.ordered


@pytest.mark.parametrize("library", ["pandas", "polars", "series"])
def test_time_zones_are_kept(library: str, tmp_path: Path) -> None:
    """Berlin 00:00 became 23:00 of the day before, without a zone; NumPy's warning was shown."""
    zone = "Europe/Berlin"
    when = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"]).tz_localize(zone)
    frame = pd.DataFrame({"when": when, "b": ["x", "y", "y"], "n": [3, 4, 5]})
    X: Any = frame.set_index(["when", "b"])["n"]
    if library != "series":
        X = ld.from_rows(frame if library == "pandas" else pl.from_pandas(frame), counts="n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ld.decompose(X, "B1")
        fit.plot.effects()
    fit.save(tmp_path / "fit.npz")
    for one in (fit, ld.load(tmp_path / "fit.npz")):
        assert one.labels.level(0, 1) == "2024-01-02 00:00:00+01:00"
        table = one.marginal("when")
        if library == "polars":
            assert table["when"].dtype == pl.Datetime("us", zone)
        else:
            assert table.index.tolist() == when[:2].tolist()
            assert str(table.index.tz) == zone


def test_balance_of_a_series_that_lists_no_empty_cells_says_so() -> None:
    index = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "y")], names=["r", "c"])
    with pytest.raises(ld.errors.InvalidTensor, match=r"must stay empty is 0\. 1 of 4 combinations .* not in X"):
        ld.balance(pd.Series([3.5, 1.0, 2.0], index=index))


def test_questions_by_labels_that_are_not_there() -> None:
    fit = ld.decompose(MADE["series"](), "B1")
    with pytest.raises(ld.errors.InvalidQuery, match=r"^marginal: unknown mode 'dst'; did you mean 'dest'\?"):
        fit.marginal("dst")
    with pytest.raises(ld.errors.InvalidQuery, match=r"^condition: hour has no level 9\. Its levels"):
        fit.condition({"hour": 9})
    with pytest.raises(ld.errors.InvalidQuery, match=r"^marginal: dest is asked for and given\.$"):
        fit.marginal("dest", given={"dest": "SFO"})
    with pytest.raises(ld.errors.InvalidBasis, match=r"^interactions: .*unknown mode 'dst'"):
        ld.decompose(MADE["series"](), ld.interactions([("dst",)]))
    with pytest.raises(ld.errors.InvalidBasis, match=r"'dest' is not a mode of X.* no names: pass names="):
        ld.decompose(COUNTS, ld.interactions([("dest",)]))
    with pytest.raises(ld.errors.InvalidMargins, match=r"^margin 2 has no entry for '20'"):
        ld.balance(MADE["series"](), {"hour": {6: 1.0, 7: 2.0, 8: 1.0}})


def test_an_impossible_event_is_named_by_its_labels() -> None:
    X = MADE["xarray"]().copy()
    X.loc[{"carrier": "DL"}] = 0
    with pytest.raises(ld.errors.ImpossibleEvent, match=r"^condition\(\{carrier: DL\}\): the event has probability 0"):
        ld.decompose(X, "interactions(1)").condition({"carrier": "DL"})
