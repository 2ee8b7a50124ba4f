"""The picture of the certificate: how far each step was from the exact condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.figures import BLUE, ORANGE, SMALL, axes_for
from legendre.core.ticks import whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from legendre.results.base import Result


def draw(result: Result, name: str, ax: Axes | None) -> Axes:
    """Draw the residual after each step, and the tolerance."""
    ax = axes_for("plot.history", ax)
    tol, solver = getattr(result, "tol", 0.0), getattr(result, "solver", "")
    floor = np.finfo(np.float64).tiny
    residuals = [max(step.residual, floor) for step in result.history]
    ax.semilogy([step.iteration for step in result.history], residuals, "o-", color=BLUE, markersize=5, linewidth=2)
    if tol > 0:
        ax.axhline(tol, color=ORANGE, linewidth=1.5)
        ax.annotate(
            f"tol = {tol:g}",
            (0, tol),
            xycoords=ax.get_yaxis_transform(),
            xytext=(6, 5),
            textcoords="offset points",
            color=ORANGE,
            fontsize=SMALL,
        )
    status = result.status.name
    ax.set(xlabel="step", ylabel=name, title=f"{solver}: {status}" if solver else status)
    whole_ticks(ax)
    return ax
