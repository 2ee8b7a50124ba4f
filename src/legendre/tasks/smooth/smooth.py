"""Smoothing: all interactions at once, each held back as much as held-out cells advise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import home_of
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidSetting, unknown_name
from legendre.core.sums.zeta import moebius
from legendre.core.types import FloatArray
from legendre.data.read import TensorLike
from legendre.fitting.plan import Settings
from legendre.solvers.status import Status
from legendre.tasks.complete.complete import read_gaps
from legendre.tasks.complete.crossval import CRITERIA
from legendre.tasks.complete.folds import Folding, Rng
from legendre.tasks.smooth.penalised import STEPS, Observed, fit
from legendre.tasks.smooth.result import Smoothed
from legendre.tasks.smooth.tuning import tune


def smooth(
    X: TensorLike,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    folds: int = 5,
    hold_out: str | int | Sequence[int] = "cells",
    criterion: str = "deviance",
    rng: Rng = 0,
    tol: float = 1e-10,
    max_iter: int | None = None,
) -> Smoothed:
    """Fill in the missing cells of X without choosing a basis.

    The basis is the full one, and a penalty takes the choice's place: minimise ``n KL(P, Q) + sum of a_c^2 / (2 v_c)``,
    n being the number of observed cells and a the coordinates of log Q in cosine waves, another frame of theta's space.
    The variances v_c are sums over terms. A term is a set of modes with, for each, whether its coordinates have nothing
    to do with one another or neighbours are alike; the variance of each term is chosen by held-out cells.

    Parameters
    ----------
    X, support, base
        As in `complete`.
    folds, hold_out, rng
        How observed cells are dealt into folds, as in `complete`. Of a large tensor only as many folds are held out as
        make some thousands of cells (or fibres).
    criterion
        ``"deviance"`` (Poisson) or ``"rmse"``: what the variances make least on the cells held out.
    tol
        The largest entry that the gradient may have, for a total of 1 and coordinates of standard deviation 1.
    max_iter
        Newton steps of the last fit at most; by default 100.

    Returns
    -------
    Smoothed
        Every cell has a value; one that nothing observed speaks of has that of its surroundings.

    Examples
    --------
    >>> x = np.linspace(0, 3, 12)
    >>> X = np.exp(np.add.outer(np.sin(x), np.cos(x)))
    >>> hidden = np.random.default_rng(0).random(X.shape) < 0.5
    >>> done = smooth(np.where(hidden, np.nan, X))
    >>> bool((abs(done.tensor() / X - 1) < 0.1).all())
    True
    """
    if criterion not in CRITERIA:
        raise InvalidSetting(unknown_name("criterion", str(criterion), CRITERIA))
    settings = Settings.read(tol=tol, max_iter=max_iter)
    home, (data, seen) = home_of(X), read_gaps(X, support, base, "smooth")
    measure = np.ones(data.shape) if data.base is None else data.base
    omega, entries = seen & (measure > 0), np.asarray(data.values, dtype=np.float64)
    values: FloatArray = np.where(omega, entries, 0.0)
    folding = Folding.read(folds, hold_out, rng, len(data.shape))
    together = math.prod(data.shape[k] for k in folding.along)
    tuned = tune(values, measure, folding.deal(omega), criterion, together)
    observed = Observed(tuned.waves, values / data.total, np.where(omega, measure, 0.0))
    limit = STEPS if settings.max_iter is None else settings.max_iter
    place, steps = fit(observed, tuned.spread, tuned.b, settings.tol, limit)
    model = data.total * measure * np.exp(place.h - place.psi)
    tensor = np.where(seen, entries, model)
    done = Smoothed(
        values=home.bring(frozen(tensor)),
        means=home.bring(frozen(model)),
        observed=frozen(seen),
        theta=frozen(moebius(place.h).ravel()[1:]),
        variances=tuned.by_name,
        criterion=criterion,
        error=tuned.error,
        n_held_out=tuned.n_held_out,
        n_folds=tuned.n_folds,
        residual=place.residual,
        gap=place.gap,
        status=Status.CONVERGED if place.residual <= settings.tol else Status.OUT_OF_STEPS,
        history=steps,
        tol=settings.tol,
    )
    if not done.converged:
        where = f"smooth: the gradient is {done.residual:.2e} after {done.n_iter} steps, tol = {tol:g}."
        warnings.warn(f"{where} Raise max_iter or tol.", ConvergenceWarning, stacklevel=2)
    return done
