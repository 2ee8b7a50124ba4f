"""`TablesEngine`: a grid that is too large to form, with gaps or without, where each parameter concerns few modes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np

from legendre.core.cells import other_modes
from legendre.core.sums.kernels.slabs import add_level
from legendre.core.sums.zeta import moebius, moebius_adjoint, zeta, zeta_adjoint
from legendre.core.types import FloatArray, IntArray, Modes, frozen
from legendre.data.dask import longest_mode
from legendre.engines.protocol import Engine, Point
from legendre.model.model import Model, Packed
from legendre.model.problem import list_within


@frozen
class TablesEngine(Engine):
    """Sweeps the levels of the longest mode; on each, Q is a product of three matrices.

    The other modes are in three sets, so that a level is a box of A x B x C cells. No cell of B is above 0 in all three
    sets, so ``q[a, b, c] = first[a, b] second[a, c] third[b, c]``, which is summed onto three matrices of the same
    shapes. The sweep goes from the last level to the first, and removes the parameters of a level after it.
    """

    model: Model  # one that is `tabled`
    margins: tuple[FloatArray, ...] = ()  # of the modes at some point, for `apply`

    @cached_property
    def _groups(self) -> tuple[Modes, Modes, Modes]:
        """The modes of the three matrices."""
        others = other_modes([longest_mode(self.model.quotient.shape)], self.model.basis.shape[1])
        i, j = len(others) // 3, 2 * len(others) // 3
        return others[:j], others[:i] + others[j:], others[i:]

    @cached_property
    def _forms(self) -> list[list[int]]:
        """The shapes of the three matrices, with an axis for each mode after one of length 1."""
        return [[1, *(self.model.quotient.shape[k] for k in group)] for group in self._groups]

    @cached_property
    def _batches(self) -> list[list[tuple[int, IntArray, tuple[IntArray, ...]]]]:
        """For each level, the parameters of its cells by matrix: which matrix, their numbers and places in it."""
        cells, mode = self.model.basis, longest_mode(self.model.quotient.shape)
        absent = [other_modes((*group, mode), cells.shape[1]) for group in self._groups]
        keys = 3 * cells[:, mode] + np.argmin([cells[:, modes].any(axis=1) for modes in absent], axis=0)
        order = np.argsort(keys, kind="stable")
        out: list[list[Any]] = [[] for _ in range(self.model.quotient.shape[mode])]
        for rows in np.split(order, np.flatnonzero(np.diff(keys[order])) + 1):
            level, g = divmod(int(keys[rows[0]]), 3)
            out[level].append((g, rows, (0 * rows, *cells[rows][:, self._groups[g]].T)))
        return out

    def _below(self, vector: FloatArray) -> list[FloatArray]:
        """Sum parameters (k,) at or below each cell of the last level, as three matrices."""
        grids = [np.zeros(form) for form in self._forms]
        for batch in self._batches:
            for g, rows, places in batch:
                grids[g][places] += vector[rows]
        return [zeta(grid) for grid in grids]

    def _sweep(self, theta: FloatArray, tilt: FloatArray | None = None) -> tuple[float, float, FloatArray]:
        """Sum q above each cell of B; return the logarithm of what q is divided by, the sum of all q, and these sums.

        With `tilt`, a vector (k,), each q is multiplied by its zeta first.
        """
        model, mode, out, scale = self.model, longest_mode(self.model.quotient.shape), np.zeros(len(theta)), -math.inf
        i = sum(map(len, self._groups[:2])) - len(model.quotient.shape) + 2  # axes of the first set
        a, b, c = map(math.prod, (self._forms[0][:i], self._forms[0][i:], self._forms[1][i:]))
        sizes = (a, b), (a, c), (b, c)
        logs, q = self._below(theta), [np.empty(0)] * 3
        added = [np.ones(sizes[0]), *map(np.zeros, sizes[1:])] if tilt is None else self._below(tilt)
        sums = [np.zeros((a, b)), np.zeros((8, a, c)), np.zeros((b, c))]
        stretches, mask = np.linspace(0, b, 9).astype(np.int64), np.ones((a, b, c), np.bool_)
        changed = {0, 1, 2}
        for level in reversed(range(model.quotient.shape[mode])):
            for g in changed:
                q[g] = np.exp(logs[g] - logs[g].max()).reshape(sizes[g])
            height = sum(float(log.max()) for log in logs)
            if height > scale:  # so that no sum overflows
                for part in (*sums, out):
                    part *= math.exp(scale - height)
                scale = height
            if isinstance(model, Packed):
                mask = model.support.slab(mode, level).reshape(a, b, c)
            weighted = q[0] * math.exp(height - scale), *q[1:]
            plus = (part.reshape(size) for part, size in zip(added, sizes, strict=True))
            add_level(a * b * c, 8, stretches, mask, *weighted, *plus, *sums)
            for g, rows, places in self._batches[level]:
                found = sums[1].sum(axis=0) if g == 1 else sums[g]
                out[rows] = zeta_adjoint(found.reshape(self._forms[g]))[places]
                for matrices, vector in ((logs, theta), *([] if tilt is None else [(added, tilt)])):
                    grid = np.zeros(self._forms[g])
                    grid[places] = vector[rows]
                    matrices[g] -= zeta(grid)
            changed = {g for g, _, _ in self._batches[level]}
        return scale, float(sums[0].sum()), out

    def at(self, theta: FloatArray) -> Point:
        """Compute psi and eta in one sweep."""
        scale, total, sums = self._sweep(theta)
        # where theta is so large that all q are 0, no step is taken
        return Point(theta, sums / total, math.log(total) + scale if total > 0.0 else math.inf, total)

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Multiply G by a vector in one sweep: the sums of ``q (zeta x - E[zeta x])`` above the cells of B."""
        _, mean, sums = self._sweep(point.theta, vector)
        return np.asarray((sums - mean * point.eta) / point.cache)

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        """Fill g with the Fisher matrix by the engine that would be chosen for that; it needs more memory."""
        from legendre.engines.choose import choose_engine

        other = choose_engine(self.model)
        other.fill_fisher(other.at(point.theta), g)

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)`` by the absolute sum."""
        return float(np.abs(vector).sum())

    def preconditioner(self, point: Point, last: Any = None) -> Self:
        """Return this engine with the margins of the modes at a point, which `apply` needs."""
        del last
        margins = []
        for k, n in enumerate(self.model.quotient.merged_shape):
            rows, above = list_within(self.model.positions, (k,)), np.zeros(n)
            above[0], above[self.model.positions[rows, k]] = 1.0, point.eta[rows]
            margins.append(-np.diff(np.maximum.accumulate(above[::-1])[::-1], append=0.0))
        return replace(self, margins=tuple(margins))

    def apply(self, vector: FloatArray) -> FloatArray:
        """Multiply by the inverse of G for independent modes: effects of different sets of modes are not correlated.

        For each set, the change of its margin that `vector` stands for, divided by the product of the modes' margins,
        is reduced to the effect of all its modes: means over each of them are subtracted.
        """
        out = np.zeros(len(vector))
        for modes in self.model.patterns:
            rows, margins = list_within(self.model.positions, modes), [self.margins[k] for k in modes]
            places, q = tuple(self.model.positions[rows][:, modes].T), reduce(np.multiply.outer, margins)
            table = np.zeros(q.shape)
            table[places] = vector[rows]
            effect = np.divide(moebius_adjoint(table), q, out=np.zeros(q.shape), where=q > 0)
            for axis, margin in enumerate(margins):
                effect -= np.expand_dims(np.tensordot(effect, margin, (axis, 0)), axis)
            out[rows] += moebius(effect)[places]
        return out
