"""The density estimator: against counting, and by scikit-learn's own checks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import legendre as ld
from legendre.core.types import AnyArray

CANNOT = {
    "check_sample_weight_equivalence_on_dense_data": "has 30 columns of fractions: even in two bins each 2**30 cells",
    "check_estimators_unfitted": "raises the package's NotFitted: scikit-learn's needs scikit-learn",
}


def cannot(estimator: Any) -> dict[str, str]:
    codes = {"check_positive_only_tag_during_fit": "refuses codes below 0 in its own words"}
    return CANNOT | (codes if isinstance(estimator, ld.BoltzmannMachine) else {})


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # "does not inherit from BaseEstimator": it need not
    estimators = [ld.LegendreDensity(n_bins=2), ld.BoltzmannMachine(1)]
    scikit_learn_checks = parametrize_with_checks(estimators, expected_failed_checks=cannot)


@scikit_learn_checks  # type: ignore[untyped-decorator]
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("basis", [2, ld.graph()])
def test_rows_that_are_counted_or_come_in_parts(basis: Any, rng: np.random.Generator) -> None:
    import dask.dataframe as dd

    frame = pandas.DataFrame({"a": rng.choice(["x", "y", "z"], 200), "b": rng.integers(0, 3, 200)})
    density = ld.LegendreDensity(basis).fit(frame)
    counted = ld.from_rows(frame)
    parts: list[Any] = [counted, dd.from_pandas(frame, npartitions=3), polars.from_pandas(frame).lazy()]
    for rows in (*parts, iter((frame[:90], frame[90:]))):
        other = ld.LegendreDensity(basis).fit(rows)
        assert_allclose(other.score_samples(frame), density.score_samples(frame), rtol=1e-12)
    assert_array_equal(density.score_samples(counted), [density.score(cell) for cell in named_cells(counted)])
    with pytest.raises(ld.errors.InvalidSetting, match="counted already"):
        density.fit(counted, sample_weight=counted.values)


def named_cells(x: ld.SparseTensor) -> list[Any]:
    return [
        dict(zip("ab", [[value] for value in x.origin.of(x.shape).values_at(cell)], strict=True)) for cell in x.cells
    ]


def test_whole_floats_are_binned(rng: np.random.Generator) -> None:
    """Integers of pandas with NaN are floats: 169 levels were made of a column, although six bins were asked for."""
    rows = {"delay": rng.integers(0, 100, 300).astype(float), "stops": rng.integers(0, 3, 300).astype(float)}
    columns = ld.LegendreDensity(n_bins=6).fit(rows).columns_
    assert [(len(own.values), own.edges is None) for own in columns] == [(6, False), (3, True)]


@pytest.mark.parametrize("basis", [2, "B1", ld.graph(), ld.graph("aic")])
def test_an_estimator_is_saved_and_loaded(basis: Any, tmp_path: Path, rng: np.random.Generator) -> None:
    frame = pandas.DataFrame({"a": rng.choice(["x", "y"], 80), "b": rng.integers(0, 3, 80), "c": rng.random(80)})
    classes = 2 if basis == ld.graph("aic") else None
    density = ld.LegendreDensity(basis, n_bins=3, levels={"b": range(5)}, classes=classes).fit(frame)
    ld.save(density, tmp_path / "density.npz")
    again = ld.load(tmp_path / "density.npz")
    assert repr(again).replace("(0, 1, 2, 3, 4)", "range(0, 5)") == repr(density)
    assert_array_equal(again.score_samples(frame), density.score_samples(frame))
    assert_array_equal(again.sample(5, rng=0), density.sample(5, rng=0))
    assert_array_equal(again.fit(frame).score_samples(frame), density.score_samples(frame))


@pytest.fixture
def people(rng: np.random.Generator) -> AnyArray:
    """Rows of colour, size (ordinal) and a flag; the flag goes with the colour."""
    n = 300
    colour = rng.choice(["blue", "green", "red"], size=n)
    size = rng.integers(1, 5, size=n)
    flag = np.where(colour == "red", rng.random(n) < 0.8, rng.random(n) < 0.2).astype(int)
    return np.column_stack([colour.astype(object), size.astype(object), flag.astype(object)])


def as_counts(rows: AnyArray, categories: list[list[Any]]) -> AnyArray:
    X = np.zeros([len(levels) for levels in categories])
    for row in rows.tolist():
        X[tuple(levels.index(value) for value, levels in zip(row, categories, strict=True))] += 1
    return X


LEVELS: list[list[Any]] = [["blue", "green", "red"], [1, 2, 3, 4], [0, 1]]


def test_a_full_basis_is_the_relative_frequency(people: AnyArray) -> None:
    density = ld.LegendreDensity("full").fit(people)
    seen = Counter(map(tuple, people.tolist()))
    expected = [np.log(seen[tuple(row)] / len(people)) for row in people.tolist()]
    assert_allclose(density.score_samples(people), expected, atol=1e-9)
    assert density.score(people) == pytest.approx(np.mean(expected), abs=1e-10)


@pytest.mark.parametrize(
    "basis", [1, 2, "B1", "B1 + B3(2)", ld.interactions([(0, 2), (1,)]), ld.adaptive("bic")], ids=str
)
def test_it_is_the_decomposition_of_the_counts(basis: Any, people: AnyArray) -> None:
    X = as_counts(people, LEVELS)
    fit = ld.decompose(X, ld.interactions(basis) if isinstance(basis, int) else basis)
    density = ld.LegendreDensity(basis).fit(people)
    assert_allclose(density.decomposition_.tensor(), fit.tensor(), rtol=1e-9)
    q = fit.tensor() / X.sum()
    assert density.score(people) == pytest.approx(float((X * np.log(q)).sum() / X.sum()), abs=1e-10)


def test_the_pseudo_count_is_spread_over_all_cells(people: AnyArray) -> None:
    levels: list[list[Any]] = [["blue", "green", "red", "white"], [1, 2, 3, 4], [0, 1]]
    density = ld.LegendreDensity("full", levels=[levels[0], None, None], alpha=16.0).fit(people)
    X = as_counts(people, levels) + 0.5
    assert_allclose(density.decomposition_.tensor(), X, rtol=1e-9)
    row = np.array([["white", 1, 0]], dtype=object)
    assert density.score(row) == pytest.approx(np.log(0.5 / 316))


@pytest.mark.parametrize("levels", [["none", 1, 2.5], [1, "1", "yes"], ["x", ("a", 1)]], ids=str)
def test_categories_of_several_types_stay_what_they_are(levels: list[Any]) -> None:
    rows = np.empty((7, 2), dtype=object)
    rows[:, 0] = [levels[i % len(levels)] for i in range(7)]
    rows[:, 1] = 0
    density = ld.LegendreDensity(1, levels=[levels, None]).fit(rows)
    seen = [sum(1 for i in range(7) if i % len(levels) == k) for k in range(len(levels))]
    assert_allclose(density.decomposition_.tensor()[:, 0], seen, rtol=1e-12)
    drawn = density.sample(40, rng=0)[:, 0].tolist()
    assert {(type(value), value) for value in drawn} == {(type(value), value) for value in levels}
    if levels[0] == "none":
        with pytest.raises(
            ld.errors.InvalidSamples, match=r"column 0 holds '1' in row 0, which is not one of its levels"
        ):
            density.score(np.array([["1", 0]], dtype=object))


def test_lists_are_read_as_mixed_tables() -> None:
    rows: Any = [["a", 10], ["b", 2], ["a", 2], ["b", 10]]
    density = ld.LegendreDensity(1).fit(rows)
    assert density.columns_[1].draw(np.arange(2), np.random.default_rng(0)).tolist() == [2, 10]  # not "10" before "2"
    assert density.score(rows) == density.score(np.array(rows, dtype=object)) == pytest.approx(np.log(0.25), abs=1e-12)


def test_unseen_values(people: AnyArray) -> None:
    new = np.array([["red", 1, 0], ["pink", 1, 0]], dtype=object)
    density = ld.LegendreDensity(1).fit(people)
    with pytest.raises(
        ld.errors.InvalidSamples, match=r"column 0 holds 'pink' in row 1, which is not one of its levels\. List all"
    ):
        density.score_samples(new)
    silent = density.set_params(handle_unknown="-inf").score_samples(new)
    assert silent[1] == -np.inf
    X = as_counts(people, LEVELS) / len(people)
    margins = X.sum(axis=(1, 2))[2], X.sum(axis=(0, 2))[0], X.sum(axis=(0, 1))[0]
    assert silent[0] == pytest.approx(np.log(margins).sum(), abs=1e-9)
    assert_array_equal(density.score_samples(new[1:]), [-np.inf])
    with pytest.raises(ld.errors.InvalidSamples, match="row 1: the levels of the other columns have probability 0"):
        density.predict_proba(new)


def test_bins_make_a_density(rng: np.random.Generator) -> None:
    X = np.column_stack([rng.normal(size=400), rng.gamma(2.0, size=400), rng.integers(0, 2, size=400)])
    density = ld.LegendreDensity(2, n_bins=5).fit(X)
    assert density.decomposition_.shape == (5, 5, 2)
    counts = density.decomposition_.tensor().sum(axis=(1, 2))
    assert counts.min() >= 79 - 1e-9  # quantiles: about as many rows in each
    # a Riemann sum of the density over the bins, one point in each
    edges = [column.edges for column in density.columns_[:2] if column.edges is not None]
    assert len(edges) == 2
    middle = [(e[1:] + e[:-1]) / 2 for e in edges]
    total = sum(
        np.exp(density.score([[a, b, c]])) * da * db
        for a, da in zip(middle[0], np.diff(edges[0]), strict=True)
        for b, db in zip(middle[1], np.diff(edges[1]), strict=True)
        for c in (0, 1)
    )
    assert total == pytest.approx(1.0, abs=1e-10)
    far = X[:1].copy()
    far[0, 0] = 1e9
    near = far.copy()
    near[0, 0] = X[:, 0].max()
    assert density.score(far) == density.score(near)
    with pytest.raises(ld.errors.InvalidSamples, match="column 0 holds 'x'; fit saw numbers, which were put in bins"):
        density.score(np.array([["x", 1.0, 0]], dtype=object))


def test_samples_look_like_the_data(people: AnyArray, rng: np.random.Generator) -> None:
    density = ld.LegendreDensity("full").fit(people)
    drawn = density.sample(20_000, rng=3)
    q = density.decomposition_.tensor() / len(people)
    assert_allclose(as_counts(drawn, LEVELS) / 20_000, q, atol=5 * np.sqrt(q.max() / 20_000))
    assert_array_equal(drawn, density.sample(20_000, rng=3))
    assert isinstance(drawn[0, 0], str)
    X = rng.normal(size=(500, 2))
    binned = ld.LegendreDensity(1, n_bins=4).fit(X)
    points = binned.sample(5_000, np.random.default_rng(0))
    assert points.min() >= X.min()
    assert points.max() <= X.max()
    assert_allclose(np.quantile(points, [0.25, 0.5, 0.75]), np.quantile(X, [0.25, 0.5, 0.75]), atol=0.1)


def test_weighted_rows_are_repeated_rows(rng: np.random.Generator) -> None:
    X, times = rng.normal(size=(60, 2)), rng.integers(0, 4, size=60)
    weighted = ld.LegendreDensity(2, n_bins=3, alpha=1.0).fit(X, sample_weight=times)
    repeated = ld.LegendreDensity(2, n_bins=3, alpha=1.0).fit(np.repeat(X, times, axis=0))
    assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=1e-12)
    assert weighted.decomposition_.shape == (3, 3)


def test_search_over_bases_and_pipelines(people: AnyArray) -> None:
    bases = [1, "interactions([(0, 2), (1,)])", "full", ld.interactions([(0, 1), (2,)])]
    search = GridSearchCV(ld.LegendreDensity(alpha=1.0), {"basis": bases}).fit(people)
    assert search.best_params_["basis"] == "interactions([(0, 2), (1,)])"
    pipe = make_pipeline(OrdinalEncoder(), ld.LegendreDensity(2)).fit(people)
    assert pipe.score(people) == pytest.approx(ld.LegendreDensity(2).fit(people).score(people), abs=1e-12)
    copy = clone(ld.LegendreDensity(ld.B1(), n_bins=3))
    assert repr(copy) == "LegendreDensity(basis=B1(), n_bins=3)"


TROUBLE: list[tuple[dict[str, Any], Any, str]] = [
    ({}, np.arange(1000.0).reshape(-1, 1) * np.ones(4) + 0.5, "table has "
     "1,000,000,000,000 cells, and at most .* Set n_bins to bin continuous columns"),
    ({}, [[1.0, np.nan]], "Input X contains NaN or infinity: column 1 is nan in row 0"),
    ({}, np.array([["a"], [None]], dtype=object), "column 0 is None in row 1. Leave such rows out"),
    ({}, np.array([["a"], [1]], dtype=object), "column 0 mixes values of types int, str, which have no order"),
    ({"levels": [["a"]]}, [["a"], ["b"]], r"column 0 holds .*'b'.* in row 1, which levels does not list"),
    ({"levels": [["a", "a"]]}, [["a"]], "levels of column 0: 'a' stands for levels 0 and 1"),
    ({"levels": [["a"], ["b"]]}, [["a"]], "levels must be a mapping of columns, a list with one item"),
    ({"levels": "all"}, [["a"]], "levels must be a mapping of columns, .* got 'all'"),
    ({"levels": [5]}, [["a"]], "levels of column 0: 5 is not a list of labels."),
    ({"levels": [["a", ["b"]]]}, [["a"]], "levels of column 0: label 1 is "),
    ({"levels": [np.array([["a"], ["b"]])]}, [["a"]], "levels of column 0: label 0 is "),
    ({"levels": [{"a", "b"}]}, [["a"]], "is not a list of labels"),
    ({"levels": [["a", 1]]}, [[1], [2]], "column 0 holds 2 in row 1, which levels does not list"),
    ({}, np.array([[1, [2]], [1, [3]]], dtype=object), r"column 1 holds \[2\] in row 0, where a number or a"),
    ({}, np.array([["2020-01-01"], ["NaT"]], dtype="M8[D]"), "NaN or infinity: column 0 is (NaT|None) in row 1"),
    ({"handle_unknown": "ignore"}, [["a"]], "handle_unknown must be 'error' or '-inf', got 'ignore'"),
    ({"alpha": 10**400}, [[1]], "alpha must be a finite number >= 0, got 1000"),
    ({"n_bins": 0}, [[1.5]], "n_bins must be an integer >= 1, got 0"),
    ({"n_bins": 3}, [[1.5], [1.5]], r"column 0 holds one value only, 1.5 \(n_samples=2\)"),
    ({"alpha": np.inf}, [[1]], "alpha must be a finite number >= 0, got inf"),
    ({"basis": "B9"}, [[1], [2]], "unknown basis 'B9'"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "rows", "text"), TROUBLE, ids=range(len(TROUBLE)))
def test_trouble_is_named(settings: dict[str, Any], rows: Any, text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        ld.LegendreDensity(**settings).fit(rows)


def test_columns_of_frames_are_named(people: AnyArray) -> None:
    frame: Any = pandas.DataFrame(people, columns=["colour", "size", "flag"])
    density = ld.LegendreDensity(1).fit(frame)
    assert density.feature_names_in_.tolist() == ["colour", "size", "flag"]
    other: Any = pandas.DataFrame(people[:, ::-1], columns=["flag", "size", "colour"])
    assert_array_equal(density.score_samples(other), density.score_samples(frame))
    with pytest.raises(ld.errors.InvalidSamples, match=r"X has no column 'colour', which fit saw\. Is it 'color'\?"):
        density.score(frame.rename(columns={"colour": "color"}))
    with pytest.raises(ld.errors.InvalidSamples, match=r"a column 'sizes', which fit did not see"):
        density.score(frame.assign(sizes=0))
    with pytest.raises(ld.errors.InvalidSamples, match="column 'size' holds 9 in row 0"):
        density.score(np.array([["red", 9, 0]], dtype=object))
    density.fit(people)
    assert not hasattr(density, "feature_names_in_")
    with pytest.raises(ld.errors.NotFitted, match="this LegendreDensity is not fitted yet"):
        ld.LegendreDensity().sample()


def test_ordered_categories_keep_their_list_and_order() -> None:
    sizes, rows = ["small", "large", "huge"], ["large", "small", "large"]
    dictionary = pyarrow.DictionaryArray.from_arrays(pyarrow.array([1, 0, 1]), pyarrow.array(sizes), ordered=True)
    for table in (
        pandas.DataFrame({"s": pandas.Categorical(rows, sizes, ordered=True)}),
        polars.DataFrame({"s": polars.Series(rows, dtype=polars.Enum(sizes))}),
        pyarrow.table({"s": dictionary}),
    ):
        density = ld.LegendreDensity(1, alpha=3.0).fit(table)
        assert_allclose(density.decomposition_.tensor(), [2.0, 3.0, 1.0], rtol=1e-9)
        assert_allclose(density.score_samples([["huge"]]), [np.log(1 / 6)], atol=1e-9)


def test_missing_values_of_every_library() -> None:
    text = r"Input X contains NaN or infinity: column 'd' is (nan|None|<NA>|NaT) in row 1\. Leave such rows out"
    for column in (["x", None], [1.5, np.nan], [1, None], [True, None]):
        for table in (pandas.DataFrame({"d": column}), polars.DataFrame({"d": column}), pyarrow.table({"d": column})):
            with pytest.raises(ld.errors.InvalidSamples, match=text):
                ld.LegendreDensity(1).fit(table)
    with pytest.raises(ld.errors.InvalidSamples, match="column 0 is nan in row 1"):
        ld.LegendreDensity(1).fit(np.ma.masked_array([[1], [2]], mask=[[False], [True]]))


def test_a_large_grid_of_few_rows_is_a_list_of_cells() -> None:
    """Three continuous columns of 100 values make a million cells, nearly all of them empty."""
    rows = np.random.default_rng(0).normal(size=(100, 3))
    fit = ld.LegendreDensity(1).fit(rows)
    assert fit.decomposition_.shape == (100, 100, 100)
    assert fit.decomposition_.kl == pytest.approx(2 * np.log(100), abs=1e-9)
    data = fit.decomposition_.data
    assert data is not None
    assert data.kind != "a dense array"


def test_conditionals_by_names() -> None:
    rows: Any = {"class": ["1st", "1st", "crew", "crew", "crew"], "age": [1.5, 40.0, 22.5, 35.0, 61.0]}
    rows["survived"] = ["yes", "no", "no", "no", "yes"]
    density = ld.LegendreDensity(ld.interactions([(0, 2), (1,)]), n_bins=2).fit(rows)
    assert_allclose(density.conditional({"class": "crew"}, of="survived"), [2 / 3, 1 / 3], atol=1e-9)
    assert_allclose(density.conditional(of=["survived", "class"]), [[0.2, 0.4], [0.2, 0.2]], atol=1e-9)
    assert_allclose(density.conditional({"age": 30.0}, of="class"), [0.4, 0.6], atol=1e-9)
    assert density.conditional({0: "1st"}).shape == (2, 2)
    asked: list[tuple[Any, Any, str]] = [
        ({"clas": "crew"}, None, "did you mean 'class'"),
        ({"class": "crw"}, None, "class has no level 'crw'. Did you mean 'crew'?"),
        ({"class": "crew"}, "class", "class is asked for and given"),
        ({"age": "old"}, None, "age holds numbers, which were put in bins; got 'old'"),
        ("crew", None, "condition('crew'): pass a dict"),
    ]
    for given, of, text in asked:
        with pytest.raises(ld.LegendreError) as caught:
            density.conditional(given, of)
        assert text in str(caught.value)
    with pytest.raises(ld.LegendreError, match="has probability 0"):
        ld.LegendreDensity(2, levels=[["a", "b", "c"], None]).fit([["a", "x"], ["b", "y"]]).conditional({0: "c"})


def test_a_level_that_only_rows_without_weight_have_is_none() -> None:
    rows = np.array([["a", "x"], ["b", "y"], ["b", "x"], ["c", "z"]], dtype=object)
    density = ld.LegendreDensity(1).fit(rows, sample_weight=[1, 1, 1, 0])
    assert_array_equal(density.score_samples(rows[:3]), ld.LegendreDensity(1).fit(rows[:3]).score_samples(rows[:3]))
    assert [column.values.tolist() for column in density.columns_] == [["a", "b"], ["x", "y"]]
    codes = {"a": [0, 1, 1, 5], "b": [0, 1, 0, 1]}
    assert ld.BoltzmannMachine(2).fit(codes, sample_weight=[1, 1, 1, 0]).n_levels_ == (2, 2)
