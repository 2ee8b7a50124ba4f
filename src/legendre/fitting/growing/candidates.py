"""Which features to add: a short list by cheap scores, then what each gains given the basis and those chosen before it.

Cells are looked for in the field of all of them. Boxes are too many for that: orthants and windows in which P and Q
differ most are improved by ascent.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.growing.state import LEAST_VARIANCE, Features, Moments, State, inverse_deviation

NOTHING = 1e-15  # a gain this small is a rounding error
WINDOWS = 5  # windows of 1/2, 1/4, ... 1/32 of each mode are looked for, one size a round


class Choice(NamedTuple):
    """Features to add, with their rows of the factor."""

    moments: Moments  # of a list that they are on
    listed: IntArray  # their places there
    left: FloatArray  # rows of the factor left of the diagonal block
    lower: FloatArray  # that block
    gain: float  # what they lower KL by, together, to second order


def choose(
    state: State, allowed: BoolArray | None, count: int, price: float, turn: int, idle: int = 0
) -> tuple[State, Choice | None]:
    """Choose up to `count` features that gain more than `price`; ``None`` where there is none.

    They are cells where `allowed` marks some, else boxes, of which other kinds are looked for in every `turn`, and more
    after `idle` ones that found nothing. Where
    only near-duplicates of the basis are left, the factor has to be in float64; returned is the state with that factor.
    """
    price, listed = max(price, NOTHING), max(2 * count, min(2 * count + 256, 512)) << 2 * min(idle, 3)
    if allowed is None:
        found = find_boxes(state, listed, price, turn)
        return state, _choose(state, found, count, price) if len(found) else None
    found = find_cells(state, allowed, listed, price)
    choice = _choose(state, found, count, price) if found.low.size else None
    if choice is None and found.low.size:
        state = state.anchored(double=True) if state.anchor.factor.kind == "f" else state
        every = np.flatnonzero(_field(state, allowed) > 2.0 * price)
        if len(every) <= 1024:
            choice = _choose(state, state.ground.at(every), count, price, new=1e-7)
    return state, choice


def _choose(state: State, found: Features, count: int, price: float, new: float = 1e-3) -> Choice | None:
    """Choose among listed features; one of whose variance the basis leaves no more than `new` is a near-duplicate."""
    listed, slope, left, given = state.condition(found)
    exact = None
    if not state.theta.size:  # the gain of the first parameter is known exactly
        exact = bernoulli_divergence(state.ground.means(state.ground.eta_hat, found), listed.mean)
    best, gains, rows = pick(left, slope, count, price, new, exact)
    even = state.counting() if found.high is not None else None
    while even is not None and not (fresh := independent(even, found.of(best))).all():
        left[best[~fresh], best[~fresh]] = 0.0
        best, gains, rows = pick(left, slope, count, price, new, exact)
    if not len(best):
        return None
    return Choice(listed, best, given[:, best].T, np.tril(rows[:, best].T), float(gains.sum()))


def pick(
    left: FloatArray, gradient: FloatArray, count: int, price: float, new: float, first: FloatArray | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Choose up to `count` candidates of gain above `price`, each given those before it.

    `left` holds covariances, and `gradient` slopes, given the basis and in units of standard deviations. The gain of a
    candidate is ``g^2 / (2 s)``, s being its variance. After a choice u the others keep what is left of them once
    theta_u has moved: with the covariances c, ``g_v -= c_uv g_u / c_uu`` and ``s_v -= c_uv^2 / c_uu``. `first` are the
    exact gains for the first choice, where they are known. Returned are the chosen, their gains, and the rows of a
    Cholesky factor of `left`.
    """
    m, gradient, variance = len(gradient), gradient.copy(), left.diagonal().copy()
    rows, gains = np.empty((min(count, m), m)), np.empty(min(count, m))
    usable = variance > new
    score = np.divide(gradient**2, 2.0 * variance, out=np.zeros(m), where=usable)
    if first is not None:
        score = np.where(usable, first, 0.0)
    places: list[int] = []
    while (done := len(places)) < len(rows):
        best = int(score.argmax())
        if score[best] <= price:
            break
        row = left[best] - rows[:done, best] @ rows[:done]
        row /= np.sqrt(variance[best])
        rows[done], gains[done] = row, score[best]
        gradient -= row * (gradient[best] / np.sqrt(variance[best]))
        variance -= row * row
        places.append(best)
        usable &= variance > new
        usable[best] = False
        score = np.divide(gradient**2, 2.0 * variance, out=np.zeros(m), where=usable)
    return np.array(places, dtype=np.int64), gains[:done], rows[:done]


def independent(even: State, found: Features, new: float = 1e-7) -> BoolArray:
    """Mark the boxes of whose variance the basis and those before them leave more than `new`.

    All cells count alike: where probabilities differ by many powers of ten, correlations are rounding errors, and a box
    that is a sum of others seems to be new.
    """
    left, fresh = even.condition(found)[2], np.zeros(len(found), dtype=np.bool_)
    for i in range(len(found)):
        fresh[i] = left[i, i] > new
        if fresh[i]:
            left -= np.outer(left[i], left[i] / left[i, i])
    return fresh


def _shorten(state: State, found: Features, score: FloatArray, count: int) -> Features:
    """Keep about `count` features by their scores, given the one of the basis that each resembles most."""
    if state.theta.size and len(found) > count:
        room, mean = max(1280, 2 * count), state.ground.means(state.eta, found)
        if len(found) > room:  # by g^2 / sd: nearer to the order to come than g^2 / var is
            some = np.argpartition(score * np.sqrt(mean * (1.0 - mean)), -room)[-room:]
            found, score = found.of(some), score[some]
        basis = state.anchor.moments
        score = score / np.maximum(1.0 - Moments.of(state.ground, basis.eta, found).nearest(basis), 1e-3)
    best = np.argpartition(score, -count)[-count:] if len(found) > count else np.arange(len(found))
    return found.of(np.sort(best))


def find_cells(state: State, allowed: BoolArray, count: int, price: float = 0.0) -> Features:
    """List at most `count` cells by their gain.

    Where there are many, only those that no neighbour exceeds compete, lest the neighbours of a few peaks crowd the
    list.
    """
    field, ground = _field(state, allowed), state.ground
    usable = np.flatnonzero(field > 0.0)
    if not state.theta.size:  # the gain of the first parameter is known exactly
        field[usable] = bernoulli_divergence(ground.eta_hat[usable], state.eta[usable])
        usable = usable[field[usable] > price]
    if len(usable) <= count:
        return ground.at(usable)
    listed = find_peaks(field, ground.shape, compiled=ground.compiled)
    if len(listed) < count:
        listed = np.union1d(listed, usable[np.argpartition(field[usable], -count)[-count:]])
    return _shorten(state, ground.at(listed), field[listed], count)


def _field(state: State, allowed: BoolArray) -> FloatArray:
    """Return ``g^2 / var`` of every candidate; 0 for other cells."""
    score = state.ground.eta_hat - state.eta
    np.square(score, out=score)
    variance = 1.0 - state.eta
    variance *= state.eta
    np.putmask(variance, (variance <= LEAST_VARIANCE) | ~allowed, np.inf)
    variance[state.features.places] = np.inf
    score /= variance
    return score


def find_peaks(field: FloatArray, shape: tuple[int, ...], *, compiled: bool = False) -> IntArray:
    """List the cells whose value, above 0, no neighbour along a mode exceeds; of equal neighbours the first.

    >>> find_peaks(np.array([0.0, 2.0, 2.0, 1.0, 3.0]), (5,)).tolist()
    [1, 4]
    """
    peak = field > 0.0
    if compiled or field.size > limits.NUMPY_CELLS:
        from legendre.core.sums.kernels.growing import mark_peaks

        mark_peaks(field, np.array(shape, dtype=np.int64), peak.view(np.uint8))
        return np.flatnonzero(peak)
    grid, marked = field.reshape(shape), peak.reshape(shape)
    for axis in range(len(shape)):
        high, low = np.moveaxis(grid, axis, 0), np.moveaxis(marked, axis, 0)
        rises = high[1:] > high[:-1]
        low[1:] &= rises
        low[:-1] &= ~rises
    return np.flatnonzero(peak)


def bernoulli_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """KL between coins with means p and q: the exact gain of one parameter; 0 where the model's coin is certain."""
    from scipy.special import rel_entr

    usable = (q > 0) & (q < 1)
    p, q = np.where(usable, p, 0.5), np.where(usable, q, 0.5)
    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))


def find_boxes(state: State, count: int, price: float, turn: int, longest: int = 256) -> Features:
    """List about `count` boxes: peaks among orthants and windows, and where ascent from the best of them leads.

    Where each must gain a price, boxes with none or all of the data are left out: no sample shows that an event is
    impossible. Modes of more than `longest` levels have one end of an interval moved at a time.
    """
    from legendre.core.sums.kernels.growing import ascend

    ground, half = state.ground, max(count // 2, 400)
    orthants, windows = _orthants(state, turn), _windows(state, turn)
    found = orthants[0].of(np.argsort(-orthants[1])[:half]).joined(windows[0].of(np.argsort(-windows[1])[:half]))
    assert found.high is not None
    low, high, ends = found.low.copy(), found.high.copy(), ground.ends
    work = len(found) * int((np.minimum(ends, longest) ** 2).sum())
    running = ground.eta_hat, state.eta, ground.strides, ends
    ascend(work, len(found), *running, low, high, 2, LEAST_VARIANCE, longest)
    found = _unknown(state.features, Features(low, high).joined(found))
    p, q = ground.means(ground.eta_hat, found), ground.means(state.eta, found)
    gains = ((p - q) * inverse_deviation(q)) ** 2
    usable = (gains > 0) & ((inverse_deviation(p) > 0) | (price <= NOTHING))
    return _shorten(state, found.of(usable), gains[usable], count)


def _unknown(known: Features, found: Features) -> Features:
    """Drop boxes that are there twice, or that are known."""
    rows = np.concatenate([np.vstack([some.low, some.high]).T for some in (known, found)])  # type: ignore[list-item]
    _, first = np.unique(rows, axis=0, return_index=True)
    return found.of(np.sort(first[first >= len(known)]) - len(known))


def _orthants(state: State, turn: int, together: int = 4) -> tuple[Features, FloatArray]:
    """Find the orthants whose gain is a peak along every mode, of some orientations `together`, the next ones later."""
    ground, every = state.ground, list(product((True, False), repeat=len(state.ground.shape)))
    lows, highs, gains = [], [], []
    for i in range(min(together, len(every))):
        up = np.array(every[(turn * together + i) % len(every)])
        p, q = (_orthant_sums(sums.reshape(ground.shape), up) for sums in (ground.eta_hat, state.eta))
        gain, corner = _gain_peaks(p, q)
        # a downward orthant ends behind its corner, so that all of the mode is among both kinds
        lows.append(np.where(up, corner, 0))
        highs.append(np.where(up, ground.ends, corner + 1))
        gains.append(gain)
    return ground.boxes(np.concatenate(lows), np.concatenate(highs)), np.concatenate(gains)


def _orthant_sums(sums: FloatArray, up: BoolArray) -> FloatArray:
    """Sum over the orthant at each cell, from suffix sums with a border: upward, or up to the cell."""
    for axis, upward in enumerate(up.tolist()):
        rows = np.moveaxis(sums, axis, 0)
        sums = np.moveaxis(rows[:-1] if upward else rows[:1] - rows[1:], 0, axis)
    return sums


def _windows(state: State, turn: int) -> tuple[Features, FloatArray]:
    """Find the windows of one size whose gain is a peak along every mode; the next size in the next turn."""
    ground, sides = state.ground, np.maximum(state.ground.ends >> (1 + turn % WINDOWS), 1)
    both = []
    for sums in (ground.eta_hat.reshape(ground.shape), state.eta.reshape(ground.shape)):
        for axis, side in enumerate(sides.tolist()):
            rows = np.moveaxis(sums, axis, 0)
            sums = np.moveaxis(rows[:-side] - rows[side:], 0, axis)
        both.append(sums)
    field, corner = _gain_peaks(*both)
    return ground.boxes(corner, corner + sides), field


def _gain_peaks(p: FloatArray, q: FloatArray) -> tuple[FloatArray, IntArray]:
    """Find where the gain of boxes with these sums is a peak: the gains, and the cells."""
    variance = q * (1.0 - q)
    field = np.divide((p - q) ** 2, variance, out=np.zeros(q.shape), where=variance > LEAST_VARIANCE).ravel()
    chosen = find_peaks(field, q.shape, compiled=True)
    return field[chosen], np.stack(np.unravel_index(chosen, q.shape), axis=1).astype(np.int64)
