"""Levels without an order: arranged by the data, undone in every answer."""

import datetime
import itertools
import re
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core.types import FloatArray
from legendre.data.dense import observe
from legendre.fitting.growing.seriate import are_names, seriate


def blocks(rng: np.random.Generator, shape: tuple[int, ...] = (12, 10, 6)) -> FloatArray:
    """Two kinds of levels on two modes, mixed up: few parameters describe them in the right order only."""
    kinds = [rng.integers(0, 2, n) for n in shape[:2]]
    rate = np.where(kinds[0][:, None] == kinds[1][None, :], 40.0, 4.0)
    return rng.poisson(rate[:, :, None] * np.linspace(0.5, 2.0, shape[2])).astype(float)


def listed(X: FloatArray) -> Any:
    cells = np.argwhere(X)
    return ld.from_coords(cells, X[tuple(cells.T)], X.shape)


@pytest.fixture
def X(rng: np.random.Generator) -> FloatArray:
    return blocks(rng)


def test_kl_falls_where_the_order_says_nothing(X: FloatArray) -> None:
    plain, free = (ld.decompose(X, ld.adaptive(6), unordered=modes) for modes in ((), [0, 1]))
    assert free.kl < 0.4 * plain.kl
    assert plain.arrangement == {}
    assert list(free.arrangement) == [0, 1]
    assert sorted(free.arrangement[0]) == list(range(12))


@pytest.mark.parametrize("most", [1_000, 8])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_order_in_which_levels_come_changes_nothing(
    X: FloatArray, rng: np.random.Generator, sparse: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legendre.core.limits.MOST_LEAVES", most)
    first, second = rng.permutation(12), rng.permutation(10)
    moved = X[first][:, second]
    given = [listed(x) if sparse else x for x in (X, moved)]
    one, other = (ld.decompose(x, ld.adaptive(8), unordered=[0, 1]) for x in given)
    assert_array_equal(other.basis, one.basis)
    assert_allclose(other.tensor(), one.tensor()[first][:, second], rtol=1e-9)
    assert other.kl == pytest.approx(one.kl, rel=1e-12)


def test_functions_and_samples_are_in_the_order_of_x(X: FloatArray) -> None:
    """The other answers are judged by the target "arranged" of tests/fuzz."""
    q = ld.decompose(X, ld.adaptive(8), unordered=[0, 1])
    p, places = q.tensor() / q.total, np.indices(X.shape)
    assert q.expectation(lambda i, j, k: i + 20 * j + k) == pytest.approx(
        float((p * (places[0] + 20 * places[1] + places[2])).sum())
    )
    assert q.expectation(np.arange(10.0), modes=1) == pytest.approx(float((p * places[1]).sum()))
    drawn = q.sample(20_000, rng=0)
    assert_allclose(np.bincount(drawn[:, 0], minlength=12) / 20_000, p.sum(axis=(1, 2)), atol=0.02)


def test_effects_and_residuals_are_in_the_order_of_x() -> None:
    X = blocks(np.random.default_rng(3))
    fit = ld.decompose(X, ld.adaptive(8), unordered=[0, 1])
    rest = np.log(fit.tensor())
    for effect in fit.effects():
        rest -= np.asarray(effect.tensor()).reshape([X.shape[k] if k in effect.modes else 1 for k in range(3)])
    assert_allclose(rest, rest.mean(), atol=1e-9)
    assert_allclose(fit.inference().residuals(), (X - fit.tensor()) / np.sqrt(fit.tensor()), atol=1e-8)


def test_cells_that_vanish_are_named_in_the_order_of_x() -> None:
    X = np.full((6, 5), 10.0)
    X[[0, 2, 4]] = [1.0, 1.0, 20.0, 20.0, 0.0]
    fit = ld.decompose(X, ld.full(), unordered=[0])
    assert {tuple(cell) for cell in fit.vanishing_cells.tolist()} == {(0, 4), (2, 4), (4, 4)}
    assert_allclose(fit.tensor(), X, atol=1e-9)


def test_texts_have_no_order_unless_the_caller_says_so(X: FloatArray) -> None:
    places = [f"zone {c}" for c in "kdajbcielhfg"]
    table = xr.DataArray(X, dims=["from", "to", "hour"], coords={"from": places, "hour": range(6)})
    fit = ld.decompose(table, ld.adaptive(6))
    assert list(fit.arrangement) == ["from"]
    assert list(fit.tensor()["from"].values) == places
    assert_allclose(fit.tensor().values, ld.decompose(X, ld.adaptive(6), unordered=[0]).tensor())
    assert "levels of from arranged by the data; see fit.arrangement" in fit.summary()
    assert f"arrangement         {fit.arrangement_bits:.0f} bits, not counted in AIC and BIC" in fit.summary()
    assert ld.decompose(table, ld.adaptive(6), unordered=()).arrangement == {}
    assert ld.decompose(table, ld.interactions(1)).arrangement == {}
    again = ld.decompose(table, fit.basis, unordered=fit.arrangement)
    assert_allclose(again.tensor().values, fit.tensor().values, rtol=1e-8)
    assert "levels of from arranged as given" in again.summary()
    at = fit.marginal("hour", given={"from": "zone b"})
    q = fit.tensor().sel({"from": "zone b"}).sum("to")
    assert_allclose(at, q / q.sum(), rtol=1e-9)
    assert_allclose(fit.marginal("hour", given={"from": 4}), at)
    assert set(fit.sample(50, rng=1)["from"]) <= set(places)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["a", "b", "c"], True),
        (["1e4", "0.5", "-3"], False),
        (["0.5", "-3", "1e4"], True),
        (["18:00", "9:30", "7h15"], False),
        (["2024/1", "2024/2"], False),
        (["january", "May", "Dec."], False),
        (["may", "maypole"], True),
        ([("a", 1), ("b", 2)], True),
        (["a", 1], True),
        ([datetime.date(2024, 5, 3), datetime.date(2024, 5, 4)], False),
        ([datetime.time(8), datetime.time(9)], False),
        (list(pd.period_range("2024Q1", periods=3, freq="Q")), False),
        (list(pd.interval_range(0, 3)), False),
    ],
)
def test_labels_that_have_an_order_are_no_names(labels: list[Any], names: bool) -> None:
    """What texts mean is tested in core/test_text_order.py."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    texts = all(isinstance(label, str) for label in labels)
    assert are_names(np.array(labels) if texts else array) is names


SIZES = ["small", "mid", "large", "top"]


@pytest.mark.parametrize(
    ("given", "keeps"),
    [
        (pd.Categorical(SIZES, SIZES, ordered=True), True),
        (pd.Categorical(SIZES[::-1], SIZES, ordered=True), True),
        (pd.CategoricalIndex(SIZES, [*SIZES, "other"], ordered=True), True),
        (pd.Series(SIZES, dtype=pd.CategoricalDtype(SIZES, ordered=True)), True),
        (pl.Series(SIZES, dtype=pl.Enum(SIZES)), True),
        (pd.Categorical(SIZES, SIZES), False),
        (pd.Categorical(["mid", "small", "top", "large"], SIZES, ordered=True), False),  # X is in no order of theirs
        (pl.Series(SIZES, dtype=pl.Categorical), False),
        (SIZES, False),
    ],
)
def test_ordered_categories_of_levels_keep_their_order(
    X: FloatArray, given: Any, keeps: bool, rng: np.random.Generator
) -> None:
    x, who = X[:5, :4, 0], list("vwxyz")
    arranged = ["who"] if keeps else ["who", "size"]
    named = [ld.decompose(x, ld.adaptive(3), names=["who", "size"], levels={"size": given, "who": who})]
    table = xr.DataArray(x, dims=["who", "size"], coords={"who": who})
    named += [ld.decompose(table, ld.adaptive(3), levels={"size": given})]
    named += [ld.decompose(listed(x), ld.adaptive(3), names=["who", "size"], levels=[who, given])]
    rows = pd.DataFrame({"who": rng.choice(who, 99), "size": rng.choice(SIZES, 99)})
    named += [ld.decompose(ld.from_rows(rows, levels={"size": given}), ld.adaptive(3))]
    assert [list(fit.arrangement) for fit in named] == [arranged] * len(named)


@pytest.fixture
def events(rng: np.random.Generator) -> pd.DataFrame:
    amount = rng.uniform(0, 100, 300)
    days = [datetime.date(2024, 4, 28) + datetime.timedelta(days=int(k)) for k in rng.integers(0, 5, 300)]
    severities = ["low", "mid", "high", "worst"]
    return pd.DataFrame(
        {
            "sev": pd.Categorical(rng.choice(severities[:3], 300), severities, ordered=True),
            "amount": pd.cut(amount, [0, 5, 10, 50, 100]),
            "day": days,
            "month": pd.PeriodIndex(rng.choice(["2024-01", "2023-11", "2024-02"], 300), freq="M"),
            "who": rng.choice(list("wxyz"), 300),
        }
    )


ORDERS = {
    "sev": ["low", "mid", "high", "worst"],
    "amount": ["(0, 5]", "(5, 10]", "(10, 50]", "(50, 100]"],
    "day": ["2024-04-28", "2024-04-29", "2024-04-30", "2024-05-01", "2024-05-02"],
    "month": ["2023-11", "2024-01", "2024-02"],
}


def _texts(x: ld.SparseTensor) -> list[str]:
    """List the levels of the first mode."""
    assert x.levels is not None
    assert x.levels[0] is not None
    return [str(level) for level in x.levels[0]]


@pytest.mark.parametrize("column", ORDERS)
def test_columns_of_events_keep_their_order(events: pd.DataFrame, column: str, tmp_path: Path) -> None:
    x = ld.from_rows(events, [column, "who"])
    assert _texts(x) == ORDERS[column]
    fit = ld.decompose(x, ld.adaptive(3))
    assert list(fit.arrangement) == ["who"]
    fit.save(tmp_path / "fit.npz")
    assert ld.load(tmp_path / "fit.npz").origin.ranked == fit.origin.ranked == x.origin.ranked
    table = ld.decompose(pd.crosstab(events["who"], events[column]), ld.adaptive(3))
    assert list(table.arrangement) == ["who"]
    parts = ld.from_rows([events[:100], events[100:]], [column, "who"])
    assert parts.origin.ranked == x.origin.ranked
    assert_array_equal(parts.toarray(), x.toarray())


def test_the_page_takes_data_in_the_order_of_x(X: FloatArray, tmp_path: Path) -> None:
    names: list[Any] = [list("abcdefghijkl"), None, None]
    fit = ld.decompose(X, ld.adaptive(4), names=["who", "what", "when"], levels=names)
    fit.save(tmp_path / "fit.npz")
    loaded = ld.load(tmp_path / "fit.npz")
    found = loaded._content(xr.DataArray(X, dims=["who", "what", "when"], coords={"who": names[0]})).pair
    own = fit._content().pair
    assert found is not None
    assert own is not None
    assert_array_equal(found.cells().x, own.cells().x)
    turned = xr.DataArray(X[::-1], dims=["who", "what", "when"], coords={"who": names[0][::-1]})
    with pytest.raises(ld.LegendreError, match="other levels of who than the fit, or in another order"):
        loaded._content(turned)


@pytest.mark.parametrize("shape", [(50, 7), (30, 80), (40, 5, 4)])
def test_the_axis_is_that_of_all_pairs(
    shape: tuple[int, ...], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By definition: the second eigenvector of the similarities of all pairs of levels, scaled on both sides."""
    monkeypatch.setattr("legendre.core.limits.MOST_LEAVES", 10)
    X = rng.poisson(4.0, shape) + 1.0
    roots = np.sqrt(X.reshape(len(X), -1) / X.reshape(len(X), -1).sum(axis=1, keepdims=True))
    alike = roots @ roots.T
    side = np.sqrt(alike.sum(axis=1))
    places = np.linalg.eigh(alike / np.outer(side, side))[1][:, -2] / side
    expected = np.argsort(places if places @ X.reshape(len(X), -1).sum(axis=1) > 0 else -places)
    assert_array_equal(seriate(observe(X), 0), expected)
    order = rng.permutation(len(X))
    assert_array_equal(order[seriate(observe(X[order]), 0)], expected)
    X[[1, 5]] = 0  # levels without data come last
    assert seriate(observe(X), 0)[-2:].tolist() == [1, 5]


def test_slices_of_one_shape_stand_together_by_their_sums(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legendre.core.limits.MOST_LEAVES", 10)
    shapes, kinds, times = rng.integers(1, 50, (4, 9)), np.arange(40) % 4, rng.permutation(np.arange(1, 41))
    found = seriate(observe(shapes[kinds] * times[:, None]), 0)
    assert (np.diff(kinds[found]) != 0).sum() == 3
    for kind in range(4):
        assert (np.diff(times[found][kinds[found] == kind]) > 0).all()
    one = shapes[0] * times[:, None]
    for X in (one, one[:, 0], one[:, :1]):
        assert_array_equal(times[seriate(observe(X), 0)], np.arange(1, 41))


def test_memory_for_very_many_levels_is_linear(rng: np.random.Generator) -> None:
    X = rng.poisson(3.0, (6_000, 5)).astype(float)
    data = observe(X)
    seriate(data, 0)  # loads what it needs
    tracemalloc.start()
    try:
        seriate(data, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * X.nbytes  # a number for each pair would be 1,200 times as much as X


@pytest.mark.parametrize(
    ("unordered", "message"),
    [
        (["zoen"], "unordered: unknown mode 'zoen'; did you mean 'zone'?"),
        ([7], "unordered: 7 is not a mode of X, which has 3"),
        (3.5, "unordered: 3.5 is not a set of modes"),
        ({0: [0, 1]}, "unordered: 2 levels of mode 0 are listed, 2 of them different; list each of its 12 levels once"),
        ({0: [0] * 12}, "unordered: 12 levels of mode 0 are listed, 1 of them different"),
        ({0: [0, 99]}, "unordered: mode 0 has no index 99"),
        ({0: 5}, "unordered: 0 levels of mode 0 are listed, 0 of them different; list each of its 12 levels once."),
    ],
)
def test_errors(X: FloatArray, unordered: Any, message: str) -> None:
    named: dict[str, Any] = {"names": ["zone", "b", "c"]} if unordered == ["zoen"] else {}
    with pytest.raises(ld.LegendreError, match=re.escape(message)):
        ld.decompose(X, ld.adaptive(2), unordered=unordered, **named)


def test_an_x_that_is_not_in_memory_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("legendre.core.limits.LARGEST_HELD", 100)
    X = da.ones((40, 40, 4), chunks=(40, 40, 2))
    with pytest.raises(ld.LegendreError, match=r"whose levels cannot be arranged. Put its levels in an order"):
        ld.decompose(X, "B1", unordered=[2])
    named = ld.decompose(X, ld.adaptive(1), levels=[None, None, list("dabc")])
    assert named.arrangement == {}


def test_without_labels_the_order_is_that_of_x_too(X: FloatArray) -> None:
    fit = ld.decompose(X, ld.adaptive(4), names=["a", "b", "c"], levels={"a": list("abcdefghijkl")})
    assert list(fit.arrangement) == ["a"]
    assert_array_equal(fit.without_labels().tensor(), fit.tensor())
    tests = fit.inference()
    assert_allclose(
        tests.residuals(cells=[[3, 2, 1], [7, 0, 5]]), [tests.residuals()[3, 2, 1], tests.residuals()[7, 0, 5]]
    )


@pytest.mark.parametrize(("basis", "ways"), [([[2, 0]], 15), ([[2, 0], [3, 1]], 60), ([[0, 1]], 1), (ld.full(), 720)])
def test_bits_count_the_arrangements_that_make_a_difference(basis: Any, ways: int) -> None:
    """Of six levels: how many ways there are to deal them out to the intervals, by counting all permutations."""
    fit = ld.decompose(np.arange(1.0, 13.0).reshape(6, 2), basis, unordered=[0])
    cuts = fit.model.quotient.cuts[0].tolist()
    parts = {
        tuple(frozenset(order[a:b]) for a, b in pairwise([*cuts, 6])) for order in itertools.permutations(range(6))
    }
    assert len(parts) == ways
    assert fit.arrangement_bits == pytest.approx(np.log2(ways))
    assert ld.decompose(np.arange(1.0, 13.0).reshape(6, 2), basis).arrangement_bits == 0.0
