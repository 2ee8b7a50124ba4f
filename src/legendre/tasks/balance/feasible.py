"""Which cells can be positive in a tensor with prescribed margins: all, some, or none because there is no such tensor.

`solvers.structure.faces` answers this for data, which are a tensor with the expectations; here none is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidMargins
from legendre.core.types import BoolArray, FloatArray
from legendre.model.model import Modes, decomposable
from legendre.model.problem import Problem
from legendre.tasks.balance.margins import key_of, other_modes

PRECISION = 1e-10  # how closely a linear program meets its constraints: HiGHS's finest setting. Margins sum to 1


@dataclass(frozen=True, eq=False)
class Program:
    """The cells that may be positive against the entries of all margins."""

    problem: Problem
    alive: BoolArray  # merged cells that may be positive
    certain: bool  # True when each of them is positive in some tensor with the margins: a finite answer exists

    @classmethod
    def of(cls, problem: Problem) -> Program:
        """Leave out the cells of empty margins; refuse a positive margin without cells.

        On a full grid margins that are decomposable have a closed form, which is positive wherever they all are.
        """
        margins, alive = problem.prescribed or {}, problem.model.alive
        closed = decomposable(list(margins))
        if problem.model.support.mask is None and all((values > 0).all() for values in margins.values()):
            return cls(problem, alive, closed)
        allowed = np.ones(problem.model.quotient.merged_shape, dtype=np.bool_)
        for modes in margins:
            allowed &= problem.margin(modes) > 0
        alive = alive & allowed
        for modes in margins:
            wanted = problem.margin(modes)
            lonely = np.argwhere((wanted > 0) & ~alive.any(axis=other_modes(modes, alive.ndim), keepdims=True))
            if len(lonely):
                place = tuple(lonely[0])
                raise InvalidMargins(
                    f"margin {key_of(modes)} wants {_in_units(problem, wanted[place])} at "
                    f"{cell_name([place[k] for k in modes])}, but on all of its cells X is 0 or another margin is."
                )
        return cls(problem, alive, closed and bool((alive == allowed).all()))

    @property
    def margins(self) -> dict[Modes, FloatArray]:
        """The prescribed margins."""
        return self.problem.prescribed or {}

    @property
    def face(self) -> BoolArray | None:
        """The cells that may be positive; ``None`` if these are all of the support."""
        return None if np.array_equal(self.alive, self.problem.model.alive) else self.alive

    @property
    def size(self) -> int:
        """The number of entries of the constraints."""
        return int(self.alive.sum()) * len(self.margins)

    @cached_property
    def wanted(self) -> FloatArray:
        """All entries of all margins, in a row."""
        return np.concatenate([values.ravel() for values in self.margins.values()])

    @cached_property
    def matrix(self) -> Any:
        """Cells x entries, sparse: 1 where a cell counts for an entry of a margin."""
        from scipy.sparse import csr_array

        cells, found, start = np.argwhere(self.alive), [], 0
        for modes, values in self.margins.items():
            found.append(start + np.ravel_multi_index(tuple(cells[:, modes].T), values.shape))
            start += values.size
        columns, ends = np.stack(found, axis=1).ravel(), np.arange(len(cells) + 1) * len(found)
        return csr_array((np.ones(len(columns)), columns, ends), shape=(len(cells), start))

    def decide(self, resolved: float = 1e-8) -> Program:
        """Find the cells that are positive in some tensor with the margins; `self` where that cannot be decided.

        That is where the program is too large, or margins have entries below `resolved`, which a program that knows
        its answer to 1e-10 takes for 0. Where there is no tensor, `InvalidMargins` names the margins that show it.
        """
        if self.size > limits.LARGEST_BALANCE_PROGRAM or not _has_tensor(self):
            return self
        positive = None if self.wanted[self.wanted > 0].min() < resolved else _can_be_positive(self)
        if positive is None:
            return self
        alive = np.zeros_like(self.alive)
        alive[self.alive] = positive
        return replace(self, alive=alive, certain=True)


def _optimise(costs: FloatArray, **constraints: Any) -> Any | None:
    """Solve a linear program, without its presolve where that gives up; ``None`` where HiGHS does not solve it."""
    from scipy.optimize import linprog

    exact: Any = {"primal_feasibility_tolerance": PRECISION, "dual_feasibility_tolerance": PRECISION}
    for presolve in (True, False):
        answer = linprog(costs, method="highs", options=exact | {"presolve": presolve}, **constraints)
        if answer.status == 0 and answer.x is not None:
            return answer
    return None


def _has_tensor(program: Program) -> bool:
    """Whether some tensor has the margins; raise with multipliers of them that prove that there is none (Farkas).

    Multipliers whose sum is <= 0 on every cell have ``multipliers . margins <= 0`` for every tensor. The first margin's
    can be taken >= 0 and the others' <= 0: for a matrix these are cuts, and take the values 0 and 1.
    """
    first, entries = next(iter(program.margins.values())).size, len(program.wanted)
    bounds = [(0.0, 1.0)] * first + [(-1.0, 0.0)] * (entries - first)
    answer = _optimise(-program.wanted, A_ub=program.matrix, b_ub=np.zeros(program.matrix.shape[0]), bounds=bounds)
    # entries of the margins were rounded when they were written down, and once more when they were summed
    if answer is not None and float(program.wanted @ answer.x) > 10 * PRECISION:
        raise _contradiction(program, answer.x)
    return answer is not None


def _can_be_positive(program: Program) -> BoolArray | None:
    """Maximise how many cells have negative multipliers that cost the margins nothing: these must vanish.

    Such multipliers form a cone, so that one program with each fall capped at 1 finds all cells that fall.
    """
    from scipy.sparse import eye_array, hstack

    cells, entries = program.matrix.shape
    answer = _optimise(
        np.concatenate([np.zeros(entries), -np.ones(cells)]),
        A_ub=hstack([program.matrix, eye_array(cells)], format="csr"),
        b_ub=np.zeros(cells),
        A_eq=np.concatenate([program.wanted, np.zeros(cells)])[None],
        b_eq=np.zeros(1),
        bounds=[(None, None)] * entries + [(0.0, 1.0)] * cells,
    )
    # each fall is 0 or 1, but for the program's tolerance
    return None if answer is None else np.asarray(answer.x[entries:] < 0.5)


def _contradiction(program: Program, multipliers: FloatArray, shown: int = 12) -> InvalidMargins:
    """Say why no tensor has the margins: for a matrix rows and columns, otherwise the multipliers themselves."""
    parts = np.split(multipliers, np.cumsum([values.size for values in program.margins.values()])[:-1])
    if list(program.margins) == [(0,), (1,)] and program.alive.ndim == 2:
        sides = [np.flatnonzero(np.abs(part) > 0.5) for part in parts]
        need, have = (_in_units(program.problem, program.margins[(k,)][side].sum()) for k, side in enumerate(sides))
        rows, columns = (
            "{" + ", ".join(map(str, side[:shown])) + (f", ... ({len(side)} in all)" if len(side) > shown else "") + "}"
            for side in sides
        )
        return InvalidMargins(
            f"no matrix that is 0 where X is 0 has these margins: X is 0 on rows {rows} outside columns {columns}, yet "
            f"those rows need {need} and those columns have only {have}."
        )
    entries = [
        f"{key_of(modes)}{cell_name(np.unravel_index(i, values.shape))}: {part[i]:+.4g}"
        for (modes, values), part in zip(program.margins.items(), parts, strict=True)
        for i in np.flatnonzero(np.abs(part) > 1e-9)
    ]
    more = f" and {len(entries) - shown} more" if len(entries) > shown else ""
    return InvalidMargins(
        "no tensor that is 0 where X is 0 has these margins. Multiply entries of the margins by "
        f"{', '.join(entries[:shown])}{more}: on every cell of X's support the multipliers sum to <= 0, yet the "
        f"margins sum to {_in_units(program.problem, float(multipliers @ program.wanted))} > 0."
    )


def _in_units(problem: Problem, share: float) -> str:
    """Write a share of the total in the margins' units."""
    return f"{float(share) * problem.data.total:.6g}"
