"""X read as counts, with their means under Q, and the statistics that compare the two, also in print."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc, gammaln, xlogy

from legendre.core import limits
from legendre.core.cells import cell_name, find_rows
from legendre.core.errors import InvalidQuery, InvalidTensor
from legendre.core.types import AnyArray, FloatArray, IntArray, Shape, frozen
from legendre.data.observation import Observation
from legendre.results.base import count_name
from legendre.results.growth_path import GrowthStep
from legendre.solvers.structure.rank import Rank, independent, rank_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


LEGEND = "p: *** < 0.001, ** < 0.01, * < 0.05"


@frozen
class Counts:
    """The positive counts of X and the means that a fit gives them; the statistics of fit are sums over these cells.

    Cells without a count are not listed, so tables with very many cells fit in memory. Means are held as logarithms
    because they may be too small for float64.
    """

    n: FloatArray  # the k positive counts
    log_mu: FloatArray  # logarithms of their k means, N q
    rest: float  # the sum of the means of all cells without a count
    cells: IntArray  # the cells of `n`, k x N (here N is the number of modes)

    @property
    def mu(self) -> FloatArray:
        """The means."""
        return np.exp(self.log_mu)

    def at(self, cells: IntArray) -> FloatArray:
        """Return the counts of some cells (one cell a row), 0 for a cell that is not listed, for their residuals."""
        place = find_rows(cells, self.cells)  # -1 for a cell that is not listed
        return np.where(place >= 0, self.n[place], 0.0) if len(self.n) else np.zeros(len(cells))

    def grid(self, shape: Shape) -> FloatArray:
        """Return the counts as an array of X's shape, with 0 in cells without a count.

        Exact tests and the evidence need every cell, and a model that was loaded from a file its table.
        """
        out = np.zeros(shape)
        out[tuple(self.cells.T)] = self.n
        return out

    def g2(self) -> float:
        """Return the likelihood ratio statistic against the saturated model, ``2 sum n log(n / mu)``."""
        # each term has -n + mu added, which sums to 0; a cell without a count is left with 2 mu
        return float(deviances(self.n, self.log_mu).sum()) + 2.0 * self.rest

    def x2(self) -> float:
        """Return Pearson's statistic, ``sum (n - mu)^2 / mu``; a cell without a count adds its mean."""
        with np.errstate(over="ignore"):
            return float((pearson(self.n, self.log_mu) ** 2).sum()) + self.rest

    def log_likelihood(self) -> float:
        """Return the log-likelihood of a multinomial sample, in which N is fixed, with all constants.

        It is that of Poisson counts, less the log-probability that their sum, with mean N, is N.
        """
        total = float(self.n.sum())
        return self.poisson_log_likelihood() + float(gammaln(total + 1) - xlogy(total, total) + total)

    def poisson_log_likelihood(self) -> float:
        """Return the log-likelihood of independent Poisson counts, whose sum N is random, with all constants."""
        return float(self.n @ self.log_mu - gammaln(self.n + 1).sum() - self.mu.sum()) - self.rest


def pearson(n: FloatArray, log_mu: FloatArray) -> FloatArray:
    """Return Pearson residuals ``(n - mu) / sqrt(mu)``.

    Means are given as logarithms, and mu itself is not formed: a mean that underflows gives a huge residual, not NaN.
    """
    with np.errstate(over="ignore"):
        return n * np.exp(-0.5 * log_mu) - np.exp(0.5 * log_mu)


def deviances(n: FloatArray, log_mu: FloatArray) -> FloatArray:
    """Return the terms of G2, ``2 (n log(n / mu) - n + mu)``, all >= 0; their square roots are deviance residuals.

    `log_mu` are logarithms of the means. If r is ``log(n / mu)``, a term is ``2 n (r - 1 + exp(-r))``, which loses no
    digits where mu is near n, and needs no mu that underflows.
    """
    terms, positive = np.exp(log_mu), n > 0  # a cell without a count adds its mean
    r = np.log(n[positive]) - log_mu[positive]
    terms[positive] = n[positive] * (r + np.expm1(-r))
    return 2.0 * np.maximum(terms, 0.0)  # rounding may leave -1e-16


def degrees_of_freedom(fit: Decomposition) -> int:
    """Return the degrees of freedom of G2 and X2, as for the extended maximum likelihood estimate.

    These are the number of cells with positive fitted values, minus 1, minus the number of independent parameters on
    them. An error is raised if only a bound on the latter is known, as for bases too large for a Fisher matrix.
    """
    check_rank(Rank(fit.rank, exact=not fit.rank_is_bound), len(fit.theta))
    return fit.model.support.n_cells - fit.n_vanishing - 1 - fit.rank


def check_rank(rank: Rank, n_params: int) -> None:
    """Refuse the rank of so many parameters if it is only a bound: degrees of freedom need the exact number."""
    if not rank.exact:
        raise InvalidQuery(
            f"the degrees of freedom are not known: of {n_params:,} parameters {rank} are independent where the fit "
            f"has probability, and beyond {limits.LARGEST_MATRIX:,} the exact number is not computed. G2 itself is "
            "2 * fit.total * fit.kl. A smaller basis, or merged levels, give a rank."
        )


def chi_square_p(statistic: float, df: int) -> float:
    """Return the probability that a chi-square variable is at least as large as a statistic; NaN if df is 0.

    >>> round(chi_square_p(3.841459, 1), 6), chi_square_p(1e6, 2**2000)
    (0.05, 1.0)
    """
    # more than 10^300 degrees of freedom: a finite statistic is far below its mean, as it is for 10^300
    return float(chdtrc(float(min(df, 10**300)), statistic)) if df > 0 else math.nan


def statistic_text(statistic: float, df: int) -> str:
    """Write a statistic, its degrees of freedom and, unless these are 0, its p-value: ``3.8415 on 1 df, p = 0.05``."""
    p = p_text(chi_square_p(statistic, df))
    # a p-value that is only bounded is written "p < 2e-16"
    return f"{statistic:.4f} on {count_name(df)} df" + (f", p = {p}".replace("= <", "< ") if df else "")


def stars(p: float) -> str:
    """Mark a p-value with up to three stars, as R does; NaN with none.

    >>> [stars(p) for p in (0.2, 0.03, 0.002, 1e-9)]
    ['', '*', '**', '***']
    """
    return "*" * sum(p < bound for bound in (0.05, 0.01, 0.001))


def p_text(p: float) -> str:
    """Write a p-value with three digits; NaN as a dash, and one below 2e-16 as a bound, as R does.

    >>> [p_text(p) for p in (0.034567, 1e-20, float("nan"))]
    ['0.0346', '<2e-16', '-']
    """
    return "-" if np.isnan(p) else "<2e-16" if p < 2e-16 else f"{p:.3g}"


def why_no_inference(fit: Decomposition) -> str:
    """Return the reason why X, as far as it is known without reading it, and Q allow no inference; "" if they do.

    Errors and the notes of a table of parameters give this reason.
    """
    if fit.data is None:
        return "X is not available (this fit was loaded from a file); fit X again, or ask before you save"
    if fit.data.origin.completed:
        return (
            "rows that lack values were divided among the cells, so standard errors would be too small; m.coef() and "
            "m.drop1() of the log-linear model m are from the likelihood of what was observed"
        )
    if fit.data.origin.counted is False:
        return "X was fitted as measurements (see fit.reason); if it holds counts: counts=True"
    if not fit.status.converged:
        return f"the fit ended {fit.status.name} with max|eta - eta_hat| = {fit.residual:.2e}"
    return ""


def counts_of(fit: Decomposition) -> Counts:
    """Return the positive counts of X with their means under Q; every inference starts here.

    An error is raised if X does not hold counts (it was not kept, was completed from rows with missing values, or has
    entries that are not integers) or if Q is not the maximum of the likelihood.
    """
    if why := why_no_inference(fit):
        raise InvalidQuery(f"inference needs observed counts and the maximum of their likelihood: {why}.")
    cells, values = _list_positive_entries(fit._observed)
    # from 2**53 on, float64 does not hold every integer
    if values.dtype.kind == "f" and len(broken := np.flatnonzero((values != np.rint(values)) | (values >= 2.0**53))):
        raise InvalidTensor(
            f"counts are whole numbers from 0 to 2**53, but X{cell_name(cells[broken[0]])} is {values[broken[0]]:g} "
            f"({len(broken)} of {len(values)} positive entries are not). If X was rescaled, fit the counts themselves."
        )
    return pair_with_means(fit, cells, values.astype(np.float64))


def pair_with_means(fit: Decomposition, cells: IntArray, n: FloatArray) -> Counts:
    """Pair the positive counts n of some cells (one cell a row) with their means under Q.

    The means of all other cells enter as their sum alone: the total less the means that are listed.
    """
    log_mu = fit._distribution.log_prob(cells) + math.log(fit.total)
    # if every cell with probability is listed, the sum is exactly 0, and a difference would leave rounding errors
    every = len(n) == fit.model.support.n_cells - fit.n_vanishing
    return Counts(n, log_mu, 0.0 if every else max(fit.total - float(np.exp(log_mu).sum()), 0.0), cells)


def _list_positive_entries(data: Observation) -> tuple[IntArray, AnyArray]:
    """List the cells of the support at which X is positive (one cell a row), and the entries of X there."""
    if (entries := data.entries) is not None:
        if entries.even:
            raise InvalidTensor(
                f"inference needs counts, but X has a pseudo-count of {entries.even:g} spread over its cells. Fit "
                "without it."
            )
        return entries.cells, entries.values
    dense = data.in_memory("inference")
    cells = np.argwhere(dense.support.on_grid() & (dense.values > 0))
    return cells, dense.values[tuple(cells.T)]


# --- criteria -------------------------------------------------------------------------------------------------------


def support_rank(fit: Decomposition) -> float:
    """Count the independent parameters on the full support, vanishing cells included; NaN where that is not known.

    AIC and BIC need this number. `Decomposition.rank` counts on the cells with positive probability. At the boundary it
    is smaller: it leaves out parameters that run to infinity. These were fitted to the data too, so the penalties count
    them, as in R.
    """
    # no cell vanishes: the two numbers are the same
    if fit._alive is None:
        return math.nan if fit.rank_is_bound else float(fit.rank)
    found = rank_of(fit.model, independent(fit.model))
    return float(found.n) if found.exact else math.nan


def aic(log_likelihood: float, rank: float) -> float:
    """Return Akaike's criterion as R's ``glm(family = poisson)`` has it: the constant counts as a parameter."""
    return 2.0 * (rank + 1.0) - 2.0 * log_likelihood


def add_criteria(path: Sequence[GrowthStep], fit: Decomposition) -> Iterator[GrowthStep]:
    """Yield the rounds of growing that led to a fit, with AIC and BIC on the scale of `Inference`.

    They are ``2 N KL`` plus a penalty for each parameter, and a constant: minus twice the log-likelihood of the
    saturated model (each mean is the count), and the penalty of the intercept. So the last round has the criteria of
    the fit itself. Parameters that depend on others, which a basis may start from, have no penalty. The constant is
    left out if X does not hold counts or is not in memory.
    """
    data, values, more = fit.data, np.empty(0), 0.0  # more: parameters to penalise beyond those of a round
    if data is not None and data.counts:
        if data.entries is not None:
            values = data.entries.values
        elif data.whole:
            dense = data.in_memory("inference")
            values = dense.values if dense.support.mask is None else dense.values[dense.support.mask]
        if len(values):
            more = 1.0 - fit.n_params + support_rank(fit)  # the intercept, less the dependent ones
    saturated = 0.0  # log-likelihood of Poisson counts whose means are the counts
    for part in np.array_split(values.ravel(), 1 + values.size // (1 << 22)):  # to bound the memory
        n = part.astype(np.float64)
        saturated += float((xlogy(n, n) - n - gammaln(n + 1.0)).sum())
    for step in path:
        deviance, k = 2.0 * (fit.total * step.kl - saturated), step.n_params + more
        yield replace(step, aic=deviance + 2.0 * k, bic=deviance + k * math.log(fit.total))
