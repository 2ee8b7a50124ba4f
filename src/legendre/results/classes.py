"""What tells latent classes of rows apart, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.arguments import check_int
from legendre.core.errors import InvalidQuery
from legendre.core.figures import DIVERGING, SMALL, add_factor_bar, axes_for, draw_literally
from legendre.core.labels import Labels
from legendre.core.text import Printed, Table, shorten
from legendre.core.types import FloatArray, frozen
from legendre.results.base import import_pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@frozen(repr=False)
class ClassEffects(Printed):
    """What tells latent classes of rows apart: how probable each level of each column is in each class.

    Columns that say most about the class come first. Of a column with two levels only the second is listed, because
    the probability of the first follows from it.

    Attributes
    ----------
    labels
        The names and levels of the columns.
    shares
        The share of each class, in the order of `LegendreDensity.class_probabilities`.
    probabilities
        For each column the probability of its levels in each class, levels x classes.
    information
        For each column the mutual information of its value and the class, in nats.

    See Also
    --------
    LegendreDensity : The distribution of rows of categories.

    Examples
    --------
    >>> import legendre as ld
    >>> rng = np.random.default_rng(0)
    >>> bird = rng.random(900) < 0.4
    >>> chances = {"flies": (0.9, 0.1), "eggs": (0.9, 0.2), "teeth": (0.1, 0.8), "sings": (0.7, 0.1), "old": (0.5, 0.5)}
    >>> rows = {name: rng.random(900) < np.where(bird, *pair) for name, pair in chances.items()}
    >>> print(ld.LegendreDensity(ld.graph(), classes=2).fit(rows).class_effects())
    What tells 2 classes apart
    column         level    nats     all  class 0  class 1
    share of rows                  100 %     44 %     56 %
    flies          True    0.245  39.7 %   76.6 %   10.4 %
    teeth          True     0.22  53.5 %   17.8 %   81.9 %
    eggs           True    0.204  47.2 %   81.8 %   19.8 %
    sings          True    0.158  33.4 %   62.4 %   10.3 %
    old            True   0.0013  47.7 %   44.8 %   49.9 %
    """

    labels: Labels
    shares: FloatArray
    probabilities: Sequence[FloatArray]

    @cached_property
    def information(self) -> FloatArray:
        """For each column the mutual information of its value and the class, in nats."""
        from scipy.special import rel_entr

        return np.array([(rel_entr(p, p @ self.shares[:, None]) @ self.shares).sum() for p in self.probabilities])

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """The numbers of columns and levels, as pairs, in the order in which they are listed."""
        order = np.argsort(-self.information, kind="stable").tolist()
        shape = self.labels.shape
        return [(k, i) for k in order for i in range(1 if shape[k] == 2 else 0, shape[k])]

    def to_frame(self) -> Any:
        """Return a pandas data frame, a row for each level: its probability in all rows and in each class."""
        rows = [
            (self.labels.key(k), self.labels.levels_of(k)[i], self.information[k], p @ self.shares, *p)
            for k, i in self._places
            for p in [self.probabilities[k][i]]
        ]
        names = ["column", "level", "information", "all", *(f"class {h}" for h in range(len(self.shares)))]
        return import_pandas("to_frame()").DataFrame(rows, columns=names)

    def tables(self) -> list[Table]:
        """List one table: the first 20 levels, and their probabilities in up to eight classes."""
        most, classes = 20, range(min(len(self.shares), 8))
        rows = [
            ["column", "level", "nats", "all", *(f"class {h}" for h in classes)],
            ["share of rows", "", "", "100 %", *(f"{100 * self.shares[h]:.0f} %" for h in classes)],
        ]
        for k, i in self._places[:most]:
            p = self.probabilities[k][i]
            share = [f"{100 * value:.1f} %" for value in (p @ self.shares, *p[classes])]
            rows.append([str(self.labels.key(k)), self.labels.level(k, i), f"{self.information[k]:.3g}", *share])
        whole = len(self._places) <= most and len(self.shares) == len(classes)
        notes = [] if whole else ["to_frame() has all levels and all classes"]
        return [Table(f"What tells {len(self.shares)} classes apart", rows, "<<>", notes=notes)]

    @draw_literally
    def plot(self, ax: Axes | None = None, *, most: int = 24) -> Axes:
        """Draw the factor by which each level is more probable in a class than in all rows, as a map of colours.

        The first `most` levels are drawn, with their probabilities in per cent if there are at most eight classes.
        """
        places = self._places[: check_int(most, "plot: most", 1, InvalidQuery)]
        p = np.array([self.probabilities[k][i] for k, i in places])
        with np.errstate(divide="ignore"):  # colours end at the scale
            logs = np.log(p / (p @ self.shares)[:, None])
        n_levels, n_classes = p.shape
        ax = axes_for("plot", ax, (4.0 + 0.6 * min(n_classes, 12), 1.6 + 0.26 * n_levels))  # inches
        span = float(np.quantile(np.abs(logs), 0.95)) or 1.0  # one entry in 20 is beyond the scale
        image = ax.imshow(logs, cmap=DIVERGING, vmin=-span, vmax=span, aspect="auto")
        add_factor_bar(ax, image, span, "factor")
        if n_classes <= 8:
            for row, column in np.ndindex(p.shape):
                colour = "white" if abs(logs[row, column]) > 0.6 * span else "black"  # to be seen on dark colours
                number = f"{100 * p[row, column]:.0f}"
                ax.text(column, row, number, ha="center", va="center", fontsize=SMALL, color=colour)
        names = [f"{shorten(self.labels.mode(k), 24)} = {shorten(self.labels.level(k, i), 16)}" for k, i in places]
        ax.set_yticks(range(n_levels), names)
        if n_classes <= 12:
            ax.set_xticks(range(n_classes), [f"{h}\n{100 * share:.0f} %" for h, share in enumerate(self.shares)])
        ax.set(xlabel="class, with its share of rows", title="What tells the classes apart (numbers: per cent)")
        return ax
