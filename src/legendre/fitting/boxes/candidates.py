"""Boxes that may be worth a parameter: orthants and windows in which P and Q differ most, improved by ascent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.boxes.factor import BoxFactor, inverse_deviation
from legendre.fitting.boxes.observed_sums import SMALLEST, BoxList, Ground

ORIENTATIONS = 4  # orthants of so many orientations are looked for in a round, in turn
SIZES = 5  # windows of 1/2, 1/4, ... 1/32 of each mode are looked for, one size a round, in turn
PASSES = 2  # of coordinate ascent over all modes
ASCENTS = 800  # boxes at least that are improved by ascent in a round
PAIRS = 1_000_000  # pairs of a candidate and a box whose correlation is looked at in a round, roughly
NEW = 1e-3  # share of a box's variance that must be left, given the others


def candidates(ground: Ground, model_sums: FloatArray, factor: BoxFactor, count: int, turn: int) -> BoxList:
    """List about `count` boxes that would gain most, by the exact gain alone and the nearest box of the basis."""
    half = max(count // 2, ASCENTS // 2)
    kinds = _orthants(ground, model_sums, turn), _windows(ground, model_sums, turn)
    seeds = _together([boxes.of(np.argsort(-gains, kind="stable")[:half]) for boxes, gains in kinds])
    found = _different(_ascended(ground, model_sums, seeds).joined(seeds), factor.boxes)
    q = ground.sums(model_sums, found)
    gap, scale = ground.sums(ground.data_sums, found) - q, inverse_deviation(q)
    score = (gap * scale) ** 2
    most = max(PAIRS // max(len(factor.boxes), 1), 2 * count)
    if len(found) > most:
        kept = np.sort(np.argsort(-score, kind="stable")[:most])
        found, score = found.of(kept), score[kept]
    eta = ground.sums(factor.anchor, found)
    score = score / np.maximum(1.0 - factor.nearest(found, eta, inverse_deviation(eta)), NEW)
    kept = np.sort(np.argsort(-score, kind="stable")[:count])
    return found.of(kept[score[kept] > 0])


def _orthants(ground: Ground, model_sums: FloatArray, turn: int) -> tuple[BoxList, FloatArray]:
    """Find the orthants, of every orientation, whose gain is a peak along every mode."""
    from legendre.core.sums.kernels.boxes import orthant_gains

    shape, boxes, gains = ground.shape, [], []
    size, running = ground.p.size, (ground.data_sums.ravel(), model_sums.ravel())
    rows = shape[0] if len(shape) > 1 else 1
    table = np.empty((rows, size // rows))
    for upward in orientations(len(shape), turn):
        up, field = np.array(upward), table.ravel()
        orthant_gains(
            size << (len(shape) + 1), len(table), *running, ground.strides, np.array(shape), up, SMALLEST, table
        )
        chosen, corner = _peaks(field, shape)
        # a downward orthant ends before corner + 1, so that all of the mode is among both kinds
        boxes.append(BoxList(np.where(up, corner, 0), np.where(up, shape, corner + 1)))
        gains.append(field[chosen])
    return _together(boxes), np.concatenate(gains)


def _windows(ground: Ground, model_sums: FloatArray, turn: int) -> tuple[BoxList, FloatArray]:
    """Find the windows of one size whose gain is a peak along every mode; the next size in the next turn."""
    sides = np.maximum(np.array(ground.shape) >> (1 + turn % SIZES), 1)
    p, q = (_window_sums(sums, sides) for sums in (ground.data_sums, model_sums))
    variance = q * (1.0 - q)
    field = np.divide((p - q) ** 2, variance, out=np.zeros_like(q), where=variance > SMALLEST).ravel()
    chosen, corner = _peaks(field, q.shape)
    return BoxList(corner, corner + sides), field[chosen]


def _window_sums(sums: FloatArray, sides: IntArray) -> FloatArray:
    """Sum over the window that starts at each cell where it fits."""
    out = sums
    for axis, side in enumerate(sides.tolist()):
        n = out.shape[axis]
        out = out.take(range(side, n), axis=axis) - out.take(range(n - side), axis=axis)
    return np.ascontiguousarray(out)


def _peaks(field: FloatArray, shape: tuple[int, ...]) -> tuple[IntArray, IntArray]:
    """Find the positive entries of a grid that no neighbour along a mode exceeds: their places, and their cells."""
    from legendre.core.sums.kernels.boxes import peaks

    mark, before = field > 0, 1
    for n in shape:
        if n > 1:
            peaks(field.size, before, field, n, field.size // (before * n), mark)
        before *= n
    chosen = np.flatnonzero(mark)
    return chosen, np.stack(np.unravel_index(chosen, shape), axis=1).astype(np.int64)


def _together(parts: list[BoxList]) -> BoxList:
    return BoxList(np.concatenate([part.lo for part in parts]), np.concatenate([part.hi for part in parts]))


def orientations(order: int, turn: int) -> list[tuple[bool, ...]]:
    """List some orientations of orthants, of each mode upward or not; the next ones in the next turn.

    >>> orientations(2, 0), [upward[0] for upward in orientations(5, 3)]
    ([(True, True), (True, False), (False, True), (False, False)], [True, True, True, True])
    """
    every = list(product((True, False), repeat=order))
    return [every[(turn * ORIENTATIONS + i) % len(every)] for i in range(min(ORIENTATIONS, len(every)))]


def _ascended(ground: Ground, model_sums: FloatArray, seeds: BoxList) -> BoxList:
    """Move the ends of boxes to where they gain most."""
    from legendre.core.sums.kernels.boxes import ascend

    lo, hi, shape = seeds.lo.copy(), seeds.hi.copy(), np.array(ground.shape)
    work = len(seeds) * int((np.minimum(shape, limits.LONG_ASCENT) ** 2).sum())
    running = ground.data_sums.ravel(), model_sums.ravel()
    ascend(work, len(lo), *running, ground.strides, shape, lo, hi, PASSES, SMALLEST, limits.LONG_ASCENT)
    return BoxList(lo, hi)


def _different(boxes: BoxList, known: BoxList) -> BoxList:
    """Drop boxes that are there twice, that are known, or that are the whole grid."""
    rows = np.ascontiguousarray(np.concatenate([known.rows, boxes.rows]))
    _, first = np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(), return_index=True)
    fresh = np.sort(first[first >= len(known)]) - len(known)
    return boxes.of(fresh)


def choose(
    schur: FloatArray, gap: FloatArray, count: int, least: float = 0.0, adds: Callable[[int], bool] | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Choose boxes one by one, each by its gain ``g^2 / (2 s)`` given those before it.

    Parameters
    ----------
    schur
        The covariances of the candidates given the basis, in units of their variances, m x m.
    gap
        How far their means are from the data's, given the basis, in units of their deviations.
    count
        How many to choose at most.
    least
        What each must gain.
    adds
        Whether a candidate is no sum of the basis and those chosen before it; takes it into account if so.

    Returns
    -------
    chosen, gains, rows
        Their places; what each gains; and their rows of the Cholesky factor of the Schur complement, count x m.
    """
    m = len(gap)
    left, gap = np.diagonal(schur).copy(), gap.copy()
    rows = np.zeros((min(count, m), m))
    chosen: list[int] = []
    gains: list[float] = []
    open_: BoolArray = left > NEW
    while (c := len(chosen)) < len(rows):
        value = np.where(open_ & (left > NEW), gap**2 / (2.0 * np.maximum(left, NEW)), -1.0)
        best = int(value.argmax())
        if value[best] <= least:
            break
        open_[best] = False
        if adds is not None and not adds(best):
            continue
        row = (schur[best] - rows[:c, best] @ rows[:c]) / np.sqrt(left[best])
        gap -= row * (gap[best] / np.sqrt(left[best]))
        left -= row**2
        rows[c] = row
        chosen.append(best)
        gains.append(float(value[best]))
    done = len(chosen)
    return np.array(chosen, dtype=np.int64), np.array(gains), rows[:done]
