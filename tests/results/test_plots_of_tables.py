"""Mosaics and odds ratios: what is drawn is what the table and the model say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from numpy.testing import assert_allclose

import legendre as ld


def areas(ax: Any) -> Any:
    return np.array([patch.get_width() * patch.get_height() for patch in ax.patches])


def test_tiles_are_as_large_as_counts() -> None:
    X = np.array([[30, 10, 20], [60, 25, 55]])
    ax: Any = ld.decompose(X, "B1").plot.mosaic()
    assert len(ax.patches) == 6
    widths = [patch.get_width() for patch in ax.patches]
    assert widths[0] == widths[1] == widths[2]
    assert widths[3] / widths[0] == pytest.approx(140 / 60)
    heights = np.array([patch.get_height() for patch in ax.patches])
    assert_allclose(heights[:3] / heights[:3].sum(), X[0] / 60)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1"]
    assert ax.get_title() == "mode 0 and mode 1 (areas: observed; shades: residuals)"


def test_shades_are_those_of_pearson_residuals() -> None:
    X = ld.datasets.hair_eye_color()
    m = ld.loglinear(X, "hair + eye + sex")
    ax = m.plot.mosaic()
    residuals = np.asarray(m.residuals()).ravel()
    colours = np.array([patch.get_facecolor() for patch in ax.patches])
    for low, high in ((-99, -4), (-4, -2), (-2, 2), (2, 4), (4, 99)):
        same = colours[(residuals > low) & (residuals < high)]
        assert len(same)
        assert (same == same[0]).all()
    assert len(np.unique(colours, axis=0)) == 5
    assert [ax.get_xlabel(), ax.get_ylabel()] == ["hair", "eye"]
    margin = m.plot.mosaic(["sex", "hair"])
    assert len(margin.patches) == 8
    assert margin.get_xlabel() == "sex"


def test_structural_zeros_are_outlined() -> None:
    X = ld.datasets.social_mobility().toarray().sum(axis=2)
    ax = ld.decompose(X, ld.interactions(1), support=~np.eye(5, dtype=np.bool_)).plot.mosaic()
    dashed = [i for i, patch in enumerate(ax.patches) if patch.get_linestyle() in ("--", "dashed")]
    assert dashed == [0, 6, 12, 18, 24]
    assert not any(ax.patches[i].get_fill() for i in dashed)
    empty = ld.decompose([[4, 0], [3, 5]], "B1").plot.mosaic()
    assert (areas(empty) > 0).all()  # a count of 0 is a sliver


def test_four_variables_have_names_on_four_sides() -> None:
    ax = ld.loglinear(ld.datasets.titanic(), ".").plot.mosaic()
    second: list[Any] = [child for child in ax.get_children() if type(child).__name__ == "SecondaryAxis"]
    assert {axis.get_xlabel() or axis.get_ylabel() for axis in second} == {"age", "survived"}


def test_odds_ratios_are_drawn_with_their_intervals() -> None:
    m = ld.loglinear(ld.datasets.titanic(), ".^2")
    ax = m.plot.odds("class", "age")
    found = m.odds("class", "age")
    assert [text.get_text() for text in ax.get_yticklabels()] == list(found.names)
    assert_allclose(np.asarray(ax.lines[1].get_xdata(), dtype=float), found.estimate[:2])
    assert [text.get_text() for text in ax.texts] == ["infinite →"]
    assert ax.get_xscale() == "log"
    assert ax.get_title() == "class and age"
    empty = ld.loglinear([[0, 7], [6, 9]], ".^2").plot.odds("A", "B")
    assert [text.get_text() for text in empty.texts] == ["← 0"]


def test_an_empty_column_is_thinner_than_one_of_six_people() -> None:
    tiles: Any = ld.decompose([[6, 0, 2000]], "full").plot.mosaic([1]).patches
    widths = [tile.get_width() for tile in tiles]
    assert 0 < widths[1] < widths[0] < widths[2]


@pytest.mark.parametrize(
    "fit",
    [
        lambda: ld.loglinear(ld.datasets.titanic(), ".^2"),
        lambda: ld.decompose(np.eye(3) + 1, "B1", levels=[[f"a very long label number {i}" for i in range(3)], None]),
    ],
)
def test_titles_and_legends_fit_on_plain_axes(fit: Any) -> None:
    figure, ax = pyplot.subplots()
    fit().plot.mosaic(ax=ax)
    figure.draw_without_rendering()
    assert figure.get_tightbbox().x1 <= figure.get_figwidth() + 0.05
    assert figure.get_tightbbox().y1 <= figure.get_figheight() + 0.05


def test_adjusted_residuals_have_a_picture_and_the_legend_the_range_and_the_p_value() -> None:
    m = ld.loglinear([[18, 7, 5], [6, 19, 9]], "A + B")
    ax = m.plot.mosaic(["B", "A"], kind="adjusted")
    adjusted = m.residuals("adjusted")
    said = f"Adjusted residual, {adjusted.min():.3g} to {adjusted.max():.3g}; p = {m.x2_p_value:.3g}"
    assert ax.figure.axes[-1].get_ylabel() == said
    beyond = sum(tuple(patch.get_facecolor()) != (0.9, 0.9, 0.9, 1.0) for patch in ax.patches)
    assert beyond == (abs(adjusted) > 2).sum() > 0
    with pytest.raises(ld.LegendreError, match="every mode"):
        m.plot.mosaic("A", kind="adjusted")
    exact = ld.loglinear([[18, 7, 5], [6, 19, 9]], "A * B").plot.mosaic()  # it said "-1.18e-15 to 0; p = -"
    assert exact.figure.axes[-1].get_ylabel() == "Pearson residual, 0 to 0"
