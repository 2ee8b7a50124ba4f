"""Cells that vanish, on tables over cliques: against the dense answer, and on grids that nobody can form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.core import limits
from legendre.core.types import FloatArray, IntArray
from legendre.data.sparse import observe_rows
from legendre.model.model import Cliques
from legendre.results.decomposition import Decomposition

SOLVERS = ["auto", "auto", "auto", "closed", "natural", "natural-cg"]


def decomposable_groups(order: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Draw sets of modes, each of which meets those before it within one of them."""
    groups = [tuple(sorted(rng.choice(order, size=rng.integers(1, min(3, order) + 1), replace=False).tolist()))]
    for k in range(order):
        if not any(k in group for group in groups):
            old = groups[rng.integers(len(groups))]
            shared = rng.choice(old, size=rng.integers(0, min(len(old), 2) + 1), replace=False).tolist()
            groups.append(tuple(sorted([*shared, k])))
    return groups


def only_cliques(patch: pytest.MonkeyPatch) -> None:
    """Let small problems take the way of those that no grid can hold."""
    for name in ("CLIQUES_FROM", "CLIQUES_GAIN", "LARGEST_MASS"):
        patch.setattr(limits, name, 0)


def table_of(dense: Decomposition) -> FloatArray:
    held = None if dense.data is None else dense.data.as_dense()
    assert held is not None
    return np.asarray(held.values, dtype=np.float64)


def listed(dense: Decomposition) -> tuple[IntArray, FloatArray, tuple[int, ...]]:
    """Return the entries of X, and its shape."""
    table = table_of(dense)
    return np.argwhere(table), table[table > 0], table.shape


def pair_of_fits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Decomposition, Decomposition, np.random.Generator]:
    """Fit a few rows as a dense table, and as one that may only be summed in tables over cliques."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=rng.integers(1, 5)).tolist())
    n_rows = int(rng.integers(1, 25))
    rows = np.stack([rng.integers(0, n, n_rows) for n in shape], axis=1)
    table = np.zeros(shape)
    np.add.at(table, tuple(rows.T), 1.0)
    basis = ld.interactions(decomposable_groups(len(shape), rng))
    dense = ld.decompose(table, basis)
    only_cliques(monkeypatch)
    fit = ld.decompose(observe_rows(rows, np.ones(n_rows), shape), basis, solver=SOLVERS[seed % len(SOLVERS)])
    return fit, dense, rng


@pytest.mark.parametrize("seed", range(24))
def test_tests_in_tables_are_those_on_the_grid(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits themselves are judged by the target "cliques" of tests/fuzz."""
    fit, dense, _ = pair_of_fits(seed, monkeypatch)
    assert (fit.status, fit.rank, fit.n_vanishing) == (dense.status, dense.rank, dense.n_vanishing)
    every_mode = ld.interactions([tuple(range(len(fit.shape)))])
    own = ld.anova(fit, ld.decompose(ld.from_coords(*listed(dense)), every_mode)).tests[0]
    monkeypatch.undo()
    ours, theirs = fit.inference(), dense.inference()
    assert ours.df == theirs.df
    assert_allclose([ours.g2, ours.x2], [theirs.g2, theirs.x2], atol=1e-6)
    ratio = ld.anova(dense, ld.decompose(table_of(dense), every_mode)).tests[0]
    assert own.df == ratio.df
    assert own.statistic == pytest.approx(ratio.statistic, abs=1e-6)
    if fit.n_params:
        assert_allclose(ours.coef().estimate, theirs.coef().estimate, atol=1e-6)


@pytest.mark.parametrize("seed", [0, 7, 13])
def test_a_direction_of_recession_leads_to_the_limit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Q is the limit of ``theta + t * recession``: in the model of the whole grid, as t grows."""
    fit, dense, _ = pair_of_fits(seed, monkeypatch)
    assert fit.status is ld.results.Status.AT_BOUNDARY
    far = np.zeros(fit.shape)
    far[tuple(fit.basis.T)] = fit.theta + 40.0 * fit.recession
    for axis in range(far.ndim):
        far = np.cumsum(far, axis=axis)
    q = np.exp(far - far.max())
    assert_allclose(q / q.sum() * fit.total, dense.tensor(), atol=1e-7)


def test_an_unseen_state_of_a_chain_of_order_100() -> None:
    """2^98 cells vanish: they are counted to 13 digits, and a list of them is refused with what tells them."""
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 2, size=(200, 100))
    rows[:, 41] &= ~rows[:, 40] & 1
    fit = ld.BoltzmannMachine([(k, k + 1) for k in range(99)]).fit(rows).decomposition_
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.n_vanishing == pytest.approx(2**98, rel=1e-12)
    assert {modes: entries.tolist() for modes, entries in fit.vanishing_margins.items()} == {(40, 41): [[1, 1]]}
    with pytest.raises(ld.errors.TooLarge, match=r"never formed. fit.n_vanishing is their number, and fit.vanishing_m"):
        _ = fit.vanishing_cells
    smaller = ld.BoltzmannMachine([(k, k + 1) for k in range(98)]).fit(rows).decomposition_
    assert ld.anova(smaller, fit).tests[0].df == 1
    with pytest.raises(ld.errors.InvalidQuery, match=r"expectation: a table of 1.3e30 cells in 100 modes"):
        fit.expectation(lambda *_: 0.0)
    with pytest.raises(ld.errors.InvalidQuery, match="some cells vanish, and which combinations"):
        fit.inference().coef()


@pytest.mark.parametrize("tied", [ld.ties.linear(0, 1, scores=([0, 2, 4], [0, 3, 6])), ld.ties.rows(0, 1)], ids=repr)
def test_dependent_ties_are_counted_in_tables_as_on_the_grid(tied: ld.Basis, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).poisson(9.0, (3, 3, 2)).astype(float) + 1.0
    basis = ld.interactions(1) | ld.ties.uniform(0, 1) | tied
    dense = ld.decompose(table, basis)
    only_cliques(monkeypatch)
    fit = ld.decompose(ld.from_coords(np.argwhere(table), table.ravel(), table.shape), basis)
    assert isinstance(fit.model, Cliques)
    assert (fit.rank, fit.n_params) == (dense.rank, dense.n_params)
    assert fit.rank < fit.n_params
    assert_allclose(fit.tensor(), dense.tensor(), atol=1e-8)
