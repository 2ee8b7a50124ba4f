"""A full grid swept slab by slab: psi, eta and the Fisher matrix in the memory of a few slabs.

A *slab* is the grid of all modes but the longest, held as a matrix: a *line* of it runs along its last mode. The sweep
goes from the last slab to the first. A cell of B changes q only at or above it, so its parameter is undone where the
sweep reaches its level, by a multiplication, where a formed grid would need an exponential for every cell. On 300^3
cells with 300 parameters this is eight times as fast as forming the merged grid, in a third of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from legendre.core.compiled import U, compiled, inner
from legendre.core.sums.zeta import zeta
from legendre.core.types import FloatArray, IntArray


class SlabPlan(NamedTuple):
    """Everything about a grid and B that does not change with theta. Parameters are in the order of `order`."""

    order: IntArray  # (k,) the rows of B, sorted along the longest mode
    places: IntArray  # (k, D) where they stand in their slab
    scaled: IntArray  # (D, k) these places times strides: the offset in the slab is their sum, that of joins of maxima
    lines: IntArray  # (lines, D - 1) where the lines stand, times strides
    following: IntArray  # (lines, D - 1) the next line along each mode; that after the last has zeros
    first: IntArray  # (slabs + 1,) the first parameter of each slab
    tails: FloatArray  # (slabs + 1,) summed lengths of each slab and all above
    weights: FloatArray  # how many cells each box of a slab holds

    def last_slab(self, theta: FloatArray) -> FloatArray:
        """Sum the parameters at or below each cell of the last slab: log q without psi and weights."""
        slab = np.bincount(self.scaled.sum(axis=0), theta, minlength=self.weights.size).astype(np.float64)
        return zeta(slab.reshape(self.weights.shape))

    def log_range(self, theta: FloatArray) -> float:
        """Return the range of the sums of parameters over all cells."""
        slab = self.last_slab(theta)
        low, high = slab.min(), slab.max()
        first, above = self.first.tolist(), [tuple(slice(u, None) for u in place) for place in self.places.tolist()]
        filled = np.flatnonzero(np.diff(self.first))[::-1]  # slabs with parameters, the last one first
        corners = np.minimum.reduceat(self.places, self.first[filled[::-1]])[::-1]
        for j, corner in zip(filled.tolist(), corners.tolist(), strict=True):
            for u in range(first[j], first[j + 1]):
                slab[above[u]] -= theta[u]
            changed = slab[tuple(slice(u, None) for u in corner)]  # nothing changes below the meet of these cells
            low, high = min(low, changed.min()), max(high, changed.max())
        return float(high - low)


def plan_slabs(lengths: Sequence[FloatArray], positions: IntArray) -> SlabPlan:
    """Prepare sweeps along the longest mode.

    ``lengths[d]`` holds the length of each interval of mode d, `positions` (k x N) the boxes of the cells of B.
    """
    mode = int(np.argmax([len(n) for n in lengths]))
    order = np.argsort(positions[:, mode], kind="stable")
    first = np.searchsorted(positions[order, mode], np.arange(len(lengths[mode]) + 1))
    tails = np.append(np.cumsum(lengths[mode][::-1])[::-1], 0.0)
    missing = max(0, 3 - len(lengths))  # a slab has at least two modes: those that are added have one box
    sides = [np.ones(1)] * missing + [n for d, n in enumerate(lengths) if d != mode]
    places = np.hstack([np.zeros((len(order), missing), np.int64), np.delete(positions[order], mode, axis=1)])
    weights = reduce(np.multiply.outer, sides)
    strides = np.array(weights.strides) // weights.itemsize
    at = np.indices(weights.shape[:-1]).reshape(weights.ndim - 1, -1).T
    following = np.arange(len(at))[:, None] + strides[:-1] // strides[-2:-1]
    following[at + 1 == weights.shape[:-1]] = len(at)
    scaled = np.ascontiguousarray((places * strides).T)
    return SlabPlan(order, places, scaled, at * strides[:-1], following, first, tails, weights)


@inner
def _reaches(line, corner):
    """Whether a line holds cells at or above a corner."""
    below = 0
    for d in range(len(line)):
        below += line[d] < corner[d]
    return below == 0


@compiled
def _sweep(scaled, lines, following, first, tails, factors, state, mass, mark, eta, gram):
    """Undo theta from the last slab to the first; read eta, and with a gram matrix its lower triangle, on the way.

    `state` is q of the slab at hand. ``mass[c]`` holds q summed over the slabs above ``mark[c]`` (a tail length):
    between two changes q is constant along the sweep, so a cell is visited only when it changes.
    """
    width, modes = U(state.shape[1]), len(scaled)
    sums = np.zeros((len(state) + 1, state.shape[1]))
    flat, joins, corner = sums.ravel(), np.empty(len(eta), np.uintp), np.empty(modes, np.int64)
    for j in range(len(first) - 2, -1, -1):
        begin, end = first[j], first[j + 1]
        if begin == end:
            continue
        for d in range(modes):  # nothing below this corner changes, nor is asked for
            corner[d] = scaled[d, begin:end].min()
        left = U(corner[-1])
        for r in range(len(lines) - 1, -1, -1):
            if not _reaches(lines[r], corner):
                continue
            for c in range(left, width):
                mass[r, c] += state[r, c] * (tails[j] - mark[r, c])
                mark[r, c] = tails[j]
            for u in range(begin, end):
                if _reaches(lines[r], scaled[:, u]):
                    for c in range(U(scaled[-1, u]), width):
                        state[r, c] *= factors[u]
            beside = sums[following[r, -1]]
            for c in range(left, width):
                sums[r, c] = mass[r, c] + beside[c]
        for d in range(modes - 2):
            for r in range(len(lines) - 1, -1, -1):
                if _reaches(lines[r], corner):
                    for c in range(left, width):
                        sums[r, c] += sums[following[r, d], c]
        for r in range(len(lines) if len(gram) else 0):  # along lines last, as that cannot run in vectors
            if _reaches(lines[r], corner):
                total = 0.0
                for right in range(width - left):
                    c = width - U(1) - right
                    total += sums[r, c]
                    sums[r, c] = total
        for u in range(begin, end):
            place = U(scaled[:, u].sum())
            eta[u] = flat[place] if len(gram) else flat[place : place + width - U(scaled[-1, u])].sum()
            if len(gram):
                for v in range(u + 1):
                    joins[v] = 0
                for d in range(modes):
                    for v in range(u + 1):  # a loop of its own runs in vectors
                        joins[v] += U(max(scaled[d, u], scaled[d, v]))
                for v in range(u + 1):
                    gram[u, v] = flat[joins[v]]


def evaluate(plan: SlabPlan, theta: FloatArray, gram: FloatArray | None = None) -> tuple[float, FloatArray] | None:
    """Compute psi and eta on B, both for theta in plan order; with `gram` (k x k), also the Fisher matrix.

    ``None`` where q is too wide for products: every parameter is undone in the end, so that the weights are left if
    nothing was lost on the way to overflow or underflow.
    """
    weights = plan.weights.reshape(len(plan.lines), -1)
    mass, mark, eta = np.zeros(weights.shape), np.zeros(weights.shape), np.empty(len(theta))
    joins = np.empty((0, 0)) if gram is None else gram
    with np.errstate(all="ignore"):
        state = weights * np.exp(plan.last_slab(theta)).reshape(weights.shape)
        _sweep(*plan[2:7], np.exp(-theta), state, mass, mark, eta, joins)
        total = float((mass + state * (plan.tails[0] - mark)).sum())
        if not (math.isfinite(total) and (np.abs(state - weights) <= 1e-11 * weights).all()):
            return None
    eta /= total
    for u, row in enumerate(joins):
        own = row[: u + 1]
        own /= total
        own -= eta[u] * eta[: u + 1]
        joins[:u, u] = own[:u]
    return math.log(total), eta
