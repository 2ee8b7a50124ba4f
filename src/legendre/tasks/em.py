"""Expectation-maximisation for rows that lack values: of some variables (`loglinear`), or of hidden modes (`hidden`).

A row that lacks values counts in the margin of the modes that it has. The E step divides its count among the cells to
which it may belong; the M step is an exact fit to the completed table. A Newton step on the log-likelihood of the
observed values is tried first: near the maximum it converges fast, where EM alone converges slowly. This
log-likelihood is not concave in general, so the result is a stationary point.

Values are assumed to be missing at random (Little and Rubin): whether one is missing may depend on what was observed,
not on the value itself.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from sys import float_info
from typing import Any

import numpy as np

from legendre.basis.basis import Basis
from legendre.core import limits
from legendre.core.errors import InvalidSetting, InvalidSupport
from legendre.core.labels import Labels
from legendre.core.types import BoolArray, FloatArray, IntArray, Shape, frozen
from legendre.data.dense import Dense, with_counts
from legendre.data.partial_table import Pattern
from legendre.fitting.columns import extrapolate
from legendre.fitting.fit import Settings, fit_on
from legendre.results.decomposition import Decomposition
from legendre.solvers.linesearch import backtrack
from legendre.solvers.structure.faces import feature_rows, vanishing_cells
from legendre.solvers.structure.rank import independent


@frozen
class Incomplete:
    """Rows that lack values of some modes, and the cells that they may belong to."""

    space: Dense  # has the shape, sample space, base measure and labels of completed tables; EM ignores its entries
    patterns: tuple[Pattern, ...]  # the counts of the rows, grouped by the modes that rows have

    @property
    def shape(self) -> Shape:
        """The shape of completed tables."""
        return self.space.shape

    @property
    def labels(self) -> Labels:
        """What the modes and their levels are called."""
        return self.space.labels

    @cached_property
    def counts(self) -> FloatArray:
        """The counts of the rows: the entries of the tables of all patterns, one table after the other."""
        return np.concatenate([np.ravel(pattern.counts) for pattern in self.patterns]).astype(np.float64)

    @cached_property
    def margins(self) -> Any:
        """The sparse matrix, entries x cells, that sums a flattened table to what the rows show: its observed margins.

        It has a 1 where rows that are counted in the entry may belong to the cell.
        """
        from scipy.sparse import csr_array, vstack

        n_cells, blocks = math.prod(self.shape), []
        for pattern in self.patterns:
            lost = [k for k in range(len(self.shape)) if k not in pattern.modes]
            size = pattern.counts.size
            # the number of each cell's entry in the table of the pattern, which has no axes for lost modes
            entries = np.expand_dims(np.arange(size).reshape(pattern.counts.shape), lost)
            places = np.broadcast_to(entries, self.shape).ravel(), np.arange(n_cells)
            blocks.append(csr_array((np.ones(n_cells), places), (size, n_cells)))
        return vstack(blocks, format="csr")

    @cached_property
    def occurred(self) -> tuple[FloatArray, Any]:
        """The counts of the entries that occurred, and their rows of `margins`: what the likelihood depends on."""
        entries = np.flatnonzero(self.counts)
        return self.counts[entries], self.margins[entries]

    @cached_property
    def total(self) -> float:
        """The number of rows, or the sum of X."""
        return float(self.counts.sum())

    @cached_property
    def inside(self) -> BoolArray:
        """The sample space as a mask on the flattened grid."""
        return self.space.support.on_grid().ravel()

    @cached_property
    def even(self) -> FloatArray:
        """Equal probabilities for all cells of the sample space: the start of EM."""
        return np.asarray(self.inside / self.inside.sum())

    @property
    def complete(self) -> bool:
        """Whether some rows lack no value; if so, they identify the probability of every cell."""
        return any(len(pattern.modes) == len(self.shape) for pattern in self.patterns)

    def expect(self, q: FloatArray) -> FloatArray:
        """E step: return the expected completed table, per row, given what was observed, if cells have probability q.

        The count of an entry is divided among its cells in proportion to q.
        """
        counts, margins = self.occurred
        sums = margins @ q
        # below 1e-300 the quotient may overflow; no step is accepted that leaves so little to rows that occurred
        factors = np.divide(counts / self.total, sums, out=np.zeros_like(sums), where=sums > 1e-300)
        return np.asarray(q * (factors @ margins))

    def value(self, q: FloatArray) -> float:
        """Return the log-likelihood of the observed values: ``sum of n log(margin of q)`` over all entries.

        It is minus infinity where an entry that occurred has probability 0.
        """
        counts, margins = self.occurred
        with np.errstate(divide="ignore"):  # the line search does not accept minus infinity
            return float(counts @ np.log(margins @ q))

    def check(self) -> None:
        """Refuse rows whose values rule out every cell of the support; the error names the values and how many rows.

        No model could give such rows a probability.
        """
        # the first such entry, if there is one
        for entry in np.flatnonzero((self.counts > 0) & (self.margins @ self.inside == 0))[:1]:
            cells = np.stack(np.unravel_index(self.margins[[entry]].indices, self.shape))
            known = np.flatnonzero((cells == cells[:, :1]).all(axis=1)).tolist()  # modes in which its cells agree
            n = int(self.counts[entry])
            named, rows = self.labels.part(known).cell(cells[known, 0]), "row has" if n == 1 else "rows have"
            raise InvalidSupport(f"{n:,} {rows} {named}, which support or base says cannot occur.")

    def fit_expected(self, q: FloatArray, basis: Basis, tol: float, theta: FloatArray | None = None) -> Decomposition:
        """E and M step: fit the table that is expected if cells have the probabilities q; `theta` is a warm start."""
        values = self.total * self.expect(q)[self.inside]
        # positive entries are raised until their share of the total is a normal float64: subnormal ones lose digits
        least = 4 * float_info.min * self.total
        values = np.where(values > 0, np.maximum(values, least), 0.0)
        completed = replace(with_counts(self.space, values), origin=self.space.origin)
        return fit_on(completed, basis, Settings(tol=tol), start=theta)

    def maximise_saturated(self, most: int = 20_000) -> float:
        """Return the log-likelihood of the saturated model, its maximum over all q; G2 compares a model with it.

        The log-likelihood is concave in q. EM finds its maximum, with two steps at a time extrapolated, for at most
        `most` such rounds. An EM step multiplies each cell of q by the derivative of the log-likelihood there, over the
        number N of rows. It ends when no factor of a positive cell is above 1 + 1e-10. Because of concavity, the
        log-likelihood is then at most 1e-10 N below its maximum.
        """
        q = self.even
        for _ in range(most):
            first = self.expect(q)
            if (first <= (1.0 + 1e-10) * q).all():
                break
            second = self.expect(first)
            # an EM step from far out, which makes probabilities of it; it is taken if it is better than two plain ones
            jump = self.expect(extrapolate([q], [first], [second])[0])
            q = jump if self.value(jump) > self.value(second) else second
        return self.value(q)

    def count_free(self, alive: BoolArray) -> int:
        """Count the free parameters of the saturated model on the cells `alive` that the rows identify, for df.

        Complete rows identify all probabilities, whose sum is 1. Otherwise only entries of margins are observed, and
        the count is the rank of the matrix (cells x entries) that sums cells to entries, minus 1.
        """
        if self.complete:
            return int(alive.sum()) - 1
        return int(np.linalg.matrix_rank(self.margins[:, alive].toarray())) - 1


@frozen
class Likelihood:
    """The log-likelihood of the observed values as a function of theta, per row where it says so.

    Cells that vanish in `fit` stay at probability 0, so that theta is finite.
    """

    data: Incomplete
    fit: Decomposition  # has the model, and the face on which theta is fitted

    @cached_property
    def log_base(self) -> FloatArray:
        """The log of the base measure at each cell (flattened); minus infinity where no cell has probability."""
        alive = self.data.inside.reshape(self.data.shape).copy()
        alive[tuple(vanishing_cells(self.fit.model, self.fit._alive).T)] = False
        base = self.data.space.base
        with np.errstate(divide="ignore"):
            return np.log(alive if base is None else alive * base).ravel()

    def q_at(self, theta: FloatArray) -> FloatArray:
        """Return the probability of each cell at theta; NaN if exponents overflow."""
        model = self.fit.model
        with np.errstate(over="ignore", invalid="ignore"):  # the line search shortens a step that overflows
            logs = model.quotient.spread(model.below(theta)).ravel() + self.log_base
            q = np.exp(logs - logs.max())
            return np.asarray(q / q.sum())

    def gradient(self, q: FloatArray) -> FloatArray:
        """Return the gradient in theta per row: the expectations of the completed table minus those of q."""
        model = self.fit.model
        return model.above(model.quotient.merge((self.data.expect(q) - q).reshape(self.data.shape)))

    @cached_property
    def columns(self) -> IntArray:
        """A maximal set of parameters that are independent on the cells with positive probability."""
        return independent(self.fit._face)

    @property
    def large(self) -> bool:
        """Whether the array `features` would be too large to form; Newton steps are then not tried."""
        return math.prod(self.fit.shape) * max(len(self.fit.basis), 1) > limits.LARGEST_FEATURES

    @cached_property
    def features(self) -> FloatArray:
        """The feature of each parameter on every cell, cells x parameters."""
        cells = np.indices(self.fit.shape).reshape(len(self.fit.shape), -1).T
        return feature_rows(self.fit.model, self.fit.model.quotient.boxes(cells))

    def missing_information(self, q: FloatArray) -> FloatArray:
        """Return the missing information per row: the mean covariance of the features given what a row shows.

        Louis (1982): the observed information is that of complete rows minus this. Rows that lack nothing miss none.
        """
        counts, margins = self.data.occurred
        # the means of the features given each entry; none, and no squares, where its probability underflows
        p, means = (margins @ q)[:, None], margins @ (q[:, None] * self.features)
        means = np.divide(means, p, out=np.zeros_like(means), where=p > 0)
        return sum_squares(self.data.expect(q), self.features) - sum_squares(counts / self.data.total, means)

    def find_shares(self, q: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return the shares of the complete-data information that these rows keep, and the axes along which they do.

        The observed information is diagonalised relative to the complete one, the covariance of the features. The
        second array has an axis in each column, with an entry for each parameter in `self.columns`. A share is below 0
        where the log-likelihood is not concave. ``None`` if the complete information is singular, as where fitted
        counts tend to 0. A Newton step needs shares and axes, and a certificate of a maximum the shares.
        """
        from scipy.linalg import eigh

        block = np.ix_(self.columns, self.columns)  # singular with dependent parameters
        mean = q @ self.features
        complete = sum_squares(q, self.features) - np.outer(mean, mean)
        try:
            found: tuple[FloatArray, FloatArray] = eigh(
                (complete - self.missing_information(q))[block], complete[block]
            )
        except (np.linalg.LinAlgError, ValueError):  # singular, or NaN
            return None
        return found

    def count_identified(self, q: FloatArray) -> int:
        """Count the parameters that the rows identify near q; the degrees of freedom of a test need it.

        Complete rows identify all independent ones. Otherwise it is the rank of the Jacobian of all observed margins by
        theta, whose entries are covariances of an entry's indicator with the features.
        """
        if self.data.complete or not len(self.columns):
            return len(self.columns)
        centred = q[:, None] * (self.features - q @ self.features)
        return int(np.linalg.matrix_rank(self.data.margins @ centred[:, self.columns]))


def sum_squares(weights: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the weighted sum of the products of each row with itself: ``sum of w x x'``."""
    root = np.sqrt(weights)[:, None] * rows
    return np.asarray(root.T @ root)  # NumPy computes half of this symmetric matrix


def rounding_noise(log_likelihood: float) -> float:
    """Return by how much rounding may change a log-likelihood: a smaller rise or fall means nothing."""
    return 8 * float_info.epsilon * abs(log_likelihood)


@frozen
class Ascent:
    """The current point of the maximisation, and the path that led to it."""

    likelihood: Likelihood
    theta: FloatArray
    q: FloatArray  # the probability of each cell
    gradient: FloatArray  # of the log-likelihood per row
    path: tuple[float, ...]  # the log-likelihood at the start and after each round; it falls by no more than rounding
    residuals: tuple[float, ...]  # the largest absolute entry of `gradient` at the same points

    @property
    def residual(self) -> float:
        """The largest absolute entry of the gradient of the log-likelihood per row; converged if it is at most tol."""
        return self.residuals[-1]

    @classmethod
    def at(cls, likelihood: Likelihood, theta: FloatArray) -> Ascent:
        """Begin a path at theta; where the probabilities overflow, its log-likelihood is minus infinity."""
        q = likelihood.q_at(theta)
        value = likelihood.data.value(q) if np.isfinite(q).all() else -np.inf
        gradient = likelihood.gradient(q) if value > -np.inf else np.zeros_like(theta)
        return cls(likelihood, theta, q, gradient, (value,), (float(np.abs(gradient).max(initial=0.0)),))

    def continue_to(self, later: Ascent) -> Ascent:
        """Move to the point of another ascent, and append its last log-likelihood and residual to this path."""
        return replace(later, path=(*self.path, later.path[-1]), residuals=(*self.residuals, later.residual))

    def take_newton_step(self) -> Ascent | None:
        """Take a Newton step, shortened by a line search; ``None`` where it does not raise the log-likelihood.

        Minus the Hessian is the observed information, which `Likelihood.find_shares` diagonalises. Where the
        log-likelihood is not concave, some shares are negative; the step divides by absolute values, so that it goes
        uphill along these axes too.
        """
        likelihood, total = self.likelihood, self.likelihood.data.total
        if (found := likelihood.find_shares(self.q)) is None:
            return None
        (shares, axes), columns = found, likelihood.columns
        direction = np.zeros_like(self.theta)
        # the floor 1e-6: a share near 0 is mostly rounding error, and does not show how far to go
        direction[columns] = axes @ ((axes.T @ self.gradient[columns]) / np.maximum(np.abs(shares), 1e-6))

        def phi(step: float) -> tuple[float, float, Ascent]:
            """Evaluate a step for `backtrack`, which minimises: the fall of the log-likelihood per row, its slope."""
            there = Ascent.at(likelihood, self.theta + step * direction)
            return (self.path[-1] - there.path[-1]) / total, -float(there.gradient @ direction), there

        noise = rounding_noise(self.path[-1]) / total
        step = backtrack(phi, -float(self.gradient @ direction), shortest=0.01, noise=noise)
        return None if step is None else step[1]


def ascend(now: Ascent, basis: Basis, tol: float, *, most: int = 2000, patience: int = 10) -> Ascent:
    """Take Newton steps, or E and M steps where these fail, until the residual is at most tol.

    It also ends when the path has `most` rounds; before a round that would lower the log-likelihood by more than
    rounding; and after `patience` rounds in which the log-likelihood rises by no more than rounding and the residual
    stays above 0.9 times its smallest value.
    """
    best, idle = np.inf, 0
    while now.residual > tol and len(now.path) <= most and idle < patience:
        likelihood, data = now.likelihood, now.likelihood.data
        following = None if likelihood.large else now.take_newton_step()
        if following is None:
            fit = data.fit_expected(now.q, basis, 0.1 * tol, now.theta)
            if fit.n_vanishing != likelihood.fit.n_vanishing:  # more cells vanish: theta belongs to the others only
                likelihood = Likelihood(data, fit)
            following = Ascent.at(likelihood, fit.theta)
        rise, noise = following.path[-1] - now.path[-1], rounding_noise(now.path[-1])
        if not rise >= -noise:
            break
        best = min(best, now.residual)
        idle = idle + 1 if following.residual > 0.9 * best and rise <= noise else 0
        now = now.continue_to(following)
    return now


def finish(now: Ascent, basis: Basis, tol: float, most: int = 2000) -> Ascent:
    """Ascend to tol, then fit the completed table once more: the result needs a `Decomposition` of that table.

    This last fit is one more M step. It raises the log-likelihood, yet its residual may be above tol. In that case the
    ascent continues to a tenth of tol, and then to a hundredth.
    """
    for share in (1.0, 0.1, 0.01):
        now = ascend(now, basis, share * tol, most=most)
        data = now.likelihood.data
        # without a warm start: where cells vanish, theta may be very large, and a poor start on the face
        fit = data.fit_expected(now.q, basis, min(0.1 * tol, 1e-12))
        end = Ascent.at(Likelihood(data, fit), fit.theta)
        if now.residual > tol or end.residual <= tol:  # the ascent got stuck, or the last fit is good enough
            break
    return now.continue_to(end)


def maximise(data: Incomplete, basis: Basis, tol: float) -> Ascent:
    """Maximise the likelihood of rows that lack values; the start divides each row evenly among its possible cells.

    Where fitted counts tend to 0, EM approaches the boundary without reaching it. `_move_to_boundary` sets them to 0,
    repeatedly, so that the result is the limit.
    """
    data.check()
    fit = data.fit_expected(data.even, basis, 0.1 * tol)
    if Likelihood(data, fit).large:
        raise InvalidSetting(
            f"missing='em' forms a table of {math.prod(data.shape):,} cells by {fit.n_params:,} parameters; at most "
            f"{limits.LARGEST_FEATURES:,} entries are allowed. Name fewer columns, or leave rows that lack values out: "
            "missing='drop'."
        )
    now = ascend(Ascent.at(Likelihood(data, fit), fit.theta), basis, tol)
    while (limit := _move_to_boundary(now, basis, tol)) is not None:
        now = now.continue_to(limit)
    return finish(now, basis, tol)


def _move_to_boundary(now: Ascent, basis: Basis, tol: float, small: float = 1e-4) -> Ascent | None:
    """Set fitted counts below `small` to 0 and ascend again; ``None`` if `now` does not tend to the boundary.

    It does if more cells vanish in the new fit and the log-likelihood there is no lower.
    """
    data, alive = now.likelihood.data, now.likelihood.log_base > -np.inf
    kept = np.where(data.total * now.q < small, 0.0, now.q)
    # no count is small, or rows that were observed would lose all their cells
    if (kept[alive] > 0).all() or not np.isfinite(data.value(kept)):
        return None
    fit = data.fit_expected(kept, basis, 0.1 * tol)
    if fit.n_vanishing == now.likelihood.fit.n_vanishing:
        return None
    limit = ascend(Ascent.at(Likelihood(data, fit), fit.theta), basis, tol)
    return limit if limit.path[-1] >= now.path[-1] - rounding_noise(now.path[-1]) else None
