"""From theta to factors, from factors to the tensor, and rounding errors polished away."""

from __future__ import annotations

import math

import numpy as np

from legendre.core.memory import rows_of
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.engines.protocol import Point
from legendre.model.margins import Modes
from legendre.model.model import Model
from legendre.tasks.balance.margins import Margins, margin_of, other_modes

LOG_RANGE = (-708.0, 709.0)  # logarithms of the smallest number with all its digits, and of the largest
BLOCK = 1 << 16  # cells multiplied at a time: they stay in the cache
POLISH = 5  # cycles at most that take rounding errors out of the margins


def log_factors(model: Model, point: Point, margins: Margins) -> dict[Modes, FloatArray]:
    """Share theta out: each parameter goes to the first margin that has all of its modes, ``-psi`` to the first one."""
    left = np.ones(model.n_params, dtype=np.bool_)
    out: dict[Modes, FloatArray] = {}
    for modes in margins.largest_sets:
        own = left & ~(model.positions[:, other_modes(modes, model.positions.shape[1])] > 0).any(axis=1)
        left &= ~own
        grid = np.zeros(margins.values[modes].shape)
        grid[tuple(model.positions[own][:, modes].T)] = point.theta[own]
        part = zeta(grid)
        if not out:
            part += np.log(margins.total) - point.psi
        part[margins.values[modes] == 0] = -np.inf
        out[modes] = part
    return out


def multiplied(X: AnyArray, parts: dict[Modes, FloatArray], alive: BoolArray | None) -> FloatArray:
    """X times the factors; 0 outside the face."""
    logs = [np.expand_dims(part, other_modes(modes, X.ndim)) for modes, part in parts.items()]
    plain = _one_by_one(X, list(parts.values()))
    factors = [np.exp(log) for log in logs] if plain else logs
    out = np.empty(X.shape)
    for rows in rows_of(X.shape, BLOCK):
        here = [factor[rows] if len(factor) > 1 else factor for factor in factors]
        if plain:
            np.multiply(X[rows], here[0], out=out[rows])
            for factor in here[1:]:
                out[rows] *= factor
        else:
            inside = (X[rows] > 0) if alive is None else (X[rows] > 0) & alive[rows]
            out[rows] = np.log(X[rows], dtype=np.float64, where=inside, out=np.full(inside.shape, -np.inf))
            for log in here:
                out[rows] += log
            np.exp(out[rows], where=inside, out=out[rows])
            out[rows][~inside] = 0.0
    if alive is not None:
        out[~alive] = 0.0
    return out


def _one_by_one(X: AnyArray, parts: list[FloatArray]) -> bool:
    """Whether X can be multiplied by one factor after the other: no product on the way overflows or loses digits."""
    size = sum(float(np.abs(part[np.isfinite(part)]).max(initial=0.0)) for part in parts)
    smallest, largest = np.inf, 0.0
    for rows in rows_of(X.shape, BLOCK):
        x = X[rows].astype(np.float64)
        smallest = min(smallest, float(np.min(x, where=x > 0, initial=np.inf)))
        largest = max(largest, float(x.max()))
    low, high = LOG_RANGE
    return bool(math.log(smallest) - size >= low and math.log(largest) + size <= high)


def polished(
    X: AnyArray, alive: BoolArray | None, parts: dict[Modes, FloatArray], margins: Margins, tol: float, cycles: int
) -> tuple[FloatArray, dict[Modes, FloatArray], float]:
    """Multiply, then lower errors of the margins above tol, which rounding left, by a few cycles of scaling.

    A cycle counts if it helps. Sums below the range of normal numbers have few digits: after a cycle that met some the
    tensor is X times the factors anew. So are, at the end, cells that left that range on the way.
    """
    tensor, tiny = multiplied(X, parts, alive), np.finfo(np.float64).tiny
    error = margins.worst(tensor)
    for _ in range(cycles):
        if error <= tol:
            break
        trial, logs, faint = tensor.copy(), {}, False
        for modes, part in parts.items():
            current, wanted = margin_of(trial, modes), margins.values[modes]
            ratio = np.divide(wanted, current, out=np.ones_like(current), where=(current > 0) & (wanted > 0))
            faint |= bool(((current > 0) & (current < tiny)).any())
            trial *= np.expand_dims(ratio, other_modes(modes, tensor.ndim))
            logs[modes] = part + np.log(ratio)
        trial = multiplied(X, logs, alive) if faint else trial
        left = margins.worst(trial)
        if not left < error:
            break
        tensor, parts, error = trial, logs, left
    lost = (tensor < tiny) & (X > 0)
    if lost.any():
        tensor = np.where(lost, multiplied(X, parts, alive), tensor)
    return tensor, parts, error
