"""`loglinear`: log-linear models of contingency tables, by formulas, as a statistician reads them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice, check_int
from legendre.core.errors import (
    ConvergenceWarning,
    InvalidBasis,
    InvalidQuery,
    InvalidSamples,
    InvalidSetting,
    InvalidSupport,
    InvalidTensor,
)
from legendre.core.memory import size_name
from legendre.core.text import Columns, NamedValues, Table, shortened
from legendre.core.types import FloatArray
from legendre.data.checks import support_mask
from legendre.data.dense import observe
from legendre.data.observation import Observation, beyond_memory
from legendre.data.partial_table import PartialTable, Pattern, has_rows, read_cases
from legendre.data.read import beside, read
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.fit import Settings, fit_recipe, warn_if_not_converged
from legendre.results.decomposition import Decomposition
from legendre.results.inference.counts import Counts, chi_square_p, criteria, support_rank
from legendre.results.inference.printout import statistic_text
from legendre.results.inference.result import Inference, numbers_of
from legendre.results.inference.wald import Information
from legendre.solvers.loop import Status
from legendre.tasks.em import Ascent, Incomplete, Likelihood, maximise
from legendre.tasks.loglinear.anova import LikelihoodRatio
from legendre.tasks.loglinear.choice import Criterion, Direction, Kind, Move, TermTests, add_terms, drop_terms, search
from legendre.tasks.loglinear.formula import (
    LOST,
    Formula,
    Term,
    check_features,
    check_used,
    left_side,
    names_in,
    read_formula,
    update_formula,
)

if TYPE_CHECKING:
    from legendre.results.plots.effects import FitPlots


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
    base: ArrayLike | None = None,
    features: Mapping[str, Any] | None = None,
    hierarchical: bool = True,
    tol: float = 1e-10,
) -> LogLinear:
    """Fit a log-linear model to a contingency table by maximum likelihood.

    The likelihood is that of Poisson counts, or of a multinomial sample: the fit is the same.

    Parameters
    ----------
    data
        A data frame (pandas, polars, pyarrow) or a mapping of names to columns, with a row for each case or for each
        cell; a cross table or a Series with a MultiIndex of pandas, a DataArray of xarray, a `SparseTensor`, an array
        of counts.
    formula
        As in R: ``"Class*Sex + Survived"``, ``"(a + b + c)^2"``, ``".^2 - a:b"``, where a dot is all variables. By
        generators: ``"[AB][BC]"`` (names or their initials), or lists of names, ``[["a", "b"], ["c"]]``. Names with
        blanks are put in quotes. ``"1"`` is the model with equal means. Association models of `legendre.ties` are
        functions: ``"a + b + uniform(a, b)"``, ``"quasi_symmetric(a, b)"``, ``"a + b + diagonal(a, b)"``.
    counts
        For a data frame: the column of frequencies, or these numbers; ``"rows"`` counts every row once. It may also
        stand before a ``~`` in the formula. If a column looks like frequencies, an error asks for it.
    columns
        For a data frame: the variables of the table; by default those of the formula. Other data are taken whole: if
        the formula does not name a variable, the model gives its levels equal frequencies.
    levels
        For each variable its levels in order; by default those that occur, sorted (ordered categories keep their
        order).
    names
        Names of the variables of an array; by default A, B, C, ...
    missing
        What to do with rows of a data frame that lack a value. "error" names the first of them.
        "drop" leaves them out, and says how many. "em" uses them: each counts for the margin of the variables that it
        has, by expectation-maximisation, which is right if values are missing at random.
    support
        A boolean array of the table's shape, False at structural zeros (cells that cannot occur); or "nonzero", if
        every zero is structural.
    base
        Known factors of the means, an array of the table's shape: ``base=exposure`` for R's ``offset(log(exposure))``.
    features
        Functions of your own, by their names in the formula: ``near(a, b)`` calls ``features["near"]`` with the levels
        of both (their labels, or numbers if there are none), as `legendre.features` does. An array is indexed by these
        levels. A name without brackets depends on all variables, in the order of the table, or is a basis. Each feature
        has one coefficient.
    hierarchical
        Add to each term the terms that it contains. False takes the terms literally; their meaning then depends on
        which levels come first.
    tol
        As in `decompose`.

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
    status  the maximum likelihood estimate exists, and this is it
    """
    tol = Settings.read(tol=tol).tol
    columns = [columns] if isinstance(columns, str) else columns
    check_choice(missing, "missing", ("error", "drop", "em"), InvalidSamples)
    framed = has_rows(data, columns, counts)
    if not framed and (left := left_side(formula)) is not None:
        raise InvalidBasis(
            f"the formula {formula!r} names {left!r} before ~, but a {type(data).__name__} is read as a table, which "
            "has its counts already. Leave out what stands before ~; only of a data frame it is the column of counts."
        )
    if isinstance(data, SparseTensor) and beyond_memory(data.shape) is not None:  # it stays a list of cells
        if data.names is None:
            raise InvalidTensor(
                f"loglinear: this table, {size_name(math.prod(data.shape))} cells, is too large to be written out, and "
                "its variables have no names. Count the rows of a data frame by from_rows(frame), whose columns have "
                "names; or fit cells by decompose(X, interactions(...)), which counts modes from 0."
            )
        model = _read_model(formula, data.names, features, (), hierarchical)
        return fit_table(read(data, support, base), model, tol)
    named = _read_columns(formula, counts, columns, features) if framed else (columns, counts)
    how: Any = "keep" if missing == "em" else missing
    rows = read_cases(data, *named, levels=levels, names=names, missing=how)
    model = _read_model(formula, rows.names, features, rows.dropped, hierarchical)
    if rows.complete < rows.total:
        return fit_rows(_incomplete(rows, support, base), model, tol)
    observed = observe(rows.patterns[0].counts, beside(support, rows.origin), beside(base, rows.origin))
    return fit_table(replace(observed, origin=rows.origin), model, tol)


def _read_model(formula: Any, names: tuple[str, ...], features: Any, dropped: Any, hierarchical: bool) -> Formula:
    """Read the formula, with features of the caller's own; variables with a single level change nothing."""
    own = check_features(features, names)
    model = read_formula(formula, names, own, dropped)
    check_used(own, model, formula)
    return model.complete(hierarchical=hierarchical)


def _read_columns(formula: Any, counts: Any, columns: Any, features: Any) -> tuple[Any, Any]:
    """Return the variables and the counts of a data frame: what the formula names, where the caller does not."""
    named = names_in(formula) if columns is None else columns
    if columns is None and named is not None and isinstance(features, Mapping):
        named = [name for name in named if name not in features]
    left = left_side(formula)
    if left is not None and counts is not None and not (isinstance(counts, str) and counts == left):
        raise InvalidBasis(f"the formula {formula!r} names the counts {left!r}, and counts= is passed, too. Pass one.")
    return named, left if counts is None else counts


def _incomplete(rows: PartialTable, support: Any, base: Any) -> Incomplete:
    """Take rows of which some lack values, with their sample space and base measure."""
    if isinstance(support, str) and support != "all":
        raise InvalidSupport(
            f"support={support!r} with missing='em': which cells are empty is not known where rows lack values. Pass a "
            "boolean array, False where a cell cannot occur."
        )
    mask = None if isinstance(support, str) else support_mask(np.empty(rows.shape), None, support)
    checked = read(np.ones(rows.shape), "all" if mask is None else mask, base)
    origin = replace(rows.origin, completed=True)
    return Incomplete(rows.shape, rows.patterns, mask, checked.base, origin)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LogLinear(Inference):
    """A log-linear model fitted to a contingency table: made by `loglinear`. It is an `Inference`.

    With ``missing="em"`` a row that lacks values counts for the margin of the variables that it has. This is right if
    values are missing at random: whether one is missing may depend on what was observed, but not on the value itself.
    All answers are then from the likelihood of what was observed; standard errors come from its information (Louis
    1982), so they include what the missing values cost. `g2` and `df` compare with the saturated model of the same
    rows; Pearson's statistic has no counterpart. That likelihood is not concave in general: `residual` certifies a
    stationary point, and `local_maximum` that no direction leads up from it; another start might lead to a higher one.

    Attributes
    ----------
    fit
        The decomposition; if rows lack values, of the completed table: such rows are shared out by Q itself.
    formula, generators
        The model as a formula, and by its largest terms.
    g2, x2, df, g2_p_value, x2_p_value, aic, bic, log_likelihood
        As in `Inference`. Degrees of freedom are counted by rank, on the cells that have positive means.
    path
        For a model that `step` chose, the moves that led to it.
    residual, converged
        The largest entry of the gradient of the log-likelihood per row, and whether it is at most tol.
    log_likelihoods
        Of rows that lack values, without constants, after each round of expectation-maximisation: they never fall.
    missing_information
        The largest share of information, along any direction of theta, that the missing values took away.
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
    def terms(self) -> frozenset[Term]:
        """The terms of the model, sets of names."""
        return self.model.terms

    @property
    def hierarchical(self) -> bool:
        """Whether the model has with each term all that it contains."""
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
    def features(self) -> dict[str, Any]:
        """The features of the caller's own that the model has, by name."""
        return {term.name: term.feature for term in self.model.functions if term.feature is not None}

    @property
    def _feature_names(self) -> tuple[str, ...]:
        return tuple(self.features)

    @property
    def _patterns(self) -> tuple[Pattern, ...]:
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
        """Make the model of what a file holds; features of the caller's own are not in it, but for their names."""
        names = tuple(fit.labels.mode(k) for k in range(len(fit.shape)))
        model = read_formula(formula, names, dict.fromkeys(_feature_names, LOST)).complete(hierarchical=hierarchical)
        em = None
        if _patterns:
            rows = Incomplete(fit.shape, _patterns, fit.model.support.mask, fit.model.base, fit.origin)
            em = replace(Ascent.at(Likelihood(rows, fit), fit.theta), path=tuple(log_likelihoods))
        return cls(fit=fit, model=model, em=em, **others)

    @property
    def plot(self) -> FitPlots:
        """Pictures: ``m.plot.mosaic()``, ``.odds()``, ``.residuals()``, ...; of rows that lack values as completed."""
        return replace(self.fit.plot, tests=self)

    def report(self, path: Any, data: Any = None) -> None:
        """Write one HTML page with everything about the fit, see `Decomposition.report`."""
        self.fit.report(path, data)

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

    @property
    def lacking(self) -> list[tuple[tuple[str, ...], int]]:
        """Which variables rows lack, and how many rows do, the most frequent first."""
        absent = [tuple(name for k, name in enumerate(self.names) if k not in p.modes) for p in self._patterns]
        found = [(lost, p.total) for lost, p in zip(absent, self._patterns, strict=True) if lost]
        return sorted(found, key=lambda item: -item[1])

    @cached_property
    def missing_information(self) -> float:
        """The largest share of information that the missing values took away; NaN where fitted counts tend to 0."""
        from scipy.linalg import eigh

        if self.em is None or self.missing is None:
            return 0.0
        own = np.ix_(self.em.likelihood.columns, self.em.likelihood.columns)
        complete = self.em.likelihood.complete_information(self.em.q)[own]
        try:
            shares: FloatArray = eigh(self.missing[own], complete, eigvals_only=True)
        except np.linalg.LinAlgError:
            return float("nan")
        return float(shares.max(initial=0.0))

    @property
    def local_maximum(self) -> bool:
        """Whether every direction of theta leads down; shares of the information below 1e-7 are rounding."""
        return self.missing_information <= 1.0 - 1e-7

    @cached_property
    def information(self) -> Information:
        """The covariance from the information in what was observed."""
        if np.isnan(self.missing_information):
            raise InvalidQuery(
                "some fitted counts tend to 0: there is no information about some parameters beyond rounding, and so "
                "no standard errors. Fitted counts and tests of fit do not need it."
            )
        if not self.local_maximum:
            raise InvalidQuery(
                "the rows do not determine all parameters: along some direction no information was observed, as where "
                "two variables of a term are never known together. Leave that term out, or add rows that have both; "
                "fitted counts and tests of fit do not need it."
            )
        return super().information

    @cached_property
    def mcar(self) -> LikelihoodRatio:
        """The test that values are missing completely at random (Little 1988; for tables Fuchs 1982)."""
        if self.em is None:
            return LikelihoodRatio(0.0, 0, float("nan"))
        data, inside = self.em.likelihood.data, self.fit.model.support.on_grid()
        best, df = 0.0, -data.free(inside)
        for pattern in data.patterns:
            seen = pattern.counts[pattern.counts > 0]
            best += float(seen @ np.log(seen / seen.sum()))
            df += int((data.sums(inside.astype(np.float64), pattern) > 0).sum()) - 1
        statistic = max(2.0 * (best - self.em.path[-1]) - self.g2, 0.0)  # g2 / 2: what the saturated model has beyond
        return LikelihoodRatio(statistic, df, chi_square_p(statistic, df))

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
        more = check_features(features, self.names)
        model = update_formula(self.model, formula, self.features | more)
        check_used(more, model, formula)
        return self.refit(model.complete(hierarchical=self.hierarchical))

    def refit(self, model: Formula) -> LogLinear:
        """Fit another model to the same table."""
        if self.em is not None:
            return fit_rows(self.em.likelihood.data, model, self.tol)
        if self.fit.data is None:
            raise InvalidSetting("the table is not at hand (this model was loaded from a file); fit it anew.")
        return fit_table(self.fit.data, model, self.tol)

    def drop1(self) -> TermTests:
        """Leave out each term in turn, unless another term contains it, to see how much worse the model fits.

        Examples
        --------
        >>> import legendre as ld
        >>> print(ld.loglinear(ld.datasets.drug_use(), ".^2").drop1())
        without              df        G2      AIC       LRT  on df       p
        ------------------------------------------------------------------------
        nothing               1    0.3740   63.417
        alcohol:cigarette     2  187.7543  248.798  187.3803      1  <2e-16  ***
        alcohol:marijuana     2   92.0184  153.062   91.6444      1  <2e-16  ***
        cigarette:marijuana   2  497.3693  558.413  496.9953      1  <2e-16  ***
        """
        return drop_terms(self)

    def add1(self, scope: str | Sequence[Any] | None = None) -> TermTests:
        """Compare the model with those that have one more term of a scope, by default of all interactions.

        A term is tried if all terms that it contains are in the model.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.loglinear(ld.datasets.drug_use(), "[AC][AM]").add1().names
        ('cigarette:marijuana',)
        """
        return add_terms(self, scope)

    def step(
        self,
        criterion: Criterion = "aic",
        *,
        direction: Direction = "both",
        type: Kind = "hierarchical",  # noqa: A002, the word that gRim uses
        scope: str | Sequence[Any] | None = None,
    ) -> LogLinear:
        """Add or leave out one term after the other as long as that lowers a criterion; `path` lists the steps.

        Parameters
        ----------
        criterion
            "aic", "bic", or a number: what a parameter costs.
        direction
            "both", "forward" (terms are added) or "backward" (they are left out).
        type
            "hierarchical": single terms. "decomposable": edges of a graph without long cycles, whose cliques are the
            generators; all fits are then in closed form.
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
        return search(self, criterion, direction, type, scope)

    # --- in print ----------------------------------------------------------------------------------------------------

    def tables(self, rows: int = 30) -> list[Table]:
        """List the tests of fit, then the coefficients; these only where the rows determine them."""
        check_int(rows, "summary: rows", 1, InvalidQuery)
        if not self.local_maximum:
            return [self._head()]
        coef = self.coef().table()
        left = len(coef.rows) - 1 - rows
        if left > 0:
            notes = [f"... and {left:,} more: coef() has them all", *coef.notes]
            coef = Columns("", coef.rows[: rows + 1], coef.sides, ruled=True, notes=notes)
        return [self._head(), coef]

    def __repr__(self) -> str:
        return self._head().text()

    def __str__(self) -> str:
        return self._head().text()

    def _head(self) -> NamedValues:
        labels = self.fit.labels
        modes = ", ".join(f"{labels.mode(k)} ({n})" for k, n in enumerate(labels.shape))
        said = [("table", f"{shortened(modes, 160)}, N = {self.fit.total:.0f}")]
        if self.em is not None:
            lost = [f"{n:,} without {' and '.join(names)}" for names, n in self.lacking[:4]]
            others = sum(n for _, n in self.lacking[4:])
            complete = sum(p.total for p in self._patterns if len(p.modes) == len(self.names))
            lost += [f"{others:,} without others"] if others else []
            said.append(("rows", ", ".join([f"{complete:,} complete", *lost])))
        said.append(("G2", statistic_text(self.g2, self.df, self.g2_p_value)))
        if self.em is None:
            said.append(("X2", statistic_text(self.x2, self.df, self.x2_p_value)))
        said += [("AIC", f"{self.aic:.3f}"), ("BIC", f"{self.bic:.3f}")]
        if self.em is not None:
            share = self.missing_information
            tends = "not known: some fitted counts tend to 0"
            said.append(("missing information", tends if np.isnan(share) else f"at most {share:.1%} in any direction"))
            if self.mcar.df > 0:
                said.append(("MCAR", statistic_text(self.mcar.statistic, self.mcar.df, self.mcar.p_value)))
        said.append(("status", self._status()))
        absent = [name for name in self.names if not any(name in term for term in self.terms)]
        if absent and not self.model.functions:
            said.append(("note", f"not in the model, so that all levels have equal means: {', '.join(absent)}"))
        if self.rank < self.fit.n_params:
            few = f"{self.rank:.0f} of the {self.fit.n_params:,} parameters are independent"
            said.append(("note", f"{few}: those that depend on each other have no estimate of their own"))
        said += [("note", note) for note in (*self.notes, *self.fit.origin.notes)]
        brackets = " ".join(f"[{' '.join(group)}]" for group in self.generators) or "[]"
        functions = "".join(f" + {function}" for function in self.model.functions)
        return NamedValues(f"Log-linear model {brackets + functions if self.hierarchical else self.formula}", said)

    def _status(self) -> str:
        gone = self.fit.n_vanishing
        cells = "1 fitted count is" if gone == 1 else f"{gone:,} fitted counts are"
        if self.em is None:
            known = {
                Status.CONVERGED: "the maximum likelihood estimate exists, and this is it",
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


def fit_table(data: Observation, model: Formula, tol: float) -> LogLinear:
    """Fit a model to a table that has been read."""
    fit = warn_if_not_converged(fit_recipe(data, model.basis(data.shape), Settings(tol=tol)), stacklevel=4)
    return LogLinear(**numbers_of(fit), model=model, tol=tol)


def fit_rows(rows: Incomplete, model: Formula, tol: float) -> LogLinear:
    """Fit a model to rows of which some lack values."""
    basis = model.basis(rows.shape)
    em = maximise(rows, basis, tol)
    found = LogLinear(**_numbers_of_rows(em), model=model, tol=tol, em=em)
    if not found.converged:
        text = (
            f"expectation-maximisation stopped after {len(em.path)} rounds with a gradient of {em.residual:.2e} per "
            f"row, above tol = {tol:g}."
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
    return found


def _numbers_of_rows(em: Ascent) -> dict[str, Any]:
    """Compare a model of rows that lack values with the saturated one.

    The rows of each pattern are a multinomial sample of their own. AIC and BIC charge for the parameters on the support
    that the rows can tell apart, those that run to infinity among them, but never for more than margins have values.
    """
    from scipy.special import gammaln, xlogy

    likelihood, fit, data, q = em.likelihood, em.likelihood.fit, em.likelihood.data, em.q
    alive = likelihood.log_base > -np.inf
    identified = likelihood.identified(q)
    rank = min(support_rank(fit) - len(likelihood.columns) + identified, float(data.free(data.inside)))
    multinomial = poisson = value = em.path[-1]
    for pattern in data.patterns:
        n, same = float(pattern.counts.sum()), float(gammaln(pattern.counts + 1.0).sum())
        multinomial += float(gammaln(n + 1.0)) - same
        poisson += float(xlogy(n, n)) - n - same
    g2, df = max(2.0 * (data.saturated() - value), 0.0), data.free(alive) - identified
    aic, bic = criteria(poisson, rank, fit.total)
    counts = Counts(data.expect(q)[alive], data.total * q[alive], alive=alive)
    none = float("nan")
    numbers = (fit, counts, g2, none, df, chi_square_p(g2, df), none, multinomial, aic, bic, rank)
    names = (part.name for part in fields(Inference))
    return dict(zip(names, (*numbers, likelihood.missing_information(q), identified), strict=True))
