"""Two nested models of one table, compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name, find, member, unique_cells
from legendre.core.errors import InvalidQuery
from legendre.core.text_table import named_values
from legendre.core.types import AnyArray, BoolArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.data.sparse import Sparse
from legendre.data.support import Support
from legendre.model.model import Model
from legendre.results.base import Storable
from legendre.results.file import Archive, Arrays, pack_plain, read_plain
from legendre.results.inference.counts import chi_square_p, counts_of
from legendre.results.inference.printout import shown
from legendre.results.report import count_name
from legendre.solvers.before.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True)
class LikelihoodRatio(Storable):
    """The statistic ``G2(small) - G2(large)``, its degrees of freedom, and its p-value (NaN without any)."""

    format: ClassVar[str] = "legendre-likelihood-ratio"

    statistic: float
    df: int
    p_value: float

    def summary(self) -> str:
        """Return the test as a table."""
        rows = [("G2(small) - G2(large)", f"{self.statistic:.4f}"), ("df", count_name(self.df))]
        if self.df > 0:
            rows.append(("p", shown(self.p_value)))
        return named_values("Likelihood ratio of nested models", rows)

    def to_arrays(self) -> Arrays:
        """List the three numbers."""
        return pack_plain(self)

    @classmethod
    def from_arrays(cls, arrays: Archive) -> Self:
        """Put the test together again."""
        return cls(**read_plain(cls, arrays))


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
    g2 = counts_of(small).g2() - counts_of(large).g2()
    _check_same_table(small, large)
    _check_nested(small, large)
    df = _rank_on_face(large.basis, small) - small.rank
    statistic = max(g2, 0.0)  # rounding may leave -1e-13
    return LikelihoodRatio(statistic, df, chi_square_p(statistic, df))


def _rank(basis: IntArray, support: Support) -> int:
    """Count independent features on the cells of a sample space."""
    return len(independent(Model.of(support, None, basis)))


def _rank_on_face(basis: IntArray, fit: Decomposition) -> int:
    """Count independent features on the cells to which a fit gives probability."""
    support = fit.model.support
    if fit.alive is None:
        return _rank(basis, support)
    # boxes that both bases cut: each lies in one box of the fit, and carries probability where that does
    model = Model.of(support, None, unique_cells(np.concatenate([basis, fit.basis])))
    inside = [fit.model.quotient.boxes_along(k, cuts) for k, cuts in enumerate(model.quotient.cuts)]
    face = model.on_face(model.alive & fit.alive[np.ix_(*inside)])
    return len(independent(face.with_columns(find(basis, model.basis))))


def _check_same_table(small: Decomposition, large: Decomposition) -> None:
    if small.shape != large.shape:
        raise InvalidQuery(f"the tables differ: one has shape {small.shape}, the other {large.shape}.")
    if small.data is None or large.data is None:
        return
    if isinstance(small.data, Sparse) and isinstance(large.data, Sparse):
        _check_same_entries(small.data, large.data)
        return
    omega, other = small.model.support.on_grid(), large.model.support.on_grid()
    _refuse_difference("supports", omega != other, omega, other)
    x, y = (_on_grid(data) for data in (small.data, large.data))
    _refuse_difference("tables", omega & (x != y), x, y)
    if small.model.base is not None or large.model.base is not None:
        r, s = (np.ones(fit.shape) if fit.model.base is None else fit.model.base for fit in (small, large))
        _refuse_difference("base measures", omega & (r != s), r, s)


def _check_same_entries(one: Sparse, other: Sparse) -> None:
    """Compare two lists of entries; without a grid, supports are equal when both are full or the lists are."""
    if one.support.full != other.support.full:
        raise InvalidQuery(
            "the supports differ: one is the whole grid, the other the cells with data. A likelihood ratio compares "
            "two models of the same counts on the same support."
        )
    if one.cells is other.cells and one.values is other.values:
        return
    every = unique_cells(np.concatenate([one.cells, other.cells]))
    x, y = one.at(every), other.at(every)
    where = np.flatnonzero(x != y)
    if len(where):
        raise _difference("tables", every[where[0]], x[where[0]], y[where[0]])


def _on_grid(data: Observation) -> AnyArray:
    """Return X with every cell, formed where it is a list beside a dense one."""
    if not isinstance(data, Sparse):
        return in_memory(data, "a likelihood ratio").values
    grid = np.zeros(data.shape, dtype=data.values.dtype)
    grid[tuple(data.cells.T)] = data.values
    return grid


def _refuse_difference(what: str, different: BoolArray, one: AnyArray, other: AnyArray) -> None:
    where = np.argwhere(different)
    if len(where):
        place = tuple(where[0])
        raise _difference(what, place, one[place], other[place])


def _difference(what: str, place: object, one: object, other: object) -> InvalidQuery:
    return InvalidQuery(
        f"the {what} differ, first at {cell_name(place)}: {one} and {other}. A likelihood ratio "
        "compares two models of the same counts on the same support."
    )


def _check_nested(small: Decomposition, large: Decomposition) -> None:
    if member(small.basis, large.basis).all():
        return
    union = unique_cells(np.concatenate([large.basis, small.basis]))
    if len(union) > limits.LARGEST_MATRIX:
        raise InvalidQuery(f"whether the models are nested is not checked beyond {limits.LARGEST_MATRIX:,} parameters.")
    omega = small.model.support
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
