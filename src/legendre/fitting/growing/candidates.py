"""Which features to add: a short list by cheap scores, then what each gains given the basis and those chosen before it.

With g the gradient ``eta_hat - eta`` of a feature and s its variance under Q, ``g^2 / (2 s)`` is how much KL falls, to
second order, if its parameter alone is fitted. This cheap score, without the 1/2, makes the short list. If s is instead
the variance that the basis leaves unexplained, the formula counts that all other parameters are fitted again; that
decides (`pick`).

Every cell is scored. Boxes are too many for that: windows in which P and Q differ most are improved by ascent.
"""

from __future__ import annotations

import numpy as np

from legendre.core.types import BoolArray, FloatArray, IntArray, Shape
from legendre.fitting.growing.state import LEAST_VARIANCE, ROUGH, Features, State, inverse_deviation

NOTHING = 1e-15  # a gain in KL (nats) as small as this is a rounding error
WINDOWS = 5  # the number of window sizes: 1/2, 1/4, ... 1/32 of each mode


def add_cells(state: State, allowed: BoolArray, count: int, price: float) -> State | None:
    """Add up to `count` cells that gain more than `price` each, and fit roughly; ``None`` if there is no such cell.

    `allowed` is True for the candidates, over the flat grid. If no cell of the short list pays, all cells whose
    parameter alone would pay are tried, if they are at most 1024. They may be near-duplicates of the basis, so the
    factor has to be in float64 to tell what they gain.
    """
    price, scores = max(price, NOTHING), _score_cells(state, allowed)
    larger = _add_best(state, find_cells(state, scores, _list_length(count)), count, price)
    if larger is None and len(every := np.flatnonzero(scores > 2.0 * price)) <= 1024:
        state = state.with_factor(double=True)
        larger = _add_best(state, state.grid.cell_features(every), count, price, new=1e-7)
    return larger


def add_boxes(state: State, count: int, price: float, turn: int) -> State | None:
    """Add up to `count` boxes that gain more than `price` each, and fit roughly; ``None`` if none is found.

    The search starts from windows of one size, another one in each `turn`, the number of the round. If nothing is
    found, the fit is refined, because the residual of a rough fit may hide smaller gains, and the next sizes are tried
    with lists 4, 16 and 64 times as long.
    """
    price = max(price, NOTHING)
    for idle in range(WINDOWS):
        found = find_boxes(state, _list_length(count) << 2 * min(idle, 3), price, turn + idle)
        if (larger := _add_best(state, found, count, price)) is not None:
            return larger
        state = state.settle(NOTHING)
    return None


def _list_length(count: int) -> int:
    """Return how many features to compare in a round that adds `count`.

    It is 256 more than twice `count`, but not more than 384, unless 2.25 times `count` is. The covariances of all pairs
    of these features are what takes the time of a round.
    """
    return max(9 * count // 4, min(2 * count + 256, 384))


def _add_best(state: State, found: Features, count: int, price: float, new: float = 1e-3) -> State | None:
    """Add up to `count` of the features found, those that gain most, and fit roughly; ``None`` if none gains `price`.

    A feature is a near-duplicate, and is not added, if the basis leaves no more than a share `new` of its variance
    unexplained. Boxes are also checked for exact linear dependence, which rounding may hide from that test.
    """
    listed, slope, left, given = state.regress_on_basis(found)
    exact = None
    if not state.theta.size:  # without other parameters the gain has a closed form
        exact = bernoulli_divergence(state.grid.means(state.grid.eta_hat, found), listed.mean)
    best, gains, rows = pick(left, slope, count, price, new, exact)
    uniform = state.under_uniform() if found.high is not None else None
    while uniform is not None and not (new_ones := mark_independent(uniform, found.take(best))).all():
        left[best[~new_ones], best[~new_ones]] = 0.0  # a variance of 0 is never picked
        best, gains, rows = pick(left, slope, count, price, new, exact)
    if not len(best):
        return None
    return state.extend(listed, best, given[:, best].T, np.tril(rows[:, best].T), ROUGH * float(gains.sum()))


def pick(
    left: FloatArray, gradient: FloatArray, count: int, price: float, new: float, first: FloatArray | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Choose greedily up to `count` of m candidates, each of the largest gain given those before it, above `price`.

    `left` (m x m) and `gradient` (m,) are covariances and gradients given the basis, in units of standard deviations,
    from `State.regress_on_basis`. The gain of a candidate v is ``g_v^2 / (2 s_v)``, with s its variance. After a choice
    u, the others keep what is left once theta_u has moved: ``g_v -= c_uv g_u / c_uu`` and ``s_v -= c_uv^2 / c_uu``,
    with c the covariances. A candidate with ``s_v <= new`` is a near-duplicate and is not chosen. `first` has exact
    gains for the first choice, if they are known.

    Returned are the positions of the chosen, in order; their gains; and their rows of a pivoted Cholesky factor of
    `left` (chosen x m), which extend the factor of the basis.
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
        # a step of Cholesky: the covariances with `best`, without what the choices before explain
        row = (left[best] - rows[:done, best] @ rows[:done]) / deviation
        rows[done], gains[done] = row, score[best]
        gradient -= row * (gradient[best] / deviation)
        variance -= row * row
        variance[best] = 0.0
        variance[variance <= new] = np.inf
        score = gradient**2 / (2.0 * variance)
        places.append(best)
    return np.array(places, dtype=np.int64), gains[:done], rows[:done]


def mark_independent(uniform: State, found: Features, new: float = 1e-7) -> BoolArray:
    """Mark the boxes that are linearly independent of the basis and of the boxes before them, (len(found),).

    That is, of their variance under the uniform distribution (`State.under_uniform`) more than a share `new` is left.
    Under Q, where probabilities may differ by many powers of ten, covariances can be rounding errors, and a box that is
    a sum of others would seem to be new.
    """
    left, marks = uniform.regress_on_basis(found)[2], np.zeros(len(found), dtype=np.bool_)
    for i in range(len(found)):
        marks[i] = left[i, i] > new
        if marks[i]:  # take its part out of those after it
            left -= np.outer(left[i], left[i] / left[i, i])
    return marks


def _shortlist(state: State, found: Features, score: FloatArray, count: int) -> Features:
    """Keep the `count` features whose scores are best, once each score allows for the basis.

    `score` is ``g^2 / s`` of each feature. It is divided by the share of the variance s that the feature of the basis
    with the largest correlation leaves, a cheap stand-in for what all of the basis leaves. The share counts as at least
    0.001: with less, a feature is a near-duplicate (`new` of `_add_best`).
    """
    if len(score) <= count:
        return found
    if state.theta.size:
        # correlations are computed for at most `room` features. A first cut keeps the best by g^2 / sqrt(s), whose
        # order is nearer to the final one than that of the score
        room = max(1536, 2 * count)
        if len(score) > room:
            mean = state.grid.means(state.eta, found)
            some = np.argpartition(score * np.sqrt(mean * (1.0 - mean)), -room)[-room:]
            found, score = found.take(some), score[some]
        score = score / np.maximum(1.0 - state.max_squared_correlation(found), 1e-3)
    return found.take(np.sort(np.argpartition(score, -count)[-count:]))


def find_cells(state: State, scores: FloatArray, count: int) -> Features:
    """List at most `count` cells with good scores (`_score_cells`).

    If more cells have a score, only peaks compete, because the neighbours of a few high peaks would fill the list. If
    there are fewer than `count` peaks, the cells with the highest scores compete too.
    """
    usable = np.flatnonzero(scores > 0.0)
    if len(usable) > count:
        peaks = find_peaks(scores, state.grid.shape)
        few = len(peaks) < count
        usable = np.union1d(peaks, usable[np.argpartition(scores[usable], -count)[-count:]]) if few else peaks
    return _shortlist(state, state.grid.cell_features(usable), scores[usable], count)


def _score_cells(state: State, allowed: BoolArray) -> FloatArray:
    """Return ``g^2 / var`` for each cell of the grid; 0 for cells that are not allowed, constant, or in the basis.

    It is twice the gain of its parameter alone. Arrays are changed in place, because the grid may be large.
    """
    score = state.grid.eta_hat - state.eta
    np.square(score, out=score)
    variance = 1.0 - state.eta
    variance *= state.eta
    np.putmask(variance, (variance <= LEAST_VARIANCE) | ~allowed, np.inf)
    variance[state.features.places] = np.inf
    score /= variance
    return score


def find_peaks(values: FloatArray, shape: Shape) -> IntArray:
    """List the places of positive values that no neighbour along a mode exceeds; of equal neighbours the first counts.

    `values` are flat, on a grid of this shape.

    >>> find_peaks(np.array([0.0, 2.0, 2.0, 1.0, 3.0]), (5,)).tolist()
    [1, 4]
    """
    peak = values > 0.0
    grid, marked = values.reshape(shape), peak.reshape(shape)  # views, as is `marks` below
    for axis in range(len(shape)):
        along, marks = np.moveaxis(grid, axis, 0), np.moveaxis(marked, axis, 0)
        rises = along[1:] > along[:-1]
        marks[1:] &= rises
        marks[:-1] &= ~rises
    return np.flatnonzero(peak)


def bernoulli_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return KL between Bernoulli distributions with means p and q, elementwise; 0 where q is 0 or 1.

    It is the exact gain of a first parameter, whose feature has mean p in the data and q without it.
    """
    from scipy.special import rel_entr

    usable = (q > 0) & (q < 1)
    p, q = np.where(usable, p, 0.5), np.where(usable, q, 0.5)
    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))


def find_boxes(state: State, count: int, price: float, turn: int, longest: int = 256) -> Features:
    """List at most `count` boxes with good scores: windows of two sizes, and the boxes that ascent from them leads to.

    The sizes depend on `turn`, the number of the round. With a price, boxes with none or all of the data are left out:
    no sample shows that an event is impossible. The ascent tries all intervals of a mode of up to `longest` levels; of
    a longer one it moves one end at a time.
    """
    from legendre.core.sums.kernels.growing import ascend

    grid, half = state.grid, max(count // 2, 400)
    found = _find_windows(state, turn, half).concatenate(_find_windows(state, turn + 2, half))
    assert found.high is not None
    low, high, ends = found.low.copy(), found.high.copy(), grid.ends
    work = len(found) * int((np.minimum(ends, longest) ** 2).sum())  # pairs of ends that are tried in a pass
    running = grid.eta_hat, state.eta, grid.strides, ends
    ascend(work, len(found), *running, low, high, 2, LEAST_VARIANCE, longest)  # at most two passes over the modes
    found = _drop_known(state.features, Features(low, high).concatenate(found))
    p, q = grid.means(grid.eta_hat, found), grid.means(state.eta, found)
    gains = ((p - q) * inverse_deviation(q)) ** 2
    usable = (gains > 0) & ((inverse_deviation(p) > 0) | (price <= NOTHING))
    return _shortlist(state, found.take(usable), gains[usable], count)


def _drop_known(known: Features, found: Features) -> Features:
    """Return the boxes found, each once and in their order, without those that are among the known ones.

    Ascents from several windows often end at one box, and at boxes that the basis has: these would fill the short list.
    """
    # a row has both corners of a box; of equal rows np.unique gives the first, so a known box hides one that was found
    rows = np.concatenate([np.vstack([some.low, some.high]).T for some in (known, found)])  # type: ignore[list-item]
    _, first = np.unique(rows, axis=0, return_index=True)
    return found.take(np.sort(first[first >= len(known)]) - len(known))


def _find_windows(state: State, turn: int, count: int) -> Features:
    """Find up to `count` windows, boxes of one size, whose score is a peak: the best starts for an ascent.

    Turns go through the sizes: in the first, a window has half of the levels of each mode, in the next a quarter.
    """
    grid, sides = state.grid, np.maximum(state.grid.ends >> (1 + turn % WINDOWS), 1)
    # differences of suffix sums along every mode are the sums over windows, one for each first corner
    p, q = grid.eta_hat.reshape(grid.shape), state.eta.reshape(grid.shape)
    for axis, side in enumerate(sides.tolist()):
        near, far = ((slice(None),) * axis + (some,) for some in (slice(-side), slice(side, None)))
        p, q = p[near] - p[far], q[near] - q[far]
    gain = (((p - q) * inverse_deviation(q)) ** 2).ravel()
    peaks = find_peaks(gain, q.shape)
    peaks = peaks[np.argsort(-gain[peaks])[:count]]
    corner = np.stack(np.unravel_index(peaks, q.shape), axis=1).astype(np.int64)
    return grid.box_features(corner, corner + sides)
