"""Smoothing: all interactions at once, each held back by a penalty whose size held-out cells choose.

The error on held-out cells has a gradient in all variances at once, for the price of one more linear system: where the
fit is a = argmin f(a) + a . a / 2v, a small change of v moves it by (f'' + 1/v)^-1 (a / v^2) dv.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidSetting, unknown_name
from legendre.core.progress import Say, line, silent
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.zeta import moebius
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.read import TensorLike
from legendre.data.readers.labelled import Levels, Names
from legendre.fitting.plan import Settings
from legendre.results.on_grid import in_units
from legendre.solvers.status import Status
from legendre.tasks.complete.complete import read_gaps
from legendre.tasks.complete.crossval import CRITERIA, Folding, HoldOut, Rng, cells_left, poisson_deviance
from legendre.tasks.smooth.penalised import STEPS, Observed, PenalisedPoint, Waves, fit
from legendre.tasks.smooth.result import Smoothed

LEAST, MOST = 1e-7, 20.0  # the bounds of a term's variance of log q; at the lower one the term does nothing
TYPICAL, FACTOR = 0.05, 3.0  # a term's variance has a log-normal prior: its median, and one standard deviation
ROUGH = 0.02  # fits are as exact as this share of a coefficient's standard deviation while variances are sought
SOLVED = 1e-3  # the accuracy of the linear systems that give the gradient
FARTHEST = 230.0  # log q of a held-out cell counts as this at most: 100 orders beyond X, whose squares are finite
ITERATIONS = 40
SETTLED = 1e-5  # the search ends when a step lowers the error by less than this share


def smooth(
    X: TensorLike,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    names: Names = None,
    levels: Levels = None,
    folds: int = 5,
    hold_out: HoldOut = "cells",
    criterion: str = "deviance",
    rng: Rng = 0,
    tol: float = 1e-10,
    max_iter: int | None = None,
    progress: bool = False,
) -> Smoothed:
    """Fill in the missing cells of X without choosing a basis.

    The basis is the full one, with a penalty: minimise ``n KL(P, Q) + sum of a_c^2 / (2 v_c)``, where n is the number
    of observed cells and a are the coordinates of log Q in cosine waves, another frame of theta's space. The variances
    v_c are sums over terms. A term is a set of modes; for each of them it says whether levels are unrelated or
    neighbours are alike. The variance of each term is chosen by held-out cells.

    Parameters
    ----------
    X, support, base
        As in `complete`.
    names, levels
        What the modes and their levels are called, see `decompose`.
    folds, hold_out, rng
        How observed cells are assigned to folds, as in `complete`. For a large tensor, only as many folds are held out
        as give some thousands of cells (or fibres).
    criterion
        ``"deviance"`` (Poisson) or ``"rmse"``: the variances minimise it on the held-out cells.
    tol
        The largest entry that the gradient may have, for a total of 1 and coordinates of standard deviation 1.
    max_iter
        The largest number of Newton steps of the last fit; by default 100.
    progress
        Show a line on the terminal from the third second on.

    Returns
    -------
    Smoothed
        Every cell has a value; where the observed cells say nothing, it is that of the surroundings.

    See Also
    --------
    Smoothed : The result of `smooth`.
    complete : Fill missing cells by a model with some basis.

    Examples
    --------
    >>> x = np.linspace(0, 3, 12)
    >>> X = np.exp(np.add.outer(np.sin(x), np.cos(x)))
    >>> hidden = np.random.default_rng(0).random(X.shape) < 0.5
    >>> done = smooth(np.where(hidden, np.nan, X))
    >>> bool((abs(done.tensor() / X - 1) < 0.1).all())
    True
    """
    with limit_blas(), line("reading X", progress) as say:
        if criterion not in CRITERIA:
            raise InvalidSetting(unknown_name("criterion", str(criterion), CRITERIA))
        settings = Settings.read(tol=tol, max_iter=max_iter)
        data, seen = read_gaps(X, support, base, "smooth", names, levels)
        measure = np.ones(data.shape) if data.base is None else data.base
        omega, entries = seen & (measure > 0), np.asarray(data.values, dtype=np.float64)
        values: FloatArray = np.where(omega, entries, 0.0)
        folding = Folding.read(folds, hold_out, rng, data.labels)
        together = math.prod(data.shape[k] for k in folding.along)
        limit = STEPS if settings.max_iter is None else settings.max_iter
        tuned = tune(values, measure, folding.deal(omega), criterion, together, say)
        say("the last fit, to all that was observed")
        observed = Observed(tuned.waves, values / data.total, np.where(omega, measure, 0.0))
        place, steps = fit(observed, tuned.spread, tuned.b, settings.tol, limit)
        h, residual, gap = place.h, place.residual, place.gap
        with np.errstate(divide="ignore"):  # one exponent: a product of units may leave float64
            model = in_units(h - place.psi + np.log(measure), data.total)
        done = Smoothed(
            values=frozen(np.where(seen, entries, model)),
            means=frozen(model),
            observed=frozen(seen),
            theta=frozen(moebius(h).ravel()[1:]),
            variances=tuned.variances,
            criterion=criterion,
            error=tuned.error,
            n_held_out=tuned.n_held_out,
            n_folds=tuned.n_folds,
            residual=residual,
            gap=gap,
            status=Status.CONVERGED if residual <= settings.tol else Status.OUT_OF_STEPS,
            history=steps,
            tol=settings.tol,
            origin=data.origin,
        )
        if not done.converged:
            where = f"smooth: the gradient is {done.residual:.2e} after {done.n_iter} steps, tol = {tol:g}."
            warnings.warn(f"{where} Raise max_iter or tol.", ConvergenceWarning, stacklevel=2)
        return done


@dataclass(frozen=True, eq=False)
class Fold:
    """Some cells held out."""

    observed: Observed  # the cells that are left
    held: BoolArray
    total: float  # the sum of X over the cells that are left
    x: FloatArray  # X at all cells
    base: FloatArray  # the base measure at all cells

    def errors(self, v: FloatArray, b: FloatArray, criterion: str) -> tuple[float, FloatArray, FloatArray]:
        """Fit from b; return the sum of the errors on the held-out cells, its gradient in v, and the new b."""
        place, _ = fit(self.observed, np.sqrt(v), b, ROUGH / self.observed.n_cells)
        x, squares, slope = self.x[self.held], criterion == "rmse", np.zeros_like(self.x)
        log_q = place.h[self.held] - place.psi + np.log(self.base[self.held])
        m = self.total * np.exp(np.minimum(log_q, FARTHEST))
        slope[self.held] = np.where(log_q < FARTHEST, 2.0 * (m - x) * m if squares else 2.0 * (m - x), 0.0)
        error = (m - x) ** 2 if squares else poisson_deviance(x, m)
        return float(error.sum()), _in_variances(place, slope), place.b


def _in_variances(place: PenalisedPoint, slope: FloatArray) -> FloatArray:
    """Carry a gradient in log Q at the cells over to one in the variances of the coefficients."""
    waves = place.observed.waves
    slope = slope - place.q * slope.sum()  # psi moves too
    answer = place.solve(place.spread * waves.to_waves(slope), SOLVED)
    # answer / spread, without dividing by a spread of 0; at the optimum b / spread is -excess
    inner = waves.to_waves(slope - place.fisher(waves.to_cells(place.spread * answer)))
    return -inner * place.excess


@dataclass(frozen=True, eq=False)
class Tuned:
    """The variances that held-out cells chose."""

    waves: Waves
    spread: FloatArray  # standard deviations of the coefficients
    variances: dict[str, float]  # by the names of their terms
    error: float  # on the held-out cells, mean or root mean square
    b: FloatArray  # a start for a fit
    n_held_out: int
    n_folds: int


def tune(
    values: FloatArray, base: FloatArray, turns: IntArray, criterion: str, together: int = 1, say: Say = silent
) -> Tuned:
    """Choose the variances that make the error on held-out cells least.

    X is 0 where it was not observed; `turns` has the fold of each observed cell, -1 elsewhere; `together` is the number
    of cells in a fibre, where fibres are held out.
    """
    from scipy.optimize import minimize

    waves = Waves(values.shape)
    unit = float(values[turns >= 0].mean())
    folds = _folds(waves, values / unit, base, turns, limits.ENOUGH_HELD_OUT * together)
    held_out = sum(int(fold.held.sum()) for fold in folds)
    latest = [np.zeros(values.shape) for _ in folds]
    exact = held_out * np.finfo(np.float64).eps ** 2  # rounding errors are all the same

    def in_place(z: FloatArray) -> FloatArray:
        tau = np.zeros(waves.terms.shape)
        tau[waves.terms] = TYPICAL * FACTOR**z
        return tau

    def badness(z: FloatArray) -> tuple[float, FloatArray]:
        """Of held_out residuals the log-likelihood, with a normal prior for z, each divided by -held_out / 2."""
        tau = in_place(z)
        v = waves.variances(tau)
        answers = [fold.errors(v, b, criterion) for fold, b in zip(folds, latest, strict=True)]
        errors, slopes, latest[:] = zip(*answers, strict=True)
        total, slope = max(sum(errors), exact), waves.by_term(np.sum(slopes, axis=0))
        value = float(np.log(total / held_out) + np.vdot(z, z) / held_out)
        return value, np.log(FACTOR) * (slope * tau)[waves.terms] / total + 2.0 * z / held_out

    def watch(intermediate_result: Any) -> None:  # SciPy knows what to pass by this name
        steps[0] += 1
        say(f"variances: step {steps[0]} of at most {ITERATIONS}   held out: {intermediate_result.fun:.4g}")

    steps = [0]
    say(f"variances of {int(waves.terms.sum())} terms, by {held_out} cells of {len(folds)} folds")
    start = np.zeros(int(waves.terms.sum()))
    bounds = [tuple(np.log([LEAST / TYPICAL, MOST / TYPICAL]) / np.log(FACTOR))] * len(start)
    options: Any = {"maxiter": ITERATIONS, "ftol": SETTLED}
    found = minimize(badness, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=watch)
    error = float(np.exp(found.fun - np.vdot(found.x, found.x) / held_out))
    error = unit * (error if criterion == "deviance" else float(np.sqrt(error)))
    tau, terms = in_place(found.x), map(tuple, np.argwhere(waves.terms).tolist())
    by_name = {waves.name(term): float(tau[term]) for term in terms}
    return Tuned(waves, np.sqrt(waves.variances(tau)), by_name, error, latest[0], held_out, len(folds))


def _folds(waves: Waves, values: FloatArray, base: FloatArray, turns: IntArray, enough: int) -> list[Fold]:
    folds: list[Fold] = []
    for turn in range(int(turns.max()) + 1):
        if sum(int(fold.held.sum()) for fold in folds) >= enough:
            break
        left = cells_left(values, turns, turn)
        total, measure = float(values[left].sum()), np.where(left, base, 0.0)
        observed = Observed(waves, np.where(left, values, 0.0) / total, measure)
        folds.append(Fold(observed, turns == turn, total, values, base))
    return folds
