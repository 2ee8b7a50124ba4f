"""Questions to a Q on a grid (full, masked, with a base measure) or on a list of cells.

On a full grid without a base measure all cells of a merged box have the same probability, so that the merged grid
answers; elsewhere Q is formed, some rows at a time where that is enough, or on the cells of the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room, rows_of, size_name
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.engines.choose import engine_for
from legendre.model.model import Model
from legendre.results.query_arguments import called, impossible, returned, summed, values_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

LEVEL = 1e-6
"""A direction of recession that comes from a linear program changes a cell by about 1, or by rounding error."""
TIE = 1e-12  # log probabilities closer than this count as equal: the rounding error of the running sums


NAMED = 8  # modes that an error lists; of more it says how many
FEWER = "Ask for fewer modes, or for log_prob or samples."
OF_MODES = "Name the modes that f depends on: expectation(f, modes=...)."


@dataclass(frozen=True, eq=False)
class OnGrid:
    """A member of a model on a grid."""

    model: Model  # on its whole sample space
    theta: FloatArray
    psi: float
    alive: BoolArray | None = None  # True for the merged cells that carry probability; None when all of Omega does

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Add up theta below each cell (n x N); ``-inf`` outside the support and where Q vanishes."""
        model = self.model
        boxes = model.quotient.boxes(cells)
        log_q = model.space.below_at(self.theta, boxes) - self.psi
        if model.base is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # outside Omega the base may be anything
                log_q = log_q + np.log(model.base[tuple(cells.T)])
        inside = model.support.contains(cells)
        if self.alive is not None:
            inside = inside & model.carries(boxes, self.alive)
        return np.where(inside, log_q, -np.inf)

    def log_density(self) -> FloatArray:
        """``log(q_v / r_v)`` on every merged cell; ``-inf`` where no cell carries probability."""
        log_q = self.model.space.below(self.theta)
        log_q -= self.psi
        if self.alive is not None or self.model.measure is not None:
            log_q[~(self.model.alive if self.alive is None else self.alive)] = -np.inf
        return log_q

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        check_table(self.model.support.shape, kept)
        in_order = sorted(kept)
        others = tuple(k for k in range(len(self.model.support.shape)) if k not in kept)
        if at:
            rest = sorted({*kept, *others} - {*at})
            grid = self._condition(at).sum(axis=tuple(i for i, k in enumerate(rest) if k not in kept))
        elif self.model.measure is None:
            grid = np.exp(self.log_density())
            for k in reversed(others):
                grid = np.tensordot(grid, self.model.quotient.lengths[k], axes=(k, 0))
            grid = self._spread(np.asarray(grid), in_order)
        else:
            grid = np.zeros([self.model.support.shape[k] for k in in_order])
            for rows, q in self._blocks():
                grid[rows if 0 in kept else ...] += q.sum(axis=others)
        return np.array(np.transpose(grid, [in_order.index(k) for k in kept]), order="C")

    def _condition(self, at: Mapping[int, int]) -> FloatArray:
        """Give Q on the modes left when the others are fixed; by logarithms, so that rare events do not underflow."""
        model = self.model
        every = range(len(model.support.shape))
        boxes = tuple(int(model.quotient.boxes_along(k, np.array(at[k]))) if k in at else slice(None) for k in every)
        cells = tuple(at.get(k, slice(None)) for k in every)
        log_q = self._spread(np.asarray(self.log_density()[boxes]), [k for k in every if k not in at])
        if model.base is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # outside Omega the base may be anything
                log_q = log_q + np.log(model.base[cells])
        if model.support.mask is not None:
            log_q = np.where(model.support.mask[cells], log_q, -np.inf)
        peak = float(log_q.max())
        if peak == -np.inf:
            raise impossible(at)
        q = np.exp(log_q - peak)
        return np.asarray(q / q.sum())

    def expectation(self, f: ArrayLike | Callable[..., ArrayLike]) -> float:
        """Sum ``q f`` over the cells with probability."""
        shape = self.model.support.shape
        check_formed(shape, "expectation", OF_MODES)
        read = partial(called, f, shape) if callable(f) else values_of(f, shape).__getitem__
        return sum(summed(q, read(rows), rows.start) for rows, q in self._blocks())

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells: a merged box first and then a cell of it, or a cell at once where cells of a box differ."""
        shape, quotient = self.model.support.shape, self.model.quotient
        if self.model.measure is not None:
            q = np.concatenate([q.ravel() for _, q in self._blocks()])
            return np.stack(np.unravel_index(draw(q, n, generator), shape), axis=1).astype(np.int64)
        q = np.exp(self.log_density())
        q *= self.model.weights
        boxes = np.stack(np.unravel_index(draw(q.ravel(), n, generator), q.shape), axis=1)
        cells = np.empty((n, len(shape)), dtype=np.int64)
        for k, (cut, length) in enumerate(zip(quotient.cuts, shape, strict=True)):
            ends = np.append(cut[1:], length)
            cells[:, k] = generator.integers(cut[boxes[:, k]], ends[boxes[:, k]])
        return cells

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order of equal ones."""
        if self.model.measure is None:
            log_q = self.log_density()
            box = np.unravel_index(first_of(log_q, float(log_q.max())), log_q.shape)
            # corners of boxes come in the order of the boxes
            return tuple(int(cut[i]) for cut, i in zip(self.model.quotient.cuts, box, strict=True))
        least = max(float(q.max()) for _, q in self._blocks()) * math.exp(-TIE)
        rows, q = next(block for block in self._blocks() if block[1].max() >= least)
        place = np.unravel_index(int(np.argmax(q >= least)), q.shape)
        return rows.start + int(place[0]), *(int(i) for i in place[1:])

    def sum_of_squares(self) -> float:
        """Sum ``q^2`` over all cells of a full grid: ``exp(psi(2 theta) - 2 psi(theta))`` where no grid is formed."""
        if self.alive is None and self.model.n_merged > limits.LARGEST_GRID:
            return math.exp(engine_for(self.model).at(2.0 * self.theta).psi - 2.0 * self.psi)
        return float(np.sum(self.model.weights * np.exp(2.0 * self.log_density())))

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Q, some rows of the first mode at a time."""
        boxes = box_values(self.model, self.log_density())
        for rows in rows_of(self.model.support.shape):
            yield rows, grid_rows(self.model, boxes, rows, self.model.support.mask)

    def _spread(self, grid: AnyArray, modes: Sequence[int]) -> AnyArray:
        """Copy each box's value to its cells, on a grid of some modes only."""
        shape, quotient = self.model.support.shape, self.model.quotient
        size = math.prod(shape[k] for k in modes)
        check_room(size, 8, f"a table over the modes {list(modes)}", "Ask for fewer modes.")
        for axis, k in enumerate(modes):
            if len(quotient.cuts[k]) < shape[k]:
                grid = grid.take(quotient.box_of(k), axis=axis)
        return grid


@dataclass(frozen=True, eq=False)
class OnList(OnGrid):
    """A member of a model whose sample space is a list of cells."""

    @property
    def _points(self) -> IntArray:
        points = self.model.support.points
        assert points is not None
        return points

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        check_table(self.model.support.shape, kept)
        fixed = list(at)
        points = self._points[(self._points[:, fixed] == [at[k] for k in fixed]).all(axis=1)] if at else self._points
        log_q = self.log_prob(points)
        if at:
            peak = float(log_q.max(initial=-np.inf))
            if peak == -np.inf:
                raise impossible(at)
            log_q -= peak
        q = np.exp(log_q)
        q = q / q.sum() if at else q
        shape = tuple(self.model.support.shape[k] for k in kept)
        if not kept:
            return np.asarray(q.sum())
        flat = np.ravel_multi_index(tuple(points[:, k].astype(np.int64) for k in kept), shape)
        return np.bincount(flat, q, math.prod(shape)).astype(np.float64, copy=False).reshape(shape)

    def expectation(self, f: ArrayLike | Callable[..., ArrayLike]) -> float:
        """Sum ``q f`` over the list; f is called with one array of coordinates per mode, an entry for each cell."""
        columns = tuple(self._points.T.astype(np.int64))
        shape, q = self.model.support.shape, np.exp(self.log_prob(self._points))
        values = returned(f(*columns), q.shape) if callable(f) else values_of(f, shape)[columns]
        return summed(q, values, cells=self._points)

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells of the list."""
        return self._points[draw(np.exp(self.log_prob(self._points)), n, generator)].astype(np.int64)

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order where several are."""
        log_q = self.log_prob(self._points)
        return tuple(int(i) for i in self._points[first_of(log_q, float(log_q.max()))])

    def sum_of_squares(self) -> float:
        """Sum ``q^2`` over the list."""
        return float(np.sum(np.exp(2.0 * self.log_prob(self._points))))


def merged_log_density(fit: Decomposition) -> FloatArray:
    """``log(q_v / r_v)`` on merged cells, in Omega or not; -inf, or NaN if there is no limit, where theta diverges."""
    space = fit.model.on_full_grid().space
    log_density = space.below(fit.point.theta)
    log_density -= fit.point.psi
    if fit.alive is None:
        return log_density
    fall, alive = space.below(fit.recession), space.on_grid(fit.alive)
    fall -= fall[alive].max()
    fall[alive] = 0.0
    return np.where(fall < -LEVEL, -np.inf, np.where(fall > LEVEL, np.nan, log_density))


def box_values(model: Model, log_density: FloatArray, unit: float = 1.0) -> FloatArray:
    """Prepare what `grid_rows` copies to the cells of each box: Q, times a unit, where they are alike.

    With a base measure r they are not, and it is ``log(q / r)``: the ratio itself may leave the range of float64, or
    lose its digits at the lower end of it, where ``q`` does not. The unit has then to wait.
    """
    if model.base is not None:
        return log_density
    with np.errstate(over="ignore"):  # outside the support the model's value may be beyond float64
        return in_units(log_density, unit)


def in_units(log_q: FloatArray, unit: float) -> FloatArray:
    """Compute ``unit * exp(log_q)``, also where exp(log_q) alone is below the range of float64; beyond it inf."""
    with np.errstate(over="ignore"):
        if unit == 1.0:
            return np.exp(log_q)
        root = 0.5 * log_q
        np.exp(root, out=root)
        out = root * unit
        out *= root
        return out


def grid_rows(model: Model, boxes: FloatArray, rows: slice, visible: BoolArray | None, unit: float = 1.0) -> FloatArray:
    """Q on some rows of the grid, from the `box_values` of the merged cells; a base measure is applied, and a unit."""
    q: FloatArray = model.quotient.spread(boxes, rows)
    if model.base is not None:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # outside Omega the base may be anything
            q = in_units(q + np.log(model.base[rows]), unit)
    if visible is not None:
        q[~visible[rows]] = 0.0
    return q


def check_formed(shape: tuple[int, ...], name: str, way_out: str, merged: int = 0) -> None:
    """Refuse to form what does not fit in memory, or has more modes than an array can.

    Parameters
    ----------
    shape, name, way_out
        The array's shape; the question that asks for it; a sentence that names a smaller one.
    merged
        The number of merged cells, where their grid is formed first: three arrays of that size.
    """
    n_cells = math.prod(shape)
    if len(shape) > limits.MOST_AXES:
        where = f"{size_name(n_cells)} cells in {len(shape)} modes"
        raise InvalidQuery(f"{name}: Q has {where}, and is never formed. {way_out}")
    check_room(n_cells, 8 + 24 * merged // n_cells, f"{name}: an array", way_out)


def check_table(shape: tuple[int, ...], modes: Sequence[int]) -> None:
    """Refuse a table over some modes that does not fit, or has more of them than an array can: the rule of `tensor`."""
    n_cells, few = math.prod(shape[k] for k in modes), len(modes) <= NAMED
    which = f"the joint distribution of {f'modes {list(modes)}' if few else f'{len(modes)} modes'}"
    if len(modes) > limits.MOST_AXES:
        raise InvalidQuery(f"{which} has {size_name(n_cells)} cells, and is never formed. {FEWER}")
    check_room(n_cells, 2 * 8, f"{which}: a table", FEWER)  # the answer, and what it is copied from


def first_of(log_q: FloatArray, peak: float) -> int:
    """Return the position of the first entry that equals the peak up to rounding."""
    return int(np.argmax(log_q >= peak - TIE))


def draw(q: FloatArray, n: int, generator: np.random.Generator) -> IntArray:
    """Invert the distribution function; ``random() < 1``, so that no entry of probability 0 is ever drawn."""
    cumulated = np.cumsum(q)
    found: IntArray = np.searchsorted(cumulated, generator.random(n) * cumulated[-1], side="right").astype(np.int64)
    return found
