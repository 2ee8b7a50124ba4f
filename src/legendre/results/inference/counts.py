"""X read as counts, next to their means under Q, and the statistics that compare the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidQuery, InvalidTensor
from legendre.core.types import BoolArray, FloatArray
from legendre.data.dense import Dense, in_memory
from legendre.results.tensor import tensor

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

WHOLE = 2.0**53
"""Numbers in double precision have no fractions from here on."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts and their means on the cells that can be positive.

    Parameters
    ----------
    support
        True on Omega.
    alive
        True on Omega, but for the cells that vanish in the limit; the next two list these cells in C order.
    n
        The counts.
    mu
        Their means, ``N q``.
    """

    support: BoolArray
    alive: BoolArray
    n: FloatArray
    mu: FloatArray

    @property
    def total(self) -> float:
        """N."""
        return float(self.n.sum())

    def g2(self) -> float:
        """Likelihood ratio statistic against the saturated model, ``2 sum n log(n / mu)``."""
        return float(self.deviances().sum())

    def deviances(self) -> FloatArray:
        """``2 (n log(n / mu) - n + mu)``: terms of `g2` that are all >= 0."""
        from scipy.special import kl_div

        terms: FloatArray = kl_div(self.n, self.mu)
        return 2.0 * np.maximum(terms, 0.0)  # rounding may leave -1e-16

    def x2(self) -> float:
        """Pearson's statistic, ``sum (n - mu)^2 / mu``."""
        return float(((self.n - self.mu) ** 2 / self.mu).sum())

    def log_likelihood(self) -> float:
        """Multinomial: N is given."""
        from scipy.special import gammaln, xlogy

        total = self.total
        return float(gammaln(total + 1) - gammaln(self.n + 1).sum() + xlogy(self.n, self.mu / total).sum())

    def poisson_log_likelihood(self) -> float:
        """Independent Poisson counts: N is random too."""
        from scipy.special import gammaln, xlogy

        return float((xlogy(self.n, self.mu) - self.mu - gammaln(self.n + 1)).sum())


def counts_of(fit: Decomposition) -> Counts:
    """Check that X holds counts and that the fit is the maximum of the likelihood."""
    if fit.data is None:
        raise InvalidQuery(
            "inference needs X, which a loaded decomposition does not hold. Fit X again, or ask before you save."
        )
    data = in_memory(fit.data, "inference")
    if not fit.converged:
        raise InvalidQuery(
            f"inference needs the maximum of the likelihood, but the fit ended {fit.status.name} with "
            f"max|eta - eta_hat| = {fit.residual:.2e}. {fit.status.value}"
        )
    support = fit.model.support.on_grid()
    _check(data, support)
    alive = support.copy()
    alive[tuple(fit.vanishing_cells.T)] = False
    return Counts(support, alive, data.values[alive].astype(np.float64), tensor(fit, extend=False)[alive])


def _check(data: Dense, support: BoolArray) -> None:
    if data.values.dtype.kind != "f":
        return
    huge = np.argwhere(support & (data.values >= WHOLE))
    if len(huge):
        place = tuple(huge[0])
        raise InvalidTensor(
            f"inference needs counts, but X{cell_name(place)} = {data.values[place]:g}: from 2**53 on every floating-"
            "point number is whole, so that X may hold anything. Fit the counts in their own unit, or as integers."
        )
    broken = np.argwhere(support & (data.values != np.rint(data.values)))
    if len(broken):
        place = tuple(broken[0])
        raise InvalidTensor(
            f"inference needs counts, whole numbers >= 0, but X{cell_name(place)} = {data.values[place]:g} "
            f"({len(broken)} of {int(support.sum())} cells are not whole). If X was rescaled, fit the counts instead."
        )
