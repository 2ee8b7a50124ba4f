"""Is the minimum attained, and if not, which cells vanish in the limit?

The minimiser of KL(P, Q) has a finite theta exactly when eta_hat lies in the relative interior of the polytope of all eta
on Omega. Otherwise eta_hat lies inside a face: the limit Q (the extended maximum likelihood estimate) lives on the
cells of that face, and there the problem is an ordinary one again. Only cells without data can vanish.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from legendre.arrays import BoolArray, FloatArray, IntArray
from legendre.model import Model
from legendre.problem import Problem
from legendre.rank import independent
from legendre.zeta import zeta

LARGEST_PROGRAM = 20_000_000
"""The largest linear program (in matrix entries) that is solved to find a face."""


@dataclass(frozen=True, eq=False)
class Face:
    """The smallest face that holds eta_hat.

    Parameters
    ----------
    alive
        True for the merged cells that carry probability in the limit.
    recession
        A direction in theta along which KL falls for ever: the cells outside the face lose all probability on the way.
        Zero when the minimum is attained.
    certain
        False when the question was too large to be decided; then `alive` is all of Omega.
    """

    alive: BoolArray
    recession: FloatArray
    certain: bool = True


def find_face(problem: Problem) -> Face:
    """Find the face, by the cheapest argument that decides.

    Examples
    --------
    >>> from legendre.intake import observe
    >>> face = find_face(Problem.of(observe([[1, 1], [0, 0]]), np.array([[1, 0], [0, 1]])))
    >>> face.alive.tolist(), face.recession.tolist()
    ([[True, True], [False, False]], [-1.0, 0.0])
    """
    model, positive = problem.model, problem.mass > 0
    still = np.zeros(model.n_params)
    if positive[model.alive].all():
        return Face(model.alive, still)
    # eta_hat_u = 0: everything above u vanishes as theta_u -> -inf
    recession = np.where(problem.eta_hat == 0, -1.0, 0.0)
    alive = model.alive & (_grid(model, recession) == 0)
    reduced = model.on_face(alive)
    observed = reduced.on_face(positive)
    if positive[alive].all() or len(independent(observed)) == len(independent(reduced)):
        # features that are independent on the observed cells leave no direction that only the others feel
        return Face(alive, recession)
    return _by_linear_program(reduced, positive, recession)


def _grid(model: Model, vector: FloatArray) -> FloatArray:
    grid = np.zeros(model.weights.shape)
    grid[tuple(model.positions.T)] = vector
    return zeta(grid)


def _by_linear_program(model: Model, positive: BoolArray, recession: FloatArray) -> Face:
    """Maximise how many empty cells fall, over directions under which no observed cell moves and no other rises.

    Directions form a cone, so that one program with each fall capped at 1 finds all cells that can fall.
    """
    empty = model.alive & ~positive
    if float(model.alive.sum()) * model.n_params > LARGEST_PROGRAM:
        return Face(model.alive, recession, certain=False)
    fall, direction = _steepest_fall(features(model, positive), features(model, empty))
    falls = fall > 0.5
    alive = model.alive.copy()
    alive[empty] = ~falls
    if not falls.any():
        return Face(alive, recession)
    # No cell rises by more than 2 sum|direction|: so much of the first direction lowers every cell that either lowers.
    return Face(alive, recession * (1 + 2 * np.abs(direction).sum()) + direction)


def features(model: Model, cells: BoolArray) -> FloatArray:
    """Rows of zeta for the given merged cells: 1 where u <= v."""
    where = np.argwhere(cells)
    out = np.ones((len(where), model.n_params))
    for k in range(where.shape[1]):
        out *= model.positions[:, k] <= where[:, k, None]
    return out


def _steepest_fall(observed: FloatArray, empty: FloatArray) -> tuple[FloatArray, FloatArray]:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, eye_array, hstack

    basis = _row_space(observed)
    n_empty, n_params = empty.shape
    # unknowns: the direction, its constant, and the fall of each empty cell
    cost = np.concatenate([np.zeros(n_params + 1), -np.ones(n_empty)])
    inequality = hstack([coo_array(np.hstack([empty, np.ones((n_empty, 1))])), eye_array(n_empty)])
    equality = hstack([coo_array(basis), coo_array((len(basis), n_empty))])
    bounds = [(None, None)] * (n_params + 1) + [(0.0, 1.0)] * n_empty
    answer = linprog(
        cost,
        A_ub=inequality.tocsr(),
        b_ub=np.zeros(n_empty),
        A_eq=equality.tocsr(),
        b_eq=np.zeros(len(basis)),
        bounds=bounds,
        method="highs",
    )
    if answer.status != 0:
        raise LinAlgError(f"the linear program for the face failed: {answer.message}")
    return answer.x[n_params + 1 :], answer.x[:n_params]


def interior_point(problem: Problem) -> FloatArray:
    """Find a positive distribution on the alive merged cells with the expectations of the data.

    Of all such distributions, one whose smallest ratio to the weights is largest: a linear program.
    """
    from scipy.optimize import linprog

    model = problem.model
    weights = model.weights[model.alive]
    design = np.hstack([np.ones((len(weights), 1)), features(model, model.alive)])
    # q = smallest * weights + rest, rest >= 0
    equality = np.hstack([design.T, (design.T @ weights)[:, None]])
    cost = np.zeros(len(weights) + 1)
    cost[-1] = -1.0
    right = np.concatenate([[1.0], problem.eta_hat])
    answer = linprog(cost, A_eq=equality, b_eq=right, bounds=(0, None), method="highs")
    if answer.status != 0 or answer.x[-1] <= 0:
        raise LinAlgError(f"no positive distribution has the data's expectations: {answer.message}")
    q: FloatArray = answer.x[:-1] + answer.x[-1] * weights
    # the program meets the expectations to 1e-7 only; one weighted least-squares correction meets them to rounding
    correction, *_ = np.linalg.lstsq(design.T @ (q[:, None] * design), right - design.T @ q, rcond=None)
    return q * (1 + design @ correction)


def _row_space(observed: FloatArray) -> FloatArray:
    """Distinct rows of the observed features, with the constant: the rest says nothing new."""
    return np.unique(np.hstack([observed, np.ones((len(observed), 1))]), axis=0)


def vanishing_cells(model: Model, face: Face) -> IntArray:
    """List the cells of Omega outside the face, in the original grid."""
    gone = model.alive & ~face.alive
    if not gone.any():
        return np.empty((0, len(model.support.shape)), dtype=np.int64)
    everywhere = model.quotient.spread(gone)
    if model.support.mask is not None:
        everywhere = everywhere & model.support.mask
    return np.argwhere(everywhere).astype(np.int64)
