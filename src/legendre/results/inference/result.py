"""`Inference`: what counts say about a model and its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice, check_int, check_number
from legendre.core.cells import freeze
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Mode
from legendre.core.text import Table
from legendre.core.types import FloatArray
from legendre.results.base import Storable
from legendre.results.distribution import check_formed, read_cells
from legendre.results.inference.bootstrap import Bootstrap, draw_tables, evidence_of
from legendre.results.inference.counts import Counts, bic, chi_square_p, deviances, pearson, statistics_of
from legendre.results.inference.estimates import (
    Coding,
    Coefficients,
    Information,
    coefficients_of,
    covariance,
    estimate,
    half_width,
    information,
    log_means,
    marginal_means,
    odds_ratios,
    profile_ends,
    read_contrasts,
    two_sided_p,
    variances,
)
from legendre.results.inference.printout import fit_table, notes_of, to_frame
from legendre.results.parameters import names_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True, eq=False)
class Inference(Storable):
    """Tests of fit, standard errors and residuals of a decomposition whose X holds counts.

    X is treated as a multinomial sample of size N = `fit.total`, and Q as the maximum likelihood estimate. p-values and
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
        Multinomial, with all constants: ``log N! - sum log n! + sum n log(mu / N)``.
    rank
        The number of independent parameters on the support; NaN where it is not known. `fit.rank`, used in `df`,
        counts those on the cells with positive fitted values: at the boundary it is smaller, because parameters that
        only keep cells empty are left out.
    aic
        As in R's ``glm(family = poisson)``: ``-2 L + 2 (rank + 1)``, where L is the Poisson log-likelihood (independent
        counts, N random). It exceeds ``-2 log_likelihood + 2 rank`` by a number that depends on N alone.
    bic
        The same with ``log N`` in place of 2. (R's ``BIC`` takes the logarithm of the number of cells instead.)

    See Also
    --------
    anova : Compare nested models.
    legendre.results.Parameters : The table of all parameters.

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
    log_likelihood: float
    aic: float
    rank: float
    missing: FloatArray | None = field(default=None, repr=False)  # information that rows without some values lack
    face_rank: int | None = field(default=None, repr=False)  # where it is not `fit.rank`: what such rows determine
    scale: float = field(default=1.0, repr=False)  # by which variances are multiplied

    @property
    def dispersion(self) -> float:
        """How much more counts vary than Poisson counts do: ``x2 / df``; NaN without degrees of freedom."""
        return self.x2 / self.df if self.df > 0 else float("nan")

    def scaled(self, dispersion: float | None = None) -> Self:
        """Return the same with variances multiplied by the dispersion, as in R's ``family = quasipoisson``.

        This changes standard errors, tests and intervals of coefficients, contrasts, odds ratios and means.

        Parameters
        ----------
        dispersion
            By default `dispersion`, Pearson's statistic over its degrees of freedom.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7, 9], [6, 19, 4]], "B1").inference()
        >>> round(tests.dispersion, 4), (tests.scaled().standard_errors / tests.standard_errors).round(4).tolist()
        (6.5738, [2.5639, 2.5639, 2.5639])
        """
        found = self.dispersion if dispersion is None else dispersion
        return replace(self, scale=check_number(found, "scaled: dispersion", above=0, error=InvalidQuery))

    @property
    def g2_p_value(self) -> float:
        """The p-value of `g2`."""
        return chi_square_p(self.g2, self.df)

    @property
    def x2_p_value(self) -> float:
        """The p-value of `x2`."""
        return chi_square_p(self.x2, self.df)

    @property
    def bic(self) -> float:
        """AIC with ``log N`` in place of 2."""
        return bic(self.aic, self.rank, self.fit.total)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the numbers, in sentences; the summary prints them."""
        return notes_of(self)

    @cached_property
    def information(self) -> Information:
        """The covariance of independent parameters, and why others have none."""
        return information(self.fit, self.missing)

    @property
    def reasons(self) -> tuple[str, ...]:
        """For each parameter why its standard error is NaN; empty where it is not."""
        return self.information.reasons

    def covariance(self) -> FloatArray:
        """Return the covariance matrix of theta, ``G^-1 / N``; NaN where a parameter is not identified."""
        return self.scale * self.information.covariance()

    def vcov(self, contrasts: Coding = "treatment", *, reference: Mapping[Any, Any] | None = None) -> Any:
        """Return the covariance matrix of the coefficients of `coef` as a pandas data frame with their names.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().vcov().loc["mode 0[1]"].round(4).tolist()
        [-0.04, 0.08, 0.0]
        """
        asked = coefficients_of(self.fit, contrasts, reference)
        known = np.isfinite(estimate(self, asked, 0.95, exp=False, what="coefficient").standard_error)
        values = np.where(np.outer(known, known), covariance(self, asked), np.nan)
        return to_frame(dict(zip(asked[0], values, strict=True)), asked[0], "coefficient")

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
        check_number(confidence, "intervals: confidence", above=0, below=1, error=InvalidQuery)
        half = half_width(self.standard_errors, confidence)
        return np.stack([self.fit.theta - half, self.fit.theta + half], axis=1)

    def coef(
        self,
        contrasts: Coding = "treatment",
        *,
        reference: Mapping[Any, Any] | None = None,
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
            Print factors, ``exp(estimate)``; for interactions of two variables these are odds ratios.
        confidence
            Of the intervals.
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
        asked = coefficients_of(self.fit, contrasts, reference)
        found = estimate(self, asked, confidence, exp=exp, what="coefficient")
        return replace(found, ends=profile_ends(self, asked, found)) if profile else found

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
        asked = log_means(self.fit, [labels.cell(cell) for cell in cells], cells)
        return estimate(self, asked, confidence, exp=True, what="mean")

    def means(self, by: Mode | Sequence[Mode], *, confidence: float = 0.95) -> Coefficients:
        """Return the mean for each level of some variables, with its standard error and interval.

        It is the geometric mean of the fitted means over all levels of the other variables, equally weighted, as in R's
        ``emmeans(..., type = "response")``.

        Parameters
        ----------
        by
            A variable, or a list of them.
        confidence
            Of the intervals.

        Examples
        --------
        >>> import legendre as ld
        >>> print(ld.loglinear(ld.datasets.hair_eye_color(), "hair*eye + sex").means("sex"))
        mean        estimate  s.e. of log    2.5 %   97.5 %
        ---------------------------------------------------
        sex male     11.4416       0.0752   9.8745  13.2574
        sex female   12.8359       0.0725  11.1352  14.7963
        """
        return estimate(self, marginal_means(self.fit, by), confidence, exp=True, what="mean")

    def contrast(
        self,
        weights: ArrayLike | Mapping[str, float],
        cells: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        exp: bool = False,
        confidence: float = 0.95,
    ) -> Coefficients:
        """Estimate combinations of parameters; those that the counts do not determine say so.

        Parameters
        ----------
        weights
            A row for each combination: weights of theta or, with `cells`, of the logarithms of the cells' means. Or one
            combination of coefficients of `coef`, by name: ``{"mode 0[1]": 1, "mode 0[2]": -1}``.
        cells
            Cells, each a list of its levels: labels, or indices if there are none.
        names
            Names of the combinations.
        exp, confidence
            As in `coef`.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 0]], ld.full()).inference()
        >>> odds = tests.contrast([[1, -1]], [[0, 0], [1, 0]], names=["first column"])
        >>> odds.estimate.round(4).tolist(), odds.standard_error.round(4).tolist()
        ([1.0986], [0.4714])
        >>> tests.contrast([[0, 0, 1]]).notes
        ('infinite, because of fitted zeros',)
        """
        asked = read_contrasts(self.fit, weights, cells, names)
        return estimate(self, asked, confidence, exp=exp, what="contrast")

    def odds(
        self,
        first: Mode,
        second: Mode,
        given: Mapping[Any, Any] | None = None,
        *,
        contrasts: Literal["local", "treatment"] = "local",
        reference: Mapping[Any, Any] | None = None,
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
        contrasts, reference
            "local": of neighbouring levels. "treatment": against reference levels, by default the first.
        confidence
            Of the intervals.

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
        asked = odds_ratios(self.fit, first, second, given, contrasts, reference)
        return estimate(self, asked, confidence, exp=True, what="odds ratio")

    def bootstrap(
        self,
        n: int = 999,
        rng: int | np.random.Generator | None = None,
        *,
        conditional: bool = False,
    ) -> Bootstrap:
        """Draw tables of N counts from Q, fit the model to each, and compare their `g2` and `x2` with those of X.

        The p-values and intervals do not rely on the chi-square distribution.

        Parameters
        ----------
        n
            The number of tables to draw.
        rng
            A seed or a generator.
        conditional
            For decomposable models, draw tables with the margins that the model fits: p-values are then exact, however
            few the counts, as in R's ``chisq.test(simulate.p.value = TRUE)``.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[3, 1, 0], [1, 0, 4]], "B1").inference()
        >>> round(tests.g2_p_value, 4), tests.bootstrap(199, 0).g2_p_value
        (0.0196, 0.015)
        >>> tests.bootstrap(199, 0, conditional=True).g2_p_value
        0.1
        """
        self._check_complete("bootstrap")
        return draw_tables(self, n, rng, conditional=conditional)

    def evidence(self, alpha: float = 1.0) -> float:
        """Return the log marginal likelihood of the counts: their probability, averaged over the model's prior.

        The prior is the conjugate (hyper-Dirichlet) one, as if `alpha` cases in total had been seen before, spread
        evenly over the cells. The result is exact, and so available for decomposable models only, whose margins form a
        tree. Differences between models are logarithms of Bayes factors.

        Examples
        --------
        >>> import legendre as ld
        >>> alone, both = (ld.decompose([[18, 7], [6, 19]], b).inference() for b in ("B1", ld.full()))
        >>> round(both.evidence() - alone.evidence(), 3)      # the log Bayes factor for an association
        3.639
        """
        self._check_complete("evidence")
        return evidence_of(self, alpha)

    def residuals(self, kind: str = "pearson", cells: Any = None, *, indices: bool = False) -> Any:
        """Return residuals on all of X, in its form, NaN outside the support; or those of some cells.

        Parameters
        ----------
        kind
            ``"pearson"``, ``(n - mu) / sqrt(mu)``; ``"deviance"``, signed square roots of the terms of `g2`; or
            ``"adjusted"``, Pearson's over ``sqrt(1 - leverage)``: about standard normal if the model holds. Cells that
            vanish have residual 0, but no adjusted residual (NaN), nor does any cell whose fitted mean always equals
            its count.
        cells
            Cells, k x N, for a vector of their residuals, also where no array of X's shape can be formed. They are
            given by labels, if there are any, as in `Decomposition.log_prob`.
        indices
            Whether all of them are indices in X, also of modes with labels.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().residuals("adjusted", [[0, 0], [1, 0]]).round(4).tolist()
        [3.3968, -3.3968]
        """
        self._check_complete("residuals")
        check_choice(kind, "residuals: kind", ("adjusted", "deviance", "pearson"), InvalidQuery)
        fit = self.fit
        if cells is None:
            check_formed(fit.shape, "residuals", "Name some cells: residuals(kind, cells).")
            index = fit.model.support.cells()
        else:
            index = read_cells(fit.labels, cells, "residuals", indices)
        log_mu = fit._distribution.log_prob(index) + float(np.log(fit.total))
        alive = log_mu > -np.inf
        found = np.where(fit.model.support.contains(index) & (kind != "adjusted"), 0.0, np.nan)
        n, log_mu = self.counts.at(index[alive]), log_mu[alive]
        found[alive] = pearson(n, log_mu)
        if kind == "deviance":
            found[alive] = np.sign(found[alive]) * np.sqrt(deviances(n, log_mu))
        if kind == "adjusted":
            parts = np.array_split(index[alive], 1 + len(log_mu) * fit.n_params // (1 << 22))  # to bound the memory
            spread = [variances(fit, self.information, *log_means(fit, (), part)[1:3]) for part in parts]
            leverage = np.concatenate(spread) * np.exp(log_mu)
            # a leverage of 1 up to rounding: the model fits such a count exactly, whatever it is
            found[alive] /= np.sqrt(np.where(leverage < 1.0 - 1e-9, 1.0 - leverage, np.nan))
        if cells is not None:
            return found
        out = np.full(fit.shape, np.nan)
        out[tuple(index.T)] = found
        return fit.origin.give(out, what="residual")

    def _check_complete(self, asked: str) -> None:
        if self.missing is not None:
            raise InvalidQuery(
                f"{asked} needs complete rows, and some of these lack values. Fit the complete ones: "
                "loglinear(..., missing='drop')."
            )

    def tables(self, rows: int = 30) -> list[Table]:
        """List tests of fit, and parameters: those with the largest `z` where there are over `rows`."""
        check_int(rows, "summary: rows", 1, InvalidQuery)
        fit, head = self.fit, fit_table(self)
        if not fit.n_params:
            return [head]
        chosen = np.sort(np.argsort(-np.nan_to_num(np.abs(self.z), nan=-1.0), kind="stable")[:rows])
        weights = (chosen[:, None] == np.arange(fit.n_params)).astype(np.float64)
        titles = fit.model.terms.titles()
        names = names_of(fit.labels, fit.model.terms.own_cells()[chosen], [titles[i] for i in chosen])
        listed = estimate(self, (names, weights, *np.zeros((2, len(chosen)))), 0.95, exp=False, what="parameter")
        return [head, listed.table(more=fit.n_params - len(chosen))]

    def summary(self, rows: int = 30) -> str:
        """Return tests of fit and the table of parameters: those with the largest `z` where there are over `rows`."""
        return "\n\n".join(table.text() for table in self.tables(rows))

    def __str__(self) -> str:
        return self.summary()


def infer(fit: Decomposition) -> Inference:
    """Compare X with Q."""
    return Inference(**statistics_of(fit))
