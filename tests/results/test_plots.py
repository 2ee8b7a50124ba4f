"""Pictures of a decomposition show what they say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import legendre as ld


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def test_effects_are_drawn_as_factors_and_maps(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.random((20, 4, 3)) + 0.1, "interactions(2)")
    effects = fit.effects()
    figure = fit.plot.effects(most=4)
    shown = [ax for ax in figure.axes if ax.get_title()]
    assert len(shown) == 4
    for ax in shown:
        modes = [int(word) for word in ax.get_title().split(":")[0].split() if word.isdigit()]
        assert f"{100 * effects[modes].share:.1f} %" in ax.get_title()
        if len(modes) == 1:
            np.testing.assert_allclose(np.asarray(ax.lines[-1].get_ydata(), dtype=float), np.exp(effects[modes].values))
        else:
            np.testing.assert_allclose(np.asarray(ax.images[0].get_array(), dtype=float), effects[modes].values)


def test_path_and_history_show_the_numbers_of_the_fit(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.random((4, 4, 4)), "adaptive(8)")
    ax = Figure().add_subplot()
    assert fit.plot.path(ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [step.kl for step in fit.path])
    ax = fit.plot.history()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [step.residual for step in fit.history])
    assert ax.get_title() == f"{fit.solver}: CONVERGED"


def test_bad_questions() -> None:
    fit = ld.decompose([[1, 2], [3, 4]], "B1")
    with pytest.raises(ld.errors.InvalidQuery, match="was not grown, so it has no path"):
        fit.plot.path()
    with pytest.raises(ld.errors.InvalidQuery, match="quantity='r2'; it is one of \"kl\""):
        fit.plot.path(quantity="r2")
    with pytest.raises(ld.errors.InvalidQuery, match="most=0; it must be an integer >= 1"):
        fit.plot.effects(most=0)
    with pytest.raises(ld.errors.InvalidQuery, match="no parameter that tells levels apart"):
        ld.decompose([[1, 2], [3, 4]], ld.empty()).plot.effects()
    with pytest.raises(ld.errors.InvalidSetting, match=r"plot.history: ax must be axes"):
        fit.plot.history(3)  # type: ignore[arg-type]


def test_without_matplotlib_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.core.figures.find_spec", lambda _: None)
    with pytest.raises(ld.errors.InvalidSetting, match=r"plot.effects needs matplotlib. Install it with: pip install"):
        ld.decompose([[1, 2], [3, 4]], "B1").plot.effects()
