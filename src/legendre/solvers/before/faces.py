"""Existence: is the minimum attained, and if not, which cells vanish in the limit.

The minimiser of KL(P, Q) has a finite theta exactly when eta_hat lies in the relative interior of the polytope of all
eta on Omega. Otherwise eta_hat lies inside a face: the limit Q (the extended maximum likelihood estimate) lives on the
cells of that face, and there the problem is an ordinary one again. Only cells without data can vanish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidSetting, TooLarge
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import zeta_rows
from legendre.core.sums.quotient import n_cells
from legendre.core.sums.zeta import moebius
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.cliques.face import n_carrying, parts_of
from legendre.model.cliques.tables import saturated, theta_of
from legendre.model.margins import Modes, decomposable, fitted_margins, margins_that_are_the_model
from legendre.model.model import Model
from legendre.model.problem import Problem

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # values of features, relative to their size, that are rounding errors


@dataclass(frozen=True, eq=False)
class Face:
    """The smallest face that holds eta_hat."""

    alive: BoolArray | None  # marks what carries probability in the limit, see `Space`; ``None`` when all of Omega does
    recession: FloatArray  # a direction in theta along which KL falls for ever; 0 when the minimum is attained
    certain: bool = True  # False: more cells may vanish; those that surely do are left out all the same


def diverging(recession: FloatArray) -> BoolArray:
    """Mark the parameters that run to infinity: a direction of recession changes them by about 1, or not at all."""
    return np.asarray(np.abs(recession) > 1e-6, dtype=np.bool_)


def plain_face(problem: Problem) -> Face:
    """Leave out what vanishes for a plain reason, an empty margin; nothing is searched for, and much is left open.

    Margins that are a product's (a tree of cliques) on a full grid leave nothing open: the product of their tables is
    0 where a table is, and nowhere else. In a grid that is not formed the tables are all that is looked at.

    >>> from legendre.data.dense import observe
    >>> face = plain_face(Problem.of(observe([[1, 1], [0, 0]]), np.array([[1, 0], [0, 1]])))
    >>> face.alive.tolist(), face.recession.tolist()
    ([[True, True], [False, False]], [-2.0, 0.0])
    """
    model = problem.model
    attained = Face(None, np.zeros(model.n_params))
    if problem.surely_attained:
        return attained
    if (found := _empty_tables(problem)) is not None:
        return found
    if not problem.merged.known or model.n_merged > limits.LARGEST_GRID:
        return replace(attained, certain=False)
    positive = problem.mass > 0
    if positive[model.alive].all():
        return attained
    margins = fitted_margins(model)
    # where eta_hat_u = 0 all that lies above u vanishes as theta_u falls
    recession = np.where(_never_seen(problem), -1.0, 0.0)
    if model.ties is None:
        recession += _empty_margins(problem, margins)
        recession += _empty_between(model, positive)
    alive, face = model.alive, attained
    if recession.any():
        fall = model.space.below(recession)
        alive = model.alive & (fall >= fall[positive].max())
        face = attained if (alive == model.alive).all() else Face(alive, recession)
    return replace(face, certain=bool(positive[alive].all()) or _a_product(model, margins))


def _empty_tables(problem: Problem) -> Face | None:
    """Leave out the empty cells of the tables of a tree of cliques that B fits whole: they are all that vanishes."""
    space, sums = problem.model.space, problem.clique_sums
    if sums is None or space.form != "cliques" or space.ties is not None or not saturated(space.tables):
        return None
    alive = sums > 0
    return Face(alive, theta_of(space.tables, alive.astype(np.float64) - 1.0))


def _never_seen(problem: Problem) -> BoolArray:
    """Mark the parameters whose feature is 0 wherever there is data, and nowhere below 0."""
    model = problem.model
    never: BoolArray = problem.eta_hat == 0
    if model.ties is None:
        return never
    sizes = model.ties.collect_sizes(np.ones(model.ties.n_cells))
    near = np.abs(problem.eta_hat) <= ROUNDING * sizes  # a difference of sums, which need not be exactly 0
    for j in np.flatnonzero(near & (model.ties.own < 0)).tolist():
        feature = model.space.below(np.eye(1, model.n_params, j)[0])
        small = ROUNDING * sizes[j]
        never[j] = bool((feature[model.alive] >= -small).all() and (feature[problem.mass > 0] <= small).all())
    return never


def _a_product(model: Model, margins: list[Modes]) -> bool:
    """Whether the largest entropy with these margins is a product of tables on a full grid, and B nothing else."""
    whole = margins_that_are_the_model(model) is not None and decomposable(margins)
    return whole and bool(model.alive.all())


def _empty_margins(problem: Problem, margins: list[Modes]) -> FloatArray:
    """Where B fits a whole margin, the cells of its empty entries vanish: the direction is minus their indicator."""
    model = problem.model
    direction = np.zeros(model.weights.shape)
    for modes in margins:
        empty = problem.margin(modes) == 0
        if not empty.any():
            continue
        corner = tuple(slice(None) if k in modes else slice(0, 1) for k in range(direction.ndim))
        direction[corner] -= moebius(empty.astype(np.float64))
    return np.asarray(direction[tuple(model.positions.T)])


def _empty_between(model: Model, positive: BoolArray) -> FloatArray:
    """Where the same data lie above u and above w, u < w, what is above u but not above w vanishes.

    Both are in B, or u is the bottom, which needs no parameter; the direction lowers theta_u and raises theta_w. Sets
    of data are told apart by sums of random whole numbers, one for each cell with data.
    """
    direction, shape = np.zeros(model.n_params), model.quotient.merged_shape
    if positive.shape != shape:  # a list of cells
        return direction
    marks = np.zeros(shape, dtype=np.uint64)
    marks[positive] = np.random.default_rng(0).integers(1, 1 << 63, int(positive.sum()), dtype=np.uint64)
    for axis in range(marks.ndim):
        back = np.flip(marks, axis)
        np.add.accumulate(back, axis=axis, out=back)
    corners = np.concatenate([np.zeros((1, len(shape)), dtype=np.int64), model.positions])
    found = marks[tuple(corners.T)]
    order = np.argsort(found, kind="stable")
    ends = np.flatnonzero(np.diff(found[order])) + 1
    for group in np.split(order, ends):
        if len(group) < 2 or len(group) > limits.MOST_ALIKE or found[group[0]] == 0:
            continue
        below = (corners[group][:, None] <= corners[group]).all(axis=2)
        rises, falls = below.sum(axis=0) - 1.0, below.sum(axis=1) - 1.0
        for place, change in zip((group - 1).tolist(), (rises - falls).tolist(), strict=True):
            if place >= 0:
                direction[place] += change
    return direction


def features(model: Model, cells: BoolArray) -> FloatArray:
    """Rows of zeta for the given merged cells, 1 where u <= v; of ``zeta A`` where parameters are tied."""
    return feature_rows(model, model.space.cells[cells] if model.space.form == "list" else np.argwhere(cells))


def feature_rows(model: Model, boxes: IntArray) -> FloatArray:
    """Compute the features of some merged cells (n x N), n x parameters."""
    rows = zeta_rows(boxes, model.positions)
    return rows if model.ties is None else np.asarray(rows @ model.ties.matrix())


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
    instead = "fit.n_vanishing tells their number, fit.vanishing_margins the margins that they are."
    if len(model.support.shape) > limits.MOST_AXES:
        raise TooLarge(f"a list of vanishing cells of {len(model.support.shape)} modes is never formed. {instead}")
    check_room(math.prod(model.support.shape), 1, "a list of vanishing cells", instead)
    gone = ~model.space.on_grid(alive)
    everywhere = model.quotient.spread(gone if model.space.whole else model.alive & gone)
    if model.support.mask is not None:
        everywhere = everywhere & model.support.mask
    return np.argwhere(everywhere).astype(np.int64)


def vanishing_margins(model: Model, alive: BoolArray | None) -> dict[Modes, IntArray]:
    """List, for each margin that B fits whole, its entries outside the face, in the levels of the original grid."""
    if alive is None or model.space.form == "list":
        return {}
    space, every = model.on_face(alive).space, range(len(model.support.shape))
    if space.form == "cliques":
        parts = parts_of(space.tables)
    else:
        apart = {modes: tuple(k for k in every if k not in modes) for modes in fitted_margins(model)}
        parts = tuple((modes, np.asarray(alive.any(axis=others))) for modes, others in apart.items())
    found = {tuple(sorted(modes)): _entries(model, modes, marks) for modes, marks in parts}
    return {modes: entries for modes, entries in sorted(found.items()) if len(entries)}


def _entries(model: Model, modes: Modes, marks: BoolArray) -> IntArray:
    """List the entries of a margin that are not marked, level by level, in the order of the modes."""
    for axis, k in enumerate(modes):
        marks = marks.take(model.quotient.box_of(k), axis=axis)
    return np.argwhere(~marks.transpose(np.argsort(modes)))


def n_vanishing(model: Model, alive: BoolArray | None) -> int:
    """Count the cells that vanish; where boxes are counted they need not be listed."""
    if alive is None or model.base is not None:
        return len(vanishing_cells(model, alive))
    space = model.on_face(alive).space
    if space.form == "cliques":
        return model.support.n_cells - n_carrying(space.tables)
    gone = model.alive & ~alive
    return n_cells(model.quotient, gone) if model.support.full else round(float(model.weights[gone].sum()))
