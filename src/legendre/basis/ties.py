"""Association models of two modes: uniform, row and column effects, symmetry, diagonals, topological levels.

Each is a basis whose parameters act on many cells at once. They combine with other bases by ``|``, ``&`` and ``-``:
``ld.interactions(1) | ld.ties.uniform("father", "son")``. Modes are named as X names them, or counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.features import Columns, Tied, corners
from legendre.basis.interactions import mode_sets
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode
from legendre.core.origin import read_array
from legendre.core.tied_parameters import Column
from legendre.core.types import AnyArray, FloatArray

__all__ = ["columns", "diagonal", "linear", "quasi_symmetric", "rows", "symmetric", "topological", "uniform"]


def uniform(a: Mode, b: Mode) -> Basis:
    """Tie the association of two modes to one parameter: the log odds ratio of any two neighbouring levels of both.

    See Also
    --------
    legendre.ties.linear : The same with scores of your own.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 10]], ld.interactions(1) | ld.ties.uniform(0, 1))
    >>> fit.parameters().names[-1], round(float(fit.theta[-1]), 4)
    ('mode 0 by mode 1, per step of both', 0.6931)
    """
    return _tie_pair("uniform", a, b, partial(_list_product, (None, None)))


def linear(a: Mode, b: Mode, scores: Mapping[Mode, Any] | Sequence[Any] | None = None) -> Basis:
    """Tie the association of two modes to one parameter times the product of their levels' scores.

    Parameters
    ----------
    a, b
        Two modes.
    scores
        A list of scores for each of them, or a dict ``{mode: scores}``; by default 0, 1, 2, ..., which is `uniform`.

    See Also
    --------
    legendre.ties.uniform : Scores 0, 1, 2, ...
    legendre.ties.rows : Scores of one variable only.

    Examples
    --------
    >>> import legendre as ld
    >>> linear = ld.ties.linear(0, 1, scores={1: [0, 1, 3]})
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 20]], ld.interactions(1) | linear)
    >>> round(float(fit.theta[-1]), 4)
    0.6931
    """
    of_a = of_b = None
    if isinstance(scores, Mapping):
        for key in scores.keys() - {a, b}:
            raise InvalidBasis(f"linear: scores for {key!r}, but the modes are {a!r} and {b!r}.")
        of_a, of_b = scores.get(a), scores.get(b)
    elif scores is not None:
        try:
            of_a, of_b = scores
        except (TypeError, ValueError):
            raise InvalidBasis(
                f"linear: scores={scores!r}; give two lists, one for each mode, or a dict such as {{{a!r}: [...]}}."
            ) from None
    return _tie_pair("linear", a, b, partial(_list_product, (of_a, of_b)), scores)


def rows(a: Mode, b: Mode, scores: ArrayLike | None = None) -> Basis:
    """Give each level of the first mode its own slope in the scores of the second mode: row effects.

    Parameters
    ----------
    a, b
        Two modes; the levels of `a` have parameters, the first level none.
    scores
        A score for each level of `b`; by default 0, 1, 2, ...

    See Also
    --------
    legendre.ties.columns : The same with the variables exchanged.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 10]], ld.interactions(1) | ld.ties.rows(0, 1))
    >>> fit.parameters().names[-1]
    'mode 0 = 1, per step of mode 1'
    """
    return _tie_pair("rows", a, b, partial(_list_slopes, 0, scores), scores)


def columns(a: Mode, b: Mode, scores: ArrayLike | None = None) -> Basis:
    """Give each level of the second mode its own slope in the scores of the first mode: column effects.

    Parameters
    ----------
    a, b
        Two modes; the levels of `b` have parameters, the first level none.
    scores
        A score for each level of `a`; by default 0, 1, 2, ...

    See Also
    --------
    legendre.ties.rows : The same with the variables exchanged.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 10]], ld.interactions(1) | ld.ties.columns(0, 1))
    >>> fit.parameters().names[-1]
    'mode 1 = 2, per step of mode 0'
    """
    return _tie_pair("columns", a, b, partial(_list_slopes, 1, scores), scores)


def symmetric(a: Mode, b: Mode) -> Basis:
    """Make the model in which two modes with the same levels are exchangeable: ``q_ij = q_ji``.

    See Also
    --------
    legendre.ties.quasi_symmetric : Symmetry beyond the margins.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[5, 2, 1], [4, 5, 3], [3, 1, 5]], ld.ties.symmetric(0, 1)).tensor().round(6).tolist()
    [[5.0, 3.0, 2.0], [3.0, 5.0, 2.0], [2.0, 2.0, 5.0]]
    """
    return _tie_pair("symmetric", a, b, _list_symmetric_features)


def quasi_symmetric(a: Mode, b: Mode) -> Basis:
    """Make the model of two modes with the same levels whose association is symmetric, while their margins are free.

    See Also
    --------
    legendre.ties.symmetric : Symmetry, margins included.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[5, 2, 1], [4, 5, 3], [3, 1, 5]], ld.ties.quasi_symmetric(0, 1)).inference().df
    1
    """
    return _tie_pair("quasi_symmetric", a, b, _list_symmetric_features)


def diagonal(a: Mode, b: Mode) -> Basis:
    """Give a parameter to each cell in which two modes have the same level: quasi-independence, with `interactions(1)`.

    See Also
    --------
    legendre.ties.topological : Levels of any pattern of cells.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[9, 2, 1], [4, 9, 3], [3, 1, 9]], ld.interactions(1) | ld.ties.diagonal(0, 1))
    >>> fit.parameters().names[-1], fit.tensor().diagonal().round(6).tolist()
    ('mode 0 = mode 1 = 2', [9.0, 9.0, 9.0])
    """
    return _tie_pair("diagonal", a, b, _list_diagonal_features)


def topological(levels: ArrayLike, *modes: Mode) -> Basis:
    """Give one parameter to all cells that have the same value in a table of values: Hauser's levels models.

    Parameters
    ----------
    levels
        Whole numbers, one for each cell of the modes; the lowest level has no parameter.
    modes
        The modes of the table, in its order; by default all of X.

    See Also
    --------
    legendre.ties.diagonal : A level for each cell of the diagonal.
    features : Any functions of cells.

    Examples
    --------
    >>> import legendre as ld
    >>> corner = ld.ties.topological([[2, 1, 1], [1, 1, 1], [1, 1, 2]])
    >>> fit = ld.decompose([[9, 2, 1], [4, 9, 3], [3, 1, 9]], ld.interactions(1) | corner)
    >>> fit.parameters().names[-1], round(float(fit.theta[-1]), 4)
    ('level 2', 2.011)
    """
    table = read_array(levels, "topological: levels", InvalidBasis)
    if table.dtype.kind not in "iu" or table.ndim == 0 or table.size == 0:
        raise InvalidBasis(
            f"topological: levels must be a table of whole numbers, got shape {table.shape}, dtype {table.dtype}."
        )
    named = mode_sets("topological", [modes])[0] if modes else ()
    if named and len(named) != table.ndim:
        raise InvalidBasis(f"topological: levels has {table.ndim} axes, but {len(named)} modes are named.")
    arguments = f"{table.tolist()}{''.join(f', {mode!r}' for mode in named)}"
    return Tied("topological", named, partial(_list_level_features, table), arguments)


def _tie_pair(name: str, a: Mode, b: Mode, columns: Columns, scores: Any = None) -> Basis:
    """Make the basis of two modes that the public function `name` returns.

    `columns` lists its parameters when the levels are known. `scores`, as the caller gave them, are for the repr.
    """
    more = "" if scores is None else f", scores={scores!r}"
    return Tied(name, mode_sets(name, [(a, b)])[0], columns, f"{a!r}, {b!r}{more}")


def _list_product(scores: tuple[Any, Any], name: str, labels: Labels) -> Iterator[Column]:
    """List the one parameter of `linear` and `uniform`: its feature is the product of the scores of both modes.

    `name` is the public function that was called, and `scores` are those of both modes, ``None`` for 0, 1, 2, ...
    """
    tables = [_read_scores(name, labels, k, given) for k, given in enumerate(scores)]
    by = "per step of both" if scores[0] is scores[1] is None else "per unit of both scores"
    yield *corners(np.multiply.outer(*tables)), f"{labels.mode(0)} by {labels.mode(1)}, {by}"


def _list_slopes(level: int, scores: Any, name: str, labels: Labels) -> Iterator[Column]:
    """List the parameters of `rows` and `columns`: a slope in the scores of one mode for each level of the other.

    The levels of mode `level` have parameters, all but the first; `scores` are those of the other mode.
    """
    along = 1 - level
    slope = _read_scores(name, labels, along, scores)
    step = labels.mode(along) if scores is None else f"the scores of {labels.mode(along)}"
    for i in range(1, labels.shape[level]):
        table = np.zeros(labels.shape)
        np.moveaxis(table, level, 0)[i] = slope
        yield *corners(table), f"{labels.mode(level)} = {labels.level(level, i)}, per step of {step}"


def _read_scores(name: str, labels: Labels, k: int, given: Any) -> FloatArray:
    """Read the scores of a mode, minus that of its first level; by default 0, 1, 2, ...

    A product of scores is then 0 in the first row and column. With the one-body parameters in the basis, as usual, the
    subtraction does not change the model.
    """
    if given is None:
        return np.arange(labels.shape[k], dtype=np.float64)
    values = read_array(given, f"{name}: scores of {labels.mode(k)}", InvalidBasis)
    if values.shape != (labels.shape[k],) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise InvalidBasis(
            f"{name}: scores of {labels.mode(k)}, which has {labels.shape[k]} levels, must be one finite number for "
            f"each level, got {given!r}."
        )
    ordered = labels.part((k,)).arrange(values.astype(np.float64))
    return np.asarray(ordered - ordered[0])


def _list_symmetric_features(name: str, labels: Labels) -> Iterator[Column]:
    """List the parameters of (quasi-)symmetry: that of the cell (i, j) is tied to that of (j, i).

    In quasi-symmetry this holds only for cells with both coordinates above 0, and each mode has its own one-body
    parameters. A parameter with an empty name is that of a single cell, which names it.
    """
    n, quasi = _count_levels(name, labels), name == "quasi_symmetric"
    if quasi:
        for k in range(2):
            # the cells (i, 0) for the first mode, (0, i) for the second
            yield from ((np.eye(2, dtype=np.int64)[[k]] * i, np.ones(1), "") for i in range(1, n))
    for i in range(int(quasi), n):
        for j in range(max(i, 1), n):
            cells = np.array([[i, j]] if i == j else [[i, j], [j, i]], dtype=np.int64)
            steps = ", ".join(f"{labels.mode(k)} >= {labels.level(k, u)}" for k, u in enumerate((i, j)) if u)
            yield cells, np.ones(len(cells)), "" if i == j else f"{steps}, and the other way round"


def _list_diagonal_features(name: str, labels: Labels) -> Iterator[Column]:
    """List a parameter for each cell of the diagonal; its feature is the indicator of the cell."""
    for i in range(_count_levels(name, labels)):
        table = np.zeros(labels.shape)
        table[i, i] = 1.0
        one, other = labels.level(0, i), labels.level(1, i)
        same = f"{labels.mode(0)} = {labels.mode(1)} = {one}"
        yield *corners(table), same if one == other else f"{labels.mode(0)} {one}, {labels.mode(1)} {other}"


def _list_level_features(table: AnyArray, name: str, labels: Labels) -> Iterator[Column]:
    """List a parameter for each value in a table but the lowest; its feature is 1 in the cells with that value."""
    if table.shape != labels.shape:
        among = ", ".join(f"{labels.mode(k)} ({n})" for k, n in enumerate(labels.shape))
        raise InvalidBasis(
            f"{name}: levels has shape {table.shape}, but the modes are {among}. Give one entry for each cell of "
            f"them; name the modes if X has more: {name}(levels, 'father', 'son')."
        )
    levels = labels.arrange(table)
    for level in np.unique(levels)[1:]:
        yield *corners((levels == level).astype(np.float64)), f"level {level}"


def _count_levels(name: str, labels: Labels) -> int:
    """Return the number of levels of two modes; raise InvalidBasis if the modes do not have the same levels.

    Levels with different names are matched by their order; the same names in another order are an error.
    """
    n, m = labels.shape
    if n != m:
        raise InvalidBasis(
            f"{name}: {labels.mode(0)} has {n} levels, {labels.mode(1)} has {m}; the two must have the same levels."
        )
    one, other = ([labels.level(k, i) for i in range(n)] for k in range(2))
    if one != other and set(one) == set(other):
        raise InvalidBasis(
            f"{name}: {labels.mode(0)} and {labels.mode(1)} have the same levels in different orders "
            f"({', '.join(one[:4])}, ... and {', '.join(other[:4])}, ...). Put them in the same order."
        )
    return n
