"""Identifiability: which cells outside the sample space have a value that the observed cells determine.

The model's logarithm at a cell v is ``c + sum of theta_u over u <= v``. The observed cells determine it if and only if
the vector (1, features of v) is a linear combination of those of observed cells. Equivalently, every *function of the
model*, a constant plus a combination of features, that is 0 on all observed cells is 0 at v too. A few random functions
with this property decide about all cells at once: with probability 1, each differs from 0 wherever any does.
"""

from __future__ import annotations

from sys import float_info

import numpy as np

from legendre.core import limits
from legendre.core.sums.linalg import independent_columns
from legendre.core.sums.quotient import sum_others
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.model.model import Model, generating_margins
from legendre.solvers.structure.rank import covariance

# Below the first bound a value of a random function, whose coefficients are of size 1, is a rounding error; above the
# second it is not. If any value lies between them, nothing is claimed.
SURELY_ZERO, SURELY_NOT = 1e-7, 1e-5


@frozen
class Identified:
    """Marks of merged cells: what the observed cells determine."""

    value: BoolArray  # True where they determine the model's value
    zero: BoolArray  # True where they determine that the value is 0 in the limit; only if cells vanish


def identify(model: Model, face: BoolArray | None = None) -> Identified | None:
    """Find the merged cells whose value the sample space determines; ``None`` if that cannot be decided.

    It cannot if the problem is too large, or if values are neither clearly 0 nor clearly different. Completion asks
    this about missing cells.

    If cells vanish, only the cells of the face (True in `face`; by default all of Omega) have a positive value. A cell
    that is not a combination of them is 0 in the limit if it is a combination of them plus nonnegative multiples of
    cells that vanish; otherwise its value is not determined.

    >>> from legendre.data.observation import Support
    >>> mask = np.array([[True, True, False], [True, False, False]])
    >>> one_body = np.array([[1, 0], [0, 1], [0, 2]])
    >>> identify(Model.of(Support((2, 3), mask), None, one_body)).value.tolist()
    [[True, True, False], [True, True, False]]
    """
    observed = model.alive if face is None else model.on_grid(face)
    # if the bottom and all cells of B are observed, Möbius inversion gives theta, and so every value
    if observed[(0,) * observed.ndim] and observed[tuple(model.positions.T)].all():
        return Identified(np.ones(observed.shape, dtype=np.bool_), np.zeros(observed.shape, dtype=np.bool_))
    functions = vanishing_functions(model, observed)
    if functions is None:
        return None
    value = np.abs(functions).max(axis=0, initial=0.0) <= SURELY_ZERO
    gone = model.alive & ~observed
    unknown = ~(value | gone)
    if not gone.any() or not unknown.any():
        return Identified(value, gone & ~value)
    return Identified(value, _mark_cone(model, observed, functions, unknown, gone) & ~value)


def vanishing_functions(model: Model, observed: BoolArray) -> FloatArray | None:
    """Draw random functions of the model that are 0 on the observed cells (n x the merged grid).

    Large sets of margins are tried without a matrix first. ``None`` if no method gives values that are clearly 0 or
    clearly not, or if the basis is too large for a matrix.
    """
    for draw in (from_margins, from_covariance):
        functions = draw(model, observed)
        if functions is not None and _is_clear(functions, observed):
            return functions
    return None


def _is_clear(functions: FloatArray, observed: BoolArray) -> bool:
    """Return whether the functions are 0 on the observed cells, and at every other cell clearly 0 or clearly not."""
    size = np.abs(functions).max(axis=0, initial=0.0)
    return bool(size[observed].max() <= SURELY_ZERO and not ((size > SURELY_ZERO) & (size < SURELY_NOT)).any())


def open_directions(model: Model, kept: IntArray | None = None, most: int | None = None) -> FloatArray:
    """Return directions in theta (n x parameters) that leave Q unchanged on the cells of a model.

    Such a direction changes log q by the same amount in all these cells. There is one for each parameter that depends
    on others: the feature is written as a combination of the independent ones, by the covariance of the features. If
    there are more than `most`, the result is that many random combinations of them. `kept` are the independent
    parameters, if they are known.
    """
    g = covariance(model)
    kept = independent_columns(g.copy(), model.n_summed) if kept is None else kept
    lost = np.setdiff1d(np.arange(len(g)), kept)
    weights = np.eye(len(lost))
    if most is not None and len(lost) > most:
        weights = np.random.default_rng(0).normal(size=(most, len(lost)))
    if model.ties is not None:  # tied features have values of any size: their coefficients are divided by it
        weights /= np.maximum(model.ties.collect_sizes(np.ones(model.ties.n_cells))[lost], float_info.min)
    directions = np.zeros((len(weights), len(g)))
    directions[:, lost] = weights
    directions[:, kept] = -np.linalg.solve(g[np.ix_(kept, kept)], g[np.ix_(kept, lost)] @ weights.T).T
    return round_near(directions)


def round_near(numbers: FloatArray, rounding: float = 1e-9) -> FloatArray:
    """Replace numbers that differ from an integer by less than `rounding` by that integer."""
    integers = np.rint(numbers)
    return np.where(np.abs(numbers - integers) < rounding, integers, numbers)


def from_covariance(
    model: Model, observed: BoolArray, *, every: bool = False, most_directions: int = 300
) -> FloatArray | None:
    """Draw functions that are 0 on the observed cells, by the covariance matrix of the features there.

    With `every` the result is a basis of all such functions, or ``None`` if it has more than `most_directions`.
    Otherwise it is four random ones at most: the chance that all of them are near 0 at a cell where some function is
    not is negligible. ``None`` also if the basis is too large for a matrix.
    """
    if len(model.positions) > limits.LARGEST_MATRIX:
        return None
    directions = open_directions(model.on_face(observed), most=most_directions + 1 if every else 4)
    if len(directions) > most_directions:
        return None
    functions = np.empty((len(directions), *observed.shape))
    for function, direction in zip(functions, directions, strict=True):
        function[...] = model.below(direction)
        function -= function[observed].mean()  # it is constant there
    return functions


def from_margins(model: Model, observed: BoolArray) -> FloatArray | None:
    """Draw functions by `from_tables` for a large basis that is a set of margins; ``None`` for any other basis."""
    margins = generating_margins(model) if model.n_params >= limits.TABLES_FROM else None
    return None if margins is None else from_tables(margins, observed)


def from_tables(
    margins: list[Modes], observed: BoolArray, *, n_draws: int = 4, max_visits: float = 1e11
) -> FloatArray | None:
    """Draw functions that are 0 on the observed cells, without a matrix, for a basis that is a set of margins.

    The functions of such a model are sums of tables, one for each margin. Random tables are drawn, and the tables of
    least norm with the same sum on the observed cells, which LSQR finds, are subtracted. ``None`` if that would visit
    cells more than `max_visits` times. `observed` marks the observed cells of the merged grid.
    """
    from scipy.sparse.linalg import LinearOperator, lsqr

    shapes = [tuple(n if k in modes else 1 for k, n in enumerate(observed.shape)) for modes in margins]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def spread(tables: FloatArray) -> FloatArray:
        """Add the tables up on the grid."""
        out = np.zeros(observed.shape)
        for part, shape in zip(np.split(tables, ends[:-1]), shapes, strict=True):
            out += part.reshape(shape)
        return out

    def collect(values: FloatArray) -> FloatArray:
        """Sum values on the observed cells onto the margins: the transpose of `spread` on those cells."""
        grid = np.zeros(observed.shape)
        grid[observed] = values
        return np.concatenate([sum_others(grid, modes).ravel() for modes in margins])

    size = np.count_nonzero(observed), int(ends[-1])
    # a step of LSQR visits every cell twice for each margin
    most = min(2_000, int(max_visits / (2.0 * n_draws * len(margins) * observed.size)))
    operator = LinearOperator(size, lambda tables: spread(tables)[observed], collect, dtype=np.float64)
    rng = np.random.default_rng(0)
    functions = np.empty((n_draws, *observed.shape))
    for function in functions:
        function[...] = spread(rng.normal(size=size[1]))
        answer = lsqr(operator, function[observed], atol=1e-14, btol=1e-14, conlim=0, iter_lim=most)
        if answer[1] == 7:  # LSQR has reached iter_lim
            return None
        function -= spread(answer[0])
    return functions


def _mark_cone(
    model: Model,
    observed: BoolArray,
    functions: FloatArray,
    unknown: BoolArray,
    gone: BoolArray,
    *,
    same: float = 1e-6,
    most_cones: int = 3_000,
) -> BoolArray:
    """Mark the cells that lie, up to combinations of the face, in the cone that the vanishing cells span; and these.

    The values at a cell of all functions that are 0 on the face (`observed`) are a vector, and its multiples are a ray.
    A cell that is `unknown` is 0 in the limit if its ray is in the cone of the rays of cells that are `gone`. The
    random `functions` are enough to recognise a ray that is equal to one of these. For a sum of several rays, a basis
    of all functions is needed, and nonnegative least squares decides. Rays of length 1 that differ by at most `same`
    count as equal: their coordinates are ratios of small integers, so different rays differ by more. More than
    `most_cones` least squares would take too long; cells are then left unmarked.
    """
    from scipy.optimize import nnls
    from scipy.spatial import cKDTree

    zero = gone.copy()
    zero[unknown] = cKDTree(_scale_to_unit(functions[:, gone])).query(_scale_to_unit(functions[:, unknown]))[0] <= same
    left = unknown & ~zero
    basis = from_covariance(model, observed, every=True) if left.any() else None
    if basis is not None:
        rows, place = np.unique(_scale_to_unit(basis[:, left]).round(9), axis=0, return_inverse=True)
        if len(rows) <= most_cones:
            rays = np.unique(_scale_to_unit(basis[:, gone]).round(9), axis=0).T
            inside = np.array([nnls(rays, row)[1] <= same for row in rows], dtype=np.bool_)
            zero[left] = inside[place.reshape(-1)]
    return zero


def _scale_to_unit(columns: FloatArray) -> FloatArray:
    """Transpose a matrix and scale its rows to length 1: rays that differ by a factor become the same row."""
    return np.asarray(columns.T / np.linalg.norm(columns, axis=0)[:, None])
