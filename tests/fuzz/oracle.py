"""Brute force, written from the definitions: nothing of the library is imported, and nothing is fast.

Every sum runs over a list of all cells, in NumPy's extended precision (64 bits of mantissa here). Which cells vanish is
decided by one linear program about signs alone, so that no size of an entry enters it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

LONG = np.longdouble
EPS = float(np.finfo(np.float64).eps)
Array = Any


def omega_mask(X: Array, support: Any, base: Array | None) -> Array:
    """Mark the sample space: cells that are a number, in the support, and of positive base measure."""
    mask = ~np.isnan(X) if X.dtype.kind == "f" else np.ones(X.shape, dtype=bool)
    if isinstance(support, str):
        if support == "nonzero":
            with np.errstate(invalid="ignore"):
                mask = mask & (X > 0)
    else:
        mask = mask & np.asarray(support)
    return mask if base is None else mask & (np.asarray(base) > 0)


@dataclass(frozen=True, eq=False)
class Problem:
    """P, Omega, B and the base measure, as lists over the cells of Omega in C order."""

    shape: tuple[int, ...]
    omega: Array  # n x N
    x: Array  # X on Omega
    basis: Array  # k x N
    log_r: Array  # log of the base measure on Omega
    grid: Array  # X as it was given

    @classmethod
    def of(cls, X: Any, mask: Array, basis: Array, base: Array | None = None) -> Problem:
        """List the cells."""
        X = np.asarray(X)
        omega = np.array(np.nonzero(mask)).T.reshape(-1, X.ndim)
        x = X[mask].astype(LONG)
        r = np.ones(len(x), dtype=LONG) if base is None else np.asarray(base)[mask].astype(LONG)
        return cls(X.shape, omega, x, np.asarray(basis, dtype=np.int64).reshape(-1, X.ndim), np.log(r), X)

    @cached_property
    def Z(self) -> Array:
        """One row for each cell v of Omega, one column for each u of B: 1 where u <= v in every coordinate."""
        return (self.omega[:, None, :] >= self.basis[None, :, :]).all(axis=2).astype(np.float64)

    @cached_property
    def Z_long(self) -> Array:
        """The same in extended precision, in which all sums are taken."""
        return self.Z.astype(LONG)

    @property
    def size(self) -> float:
        """How large the features get: rounding errors of expectations are a share of that."""
        return 1.0

    @cached_property
    def total(self) -> Any:
        """The sum of X over Omega."""
        return self.x.sum()

    @cached_property
    def p(self) -> Array:
        """P on Omega."""
        return self.x / self.total

    @cached_property
    def eta_hat(self) -> Array:
        """Expectations of the features under P."""
        return self.Z_long.T @ self.p

    @cached_property
    def alive(self) -> Array:
        """Mark the cells that some distribution with P's expectations makes positive."""
        return possible(self.Z, np.asarray(self.x > 0))

    @cached_property
    def rank(self) -> int:
        """How many parameters are independent on the cells that can be positive."""
        return rank_of(self.Z[self.alive])

    def rank_on(self, alive: Array) -> int:
        """Count the same on other cells."""
        return rank_of(self.Z[alive])

    def log_q(self, theta: Array, alive: Array) -> tuple[Array, Any]:
        """``log q`` on Omega (-inf where cells vanish) and psi."""
        h = self.Z_long @ np.asarray(theta, dtype=LONG) + self.log_r
        top = h[alive].max()
        psi = top + np.log(np.exp(h[alive] - top).sum())
        return np.where(alive, h - psi, -np.inf), psi

    def expectations(self, q: Array) -> Array:
        """Sum over up-sets, eq. (3)."""
        return self.Z_long.T @ q

    def divergence(self, log_q: Array) -> Any:
        """KL(P, Q)."""
        seen = self.x > 0
        return (self.p[seen] * (np.log(self.p[seen]) - log_q[seen])).sum()

    def rounding(self, theta: Array) -> float:
        """Relative rounding error of a q that float64 computes from theta.

        Running sums of theta have the error of their largest partial sum, in units of the last place; so has psi.
        """
        reach = float((self.Z @ np.abs(np.asarray(theta, dtype=np.float64))).max(initial=0.0))
        size = reach + 2.0 * float(np.abs(self.log_r).max(initial=0.0)) + np.log(len(self.x) + 1.0)
        return float(8.0 * EPS * (size * (2 + len(self.shape)) + len(self.x) + len(self.basis) + 8.0))

    @cached_property
    def best(self) -> Solution:
        """The minimum of KL(P, Q), by damped Newton steps on the face."""
        return solve(self)

    def on_grid(self, q: Array, fill: float = 0.0) -> Array:
        """Put a list over Omega on the grid."""
        grid = np.full(self.shape, fill, dtype=LONG)
        grid[tuple(self.omega.T)] = q
        return grid


@dataclass(frozen=True, eq=False)
class Solution:
    """What brute force found."""

    theta: Array
    log_q: Array
    residual: float
    objective: Any  # psi - theta . eta_hat


def possible(Z: Array, positive: Array) -> Array:
    """Mark the cells that can be positive, those with P > 0 among them, by one linear program.

    A cell with P = 0 can be if there is a d with ``[1 Z]' d = 0``, ``d_v > 0`` there and ``d >= 0`` at all cells with
    P = 0: a small step along d stays a distribution. Such d form a cone, so that all of the cells have ``d >= 1`` at
    once, and the program that maximises the sum of ``min(d_v, 1)`` says 0 or 1 for each.
    """
    empty = np.flatnonzero(~positive)
    if not len(empty):
        return np.ones(len(positive), dtype=bool)
    from scipy.optimize import linprog

    n, m = len(positive), len(empty)
    A = np.hstack([np.ones((n, 1)), Z])
    link = np.zeros((m, n + m))
    link[np.arange(m), empty] = -1.0
    link[np.arange(m), n + np.arange(m)] = 1.0  # s_v <= d_v
    cost = np.concatenate([np.zeros(n), -np.ones(m)])
    bounds = [(None, None) if positive[v] else (0.0, None) for v in range(n)] + [(0.0, 1.0)] * m
    equal = np.hstack([A.T, np.zeros((A.shape[1], m))])
    found = linprog(cost, link, np.zeros(m), equal, np.zeros(A.shape[1]), bounds, method="highs")
    if found.status != 0 or found.x is None:
        raise RuntimeError(f"the oracle's linear program: {found.message}")
    alive = positive.copy()
    alive[empty] = found.x[n:] > 0.5
    return np.asarray(alive)


def rank_of(Z: Array) -> int:
    """Rank of the features together with a constant, less one."""
    if not Z.size:
        return 0
    return int(np.linalg.matrix_rank(np.hstack([np.ones((len(Z), 1)), Z]))) - 1


def independent(Z: Array) -> Array:
    """Columns that are independent of each other and of a constant."""
    from scipy.linalg import qr

    centred = Z - Z.mean(axis=0)
    if not centred.size:
        return np.zeros(0, dtype=np.int64)
    _, R, order = qr(centred, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    return np.sort(order[: int((size > 1e-9 * max(size.max(initial=0.0), 1.0)).sum())])


def solve(problem: Problem, steps: int = 60) -> Solution:
    """Minimise ``psi(theta) - theta . eta_hat`` on the face: directions in float64, all else in extended precision."""
    alive = problem.alive
    columns = independent(problem.Z[alive])
    F = problem.Z[np.ix_(alive, columns)].astype(LONG)
    log_r, target = problem.log_r[alive], problem.eta_hat[columns]
    F64, a = F.astype(np.float64), np.zeros(len(columns), dtype=LONG)

    def at(a: Array) -> tuple[Any, Array, Array]:
        h = F @ a + log_r
        top = h.max(initial=-np.inf)
        e = np.exp(h - top)
        q = e / e.sum()
        return top + np.log(e.sum()) - a @ target, q, F.T @ q - target

    value, q, g = at(a)
    for _ in range(steps if len(columns) else 0):
        worst = np.abs(g).max()
        if worst < 1e-18:
            break
        q64, m = q.astype(np.float64), F64.T @ q.astype(np.float64)
        H = F64.T @ (q64[:, None] * F64) - np.outer(m, m)
        scale = np.sqrt(np.maximum(np.diag(H), 1e-300))
        step = np.linalg.lstsq(H / np.outer(scale, scale), (g.astype(np.float64) / scale), rcond=1e-15)[0] / scale
        step, size = step.astype(LONG), LONG(1.0)
        size = min(size, LONG(8.0) / max(np.abs(F64 @ step.astype(np.float64)).max(), 1e-300))  # as far as e^8
        for _ in range(40):
            trial = at(a - size * step)
            if trial[0] <= value + 1e-19 * abs(value) and (trial[0] < value or np.abs(trial[2]).max() < worst):
                break
            size = size / 2
        else:
            break
        a, (value, q, g) = a - size * step, trial
    theta = np.zeros(len(problem.basis), dtype=LONG)
    theta[columns] = a
    log_q, psi = problem.log_q(theta, alive)
    eta = problem.expectations(np.exp(log_q))
    residual = float(np.abs(eta - problem.eta_hat).max(initial=0.0))
    return Solution(theta, log_q, residual, psi - theta @ problem.eta_hat)


def covariance(problem: Problem, q: Array) -> Array:
    """Compute the Fisher matrix, eq. (5): covariances of the features under q."""
    centred = problem.Z_long - problem.Z_long.T @ q
    return np.asarray((centred.T * q) @ centred, dtype=np.float64)


def up_sums(grid: Array) -> Array:
    """Sum a grid over all that lies above each cell."""
    out = np.empty_like(grid)
    for v in np.ndindex(grid.shape):
        out[v] = grid[tuple(slice(i, None) for i in v)].sum()
    return out


# --- bases -----------------------------------------------------------------------------------------------------------


class Cells:
    """A set of cells with the signs of basis strings."""

    def __init__(self, cells: Any) -> None:
        self.cells = {tuple(int(i) for i in v) for v in cells if any(v)}

    def __or__(self, other: Cells) -> Cells:
        return Cells(self.cells | other.cells)

    __add__ = __or__

    def __and__(self, other: Cells) -> Cells:
        return Cells(self.cells & other.cells)

    def __sub__(self, other: Cells) -> Cells:
        return Cells(self.cells - other.cells)

    def __call__(self) -> Cells:
        return self


def basis_cells(text: str, X: Array, mask: Array) -> set[tuple[int, ...]]:
    """Read a basis string by Python's own grammar, with every builder written from its definition."""
    shape, order = X.shape, X.ndim
    grid = list(np.ndindex(shape))
    omega = [v for v in grid if mask[v]]

    def B2(l: int, axis: int = -1) -> Cells:  # noqa: E741
        slices, found = range(order)[axis], set()
        for k in range(order):
            if k != slices:
                n = min(l, shape[k])
                chosen = {c * (shape[k] // n) - 1 for c in range(1, n + 1)}
                found |= {
                    v for v in omega if v[k] in chosen and all(v[j] == 0 for j in range(order) if j not in (k, slices))
                }
        return Cells(found)

    def B3(l: int, axis: int = -1) -> Cells:  # noqa: E741
        slices, found = range(order)[axis], set()
        for i in range(shape[slices]):
            inside = sorted((v for v in omega if v[slices] == i), key=lambda v: (-LONG(X[v]), v))
            found |= set(inside[:l])
        return Cells(found)

    def interactions(sets: Any) -> Cells:
        if isinstance(sets, int):
            return Cells(v for v in grid if sum(i > 0 for i in v) <= sets)
        groups = [set(group) for group in sets]
        return Cells(v for v in grid if any({k for k, i in enumerate(v) if i} <= group for group in groups))

    names: dict[str, Any] = {
        "B1": Cells(v for v in omega if sum(i > 0 for i in v) <= 1),
        "B2": B2,
        "B3": B3,
        "interactions": interactions,
        "cells": Cells,
        "full": Cells(omega),
        "empty": Cells([]),
    }
    found: Cells = eval(text, {"__builtins__": {}}, names)
    return found.cells
