"""Existence: is the minimum attained, and if not, which cells vanish in the limit.

The minimiser of KL(P, Q) has a finite theta exactly when eta_hat lies in the relative interior of the polytope of all
eta on Omega. Otherwise eta_hat lies inside a face: the limit Q (the extended maximum likelihood estimate) lives on the
cells of that face, and there the problem is an ordinary one again. Only cells without data can vanish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidSetting
from legendre.core.memory import check_room
from legendre.core.sums.blas_threads import all_threads
from legendre.core.sums.cell_sums import zeta_rows
from legendre.core.sums.linalg import independent_columns
from legendre.core.sums.zeta import moebius
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.margins import fitted_margins, margins_that_are_the_model
from legendre.model.model import Model
from legendre.model.problem import Problem
from legendre.solvers.before.identifiability import SURELY_ZERO, from_tables
from legendre.solvers.before.rank import covariance, independent

# Coefficients of directions this close to a whole number are one: what is left is the rounding error of the solve.
WHOLE = 1e-9


@dataclass(frozen=True, eq=False)
class Face:
    """The smallest face that holds eta_hat."""

    alive: BoolArray | None  # merged cells that carry probability in the limit; ``None`` when all of Omega does
    recession: FloatArray  # a direction in theta along which KL falls for ever; 0 when the minimum is attained
    certain: bool = True  # False: the question was too large; cells that surely vanish are left out all the same


def diverging(recession: FloatArray) -> BoolArray:
    """Mark the parameters that run to infinity: a direction of recession changes them by about 1, or not at all."""
    return np.asarray(np.abs(recession) > 1e-6, dtype=np.bool_)


def find_face(problem: Problem) -> Face:
    """Find the face, by the cheapest argument that decides.

    >>> from legendre.data.dense import observe
    >>> face = find_face(Problem.of(observe([[1, 1], [0, 0]]), np.array([[1, 0], [0, 1]])))
    >>> face.alive.tolist(), face.recession.tolist()
    ([[True, True], [False, False]], [-2.0, 0.0])
    """
    model = problem.model
    attained = Face(None, np.zeros(model.n_params))
    if not problem.merged.known or model.n_merged > limits.LARGEST_GRID:
        return replace(attained, certain=False)
    positive = problem.mass > 0
    if positive[model.alive].all():
        return attained
    # where eta_hat_u = 0 all that lies above u vanishes as theta_u falls
    recession = np.where(problem.eta_hat == 0, -1.0, 0.0) + _empty_margins(problem)
    fall = model.space.below(recession)
    alive = model.alive & (fall >= fall[positive].max())
    face = attained if (alive == model.alive).all() else Face(alive, recession)
    if positive[alive].all():
        return face
    reduced = model.on_face(alive)
    if _margins_determine_all(reduced, positive):
        return face
    if model.n_params > limits.LARGEST_MATRIX:
        return replace(face, certain=False)
    columns = independent(reduced)
    directions = unseen_directions(reduced.with_columns(columns), positive)
    if not len(directions):
        return face
    everywhere = np.zeros((len(directions), model.n_params))
    everywhere[:, columns] = directions
    return _steepest_fall(reduced, positive, face, everywhere)


def _margins_determine_all(model: Model, positive: BoolArray) -> bool:
    """Whether the cells with data determine all others; looked for where it is cheap, in a large basis of margins."""
    margins = margins_that_are_the_model(model) if model.n_params >= limits.TABLES_FROM else None
    functions = None if margins is None else from_tables(margins, positive)
    return functions is not None and float(np.abs(functions[:, model.alive]).max()) <= SURELY_ZERO


def _empty_margins(problem: Problem) -> FloatArray:
    """Where B fits a whole margin, the cells of its empty entries vanish: the direction is minus their indicator."""
    model = problem.model
    direction = np.zeros(model.weights.shape)
    for modes in fitted_margins(model):
        others = tuple(k for k in range(direction.ndim) if k not in modes)
        empty = problem.mass.sum(axis=others, keepdims=True) == 0
        corner = tuple(slice(None) if k in modes else slice(0, 1) for k in range(direction.ndim))
        direction[corner] -= moebius(empty.astype(np.float64))
    return np.asarray(direction[tuple(model.positions.T)])


def unseen_directions(model: Model, positive: BoolArray) -> FloatArray:
    """Span the directions in theta that change no observed cell (relative to the others) but some other one."""
    g = covariance(model.on_face(positive))
    kept = independent_columns(g.copy(), model.alive.size)
    lost = np.setdiff1d(np.arange(model.n_params), kept)
    directions = np.zeros((len(lost), model.n_params))
    if len(lost):
        directions[np.arange(len(lost)), lost] = 1.0
        with all_threads():
            directions[:, kept] = -np.linalg.solve(g[np.ix_(kept, kept)], g[np.ix_(kept, lost)]).T
    # zeta is a matrix of zeros and ones, so that most entries are whole numbers: give them back their last digits
    whole = np.rint(directions)
    return np.where(np.abs(directions - whole) < WHOLE, whole, directions)


def _steepest_fall(model: Model, positive: BoolArray, face: Face, directions: FloatArray) -> Face:
    """Find all empty cells that can fall while none rises, by one linear program: such combinations form a cone."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack

    empty = model.alive & ~positive
    if float(empty.sum()) * len(directions) > limits.LARGEST_FACE_PROGRAM:
        return replace(face, certain=False)
    changes = np.empty((int(empty.sum()), len(directions)))
    for column, direction in zip(changes.T, directions, strict=True):
        grid = model.space.below(direction)
        column[:] = grid[empty] - grid[positive][0]
    rows, where = distinct(np.round(changes / WHOLE) * WHOLE)
    n = len(rows)
    constraints: Any = hstack([csr_array(rows), eye_array(n)], format="csr")
    # unknowns: the combination, and the fall of each distinct row
    cost = np.concatenate([np.zeros(len(directions)), -np.ones(n)])
    bounds = [(None, None)] * len(directions) + [(0.0, 1.0)] * n
    answer = linprog(cost, A_ub=constraints, b_ub=np.zeros(n), bounds=bounds, method="highs")
    if answer.status != 0 or answer.x is None:
        return replace(face, certain=False)
    falls = answer.x[len(directions) :] > 0.5  # each is 0 or 1, but for the program's tolerance
    if not falls.any():
        return face
    alive = model.alive.copy()
    alive[empty] = ~falls[where]
    direction = answer.x[: len(directions)] @ directions
    # no cell rises by more than 2 sum|direction|: that multiple of the first lowers every cell that either lowers
    return Face(alive, face.recession * (1 + 2 * np.abs(direction).sum()) + direction)


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


def features(model: Model, cells: BoolArray) -> FloatArray:
    """Rows of zeta for the given merged cells: 1 where u <= v."""
    chosen = model.space.cells[cells] if model.space.form == "list" else np.argwhere(cells)
    return zeta_rows(chosen, model.positions)


def interior_point(problem: Problem) -> FloatArray:
    """Of the distributions with the data's expectations, find one whose smallest ratio to the weights is largest."""
    from scipy.optimize import linprog

    model = problem.model
    weights, right = model.weights[model.alive], np.append(1.0, problem.eta_hat)
    design = np.hstack([np.ones((len(weights), 1)), features(model, model.alive)])
    # q = smallest * weights + rest, rest >= 0
    equality, cost = np.hstack([design.T, (design.T @ weights)[:, None]]), np.append(np.zeros(len(weights)), -1.0)
    answer = linprog(cost, A_eq=equality, b_eq=right, bounds=(0, None), method="highs")
    if answer.x is None or answer.x[-1] <= 0:
        raise InvalidSetting(
            "m-projection found no positive distribution with the data's expectations to start from "
            f"({answer.message}) Use solver='natural'."
        )
    q: FloatArray = answer.x[:-1] + answer.x[-1] * weights
    # the program meets the expectations to 1e-7 only; one weighted least-squares correction meets them to rounding
    with all_threads():
        correction, *_ = np.linalg.lstsq(design.T @ (q[:, None] * design), right - design.T @ q, rcond=None)
        q = q * (1 + design @ correction)
    if not (q > 0).all():
        raise InvalidSetting(
            "m-projection found no positive distribution with the data's expectations to start from: its smallest "
            "probabilities are below the rounding error of the largest. Use solver='natural'."
        )
    return q


def vanishing_cells(model: Model, alive: BoolArray | None) -> IntArray:
    """List the cells of Omega outside the face, in the original grid."""
    if alive is None:
        return np.empty((0, len(model.support.shape)), dtype=np.int64)
    if model.support.points is not None:
        points = model.support.points
        return points[~model.carries(model.quotient.boxes(points), alive)].astype(np.int64)
    check_room(math.prod(model.support.shape), 1, "a list of vanishing cells", "fit.n_vanishing tells their number.")
    everywhere = model.quotient.spread(model.alive & ~alive)
    if model.support.mask is not None:
        everywhere = everywhere & model.support.mask
    return np.argwhere(everywhere).astype(np.int64)
