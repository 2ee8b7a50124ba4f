"""Algorithm 2 of the paper in plain NumPy: running sums on the dense grid, the Fisher matrix by gathering, `solve`.

It is the yardstick "what one would write in an afternoon": sums by `np.cumsum` instead of the paper's O(|Omega||B|)
loops, in place where that is easy, and nothing else. It shares no code with the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Cells = tuple[NDArray[np.intp], ...]


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the iteration ended."""

    theta: Floats
    Q: Floats
    residual: float
    n_iter: int


def fit(X: Floats, per_slice: int, *, tol: float, max_iter: int = 100) -> Fit:
    """Decompose X with the paper's B3(per_slice) by full natural-gradient steps.

    Examples
    --------
    >>> X = np.random.default_rng(0).random((4, 5, 6))
    >>> fit(X, 2, tol=1e-9).residual < 1e-9
    True
    """
    cells = largest_of_slices(X, per_slice)
    P = X / X.sum()
    eta_hat = sums_above(P)[cells]
    del P
    theta = np.zeros(len(eta_hat))
    for n_iter in range(max_iter + 1):
        Q = probabilities(theta, cells, X.shape)
        eta_grid = sums_above(Q)
        gradient = eta_grid[cells] - eta_hat
        residual = float(np.abs(gradient).max())
        if residual <= tol or n_iter == max_iter:
            break
        theta -= np.linalg.solve(fisher(eta_grid, cells), gradient)
    return Fit(theta, Q, residual, n_iter)


def largest_of_slices(X: Floats, count: int) -> Cells:
    """B3: the largest entries of each slice along the last mode, without the bottom."""
    slices = np.moveaxis(X, -1, 0).reshape(X.shape[-1], -1)
    best = np.argpartition(slices, -count, axis=1)[:, -count:]
    places = np.unravel_index(best.ravel(), X.shape[:-1])
    cells = (*places, np.repeat(np.arange(X.shape[-1]), count))
    keep = np.any(cells, axis=0)
    return tuple(coordinate[keep] for coordinate in cells)


def probabilities(theta: Floats, cells: Cells, shape: tuple[int, ...]) -> Floats:
    """Eqs. (1) and (2): add up theta at or below each cell, exponentiate, normalise."""
    grid = np.zeros(shape)
    grid[cells] = theta
    for mode in range(grid.ndim):
        np.cumsum(grid, axis=mode, out=grid)
    grid -= grid.max()
    np.exp(grid, out=grid)
    grid /= grid.sum()
    return grid


def sums_above(Q: Floats) -> Floats:
    """Eq. (3): add up Q at or above each cell."""
    grid = Q.copy()
    for mode in range(grid.ndim):
        backwards = np.flip(grid, axis=mode)
        np.cumsum(backwards, axis=mode, out=backwards)
    return grid


def fisher(eta_grid: Floats, cells: Cells) -> Floats:
    """Eq. (5): eta at the joins, less the products."""
    joins = tuple(np.maximum.outer(coordinate, coordinate) for coordinate in cells)
    eta = eta_grid[cells]
    G: Floats = eta_grid[joins] - np.outer(eta, eta)
    return G
