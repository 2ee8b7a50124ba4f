"""The model of one slice, fitted to many slices at once: each has its own theta, all share the basis.

The tensor of all slices then has the model with basis ``{(i, u)}``, every sample i and every u of the slice's basis or
its bottom: its parameters fall apart into one convex problem a slice. The sums of all slices are taken together; each
Newton step has a Fisher matrix for each slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.sums.linalg import factorise, rounding_level
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import accumulate
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray

SUFFICIENT, SHORTEST, MOST_STEPS = 0.1, 2.0**-30, 100
"""The share of the predicted decrease that a step must bring (Armijo); the shortest step; steps of a slice at most."""
STACK = 1 << 16  # numbers of the Fisher matrices that are solved together
BLUR = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Member:
    """Members of the model, one a row."""

    theta: FloatArray  # n x k
    psi: FloatArray  # n
    log_q: FloatArray  # n x merged cells: the logarithm of the probability of a cell, not of all that were merged
    eta: FloatArray  # n x merged cells

    def put(self, rows: IntArray, others: Member, of: AnyArray) -> None:
        """Replace some rows by rows of others."""
        for name in ("theta", "psi", "log_q", "eta"):
            getattr(self, name)[rows] = getattr(others, name)[of]


@dataclass(frozen=True, eq=False)
class Fits:
    """Slices that were fitted, one a row."""

    at: Member
    residual: FloatArray  # max|eta - eta_hat|
    proven: BoolArray  # whether a finite theta is known to attain the minimum


@dataclass(frozen=True, eq=False)
class SliceModel:
    """The model of a slice: its boxes and the places of the basis among them."""

    quotient: Quotient
    basis: IntArray  # k x N

    @classmethod
    def of(cls, shape: tuple[int, ...], basis: IntArray) -> SliceModel:
        """Merge the boxes that the basis cuts a slice into."""
        return cls(Quotient.of(shape, basis), basis)

    @classmethod
    def unmerged(cls, shape: tuple[int, ...], basis: IntArray) -> SliceModel:
        """Keep every cell, so that eta is known of each."""
        return cls(Quotient(shape, tuple(np.arange(length) for length in shape)), basis)

    @cached_property
    def places(self) -> IntArray:
        """The places of the basis in the flat merged grid."""
        return self.quotient.flat_boxes(self.basis)

    @cached_property
    def joins(self) -> IntArray:
        """The places of the joins of all pairs of the basis, k x k."""
        boxes = self.quotient.boxes(self.basis)
        return self.joins_with(boxes, boxes)

    def joins_with(self, some: IntArray, others: IntArray) -> IntArray:
        """Find the places of joins, by merged coordinates."""
        out = np.zeros((len(some), len(others)), dtype=np.int64)
        for k, length in enumerate(self.quotient.merged_shape):
            out *= length
            out += np.maximum(some[:, k][:, None], others[:, k])
        return out

    @cached_property
    def _log_volumes(self) -> FloatArray:
        return np.log(volumes(self.quotient)).ravel()

    def sums_above(self, p: FloatArray) -> FloatArray:
        """Sum each slice (n x ...) over what is at or above each merged cell."""
        grid = Quotient((len(p), *self.quotient.shape), (np.arange(len(p)), *self.quotient.cuts)).merge(p)
        grid = grid.copy() if np.shares_memory(grid, p) else grid
        return self._summed_above(grid.reshape(len(p), -1))

    def _summed_above(self, flat: FloatArray) -> FloatArray:
        grid = flat.reshape(-1, *self.quotient.merged_shape)
        accumulate(grid[(slice(None), *(slice(None, None, -1),) * (grid.ndim - 1))], first=1)
        return flat

    def at(self, theta: FloatArray) -> Member:
        """Evaluate parameters, a slice a row."""
        log_q = self.log_sums(theta)
        measured = log_q + self._log_volumes
        peak = measured.max(axis=1)
        eta = np.exp(measured - peak[:, None])
        mass = eta.sum(axis=1)
        eta /= mass[:, None]
        psi = peak + np.log(mass)
        log_q -= psi[:, None]
        return Member(theta, psi, log_q, self._summed_above(eta))

    def log_sums(self, theta: FloatArray) -> FloatArray:
        """Sum each row of parameters over what is at or below each merged cell."""
        grid = np.zeros((len(theta), self.quotient.n_merged))
        grid[:, self.places] = theta
        accumulate(grid.reshape(-1, *self.quotient.merged_shape), first=1)
        return grid

    def tensors(self, at: Member) -> FloatArray:
        """Return the probability of every cell, n x ..."""
        shape = self.quotient.shape
        whole = Quotient((len(at.psi), *shape), (np.arange(len(at.psi)), *self.quotient.cuts))
        return np.asarray(np.exp(whole.spread(at.log_q.reshape(-1, *self.quotient.merged_shape))))

    def fitted(self, eta_hat: FloatArray, tol: float, *, prove: bool = False, start: FloatArray | None = None) -> Fits:
        """Find theta with these expectations (n x k), row by row: Newton steps until max|eta - eta_hat| <= tol.

        With `prove`, a row goes on until it is also known that a finite theta attains the minimum: the distribution
        ``q (1 + a)`` has the data's expectations, a being the Newton step in log q less its mean; it is positive where
        ``|a| <= PROOF_TILT``. That is a proof at any theta, of whatever residual, so that a tol that no float64 reaches
        takes none away. Where no finite theta attains it, ``|a|`` tends to 1, and the row ends unproven.
        """
        return self._fitted(eta_hat, tol, prove, np.zeros_like(eta_hat) if start is None else start.copy())

    def _fitted(self, eta_hat: FloatArray, tol: float, prove: bool, theta: FloatArray) -> Fits:
        at = self.at(theta)
        active, proven = np.arange(len(eta_hat)), np.zeros(len(eta_hat), dtype=np.bool_)
        for _ in range(MOST_STEPS):
            gradient = eta_hat[active] - at.eta[active][:, self.places]
            arrived = np.abs(gradient).max(axis=1, initial=0.0) <= tol
            if not prove:
                active, gradient = active[~arrived], gradient[~arrived]
            if not len(active):
                break
            direction = self._newton(at.eta[active], gradient)
            if prove:
                tilt = np.abs(self.log_sums(direction) - _dot(direction, at.eta[active][:, self.places])[:, None])
                tame = ~proven[active] & (tilt.max(axis=1) <= limits.PROOF_TILT)
                tame[tame] = [
                    own + self._blur(eta) <= limits.PROOF_TILT
                    for own, eta in zip(tilt[tame].max(axis=1), at.eta[active[tame]], strict=True)
                ]
                proven[active[tame]] = True
                going = ~(arrived & proven[active])
                active, gradient, direction = active[going], gradient[going], direction[going]
            active = self._search(at, active, gradient, direction, eta_hat)
        residual = np.abs(eta_hat - at.eta[:, self.places]).max(axis=1, initial=0.0)
        return Fits(at, residual, proven)

    def _newton(self, eta: FloatArray, gradient: FloatArray) -> FloatArray:
        """Solve ``G d = eta_hat - eta`` for each row: many small matrices at a time, unless one is nearly singular."""
        direction, k = np.empty_like(gradient), len(self.places)
        together = max(1, STACK // max(k * k, 1)) if k < limits.NO_BLAS_THREADS else 1
        for first in range(0, len(eta), together):
            part = slice(first, first + together)
            means = eta[part][:, self.places]
            g = eta[part][:, self.joins]
            g -= means[:, :, None] * means[:, None, :]
            if together == 1 or not _well_conditioned(g, self.quotient.n_merged):
                solved = [
                    factorise(one, self.quotient.n_merged).solve(right)
                    for one, right in zip(g, gradient[part], strict=True)
                ]
                direction[part] = np.stack(solved)
            else:
                direction[part] = np.linalg.solve(g, gradient[part][:, :, None])[:, :, 0]
        return direction

    def _blur(self, eta: FloatArray) -> float:
        """Estimate by how much the rounding error of eta may tilt the distribution that proves a row.

        Where cells vanish in the limit their probability sinks to that error; eta then equals eta_hat in every digit,
        though no finite theta attains the minimum. Infinite where rounding leaves parameters dependent.
        """
        means, cells = eta[self.places], self.quotient.n_merged
        factor = factorise(eta[self.joins] - np.outer(means, means), cells)
        if len(factor.columns) < len(means):
            return np.inf
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(4, len(means)))
        moved = np.stack([factor.solve(rounding_level(len(means), cells) * means * sign) for sign in signs])
        return float(np.abs(self.log_sums(moved) - (moved @ means)[:, None]).max(initial=0.0))

    def _search(
        self, at: Member, active: IntArray, gradient: FloatArray, direction: FloatArray, eta_hat: FloatArray
    ) -> IntArray:
        """Go along each direction, by a shorter step where the full one is not good; return the rows that moved.

        It does not call `solvers.linesearch`, which takes one fit at a time: here many rows are evaluated together, and
        each has a length of its own.
        """
        slope, length = -_dot(gradient, direction), np.ones(len(active))
        left = np.flatnonzero(np.isfinite(direction).all(axis=1) & (slope < 0))
        moved = np.zeros(len(active), dtype=np.bool_)
        while len(left):
            rows = active[left]
            trial = self.at(at.theta[rows] + length[left, None] * direction[left])
            rise = trial.psi - at.psi[rows] - length[left] * _dot(direction[left], eta_hat[rows])
            blur = BLUR * (np.abs(at.psi[rows]) + _dot(np.abs(at.theta[rows]), eta_hat[rows]) + 1.0)
            good = (rise <= SUFFICIENT * length[left] * slope[left]) | (np.abs(rise) <= blur)
            at.put(rows[good], trial, good)
            moved[left[good]] = True
            left = left[~good]
            length[left] /= 2.0
            left = left[length[left] >= SHORTEST]
        return active[moved]


def _well_conditioned(g: FloatArray, n_cells: int) -> bool:
    """Whether every matrix has a Cholesky factor without a pivot at the level of rounding, as in `factorise`."""
    try:
        pivots = np.diagonal(np.linalg.cholesky(g), axis1=1, axis2=2) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool((pivots > rounding_level(g.shape[1], n_cells) * np.diagonal(g, axis1=1, axis2=2)).all())


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", a, b))
