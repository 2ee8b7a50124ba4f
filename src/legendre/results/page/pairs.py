"""X beside Q: on a box of three modes, for pictures, and cell by cell, for the worst residuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidQuery
from legendre.core.memory import rows_of, size_name
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.results.deviance import deviances
from legendre.results.distribution import FittedTensor
from legendre.results.page.blocks import block_sums

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

LARGEST_TABLE = 1 << 26  # cells of a table of Q over three modes that is formed for pictures (512 MiB)
EVERY_CELL = 1 << 27  # cells of X up to which the worst residual is searched among all of them (seconds)
ROUNDING = 1e-12  # terms of the deviance up to this share of x + q are rounding errors
ZEROS_TOO = 1 << 22  # cells of a sparse X up to which its zeros are searched too


@dataclass(frozen=True, eq=False)
class Worst:
    """The cells in which X and Q differ most, the worst first."""

    cells: IntArray
    x: FloatArray
    q: FloatArray
    note: str = ""


class Pair(Protocol):
    """X and Q, however they are held."""

    def box(self, quotient: Quotient, modes: list[int]) -> tuple[FloatArray, FloatArray]:
        """Sum X and Q over each box of a grid on some modes, in rising order; the others are not cut.

        X is NaN where no cell of a box was observed.
        """

    def worst(self, most: int) -> Worst:
        """Find the cells with the largest terms of the deviance."""


@dataclass(frozen=True, eq=False)
class FitPair:
    """X as it was read, and a decomposition."""

    fit: Decomposition
    data: Observation

    def box(self, quotient: Quotient, modes: list[int]) -> tuple[FloatArray, FloatArray]:
        """Sum X and Q over each box; NaN where a box has no cell in the sample space."""
        shape = tuple(quotient.merged_shape[k] for k in modes)
        x, q = self._x(quotient).reshape(shape), self._q(quotient, modes).reshape(shape)
        support = self.fit.model.support
        if support.full:
            return x, q
        if support.mask is not None:
            outside = quotient.merge(support.mask).reshape(shape) == 0
        else:
            outside = np.bincount(quotient.flat_boxes(support.cells()), minlength=x.size).reshape(shape) == 0
        return np.where(outside, np.nan, x), np.where(outside, np.nan, q)

    def _x(self, quotient: Quotient) -> FloatArray:
        """Sum X over the boxes, in C order; of a list of entries without a grid, which may have too many modes."""
        entries = self.data.entries
        if entries is None or entries.even:
            return np.asarray(self.data.merged(quotient), dtype=np.float64)
        return np.bincount(quotient.flat_boxes(entries.cells), entries.values, quotient.n_merged).astype(np.float64)

    def _q(self, quotient: Quotient, modes: list[int]) -> FloatArray:
        """Sum Q over the boxes: from the merged grid where its cells are alike, else from a table of these modes."""
        fit, model = self.fit, self.fit.model
        if model.space.form == "grid" and model.measure is None and model.n_merged <= limits.LARGEST_GRID:
            q = np.exp(fit.distribution.log_density())  # type: ignore[union-attr]  # it is on a grid
            for k, length in enumerate(quotient.shape):
                q = block_sums(q, k, model.quotient.cuts[k], quotient.cuts[k], length)
            return np.asarray(q * fit.total)
        if (size := math.prod(quotient.shape[k] for k in modes)) > LARGEST_TABLE:
            raise InvalidQuery(f"a table of Q over the modes {modes} has {size_name(size)} cells, which is not formed.")
        table = fit.distribution.marginal(modes, {}) * fit.total
        for axis, k in enumerate(modes):
            table = np.add.reduceat(table, quotient.cuts[k], axis=axis)
        return np.asarray(table)

    def worst(self, most: int) -> Worst:
        """Search every cell of the sample space, or those with X > 0 where there are too many others."""
        size, entries, support = math.prod(self.fit.shape), self.data.entries, self.fit.model.support
        if support.points is not None:
            return self._worst_listed(support.points, self.data.at(support.points), most)
        if entries is not None and size > ZEROS_TOO:
            x = entries.values.astype(np.float64) + entries.even / support.n_cells
            return self._worst_listed(entries.cells, x, most, "Only cells with X > 0 were compared.")
        if size > EVERY_CELL or self.fit.model.n_merged > limits.LARGEST_GRID or (dense := self.data.here()) is None:
            raise InvalidQuery(f"X has {size_name(size)} cells, too many to compare one by one.")
        q, x = FittedTensor(self.fit, support.mask), dense.values
        if support.mask is None:
            return _worst_of(((rows, x[rows].astype(np.float64), q.rows(rows)) for rows in rows_of(x.shape)), most)
        known = support.mask
        return _worst_of(((r, np.where(known[r], x[r], np.nan), q.rows(r)) for r in rows_of(x.shape)), most)

    def _worst_listed(self, cells: IntArray, x: FloatArray, most: int, note: str = "") -> Worst:
        q = np.exp(self.fit.distribution.log_prob(cells)) * self.fit.total
        order = _largest(x, q, most)
        return Worst(cells[order].astype(np.int64), x[order], q[order], note)


@dataclass(frozen=True, eq=False)
class ArrayPair:
    """X and Q as two arrays; X is NaN where it was not observed."""

    x: FloatArray
    q: FloatArray

    def box(self, quotient: Quotient, modes: list[int]) -> tuple[FloatArray, FloatArray]:
        """Sum both over the observed cells of each box; where there is none X is NaN, and Q is summed over all."""
        seen, shape = ~np.isnan(self.x), tuple(quotient.merged_shape[k] for k in modes)
        parts = (np.where(seen, self.x, 0.0), np.where(seen, self.q, 0.0), seen.astype(np.float64), self.q)
        x, q, n_seen, whole = (quotient.merge(part).reshape(shape) for part in parts)
        return np.where(n_seen == 0, np.nan, x), np.where(n_seen == 0, whole, q)

    def worst(self, most: int) -> Worst:
        """Search the observed cells."""
        return _worst_of(((rows, self.x[rows], self.q[rows]) for rows in rows_of(self.x.shape)), most)


def _worst_of(blocks: Iterator[tuple[slice, FloatArray, FloatArray]], most: int) -> Worst:
    """Keep the worst cells of one block of rows after the other."""
    found: list[tuple[IntArray, FloatArray, FloatArray]] = []
    for rows, x, q in blocks:
        order = _largest(x.ravel(), q.ravel(), most)
        cells = np.stack(np.unravel_index(order, x.shape), axis=1).astype(np.int64)
        cells[:, 0] += rows.start
        found.append((cells, x.ravel()[order], q.ravel()[order]))
    cells, x, q = (np.concatenate(parts) for parts in _columns(found))
    order = _largest(x, q, most)
    return Worst(cells[order], x[order], q[order])


def _columns(found: Sequence[tuple[IntArray, FloatArray, FloatArray]]) -> Iterator[list[AnyArray]]:
    return (list(column) for column in zip(*found, strict=True))


def _largest(x: FloatArray, q: FloatArray, most: int) -> IntArray:
    """List the places of the largest terms of the deviance that are more than rounding, the largest first."""
    terms = np.nan_to_num(deviances(x, q), nan=0.0, posinf=np.finfo(np.float64).max)
    places = np.argpartition(-terms, most)[:most] if len(terms) > most else np.arange(len(terms))
    places = places[terms[places] > ROUNDING * (x[places] + q[places])]
    return np.asarray(places[np.argsort(-terms[places], kind="stable")], dtype=np.int64)
