"""Q as a distribution and as a tensor: log probabilities, marginals, conditionals, expectations, samples.

`GridDistribution` serves sample spaces that are a grid (full, masked, with a base measure). On a full grid without a
base measure all cells of a merged box have the same probability, so that the merged grid answers; elsewhere Q is
formed, some rows at a time where that is enough. `ListDistribution` serves lists of cells, and `CliqueDistribution`
grids that cannot be formed: it passes messages between the tables of the cliques.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.arguments import check_flag, entries, generator_from, is_whole
from legendre.core.cells import cell_name, entries_at, find, unique_cells
from legendre.core.errors import ImpossibleEvent, InvalidBasis, InvalidQuery
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room, size_name
from legendre.core.origin import rectangular
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dask import FittedModel
from legendre.data.observation import Observation, Support
from legendre.data.readers.encode import read_table
from legendre.engines.choose import engine_for
from legendre.model.cliques.graph import CliqueTree, cliques_of
from legendre.model.cliques.tables import (
    Beliefs,
    Part,
    Tables,
    given,
    largest_sum,
    on_grid,
    parts_of,
    propagate,
    with_parts,
)
from legendre.model.model import Cliques, Model

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

TIE = 1e-12  # log probabilities closer than this count as equal: the rounding error of the running sums
OF_MODES = "Name the modes that f depends on: expectation(f, modes=...)."
Function = ArrayLike | Callable[..., ArrayLike]


@dataclass(frozen=True, eq=False)
class GridDistribution:
    """A member of a model on a grid."""

    model: Model  # on its whole sample space
    theta: FloatArray
    psi: float
    alive: BoolArray | None = None  # True for the merged cells that carry probability; None when all of Omega does

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Add up theta below each cell (n x N); ``-inf`` outside the support and where Q vanishes."""
        model = self.model
        boxes = model.quotient.boxes(cells)
        log_q = model.below_at(self.theta, boxes) - self.psi
        if model.base is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # outside Omega the base may be anything
                log_q = log_q + np.log(entries_at(model.base, cells))
        inside = model.support.contains(cells)
        if self.alive is not None:
            inside = inside & model.carries(boxes, self.alive)
        return np.where(inside, log_q, -np.inf)

    def log_density(self) -> FloatArray:
        """``log(q_v / r_v)`` on every merged cell; ``-inf`` where no cell carries probability."""
        log_q = self.model.below(self.theta) - self.psi
        if self.alive is not None or self.model.measure is not None:
            log_q[~(self.model.alive if self.alive is None else self.alive)] = -np.inf
        return log_q

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        shape = self.model.support.shape
        left = [k for k in range(len(shape)) if k not in at]
        in_order, others = sorted(kept), tuple(axis for axis, k in enumerate(left) if k not in kept)
        if at or self.model.measure is not None:
            grid = _normalise(self._log_q(at)).sum(axis=others)
        else:
            grid = np.exp(self.log_density())
            for k in reversed(others):
                grid = np.tensordot(grid, self.model.quotient.lengths[k], axes=(k, 0))
            grid = self._spread(np.asarray(grid), in_order)
        return np.asarray(np.transpose(grid, [in_order.index(k) for k in kept]), order="C")

    def _log_q(self, at: Mapping[int, int]) -> FloatArray:
        """Form log q on the modes left when the others are fixed; logarithms, so that rare events do not underflow."""
        model = self.model
        every = range(len(model.support.shape))
        boxes = tuple(int(model.quotient.boxes_along(k, np.array(at[k]))) if k in at else slice(None) for k in every)
        cells = tuple(at.get(k, slice(None)) for k in every)
        log_q = self._spread(np.asarray(self.log_density()[boxes]), [k for k in every if k not in at])
        if model.base is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # outside Omega the base may be anything
                log_q = log_q + np.log(np.asarray(model.base[cells]))
        return log_q if model.support.mask is None else np.where(np.asarray(model.support.mask[cells]), log_q, -np.inf)

    def expectation(self, f: Function) -> float:
        """Sum ``q f`` over the cells with probability."""
        shape = self.model.support.shape
        check_formed(shape, "expectation", OF_MODES, copies=3)
        return weighted_sum(np.exp(self._log_q({})), values_on(f, shape))

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells: a merged box first and then a cell of it, or a cell at once where cells of a box differ."""
        if self.model.measure is not None:
            return np.ascontiguousarray(_draw_cells(np.exp(self._log_q({})), n, generator).T)
        boxes = _draw_cells(np.exp(self.log_density()) * self.model.weights, n, generator)
        return _within_boxes(self.model, boxes, generator)

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order of equal ones."""
        full, cuts = self.model.measure is None, self.model.quotient.cuts
        log_q = self.log_density() if full else self._log_q({})
        place = np.unravel_index(int(np.argmax(log_q >= log_q.max() - TIE)), log_q.shape)
        # corners of boxes come in the order of the boxes
        return tuple(int(cut[i]) if full else int(i) for cut, i in zip(cuts, place, strict=True))

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
class ListDistribution(GridDistribution):
    """A member of a model whose sample space is a list of cells."""

    @cached_property
    def _listed(self) -> tuple[IntArray, FloatArray]:
        """The cells of the list, and their log probabilities."""
        points = self.model.support.cells()
        return points, self.log_prob(points)

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        shape = tuple(self.model.support.shape[k] for k in kept)
        points, log_q = self._listed
        inside = (points[:, list(at)] == list(at.values())).all(axis=1)
        points, q = points[inside], _normalise(log_q[inside])
        if not kept:
            return np.asarray(q.sum())
        flat = np.ravel_multi_index(tuple(points[:, kept].T), shape)
        return np.bincount(flat, q, math.prod(shape)).astype(np.float64, copy=False).reshape(shape)

    def expectation(self, f: Function) -> float:
        """Sum ``q f`` over the list; f is called with one array of coordinates per mode, an entry for each cell."""
        points, log_q = self._listed
        columns, shape = tuple(points.T), self.model.support.shape
        values = read_values(f(*columns), log_q.shape, called=True) if callable(f) else read_values(f, shape)[columns]
        return weighted_sum(np.exp(log_q), values, points)

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells of the list."""
        points, log_q = self._listed
        return np.asarray(points[_draw_cells(np.exp(log_q), n, generator)[0]])

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order where several are."""
        points, log_q = self._listed
        return tuple(points[int(np.argmax(log_q >= log_q.max() - TIE))].tolist())


@dataclass(frozen=True, eq=False)
class CliqueDistribution:
    """A member of a model on a full grid of any order; the messages are passed once and kept.

    >>> q = CliqueDistribution(Model.of(Support((2, 3)), None, np.array([[1, 0]])), np.log([3.0]))
    >>> q.marginal([0], {}).round(12).tolist(), q.marginal([1], {0: 1}).round(12).tolist()
    ([0.25, 0.75], [0.333333333333, 0.333333333333, 0.333333333333])
    """

    model: Model  # on a full grid without a base measure, and the tables of its cliques fit
    theta: FloatArray
    parts: tuple[Part, ...] = ()  # the tables in which cells have no probability

    @cached_property
    def tables(self) -> Tables:
        """The tables of the model's cliques."""
        space = self.model
        return with_parts(space.tables, self.parts) if isinstance(space, Cliques) else self._tables(self._tree(()))

    @cached_property
    def beliefs(self) -> tuple[float, Beliefs]:
        """Psi, and Q on the cliques."""
        return propagate(self.tables, self.theta)

    def _tree(self, modes: Sequence[int]) -> CliqueTree:
        """Arrange cliques of which one holds the given modes; nothing of the size of their tables is formed."""
        return cliques_of(self.model.positions, self.model.quotient.merged_shape, modes)

    def _tables(self, tree: CliqueTree) -> Tables:
        return with_parts(Tables(self.model.quotient, self.model.positions, tree), self.parts)

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Add up theta below each cell (n x N), clique by clique; ``-inf`` where Q vanishes."""
        sums = self.tables.sums_below(self.theta)
        if self.tables.alive is not None:
            sums[~self.tables.alive] = -np.inf
        return self.tables.at(sums, cells) - self.beliefs[0]

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        if at:
            left = [k for k in range(len(self.model.support.shape)) if k not in at]
            if not left:  # all modes are fixed
                return _normalise(self.log_prob(np.array([[at[k] for k in range(len(at))]]))).reshape(())
            return self.given(at).marginal([left.index(k) for k in kept], {})
        groups = dict[int, list[int]]()  # by trees, which are independent; a mode without parameters is one of its own
        for k in kept:
            root = self.tables.tree.root_of(k)
            groups.setdefault(root if root >= 0 else -1 - k, []).append(k)
        out = np.ones((1,) * len(kept))
        for group in reversed(groups.values()):  # the last modes first, so that whole rows are multiplied
            table = self._joint(group)
            if table is None:
                return self._grid.marginal(kept, at)
            out = np.expand_dims(table, [axis for axis, k in enumerate(kept) if k not in group]) * out
        return np.ascontiguousarray(out).reshape(out.shape)  # which makes one axis where there is none

    @property
    def _grid(self) -> GridDistribution:
        alive = on_grid(self.parts, self.model.quotient.merged_shape) if self.parts else None
        return GridDistribution(self.model, self.theta, self.beliefs[0], alive)

    def _joint(self, modes: list[int]) -> FloatArray | None:
        """Sum out all but some modes, on a tree in which these are in one clique; ``None`` if a grid is better."""
        quotient = self.model.quotient
        coupled = [k for k in modes if quotient.merged_shape[k] > 1]
        merged, tables, beliefs = np.ones((1,) * len(modes)), self.tables, self.beliefs[1]
        if coupled:
            home = tables.tree.home_of(coupled)
            if not set(coupled) <= set(tables.tree.cliques[home].modes):
                tree = self._tree(coupled)
                if not tree.fits and self.model.formable:
                    return None
                if not tree.fits:
                    raise InvalidQuery(
                        f"the joint distribution of modes {coupled} needs tables of {size_name(tree.n_cells)} cells, "
                        "since the basis couples them through many others. Ask for fewer modes, or count them in "
                        "samples."
                    )
                tables = self._tables(tree)
                beliefs, home = propagate(tables, self.theta)[1], tree.home_of(coupled)
            clique = tables.tree.cliques[home]
            others = tuple(axis for axis, k in enumerate(clique.modes) if k not in coupled)
            sums = beliefs.margins[tables.matrices[home][0]].reshape(clique.shape).sum(axis=others)
            kept = [k for k in clique.modes if k in coupled]
            merged = sums.transpose([kept.index(k) for k in coupled])
            merged = merged.reshape([quotient.merged_shape[k] for k in modes])
        for axis, k in enumerate(modes):  # shared out among the cells of each box
            if len(quotient.cuts[k]) < quotient.shape[k]:
                density = merged / quotient.lengths[k].reshape(-1, *[1] * (len(modes) - axis - 1))
                merged = density.take(quotient.box_of(k), axis=axis)
        return merged

    def expectation(self, f: Function) -> float:
        """Sum ``q f`` over all cells, where a grid of them can be formed."""
        check_formed(self.model.support.shape, "expectation", OF_MODES)
        return self._grid.expectation(f)

    def given(self, event: Mapping[int, int]) -> CliqueDistribution:
        """Fix some modes: Q on the others is a member of a model, in which theta of equal cells is added up."""
        basis, fixed = self.model.basis, list(event)
        rest = [k for k in range(len(self.model.support.shape)) if k not in event]
        reached = (basis[:, fixed] <= [event[k] for k in fixed]).all(axis=1) & basis[:, rest].any(axis=1)
        left = basis[reached][:, rest]
        kept = unique_cells(left)
        theta = np.bincount(find(left, kept), weights=self.theta[reached], minlength=len(kept)).astype(np.float64)
        boxes = {k: int(self.model.quotient.boxes_along(k, np.array(level))) for k, level in event.items()}
        left_over = given(self.parts, boxes, {k: i for i, k in enumerate(rest)})
        parts = tuple((modes, alive) for modes, alive in left_over if modes)
        space = Support(tuple(self.model.support.shape[k] for k in rest))
        q = CliqueDistribution(Model.of(space, None, kept), theta, parts)
        possible = all(modes or alive for modes, alive in left_over)
        if not possible or (parts and q.beliefs[0] == -np.inf):
            raise ImpossibleEvent("the event has probability 0")
        return q

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells: each clique's own modes given those it shares; levels of a box evenly."""
        given = self.beliefs[1].given
        return _within_boxes(self.model, self._walk(given, n, lambda q, rows: _draw(q, rows, generator)), generator)

    def most_probable(self) -> tuple[int, ...]:
        """Find a most probable cell: from the roots on, the first level at which each clique attains the maximum."""
        sums = largest_sum(self.tables, self.tables.sums_below(self.theta))[1]

        def first_largest(table: FloatArray, rows: IntArray) -> IntArray:
            peaks = table[rows].max(axis=1, keepdims=True)
            return np.asarray(np.argmax(table[rows] >= peaks - TIE, axis=1))

        boxes = self._walk(sums, 1, first_largest)[:, 0].tolist()
        return tuple(int(cut[i]) for cut, i in zip(self.model.quotient.cuts, boxes, strict=True))

    def _walk(self, values: FloatArray, n: int, choose: Callable[[FloatArray, IntArray], IntArray]) -> IntArray:
        """Choose n merged boxes (N x n), from the roots on: in each clique its own modes, given those it shares.

        `choose` takes the table of the clique, a row for each state of what is shared, and the rows of interest.
        """
        boxes = np.zeros((len(self.model.support.shape), n), dtype=np.int64)
        for c, (where, shape) in enumerate(self.tables.matrices):
            clique = self.tables.tree.cliques[c]
            rows = self.tables.flat(c, boxes) // shape[1]  # own modes are still 0
            chosen = choose(values[where].reshape(shape), rows)
            for axis in reversed(range(clique.shared, len(clique.modes))):
                chosen, boxes[clique.modes[axis]] = np.divmod(chosen, clique.shape[axis])
        return boxes


Distribution = GridDistribution | CliqueDistribution


def distribution_of(fit: Decomposition) -> Distribution:
    """Return Q in the form in which it answers questions."""
    space = fit.model.on_face(fit._alive)
    if isinstance(space, Cliques):
        return CliqueDistribution(fit.model.untied, space.on_cells(fit.theta), parts_of(space.tables))
    form = GridDistribution if fit.model.support.points is None else ListDistribution
    return form(fit.model, fit.theta, fit.psi, fit._alive)


def _normalise(log_q: FloatArray) -> FloatArray:
    """Divide probabilities, given by their logarithms, by their sum; an event without any is impossible."""
    peak = float(log_q.max(initial=-np.inf))
    if peak == -np.inf:
        raise ImpossibleEvent("the event has probability 0")
    q = np.exp(log_q - peak)
    return np.asarray(q / q.sum())


def _draw(q: FloatArray, rows: IntArray, generator: np.random.Generator) -> IntArray:
    """Invert the distribution function of the row of q that each of `rows` names, by bisection in all rows at once.

    ``random() < 1``, so that no entry of probability 0 is ever drawn.
    """
    cumulated = np.cumsum(q, axis=1)
    target = generator.random(len(rows)) * cumulated[rows, -1]
    low, high = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), q.shape[1] - 1)
    while (low < high).any():
        middle = (low + high) // 2
        above = cumulated[rows, middle] > target
        high = np.where(above, middle, high)
        low = np.where(above, low, middle + 1)
    return low


def _draw_cells(q: FloatArray, n: int, generator: np.random.Generator) -> IntArray:
    """Draw n cells of a table of probabilities (N x n)."""
    drawn = _draw(q.reshape(1, -1), np.zeros(n, dtype=np.int64), generator)
    return np.stack(np.unravel_index(drawn, q.shape)).astype(np.int64)


def _within_boxes(model: Model, boxes: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw a cell of each merged box (N x n), all of its cells alike; return them as n x N."""
    for k, (cut, length) in enumerate(zip(model.quotient.cuts, model.support.shape, strict=True)):
        if len(cut) < length:
            ends = np.append(cut[1:], length)
            boxes[k] = generator.integers(cut[boxes[k]], ends[boxes[k]])
    return np.ascontiguousarray(boxes.T)


def check_formed(shape: tuple[int, ...], name: str, way_out: str, merged: int = 0, copies: int = 1) -> None:
    """Refuse to form what does not fit in memory, or has more modes than an array can.

    Parameters
    ----------
    shape, name, way_out
        The array's shape; the question that asks for it; a sentence that names a smaller one.
    merged
        The number of merged cells, where their grid is formed first: three arrays of that size.
    copies
        How many arrays of that shape there are at a time.
    """
    n_cells = math.prod(shape)
    if len(shape) > limits.MOST_AXES:
        where = f"{size_name(n_cells)} cells in {len(shape)} modes"
        raise InvalidQuery(f"{name}: a table of {where} is never formed. {way_out}")
    check_room(n_cells, 8 * copies + 24 * merged // n_cells, f"{name}: an array", way_out)


# ---- what a caller asks


def find_modes(labels: Labels, modes: Any, caller: str) -> list[int]:
    """Read one mode or several different ones, by name or number; `caller` is named in errors."""
    listed = [modes] if isinstance(modes, (int, np.integer, str)) else entries(modes)
    if listed is None:
        raise InvalidQuery(f"{caller}: {modes!r} is no set of modes; pass a mode such as 0, or modes such as [0, 2].")
    found = [labels.find_mode(k, caller) for k in listed]
    if len(set(found)) < len(found):
        raise InvalidQuery(f"{caller}: {modes!r} names a mode twice.")
    return found


def read_cells(labels: Labels, cells: Any, caller: str, indices: bool = False) -> IntArray:
    """Read a caller's cells (k x N, or one cell), by labels where there are some; columns of a frame by their names."""
    framed = isinstance(cells, Mapping) or hasattr(cells, "columns") or hasattr(cells, "column_names")
    if framed:
        table = read_table(cells, "cells").by_name([labels.mode(k) for k in range(len(labels.shape))], "cells")
        array = np.stack([table.column(name).rows() for name in table.names], axis=1)
    else:
        array = rectangular(cells, "cells", InvalidBasis)
    if check_flag(indices, "indices") or labels.levels is None or array.shape[-1:] != (len(labels.shape),):
        return labels.places(check_cells(array, labels.shape))
    if not framed:
        table = read_table([cells] if array.ndim == 1 else cells, "cells")
    found = np.empty((table.n, len(labels.shape)), dtype=np.int64)
    for k, name in enumerate(table.names):
        values, codes = table.column(name).distinct()
        if codes.min(initial=0) < 0:
            raise InvalidQuery(f"{caller}: row {int(codes.argmin())} has no value of {labels.mode(k)}.")
        found[:, k] = np.array([labels.find_level(k, value, caller) for value in values], dtype=np.int64)[codes]
    return found


def check_cells(cells: AnyArray, shape: tuple[int, ...]) -> IntArray:
    """Read a caller's cells (k x N, or one cell) that are given by indices."""
    index = np.atleast_2d(np.asarray(cells))
    if index.dtype.kind not in "iu" or index.ndim != 2 or index.shape[1] != len(shape):
        hint = " They are indices, counted from 0." if index.dtype.kind in "OUSM" else ""
        got = f"got shape {index.shape}, dtype {index.dtype}"
        raise InvalidBasis(f"cells must be integers, k x {len(shape)}; {got}.{hint}")
    outside = np.flatnonzero(((index < 0) | (index >= shape)).any(axis=1))
    if len(outside):
        raise InvalidBasis(f"cell {cell_name(index[outside[0]])} is outside the grid {shape}. Indices start at 0.")
    return index.astype(np.int64)


def check_table(shape: tuple[int, ...], kept: Sequence[int]) -> None:
    """Refuse a table over some modes that cannot be formed."""
    name = f"the joint distribution of {f'modes {list(kept)}' if len(kept) <= 8 else f'{len(kept)} modes'}"
    fewer = "Ask for fewer modes, or for log_prob or samples."
    check_formed(tuple(shape[k] for k in kept), name, fewer, copies=2)  # the answer, and what it is copied from


def read_event(labels: Labels, given: Mapping[Any, Any], caller: str = "condition") -> dict[int, int]:
    """Read an event: the index of each mode that is fixed."""
    if not isinstance(given, Mapping):
        raise InvalidQuery(f"{caller}({given!r}): pass a dict such as {{0: 2}}, mode 0 fixed at index 2.")
    at: dict[int, int] = {}
    for key, level in given.items():
        k = labels.find_mode(key, caller)
        if k in at:
            raise InvalidQuery(f"{caller}: {labels.mode(k)} is given twice.")
        at[k] = labels.find_level(k, level, caller)
    return at


def marginal(
    q: Distribution, labels: Labels, modes: list[int] | None, given: Mapping[Any, Any]
) -> tuple[list[int], FloatArray]:
    """Sum Q, given the levels of some modes, over all others but `modes`, by default over none; return these too."""
    at = read_event(labels, given)
    kept = [k for k in range(len(labels.shape)) if k not in at] if modes is None else modes
    for k in kept:
        if k in at:
            name = f"mode {k}" if labels.names is None else f"mode {labels.names[k]!r}"
            raise InvalidQuery(f"marginal: {name} is asked for and given.")
    check_table(labels.shape, kept)
    try:
        return kept, q.marginal(kept, at)
    except ImpossibleEvent:
        named = {labels.mode(k): labels.level(k, i) for k, i in at.items()} if labels.given else at
        event = ", ".join(f"{k}: {i}" for k, i in named.items())
        raise ImpossibleEvent(
            f"condition({{{event}}}): the event has probability 0, so nothing can be said given it. Its cells are "
            "outside the support or vanish."
        ) from None


def expectation(q: Distribution, labels: Labels, f: Function, modes: Mode | Sequence[Mode] | None = None) -> float:
    """Sum ``q f`` over the cells with probability."""
    kept = list(range(len(labels.shape))) if modes is None else find_modes(labels, modes, "expectation")
    if not kept:
        raise InvalidQuery("expectation: modes is empty; name the modes that f depends on.")
    part = labels if modes is None else labels.part(kept)
    arranged: Function = f
    if callable(f):
        arranged = lambda *indices: f(*(part.levels_of(k)[i] for k, i in enumerate(indices)))  # noqa: E731 - of labels
    elif labels.order is not None:
        arranged = part.arrange(read_values(f, part.shape))
    if modes is None:
        return q.expectation(arranged)
    table = marginal(q, labels, kept, {})[1]
    return weighted_sum(table, values_on(arranged, table.shape))


def sample(
    q: Distribution, n: int, rng: int | np.random.Generator | None, at: Mapping[int, int] | None = None
) -> IntArray:
    """Draw cells from Q, or from Q given the indices of some modes."""
    if not is_whole(n, 0):
        raise InvalidQuery(f"sample({n!r}): the number of cells must be an integer >= 0.")
    order = len(q.model.support.shape)
    # the cells and their boxes, one number that is drawn, its place
    check_room(int(n), 8 * (2 * order + 2), "sample: a list", "Draw fewer at a time, and pass the same generator on.")
    return draw_given(q, int(n), generator_from(rng, InvalidQuery), at or {})


def draw_given(q: Distribution, n: int, generator: np.random.Generator, at: Mapping[int, int]) -> IntArray:
    """Draw cells whose indices in some modes are given."""
    if not at:
        return q.sample(n, generator)
    rest = [k for k in range(len(q.model.support.shape)) if k not in at]
    out = np.empty((n, len(rest) + len(at)), dtype=np.int64)
    out[:, list(at)] = list(at.values())
    if rest and isinstance(q, CliqueDistribution):
        out[:, rest] = q.given(at).sample(n, generator)
    else:
        table = q.marginal(rest, at)
        out[:, rest] = _draw_cells(table, n, generator).T
    return out


def values_on(f: Function, shape: tuple[int, ...]) -> AnyArray:
    """Read the values of f on a grid; a function is called with one array of coordinates along each mode."""
    if callable(f):
        return read_values(f(*np.ix_(*map(np.arange, shape))), shape, called=True)
    return read_values(f, shape)


def read_values(f: ArrayLike, shape: tuple[int, ...], *, called: bool = False) -> AnyArray:
    """Read the values of a function on cells of some shape, to which those of one that was `called` are broadcast."""
    values = rectangular(f, "expectation: what f returned" if called else "expectation: f", InvalidQuery)
    if values.dtype.kind not in "biuf":
        raise InvalidQuery(f"expectation: f has dtype {values.dtype}; it must hold real numbers.")
    if not called and values.shape != shape:
        raise InvalidQuery(f"expectation: f has shape {values.shape}, X has shape {shape}; they must be equal.")
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise InvalidQuery(
            f"expectation: f returned shape {values.shape} for cells of shape {shape}; it must broadcast to that."
        ) from None


def weighted_sum(q: FloatArray, values: AnyArray, cells: IntArray | None = None) -> float:
    """Sum ``q f`` over a table of probabilities, or over a list of cells."""
    bad = np.argwhere(~np.isfinite(values) & (q > 0))
    if len(bad):
        place = bad[0] if cells is None else cells[bad[0][0]]
        raise InvalidQuery(
            f"expectation: f{cell_name(place)} = {values[tuple(bad[0])]}; f must be finite wherever Q is positive. "
            "Cells of probability 0 do not count."
        )
    return float(np.sum(q * np.where(q > 0, values, 0.0)))


# ---- Q as a tensor


@dataclass(frozen=True, eq=False)
class FittedTensor:
    """Q in X's units, in every form in which `Observation.squared_error` compares X with it."""

    fit: Decomposition

    @cached_property
    def _boxes(self) -> FloatArray:
        return box_values(self.fit)

    def rows(self, rows: slice) -> FloatArray:
        """Return Q on some rows of the grid."""
        return grid_rows(self.fit.model, self._boxes, rows, self.fit.model.support.mask)

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return log q of some cells (k x N)."""
        return self.fit._distribution.log_prob(cells)

    def sum_of_squares(self) -> float:
        """Return the sum of q^2 over all cells: ``exp(psi(2 theta) - 2 psi(theta))``."""
        fit = self.fit
        return math.exp(engine_for(fit.model.on_face(fit._alive)).at(2.0 * fit.theta).psi - 2.0 * fit.psi)

    def on_blocks(self) -> FittedModel:
        """Return Q as a function of the rectangle of the grid that is wanted."""
        fit, space = self.fit, self.fit.model
        alive = None if fit._alive is None else space.on_grid(fit._alive)
        return FittedModel(fit.basis, space.on_cells(fit.theta), fit.psi, fit.total, space.quotient, alive)


def box_values(fit: Decomposition, level: float = 1e-6) -> FloatArray:
    """Compute Q over the base measure on merged cells, in Omega or not, in X's units; NaN where it has no limit.

    A direction of recession comes from a linear program: it changes a cell by about 1, or by less than `level`.
    """
    space = fit.model.on_full_grid()
    log_q = space.below(fit.theta) - fit.psi
    if fit._alive is not None:
        fall, alive = space.below(fit.recession), space.on_grid(fit._alive)
        fall -= fall[alive].max()
        fall[alive] = 0.0
        log_q = np.where(fall < -level, -np.inf, np.where(fall > level, np.nan, log_q))
    with np.errstate(over="ignore"):  # outside the support the model's value may be beyond float64
        return np.exp(log_q) * fit.total


def grid_rows(model: Model, boxes: FloatArray, rows: slice, visible: BoolArray | None) -> FloatArray:
    """Q on some rows of the grid, from the values of the merged cells; a base measure is applied."""
    q: FloatArray = model.quotient.spread(boxes, rows)
    if model.base is not None:
        with np.errstate(over="ignore", invalid="ignore"):  # outside Omega the base may be anything
            q = q * np.asarray(model.base[rows])
    if visible is not None:
        q[~np.asarray(visible[rows])] = 0.0
    return q


def tensor(fit: Decomposition, *, extend: bool) -> FloatArray:
    """Q in X's units: everywhere, or 0 outside the support and NaN where X was missing."""
    way_out = "Ask for log_prob, marginal, sample or most_probable."
    check_formed(fit.shape, "tensor", way_out, fit.model.quotient.n_merged)
    points, mask = fit.model.support.points, fit.model.support.mask
    if points is not None and not extend:
        out = np.zeros(fit.shape)
        out[tuple(points.T)] = np.exp(fit._distribution.log_prob(points)) * fit.total
        return out
    out = grid_rows(fit.model, box_values(fit), slice(None), None if extend else mask)
    if fit.missing is not None and not extend:
        out[np.asarray(fit.missing)] = np.nan
    return out


def rmse(fit: Decomposition, data: Observation) -> float:
    """Root mean square of X - Q in X's units, over every cell of X that is a number."""
    square = data.squared_error(FittedTensor(fit))
    # by logarithms: there may be more cells than float64 counts
    return math.exp(0.5 * (math.log(square) - math.log(data.n_numbers))) if square > 0 else 0.0


def theta_tensor(fit: Decomposition) -> FloatArray:
    """Build the paper's T: theta on B, -psi at the bottom, 0 elsewhere."""
    check_formed(fit.shape, "theta_tensor", "Its entries are theta, at the cells of basis.")
    out = np.zeros(fit.shape)
    out[tuple(fit.basis.T)] = fit.model.on_cells(fit.theta)
    out[(0,) * out.ndim] = -fit.psi
    return out


def eta_tensor(fit: Decomposition) -> FloatArray:
    """Eta of every cell of the grid: the probability that Q gives to all that lies above it."""
    check_formed(fit.shape, "eta_tensor", "On the basis its entries are eta.", fit.model.quotient.n_merged, copies=2)
    q = tensor(fit, extend=False) / fit.total
    return zeta_adjoint(np.nan_to_num(q))
