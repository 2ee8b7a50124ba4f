"""X and Q side by side, in the forms in which pictures compare them: tables over a few modes, and lists of cells."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.data.support import Support
from legendre.results.deviance import signed_roots
from legendre.results.distribution import tensor

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Modes = tuple[int, ...]


class Table(NamedTuple):
    """X and Q summed over all modes but some, in X's units."""

    x: FloatArray  # NaN where no cell that was summed has been observed
    q: FloatArray  # NaN where Q has no cell either

    @property
    def misplaced(self) -> float:
        """The share of the total that lies elsewhere in Q than in X: half the sum of absolute differences."""
        total = float(np.nansum(self.x))
        return float(np.nansum(np.abs(self.x - self.q))) / (2 * total) if total else 0.0


class Cells(NamedTuple):
    """Cells one by one with their entries of X and Q."""

    cells: IntArray
    x: FloatArray
    q: FloatArray
    left_out: str  # which cells are not listed, in words; empty where all are


@dataclass(frozen=True, eq=False)
class Pair(ABC):
    """What pictures compare: X, called `seen`, with Q, called `made`."""

    labels: Labels
    seen: str = "observed"
    made: str = "fitted"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.labels.shape

    @property
    @abstractmethod
    def counts(self) -> bool:
        """Whether X holds counts, so that sqrt(Q) is the standard deviation of an entry."""

    @abstractmethod
    def table(self, modes: Modes, asked: str) -> Table:
        """Sum X and Q over all modes but some, in the order given; `asked` is what asks, for errors."""

    @abstractmethod
    def listed(self, asked: str) -> Cells:
        """List the cells of the sample space."""

    def cells_told(self) -> str:
        """Say which cells vanish, if any."""
        return ""

    def residuals(self, x: FloatArray, q: FloatArray) -> FloatArray:
        """Return X - Q; of counts in standard deviations, by signed square roots of the terms of the deviance."""
        if not self.counts:
            return np.asarray(x - q)
        roots = signed_roots(x, q)
        return np.where(np.isinf(roots), np.nan, roots)  # X > 0 where Q is 0: outside every scale

    @property
    def units(self) -> tuple[str, str]:
        """What entries and `residuals` are, in words."""
        return ("count", "standard deviations") if self.counts else ("entry", "difference")


@dataclass(frozen=True, eq=False)
class FitPair(Pair):
    """X and Q of a decomposition, however they are held: sums come from margins, not from a tensor."""

    fit: Decomposition | None = None

    @property
    def _fit(self) -> Decomposition:
        assert self.fit is not None
        return self.fit

    def _data(self, asked: str) -> Observation:
        if self._fit.data is None:
            raise InvalidQuery(
                f"{asked} compares Q with X, which a loaded decomposition does not hold. Fit X again, or draw before "
                "you save. plot.effects, plot.graph, plot.path and plot.history need no X."
            )
        return self._fit.data

    @property
    def counts(self) -> bool:
        return self._fit.data is not None and self._fit.data.counts

    def table(self, modes: Modes, asked: str) -> Table:
        fit, x = self._fit, sums_of(self._data(asked), modes)
        q = np.asarray(fit.distribution.marginal(list(modes), {})) * fit.total
        inside = inside_of(fit.model.support, modes)
        return Table(np.where(inside, x, np.nan), np.where(inside, q, np.nan))

    def listed(self, asked: str) -> Cells:
        fit, data, entries = self._fit, self._data(asked), self._data(asked).entries
        if entries is not None and (data.here() is None or not fit.model.support.full):
            q = np.exp(fit.distribution.log_prob(entries.cells)) * fit.total
            left = fit.model.support.n_cells - len(entries.values)
            even = entries.even / fit.model.support.n_cells
            told = f"{size_name(left)} empty cells are not shown" if left else ""
            return Cells(entries.cells, entries.values.astype(np.float64) + even, q, told)
        if math.prod(fit.shape) > limits.LARGEST_HELD:
            raise InvalidQuery(
                f"{asked} draws every cell: X has {math.prod(fit.shape):,}, at most {limits.LARGEST_HELD:,} can be "
                "drawn. plot.margins and plot.slices draw sums of them."
            )
        values, inside = in_memory(data, asked).values, fit.model.support.on_grid()
        cells = np.argwhere(inside)
        return Cells(cells, values[inside].astype(np.float64), tensor(fit, extend=False)[inside], "")

    def cells_told(self) -> str:
        return vanishing_told(self._fit)


@dataclass(frozen=True, eq=False)
class TensorPair(Pair):
    """X and Q as arrays in memory; cells of X that were not observed are missing, whatever Q says of them."""

    arrays: Callable[[], tuple[AnyArray, BoolArray | None, AnyArray]] | None = None  # X, where it was observed, and Q
    may_count: bool = True  # False where whole numbers are not counts

    @cached_property
    def _held(self) -> tuple[FloatArray, BoolArray, FloatArray]:
        assert self.arrays is not None
        x, observed, q = self.arrays()
        values = np.asarray(x, dtype=np.float64)
        seen = np.ones(values.shape, dtype=np.bool_) if observed is None else observed
        return np.where(seen, values, 0.0), seen, np.asarray(q, dtype=np.float64)

    @cached_property
    def counts(self) -> bool:
        x = self._held[0]
        return self.may_count and bool((x == np.rint(x)).all())

    def table(self, modes: Modes, asked: str) -> Table:
        """Sum over observed cells; where none is, Q alone over all of its cells."""
        del asked
        x, seen, q = self._held
        others = tuple(k for k in range(x.ndim) if k not in modes)
        order = [sorted(modes).index(k) for k in modes]
        inside = seen.any(axis=others)
        made = np.where(inside, np.where(seen, q, 0.0).sum(axis=others), q.sum(axis=others))
        sums = np.where(inside, x.sum(axis=others), np.nan)
        return Table(np.transpose(sums, order), np.transpose(made, order))

    def listed(self, asked: str) -> Cells:
        del asked
        x, seen, q = self._held
        return Cells(np.argwhere(seen), x[seen], q[seen], self.cells_told())

    def cells_told(self) -> str:
        left = int((~self._held[1]).sum())
        return f"{left:,} cells are missing in X" if left else ""


def vanishing_told(fit: Decomposition) -> str:
    """Say how many cells vanish; nothing where none does."""
    gone = fit.n_vanishing
    return f"{gone:,} cell{' vanishes' if gone == 1 else 's vanish'}: Q is 0 there" if gone else ""


def sums_of(data: Observation, modes: Modes) -> FloatArray:
    """Sum X over all modes but some."""
    shape = tuple(data.shape[k] for k in modes)
    if (entries := data.entries) is not None:  # of any number of modes
        flat = np.ravel_multi_index(tuple(entries.cells[:, k] for k in modes), shape)
        sums = np.bincount(flat, weights=entries.values.astype(np.float64), minlength=math.prod(shape))
        return np.asarray(sums.reshape(shape), dtype=np.float64) + entries.even / math.prod(shape)
    every = [np.arange(n) if k in modes else np.zeros(1, dtype=np.int64) for k, n in enumerate(data.shape)]
    merged = data.merged(Quotient(data.shape, tuple(every))).reshape([data.shape[k] for k in sorted(modes)])
    return np.transpose(merged, [sorted(modes).index(k) for k in modes])


def inside_of(support: Support, modes: Modes) -> BoolArray:
    """Mark the entries of a table over some modes that a cell of the sample space adds to."""
    shape = tuple(support.shape[k] for k in modes)
    if support.full:
        return np.ones(shape, dtype=np.bool_)
    if support.points is not None:
        inside = np.zeros(shape, dtype=np.bool_)
        inside[tuple(support.points[:, k] for k in modes)] = True
        return inside
    assert support.mask is not None
    kept = support.mask.any(axis=tuple(k for k in range(support.mask.ndim) if k not in modes))
    return np.asarray(np.transpose(kept, [sorted(modes).index(k) for k in modes]))
