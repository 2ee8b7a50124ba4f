"""The search for the cells that vanish without an empty margin: directions that change no observed cell, and a program.

It is the dear way to know whether a minimum is attained. A fit asks for it where its own certificate is no proof.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.sums.linalg import independent_columns
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.margins import margins_that_are_the_model
from legendre.model.model import Model
from legendre.model.problem import Problem
from legendre.solvers.before.faces import Face
from legendre.solvers.before.identifiability import SURELY_ZERO, from_tables
from legendre.solvers.before.rank import covariance, independent

# Coefficients of directions this close to a whole number are one: what is left is the rounding error of the solve.
WHOLE = 1e-9
# Of fractions in a direction; neighbouring ones differ by a millionth at least, which is more than rounding does.
LARGEST_DENOMINATOR = 1_000
# Combinations of coefficients of size 1 change a row by less than this through the program's tolerance alone.
LOWERED = 1e-6


def search_face(problem: Problem, face: Face) -> Face:
    """Search what plain arguments left open: a `Face` within the one that they found, still uncertain if too large."""
    model = problem.model
    if not problem.merged.known or model.n_merged > limits.LARGEST_GRID:
        return face
    reduced, positive = model.on_face(face.alive), problem.mass > 0
    if _margins_determine_all(reduced, positive):
        return replace(face, certain=True)
    if model.n_params > limits.LARGEST_MATRIX:
        return face
    columns = independent(reduced)
    directions = unseen_directions(reduced.with_columns(columns), positive)
    if not len(directions):
        return replace(face, certain=True)
    everywhere = np.zeros((len(directions), model.n_params))
    everywhere[:, columns] = directions
    return _steepest_fall(reduced, positive, face, everywhere)


def _margins_determine_all(model: Model, positive: BoolArray) -> bool:
    """Whether the cells with data determine all others; looked for where it is cheap, in a large basis of margins."""
    margins = margins_that_are_the_model(model) if model.n_params >= limits.TABLES_FROM else None
    functions = None if margins is None else from_tables(margins, positive)
    return functions is not None and float(np.abs(functions[:, model.alive]).max()) <= SURELY_ZERO


def unseen_directions(model: Model, positive: BoolArray) -> FloatArray:
    """Span the directions in theta that change no observed cell (relative to the others) but some other one."""
    seen = model.on_face(positive)
    g = covariance(seen)
    return _dependences(g, independent_columns(g.copy(), seen.n_merged))


def open_directions(model: Model, kept: IntArray) -> FloatArray:
    """Span the directions in theta that change all cells of a model alike; `kept` is a maximal independent set."""
    return _dependences(covariance(model), kept)


def _dependences(g: FloatArray, kept: IntArray) -> FloatArray:
    """Write each parameter that is not kept as a combination of those that are, by the covariance of the features."""
    lost = np.setdiff1d(np.arange(len(g)), kept)
    directions = np.zeros((len(lost), len(g)))
    if len(lost):
        directions[np.arange(len(lost)), lost] = 1.0
        directions[:, kept] = -np.linalg.solve(g[np.ix_(kept, kept)], g[np.ix_(kept, lost)]).T
    return _exact(directions)


def _exact(directions: FloatArray) -> FloatArray:
    """Give directions back their last digits, where they are fractions: of 0, 1 and tied features of whole numbers.

    A direction may have any length, so that a common denominator makes all of it whole numbers. Otherwise what cancels
    exactly, such as -2/3 and 2/3, would not in a linear program.

    >>> _exact(np.array([[1.0, 1 / 3, -0.5], [0.1234567, 1.0, 0.0]])).tolist()
    [[6.0, 2.0, -3.0], [0.1234567, 1.0, 0.0]]
    """
    out = near_whole(directions)
    for row in out:
        parts = np.unique(row[row != np.rint(row)])
        if not len(parts):
            continue
        found = [Fraction(part).limit_denominator(LARGEST_DENOMINATOR) for part in parts.tolist()]
        common = math.lcm(*{fraction.denominator for fraction in found})
        whole = np.rint(row * common)
        if common <= LARGEST_DENOMINATOR and float(np.abs(row * common - whole).max()) < WHOLE * common:
            row[:] = whole
    return out


def near_whole(numbers: FloatArray) -> FloatArray:
    """Replace numbers that differ from a whole one by rounding alone."""
    whole = np.rint(numbers)
    return np.where(np.abs(numbers - whole) < WHOLE, whole, numbers)


def _steepest_fall(model: Model, positive: BoolArray, face: Face, directions: FloatArray) -> Face:
    """Find all empty cells that can fall while none rises, by one linear program: such combinations form a cone."""
    empty = model.alive & ~positive
    if float(empty.sum()) * len(directions) > limits.LARGEST_FACE_PROGRAM:
        return face
    changes = np.empty((int(empty.sum()), len(directions)))
    for column, direction in zip(changes.T, directions, strict=True):
        grid = model.space.below(direction)
        column[:] = grid[empty] - grid[positive][0]
    rows, where = distinct(near_whole(np.round(changes / WHOLE) * WHOLE))
    found = _fall_at_once(rows) if rows.size <= limits.QUICK_PROGRAM else _fall_in_turn(rows)
    if found is None:
        return face
    falls, combination = found
    if not falls.any():
        return replace(face, certain=True)
    alive = model.alive.copy()
    alive[empty] = ~falls[where]
    direction = combination @ directions
    return Face(alive, face.recession * _outweighing(model, face, positive, direction) + direction)


def _outweighing(model: Model, face: Face, positive: BoolArray, direction: FloatArray) -> float:
    """Return a multiple of the first direction that lowers what it lowers by more than the second one raises it.

    Features of cells are 0 or 1: what falls does so by 1 at least, and none rises by more than 2 sum|direction|. Tied
    ones have any size, so that falls and rises are computed.
    """
    if model.ties is None:
        return float(1 + 2 * np.abs(direction).sum())
    if face.alive is None:
        return 1.0
    fall, rise = model.space.below(face.recession), model.space.below(direction)
    gone = fall < fall[positive].max() - LOWERED
    falls, rises = fall[positive].max() - fall[gone], rise[gone] - rise[positive].max()
    return 1.0 + 2.0 * float((np.maximum(rises, 0.0) / falls).max(initial=0.0))


def _fall_at_once(rows: FloatArray) -> tuple[BoolArray, FloatArray] | None:
    """Mark the rows that some combination lowers while it raises none, and one that lowers them all, by one program."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack

    n, d = rows.shape
    constraints: Any = hstack([csr_array(rows), eye_array(n)], format="csr")
    # unknowns: the combination, and the fall of each row
    cost, bounds = np.concatenate([np.zeros(d), -np.ones(n)]), [(None, None)] * d + [(0.0, 1.0)] * n
    answer = linprog(cost, A_ub=constraints, b_ub=np.zeros(n), bounds=bounds, method="highs")
    if answer.status != 0 or answer.x is None:
        return None
    return answer.x[d:] > 0.5, answer.x[:d]  # each fall is 0 or 1, but for the program's tolerance


def _fall_in_turn(rows: FloatArray) -> tuple[BoolArray, FloatArray] | None:
    """Find the same in many small programs: what falls is left out, and the rest is searched again."""
    falls, combination = np.zeros(len(rows), dtype=np.bool_), np.zeros(rows.shape[1])
    for _ in range(limits.MOST_PROGRAMS):
        found = _some_fall(rows[~falls])
        if found is None:
            return None
        if not found.any():
            return falls, combination
        found /= np.abs(rows @ found).max()
        now = rows @ found < -LOWERED
        if falls.any():  # so large a multiple of what was found first that none of its rows rises
            combination = combination * (1.0 + 2.0 / float(-(rows[falls] @ combination).max())) + found
        else:
            combination = found
        falls |= now
    return None


def _some_fall(rows: FloatArray) -> FloatArray | None:
    """Find a combination that lowers the sum of the rows and raises none; 0 if there is none, ``None`` if undecided.

    Few rows bind: begin with some, and add those that rise. Where even some rows leave the sum no way down, none falls.
    """
    from scipy.optimize import linprog

    d, chosen = rows.shape[1], np.zeros(len(rows), dtype=np.bool_)
    chosen[: 2 * d] = True
    downhill = rows.sum(axis=0)
    for _ in range(limits.MOST_PROGRAMS if len(rows) else 0):
        some = rows[chosen]
        answer = linprog(downhill, A_ub=some, b_ub=np.zeros(len(some)), bounds=(-1.0, 1.0), method="highs")
        if answer.status != 0 or answer.x is None:
            return None
        change = rows @ answer.x
        if change.sum() > -LOWERED * max(1.0, float(np.abs(downhill).max())):
            return np.zeros(d)
        if change.max() <= LOWERED:
            return np.asarray(answer.x)
        chosen[np.argsort(-change)[: min(int((change > LOWERED).sum()), max(d, 100))]] = True
    return np.zeros(d) if not len(rows) else None


def distinct(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the different rows, and for each row which of them it is; sorting numbers is faster than sorting rows.

    >>> distinct(np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]))[1].tolist()
    [0, 1, 0]
    """
    numbers = rows @ np.random.default_rng(0).standard_normal(rows.shape[1])
    _, first, where = np.unique(numbers, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][where], rows):  # two different rows share their number
        found, where = np.unique(rows, axis=0, return_inverse=True)
        return found, where.reshape(-1)
    return rows[first], where
