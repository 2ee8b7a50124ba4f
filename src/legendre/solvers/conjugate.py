"""Preconditioned conjugate gradients (Hestenes and Stiefel 1952) for linear maps that are functions."""

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

    It differs from `scipy.sparse.linalg.cg` in three ways. Vectors may be arrays of any shape. The norm is that of the
    preconditioner. A curvature that is not positive is not an error: the last iterate is returned, since every iterate
    but 0 is a descent direction.

    Parameters
    ----------
    apply, right
        The linear map and the right-hand side.
    precondition
        An approximate inverse of `apply`, symmetric and positive definite; by default the identity.
    share
        Stop when the norm of the residual is at most this share of the norm of the right-hand side.
    floor
        Stop when no entry of the residual is larger than this.
    max_products
        Stop after this many products.

    Returns
    -------
    solution, left
        The solution x, and the squared norm of its residual. Their sum ``x . apply(x) + left`` estimates the squared
        norm of the exact solution, even if the entries below `floor` carry much weight.

    Examples
    --------
    >>> matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda x: matrix @ x, np.array([3.0, 4.0]), share=1e-9)[0].round(9).tolist()
    [1.0, 1.0]
    """
    residual = right.copy()
    z = precondition(residual)
    direction, solution = z.copy(), np.zeros_like(residual)
    size = float(np.vdot(residual, z))  # the squared norm of the residual
    enough = share**2 * size
    for _ in range(max_products):
        product = apply(direction)
        curvature = float(np.vdot(direction, product))
        if not curvature > 0.0:  # the map is singular along this direction: parameters are dependent
            break
        length = size / curvature
        with np.errstate(over="ignore"):
            move = length * direction
        if not np.isfinite(move).all():  # the curvature is almost 0
            break
        solution += move
        residual -= length * product
        z = precondition(residual)
        size, last = float(np.vdot(residual, z)), size
        if size <= enough or np.abs(residual).max(initial=0.0) <= floor:
            break
        direction *= size / last  # the next direction is conjugate to all before
        direction += z
    return solution, size
