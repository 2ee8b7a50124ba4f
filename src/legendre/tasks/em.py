"""Expectation-maximisation for values that were not observed: of some rows, or of hidden modes, which every row lacks.

Each row counts for the margin of the modes that it has. The E step shares its count among the cells that it may belong
to; the M step is an exact fit to the completed table. Newton's step for the likelihood of what was
observed comes first wherever it raises it: near the maximum it converges fast, where the two steps alone creep. That
likelihood is not concave in general, so the result is a stationary point.

Values are taken to be missing at random (Little and Rubin): whether one is missing may depend on what was observed, not
on the value itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.basis.basis import Basis
from legendre.core import limits
from legendre.core.errors import InvalidSetting, InvalidSupport
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense, with_counts
from legendre.data.partial_table import Pattern
from legendre.fitting.fit import Settings, fit_on
from legendre.results.decomposition import Decomposition
from legendre.solvers.linesearch import backtrack
from legendre.solvers.structure.faces import feature_rows
from legendre.solvers.structure.rank import independent


@dataclass(frozen=True, eq=False)
class Incomplete:
    """Rows that lack values of some modes, and the cells that they may belong to."""

    space: Dense  # with the sample space and the base measure of completed tables; its entries do not count
    patterns: tuple[Pattern, ...]  # rows by the modes that they have

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of completed tables."""
        return self.space.shape

    @cached_property
    def parts(self) -> list[tuple[tuple[int, ...], FloatArray]]:
        """For each pattern the modes that its rows lack, and its counts, in which these modes have length 1."""
        lost = [tuple(k for k in range(len(self.shape)) if k not in pattern.modes) for pattern in self.patterns]
        counts = [np.asarray(pattern.counts, dtype=np.float64) for pattern in self.patterns]
        return [(modes, np.expand_dims(own, modes)) for modes, own in zip(lost, counts, strict=True)]

    @cached_property
    def total(self) -> float:
        """The number of rows, or the sum of X."""
        return float(sum(counts.sum() for _, counts in self.parts))

    @cached_property
    def inside(self) -> BoolArray:
        """Mark the cells that can occur."""
        return self.space.support.on_grid()

    @cached_property
    def even(self) -> FloatArray:
        """Equal probabilities of all cells that can occur."""
        return np.asarray(self.inside / self.inside.sum())

    @property
    def complete(self) -> bool:
        """Whether some rows lack nothing."""
        return any(not lost for lost, _ in self.parts)

    def expect(self, q: FloatArray) -> FloatArray:
        """E step: return the expected table given what was observed, where cells have the probabilities q."""
        return np.asarray(sum(share(q, *part) for part in self.parts))

    def value(self, q: FloatArray) -> float:
        """Return the log-likelihood, ``sum of n log q`` over what rows show."""
        from scipy.special import xlogy

        with np.errstate(divide="ignore"):  # a step that leaves an entry nothing is not taken
            return float(sum(xlogy(counts, q.sum(axis=lost, keepdims=True)).sum() for lost, counts in self.parts))

    def check(self) -> None:
        """Refuse rows none of whose possible cells is in the support; the error names the first."""
        for lost, counts in self.parts:
            for place in np.argwhere((counts > 0) & ~self.inside.any(axis=lost, keepdims=True))[:1]:
                known, n = [k for k in range(len(self.shape)) if k not in lost], int(counts[tuple(place)])
                named, rows = self.space.labels.part(known).cell(place[known]), "row has" if n == 1 else "rows have"
                raise InvalidSupport(f"{n:,} {rows} {named}, which support says cannot occur.")

    def fit(self, q: FloatArray, basis: Basis, tol: float, theta: FloatArray | None = None) -> Decomposition:
        """M step: fit the table that is expected if cells have probabilities q; `theta` is a warm start."""
        values = self.expect(q)[self.inside]
        # shares below the smallest normal number would lose their digits
        least = 4 * float(np.finfo(np.float64).tiny) * self.total
        values = np.where(values > 0, np.maximum(values, least), 0.0)
        completed = replace(with_counts(self.space, values), origin=self.space.origin)
        return fit_on(completed, basis, Settings(tol=tol), start=theta)

    def maximise_saturated(self, most: int = 20_000) -> float:
        """Return the largest log-likelihood that any probabilities of the cells have; G2 compares a model with it.

        It is concave in the probabilities, so there is one maximum. Found by expectation-maximisation, extrapolated
        over two steps (SQUAREM, Varadhan and Roland 2008). It ends when ``sum of n / (N q_entry) <= 1`` on every cell
        to a relative 1e-10, which bounds what is missing.
        """
        q = self.even
        for _ in range(most):
            first = self.expect(q) / self.total
            if (first <= (1.0 + 1e-10) * q).all():
                break
            second = self.expect(first) / self.total
            change, bend = first - q, second - 2 * first + q
            length = max(float(np.linalg.norm(change)) / (float(np.linalg.norm(bend)) or 1.0), 1.0)
            jump = self.expect(np.maximum(q + 2 * length * change + length**2 * bend, 0.0)) / self.total
            q = jump if self.value(jump) > self.value(second) else second
        return self.value(q)

    def count_free(self, alive: BoolArray) -> int:
        """Count the probabilities of the cells `alive` that the rows identify without a model; df needs it.

        If no row is complete, only sums of probabilities are seen: the count is the rank of the matrix of these sums.
        """
        if self.complete:
            return int(alive.sum()) - 1
        rows = []
        for _, counts in self.parts:
            entries = np.broadcast_to(np.arange(counts.size).reshape(counts.shape), self.shape)
            rows.append(np.eye(counts.size)[entries[alive]])
        return int(np.linalg.matrix_rank(np.hstack(rows))) - 1


def share(q: FloatArray, lost: tuple[int, ...], counts: FloatArray) -> FloatArray:
    """Divide the counts of rows that lack the modes `lost` among the cells they may belong to, in proportion to q."""
    sums = q.sum(axis=lost, keepdims=True)
    return np.asarray(counts * np.divide(q, sums, out=np.zeros_like(q), where=sums > 0))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-likelihood of what was observed as a function of theta, on the cells to which a fit gives probability."""

    data: Incomplete
    fit: Decomposition

    @cached_property
    def log_base(self) -> FloatArray:
        """Logarithms of the base measure, a grid; minus infinity on cells outside the support and those that vanish."""
        alive = self.fit.model.support.on_grid().copy()
        if self.fit._alive is not None:
            alive[tuple(self.fit.labels.places(self.fit.vanishing_cells).T)] = False
        base = self.data.space.base
        with np.errstate(divide="ignore"):
            return np.log(alive if base is None else alive * base)

    def at(self, theta: FloatArray) -> FloatArray:
        """Return the probability of each cell at theta; NaN where a step has gone beyond float64."""
        model = self.fit.model
        with np.errstate(over="ignore", invalid="ignore"):  # a step that goes too far is not taken
            logs = model.quotient.spread(model.below(theta)) + self.log_base
            q = np.exp(logs - logs.max())
            return np.asarray(q / q.sum())

    def gradient(self, q: FloatArray) -> FloatArray:
        """Return the gradient per row: expectations of the completed table less those of q."""
        model = self.fit.model
        return model.above(model.quotient.merge(self.data.expect(q) / self.data.total - q))

    @cached_property
    def columns(self) -> IntArray:
        """Parameters that are independent on the cells with probability."""
        return independent(self.fit.model.on_face(self.fit._alive))

    @property
    def large(self) -> bool:
        """Whether the features are too many to be formed on every cell."""
        return math.prod(self.fit.shape) * max(len(self.fit.basis), 1) > limits.LARGEST_FEATURES

    @cached_property
    def features(self) -> FloatArray:
        """The feature of each parameter on every cell: a grid whose last mode counts the parameters."""
        model = self.fit.model
        cells = np.indices(self.fit.shape).reshape(len(self.fit.shape), -1).T
        return feature_rows(model, model.quotient.boxes(cells)).reshape(*self.fit.shape, model.n_params)

    def feature_sums(self, weights: FloatArray, lost: tuple[int, ...]) -> FloatArray:
        """Sum each feature, weighted, over the modes `lost`: a row for each combination of levels of the others."""
        sums = (weights[..., None] * self.features).sum(axis=lost)
        return np.asarray(sums.reshape(math.prod(sums.shape[:-1]), -1))  # there may be no parameter

    def _covariance(self, weights: FloatArray, lost: tuple[int, ...]) -> FloatArray:
        """Return the covariance of the features within groups of cells, weighted and added up over the groups.

        Cells that differ only in the modes `lost` are a group; with all modes, there is one group.
        """
        totals = weights.sum(axis=lost).reshape(-1, 1)
        sums, seen = self.feature_sums(weights, lost), totals[:, 0] > 0
        rows = self.features.reshape(weights.size, -1)
        return np.asarray(rows.T @ (weights.reshape(-1, 1) * rows) - sums[seen].T @ (sums[seen] / totals[seen]))

    def complete_information(self, q: FloatArray) -> FloatArray:
        """Return the information of a complete table, per row: the covariance of the features."""
        return self._covariance(q, tuple(range(q.ndim)))

    def missing_information(self, q: FloatArray) -> FloatArray:
        """Return what of the information is missing, per row: the covariance of the features given what was observed.

        Louis (1982): the information in the rows is that of a complete table less this.
        """
        parts = [self._covariance(share(q, *part), part[0]) for part in self.data.parts if part[0]]
        return np.asarray(sum(parts, np.zeros((self.fit.n_params,) * 2)) / self.data.total)

    def count_identified(self, q: FloatArray) -> int:
        """Count the independent parameters that the rows identify, near q.

        If no row is complete, it is the rank of the derivatives of all observed margins by theta.
        """
        if self.data.complete or not len(self.columns):
            return len(self.columns)
        margins = []
        for lost, _ in self.data.parts:
            sums = self.feature_sums(q, lost)
            margins.append(sums - q.sum(axis=lost).reshape(-1, 1) * sums.sum(axis=0))
        return int(np.linalg.matrix_rank(np.vstack(margins)[:, self.columns]))


def blur(log_likelihood: float) -> float:
    """Return by how much rounding can change a log-likelihood; smaller changes are not progress."""
    return 8 * float(np.finfo(np.float64).eps) * abs(log_likelihood)


@dataclass(frozen=True, eq=False)
class Ascent:
    """The current point of expectation-maximisation, and how it came there."""

    likelihood: Likelihood
    theta: FloatArray
    q: FloatArray  # the probability of each cell
    gradient: FloatArray  # of the log-likelihood per row
    path: tuple[float, ...]  # the log-likelihood at the start and after each round: it never falls
    residuals: tuple[float, ...]  # likewise the largest entry of its gradient

    @property
    def residual(self) -> float:
        """The largest entry of the gradient of the log-likelihood per row."""
        return self.residuals[-1]

    @classmethod
    def at(cls, likelihood: Likelihood, theta: FloatArray) -> Ascent:
        """Begin at theta; the log-likelihood is minus infinity where it is beyond float64."""
        q = likelihood.at(theta)
        value = likelihood.data.value(q) if np.isfinite(q).all() else -np.inf
        gradient = likelihood.gradient(q) if value > -np.inf else np.zeros_like(theta)
        return cls(likelihood, theta, q, gradient, (value,), (float(np.abs(gradient).max(initial=0.0)),))

    def continue_to(self, later: Ascent) -> Ascent:
        """Move to the point of another ascent, and add its log-likelihood and residual to the path."""
        return replace(later, path=(*self.path, later.path[-1]), residuals=(*self.residuals, later.residual))

    def newton(self) -> Ascent | None:
        """Take Newton's step, shortened if need be; ``None`` where it does not raise the likelihood.

        The information in the rows is minus the Hessian. Where the likelihood is not concave, some of its
        eigenvalues are negative; the step divides by their absolute values, so that it goes up along these axes too.
        """
        from scipy.linalg import eigh

        likelihood, total = self.likelihood, self.likelihood.data.total
        columns = likelihood.columns
        own = np.ix_(columns, columns)
        complete = likelihood.complete_information(self.q)
        try:
            shares, axes = eigh((complete - likelihood.missing_information(self.q))[own], complete[own])
        except (np.linalg.LinAlgError, ValueError):
            return None
        direction = np.zeros_like(self.theta)
        # a share of the information near 0 does not show how far to go
        direction[columns] = axes @ ((axes.T @ self.gradient[columns]) / np.maximum(np.abs(shares), 1e-6))

        def phi(step: float) -> tuple[float, float, Ascent]:
            there = Ascent.at(likelihood, self.theta + step * direction)
            return (self.path[-1] - there.path[-1]) / total, -float(there.gradient @ direction), there

        noise = blur(self.path[-1]) / total
        found = backtrack(phi, -float(self.gradient @ direction), shortest=0.01, noise=noise)
        return None if found is None else found[1]


def ascend(now: Ascent, basis: Basis, tol: float, *, most: int = 2000, patience: int = 10) -> Ascent:
    """Take Newton's step, or an E and an M step, until the gradient is at most tol or the likelihood falls.

    It also ends when the path has `most` rounds, and after `patience` rounds in which the likelihood rises by no more
    than rounding and the gradient stays above 0.9 times its smallest value.
    """
    best, idle, pause, wait = np.inf, 0, 0, 1
    while now.residual > tol and len(now.path) <= most and idle < patience:
        likelihood, data = now.likelihood, now.likelihood.data
        following = None if likelihood.large or pause else now.newton()
        if following is None:
            # a Newton step that did not help is tried again after 1, 2, 4, ..., 32 rounds
            pause, wait = (pause - 1, wait) if pause else (wait, min(2 * wait, 32))
            fit = data.fit(now.q, basis, 0.1 * tol, now.theta)
            if fit.n_vanishing != likelihood.fit.n_vanishing:  # its theta is that of the cells which are left
                likelihood = Likelihood(data, fit)
            following = Ascent.at(likelihood, fit.theta)
        else:
            wait = 1
        rise, noise = following.path[-1] - now.path[-1], blur(now.path[-1])
        if not rise >= -noise:
            break
        best = min(best, now.residual)
        idle = idle + 1 if following.residual > 0.9 * best and rise <= noise else 0
        now = now.continue_to(following)
    return now


def finish(now: Ascent, basis: Basis, tol: float, most: int = 2000) -> Ascent:
    """Ascend, then fit the completed table once more, so that the result is a `Decomposition` of that table.

    This last fit is one more M step, which raises the likelihood; yet its gradient may be above tol. Then the ascent
    goes on to a tenth, and at last a hundredth, of tol.
    """
    for share in (1.0, 0.1, 0.01):
        now = ascend(now, basis, share * tol, most=most)
        data = now.likelihood.data
        # from 0, not from theta: where parameters have run far out, what is left of them on a face may be far off
        fit = data.fit(now.q, basis, min(0.1 * tol, 1e-12))
        end = Ascent.at(Likelihood(data, fit), fit.theta)
        if now.residual > tol or end.residual <= tol:
            break
    return now.continue_to(end)


def maximise(data: Incomplete, basis: Basis, tol: float) -> Ascent:
    """Maximise the likelihood of rows that lack values; the start divides each row evenly among its cells.

    Fitted counts that tend to 0 are set to 0, so that the limit is exact.
    """
    data.check()
    fit = data.fit(data.even, basis, 0.1 * tol)
    if Likelihood(data, fit).large:
        raise InvalidSetting(
            f"missing='em' forms a table of {math.prod(data.shape):,} cells by {fit.n_params:,} parameters; at most "
            f"{limits.LARGEST_FEATURES:,} entries are allowed. Name fewer columns, or leave rows that lack values out: "
            "missing='drop'."
        )
    now = ascend(Ascent.at(Likelihood(data, fit), fit.theta), basis, tol)
    while (limit := _limit(now, basis, tol)) is not None:
        now = now.continue_to(limit)
    return finish(now, basis, tol)


def _limit(now: Ascent, basis: Basis, tol: float, small: float = 1e-4) -> Ascent | None:
    """Set fitted counts below `small` to 0 and fit again; ``None`` if that is not the limit of the ascent.

    The ascent tends to a boundary, which it never reaches, if cells vanish from the new fit and the likelihood is no
    lower there.
    """
    data, alive = now.likelihood.data, now.likelihood.log_base > -np.inf
    kept = np.where(data.total * now.q < small, 0.0, now.q)
    if (kept[alive] > 0).all() or not np.isfinite(data.value(kept)):
        return None
    fit = data.fit(kept, basis, 0.1 * tol)
    if fit.n_vanishing == now.likelihood.fit.n_vanishing:
        return None
    limit = ascend(Ascent.at(Likelihood(data, fit), fit.theta), basis, tol)
    return limit if limit.path[-1] >= now.path[-1] - blur(now.path[-1]) else None
