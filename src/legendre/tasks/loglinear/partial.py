"""Log-linear models of rows of which some lack values, fitted by expectation-maximisation."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, TypeGuard

import numpy as np

from legendre.core.errors import ConvergenceWarning, InvalidQuery
from legendre.core.text import Table
from legendre.data.partial_table import PartialTable
from legendre.data.read import TensorLike
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.results.inference.counts import chi_square_p
from legendre.results.inference.likelihood_ratio import LikelihoodRatio, check_nested, check_same_space
from legendre.results.inference.printout import tested
from legendre.results.plots.plots import FitPlots
from legendre.tasks.loglinear.em import Ascent, Incomplete, ascend, blur
from legendre.tasks.loglinear.formula import Model, read_formula
from legendre.tasks.loglinear.functions import LOST
from legendre.tasks.loglinear.observed import Margin, Observed, free_probabilities, margins_on
from legendre.tasks.loglinear.partial_inference import IDENTIFIED, PartialInference, inferred
from legendre.tasks.loglinear.partial_pair import NoPair, refuse_pair
from legendre.tasks.loglinear.result import ROWS, LogLinear
from legendre.tasks.loglinear.saturated import close
from legendre.tasks.loglinear.terms import hierarchical_model, written_out

LOWER = 1e-6  # a larger model whose log-likelihood is lower by more than this ended at another maximum
NAMED = 4  # sets of variables that rows lack, which are named


@dataclass(frozen=True, eq=False, repr=False)
class PartialLogLinear(LogLinear):
    """A log-linear model fitted to rows some of which lack values: made by ``loglinear(..., missing="em")``.

    A row counts for the margin of the variables that it has. This is right if values are missing at random: whether one
    is missing may depend on what was observed, but not on the value itself. `coef`, `contrast`, `odds`, `anova`,
    `drop1`, `add1`, `step` are those of `LogLinear`, from the likelihood of what was observed; standard errors come
    from its information (Louis 1982), so they include what the missing values cost.

    That likelihood is not concave in general. `residual` certifies a stationary point, and `local_maximum` that no
    direction leads up from it; another start might lead to a higher one. For the saturated model, which is concave,
    `global_maximum` certifies the maximum.

    Attributes
    ----------
    fit
        The decomposition of the completed table: rows that lack values are shared out by Q itself.
    residual
        The largest entry of the gradient of the log-likelihood per row: ``max|eta - eta_hat|``, the table being
        completed by Q itself.
    converged
        Whether it is at most tol.
    log_likelihoods
        After each round of expectation-maximisation: they never fall.
    missing_information
        The largest share of information, along any direction of theta, that the missing values took away.
    mcar
        The likelihood ratio test that values are missing completely at random: the margins of all patterns agree.

    See Also
    --------
    loglinear : Fit one.
    legendre.results.LogLinear : The same for complete rows.

    Examples
    --------
    >>> import legendre as ld
    >>> rows = {"smoke": ["yes", "yes", "no", "no", "yes", None], "ill": ["yes", "no", "no", "yes", None, "yes"]}
    >>> m = ld.loglinear({**rows, "n": [40, 20, 50, 10, 15, 25]}, "smoke*ill", counts="n", missing="em")
    >>> m.fitted().round(3).tolist()
    [[50.0, 14.079], [23.707, 72.214]]
    >>> m.converged, m.local_maximum, round(m.missing_information, 3)
    (True, True, 0.302)
    """

    inference: PartialInference
    _stored: ClassVar[tuple[str, ...]] = (
        "fit", "rows", "formula", "hierarchical", "_feature_names", "_tol", "log_likelihoods",
    )  # fmt: skip

    @property
    def _tol(self) -> float:
        return self.settings.tol

    @classmethod
    def _restore(
        cls,
        fit: Decomposition,
        rows: PartialTable,
        formula: str,
        hierarchical: bool,
        _feature_names: tuple[str, ...],
        _tol: float,
        log_likelihoods: tuple[float, ...],
    ) -> Self:  # type: ignore[override]
        """Make the model of what a file holds; all numbers are computed anew."""
        observed = Observed.of(rows, fit.model, fit.alive)
        q = observed.at(fit.theta)
        ascent = Ascent(fit, observed, q, observed.residual(q), (*log_likelihoods[:-1], observed.value(q)))
        model = read_formula(formula, rows.names, dict.fromkeys(_feature_names, LOST))
        incomplete = Incomplete(rows, fit.model.support.mask, fit.model.base)
        model = hierarchical_model(model) if hierarchical else model
        return cls(inferred(incomplete, ascent), model, rows.names, hierarchical, Settings.read(tol=_tol))

    @property
    def rows(self) -> PartialTable:
        """The rows, by which variables they have."""
        return self.inference.rows.table

    @property
    def residual(self) -> float:
        """The largest entry of the gradient of the log-likelihood per row."""
        return self.inference.ascent.residual

    @property
    def converged(self) -> bool:
        """Whether the gradient is at most tol."""
        return self.residual <= self.settings.tol

    @property
    def log_likelihoods(self) -> tuple[float, ...]:
        """The log-likelihood after each round, without constants."""
        return self.inference.ascent.path

    @property
    def missing_information(self) -> float:
        """The largest share of information that the missing values took away; NaN where fitted counts tend to 0."""
        return float(self.inference.missing_shares.max(initial=0.0))

    @property
    def local_maximum(self) -> bool:
        """Whether every direction of theta leads down."""
        return self.missing_information <= 1.0 - IDENTIFIED

    @property
    def global_maximum(self) -> bool:
        """Whether no probabilities have a higher likelihood, of whatever model: True where this one is saturated.

        The saturated maximum is known to within its gap. A model with degrees of freedom left reaches it only where
        the two likelihoods differ by no more than rounding errors of their sums.
        """
        reference, reached = self.inference.reference, self.log_likelihoods[-1]
        known = 0.0 if self.inference.df else 10.0 * close(self.fit.total)
        return reference.log_likelihood + reference.gap - reached <= known + blur(reached)

    @cached_property
    def mcar(self) -> LikelihoodRatio:
        """The test that values are missing completely at random (Little 1988; for tables Fuchs 1982)."""
        found = self.inference
        margins = margins_on(self.rows, found.fit.model.support.cells())
        best = sum(_apart(margin) for margin in margins)
        df = sum(len(np.unique(margin.entry)) - 1 for margin in margins) - free_probabilities(margins)
        statistic = max(2.0 * (best - found.reference.log_likelihood), 0.0)
        return LikelihoodRatio(statistic, df, chi_square_p(statistic, df))

    @property
    def plot(self) -> FitPlots:
        """Pictures of the fit: ``m.plot.odds()``, ``.effects()``, ``.graph()``; none that show observed counts."""
        return FitPlots(self.fit, NoPair(self.fit.labels), fit=self.fit, tests=self.inference)

    def report(self, path: str | os.PathLike[str], data: TensorLike | None = None) -> None:
        """Refuse: the page compares observed counts with fitted ones."""
        del path, data
        refuse_pair("report")

    def refitted(self, model: Model) -> LogLinear:
        """Fit another model to the same rows."""
        return fitted_partial(self.inference.rows, model, self.names, self.hierarchical, self.settings)

    def against(self, large: LogLinear) -> LikelihoodRatio:
        """Test this model against a larger one of the same rows that contains it."""
        self.check_alike(large)
        if not self.same_table(large):
            raise InvalidQuery(f"{self.formula} and {large.formula} are models of different rows.")
        check_same_space(self.fit, large.fit)
        check_nested(self.fit, large.fit)
        gain = large.log_likelihoods[-1] - self.log_likelihoods[-1]
        if gain < -LOWER:
            raise InvalidQuery(
                f"{large.formula} contains {self.formula}, but its likelihood is lower by {-gain:.3g}: its fit ended "
                "at another maximum, so that the two cannot be compared."
            )
        df = large.inference.identified - self.inference.identified
        return LikelihoodRatio(max(2.0 * gain, 0.0), df, chi_square_p(max(2.0 * gain, 0.0), df))

    def same_table(self, other: LogLinear) -> TypeGuard[PartialLogLinear]:
        """Whether another model is one of the same rows."""
        # models of complete and of incomplete rows are compared with each other by callers
        if not isinstance(other, PartialLogLinear) or self.names != other.names or self.fit.shape != other.fit.shape:
            return False
        if len(self.rows.patterns) != len(other.rows.patterns):
            return False
        pairs = zip(self.rows.patterns, other.rows.patterns, strict=True)
        return all(p.modes == o.modes and bool((p.counts == o.counts).all()) for p, o in pairs)

    def tables(self, rows: int = ROWS) -> list[Table]:
        """List the tests of fit, then the coefficients; these only where the rows determine them."""
        return super().tables(rows) if self.local_maximum else [self._head()]

    def _tests(self) -> list[tuple[str, str]]:
        found, mcar = self.inference, self.mcar
        said = [
            ("rows", _rows(self.rows)),
            ("G2", tested(found.g2, found.df, found.g2_p_value)),
            ("AIC", f"{found.aic:.3f}"),
            ("BIC", f"{found.bic:.3f}"),
            ("missing information", _share(self.missing_information)),
        ]
        if mcar.df > 0:
            said.append(("MCAR", tested(mcar.statistic, mcar.df, mcar.p_value)))
        return [*said, ("status", self._status())]

    def _status(self) -> str:
        if not self.converged:
            return f"not converged: the gradient of the log-likelihood per row is {self.residual:.1e}"
        gone = self.fit.n_vanishing
        limit = f"; {gone:,} fitted {'count is' if gone == 1 else 'counts are'} 0 in the limit" if gone else ""
        if self.global_maximum:
            return f"no probabilities have a higher likelihood of what was observed{limit}"
        if np.isnan(self.missing_information):
            return f"a stationary point of the likelihood of what was observed; some fitted counts tend to 0{limit}"
        if not self.local_maximum:
            return f"a stationary point of the likelihood of what was observed, flat in some direction{limit}"
        return f"a local maximum of the likelihood of what was observed; there may be others{limit}"


def fitted_partial(
    rows: Incomplete, model: Model, names: tuple[str, ...], hierarchical: bool, settings: Settings
) -> PartialLogLinear:
    """Fit a model to rows of which some lack values."""
    labels = rows.table.origin.of(rows.table.shape)
    whole, basis = written_out(model, labels, names, hierarchical=hierarchical)
    found = PartialLogLinear(inferred(rows, ascend(rows, basis, settings)), whole, names, hierarchical, settings)
    if not found.converged:
        text = (
            f"expectation-maximisation stopped after {len(found.log_likelihoods)} rounds with a gradient of "
            f"{found.residual:.2e} per row, above tol = {settings.tol:g}."
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
    return found


def _apart(margin: Margin) -> float:
    """Return the largest log-likelihood of one pattern on its own."""
    seen = margin.counts[margin.counts > 0]
    return float(seen @ np.log(seen / seen.sum()))


def _share(missing: float) -> str:
    return "not known: some fitted counts tend to 0" if np.isnan(missing) else f"at most {missing:.1%} in any direction"


def _rows(table: PartialTable) -> str:
    """Say how many rows lack what."""
    lacking = sorted(table.lacking(), key=lambda item: -item[1])
    named = [f"{n:,} without {' and '.join(lost)}" for lost, n in lacking[:NAMED]]
    others = sum(n for _, n in lacking[NAMED:])
    more = [f"{others:,} without others"] if others else []
    return f"{table.complete:,} complete, {', '.join([*named, *more])}"
