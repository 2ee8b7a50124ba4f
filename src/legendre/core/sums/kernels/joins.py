"""Correlations of features, compiled: eta read at the joins of pairs of cells, eq. (5), without arrays of places."""

import math

import numpy as np

from legendre.core.compiled import compiled


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
def explain_by_nearest(eta, rows, row_mean, row_scale, columns, column_mean, column_scale, near, damping, out):
    """Squared multiple correlation of each of `rows` with the `near` other `columns` it is most correlated with."""
    k = columns.shape[1]
    column_place = np.zeros(k, np.int32)
    for d in range(columns.shape[0]):
        for j in range(k):
            column_place[j] += columns[d, j]
    at, own, size, which = np.empty(k, np.int32), np.empty(k), np.empty(near), np.empty(near, np.int64)
    lower, half = np.empty((near, near)), np.empty(near)
    for i in range(rows.shape[1]):
        at[:] = 0
        for d in range(rows.shape[0]):
            place, others = rows[d, i], columns[d]
            for j in range(k):
                at[j] += max(place, others[j])
        mean, scale, row_place = row_mean[i], row_scale[i], 0
        for d in range(rows.shape[0]):
            row_place += rows[d, i]
        for j in range(k):
            own[j] = (eta[at[j]] - mean * column_mean[j]) * (scale * column_scale[j])
        found, least = 0, -1.0
        for j in range(k):
            here = abs(own[j])
            if here > least and column_place[j] != row_place:
                a = min(found, near - 1)
                while a > 0 and size[a - 1] < here:
                    size[a], which[a] = size[a - 1], which[a - 1]
                    a -= 1
                size[a], which[a] = here, j
                found = min(found + 1, near)
                least = size[near - 1] if found == near else -1.0
        out[i] = 0.0
        for a in range(found):  # Cholesky (one over the diagonal) and the forward solution, row by row
            j = which[a]
            for b in range(a + 1):
                other, place = which[b], 0
                for d in range(rows.shape[0]):
                    place += max(columns[d, j], columns[d, other])
                left = (eta[place] - column_mean[j] * column_mean[other]) * (column_scale[j] * column_scale[other])
                if a == b:
                    left = 1.0 + damping
                for c in range(b):
                    left -= lower[a, c] * lower[b, c]
                lower[a, b] = 1.0 / math.sqrt(max(left, damping)) if a == b else left * lower[b, b]
            left = own[j]
            for b in range(a):
                left -= lower[a, b] * half[b]
            half[a] = left * lower[a, a]
            out[i] += half[a] * half[a]


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
