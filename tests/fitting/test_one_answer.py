"""One answer for one table: whatever the order of modes, of rows and of unordered levels, and whatever holds it."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import legendre as ld
from legendre.core.types import FloatArray


def random_table(seed: int) -> tuple[FloatArray, list[int]]:
    """Draw counts, or fractions with and without zeros, of up to four modes, and name some of them unordered."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    shape = tuple(rng.integers(2, [9, 7, 5][n - 2], n).tolist()) if seed % 3 else (2,) * n
    mean = np.ones(shape)
    for pair in itertools.combinations(range(n), 2):
        mean *= np.exp(rng.normal(size=[length if k in pair else 1 for k, length in enumerate(shape)]))
    kinds = rng.poisson(3 * mean), rng.poisson(40 * mean), mean * rng.gamma(5.0, size=shape)
    X = np.asarray((*kinds, np.where(rng.random(shape) < 0.3, 0.0, mean))[seed % 4], dtype=np.float64)
    X.flat[0] += not X.any()
    return X, [k for k in range(n) if rng.random() < 0.5]


def assert_same(fit: ld.Decomposition, other: ld.Decomposition) -> None:
    assert other.n_params == fit.n_params
    assert other.kl == pytest.approx(fit.kl, abs=1e-9)


@pytest.mark.parametrize("seed", [*range(12), 191])
def test_decompose_depends_neither_on_the_order_of_axes_nor_on_that_of_unordered_levels(seed: int) -> None:
    """Barley had 7, 8, 9, 10 or 14 parameters by the order of its axes, a random 2 x 2 x 2 x 2 another KL."""
    X, unordered = random_table(seed)
    fit = ld.decompose(X, unordered=unordered)
    rng = np.random.default_rng(seed)
    for _ in range(2):
        mixed = X
        for k in unordered:
            mixed = mixed.take(rng.permutation(X.shape[k]), axis=k)
        axes = rng.permutation(X.ndim).tolist()
        assert_same(fit, ld.decompose(mixed.transpose(axes), unordered=[axes.index(k) for k in unordered]))


def test_a_series_of_3_1_0_0_with_the_first_two_swapped() -> None:
    """It had 1 parameter or 0."""
    for counts in itertools.permutations([3, 1, 0, 0]):
        table = pd.Series(counts, index=pd.Index(list("abcd"), name="who"))
        assert_same(ld.decompose(pd.Series([3, 1, 0, 0], index=table.index)), ld.decompose(table))


@pytest.fixture
def events() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 12)
    who, day = rng.integers(0, 12, 4000), rng.integers(0, 7, 4000)
    what = np.where(rng.random(4000) < 0.7, kinds[who], rng.integers(0, 5, 4000))
    return pd.DataFrame({"who": [f"w{k}" for k in who], "what": [f"x{k}" for k in what], "day": day})


def test_rows_in_another_order_and_tables_of_pandas_give_one_answer(events: pd.DataFrame) -> None:
    """Rows gave 256 parameters, a Series 11, an array of integers 19."""
    fit = ld.decompose(ld.from_rows(events))
    assert fit.n_params
    assert_same(fit, ld.decompose(ld.from_rows(events.sample(frac=1.0, random_state=1))))
    counts = events.value_counts().sort_index()
    assert_same(fit, ld.decompose(counts.reindex(pd.MultiIndex.from_product(counts.index.levels), fill_value=0)))
    assert_same(fit, ld.decompose(pd.crosstab(events["who"], [events["what"], events["day"]])))


def test_neither_the_order_of_rows_in_parts_nor_the_unit_of_amounts_chooses_the_basis() -> None:
    """Sums that differed in their last bits, and other units, gave 9 and 10 of 40 tables another fit."""
    rng = np.random.default_rng(11)
    kind = rng.integers(0, 3, 99)
    columns = {name: (kind + (rng.random(99) < 0.3)) % size for size, name in enumerate("abc", 2)}
    rows = pd.DataFrame(columns).assign(n=rng.gamma(3.0, size=99))
    X, backwards, modes = ld.from_rows(rows, counts="n"), rows[::-1], list("abc")
    assert X.values.tobytes() == ld.from_rows(backwards, counts="n").values.tobytes()
    parts = ld.from_rows([backwards[:40], backwards[40:]], modes, counts="n")
    for other in (parts, ld.from_rows(rows.assign(n=rows["n"] / 7), counts="n")):
        assert_same(ld.decompose(X, unordered=modes), ld.decompose(other, unordered=modes))


def test_the_reason_says_when_an_array_of_whole_numbers_is_taken_for_other_than_counts() -> None:
    X = np.rint(1e9 * np.random.default_rng(0).gamma(5.0, size=(20, 20)).cumsum(axis=0).cumsum(axis=1))
    said = " If X holds counts, as rows and tables of pandas are taken to do, pass counts=True."
    assert str(ld.decompose(X).reason).endswith(said)
    table, told = ld.decompose(pd.DataFrame(X), unordered=()), ld.decompose(X, counts=True)
    assert "were held out" not in f"{table.reason} {told.reason}"
    assert_same(table, told)


def test_a_mode_without_labels_that_looks_unordered_is_named() -> None:
    """438 patients: the held-out loss fell from .54 to .21 when they were declared to have no order."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 40)
    X = np.exp(2.0 * np.eye(3)[kinds][:, [0, 0, 1, 1, 2, 2]]) * rng.gamma(20.0, size=(40, 6))
    said = "Neighbouring levels of mode 0 are no more alike than others: if they have no order, unordered=[0]."
    assert said in str(ld.decompose(X).reason)
    for ordered in (ld.decompose(X[np.argsort(kinds)]), ld.decompose(X, unordered=())):
        assert "Neighbouring" not in str(ordered.reason)
