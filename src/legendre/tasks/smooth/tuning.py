"""How much of each term there is: variances chosen by cells that are held out.

The error on held-out cells has a gradient in all variances at once, for the price of one more linear system: where the
fit is a = argmin f(a) + a . a / 2v, a small change of v moves it by (f'' + 1/v)^-1 (a / v^2) dv.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidSetting
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.tasks.complete.crossval import poisson_deviance
from legendre.tasks.smooth.penalised import Observed, PenalisedPoint, fit
from legendre.tasks.smooth.waves import Waves

LEAST, MOST = 1e-7, 20.0
"""Variances of log q between which a term's is sought; at the least one it does nothing."""
TYPICAL, FACTOR = 0.05, 3.0
"""A term's variance is, before anything is held out, this give or take a factor of so much (log-normal)."""
ROUGH = 0.02
"""Fits are as exact as this share of a coefficient's standard deviation while variances are sought."""
SOLVED = 1e-3
"""The accuracy of the linear systems that give the gradient."""
ITERATIONS = 40
SETTLED = 1e-5
"""The search ends when a step lowers the error by less than this share."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Some cells held out: what is left to see, the total of it, and X and the base measure at all cells."""

    observed: Observed
    held: BoolArray
    total: float
    x: FloatArray
    base: FloatArray

    def errors(self, v: FloatArray, b: FloatArray, criterion: str) -> tuple[float, FloatArray, FloatArray]:
        """Fit from b; return the sum of the errors on the held-out cells, its gradient in v, and the new b."""
        place, _ = fit(self.observed, np.sqrt(v), b, ROUGH / self.observed.n_cells)
        x = self.x[self.held]
        m = self.total * self.base[self.held] * np.exp(place.h[self.held] - place.psi)
        squares = criterion == "rmse"
        slope = np.zeros_like(self.x)
        slope[self.held] = 2.0 * (m - x) * m if squares else 2.0 * (m - x)
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
    """Variances term by term, the error on the cells that chose them (mean or root mean square), a start for a fit."""

    tau: FloatArray
    waves: Waves
    error: float
    b: FloatArray
    n_held_out: int
    n_folds: int

    @property
    def by_name(self) -> dict[str, float]:
        """Variances by the names of their terms."""
        chosen = np.argwhere(self.waves.terms)
        return {self.waves.name(tuple(term)): float(self.tau[tuple(term)]) for term in chosen.tolist()}

    @property
    def spread(self) -> FloatArray:
        """Standard deviations of the coefficients."""
        return np.sqrt(self.waves.variances(self.tau))


def tune(values: FloatArray, base: FloatArray, turns: IntArray, criterion: str, together: int = 1) -> Tuned:
    """Choose the variances that make the error on held-out cells least.

    Parameters
    ----------
    values, base
        X (0 where it was not observed) and the base measure, on the whole grid.
    turns
        The fold of each observed cell, -1 elsewhere.
    criterion
        ``"deviance"`` or ``"rmse"``.
    together
        The number of cells in a fibre, where fibres are held out.
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

    start = np.zeros(int(waves.terms.sum()))
    least, most = (float(np.log(limit / TYPICAL) / np.log(FACTOR)) for limit in (LEAST, MOST))
    options: Any = {"maxiter": ITERATIONS, "ftol": SETTLED}
    bounds = [(least, most)] * len(start)
    found = minimize(badness, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    error = float(np.exp(found.fun - np.vdot(found.x, found.x) / held_out))
    error = unit * (error if criterion == "deviance" else float(np.sqrt(error)))
    return Tuned(in_place(found.x), waves, error, latest[0], held_out, len(folds))


def _folds(waves: Waves, values: FloatArray, base: FloatArray, turns: IntArray, enough: int) -> list[Fold]:
    folds: list[Fold] = []
    for turn in range(int(turns.max()) + 1):
        if sum(int(fold.held.sum()) for fold in folds) >= enough:
            break
        left = (turns >= 0) & (turns != turn)
        if not (values[left] > 0).any():
            raise InvalidSetting(f"folds: without the cells of fold {turn} X is zero everywhere. Use fewer folds.")
        total, measure = float(values[left].sum()), np.where(left, base, 0.0)
        observed = Observed(waves, np.where(left, values, 0.0) / total, measure)
        folds.append(Fold(observed, turns == turn, total, values, base))
    return folds
