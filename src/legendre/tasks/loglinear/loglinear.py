"""`loglinear` fits log-linear models, given by formulas, to contingency tables; `LogLinear` is its result."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice, check_flag, check_int, check_number
from legendre.core.cells import first_cell, other_modes
from legendre.core.errors import (
    InvalidBasis,
    InvalidQuery,
    InvalidSamples,
    InvalidSupport,
    InvalidTensor,
    refuse_arguments,
    warn,
)
from legendre.core.origin import Origin, package_of
from legendre.core.text import NamedValues, Table, list_words, shorten
from legendre.core.types import frozen
from legendre.data.dense import observe
from legendre.data.observation import Observation, beyond_memory
from legendre.data.partial_table import Pattern, count_cases
from legendre.data.read import align_with, read
from legendre.data.readers.encode import read_table
from legendre.data.readers.labelled import is_frame, unwrap
from legendre.data.readers.rows import from_rows
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.fit import Settings, fit_recipe, warn_if_not_converged
from legendre.fitting.growing.seriate import are_names
from legendre.results.base import modes_row
from legendre.results.decomposition import Decomposition
from legendre.results.inference.counts import aic, pair_with_means, statistic_text, support_rank
from legendre.results.inference.estimates import Information
from legendre.results.inference.result import Inference
from legendre.solvers.loop import Status
from legendre.tasks.em import Ascent, Incomplete, Likelihood, maximise
from legendre.tasks.loglinear.anova import Anova, LikelihoodRatio, compare_nested
from legendre.tasks.loglinear.formula import (
    LOST,
    Formula,
    Neighbour,
    Term,
    left_side,
    list_names,
    read_formula,
    update_formula,
)

if TYPE_CHECKING:
    from legendre.results.plots import FitPlots

Direction = Literal["both", "forward", "backward"]
Kind = Literal["hierarchical", "decomposable"]


def loglinear(
    data: Any,
    formula: str | Sequence[Any],
    *,
    counts: ArrayLike | str | None = None,
    columns: str | Sequence[Hashable] | None = None,
    levels: Mapping[Any, Any] | None = None,
    names: Sequence[Hashable] | None = None,
    missing: Literal["error", "drop", "em"] = "error",
    support: str | ArrayLike = "all",
    base: ArrayLike | str | None = None,
    features: Mapping[str, Any] | None = None,
    hierarchical: bool = True,
    tol: float = 1e-10,
    **others: Never,
) -> LogLinear:
    """Fit a log-linear model to a contingency table by maximum likelihood.

    The likelihood is that of Poisson counts, or of a multinomial sample: the fit is the same.

    Parameters
    ----------
    data
        A data frame (pandas, polars, pyarrow) or a mapping of names to columns, with a row for each case or for each
        cell; a pandas cross table or a pandas Series with a MultiIndex, an xarray DataArray, a `SparseTensor`, an array
        of counts.
    formula
        As in R: ``"Class*Sex + Survived"``, ``"(a + b + c)^2"``, ``".^2 - a:b"``, where a dot is all variables. By
        generators: ``"[AB][BC]"`` (names or their initials), or lists of names, ``[["a", "b"], ["c"]]``. Put names
        that contain spaces in quotes. ``"1"`` is the model with equal means. Association models of `legendre.ties` are
        functions: ``"a + b + uniform(a, b)"``, ``"quasi_symmetric(a, b)"``, ``"a + b + diagonal(a, b)"``. A variable
        before a colon gives each of its levels its own association: ``"c:uniform(a, b)"``.
    counts
        For a data frame: the column of frequencies, or the frequencies themselves; ``"rows"`` counts every row once.
        The column can also be named before a ``~`` in the formula. If a column that is not named looks like
        frequencies, an error asks whether it is.
    columns
        For a data frame: the variables of the table; by default those of the formula. Other data are tables already,
        and all their variables are used: the model gives equal frequencies to the levels of a variable that the
        formula does not name.
    levels
        For each variable its levels in order; by default those that occur, sorted (ordered categories keep their
        order).
    names
        Names of the variables of an array; by default A, B, C, ...
    missing
        What to do with rows of a data frame that lack a value. "error" names the first of them. "drop" leaves them out,
        and a note says how many. "em" uses them, by expectation-maximisation: each counts towards the margin of the
        variables that it has. This is valid if values are missing at random.
    support
        A boolean array of the table's shape, False at structural zeros (cells that cannot occur); or "nonzero", if
        every zero is structural.
    base
        Known factors of the means, an array of the table's shape: ``base=exposure`` for R's ``offset(log(exposure))``.
        A labelled one (pandas, xarray) is matched by its labels. For a data frame, it may be the name of a column; rows
        of the same cell are added.
    features
        Functions of your own, by their names in the formula: ``near(a, b)`` calls ``features["near"]`` with the levels
        of both (their labels, or numbers if there are none), as `legendre.features` does. An array is indexed by these
        levels. A name without brackets depends on all variables, in the order of the table. Each feature has one
        coefficient.
    hierarchical
        Add to each term the terms that it contains. False takes the terms literally; the model is then not invariant to
        the choice of reference level.
    tol
        The accuracy of the fitted margins, as in `decompose`.

    Returns
    -------
    LogLinear
        Tests of fit, coefficients, comparisons; `fit` is the decomposition.

    See Also
    --------
    from_rows : Count rows of raw data.
    anova : Compare models.
    decompose : Any tensor, any basis.

    Examples
    --------
    >>> import legendre as ld
    >>> m = ld.loglinear(ld.datasets.hair_eye_color(), "hair*eye + sex")
    >>> m
    Log-linear model [hair eye] [sex]
    ---------------------------------
    table   hair (4), eye (4), sex (2), N = 592
    G2      19.8566 on 15 df, p = 0.178
    X2      19.5671 on 15 df, p = 0.189
    AIC     192.735
    BIC     267.255
    status  converged; the maximum likelihood estimate exists
    """
    if others:
        refuse_arguments("loglinear", others)
    check_flag(hierarchical, "hierarchical")
    if isinstance(data, str):
        raise InvalidSamples(f"data is {data!r}. Write loglinear(data, formula); read a file first: pandas.read_csv.")
    tol = Settings.read(tol=tol).tol
    columns = [columns] if isinstance(columns, str) else columns
    check_choice(missing, "missing", ("error", "drop", "em"))
    left = left_side(formula)
    table: Observation | Incomplete
    if _has_rows(data, columns, counts):
        if left is not None and counts is not None:
            raise InvalidBasis(
                f"the formula {formula!r} names the counts {left!r}, and counts= is passed too. Pass one."
            )
        if columns is None and (named := list_names(formula)) is not None:
            columns = [name for name in named if not (isinstance(features, Mapping) and name in features)]
        table = _count_frame(data, columns, left if counts is None else counts, levels, missing, support, base)
    elif left is not None or counts is not None or columns is not None:
        asked = f"the formula names {left!r} before ~" if left else "columns= or counts= is passed"
        raise InvalidSamples(
            f"{asked}, but a {type(data).__name__} is read as a table, which has its variables and its counts: "
            "only a data frame has columns. Leave it out."
        )
    else:
        table = _read_counts(data, support, base, names, levels)
    model = read_formula(formula, table.labels.names or (), features, hierarchical=hierarchical)
    return fit_table(table, model, tol)


def _count_frame(
    data: Any, columns: Any, counts: Any, levels: Any, missing: Any, support: Any, base: Any
) -> Observation | Incomplete:
    """Count the rows of a data frame into a table, or as `Incomplete` if rows that lack a value are to be used.

    The arguments are those of `loglinear`. If `base` is a column, it is summed over the rows of each cell.
    """
    by_column, missing = isinstance(base, str), "keep" if missing == "em" else missing
    if by_column and columns is None:
        columns = [name for name in read_table(data).names if name not in (base, counts)]
    origin, patterns = count_cases(data, columns, counts, levels=levels, missing=missing)
    if not patterns:
        raise InvalidSamples("no row counts: each has a count of 0 or lacks every value, so there is nothing to fit.")
    # rows are grouped by the variables that they have; the first group may have all
    complete = len(patterns) == 1 and len(patterns[0].modes) == origin.of(()).n_modes
    if by_column and not complete:
        raise InvalidSamples(
            f"rows lack values, so the cells to which their {base!r} belongs are not known. Pass base as an array, or "
            "missing='drop'."
        )
    if by_column:
        base = from_rows(data, columns, base, levels=levels, missing="drop").toarray()
    support, base = align_with(support, origin), align_with(base, origin)
    if not complete:
        return _read_incomplete(origin, patterns, support, base)
    return replace(observe(patterns[0].counts, support, base), origin=origin)


def _has_rows(data: Any, columns: Any, counts: Any) -> bool:
    """Decide whether data is a frame with a row for each case or cell, or else a table whose entries are counts.

    Only a pandas frame can be either. It is a cross table if all its columns are numeric and its index, or a second
    level of its columns, has labels; `columns` or `counts` say that it has rows.
    """
    if isinstance(data, np.ndarray) or not (isinstance(data, Mapping) or is_frame(data)):
        return False
    if package_of(data) != "pandas" or counts is not None or columns is not None:
        return True
    numbers = all(str(kind)[:3].lower() in ("int", "uin", "flo") for kind in data.dtypes)
    return not numbers or (type(data.index).__name__ == "RangeIndex" and data.columns.nlevels == 1)


def _read_counts(data: Any, support: Any, base: Any, names: Any, levels: Any) -> Observation:
    """Read a table of counts; variables without names are called A, B, C, ... as in textbooks.

    A sparse tensor is turned into an array if that fits in memory, because sparse data take neither a mask as support
    nor a base measure. NaN is refused: a log-linear model does not complete tables.
    """
    if isinstance(data, SparseTensor) and beyond_memory(data.shape) is None:
        origin = unwrap(data, names, levels)[1]
        table: Observation = replace(
            observe(data.toarray(), align_with(support, origin), align_with(base, origin)), origin=origin
        )
    else:
        table = read(data, support, base, names=names, levels=levels)
    if table.missing is not None:
        cell = table.labels.cell(first_cell(table.missing))
        raise InvalidTensor(
            f"the count of {cell} is NaN: a table has a count in every cell. If a cell cannot "
            "occur, put 0 there and exclude it with support=."
        )
    if table.labels.names is not None:
        return table
    called = tuple(chr(ord("A") + k) if k < 26 else f"V{k}" for k in range(len(table.shape)))
    return replace(table, origin=replace(table.origin, labels=replace(table.labels, names=called)))


def _read_incomplete(origin: Origin, patterns: tuple[Pattern, ...], support: Any, base: Any) -> Incomplete:
    """Combine counts of rows, some of which lack values, with the support and the base measure of the full table.

    `patterns` are the rows by the variables that they have. The origin is marked as completed, because entries of the
    completed table are not observed counts: inference on it is refused.
    """
    if isinstance(support, str) and support != "all":
        raise InvalidSupport(
            f"support={support!r} with missing='em': which cells are empty is not known where rows lack values. Pass a "
            "boolean array, False where a cell cannot occur."
        )
    assert origin.labels is not None
    # the entries are not used; they are positive where a cell can occur
    possible = np.ones(origin.labels.shape)
    if np.shape(base) == possible.shape:
        possible[np.asarray(base) == 0] = 0.0
    space = observe(possible, support, base)
    return Incomplete(replace(space, origin=replace(origin, completed=True)), patterns)


@dataclass(frozen=True)
class Move:
    """One step of the search that `LogLinear.step` makes: what was done, to which term, and what it changed.

    Attributes
    ----------
    action, term
        "add" or "drop", and the term.
    criterion, change
        The criterion of the model after the step, and by how much it changed.
    formula
        The model after the step.
    """

    action: str
    term: str
    criterion: float
    change: float
    formula: str


@frozen(repr=False, kw_only=True)
class LogLinear(Inference):
    """A log-linear model fitted to a contingency table: made by `loglinear`. It is an `Inference`.

    With ``missing="em"``, a row that lacks values counts towards the margin of the variables that it has. This is valid
    if values are missing at random: whether one is missing may depend on what was observed, but not on the value
    itself. All answers are then based on the likelihood of what was observed. Standard errors come from its information
    (Louis 1982), so they account for the information lost. `g2` and `df` compare with the saturated model of the same
    rows; Pearson's statistic has no counterpart. That likelihood is not concave in general: `residual` certifies a
    stationary point, and `local_maximum` that the likelihood rises in no direction from it. Another start might lead to
    a higher maximum.

    Attributes
    ----------
    fit
        The decomposition. If rows lack values, it is that of the completed table, in which each such row is divided
        among its possible cells in proportion to Q.
    formula, generators
        The model as a formula, and by its largest terms.
    g2, x2, df, g2_p_value, x2_p_value, aic, bic, log_likelihood
        As in `Inference`. Degrees of freedom are computed from the rank, on the cells with positive fitted means.
    path
        For a model that `step` chose, the moves that led to it.
    residual, converged
        The largest entry of the gradient of the log-likelihood per row, and whether it is at most tol.
    log_likelihoods
        Log-likelihoods of rows that lack values, without constants, after each round of expectation-maximisation: they
        never fall.
    missing_information
        The largest share of information that is lost to missing values, in any direction of theta.
    mcar
        The likelihood ratio test that values are missing completely at random: the margins of all patterns agree.

    See Also
    --------
    loglinear : Fit one.
    anova : Compare several.
    legendre.results.Inference : Tests of fit and residuals.

    Examples
    --------
    >>> import legendre as ld
    >>> m = ld.loglinear(ld.datasets.drug_use(), "[AC][AM][CM]")
    >>> round(m.g2, 3), m.df, m.formula
    (0.374, 1, 'alcohol*cigarette + alcohol*marijuana + cigarette*marijuana')
    >>> rows = {"smoke": ["yes", "yes", "no", "no", "yes", None], "ill": ["yes", "no", "no", "yes", None, "yes"]}
    >>> m = ld.loglinear({**rows, "n": [40, 20, 50, 10, 15, 25]}, "smoke*ill", counts="n", missing="em")
    >>> m.fitted().round(3).tolist()
    [[50.0, 14.079], [23.707, 72.214]]
    >>> m.converged, m.local_maximum, round(m.missing_information, 3)
    (True, True, 0.302)
    """

    _stored: ClassVar[tuple[str, ...]] = (
        *(part.name for part in fields(Inference)), "formula", "hierarchical", "tol", "_feature_names", "_patterns",
        "log_likelihoods",
    )  # fmt: skip

    model: Formula
    tol: float = 1e-10
    path: tuple[Move, ...] = ()
    em: Ascent | None = None  # where expectation-maximisation ended, if rows lack values

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, in the order of the table."""
        return self.model.names

    @property
    def hierarchical(self) -> bool:
        """Whether the model contains, with each term, all terms that it includes."""
        return self.model.hierarchical

    @property
    def formula(self) -> str:
        """The model as a formula, which `loglinear` reads."""
        return str(self.model)

    @property
    def generators(self) -> list[tuple[str, ...]]:
        """The largest terms: the margins that the fit has in common with the table."""
        return self.model.generators

    @property
    def _feature_names(self) -> tuple[str, ...]:
        """The names of the caller's own features, which a file holds in place of the functions."""
        return tuple(self.model.features)

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
        """Counts of rows by the variables that they have, for print, files and `anova`; empty if no row lacks one."""
        return () if self.em is None else self.em.likelihood.data.patterns

    @classmethod
    def _restore(
        cls,
        fit: Decomposition,
        formula: str,
        hierarchical: bool,
        _feature_names: tuple[str, ...],
        _patterns: tuple[Pattern, ...],
        log_likelihoods: tuple[float, ...],
        **others: Any,
    ) -> Self:
        """Rebuild a model from the `_stored` fields that a file holds.

        A file holds the names of the caller's own features, but not the functions: `LOST` stands for them. The last
        point of expectation-maximisation is computed again at theta. The table of counts is rebuilt, so that other
        models can be fitted to it.
        """
        names = fit.labels.names or ()
        model = read_formula(formula, names, dict.fromkeys(_feature_names, LOST), hierarchical=hierarchical)
        em, mask = None, "all" if fit.model.support.mask is None else fit.model.support.mask
        if _patterns:
            rows = _read_incomplete(fit.origin, _patterns, mask, fit.model.base)
            em = replace(Ascent.at(Likelihood(rows, fit), fit.theta), path=tuple(log_likelihoods))
        elif beyond_memory(fit.shape) is None:
            table = observe(others["counts"].grid(fit.shape), mask, fit.model.base)
            fit = replace(fit, data=replace(table, origin=fit.origin))
        return cls(fit=fit, model=model, em=em, **others)

    @property
    def plot(self) -> FitPlots:
        """Plots: ``m.plot.mosaic()``, ``.odds()``, ``.residuals()``, ...; incomplete rows are completed first."""
        return replace(self.fit.plot, tests=self)

    def report(self, path: Any, data: Any = None) -> None:
        """Write one HTML page with everything about the fit, see `Decomposition.report`."""
        from legendre.results.report import call_of_fit, write_page

        content = self.fit._content(data)
        write_page(path, replace(content, call=call_of_fit(self.fit, "loglinear", self.formula)))

    def fitted(self) -> Any:
        """Return the fitted counts, in the form of the table."""
        return self.fit.tensor()

    # --- rows that lack values ---------------------------------------------------------------------------------------

    @property
    def residual(self) -> float:
        """The largest entry of the gradient of the log-likelihood per row."""
        return self.fit.residual if self.em is None else self.em.residual

    @property
    def converged(self) -> bool:
        """Whether the gradient is at most tol."""
        return self.fit.converged if self.em is None else self.residual <= self.tol

    @property
    def log_likelihoods(self) -> tuple[float, ...]:
        """The log-likelihood of rows that lack values after each round, without constants."""
        return () if self.em is None else self.em.path

    @cached_property
    def missing_information(self) -> float:
        """The largest share of the information, over directions in theta, that is lost to missing values.

        It is 1 minus the smallest share of the information of complete rows that these rows have, and also the rate of
        convergence of expectation-maximisation. NaN if fitted counts tend to 0.
        """
        if self.em is None:
            return 0.0
        found = self.em.likelihood.find_shares(self.em.q)
        return math.nan if found is None else 1.0 - float(found[0].min(initial=1.0))

    @property
    def local_maximum(self) -> bool:
        """Whether the likelihood falls in every direction from the fit: some information is left in each.

        A share below 1e-7 that is left cannot be told from 0, because of rounding.
        """
        return self.missing_information <= 1.0 - 1e-7

    @cached_property
    def information(self) -> Information:
        """The covariance of the parameters, as in `Inference`, from the information in what was observed.

        An error is raised where the likelihood does not fall in every direction: it is flat along one, or the fit is at
        a saddle.
        """
        if not self.local_maximum:
            raise InvalidQuery(
                "the rows do not determine all parameters: along some direction no information was observed, as where "
                "two variables of a term are never known together or fitted counts tend to 0. Leave that term out, or "
                "add rows that have both; fitted counts and tests of fit do not need it."
            )
        return super().information

    @cached_property
    def mcar(self) -> LikelihoodRatio:
        """The likelihood ratio test that values are missing completely at random (Little 1988; for tables Fuchs 1982).

        It compares one saturated model of all rows with a model in which each pattern of missing values has its own
        probabilities of the margin that its rows show.
        """
        if self.em is None:
            return LikelihoodRatio(0.0, 0)
        data = self.em.likelihood.data
        # entries that can occur, less 1 for each pattern, as its probabilities add up to 1
        df = int((data.margins @ data.inside > 0).sum()) - len(data.patterns) - data.count_free(data.inside)
        best = 0.0
        for pattern in data.patterns:
            counts = pattern.counts[pattern.counts > 0]
            best += float(counts @ np.log(counts / counts.sum()))
        # path[-1] is this model's log-likelihood, and that of the saturated model is higher by g2 / 2
        return LikelihoodRatio(max(2.0 * (best - self.em.path[-1]) - self.g2, 0.0), df)

    # --- other models of the same table ------------------------------------------------------------------------------

    def update(self, formula: str | Sequence[Any], *, features: Mapping[str, Any] | None = None) -> LogLinear:
        """Fit another model to the same table; a dot, or nothing before + or -, stands for this model, as in R.

        Features of your own that the model has keep their names; `features` adds more of them.

        Examples
        --------
        >>> import legendre as ld
        >>> m = ld.loglinear(ld.datasets.drug_use(), ".^2")
        >>> m.update("- alcohol:marijuana").df, m.update(". ~ . - alcohol:marijuana").df, m.update("[AC][M]").df
        (2, 2, 3)
        """
        return self.refit(update_formula(self.model, formula, features))

    def refit(self, model: Formula) -> LogLinear:
        """Fit another model to the same table, or the same rows, as this one."""
        return fit_table(self.fit._observed if self.em is None else self.em.likelihood.data, model, self.tol)

    def drop1(self, **others: Never) -> Anova:
        """Leave out each term in turn, unless another term contains it, to see how much worse the model fits.

        Examples
        --------
        >>> import legendre as ld
        >>> print(ld.loglinear(ld.datasets.drug_use(), ".^2").drop1())
        without              df        G2  p (fit)      AIC      BIC       LRT  df of LRT       p
        ----------------------------------------------------------------------------------------------
        nothing               1    0.3740    0.541   63.417  103.529
        alcohol:cigarette     2  187.7543   <2e-16  248.798  283.179  187.3803          1  <2e-16  ***
        alcohol:marijuana     2   92.0184   <2e-16  153.062  187.443   91.6444          1  <2e-16  ***
        cigarette:marijuana   2  497.3693   <2e-16  558.413  592.794  496.9953          1  <2e-16  ***
        """
        refuse_arguments("drop1", others)
        self._check_hierarchical("drop1")
        model = self.model
        # `list_smaller` leaves functions out, because `step` never drops them
        without = [("drop", str(f), model - Formula(self.names, functions=(f,))) for f in model.functions]
        return self._compare_each(model.list_smaller() + without, "without")

    def add1(self, scope: str | Sequence[Any] | None = None) -> Anova:
        """Compare the model with those that have one more term of a scope, by default of all interactions.

        A term is tried if all terms that it contains are in the model.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.loglinear(ld.datasets.drug_use(), "[AC][AM]").add1().names
        ('nothing', 'cigarette:marijuana')
        """
        self._check_hierarchical("add1")
        return self._compare_each(self.model.list_larger(self.model.read_scope(scope)), "with")

    def _compare_each(self, moves: list[Neighbour], head: str) -> Anova:
        """Fit the models that are one move away, and test each against this one, for `drop1` and `add1`.

        `head` is the head of the column of terms.
        """
        fits, tests = [], []
        for action, _, other in moves:
            fits.append(self.refit(other))
            tests.append(compare_nested(fits[-1], self) if action == "drop" else compare_nested(self, fits[-1]))
        return Anova((self, *fits), tuple(tests), ("nothing", *(name for _, name, _ in moves)), head)

    def _check_hierarchical(self, asked: str) -> None:
        """Raise an error that names the method `asked` unless the model is hierarchical."""
        if not self.hierarchical:
            raise InvalidQuery(
                f"{asked} goes from one hierarchical model to the next; this one has hierarchical=False."
            )

    def step(
        self,
        criterion: Literal["aic", "bic"] | float = "aic",
        *,
        direction: Direction = "both",
        type: Kind = "hierarchical",  # noqa: A002, the word that gRim uses
        scope: str | Sequence[Any] | None = None,
        **others: Never,
    ) -> LogLinear:
        """Add or drop one term at a time as long as that lowers a criterion; `path` of the result lists the steps.

        Each step is the one that lowers the criterion most; among equal ones, up to rounding, the first in the order
        of the table.

        Parameters
        ----------
        criterion
            "aic", "bic", or a number: the penalty for each parameter.
        direction
            "both", "forward" (add terms) or "backward" (drop terms).
        type
            What a step adds or drops. "hierarchical": a term. "decomposable": an edge of a chordal graph, whose cliques
            are the generators; all fits are then in closed form.
        scope
            The largest model, by default the saturated one.

        Examples
        --------
        >>> import legendre as ld
        >>> chosen = ld.loglinear(ld.datasets.drug_use(), ".^3").step("bic")
        >>> chosen.formula
        'alcohol*cigarette + alcohol*marijuana + cigarette*marijuana'
        >>> [(move.action, move.term) for move in chosen.path]
        [('drop', 'alcohol:cigarette:marijuana')]
        """
        from scipy.special import xlogy

        rounding = 1e-9  # criteria that differ by less are equal
        refuse_arguments("step", others)
        self._check_hierarchical("step")
        check_choice(direction, "step: direction", get_args(Direction))
        check_choice(type, "step: type", get_args(Kind))
        if isinstance(criterion, str):
            named = criterion.lower()  # R writes AIC and BIC
            check_choice(named, "step: criterion, if it is not what a parameter costs,", ("aic", "bic"))
            price = 2.0 if named == "aic" else math.log(self.fit.total)
        else:
            price = check_number(criterion, "step: criterion", 0.0)
        largest = self.model.read_scope(scope)
        unwanted = {"forward": "drop", "backward": "add"}.get(direction)
        current, lowest, path = self.model, self._penalise(price), list[Move]()
        # an edge changes the likelihood of complete tables by a formula: no model is fitted before the search ends
        closed = type == "decomposable" and self.em is None and self.fit.model.whole
        table = self.fit._observed.dense.values if closed else np.empty(0)

        @cache
        def log_sum(term: Term) -> float:
            """Sum n log n over the margin of some variables."""
            n = table.sum(axis=other_modes(term, table.ndim))
            return float(xlogy(n, n).sum())

        def change_of(other: Formula) -> float:
            """Return by how much another model, one move away from the current one, changes the criterion.

            In closed form: the larger model has one more edge {a, b}, in a single clique C, and the smaller one makes a
            and b independent given the rest of C. So the log-likelihoods differ by the sums of n log n over the margins
            of C and of C without both, less those over C without a and over C without b.
            """
            if not closed:
                return float(self.refit(other)._penalise(price) - lowest)
            changed = current.terms ^ other.terms
            edge, clique = min(changed, key=len), max(changed, key=len)
            gain = log_sum(clique) + log_sum(clique - edge) - sum(log_sum(clique - {k}) for k in edge)
            df = math.prod(table.shape[k] - (k in edge) for k in clique)
            cost = float(price * df - 2.0 * gain)
            return cost if edge in other.terms else -cost

        while True:
            if type == "decomposable":
                moves = current.list_graphs(largest)
            else:
                moves = current.list_smaller() + current.list_larger(largest)
            moves = [move for move in moves if move[0] != unwanted]
            changes = np.array([change_of(other) for _, _, other in moves])
            # nothing lowers the criterion; `not <` ends the search also at NaN, where a rank is not known
            if not changes.min(initial=0.0) < -rounding:
                return replace(self.refit(current) if path else self, path=tuple(path))
            first = int(np.argmax(changes <= changes.min() + rounding))  # the first of those that are equal to the best
            action, name, current = moves[first]
            lowest += float(changes[first])
            path.append(Move(action, name, lowest, float(changes[first]), str(current)))

    # --- in print ----------------------------------------------------------------------------------------------------

    def tables(self, rows: int = 30) -> list[Table]:
        """List the tables of the summary: tests of fit and, if the rows determine them, at most `rows` coefficients."""
        check_int(rows, "summary: rows", 1)
        if not self.local_maximum:
            return [self._describe()]
        return [self._describe(), self.coef().table(rows)]

    __str__ = Inference.__repr__

    def _describe(self) -> NamedValues:
        """Lay out the printed form: the table, tests of fit, criteria and all warnings; empty entries are left out."""
        share, mcar, rows = self.missing_information, self.mcar, []
        ((_, modes),) = modes_row(self.fit.labels)  # variables always have names
        # complete rows first, then patterns of missing values from the most frequent on
        for pattern in sorted(self._patterns, key=lambda p: (len(p.modes) < len(self.names), -p.total)):
            lost = [name for k, name in enumerate(self.names) if k not in pattern.modes]
            rows.append(f"{pattern.total:,} {'without ' if lost else 'complete'}{' and '.join(lost)}")
        lacking = (
            "not known: some fitted counts tend to 0" if np.isnan(share) else f"at most {share:.1%} in any direction"
        )
        entries = [
            ("table", f"{modes}, N = {self.fit.total:.0f}"),
            ("rows", shorten(", ".join(rows), 160)),
            *self._statistic_rows("G2", "X2"),
            ("missing information", lacking if rows else ""),
            ("MCAR", statistic_text(mcar.statistic, mcar.df) if mcar.df > 0 else ""),
            ("status", self._describe_status()),
            *(("note", note) for note in (*self._notes_on_model(), *self.notes, *self.fit.origin.notes)),
        ]
        brackets = " ".join(f"[{' '.join(group)}]" for group in self.generators)
        functions = "".join(f" + {function}" for function in self.model.functions)
        brackets = brackets or ("[1]" if functions else "[1] (equal means)")
        model = shorten(brackets + functions if self.hierarchical else self.formula, 160)
        return NamedValues(f"Log-linear model {model}", [(name, text) for name, text in entries if text])

    def _notes_on_model(self) -> list[str]:
        """List warnings about the formula: variables without a term, dependent parameters, names taken as a scale."""
        absent = [name for k, name in enumerate(self.names) if not any(k in term for term in self.model.terms)]
        notes, labels = [], self.fit.labels
        if absent and not self.model.functions:
            notes.append(f"not in the model, so all levels have equal means: {', '.join(absent)}")
        if self.rank < self.fit.n_params:
            few = f"{self.rank:.0f} of the {self.fit.n_params:,} parameters are independent"
            notes.append(f"{few}: those that depend on each other have no estimate of their own")
        for function in self.model.functions:
            scored = [labels.find_mode(name) for key, name in function.args if not key and function.name == "uniform"]
            unordered = [k for k in scored if k not in self.fit.origin.ranked and are_names(labels.levels_of(k))]
            if unordered:
                words = list_words([labels.mode(k) for k in unordered])
                notes.append(f"{function} takes the levels of {words} as ordered and equally spaced")
        return notes

    def _describe_status(self) -> str:
        """Say whether the fit converged, and to what kind of maximum."""
        gone = self.fit.n_vanishing
        cells = f"{gone:,} fitted count{' is' if gone == 1 else 's are'}"
        if self.em is None:
            known = {
                Status.CONVERGED: "converged; the maximum likelihood estimate exists",
                Status.AT_BOUNDARY: f"the maximum likelihood estimate does not exist; in the limit {cells} 0",
            }
            return known.get(self.fit.status, str(self.fit.status.value))
        if not self.converged:
            return f"not converged: the gradient of the log-likelihood per row is {self.residual:.1e}"
        limit = f"; {cells} 0 in the limit" if gone else ""
        if self.local_maximum:
            return f"a local maximum of the likelihood of what was observed; there may be others{limit}"
        why = "; some fitted counts tend to 0" if np.isnan(self.missing_information) else ", flat in some direction"
        return f"a stationary point of the likelihood of what was observed{why}{limit}"


def fit_table(data: Observation | Incomplete, model: Formula, tol: float) -> LogLinear:
    """Fit a model to a table of counts, or to rows, some of which lack values."""
    if isinstance(data, Incomplete):
        return _fit_rows(data, model, tol)
    fit = warn_if_not_converged(fit_recipe(data, model.basis(data.shape), Settings(tol=tol)))
    return LogLinear.of(fit, model=model, tol=tol)


def _fit_rows(rows: Incomplete, model: Formula, tol: float) -> LogLinear:
    """Fit a model to rows, some of which lack values, and compare it with the saturated model of the same rows.

    The rows of each pattern (rows that have the same variables) are a multinomial sample of their own. The penalties of
    AIC and BIC count the parameters on the support that the rows identify, including infinite ones, but never more
    than the observed margins have free probabilities.
    """
    from scipy.special import gammaln, xlogy

    em = maximise(rows, model.basis(rows.shape), tol)
    likelihood, fit, q, largest = em.likelihood, em.likelihood.fit, em.q, em.path[-1]
    alive = likelihood.log_base > -np.inf  # the cells with positive probability
    identified = likelihood.count_identified(q)
    # `columns` are the independent parameters where cells are alive; those that are infinite are counted on top
    rank = min(support_rank(fit) - len(likelihood.columns) + identified, float(rows.count_free(rows.inside)))
    multinomial = poisson = largest  # without constants, which are added for each pattern
    for pattern in rows.patterns:
        n, log_factorials = float(pattern.total), float(gammaln(pattern.counts + 1.0).sum())
        multinomial += float(gammaln(n + 1.0)) - log_factorials
        poisson += float(xlogy(n, n)) - n - log_factorials  # the means are n times the probabilities
    found = LogLinear(
        fit=fit,
        counts=pair_with_means(fit, np.argwhere(alive.reshape(rows.shape)), rows.total * rows.expect(q)[alive]),
        g2=max(2.0 * (rows.maximise_saturated() - largest), 0.0),
        x2=math.nan,  # Pearson's statistic needs a complete table
        df=rows.count_free(alive) - identified,
        log_likelihood=multinomial,
        aic=aic(poisson, rank),
        rank=rank,
        missing=likelihood.missing_information(q),
        face_rank=identified,
        model=model,
        tol=tol,
        em=em,
    )
    if not found.converged:
        warn(
            f"expectation-maximisation stopped after {len(em.path)} rounds with a gradient of {em.residual:.2e} per "
            f"row, above tol = {tol:g}."
        )
    return found
