"""`anova` compares nested fits of one tensor, with a likelihood ratio test of each against the one before."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import check_flag
from legendre.core.cells import cell_name, first_cell
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
from legendre.core.memory import check_room
from legendre.core.text import Printed, Table, shorten
from legendre.core.tied_parameters import Terms, column_terms
from legendre.core.types import AnyArray, FloatArray, frozen
from legendre.data.observation import Support, beyond_memory
from legendre.model.model import Cliques, Model
from legendre.results.base import count_name, to_frame
from legendre.results.decomposition import Decomposition
from legendre.results.inference.counts import check_rank, chi_square_p, degrees_of_freedom, p_text, stars, support_rank
from legendre.results.inference.result import Inference
from legendre.solvers.structure.rank import Rank, independent, rank_of


@dataclass(frozen=True)
class LikelihoodRatio:
    """A likelihood ratio test: ``G2(small) - G2(large)``, its degrees of freedom, and its p-value (NaN if df is 0)."""

    statistic: float
    df: int

    @property
    def p_value(self) -> float:
        """The p-value, from the chi-square distribution."""
        return chi_square_p(self.statistic, self.df)


@frozen(repr=False)
class Anova(Printed):
    """Fits of one tensor, from the smallest to the largest, and tests of each against the one before.

    `drop1` and `add1` return it too, with a test of each model against the first.

    Attributes
    ----------
    models, names
        The fits, and what they are called in the table.
    tests
        For each fit but the first, its likelihood ratio: `statistic`, `df`, `p_value`. Empty with ``nested=False``; the
        statistic is NaN if X does not hold counts.
    kl, explained, share
        KL(P, Q) of each fit; for each but the first, how much lower it is than that of the fit before, which by the
        Pythagorean theorem is KL(Q, Q') between the two; and the share of the first KL that this is. If the first fit
        has no parameter (``decompose(X, "empty")``), the shares are those of KL(P, uniform).

    See Also
    --------
    anova : Compare models of one table.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.hair_eye_color()
    >>> found = ld.anova(*(ld.loglinear(X, f) for f in ("hair + eye + sex", "hair*eye + sex", ".^2")))
    >>> [round(test.statistic, 4) for test in found.tests], [test.df for test in found.tests]
    ([146.4436, 13.0953], [9, 6])
    """

    models: tuple[Any, ...]
    tests: tuple[LikelihoodRatio, ...]
    names: tuple[str, ...]
    head: str = "model"  # the head of the column of names; `drop1` has "without", `add1` "with"

    @property
    def kl(self) -> FloatArray:
        """KL(P, Q) of each fit."""
        return np.array([_get_fit(m).kl for m in self.models])

    @property
    def explained(self) -> FloatArray:
        """How much each fit but the first lowers KL(P, Q); if fits are nested, only rounding can raise it."""
        gain = -np.diff(self.kl)
        return np.maximum(gain, 0.0) if self.tests else gain

    @property
    def share(self) -> FloatArray:
        """The share of the first KL(P, Q) that each fit but the first explains; NaN if that KL is 0 up to rounding."""
        return self.explained / (self.kl[0] if self.kl[0] > 1e-14 else np.nan)

    def _columns(self) -> dict[str, list[Any]]:
        """List the columns of the table, by the keys of `_FORMATS`, with an entry for each model.

        Log-linear models have tests of fit and criteria, other decompositions their KL divergence. Columns that compare
        a model with another have NaN for the first. There are no columns of tests if X does not hold counts.
        """
        columns: dict[str, list[Any]]
        if all(isinstance(m, Inference) for m in self.models):
            columns = {
                name: [getattr(m, name) for m in self.models] for name in ("df", "g2", "g2_p_value", "aic", "bic")
            }
        else:
            columns = {"n_params": [_get_fit(m).n_params for m in self.models], "kl": self.kl.tolist()}
            columns |= {name: [np.nan, *getattr(self, name)] for name in ("explained", "share")}
        if self.tests and np.isfinite(self.tests[0].statistic):
            steps = {"lrt": "statistic", "lrt_df": "df", "p_value": "p_value"}
            columns |= {key: [np.nan, *(getattr(test, name) for test in self.tests)] for key, name in steps.items()}
        return columns

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each model."""
        return to_frame(self._columns(), self.names, self.head)

    def tables(self) -> list[Table]:
        """Lay out the one table of all models, for print."""
        numbered = self.head == "model"
        titles = [f"{i}  {shorten(name, 60)}" if numbered else name for i, name in enumerate(self.names, 1)]
        columns, found = {"#  model" if numbered else self.head: titles}, self._columns()
        for key, values in found.items():
            head, write = _FORMATS[key]
            columns[head] = ["" if np.isnan(value) else write(value) for value in values]
        columns[""] = list(map(stars, found.get("p_value", [np.nan] * len(titles))))
        rows = [tuple(columns), *zip(*columns.values(), strict=True)]
        notes = ["LRT: each model against the one above"] if "lrt" in found and numbered else []
        if "aic" in found and any(_get_fit(m)._alive is not None for m in self.models):
            notes.append(
                "Some fitted counts are 0: df leaves out parameters that only keep these cells empty; the penalties of "
                "AIC and BIC count them, as in R."
            )
        return [Table("", rows, "<" + ">" * len(found) + "<", ruled=True, notes=notes)]


_FORMATS: dict[str, tuple[str, Any]] = {
    "df": ("df", count_name),
    "g2": ("G2", "{:.4f}".format),
    "g2_p_value": ("p (fit)", p_text),
    "aic": ("AIC", "{:.3f}".format),
    "bic": ("BIC", "{:.3f}".format),
    "n_params": ("parameters", "{:,}".format),
    "kl": ("KL(P, Q)", "{:.6f}".format),
    "explained": ("explained", "{:.6f}".format),
    "share": ("share", "{:.2%}".format),
    "lrt": ("LRT", "{:.4f}".format),
    "lrt_df": ("df of LRT", count_name),
    "p_value": ("p", p_text),
}
"""For each column, by its key, its head in print and the function that writes an entry."""


def anova(*fits: Any, nested: bool = True) -> Anova:
    """Compare fits of one tensor: how much each explains, with likelihood ratio tests if they are nested.

    Parameters
    ----------
    fits
        Two or more results of `loglinear`, or of `decompose` with the same X, support and base measure. Nested ones are
        given from small to large or from large to small: every feature of a smaller one must be a linear combination of
        those of the larger one (and the constant) on the support. The bases need not contain each other.
    nested
        False: no tests, so any fits of one tensor can be listed side by side.

    Notes
    -----
    The degrees of freedom are the number of additional parameters of the larger fit, counted on the cells that have
    positive probability in the smaller one. If some of these cells have probability 0 in the larger fit, chi-square is
    a rough approximation.

    See Also
    --------
    loglinear : Log-linear models by formulas.
    legendre.results.Inference : Standard errors and tests of fit.

    Examples
    --------
    >>> import legendre as ld
    >>> X = ld.datasets.drug_use().toarray()
    >>> ld.anova(ld.loglinear(X, "[AC][BC]"), ld.loglinear(X, ".^2"))
    #  model            df        G2  p (fit)      AIC      BIC       LRT  df of LRT       p
    ---------------------------------------------------------------------------------------------
    1  A*C + B*C         2  187.7543   <2e-16  248.798  283.179
    2  A*B + A*C + B*C   1    0.3740    0.541   63.417  103.529  187.3803          1  <2e-16  ***
    LRT: each model against the one above

    What single modes explain, what pairs add, and so on:

    >>> ld.anova(*(ld.decompose(X, b) for b in ("empty", "interactions(1)", "interactions(2)")))
    #  model            parameters  KL(P, Q)  explained   share        LRT  df of LRT       p
    ----------------------------------------------------------------------------------------------
    1  uniform                   0  0.626419
    2  interactions(1)           3  0.282518   0.343902  54.90%  1565.4410          3  <2e-16  ***
    3  interactions(2)           6  0.000082   0.282435  45.09%  1285.6460          3  <2e-16  ***
    LRT: each model against the one above
    """
    if len(fits) < 2:
        raise InvalidQuery(f"anova compares two fits or more, got {len(fits)}.")
    for fit in fits:
        if not isinstance(fit, (Decomposition, Inference)):
            raise InvalidQuery(f"anova compares results of decompose or loglinear, got a {type(fit).__name__}.")
    # the table runs from small to large: by rank, or by the number of parameters if ranks are equal
    first, last = (_get_fit(fit) for fit in (fits[0], fits[-1]))
    more = support_rank(last) - support_rank(first) or last.n_params - first.n_params
    ordered = fits[::-1] if more < 0 else fits
    for pair in pairwise(ordered):
        _check_same_data(*pair)
    tests = tuple(compare_nested(*pair) for pair in pairwise(ordered)) if check_flag(nested, "nested") else ()
    ground = "uniform" if first.model.base is None else "base measure"
    recipes = [fit.recipe if fit.n_params else ground for fit in map(_get_fit, ordered)]
    names = tuple(getattr(fit, "formula", recipe) for fit, recipe in zip(ordered, recipes, strict=True))
    return Anova(tuple(ordered), tests, names)


def compare_nested(small: Any, large: Any) -> LikelihoodRatio:
    """Make the likelihood ratio test of a fit against a larger one of the same data that contains it.

    The degrees of freedom are counted on the cells with positive probability in the smaller fit. The statistic is NaN
    if X does not hold counts. If rows lack values, both statistics are from the likelihood of what was observed.
    """
    one, other = _get_fit(small), _get_fit(large)
    _check_nested(one, other)
    if (em := getattr(small, "em", None)) is not None:  # rows lack values: the likelihood may have several maxima
        gain, df = large.em.path[-1] - em.path[-1], large.face_rank - small.face_rank
        if gain < -1e-6:
            raise InvalidQuery(
                f"{large.formula} contains {small.formula}, but its likelihood is lower by {-gain:.3g}: its fit ended "
                "at another maximum, so the two cannot be compared."
            )
        return LikelihoodRatio(max(2.0 * gain, 0.0), df)
    degrees_of_freedom(one)  # refuses a rank that is only a bound
    terms = other.model.terms
    rank, statistic = _count_on_face(terms, one), np.nan
    check_rank(rank, terms.n_params)
    if one.data is not None and one.data.counts:
        statistic = max(2.0 * one.total * (one.kl - other.kl), 0.0)  # rounding may leave -1e-13
    return LikelihoodRatio(statistic, rank.n - one.rank)


def _get_fit(fit: Any) -> Decomposition:
    """Return the decomposition of a log-linear model, or a decomposition itself."""
    found: Decomposition = getattr(fit, "fit", fit)
    return found


# --- the same table --------------------------------------------------------------------------------------------------


def _check_same_data(one: Any, other: Any) -> None:
    """Refuse two fits that are not of the same data; the error names the first difference.

    Variables, supports, base measures, and tables (or rows, where these lack values) must be equal.
    """
    mine, others = _collect_data(one), _collect_data(other)
    for what, a in mine.items():
        b = others.get(what)
        if b is None:  # "rows" and "tables" exclude each other
            raise InvalidQuery("anova: one of these models uses rows that lack values, the other does not.")
        if not np.array_equal(a, b):
            where = ""
            if what == "variables":
                where = f": {', '.join(a)} and {', '.join(b)}"
            elif what == "levels or their order":
                where = f": {shorten(a[a != b][0], 60)} and {shorten(b[a != b][0], 60)}"
            elif a.shape == b.shape == _get_fit(one).shape:
                place = first_cell(a != b)
                where = f", first at {cell_name(place)}: {a[place]} and {b[place]}"
            raise InvalidQuery(f"anova: the {what} differ{where}. Compare fits of one table.")


def _collect_data(model: Any) -> dict[str, AnyArray]:
    """Collect, by the name that an error uses, arrays that are equal for two fits of the same data.

    A fit that has not converged, or whose X was not kept, is refused.
    """
    fit = _get_fit(model)
    if not fit.converged:
        raise InvalidQuery(
            f"anova needs the maximum of the likelihood, but a fit ended {fit.status.name}. {fit.status.value}"
        )
    found = {"variables": np.array([f"{fit.labels.mode(k)} ({n} levels)" for k, n in enumerate(fit.shape)])}
    found["levels or their order"] = np.array([_write_levels(fit.labels, k) for k in range(len(fit.shape))])
    if rows := getattr(model, "_patterns", ()):
        # each pattern as one sequence: its variables, a separator, its counts
        found["rows"] = np.concatenate([[*pattern.modes, -1, *pattern.counts.ravel()] for pattern in rows])
    elif (entries := fit._observed.entries) is not None and beyond_memory(fit.shape) is not None:
        # the grid is too large for arrays of its shape: compare the lists of entries
        found["supports"] = np.array([fit.model.support.full])
        found["tables"] = np.column_stack([entries.cells, entries.values])
        return found
    found["supports"] = fit.model.support.on_grid()
    if not rows:
        found["tables"] = np.where(found["supports"], fit._observed.in_memory("anova").values, 0)
    found["base measures"] = np.where(found["supports"], 1.0 if fit.model.base is None else fit.model.base, 0.0)
    return found


def _write_levels(labels: Labels, k: int) -> str:
    """Write the labels of a mode; for indices of X in their order only the last, since there may be 10^9 of them."""
    given = labels._own_levels(k)  # None for such indices
    levels = [] if given is None else given.tolist()
    return f"0 to {labels.shape[k] - 1}" if levels == list(range(len(levels))) else str(levels)


# --- nested bases ----------------------------------------------------------------------------------------------------


def _check_nested(small: Decomposition, large: Decomposition) -> None:
    """Refuse two fits unless the first is nested in the second.

    It is if its features, put together with those of the second, do not raise their rank on the support. If the basis
    of the second contains that of the first, this needs no computation.
    """
    one, other = small.model.terms, large.model.terms
    place = one.places_in(other)
    if (place >= 0).all():
        return
    union = column_terms([*other.columns(), *one.columns()], len(small.shape))
    if union.n_params > limits.LARGEST_MATRIX:
        raise InvalidQuery(f"whether the models are nested is not checked beyond {limits.LARGEST_MATRIX:,} parameters.")
    omega = small.model.support
    if _count_independent(union, omega) == _count_independent(other, omega):
        return
    strange = int(place.argmin())  # the first that has no place, -1
    title, cell = one.titles()[strange], one.single_cells()[strange]
    raise InvalidQuery(
        f"{small.recipe} is not nested in {large.recipe}: it has features that are not combinations of those of the "
        f"larger basis, e.g. {repr(title) if title else f'the one of cell {cell_name(cell)}'}, so the difference "
        "of deviances has no chi-square distribution. Compare AIC, BIC or KL: anova(..., nested=False)."
    )


def _count_independent(basis: Terms, support: Support) -> Rank:
    """Count the features of a basis that are independent of each other and the constant on the cells of a support."""
    model = Model.of(support, None, basis.cells, ties=basis.ties)
    return rank_of(model, independent(model))


def _count_on_face(basis: Terms, fit: Decomposition) -> Rank:
    """Count the features of a basis that are independent on the cells with positive probability in a fit.

    The degrees of freedom of a likelihood ratio test need it: `basis` is that of the larger model, `fit` the smaller.
    """
    support = fit.model.support
    if fit._alive is None:
        return _count_independent(basis, support)
    if (found := _count_in_cliques(basis, fit)) is not None:
        return found
    # a grid merged along the cuts of both bases: each merged cell lies in one merged cell of the fit, and has
    # probability where that one does
    both = column_terms([*basis.columns(), *fit.model.terms.columns()], len(fit.shape))
    model = Model.of(support, None, both.cells, ties=both.ties)
    check_room(model.n_cells, 24, "anova: a grid merged along both bases", "Compare bases with fewer cells.")
    inside = [fit.model.quotient.boxes_along(k, cuts) for k, cuts in enumerate(model.quotient.cuts)]
    face = model.on_face(model.alive & fit.model.on_grid(fit._alive)[np.ix_(*inside)])
    within = face.with_columns(basis.places_in(both))  # the features of `basis` alone
    return rank_of(within, independent(within))


def _count_in_cliques(basis: Terms, fit: Decomposition) -> Rank | None:
    """Count the same as `_count_on_face` from tables over cliques, since the merged grid may be too large to form.

    It is ``None`` unless three conditions hold. The basis fits every table of its junction tree exactly: `rank_of` then
    counts the cells of tables that do not vanish. Both models have the same merged grid, so that what vanishes in one
    can be marked in the other. And each table of the fit in which cells vanish lies in one of the basis, which holds
    its marks.
    """
    face = fit._face
    larger = Model.of(fit.model.support, None, basis.cells, ties=basis.ties)
    if not (isinstance(face, Cliques) and isinstance(larger, Cliques)):
        return None
    if larger.ties is not None or not larger.tables.saturated:
        return None
    if not all(map(np.array_equal, face.quotient.cuts, larger.quotient.cuts)):
        return None
    # the tables of the fit in which cells vanish, each with its modes and its marks
    marked, tree = face.tables.marks, larger.tables.tree
    if not all(set(modes) <= set(tree.cliques[tree.home_of(modes)].modes) for modes, _ in marked):
        return None
    # a cell of one table also vanishes if other tables leave no cell of the grid that falls on it: its uniform margin
    # is 0
    _, uniform = larger.tables.with_marks(marked).propagate(np.zeros(len(basis.cells)))
    return rank_of(larger.on_face(uniform.margins > 0))
