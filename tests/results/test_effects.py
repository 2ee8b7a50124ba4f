"""Effects: log Q as a sum over sets of modes, compared with the definition on the whole grid."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import legendre as ld
from legendre.core.errors import InvalidQuery, InvalidSetting, TooLarge
from legendre.core.types import FloatArray
from legendre.results.effects import Measure, _reverses

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def summed(effects: ld.results.Effects, shape: tuple[int, ...]) -> FloatArray:
    """Add the effects up on the grid."""
    total = np.full(shape, effects.constant)
    for effect in effects:
        total = total + effect.values.reshape([n if k in effect.modes else 1 for k, n in enumerate(shape)])
    return total


def by_definition(log_q: FloatArray, weights: list[FloatArray]) -> dict[tuple[int, ...], FloatArray]:
    """Take means over all other modes, and from each set of modes what its subsets have already."""
    found: dict[tuple[int, ...], FloatArray] = {}
    order = log_q.ndim
    for n in range(order + 1):
        for modes in itertools.combinations(range(order), n):
            mean = log_q
            for k in reversed(range(order)):
                if k not in modes:
                    mean = np.tensordot(mean, weights[k], axes=(k, 0))
            mean = mean.reshape([m if k in modes else 1 for k, m in enumerate(log_q.shape)])
            found[modes] = mean - sum(found[s] for s in found if set(s) < set(modes))
    return found


@given(st.data())
def test_effects_are_those_of_the_definition(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    x = data.draw(arrays(np.float64, shape, elements=st.floats(0.1, 9)))
    basis = data.draw(st.sampled_from(["B1", "B2(2)", "interactions(2)", "B3(2)", "adaptive(4)"]))
    measure: Measure = data.draw(st.sampled_from(("uniform", "fitted")))
    fit = ld.decompose(x, ld.full() if len(shape) == 1 else basis)
    effects = fit.effects(measure=measure)
    log_q = np.log(fit.tensor() / fit.total)
    np.testing.assert_allclose(summed(effects, shape), log_q, atol=1e-12)
    margins = [np.full(n, 1 / n) if measure == "uniform" else fit.marginal(k) for k, n in enumerate(shape)]
    for modes, expected in by_definition(log_q, margins).items():
        found = effects[modes].values if modes and modes in {e.modes for e in effects} else np.zeros(())
        if modes:
            np.testing.assert_allclose(found.reshape(expected.shape) if found.ndim else 0, expected, atol=1e-12)
        else:
            np.testing.assert_allclose(effects.constant, expected, atol=1e-12)
    grid = np.ones(())
    for margin in margins:
        grid = np.multiply.outer(grid, margin)
    variance = float((grid * log_q**2).sum() - (grid * log_q).sum() ** 2)
    assert effects.variance == pytest.approx(variance, abs=1e-11)
    assert sum(e.share for e in effects) == pytest.approx(1 if effects.variance else 0)


def test_every_engine_and_form(rng: np.random.Generator) -> None:
    x = rng.poisson(0.3, (30, 20, 10)).astype(float)
    x[0, 0, 0] = 5
    whole = ld.decompose(x, "B3(2)").effects()
    cells = np.argwhere(x > 0)
    sparse = ld.decompose(ld.from_coords(cells, x[x > 0], x.shape), "B3(2)").effects()
    for one, other in zip(whole, sparse, strict=True):
        assert one.modes == other.modes
        np.testing.assert_allclose(one.values, other.values, atol=1e-8)
    listed = ld.from_coords(cells, x[x > 0], x.shape)
    fit = ld.decompose(listed, "interactions(1)", support="nonzero")
    effects = fit.effects()
    at = summed(effects, x.shape)[tuple(cells.T)]
    np.testing.assert_allclose(at, fit.log_prob(cells), atol=1e-12)


def test_a_base_measure_is_no_effect(rng: np.random.Generator) -> None:
    x, base = rng.random((4, 5)) + 0.1, rng.random((4, 5)) + 0.1
    fit = ld.decompose(x, "B1", base=base)
    np.testing.assert_allclose(summed(fit.effects(), x.shape), np.log(fit.tensor() / fit.total / base), atol=1e-12)


def test_kl_lost_is_that_of_a_fit_without_the_set(rng: np.random.Generator) -> None:
    x = rng.random((3, 4, 5)) + 0.1
    fit = ld.decompose(x, "interactions(2)")
    effects = fit.effects()
    others = ld.interactions([(0, 2), (1, 2)])
    assert effects.kl_lost([1, 0]) == pytest.approx(ld.decompose(x, others).kl - fit.kl, abs=1e-12)
    without = ld.decompose(x, ld.interactions([(1, 2)]))
    assert effects.kl_lost(0) == pytest.approx(without.kl - fit.kl, abs=1e-12)
    assert effects.kl_lost([0, 1, 2]) == 0


def test_larger_sets_can_be_left_out(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.random((3, 3, 3)), ld.full())
    every, pairs = fit.effects(), fit.effects(max_order=2)
    assert len(every) == 7
    assert len(pairs) == 6
    for effect in pairs:
        np.testing.assert_array_equal(effect.values, every[effect.modes].values)
    assert pairs.variance == pytest.approx(every.variance), "shares are of all of log Q"


def test_shares_of_many_parameters_are_those_of_all_effects(rng: np.random.Generator) -> None:
    """With max_order the variance was a sum over all pairs of parameters, which takes hours for a full basis."""
    fit = ld.decompose(rng.gamma(5.0, size=(40, 30, 18)), ld.full())
    pairs, every = fit.effects(max_order=2), fit.effects()
    assert {e.modes: e.share for e in pairs} == {e.modes: e.share for e in every if len(e.modes) <= 2}
    assert pairs.variance == every.variance


def test_effects_are_found_and_listed_by_names(rng: np.random.Generator) -> None:
    x, names = rng.random((3, 4, 2)) + 0.1, ["carrier", "dest", "hour"]
    effects = ld.decompose(x, "interactions(2)", names=names, levels={"hour": [7, 8]}).effects()
    assert effects["hour"] is effects[2]
    assert effects["dest", "carrier"] is effects[0, 1]
    assert effects["hour"].labels.levels_of(0).tolist() == [7, 8]
    assert effects["carrier", "dest"].name == "carrier and dest"
    np.testing.assert_array_equal(effects["hour"].tensor(), effects["hour"].values)
    lines = effects.summary(kl_lost=True).splitlines()
    assert lines[1].split() == ["modes", "levels", "share", "of", "variance", "KL", "lost"]
    assert lines[5].startswith("carrier, dest")
    assert float(lines[5].split()[-1]) == pytest.approx(effects.kl_lost(["carrier", 1]), rel=1e-3)
    with pytest.raises(InvalidQuery, match="effects: unknown mode 'carier'; did you mean 'carrier'"):
        effects["carier"]
    with pytest.raises(InvalidQuery, match=r"modes \(carrier, dest, hour\) have no effect .* \(carrier\), \(dest\)"):
        effects["carrier", "dest", "hour"]


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda fit: fit.effects(measure="other"), "measure must be 'fitted' or 'uniform', got 'other'"),
        (lambda fit: fit.effects(max_order=0), "max_order must be an integer >= 1, got 0"),
        (lambda fit: fit.effects()[5], "5 is not a mode of X, which has 2, counted from 0 to 1"),
        (lambda fit: fit.effects()[0, 1], r"\(0, 1\) have no effect of their own in this model; .*: \(0\), \(1\)\."),
        (lambda fit: fit.effects()[[]], r"the modes \(\) have no effect of their own in this model"),
    ],
)
def test_bad_questions(ask: object, text: str) -> None:
    fit = ld.decompose([[1, 2], [3, 4]], "B1")
    with pytest.raises((InvalidQuery, InvalidSetting), match=text):
        ask(fit)  # type: ignore[operator]


def test_what_is_too_large_names_the_order_that_can_be_had(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.random((2,) * 12), "adaptive(3)")
    cells = np.ones((1, 30), dtype=int)
    wide = ld.decompose(ld.from_coords(np.vstack([cells, 0 * cells]), [1.0, 2.0], (2,) * 30), cells, support="nonzero")
    assert len(fit.effects()) > 0
    with pytest.raises(TooLarge, match=r"effects: 1,073,741,824 sets of modes .* effects\(max_order=2\)"):
        wide.effects()
    assert len(wide.effects(max_order=1)) == 30


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_main_effects_without_joint_ones_are_the_observed_means(support: str, rng: np.random.Generator) -> None:
    x = rng.poisson(20.0, (4, 5, 3)) + 1.0
    effects = ld.decompose(x, "interactions(1)", support=support).effects()
    for k in range(3):
        np.testing.assert_allclose(np.exp(effects[k].values), effects.observed(k), rtol=1e-9)
    assert "order" not in repr(effects)


def test_joint_effects_that_reverse_the_order_of_means_are_named() -> None:
    x = np.array([[40.0, 1.0, 1.0], [6.0, 6.0, 6.0]])
    effects = ld.decompose(x, ld.full(), names=["a", "b"]).effects()
    assert effects.observed("a")[0] > effects.observed("a")[1]
    sums = x.sum(axis=1)  # also those of Q, the weights
    assert effects.observed("a") == pytest.approx(sums / np.exp(np.average(np.log(sums), weights=sums)))
    assert "their observed means" not in repr(effects)
    x = np.array([[100.0, 1.0, 1.0], [30.0, 30.0, 30.0]])
    assert "order of the levels of a differs from that of their observed means: joint effects reverse it" in repr(
        ld.decompose(x, ld.full(), names=["a", "b"]).effects(measure="uniform")
    )


def test_the_order_of_means_is_compared_on_the_scale_of_the_effects() -> None:
    """Factors of 0.91 and 0.95 in the opposite order of their means stood in a picture without a note."""
    of_means = "The fitted order of the levels of b differs from that of their observed means"
    assert of_means in repr(ld.decompose([[5, 1, 2], [1, 4, 2]], "full", names=["a", "b"], counts=False).effects())
    gaps = [[np.nan, np.nan, 9.0], [2.0, 3.0, 10.0], [4.0, 6.0, 20.0]]
    assert "observed means: joint effects or missing cells reverse it" in repr(ld.decompose(gaps, "full").effects())
    one = np.array([0.0, 0.02, 0.05])
    assert _reverses(one, one[[1, 0, 2]])
    assert not _reverses(one, one)
    assert not _reverses(one * 1e-3, one[::-1])  # too small to see


def test_where_cells_vanish_averages_are_over_the_others() -> None:
    """A carrier that flies to few places had a factor of 240: that of an arbitrary theta of cells without flights."""
    rng = np.random.default_rng(2)
    x = rng.poisson(50.0, (5, 6, 4)) * (rng.random((5, 6)) < 0.7)[:, :, None]
    fit = ld.decompose(x, ld.interactions([(0, 1), (2,)]))
    assert fit.n_vanishing
    effects, alive = fit.effects(), fit.tensor() > 0
    log_q = np.log(np.where(alive, fit.tensor() / fit.total, 1.0))
    np.testing.assert_allclose(summed(effects, x.shape)[alive], log_q[alive], atol=1e-7)
    design = np.concatenate([np.eye(n)[np.nonzero(alive)[k]] for k, n in enumerate(x.shape)], axis=1)
    root = np.sqrt(fit.tensor()[alive])
    best = design @ np.linalg.lstsq(design * root[:, None], log_q[alive] * root, rcond=None)[0]
    main = effects.constant + sum(effects[k].values[np.nonzero(alive)[k]] for k in range(3))
    np.testing.assert_allclose(main, best, atol=1e-7)
    assert "averages are over the others" in repr(effects)


def test_effects_as_a_data_frame(rng: np.random.Generator) -> None:
    x = rng.poisson(9.0, (2, 3)) + 1
    effects = ld.decompose(x, ld.full(), names=["a", "b"], levels=[["u", "v"], [1, 2, 3]]).effects()
    frame = effects.to_frame()
    assert list(frame.columns) == ["effect", "share", "a", "value", "factor", "b"]
    row = frame[(frame["effect"] == "a and b") & (frame["a"] == "v") & (frame["b"] == 2)]
    assert row["value"].item() == effects["a", "b"].values[1, 1]
    frame = ld.decompose(x, "B1", names=["share", "value"]).effects().to_frame()
    assert list(frame.columns) == ["effect", "share", "mode share", "value", "factor", "mode value"]
    assert ld.decompose(x, []).effects().to_frame().empty
