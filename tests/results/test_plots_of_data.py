"""Pictures of X beside Q show the entries that they say: slices, residuals, margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import legendre as ld
from legendre.core.types import FloatArray


def drawn(ax: Axes) -> FloatArray:
    return np.ma.filled(np.ma.asarray(ax.images[0].get_array(), dtype=float), np.nan)


def points(ax: Axes, line: int = 0) -> Any:
    return np.array(ax.lines[line].get_xydata())


def test_slices_show_x_and_q_and_what_is_left(rng: np.random.Generator) -> None:
    x = rng.random((6, 5, 4)) + 0.1
    x[3] *= 9
    fit = ld.decompose(x, "B1", names=["day", "row", "column"], levels={"day": list("abcdef")})
    figure = fit.plot.slices("day", most=2)
    shown = [ax for ax in figure.axes if ax.get_title()]
    q = fit.tensor()
    off = np.abs(x - q).sum(axis=(1, 2))
    off[3] = 0
    for row, i in enumerate(sorted([3, int(off.argmax())])):
        day = "abcdef"[i]
        parts = ("observed", x[i]), ("fitted", q[i]), ("residual", (x - q)[i])
        for ax, (name, entries) in zip(shown[3 * row : 3 * row + 3], parts, strict=True):
            assert ax.get_title() == f"day {day}: {name}"
            np.testing.assert_allclose(drawn(ax), entries, atol=1e-12)
    assert shown[3].get_xlabel() == "column"
    assert shown[3].get_ylabel() == "row"
    assert {ax.get_ylabel() for ax in figure.axes if not ax.get_title()} == {"entry", "difference"}


def test_missing_and_vanishing_cells_are_shown_as_such() -> None:
    x = np.array([[4.0, 0.0, 1.0], [3.0, 2.0, np.nan]])
    figure = ld.decompose(x[:, :2], ld.full()).plot.slices()
    assert points(figure.axes[1]).tolist() == [[1, 0]], "crosses at column 1, row 0"
    assert figure.axes[1].lines[0].get_marker() == "x"
    assert "1 cell vanishes: Q is 0 there" in figure.get_suptitle()
    figure = ld.decompose(x, ld.B1(), support=np.isfinite(x)).plot.slices()
    assert np.isnan(drawn(figure.axes[0])).tolist() == np.isnan(x).tolist()
    assert "grey: no entry" in figure.get_suptitle()


def test_residuals_draw_every_cell_and_name_the_worst(rng: np.random.Generator) -> None:
    x = rng.poisson(20.0, (6, 5))
    x[2, 3] = 90
    places = ["ATL", "BOS", "LAX", "ORD", "SEA", "SFO"]
    fit = ld.decompose(x, "B1", names=["dest", "hour"], levels=[places, [6, 7, 8, 9, 10]])
    ax = Figure().add_subplot()
    assert fit.plot.residuals(ax, most=2) is ax
    q = fit.tensor()
    np.testing.assert_allclose(points(ax), np.stack([q.ravel(), x.ravel()], axis=1))
    worst = fit.inference().residuals("deviance")
    listed = ax.texts[-1].get_text().split("\n\n")
    assert listed[1] == f"1  dest LAX, hour 9\n    90 observed, {q[2, 3]:.3g} fitted ({worst[2, 3]:+.3g} sd)"
    assert len(listed) == 3
    left = fit.plot.slices().axes[2]
    np.testing.assert_allclose(drawn(left), worst, atol=1e-9)
    assert left.figure.axes[-1].get_ylabel() == "standard deviations"
    np.testing.assert_allclose(points(ax, 2)[0], [q[2, 3], 90]), "a ring around the worst"
    assert {"1", "2"} <= {text.get_text() for text in ax.texts}
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("fitted", "observed", "30 cells")


def test_margins_show_sums_of_x_and_q(rng: np.random.Generator) -> None:
    x = rng.random((4, 50, 3)) + 0.1
    names, places = ["dest", "minute", "year"], ["ATL", "BOS", "LAX", "ORD"]
    fit = ld.decompose(x, "B2(2)", names=names, levels={"dest": places})
    figure = fit.plot.margins()
    q = fit.tensor()
    by_title = {ax.get_title().split(":")[0]: ax for ax in figure.axes}
    assert list(by_title) == ["dest", "minute", "year", "dest and minute", "dest and year", "minute and year"]
    (steps,) = by_title["dest"].patches
    np.testing.assert_allclose(steps.get_data().values, x.sum(axis=(1, 2)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(points(by_title["dest"])[:, 1], q.sum(axis=(1, 2)))
    np.testing.assert_allclose(points(by_title["minute"])[:, 1], q.sum(axis=(0, 2)))
    pair = np.stack([q.sum(axis=0).ravel(), x.sum(axis=0).ravel()], axis=1)
    np.testing.assert_allclose(points(by_title["minute and year"]), pair)
    share = np.abs(pair[:, 0] - pair[:, 1]).sum() / (2 * x.sum())
    assert by_title["minute and year"].get_title() == f"minute and year: {100 * share:.1f} % misplaced"


@pytest.mark.parametrize("kind", ["sparse", "nonzero", "blocks", "masked"])
def test_every_kind_of_x(kind: str, rng: np.random.Generator) -> None:
    x = rng.poisson(1.0, (6, 5, 4)).astype(float)
    x[0, 0, 0] = 3
    cells = np.argwhere(x > 0)
    inside = np.ones(x.shape, dtype=bool)
    if kind == "blocks":
        fit = ld.decompose(pytest.importorskip("dask.array").from_array(x, chunks=3), "B1")
    elif kind == "masked":
        x[1, 2] = np.nan
        inside = np.isfinite(x)
        fit = ld.decompose(x, "interactions(1)")
    else:
        support = "nonzero" if kind == "nonzero" else "all"
        fit = ld.decompose(ld.from_coords(cells, x[x > 0], x.shape), "interactions(1)", support=support)
        inside = x > 0 if kind == "nonzero" else inside
    q = np.where(inside, fit.tensor(), 0)
    ax = fit.plot.margins([(2, 0)]).axes[0]
    expected = np.stack([q.sum(axis=1).T.ravel(), np.where(inside, x, 0).sum(axis=1).T.ravel()], axis=1)
    seen = inside.any(axis=1).T.ravel()
    np.testing.assert_allclose(points(ax), expected[seen], atol=1e-12)
    np.testing.assert_allclose(points(fit.plot.residuals(most=0)), np.stack([q[inside], x[inside]], axis=1), atol=1e-12)
    first = fit.plot.slices(0, most=1).axes[0]
    level = int(first.get_title().split(":")[0].split()[-1])
    np.testing.assert_allclose(drawn(first), np.where(inside, x, np.nan)[level])


def test_a_hundred_modes(rng: np.random.Generator) -> None:
    rows = (rng.random((200, 100)) < 0.4).astype(int)
    fit = ld.decompose(ld.from_rows(rows), ld.interactions([(k, k + 1) for k in range(99)]))
    one, pair = fit.plot.margins([3, (7, 90)]).axes
    np.testing.assert_allclose(points(one)[:, 1], np.bincount(rows[:, 3]), atol=1e-6)
    np.testing.assert_array_equal(points(pair)[:, 1], np.bincount(2 * rows[:, 7] + rows[:, 90]))
    assert len(fit.plot.margins(most=2).axes) == 3, "two modes and their pair"
    assert "summed over 97 other modes" in fit.plot.slices(most=1).get_suptitle()
    assert "1.3e30 empty cells are not shown" in fit.plot.residuals().get_title()


def test_residuals_of_wide_ranges_of_many_cells_and_of_an_exact_fit(rng: np.random.Generator) -> None:
    x = np.exp(rng.normal(0, 3, (8, 8)))
    x[0, 0] = 0
    assert ld.decompose(x, "B1").plot.residuals().get_yscale() == "symlog", "0 has a place"
    fit = ld.decompose(rng.poisson(30.0, (20, 20, 10)), "B1")
    ax = fit.plot.residuals(most=1, max_dots=1_000)
    assert (len(points(ax)), ax.get_yscale()) == (1_000, "linear")
    assert ax.get_title() == "4,000 cells, one in 4 drawn"
    ax = ld.decompose([[1, 2], [3, 4]], ld.full()).plot.residuals()
    assert not ax.texts
    assert "no residual is larger than rounding errors" in ax.get_title()
