"""Odds ratios of two variables with their intervals, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, GREY, SMALL, axes_for
from legendre.core.labels import Mode
from legendre.core.ticks import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from legendre.results.inference.result import Inference

MOST = 60  # odds ratios that can be read
ROW, EDGE = 0.32, 1.6  # inches of a row, and of what is above and below all of them
WIDTH = 7.6


def draw(
    tests: Inference,
    first: Mode,
    second: Mode,
    given: Mapping[Any, Any] | None,
    contrasts: Any,
    level: float,
    ax: Axes | None,
) -> Axes:
    """Draw a dot and a line for each odds ratio; an arrow where it is infinite."""
    from matplotlib.ticker import FuncFormatter

    found = tests.odds(first, second, given, contrasts=contrasts, confidence=level)
    if len(found) > MOST:
        raise InvalidQuery(f"plot.odds: {len(found)} odds ratios; at most {MOST} can be read. Use given=.")
    ax = axes_for("plot.odds", ax, (WIDTH, EDGE + ROW * len(found)))
    ax.set_xscale("log")
    ax.axvline(1.0, color=GREY, linewidth=1)
    rows, known = np.arange(len(found)), np.isfinite(found.standard_error)
    ends = np.stack([found.shown - found.lower, found.upper - found.shown])[:, known]
    ax.errorbar(found.shown[known], rows[known], xerr=ends, fmt="o", color=BLUE, markersize=5, capsize=3, linewidth=1.6)
    edge: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "color": BLUE, "fontsize": SMALL}
    for i in np.flatnonzero(~known).tolist():
        value = found.estimate[i]
        place, text = (0.98, "infinite →") if value == np.inf else (0.02, "← 0") if value == -np.inf else (0.5, "open")
        ax.text(place, i, text, ha={0.98: "right", 0.02: "left"}.get(place, "center"), **edge)
    if not known.all():
        ax.margins(x=0.25)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))
    if known.any() and found.upper[known].max() < 100 * found.lower[known].min():
        ax.xaxis.set_minor_formatter(FuncFormatter(lambda v, _: plain(v) if f"{v:.0e}"[0] in "25" else ""))
        ax.tick_params(which="minor", labelsize=SMALL)
    ax.set_yticks(rows, list(found.names))
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlabel(f"odds ratio, with its {100 * level:g} % interval")
    labels = tests.fit.labels
    a, b = (labels.mode(labels.find_mode(key, "odds")) for key in (first, second))
    ax.set_title(f"{a} and {b}")
    return ax
