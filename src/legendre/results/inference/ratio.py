"""Two nested models of one table, compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name, member, unique_cells
from legendre.core.errors import InvalidQuery
from legendre.core.types import AnyArray, BoolArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.support import Support
from legendre.model.model import Model
from legendre.results.inference.chisquare import chi_square_p
from legendre.results.inference.counts import counts_of
from legendre.solvers.before.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True)
class LikelihoodRatio:
    """The statistic ``G2(small) - G2(large)``, its degrees of freedom, and its p-value (NaN without any)."""

    statistic: float
    df: int
    p_value: float


def likelihood_ratio(small: Decomposition, large: Decomposition) -> LikelihoodRatio:
    """Test a model against a larger one that contains it.

    Parameters
    ----------
    small, large
        Fits of the same counts on the same support. Every feature of `small` must be a linear combination of those of
        `large` (and the constant) on the support; the bases need not contain each other.

    Notes
    -----
    The degrees of freedom are the parameters that `large` has in addition on the cells to which `small` gives
    probability. Where cells vanish in `large` alone, the chi-square distribution is a rough approximation.

    Examples
    --------
    >>> import legendre as ld
    >>> table = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])
    >>> chain, pairs = (ld.decompose(table, ld.interactions(s)) for s in ([(0, 2), (1, 2)], 2))
    >>> test = ld.likelihood_ratio(chain, pairs)
    >>> round(test.statistic, 3), test.df
    (187.38, 1)
    """
    for fit in (small, large):
        if not hasattr(fit, "inference"):
            raise InvalidQuery(f"likelihood_ratio compares two results of decompose, got a {type(fit).__name__}.")
    counts = counts_of(small)
    g2 = counts.g2() - counts_of(large).g2()
    _check_same_table(small, large)
    _check_nested(small, large)
    df = _rank(large.basis, counts.alive) - small.rank
    statistic = max(g2, 0.0)  # rounding may leave -1e-13
    return LikelihoodRatio(statistic, df, chi_square_p(statistic, df))


def _rank(basis: IntArray, cells: BoolArray) -> int:
    """Count independent features on some cells of the grid."""
    return len(independent(Model.of(Support(cells.shape, None if cells.all() else cells), None, basis)))


def _check_same_table(small: Decomposition, large: Decomposition) -> None:
    if small.shape != large.shape:
        raise InvalidQuery(f"the tables differ: one has shape {small.shape}, the other {large.shape}.")
    omega, other = small.model.support.on_grid(), large.model.support.on_grid()
    _refuse_difference("supports", omega != other, omega, other)
    if small.data is not None and large.data is not None:
        x, y = (in_memory(data, "a likelihood ratio").values for data in (small.data, large.data))
        _refuse_difference("tables", omega & (x != y), x, y)
    if small.model.base is not None or large.model.base is not None:
        r, s = (np.ones(fit.shape) if fit.model.base is None else fit.model.base for fit in (small, large))
        _refuse_difference("base measures", omega & (r != s), r, s)


def _refuse_difference(what: str, different: BoolArray, one: AnyArray, other: AnyArray) -> None:
    where = np.argwhere(different)
    if len(where):
        place = tuple(where[0])
        raise InvalidQuery(
            f"the {what} differ, first at {cell_name(place)}: {one[place]} and {other[place]}. A likelihood ratio "
            "compares two models of the same counts on the same support."
        )


def _check_nested(small: Decomposition, large: Decomposition) -> None:
    if member(small.basis, large.basis).all():
        return
    union = unique_cells(np.concatenate([large.basis, small.basis]))
    if len(union) > limits.LARGEST_MATRIX:
        raise InvalidQuery(f"whether the models are nested is not checked beyond {limits.LARGEST_MATRIX:,} parameters.")
    omega = small.model.support.on_grid()
    together = _rank(union, omega)
    if together == _rank(large.basis, omega):
        return
    if together == _rank(small.basis, omega):
        raise InvalidQuery("the models are nested the other way round: call likelihood_ratio(large, small) swapped.")
    strange = small.basis[np.flatnonzero(~member(small.basis, large.basis))[0]]
    raise InvalidQuery(
        f"the models are not nested: small has features that large lacks, e.g. the one of cell {cell_name(strange)} of "
        "its basis. A likelihood ratio needs every feature of small in the span of large's."
    )
