"""Completion without a basis: all interactions at once, each held back by a penalty that held-out cells choose.

The unknowns are the coefficients of log q in cosine waves, another frame of theta's space. For given variances of the
coefficients the fit is convex, with one answer whatever is missing (`minimise`). The error on held-out cells has a
gradient in all variances at once, for the price of one more linear system: where the fit is
a = argmin f(a) + a . a / 2v, a small change of v moves it by (f'' + 1/v)^-1 (a / v^2) dv (`tune`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from scipy.fft import dct, idct

from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning
from legendre.core.labels import Labels
from legendre.core.origin import Origin
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.zeta import moebius, zeta_adjoint
from legendre.core.text import NamedValues, Table
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.fitting.fit import Settings
from legendre.results.base import Certificate
from legendre.results.effects import Effect, effects_of_tensor
from legendre.solvers.conjugate import conjugate_gradients
from legendre.solvers.linesearch import backtrack
from legendre.solvers.loop import Status, Step
from legendre.tasks.complete.crossval import Folding, cells_left, poisson_deviance


@dataclass(frozen=True, eq=False, repr=False)
class PenalisedFit:
    """The model behind a completion without a basis: all interactions, with a penalty.

    Attributes
    ----------
    means
        The model's value at every cell as an array of NumPy; `tensor()` gives it in X's form.
    theta, eta, rank
        Natural parameters and expectations on the full basis: every cell but the bottom, in C order. Expectations are
        those of Q on the observed cells.
    kl
        KL(P, Q) on the observed cells, in nats.
    variances
        By term, the variance of log Q: the modes that it involves, with ``~`` where neighbours in a mode are alike.
    criterion, error
        The criterion on held-out cells and its value: the Poisson deviance per cell, or the root mean square error. The
        variances were chosen by these cells, so the value is a little too good.
    n_held_out, n_folds
        How many cells were held out, in how many folds.
    residual, tol
        How exact the fit is: the largest entry of the gradient, penalty included, for a total of 1; and the tolerance.
    gap
        Upper bound of the excess of ``KL(P, Q) + penalty / n`` over its minimum, for n observed cells.
    """

    means: FloatArray
    theta: FloatArray
    eta: FloatArray
    kl: float
    variances: dict[str, float]
    criterion: str
    error: float
    n_held_out: int
    n_folds: int
    residual: float
    gap: float
    status: Status
    history: tuple[Step, ...]
    tol: float
    origin: Origin

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.means.shape

    @property
    def labels(self) -> Labels:
        """What the modes of X and their levels are called."""
        return self.origin.of(self.shape)

    @property
    def rank(self) -> int:
        """The number of parameters: the penalty determines each of them."""
        return len(self.theta)

    def without_labels(self) -> PenalisedFit:
        """Return the same fit without labels."""
        return replace(self, origin=self.origin.unlabelled())

    def tensor(self) -> Any:
        """Return the model's value at every cell, in X's units and form."""
        return self.origin.give(self.means)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved of the model."""
        off = f"The largest entry of the gradient is {self.residual:.1e}; {self.tol:g} was asked for."
        why = "For the chosen variances the problem is convex; the variances were chosen by cells that were held out."
        if not self.status.converged:
            return Certificate(False, "This is not yet the minimum.", (off, self.status.value))
        return Certificate(True, "This is the minimum of divergence and penalty together.", (off, why))

    def _small_effects(self) -> list[Effect]:
        """List what single modes and pairs do to the logarithm of the model's values; none where one is 0."""
        return effects_of_tensor(self.means, self.origin)

    def tables(self) -> list[Table]:
        """List how well held-out cells were predicted, and the terms with the largest variances."""
        largest = sorted(self.variances, key=lambda name: -self.variances[name])[:8]
        rows = [
            ("basis", f"all interactions, with a penalty; {self.rank} parameters"),
            ("held out", f"{self.n_held_out} cells in {self.n_folds} folds: {self.criterion} {self.error:.5g}"),
            ("fit", f"residual {self.residual:.1e} after {self.history[-1].iteration} steps"),
            *((f"term {name}", f"standard deviation of log Q {np.sqrt(self.variances[name]):.3g}") for name in largest),
        ]
        return [NamedValues("Penalised fit", [*rows, *(("note", note) for note in self.origin.notes)])]

    def __repr__(self) -> str:
        return f"<PenalisedFit: {self.rank} parameters, held-out {self.criterion} {self.error:.5g}>"


def fit_penalised(
    data: Dense, seen: BoolArray, folding: Folding, criterion: str, settings: Settings, say: Say
) -> PenalisedFit:
    """Choose the variances by held-out cells, then fit all observed cells; warn if that did not converge."""
    measure = np.ones(data.shape) if data.base is None else data.base
    omega, values = seen & (measure > 0), np.asarray(data.values, dtype=np.float64)
    values = np.where(omega, values, 0.0)
    together = math.prod(data.shape[k] for k in folding.along)
    waves, max_iter = Waves(data.shape), 100 if settings.max_iter is None else settings.max_iter
    with limit_blas():
        tau, error, latest, held = tune(waves, values, measure, folding.deal(omega), criterion, together, say)
        say("the last fit, to all that was observed")
        problem = PenalisedProblem(waves, values / data.total, np.where(omega, measure, 0.0))
        point, history = minimise(problem, np.sqrt(waves.variances(tau)), latest[0], settings.tol, max_iter)
    converged = point.residual <= settings.tol
    if not converged:
        text = f"complete: the gradient is {point.residual:.2e} after {len(history) - 1} steps, tol = {settings.tol:g}."
        warnings.warn(f"{text} Raise max_iter or tol.", ConvergenceWarning, stacklevel=3)
    with np.errstate(divide="ignore"):
        means = np.exp(point.h - point.psi + np.log(measure)) * data.total
    return PenalisedFit(
        means=frozen(means),
        theta=frozen(moebius(point.h).ravel()[1:]),
        eta=frozen(zeta_adjoint(point.q).ravel()[1:]),
        kl=problem.divergence(point.q),
        variances={
            waves.name(term, data.labels): float(tau[term]) for term in zip(*np.nonzero(waves.terms), strict=True)
        },
        criterion=criterion,
        error=error,
        n_held_out=held,
        n_folds=len(latest),
        residual=point.residual,
        gap=point.gap,
        status=Status.CONVERGED if converged else Status.OUT_OF_STEPS,
        history=history,
        tol=settings.tol,
        origin=data.origin,
    )


def tune(
    waves: Waves, values: FloatArray, base: FloatArray, turns: IntArray, criterion: str, together: int, say: Say
) -> tuple[FloatArray, float, list[FloatArray], int]:
    """Choose the variances of the terms that make the error on held-out cells least.

    X is 0 where it was not observed; `turns` has the fold of each observed cell, -1 elsewhere; `together` is the number
    of cells in a fibre, where fibres are held out. Of a large tensor only some folds are held out. Return the
    variances, the error per cell (mean or root mean square), the coefficients of each fold, and the number of cells.
    """
    from scipy.optimize import minimize

    # A variance has a log-normal prior: its median, and one standard deviation as a factor. At the least one a term
    # does nothing. The search ends when a step lowers the error by less than a share of 1e-5.
    typical, factor, least, most, steps = 0.05, 3.0, 1e-7, 20.0, 40
    unit = float(values[turns >= 0].mean())
    x, folds, held_out = values / unit, [], 0
    for turn in range(int(turns.max()) + 1):
        if held_out >= limits.ENOUGH_HELD_OUT * together:
            break
        left = cells_left(values, turns, turn)
        total = float(x[left].sum())
        problem = PenalisedProblem(waves, np.where(left, x, 0.0) / total, np.where(left, base, 0.0))
        folds.append(partial(held_out_error, problem, turns == turn, x, base, total, criterion))
        held_out += int((turns == turn).sum())
    latest = [np.zeros(values.shape) for _ in folds]
    n_terms = int(waves.terms.sum())

    def variances(z: FloatArray) -> FloatArray:
        tau = np.zeros(waves.terms.shape)
        tau[waves.terms] = typical * factor**z
        return tau

    def badness(z: FloatArray) -> tuple[float, FloatArray]:
        """Of held_out residuals the log-likelihood, with a normal prior for z, each divided by -held_out / 2."""
        tau = variances(z)
        answers = [fold(waves.variances(tau), b) for fold, b in zip(folds, latest, strict=True)]
        errors, slopes, latest[:] = zip(*answers, strict=True)
        total = max(sum(errors), held_out * float(np.finfo(np.float64).eps) ** 2)  # rounding errors are all the same
        value = float(np.log(total / held_out) + np.vdot(z, z) / held_out)
        slope = waves.by_term(np.sum(slopes, axis=0))
        return value, np.log(factor) * (slope * tau)[waves.terms] / total + 2.0 * z / held_out

    def watch(intermediate_result: Any) -> None:  # SciPy knows what to pass by this name
        say(f"variances of {n_terms} terms, by {held_out} cells   held out: {intermediate_result.fun:.4g}")

    say(f"variances of {n_terms} terms, by {held_out} cells of {len(folds)} folds")
    bounds = [tuple(np.log([least / typical, most / typical]) / np.log(factor))] * n_terms
    options: Any = {"maxiter": steps, "ftol": 1e-5}
    start = np.zeros(n_terms)
    found = minimize(badness, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=watch)
    error = float(np.exp(found.fun - np.vdot(found.x, found.x) / held_out))
    return variances(found.x), unit * (error if criterion == "deviance" else math.sqrt(error)), latest, held_out


def held_out_error(
    problem: PenalisedProblem,
    held: BoolArray,
    x: FloatArray,
    base: FloatArray,
    total: float,
    criterion: str,
    variances: FloatArray,
    b: FloatArray,
    *,
    tol: float = 0.02,
    accuracy: float = 1e-3,
) -> tuple[float, FloatArray, FloatArray]:
    """Fit the cells that are left from b; return the sum of the errors on those held out, its gradient, and the new b.

    The gradient is in the variances. `total` is the sum of x over the cells that are left. The fit is as exact as the
    share `tol` of a coefficient's standard deviation, the linear system for the gradient to `accuracy`.
    """
    largest = 60.0  # log q of a held-out cell counts as this at most: its square is finite
    point, _ = minimise(problem, np.sqrt(variances), b, tol / problem.n_cells)
    log_q = point.h[held] - point.psi + np.log(base[held])
    m = total * np.exp(np.minimum(log_q, largest))
    off, squares, slope = m - x[held], criterion == "rmse", np.zeros_like(x)
    slope[held] = np.where(log_q < largest, 2.0 * off * m if squares else 2.0 * off, 0.0)
    error = off**2 if squares else poisson_deviance(x[held], m)
    slope -= point.q * slope.sum()  # psi moves too
    answer = point.solve(point.spread * problem.waves.to_waves(slope), accuracy)
    # answer / spread, without dividing by a spread of 0; at the optimum b / spread is -excess
    inner = problem.waves.to_waves(slope - point.fisher(problem.waves.to_cells(point.spread * answer)))
    return float(error.sum()), -inner * point.excess, point.b


@dataclass(frozen=True)
class Waves:
    """The cosine waves of a grid, orthonormal, and the variances of their coefficients.

    A mode is level (the same for all its coordinates), free (coordinates have nothing to do with one another) or a walk
    (neighbours are alike, as in a random walk). A term says which for each mode, and has a variance: that of log q,
    cell by cell. The waves diagonalise all terms at once, so that the variance of a coefficient is a sum over terms of
    products over modes.
    """

    shape: tuple[int, ...]

    @cached_property
    def matrices(self) -> tuple[FloatArray | None, ...]:
        """The waves of each mode, one per row; ``None`` for a long mode, where a fast transform is faster."""
        short = 500
        return tuple(dct(np.eye(n), norm="ortho", axis=0) if n <= short else None for n in self.shape)

    def to_cells(self, a: FloatArray) -> FloatArray:
        """Sum the waves: from coefficients to cells. The adjoint is `to_waves`."""
        for rows in self.matrices:
            a = _transform(a, idct) if rows is None else _product(a, rows)
        return a

    def to_waves(self, h: FloatArray) -> FloatArray:
        """Compute the coefficients of a function on the grid."""
        for rows in self.matrices:
            h = _transform(h, dct) if rows is None else _product(h, rows.T)
        return h

    @cached_property
    def spectra(self) -> tuple[FloatArray, ...]:
        """For each mode the variances of its waves when it is level, free or a walk, each with mean 1 over the cells.

        One coordinate can be level only, and of two a walk is nothing else than free.
        """
        return tuple(_spectrum(n) for n in self.shape)

    @cached_property
    def terms(self) -> BoolArray:
        """True for terms that have a variance: all but the constant one, or those of few modes if that is too many."""
        kinds = [len(rows) for rows in self.spectra]
        modes = np.zeros(kinds, dtype=np.int64)
        for kind in np.indices(kinds, sparse=True):
            modes += kind > 0
        chosen: list[BoolArray] = [(modes > 0) & (modes <= most) for most in range(1, len(kinds) + 1)]
        return max((terms for terms in chosen[1:] if terms.sum() <= 250), key=np.sum, default=chosen[0])

    def variances(self, tau: FloatArray) -> FloatArray:
        """Sum over terms: the variance of each coefficient."""
        return reduce(_product, self.spectra, tau)

    def by_term(self, t: FloatArray) -> FloatArray:
        """Sum over coefficients: the adjoint of `variances`."""
        return reduce(_product, (rows.T for rows in self.spectra), t)

    def name(self, term: tuple[int, ...], labels: Labels) -> str:
        """Name a term by the modes that are not level, with ~ for a walk: ``"1 x 2~"`` for (0, 1, 2)."""
        names = labels.names or range(len(term))
        return " x ".join(f"{name}{'~' * (kind - 1)}" for name, kind in zip(names, term, strict=True) if kind)


def _product(a: FloatArray, matrix: FloatArray) -> FloatArray:
    """Multiply the first mode by a matrix and make it the last one: after all modes, each is in its place again."""
    product: FloatArray = a.reshape(len(a), -1).T @ matrix
    return product.reshape(*a.shape[1:], matrix.shape[1])


def _transform(a: FloatArray, by: Callable[..., FloatArray]) -> FloatArray:
    return np.moveaxis(by(a, norm="ortho", axis=0), 0, -1)


def _spectrum(n: int) -> FloatArray:
    wave = np.arange(1, n)
    steps = 2.0 - 2.0 * np.cos(np.pi * wave / n)  # the squared steps of a wave from neighbour to neighbour
    rows = np.zeros((min(n, 3), n))
    rows[0, 0] = 1.0
    rows[1:2, 1:] = 1.0
    rows[2:, 1:] = 1.0 / steps
    normal: FloatArray = n * rows / rows.sum(axis=1, keepdims=True)
    return normal


@dataclass(frozen=True, eq=False)
class PenalisedProblem:
    """The data of one fit."""

    waves: Waves
    p: FloatArray  # X on the observed cells, scaled to sum to 1; 0 elsewhere
    measure: FloatArray  # the base measure on the observed cells, 0 elsewhere

    @cached_property
    def n_cells(self) -> int:
        """The number of observed cells; P weighs as much as one count in each of them."""
        return int(np.count_nonzero(self.measure))

    def divergence(self, q: FloatArray) -> float:
        """Compute KL(P, Q)."""
        seen = self.p > 0
        return max(float((self.p[seen] * np.log(self.p[seen] / q[seen])).sum()), 0.0)

    def at(self, b: FloatArray, spread: FloatArray) -> PenalisedPoint:
        """Evaluate ``n KL(P, Q) + |b|^2 / 2`` (up to a constant) where log q has the coefficients spread * b."""
        h = self.waves.to_cells(spread * b)
        seen = self.measure > 0
        top = float(h[seen].max())
        mass = self.measure * np.exp(np.where(seen, h - top, 0.0))
        psi = float(np.log(mass.sum())) + top
        value = self.n_cells * (psi - float(np.vdot(self.p, h))) + 0.5 * float(np.vdot(b, b))
        return PenalisedPoint(self, spread, b, h, mass / mass.sum(), psi, value)


@dataclass(frozen=True, eq=False)
class PenalisedPoint:
    """The objective and what its derivatives need, at one b: log q = sum of spread * b * wave - psi."""

    problem: PenalisedProblem
    spread: FloatArray  # standard deviations of the coefficients of the waves
    b: FloatArray
    h: FloatArray  # log q + psi at every cell
    q: FloatArray  # Q on the observed cells
    psi: float
    value: float  # the objective

    @cached_property
    def excess(self) -> FloatArray:
        """The gradient of the first part in the coefficients of the waves: n (eta - eta_hat) in their coordinates."""
        return self.problem.n_cells * self.problem.waves.to_waves(self.q - self.problem.p)

    @cached_property
    def gradient(self) -> FloatArray:
        """The gradient in b."""
        return self.b + self.spread * self.excess

    @property
    def residual(self) -> float:
        """The largest entry of the gradient, for a total of 1."""
        return float(np.abs(self.gradient).max()) / self.problem.n_cells

    @property
    def gap(self) -> float:
        """Bound the objective over n above its minimum: with the penalty ``|b|^2 / 2`` its curvature is at least 1."""
        return 0.5 * float(np.vdot(self.gradient, self.gradient)) / self.problem.n_cells

    def fisher(self, u: FloatArray) -> FloatArray:
        """Multiply a function on the cells by the covariance of Q, n times."""
        weighted = self.q * u
        product: FloatArray = self.problem.n_cells * (weighted - self.q * weighted.sum())
        return product

    def curvature(self, y: FloatArray) -> FloatArray:
        """Multiply by the Hessian in b."""
        waves = self.problem.waves
        return y + self.spread * waves.to_waves(self.fisher(waves.to_cells(self.spread * y)))

    def solve(self, right: FloatArray, accuracy: float) -> FloatArray:
        """Solve with the Hessian by conjugate gradients until a share `accuracy` of the right-hand side is left.

        The preconditioner is the Hessian's diagonal where cells are evenly spread.
        """
        scale = 1.0 / (1.0 + self.spread**2 * (self.problem.n_cells / self.q.size))
        # a direction that is not exact costs another Newton step, no more
        return conjugate_gradients(self.curvature, right, scale.__mul__, share=accuracy, max_products=200)[0]

    def step(self, iteration: int, length: float) -> Step:
        """Note a step; the objective and the gradient are those for a total of 1."""
        n = self.problem.n_cells
        return Step(iteration, self.value / n, self.residual, float(np.linalg.norm(self.gradient)) / n, length)


def minimise(
    problem: PenalisedProblem, spread: FloatArray, b: FloatArray, tol: float, max_iter: int = 100
) -> tuple[PenalisedPoint, tuple[Step, ...]]:
    """Take Newton steps from b until the residual is at most tol; return the place and the steps.

    A loop of its own: the unknowns are coefficients of waves and the objective has a penalty, so that there is neither
    an engine nor a `Target` that `solvers.loop` could be given.
    """
    point = problem.at(b, spread)
    history = [point.step(0, 0.0)]
    for iteration in range(1, max_iter + 1):
        if point.residual <= tol:
            break
        # the fewer digits the gradient has left to lose, the more exact the direction
        accuracy = min(0.1, float(np.sqrt(np.linalg.norm(point.gradient) / problem.n_cells)))
        direction, start = point.solve(-point.gradient, accuracy), point

        def phi(
            step: float, direction: FloatArray = direction, start: PenalisedPoint = start
        ) -> tuple[float, float, PenalisedPoint]:
            trial = problem.at(start.b + step * direction, spread)
            return trial.value - start.value, float(np.vdot(trial.gradient, direction)), trial

        slope = float(np.vdot(point.gradient, direction))
        # the objective is a sum of many terms; smaller changes are lost in rounding
        found = backtrack(phi, slope, noise=1e-11 * abs(point.value))
        if found is None:
            break
        length, point = found
        history.append(point.step(iteration, length))
    return point, tuple(history)
