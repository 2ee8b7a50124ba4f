"""Pictures drawn from the rows: time and memory against the number of cells and against the number of parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from legendre.tasks.compare import ADAPTIVE, PEERS

from .measure import NUMPY, OURS
from .problems import CELLS_SWEEP, PARAMS_SWEEP, Problem
from .results import LABELS, Results
from .rows import Row

CELLS_PLOT, PARAMS_PLOT = "cells.png", "params.png"
PEER_STYLES = {
    ADAPTIVE: ("#b2182b", "o", 2.4),
    "paper": ("#ef8a62", "s", 1.8),
    "cp": ("#1b7837", "^", 1.3),
    "cp-random": ("#5aae61", "v", 1.3),
    "cp-hals": ("#00441b", "<", 1.3),
    "tucker": ("#762a83", "D", 1.3),
    "tucker-hals": ("#9970ab", "d", 1.3),
    "cp-nonzero": ("#4d9221", "X", 1.6),
    "cp-apr": ("#b35806", "P", 1.3),
}
"""Colour, marker and width of each method, the same in all pictures."""
STYLES = {OURS: ("#b2182b", "o", 2.4), NUMPY: ("#2166ac", "s", 1.3)} | {name: PEER_STYLES[name] for name in PEERS}

Quantity = Callable[[Row], float | None]


def sheet(width: float, height: float) -> Figure:
    """Make a figure of some inches that belongs to no window, to be written to a file."""
    return Figure(figsize=(width, height), layout="constrained")


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw what there are rows for."""
    cells = _picture(results, CELLS_SWEEP, lambda row: row.cells, "cells", "B3(1), max|eta - eta_hat| <= 1e-5")
    params = _picture(results, PARAMS_SWEEP, _params, "parameters |B|", "50^3, B3(l), max|eta - eta_hat| <= 1e-9")
    paths = [folder / CELLS_PLOT, folder / PARAMS_PLOT]
    for figure, path in zip((cells, params), paths, strict=True):
        figure.savefig(path, dpi=110)
    return paths


def _picture(results: Results, problems: tuple[Problem, ...], x: Quantity, name: str, title: str) -> Any:
    figure = sheet(11, 4.4)
    time_axis, memory_axis = figure.subplots(1, 2)
    for method in STYLES:
        rows = results.line(method, problems)
        _line(time_axis, rows, x, lambda row: row.seconds, method)
        _line(memory_axis, rows, x, lambda row: row.peak_extra_mb, method)
    ours = results.line(OURS, problems)
    _reference(time_axis, ours, x, lambda row: row.sum_seconds, "X.sum()")
    _reference(time_axis, ours, x, lambda row: row.dpotrf_seconds, "dpotrf(|B|)")
    _reference(memory_axis, ours, x, lambda row: row.x_mb, "X itself")
    for axis, label in ((time_axis, "seconds"), (memory_axis, "peak memory beyond X, MB")):
        axis.set(xscale="log", yscale="log", xlabel=name, ylabel=label)
        axis.grid(visible=True, alpha=0.25)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def _params(row: Row) -> float | None:
    if row.method in (OURS, NUMPY):
        return row.params
    found = [problem for problem in PARAMS_SWEEP if problem.name == row.problem]
    return 50.0 * int(found[0].basis[3:-1])  # a peer's row counts its own parameters; it belongs at the basis's


def _points(rows: list[Row], x: Quantity, y: Quantity) -> tuple[list[float], list[float]]:
    pairs = [(x(row), y(row)) for row in rows]
    known = [(a, b) for a, b in pairs if a is not None and b is not None and b > 0]
    return [a for a, _ in known], [b for _, b in known]


def _line(axis: Any, rows: list[Row], x: Quantity, y: Quantity, method: str) -> None:
    color, marker, width = STYLES[method]
    xs, ys = _points(rows, x, y)
    if xs:
        axis.plot(xs, ys, color=color, marker=marker, linewidth=width, markersize=5, label=LABELS[method])


def _reference(axis: Any, rows: list[Row], x: Quantity, y: Quantity, label: str) -> None:
    xs, ys = _points(rows, x, y)
    if len(xs) > 1:
        axis.plot(xs, ys, color="0.45", linestyle="--" if "X" in label else ":", linewidth=1.2, label=label)
