"""Pictures of results other than decompositions: their X beside what was made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

import legendre as ld
from legendre.core.types import FloatArray
from legendre.results.report import page_data


def drawn(ax: Axes) -> FloatArray:
    return np.ma.filled(np.ma.asarray(ax.images[0].get_array(), dtype=float), np.nan)


def marked(ax: Axes) -> set[tuple[float, ...]]:
    return {tuple(point) for line in ax.lines for point in np.array(line.get_xydata()).tolist()}


@pytest.fixture
def gappy(rng: np.random.Generator) -> Any:
    x = rng.poisson(np.outer(np.arange(2, 8), np.arange(3, 8)) * 4.0).astype(float)
    x[1, 2] = x[4, 0] = np.nan
    return x


def test_completions_mark_the_cells_that_were_missing(gappy: Any) -> None:
    done: Any = ld.complete(gappy, "B1")
    figure = done.plot.slices()
    assert [ax.get_title() for ax in figure.axes[:3]] == ["observed", "fitted", "residual"]
    np.testing.assert_array_equal(drawn(figure.axes[0]), gappy)
    np.testing.assert_allclose(drawn(figure.axes[1])[1, 2], done.tensor()[1, 2])
    assert marked(figure.axes[1]) == {(2.0, 1.0), (0.0, 4.0)}, "as columns and rows"
    assert "2 cells are missing in X; grey: no entry" in figure.get_suptitle()
    assert done.plot.residuals().get_title() == "28 cells; 2 cells are missing in X"
    titles = {ax.get_title() for ax in done.plot.effects().axes}
    assert titles == {f"{effect.name}: {100 * effect.share:.1f} %" for effect in done.effects()}
    ax = done.plot.margins([0]).axes[0]
    np.testing.assert_allclose(ax.patches[0].get_data().values, np.nansum(gappy, axis=1))


def test_balanced_tensors_are_drawn_beside_x_of_the_same_total(rng: np.random.Generator) -> None:
    x = rng.integers(1, 9, (3, 4))
    wanted = [1.0, 2.0, 3.0]
    done = ld.balance(x, {0: wanted, 1: [1.5] * 4})
    ax = done.plot.margins([0]).axes[0]
    np.testing.assert_allclose(np.array(ax.lines[0].get_ydata(), dtype=float), wanted)
    (steps,) = ax.patches
    np.testing.assert_allclose(steps.get_data().values, x.sum(axis=1) * 6 / x.sum())  # type: ignore[attr-defined]
    figure = done.plot.slices()
    assert [ax.get_title() for ax in figure.axes[:3]] == ["X, scaled", "balanced", "residual"]
    np.testing.assert_allclose(drawn(figure.axes[2]), x * 6 / x.sum() - done.tensor())
    assert done.plot.history().get_title() == "CONVERGED"


def test_hidden_modes_have_effects_and_visible_ones_are_compared(rng: np.random.Generator, tmp_path: object) -> None:
    x = rng.poisson(30.0, (2, 3, 2)) + 1
    done = ld.hidden(x, ld.interactions([(0, 3), (1, 3), (2, 3)]), [2])
    assert any("3" in ax.get_title().split(":")[0] for ax in done.plot.effects().axes)
    figure = done.plot.margins([(0, 1)])
    (dots,) = (line for line in figure.axes[0].lines if line.get_marker() == "o")  # the other is the diagonal
    shown = np.array(dots.get_xydata())
    expected = np.stack([done.tensor().sum(axis=2).ravel(), x.sum(axis=2).ravel()], axis=1)
    np.testing.assert_allclose(shown, expected)
    worst = done.worst_cells(3)
    x_of, q_of, residual = (worst[name].to_numpy() for name in ("observed", "fitted", "residual"))
    roots = np.sign(x_of - q_of) * np.sqrt(2 * (x_of * np.log(x_of / q_of) - x_of + q_of))
    np.testing.assert_allclose(residual, roots, rtol=1e-6, err_msg="X holds counts, whatever the sums' rounding errors")
    with pytest.raises(ld.errors.InvalidQuery, match="rows that lack values were divided among the cells"):
        done.fit.inference()
    assert not ld.hidden(x + 0.25, ld.interactions([(0, 3), (1, 3), (2, 3)]), [2], restarts=1).plot.pair.counts
    assert [text.get_text().split()[1] for text in done.plot.graph().texts if "mode" in text.get_text()] == list("0123")
    done.save(f"{tmp_path}/hidden.npz")
    loaded = ld.load(f"{tmp_path}/hidden.npz")
    loaded.plot.effects()
    with pytest.raises(ld.errors.InvalidQuery, match="which a result loaded from a file does not hold"):
        loaded.plot.margins()


def test_estimators(rng: np.random.Generator) -> None:
    with pytest.raises(ld.errors.NotFitted, match="not fitted yet"):
        _ = ld.LegendreDensity().plot
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"colour": rng.choice(["red", "blue"], 40), "age": rng.random(40)})
    density = ld.LegendreDensity(1, n_bins=4).fit(rows)
    colour, age = density.plot.margins(["colour", "age"]).axes
    assert colour.get_title() == "colour: 0 % misplaced"
    assert [text.get_text() for text in colour.get_xticklabels()] == ["blue", "red"]
    edges: Any = density.columns_[1].edges
    assert age.get_xticklabels()[0].get_text() == f"{(edges[0] + edges[1]) / 2:.4g}"
    machine = ld.BoltzmannMachine(2).fit(rng.integers(0, 2, (40, 3)))
    assert len(machine.plot.graph().collections[0].get_segments()) == 3  # type: ignore[attr-defined]
    named = ld.BoltzmannMachine(2).fit(dict(zip(["rain", "wet"], rng.integers(0, 2, (2, 40)), strict=True)))
    assert {text.get_text().split()[0] for text in named.plot.graph().texts[1:]} == {"rain", "wet"}


@pytest.mark.parametrize("basis", [None, "interactions(1)"])
def test_a_completion_answers_for_all_cells(gappy: Any, basis: str | None) -> None:
    done = ld.complete(gappy, basis)
    page = page_data(done._content())
    assert page["effects"]["shares"][0][1] == pytest.approx(max(effect.share for effect in done.effects()), rel=1e-5)
    assert "explains" in page["notes"]["effects"]
    whole = done.tensor()
    np.testing.assert_allclose(done.marginal(0) * whole.sum(), whole.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(done.condition({1: 0}), whole[:, 0] / whole[:, 0].sum(), rtol=1e-9)
    assert done.filled.sample(5, 0).shape == (5, 2)
    assert {effect.modes for effect in done.effects()} >= {(0,), (1,)}
    log_q = np.log(done.fit.tensor(extend=True) if basis else done.fit.tensor())
    parts = [e.values.reshape([n if k in e.modes else 1 for k, n in enumerate(gappy.shape)]) for e in done.effects()]
    shape_of_log_q = sum(parts) - np.broadcast_to(log_q - log_q.flat[0], gappy.shape)
    np.testing.assert_allclose(shape_of_log_q, shape_of_log_q.flat[0], atol=1e-9)
    for k in range(2):  # with a basis they were weighted by the cells that had been observed
        assert np.average(done.effects()[k].values, weights=np.exp(log_q).sum(1 - k)) == pytest.approx(0, abs=1e-9)
    assert "effects describe the others" not in str(done.effects())
    seen = ~np.isnan(gappy)
    p, q = (part[seen] / part[seen].sum() for part in (gappy, np.exp(log_q)))
    share = 1.0 - np.sum(p * np.log(p / q)) / np.sum(p * np.log(p * len(p)))
    assert f"The model explains {100 * share:.1f} % of KL from uniform" in str(done.effects())
    titles = [ax.get_title() for ax in done.plot.effects().axes]
    assert any(title.startswith("mode 0: ") for title in titles)


def test_slices_of_a_completion_show_how_wide_intervals_are(gappy: Any) -> None:
    done = ld.complete(gappy)
    ax = done.plot.slices().axes[3]
    lower, upper = done.interval(0.9)
    assert ax.get_title() == "width of 90 % interval"
    np.testing.assert_allclose(drawn(ax), np.where(np.isnan(gappy), upper - lower, np.nan))
