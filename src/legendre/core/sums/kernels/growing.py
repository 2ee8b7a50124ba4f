"""Features of a growing basis, compiled: correlations, and ascent to better boxes.

`eta` holds suffix sums of a grid, flattened. Corners are coordinates times strides, one row for each mode. Where boxes
end before the last level, the grid has a border of zeros behind the last level of each mode.
"""

import numpy as np

from legendre.core.compiled import ParallelKernel, compiled, inner


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


@inner
def _box(eta, lo, hi):
    """Sum over one box: suffix sums at its corners, with alternating signs."""
    modes = lo.size
    if modes == 3:
        a, b, c, d, e, f = lo[0], lo[1], lo[2], hi[0], hi[1], hi[2]
        near = eta[a + b + c] - eta[a + b + f] - eta[a + e + c] + eta[a + e + f]
        return near - (eta[d + b + c] - eta[d + b + f] - eta[d + e + c] + eta[d + e + f])
    total = 0.0
    for corner in range(1 << modes):
        at, sign = 0, 1.0
        for d in range(modes):
            if corner >> d & 1:
                at += hi[d]
                sign = -sign
            else:
                at += lo[d]
        total += sign * eta[at]
    return total


@ParallelKernel
def box_correlations(first, last, eta, lo, hi, mean, scale, lo2, hi2, mean2, scale2, out, lower):
    """Correlate the indicators of boxes with those of others; of the lower triangle alone if `lower`."""
    modes = len(lo)
    low, high = np.empty(modes, np.int64), np.empty(modes, np.int64)
    for i in range(first, last):
        for j in range(i + 1 if lower else lo2.shape[1]):
            meet = True
            for d in range(modes):
                low[d], high[d] = max(lo[d, i], lo2[d, j]), min(hi[d, i], hi2[d, j])
                meet = meet and low[d] < high[d]
            both = _box(eta, low, high) if meet else 0.0
            out[i, j] = (both - mean[i] * mean2[j]) * (scale[i] * scale2[j])


@ParallelKernel
def ascend(first, last, data, model, strides, shape, lo, hi, passes, least, longest):
    """Move both ends of each box, one mode at a time, to the interval of the largest gain.

    data, model: suffix sums of P and Q. Modes of more than `longest` levels have one end moved at a time.
    """
    modes = len(shape)
    low, high = np.empty(modes, np.int64), np.empty(modes, np.int64)
    p, q = np.empty(shape.max() + 1), np.empty(shape.max() + 1)
    for i in range(first, last):
        for d in range(modes):
            low[d], high[d] = lo[d, i], hi[d, i]
        settled = 0  # modes in a row that stayed as they were
        for turn in range(modes * passes):
            d = turn % modes
            if settled < modes:
                n, step = shape[d], strides[d]
                a, b = low[d] // step, high[d] // step
                high[d] = n * step
                for x in range(n + 1):  # sums over what is from x on
                    low[d] = x * step
                    p[x] = _box(data, low, high)
                    q[x] = _box(model, low, high)
                mass = q[a] - q[b]
                top, under = (p[a] - p[b] - mass) ** 2, mass - mass * mass  # the best gain so far as a fraction
                if under <= least:
                    top, under = 0.0, 1.0
                start, end = a, b
                long = n > longest  # its first end moves alone, then its last; else both are tried together
                for part in range(2 if long else 1):
                    first_alone = long and part == 0
                    begin, stop = (a, a + 1) if part == 1 else (0, b if long else n)
                    for x in range(begin, stop):
                        for y in range(b if first_alone else x + 1, b + 1 if first_alone else n + 1):
                            mass = q[x] - q[y]
                            gap, variance = p[x] - p[y] - mass, mass - mass * mass
                            if gap * gap * under > top * variance and variance > least:
                                top, under, a, b = gap * gap, variance, x, y
                settled = settled + 1 if a == start and b == end else 1
                low[d], high[d] = a * step, b * step
        for d in range(modes):
            lo[d, i], hi[d, i] = low[d], high[d]
