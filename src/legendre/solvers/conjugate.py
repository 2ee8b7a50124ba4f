"""Preconditioned conjugate gradients on callables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from legendre.core.types import FloatArray

Linear = Callable[[FloatArray], FloatArray]


def conjugate_gradients(
    apply: Linear,
    right: FloatArray,
    precondition: Linear = np.copy,
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
    z = precondition(residual)
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
        z = precondition(residual)
        size, last = float(np.vdot(residual, z)), size
        if size <= enough or np.abs(residual).max(initial=0.0) <= floor:
            break
        direction *= size / last
        direction += z
    return solution, size
