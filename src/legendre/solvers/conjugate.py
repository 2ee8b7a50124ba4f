"""Preconditioned conjugate gradients for ``G d = eta_hat - eta``, and a bound of the gap that rests on them."""

from __future__ import annotations

import numpy as np

from legendre.core.sums.linalg import dot
from legendre.core.types import FloatArray
from legendre.engines.protocol import Preconditioner
from legendre.solvers.protocol import Evaluation, Target

MOST_PRODUCTS = 12  # products with G at most until a factor is computed instead; faces, 1,000 to 4,000 cells: 5
UNSOLVED = 1e-6  # the share of the right-hand side that may be left, so that a bound is true to 12 digits


def conjugate_gradients(
    target: Target, point: Evaluation, pre: Preconditioner, *, share: float, floor: float, most: int
) -> tuple[FloatArray, float]:
    """Solve ``G d = eta_hat - eta`` until a share of it at most, or no entry above `floor`, is left, in `most` steps.

    Returns d and the squared size of what is left, in the norm of the preconditioner. With it ``d G d`` adds up to
    the whole squared decrement, also where entries below `floor` weigh much, for their cells are next to 0.
    """
    residual = -point.gradient
    z = pre.apply(residual)
    step, solution = z.copy(), np.zeros_like(residual)
    rz = dot(residual, z)
    goal = share**2 * rz
    for _ in range(most):
        product = target.engine.fisher_product(point, step)
        curvature = dot(step, product)
        if not curvature > 0.0:  # dependent parameters; every iterate is a descent direction
            break
        length = rz / curvature
        with np.errstate(over="ignore"):
            longer = length * step
        if not np.isfinite(longer).all():  # a curvature next to 0, of cells that sank below the range of float64
            break
        solution += longer
        residual -= length * product
        z = pre.apply(residual)
        rz, old = dot(residual, z), rz
        if rz <= goal or np.abs(residual).max(initial=0.0) <= floor:
            break
        step *= rz / old
        step += z
    return solution, rz


def bound_nearby(target: Target, point: Evaluation, inverse: Preconditioner) -> tuple[float, float] | None:
    """Bound the gap as `natural.newton_gap` does, and the tilt, with something near the inverse of G in place of G's.

    What the solution leaves of the right-hand side is computed anew, and measured twice: in the norm of the inverse,
    and in units of the features' own standard deviations, which an inverse that takes some direction for nothing does
    not hide. ``None`` where more is left than `UNSOLVED`, and where the bound would be none.
    """
    size = dot(point.gradient, inverse.apply(point.gradient))
    variance = point.eta * (1.0 - point.eta)
    if not (size > 0.0 and (variance > 0.0).all()):
        return None
    direction, _ = conjugate_gradients(target, point, inverse, share=0.1 * UNSOLVED, floor=0.0, most=MOST_PRODUCTS)
    left = -point.gradient - target.engine.fisher_product(point, direction)
    unsolved = dot(left, inverse.apply(left))
    plain = dot(point.gradient / variance, point.gradient)
    if not (0.0 <= unsolved <= UNSOLVED**2 * size and dot(left / variance, left) <= UNSOLVED**2 * plain):
        return None
    tilt = target.engine.swing(direction)
    if not tilt <= 1.0:
        return None
    return max(-dot(point.gradient, direction) + unsolved, 0.0), tilt
