"""Pictures of a decomposition alone show what they say: effects, path, history, graph."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

import legendre as ld


def ticks(ax: Axes, axis: str) -> list[str]:
    return [text.get_text() for text in (ax.get_xticklabels() if axis == "x" else ax.get_yticklabels())]


def test_effects_are_drawn_as_factors_and_maps(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.random((20, 4, 3)) + 0.1, "interactions(2)")
    effects = fit.effects()
    figure = fit.plot.effects(most=4)
    shown = [ax for ax in figure.axes if ax.get_title()]
    assert len(shown) == 4
    for ax in shown:
        modes = [int(word) for word in ax.get_title().split(":")[0].split() if word.isdigit()]
        assert f"{100 * effects[modes].share:.1f} %" in ax.get_title()
        assert ax.get_xlabel() == f"level of mode {modes[-1]}"
        if len(modes) == 1:
            np.testing.assert_allclose(np.asarray(ax.lines[1].get_ydata(), dtype=float), np.exp(effects[modes].values))
        else:
            assert ax.get_ylabel() == f"level of mode {modes[0]}"
            np.testing.assert_allclose(np.asarray(ax.images[0].get_array(), dtype=float), effects[modes].values)


def test_effects_are_named_by_labels(rng: np.random.Generator) -> None:
    corners = np.array([[1, 0, 0], [0, 5, 0], [0, 0, 20], [1, 5, 0], [1, 0, 20]])
    days = np.arange("2019-01-01", "2019-01-26", dtype="datetime64[D]")
    clock, lines = [f"{6 + i // 6:02}:{i % 6}0" for i in range(108)], ["red", "green", "blue", "a very long name"]
    names, x = ["line", "day", "time"], rng.random((4, 25, 108)) + 0.1
    figure = ld.decompose(x, corners, names=names, levels=[lines, days, clock]).plot.effects(most=9)
    by_title = {ax.get_title().split(":")[0]: ax for ax in figure.axes}
    assert {"line", "day", "time", "line and day", "line and time"} <= set(by_title)
    assert ticks(by_title["line"], "x") == ticks(by_title["line and time"], "y") == [*lines[:3], "a very …g name"]
    assert [by_title[name].lines[1].get_linestyle() for name in ("line", "day")] == ["None", "-"]
    assert (ticks(by_title["day"], "x"), by_title["day"].get_xlabel()) == (
        ["05", "10", "15", "20", "25"],
        "day (2019-01-…)",
    )
    assert all(text.endswith(":00") for text in ticks(by_title["time"], "x"))


def test_factors_of_levels_with_few_counts_are_left_out() -> None:
    """Of 336,776 flights one left before 5 o'clock; its factor, 1e-15, was drawn, and made all others look alike."""
    X = ld.datasets.flights()
    fit = ld.decompose(X, ld.interactions([("carrier", "hour"), ("dest",)]))
    effects, x = fit.effects(), X.toarray()
    figure = fit.plot.effects()
    by_title = {ax.get_title().split(":")[0]: ax for ax in figure.axes if ax.get_title()}
    few = x.sum(axis=(0, 1)) < 5
    assert few.tolist() == [True] + 19 * [False]
    line = by_title["hour"].lines[1]
    shown = np.asarray(line.get_ydata(), dtype=float)
    np.testing.assert_allclose(shown, np.where(few, np.nan, np.exp(effects["hour"].values)))
    low, high = by_title["hour"].get_ylim()
    assert low > 0.2 * np.nanmin(shown)  # observed means lie below
    assert high < 2 * np.nanmax(shown)
    map_of = by_title["carrier and hour"].images[0]
    shown_pairs: Any = map_of.get_array()
    values = np.asarray(shown_pairs.filled(np.nan))
    np.testing.assert_allclose(values, np.where(x.sum(axis=1) < 5, np.nan, effects["carrier", "hour"].values))
    assert map_of.get_clim()[1] == np.nanquantile(np.abs(values), 0.99)
    assert "left out: fewer than 5 counts, too few for a factor" in " ".join(figure.get_supxlabel().split())


def test_maps_of_long_modes_show_levels_at_equal_distances() -> None:
    cells = [[0, 0], [2_000, 10], [9_000, 700_000], [9_999, 999_999], [100, 600_000], [9_000, 0]]
    x = ld.from_coords(cells, [4.0, 3.0, 2.0, 1.0, 2.0, 1.0], (10_000, 1_000_000))
    fit = ld.decompose(x, [[5_000, 0], [0, 500_000], [5_000, 500_000]])
    ax = next(ax for ax in fit.plot.effects().axes if ax.images)
    shown = np.asarray(ax.images[0].get_array(), dtype=float)
    assert shown.shape == (2000, 2000)
    np.testing.assert_array_equal(shown[[0, -1]][:, [0, -1]], fit.effects()[0, 1].merged)
    assert ticks(ax, "x")[:2] == ["0", "500000"]
    assert [round(end) for end in ax.get_xlim()] == [0, 1_000_000]


def test_path_and_history_show_the_numbers_of_the_fit(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.poisson(3.0, (4, 4, 4)) + 1, "adaptive(8)")
    ax = Figure().add_subplot()
    assert fit.plot.path(ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [step.kl for step in fit.path])
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [step.n_params for step in fit.path])
    figure = fit.plot.path()
    for part, name in zip(figure.axes, ("kl", "rmse", "bic"), strict=True):
        np.testing.assert_array_equal(part.lines[0].get_ydata(), [getattr(step, name) for step in fit.path])
        assert part.lines[1].get_xdata().tolist() == [8]
        assert part.texts[0].get_text() == "8 parameters"
    assert len(ld.decompose(rng.random((4, 4, 4)), "adaptive(8)").plot.path().axes) == 2, "BIC is meant for counts"
    ax = fit.plot.history()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [step.residual for step in fit.history])
    assert ax.get_title() == "CONVERGED"
    assert ax.texts[0].get_text() == "tol = 1e-10"


def test_effects_of_pairs_that_were_never_observed_are_grey() -> None:
    """Their factors depend on the choice of theta, and the darkest colour was theirs."""
    X = np.random.default_rng(0).poisson(20.0, size=(4, 5, 3)).astype(float)
    X[1, 3:] = np.nan
    plot: Any = ld.complete(X, "interactions(2)").plot
    figure = plot.effects()
    assert "left out: nothing was observed there" in " ".join(figure.get_supxlabel().split())
    maps = {ax.get_title().split(":")[0]: ax for ax in figure.axes if ax.images}
    shown: np.ndarray = np.ma.filled(np.ma.asarray(maps["modes 0 and 1"].images[0].get_array()), np.nan)
    assert np.argwhere(np.isnan(shown)).tolist() == [[1, 3], [1, 4]]


def test_the_graph_has_modes_and_their_joint_effects(rng: np.random.Generator) -> None:
    names = ["carrier", "dest", "hour", "year"]
    fit = ld.decompose(rng.random((3, 4, 2, 2)) + 0.1, ld.interactions([(0, 1), (1, 2), (3,)]), names=names)
    effects = fit.effects()
    ax: Any = fit.plot.graph()
    places = {text.get_text(): np.round(text.get_position(), 9).tolist() for text in ax.texts}
    own = [places[f"{name}\n{100 * effects[k].share:.1f} %"] for k, name in enumerate(names)]
    lines = ax.collections[0]
    ends = [sorted(np.round(segment, 9).tolist()) for segment in lines.get_segments()]
    weaker, stronger = sorted([(0, 1), (1, 2)], key=lambda pair: effects[pair].share)
    assert ends == [sorted(own[k] for k in pair) for pair in (weaker, stronger)]
    assert lines.get_linewidths()[0] < lines.get_linewidths()[1] == 9.6, "the stronger the thicker"
    for i, j in (weaker, stronger):
        x, y = np.array(places[f"{100 * effects[i, j].share:.1f} %"]) - own[i]
        u, v = np.subtract(own[j], own[i])
        assert abs(u * y - v * x) < 1e-6, "on its line"


@pytest.mark.parametrize("order", [4, 6])
def test_numbers_on_lines_that_cross_do_not_hide_each_other(order: int, rng: np.random.Generator) -> None:
    """Of modes on a circle opposite ones have lines with the same middle."""
    ax: Any = ld.decompose(rng.random((2,) * order) + 0.1, "interactions(2)").plot.graph()
    numbers = [text for text in ax.texts if "\n" not in text.get_text()]
    assert len(numbers) == order * (order - 1) // 2
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in numbers]
    assert not [(i, j) for j, one in enumerate(boxes) for i in range(j) if one.overlaps(boxes[i])]


@pytest.mark.parametrize("pairs", [[(k, k + 1) for k in range(99)], [(k, k // 3) for k in range(1, 100)]])
def test_a_hundred_modes_have_a_place_each(pairs: list[tuple[int, int]], rng: np.random.Generator) -> None:
    rows = (rng.random((200, 100)) < 0.4).astype(int)
    ax: Any = ld.decompose(ld.from_rows(rows), ld.interactions(pairs)).plot.graph()
    assert [text.get_text() for text in ax.texts] == [str(k) for k in range(100)]
    places = np.array([text.get_position() for text in ax.texts])
    gaps = np.linalg.norm(places[:, None] - places, axis=-1) + 9 * np.eye(100)
    assert gaps.min() > 0.01 * np.ptp(places), "no two modes hide each other"


FIT = ld.decompose(np.arange(1, 28).reshape(3, 3, 3), "B1")
MATRIX = ld.decompose([[1, 2], [3, 4]], "B1")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: FIT.plot.path(), "was not grown, so it has no path"),
        (lambda: FIT.plot.path(quantity="r2"), r"plot.path: quantity must be 'kl', 'rmse', .* got 'r2'"),  # type: ignore[arg-type]
        (lambda: FIT.plot.effects(most=0), "most must be an integer >= 1, got 0"),
        (lambda: ld.decompose([1, 2], "empty").plot.effects(), r"distinguishes levels, .*interactions\(1\)"),
        (lambda: FIT.plot.history(3), r"plot.history: ax must be axes"),  # type: ignore[arg-type]
        (lambda: FIT.plot.graph(by="cost"), r"plot.graph: by must be 'share' or 'kl', got 'cost'"),  # type: ignore[arg-type]
        (lambda: FIT.plot.slices(3), r"plot.slices: 3 is not a mode of X, which has 3"),
        (lambda: FIT.plot.margins([(0, 1, 2)]), r"modes=\[\(0, 1, 2\)\]; list modes and pairs of modes"),
        (lambda: FIT.plot.margins([]), r"modes=\[\]; list modes and pairs of modes"),
        (lambda: ld.decompose([1, 2, 3], ld.full()).plot.slices(), "X with one mode has no slices"),
        (lambda: MATRIX.plot.slices(0), "a matrix is drawn in one piece"),
        (lambda: ld.decompose(np.ones((2,) * 5), "B1").plot.mosaic(), "5 variables with 32 tiles; at most 4 variables"),
        (lambda: ld.decompose(1 + np.eye(9, dtype=int), ld.full()).plot.odds(0, 1), "64 odds ratios; at most 60"),
    ],
)
def test_bad_questions(ask: Any, words: str) -> None:
    with pytest.raises(ld.LegendreError, match=words):
        ask()


def test_without_a_package_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.core.arguments.find_spec", lambda _: None)
    for draw, name in (("graph", "networkx"), ("effects", "matplotlib")):
        with pytest.raises(ld.errors.InvalidSetting, match=rf"plot.{draw} needs {name}. Install it with: pip install"):
            getattr(FIT.plot, draw)()


def test_a_loaded_fit_draws_what_needs_no_x(tmp_path: object) -> None:
    ld.decompose(np.arange(1, 28).reshape(3, 3, 3), "adaptive(6)").save(f"{tmp_path}/fit.npz")
    plot: Any = ld.load(f"{tmp_path}/fit.npz").plot
    for draw in (plot.effects, plot.graph, plot.path, plot.history):
        draw()
    for draw in (plot.slices, plot.residuals, plot.margins):
        with pytest.raises(ld.errors.InvalidQuery, match="this needs X, which a result loaded"):
            draw()


def test_small_joint_effects_are_pale_and_those_of_no_share_are_not_drawn(rng: np.random.Generator) -> None:
    base = np.exp(rng.normal(size=(4, 5, 1)) + rng.normal(size=(1, 5, 3)) * 0.05 + rng.normal(size=(4, 1, 3)) * 1e-4)
    figure = ld.decompose(base, "interactions(2)").plot.effects()
    maps = [ax for ax in figure.axes if ax.images]
    assert len({ax.images[0].get_clim() for ax in maps}) == 1
    assert all("0.0 %" not in ax.get_title() for ax in figure.axes)


def test_unordered_modes_are_dots_whatever_their_labels(rng: np.random.Generator) -> None:
    x = rng.poisson(5 * np.exp(rng.normal(size=(40, 3)))) + 1
    ax = ld.decompose(x, ld.adaptive(6), unordered=[0]).plot.effects().axes[0]
    assert ax.lines[1].get_linestyle() == "None"


def test_labels_are_shown_as_they_are() -> None:
    """A level "$0-$20k" was read as TeX, "$1_$2" raised an error, and long ones were cut until they were identical."""
    levels = ["the same long beginning: a", "the same long beginning: b", "$1_$2", "$0-$20k"]
    fit = ld.decompose(np.arange(1, 13).reshape(4, 3), "B1", names=["$who$_$", "b"], levels=[levels, [1, 2, 3]])
    ax = next(ax for ax in fit.plot.effects().axes if "who" in ax.get_xlabel())
    assert len(set(ticks(ax, "x"))) == 4
    for draw in (fit.plot.effects, fit.plot.mosaic, fit.plot.residuals, fit.plot.slices, fit.plot.margins):
        figure: Any = draw().figure
        figure.savefig(io.BytesIO())
        marked = [text for text in figure.findobj(Text) if "$" in text.get_text()]
        assert marked
        assert not any(text.get_parse_math() for text in marked)
