"""`Inference`: what counts say about a model and its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import frozen
from legendre.core.text import Table
from legendre.core.types import FloatArray
from legendre.results.base import Storable
from legendre.results.inference.bootstrap import Bootstrap, bootstrapped
from legendre.results.inference.counts import Counts, chi_square_p, counts_of, degrees_of_freedom
from legendre.results.inference.criteria import criteria, support_rank
from legendre.results.inference.estimates import Estimates, check_level
from legendre.results.inference.evidence import evidence_of
from legendre.results.inference.notes import notes_of
from legendre.results.inference.printout import tables
from legendre.results.inference.residuals import residuals_of
from legendre.results.inference.wald import Information, information

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True, eq=False)
class Inference(Estimates, Storable):
    """Tests of fit, standard errors and residuals of a decomposition whose X holds counts.

    X is taken as a multinomial sample of size N = `fit.total`, Q as its maximum likelihood estimate. p-values and
    standard errors are the usual asymptotic ones.

    Attributes
    ----------
    g2, x2
        The likelihood ratio statistic (deviance) ``2 N KL(P, Q)`` and Pearson's statistic.
    df
        Degrees of freedom: the number of cells with positive fitted values, minus 1, minus `fit.rank`.
    g2_p_value, x2_p_value
        From the chi-square distribution; NaN without degrees of freedom.
    log_likelihood
        Multinomial, with all constants.
    rank
        The number of independent parameters on the support. `fit.rank`, used in `df`, counts those on the cells with
        positive fitted values: at the boundary it is smaller.
    aic
        As R's ``glm(family = poisson)``: ``-2 L + 2 (rank + 1)``, where L is the Poisson log-likelihood (independent
        counts, N random). It exceeds ``-2 log_likelihood + 2 rank`` by a number that depends on N alone.
    bic
        The same with ``log N`` in place of 2. (R's ``BIC`` takes the logarithm of the number of cells instead.)
    aic_on_face, bic_on_face
        The same with `fit.rank`: parameters that only keep cells empty are not charged for. For sparse tables they
        prefer models that are too large.

    See Also
    --------
    likelihood_ratio : Test a small model against a larger one.
    legendre.results.Parameters : The table of all parameters.
    legendre.geometry.ladder : How much each model of a chain explains.

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
    def rank(self) -> float:
        """The number of independent parameters on the support; NaN where it is not known."""
        return support_rank(self.fit)

    @property
    def aic_on_face(self) -> float:
        """AIC with the parameters that are independent on the cells that do not vanish."""
        return self.aic - 2.0 * (self.rank - self._face_rank)

    @property
    def bic_on_face(self) -> float:
        """BIC with the same."""
        return self.bic - float(np.log(self.fit.total)) * (self.rank - self._face_rank)

    @property
    def _face_rank(self) -> int:
        return self.fit.rank

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the numbers, in sentences; the summary prints them."""
        return notes_of(self)

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
        """Return Wald intervals of theta, a row for each parameter.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().intervals().round(4).tolist()
        [[-0.4748, 0.6348], [-0.5544, 0.5544]]
        """
        from scipy.special import ndtri

        check_level(level, "intervals")
        half = float(ndtri((1.0 + level) / 2.0)) * self.standard_errors
        return np.stack([self.fit.theta - half, self.fit.theta + half], axis=1)

    def bootstrap(
        self,
        n: int = 999,
        rng: int | np.random.Generator | None = None,
        *,
        jobs: int = 1,
        conditional: bool = False,
    ) -> Bootstrap:
        """Draw tables of N counts from Q, fit the model to each, and compare their `g2` and `x2` with those of X.

        The p-values and intervals do not rely on the chi-square distribution.

        Parameters
        ----------
        n
            How many tables are drawn.
        rng
            A seed or a generator.
        jobs
            How many processes fit them; the answer does not depend on it.
        conditional
            Draw tables with the margins that the model fits, for decomposable models: p-values are then exact however
            few the counts are, as in R's ``chisq.test(simulate.p.value = TRUE)``.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[3, 1, 0], [1, 0, 4]], "B1").inference()
        >>> round(tests.g2_p_value, 4), tests.bootstrap(199, 0).g2_p_value
        (0.0196, 0.015)
        >>> tests.bootstrap(199, 0, conditional=True).g2_p_value
        0.1
        """
        return bootstrapped(self, n, rng, jobs, conditional=conditional)

    def evidence(self, alpha: float = 1.0) -> float:
        """Return the log marginal likelihood of the counts: their probability, averaged over the model's prior.

        The prior is the conjugate one, as if `alpha` cases had been seen before, spread evenly over the support. Models
        whose margins form a tree have it in closed form; for others it is Laplace's approximation, of the posterior
        and of the prior. Differences between models are logarithms of Bayes factors.

        Examples
        --------
        >>> import legendre as ld
        >>> alone, both = (ld.decompose([[18, 7], [6, 19]], b).inference() for b in ("B1", ld.full()))
        >>> round(both.evidence() - alone.evidence(), 3)      # the log Bayes factor for an association
        3.639
        """
        return evidence_of(self, alpha)

    def residuals(self, kind: str = "pearson", cells: ArrayLike | None = None) -> Any:
        """Return residuals on all of X, in its form, NaN outside the support; or those of some cells.

        Parameters
        ----------
        kind
            ``"pearson"``, ``(n - mu) / sqrt(mu)``; ``"deviance"``, signed square roots of the terms of `g2`; or
            ``"adjusted"``, Pearson's over ``sqrt(1 - leverage)``: about standard normal if the model holds. Cells that
            vanish have residual 0, but no adjusted one (NaN): nor has any cell whose mean is always its count.
        cells
            Cells, k x N, for a vector of their residuals: the way where no array of X's shape can be formed.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().residuals("adjusted", [[0, 0], [1, 0]]).round(4).tolist()
        [3.3968, -3.3968]
        """
        return residuals_of(self, kind, cells)

    def tables(self, rows: int = 30) -> list[Table]:
        """List tests of fit, and parameters: those with the largest `z` where there are over `rows`."""
        return tables(self, rows)

    def summary(self, rows: int = 30) -> str:
        """Return tests of fit and the table of parameters: those with the largest `z` where there are over `rows`."""
        return "\n\n".join(table.text() for table in self.tables(rows))

    def __str__(self) -> str:
        return self.summary()


def infer(fit: Decomposition) -> Inference:
    """Compare X with Q."""
    return _compared(fit, counts_of(fit))


def _compared(fit: Decomposition, counts: Counts) -> Inference:
    df = degrees_of_freedom(fit)
    g2, x2, poisson = counts.g2(), counts.x2(), counts.poisson_log_likelihood()
    g2_p, x2_p = chi_square_p(g2, df), chi_square_p(x2, df)
    aic, bic = criteria(poisson, support_rank(fit), fit.total)
    return Inference(fit, counts, g2, x2, df, g2_p, x2_p, counts.log_likelihood(), aic, bic)
