"""Correlations of features, compiled: eta read at the joins of pairs of cells, eq. (5), without arrays of places."""

import math

import numpy as np

from legendre.core.compiled import compiled, inner


@compiled
def fill_correlations(eta, rows, row_mean, row_scale, columns, column_mean, column_scale, out, lower):
    """``out_ij = (eta[join of i and j] - mean_i mean_j) scale_i scale_j``; of the lower triangle alone if `lower`."""
    k = columns.shape[1]
    at = np.empty(k, np.int32)
    for i in range(rows.shape[1]):
        stop = i + 1 if lower else k
        for j in range(stop):
            at[j] = 0
        for d in range(rows.shape[0]):
            own, others = rows[d, i], columns[d]
            for j in range(stop):
                at[j] += max(own, others[j])
        mean, scale, row = row_mean[i], row_scale[i], out[i]
        for j in range(stop):
            row[j] = (eta[at[j]] - mean * column_mean[j]) * (scale * column_scale[j])


@compiled
def mark_peaks(field, modes, peak):
    """Leave marked, by 1, cells whose value no neighbour along a mode exceeds; of equal neighbours the first."""
    after = field.size
    for n in modes:
        block, after = after, after // n
        for first in range(0, field.size, block):
            low, high = field[first : first + block - after], field[first + after : first + block]
            lower, higher = peak[first : first + block - after], peak[first + after : first + block]
            for j in range(low.size):
                lower[j] &= np.uint8(high[j] <= low[j])
            for j in range(low.size):
                higher[j] &= np.uint8(high[j] > low[j])


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
