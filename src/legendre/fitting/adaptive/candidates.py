"""Which cells to add: a short list by cheap scores, then what each gains given the basis and those chosen before it."""

from __future__ import annotations

import numpy as np

from legendre.core import limits
from legendre.core.sums.joins import LEAST_VARIANCE, Features, correlations, explained_by_nearest, inverse_deviation
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.adaptive.parts import Choice
from legendre.fitting.adaptive.state import State

OVER, AT_LEAST = 2, 256  # cells on the short list for each that is added; and at the least
ROOM = 1_500  # candidates, or 4 for each on the list, that are compared with their nearest cells to make it
NEW, NEXT_TO_NEW = 1e-3, 1e-7
"""A cell of whose variance the basis leaves no more than this share is a near-duplicate; and where no other is left."""
NOTHING = 1e-15  # a gain this small is a rounding error


def chosen(state: State, allowed: BoolArray, count: int, least: float) -> Choice | None:
    """Choose up to `count` cells that gain more than `least`; ``None`` where there is none."""
    least = max(least, NOTHING)
    listed = shortlist(state, allowed, int(max(OVER * count, AT_LEAST, count + 8)), least)
    if not len(listed):
        return None
    for new in (NEW, NEXT_TO_NEW):
        found = _chosen(state, listed, count, least, new)
        if found is not None or state.single:
            return found
        listed = np.flatnonzero(_field(state, allowed) > 2.0 * least)
        if len(listed) > 4 * AT_LEAST:
            return None
    return None


def _chosen(state: State, listed: IntArray, count: int, least: float, new: float) -> Choice | None:
    anchor, ground, eta = state.anchor, state.ground, state.at.eta
    assert anchor is not None
    factor, features = anchor.factor, Features.of(anchor.eta, listed, ground.shape)
    with_basis = correlations(anchor.eta, anchor.features, features, compiled=ground.compiled, dtype=factor.kind)
    given = factor.half(with_basis, overwrite=True)
    here = eta[listed]
    gradient = (ground.eta_hat[listed] - here) * inverse_deviation(here)
    gradient -= state.whitened.astype(given.dtype) @ given  # the basis's own residual is no candidate's gain
    left = correlations(anchor.eta, features, features, compiled=ground.compiled)
    left -= given.T @ given
    np.fill_diagonal(left, np.where(features.scale > 0, left.diagonal() + anchor.damping, 0.0))
    first = None if len(state.places) else bernoulli_divergence(ground.eta_hat[listed], here)
    large = len(state.places) >= limits.COMPILED_TURNS
    best, gains, rows = pick(left, gradient, count, least, new, first, compiled=large and ground.compiled)
    if not len(best):
        return None
    lower = np.tril(rows[:, best].T)
    return Choice(listed[best], features, best, given[:, best].T, lower, float(gains.sum()))


def pick(
    left: FloatArray,
    gradient: FloatArray,
    count: int,
    least: float,
    new: float,
    first: FloatArray | None = None,
    *,
    compiled: bool = False,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Choose up to `count` candidates of gain above `least`, each given those before it.

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
    if compiled:
        from legendre.core.sums.kernels.turns import pick_best

        chosen = np.empty(len(rows), dtype=np.int64)
        done = pick_best(left, gradient, variance, score, least, new, chosen, gains, rows)
        return chosen[:done], gains[:done], rows[:done]
    places: list[int] = []
    while len(places) < len(rows):
        best = int(score.argmax())
        if score[best] <= least:
            break
        done = len(places)
        row = left[best] - rows[:done, best] @ rows[:done]
        row /= np.sqrt(variance[best])
        rows[done], gains[done] = row, score[best]
        gradient -= row * (gradient[best] / np.sqrt(variance[best]))
        variance -= row * row
        places.append(best)
        usable &= variance > new
        usable[best] = False
        score = np.divide(gradient**2, 2.0 * variance, out=np.zeros(m), where=usable)
    done = len(places)
    return np.array(places, dtype=np.int64), gains[:done], rows[:done]


def shortlist(state: State, allowed: BoolArray, most: int, least: float = 0.0) -> IntArray:
    """List at most `most` candidates by their gain given the few cells of the basis that they resemble most.

    Where there are many, only those that no neighbour exceeds compete, lest the neighbours of a few peaks crowd the
    list.
    """
    field = _field(state, allowed)
    if len(state.places):
        usable = np.flatnonzero(field > 0.0)
    else:  # the gain of the first parameter is known exactly
        usable = np.flatnonzero(field > 0.0)
        field[usable] = bernoulli_divergence(state.ground.eta_hat[usable], state.at.eta[usable])
        usable = usable[field[usable] > least]
    if len(usable) <= most:
        return usable
    listed = peaks(field, state.ground.shape, compiled=state.ground.compiled)
    if len(listed) < most:
        high = usable[np.argpartition(field[usable], -most)[-most:]]
        listed = np.union1d(listed, high)
    score = field[listed]
    if len(state.places):
        listed, score = _given_the_nearest(state, listed, field[listed], most)
    best = np.argpartition(score, -most)[-most:] if len(listed) > most else np.arange(len(listed))
    return np.sort(listed[best])


def _given_the_nearest(state: State, listed: IntArray, score: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
    """Score candidates by ``g^2 / (var (1 - r^2))``, r^2 being what the nearest cells of the basis explain of them."""
    anchor, ground, room = state.anchor, state.ground, max(ROOM, 4 * most)
    assert anchor is not None
    if len(listed) > room:
        mean = state.at.eta[listed]
        rough = score * np.sqrt(mean * (1.0 - mean))  # g^2 / sd: nearer to the order to come than g^2 / var is
        some = np.argpartition(rough, -room)[-room:]
        listed, score = listed[some], score[some]
    explained = explained_by_nearest(anchor.eta, listed, ground.shape, anchor.features, compiled=ground.compiled)
    return listed, score / np.maximum(1.0 - explained, NEW)


def _field(state: State, allowed: BoolArray) -> FloatArray:
    """Return ``g^2 / var`` of every candidate; 0 for other cells."""
    eta = state.at.eta
    score = state.ground.eta_hat - eta
    np.square(score, out=score)
    variance = 1.0 - eta
    variance *= eta
    useless = variance <= LEAST_VARIANCE
    useless |= ~allowed
    np.putmask(variance, useless, np.inf)
    variance[state.places] = np.inf
    score /= variance
    return score


def peaks(field: FloatArray, shape: tuple[int, ...], *, compiled: bool = False) -> IntArray:
    """List the cells whose value, above 0, no neighbour along a mode exceeds; of equal neighbours the first.

    >>> peaks(np.array([0.0, 2.0, 2.0, 1.0, 3.0]), (5,)).tolist()
    [1, 4]
    """
    peak = field > 0.0
    if compiled or field.size > limits.NUMPY_CELLS:
        from legendre.core.sums.kernels.joins import mark_peaks

        mark_peaks(field, np.array(shape, dtype=np.int64), peak.view(np.uint8))
        return np.flatnonzero(peak)
    grid, marked = field.reshape(shape), peak.reshape(shape)
    for axis, length in enumerate(shape):
        if length > 1:
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
