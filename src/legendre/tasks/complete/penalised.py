"""Completion without a basis: a model of all interactions, with a quadratic penalty that is learned from the data.

The waves of a mode are an orthonormal basis of the functions of its levels: the constant, then cosines or eigenvectors
that were learned. Products of one wave from each mode span the functions on the cells. The unknowns are the
coefficients a of log q in these products, a linear function of theta:

    minimise  w sum over observed cells of (m - x log m)  +  sum of a_c^2 / (2 v_c),  log m = sum of a_c wave_c.

For given waves, variances v and weight w this is convex, and the minimum is unique whatever is missing (`minimise`).
As a Bayesian model, a has a normal prior with variances v, and x has the variance m / w. EM (`advance`) learns w, the
variances and, in rounds with *likeness*, the waves: the eigenvectors of the covariance of each mode's levels, computed
from the fit and draws from its posterior ("flip-flop", Dutilleul 1999). At first levels follow a random walk, whose
waves are cosines. Held-out cells decide after how many rounds to stop.

Symbols; arrays have one axis for each mode, in the order `Folds.order`:

    x       X in units of its mean observed entry, 0 at missing cells
    m       the model's means, in the same units
    h       log m at every cell
    a, b    the coefficients of h, and the same divided by their prior standard deviations (`spread`)
    v       the prior variances of a, a sum over terms; tau has the variances of the terms, see `Waves`
    w       the weight of the data, ``weight``; w m is called `counts`: a Poisson count has its mean as variance
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct, idct
from scipy.special import ndtri

from legendre.basis.parse import as_basis
from legendre.core.cells import freeze, other_modes
from legendre.core.errors import warn
from legendre.core.labels import Labels
from legendre.core.origin import Origin
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.zeta import moebius, zeta_adjoint
from legendre.core.text import NamedValues, Table
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Modes, Shape, frozen
from legendre.data.dense import Dense, observe
from legendre.data.read import TensorLike
from legendre.fitting.fit import Settings, fit_recipe
from legendre.results.base import Certificate, Result
from legendre.results.effects import Effect
from legendre.results.views import deviance_terms
from legendre.solvers.conjugate import Linear, conjugate_gradients
from legendre.solvers.linesearch import backtrack
from legendre.solvers.loop import Status, Step
from legendre.tasks.complete.crossval import Folds, number_boxes

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.report import ReportContent

LONGEST_LEARNED = 500
"""Levels up to which the waves of a mode are a matrix and learned; a longer mode keeps cosines, by a fast transform."""


@frozen(repr=False)
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
    def shape(self) -> Shape:
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
        """Return lower and upper bounds for the missing cells, two arrays of X's shape; see `Completion.interval`.

        The bounds at observed cells have no meaning.
        """
        places, tails = np.linspace(0.0, 1.0, self.quantiles.shape[1]), (0.5 - level / 2, 0.5 + level / 2)
        # how many standard deviations below and above the mean, by the shape of the gap that a cell is in
        steps = np.array([np.interp(tails, places, row) for row in self.quantiles])[self.gaps]
        # on the scale of square roots errors have about the same variance for small means, 0 included, and for large:
        # the variance of sqrt(X) is that of X over 4 m, and a change of log m by 1 changes sqrt(m) by sqrt(m) / 2
        sd = 0.5 * np.sqrt(self.dispersion + self.means * self.log_sd**2)
        ends = np.maximum(np.sqrt(self.means) + np.moveaxis(steps, -1, 0) * sd, 0.0) ** 2
        return ends[0], ends[1]

    @cached_property
    def on_full_basis(self) -> Decomposition:
        """A fit of the full basis to the model's means: it reproduces them at all cells, and has effects."""
        return replace(fit_recipe(observe(self.means, "all"), as_basis("full"), Settings()), origin=self.origin)

    def _effects_to_draw(self) -> list[Effect]:
        """List effects of modes and of pairs of modes on log Q at all cells."""
        return self.on_full_basis._effects_to_draw()

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the report page shows; it does not list the parameters, which are one for each cell."""
        from legendre.results.report import ReportContent, refuse_data, shape_line, write_call

        refuse_data(data)
        call = write_call("complete", self.shape, self.origin, {})
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
    data: Dense, values: FloatArray, seen: BoolArray, folds: Folds, criterion: str, settings: Settings, say: Say
) -> PenalisedFit:
    """Fit a completion without a basis: learn the penalty in as many rounds as held-out cells say, then fit to tol.

    `values` are X, with 0 at missing cells; `seen` marks the observed cells; and `criterion` ("deviance" or "rmse")
    measures the error of held-out cells. If the last fit does not reach tol, warn.
    """
    # until the result is built, modes and levels are in the order of the folds, and entries in units of their mean: the
    # answer depends neither on the caller's order nor on the unit of X. The arrays are copied in that order: sums are
    # rounded as memory is laid out, and EM may amplify rounding.
    inside, x = folds.sort(seen), folds.sort(values)
    unit = float(x.sum()) / int(inside.sum())
    x /= unit
    max_iter = 100 if settings.max_iter is None else settings.max_iter
    with limit_blas(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        used = folds.held[: max(1, 100_000 // x.size)]  # a large tensor has enough held-out cells in fewer folds
        held_out = HeldOut(x, used, folds.shapes, folds.unordered, criterion == "rmse")
        plan, points = held_out.choose_rounds(inside, say)
        by_shape, counts = held_out.errors(points)
        error = float(counts @ by_shape) / max(int(counts.sum()), 1)
        # the same rounds once more, with all observed cells
        point = begin(x, inside, folds.unordered)
        for number, likeness in enumerate(plan):
            # 0.7: the share of the work that `choose_rounds` reports
            say(f"all observed cells, round {number + 1} of {len(plan)}", 0.7 + 0.3 * number / len(plan))
            point = advance(point, likeness, number)
        problem = point.problem
        point, history = minimise(problem, point.b, settings.tol, max_iter=max_iter)
        quantiles = held_out.quantiles(points, point, folds.gaps)
        means = unit * np.exp(point.h)
    converged = point.residual <= settings.tol
    if not converged:
        text = f"complete: the gradient is {point.residual:.2e} after {len(history) - 1} steps, tol = {settings.tol:g}."
        warn(f"{text} Raise max_iter or tol.")
    q, h = folds.restore(point.m / point.m.sum()), folds.restore(point.h)
    waves, back, variances = problem.waves, np.argsort(folds.order), dict[str, float]()
    # while no levels of a mode are more alike than others, its kinds free and alike are the same
    kinds = [1 + (len(np.unique(waves.spectra[k][-1][1:])) > 1) for k in back]
    for term in zip(*np.nonzero(waves.terms.transpose(back)), strict=True):
        name = waves.name(tuple(map(min, term, kinds)), data.labels)
        variances[name] = variances.get(name, 0.0) + float(problem.tau[tuple(term[k] for k in folds.order)])
    return PenalisedFit(
        means=freeze(folds.restore(means)),
        theta=freeze(moebius(h).ravel()[1:]),  # without the bottom cell, which has no parameter; so too eta
        eta=freeze(zeta_adjoint(q).ravel()[1:]),
        kl=float(deviance_terms(values / data.total, q).sum()) / 2.0,  # KL, because both sum to 1
        variances=variances,
        dispersion=unit / problem.weight,  # x = X / unit has the variance m / w, so X has unit / w times its mean
        rounds=sum(likeness > 0 for likeness in plan),  # those with likeness
        criterion=criterion,
        error=unit * (math.sqrt(error) if criterion == "rmse" else error),
        n_held_out=int(counts.sum()),
        n_folds=len(used),
        held_out=folds.name(data.labels),
        log_sd=freeze(folds.restore(point.log_sd)),
        gaps=freeze(folds.restore(folds.gaps)),
        quantiles=freeze(quantiles),
        residual=point.residual,
        gap=point.gap,
        status=Status.CONVERGED if converged else Status.OUT_OF_STEPS,
        history=history,
        tol=settings.tol,
        origin=data.origin,
    )


@frozen
class HeldOut:
    """The held-out cells of all folds: they measure fits to the other cells. A list of fits has one for each fold."""

    x: FloatArray  # at all observed cells, those that are held out included
    folds: IntArray  # by fold and cell the index of the shape as part of which the cell is held out, or -1
    shapes: list[Shape]  # the sizes of the boxes that are held out, see `Folds`
    unordered: list[int]  # the modes whose levels have no order
    squares: bool  # True: errors are squared differences; False: terms of the Poisson deviance

    def choose_rounds(
        self, seen: BoolArray, say: Say, most: int = 30, patience: int = 4, least: float = 0.002, fewest: int = 20
    ) -> tuple[list[int], list[PenalisedPoint]]:
        """Choose by the held-out cells which rounds of EM to take; return them, and the fits to the folds after them.

        Sequences of at most `most` rounds are tried, each from the beginning: rounds that learn covariances of levels
        by long steps (4, see `advance`), or by those of EM (1), the latter with a round that learns variances only (0)
        after each, and rounds of these alone. The long steps get furthest where much is missing; but covariances and
        variances may both take up the same variation, the faster the longer the steps are. A sequence ends when the
        loss has not fallen by `least` in the last `patience` rounds, or falls too slowly to reach the smallest loss of
        all. The rounds that lead to that one are returned; there are none if the first fits are best. Covariances are
        left alone if fewer than `fewest` cells are held out: so few cells choose by chance.
        """
        left = seen & (self.folds < 0)  # for each fold the cells that are fitted
        begun = [begin(np.where(part, self.x, 0.0), part, self.unordered) for part in left]
        plan, chosen, best = list[int](), begun, self.loss(begun)
        sequences = [4] * most, [1] * most, [1, 0] * (most // 2), [0] * most
        for place, sequence in enumerate(sequences[0 if np.count_nonzero(self.folds >= 0) >= fewest else 3 :]):
            points, losses = begun, list[float]()
            for number, likeness in enumerate(sequence):
                # 0.7: the share of the sequences in the work; the last fit has the rest
                text = f"sequence {place + 1} of 4, round {number + 1} of at most {most}"
                say(text, 0.7 / 4 * (place + number / most))
                points = [advance(point, likeness, number) for point in points]
                losses.append(self.loss(points))
                if losses[-1] < best:
                    plan, chosen, best = sequence[: number + 1], points, losses[-1]
                needed = max(least, (min(losses) - best) * patience / (most - number))
                if min(losses[-patience:]) > min(losses[:-patience], default=np.inf) - needed:
                    break
        return plan, chosen

    def errors(self, points: list[PenalisedPoint]) -> tuple[FloatArray, IntArray]:
        """Return for each shape the mean error of the held-out cells and their number, over all folds."""
        held = self.folds >= 0
        x = np.broadcast_to(self.x, held.shape)[held]
        logs = np.reshape([point.h for point in points], held.shape)[held]
        m = np.exp(np.minimum(logs, 60.0))  # 60: squares must stay finite
        errors = (m - x) ** 2 if self.squares else deviance_terms(x, m)
        sums = np.bincount(self.folds[held], errors, len(self.shapes))
        counts = np.bincount(self.folds[held], minlength=len(self.shapes))
        return np.maximum(sums, 1e-300) / np.maximum(counts, 1), counts  # positive: `loss` takes logarithms

    def loss(self, points: list[PenalisedPoint]) -> float:
        """Return the mean, over all held-out cells, of the log of the mean error of their shape.

        `choose_rounds` minimises it. Without the logarithm the shape that is hardest to predict would dominate.
        """
        means, counts = self.errors(points)
        return float(counts @ np.log(means)) / max(int(counts.sum()), 1)

    def quantiles(
        self, points: list[PenalisedPoint], last: PenalisedPoint, gaps: IntArray, n_places: int = 201, fewest: int = 10
    ) -> FloatArray:
        """Return quantiles of the errors of held-out cells for each shape, shapes x `n_places`, from 0 to 1.

        An error is that of the square root, in standard deviations as `PenalisedFit.interval` has them. The errors of a
        box are correlated, so a box counts as one case. If there are few cases, the next may well lie outside the
        range of all; so the i-th of n cases is taken as the quantile i / (n + 1) (Weibull's plotting position), which
        makes intervals wider. A shape with fewer cases than `fewest` has the quantiles of all held-out cells.

        The `last` fit, to all observed cells, may take itself for far more exact than the fits to the folds do. Errors
        are then scaled from its standard deviations to theirs, at missing cells of the same shape, see `gaps`.
        """
        if not points:  # nothing was held out: quantiles of a normal distribution, half a place inside 0 and 1
            return np.tile(ndtri(np.linspace(0.0025, 0.9975, n_places)), (len(self.shapes), 1))
        rows, errors = [], np.zeros(self.folds.shape)
        for error, point in zip(errors, points, strict=True):
            error[:] = 2.0 * (np.sqrt(self.x) - np.exp(point.h / 2.0)) / np.sqrt(point.noise)
        ratio = sum(point.noise for point in points) / last.noise / len(points)
        for number, shape in enumerate(self.shapes):
            own = self.folds == number
            cases = len(np.unique(number_boxes(self.x.shape, shape)[own.any(axis=0)]))
            if cases < fewest:
                own = self.folds >= 0
                cases = int(own.sum())
            # the i-th of n cases stands in the middle of its share of the cells, at (i - 1/2) / n
            places = (np.linspace(0.0, 1.0, n_places) * (cases + 1) - 0.5) / cases
            scale = np.sqrt(np.average(ratio, weights=(gaps == number) + 1e-300))  # an average also if none is missing
            rows.append(scale * np.quantile(errors[own], np.clip(places, 0.0, 1.0)))
        return np.array(rows)


def begin(
    x: FloatArray, seen: BoolArray, unordered: Sequence[int] = (), typical: float = 0.05, weight: float = 10.0
) -> PenalisedPoint:
    """Make the first fit, from which EM starts: levels follow random walks, and each term has the same variance.

    `typical` is that variance of log q, and `weight` the first weight of the data; both are soon replaced. `seen`
    marks the cells that are fitted; x is 0 at the others. Levels of `unordered` modes are all equally alike.
    """
    waves = Waves.cosine(x.shape, unordered)
    problem = PenalisedProblem(waves, np.where(waves.terms, typical, 0.0), weight, x, seen)
    return _fit_roughly(problem, np.full(x.shape, math.log(float(x.sum()) / int(seen.sum()))), 20)


def advance(point: PenalisedPoint, likeness: float, number: int) -> PenalisedPoint:
    """Take a round of EM: learn the penalty from a fit and draws from its posterior, then fit again.

    If `likeness` is not 0, the covariances of levels are learned too. A step is then at most `likeness` times as long
    as one of EM. The number of the round is the seed: the same X always has the same answer, and no round learns from
    the noise that an earlier one has learned from.
    """
    rng = np.random.default_rng(number)
    # moments are averaged over coefficients: the more there are, the fewer draws are needed
    draws = [point.draw(rng) for _ in range(min(max(50_000 // point.b.size, 2), 8))]
    return _fit_roughly(learn(point, draws, likeness), point.h, 10)


def _fit_roughly(problem: PenalisedProblem, h: FloatArray, max_iter: int) -> PenalisedPoint:
    """Fit, starting from log m = h, to a low accuracy: the next round of EM changes the penalty anyway."""
    b = problem.waves.coefficients(h) / problem.spread
    return minimise(problem, b, rough=0.02, accuracy=0.05, max_iter=max_iter)[0]


def learn(
    point: PenalisedPoint, draws: Sequence[FloatArray], likeness: float, most_weight: float = 1e6
) -> PenalisedProblem:
    """Take the M step of EM: return the problem with new variances of terms, waves and weight of the data.

    `draws` are draws of the deviation of b from its posterior mode: with b they give its second moments. The waves are
    learned, from the covariances of levels, only if `likeness` is not 0, see `advance`.
    """
    problem, b = point.problem, point.b
    waves, weight, spread, constant = problem.waves, problem.weight, problem.spread, (0,) * b.ndim
    v = spread**2
    # If w and v were right, the sum of squared Pearson residuals and the penalty would be about the number of cells.
    # `scale` is their ratio: a common factor of all variances (quasi-likelihood). Cells with a mean near 0 say nothing
    # about noise, so 1 + counts replaces counts, and a cell counts as less than one.
    counts = weight * point.m
    cells = counts / (1.0 + counts)
    pearson = float(((weight * (problem.x - point.m)) ** 2 / (1.0 + counts)).sum())
    scale = max((pearson + float(np.vdot(b, b))) / float(cells.sum()), weight / most_weight)
    posterior = sum(y * y for y in draws) / len(draws)  # variances of b; the prior ones are 1
    # MacKay's fixed point for the marginal likelihood: its derivative by the variance of a term vanishes where the
    # squared coefficients, as found, add up to what is expected of them. The constant has no variance to learn.
    found, expected = b**2 / scale / v, (1.0 - posterior) / v
    found[constant] = expected[constant] = 0.0
    # the rule takes small steps, which the power 1.5 lengthens; the bounds keep one round from going too far
    ratio = np.clip(waves.by_term(found) / np.maximum(waves.by_term(expected), 1e-300), 0.2, 5.0) ** 1.5
    tau = np.where(waves.terms, np.clip(problem.tau * ratio * scale, 1e-9, 1e4), 0.0)
    if likeness:
        # the squares of these add up to the posterior second moments of a
        parts = [spread * b / math.sqrt(scale), *(spread * y / math.sqrt(len(draws)) for y in draws)]
        covariances = [_estimate_covariance(k, rows, parts, v, likeness) for k, rows in enumerate(waves.matrices)]
        waves = waves.learned(covariances, np.exp(point.h - point.h.max()))
    return replace(problem, waves=waves, tau=tau, weight=weight / scale)


def _estimate_covariance(
    k: int, rows: FloatArray | None, parts: Sequence[FloatArray], v: FloatArray, longest: float
) -> FloatArray | None:
    """Estimate the covariance of the n levels of mode k, n x n, up to a factor.

    `rows` are the waves of the mode, and the outer products of `parts` add up to the second moments of a; those of all
    but the first are the posterior covariance. A product of waves of the other modes is one observation of a vector of
    levels, weighted by its inverse variance: the mean of the variances v of its coefficients. ``None`` for a mode whose
    waves are not learned: it is too long, or it has one or two levels, for which the kind alike of `Waves` does not
    exist.
    """
    if rows is None or not 2 < len(rows) <= LONGEST_LEARNED:
        return None
    free = len(rows) - 1  # waves except the constant
    prior = np.moveaxis(v, k, 0)[1:].reshape(free, -1)
    weight = 1.0 / prior.mean(axis=0)
    sd = np.sqrt(prior @ weight)  # in these units the prior has the covariance 1
    found, posterior, one = np.zeros((free, free)), np.zeros((free, free)), np.eye(free)  # in terms of waves
    for number, part in enumerate(parts):
        flat = np.moveaxis(part, k, 0)[1:].reshape(free, -1) / sd[:, None]
        moments = (flat * weight) @ flat.T
        found += moments
        posterior += moments if number else 0.0
    # EM takes small steps in directions that the data leave open. Divided by the share of the prior's variance that
    # they explain, a step is that of MacKay's fixed point; it is at most `longest` times as long.
    values, vectors = np.linalg.eigh(one - posterior)
    root = vectors * np.maximum(values, 1.0 / longest) ** -0.5 @ vectors.T if longest > 1 else one
    half = rows[1:].T * sd  # from these units to levels
    covariance: FloatArray = half @ (one + root @ (found - one) @ root) @ half.T
    return covariance


@frozen
class PenalisedProblem:
    """The data of one fit and its penalty; see the head of this file for the objective."""

    waves: Waves
    tau: FloatArray  # the variances of the terms, see `Waves`
    weight: float  # w: x has the variance m / w
    x: FloatArray  # X in units of its mean, 0 where nothing was observed
    seen: BoolArray  # which cells were observed

    @cached_property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return int(np.count_nonzero(self.seen))

    @cached_property
    def spread(self) -> FloatArray:
        """The prior standard deviations of the coefficients a."""
        return np.sqrt(self.waves.variances(self.tau))

    def at(self, b: FloatArray) -> PenalisedPoint:
        """Evaluate the objective at b, where log m has the coefficients ``spread * b``."""
        h = self.waves.to_cells(self.spread * b)
        m = np.where(self.seen, np.exp(h), 0.0)
        value = self.weight * (float(m.sum()) - float(np.vdot(self.x, h))) + 0.5 * float(np.vdot(b, b))
        return PenalisedPoint(self, b, h, m, value)


@frozen
class PenalisedPoint:
    """The objective at one b, with its gradient and its Hessian ``I + S W' diag(w m) W S``.

    S is the diagonal matrix of `spread`, and W sums the waves (`Waves.to_cells`).
    """

    problem: PenalisedProblem
    b: FloatArray
    h: FloatArray  # log m at every cell
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
        """Two functions in single precision: the product with the Hessian, and with the inverse of its diagonal."""
        counts = self.problem.weight * self.m
        inverse = 1.0 / (1.0 + self.problem.spread**2 * self.problem.waves.squares(counts))
        single: list[AnyArray] = [part.astype(np.float32) for part in (self.problem.spread, counts, inverse)]
        spread, weights, scale = single
        matrices = tuple(None if rows is None else rows.astype(np.float32) for rows in self.problem.waves.matrices)
        waves = replace(self.problem.waves, matrices=matrices)

        def apply(y: AnyArray) -> AnyArray:
            """Multiply y by the Hessian: to cells, times w m, back to waves."""
            return y + spread * waves.to_waves(weights * waves.to_cells(spread * y))

        # not `scale.__mul__`: NumPy may take an array that only a bound method holds for a temporary, and overwrite it
        return apply, lambda z: scale * z

    def solve(self, right: FloatArray, accuracy: float) -> FloatArray:
        """Solve ``Hessian y = right`` by conjugate gradients until a share `accuracy` of the right-hand side is left.

        In single precision, which is faster: an inexact direction costs another Newton step at most.
        """
        apply, precondition = self._hessian
        size = float(np.abs(right).max()) or 1.0  # scaled to 1: the squares of small numbers underflow in float32
        scaled: AnyArray = (right / size).astype(np.float32)
        answer = conjugate_gradients(apply, scaled, precondition, share=accuracy, max_products=400)[0]
        return answer.astype(np.float64) * size

    @cached_property
    def log_sd(self) -> FloatArray:
        """The posterior standard deviation of log q at every cell, estimated by draws; the seed is fixed."""
        rng, problem, draws = np.random.default_rng(100), self.problem, 12
        squares = sum(problem.waves.to_cells(problem.spread * self.draw(rng)) ** 2 for _ in range(draws))
        return np.sqrt(squares / draws)

    @property
    def noise(self) -> FloatArray:
        """4 times the variance of the square root of an entry: that of the data, and that of log q."""
        return 1.0 / self.problem.weight + np.exp(np.minimum(self.h, 60.0)) * self.log_sd**2  # 60: it must stay finite

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw the deviation of b from its posterior mode, by Laplace's approximation: normal, with covariance H^-1.

        The right-hand side has the Hessian H as covariance: the sum of the noise of the prior and that of the data.
        Both are drawn at the cells. Drawn at the waves, they would hang on the signs of eigenvectors, and on rounding.
        """
        problem, prior, data = self.problem, rng.standard_normal(self.b.shape), rng.standard_normal(self.b.shape)
        noise = problem.waves.to_waves(np.sqrt(problem.weight * self.m) * data)
        return self.solve(problem.waves.to_waves(np.sqrt(problem.waves.cells) * prior) + problem.spread * noise, 0.1)

    def move(self, direction: FloatArray, step: float) -> tuple[float, float, PenalisedPoint]:
        """Evaluate ``b + step * direction`` for `backtrack`: the objective's rise, its slope and the new point."""
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
    """Take Newton steps from b until the residual is at most tol; return the last point and a record of each step.

    It ends earlier after a step whose length, in standard deviations of the posterior and as a root mean square over
    the observed cells, is at most `rough`. `accuracy` is that of the Newton directions. This is not `solvers.loop`: the
    unknowns are coefficients of waves and the objective has a penalty, so there is no engine and no `Target`.
    """
    point = problem.at(b)
    history = [point.record(0, 0.0)]
    for iteration in range(1, max_iter + 1):
        if point.residual <= tol:
            break
        direction = point.solve(-point.gradient, accuracy)
        slope = float(np.vdot(point.gradient, direction))
        # noise: the objective is a sum of many terms, and smaller changes of it are lost in rounding
        found = backtrack(partial(point.move, direction), slope, noise=1e-11 * abs(point.value))
        if found is None:
            break
        length, point = found
        history.append(point.record(iteration, length))
        if -slope <= rough**2 * problem.n_cells:  # -slope is the squared length of the full Newton step
            break
    return point, tuple(history)


# --- the waves of each mode, and the variances of their products ------------------------------------------------------


@frozen
class Waves:
    """The waves of each mode, and the prior of their coefficients.

    The prior of log q is a sum of terms. In a term each mode has one of three kinds: 0, constant (the term does not
    depend on this mode), 1, free (levels are independent), or 2, alike (levels are correlated, as in a random walk or
    as was learned). A term has a variance, which is its contribution to that of log q at a cell, on average. Terms are
    the entries of an array with an axis for each mode, of the length of its number of kinds, such as `tau`. The
    variance of a coefficient is a sum over terms: the term's variance times the product over modes of the spectra.

    Parameters
    ----------
    matrices
        For each mode of n levels its waves, n x n, one per row, the constant first; ``None``: cosines of a long mode.
    spectra
        For each mode the variances of its waves' coefficients, kinds x n; each row has mean 1.
    weights
        For each mode the weights of its levels, with mean 1, for which its waves are orthonormal.
    """

    matrices: tuple[AnyArray | None, ...]
    spectra: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]

    @classmethod
    def cosine(cls, shape: Shape, unordered: Sequence[int] = ()) -> Waves:
        """Make cosine waves: the eigenvectors of the precision matrix of a random walk along the levels of a mode.

        In `unordered` modes all waves have the same variance, so that no levels are more alike than others.
        """
        eigenvalues = [
            np.ones(n - 1) if k in unordered else 2.0 - 2.0 * np.cos(np.pi * np.arange(1, n) / n)
            for k, n in enumerate(shape)
        ]
        matrices = [dct(np.eye(n), norm="ortho", axis=0) if n <= LONGEST_LEARNED else None for n in shape]
        return cls(tuple(matrices), tuple(_list_spectra(1.0 / own) for own in eigenvalues), tuple(map(np.ones, shape)))

    def learned(self, covariances: Sequence[FloatArray | None], means: FloatArray) -> Waves:
        """Replace the waves of each mode by eigenvectors of the covariance of its levels; ``None``: keep its waves.

        The new waves are orthonormal if each level is weighted by its share of `means`, the model's means up to a
        factor. The Hessian of the fit is then nearly diagonal, and the log of a small level may vary more than that of
        a large one.
        """
        parts = list(zip(self.matrices, self.spectra, self.weights, strict=True))
        for k, covariance in enumerate(covariances):
            if covariance is None:
                continue
            level = means.mean(axis=other_modes([k], means.ndim))
            weights = np.maximum(level / level.mean(), 0.01)  # a level of mean 0 must keep finite waves
            weights /= weights.mean()
            n, root = len(weights), np.sqrt(weights)
            centred = root[:, None] * (np.eye(n) - weights / n)  # subtracts the weighted mean of the levels
            product = centred @ covariance @ centred.T
            # root, the constant wave, has eigenvalue 0. Subtracting its outer product makes that the smallest one,
            # which comes first; the slices drop it and put the others in decreasing order.
            values, vectors = np.linalg.eigh(product - 10.0 * np.trace(product) / n * np.outer(root, root))
            values, vectors = values[:0:-1], vectors[:, :0:-1]
            rows = np.vstack([np.full(n, n**-0.5), vectors.T / root])
            parts[k] = rows, _list_spectra(np.maximum(values, 1e-9 * values[0])), weights
        return Waves(*zip(*parts, strict=True))

    def to_cells(self, a: FloatArray) -> FloatArray:
        """Return the function on the cells that has the coefficients a. `to_waves` is the transpose of this map."""
        for rows in self.matrices:
            a = _transform(a, idct) if rows is None else _multiply(a, rows)
        return a

    def to_waves(self, h: FloatArray) -> FloatArray:
        """Return the inner product, without weights, of a function on the cells with every product of waves."""
        for rows in self.matrices:
            h = _transform(h, dct) if rows is None else _multiply(h, rows.T)
        return h

    def squares(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sum over cells of each product of waves, squared: the diagonal of ``W' diag(weights) W``.

        Along modes with cosine transforms it is approximate, which is enough for a preconditioner.
        """
        for rows in self.matrices:
            if rows is None:  # the square of a cosine is replaced by its mean over the levels
                weights = np.repeat(weights.mean(axis=0)[..., None], len(weights), axis=-1)
            else:
                weights = _multiply(weights, rows.T**2)
        return weights

    def coefficients(self, h: FloatArray) -> FloatArray:
        """Return the coefficients of a function on the cells: the inverse of `to_cells`."""
        return self.to_waves(h * self.cells)

    @cached_property
    def cells(self) -> FloatArray:
        """The weights of the cells, for which products of waves are orthonormal."""
        return np.asarray(reduce(np.multiply.outer, self.weights))

    @cached_property
    def terms(self) -> BoolArray:
        """Mark the terms that have a variance, an array of the shape of `tau`.

        They are the terms of 1 to n modes, for the largest n that gives at most 250 of them; n is 1 if even pairs are
        too many. A tensor of many modes has too many terms to learn.
        """
        kinds = [len(rows) for rows in self.spectra]
        # in how many modes each term is not constant
        modes = np.asarray(sum(kind > 0 for kind in np.indices(kinds, sparse=True)))
        chosen: list[BoolArray] = [(modes > 0) & (modes <= most) for most in range(1, len(kinds) + 1)]
        return max((terms for terms in chosen[1:] if terms.sum() <= 250), key=np.sum, default=chosen[0])

    def variances(self, tau: FloatArray) -> FloatArray:
        """Return the prior variance of each coefficient: a sum over terms, whose variances are `tau`.

        That of the constant is so large that the penalty does not hold it back.
        """
        total = reduce(_multiply, self.spectra, tau)
        total[(0,) * total.ndim] += 100.0 * total.size
        return total

    def by_term(self, t: FloatArray) -> FloatArray:
        """Sum over coefficients, weighted by the spectra of each term: the transpose of `variances`.

        For t = df/dv, with any function f of the variances v, it returns df/dtau.
        """
        return reduce(_multiply, (rows.T for rows in self.spectra), t)

    def name(self, term: Modes, labels: Labels) -> str:
        """Name a term, the kinds of its modes, by the modes that are not constant: ``"1 x 2~"`` for (0, 1, 2).

        A ``~`` marks modes whose levels are alike.
        """
        names = labels.names or range(len(term))
        return " x ".join(f"{name}{'~' * (kind - 1)}" for name, kind in zip(names, term, strict=True) if kind)


def _multiply(a: AnyArray, matrix: AnyArray) -> AnyArray:
    """Contract the first axis with the rows of a matrix and append the new one: after all modes, all are in order."""
    product: AnyArray = a.reshape(len(a), -1).T @ matrix
    return product.reshape(*a.shape[1:], matrix.shape[1])


def _transform(a: FloatArray, by: Callable[..., FloatArray]) -> FloatArray:
    """Apply a cosine transform, `dct` or `idct`, to the first axis and make it the last, as `_multiply` does."""
    return np.moveaxis(by(a, norm="ortho", axis=0), 0, -1)


def _list_spectra(alike: FloatArray) -> FloatArray:
    """Return the spectra of a mode of n levels, kinds x n, each with mean 1; see `Waves`.

    `alike` has the variances of the n - 1 waves that are not constant where levels are alike. A mode of one level is
    always constant, and with two levels alike would be the same as free: these have one kind and two kinds.
    """
    n = len(alike) + 1
    rows = np.zeros((min(n, 3), n))
    rows[0, 0] = 1.0
    rows[1:2, 1:] = 1.0
    rows[2:, 1:] = alike
    scaled: FloatArray = n * rows / rows.sum(axis=1, keepdims=True)
    return scaled
