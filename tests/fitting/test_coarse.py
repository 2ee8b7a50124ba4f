"""Growing on a coarser grid: which boxes, what a path says of them, and when X is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array

import legendre as ld
from legendre.core import limits
from legendre.core.sums.quotient import BoxTotals, Quotient
from legendre.core.types import FloatArray
from legendre.data.dense import observe
from legendre.data.observation import Observation
from legendre.data.read import read
from legendre.fitting.growing.coarse import join_alike, too_large


def whole(shape: tuple[int, ...]) -> Quotient:
    return Quotient(shape, tuple(np.arange(n) for n in shape))


def uncut(shape: tuple[int, ...]) -> Quotient:
    return Quotient(shape, tuple(np.zeros(1, dtype=np.int64) for _ in shape))


def repeated(rng: np.random.Generator) -> FloatArray:
    return np.repeat(np.repeat(rng.gamma(2.0, size=(6, 5)), 4, axis=0), 3, axis=1)


def test_levels_that_are_the_same_are_joined_and_no_others(rng: np.random.Generator) -> None:
    data = observe(repeated(rng))
    boxes = join_alike(BoxTotals(whole(data.shape), data.values), uncut(data.shape), 30)
    assert_array_equal(boxes.quotient.cuts[0], np.arange(0, 24, 4))
    assert_array_equal(boxes.quotient.cuts[1], np.arange(0, 15, 3))
    assert_allclose(boxes.values, data.merged(boxes.quotient), rtol=1e-14)


def test_named_cuts_stay_and_every_mode_keeps_one() -> None:
    data = observe(np.ones((8, 9, 3)))
    fixed, _ = Quotient.of(data.shape, np.array([[5, 2, 0]]))
    boxes = join_alike(BoxTotals(whole(data.shape), data.values), fixed, 1)
    assert boxes.quotient.merged_shape == (2, 2, 2)
    assert 5 in boxes.quotient.cuts[0]
    assert 2 in boxes.quotient.cuts[1]


def test_growing_reads_no_more_of_x_than_it_needs(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """KL and RMSE of the path took a third of the time of growing on a large X, though nobody had asked for them."""
    from legendre.data.dense import Dense

    monkeypatch.setattr(limits, "COARSE_BOXES", 100)
    X, asked = rng.random((14, 15)), []
    plain = Dense.__dict__["negentropy"]

    def counted(data: Dense) -> float:
        asked.append(data.shape)
        return float(plain.__get__(data, Dense))

    monkeypatch.setattr(Dense, "negentropy", property(counted))
    fit = ld.decompose(X, ld.adaptive(6))
    assert X.shape not in asked
    assert fit.path[-1].kl == fit.kl
    assert X.shape in asked


@pytest.mark.parametrize("shape", [(1, 40, 30), (40, 30, 1), (1, 1200)])
def test_a_mode_with_a_single_level(
    shape: tuple[int, ...], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no intervals to join; the basis is that of the same tensor without it."""
    monkeypatch.setattr(limits, "COARSE_BOXES", 512)
    X = rng.gamma(1.0, size=shape)
    fit, twin = (ld.decompose(Y, ld.adaptive(5)) for Y in (X, X.squeeze()))
    assert too_large(observe(X))
    assert fit.converged
    assert fit.kl == pytest.approx(twin.kl, rel=1e-9)


@pytest.mark.parametrize("kind", ["dense", "listed", "nonzero"])
def test_the_last_fit_takes_its_sums_from_the_boxes(
    kind: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over boxes of X are formed once; what follows from them is what X itself says of the basis."""
    monkeypatch.setattr(limits, "COARSE_BOXES", 100)
    X, passes = rng.gamma(2.0, size=(14, 15)) * (rng.random((14, 15)) < 0.9), []
    held = read(X if kind == "dense" else coo_array(X), "nonzero" if kind == "nonzero" else "all")
    plain = type(held).merged

    def counted(data: Observation, *args: Any) -> FloatArray:
        passes.append(data.shape)
        return plain(data, *args)

    monkeypatch.setattr(type(held), "merged", counted)
    fit = ld.decompose(held, ld.adaptive(6))
    smaller = fit.at(3)
    assert passes.count(X.shape) == 1
    assert smaller.kl == pytest.approx(ld.decompose(held, smaller.basis).kl, rel=1e-9)
    passes.clear()
    twin = ld.decompose(held, fit.basis)
    assert passes.count(X.shape) == 1
    assert_allclose(fit.eta_hat, twin.eta_hat, rtol=1e-13)
    assert fit.kl == pytest.approx(twin.kl, rel=1e-9)
