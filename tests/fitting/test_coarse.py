"""Growing on a coarser grid: which boxes, what a path says of them, and when X is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array

import legendre as ld
from legendre.core import limits
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray
from legendre.data.dense import observe
from legendre.data.observation import Observation
from legendre.data.read import read
from legendre.fitting.adaptive.coarse import Boxes, coarsen, joined, too_large
from legendre.fitting.adaptive.observed_sums import Ground
from legendre.results.growth_path import GrowthPath, Round


def whole(shape: tuple[int, ...]) -> Quotient:
    return Quotient(shape, tuple(np.arange(n) for n in shape))


def uncut(shape: tuple[int, ...]) -> Quotient:
    return Quotient(shape, tuple(np.zeros(1, dtype=np.int64) for _ in shape))


def repeated(rng: np.random.Generator) -> FloatArray:
    return np.repeat(np.repeat(rng.gamma(2.0, size=(6, 5)), 4, axis=0), 3, axis=1)


def test_levels_that_are_the_same_are_joined_and_no_others(rng: np.random.Generator) -> None:
    data = observe(repeated(rng))
    boxes = joined(Boxes.of(data, whole(data.shape)), uncut(data.shape), 30)
    assert_array_equal(boxes.quotient.cuts[0], np.arange(0, 24, 4))
    assert_array_equal(boxes.quotient.cuts[1], np.arange(0, 15, 3))
    assert_allclose(boxes.values, data.merged(boxes.quotient), rtol=1e-14)
    assert boxes.observed(data).negentropy() == pytest.approx(data.negentropy(), rel=1e-13)


def test_named_cuts_stay_and_every_mode_keeps_one() -> None:
    data = observe(np.ones((8, 9, 3)))
    fixed = Quotient.of(data.shape, np.array([[5, 2, 0]]))
    boxes = joined(Boxes.of(data, whole(data.shape)), fixed, 1)
    assert boxes.quotient.merged_shape == (2, 2, 2)
    assert 5 in boxes.quotient.cuts[0]
    assert 2 in boxes.quotient.cuts[1]


def test_few_parameters_take_few_boxes(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COARSE_BOXES", 256)
    monkeypatch.setattr(limits, "BOXES_PER_PARAMETER", 4)
    data = observe(rng.random((30, 40)))
    sizes = [coarsen(data, ld.adaptive(n).growing).quotient.n_merged for n in (1, 10, 1000)]  # type: ignore[arg-type]
    assert sizes[0] <= 256 // limits.FEWEST_BOXES < sizes[1] <= 40 < sizes[2] <= 256 // limits.JOINED_BOXES


def test_a_grid_that_can_be_scored_stays_as_it_is(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rng.random((12, 10))
    monkeypatch.setattr(limits, "COARSE_BOXES", X.size)
    assert not too_large(observe(X))
    plain, listed = ld.decompose(X, ld.adaptive(9)), ld.decompose(coo_array(X), ld.adaptive(9))
    assert_array_equal(plain.basis, listed.basis)


@pytest.mark.parametrize("seed", range(4))
def test_joining_boxes_that_are_alike_loses_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the boxes, all but those within repeated levels, lead to the same KL as all of them."""
    X = repeated(np.random.default_rng(seed))
    monkeypatch.setattr(limits, "COARSE_BOXES", X.size - 1)
    few = ld.decompose(X, ld.adaptive(12))
    monkeypatch.setattr(limits, "JOINED_BOXES", 1)
    assert few.kl == pytest.approx(ld.decompose(X, ld.adaptive(12)).kl, rel=1e-9)


def test_a_path_is_measured_when_it_is_looked_at() -> None:
    rounds = (Round(0, 1.0, 0.1, 2.0, 2.0), Round(3, 0.5, 0.05, 1.5, 1.7))
    calls = []

    def measure() -> tuple[Round, ...]:
        calls.append(1)
        return rounds

    path = GrowthPath(2, measure)
    assert (len(path), bool(path), calls) == (2, True, [])
    assert (path[-1], path[:1], tuple(path)) == (rounds[1], rounds[:1], rounds)
    assert path == rounds
    assert rounds == path
    assert path != rounds[:1]
    assert (hash(path), repr(path)) == (hash(rounds), repr(rounds))
    assert calls == [1]


def test_growing_reads_no_more_of_x_than_it_needs(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """KL and RMSE of the path took a third of the time of growing on a large X, though nobody had asked for them."""
    from legendre.data.dense import Dense

    monkeypatch.setattr(limits, "COARSE_BOXES", 100)
    X, asked = rng.random((14, 15)), []
    plain = Dense.negentropy

    def counted(data: Dense) -> float:
        asked.append(data.shape)
        return plain(data)

    monkeypatch.setattr(Dense, "negentropy", counted)
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


@pytest.mark.parametrize("shape", [(30, 40), (9, 11, 13)])
def test_boxes_of_an_x_that_compiled_code_has_read_are_scored_by_it(
    shape: tuple[int, ...], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few they are; the basis is the one that NumPy finds, whichever way X is held."""
    monkeypatch.setattr(limits, "COARSE_BOXES", 256)
    X = rng.gamma(0.5, size=shape)
    twin, recipe = ld.decompose(X, ld.adaptive(12)), ld.adaptive(12).growing
    assert recipe is not None
    assert not Ground.of(coarsen(observe(X), recipe).data).compiled
    monkeypatch.setattr(limits, "COMPILED_CELLS", X.size)
    ground = Ground.of(coarsen(observe(X), recipe).data)
    assert ground.compiled
    assert ground.merged(np.array([1]))[0].compiled
    fit, listed = ld.decompose(X, ld.adaptive(12)), ld.decompose(coo_array(X), ld.adaptive(12))
    assert_array_equal(fit.basis, twin.basis)
    assert_array_equal(listed.basis, twin.basis)
    assert fit.kl == pytest.approx(twin.kl, rel=1e-9)


@pytest.mark.parametrize("shape", [(7,), (1, 6), (5, 9, 4), (3, 1, 11), (2, 3, 4, 5)])
def test_compiled_code_joins_the_same_intervals(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """What neighbouring slices differ by, and the sums that are left, are those of NumPy."""
    quotient = Quotient(tuple(3 * n for n in shape), tuple(np.sort(rng.permutation(3 * n - 1)[:n]) for n in shape))
    quotient = Quotient(quotient.shape, tuple(np.append(0, cut[1:]) for cut in quotient.cuts))
    values = rng.gamma(1.0, size=shape)
    plain, compiled = (Boxes(quotient, values, compiled=there) for there in (False, True))
    for k in range(len(shape)):
        assert_allclose(compiled.steps(k, np.sqrt(values)), plain.steps(k, np.sqrt(values)), rtol=1e-12)
    gone = [np.arange(1, n, 2) for n in shape]
    assert_allclose(compiled.without(gone).values, plain.without(gone).values, rtol=1e-13)
    one, other = joined(compiled, uncut(quotient.shape), 8), joined(plain, uncut(quotient.shape), 8)
    assert one.compiled
    for cut, twin in zip(one.quotient.cuts, other.quotient.cuts, strict=True):
        assert_array_equal(cut, twin)
    assert_allclose(one.values, other.values, rtol=1e-13)
