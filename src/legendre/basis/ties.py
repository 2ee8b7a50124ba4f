"""Association models of two modes: uniform, row and column effects, symmetry, diagonals, topological levels.

Each is a basis whose parameters act on many cells at once. They combine with other bases by ``|``, ``&`` and ``-``:
``ld.interactions(1) | ld.ties.uniform("father", "son")``. Modes are named as X names them, or counted from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from legendre.basis.associations import Diagonal, Scored, Symmetric, Topological
from legendre.basis.basis import Basis
from legendre.basis.interactions import mode_sets
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Mode
from legendre.core.types import AnyArray

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
    return Scored("uniform", _pair("uniform", a, b))


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
    modes = _pair("linear", a, b)
    return Scored("linear", modes, _scores("linear", modes, scores))


def rows(a: Mode, b: Mode, scores: ArrayLike | None = None) -> Basis:
    """Give each level of the first mode its own effect of the second one's steps, or scores: row effects.

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
    modes = _pair("rows", a, b)
    return Scored("rows", modes, {} if scores is None else {modes[1]: scores})


def columns(a: Mode, b: Mode, scores: ArrayLike | None = None) -> Basis:
    """Give each level of the second mode its own effect of the first one's steps, or scores: column effects.

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
    modes = _pair("columns", a, b)
    return Scored("columns", modes, {} if scores is None else {modes[0]: scores})


def symmetric(a: Mode, b: Mode) -> Basis:
    """Make the model in which two modes with the same levels may change places: ``q_ij = q_ji``.

    See Also
    --------
    legendre.ties.quasi_symmetric : Symmetry beyond the margins.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[5, 2, 1], [4, 5, 3], [3, 1, 5]], ld.ties.symmetric(0, 1)).tensor().round(6).tolist()
    [[5.0, 3.0, 2.0], [3.0, 5.0, 2.0], [2.0, 2.0, 5.0]]
    """
    return Symmetric("symmetric", _pair("symmetric", a, b))


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
    return Symmetric("quasi_symmetric", _pair("quasi_symmetric", a, b))


def diagonal(a: Mode, b: Mode) -> Basis:
    """Give each cell in which two modes have the same level a parameter: quasi-independence, with `interactions(1)`.

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
    return Diagonal("diagonal", _pair("diagonal", a, b))


def topological(levels: ArrayLike, *modes: Mode) -> Basis:
    """Give all cells of a table that have the same level one parameter: Hauser's levels models.

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
    table: AnyArray = rectangular(levels, "topological: levels", InvalidBasis)
    if table.dtype.kind not in "iu" or table.ndim == 0 or table.size == 0:
        raise InvalidBasis(
            f"topological: levels must be a table of whole numbers, got shape {table.shape}, dtype {table.dtype}."
        )
    named = mode_sets("topological", [modes])[0] if modes else ()
    if named and len(named) != table.ndim:
        raise InvalidBasis(f"topological: levels has {table.ndim} axes, but {len(named)} modes are named.")
    return Topological("topological", named, table)


def _pair(name: str, a: Mode, b: Mode) -> tuple[Mode, ...]:
    return mode_sets(name, [(a, b)])[0]


def _scores(name: str, modes: tuple[Mode, ...], scores: Mapping[Mode, Any] | Sequence[Any] | None) -> dict[Mode, Any]:
    """Read scores as a caller gives them: by mode, or one list for each mode in order."""
    if scores is None:
        return {}
    if isinstance(scores, Mapping):
        unknown = [key for key in scores if key not in modes]
        if unknown:
            raise InvalidBasis(f"{name}: scores for {unknown[0]!r}, but the modes are {modes[0]!r} and {modes[1]!r}.")
        return dict(scores)
    try:
        one, other = scores
    except (TypeError, ValueError):
        raise InvalidBasis(
            f"{name}: scores={scores!r}; give two lists, one for each mode, or a dict such as {{{modes[0]!r}: [...]}}."
        ) from None
    return {modes[0]: one, modes[1]: other}
