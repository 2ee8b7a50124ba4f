"""Which features to add: a short list by cheap scores, then what each gains given the basis and those chosen before it.

Cells are looked for in the field of all of them. Boxes are too many for that: windows in which P and Q differ most are
improved by ascent.
"""

from __future__ import annotations

import numpy as np

from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.growing.state import LEAST_VARIANCE, ROUGH, Features, State, inverse_deviation

NOTHING = 1e-15  # a gain this small is a rounding error
WINDOWS = 5  # windows of 1/2, 1/4, ... 1/32 of each mode are looked for, one size a round


def add_cells(state: State, allowed: BoolArray, count: int, price: float) -> State | None:
    """Add up to `count` allowed cells that gain more than `price`, and fit roughly; ``None`` where there is none.

    Where only near-duplicates of the basis are left, the factor has to be in float64 to tell what they gain.
    """
    price, field = max(price, NOTHING), _score_cells(state, allowed)
    larger = _add_best(state, find_cells(state, field, _list_length(count)), count, price)
    if larger is None and len(every := np.flatnonzero(field > 2.0 * price)) <= 1024:
        state = state.with_factor(double=True)
        larger = _add_best(state, state.grid.cell_features(every), count, price, new=1e-7)
    return larger


def add_boxes(state: State, count: int, price: float, turn: int) -> State | None:
    """Add up to `count` boxes that gain more than `price`, and fit roughly; ``None`` where there is none.

    Other sizes are looked for in every `turn`. Where nothing is found, the fit is refined, because the
    residual of a rough fit may hide smaller gains, and longer lists of the next sizes are tried.
    """
    price = max(price, NOTHING)
    for idle in range(WINDOWS):
        found = find_boxes(state, _list_length(count) << 2 * min(idle, 3), price, turn + idle)
        if (larger := _add_best(state, found, count, price)) is not None:
            return larger
        state = state.settle(NOTHING)
    return None


def _list_length(count: int) -> int:
    """Return how many features to compare for a round that adds `count`: the covariances of all pairs take the time."""
    return max(2 * count, min(2 * count + 256, 384))


def _add_best(state: State, found: Features, count: int, price: float, new: float = 1e-3) -> State | None:
    """Add up to `count` of listed features, those that gain most, and fit roughly; ``None`` if none gains `price`.

    A feature of whose variance the basis explains all but a share of `new` is a near-duplicate, and is not added.
    """
    listed, slope, left, given = state.condition(found)
    exact = None
    if not state.theta.size:  # the gain of the first parameter is known exactly
        exact = bernoulli_divergence(state.grid.means(state.grid.eta_hat, found), listed.mean)
    best, gains, rows = pick(left, slope, count, price, new, exact)
    even = state.under_uniform() if found.high is not None else None
    while even is not None and not (fresh := mark_independent(even, found.take(best))).all():
        left[best[~fresh], best[~fresh]] = 0.0
        best, gains, rows = pick(left, slope, count, price, new, exact)
    if not len(best):
        return None
    return state.extend(listed, best, given[:, best].T, np.tril(rows[:, best].T), ROUGH * float(gains.sum()))


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
    m, gradient, variance = len(gradient), gradient.copy(), left.diagonal().astype(np.float64)
    rows, gains = np.empty((min(count, m), m), left.dtype), np.empty(min(count, m))
    variance[variance <= new] = np.inf  # not to be chosen
    score = gradient**2 / (2.0 * variance) if first is None else np.where(variance < np.inf, first, 0.0)
    places: list[int] = []
    while (done := len(places)) < len(rows):
        best = int(score.argmax())
        if score[best] <= price:
            break
        deviation = np.sqrt(variance[best])
        row = (left[best] - rows[:done, best] @ rows[:done]) / deviation
        rows[done], gains[done] = row, score[best]
        gradient -= row * (gradient[best] / deviation)
        variance -= row * row
        variance[best] = 0.0
        variance[variance <= new] = np.inf
        score = gradient**2 / (2.0 * variance)
        places.append(best)
    return np.array(places, dtype=np.int64), gains[:done], rows[:done]


def mark_independent(even: State, found: Features, new: float = 1e-7) -> BoolArray:
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


def _shortlist(state: State, found: Features, score: FloatArray, count: int) -> Features:
    """Keep about `count` features by their scores, given the one of the basis that each resembles most."""
    if len(score) <= count:
        return found
    if state.theta.size:
        room = max(1536, 4 * count)
        if len(score) > room:  # by g^2 / sd: nearer to the order to come than g^2 / var is
            mean = state.grid.means(state.eta, found)
            some = np.argpartition(score * np.sqrt(mean * (1.0 - mean)), -room)[-room:]
            found, score = found.take(some), score[some]
        score = score / np.maximum(1.0 - state.max_squared_correlation(found), 1e-3)
    return found.take(np.sort(np.argpartition(score, -count)[-count:]))


def find_cells(state: State, field: FloatArray, count: int) -> Features:
    """List at most `count` cells by their gain.

    Where there are many, only those that no neighbour exceeds compete, lest the neighbours of a few peaks crowd the
    list.
    """
    usable = np.flatnonzero(field > 0.0)
    if len(usable) > count:
        peaks = find_peaks(field, state.grid.shape)
        few = len(peaks) < count
        usable = np.union1d(peaks, usable[np.argpartition(field[usable], -count)[-count:]]) if few else peaks
    return _shortlist(state, state.grid.cell_features(usable), field[usable], count)


def _score_cells(state: State, allowed: BoolArray) -> FloatArray:
    """Return ``g^2 / var`` of every candidate; 0 for other cells."""
    score = state.grid.eta_hat - state.eta
    np.square(score, out=score)
    variance = 1.0 - state.eta
    variance *= state.eta
    np.putmask(variance, (variance <= LEAST_VARIANCE) | ~allowed, np.inf)
    variance[state.features.places] = np.inf
    score /= variance
    return score


def find_peaks(field: FloatArray, shape: tuple[int, ...]) -> IntArray:
    """List the cells whose value, above 0, no neighbour along a mode exceeds; of equal neighbours the first.

    >>> find_peaks(np.array([0.0, 2.0, 2.0, 1.0, 3.0]), (5,)).tolist()
    [1, 4]
    """
    peak = field > 0.0
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
    """List about `count` boxes: windows of two sizes, and where ascent from the best of them leads.

    Where each must gain a price, boxes with none or all of the data are left out: no sample shows that an event is
    impossible. Modes of more than `longest` levels have one end of an interval moved at a time.
    """
    from legendre.core.sums.kernels.growing import ascend

    grid, half = state.grid, max(count // 2, 400)
    found = _find_windows(state, turn, half).concatenate(_find_windows(state, turn + 2, half))
    assert found.high is not None
    low, high, ends = found.low.copy(), found.high.copy(), grid.ends
    work = len(found) * int((np.minimum(ends, longest) ** 2).sum())
    running = grid.eta_hat, state.eta, grid.strides, ends
    ascend(work, len(found), *running, low, high, 2, LEAST_VARIANCE, longest)
    found = _drop_known(state.features, Features(low, high).concatenate(found))
    p, q = grid.means(grid.eta_hat, found), grid.means(state.eta, found)
    gains = ((p - q) * inverse_deviation(q)) ** 2
    usable = (gains > 0) & ((inverse_deviation(p) > 0) | (price <= NOTHING))
    return _shortlist(state, found.take(usable), gains[usable], count)


def _drop_known(known: Features, found: Features) -> Features:
    """Return the boxes that were found, each once, without those that are known."""
    rows = np.concatenate([np.vstack([some.low, some.high]).T for some in (known, found)])  # type: ignore[list-item]
    _, first = np.unique(rows, axis=0, return_index=True)
    return found.take(np.sort(first[first >= len(known)]) - len(known))


def _find_windows(state: State, turn: int, count: int) -> Features:
    """Find up to `count` windows of one size whose gain is a peak along every mode; the next size in the next turn."""
    grid, sides = state.grid, np.maximum(state.grid.ends >> (1 + turn % WINDOWS), 1)
    p, q = grid.eta_hat.reshape(grid.shape), state.eta.reshape(grid.shape)
    for axis, side in enumerate(sides.tolist()):
        near, far = ((slice(None),) * axis + (some,) for some in (slice(-side), slice(side, None)))
        p, q = p[near] - p[far], q[near] - q[far]
    gain = (((p - q) * inverse_deviation(q)) ** 2).ravel()
    peaks = find_peaks(gain, q.shape)
    peaks = peaks[np.argsort(-gain[peaks])[:count]]
    corner = np.stack(np.unravel_index(peaks, q.shape), axis=1).astype(np.int64)
    return grid.box_features(corner, corner + sides)
