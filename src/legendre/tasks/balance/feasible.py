"""Which cells can be positive in a tensor with prescribed margins: all, some, or none because there is no such tensor.

`existence` asks the same of data, which are a tensor with the expectations. Here there is none to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidMargins
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.margins import Modes, decomposable
from legendre.model.problem import Problem
from legendre.tasks.balance.program import Contradiction, Program, largest_flow, whole_numbers

PROGRAM = 1e-10
"""How closely a linear program meets its constraints: HiGHS's finest setting. Margins sum to 1."""
SHOWN = 12
"""Indices listed in a message."""


@dataclass(frozen=True, eq=False)
class Reach:
    """What is known before any program is solved.

    Parameters
    ----------
    alive
        True for merged cells of the support whose margins are all positive.
    certain
        True when each of them is positive in some tensor with the margins, so that a finite answer exists.
    """

    alive: BoolArray
    certain: bool


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
        others = tuple(k for k in range(alive.ndim) if k not in modes)
        lonely = np.argwhere((problem.margin(modes) > 0) & ~alive.any(axis=others, keepdims=True))
        if len(lonely):
            place = tuple(lonely[0])
            entry, size = cell_name([place[k] for k in modes]), _size(problem, problem.margin(modes)[place])
            raise InvalidMargins(
                f"margin {_name(modes)} wants {size} at {entry}, but on all of its cells X is 0 or another margin is."
            )
    return Reach(alive, decomposable(list(margins)) and bool((alive == allowed).all()))


def possible_cells(problem: Problem, alive: BoolArray) -> BoolArray | None:
    """Find the cells that are positive in some tensor with the margins; ``None`` where the question is too large.

    Raises
    ------
    InvalidMargins
        When there is no such tensor, with the block of margins that shows it.
    """
    program = Program(problem, alive)
    whole = whole_numbers(program) if program.bipartite else None
    if program.size > limits.LARGEST_BALANCE_PROGRAM and whole is None:
        return None
    tensor = _some_tensor(program) if whole is None else largest_flow(program, whole)
    if isinstance(tensor, Contradiction):
        raise InvalidMargins(_explained(program, tensor.multipliers))
    if tensor is None:
        return None
    positive = _in_cycles(program, tensor) if program.bipartite else _can_rise(program)
    if positive is None:
        return None
    out = np.zeros_like(alive)
    out[alive] = positive
    return out


def _some_tensor(program: Program) -> FloatArray | Contradiction | None:
    """Find a tensor with the margins, or multipliers of the margins that prove that there is none (Farkas).

    Multipliers whose sum is <= 0 on every cell have ``multipliers . margins <= 0`` for every tensor. The first margin's
    can be taken >= 0 and the others' <= 0: for a matrix these are cuts, and take the values 0 and 1.
    """
    from scipy.optimize import linprog

    first = next(iter(program.margins.values())).size
    entries = len(program.wanted)
    answer = linprog(
        -program.wanted,
        A_ub=program.matrix,
        b_ub=np.zeros(len(program.cells)),
        bounds=[(0.0, 1.0)] * first + [(-1.0, 0.0)] * (entries - first),
        method="highs",
        options={"primal_feasibility_tolerance": PROGRAM, "dual_feasibility_tolerance": PROGRAM},
    )
    if answer.status != 0 or answer.x is None:
        return None
    # entries of the margins were rounded when they were written down, and once more when they were summed
    if float(program.wanted @ answer.x) > 10 * PROGRAM:
        return Contradiction(answer.x)
    tensor: FloatArray = -answer.ineqlin.marginals
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
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, hstack

    cells, entries = program.matrix.shape
    answer = linprog(
        np.concatenate([np.zeros(entries), -np.ones(cells)]),
        A_ub=hstack([program.matrix, eye_array(cells)], format="csr"),
        b_ub=np.zeros(cells),
        A_eq=np.concatenate([program.wanted, np.zeros(cells)])[None],
        b_eq=np.zeros(1),
        bounds=[(None, None)] * entries + [(0.0, 1.0)] * cells,
        method="highs",
        options={"primal_feasibility_tolerance": PROGRAM, "dual_feasibility_tolerance": PROGRAM},
    )
    if answer.status != 0 or answer.x is None:
        return None
    stays: BoolArray = answer.x[entries:] < 0.5  # each fall is 0 or 1, but for the program's tolerance
    return stays


def _explained(program: Program, multipliers: FloatArray) -> str:
    parts = np.split(multipliers, np.cumsum([values.size for values in program.margins.values()])[:-1])
    named = dict(zip(program.margins, parts, strict=True))
    if list(named) == [(0,), (1,)] and program.alive.ndim == 2:
        return _cut(program, *(np.flatnonzero(np.abs(part) > 0.5) for part in parts))
    entries = [
        f"{_name(modes)}{cell_name(np.unravel_index(i, program.margins[modes].shape))}: {part[i]:+.4g}"
        for modes, part in named.items()
        for i in np.flatnonzero(np.abs(part) > 1e-9)
    ]
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return (
        "no tensor that is 0 where X is 0 has these margins. Multiply entries of the margins by "
        f"{', '.join(entries[:SHOWN])}{more}: on every cell of X's support the multipliers sum to <= 0, yet the "
        f"margins sum to {_size(program.problem, float(multipliers @ program.wanted))} > 0."
    )


def _cut(program: Program, rows: IntArray, columns: IntArray) -> str:
    need, have = program.margins[(0,)][rows].sum(), program.margins[(1,)][columns].sum()
    return (
        f"no matrix that is 0 where X is 0 has these margins: X is 0 on rows {_indices(rows)} outside columns "
        f"{_indices(columns)}, yet those rows need {_size(program.problem, need)} and those columns have only "
        f"{_size(program.problem, have)}."
    )


def _indices(index: IntArray) -> str:
    more = f", ... ({len(index)} in all)" if len(index) > SHOWN else ""
    return "{" + ", ".join(map(str, index[:SHOWN].tolist())) + more + "}"


def _size(problem: Problem, share: float) -> str:
    """Write a share of the total in the margins' units."""
    return f"{float(share) * problem.data.total:.6g}"


def _name(modes: Modes) -> str:
    return str(modes[0]) if len(modes) == 1 else str(modes)
