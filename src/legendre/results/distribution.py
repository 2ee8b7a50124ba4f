"""Q as a distribution and as a tensor: log probabilities, marginals, conditionals, expectations, samples.

`GridDistribution` serves sample spaces that are a grid (full, masked, with a base measure). It forms a table of log q,
with an entry for each merged box, whose cells have equal probability; or for each cell, if there is a mask or a base
measure. `ListDistribution` serves lists of cells. `CliqueDistribution` serves grids that are too large to be formed: it
passes messages between the tables of a junction tree's cliques.

In this module `at` maps a mode to the index at which it is fixed: the event on which an answer is conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.basis.basis import check_cells
from legendre.basis.features import tabulate
from legendre.core import limits
from legendre.core.arguments import Rng, check_flag, generator_from, is_whole
from legendre.core.cells import cell_name, entries_at, first_cell
from legendre.core.errors import ImpossibleEvent, InvalidBasis, InvalidQuery
from legendre.core.labels import Event, Fixed, Labels, Mode
from legendre.core.memory import check_room, size_name
from legendre.core.origin import read_array
from legendre.core.sums.quotient import sum_others
from legendre.core.types import AnyArray, BoolArray, Cell, FloatArray, IntArray, Shape, frozen
from legendre.data.dask import FittedModel
from legendre.data.readers.encode import read_table
from legendre.data.readers.labelled import is_frame
from legendre.engines.choose import choose_engine
from legendre.model.cliques.graph import cliques_of
from legendre.model.cliques.tables import Beliefs, Marks, Tables
from legendre.model.model import CellList, Cliques, Model

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

TIE = 1e-12  # log probabilities closer than this count as equal: the rounding error of the running sums


@frozen
class GridDistribution:
    """Q on a grid that can be formed; see the head of this module for the table that answers are computed from."""

    model: Model  # on its full sample space
    theta: FloatArray
    psi: float
    alive: BoolArray | None = None  # True for the merged cells that carry probability; None when all of Omega does

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return log q of each cell (n x N): the sum of theta at or below it minus psi, plus log of the base measure.

        It is ``-inf`` outside the support and where Q vanishes.
        """
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

    def _form_table(self, at: Fixed) -> tuple[FloatArray, list[FloatArray]]:
        """Form the table of log q that marginals, samples and the most probable cell are computed from.

        An entry is the log probability of one cell. On a full grid without a base measure it stands for all cells of a
        merged box, otherwise for a single cell. The second value is, for each mode, how many levels each index of the
        table stands for. A mode that is fixed by `at` has a single index, of its fixed level.
        """
        model = self.model
        log_q, lengths = model.below(self.theta) - self.psi, list(model.quotient.lengths)
        if self.alive is not None or not model.whole:
            log_q[~(model.alive if self.alive is None else self.alive)] = -np.inf
        if not model.whole:  # cells of a box differ: expand the table to cells
            log_q, lengths = _expand_to_cells(log_q, lengths), [np.ones(n) for n in model.support.shape]
            if model.base is not None:
                with np.errstate(divide="ignore", invalid="ignore"):  # outside Omega the base may be anything
                    log_q = log_q + np.log(np.asarray(model.base))
            log_q = np.where(model.support.on_grid(), log_q, -np.inf)
        for k, i in at.items():  # keep the interval of mode k that holds index i
            entry = int(np.searchsorted(np.cumsum(lengths[k]), i, side="right"))
            log_q, lengths[k] = log_q.take([entry], axis=k), np.ones(1)
        return log_q, lengths

    def _weigh_boxes(self, at: Fixed) -> tuple[FloatArray, list[FloatArray]]:
        """Compute the probability, up to a common factor, of each merged box (or cell) of the table.

        The second value is that of `_form_table`: how many levels each index of a mode stands for.
        """
        log_q, lengths = self._form_table(at)
        q = _exponentiate(log_q)
        for sides in np.ix_(*lengths):  # times the number of cells of the box, mode by mode
            if sides.max() > 1:
                q *= sides
        return q, lengths

    def marginal(self, kept: list[int], at: Fixed) -> FloatArray:
        """Return the probabilities over the modes `kept`, in that order, given the event `at`."""
        q, lengths = self._weigh_boxes(at)
        return _divide_among_cells(sum_others(q, kept) / q.sum(), [lengths[k] for k in kept])

    def sample(self, n: int, generator: np.random.Generator, at: Fixed) -> IntArray:
        """Draw n cells (n x N) given the event `at`: first a box, then one of its cells, which are equally probable."""
        q, lengths = self._weigh_boxes(at)
        drawn = _draw(q.reshape(1, -1), np.zeros(n, dtype=np.int64), generator)
        return _draw_within(np.array(np.unravel_index(drawn, q.shape)), lengths, generator, at)

    def most_probable(self) -> Cell:
        """Find the most probable cell; of equally probable ones (up to TIE) the first in C order."""
        log_q, lengths = self._form_table({})
        place = np.unravel_index(int(np.argmax(log_q >= log_q.max() - TIE)), log_q.shape)
        # the first cell of that box: boxes and their first cells are in the same C order
        return tuple(int(sides[:i].sum()) for sides, i in zip(lengths, place, strict=True))


@frozen
class ListDistribution(GridDistribution):
    """Q on a sample space that is a list of cells: answers are sums over the list, and no grid is formed."""

    @cached_property
    def listed(self) -> tuple[IntArray, FloatArray]:
        """The cells of the list (n x N), and their log probabilities (n); kept, because every answer needs them."""
        points = self.model.support.cells()
        return points, self.log_prob(points)

    def marginal(self, kept: list[int], at: Fixed) -> FloatArray:
        """Return the probabilities over the modes `kept`, in that order, given the event `at`."""
        points, q = self._list_given(at)
        return sum_cells(points, q / q.sum(), self.model.support.shape, kept)

    def sample(self, n: int, generator: np.random.Generator, at: Fixed) -> IntArray:
        """Draw n cells of the list (n x N) given the event `at`."""
        points, q = self._list_given(at)
        return points[_draw(q[None], np.zeros(n, dtype=np.int64), generator)]

    def _list_given(self, at: Fixed) -> tuple[IntArray, FloatArray]:
        """Return the cells of the list in the event `at`, and their probabilities up to a common factor."""
        points, log_q = self.listed
        inside = (points[:, list(at)] == list(at.values())).all(axis=1)
        return points[inside], _exponentiate(log_q[inside])

    def most_probable(self) -> Cell:
        """Find the most probable cell; of equally probable ones (up to TIE) the first in C order."""
        points, log_q = self.listed
        return tuple(points[int(np.argmax(log_q >= log_q.max() - TIE))].tolist())


@frozen
class CliqueDistribution:
    """Q on a full grid with any number of modes, as tables over the cliques of a junction tree.

    Messages between the tables are passed once, at the first question, and kept (`beliefs`).

    >>> from legendre.data.observation import Support
    >>> q = CliqueDistribution(Model.of(Support((2, 3)), None, np.array([[1, 0]])), np.log([3.0]))
    >>> q.marginal([0], {}).round(12).tolist(), q.marginal([1], {0: 1}).round(12).tolist()
    ([0.25, 0.75], [0.333333333333, 0.333333333333, 0.333333333333])
    """

    model: Model  # on a full grid without a base measure; the tables of its cliques fit in memory
    theta: FloatArray
    marks: tuple[Marks, ...] = ()  # where Q is 0: modes, and which of their merged cells carry probability

    @cached_property
    def tables(self) -> Tables:
        """The layout of the tables of the model's cliques, with the cells where Q is 0 marked."""
        return self.model.tables.with_marks(self.marks)

    @cached_property
    def beliefs(self) -> tuple[float, Beliefs]:
        """psi, and Q on each clique: its margin, and its own modes given those it shares with its parent."""
        return self.tables.propagate(self.theta)

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return log q of each cell (n x N): theta at or below it, summed clique by clique, minus psi.

        It is ``-inf`` where Q vanishes.
        """
        sums = self.tables.sums_below(self.theta)
        if self.tables.alive is not None:
            sums[~self.tables.alive] = -np.inf
        return self.tables.at(sums, cells) - self.beliefs[0]

    def marginal(self, kept: list[int], at: Fixed) -> FloatArray:
        """Return the probabilities over the modes `kept`, in that order, given the event `at`.

        They are read from the table of a clique that holds these modes. If there is none, a junction tree is built that
        has one, and messages are passed in it; that is refused if its tables are too large.
        """
        if at:
            return self.restrict(at).marginal(kept, {})
        quotient, tables, beliefs = self.model.quotient, self.tables, self.beliefs[1]
        coupled = [k for k in kept if quotient.merged_shape[k] > 1]  # Q is uniform over the levels of the others
        joint = np.ones([quotient.merged_shape[k] for k in kept])  # the answer on merged levels
        if coupled:
            home = tables.tree.home_of(coupled)
            if not set(coupled) <= set(tables.tree.cliques[home].modes):
                # the usual limit, except that an answer which is itself large may have a tree of twice its size
                tree = cliques_of(tables.positions, quotient.merged_shape, coupled)
                if tree.n_cells > max(limits.LARGEST_CLIQUES, 2 * joint.size):
                    raise InvalidQuery(
                        f"the joint distribution of modes {coupled} needs tables of {size_name(tree.n_cells)} cells, "
                        "since the basis couples them through many others. Ask for fewer modes, or count them in "
                        "samples."
                    )
                tables, home = replace(tables, tree=tree, alive=None).with_marks(self.marks), tree.home_of(coupled)
                beliefs = tables.propagate(self.theta)[1]
            clique = tables.tree.cliques[home]
            table = tables.matrices(beliefs.margins)[home].reshape(clique.shape)
            joint = sum_others(table, [clique.modes.index(k) for k in coupled]).reshape(joint.shape)
        return _divide_among_cells(joint, [quotient.lengths[k] for k in kept])

    def restrict(self, at: Fixed) -> CliqueDistribution:
        """Return Q given the event `at`: merged cells without the fixed levels get probability 0.

        A fixed level may share its merged level with others, among which Q is uniform. That does not change Q on the
        other modes, which `marginal` and `sample` ask for.
        """
        quotient, lengths = self.model.quotient, self.model.quotient.merged_shape
        # a mode with a single merged level is in no clique, and fixing it changes nothing
        boxes = {k: quotient.boxes_along(k, np.array(level)) for k, level in at.items() if lengths[k] > 1}
        events = (((k,), np.arange(lengths[k]) == box) for k, box in boxes.items())
        q = replace(self, marks=(*self.marks, *events))
        if q.beliefs[0] == -np.inf:
            raise ImpossibleEvent("the event has probability 0")
        return q

    def sample(self, n: int, generator: np.random.Generator, at: Fixed) -> IntArray:
        """Draw n cells (n x N) given the event `at`: ancestral sampling along the junction tree, then within boxes."""
        beliefs = (self.restrict(at) if at else self).beliefs[1]
        boxes = self._choose_boxes(beliefs.given, n, lambda q, rows: _draw(q, rows, generator))
        return _draw_within(boxes, self.model.quotient.lengths, generator, at)

    def most_probable(self) -> Cell:
        """Find a most probable cell by max-sum messages (Viterbi): from the roots on, a maximum of each clique.

        Of equally probable cells (up to TIE) each clique takes its first one.
        """
        sums = self.tables.largest_sum(self.tables.sums_below(self.theta))[1]

        def first_largest(table: FloatArray, rows: IntArray) -> IntArray:
            """Return the column of the first entry within TIE of the maximum, in each of `rows`."""
            peaks = table[rows].max(axis=1, keepdims=True)
            return np.asarray(np.argmax(table[rows] >= peaks - TIE, axis=1))

        boxes = self._choose_boxes(sums, 1, first_largest)[:, 0].tolist()
        return tuple(int(cut[i]) for cut, i in zip(self.model.quotient.cuts, boxes, strict=True))

    def _choose_boxes(self, values: FloatArray, n: int, choose: Callable[[FloatArray, IntArray], IntArray]) -> IntArray:
        """Choose n merged boxes (N x n), from the roots on: in each clique its own modes, given those it shares.

        `values` holds a number for each cell of each clique's table. As a matrix, a table has a row for each cell of
        the modes shared with the parent, and a column for each cell of the clique's own modes. ``choose(table, rows)``
        returns a column for each of the n rows, in which the shared modes have the levels chosen before.
        """
        boxes = np.zeros((len(self.model.support.shape), n), dtype=np.int64)
        for c, table in enumerate(self.tables.matrices(values)):
            clique = self.tables.tree.cliques[c]
            rows = self.tables.flat(c, boxes) // table.shape[1]  # own modes are still 0
            chosen = choose(table, rows)
            # own modes are the last axes of the table in C order: split the column number into their levels
            for axis in reversed(range(clique.shared, len(clique.modes))):
                chosen, boxes[clique.modes[axis]] = np.divmod(chosen, clique.shape[axis])
        return boxes


Distribution = GridDistribution | CliqueDistribution


def distribution_of(fit: Decomposition) -> Distribution:
    """Return Q as the kind of distribution that its sample space needs: on cliques, on a grid, or on a list.

    All queries of a `Decomposition` go to it. Cells that vanish in the limit have probability 0 in it.
    """
    space = fit._face
    if isinstance(space, Cliques):
        # ties are resolved: theta of each cell of B, instead of one of each parameter
        return CliqueDistribution(fit.model.untied, space.on_cells(fit.theta), space.tables.marks)
    form = GridDistribution if fit.model.support.points is None else ListDistribution
    return form(fit.model, fit.theta, fit.psi, fit._alive)


def _exponentiate(log_q: FloatArray) -> FloatArray:
    """Turn log probabilities, in place, into probabilities up to a common factor; the largest becomes 1.

    Raise `ImpossibleEvent` if all are -inf. Without the shift, all probabilities of an unlikely event could underflow.
    """
    peak = float(log_q.max(initial=-np.inf))
    if peak == -np.inf:
        raise ImpossibleEvent("the event has probability 0")
    log_q -= peak
    return np.exp(log_q, out=log_q)


def _divide_among_cells(q: FloatArray, lengths: Sequence[FloatArray]) -> FloatArray:
    """Divide the probability of each merged box evenly among its cells; return the table of the cells.

    `q` has an axis for each mode; `lengths` says how many levels each index of a mode stands for.
    """
    for sides in np.ix_(*lengths):
        if sides.max() > 1:
            q = q / sides
    return np.asarray(_expand_to_cells(q, lengths), order="C")


def sum_cells(cells: IntArray, values: FloatArray, shape: Shape, modes: Sequence[int]) -> FloatArray:
    """Sum the values of listed cells (n x N) of a grid over all modes but `modes`, as `sum_others` does for a table.

    Margins of sparse data, and of Q on a list of cells, are formed by it, since their grids may be too large to form.
    """
    sides = tuple(shape[k] for k in modes)
    if not sides:
        return np.array(values.sum())
    places = np.ravel_multi_index(tuple(cells[:, k] for k in modes), sides)
    return np.bincount(places, values, math.prod(sides)).astype(np.float64, copy=False).reshape(sides)


def _expand_to_cells(table: AnyArray, lengths: Sequence[FloatArray]) -> AnyArray:
    """Expand a table from merged boxes to cells: copy each entry along each axis as often as `lengths` says.

    Refuse a table that does not fit in memory.
    """
    check_room(math.prod(int(sides.sum()) for sides in lengths), 8, "a table of probabilities", "Ask for fewer modes.")
    for axis, sides in enumerate(lengths):
        if (sides > 1).any():
            table = table.repeat(sides.astype(np.int64), axis=axis)
    return table


def _draw(q: FloatArray, rows: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw a column of q for each of `rows`, with probabilities in proportion to that row of q.

    It inverts the cumulative sums at a uniform random number, by bisection for all draws at once. Since
    ``random() < 1`` and the comparison is strict, no entry of probability 0 is ever drawn.
    """
    cumulated = np.cumsum(q, axis=1)
    target = generator.random(len(rows)) * cumulated[rows, -1]
    # the answer, the first column whose cumulative sum is above the target, is always between low and high
    low, high = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), q.shape[1] - 1)
    while (low < high).any():
        middle = (low + high) // 2
        above = cumulated[rows, middle] > target
        high = np.where(above, middle, high)
        low = np.where(above, low, middle + 1)
    return low


def _draw_within(boxes: IntArray, lengths: Sequence[FloatArray], generator: np.random.Generator, at: Fixed) -> IntArray:
    """Draw a cell of each merged box (N x n, changed in place), each with the same probability; return n x N indices.

    `lengths` has the number of levels of each interval, mode by mode. A mode that is fixed by `at` gets its index.
    """
    for k, sides in enumerate(lengths):
        if (sides > 1).any():
            ends = np.cumsum(sides.astype(np.int64))
            starts = np.append(0, ends[:-1])
            boxes[k] = generator.integers(starts[boxes[k]], ends[boxes[k]])
        boxes[k] = at.get(k, boxes[k])
    return np.ascontiguousarray(boxes.T)


def check_formed(shape: Shape, name: str, way_out: str, n_merged: int = 0, copies: int = 1) -> None:
    """Refuse to form an array that does not fit in memory, or has more modes than NumPy arrays can have.

    Parameters
    ----------
    shape, name, way_out
        The array's shape; the query that asks for it, named in the error; a sentence that says what to ask instead.
    n_merged
        The number of merged cells, where their grid is formed first: three arrays of that size.
    copies
        How many arrays of that shape are in memory at the same time.
    """
    n_cells = math.prod(shape)
    if len(shape) > limits.MOST_AXES:
        where = f"{size_name(n_cells)} cells in {len(shape)} modes"
        raise InvalidQuery(f"{name}: a table of {where} is never formed. {way_out}")
    # bytes for each cell: 8 for each copy, and the three merged arrays divided among the cells
    check_room(n_cells, 8 * copies + 24 * n_merged // n_cells, f"{name}: an array", way_out)


# ---- what a caller asks


def read_cells(labels: Labels, cells: Any, caller: str, indices: bool = False) -> IntArray:
    """Return indices (k x N, in the order of levels of the fit) of the cells that a caller names.

    They are given as rows (k x N, or one cell) or as columns of a frame or mapping, which are found by the names of the
    modes. Entries are labels, or indices in X if `indices` is True or X has no labels. `caller` is named in errors.
    """
    framed = isinstance(cells, Mapping) or is_frame(cells)
    if framed:
        table = read_table(cells, "cells").by_name([labels.mode(k) for k in range(labels.n_modes)], "cells")
        array = np.stack([table.column(name).rows() for name in table.names], axis=1)
    else:
        array = read_array(cells, "cells", InvalidBasis)
    # rows of the wrong length are checked as indices too: `check_cells` raises an error with the right length
    if check_flag(indices, "indices") or labels.levels is None or array.shape[-1:] != (labels.n_modes,):
        return labels.places(check_cells(array, labels.shape))
    if not framed:
        table = read_table([cells] if array.ndim == 1 else cells, "cells")
    found = np.empty((table.n, labels.n_modes), dtype=np.int64)
    for k, name in enumerate(table.names):
        column = table.column(name)
        if column.mark_absent().any():  # the code of a missing value is -1, the smallest
            raise InvalidQuery(f"{caller}: row {int(column.codes.argmin())} has no value of {labels.mode(k)}.")
        # each different value of the column is looked up once; `codes` says which of them each row has
        levels = [labels.find_level(k, value, caller) for value in column.values]
        found[:, k] = np.array(levels, dtype=np.int64)[column.codes]
    return found


def read_event(labels: Labels, given: Event | None, caller: str = "condition") -> dict[int, int]:
    """Read an event, ``{mode: level}``; return the index at which each mode is fixed, by the number of the mode.

    ``None`` is the event without conditions. `caller` is named in errors.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidQuery(f"{caller}({given!r}): pass a dict such as {{0: 2}}, mode 0 fixed at index 2.")
    at = {}
    for key, level in given.items():
        k = labels.find_mode(key, caller)
        if k in at:
            raise InvalidQuery(f"{caller}: {labels.mode(k)} is given twice.")
        at[k] = labels.find_level(k, level, caller)
    return at


def marginal(
    q: Distribution, labels: Labels, modes: list[int] | None, given: Event | None
) -> tuple[list[int], FloatArray]:
    """Return the modes, and the probabilities over them given levels of others; ``None`` is all modes not given.

    It answers `Decomposition.marginal` and `condition`, which passes no modes: it checks what the caller asks for.
    """
    caller = "condition" if modes is None else "marginal: given"
    at = read_event(labels, given, caller)
    kept = [k for k in range(labels.n_modes) if k not in at] if modes is None else modes
    for k in kept:
        if k in at:
            raise InvalidQuery(f"marginal: {labels.mode(k)} is asked for and given.")
    name = f"the joint distribution of {f'modes {list(kept)}' if len(kept) <= 8 else f'{len(kept)} modes'}"
    fewer = "Ask for fewer modes, or for log_prob or samples."
    # two copies: the answer, and what it is copied from
    check_formed(tuple(labels.shape[k] for k in kept), name, fewer, copies=2)
    try:
        return kept, q.marginal(kept, at)
    except ImpossibleEvent:
        named = {labels.mode(k): labels.level(k, i) for k, i in at.items()} if labels.given else at
        event = ", ".join(f"{k}: {i}" for k, i in named.items())
        raise ImpossibleEvent(
            f"{caller}({{{event}}}): the event has probability 0, so nothing can be said given it. Its cells are "
            "outside the support or vanish."
        ) from None


def expectation(q: Distribution, labels: Labels, f: Any, modes: Mode | Sequence[Mode] | None = None) -> float:
    """Return the sum of ``q f`` over the cells with q > 0; f and modes are as in `Decomposition.expectation`.

    f is evaluated on the grid of the modes that it depends on, and summed with the marginal of Q over these.
    """
    kept = list(range(labels.n_modes)) if modes is None else labels.find_modes(modes, "expectation")
    if not kept:
        raise InvalidQuery("expectation: modes is empty; name the modes that f depends on.")
    kept_labels = labels.part(kept)
    check_formed(kept_labels.shape, "expectation", "Name the modes that f depends on: expectation(f, modes=...).")
    table = marginal(q, labels, kept, {})[1]
    values = tabulate(f, kept_labels, "expectation: f", InvalidQuery)
    # f may be infinite or NaN where q = 0, for example log q
    if bad := first_cell(~np.isfinite(values) & (table > 0)):
        raise InvalidQuery(
            f"expectation: f{cell_name(bad)} = {values[bad]}; f must be finite wherever Q is positive. "
            "Cells of probability 0 do not count."
        )
    return float(np.sum(table * np.where(table > 0, values, 0.0)))


def sample(q: Distribution, n: int, rng: Rng, at: Fixed) -> IntArray:
    """Check what a caller of `Decomposition.sample` asks for, and draw n cells (n x N) given the indices `at`."""
    if not is_whole(n, 0):
        raise InvalidQuery(f"sample({n!r}): the number of cells must be an integer >= 0.")
    order = len(q.model.support.shape)
    # numbers of 8 bytes for each draw: the cell and its box (N each), a random number, the entry that it selects
    check_room(int(n), 8 * (2 * order + 2), "sample: a list", "Draw fewer at a time, and pass the same generator on.")
    return q.sample(int(n), generator_from(rng), at)


# ---- Q as a tensor


@frozen
class FittedTensor:
    """Q in X's units, in each form in which `Observation.squared_error` needs it, which computes the RMSE of a fit.

    A dense X asks for `rows`, a sparse one for `log_prob` and `sum_of_squares`, a distributed one for `on_blocks`.
    """

    fit: Decomposition

    @cached_property
    def _boxes(self) -> FloatArray:
        """Q on merged cells, kept because `rows` is called many times, once for each slice of the grid."""
        return box_values(self.fit)

    def rows(self, rows: slice) -> FloatArray:
        """Return Q, in X's units, on some rows of the grid: a slice of the first mode, and all of the others."""
        return grid_rows(self.fit.model, self._boxes, rows, self.fit.model.support.mask)

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return log q of some cells (k x N): those where a sparse X has entries."""
        return self.fit._distribution.log_prob(cells)

    def sum_of_squares(self) -> float:
        """Return the sum of q^2 over all cells, where q are probabilities: ``exp(psi(2 theta) - 2 psi(theta))``."""
        fit = self.fit
        return math.exp(choose_engine(fit._face).at(2.0 * fit.theta).psi - 2.0 * fit.psi)

    def on_blocks(self) -> FittedModel:
        """Return a small object that computes Q on any rectangle of the grid; it is sent to the workers that hold X."""
        fit, space = self.fit, self.fit.model
        alive = None if fit._alive is None else space.on_grid(fit._alive)
        return FittedModel(fit.basis, space.on_cells(fit.theta), fit.psi, fit.total, space.quotient, alive)


def box_values(fit: Decomposition, level: float = 1e-6) -> FloatArray:
    """Compute Q in X's units on every merged cell, also outside Omega, as if the base measure were the same everywhere.

    The base measure is taken to be `Model.largest_base`; `grid_rows` multiplies by base / largest_base.

    At the boundary, Q is the limit of the member with parameters ``theta + t * recession``. Along that direction log q
    of a cell changes at a constant rate, relative to cells that keep probability: Q is 0 where the rate is negative,
    and NaN, because there is no limit, where it is positive (outside Omega only). The direction comes from a linear
    program: its rates are about 1, or rounding errors below `level`.
    """
    space = fit.model
    if isinstance(space, CellList):  # its grid is formed here, where it is not too large
        space = replace(space._as_grid(), measure=None)
    log_q = space.below(fit.theta) - fit.psi
    if fit._alive is not None:
        rate, alive = space.below(fit.recession), space.on_grid(fit._alive)
        rate -= rate[alive].max()  # the same for all cells that keep probability, up to rounding
        rate[alive] = 0.0
        log_q = np.where(rate < -level, -np.inf, np.where(rate > level, np.nan, log_q))
    with np.errstate(over="ignore"):  # outside the support the model's value may be beyond float64
        # logarithms are added: divided by a large base measure, a probability may be below the range of float64
        return np.exp(log_q + math.log(fit.total * space.largest_base))


def grid_rows(model: Model, boxes: FloatArray, rows: slice, visible: BoolArray | None) -> FloatArray:
    """Expand values of the merged cells to some rows of the grid, times the base measure.

    `rows` is a slice of the first mode. Cells that are not in `visible`, a mask of X's shape, are 0.
    """
    q = model.quotient.spread(boxes, rows)
    if model.base is not None:
        with np.errstate(over="ignore", invalid="ignore"):  # outside Omega the base may be anything
            q = q * (np.asarray(model.base[rows]) / model.largest_base)
    if visible is not None:
        q[~np.asarray(visible[rows])] = 0.0
    return q


def tensor(fit: Decomposition, *, extend: bool) -> FloatArray:
    """Return Q in X's units as an array of X's shape, with levels in the order of the fit.

    `extend` False: 0 outside the support, and NaN where X was missing. True: the model's value in all cells, for
    predictions of cells that are missing or held out.
    """
    check_flag(extend, "extend")
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
