"""Two nested models of one table, compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name, find, unique_cells
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.core.text_table import NamedValues, Table
from legendre.core.tied_parameters import Terms, joined
from legendre.core.types import AnyArray, BoolArray, IntArray
from legendre.data.support import Support
from legendre.model.cliques.messages import propagate
from legendre.model.cliques.tables import n_free, parts_of, saturated, with_parts
from legendre.model.model import Model
from legendre.results.base import Storable
from legendre.results.file_check import same
from legendre.results.file_format import Archive, Arrays, pack_plain, read_plain
from legendre.results.inference.counts import Counts, chi_square_p, counts_of, degrees_of_freedom
from legendre.results.inference.printout import shown
from legendre.results.summary import count_name
from legendre.solvers.structure.rank import Rank, independent, rank_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

SAME = "A likelihood ratio compares two models of the same counts on the same support."


@dataclass(frozen=True)
class LikelihoodRatio(Storable):
    """The statistic ``G2(small) - G2(large)``, its degrees of freedom, and its p-value (NaN without any).

    See Also
    --------
    likelihood_ratio : Test a small model against a larger one.
    Inference : Standard errors and tests of fit.

    Examples
    --------
    >>> import legendre as ld
    >>> X = [[10, 20], [30, 15]]
    >>> test = ld.likelihood_ratio(ld.decompose(X, "interactions(1)"), ld.decompose(X, "interactions(2)"))
    >>> round(test.statistic, 3), test.df
    (8.161, 1)
    """

    format: ClassVar[str] = "legendre-likelihood-ratio"

    statistic: float
    df: int
    p_value: float

    def tables(self) -> list[Table]:
        """List the statistic and its p-value."""
        rows = [("G2(small) - G2(large)", f"{self.statistic:.4f}"), ("df", count_name(self.df))]
        if self.df > 0:
            rows.append(("p", shown(self.p_value)))
        return [NamedValues("Likelihood ratio of nested models", rows)]

    def to_arrays(self) -> Arrays:
        """List the three numbers."""
        return pack_plain(self)

    @classmethod
    def from_arrays(cls, arrays: Archive) -> Self:
        """Put the test together again."""
        found = cls(**read_plain(cls, arrays))
        if not same(found.p_value, chi_square_p(found.statistic, found.df)):
            raise arrays.unfit(f"p_value {found.p_value:g} is not that of {found.statistic:g} on {found.df} df")
        return found


def likelihood_ratio(small: Decomposition, large: Decomposition) -> LikelihoodRatio:
    """Test a model against a larger one that contains it.

    Parameters
    ----------
    small, large
        Fits of the same counts on the same support. Every feature of `small` must be a linear combination of those of
        `large` (and the constant) on the support; the bases need not contain each other.

    See Also
    --------
    LikelihoodRatio : What `likelihood_ratio` returns.
    Inference : Standard errors and tests of fit.
    legendre.geometry.ladder : How much each model of a chain explains.

    Notes
    -----
    The degrees of freedom are the number of additional parameters of `large`, counted on the cells that have positive
    probability in `small`. If some of these cells have probability 0 in `large`, chi-square is a rough approximation.

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
        if not callable(found := getattr(fit, "inference", None)):
            hint = "" if found is None else " Models of loglinear are compared by ld.anova(small, large)."
            raise InvalidQuery(f"likelihood_ratio compares two results of decompose, got a {type(fit).__name__}.{hint}")
    counts, others = counts_of(small), counts_of(large)
    _check_same_table(small, large, counts, others)
    check_nested(small, large)
    df = added_parameters(small, large.model.terms)
    statistic = max(counts.g2() - others.g2(), 0.0)  # rounding may leave -1e-13
    return LikelihoodRatio(statistic, df, chi_square_p(statistic, df))


def added_parameters(small: Decomposition, basis: Terms) -> int:
    """Count the parameters that a larger basis adds to a fit, on the cells to which the fit gives probability."""
    degrees_of_freedom(small)  # refuses a rank that is only a bound
    more = _rank_on_face(basis, small)
    if not more.exact:
        raise InvalidQuery(
            f"the degrees of freedom are not known: of {basis.n_params:,} parameters at most {more.n:,} are "
            f"independent where small has probability, and beyond {limits.LARGEST_MATRIX:,} how many it is was not "
            "counted. Compare smaller bases, or merge levels."
        )
    return more.n - small.rank


def _rank(basis: Terms, support: Support) -> Rank:
    """Count independent features on the cells of a sample space."""
    model = Model.of(support, None, basis.cells, ties=basis.ties)
    return rank_of(model, independent(model))


def _rank_on_face(basis: Terms, fit: Decomposition) -> Rank:
    """Count independent features on the cells to which a fit gives probability."""
    support = fit.model.support
    if fit.alive is None:
        return _rank(basis, support)
    if (found := _rank_in_tables(basis, fit)) is not None:
        return found
    # each box between the cuts of both bases lies in one box of the fit, and carries probability where that does
    both = joined([basis, fit.model.terms], len(fit.shape))
    model = Model.of(support, None, both.cells, ties=both.ties)
    merged = "likelihood_ratio: a grid merged along both bases"
    check_room(model.n_merged, 24, merged, "Compare bases with fewer cells.")
    inside = [fit.model.quotient.boxes_along(k, cuts) for k, cuts in enumerate(model.quotient.cuts)]
    face = model.on_face(model.alive & fit.model.space.on_grid(fit.alive)[np.ix_(*inside)])
    within = face.with_columns(_places(basis, both))
    return rank_of(within, independent(within))


def _rank_in_tables(basis: Terms, fit: Decomposition) -> Rank | None:
    """Count them in tables over cliques, where the fit and the basis have such; ``None`` elsewhere."""
    own = fit.model.on_face(fit.alive).space
    other = Model.of(fit.model.support, None, basis.cells, ties=basis.ties).space
    if own.form != "cliques" or other.form != "cliques" or other.ties is not None or not saturated(other.tables):
        return None
    parts, tree = parts_of(own.tables), other.tables.tree
    held = all(set(modes) <= set(tree.cliques[tree.home_of(modes)].modes) for modes, _ in parts)
    if not held or not all(map(np.array_equal, own.quotient.cuts, other.quotient.cuts)):
        return None
    tables = with_parts(other.tables, parts)
    # a table's cell that no cell of the grid is left to has no margin either
    _, uniform = propagate(tables, np.zeros(len(basis.cells)))
    return Rank(n_free(replace(tables, alive=uniform.margins > 0)))


def _places(some: Terms, terms: Terms) -> IntArray:
    """Find the parameters of a basis among those of another one that has them all; -1 where it lacks one."""
    if terms.ties is None and some.ties is None:
        return find(some.cells, terms.cells)
    known = {key: j for j, key in enumerate(terms.feature_keys())}
    return np.array([known.get(key, -1) for key in some.feature_keys()], dtype=np.int64)


def _check_same_table(small: Decomposition, large: Decomposition, counts: Counts, others: Counts) -> None:
    if small.shape != large.shape:
        raise InvalidQuery(f"the tables differ: one has shape {small.shape}, the other {large.shape}.")
    if counts.cells is not None and others.cells is not None:
        if small.model.support.full != large.model.support.full:
            raise InvalidQuery(f"the supports differ: one is the whole grid, the other the cells with data. {SAME}")
        every = unique_cells(np.concatenate([counts.cells, others.cells]))
        n, m = counts.at(every), others.at(every)
        for i in np.flatnonzero(n != m)[:1]:
            raise InvalidQuery(f"the tables differ, first at {cell_name(every[i])}: {n[i]:.0f} and {m[i]:.0f}. {SAME}")
        return
    check_same_space(small, large)
    omega = small.model.support.on_grid()
    _refuse_difference("tables", omega, counts.grid(small.shape), others.grid(large.shape), ".0f")


def check_same_space(small: Decomposition, large: Decomposition) -> None:
    """Refuse two models whose sample spaces or base measures differ."""
    omega, other = small.model.support.on_grid(), large.model.support.on_grid()
    _refuse_difference("supports", omega != other, omega, other)
    if small.model.base is not None or large.model.base is not None:
        r, s = (np.ones(fit.shape) if fit.model.base is None else fit.model.base for fit in (small, large))
        _refuse_difference("base measures", omega, r, s)


def _refuse_difference(what: str, inside: BoolArray, one: AnyArray, other: AnyArray, form: str = "") -> None:
    for index in np.argwhere(inside & (one != other))[:1]:
        place = tuple(index)
        values = f"{one[place]:{form}} and {other[place]:{form}}"
        raise InvalidQuery(f"the {what} differ, first at {cell_name(place)}: {values}. {SAME}")


def check_nested(small: Decomposition, large: Decomposition) -> None:
    """Refuse two models of which the first is not contained in the second."""
    one, other = small.model.terms, large.model.terms
    place = _places(one, other)
    if (place >= 0).all():
        return
    union = joined([other, one], len(small.shape))
    if union.n_params > limits.LARGEST_MATRIX:
        raise InvalidQuery(f"whether the models are nested is not checked beyond {limits.LARGEST_MATRIX:,} parameters.")
    omega = small.model.support
    together = _rank(union, omega)
    if together == _rank(other, omega):
        return
    if together == _rank(one, omega):
        raise InvalidQuery("the models are nested the other way round: call likelihood_ratio(large, small) swapped.")
    strange = int(np.flatnonzero(place < 0)[0])
    title, cell = one.titles()[strange], one.own_cells()[strange]
    raise InvalidQuery(
        "the models are not nested: small has features that large lacks, e.g. "
        f"{repr(title) if title else f'the one of cell {cell_name(cell)} of its basis'}. A likelihood ratio needs "
        "every feature of small in the span of large's."
    )
