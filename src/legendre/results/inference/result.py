"""`Inference`: what counts say about a model and its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_real
from legendre.core.cells import frozen
from legendre.core.errors import InvalidQuery
from legendre.core.types import FloatArray
from legendre.results.inference.chisquare import chi_square_p
from legendre.results.inference.counts import Counts, counts_of
from legendre.results.inference.printout import printout
from legendre.results.inference.residuals import residuals
from legendre.results.inference.wald import Information, information

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True, eq=False)
class Inference:
    """Tests of fit, standard errors and residuals of a decomposition whose X holds counts.

    X is taken as a multinomial sample of N = `fit.total` cells, Q as its maximum likelihood estimate; p-values and
    standard errors are the usual asymptotic ones.

    Attributes
    ----------
    g2, x2
        The likelihood ratio statistic (deviance) ``2 N KL(P, Q)`` and Pearson's statistic.
    df
        Degrees of freedom: cells of the support that do not vanish, less 1, less `fit.rank`.
    g2_p_value, x2_p_value
        From the chi-square distribution; NaN without degrees of freedom.
    log_likelihood
        Multinomial, with all constants.
    aic
        As R's ``glm(family = poisson)``: ``-2 L + 2 (rank + 1)``, L being the Poisson log-likelihood (independent
        counts, N random). It exceeds ``-2 log_likelihood + 2 rank`` by a number that depends on N alone.
    bic
        The same with ``log N`` in place of 2. (R's ``BIC`` takes the logarithm of the number of cells instead.)

    Examples
    --------
    >>> import legendre as ld
    >>> tests = ld.decompose([[18, 7], [6, 19]], "B1").inference()
    >>> round(tests.x2, 4), tests.standard_errors.round(4).tolist()
    (11.5385, [0.2831, 0.2828])
    """

    fit: Decomposition = field(repr=False)
    counts: Counts = field(repr=False)
    g2: float
    x2: float
    df: int
    g2_p_value: float
    x2_p_value: float
    log_likelihood: float
    aic: float
    bic: float

    @cached_property
    def information(self) -> Information:
        """The covariance of independent parameters, and why others have none."""
        return information(self.fit)

    @property
    def reasons(self) -> tuple[str, ...]:
        """For each parameter why its standard error is NaN; empty where it is not."""
        return self.information.reasons

    def covariance(self) -> FloatArray:
        """Return the covariance matrix of theta, ``G^-1 / N``; NaN where a parameter is not identified."""
        return self.information.covariance()

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Standard errors of theta; NaN where `reasons` says why."""
        return frozen(np.sqrt(np.diagonal(self.covariance())))

    @cached_property
    def z(self) -> FloatArray:
        """Wald statistics: theta over its standard error."""
        return frozen(self.fit.theta / self.standard_errors)

    @cached_property
    def p_values(self) -> FloatArray:
        """Two-sided p-values of `z`, for theta = 0."""
        from scipy.special import ndtr

        return frozen(2.0 * np.asarray(ndtr(-np.abs(self.z)), dtype=np.float64))

    def intervals(self, level: float = 0.95) -> FloatArray:
        """Return Wald intervals of theta, |B| x 2: as many standard errors to each side as `level` asks for.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().intervals().round(4).tolist()
        [[-0.4748, 0.6348], [-0.5544, 0.5544]]
        """
        from scipy.special import ndtri

        if not (is_real(level) and 0 < level < 1):
            raise InvalidQuery(f"intervals(level={level!r}): the level is a number between 0 and 1, e.g. 0.95.")
        half = float(ndtri((1.0 + level) / 2.0)) * self.standard_errors
        return np.stack([self.fit.theta - half, self.fit.theta + half], axis=1)

    def residuals(self, kind: str = "pearson") -> FloatArray:
        """Return residuals as an array of X's shape, NaN outside the support.

        Parameters
        ----------
        kind
            ``"pearson"``, ``(n - mu) / sqrt(mu)``; ``"deviance"``, signed square roots of the terms of `g2`; or
            ``"adjusted"``, Pearson's over ``sqrt(1 - leverage)``: about standard normal if the model holds. Cells that
            vanish have residual 0, but no adjusted one (NaN): nor has any cell whose mean is always its count.
        """
        return residuals(self.fit, self.counts, lambda: self.information, kind)

    def summary(self, rows: int = 30) -> str:
        """Return tests of fit and the table of parameters: those with the largest `z` where there are over `rows`."""
        return printout(self, rows)

    def __str__(self) -> str:
        return self.summary()


def infer(fit: Decomposition) -> Inference:
    """Compare X with Q."""
    counts = counts_of(fit)
    df = int(np.count_nonzero(counts.alive)) - 1 - fit.rank
    g2, x2, poisson = counts.g2(), counts.x2(), counts.poisson_log_likelihood()
    return Inference(
        fit=fit,
        counts=counts,
        g2=g2,
        x2=x2,
        df=df,
        g2_p_value=chi_square_p(g2, df),
        x2_p_value=chi_square_p(x2, df),
        log_likelihood=counts.log_likelihood(),
        aic=-2.0 * poisson + 2.0 * (fit.rank + 1),
        bic=-2.0 * poisson + float(np.log(fit.total)) * (fit.rank + 1),
    )
