"""Slow twins of everything the library computes, written from the definitions over lists of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize, root

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Cell = Sequence[int]


def below(u: Cell, v: Cell) -> bool:
    """``u <= v`` in every coordinate."""
    return all(a <= b for a, b in zip(u, v, strict=True))


def join(u: Cell, v: Cell) -> tuple[int, ...]:
    return tuple(max(a, b) for a, b in zip(u, v, strict=True))


def zeta_matrix(omega: IntArray, basis: IntArray) -> FloatArray:
    """One row per cell of Omega, one column per cell of B: 1 where u <= v."""
    columns = basis.tolist()
    rows = [[float(below(u, v)) for u in columns] for v in omega.tolist()]
    return np.array(rows, dtype=np.float64).reshape(len(omega), len(basis))


def normaliser(Z: FloatArray, theta: FloatArray, r: FloatArray) -> float:
    """``psi = log sum r exp(Z theta)``."""
    return float(np.log(sum(r * np.exp(Z @ theta))))


def distribution(Z: FloatArray, theta: FloatArray, r: FloatArray) -> FloatArray:
    q = r * np.exp(Z @ theta - normaliser(Z, theta, r))
    return np.asarray(q, dtype=np.float64)


def expectations(Z: FloatArray, q: FloatArray) -> FloatArray:
    return np.array([sum(q[i] for i in range(len(q)) if column[i]) for column in Z.T], dtype=np.float64)


def fisher_matrix(omega: IntArray, basis: IntArray, q: FloatArray) -> FloatArray:
    """``eta of the join less the product of the eta``, each eta summed anew."""

    def eta(u: Cell) -> float:
        return float(sum(q[i] for i, v in enumerate(omega.tolist()) if below(u, v)))

    k = len(basis)
    G = np.empty((k, k))
    for i, u in enumerate(basis.tolist()):
        for j, w in enumerate(basis.tolist()):
            G[i, j] = eta(join(u, w)) - eta(u) * eta(w)
    return G


def divergence(p: FloatArray, q: FloatArray) -> float:
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))


def nearest(Z: FloatArray, p: FloatArray, r: FloatArray) -> FloatArray:
    """Minimise ``psi - theta . eta_hat`` with SciPy; return Q on Omega.

    Dependent features are replaced by an orthonormal basis of their span first, so that the minimiser is one point.
    """
    U, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    features = U[:, s > 1e-10 * max(1.0, s.max(initial=0.0))]
    a = stationary_point(features, p, r)
    return distribution(features, a, r)


def stationary_point(features: FloatArray, p: FloatArray, r: FloatArray) -> FloatArray:
    """Find the parameters at which the features have the expectations of p: a trust region, then a root."""
    target = features.T @ p

    def objective(a: FloatArray) -> float:
        return normaliser(features, a, r) - float(a @ target)

    def gradient(a: FloatArray) -> FloatArray:
        return np.asarray(features.T @ distribution(features, a, r) - target, dtype=np.float64)

    def hessian(a: FloatArray) -> FloatArray:
        q = distribution(features, a, r)
        mean = features.T @ q
        return np.asarray(features.T @ (q[:, None] * features) - np.outer(mean, mean), dtype=np.float64)

    return _minimised(objective, gradient, hessian, features.shape[1])


def _minimised(
    objective: Callable[[FloatArray], float],
    gradient: Callable[[FloatArray], FloatArray],
    hessian: Callable[[FloatArray], FloatArray],
    size: int,
) -> FloatArray:
    if size == 0:
        return np.zeros(0)
    rough = minimize(
        objective, np.zeros(size), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-7}
    )
    fine: Any = root(gradient, rough.x, jac=hessian, method="hybr", options={"xtol": 1e-14})
    best = fine.x if np.abs(gradient(fine.x)).max() < np.abs(gradient(rough.x)).max() else rough.x
    return np.asarray(best, dtype=np.float64)


@dataclass(frozen=True)
class Machine:
    """A Boltzmann machine learned by enumeration of all its states."""

    biases: FloatArray
    weights: FloatArray
    log_z: float
    probability: FloatArray


def boltzmann_machine(n: int, edges: Sequence[tuple[int, ...]], p: FloatArray) -> Machine:
    """Gibbs learning: the energy is ``b . x + sum over edges of w_e prod(x_i, i in e)``; p comes in C order."""
    states = list(product([0, 1], repeat=n))
    energy = np.array([[*x, *(float(all(x[i] for i in edge)) for edge in edges)] for x in states], dtype=np.float64)
    parameters = stationary_point(energy, p, np.ones(len(states)))
    z = sum(np.exp(row @ parameters) for row in energy)
    probability = np.array([np.exp(row @ parameters) / z for row in energy], dtype=np.float64)
    return Machine(parameters[:n], parameters[n:], float(np.log(z)), probability)


def cells_that_vanish(Z: FloatArray, p: FloatArray) -> NDArray[np.bool_]:
    """Tell where no distribution on Omega with the data's expectations is positive.

    One linear program per empty cell: maximise ``q_v`` over ``q >= 0`` with ``Z' q = Z' p`` and sum 1.
    """
    design = np.hstack([np.ones((len(p), 1)), Z])
    gone = np.zeros(len(p), dtype=np.bool_)
    for v in np.flatnonzero(p == 0):
        cost = np.zeros(len(p))
        cost[v] = -1.0
        answer = linprog(cost, A_eq=design.T, b_eq=design.T @ p, bounds=(0, None), method="highs")
        if answer.status != 0 or answer.x is None:
            raise RuntimeError(answer.message)
        gone[v] = answer.x[v] < 1e-9
    return gone


def cells_that_stay(design: FloatArray, n: FloatArray) -> NDArray[np.bool_]:
    """Tell which cells have a positive mean in the limit, by one linear program for all of them.

    The design has the constant. Tables ``q >= t``, ``0 <= t <= 1``, with the margins of some multiple of the counts:
    the sum of t is largest where every cell that can be positive has ``t = 1``.
    """
    cells, k = design.shape
    margins = np.hstack([design.T, np.zeros((k, cells)), -(design.T @ n)[:, None]])
    above = np.hstack([-np.eye(cells), np.eye(cells), np.zeros((cells, 1))])
    cost = np.concatenate([np.zeros(cells), -np.ones(cells), [0.0]])
    bounds = [(0, None)] * cells + [(0, 1)] * cells + [(0, None)]
    answer = linprog(
        cost, A_ub=above, b_ub=np.zeros(cells), A_eq=margins, b_eq=np.zeros(k), bounds=bounds, method="highs"
    )
    if answer.status != 0 or answer.x is None:
        raise RuntimeError(answer.message)
    return np.asarray(answer.x[cells : 2 * cells] > 0.5)


def deviance_of(design: FloatArray, n: FloatArray) -> float:
    """Return G2 of a log-linear model with positive means: Newton's method, columns may depend on each other."""
    left, size, _ = np.linalg.svd(design, full_matrices=False)
    Z = left[:, size > 1e-9 * size[0]]  # the same model, with independent columns
    eta = np.full(len(n), np.log(n.mean()))
    for _ in range(200):
        mu = np.exp(eta)
        step = Z @ np.linalg.solve(Z.T @ (mu[:, None] * Z), Z.T @ (n - mu))
        eta = eta + step / max(1.0, float(np.abs(step).max()) / 2)
        if np.abs(step).max() < 1e-11:
            break
    seen = n > 0
    return float(2 * (n[seen] @ (np.log(n[seen]) - eta[seen])))


def coded_design(shape: tuple[int, ...], coding: str, margins: list[list[int]]) -> FloatArray:
    """Write the columns of a coding out, as R's model.matrix has them."""
    codes = []
    for n in shape:
        code = {
            "treatment": np.eye(n)[:, 1:],
            "sum": np.vstack([np.eye(n - 1), -np.ones(n - 1)]),
            "local": (np.arange(n)[:, None] >= np.arange(1, n)).astype(float),
        }[coding]
        codes.append(code)
    terms = sorted({part for m in margins for r in range(1, len(m) + 1) for part in combinations(sorted(m), r)})
    columns = [np.ones(int(np.prod(shape)))]
    for term in sorted(terms, key=lambda t: (len(t), t)):
        out = np.ones((1, 1))
        for k, n in enumerate(shape):
            out = np.kron(out, codes[k] if k in term else np.ones((n, 1)))
        columns.extend(out.T)
    return np.stack(columns, axis=1)
