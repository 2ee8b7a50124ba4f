"""Pictures of a decomposition; matplotlib is imported when one is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.figures import axes_for, new_figure
from legendre.results.effect_tables import Measure
from legendre.results.effects import Effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.decomposition import Decomposition

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "0.5"  # told apart by colour-blind readers (Okabe and Ito's palette)
DIVERGING = "PuOr"  # told apart by colour-blind readers; white in the middle
FEW_LEVELS = 12  # levels up to which every one gets a tick
COLUMNS = 3  # pictures of effects side by side


@dataclass(frozen=True, eq=False)
class Plots:
    """Pictures of a decomposition: ``fit.plot.effects()``, ``fit.plot.history()``, ``fit.plot.path()``, ...

    Each draws into ``ax=`` where one is given, else into a new figure, and returns what it drew in.
    """

    fit: Decomposition

    def effects(self, *, measure: Measure = "uniform", most: int = 6) -> Figure:
        """Draw the effects of modes as lines and of pairs of modes as maps; see `Decomposition.effects`.

        A line shows the factor by which a level multiplies the probability, on a logarithmic scale; a map the factor
        of a pair of levels beyond those of its modes. Titles tell the share of the variance of log Q.

        Parameters
        ----------
        measure
            What effects are centred under.
        most
            How many effects are drawn: those with the largest shares.

        Examples
        --------
        >>> import legendre as ld
        >>> figure = ld.decompose([[1, 2], [3, 12]], ld.full()).plot.effects()
        >>> [ax.get_title() for ax in figure.axes[:3]]
        ['mode 0: 63.5 %', 'mode 1: 32.9 %', 'modes 0 and 1: 3.7 %']
        """
        if not is_whole(most, 1):
            raise InvalidQuery(f"plot.effects: most={most!r}; it must be an integer >= 1.")
        found = self.fit.effects(measure=measure, max_order=2)
        if not len(found):
            raise InvalidQuery("plot.effects: the model has no parameter that tells levels apart, so no effects.")
        drawn = sorted(sorted(found, key=lambda e: -e.share)[:most], key=lambda e: (len(e.modes), -e.share))
        across = min(COLUMNS, len(drawn))
        down = math.ceil(len(drawn) / across)
        figure = new_figure("plot.effects", (3.6 * across, 2.9 * down))
        for place, effect in enumerate(drawn):
            ax = figure.add_subplot(down, across, place + 1)
            (_line if len(effect.modes) == 1 else _map)(ax, effect)
        return figure

    def history(self, ax: Axes | None = None) -> Axes:
        """Draw the certificate: how max|eta - eta_hat|, which is 0 at the minimum, fell from step to step.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").plot.history().get_ylabel()
        'max|eta - eta_hat|'
        """
        ax = axes_for("plot.history", ax)
        steps = self.fit.history
        floor = np.finfo(np.float64).tiny
        residuals = [max(step.residual, floor) for step in steps]
        ax.semilogy([step.iteration for step in steps], residuals, "o-", color=BLUE, markersize=4)
        if self.fit.tol > 0:
            ax.axhline(self.fit.tol, color=ORANGE, linewidth=1)
            ax.annotate(
                f"tol = {self.fit.tol:g}",
                (1, self.fit.tol),
                xycoords=ax.get_yaxis_transform(),
                xytext=(-4, 4),
                textcoords="offset points",
                ha="right",
                color=ORANGE,
            )
        ax.set(xlabel="step", ylabel="max|eta - eta_hat|", title=f"{self.fit.solver}: {self.fit.status.name}")
        _whole_ticks(ax)
        return ax

    def path(self, ax: Axes | None = None, *, quantity: str = "kl") -> Axes:
        """Draw how an adaptive basis got better as it grew: "kl", "rmse", "aic" or "bic" against its size.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose(np.arange(1, 28).reshape(3, 3, 3), "adaptive(6)")
        >>> fit.plot.path(quantity="rmse").get_xlabel()
        'parameters'
        """
        names = {"kl": "KL(P, Q) in nats", "rmse": "root mean square error", "aic": "AIC", "bic": "BIC"}
        if quantity not in names:
            raise InvalidQuery(f'plot.path: quantity={quantity!r}; it is one of "kl", "rmse", "aic", "bic".')
        if not self.fit.path:
            raise InvalidQuery("plot.path: this basis was not grown, so it has no path; fit with adaptive(...).")
        ax = axes_for("plot.path", ax)
        sizes = [step.n_params for step in self.fit.path]
        values = [getattr(step, quantity) for step in self.fit.path]
        ax.plot(sizes, values, "o-", color=BLUE, markersize=4)
        ax.plot(sizes[-1:], values[-1:], "o", color=ORANGE, markersize=8)
        ax.annotate(
            f"{sizes[-1]:,} parameters",
            (sizes[-1], values[-1]),
            xytext=(-6, 10),
            textcoords="offset points",
            ha="right",
            color=ORANGE,
        )
        ax.set(xlabel="parameters", ylabel=names[quantity])
        _whole_ticks(ax)
        return ax


def _line(ax: Axes, effect: Effect) -> None:
    """Draw the factor of each level of one mode."""
    (k,) = effect.modes
    factors = np.exp(effect.values)
    few = len(factors) <= FEW_LEVELS
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.plot(factors, "o-" if few else "-", color=BLUE, markersize=4, linewidth=1.5)
    ax.set_yscale("log")
    _plain_factors(ax)
    ax.set(xlabel=f"level of mode {k}", ylabel="factor", title=f"mode {k}: {100 * effect.share:.1f} %")
    _whole_ticks(ax)


def _map(ax: Axes, effect: Effect) -> None:
    """Draw the factor of each pair of levels."""
    i, j = effect.modes
    values = effect.values
    most = float(np.abs(values).max()) or 1.0
    image = ax.imshow(
        values, cmap=DIVERGING, vmin=-most, vmax=most, aspect="auto", origin="lower", interpolation="nearest"
    )
    bar = ax.figure.colorbar(image, ax=ax, ticks=[-most, 0, most])
    bar.ax.set_yticklabels([f"x {math.exp(v):.2g}" for v in (-most, 0, most)])
    ax.set(
        xlabel=f"level of mode {j}", ylabel=f"level of mode {i}", title=f"modes {i} and {j}: {100 * effect.share:.1f} %"
    )
    _whole_ticks(ax, both=True)


def _plain_factors(ax: Axes) -> None:
    """Label a logarithmic axis of factors with plain numbers, at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = ax.get_ylim()
    if high / low < 2.5:  # too short for 1, 2, 5
        ax.set_yscale("linear")
        return
    wide = high / low > 1e3
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())


def _whole_ticks(ax: Axes, *, both: bool = False) -> None:
    """Put ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    for axis in (ax.xaxis, ax.yaxis) if both else (ax.xaxis,):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
