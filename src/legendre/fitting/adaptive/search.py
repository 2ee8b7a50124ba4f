"""Forward selection, several cells a round with warm-started fits between; and its reverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.basis import Basis, Cells
from legendre.basis.parse import as_basis
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.fitting.adaptive.scores import losses, pick
from legendre.fitting.fit import fit_at, fit_on
from legendre.model.dual import probabilities
from legendre.results.decomposition import Decomposition

SHARE, AT_LEAST, AT_MOST = 0.05, 6, 64
"""Cells added in a round: a share of the basis, within bounds."""
SWAPPED = 0.15
"""The share of the cells that is left out in one go on the way back."""
ROUGH_TOL, ROUGH_STEPS = 1e-6, 10
"""Fits on the way need not be exact, but what is left of a residual must not pass for a gain of a cell nearby."""


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched: the data, the cells that stay, the candidates, and what a parameter must gain.

    Parameters
    ----------
    data, eta_hat
        The tensor, and its eta on the whole grid.
    start
        Cells that are in every basis, first.
    candidates
        Marks the cells that may be added.
    most
        The largest number of parameters.
    least
        The gain in KL at which a parameter pays for itself.
    """

    data: Dense
    eta_hat: FloatArray
    start: IntArray
    candidates: BoolArray
    most: int
    least: float = 0.0

    @classmethod
    def of(cls, data: Dense, start: Basis | str, candidates: Basis | str | None, most: int | None) -> Search:
        """Prepare: one suffix-sum pass over X."""
        allowed, cells = _candidates(data, candidates), as_basis(start).select(data)
        allowed[tuple(cells.T)] = False
        every = len(cells) + int(allowed.sum())
        return cls(data, zeta_adjoint(probabilities(data)), cells, allowed, every if most is None else most)

    def on(self, data: Dense) -> Search:
        """Return the same search on other values."""
        return replace(self, data=data, eta_hat=zeta_adjoint(probabilities(data)))

    def among_uncertain(self) -> Search:
        """Leave out cells with none or all of the counts above them.

        Their parameters would rule events out for ever, which is too much to say from a sample.
        """
        return replace(self, candidates=self.candidates & (self.eta_hat > 0) & (self.eta_hat < 1))

    def first(self) -> Decomposition:
        """Fit the start alone."""
        return self._fit(self.start, np.zeros(len(self.start)))

    def forward(self, fit: Decomposition) -> Iterator[Decomposition]:
        """Yield `fit` and then larger ones, until the size is reached or no candidate pays."""
        larger: Decomposition | None = fit
        while larger is not None:
            yield larger
            larger = self.larger(larger)

    def larger(self, fit: Decomposition) -> Decomposition | None:
        """Add the cells of a round; ``None`` when the size is reached or no candidate pays."""
        cells = fit.basis
        allowed = self.candidates.copy()
        allowed[tuple(cells.T)] = False
        count = min(max(AT_LEAST, int(SHARE * len(cells))), AT_MOST, self.most - len(cells))
        new = pick(fit.eta_tensor(), self.eta_hat, allowed, count, self.least)
        if not len(new):
            return None
        return self._fit(np.concatenate([cells, new]), np.concatenate([fit.theta, np.zeros(len(new))]))

    def least_missed(self, fit: Decomposition) -> IntArray:
        """List the positions of cells to leave out: the last in value, and all that do not pay; the start stays."""
        loss = losses(fit)
        loss[: len(self.start)] = np.inf
        count = min(max(1, int(SWAPPED * fit.n_params)), fit.n_params - len(self.start))
        count = max(count, int((loss < self.least).sum()))
        return np.argsort(loss, kind="stable")[:count]

    def without(self, fit: Decomposition, gone: IntArray) -> Decomposition:
        """Leave cells out."""
        left = np.delete(np.arange(fit.n_params), gone)
        return self._fit(fit.basis[left], fit.theta[left])

    def _fit(self, cells: IntArray, theta: FloatArray) -> Decomposition:
        fit = fit_on(self.data, Cells(cells), tol=ROUGH_TOL, max_iter=ROUGH_STEPS, start=theta)
        if fit.residual <= ROUGH_TOL:
            return fit
        # on a face, dependent parameters are held at 0: what is left of theta may then be a bad place to start from
        afresh = fit_on(self.data, Cells(cells), tol=ROUGH_TOL)
        return fit if fit.residual <= afresh.residual else afresh

    def again(self, cells: IntArray, theta: FloatArray) -> Decomposition:
        """Return a fit of this search that had these cells and this theta."""
        return fit_at(self.data, Cells(cells), theta, tol=ROUGH_TOL)

    def cost(self, fit: Decomposition) -> float:
        """Weigh the fit and the number of its parameters."""
        return fit.kl + self.least * fit.n_params


def _candidates(data: Dense, wanted: Basis | str | None) -> BoolArray:
    """Mark the cells that may be chosen: in the support, not the bottom."""
    allowed = data.support.on_grid().copy()
    allowed[(0,) * allowed.ndim] = False
    if wanted is not None:
        asked = np.zeros(data.shape, dtype=np.bool_)
        asked[tuple(as_basis(wanted).select(data).T)] = True
        allowed &= asked
    return allowed
