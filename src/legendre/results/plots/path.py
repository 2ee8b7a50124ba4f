"""The picture of growing: how much better an adaptive basis got with each parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, ORANGE, SMALL, axes_for, heading, panels
from legendre.core.ticks import whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.decomposition import Decomposition

NAMES = {
    "kl": "KL(P, Q) in nats",
    "rmse": "root mean square error",
    "aic": "AIC",
    "bic": "BIC",
    "held_out": "loss on what was held out",
}


def draw_all(fit: Decomposition) -> Figure:
    """Draw KL, the error in X's units and, for counts, BIC side by side."""
    _check(fit)
    counts = fit.data is not None and fit.data.counts
    wanted = ["kl", "rmse", *(["bic"] if counts else []), "held_out"]
    wanted = [name for name in wanted if not np.isnan([getattr(step, name) for step in fit.path]).all()]
    figure, axes = panels("plot.path", len(wanted), len(wanted))
    for ax, name in zip(axes, wanted, strict=True):
        draw(fit, ax, name)
    heading(figure, "How the fit got better as its basis grew")
    return figure


def draw(fit: Decomposition, ax: Axes | None, quantity: str) -> Axes:
    """Draw one quantity against the number of parameters, with the size that was chosen."""
    if quantity not in NAMES:
        raise InvalidQuery(f'plot.path: quantity={quantity!r}; it is one of "kl", "rmse", "aic", "bic", "held_out".')
    _check(fit)
    ax = axes_for("plot.path", ax)
    sizes = [step.n_params for step in fit.path]
    values = [getattr(step, quantity) for step in fit.path]
    ax.plot(sizes, values, "o-", color=BLUE, markersize=4, linewidth=2)
    if quantity == "held_out":
        ax.errorbar(sizes, values, yerr=[step.spread for step in fit.path], fmt="none", ecolor=BLUE, linewidth=1)
    ax.plot(sizes[-1:], values[-1:], "o", color=ORANGE, markersize=10)
    ax.annotate(
        f"{sizes[-1]:,} parameters",
        (sizes[-1], values[-1]),
        xytext=(0.98, 0.9),
        textcoords="axes fraction",
        ha="right",
        color=ORANGE,
        fontsize=SMALL,
        arrowprops={"arrowstyle": "-", "color": ORANGE, "linewidth": 0.8, "shrinkB": 5},
    )
    ax.set(xlabel="parameters", ylabel=NAMES[quantity])
    whole_ticks(ax)
    return ax


def _check(fit: Decomposition) -> None:
    if not fit.path:
        raise InvalidQuery("plot.path: this basis was not grown, so it has no path; fit with adaptive(...).")
