"""Correlations of features, compiled: eta read at the joins of pairs of cells, eq. (5), without arrays of places."""

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
