"""X beside Q, as sums over some of the modes and as single cells; plots and the report page draw them.

`FitPair` reads both from a decomposition, `ArrayPair` from two arrays, for results that are not decompositions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.sums.quotient import Quotient, sum_others
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Modes, Shape, frozen
from legendre.data.observation import Observation, beyond_memory
from legendre.model.model import Model
from legendre.results.distribution import sum_cells, tensor

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

EXACT = 1e-6  # residuals up to this are rounding errors; in standard deviations (counts), or relative to the largest X


class PairTable(NamedTuple):
    """X and Q summed over all modes but some, in X's units; two arrays of one shape, an axis for each mode kept."""

    x: FloatArray  # NaN where no cell in the sum was observed
    q: FloatArray  # NaN where Q has no cell either

    @property
    def misplaced(self) -> float:
        """The share of the total that lies elsewhere in Q than in X: half the sum of absolute differences.

        Pictures of margins name it in their titles, and show the modes where it is largest.
        """
        total = float(np.nansum(self.x))
        return float(np.nansum(np.abs(self.x - self.q))) / (2 * total) if total else 0.0


class PairCells(NamedTuple):
    """Single cells with their entries of X and Q, vectors of the same length, for pictures and tables of residuals."""

    x: FloatArray
    q: FloatArray
    cell: Callable[[int], Any]  # from i to the indices of the i-th cell; a list would need N times the memory of x
    note: str = ""  # which cells are not listed


@frozen
class FitPair:
    """X and Q of a decomposition, whether X is dense, sparse or distributed.

    Tables are margins of the data and of Q, so no tensor of X's shape is formed for them.
    """

    fit: Decomposition
    visible: int | None = None  # how many modes are shown, if the others, which come last, were not observed
    x_name: str = "observed"  # the words for X and for Q in pictures
    q_name: str = "fitted"
    width: None = None  # no cell has an interval, see `ArrayPair.width`

    @cached_property
    def labels(self) -> Labels:
        """What modes and levels are called."""
        labels = self.fit.labels
        return labels if self.visible is None else labels.part(range(self.visible))

    @property
    def counts(self) -> bool:
        """Whether X holds counts, so that sqrt(Q) is the standard deviation of an entry."""
        return self.fit.data is not None and self.fit.data.counts

    @property
    def note(self) -> str:
        """How many cells vanish, in words; empty if none does, or if each entry is a sum over hidden modes."""
        gone = self.fit.n_vanishing if self.visible is None else 0
        return f"{gone:,} cell{' vanishes' if gone == 1 else 's vanish'}: Q is 0 there" if gone else ""

    def table(self, modes: Modes) -> PairTable:
        """Sum X and Q over all modes but `modes`, which are the axes of the table, in that order.

        An entry is NaN if no cell of the sample space is summed in it.
        """
        data = self.fit._observed
        if problem := beyond_memory(tuple(self.labels.shape[k] for k in modes)):
            raise InvalidQuery(
                f"a table over {len(modes)} modes {problem}. plot.margins() draws single modes and pairs."
            )
        q = np.asarray(self.fit._distribution.marginal(list(modes), {})) * self.fit.total
        inside = measure_of(self.fit.model, modes) > 0
        return PairTable(np.where(inside, margin_of(data, modes), np.nan), np.where(inside, q, np.nan))

    def cells(self) -> PairCells:
        """List the cells of the sample space with X and Q.

        Of a sparse X whose grid is too large to be formed, or whose sample space is a list, only its entries are
        listed; if modes are hidden, the cells of the visible ones.
        """
        if self.visible is not None:
            table = self.table(tuple(range(self.visible)))
            return _list_cells(table.x, table.q, ~np.isnan(table.x))
        fit, data, shape = self.fit, self.fit._observed, self.fit.shape
        support, entries = fit.model.support, data.entries
        if entries is not None and (data.as_dense() is None or not support.full):
            q = np.exp(fit._distribution.log_prob(entries.cells)) * fit.total
            # `even` is a pseudo-count that is spread over all cells
            x = entries.values.astype(np.float64) + entries.even / support.n_cells
            left = support.n_cells - len(x)
            note = f"{size_name(left)} empty cells are not shown" if left else ""
            return PairCells(x, q, entries.cells.__getitem__, note)
        if problem := beyond_memory(shape):
            raise InvalidQuery(
                f"residuals need every cell: X {problem}. plot.margins and plot.slices draw sums of them."
            )
        return _list_cells(data.in_memory("plot.residuals").values, tensor(fit, extend=False), support.on_grid())


@frozen
class ArrayPair:
    """X and Q of a result that is not a decomposition, as arrays: completed or balanced.

    X is NaN where it was not observed; Q may have a value there.
    """

    labels: Labels
    arrays: Callable[[], tuple[AnyArray, AnyArray]]  # returns X and Q; called when something is drawn
    x_name: str = "observed"
    q_name: str = "fitted"
    may_count: bool = True  # whether an X of integers holds counts
    width: FloatArray | None = None  # the width of the 90 % interval of each missing cell; NaN at other cells

    @cached_property
    def _filled(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        """X with 0 where it was not observed, which cells were observed, and Q: three arrays of X's shape.

        They are kept, because a picture asks for several tables.
        """
        x, q = (np.asarray(part, dtype=np.float64) for part in self.arrays())
        return np.nan_to_num(x, nan=0.0), ~np.isnan(x), q

    @cached_property
    def counts(self) -> bool:
        """Whether X holds counts, so that residuals can be given in standard deviations."""
        x = self._filled[0]
        return self.may_count and bool((x == np.rint(x)).all())

    @property
    def note(self) -> str:
        """How many cells are missing, in words; empty if none is."""
        left = int((~self._filled[1]).sum())
        return f"{left:,} cells are missing in X" if left else ""

    def table(self, modes: Modes) -> PairTable:
        """Sum X and Q over all modes but `modes`, which are the axes of the table, in that order.

        Both are summed over observed cells only, so that they can be compared. An entry without an observed cell is NaN
        in X, and in Q the sum over all of its cells, which are then predictions.
        """
        x, observed, q = self._filled
        inside = sum_others(observed, modes) > 0
        q_sums = np.where(inside, sum_others(np.where(observed, q, 0.0), modes), sum_others(q, modes))
        return PairTable(np.where(inside, sum_others(x, modes), np.nan), q_sums)

    def cells(self) -> PairCells:
        """List the cells that were observed: only there X and Q can be compared."""
        x, observed, q = self._filled
        return _list_cells(x, q, observed)


Pair = FitPair | ArrayPair


def _list_cells(x: AnyArray, q: FloatArray, inside: BoolArray) -> PairCells:
    """List the cells that are marked in `inside`, in C order, with their entries of X and Q."""
    places = np.flatnonzero(inside)
    return PairCells(x[inside].astype(np.float64), q[inside], lambda i: np.unravel_index(places[i], inside.shape))


def residuals_of(pair: Pair, x: FloatArray, q: FloatArray) -> FloatArray:
    """Return the residuals that are shown: X - Q, or for counts deviance residuals, in standard deviations.

    Deviance residuals are square roots of the terms of the deviance, with the sign of X - Q; for counts they are about
    standard normal if the model holds. They are infinite where X > 0 and Q is 0. Arrays of any shape.
    """
    return np.sign(x - q) * np.sqrt(deviance_terms(x, q)) if pair.counts else x - q


def find_worst(pair: Pair, most: int) -> tuple[PairCells, IntArray, FloatArray]:
    """Find the `most` cells with the largest residuals, for pictures, tables and the report page.

    Return all cells of the pair, the places of the worst among them, the largest first, and all residuals. Residuals
    that are rounding errors (`EXACT`) are not among the worst.
    """
    found = pair.cells()
    residuals = residuals_of(pair, found.x, found.q)
    sizes, least = np.abs(residuals), EXACT if pair.counts else EXACT * found.x.max(initial=0.0)
    places = np.flatnonzero(sizes > least)
    if len(places) > most:  # select before sorting, because there may be millions of cells
        places = np.sort(places[np.argpartition(-sizes[places], most)[:most]])
    return found, places[np.argsort(-sizes[places], kind="stable")], residuals


def deviance_terms(x: FloatArray, q: FloatArray) -> FloatArray:
    """Return each cell's term of the deviance, ``2 (x log(x / q) - x + q)``: 0 where x = q; NaN where x is NaN.

    >>> deviance_terms(np.array([2.0, 3.0]), np.array([2.0, 1.0])).round(4).tolist()
    [0.0, 2.5917]
    """
    from scipy.special import kl_div

    return np.maximum(2.0 * kl_div(x, q), 0.0)  # rounding may leave -1e-16


def margin_of(data: Observation, modes: Modes) -> FloatArray:
    """Sum X over all modes but `modes`, which are the axes of the answer, in that order.

    Entries of a sparse X are counted, so no grid is formed. A dense or distributed X is merged into one cell along the
    modes that are summed over.
    """
    if (entries := data.entries) is not None:
        sums = sum_cells(entries.cells, entries.values.astype(np.float64), data.shape, modes)
        return sums + entries.even / sums.size
    cuts = [np.arange(n) if k in modes else np.zeros(1, dtype=np.int64) for k, n in enumerate(data.shape)]
    return sum_others(data.merged(Quotient(data.shape, tuple(cuts))), modes)


def measure_of(model: Model, modes: Modes) -> FloatArray:
    """Sum the measure of the sample space over all modes but `modes`: how many cells each entry of a margin sums.

    Cells count by the base measure, if there is one. On the full grid all entries are equal, and 1 is returned for
    each. An entry is 0 if no cell of the sample space is summed in it. A margin of X, divided by this, is a mean of X,
    up to a common factor.
    """
    support = model.support
    if support.points is not None:
        return sum_cells(support.points, np.ones(len(support.points)), support.shape, modes)
    if support.mask is None and model.base is None:
        return np.ones([support.shape[k] for k in modes])
    return sum_others(np.where(support.on_grid(), 1.0 if model.base is None else model.base, 0.0), modes)


def slice_modes(shape: Shape, along: int | None = None) -> Modes:
    """Choose the modes of a picture of slices: the one to slice along, and the two that are rows and columns.

    The mode to slice along is `along`, by default the shortest of the three longest. The other two are the longest of
    the rest, in rising order. With one or two modes there is nothing to slice along: all modes are returned.
    """
    longest = sorted(range(len(shape)), key=lambda k: -shape[k])[:3]  # the longest first
    first = [] if len(shape) < 3 else [longest[-1] if along is None else along]
    return *first, *sorted([k for k in longest if k not in first][:2])
