"""Iterative proportional scaling, for bases that are nothing but margins."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import legendre as ld
from legendre.data.observation import Support
from legendre.model.model import Model, fitted_margins, generating_margins
from oracles import FloatArray
from strategies import count_tables, masks, positive_tensors, shapes

Sets = list[tuple[int, ...]]


@st.composite
def hierarchical(draw: st.DrawFn) -> tuple[FloatArray, Sets]:
    shape = draw(shapes(max_cells=40, min_order=2, max_order=4))
    groups = [group for n in range(1, len(shape) + 1) for group in combinations(range(len(shape)), n)]
    sets = draw(st.lists(st.sampled_from(groups), min_size=1, max_size=4, unique=True))
    return draw(positive_tensors(shape)), sets


@given(hierarchical())
def test_scaling_agrees_with_natural(drawn: tuple[FloatArray, Sets]) -> None:
    X, sets = drawn
    basis = ld.interactions(sets)
    if not len(ld.decompose(X, basis).basis):
        return  # modes of one level have no parameters, and no margins to fit
    fit, reference = ld.decompose(X, basis, solver="scaling"), ld.decompose(X, basis)
    assert fit.solver == "scaling"
    assert_allclose(fit.tensor(), reference.tensor(), rtol=1e-7)
    assert_allclose(fit.theta, reference.theta, atol=1e-6)
    assert 0 <= fit.gap < 1e-12


@settings(max_examples=40)
@given(shapes(max_cells=24, min_order=2, max_order=3), st.data())
def test_scaling_with_zeros_or_refusal(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Zeros and holes may leave parameters dependent: then it says so, else it has the same answer."""
    X, mask = data.draw(count_tables(shape)), data.draw(masks(shape))
    mask = mask if X[mask].any() else np.ones(shape, dtype=np.bool_)
    reference = ld.decompose(X, ld.interactions(1), support=mask)
    try:
        fit = ld.decompose(X, ld.interactions(1), support=mask, solver="scaling", tol=1e-8)
    except ld.errors.InvalidSetting:
        assert reference.rank < reference.n_params or not reference.n_params  # nothing to scale
    else:
        assert_allclose(fit.tensor() / fit.total, reference.tensor() / fit.total, atol=1e-5)


DECOMPOSABLE: list[Sets] = [
    [(0,), (1,), (2,), (3,)],
    [(0, 1), (2, 3), (1, 2)],
    [(0, 1, 2), (3,)],
    [(1, 3), (0, 3), (2, 3)],
]


@pytest.mark.parametrize("sets", DECOMPOSABLE, ids=str)
def test_decomposable_sets_take_one_cycle(sets: Sets, rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.uniform(0.1, 1, size=(3, 2, 4, 2)), ld.interactions(sets), solver="scaling")
    assert fit.n_iter == 1
    assert fit.residual <= 1e-12


def test_margins_are_found_on_the_merged_grid() -> None:
    """Cells (2, 0) and (0, 3) cut a 4 x 5 grid into 2 x 2 boxes, where they are both one-body margins."""
    model = Model.of(Support((4, 5)), None, np.array([[2, 0], [0, 3]]))
    assert fitted_margins(model) == [(0,), (1,)]
    assert generating_margins(model) == [(0,), (1,)]
    joined = Model.of(Support((4, 5)), None, np.array([[2, 0], [0, 3], [2, 3]]))
    assert generating_margins(joined) == [(0, 1)]
    partial = Model.of(Support((4, 5)), None, np.array([[2, 0], [2, 3]]))
    assert generating_margins(partial) is None


@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.filterwarnings("ignore::legendre.ConvergenceWarning")
def test_the_gap_is_an_upper_bound_on_the_way(sigma: float, rng: np.random.Generator) -> None:
    X = rng.lognormal(sigma=sigma, size=(5, 4, 3))
    best = ld.decompose(X, ld.interactions(2), solver="natural", tol=1e-13).kl
    bounded = 0
    for cycles in range(1, 30, 3):
        early = ld.decompose(X, ld.interactions(2), solver="scaling", max_iter=cycles)
        assert early.kl - best <= early.gap + 1e-13, f"after {cycles} cycles"
        bounded += np.isfinite(early.gap)
    assert bounded >= 3


@pytest.mark.parametrize("seed", range(12))
def test_fitted_margins_are_the_largest_of_the_definition(seed: int) -> None:
    """Every subset of modes is asked whether B has all of its cells, and all of its parts'."""
    rng, shape = np.random.default_rng(seed), (2, 3, 2, 2)
    cells = np.argwhere(np.ones(shape))[1:]
    patterns = [tuple(np.flatnonzero(cell)) for cell in cells]
    kept = {s for s in set(patterns) if rng.random() < 0.8}
    basis = cells[[s in kept and (seed % 3 > 0 or rng.random() < 0.97) for s in patterns]]
    model = Model.of(Support(shape), None, basis)
    has = {tuple(cell) for cell in basis.tolist()}
    groups = [s for n in range(1, 5) for s in combinations(range(4), n)]
    closed = [s for s in groups if all(tuple(c) in has for c in cells.tolist() if set(np.flatnonzero(c)) <= set(s))]
    largest = [s for s in closed if not any(set(s) < set(other) for other in closed)]
    assert model.quotient.merged_shape == shape
    assert fitted_margins(model) == sorted(largest)
