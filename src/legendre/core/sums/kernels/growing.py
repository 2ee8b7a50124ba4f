"""Features of a growing basis, compiled: correlations, and ascent to better boxes.

`eta` holds suffix sums of q on a grid, flattened. Corners of cells and boxes are coordinates times strides, one row for
each mode and one column for each feature: the sum of a column is the corner's place in `eta`. If features are boxes
``[lo, hi)``, the grid has a border of zeros behind the last level of each mode, where a box may end.
"""

import numpy as np

from legendre.core.compiled import ParallelKernel, compiled, inner


@compiled
def fill_correlations(eta, rows, row_mean, row_scale, columns, column_mean, column_scale, out, lower):
    """Fill out (n x k) with the correlations of n features of cells, `rows` (N x n), with k others, `columns` (N x k).

    ``out_ij = (eta[join of i and j] - mean_i mean_j) scale_i scale_j``, where scale is 1 / standard deviation. If
    `lower`, both lists are the same, and only the lower triangle is filled.
    """
    k = columns.shape[1]
    at = np.empty(k, np.int32)
    for i in range(rows.shape[1]):
        stop = i + 1 if lower else k
        for j in range(stop):
            at[j] = 0
        for d in range(rows.shape[0]):
            coordinate, coordinates = rows[d, i], columns[d]
            for j in range(stop):
                at[j] += max(coordinate, coordinates[j])
        mean, scale, row = row_mean[i], row_scale[i], out[i]
        for j in range(stop):
            row[j] = (eta[at[j]] - mean * column_mean[j]) * (scale * column_scale[j])


@inner
def _sum_box(eta, lo, hi):
    """Return the sum over the box [lo, hi) by inclusion and exclusion: suffix sums at its 2^N corners, with signs.

    Nearly all the time of growing boxes is spent here.
    """
    modes = lo.size
    if modes == 3:  # written out: without it, growing boxes takes a fifth longer
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
    """Fill out (n x k) with the correlations of the features of n boxes with those of k others (`lo2`, `hi2`, ...).

    The features are indicators: the mean of their product is q summed over the intersection of the boxes. `scale` is 1
    / standard deviation. If `lower`, both lists are the same, and only the lower triangle is filled.
    """
    modes = len(lo)
    low, high = np.empty(modes, np.int64), np.empty(modes, np.int64)
    for i in range(first, last):
        for j in range(i + 1 if lower else lo2.shape[1]):
            meet = True
            for d in range(modes):
                low[d], high[d] = max(lo[d, i], lo2[d, j]), min(hi[d, i], hi2[d, j])
                meet = meet and low[d] < high[d]
            both = _sum_box(eta, low, high) if meet else 0.0
            out[i, j] = (both - mean[i] * mean2[j]) * (scale[i] * scale2[j])


@ParallelKernel
def ascend(first, last, data, model, strides, shape, lo, hi, passes, least, longest):
    """Improve the boxes [lo, hi) in place: move the ends of one mode at a time to the interval with the largest gain.

    The gain of a box is ``(P(box) - Q(box))^2 / (Q(box) (1 - Q(box)))``, twice what one Newton step on a parameter for
    it would lower KL by. Boxes with a variance ``Q (1 - Q)`` of at most `least` are not considered: rounding would
    decide their gain. `data` and `model` are suffix sums of P and Q. Each mode has at most `passes` turns. On modes of
    more than `longest` levels one end is moved at a time, since the number of pairs of ends is quadratic.
    """
    modes = len(shape)
    low, high = np.empty(modes, np.int64), np.empty(modes, np.int64)
    # P and Q of the box from level x of the current mode on: differences give every interval
    p, q = np.empty(shape.max() + 1), np.empty(shape.max() + 1)
    for i in range(first, last):
        for d in range(modes):
            low[d], high[d] = lo[d, i], hi[d, i]
        settled = 0  # modes in a row whose interval is the best one given the others; if all are, nothing can improve
        for turn in range(modes * passes):
            d = turn % modes
            if settled < modes:
                n, step = shape[d], strides[d]
                a, b = low[d] // step, high[d] // step  # the interval [a, b) of this mode
                high[d] = n * step
                for x in range(n + 1):
                    low[d] = x * step
                    p[x] = _sum_box(data, low, high)
                    q[x] = _sum_box(model, low, high)
                mass = q[a] - q[b]
                # the best gain so far is kept as a fraction top / under: gains are compared without divisions
                top, under = (p[a] - p[b] - mass) ** 2, mass - mass * mass
                if under <= least:  # the present interval does not count
                    top, under = 0.0, 1.0
                start, end = a, b
                long = n > longest  # on a long mode the first end moves alone (part 0), then the last (part 1)
                for part in range(2 if long else 1):
                    first_alone = long and part == 0
                    begin, stop = (a, a + 1) if part == 1 else (0, b if long else n)
                    # try all intervals [x, y) with both ends free, or with one end fixed
                    for x in range(begin, stop):
                        for y in range(b if first_alone else x + 1, b + 1 if first_alone else n + 1):
                            mass = q[x] - q[y]
                            gap, variance = p[x] - p[y] - mass, mass - mass * mass
                            if gap * gap * under > top * variance and variance > least:
                                top, under, a, b = gap * gap, variance, x, y
                settled = settled + 1 if a == start and b == end else 1  # a move may unsettle all other modes
                low[d], high[d] = a * step, b * step
        for d in range(modes):
            lo[d, i], hi[d, i] = low[d], high[d]
