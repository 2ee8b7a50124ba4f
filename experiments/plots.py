"""The figures, drawn from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import plots as bench_plots
from benchmarks.plots import sheet
from benchmarks.results import LABELS as BENCH_LABELS
from benchmarks.rows import Row as BenchRow

from . import gradients, scale
from .comparison import ADAPTIVE, COMPARED, MASKED, NONZERO, PAPER, UNIFORM, Row
from .heldout import HeldOut, table
from .mnist import DIGITS
from .settings import NAMES, UNORDERED
from .summary import MEASURES, Quantity, mean, over_tensors, sem

GRADIENT_STYLES = {
    "natural": ("#b2182b", "o", 2.4),
    "gradient": ("#2166ac", "s", 1.3),
    "gradient-4": ("#67a9cf", "D", 1.3),
    "batch": ("#5aae61", "^", 1.3),
}
STYLES = bench_plots.PEER_STYLES | {UNORDERED: ("#67001f", "*", 2.0)}
PANELS: dict[str, Quantity] = {**MEASURES, "seconds": lambda row: row.seconds}


def gradient(rows: Sequence[Row], path: Path) -> None:
    """Figure 4a, b: hollow marks are runs that the clock stopped."""
    made = sheet(11, 4.4)
    axes = made.subplots(1, 2)
    for axis, name, which in ((axes[0], "seconds", 1), (axes[1], "iterations", 0)):
        for method, (color, marker, width) in GRADIENT_STYLES.items():
            mine = sorted((row for row in rows if row.method == method), key=lambda row: row.asked)
            points = [(row.asked, gradients.projected(row)[which], row.status == "CONVERGED") for row in mine]
            axis.plot([x for x, _, _ in points], [y for _, y, _ in points], color=color, linewidth=width)
            for reached in (True, False):
                some = [(x, y) for x, y, done in points if done == reached]
                axis.plot(
                    [x for x, _ in some],
                    [y for _, y in some],
                    color=color,
                    marker=marker,
                    linestyle="",
                    markerfacecolor=color if reached else "white",
                )
            axis.plot([], [], color=color, marker=marker, linewidth=width, label=gradients.LABELS[method])
        label_axes(axis, rows, f"{name} to 1e-5")
        axis.set_yscale("log")
    _legend(made, axes[:1], columns=2)
    made.suptitle(
        "Figure 4a, b: uniform random 20 x 20 x 20, B3(l); hollow: computed (batch: not yet there)", fontsize=11
    )
    made.savefig(path, dpi=110)


def sizes(rows: Sequence[BenchRow], path: Path) -> None:
    """Figure 4c."""
    made = sheet(6.5, 4.6)
    axis = made.subplots()
    for method in scale.METHODS:
        mine = sorted((row for row in rows if row.method == method and row.measured), key=lambda row: row.cells)
        color, marker, width = bench_plots.STYLES[method]
        values = [row.seconds or np.nan for row in mine]
        axis.plot(
            [row.cells for row in mine], values, color=color, marker=marker, linewidth=width, label=BENCH_LABELS[method]
        )
    axis.set(xscale="log", yscale="log", xlabel="cells of the tensor", ylabel="seconds")
    axis.grid(visible=True, alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    made.suptitle("Figure 4c: uniform random cubes, B3(1), peers with at least as many parameters", fontsize=10)
    made.savefig(path, dpi=110)


def faces(rows: Sequence[Row], path: Path) -> None:
    """Figure 5a, b and the divergence."""
    made = sheet(13.5, 4.8)
    axes = made.subplots(1, 3)
    for axis, name in zip(axes, ("RMSE", "KL", "seconds"), strict=True):
        draw_curves(axis, [row for row in rows if row.method not in (UNIFORM, UNORDERED)], PANELS[name])
        _mean_curve(axis, rows, UNORDERED, "all", PANELS[name])
        label_axes(axis, rows, name)
    _legend(made, axes[:1])
    made.suptitle("Figure 5a, b: faces; mean of the seeds, shaded from best to worst", fontsize=11)
    made.savefig(path, dpi=110)


def mnist(rows: Sequence[Row], path: Path) -> None:
    """Figure 5c, d: first line zeros left out of Omega, second line zeros kept."""
    made = sheet(15, 9)
    lines = made.subplots(2, len(PANELS))
    plain, with_mask = COMPARED, tuple(name + MASKED for name in (*COMPARED, NONZERO))
    for axes, support, peers in ((lines[0], "nonzero", plain + with_mask), (lines[1], "all", plain)):
        for axis, (name, quantity) in zip(axes, PANELS.items(), strict=True):
            for method in (PAPER, ADAPTIVE, UNORDERED):
                _mean_curve(axis, rows, method, support, quantity)
            for method in peers:
                if name != "seconds" or not method.endswith(MASKED):
                    _mean_curve(axis, rows, method, "nonzero", quantity)
            _level(axis, rows, support, quantity if name != "seconds" else None)
            label_axes(axis, rows, name)
            axis.set_title("zeros left out" if support == "nonzero" else "zeros kept", fontsize=9)
    _legend(made, lines[:, 0])
    made.suptitle(
        "Figure 5c, d: MNIST, mean and standard error over the ten digits; best seed of each peer", fontsize=11
    )
    made.savefig(path, dpi=110)


def digits(rows: Sequence[Row], path: Path) -> None:
    """Supplement: each digit."""
    made = sheet(15, 6.6)
    axes = made.subplots(2, 5)
    for number, axis in zip(DIGITS, axes.ravel(), strict=True):
        mine = [row for row in rows if row.problem == f"digit {number}" and row.support == "nonzero"]
        draw_curves(axis, mine, PANELS["RMSE"])
        label_axes(axis, rows, "RMSE")
        axis.set_title(f"digit {number}", fontsize=9)
    _legend(made, axes.ravel())
    made.suptitle("Each digit, zeros left out of Omega", fontsize=11)
    made.savefig(path, dpi=110)


def held_out(rows: Sequence[HeldOut], path: Path) -> None:
    """Draw KL of the half that was fitted, dashed, and of the half that was held out."""
    made = sheet(13.5, 4.6)
    problems = list(dict.fromkeys(row.problem for row in rows))
    axes = [*np.atleast_1d(made.subplots(1, len(problems)))]
    for axis, problem in zip(axes, problems, strict=True):
        found = table(rows, problem)
        for method in dict.fromkeys(method for method, _ in found):
            color, marker, width = STYLES[method]
            sizes = [asked for name, asked in found if name == method]
            fitted, other = ([getattr(found[method, n], name) for n in sizes] for name in ("kl_fitted", "kl_one_more"))
            axis.plot(sizes, other, color=color, marker=marker, linewidth=width, label=NAMES[method])
            axis.plot(sizes, fitted, color=color, linewidth=width, linestyle=":")
        axis.set(xscale="log", yscale="log", xlabel="parameters", ylabel="KL, nats", title=problem)
        every = sorted({asked for _, asked in found})
        axis.set_xticks(every, [f"{n:,}" for n in every])
        axis.set_xticks([], minor=True)
        axis.grid(visible=True, alpha=0.25)
    _legend(made, axes[:1])
    made.suptitle("Half of the events: fitted (dotted) and held out (lines)", fontsize=11)
    made.savefig(path, dpi=110)


def _mean_curve(axis: Any, rows: Sequence[Row], method: str, support: str, quantity: Quantity) -> None:
    color, marker, width = STYLES[method.removesuffix(MASKED)]
    points = []
    for asked in sorted({row.asked for row in rows if row.asked}):
        values = over_tensors(rows, method, support, asked, quantity)
        if values and np.isfinite(values).all():
            points.append((asked, mean(values), sem(values)))
    if points:
        x, y, error = zip(*points, strict=True)
        axis.errorbar(
            x,
            y,
            yerr=error,
            color=color,
            marker=marker,
            markersize=5,
            linewidth=width,
            linestyle=":" if method.endswith(MASKED) else "-",
            capsize=2,
            label=NAMES[method],
        )


def _level(axis: Any, rows: Sequence[Row], support: str, quantity: Quantity | None) -> None:
    values = over_tensors(rows, UNIFORM, support, None, quantity) if quantity is not None else []
    if values:
        axis.axhline(mean(values), color="0.4", linestyle="--", linewidth=1.2, label="uniform: no parameter")


def _legend(made: Any, axes: Sequence[Any], columns: int = 6) -> None:
    """Put one legend under all panels, with whatever any of them shows."""
    shown: dict[str, Any] = {}
    for axis in axes:
        shown.update(dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True)))
    if shown:
        made.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def label_axes(axis: Any, rows: Sequence[Row], name: str) -> None:
    """Label the axes, with at most six ticks, at numbers of parameters that rows were computed for."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axis.set(xlabel="number of parameters", ylabel=name)
    if any(row.n_params and row.scored for row in rows):  # a logarithmic axis needs a point
        axis.set(xscale="log", yscale="log" if name == "seconds" else "linear")
    asked = sorted({row.asked for row in rows if row.asked})
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    shown = asked[:: -(-len(asked) // 6)] if asked else []
    axis.set_xticks(shown, [str(n) for n in shown])
    axis.grid(visible=True, alpha=0.25)


def draw_curves(axis: Any, rows: Sequence[Row], quantity: Quantity) -> None:
    """Draw each method's mean over its seeds and, shaded, the best and the worst; the uniform as a line across."""
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row for row in rows if row.method == method]
        if method == UNIFORM:
            if (level := quantity(mine[0])) is not None:
                axis.axhline(level, color="0.4", linestyle="--", linewidth=1.2, label=mine[0].label)
            continue
        found: dict[int, list[float]] = {}  # values at each number of parameters, which several rows may have
        for row in mine:
            if (value := quantity(row)) is not None and row.n_params and np.isfinite(value):  # a log axis has no 0
                found.setdefault(row.n_params, []).append(value)
        if not found:
            continue
        x = sorted(found)
        color, marker, width = STYLES[method.removesuffix(MASKED)]
        style = {"color": color, "marker": marker, "markersize": 5, "linewidth": width}
        dots = ":" if method.endswith(MASKED) else "-"
        axis.plot(x, [np.mean(found[n]) for n in x], label=mine[0].label, linestyle=dots, **style)
        if any(len(some) > 1 for some in found.values()):
            worst, best = ([pick(found[n]) for n in x] for pick in (max, min))
            axis.fill_between(x, best, worst, color=color, alpha=0.15, linewidth=0)
