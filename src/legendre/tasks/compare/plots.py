"""Error, divergence and time against the number of parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legendre.core.files import replacing
from legendre.tasks.compare.rows import ADAPTIVE, MASKED, PAPER, UNIFORM, Row

STYLES = {
    ADAPTIVE: ("#b2182b", "o", 2.4),
    PAPER: ("#ef8a62", "s", 1.8),
    "cp": ("#1b7837", "^", 1.3),
    "cp-random": ("#5aae61", "v", 1.3),
    "cp-hals": ("#00441b", "<", 1.3),
    "tucker": ("#762a83", "D", 1.3),
    "tucker-hals": ("#9970ab", "d", 1.3),
    "cp-nonzero": ("#4d9221", "X", 1.6),
    "cp-apr": ("#b35806", "P", 1.3),
}
"""Colour, marker and width of each method, the same in all pictures."""

Quantity = Callable[[Row], float | None]
PANELS: tuple[tuple[str, Quantity], ...] = (
    ("RMSE", lambda row: row.rmse),
    ("KL(P, Q), nats", lambda row: row.kl),
    ("seconds", lambda row: row.seconds),
)


def figure(width: float, height: float) -> Any:
    """Make a figure of some inches that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write the picture of a comparison."""
    made = figure(13.5, 4.6)
    axes = made.subplots(1, len(PANELS))
    for axis, (name, quantity) in zip(axes, PANELS, strict=True):
        curves(axis, rows, quantity)
        against_params(axis, rows, name)
    legend(made, axes[0])
    made.suptitle(title, fontsize=11)
    save(made, path)


def against_params(axis: Any, rows: Sequence[Row], name: str) -> None:
    """Label the axes, with at most six ticks, at numbers of parameters that rows were computed for."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axis.set(xlabel="number of parameters", ylabel=name)
    if any(row.n_params and row.scored for row in rows):  # a logarithmic axis needs a point
        axis.set(xscale="log", yscale="log" if name == "seconds" else "linear")
    asked = sorted({row.asked for row in rows if row.asked})
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xticks(asked[:: -(-len(asked) // 6)], [str(n) for n in asked[:: -(-len(asked) // 6)]])
    axis.grid(visible=True, alpha=0.25)


def curves(axis: Any, rows: Sequence[Row], quantity: Quantity) -> None:
    """Draw each method's mean over its seeds and, shaded, the best and the worst; the uniform as a line across."""
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row for row in rows if row.method == method]
        if method == UNIFORM:
            if quantity is not PANELS[-1][1] and (level := quantity(mine[0])) is not None:
                axis.axhline(level, color="0.4", linestyle="--", linewidth=1.2, label=mine[0].label)
            continue
        x, values = _by_size(mine, quantity)
        if not x:
            continue
        color, marker, width = STYLES[method.removesuffix(MASKED)]
        line = ":" if method.endswith(MASKED) else "-"
        style = {"color": color, "marker": marker, "markersize": 5, "linewidth": width, "linestyle": line}
        axis.plot(x, [np.mean(some) for some in values], label=mine[0].label, **style)
        if any(len(some) > 1 for some in values):
            axis.fill_between(x, [*map(min, values)], [*map(max, values)], color=color, alpha=0.15, linewidth=0)


def legend(made: Any, axis: Any) -> None:
    """Put one legend under all panels."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        made.legend(handles, labels, loc="outside lower center", ncols=min(len(handles), 6), fontsize=8, frameon=False)


def save(made: Any, path: Path) -> None:
    """Write the file whole or not at all."""
    with replacing(path) as stream:
        made.savefig(stream, dpi=110, format="png")


def _by_size(rows: Sequence[Row], quantity: Quantity) -> tuple[list[int], list[list[float]]]:
    """Gather the finite values at each number of parameters; several rows may have the same."""
    groups: dict[int, list[float]] = {}
    for row in rows:
        value = quantity(row)
        if value is not None and row.n_params and np.isfinite(value):  # a log axis has no 0
            groups.setdefault(row.n_params, []).append(value)
    return sorted(groups), [groups[n] for n in sorted(groups)]
