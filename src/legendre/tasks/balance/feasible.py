"""Which cells can be positive in a tensor with prescribed margins: all, some, or none because there is no such tensor.

`solvers.structure.faces` answers this for data, which are a tensor with the expectations; here none is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidMargins
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.margins import Modes, decomposable
from legendre.model.problem import Problem
from legendre.tasks.balance.margins import key_of, other_modes
from legendre.tasks.balance.vertex import positive_cells

PROGRAM = 1e-10  # how closely a linear program meets its constraints: HiGHS's finest setting. Margins sum to 1
RESOLVED = 1e-8  # shares from which a program that knows its answer to 1e-10 tells cells that vanish from small ones
WHOLE = 1e-6  # entries this close to whole numbers count as whole: rounding up to limits.LARGEST_FLOW is less
SHOWN = 12  # the number of indices that a message lists


@dataclass(frozen=True, eq=False)
class Reach:
    """What is known before any program is solved."""

    alive: BoolArray  # True for merged cells of the support whose margins are all positive
    certain: bool  # True when each of them is positive in some tensor with the margins: a finite answer exists


def reach(problem: Problem) -> Reach:
    """Leave out the cells of empty margins; refuse a positive margin without cells.

    On a full grid margins that are decomposable have a closed form, which is positive wherever they all are.
    """
    margins = problem.prescribed or {}
    if problem.model.support.mask is None and all((values > 0).all() for values in margins.values()):
        return Reach(problem.model.alive, decomposable(list(margins)))
    allowed = np.ones(problem.model.quotient.merged_shape, dtype=np.bool_)
    for modes in margins:
        allowed &= problem.margin(modes) > 0
    alive = problem.model.alive & allowed
    for modes in margins:
        wanted = problem.margin(modes)
        lonely = np.argwhere((wanted > 0) & ~alive.any(axis=other_modes(modes, alive.ndim), keepdims=True))
        if len(lonely):
            place = tuple(lonely[0])
            raise InvalidMargins(
                f"margin {key_of(modes)} wants {_size(problem, wanted[place])} at "
                f"{cell_name([place[k] for k in modes])}, but on all of its cells X is 0 or another margin is."
            )
    return Reach(alive, decomposable(list(margins)) and bool((alive == allowed).all()))


@dataclass(frozen=True, eq=False)
class Program:
    """The alive cells against the entries of all margins."""

    problem: Problem
    alive: BoolArray

    @property
    def margins(self) -> dict[Modes, FloatArray]:
        """The prescribed margins."""
        return self.problem.prescribed or {}

    @property
    def size(self) -> int:
        """The number of entries of the constraints."""
        return int(self.alive.sum()) * len(self.margins)

    @property
    def small(self) -> bool:
        """True where cells times entries of margins, a matrix, are few enough for whole numbers."""
        return int(self.alive.sum()) * len(self.wanted) <= limits.EXACT_PROGRAM

    @property
    def solvable(self) -> bool:
        """True where a linear program of this size is solved."""
        return 0 < self.size <= limits.LARGEST_BALANCE_PROGRAM

    @cached_property
    def extreme(self) -> bool:
        """True where X's largest and smallest cells are too far apart for steps that begin at X."""
        weights = self.problem.model.weights[self.alive] if self.solvable else np.ones(1)
        return bool(np.log(weights.max()) - np.log(weights.min()) > np.log(limits.WIDE_RANGE))

    @property
    def bipartite(self) -> bool:
        """True for two margins without a common mode: a cell joins an entry of one to an entry of the other."""
        groups = [set(modes) for modes in self.margins]
        return len(groups) == 2 and not groups[0] & groups[1]

    @cached_property
    def columns(self) -> IntArray:
        """For each cell and each margin the entry that the cell counts for, all entries numbered in a row."""
        cells, found, start = np.argwhere(self.alive), [], 0
        for modes, values in self.margins.items():
            found.append(start + np.ravel_multi_index(tuple(cells[:, modes].T), values.shape))
            start += values.size
        return np.stack(found, axis=1)

    @cached_property
    def wanted(self) -> FloatArray:
        """All entries of all margins."""
        return np.concatenate([values.ravel() for values in self.margins.values()])

    @cached_property
    def matrix(self) -> Any:
        """Cells x entries, sparse."""
        from scipy.sparse import csr_array

        cells, ways = self.columns.shape
        index = (np.ones(cells * ways), self.columns.ravel(), np.arange(0, cells * ways + 1, ways))
        return csr_array(index, shape=(cells, len(self.wanted)))

    @cached_property
    def whole(self) -> IntArray | None:
        """All entries of both margins as whole numbers, in the caller's units or others; ``None`` if they are not."""
        sizes = [values.size for values in self.margins.values()]
        smallest = max(float(self.wanted[self.wanted > 0].min()), 1.0 / limits.LARGEST_FLOW)
        units = (self.problem.data.total, 1.0 / smallest, float(math.lcm(*sizes)))
        for unit in units:
            scaled = self.wanted * unit
            whole = np.rint(scaled)
            equal = whole[: sizes[0]].sum() == whole[sizes[0] :].sum() <= limits.LARGEST_FLOW
            if equal and np.abs(scaled - whole).max() <= WHOLE * min(1.0, scaled.max()):
                return whole.astype(np.int64)
        return None


def possible_cells(program: Program, known: Reach) -> Reach:
    """Find the cells that are positive in some tensor with the margins; `known` where the question is too large.

    Where there is no such tensor, `InvalidMargins` names the block of margins that shows it.
    """
    whole = program.whole if program.bipartite else None
    if program.size > limits.LARGEST_BALANCE_PROGRAM and whole is None:
        return known
    exact = positive_cells(program.columns, program.wanted) if program.small else None
    if exact is not None:
        return _reached(program, exact)
    tensor = _some_tensor(program) if whole is None else _largest_flow(program, whole)
    if tensor is None or (whole is None and program.wanted[program.wanted > 0].min() < RESOLVED):
        return known
    positive = _in_cycles(program, tensor) if program.bipartite else _can_rise(program)
    return known if positive is None else _reached(program, positive)


def _reached(program: Program, positive: BoolArray) -> Reach:
    out = np.zeros_like(program.alive)
    out[program.alive] = positive
    return Reach(out, certain=True)


def _optimum(costs: FloatArray, **constraints: Any) -> Any | None:
    """Solve a linear program; ``None`` where HiGHS does not."""
    from scipy.optimize import linprog

    exact: Any = {"primal_feasibility_tolerance": PROGRAM, "dual_feasibility_tolerance": PROGRAM}
    answer = linprog(costs, method="highs", options=exact, **constraints)
    return None if answer.status != 0 or answer.x is None else answer


def _some_tensor(program: Program) -> FloatArray | None:
    """Find a tensor with the margins, or raise with multipliers of the margins that prove that there is none (Farkas).

    Multipliers whose sum is <= 0 on every cell have ``multipliers . margins <= 0`` for every tensor. The first margin's
    can be taken >= 0 and the others' <= 0: for a matrix these are cuts, and take the values 0 and 1.
    """
    first, entries = next(iter(program.margins.values())).size, len(program.wanted)
    bounds = [(0.0, 1.0)] * first + [(-1.0, 0.0)] * (entries - first)
    answer = _optimum(-program.wanted, A_ub=program.matrix, b_ub=np.zeros(len(program.columns)), bounds=bounds)
    if answer is None:
        return None
    # entries of the margins were rounded when they were written down, and once more when they were summed
    if float(program.wanted @ answer.x) > 10 * PROGRAM:
        raise _contradiction(program, answer.x)
    tensor: FloatArray = -answer.ineqlin.marginals
    return tensor


def _largest_flow(program: Program, whole: IntArray) -> FloatArray:
    """Send as much as possible from the first margin through the cells to the second: all of it, or there is a cut."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    entries, total, first = len(whole), int(whole.sum()) // 2, next(iter(program.margins.values())).size
    (one, other), source, sink = program.columns.T, entries, entries + 1
    tails = np.concatenate([one, np.full(first, source), np.arange(first, entries)])
    heads = np.concatenate([other, np.arange(first), np.full(entries - first, sink)])
    room = np.concatenate([np.full(len(one), total), whole]).astype(np.int32)
    network = csr_array((room, (tails, heads)), shape=(entries + 2, entries + 2))
    found = maximum_flow(network, source, sink)
    if found.flow_value < total:
        left: Any = network - found.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        reached = np.zeros(entries + 2, dtype=np.bool_)
        reached[breadth_first_order(left, source, return_predecessors=False)] = True
        raise _contradiction(program, np.where(np.arange(entries) < first, 1.0, -1.0) * reached[:entries])
    flow = found.flow.tocoo()
    through = (flow.row < first) & (flow.col < entries) & (flow.data > 0)
    tensor = np.zeros(len(one))
    used, keys = flow.row[through].astype(np.int64) * entries + flow.col[through], one * entries + other
    order = np.argsort(keys)
    tensor[order[np.searchsorted(keys, used, sorter=order)]] = flow.data[through] / total
    return tensor


def _in_cycles(program: Program, tensor: FloatArray) -> BoolArray:
    """Two margins without a common mode: a cell can rise exactly when it closes a cycle of cells that can fall.

    Entries of both margins are the nodes of a graph; a cell is an arc from its first entry to its second, and one back
    where the tensor is positive. Cells within a strongly connected component are the ones that can be positive.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other = program.columns.T
    falls = tensor > PROGRAM
    arcs = np.concatenate([one, other[falls]]), np.concatenate([other, one[falls]])
    size = len(program.wanted)
    _, label = connected_components(coo_array((np.ones(len(arcs[0])), arcs), shape=(size, size)), connection="strong")
    within: BoolArray = (label[one] == label[other]) | falls
    return within


def _can_rise(program: Program) -> BoolArray | None:
    """Maximise how many cells have negative multipliers that cost the margins nothing: these must vanish.

    Such multipliers form a cone, so that one program with each fall capped at 1 finds all cells that fall.
    """
    from scipy.sparse import eye_array, hstack

    cells, entries = program.matrix.shape
    answer = _optimum(
        np.concatenate([np.zeros(entries), -np.ones(cells)]),
        A_ub=hstack([program.matrix, eye_array(cells)], format="csr"),
        b_ub=np.zeros(cells),
        A_eq=np.concatenate([program.wanted, np.zeros(cells)])[None],
        b_eq=np.zeros(1),
        bounds=[(None, None)] * entries + [(0.0, 1.0)] * cells,
    )
    # each fall is 0 or 1, but for the program's tolerance
    return None if answer is None else np.asarray(answer.x[entries:] < 0.5)


def _contradiction(program: Program, multipliers: FloatArray) -> InvalidMargins:
    """Say why no tensor has the margins: for a matrix rows and columns, otherwise the multipliers themselves."""
    parts = np.split(multipliers, np.cumsum([values.size for values in program.margins.values()])[:-1])
    if list(program.margins) == [(0,), (1,)] and program.alive.ndim == 2:
        rows, columns = (np.flatnonzero(np.abs(part) > 0.5) for part in parts)
        need, have = program.margins[(0,)][rows].sum(), program.margins[(1,)][columns].sum()
        return InvalidMargins(
            f"no matrix that is 0 where X is 0 has these margins: X is 0 on rows {_indices(rows)} outside columns "
            f"{_indices(columns)}, yet those rows need {_size(program.problem, need)} and those columns have only "
            f"{_size(program.problem, have)}."
        )
    entries = [
        f"{key_of(modes)}{cell_name(np.unravel_index(i, values.shape))}: {part[i]:+.4g}"
        for (modes, values), part in zip(program.margins.items(), parts, strict=True)
        for i in np.flatnonzero(np.abs(part) > 1e-9)
    ]
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return InvalidMargins(
        "no tensor that is 0 where X is 0 has these margins. Multiply entries of the margins by "
        f"{', '.join(entries[:SHOWN])}{more}: on every cell of X's support the multipliers sum to <= 0, yet the "
        f"margins sum to {_size(program.problem, float(multipliers @ program.wanted))} > 0."
    )


def _indices(index: IntArray) -> str:
    more = f", ... ({len(index)} in all)" if len(index) > SHOWN else ""
    return "{" + ", ".join(map(str, index[:SHOWN].tolist())) + more + "}"


def _size(problem: Problem, share: float) -> str:
    """Write a share of the total in the margins' units."""
    return f"{float(share) * problem.data.total:.6g}"
