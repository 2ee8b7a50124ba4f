"""Named problems: each is one corner that the library must turn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

import legendre as ld
from oracles import FloatArray, IntArray, expectations, nearest, zeta_matrix

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Case:
    """A tensor, its sample space, a basis and maybe a base measure, with the lists that the twins work on."""

    X: FloatArray
    mask: BoolArray
    basis: IntArray
    base: FloatArray | None = None

    def __repr__(self) -> str:
        base = "" if self.base is None else f", base={self.base.tolist()}"
        return f"Case(X={self.X.tolist()}, mask={self.mask.tolist()}, basis={self.basis.tolist()}{base})"

    @cached_property
    def omega(self) -> IntArray:
        return np.array([v for v in np.ndindex(self.X.shape) if self.mask[v]], dtype=np.int64)

    @cached_property
    def Z(self) -> FloatArray:
        return zeta_matrix(self.omega, self.basis)

    @cached_property
    def p(self) -> FloatArray:
        x = self.on_omega(self.X)
        p: FloatArray = x / x.sum()
        return p

    @cached_property
    def r(self) -> FloatArray:
        return np.ones(len(self.omega)) if self.base is None else self.on_omega(self.base)

    @property
    def eta_hat(self) -> FloatArray:
        return expectations(self.Z, self.p)

    @property
    def total(self) -> float:
        return float(self.on_omega(self.X).sum())

    def on_omega(self, grid: NDArray[Any]) -> FloatArray:
        """List the values of a grid in the order of `omega`."""
        return np.array([grid[tuple(v)] for v in self.omega], dtype=np.float64)

    def fit(self, **settings: Any) -> ld.Decomposition:
        return ld.decompose(self.X, self.basis, **{"support": self.mask, "base": self.base} | settings)

    def q(self, fit: ld.Decomposition) -> FloatArray:
        """List the fit's probabilities in the order of `omega`."""
        return self.on_omega(fit.tensor()) / fit.total

    def answer(self) -> FloatArray:
        """Q on Omega, by the slow twin."""
        return nearest(self.Z, self.p, self.r)


def _cells(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [v for v in product(*map(range, shape)) if any(v)]


def _case(
    shape: tuple[int, ...],
    basis: list[tuple[int, ...]],
    *,
    holes: tuple[tuple[int, ...], ...] = (),
    weighted: bool = False,
    seed: int = 0,
) -> Case:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.2, 5.0, size=shape)
    mask = np.ones(shape, dtype=np.bool_)
    for hole in holes:
        mask[hole] = False
    base = rng.uniform(0.5, 2.0, size=shape) if weighted else None
    return Case(X, mask, np.array(basis, dtype=np.int64).reshape(len(basis), len(shape)), base)


def _pairs(order: int) -> list[tuple[int, ...]]:
    """One cell per mode and one per pair of neighbours."""
    unit = np.eye(order, dtype=np.int64)
    chain = [unit[k] + unit[k + 1] for k in range(order - 1)]
    return [tuple(int(i) for i in cell) for cell in [*unit, *chain]]


def _margins(shape: tuple[int, ...], *groups: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Every cell of the margins of these groups of modes."""
    return [v for v in _cells(shape) if any(all(k in group for k, i in enumerate(v) if i) for group in groups)]


def _with_zeros() -> Case:
    """Zeros that the data happen to have, in no margin whole: the minimum is attained at a positive Q."""
    X = np.array([[3.0, 0.0, 2.0], [0.0, 4.0, 1.0], [2.0, 1.0, 0.0]])
    return Case(X, np.ones((3, 3), dtype=np.bool_), np.array(_margins((3, 3), (0,), (1,))))


def _only_one_cell() -> Case:
    mask = np.zeros((2, 3), dtype=np.bool_)
    mask[1, 2] = True
    return Case(np.full((2, 3), 4.0), mask, np.array([[0, 1], [1, 0]]))


NAMED: dict[str, Case] = {
    "vector": _case((6,), [(2,), (5,)], seed=1),
    "vector_of_one": _case((1,), [], seed=2),
    "matrix": _case((3, 4), [(0, 1), (1, 0), (2, 3), (1, 2)], seed=3),
    "thin": _case((7, 1, 2), [(3, 0, 0), (0, 0, 1), (5, 0, 1)], seed=4),
    "cube": _case((3, 3, 3), _cells((3, 3, 3))[::3], seed=5),
    "one_hole": _case((3, 3), [(0, 2), (1, 1), (2, 0)], holes=((1, 1),), seed=6),
    "no_bottom": _case((3, 3), [(0, 1), (1, 0), (2, 2)], holes=((0, 0),), seed=7),
    "basis_outside": _case((3, 4), [(0, 1), (2, 3), (1, 1)], holes=((0, 1), (2, 3), (1, 3)), seed=8),
    "dependent": _case((2, 2), [(0, 1), (1, 0), (1, 1)], holes=((0, 0), (0, 1)), seed=9),
    "only_one_cell": _only_one_cell(),
    "empty_basis": _case((2, 3, 2), [], holes=((1, 1, 1),), seed=10),
    "full_basis": _case((2, 3, 2), _cells((2, 3, 2)), seed=11),
    "few_cuts": _case((9, 8, 7), [(4, 0, 0), (0, 0, 3), (4, 6, 3)], holes=((0, 0, 0), (8, 7, 6), (4, 4, 4)), seed=12),
    "weighted": _case((4, 3), [(1, 0), (0, 2), (3, 1)], weighted=True, seed=13),
    "weighted_hole": _case((3, 2, 3), [(1, 0, 0), (0, 1, 2)], holes=((0, 1, 1), (2, 1, 2)), weighted=True, seed=14),
    "order_4": _case((2, 3, 2, 3), [(1, 0, 0, 0), (0, 1, 0, 2), (1, 2, 1, 0), (0, 0, 0, 1)], seed=15),
    "order_5": _case((2, 2, 2, 2, 2), _pairs(5), holes=((1, 1, 1, 1, 1),), seed=16),
    "order_12": _case((2,) * 12, _pairs(12), seed=17),
    "one_body": _case((3, 4, 2), _margins((3, 4, 2), (0,), (1,), (2,)), seed=18),
    "all_pairs": _case((3, 2, 3), _margins((3, 2, 3), (0, 1), (0, 2), (1, 2)), seed=19),
    "chain": _case((2, 3, 2), _margins((2, 3, 2), (0, 1), (1, 2)), seed=20),
    "rows_and_columns": _case((4, 3), _margins((4, 3), (0,), (1,)), holes=((1, 2),), weighted=True, seed=21),
    "zeros": _with_zeros(),
}
SMALL = {name: case for name, case in NAMED.items() if case.X.size <= 100}


def rbm(n_visible: int, n_hidden: int) -> ld.Basis:
    """Make the basis of a restricted Boltzmann machine: an edge from every visible mode to every hidden one."""
    return ld.interactions([(i, n_visible + j) for i in range(n_visible) for j in range(n_hidden)])
