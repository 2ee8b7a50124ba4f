"""Bases chosen by the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.arrays import FloatArray
from legendre.grow import bernoulli_divergence, pick


def blocks(rng: np.random.Generator, shape: tuple[int, ...], cells: Sequence[tuple[int, ...]]) -> FloatArray:
    """Build a tensor of the model with large parameters at the given cells."""
    theta = np.zeros(shape)
    for cell in cells:
        theta[cell] = rng.choice([-1.0, 1.0]) * rng.uniform(0.8, 1.5)
    return ld.from_theta(theta)


def test_the_first_choice_is_the_best_single_parameter(rng: np.random.Generator) -> None:
    X = rng.gamma(1.0, size=(4, 5, 3))
    chosen = ld.decompose(X, ld.adaptive(1))
    singles = [ld.decompose(X, [cell]).kl for cell in np.argwhere(np.ones(X.shape))[1:]]
    assert chosen.kl == pytest.approx(min(singles), rel=1e-9)


def test_the_gain_of_one_parameter_is_exact(rng: np.random.Generator) -> None:
    X = rng.gamma(1.0, size=(4, 5))
    uniform, cell = ld.decompose(X, "empty"), (2, 1)
    gain = bernoulli_divergence(ld.to_eta(X), ld.to_eta(np.ones((4, 5))))[cell]
    assert uniform.kl - ld.decompose(X, [cell]).kl == pytest.approx(float(gain), rel=1e-8)


def test_generating_cells_are_found(rng: np.random.Generator) -> None:
    cells = [(2, 0, 0), (0, 3, 1), (3, 2, 2)]
    fit = ld.decompose(blocks(rng, (5, 6, 4), cells), ld.adaptive(3))
    assert sorted(map(tuple, fit.basis.tolist())) == sorted(cells)
    assert fit.kl < 1e-12


def test_kl_never_rises_and_the_path_is_nested(rng: np.random.Generator) -> None:
    X = rng.lognormal(sigma=1.5, size=(8, 7, 6))
    fit = ld.decompose(X, ld.adaptive(60, start="B1"))
    assert fit.n_params == 60
    kls = [step.kl for step in fit.path]
    assert all(after <= before + 1e-12 for before, after in pairwise(kls))
    assert fit.path[-1].n_params == 60
    assert fit.path[-1].kl == fit.kl
    assert_array_equal(fit.basis[:18], ld.decompose(X, "B1").basis)


def test_a_fit_on_the_path_is_a_fresh_fit(rng: np.random.Generator) -> None:
    X = rng.gamma(1.0, size=(6, 5, 4))
    fit = ld.decompose(X, ld.adaptive(25))
    part = fit.at(11)
    fresh = ld.decompose(X, fit.basis[:11])
    assert part.converged
    assert_allclose(part.tensor(), fresh.tensor(), rtol=1e-8)


def test_the_same_input_grows_the_same_basis(rng: np.random.Generator) -> None:
    X = rng.gamma(1.0, size=(9, 8))
    one, two = (ld.decompose(X, ld.adaptive(20)) for _ in range(2))
    assert_array_equal(one.basis, two.basis)
    assert_array_equal(one.theta, two.theta)


def test_masks_missing_cells_and_candidates(rng: np.random.Generator) -> None:
    X = rng.gamma(1.0, size=(6, 6, 6))
    X[rng.random(X.shape) < 0.2] = np.nan
    fit = ld.decompose(X, ld.adaptive(15, candidates=ld.interactions([(0, 1)])))
    assert fit.converged
    assert (fit.basis[:, 2] == 0).all()
    assert np.isfinite(X[tuple(fit.basis.T)]).all()


def test_growing_stops_when_no_candidate_is_left() -> None:
    fit = ld.decompose([[1.0, 2.0], [3.0, 5.0]], ld.adaptive(10))
    assert fit.n_params == 3
    assert_allclose(fit.tensor(), [[1, 2], [3, 5]], rtol=1e-9)


def test_bic_leaves_noise_alone_and_finds_a_strong_effect() -> None:
    rng = np.random.default_rng(7)
    noise = [
        ld.decompose(rng.multinomial(5000, np.full(125, 1 / 125)).reshape(5, 5, 5), ld.adaptive("bic")).n_params
        for _ in range(20)
    ]
    assert sum(noise) <= 1
    p = blocks(rng, (5, 5, 5), [(2, 3, 0), (0, 1, 4)])
    fit = ld.decompose(rng.multinomial(20000, p.ravel()).reshape(5, 5, 5), ld.adaptive("bic"))
    assert {(2, 3, 0), (0, 1, 4)} <= set(map(tuple, fit.basis.tolist()))
    assert fit.n_params <= 4


def test_near_duplicates_are_not_chosen_together() -> None:
    """A single step along a fine grid: one cell explains it, its neighbours add nothing."""
    p = np.ones(400)
    p[200:] = 3.0
    p /= p.sum()
    eta_hat = np.cumsum(p[::-1])[::-1]
    eta = np.cumsum(np.full(400, 1 / 400)[::-1])[::-1]
    allowed = np.arange(400) > 0
    assert pick(eta, eta_hat, allowed, 5, 1e-6).tolist() == [[200]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ld.adaptive(0), r"adaptive\(0\): pass a number of parameters >= 1"),
        (lambda: ld.adaptive("bica"), r"unknown criterion 'bica'; did you mean 'bic'\?"),  # type: ignore[arg-type]
        (lambda: ld.decompose(np.ones((3, 3)), ld.adaptive(2) | ld.B1()), r"adaptive\(\.\.\.\) stands alone"),
        (lambda: ld.decompose(np.ones((3, 3)), ld.adaptive(2, start="B1")), r"the start already has 4 parameters"),
        (lambda: ld.decompose([[0.5, 1.0]], ld.adaptive("bic")), r"needs counts"),
        (lambda: ld.decompose([[1.0, 2.0]], "B1").at(1), r"was not grown"),
    ],
)
def test_bad_requests(make: object, message: str) -> None:
    with pytest.raises(ld.LegendreError, match=message):
        make()  # type: ignore[operator]


def test_at_needs_a_size_on_the_path() -> None:
    fit = ld.decompose([[1.0, 2.0], [3.0, 5.0]], ld.adaptive(2))
    with pytest.raises(ld.InvalidSetting, match=r"at\(9\): the path has 0 to 2 parameters"):
        fit.at(9)


def test_the_string_form() -> None:
    fit = ld.decompose([[1.0, 2.0], [3.0, 5.0]], "adaptive(2, start='B1')")
    assert fit.recipe == "adaptive(2, start='B1')"
    assert fit.n_params == 2
