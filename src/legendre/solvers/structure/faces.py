"""Existence: is the minimum attained, and if not, which cells vanish in the limit.

The minimiser of KL(P, Q) has a finite theta if and only if eta_hat lies in the relative interior of the marginal
polytope, the set of all eta on Omega. Otherwise eta_hat lies in a proper face of the polytope. The limit Q (the
extended maximum likelihood estimate) then has positive probability only in the cells of that face, and on them the
problem is an ordinary one again. Only cells without data can vanish. A *direction of recession* is a direction in theta
that changes log q, up to a constant, by 0 in all cells with data and by at most 0 in the others. Cells in which it
lowers log q vanish.

`structural_face` finds the cells that empty margins force to 0. `search_face` decides about the others, by a linear
program over the directions in theta that change no observed cell. It is expensive: a fit calls it only if its own
certificate does not prove that no further cell vanishes. On grids that are too large for this, `_search_tables` does
the same with the tables of a junction tree.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidMargins, TooLarge
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import zeta_rows
from legendre.core.sums.quotient import sum_others
from legendre.core.sums.zeta import moebius
from legendre.core.text import shorten
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.model.cliques.tables import Tables
from legendre.model.model import CellList, Cliques, Model, fitted_margins, generating_margins, running_order
from legendre.model.problem import Problem, list_within
from legendre.solvers.structure.identifiability import SURELY_ZERO, from_margins, open_directions
from legendre.solvers.structure.rank import independent

# A combination of directions lowers or raises a cell if log q changes by more than this, the tolerance of the programs.
LOWERED = 1e-6

PRECISION = 1e-10  # feasibility tolerance of linear programs: the finest that HiGHS has; margins are scaled to sum to 1


@frozen
class Face:
    """The smallest face of the marginal polytope that contains eta_hat: which cells keep positive probability."""

    # True where probability stays positive: merged cells, or cells of tables, see `Cliques`; None: everywhere in Omega
    alive: BoolArray | None
    recession: FloatArray  # (parameters,) a direction of recession; 0 if the minimum is attained
    certain: bool = True  # False: it is not known whether more cells vanish than those marked False in `alive`


def diverging(recession: FloatArray) -> BoolArray:
    """Mark the parameters that diverge as KL falls to its infimum: those that a direction of recession changes.

    It changes them by about 1, and the others by rounding errors at most; 1e-6 is far from both.
    """
    return np.asarray(np.abs(recession) > 1e-6, dtype=np.bool_)


def theta_at_limit(theta: FloatArray, recession: FloatArray) -> FloatArray:
    """Return theta with infinity where it diverges: Q is the limit of ``theta + t * recession`` as t grows."""
    return np.where(diverging(recession), np.copysign(np.inf, recession), theta)


def structural_face(problem: Problem, known: FloatArray | float = 0.0) -> Face:
    """Find the cells that empty margins force to 0; every fit begins with this.

    There is no search, except that prescribed margins with zeros go to `_search_tables` at once. The face is certain if
    no other cell can vanish: all others have data, those with data span the model (`_spans_model`), or the answer is a
    product of tables. If the merged grid is too large to form, only the tables of a junction tree are examined. `known`
    is a direction of recession that growing the basis has found; the cells that it lowers vanish too.

    >>> from legendre.data.dense import observe
    >>> face = structural_face(Problem.of(observe([[1, 1], [0, 0]]), np.array([[1, 0], [0, 1]])))
    >>> face.alive.tolist(), face.recession.tolist()
    ([[True, True], [False, False]], [-2.0, 0.0])
    """
    model = problem.model
    attained = Face(None, np.zeros(model.n_params))
    if (found := _find_table_face(problem)) is not None:
        return found
    if not problem.known or model.n_cells > limits.LARGEST_GRID:
        return replace(attained, certain=False)
    positive = problem.mass > 0
    if positive[model.alive].all() or _spans_model(model, positive):
        return attained
    margins = fitted_margins(model)
    # if eta_hat_u = 0, all cells at or above u have no data, and vanish as theta_u falls
    never = problem.eta_hat == 0
    if model.ties is not None:  # a tied feature may be negative: its expectation may be 0 though cells have data
        never &= model.ties.single >= 0
    recession = np.where(never, -1.0, 0.0) + known
    if model.ties is None:
        recession += _lower_empty_margins(model, {modes: sum_others(problem.margin(modes), modes) for modes in margins})
    alive, face = model.alive, attained
    if recession.any():
        fall = model.below(recession)  # the change of log q, up to a constant; it is largest where there are data
        alive = model.alive & (fall >= fall[positive].max())
        face = attained if (alive == model.alive).all() else Face(alive, recession)
    # a decomposable set of margins on a full grid is a product of tables, which is 0 only where a table is
    product = generating_margins(model) is not None and running_order(margins) is not None and bool(model.alive.all())
    return replace(face, certain=bool(positive[alive].all()) or product)


def _spans_model(model: Model, positive: BoolArray) -> bool:
    """Return whether it is easily seen that no direction is constant on the cells with data, so that none vanishes.

    Along a direction of recession log q changes by the same amount in all cells with data, `positive`. Take for each
    cell the last cell of B, in C order, that is at or below it; the bottom, for the constant, if there is none. If
    cells with data have all of them, their features contain a triangular matrix, and no direction but 0 is constant.
    """
    if isinstance(model, CellList):
        return False
    last = np.zeros(model.quotient.merged_shape, dtype=np.int64)
    last.ravel()[model.places] = model.places
    for axis in range(last.ndim):
        np.maximum.accumulate(last, axis=axis, out=last)
    return len(np.unique(last[positive])) == len(model.places) + 1


def _find_table_face(problem: Problem) -> Face | None:
    """Return the face that empty entries of a junction tree's tables show; ``None`` if no entries are known.

    If the tables' sums are known and B fits them completely, exactly the cells of their empty entries vanish; the
    recession is minus the indicator of these entries, as parameters. With prescribed margins only the zeros of the
    margins are known: they give a first, uncertain face, which `_search_tables` extends. Raise `InvalidMargins` if that
    leaves no cell.
    """
    space, sums, margins = problem.model, problem.clique_sums, problem.prescribed
    if not isinstance(space, Cliques) or space.ties is not None:
        return None
    if sums is not None and space.tables.saturated:
        alive = sums > 0
        return Face(alive, space.tables.theta_of(alive.astype(np.float64) - 1.0))
    if margins is None:
        return None
    marked = space.tables.with_marks([(modes, values > 0) for modes, values in margins.items() if not values.all()])
    face = Face(marked.alive, _lower_empty_margins(space, margins), certain=False)
    if marked.alive is None:
        return face
    face = _search_tables(problem, face)  # where entries are 0, margins are likely to contradict each other
    if not replace(marked, alive=face.alive).n_carrying:
        raise InvalidMargins("margins contradict each other: their zeros leave no cell that could be positive.")
    return face


def _lower_empty_margins(model: Model, margins: dict[Modes, FloatArray]) -> FloatArray:
    """Return a direction in theta that lowers log q in all cells that belong to an empty entry of a margin.

    If B fits a margin completely, the cells of its empty entries vanish. The direction is minus the indicator of these
    entries, summed over the margins; its Möbius inverse gives the parameters.
    """
    direction = np.zeros(model.n_params)
    for modes, values in margins.items():
        rows, empty = list_within(model.positions, modes), (values == 0).astype(np.float64)
        direction[rows] -= moebius(empty)[tuple(model.positions[rows][:, modes].T)]
    return direction


def feature_rows(model: Model, boxes: IntArray) -> FloatArray:
    """Evaluate all features of the model at n merged cells (n x N); the result is n x parameters."""
    rows = zeta_rows(boxes, model.positions)
    return rows if model.ties is None else np.asarray(rows @ model.ties.matrix())


def vanishing_cells(model: Model, alive: BoolArray | None) -> IntArray:
    """List the cells of Omega that vanish (n x N, not merged): those outside the face `alive`; none if it is ``None``.

    Raise an error if the grid is too large for a list.
    """
    if alive is None:
        return np.empty((0, len(model.support.shape)), dtype=np.int64)
    if model.support.points is not None:
        points = model.support.points
        return points[~model.carries(model.quotient.boxes(points), alive)].astype(np.int64)
    instead = "fit.n_vanishing is their number, and fit.vanishing_margins names the empty entries of margins."
    if len(model.support.shape) > limits.MOST_AXES:
        raise TooLarge(f"a list of vanishing cells of {len(model.support.shape)} modes is never formed. {instead}")
    check_room(math.prod(model.support.shape), 1, "a list of vanishing cells", instead)
    gone = ~model.on_grid(alive)
    everywhere = model.quotient.spread(gone if model.whole else model.alive & gone)
    if model.support.mask is not None:
        everywhere = everywhere & np.asarray(model.support.mask)
    return np.argwhere(everywhere).astype(np.int64)


def vanishing_margins(model: Model, alive: BoolArray | None) -> dict[Modes, IntArray]:
    """List, for each margin that B fits completely, the entries in which all cells vanish (n x modes, not merged).

    This names the vanishing cells of grids that are too large for a list of cells.
    """
    if alive is None or isinstance(model, CellList):
        return {}
    space = model.on_face(alive)
    if isinstance(space, Cliques):
        tables = space.tables.marks
    else:
        tables = tuple((modes, sum_others(alive, modes) > 0) for modes in fitted_margins(model))
    found = {}
    for modes, merged in tables:  # modes of a table may be in any order; the entries have them in rising order
        marks = merged[np.ix_(*map(model.quotient.box_of, modes))]
        found[tuple(sorted(modes))] = np.argwhere(~marks.transpose(np.argsort(modes)))
    return {modes: entries for modes, entries in sorted(found.items()) if len(entries)}


def n_vanishing(model: Model, alive: BoolArray) -> int:
    """Count the cells that vanish, by the weights of merged cells where these are counts; a list takes more memory.

    With a base measure the weights are not counts, and the cells are listed.
    """
    if model.base is not None:
        return len(vanishing_cells(model, alive))
    space = model.on_face(alive)
    if isinstance(space, Cliques):
        return model.support.n_cells - space.tables.n_carrying
    return round(float(model.weights[model.alive & ~alive].sum()))


def search_face(problem: Problem, face: Face) -> Face:
    """Decide which cells vanish beyond those of `structural_face`, by a linear program.

    Return a face within the given one; it stays uncertain if the problem is too large to decide. A direction of
    recession changes no observed cell, so the program searches only the directions with that property
    (`open_directions`). If there are none, nothing else vanishes.
    """
    model = problem.model
    if not problem.known or model.n_cells > limits.LARGEST_GRID:
        return _search_tables(problem, face)
    reduced, positive = model.on_face(face.alive), problem.mass > 0
    if _margins_determine_all(reduced, positive):
        return replace(face, certain=True)
    if model.n_params > limits.LARGEST_MATRIX:
        return face
    columns = independent(reduced)
    directions = open_directions(reduced.with_columns(columns).on_face(positive))
    if not len(directions):
        return replace(face, certain=True)
    everywhere = np.zeros((len(directions), model.n_params))
    everywhere[:, columns] = directions
    return _lower_all(reduced, positive, face, everywhere)


def _margins_determine_all(model: Model, positive: BoolArray) -> bool:
    """Return whether the cells with data (`positive`) determine log q in all others: then no further cell can vanish.

    This is tried only where it is cheaper than the search: for a large basis that is a set of margins. False may also
    mean that it was not tried or not decided.
    """
    functions = from_margins(model, positive)
    return functions is not None and float(np.abs(functions[:, model.alive]).max()) <= SURELY_ZERO


def _lower_all(model: Model, positive: BoolArray, face: Face, directions: FloatArray) -> Face:
    """Find all cells that vanish: the empty ones that some combination of directions lowers while it raises no cell.

    The directions (n x parameters) change no observed cell. If two combinations raise no cell, neither does their sum,
    so one combination lowers all cells that can be lowered. Cells in which all directions change log q equally are one
    row of the linear program.
    """
    empty = model.alive & ~positive
    if float(empty.sum()) * len(directions) > limits.LARGEST_FACE_PROGRAM:
        return face
    changes = np.empty((int(empty.sum()), len(directions)))
    for column, direction in zip(changes.T, directions, strict=True):
        grid = model.below(direction)
        column[:] = grid[empty] - grid[positive][0]  # relative to the cells with data, where the change is constant
    rows, where = np.unique(changes.round(9), axis=0, return_inverse=True)
    found = _find_falling(rows)
    if found is None:
        return face
    falls, combination = found
    if not falls.any():
        return replace(face, certain=True)
    alive = model.alive.copy()
    alive[empty] = ~falls[where.reshape(-1)]
    direction = combination @ directions
    # the new face's recession also lowers the cells that the given face had left out
    return Face(alive, face.recession * _outweigh(model, face, positive, direction) + direction)


def _outweigh(model: Model, face: Face, positive: BoolArray, direction: FloatArray) -> float:
    """Return a factor for the recession of a face that makes it outweigh `direction` in every cell that it lowers.

    The direction was found on the face alone, and may raise cells outside it; the sum of both must not.
    """
    fall, rise = model.below(face.recession), model.below(direction)
    fall, rise = fall[positive].max() - fall, rise - rise[positive].max()
    gone = fall > LOWERED
    return 1.0 + 2.0 * float((np.maximum(rise[gone], 0.0) / fall[gone]).max(initial=0.0))


def _find_falling(rows: FloatArray, max_programs: int = 300) -> tuple[BoolArray, FloatArray] | None:
    """Mark the rows r for which some x has ``r . x < 0`` while ``rows @ x <= 0``; return one such x for all of them.

    `rows` (cells x directions) are the changes of log q in empty cells, and x is a combination of directions. Rows that
    fall are left out and the rest is searched again, until none falls. ``None`` if a linear program fails or more than
    `max_programs` rounds are needed.
    """
    falls, combination = np.zeros(len(rows), dtype=np.bool_), np.zeros(rows.shape[1])
    for _ in range(max_programs):
        found = _lower_some(rows[~falls], max_programs)
        if found is None:
            return None
        if not found.any():
            return falls, combination
        found /= np.abs(rows @ found).max()
        # `found` changes a row by at most 1: take a multiple of the combination that lowers each of its rows by more
        if falls.any():
            combination = combination * (1.0 + 2.0 / float(-(rows[falls] @ combination).max()))
        combination += found
        falls |= rows @ found < -LOWERED
    return None


def _lower_some(rows: FloatArray, max_programs: int) -> FloatArray | None:
    """Find an x in [-1, 1]^d that minimises the sum of ``rows @ x`` and makes no entry positive.

    It is 0 if the sum cannot be negative: then no row can fall. Few of the constraints are active, so the program
    starts with the first 2 d rows, and those that rise are added (constraint generation). ``None`` if a linear program
    fails or more than `max_programs` are needed.
    """
    d, chosen = rows.shape[1], np.zeros(len(rows), dtype=np.bool_)
    chosen[: 2 * d] = True
    downhill = rows.sum(axis=0)
    for _ in range(max_programs if len(rows) else 0):
        some = rows[chosen]
        # directions of rows are rounded: at a precision of 1e-10 rows that can fall seem to rise elsewhere
        lowest = optimise(downhill, 1e-7, A_ub=some, b_ub=np.zeros(len(some)), bounds=(-1.0, 1.0))
        if lowest is None:
            return None
        change = rows @ lowest
        if change.sum() > -LOWERED * max(1.0, float(np.abs(downhill).max())):
            return np.zeros(d)  # with some of the constraints the sum does not fall, so with all it does not either
        if change.max() <= LOWERED:
            return lowest
        # add the rows that rise most, at most max(d, 100) of them
        chosen[np.argsort(-change)[: min(int((change > LOWERED).sum()), max(d, 100))]] = True
    return np.zeros(d) if not len(rows) else None


# --- tables of a junction tree: the same question where no grid can be formed ----------------------------------------


def _search_tables(problem: Problem, face: Face, most: int = 100_000) -> Face:
    """Decide which cells vanish by linear programs over the cells of a junction tree's tables.

    Tables that agree on the modes that they share are the margins of some distribution (Lauritzen 1996, section 4.4).
    So a cell vanishes if and only if one of the cells of tables that it falls on is 0 in all tables that agree and have
    the expectations eta_hat. Where B fits everything that two tables share, eta_hat determines their shared margin, and
    each side is a program of its own. Tables in which every cell has data need no program.

    Raise `InvalidMargins` if no distribution has the prescribed margins. The face stays uncertain if the matrix of a
    program has more than `most` entries (80,000 take 4 s), if a program is not solved, or if a margin has entries that
    a program cannot distinguish from 0.
    """
    model, margins = problem.model, problem.prescribed
    if not isinstance(model, Cliques) or model.ties is not None or (problem.clique_sums is None and margins is None):
        return face
    tables, recession, certain = model.tables, np.zeros(model.n_params), True
    alive = np.ones(tables.size, dtype=np.bool_) if face.alive is None else face.alive.copy()
    seen = np.zeros_like(alive) if problem.clique_sums is None else problem.clique_sums > 0
    resolved = all(values[values > 0].min() >= 100 * PRECISION for values in (margins or {}).values())
    for cliques in _list_blocks(tables):
        if (equations := _form_equations(tables, cliques)) is None:
            certain = False
            continue
        matrix, columns = equations
        rows = np.flatnonzero((np.diff(matrix.indptr) > 0) & alive)  # the cells of this block's tables
        empty, must_vanish = rows[~seen[rows]], matrix[rows[seen[rows]]]
        if not len(empty):
            continue
        solvable = matrix.nnz <= most
        if margins is not None:
            # the right hand sides: eta_hat; 0 where a table agrees with its parent; -1 for the total
            wanted = np.append(problem.eta_hat, [0.0, -1.0])[columns]
            must_vanish = wanted[None]
            if solvable:
                solvable = _find_contradiction(model, matrix[rows], wanted, columns) and resolved
        if not solvable or (found := find_vanishing(matrix[empty], must_vanish)) is None:
            certain = False
            continue
        marks, multipliers = found
        gone = empty[marks]
        if len(gone):  # scaled, so that each of these cells falls by at least 1
            multipliers = multipliers / -float((matrix[gone] @ multipliers).max())
            expectations = columns < model.n_params  # other multipliers cancel between a table and its parent
            # most multipliers are integers or simple fractions: nine digits remove the solver's rounding
            recession[columns[expectations]] += multipliers[expectations].round(9)
            alive[gone] = False
    # the recession of the given face has to outweigh the new one in the cells that it lowers, by at least 1
    recession += face.recession * (1.0 + 2.0 * float(np.abs(recession).sum()))
    return Face(None if alive.all() else alive, recession, certain)


def _list_blocks(tables: Tables) -> list[list[int]]:
    """List sets of cliques, joined in the tree, between which B fits all that two tables share."""
    used, blocks = tables.positions > 0, dict[int, list[int]]()
    n_used, first = used.sum(axis=1), list[int]()
    for c, clique in enumerate(tables.tree.cliques):
        shared = list(clique.modes[: clique.shared])
        inside = int((used[:, shared].sum(axis=1) == n_used).sum())
        cut = inside == math.prod(clique.shape[: clique.shared]) - 1
        first.append(c if cut else first[clique.parent])
        blocks.setdefault(first[c], []).append(c)
    return list(blocks.values())


def _form_equations(tables: Tables, cliques: list[int]) -> tuple[Any, IntArray] | None:
    """Return the equations that tables of some cliques meet: a sparse matrix, cells of tables x equations.

    Each clique adds a block of columns: the features of the parameters that no earlier clique holds, then a column for
    each cell of the modes that it shares with its parent, -1 in its own table and +1 in the parent's. If the parent is
    not among `cliques`, these are one column, -1 in the whole table.

    The second array has for each equation the parameter whose expectation it fixes. It is ``|B|`` where a table agrees
    with its parent, with right hand side 0, and ``|B| + 1`` where the first table sums to 1, with right hand side -1.
    ``None`` if a block is too large to be formed.
    """
    from scipy.sparse import csr_array, hstack

    used, parts, columns = tables.positions > 0, list[Any](), list[IntArray]()
    free, n_used = np.ones(len(used), dtype=np.bool_), used.sum(axis=1)
    for c in cliques:
        clique, link = tables.tree.cliques[c], tables.links[c]
        own = np.flatnonzero((used[:, list(clique.modes)].sum(axis=1) == n_used) & free)
        free[own], n_own, n_shared = False, len(own), math.prod(clique.shape[: clique.shared])
        inside = link is not None and link.above in cliques
        if tables.size * (n_own + n_shared) > limits.LARGEST_FACE_PROGRAM:
            return None
        shared = np.eye(n_shared) if inside else np.ones((n_shared, 1))
        part = np.zeros((tables.size, n_own + shared.shape[1]))
        matrices = tables.matrices(part)
        features = zeta_rows(np.argwhere(np.ones(clique.shape)), tables.positions[own][:, clique.modes])
        matrices[c][..., :n_own] = features.reshape(n_shared, -1, n_own)
        matrices[c][..., n_own:] = -shared[:, None]
        if link is not None and inside:
            link.add(shared, matrices[link.above][..., n_own:])
        parts.append(csr_array(part))
        columns += [own, np.full(shared.shape[1], len(used) if inside else len(used) + 1)]
    return hstack(parts, format="csr"), np.concatenate(columns)


def _find_contradiction(model: Model, matrix: Any, wanted: FloatArray, columns: IntArray) -> bool:
    """Raise `InvalidMargins` if no distribution has the prescribed margins, with the size of the contradiction.

    The program looks for multipliers that add up to at most 0 on every cell, yet to more than 0 on what is wanted
    (Farkas). Those of expectations lie between -1 and 1: by duality the optimum is the least sum of their errors.
    Return whether the program was solved.
    """
    fixed = columns < model.n_params
    bounds = [(-1.0, 1.0) if one else (None, None) for one in fixed.tolist()]
    multipliers = optimise(-wanted, A_ub=matrix, b_ub=np.zeros(matrix.shape[0]), bounds=bounds)
    if multipliers is None or (size := float(wanted @ multipliers)) <= 10 * PRECISION * len(columns):
        return multipliers is not None
    involved = model.positions[columns[fixed & (np.abs(multipliers) > LOWERED)]]
    sets = {tuple(np.flatnonzero(cell).tolist()) for cell in involved}
    largest = sorted(modes for modes in sets if not any(set(modes) < set(other) for other in sets))
    raise InvalidMargins(
        "margins contradict each other, although every two of them agree on what they share. No distribution has all "
        f"the margins over modes {shorten(', '.join(map(str, largest)), 200)}: their expectations would have to change "
        f"by {size:.3g} altogether, as a share of the total."
    )


# --- linear programs over cells of a grid or of tables ---------------------------------------------------------------


def find_vanishing(
    matrix: Any, zero: Any, reaches: tuple[float, ...] = (1e4, 1e2)
) -> tuple[BoolArray, FloatArray] | None:
    """Mark the cells that are 0 in every tensor that meets some equations; ``None`` if the program is not solved.

    `matrix` (cells x equations) is sparse. The rows of `zero` are combinations of multipliers of the equations that
    have to be 0: the right hand sides, or the rows of cells that are known to be positive in some such tensor. A cell
    is 0 in all of them if and only if there are such multipliers that add up to at most 0 on every cell and to less
    than 0 on this one (Goldman and Tucker 1956). Sums and multiples of such multipliers are such multipliers too. So
    one program finds all these cells: each has a variable, its fall, between 0 and 1, which is at most minus the sum of
    its multipliers, and the sum of all falls is maximised. Falls are then 1 for these cells and 0 for the others.
    Multipliers, which are returned too, lie within a reach: with large ones the program takes sums for 0 that are not,
    or fails. Then a smaller reach is tried; its answer counts if every fall is nearly 0 or 1.
    """
    from scipy.sparse import csr_array, eye_array, hstack

    cells, entries = matrix.shape
    # the unknowns: first a multiplier for each equation, then a fall for each cell
    for reach in reaches:
        answer = optimise(
            np.concatenate([np.zeros(entries), -np.ones(cells)]),
            A_ub=hstack([matrix, eye_array(cells)], format="csr"),
            b_ub=np.zeros(cells),
            A_eq=hstack([csr_array(zero), csr_array((zero.shape[0], cells))], format="csr"),
            b_eq=np.zeros(zero.shape[0]),
            bounds=[(-reach, reach)] * entries + [(0.0, 1.0)] * cells,
        )
        if answer is not None and (np.abs(answer[entries:] - 0.5) > 0.4).all():
            return np.asarray(answer[entries:] > 0.5), answer[:entries]
    return None


def optimise(costs: FloatArray, precision: float = PRECISION, **constraints: Any) -> FloatArray | None:
    """Minimise ``costs . x`` under the constraints, which are arguments of `linprog`; ``None`` if HiGHS fails.

    Constraints hold to within `precision`, which must exceed the rounding of their entries. A program that fails with
    HiGHS's presolve is tried again without it. Its interior point method may never end.
    """
    from scipy.optimize import linprog

    exact: Any = {"primal_feasibility_tolerance": precision, "dual_feasibility_tolerance": precision}
    for presolve in (True, False):
        answer = linprog(costs, method="highs", options=exact | {"presolve": presolve}, **constraints)
        if answer.status == 0 and answer.x is not None:
            return np.asarray(answer.x)
    return None
