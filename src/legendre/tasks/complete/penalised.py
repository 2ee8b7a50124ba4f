"""Completion without a basis: all interactions at once, held back by a penalty that is learned.

The unknowns are the coefficients a of log q in some waves, another frame of theta's space:

    minimise  w sum over observed cells of (m - x log m)  +  sum of a_c^2 / (2 v_c),  log(m / base) = sum of a_c wave_c.

For given waves, variances v and weight w this is convex, with one answer whatever is missing (`minimise`). Read as a
model, a is normal with variances v and x has the variance m / w. EM (`advance`) starts from random walks and learns w,
the variances of the terms and the waves: the eigenvectors of the covariance of each mode's levels, as the fit and draws
from its posterior have it ("flip-flop", Dutilleul 1999). Cells that are held out decide after how many rounds to stop.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct, idct
from scipy.special import ndtri

from legendre.basis.parse import as_basis
from legendre.core.cells import freeze
from legendre.core.errors import ConvergenceWarning
from legendre.core.labels import Labels
from legendre.core.origin import Origin
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.zeta import moebius, zeta_adjoint
from legendre.core.text import NamedValues, Table
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense, observe
from legendre.data.read import TensorLike
from legendre.fitting.fit import Settings, fit_recipe
from legendre.results.base import Certificate, Result
from legendre.results.effects import Effect
from legendre.results.views import deviance_terms
from legendre.solvers.conjugate import Linear, conjugate_gradients
from legendre.solvers.linesearch import backtrack
from legendre.solvers.loop import Status, Step
from legendre.tasks.complete.crossval import Dealer

if TYPE_CHECKING:
    from legendre.results.report import ReportContent

LONGEST_LEARNED = 500
"""Levels up to which a mode's waves are learned; a longer mode keeps cosine waves, for which there is a transform."""


@dataclass(frozen=True, eq=False, repr=False)
class PenalisedFit(Result):
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
        By term, the variance of log Q: the modes that it involves, with ``~`` where levels of a mode are alike.
    dispersion
        The variance of an observed cell over its mean.
    rounds
        How many times the likeness of levels was learned.
    criterion, error
        The criterion on held-out cells and its value: the Poisson deviance per cell, or the root mean square error.
        The number of rounds was chosen by these cells, nothing else.
    n_held_out, n_folds, held_out
        How many cells were held out, in how many folds, and in which shapes.
    log_sd
        The standard deviation of log Q at every cell, as the model has it.
    gaps, quantiles
        The number of each missing cell's shape of gap; for each shape, quantiles of the errors of held-out cells, at
        equal distances from 0 to 1, in the model's standard deviations. `interval` uses them.
    residual, tol
        How exact the fit is: the largest entry of the gradient, penalty included, over w n for n observed cells; and
        the tolerance.
    gap
        Upper bound of the excess of ``KL(P, Q) + penalty / (w n)`` over its minimum.
    """

    means: FloatArray
    theta: FloatArray
    eta: FloatArray
    kl: float
    variances: dict[str, float]
    dispersion: float
    rounds: int
    criterion: str
    error: float
    n_held_out: int
    n_folds: int
    held_out: str
    log_sd: FloatArray
    gaps: IntArray
    quantiles: FloatArray
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
    def rank(self) -> int:
        """The number of parameters: the penalty determines each of them."""
        return len(self.theta)

    def tensor(self) -> Any:
        """Return the model's value at every cell, in X's units and form."""
        return self.origin.give(self.means)

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Bound the entry of each missing cell; for other cells the bounds mean nothing."""
        places, tails = np.linspace(0.0, 1.0, self.quantiles.shape[1]), (0.5 - level / 2, 0.5 + level / 2)
        steps = np.array([np.interp(tails, places, row) for row in self.quantiles])[self.gaps]
        # on the scale of square roots errors have the same variance for small means and large, and 0 is no exception
        sd = 0.5 * np.sqrt(self.dispersion + self.means * self.log_sd**2)
        ends = np.maximum(np.sqrt(self.means) + np.moveaxis(steps, -1, 0) * sd, 0.0) ** 2
        return ends[0], ends[1]

    def _small_effects(self) -> list[Effect]:
        """List effects of modes and of pairs of modes on log Q at all cells, as of a model of all interactions."""
        full = fit_recipe(observe(self.means, "all"), as_basis("full"), Settings())
        return replace(full, origin=self.origin)._small_effects()

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the page shows; parameters, one for each cell, are not listed."""
        from legendre.results.report import ReportContent, refuse_data, shape_line

        refuse_data(data)
        call = "import legendre as ld\n\ndone = ld.complete(X)\ndone.report('report.html')"
        return ReportContent(self, "Penalised fit", shape_line(self.labels), call, self.labels)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved of the model."""
        off = f"The largest entry of the gradient is {self.residual:.1e}; {self.tol:g} was asked for."
        why = "For the variances and the waves that were learned the problem is convex."
        if not self.converged:
            return Certificate(False, "This is not yet the minimum.", (off, self.status.value))
        return Certificate(True, "This is the minimum of divergence and penalty together.", (off, why))

    def tables(self) -> list[Table]:
        """List how well held-out cells were predicted, and the terms with the largest variances."""
        largest = sorted(self.variances, key=lambda name: -self.variances[name])[:8]
        rows = [
            ("basis", f"all interactions, with a penalty; {self.rank} parameters"),
            ("held out", f"{self.n_held_out} cells in {self.n_folds} folds: {self.criterion} {self.error:.5g}"),
            ("held out as", self.held_out),
            ("likeness", f"learned in {self.rounds} rounds"),
            ("dispersion", f"variance of an entry {self.dispersion:.3g} times its mean"),
            ("fit", f"residual {self.residual:.1e} after {self.n_iter} steps"),
            *((f"term {name}", f"standard deviation of log Q {np.sqrt(self.variances[name]):.3g}") for name in largest),
        ]
        return [NamedValues("Penalised fit", [*rows, *(("note", note) for note in self.origin.notes)])]

    def __repr__(self) -> str:
        return f"<PenalisedFit: {self.rank} parameters, held-out {self.criterion} {self.error:.5g}>"


def fit_penalised(
    data: Dense, seen: BoolArray, dealer: Dealer, criterion: str, settings: Settings, say: Say
) -> PenalisedFit:
    """Learn what the penalty is and after how many rounds to stop, then fit; warn if that did not converge."""
    measure = np.ones(data.shape) if data.base is None else data.base
    omega = seen & (measure > 0)
    values = np.where(omega, np.asarray(data.values, dtype=np.float64), 0.0)
    folds = dealer(values, omega)
    order, back = folds.order, np.argsort(folds.order)
    unit = data.total / int(omega.sum())
    inside, x, base = omega.transpose(order), values.transpose(order) / unit, measure.transpose(order)
    base = base / base[inside].mean()
    max_iter = 100 if settings.max_iter is None else settings.max_iter
    with limit_blas(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        used = folds.held[: max(1, 100_000 // x.size)]  # of a large tensor some suffice
        held_out = HeldOut(x, base, used, folds.shapes, criterion == "rmse")
        plan, points = held_out.choose_rounds(inside, say)
        means, counts = held_out.errors(points)
        error = float(counts @ means) / max(int(counts.sum()), 1)
        quantiles = held_out.quantiles(points)
        point = begin(x, np.where(inside, base, 0.0))
        for number, likeness in enumerate(plan):
            say(f"all observed cells, round {number + 1} of {len(plan)}", 0.7 + 0.3 * number / len(plan))
            point = advance(point, likeness)
        problem = point.problem
        point, history = minimise(problem, point.b, settings.tol, max_iter=max_iter)
        log_sd = sd_of_logs(point)
        means = unit * base * np.exp(point.h)
    converged = point.residual <= settings.tol
    if not converged:
        text = f"complete: the gradient is {point.residual:.2e} after {len(history) - 1} steps, tol = {settings.tol:g}."
        warnings.warn(f"{text} Raise max_iter or tol.", ConvergenceWarning, stacklevel=3)
    q, h = (point.m / point.m.sum()).transpose(back), point.h.transpose(back)
    return PenalisedFit(
        means=freeze(means.transpose(back)),
        theta=freeze(moebius(h).ravel()[1:]),
        eta=freeze(zeta_adjoint(q).ravel()[1:]),
        kl=float(deviance_terms(values / data.total, q).sum()) / 2.0,
        variances={
            problem.waves.name(term, data.labels): float(problem.tau[tuple(term[k] for k in order)])
            for term in zip(*np.nonzero(problem.waves.terms.transpose(back)), strict=True)
        },
        dispersion=unit / problem.weight,
        rounds=sum(plan),
        criterion=criterion,
        error=unit * (math.sqrt(error) if criterion == "rmse" else error),
        n_held_out=int(counts.sum()),
        n_folds=len(used),
        held_out=folds.name(data.labels),
        log_sd=freeze(log_sd.transpose(back)),
        gaps=freeze(folds.gaps.transpose(back)),
        quantiles=freeze(quantiles),
        residual=point.residual,
        gap=point.gap,
        status=Status.CONVERGED if converged else Status.OUT_OF_STEPS,
        history=history,
        tol=settings.tol,
        origin=data.origin,
    )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Cells that are held out, and what fits to the others are measured by."""

    x: FloatArray
    base: FloatArray
    folds: IntArray  # for each fold and cell the number of the shape as part of which it is held out, or -1
    shapes: list[tuple[int, ...]]
    squares: bool  # whether errors are squared differences, or terms of the deviance

    def choose_rounds(
        self, seen: BoolArray, say: Say, most: int = 20, patience: int = 4, least: float = 0.002
    ) -> tuple[list[bool], list[PenalisedPoint]]:
        """Decide by the held-out cells which rounds of EM to take; return them, and the fits to the folds after them.

        A round is True if it also learns which levels are alike. Two sequences are tried, each from the beginning:
        rounds that learn variances only, and rounds that learn likeness too. A sequence ends when the loss has not
        fallen by `least` in the last `patience` rounds. The rounds up to the least loss of both sequences are taken.
        """
        left = seen & (self.folds < 0)
        begun = [begin(np.where(part, self.x, 0.0), np.where(part, self.base, 0.0)) for part in left]
        plan, chosen, best = list[bool](), begun, self.loss(begun)
        for likeness in (False, True) if begun else ():
            points, losses = begun, list[float]()
            for number in range(most):
                text = f"{'likeness' if likeness else 'walks'} learned, round {number + 1} of at most {most}"
                say(text, 0.35 * (likeness + number / most))
                points = [advance(point, likeness) for point in points]
                losses.append(self.loss(points))
                if losses[-1] < best:
                    plan, chosen, best = [likeness] * (number + 1), points, losses[-1]
                if min(losses[-patience:]) > min(losses[:-patience], default=np.inf) - least:
                    break
        return plan, chosen

    def errors(self, points: list[PenalisedPoint]) -> tuple[FloatArray, IntArray]:
        """Compute the mean error of held-out cells and their number, for each shape of what is held out."""
        held = self.folds >= 0
        x, base = (np.broadcast_to(part, held.shape)[held] for part in (self.x, self.base))
        m = base * np.exp(np.minimum(self._logs(points)[held], 60.0))  # so that squares are finite
        errors = (m - x) ** 2 if self.squares else deviance_terms(x, m)
        sums = np.bincount(self.folds[held], errors, len(self.shapes))
        counts = np.bincount(self.folds[held], minlength=len(self.shapes))
        return np.maximum(sums, 1e-300) / np.maximum(counts, 1), counts

    def _logs(self, points: list[PenalisedPoint]) -> FloatArray:
        """Stack log(m / base) of the fits to the folds, with a first axis for the folds."""
        return np.reshape([point.h for point in points], self.folds.shape)

    def loss(self, points: list[PenalisedPoint]) -> float:
        """Compute the mean, over held-out cells, of the log of the mean error of their shape.

        Without the logarithm, the shape that is hardest to fill in would decide alone.
        """
        means, counts = self.errors(points)
        return float(counts @ np.log(means)) / max(int(counts.sum()), 1)

    def quantiles(self, points: list[PenalisedPoint], n_places: int = 201, fewest: int = 10) -> FloatArray:
        """Compute quantiles of the errors of square roots, in standard deviations, for each shape.

        A fibre is one case: where there are few, the next one may well lie outside of all, so quantiles are those of
        Weibull's places. A shape with fewer cases than `fewest` has the quantiles of all held-out cells.
        """
        if not points:  # those of a normal distribution
            return np.tile(ndtri(np.linspace(0.0025, 0.9975, n_places)), (len(self.shapes), 1))
        m, rows = self.base * np.exp(self._logs(points)), []
        weight = np.reshape([point.problem.weight for point in points], (-1, *[1] * self.x.ndim))
        noise = 1.0 / weight + m * np.square([sd_of_logs(point) for point in points])
        errors = 2.0 * (np.sqrt(self.x) - np.sqrt(m)) / np.sqrt(noise)
        for number, along in enumerate(self.shapes):
            own = self.folds == number
            cases = int(own.any(axis=tuple(k + 1 for k in along)).sum())
            if cases < fewest:
                own = self.folds >= 0
                cases = int(own.sum())
            places = (np.linspace(0.0, 1.0, n_places) * (cases + 1) - 0.5) / cases
            rows.append(np.quantile(errors[own], np.clip(places, 0.0, 1.0)))
        return np.array(rows)


def begin(x: FloatArray, measure: FloatArray, typical: float = 0.05, weight: float = 10.0) -> PenalisedPoint:
    """Make the first fit, from which EM starts: levels follow random walks, and each term has the same variance."""
    waves = Waves.cosine(x.shape)
    problem = PenalisedProblem(waves, np.where(waves.terms, typical, 0.0), weight, x, measure)
    return _fit_roughly(problem, np.full(x.shape, math.log(float(x.sum()) / float(measure.sum()))), 20)


def advance(point: PenalisedPoint, likeness: bool) -> PenalisedPoint:
    """Take a round of EM: learn the penalty, with or without the likeness of levels, from a fit and fit again."""
    rng, size = np.random.default_rng(0), point.b.size
    draws = [point.draw(rng) for _ in range(min(max(50_000 // size, 1), 8))]
    return _fit_roughly(learn(point, draws, likeness), point.h, 10)


def _fit_roughly(problem: PenalisedProblem, h: FloatArray, max_iter: int) -> PenalisedPoint:
    """Fit from log(m / base) = h, as exactly as another fit that follows needs it."""
    return minimise(problem, problem.start(h), rough=0.02, accuracy=0.05, max_iter=max_iter)[0]


def learn(
    point: PenalisedPoint, draws: Sequence[FloatArray], likeness: bool, most_weight: float = 1e6
) -> PenalisedProblem:
    """Take the M step of EM: estimate the variances of terms, the covariances of levels and the weight of the data.

    `draws` are draws of the deviation of b from the posterior; with b they give its posterior moments. Covariances of
    levels, and so the waves, are learned only if `likeness` is true.
    """
    problem, b = point.problem, point.b
    waves, weight, spread, constant = problem.waves, problem.weight, problem.spread, (0,) * b.ndim
    v = spread**2
    # quasi-likelihood: the variance of all that is normal, relative to what the weight says
    counts = weight * point.m
    share = counts / (1.0 + counts)  # a cell whose mean is next to 0 does not tell how noisy the data are
    pearson = float(((weight * (problem.x - point.m)) ** 2 / (1.0 + counts)).sum())
    scale = max((pearson + float(np.vdot(b, b))) / float(share.sum()), weight / most_weight)
    second = sum(y * y for y in draws) / len(draws)
    found, expected = b**2 / scale / v, (1.0 - second) / v
    found[constant] = expected[constant] = 0.0
    # MacKay's rule, lengthened: it takes small steps only
    ratio = np.clip(waves.by_term(found) / np.maximum(waves.by_term(expected), 1e-300), 0.2, 5.0) ** 1.5
    tau = np.where(waves.terms, np.clip(problem.tau * ratio * scale, 1e-9, 1e4), 0.0)
    if likeness:
        v[constant] = np.inf
        parts = [spread * b / math.sqrt(scale), *(spread * y / math.sqrt(len(draws)) for y in draws)]
        covariances = [_covariance(k, rows, parts, v) for k, rows in enumerate(waves.matrices)]
        waves = waves.learned(covariances, np.exp(point.h - point.h.max()))
    return replace(problem, waves=waves, tau=tau, weight=weight / scale)


def _covariance(k: int, rows: FloatArray | None, parts: Sequence[FloatArray], v: FloatArray) -> FloatArray | None:
    """Estimate the covariance of the levels of mode k, n x n, from coefficients weighted by their inverse variances.

    ``None`` for a mode whose waves are not learned: it is too long, or its levels are too few to differ in likeness.
    """
    if rows is None or not 2 < len(rows) <= LONGEST_LEARNED:
        return None
    free = len(rows) - 1
    weight = 1.0 / np.moveaxis(v, k, 0)[1:].reshape(free, -1).mean(axis=0)
    total = np.zeros((free, free))
    for part in parts:
        flat = np.moveaxis(part, k, 0)[1:].reshape(free, -1)
        total += (flat * weight) @ flat.T
    covariance: FloatArray = rows[1:].T @ total @ rows[1:]
    return covariance


def sd_of_logs(point: PenalisedPoint, draws: int = 12) -> FloatArray:
    """Estimate the standard deviation of log q at every cell by draws from the posterior."""
    rng, problem = np.random.default_rng(1), point.problem
    squares = sum(problem.waves.to_cells(problem.spread * point.draw(rng)) ** 2 for _ in range(draws))
    return np.sqrt(squares / draws)


@dataclass(frozen=True, eq=False)
class PenalisedProblem:
    """The data of one fit, and what it is held back by: waves, the variances of terms, and the weight of the data."""

    waves: Waves
    tau: FloatArray
    weight: float
    x: FloatArray  # X in units of its mean, 0 where nothing was observed
    measure: FloatArray  # the base measure on the observed cells, 0 elsewhere

    @cached_property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return int(np.count_nonzero(self.measure))

    @cached_property
    def spread(self) -> FloatArray:
        """The standard deviations of the coefficients."""
        return np.sqrt(self.waves.variances(self.tau))

    def start(self, h: FloatArray) -> FloatArray:
        """Compute the b that has this log q."""
        return np.asarray(self.waves.coefficients(h) / self.spread)

    def at(self, b: FloatArray) -> PenalisedPoint:
        """Evaluate the objective where log q has the coefficients spread * b."""
        h = self.waves.to_cells(self.spread * b)
        m = np.where(self.measure > 0, self.measure * np.exp(h), 0.0)
        value = self.weight * (float(m.sum()) - float(np.vdot(self.x, h))) + 0.5 * float(np.vdot(b, b))
        return PenalisedPoint(self, b, h, m, value)


@dataclass(frozen=True, eq=False)
class PenalisedPoint:
    """The objective and what its derivatives need, at one b."""

    problem: PenalisedProblem
    b: FloatArray
    h: FloatArray  # log(m / base) at every cell
    m: FloatArray  # the means of the observed cells, 0 elsewhere
    value: float  # the objective

    @cached_property
    def gradient(self) -> FloatArray:
        """The gradient in b."""
        excess = self.problem.waves.to_waves(self.problem.weight * (self.m - self.problem.x))
        return self.b + self.problem.spread * excess

    @property
    def _total(self) -> float:
        """The weight of all data, w n: what is reported is for a total of 1."""
        return self.problem.weight * self.problem.n_cells

    @property
    def residual(self) -> float:
        """The largest entry of the gradient over w n."""
        return float(np.abs(self.gradient).max()) / self._total

    @property
    def gap(self) -> float:
        """Bound the objective over w n above its minimum: because of the penalty its curvature is at least 1."""
        return 0.5 * float(np.vdot(self.gradient, self.gradient)) / self._total

    @cached_property
    def _hessian(self) -> tuple[Linear, Linear]:
        """Products with the Hessian, and with the inverse of its diagonal, in single precision."""
        counts = self.problem.weight * self.m
        inverse = 1.0 / (1.0 + self.problem.spread**2 * self.problem.waves.squares(counts))
        single: list[AnyArray] = [part.astype(np.float32) for part in (self.problem.spread, counts, inverse)]
        waves, (spread, weights, scale) = self.problem.waves.single, single

        def apply(y: AnyArray) -> AnyArray:
            return y + spread * waves.to_waves(weights * waves.to_cells(spread * y))

        return apply, scale.__mul__

    def solve(self, right: FloatArray, accuracy: float) -> FloatArray:
        """Solve with the Hessian by conjugate gradients until a share `accuracy` of the right-hand side is left.

        In single precision: a direction that is not exact costs another Newton step, no more.
        """
        apply, precondition = self._hessian
        size = float(np.abs(right).max()) or 1.0  # squares of small numbers would vanish
        scaled: AnyArray = (right / size).astype(np.float32)
        answer = conjugate_gradients(apply, scaled, precondition, share=accuracy, max_products=400)[0]
        return answer.astype(np.float64) * size

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw the deviation of b from the posterior (Laplace's approximation)."""
        ours, theirs = rng.standard_normal(self.b.shape), rng.standard_normal(self.b.shape)
        noise = self.problem.waves.to_waves(np.sqrt(self.problem.weight * self.m) * theirs)
        return self.solve(ours + self.problem.spread * noise, 0.1)

    def move(self, direction: FloatArray, step: float) -> tuple[float, float, PenalisedPoint]:
        """Evaluate the objective a step away, for the line search: its rise, its slope there, and the new point."""
        trial = self.problem.at(self.b + step * direction)
        return trial.value - self.value, float(np.vdot(trial.gradient, direction)), trial

    def record(self, iteration: int, length: float) -> Step:
        """Record the step that led here; the objective and the gradient are those over w n."""
        norm = float(np.linalg.norm(self.gradient))
        return Step(iteration, self.value / self._total, self.residual, norm / self._total, length)


def minimise(
    problem: PenalisedProblem,
    b: FloatArray,
    tol: float = 0.0,
    *,
    rough: float = 0.0,
    accuracy: float = 0.01,
    max_iter: int = 100,
) -> tuple[PenalisedPoint, tuple[Step, ...]]:
    """Take Newton steps from b until the residual is at most tol; return the place and the steps.

    Or until a step is small: `rough` is its length, on average over the observed cells, in standard deviations of the
    posterior. A loop of its own: the unknowns are coefficients of waves and the objective has a penalty, so that there
    is neither an engine nor a `Target` that `solvers.loop` could be given.
    """
    point = problem.at(b)
    history = [point.record(0, 0.0)]
    for iteration in range(1, max_iter + 1):
        if point.residual <= tol:
            break
        direction = point.solve(-point.gradient, accuracy)
        slope = float(np.vdot(point.gradient, direction))
        # the objective is a sum of many terms; smaller changes are lost in rounding
        found = backtrack(partial(point.move, direction), slope, noise=1e-11 * abs(point.value))
        if found is None:
            break
        length, point = found
        history.append(point.record(iteration, length))
        if -slope <= rough**2 * problem.n_cells:
            break
    return point, tuple(history)


# --- the waves of each mode, and the variances of their products ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Waves:
    """The waves of each mode, the constant first, and three spectra: variances of the waves' coefficients.

    A mode is level (the same for all its levels), free (levels have nothing to do with one another) or alike (levels
    are as alike as neighbours in a random walk, or as was learned). A term says which for each mode, and has a
    variance: that of log q, cell by cell. The variance of a coefficient is a sum over terms of products over modes.

    Parameters
    ----------
    matrices
        The waves, one per row; ``None`` for cosine waves of a long mode.
    spectra
        The variances of the waves' coefficients where the mode is level, free or alike, each with mean 1.
    weights
        The weights of the levels, with mean 1, for which the waves are orthonormal.
    """

    matrices: tuple[FloatArray | None, ...]
    spectra: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]

    @classmethod
    def cosine(cls, shape: tuple[int, ...]) -> Waves:
        """Make cosine waves, the waves of random walks."""
        steps = [2.0 - 2.0 * np.cos(np.pi * np.arange(1, n) / n) for n in shape]
        short = [dct(np.eye(n), norm="ortho", axis=0) if n <= LONGEST_LEARNED else None for n in shape]
        return cls(tuple(short), tuple(_spectra(1.0 / step) for step in steps), tuple(map(np.ones, shape)))

    def learned(self, covariances: Sequence[FloatArray | None], means: FloatArray) -> Waves:
        """Replace the waves of each mode by eigenvectors of the covariance of its levels; ``None``: leave its waves.

        They become orthonormal where a level weighs as much as its mean: the Hessian of the fit is then nearly
        diagonal, and the log of a small level varies more than that of a large one.
        """
        parts = list(zip(self.matrices, self.spectra, self.weights, strict=True))
        for k, covariance in enumerate(covariances):
            if covariance is None:
                continue
            level = means.mean(axis=tuple(j for j in range(means.ndim) if j != k))
            weights = np.maximum(level / level.mean(), 0.01)
            weights /= weights.mean()
            n, root = len(weights), np.sqrt(weights)
            half = root[:, None] * (np.eye(n) - weights / n)  # levels without their weighted mean
            product = half @ covariance @ half.T
            # root is in its null space: sent to the end of the spectrum and left out
            values, vectors = np.linalg.eigh(product - 10.0 * np.trace(product) / n * np.outer(root, root))
            values, vectors = values[:0:-1], vectors[:, :0:-1]
            rows = np.vstack([np.full(n, n**-0.5), vectors.T / root])
            parts[k] = rows, _spectra(np.maximum(values, 1e-9 * values[0])), weights
        return Waves(*zip(*parts, strict=True))

    @cached_property
    def single(self) -> Waves:
        """The same in single precision."""
        return replace(self, matrices=tuple(None if m is None else m.astype(np.float32) for m in self.matrices))

    def to_cells(self, a: FloatArray) -> FloatArray:
        """Sum the waves: from coefficients to cells. The adjoint is `to_waves`."""
        for rows in self.matrices:
            a = _transform(a, idct) if rows is None else _multiply(a, rows)
        return a

    def to_waves(self, h: FloatArray) -> FloatArray:
        """Multiply a function on the cells by every wave."""
        for rows in self.matrices:
            h = _transform(h, dct) if rows is None else _multiply(h, rows.T)
        return h

    def squares(self, weights: FloatArray) -> FloatArray:
        """Sum the squares of each wave, with weights for the cells."""
        for rows in self.matrices:
            if rows is None:  # on average each level has the same share of a cosine wave
                weights = np.repeat(weights.mean(axis=0)[..., None], len(weights), axis=-1)
            else:
                weights = _multiply(weights, rows.T**2)
        return weights

    def coefficients(self, h: FloatArray) -> FloatArray:
        """Compute the coefficients of a function on the cells."""
        return self.to_waves(h * reduce(np.multiply.outer, self.weights))

    @cached_property
    def terms(self) -> BoolArray:
        """True for terms that have a variance: all but the constant one, or those of few modes if that is too many."""
        kinds = [len(rows) for rows in self.spectra]
        # how many modes of each term are not level
        modes = np.asarray(sum(kind > 0 for kind in np.indices(kinds, sparse=True)))
        chosen: list[BoolArray] = [(modes > 0) & (modes <= most) for most in range(1, len(kinds) + 1)]
        return max((terms for terms in chosen[1:] if terms.sum() <= 250), key=np.sum, default=chosen[0])

    def variances(self, tau: FloatArray) -> FloatArray:
        """Sum over terms: the variance of each coefficient; that of the constant is so large that it is free."""
        total = reduce(_multiply, self.spectra, tau)
        total[(0,) * total.ndim] += 100.0 * total.size
        return total

    def by_term(self, t: FloatArray) -> FloatArray:
        """Sum over coefficients: the adjoint of `variances`."""
        return reduce(_multiply, (rows.T for rows in self.spectra), t)

    def name(self, term: tuple[int, ...], labels: Labels) -> str:
        """Name a term by the modes that are not level, with ~ for levels that are alike: ``"1 x 2~"`` for (0, 1, 2)."""
        names = labels.names or range(len(term))
        return " x ".join(f"{name}{'~' * (kind - 1)}" for name, kind in zip(names, term, strict=True) if kind)


def _multiply(a: AnyArray, matrix: AnyArray) -> AnyArray:
    """Multiply the first mode by a matrix and make it the last one: after all modes, each is in its place again."""
    product: AnyArray = a.reshape(len(a), -1).T @ matrix
    return product.reshape(*a.shape[1:], matrix.shape[1])


def _transform(a: FloatArray, by: Callable[..., FloatArray]) -> FloatArray:
    """Do for a long mode by a cosine transform what `_multiply` does by a matrix."""
    return np.moveaxis(by(a, norm="ortho", axis=0), 0, -1)


def _spectra(alike: FloatArray) -> FloatArray:
    """List the spectra of a mode. One level can be level only, and of two levels alike is nothing else than free."""
    n = len(alike) + 1
    rows = np.zeros((min(n, 3), n))
    rows[0, 0] = 1.0
    rows[1:2, 1:] = 1.0
    rows[2:, 1:] = alike
    scaled: FloatArray = n * rows / rows.sum(axis=1, keepdims=True)
    return scaled
