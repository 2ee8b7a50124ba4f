"""Choices that are made in turn, each given those before it, compiled: a Cholesky factor row by row, largest first."""

import math

import numpy as np

from legendre.core.compiled import compiled, inner


@inner
def _less(row, rows, done, best):
    """Take from a row of covariances what the first `done` rows of the factor explain; four at once are read faster."""
    for first in range(0, done - 3, 4):
        a, b, c, d = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
        at_a, at_b, at_c, at_d = a[best], b[best], c[best], d[best]
        for j in range(row.size):
            row[j] -= (at_a * a[j] + at_b * b[j]) + (at_c * c[j] + at_d * d[j])
    for first in range(done - done % 4, done):
        a = rows[first]
        at_a = a[best]
        for j in range(row.size):
            row[j] -= at_a * a[j]


@compiled
def pick_best(left, gradient, variance, score, least, new, places, gains, rows):
    """Choose candidates one after the other as `fitting.adaptive.candidates.pick` says; return how many.

    `score` holds the gains for the first choice; a variance that is at most `new` is set to 0: no candidate.
    """
    m = gradient.size
    for j in range(m):
        variance[j] = variance[j] if variance[j] > new else 0.0
    for done in range(places.size):
        best, top = 0, -1.0
        for j in range(m):
            if score[j] > top:
                best, top = j, score[j]
        if not top > least:
            return done
        row = rows[done]
        for j in range(m):
            row[j] = left[best, j]
        _less(row, rows, done, best)
        deviation = math.sqrt(variance[best])
        slope = gradient[best] / deviation
        places[done], gains[done] = best, top
        for j in range(m):
            row[j] /= deviation
            gradient[j] -= row[j] * slope
        for j in range(m):
            rest = variance[j] - row[j] * row[j]
            variance[j] = rest if variance[j] > 0.0 and rest > new else 0.0
        variance[best] = 0.0
        for j in range(m):
            score[j] = gradient[j] * gradient[j] / (2.0 * variance[j]) if variance[j] > 0.0 else 0.0
    return places.size


@compiled
def leave_least(inverse, theta, spread, ratio, keeps, now, below, gone, rows):
    """Choose what is missed least, one by one, as `fitting.adaptive.losses.least_missed` says; return how many.

    `now` holds the losses; that of what has gone, or may not go, is infinite.
    """
    m = theta.size
    for done in range(gone.size):
        u = 0
        for j in range(m):
            if now[j] < now[u]:
                u = j
        if not now[u] < below:
            return done
        gone[done], now[u] = u, np.inf
        if keeps[u]:
            for j in range(m):
                now[j] = np.inf if keeps[j] else now[j]
        row = rows[done]
        for j in range(m):
            row[j] = inverse[u, j]
        _less(row, rows, done, u)
        own = row[u]
        deviation = math.sqrt(own) if own > 0.0 else np.inf
        for j in range(m):
            row[j] /= deviation
        if not own > 0.0:
            continue
        share = theta[u] / row[u]
        for j in range(m):
            theta[j] -= row[j] * share
            spread[j] -= row[j] * row[j]
        for j in range(m):
            if now[j] < np.inf and spread[j] > 0.0 and ratio[j] > 0.0:
                now[j] = theta[j] * theta[j] / (2.0 * spread[j]) * ratio[j]
    return gone.size
