"""Estimates with standard errors (`Estimates`): the covariance of theta, combinations of parameters, tables of them.

The covariance is the inverse Fisher matrix divided by N, where theta is identified. At the boundary theta itself runs
to infinity, but many combinations of it stay finite: all those that are functions of the log means of the cells that
keep positive probability. Some of the others go to plus or minus infinity along every path to the limit; the rest have
no limit at all.

Most estimates are weighted sums of log means over all cells, and a cell's weight is a product with a factor for each
variable. A coding gives these factors: for each effect of a variable, factors of its levels that sum to 0; for
coefficients that do not involve the variable, factors that sum to 1. Odds ratios and means over levels have the same
form. Since ``log mu_v = log N - psi + sum of theta_u over u <= v``, the sum can be written with weights of theta and of
the constant ``log N - psi``. The constant is treated as the parameter of the first cell, (0, ..., 0), which is below
all others: it is column 0 of all arrays of weights.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from legendre.core import limits
from legendre.core.arguments import check_choice, check_flag, check_name, check_number
from legendre.core.cells import freeze, other_modes
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Event, Fixed, Labels, Mode
from legendre.core.memory import size_name
from legendre.core.origin import read_array
from legendre.core.sums.linalg import factorise, limit_blas
from legendre.core.text import Printed, Table
from legendre.core.types import FloatArray, IntArray, Shape, frozen
from legendre.data.observation import beyond_memory
from legendre.engines.choose import check_fisher, choose_engine
from legendre.results.base import Storable, to_frame
from legendre.results.distribution import read_cells, read_event
from legendre.results.inference.counts import LEGEND, Counts, p_text, stars
from legendre.solvers.structure.faces import diverging, feature_rows, optimise
from legendre.solvers.structure.identifiability import open_directions
from legendre.solvers.structure.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Coding = Literal["treatment", "sum", "local"]


class Combinations(NamedTuple):
    """m linear combinations of the constant ``log N - psi`` and theta, to be estimated by `Estimates._estimate`."""

    names: tuple[str, ...]
    weights: FloatArray  # m x (1 + |B|): column 0 for the constant, the others for theta
    offsets: FloatArray | float = 0.0  # known numbers to add, such as logarithms of the base measure


# why a parameter has no standard error
OPEN = "not identified: other values of this and other parameters give the same Q"
INFINITE = "runs to infinity along fit.recession: the minimum is not attained"


@frozen
class Information:
    """The covariance of the parameters that are identified, and why the others have none."""

    # (1 + |B|) x r: root @ root.T is the covariance of the constant and theta, with dependent parameters held at 0
    root: FloatArray
    reasons: tuple[str, ...]  # for each parameter of B, why it has no standard error; empty if it has one
    # d x |B|: directions in theta that leave Q unchanged on all cells with probability; theta is known only up to them
    open: FloatArray

    def covariance(self) -> FloatArray:
        """Return the covariance of theta, |B| x |B|; NaN in rows and columns of parameters that are not identified."""
        out = self.root[1:] @ self.root[1:].T
        unknown = np.array(self.reasons) != ""
        out[unknown] = out[:, unknown] = np.nan
        return out


def information(fit: Decomposition, missing: FloatArray | None = None) -> Information:
    """Invert the Fisher matrix on the cells with positive probability; find the parameters that they do not identify.

    `missing` is the information, per case and |B| x |B|, that is lost because rows lack values (Louis 1982); it is
    subtracted first.
    """
    from scipy.linalg import solve_triangular

    unlimited = "Tests of fit and Pearson or deviance residuals have no such limit."
    check_fisher(fit.n_params, "standard errors need", unlimited)
    model = fit._face
    columns = independent(model)
    engine = choose_engine(model)
    # at all of theta, not only its independent part: iterative scaling gives dependent parameters values other than 0
    fisher = engine.fisher(engine.at(fit.theta))
    fisher = fisher if missing is None else fisher - missing
    root = np.zeros((1 + fit.n_params, 1 + len(columns)))
    with limit_blas(fit.n_params):
        factor = factorise(fisher[np.ix_(columns, columns)], model.n_summed)
        chosen = columns[factor.columns]
        if len(chosen):
            # with G = L L' up to the scale D, the inverse is R R', where R = D L^-T is the transpose of this
            inverse = solve_triangular(factor.lower, np.diag(factor.scale), lower=True, check_finite=False)
            root[1 + chosen, 1 : 1 + len(chosen)] = inverse.T
        root[0] = -fit.eta @ root[1:]  # as theta rises, the constant log N - psi falls by eta
    root[0, 0] = 1.0  # column 0: log N has variance 1 / N, and is independent of theta
    root /= np.sqrt(fit.total)
    # parameters that the factor left out have variances beyond float64: they are reported as not identified
    directions = np.eye(fit.n_params)[np.setdiff1d(columns, chosen)]
    if len(columns) < fit.n_params:
        directions = np.concatenate([open_directions(model, columns), directions])
    identified = ~(directions != 0).any(axis=0)
    reasons = np.where(identified, "", np.where(diverging(fit.recession), INFINITE, OPEN))
    return Information(root, tuple(map(str, reasons)), directions)


# --- combinations ----------------------------------------------------------------------------------------------------


def coefficients_of(fit: Decomposition, coding: str, reference: Event | None) -> Combinations:
    """Write the coefficients of `coef` as combinations of the constant and theta: the intercept first, then by term.

    `coding` is one of `Coding`, and `reference` names levels for treatment contrasts.

    Tied parameters come last, under their own names, and are the same in every coding. The others are the coefficients
    of a regression that has the tied features as additional regressors, each shifted to 0 at the first cell. If only
    some cells of a term are tied, no coding applies to the others: they are listed as theta itself.
    """
    check_choice(coding, "contrasts", get_args(Coding))
    if reference is not None and coding != "treatment":
        raise InvalidQuery(f'coef(contrasts="{coding}", reference=...): only treatment contrasts have a reference.')
    labels, cells, titles = fit.labels, fit.model.terms.single_cells(), fit.model.terms.titles()
    given = read_event(labels, reference, "reference")
    modes = range(labels.n_modes)
    tables, names = zip(*(_code_levels(labels, k, coding, given) for k in modes), strict=True)
    columns = _find_untied_terms(cells, titles, labels.shape)
    others = np.setdiff1d(np.arange(fit.n_params), columns)
    # a cell's level i of variable k selects row i of that variable's table: its i-th effect, or 0 for none
    chosen = _sort_by_term(cells[columns])
    coded = _combine(fit, tables, _add_bottom(chosen))
    coded[:, 1 + others] = 0.0  # other parameters are regressors of their own, with a row each below
    called = ["(intercept)", *(_name_effect(cell, names) for cell in chosen)]
    if len(others):
        local = [_code_levels(labels, k, "local", {})[1] for k in modes]
        called += [titles[j] or _name_effect(cells[j], local) for j in others.tolist()]
    alone = np.zeros((len(others), 1 + fit.n_params))
    alone[:, 1 + others] = np.eye(len(others))
    return Combinations(tuple(called), np.vstack([coded, alone]))


def _find_untied_terms(cells: IntArray, titles: Sequence[str], shape: Shape) -> IntArray:
    """Find the parameters that a coding applies to: those of single cells, in terms without any tied cell.

    `cells` (m x N) has the cell of each parameter, or -1 if it ties several; `titles` are the names of tied parameters.
    A term without ties has a parameter for each combination of the levels after the first. If nothing is tied at all,
    every parameter is returned, even those of terms that lack some cells.
    """
    alone = np.flatnonzero((cells >= 0).all(axis=1) & (np.array(titles) == ""))
    # the term of a cell: the variables that are not at their first level
    terms, place, sizes = np.unique(cells[alone] > 0, axis=0, return_inverse=True, return_counts=True)
    complete = sizes == np.where(terms, np.array(shape) - 1, 1).prod(axis=1)
    return alone if len(alone) == len(cells) else alone[complete[place.ravel()]]


def _name_effect(cell: IntArray, names: Sequence[Sequence[str]]) -> str:
    """Name the effect of a cell: the names of its variables' effects, for the variables above their first level."""
    return ":".join(names[k][cell[k]] for k in np.flatnonzero(cell).tolist())


def _sort_by_term(basis: IntArray) -> IntArray:
    """Sort cells (m x N) by term, in R's order of terms: single variables, then pairs, and so on.

    Within a term, unlike in R, the levels of the first variable change slowest.
    """
    used = basis > 0
    # the number of variables, then the term (earlier variables first), then the levels
    keys = np.hstack([used.sum(axis=1)[:, None], ~used, basis])
    return basis[np.lexsort(keys.T[::-1])]  # lexsort takes its last key first


def _code_levels(
    labels: Labels, k: int, coding: str, reference: Fixed, *, against: bool = False
) -> tuple[FloatArray, list[str]]:
    """Return the weights of the n levels of variable k in its n - 1 effects (n x n), and the names of the effects.

    Row 0 is for coefficients that do not involve the variable; its weights sum to 1, and its name is empty. Row i is
    the i-th effect: one level less what it is compared with. `reference` maps variables to their reference levels for
    treatment contrasts; the default is the level that comes first in X, even if the fit put the levels in another
    order. With `against`, the names of treatment effects include the reference.
    """
    # an effect compares `upper` with `lower`; `rest` is row 0
    n, order = labels.shape[k], labels.order_of(k)
    level, every = [labels.level(k, i) for i in range(n)], np.eye(n)
    start = reference.get(k, 0 if order is None else int(np.argmin(order)))
    if coding == "treatment":
        upper, lower, rest = np.delete(np.arange(n), start), every[start], every[start]
        names = [f"{level[i]}/{level[start]}" if against else level[i] for i in upper]
    elif coding == "sum":
        upper, lower, rest = np.arange(n - 1), np.full(n, 1.0 / n), np.full(n, 1.0 / n)
        names = level[:-1]
    else:
        upper, lower, rest = np.arange(1, n), every[:-1], every[0]
        names = [f"{level[i]}/{level[i - 1]}" for i in upper]
    return np.vstack([rest, every[upper] - lower]), ["", *(f"{labels.mode(k)}[{name}]" for name in names)]


def _add_bottom(cells: IntArray) -> IntArray:
    """Put the cell (0, ..., 0) before some cells (m x N), because the constant is treated as its parameter."""
    return np.pad(cells, ((1, 0), (0, 0)))


def _combine(fit: Decomposition, tables: Sequence[FloatArray], rows: IntArray) -> FloatArray:
    """Return the weights of the constant and of theta (m x (1 + |B|)) in m weighted sums of log means over all cells.

    In sum i the weight of a cell is a product over the variables: variable k contributes the entry of its level in row
    ``rows[i, k]`` of ``tables[k]``. Coefficients, odds ratios and means over levels all have this form.
    """
    weights = np.ones((len(rows), 1 + len(fit.basis)))
    for table, row, levels in zip(tables, rows.T, _add_bottom(fit.basis).T, strict=True):
        # theta_u is part of log mu at all levels >= u, so its weight is a suffix sum over the levels
        above = np.cumsum(table[:, ::-1], axis=1)[:, ::-1]
        weights *= above[row][:, levels]
    return weights if fit.ties is None else np.column_stack([weights[:, 0], weights[:, 1:] @ fit.ties.matrix()])


def log_means(fit: Decomposition, places: IntArray, names: tuple[str, ...] = ()) -> Combinations:
    """Write the log means of some cells (m x N) as combinations of the constant and theta, named by `names`.

    Each is the constant plus theta weighted by the features of the cell, plus the logarithm of the base measure. Means
    with intervals, contrasts of cells, leverages and profile likelihoods are made of them.
    """
    features = feature_rows(fit.model, fit.model.quotient.boxes(places))
    offsets = 0.0
    if fit.model.base is not None:
        with np.errstate(divide="ignore"):
            offsets = np.log(fit.model.base[tuple(places.T)])
    return Combinations(names, np.column_stack([np.ones(len(places)), features]), offsets)


def _read_named_weights(weights: Mapping[Any, Any], known: Sequence[str]) -> tuple[FloatArray, str]:
    """Read the weights that a caller of `contrast` gives to coefficients by name.

    They are returned as a row, in the order of the `known` names, and as text for print: ``2 a - b``.
    """
    row, terms = np.zeros(len(known)), []
    for name, weight in weights.items():
        more = "The reference level of a variable has none: its coefficient is 0."
        check_name("coefficient", name, known, InvalidQuery, "contrast", more)
        w = row[known.index(name)] = check_number(weight, f"contrast: the weight of {name!r}")
        terms.append(f"{'-' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):g} '}{name}")
    return row, " ".join(terms).removeprefix("+ ")


def _list_rows(
    tables: Sequence[FloatArray], modes: Sequence[int], asked: str, advice: str, most: int = 10_000
) -> IntArray:
    """List all combinations of rows of the tables of some variables, as `_combine` needs them (m x N).

    The row of the last of `modes` changes fastest; each other variable has its row 0. More than `most` combinations are
    refused with an error that names the method `asked` and gives `advice`: nobody reads a longer table.
    """
    sizes = [len(tables[k]) for k in modes]
    if (n := math.prod(sizes)) > most:
        raise InvalidQuery(f"{asked}: {n:,} rows; at most {most:,} are listed. {advice}")
    rows = np.zeros((n, len(tables)), dtype=np.int64)
    rows[:, list(modes)] = np.indices(sizes).reshape(len(sizes), n).T
    return rows


# --- directions to infinity ------------------------------------------------------------------------------------------


def _find_diverging(fit: Decomposition, directions: FloatArray, weights: FloatArray) -> Iterator[tuple[int, int]]:
    """Find the combinations without a finite estimate; yield the row of each and its sign of infinity, 0 for no limit.

    `weights` (m x (1 + |B|)) are the combinations; `directions` (d x |B|) are changes of theta that leave Q unchanged
    on all cells with positive probability. A combination that changes along one of them is not determined by these
    cells. It still has an infinite limit if it rises (or falls) along every mixture of directions that lowers the log
    means of the vanishing cells, because every path to the limit goes that way. A linear program looks for a mixture
    that is a counterexample.
    """
    space = fit.model
    if space.n_cells > limits.LARGEST_GRID:
        raise InvalidQuery(
            "some cells vanish, and which combinations of parameters stay finite is looked for in all of "
            f"{size_name(space.n_cells)} merged cells, where at most {limits.LARGEST_GRID:,} are looked through. "
            "Standard errors of the parameters that do are in standard_errors; elsewhere merge levels."
        )
    # the merged cells that keep positive probability in the limit
    alive = space.alive if fit._alive is None else space.on_grid(fit._alive)
    grids = [space.below(direction) for direction in directions]
    rises = np.array([grid[alive][0] for grid in grids])  # each raises all cells with probability equally: by how much
    # changes of the log means of vanishing cells (rows) along each direction (column), with the constant adjusted;
    # equal rows are the same constraint, up to rounding
    falls = np.stack([grid[space.alive & ~alive] - rise for grid, rise in zip(grids, rises, strict=True)], axis=1)
    falls = np.unique(falls.round(9), axis=0)
    directions = np.column_stack([-rises, directions])  # the constant compensates for these rises
    # the direction of recession: a combination diverges if its product with it is not 0. It raises the cells that keep
    # probability equally, and the constant falls by as much
    recession = np.append(-space.below(fit.recession)[alive].max(), fit.recession)
    steepness = weights @ recession
    # a change counts if it exceeds the rounding error of its sum
    changes, size = weights @ directions.T, np.abs(weights) @ np.abs(directions.T)
    for i in np.flatnonzero((np.abs(changes) > 1e-8 * np.maximum(size, 1.0)).any(axis=1)).tolist():
        zero = 1e-6  # larger than the errors of linear programs
        # the direction of recession is one path to the limit: what does not change along it goes to no infinity;
        # and if no cell vanishes, other values give the same Q
        if abs(steepness[i]) < zero or not len(falls):
            yield i, 0
            continue
        sign = 1 if steepness[i] > 0 else -1
        # the least change, in the direction of `sign`, over mixtures that lower the vanishing cells: below 0 refutes it
        mixture = optimise(sign * changes[i], 1e-7, A_ub=falls, b_ub=np.zeros(len(falls)), bounds=(-1.0, 1.0))
        yield i, sign if mixture is not None and sign * (changes[i] @ mixture) > -zero else 0


@frozen(repr=False)
class Coefficients(Printed):
    """Estimates by name, with standard errors, Wald tests and intervals.

    Attributes
    ----------
    names
        The name of each coefficient, mean, contrast or odds ratio.
    estimate, standard_error
        An estimate that diverges is infinite, and one that the counts do not determine is NaN; neither has a standard
        error, and `notes` says why. One that the model fixes, such as the odds ratio 1 of two variables that no term
        contains together, has the standard error 0 and no test.
    z, p_value
        Wald tests of the hypothesis that the estimated quantity is 0 (or the factor 1).
    lower, upper
        Ends of the confidence intervals with level `confidence`: Wald's, or those of the profile likelihood.
    exp, logs
        True: estimates and intervals are factors, and `standard_error` is that of their logarithms, `logs`.

    Examples
    --------
    >>> import legendre as ld
    >>> table = ld.decompose([[18, 7], [6, 19]], ld.full()).inference().coef()
    >>> print(table)
    coefficient          estimate    s.e.      z        p    2.5 %   97.5 %
    ----------------------------------------------------------------------------
    (intercept)            2.8904  0.2357  12.26   <2e-16   2.4284   3.3523  ***
    mode 0[1]             -1.0986  0.4714  -2.33   0.0198  -2.0225  -0.1747  *
    mode 1[1]             -0.9445  0.4454  -2.12    0.034  -1.8175  -0.0714  *
    mode 0[1]:mode 1[1]    2.0971  0.6463   3.24  0.00118   0.8304   3.3639  **
    p: *** < 0.001, ** < 0.01, * < 0.05
    """

    names: tuple[str, ...]
    logs: FloatArray
    standard_error: FloatArray
    notes: tuple[str, ...]
    ends: FloatArray  # lower and upper ends of the intervals, as logarithms if `exp`, m x 2
    confidence: float
    exp: bool
    what: str  # what the rows are, the head of the column of names: "coefficient", "mean", ...
    remark: str = ""  # on all standard errors

    def __len__(self) -> int:
        """Return the number of estimates."""
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, which ``[name]`` takes, as a dict does."""
        return iter(self.names)

    def __getitem__(self, name: str) -> float:
        """Return one estimate by its name."""
        check_name(self.what, name, self.names, InvalidQuery)
        return float(self.estimate[self.names.index(name)])

    @property
    def estimate(self) -> FloatArray:
        """The estimates: factors where `exp` says so."""
        return self._scale(self.logs)

    @cached_property
    def z(self) -> FloatArray:
        """Wald statistics: estimates over their standard errors; NaN where there are none."""
        return freeze(self.logs / np.where(self.standard_error > 0, self.standard_error, np.nan))

    @cached_property
    def p_value(self) -> FloatArray:
        """Two-sided p-values of `z`."""
        return freeze(two_sided_p(self.z))

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the intervals."""
        return self._scale(self.ends[:, 0])

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the intervals."""
        return self._scale(self.ends[:, 1])

    def _scale(self, logs: FloatArray) -> FloatArray:
        """Turn logarithms into factors if `exp` says so; a factor beyond float64 is infinite."""
        with np.errstate(over="ignore"):
            return np.exp(logs) if self.exp else logs

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row for each name."""
        listed = ("estimate", "standard_error", "z", "p_value", "lower", "upper")
        columns = {name: getattr(self, name) for name in listed}
        return to_frame({**columns, "note": list(self.notes)}, self.names, self.what)

    def tables(self) -> list[Table]:
        """List the one table of all rows."""
        return [self.table()]

    def table(self, rows: int | None = None, more: int = 0) -> Table:
        """Lay out the first `rows` estimates for print; a line below says how many are left out.

        `more` is the number of estimates that the caller has left out already. A row with a note (why there is no
        standard error) shows its estimate, and dashes for the rest.
        """
        # the percentage outside the interval on each side, for the heads: 2.5 for a confidence of 0.95
        tail, log = 50.0 * (1.0 - self.confidence), " of log" if self.exp else ""
        known = np.array(self.notes) == ""
        error, lower, upper = (np.where(known, v, np.nan) for v in (self.standard_error, self.lower, self.upper))
        columns = {
            self.what: self.names,
            "factor" if self.exp and self.what != "mean" else "estimate": map(_format_number, self.estimate),
            f"s.e.{log}": map(_format_number, error),
            "z": ("-" if math.isnan(z) else f"{z:.2f}" for z in self.z),
            "p": map(p_text, self.p_value),
            f"{tail:g} %": map(_format_number, lower),
            f"{100 - tail:g} %": map(_format_number, upper),
            "": map(stars, self.p_value),
        }
        legend = [LEGEND]
        if self.what == "mean":  # nobody tests whether a mean is 1
            columns, legend = {head: texts for head, texts in columns.items() if head not in ("z", "p", "")}, []
        lines = [tuple(columns), *zip(*columns.values(), strict=True)]  # the heads, then the rows
        shown = lines if rows is None else lines[: rows + 1]
        left = more + len(lines) - len(shown)
        reasons = dict.fromkeys(note for note in self.notes if note)
        notes = [f"... and {left:,} more"] * (left > 0) + legend
        notes += [f"{self.notes.count(reason)} without s.e.: {reason}." for reason in reasons]
        notes += [self.remark] if self.remark else []
        return Table("", shown, "<>>>>>><"[: len(columns)], ruled=True, notes=notes)


def two_sided_p(z: FloatArray) -> FloatArray:
    """Return the probability that a standard normal variable is at least as far from 0 as z: Wald's p-value."""
    return 2.0 * np.asarray(ndtr(-np.abs(z)), dtype=np.float64)


def normal_quantile(confidence: float) -> float:
    """Return how many standard errors a Wald interval reaches to each side: 1.96 for a confidence of 0.95."""
    return float(ndtri((1.0 + confidence) / 2.0))


def _format_number(value: float) -> str:
    """Write a number of a printed table with four decimals, or four digits if it is large; NaN as a dash."""
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 1e5 or math.isinf(value) else f"{value:.4g}"


class Estimates(Storable):
    """Estimates with standard errors: what `Inference` says about parameters and combinations of them."""

    fit: Decomposition
    counts: Counts
    missing: FloatArray | None  # information lost because rows lack values, per case, |B| x |B|; None if none do
    scale: float  # the dispersion by which variances are multiplied; 1 for Poisson counts

    @abstractmethod
    def _varies_too_little(self) -> bool:
        """Return whether X varies much less than counts do, as measurements that were taken for counts may."""

    @cached_property
    def information(self) -> Information:
        """The covariance of independent parameters, and why others have none."""
        return information(self.fit, self.missing)

    @property
    def reasons(self) -> tuple[str, ...]:
        """For each parameter, why its standard error is NaN; empty if it has one."""
        return self.information.reasons

    def covariance(self) -> FloatArray:
        """Return the covariance matrix of theta, ``G^-1 / N``; NaN where a parameter is not identified."""
        return self.scale * self.information.covariance()

    def vcov(self) -> Any:
        """Return the covariance matrix of the coefficients of ``coef()`` as a pandas data frame with their names.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().vcov().loc["mode 0[1]"].round(4).tolist()
        [-0.04, 0.08, 0.0]
        """
        asked = coefficients_of(self.fit, "treatment", None)
        # coefficients that are infinite or not estimable have no covariance either
        known = np.isfinite(self._estimate(asked, 0.95, exp=False, what="coefficient").standard_error)
        spread = asked.weights @ self.information.root
        values = np.where(np.outer(known, known), self.scale * spread @ spread.T, np.nan)
        return to_frame(dict(zip(asked.names, values, strict=True)), asked.names, "coefficient")

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Standard errors of theta; NaN where `reasons` says why."""
        return freeze(np.sqrt(np.diagonal(self.covariance())))

    @cached_property
    def z(self) -> FloatArray:
        """Wald statistics: theta over its standard error."""
        return freeze(self.fit.theta / self.standard_errors)

    @cached_property
    def p_values(self) -> FloatArray:
        """Two-sided p-values of `z`, for theta = 0."""
        return freeze(two_sided_p(self.z))

    def intervals(self, confidence: float = 0.95) -> FloatArray:
        """Return Wald intervals of theta, a row for each parameter.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().intervals().round(4).tolist()
        [[-0.4748, 0.6348], [-0.5544, 0.5544]]
        """
        check_number(confidence, "intervals: confidence", above=0, below=1)
        half = normal_quantile(confidence) * self.standard_errors
        return np.stack([self.fit.theta - half, self.fit.theta + half], axis=1)

    def coef(
        self,
        contrasts: Coding = "treatment",
        *,
        reference: Event | None = None,
        exp: bool = False,
        confidence: float = 0.95,
        profile: bool = False,
    ) -> Coefficients:
        """Return the constant and the coefficients of the log-linear model, as R's ``glm(family = poisson)`` does.

        Parameters
        ----------
        contrasts
            "treatment": against a reference level of each variable. "sum": against the mean over its levels. "local":
            each level against the one before, which is theta itself.
        reference
            For treatment contrasts, the reference levels of some variables; for the others it is the first level.
        exp
            Return factors, ``exp(estimate)``; for interactions of two variables these are odds ratios.
        confidence
            The confidence level of the intervals.
        profile
            Profile likelihood intervals, as in R's ``confint``, in place of Wald intervals.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 19]], ld.full()).inference()
        >>> round(tests.coef(exp=True)["mode 0[1]:mode 1[1]"], 4), 18 * 19 / (7 * 6)
        (8.1429, 8.142857142857142)
        >>> tests.coef("sum").estimate.round(4).tolist()
        [2.3931, 0.025, -0.0521, 0.5243]
        """
        check_flag(exp, "exp")
        check_flag(profile, "profile")
        asked = coefficients_of(self.fit, contrasts, reference)
        found = self._estimate(asked, confidence, exp=exp, what="coefficient")
        return replace(found, ends=self._profile_ends(asked.weights, found)) if profile else found

    def predict(self, *, confidence: float = 0.95) -> Coefficients:
        """Return the fitted mean of each cell of the support, with its standard error and interval.

        Examples
        --------
        >>> import legendre as ld
        >>> means = ld.decompose([[18, 7], [6, 19]], "B1").inference().predict()
        >>> means.names[0], means.estimate.round(3).tolist(), means.upper.round(3).tolist()
        ('[0, 0]', [12.0, 13.0, 12.0, 13.0], [19.524, 20.881, 19.524, 20.881])
        """
        if self.fit.model.support.n_cells > 10_000:
            raise InvalidQuery("predict lists at most 10,000 cells. Ask for some: contrast(weights, cells), means(by).")
        cells, labels = self.fit.model.support.cells(), self.fit.labels
        asked = log_means(self.fit, cells, tuple(map(labels.cell, cells)))
        return self._estimate(asked, confidence, exp=True, what="mean")

    def means(self, by: Mode | Sequence[Mode], *, confidence: float = 0.95) -> Coefficients:
        """Return the mean for each level of some variables, with its standard error and interval.

        It is the geometric mean of the fitted means over all levels of the other variables, equally weighted, as in R's
        ``emmeans(..., type = "response")``.

        Parameters
        ----------
        by
            A variable, or a list of them.
        confidence
            The confidence level of the intervals.

        Examples
        --------
        >>> import legendre as ld
        >>> print(ld.loglinear(ld.datasets.hair_eye_color(), "hair*eye + sex").means("sex"))
        mean        estimate  s.e. of log    2.5 %   97.5 %
        ---------------------------------------------------
        sex male     11.4416       0.0752   9.8745  13.2574
        sex female   12.8359       0.0725  11.1352  14.7963
        """
        fit, labels = self.fit, self.fit.labels
        if not fit.model.support.full:
            raise InvalidQuery("means are averages over all levels, and some cells of this table cannot occur.")
        # a kept variable selects one level in each row; the levels of another are averaged
        kept = labels.find_modes(by, "means")
        tables = [np.eye(n) if k in kept else np.full((1, n), 1.0 / n) for k, n in enumerate(labels.shape)]
        rows = _list_rows(tables, kept, "means", "Name fewer variables: means(by=...).")
        titles = [", ".join(f"{labels.mode(k)} {labels.level(k, row[k])}" for k in kept) or "all" for row in rows]
        offsets = 0.0
        if fit.model.base is not None:
            others = other_modes(kept, len(tables))
            offsets = np.log(fit.model.base).mean(axis=others, keepdims=True)[tuple(rows.T)]
        asked = Combinations(tuple(titles), _combine(fit, tables, rows), offsets)
        return self._estimate(asked, confidence, exp=True, what="mean")

    def contrast(
        self,
        weights: ArrayLike | Mapping[str, float],
        cells: ArrayLike | None = None,
        *,
        exp: bool = False,
        confidence: float = 0.95,
    ) -> Coefficients:
        """Estimate linear combinations of parameters; a note marks those that the counts do not determine.

        Parameters
        ----------
        weights
            A row for each combination: weights of theta or, with `cells`, of the logarithms of the cells' means. Or one
            combination of coefficients of `coef`, by name: ``{"mode 0[1]": 1, "mode 0[2]": -1}``.
        cells
            Cells, each a list of its levels: labels, or indices if there are none.
        exp, confidence
            As in `coef`.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 0]], ld.full()).inference()
        >>> odds = tests.contrast([[1, -1]], [[0, 0], [1, 0]])
        >>> odds.estimate.round(4).tolist(), odds.standard_error.round(4).tolist()
        ([1.0986], [0.4714])
        >>> tests.contrast([[0, 0, 1]]).notes
        ('infinite, because of fitted zeros',)
        """
        # what the weights apply to: coefficients by name, log means of cells, or theta
        fit, kind, called = self.fit, "parameters", "contrast"
        if isinstance(weights, Mapping):
            if cells is not None:
                raise InvalidQuery("contrast: weights by name are of coefficients, so cells= has no meaning.")
            known = coefficients_of(fit, "treatment", None)
            weights, called = _read_named_weights(weights, known.names)
        elif cells is not None:
            known, kind = log_means(fit, read_cells(fit.labels, cells, "contrast")), "cells"
        else:  # theta itself: the identity, with a column of zeros before it for the constant
            known = Combinations((), np.eye(fit.n_params, 1 + fit.n_params, 1))
        size = len(known.weights)
        rows = np.atleast_2d(read_array(weights, "weights", InvalidQuery))
        if rows.ndim != 2 or rows.dtype.kind not in "biuf" or rows.shape[1] != size or not np.isfinite(rows).all():
            raise InvalidQuery(
                f"contrast: weights have shape {rows.shape} and dtype {rows.dtype}; each row needs one finite number "
                f"for each of the {size} {kind}."
            )
        names = [called] if len(rows) == 1 else [f"contrast {i + 1}" for i in range(len(rows))]
        # combinations of combinations: weights of coefficients or log means become weights of the constant and theta
        asked = Combinations(tuple(names), rows @ known.weights, (rows * known.offsets).sum(axis=1))
        return self._estimate(asked, confidence, exp=exp, what="contrast")

    def odds(
        self,
        first: Mode,
        second: Mode,
        given: Event | None = None,
        *,
        contrasts: Literal["local", "treatment"] = "local",
        confidence: float = 0.95,
    ) -> Coefficients:
        """Return the odds ratios of two variables under the model, with their intervals.

        Parameters
        ----------
        first, second
            The variables, by name or number.
        given
            Levels of other variables. If the odds ratios depend on variables that are not given, they are listed for
            each of their levels.
        contrasts
            "local": of neighbouring levels. "treatment": against the first level.
        confidence
            The confidence level of the intervals.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 19]], ld.full()).inference()
        >>> print(tests.odds(0, 1))
        odds ratio               factor  s.e. of log     z        p   2.5 %   97.5 %
        --------------------------------------------------------------------------------
        mode 0[1/0]:mode 1[1/0]  8.1429       0.6463  3.24  0.00118  2.2942  28.9010  **
        p: *** < 0.001, ** < 0.01, * < 0.05
        """
        fit, labels, asked = self.fit, self.fit.labels, f"odds({first!r}, {second!r})"
        pair = labels.find_modes((first, second), "odds")
        check_choice(contrasts, "odds: contrasts", ("local", "treatment"))
        fixed = read_event(labels, given, "odds: given")
        if fixed.keys() & set(pair):
            raise InvalidQuery(f"{asked}: odds ratios are of two variables, which cannot be given.")
        # the odds ratios depend on another variable if a parameter involves it together with both
        both = fit.basis[(fit.basis[:, pair] > 0).all(axis=1)] > 0
        free = [k for k in np.flatnonzero(both.any(axis=0)).tolist() if k not in (*pair, *fixed)]
        # a free variable is listed at each level; a given one has its level; for others any level does, so the first
        tables = [np.eye(n) if k in free else np.eye(n)[[fixed.get(k, 0)]] for k, n in enumerate(labels.shape)]
        names = dict[int, list[str]]()
        for k in pair:
            coded, called = _code_levels(labels, k, contrasts, {}, against=True)
            tables[k], names[k] = coded[1:], called[1:]  # without row 0, which does not involve the variable
        titles, rows = [], _list_rows(tables, [*fixed, *free, *pair], asked, "Use given=.")
        for row in rows:
            where = [f"{labels.mode(k)} {labels.level(k, fixed.get(k, row[k]))}" for k in (*fixed, *free)]
            titles.append(":".join(names[k][row[k]] for k in pair) + (f" given {', '.join(where)}" if where else ""))
        ratios = Combinations(tuple(titles), _combine(fit, tables, rows))
        return self._estimate(ratios, confidence, exp=True, what="odds ratio")

    def _check_complete(self, asked: str) -> None:
        """Raise an error that names the method `asked` if rows lack values: these have no observed table."""
        if self.missing is not None:
            raise InvalidQuery(
                f"{asked} needs complete rows, and some of these lack values. Fit the complete ones: "
                "loglinear(..., missing='drop')."
            )

    def _check_table(self, asked: str) -> None:
        """Raise an error that names the method `asked` unless rows are complete and the table fits in memory."""
        self._check_complete(asked)
        if (why := beyond_memory(self.fit.shape)) is not None:
            raise InvalidQuery(f"{asked} needs every cell of the table, and X {why}. Sum modes out or merge levels.")

    def _estimate(self, asked: Combinations, confidence: float, *, exp: bool, what: str) -> Coefficients:
        """Estimate combinations of theta and of the constant ``log N - psi``, with standard errors and Wald intervals.

        All tables of estimates are made here. `what` is the head of their first column. Notes say which estimates are
        infinite, not estimable, or fixed by the model.
        """
        check_number(confidence, f"{what}: confidence", above=0, below=1)
        fit, info, (names, weights, offsets) = self.fit, self.information, asked
        values = weights @ np.append(np.log(fit.total) - fit.psi, fit.theta) + offsets
        # the covariance is root @ root.T, so the variance of a combination is the squared length of its weights @ root
        errors = np.sqrt(self.scale) * np.linalg.norm(weights @ info.root, axis=1)
        fixed = (weights == 0).all(axis=1)
        notes = np.where(fixed, "fixed by the model: it involves no parameter", "").astype(object)
        for i, sign in _find_diverging(fit, info.open, weights) if len(info.open) else ():
            values[i], errors[i] = (sign * np.inf if sign else np.nan), np.nan
            notes[i] = (
                "infinite, because of fitted zeros"
                if sign
                else "not estimable: the cells with positive means do not determine it"
            )
        half = normal_quantile(confidence) * errors
        ends = np.stack([values - half, values + half], axis=1)
        errors, remark = freeze(errors), ""
        if self._varies_too_little():
            remark = "X varies less than counts do: standard errors are too large. See notes and scaled()."
        return Coefficients(names, freeze(values), errors, tuple(notes), ends, float(confidence), exp, what, remark)

    def _profile_ends(self, weights: FloatArray, found: Coefficients) -> FloatArray:
        """Return the ends of profile likelihood intervals (m x 2) for coefficients with these weights (m x (1 + |B|)).

        An end is the least or largest value of the coefficient among all parameters whose log-likelihood is at most
        half a chi-square quantile (1 degree of freedom) below its maximum. With ``parameters = best + root @ x`` the
        log-likelihood is about ``-x @ x / 2``, so the search in x is well scaled. An end that is not found is NaN.
        """
        from scipy.optimize import minimize

        self._check_table("coef(profile=True)")
        fit, root = self.fit, self.information.root
        if any(found.notes) or fit._alive is not None:
            raise InvalidQuery(
                "profile likelihoods need a maximum likelihood estimate of every coefficient. Leave profile out for "
                "Wald intervals."
            )
        cells = fit.model.support.cells()
        design, targets = log_means(fit, cells).weights @ root, weights @ root
        counts, mu = self.counts.at(cells), np.exp(fit._distribution.log_prob(cells)) * fit.total
        # a squared normal quantile is a chi-square quantile; a dispersion widens the intervals
        most = normal_quantile(found.confidence) ** 2 * self.scale / 2.0

        def slack(x: FloatArray) -> float:
            """Return how much further the Poisson log-likelihood may fall than it has at x; negative outside."""
            return most + float(counts @ (design @ x) - mu @ np.expm1(design @ x))

        def slack_gradient(x: FloatArray) -> FloatArray:
            """Return the gradient of `slack`, which the solver needs."""
            return (counts - mu * np.exp(design @ x)) @ design

        ends, solve = np.empty((len(targets), 2)), cast(Any, minimize)
        with limit_blas(fit.n_params):
            for j, row in enumerate(targets):
                for side, sign in enumerate((1.0, -1.0)):  # minimise row @ x for the lower end, -row @ x for the upper
                    # start at the Wald end, the exact answer if the log-likelihood were quadratic
                    start = -sign * np.sqrt(2.0 * most / (row @ row)) * row
                    limit = {"type": "ineq", "fun": slack, "jac": slack_gradient}
                    least = solve(np.dot, start, (sign * row,), "SLSQP", lambda _, y: y, constraints=limit, tol=1e-10)
                    ends[j, side] = found.logs[j] + sign * least.fun if least.success else np.nan
        return ends
