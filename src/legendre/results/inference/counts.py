"""X read as counts, with their means under Q, and the statistics that compare the two, also in print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name, find
from legendre.core.errors import InvalidQuery, InvalidTensor
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.results.base import count_name
from legendre.results.growth_path import GrowthStep
from legendre.solvers.structure.rank import independent, rank_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


LEGEND = "p: *** < 0.001, ** < 0.01, * < 0.05"


@dataclass(frozen=True, eq=False)
class Counts:
    """The positive counts, with the logarithms of their means, since means may be too small for float64."""

    n: FloatArray  # the counts
    log_mu: FloatArray  # logarithms of their means, N q
    rest: float  # the sum of the means of all other cells
    cells: IntArray  # the cells of `n`, k x N

    @property
    def mu(self) -> FloatArray:
        """The means."""
        return np.exp(self.log_mu)

    def at(self, cells: IntArray) -> FloatArray:
        """Return the counts of some cells (k x N)."""
        place = find(cells, self.cells)
        return np.where(place >= 0, self.n[place], 0.0) if len(self.n) else np.zeros(len(cells))

    def grid(self, shape: tuple[int, ...]) -> FloatArray:
        """Return the counts as an array of X's shape."""
        out = np.zeros(shape)
        out[tuple(self.cells.T)] = self.n
        return out

    def g2(self) -> float:
        """Likelihood ratio statistic against the saturated model, ``2 sum n log(n / mu)``."""
        return float(deviances(self.n, self.log_mu).sum()) + 2.0 * self.rest

    def x2(self) -> float:
        """Pearson's statistic, ``sum (n - mu)^2 / mu``."""
        with np.errstate(over="ignore"):
            return float((pearson(self.n, self.log_mu) ** 2).sum()) + self.rest

    def log_likelihood(self) -> float:
        """Multinomial: N is given."""
        from scipy.special import gammaln, xlogy

        total = float(self.n.sum())
        return self.poisson_log_likelihood() + float(gammaln(total + 1) - xlogy(total, total) + total)

    def poisson_log_likelihood(self) -> float:
        """Independent Poisson counts: N is random too."""
        from scipy.special import gammaln

        return float(self.n @ self.log_mu - gammaln(self.n + 1).sum() - self.mu.sum()) - self.rest


def pearson(n: FloatArray, log_mu: FloatArray) -> FloatArray:
    """``(n - mu) / sqrt(mu)``, which is infinite where a mean is far below the resolution of float64."""
    with np.errstate(over="ignore"):
        return n * np.exp(-0.5 * log_mu) - np.exp(0.5 * log_mu)


def deviances(n: FloatArray, log_mu: FloatArray) -> FloatArray:
    """``2 (n log(n / mu) - n + mu)``: terms of G2 that are all >= 0."""
    from scipy.special import kl_div, xlogy

    mu = np.exp(log_mu)
    terms: FloatArray = kl_div(n, mu)
    small = (mu < sys.float_info.min) & (n > 0)  # such means have lost digits, but their logarithms have not
    terms[small] = xlogy(n[small], n[small]) - n[small] * log_mu[small] - n[small]
    return 2.0 * np.maximum(terms, 0.0)  # rounding may leave -1e-16


def degrees_of_freedom(fit: Decomposition) -> int:
    """Count the cells that carry probability, minus 1, minus the independent parameters on them.

    If only a bound on their number is known, there is no answer, and an error says so.
    """
    if fit.rank_is_bound:
        raise InvalidQuery(
            f"the degrees of freedom are not known: of {fit.n_params:,} parameters at most {fit.rank:,} are "
            f"independent on the support, and beyond {limits.LARGEST_MATRIX:,} the exact number is not computed. G2 "
            "itself is 2 * fit.total * fit.kl. A smaller basis, or merged levels, give a rank."
        )
    return fit.model.support.n_cells - fit.n_vanishing - 1 - fit.rank


def chi_square_p(statistic: float, df: int) -> float:
    """Probability that a chi-square variable is at least as large as a statistic; NaN without degrees of freedom.

    >>> round(chi_square_p(3.841459, 1), 6), chi_square_p(1e6, 2**2000)
    (0.05, 1.0)
    """
    from scipy.special import chdtrc

    if df <= 0:
        return float("nan")
    try:
        return float(chdtrc(float(df), statistic))
    except OverflowError:  # more degrees of freedom than float64 counts: a finite statistic is far below its mean
        return 1.0 if statistic < np.inf else float("nan")


def statistic_text(statistic: float, df: int) -> str:
    """Write a statistic with its degrees of freedom and, if there are any, its p-value."""
    value = f"{statistic:.4f}" if statistic < 1e12 else f"{statistic:.6g}"
    p = p_text(chi_square_p(statistic, df))
    return f"{value} on {count_name(df)} df" + (f", p = {p}".replace("= <", "< ") if df else "")


def stars(p: float) -> str:
    """Mark a p-value with up to three stars, as R does; NaN with none.

    >>> [stars(p) for p in (0.2, 0.03, 0.002, 1e-9)]
    ['', '*', '**', '***']
    """
    return "*" * sum(p < bound for bound in (0.05, 0.01, 0.001))


def p_text(p: float) -> str:
    """Write a p-value; one below the resolution of float64 as an upper bound, NaN as a dash.

    >>> [p_text(p) for p in (0.034567, 1e-20, float("nan"))]
    ['0.0346', '<2e-16', '-']
    """
    return "-" if np.isnan(p) else "<2e-16" if p < 2e-16 else f"{p:.3g}"


def counts_of(fit: Decomposition) -> Counts:
    """Pair X with its means; refuse X without counts, and a fit that is not the maximum of the likelihood."""
    if fit.data is None:
        raise InvalidQuery(
            "inference needs X, which a loaded decomposition does not hold. Fit X again, or ask before you save."
        )
    if fit.data.origin.completed:
        raise InvalidQuery(
            "inference needs observed counts, and rows that lack values were divided among the cells of this table: "
            "standard errors would be too small. m.coef() and m.drop1() of the log-linear model m are from the "
            "likelihood of what was observed."
        )
    if fit.data.origin.counted is False:
        raise InvalidQuery("inference needs counts, and counts=False says that X holds none.")
    if not fit.status.converged:
        raise InvalidQuery(
            f"inference needs the maximum of the likelihood, but the fit ended {fit.status.name} with "
            f"max|eta - eta_hat| = {fit.residual:.2e}. {fit.status.value}"
        )
    cells, values = _positive_entries(fit.data)
    if values.dtype.kind == "f" and len(broken := np.flatnonzero((values != np.rint(values)) | (values >= 2.0**53))):
        raise InvalidTensor(
            f"counts are whole numbers from 0 to 2**53, but X{cell_name(cells[broken[0]])} is {values[broken[0]]:g} "
            f"({len(broken)} of {len(values)} positive entries are not). If X was rescaled, fit the counts themselves."
        )
    return counts_beside(fit, cells, values.astype(np.float64))


def counts_beside(fit: Decomposition, cells: IntArray, n: FloatArray) -> Counts:
    """Pair the positive counts n of some cells (k x N) with their means under Q; the other cells' means are summed."""
    log_mu = fit._distribution.log_prob(cells) + float(np.log(fit.total))
    every = len(n) == fit.model.support.n_cells - fit.n_vanishing
    return Counts(n, log_mu, 0.0 if every else max(fit.total - float(np.exp(log_mu).sum()), 0.0), cells)


def _positive_entries(data: Observation) -> tuple[IntArray, AnyArray]:
    """List the cells of the support (k x N) at which X is positive, and what it is there."""
    if (entries := data.entries) is not None:
        if entries.even:
            raise InvalidTensor(
                f"inference needs counts, but X has a pseudo-count of {entries.even:g} spread over its cells. Fit "
                "without it."
            )
        return entries.cells, entries.values
    dense = in_memory(data, "inference")
    cells = np.argwhere(dense.support.on_grid() & (dense.values > 0))
    return cells, dense.values[tuple(cells.T)]


# --- criteria -------------------------------------------------------------------------------------------------------


def support_rank(fit: Decomposition) -> float:
    """Count the independent parameters on the full support, vanishing cells included; NaN where that is not known.

    `Decomposition.rank` counts on the cells that carry probability. At the boundary it is smaller: parameters that run
    to infinity keep cells empty, and they were chosen by the data like any other.
    """
    if fit._alive is None:
        return float("nan") if fit.rank_is_bound else float(fit.rank)
    found = rank_of(fit.model, independent(fit.model))
    return float(found.n) if found.exact else float("nan")


def aic(log_likelihood: float, rank: float) -> float:
    """Return minus twice the Poisson log-likelihood, and 2 for each parameter and the constant."""
    return 2.0 * (rank + 1.0) - 2.0 * log_likelihood


def judge_rounds(path: Sequence[GrowthStep], fit: Decomposition) -> tuple[GrowthStep, ...]:
    """Restate the criteria of the rounds that led to a fit of counts, so that the last are those of its `inference`.

    The rounds have ``2 N KL`` plus a price for each parameter. What is added is the same for all: the likelihood of the
    saturated model, whose means are the counts, and the price of the constant; a basis may start from parameters that
    depend on each other, which count once. Rounds stay as they are if X holds no counts, or is not in memory.
    """
    from scipy.special import gammaln, xlogy

    data = fit.data
    if data is None or not data.counts:
        return tuple(path)
    if (entries := data.entries) is not None and not entries.even:
        values = entries.values
    elif entries is None and data.whole:
        dense = in_memory(data, "inference")
        values = dense.values if dense.support.mask is None else dense.values[dense.support.mask]
    else:
        return tuple(path)
    best = 0.0
    for part in np.array_split(values.ravel(), 1 + values.size // (1 << 22)):  # to bound the memory
        n = part.astype(np.float64)
        best += float((xlogy(n, n) - n - gammaln(n + 1.0)).sum())
    more = 1.0 - fit.n_params + support_rank(fit)  # the constant counts, and dependent parameters count once
    aic, bic = 2.0 * more - 2.0 * best, float(np.log(fit.total)) * more - 2.0 * best
    return tuple(replace(step, aic=step.aic + aic, bic=step.bic + bic) for step in path)
