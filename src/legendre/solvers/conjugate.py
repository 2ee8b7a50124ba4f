"""Preconditioned conjugate gradients, and a bound of the gap that rests on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from legendre.core.sums.linalg import dot
from legendre.core.types import FloatArray
from legendre.engines.protocol import Preconditioner
from legendre.solvers.protocol import Evaluation, Target

Linear = Callable[[FloatArray], FloatArray]


def conjugate_gradients(
    apply: Linear,
    right: FloatArray,
    precondition: Linear | None = None,
    *,
    share: float,
    floor: float = 0.0,
    max_products: int = 20_000,
) -> tuple[FloatArray, float]:
    """Solve ``apply(x) = right`` for a positive semidefinite linear map.

    As `scipy.sparse.linalg.cg`, but: arrays of any shape are vectors; the norm is that of the preconditioner; every
    iterate is a descent direction, so that a curvature that is not positive ends it instead of being an error.

    Parameters
    ----------
    apply, right
        The linear map and the right-hand side.
    precondition
        Something near the inverse of `apply`, symmetric and positive definite; by default the identity.
    share
        Stop when at most this share of the right-hand side is left.
    floor
        Stop when no entry of what is left is above this.
    max_products
        Stop after this many products.

    Returns
    -------
    solution, left
        The solution x, and the squared norm of what is left. With it ``x . apply(x)`` adds up to the squared norm of
        the exact solution, also where entries below `floor` weigh much.

    Examples
    --------
    >>> matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda x: matrix @ x, np.array([3.0, 4.0]), share=1e-9)[0].round(9).tolist()
    [1.0, 1.0]
    """
    residual = right.copy()
    z = residual if precondition is None else precondition(residual)
    direction, solution = z.copy(), np.zeros_like(residual)
    size = float(np.vdot(residual, z))
    enough = share**2 * size
    for _ in range(max_products):
        product = apply(direction)
        curvature = float(np.vdot(direction, product))
        if not curvature > 0.0:  # dependent parameters
            break
        length = size / curvature
        with np.errstate(over="ignore"):
            move = length * direction
        if not np.isfinite(move).all():  # a curvature next to 0
            break
        solution += move
        residual -= length * product
        z = residual if precondition is None else precondition(residual)
        size, last = float(np.vdot(residual, z)), size
        if size <= enough or np.abs(residual).max(initial=0.0) <= floor:
            break
        direction *= size / last
        direction += z
    return solution, size


def bound_nearby(
    target: Target, point: Evaluation, inverse: Preconditioner, *, unsolved: float = 1e-6, max_products: int = 12
) -> tuple[float, float] | None:
    """Bound the gap as `natural.newton_gap` does, and the tilt, with something near the inverse of G in place of G's.

    What the solution leaves of the right-hand side is computed anew, and measured twice: in the norm of the inverse,
    and in units of the features' own standard deviations, which an inverse that takes some direction for nothing does
    not hide. ``None`` where more is left than the share `unsolved`, so that the bound would not be true to 12 digits.
    """
    size = dot(point.gradient, inverse.apply(point.gradient))
    variance = point.eta * (1.0 - point.eta)
    if not (size > 0.0 and (variance > 0.0).all()):
        return None
    product = partial(target.engine.fisher_product, point)
    direction, _ = conjugate_gradients(
        product, -point.gradient, inverse.apply, share=0.1 * unsolved, max_products=max_products
    )
    left = -point.gradient - product(direction)
    rest = dot(left, inverse.apply(left))
    plain = dot(point.gradient / variance, point.gradient)
    if not (0.0 <= rest <= unsolved**2 * size and dot(left / variance, left) <= unsolved**2 * plain):
        return None
    tilt = target.engine.swing(direction)
    if not tilt <= 1.0:
        return None
    return max(-dot(point.gradient, direction) + rest, 0.0), tilt
