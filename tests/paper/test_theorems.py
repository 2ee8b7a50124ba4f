"""What the paper proves, for all sample spaces and bases: drawn, not chosen."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import SMALL, Case
from oracles import FloatArray, boltzmann_machine, distribution, divergence, expectations
from strategies import masks, positive_tensors, problems, seeds, shapes


@given(problems(), seeds)
def test_the_answer_does_not_depend_on_the_start(case: Case, seed: int) -> None:
    start = np.random.default_rng(seed).normal(scale=2.0, size=len(case.basis))
    fit, other = case.fit(), case.fit(start=start)
    assert_allclose(case.q(other), case.q(fit), rtol=1e-8)


@given(problems(weighted=True))
def test_q_is_a_member_of_the_model(case: Case) -> None:
    """Eq. (1) with a base measure: q / r is the exponential of zeta(theta) less psi."""
    fit = case.fit()
    assert_allclose(case.q(fit), distribution(case.Z, fit.theta, case.r), rtol=1e-10)
    assert_allclose(np.log(case.q(fit) / case.r), case.Z @ fit.theta - fit.psi, atol=1e-10)


@given(problems(), seeds)
def test_pythagoras(case: Case, seed: int) -> None:
    """KL(P, R) = KL(P, Q) + KL(Q, R) for every R in the model (Amari 2009, Theorem 3)."""
    q = case.q(case.fit())
    theta = np.random.default_rng(seed).normal(size=len(case.basis))
    r = distribution(case.Z, theta, case.r)
    assert divergence(case.p, r) == pytest.approx(divergence(case.p, q) + divergence(q, r), abs=1e-9)


@given(problems(max_params=8), st.integers(0, 8))
def test_a_larger_basis_never_raises_kl(case: Case, kept: int) -> None:
    smaller = Case(case.X, case.mask, case.basis[:kept], case.base)
    assert case.fit().kl <= smaller.fit().kl + 1e-12


@given(problems(weighted=True))
def test_the_empty_basis_is_the_base_measure(case: Case) -> None:
    fit = ld.decompose(case.X, "empty", support=case.mask, base=case.base)
    assert_allclose(case.q(fit), case.r / case.r.sum(), rtol=1e-12)


@given(problems(max_cells=24))
def test_the_full_basis_returns_p(case: Case) -> None:
    fit = ld.decompose(case.X, ld.full(), support=case.mask)
    assert_allclose(fit.tensor(), np.where(case.mask, case.X, 0.0), rtol=1e-8)
    assert fit.kl == pytest.approx(0.0, abs=1e-12)
    assert fit.rank == case.mask.sum() - 1


def rank_of_log(q: FloatArray) -> int:
    values = np.linalg.svd(np.log(q), compute_uv=False)
    return int(np.sum(values > 1e-9 * values[0]))


@given(shapes(max_cells=36, min_order=2, max_order=2), st.data())
def test_the_rank_of_log_q_is_the_number_of_basis_rows(shape: tuple[int, int], data: st.DataObject) -> None:
    """Log Q = L T R with unitriangular L and R, so that its rank is that of T, at most its number of non-zero rows.

    T holds theta on B and -psi at the bottom. With l basis rows, row 0 among them, that is l rows. Where row 0 holds no
    basis cell the bottom's -psi adds it as one more: l + 1.
    """
    rows = data.draw(st.sets(st.integers(0, shape[0] - 1), min_size=1))
    basis = [(i, j) for i in rows for j in range(shape[1]) if (i, j) != (0, 0)]
    fit = ld.decompose(data.draw(positive_tensors(shape)), basis)
    assert rank_of_log(fit.tensor() / fit.total) <= len(rows | {0})


def test_the_bottom_row_counts() -> None:
    """One basis row without row 0 does give rank 2, so that l alone is no bound."""
    X = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 9.0]])
    without, with_row_0 = ld.decompose(X, [(1, 1), (1, 2)]), ld.decompose(X, [(0, 1), (0, 2)])
    assert rank_of_log(without.tensor() / without.total) == 2
    assert rank_of_log(with_row_0.tensor() / with_row_0.total) == 1


@st.composite
def machines(draw: st.DrawFn) -> tuple[FloatArray, list[tuple[int, ...]]]:
    n = draw(st.integers(2, 5))
    groups = [group for size in (2, 3) for group in combinations(range(n), size)]
    edges = draw(st.lists(st.sampled_from(groups), unique=True, max_size=6))
    return draw(positive_tensors((2,) * n)), edges


@given(machines())
def test_the_boltzmann_machine(machine: tuple[FloatArray, list[tuple[int, ...]]]) -> None:
    """B(V) with B(E) is Gibbs learning (Section 2.4.2), also with hyperedges: same weights, exp(psi) = Z."""
    X, edges = machine
    groups = [*((k,) for k in range(X.ndim)), *edges]
    fit = ld.decompose(X, [[int(k in group) for k in range(X.ndim)] for group in groups])
    learned = boltzmann_machine(X.ndim, edges, X.ravel() / X.sum())
    assert_allclose(fit.theta[: X.ndim], learned.biases, atol=1e-7)
    assert_allclose(fit.theta[X.ndim :], learned.weights, atol=1e-7)
    assert fit.psi == pytest.approx(learned.log_z, abs=1e-7)
    assert_allclose(fit.tensor().ravel() / fit.total, learned.probability, rtol=1e-7)


@given(problems(max_cells=24, max_params=6))
def test_the_fisher_matrix_is_the_change_of_eta(case: Case) -> None:
    """Eq. (5): g_uv = d eta_u / d theta_v, by central differences."""
    fit = case.fit()
    theta, h = fit.theta, 1e-5
    changes = np.empty((len(theta), len(theta)))
    for v, direction in enumerate(np.eye(len(theta)) * h):
        above, below = (expectations(case.Z, distribution(case.Z, theta + s * direction, case.r)) for s in (1, -1))
        changes[:, v] = (above - below) / (2 * h)
    assert_allclose(fit.fisher(), changes, atol=1e-8)


@given(problems(), st.floats(1e-6, 1e6))
def test_scaling_changes_the_total_only(case: Case, factor: float) -> None:
    fit, scaled = case.fit(), Case(case.X * factor, case.mask, case.basis).fit()
    assert scaled.total == pytest.approx(fit.total * factor, rel=1e-12)
    assert_allclose(case.q(scaled), case.q(fit), rtol=1e-9)
    assert scaled.kl == pytest.approx(fit.kl, abs=1e-12)
    assert scaled.rmse == pytest.approx(fit.rmse * factor, rel=1e-6, abs=1e-9 * scaled.total)


@given(shapes(max_cells=60).flatmap(positive_tensors))
def test_the_one_body_basis_is_the_product_of_the_margins(X: FloatArray) -> None:
    expected = np.ones((1,) * X.ndim)
    for k in range(X.ndim):
        margin = X.sum(axis=tuple(j for j in range(X.ndim) if j != k), keepdims=True)
        expected = expected * margin / X.sum()
    for basis in ("B1", ld.interactions(1)):
        assert_allclose(ld.decompose(X, basis).tensor(), expected * X.sum(), rtol=1e-9)


@given(problems(weighted=True))
def test_a_base_measure_in_the_model_changes_nothing_but_theta(case: Case) -> None:
    """Multiplying r by a member of the model only moves theta by that member's parameters."""
    shift = np.linspace(-0.5, 0.5, len(case.basis))
    assert case.base is not None
    moved = case.base.copy()
    for v, change in zip(case.omega, np.exp(case.Z @ shift), strict=True):
        moved[tuple(v)] *= change
    fit, other = case.fit(), case.fit(base=moved)
    assert_allclose(case.q(other), case.q(fit), rtol=1e-8)
    assert other.kl == pytest.approx(fit.kl, abs=1e-10)
    if fit.rank == fit.n_params:
        assert_allclose(other.theta, fit.theta - shift, atol=1e-7)


@given(problems(), st.randoms(use_true_random=False))
def test_permuting_the_modes_permutes_the_answer(case: Case, random: Random) -> None:
    axes = random.sample(range(case.X.ndim), case.X.ndim)
    turned = Case(case.X.transpose(axes), case.mask.transpose(axes), case.basis[:, axes])
    assert_allclose(turned.fit().tensor(), case.fit().tensor().transpose(axes), rtol=1e-9)


@given(problems(), seeds)
def test_the_order_of_the_basis_does_not_matter(case: Case, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(case.basis))
    fit, shuffled = case.fit(), Case(case.X, case.mask, case.basis[order]).fit()
    assert_allclose(shuffled.tensor(), fit.tensor(), rtol=1e-9)
    if fit.rank == fit.n_params:
        assert_allclose(shuffled.theta, fit.theta[order], atol=1e-7)


@pytest.mark.filterwarnings("ignore::legendre.core.errors.BasisWarning")  # few cells may hold no cell of B1
@given(shapes(max_cells=24), st.data())
def test_missing_cells_are_cells_outside_omega(shape: tuple[int, ...], data: st.DataObject) -> None:
    X, mask = data.draw(positive_tensors(shape)), data.draw(masks(shape))
    masked = ld.decompose(X, "B1", support=mask)
    missing = ld.decompose(np.where(mask, X, np.nan), "B1")
    assert_array_equal(missing.theta, masked.theta)
    assert missing.kl == masked.kl


@pytest.mark.parametrize("name", sorted(SMALL))
def test_eta_is_one_at_the_bottom_and_falls_upwards(name: str) -> None:
    eta = SMALL[name].fit().eta_tensor()
    assert eta[(0,) * eta.ndim] == pytest.approx(1.0, abs=1e-14)
    for k in range(eta.ndim):
        assert (np.diff(eta, axis=k) <= 1e-15).all()
