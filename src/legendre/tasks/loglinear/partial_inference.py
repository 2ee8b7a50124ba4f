"""What rows of which some lack values say about a log-linear model."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.types import FloatArray
from legendre.results.inference.counts import Counts, chi_square_p
from legendre.results.inference.criteria import criteria, support_rank
from legendre.results.inference.result import Inference
from legendre.results.inference.wald import Information, information
from legendre.tasks.loglinear.em import Ascent, Incomplete
from legendre.tasks.loglinear.observed import Margin, Observed, free_probabilities, margins_on
from legendre.tasks.loglinear.saturated import Saturated, saturated

IDENTIFIED = 1e-7  # shares of the information of complete rows below this are rounding errors of 0


@dataclass(frozen=True, eq=False)
class PartialInference(Inference):
    """What rows of which some lack values say about a model: made by ``loglinear(..., missing="em")``.

    The numbers are those of the likelihood of what was observed, values being missing at random.

    Attributes
    ----------
    g2, df, g2_p_value
        Twice the log-likelihood that the saturated model has beyond this one, both of the same rows; and how many more
        parameters it has that the rows can tell apart.
    x2, x2_p_value
        NaN: Pearson's statistic has no counterpart.
    log_likelihood, aic, bic
        Of what was observed; the rows of each pattern of missing values are a multinomial sample of their own. AIC and
        BIC charge for parameters that the rows can tell apart.
    reference
        The maximum of the saturated model, with a bound of its error.
    """

    format: ClassVar[str] = "legendre-partial-inference"

    ascent: Ascent = field(repr=False)
    rows: Incomplete = field(repr=False)
    reference: Saturated = field(repr=False)

    @cached_property
    def missing_shares(self) -> FloatArray:
        """What share of the information of complete rows is missing, along each axis of theta, the largest first.

        NaN where the information of complete rows is singular to rounding: fitted counts so small that they are 0.
        """
        from scipy.linalg import eigh

        observed, columns = self.ascent.observed, self.ascent.columns
        own = np.ix_(columns, columns)
        complete = observed.complete_information(self.ascent.q)[own]
        try:
            shares: FloatArray = eigh(observed.missing_information(self.ascent.q)[own], complete, eigvals_only=True)
        except np.linalg.LinAlgError:
            return np.full(len(columns), np.nan)
        return shares[::-1]

    @cached_property
    def information(self) -> Information:
        """The covariance from the information in what was observed (Louis 1982)."""
        lost = float(self.missing_shares.max(initial=0.0))
        if np.isnan(lost):
            least = self.ascent.observed.total * self.ascent.q.min()
            raise InvalidQuery(
                f"some fitted counts tend to 0, the smallest is {least:.1e}: there is no information about some "
                "parameters beyond rounding, and so no standard errors. Fitted counts and tests of fit do not need it."
            )
        if lost > 1.0 - IDENTIFIED:
            raise InvalidQuery(
                "the rows do not determine all parameters: along some direction no information was observed, as where "
                "two variables of a term are never known together. Leave that term out, or add rows that have both; "
                "fitted counts and tests of fit do not need it."
            )
        return information(self.fit, self.ascent.observed.missing_information(self.ascent.q))

    @property
    def identified(self) -> int:
        """How many independent parameters the rows can tell apart."""
        return self.ascent.observed.identified(self.ascent.q, self.ascent.columns)

    @property
    def rank(self) -> float:
        """The number of parameters that AIC and BIC charge for: those on the support that the rows can tell apart."""
        return _charged(self.ascent, margins_on(self.rows.table, self.fit.model.support.cells()))

    @property
    def _face_rank(self) -> int:
        return self.identified

    def bootstrap(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: tables that are drawn from Q lack nothing."""
        _refuse("bootstrap")

    def evidence(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: it has no closed form."""
        _refuse("evidence")

    def residuals(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: the counts of the cells are not known."""
        _refuse("residuals")


def _refuse(what: str) -> NoReturn:
    raise InvalidQuery(
        f"{what} needs complete rows, and some of these lack values. Fit the complete ones: "
        "loglinear(..., missing='drop')."
    )


def inferred(rows: Incomplete, ascent: Ascent) -> PartialInference:
    """Compare the model with the saturated one."""
    fit, observed = ascent.fit, ascent.observed
    alive = np.zeros(fit.shape, dtype=np.bool_)
    alive[tuple(observed.cells.T)] = True
    counts = Counts(observed.completed(ascent.q), observed.total * ascent.q, alive=alive)
    margins = margins_on(rows.table, fit.model.support.cells())
    reference = saturated(margins)
    value = observed.value(ascent.q)
    g2 = max(2.0 * (reference.log_likelihood - value), 0.0)
    df = free_probabilities(observed.margins) - observed.identified(ascent.q, ascent.columns)
    aic, bic = criteria(value + _constants(observed, poisson=True), _charged(ascent, margins), fit.total)
    log_likelihood = value + _constants(observed, poisson=False)
    none = float("nan")
    return PartialInference(
        fit, counts, g2, none, df, chi_square_p(g2, df), none, log_likelihood, aic, bic, ascent, rows, reference
    )


def _charged(ascent: Ascent, margins: tuple[Margin, ...]) -> float:
    """Count the parameters on the whole support, less those that the rows cannot tell apart from others.

    Parameters that run to infinity are counted, as for complete rows, but never more than margins have free values.
    """
    hidden = len(ascent.columns) - ascent.observed.identified(ascent.q, ascent.columns)
    return min(support_rank(ascent.fit) - hidden, float(free_probabilities(margins)))


def _constants(observed: Observed, *, poisson: bool) -> float:
    """Return what the log-likelihood has beside ``sum of n log q``: of Poisson counts, or of multinomial ones."""
    from scipy.special import gammaln, xlogy

    total = 0.0
    for margin in observed.margins:
        n = float(margin.counts.sum())
        total += float(xlogy(n, n)) - n if poisson else float(gammaln(n + 1.0))
        total -= float(gammaln(margin.counts + 1.0).sum())
    return total
