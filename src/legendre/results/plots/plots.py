"""The pictures that results offer: ``result.plot.effects()``, ``result.plot.slices()``, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from legendre.core.labels import Mode
from legendre.results.effects import Measure
from legendre.results.plots import effects, graph, mosaic, tables
from legendre.results.views import Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.base import Result
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

Quantity = Literal["kl", "rmse", "aic", "bic", "held_out"]


@dataclass(frozen=True, eq=False)
class Plots:
    """Pictures of a result: ``.slices()``, ``.residuals()``, ``.margins()``, ``.mosaic()``, ``.history()``.

    A picture of one part draws into ``ax=`` where that is given, else into a new figure, and returns the axes; one of
    several parts returns its figure. Modes and levels are named by their labels.
    """

    result: Result
    pair: Pair
    residual_name: str = "max|eta - eta_hat|"

    def slices(self, mode: int | str | None = None, *, most: int = 3) -> Figure:
        """Draw slices of X and of Q side by side, with the residuals; of a matrix all of it.

        The slices with the largest totals and with the largest residuals are drawn. Of more than three modes three are
        shown, and entries are sums over the others. Residuals of counts are in standard deviations.

        Parameters
        ----------
        mode
            The mode to slice along, by name or number. Default: the shortest of the three longest.
        most
            How many slices.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> figure = ld.decompose(np.arange(1, 61).reshape(3, 4, 5), "B1").plot.slices(mode=0, most=1)
        >>> [ax.get_title() for ax in figure.axes[:3]]
        ['mode 0, level 2: observed', 'mode 0, level 2: fitted', 'mode 0, level 2: residual']
        """
        return tables.draw_slices(self.pair, mode, most)

    def residuals(self, ax: Axes | None = None, *, most: int = 5) -> Axes:
        """Draw X against Q, cell by cell, on logarithmic axes where entries differ much; name the worst cells.

        The worst are those with the largest residuals: for counts in standard deviations (signed square roots of the
        terms of the deviance), otherwise in X's units.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], "B1").plot.residuals(most=1)
        >>> ax.get_legend().get_texts()[0].get_text().splitlines()
        ['[1, 0]', '6 observed, 12 fitted (-1.92 sd)']
        """
        return tables.draw_residuals(self.pair, ax, most)

    def margins(self, modes: Sequence[Any] | None = None, *, most: int = 6) -> Figure:
        """Draw sums of X and of Q over all modes but one or two, and which share of the total Q has elsewhere.

        Single modes are drawn as bars (X) with a line or dots (Q), pairs of modes as X against Q.

        Parameters
        ----------
        modes
            Modes and pairs of modes, e.g. ``["hour", ("carrier", "dest")]``. Default: those in which most is misplaced.
        most
            How many modes, and how many pairs.

        Examples
        --------
        >>> import legendre as ld
        >>> figure = ld.decompose([[18, 7], [6, 19]], "B1").plot.margins()
        >>> [ax.get_title() for ax in figure.axes]
        ['mode 0: 0 % misplaced', 'mode 1: 0 % misplaced', 'mode 0 and mode 1: 24.0 % misplaced']
        """
        return tables.draw_margins(self.pair, modes, most)

    def mosaic(self, modes: Mode | Sequence[Mode] | None = None, ax: Axes | None = None) -> Axes:
        """Draw a tile for each cell, its area the count, its shade the residual from the fit.

        The first mode splits the square from left to right, the second from top to bottom, and so on. Shades begin
        where a Pearson residual is beyond 2 and darken beyond 4. A cell without counts is a sliver; one outside the
        support, a structural zero, is outlined.

        Parameters
        ----------
        modes
            Up to four modes, by name or number, in the order of the splits; others are summed over. Default: all.
        ax
            Where to draw; a new figure by default.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], "B1").plot.mosaic()
        >>> len(ax.patches), ax.get_xlabel(), ax.get_ylabel()
        (4, 'mode 0', 'mode 1')
        """
        return mosaic.draw_mosaic(self.pair, modes, ax)

    def history(self, ax: Axes | None = None) -> Axes:
        """Draw the certificate: how the residual, which is 0 at the minimum, fell from step to step.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").plot.history().get_ylabel()
        'max|eta - eta_hat|'
        """
        return effects.draw_history(self.result, self.residual_name, ax)


@dataclass(frozen=True, eq=False, kw_only=True)
class FitPlots(Plots):
    """Pictures of a decomposition: those of `Plots`, and what needs its parameters.

    ``.effects()``, ``.graph()``, ``.odds()``, ``.boxes()`` and ``.path()``.
    """

    fit: Decomposition
    tests: Inference | None = None  # by default those of X

    def effects(self, *, measure: Measure = "uniform", most: int = 6) -> Figure:
        """Draw the effects of modes as lines and of pairs of modes as maps; see `Decomposition.effects`.

        A line shows the factor by which a level multiplies the probability, on a logarithmic scale (dots, where levels
        have no order); a map the factor of a pair of levels beyond those of its modes. Titles tell the share of the
        variance of log Q.

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
        return effects.draw_effects(self.fit, measure, most)

    def odds(
        self,
        first: Mode,
        second: Mode,
        given: Mapping[Any, Any] | None = None,
        *,
        contrasts: Literal["local", "treatment"] = "local",
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the odds ratios of two variables, with their intervals; see `Inference.odds`. X must hold counts.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], ld.full()).plot.odds(0, 1)
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['mode 0[1/0]:mode 1[1/0]']
        """
        tests = self.fit.inference() if self.tests is None else self.tests
        return effects.draw_odds(tests, (first, second), given, contrasts, confidence, ax)

    def graph(self, ax: Axes | None = None, *, by: graph.By = "share", measure: Measure = "uniform") -> Axes:
        """Draw modes as boxes and the joint effects of pairs as lines, the stronger the thicker.

        Parameters
        ----------
        ax
            Where to draw; a new figure by default.
        by
            "share": by the share of the variance of log Q. "kl": by how much KL(P, Q) rises without the pair, and all
            larger sets that hold it; the model is fitted again for each line.
        measure
            What effects are centred under.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[1, 2], [3, 12]], ld.full()).plot.graph()
        >>> [text.get_text().split() for text in ax.texts]
        [['3.7', '%'], ['mode', '0', '63.5', '%'], ['mode', '1', '32.9', '%']]
        """
        return graph.draw_graph(self.fit, ax, by, measure)

    def boxes(self, *, most: int = 15) -> Figure:
        """Draw which levels of each mode the parameters of `legendre.boxes` act on, and their factors.

        A row is a box, its bars the levels that it holds: orange where it raises the probability, blue where it lowers
        it. Levels are in the order in which the boxes grew: those that were arranged are named at the bars.

        Parameters
        ----------
        most
            How many boxes are drawn: those with the largest factors, or the smallest.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> X = np.ones((6, 8)); X[2:4, 3:7] = 5
        >>> figure = ld.decompose(X, ld.boxes(1)).plot.boxes()
        >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        ['× 5']
        """
        return effects.draw_boxes(self.fit, most)

    def path(self, ax: Axes | None = None, *, quantity: Quantity | None = None) -> Any:
        """Draw how an adaptive basis got better as it grew, with the size that was chosen.

        Parameters
        ----------
        ax
            Where to draw one quantity, "kl" unless another is named.
        quantity
            "kl", "rmse", "aic", "bic" or "held_out", the loss by which ``adaptive("cv")`` chose. Default: a figure of
            the first two and, where they say something, of "bic" and "held_out".

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose(np.arange(1, 28).reshape(3, 3, 3), "adaptive(6)")
        >>> [ax.get_ylabel() for ax in fit.plot.path().axes]
        ['KL(P, Q) in nats', 'root mean square error', 'BIC']
        """
        return effects.draw_path(self.fit, ax, quantity)
