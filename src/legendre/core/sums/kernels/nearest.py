"""What the few nearest features of a basis explain of a feature, compiled.

Two features of means p < q are correlated by at most ``sqrt(odds(p) / odds(q))``, and by no less than
``-sqrt(odds(p) odds(q))``: a mean is the probability of a set, and the join's that of an intersection. So the basis,
sorted by its means, is searched from a feature's own mean outwards until nothing nearer can follow.
"""

import math

import numpy as np

from legendre.core.compiled import compiled, inner

BLOCK = 32  # correlations that are compared together with the least that is kept
FIRST = 64  # features of the basis that are looked at first
ROWS = 64  # features whose small systems are solved together


@inner
def _sizes(eta, offsets, i, mean, scale, columns, places, column_mean, column_scale, at, size):
    """Write the sizes of the correlations of feature i with some of the basis; with itself, -1."""
    n, place = column_mean.size, 0
    for j in range(n):
        at[j] = 0
    for d in range(offsets.shape[0]):
        own, others = offsets[d, i], columns[d]
        place += own
        for j in range(n):
            at[j] += max(own, others[j])
    for j in range(n):
        size[j] = abs((eta[at[j]] - mean * column_mean[j]) * (scale * column_scale[j]))
    for j in range(n):
        size[j] = -1.0 if places[j] == place else size[j]


@inner(fastmath={"nnan", "nsz", "reassoc"})
def _largest(size):
    """Return the largest of numbers; the order in which they are compared does not matter."""
    top = -1.0
    for j in range(size.size):
        top = max(top, size[j])
    return top


@inner
def _noted(size, first, found, best, which):
    """Keep the largest sizes, in descending order, with their numbers; return how many are kept."""
    near = best.size
    for start in range(0, size.size, BLOCK):
        some = size[start : start + BLOCK]
        least = best[near - 1] if found == near else -0.5
        if _largest(some) <= least:
            continue
        for j in range(some.size):
            here = some[j]
            if here > least:
                a = min(found, near - 1)
                while a > 0 and best[a - 1] < here:
                    best[a], which[a] = best[a - 1], which[a - 1]
                    a -= 1
                best[a], which[a] = here, first + start + j
                found = min(found + 1, near)
                if found == near:
                    least = best[near - 1]
    return found


@inner
def _first_from(odds, value, low, high, beyond):
    """Find the first of sorted odds, from `low` to `high`, that is at least `value`; above it, if `beyond`.

    By halves, for NumPy's own search takes a second to compile.
    """
    while low < high:
        middle = (low + high) // 2
        here = odds[middle]
        if here < value or (beyond and here == value):
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _part(number, odds, own, least, low, high, top):
    """Return which features to look at as a part: those about the own mean, then what is left below and above it.

    `least` is the square of the correlation to exceed. Those far above are the last: only correlations below 0 can be
    as large there.
    """
    k = odds.size
    if number == 0:
        return low, high
    if number == 1:
        return _first_from(odds, min(least * own, least / own), 0, low, False), low
    if number == 2:
        return high, _first_from(odds, own / least if least > 0.0 else np.inf, high, k, True)
    return _first_from(odds, least / own, top, k, False), k


@compiled
def find_nearest(eta, offsets, means, scales, columns, column_mean, column_scale, near, counts, which):
    """List for each feature the numbers of the `near` others of the basis, sorted by mean, nearest to it, and count.

    First those of about its own mean are looked at. What they leave to be found bounds the means of the others.
    """
    k = columns.shape[1]
    odds, places = np.empty(k), np.zeros(k, np.int32)
    for d in range(columns.shape[0]):
        for j in range(k):
            places[j] += columns[d, j]
    for j in range(k):
        odds[j] = column_mean[j] / (1.0 - column_mean[j]) if column_mean[j] < 1.0 else np.inf
    at, size, best = np.empty(k, np.int32), np.empty(k), np.empty(near)
    for i in range(offsets.shape[1]):
        mean, scale, found = means[i], scales[i], 0
        own = mean / (1.0 - mean) if mean < 1.0 else np.inf
        low = max(0, min(_first_from(odds, own, 0, k, False) - FIRST // 2, k - FIRST))
        high = top = min(low + FIRST, k)
        for number in range(4):
            least = best[near - 1] ** 2 if found == near else 0.0
            first, stop = _part(number, odds, own, least, low, high, top)
            if number == 2:
                top = stop
            if stop > first:
                some = columns[:, first:stop], places[first:stop], column_mean[first:stop], column_scale[first:stop]
                _sizes(eta, offsets, i, mean, scale, *some, at, size)
                found = _noted(size[: stop - first], first, found, best, which[i])
        counts[i] = found


@compiled
def explained_share(eta, offsets, means, scales, columns, column_mean, column_scale, counts, which, damping, out):
    """Squared multiple correlation of each feature with those listed for it.

    Cholesky (one over the diagonal) and the forward solution, step by step for some rows at once, which hides the time
    that a root takes. What is not there is correlated with nothing.
    """
    near = which.shape[1]
    lower, half, left = np.empty((near, near, ROWS)), np.empty((near, ROWS)), np.empty(ROWS)
    for first in range(0, offsets.shape[1], ROWS):
        n = min(ROWS, offsets.shape[1] - first)
        for a in range(near):
            for b in range(a + 1):
                _between(eta, columns, column_mean, column_scale, counts, which, first, n, a, b, left)
                if a == b:
                    for r in range(n):
                        left[r] = 1.0 + damping
                for c in range(b):
                    for r in range(n):
                        left[r] -= lower[a, c, r] * lower[b, c, r]
                if a == b:
                    for r in range(n):
                        lower[a, a, r] = 1.0 / math.sqrt(max(left[r], damping))
                else:
                    for r in range(n):
                        lower[a, b, r] = left[r] * lower[b, b, r]
            for r in range(n):
                left[r] = 0.0
                if a < counts[first + r]:
                    i, j, place = first + r, which[first + r, a], 0
                    for d in range(offsets.shape[0]):
                        place += max(offsets[d, i], columns[d, j])
                    left[r] = (eta[place] - means[i] * column_mean[j]) * (scales[i] * column_scale[j])
            for b in range(a):
                for r in range(n):
                    left[r] -= lower[a, b, r] * half[b, r]
            for r in range(n):
                half[a, r] = left[r] * lower[a, a, r]
        for r in range(n):
            out[first + r] = 0.0
        for a in range(near):
            for r in range(n):
                out[first + r] += half[a, r] ** 2


@inner
def _between(eta, columns, column_mean, column_scale, counts, which, first, n, a, b, out):
    """Correlate the a-th and the b-th of what is listed for each of n rows."""
    for r in range(n):
        out[r] = 0.0
        if a < counts[first + r]:
            j, other, place = which[first + r, a], which[first + r, b], 0
            for d in range(columns.shape[0]):
                place += max(columns[d, j], columns[d, other])
            out[r] = (eta[place] - column_mean[j] * column_mean[other]) * (column_scale[j] * column_scale[other])
