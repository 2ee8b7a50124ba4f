"""Sums over boxes of a grid, products of intervals, read from its running sums at their corners.

`sums` holds running sums with a border of zeros, so that the sum over ``lo <= v < hi`` is a difference of its entries;
corners are given as coordinates times strides, one row for each box.
"""

import numpy as np

from legendre.core.compiled import ParallelKernel, inner


@inner
def _box(sums, lo, hi):
    """Sum over one box: entries at its corners, with alternating signs."""
    modes = lo.size
    if modes == 3:
        a, b, c, d, e, f = lo[0], lo[1], lo[2], hi[0], hi[1], hi[2]
        far = sums[d + e + f] - sums[d + e + c] - sums[d + b + f] + sums[d + b + c]
        return far - (sums[a + e + f] - sums[a + e + c] - sums[a + b + f] + sums[a + b + c])
    if modes == 2:
        return sums[hi[0] + hi[1]] - sums[lo[0] + hi[1]] - sums[hi[0] + lo[1]] + sums[lo[0] + lo[1]]
    if modes == 1:
        return sums[hi[0]] - sums[lo[0]]
    total = 0.0
    for corner in range(1 << modes):
        at, sign = 0, 1.0
        for d in range(modes):
            if corner >> d & 1:
                at += lo[d]
                sign = -sign
            else:
                at += hi[d]
        total += sign * sums[at]
    return total


@ParallelKernel
def box_sums(first, last, sums, lo, hi, out):
    """Sum over each box."""
    for i in range(first, last):
        out[i] = _box(sums, lo[i], hi[i])


@inner
def _both(sums, lo, hi, i, lo2, hi2, j, low, high):
    """Sum over the intersection of box i of one list and box j of another; `low` and `high` are room for corners."""
    if lo.shape[1] == 3:
        a, d = max(lo[i, 0], lo2[j, 0]), min(hi[i, 0], hi2[j, 0])
        b, e = max(lo[i, 1], lo2[j, 1]), min(hi[i, 1], hi2[j, 1])
        c, f = max(lo[i, 2], lo2[j, 2]), min(hi[i, 2], hi2[j, 2])
        if a >= d or b >= e or c >= f:
            return 0.0
        far = sums[d + e + f] - sums[d + e + c] - sums[d + b + f] + sums[d + b + c]
        return far - (sums[a + e + f] - sums[a + e + c] - sums[a + b + f] + sums[a + b + c])
    for k in range(lo.shape[1]):
        low[k] = max(lo[i, k], lo2[j, k])
        high[k] = min(hi[i, k], hi2[j, k])
        if low[k] >= high[k]:
            return 0.0
    return _box(sums, low, high)


@ParallelKernel
def box_correlations(first, last, sums, lo, hi, eta, scale, lo2, hi2, eta2, scale2, out):
    """Compute the correlations of the indicators of boxes with those of others; `scale` is 1 over the deviation."""
    low, high = np.empty(lo.shape[1], np.int64), np.empty(lo.shape[1], np.int64)
    for i in range(first, last):
        for j in range(len(lo2)):
            both = _both(sums, lo, hi, i, lo2, hi2, j, low, high)
            out[i, j] = (both - eta[i] * eta2[j]) * scale[i] * scale2[j]


@ParallelKernel
def own_correlations(first, last, sums, lo, hi, eta, scale, out):
    """Compute the same between all pairs of one list, below the diagonal; rows are paired to balance the threads."""
    k = len(lo)
    low, high = np.empty(lo.shape[1], np.int64), np.empty(lo.shape[1], np.int64)
    for task in range(first, last):
        for side in range(2):
            i = task if side == 0 else k - 1 - task
            for j in range(i + 1):
                both = _both(sums, lo, hi, i, lo, hi, j, low, high)
                out[i, j] = (both - eta[i] * eta[j]) * scale[i] * scale[j]


@ParallelKernel
def nearest_box(first, last, sums, lo, hi, eta, scale, lo2, hi2, eta2, scale2, out):
    """Find the largest squared correlation of each box with one of the others."""
    low, high = np.empty(lo.shape[1], np.int64), np.empty(lo.shape[1], np.int64)
    for i in range(first, last):
        top = 0.0
        for j in range(len(lo2)):
            found = (_both(sums, lo, hi, i, lo2, hi2, j, low, high) - eta[i] * eta2[j]) * scale2[j]
            top = max(top, found * found)
        out[i] = top * scale[i] * scale[i]


@inner
def _gain(p, q, least):
    """Half of what a box with these sums gains, to second order; 0 where it is next to constant."""
    variance = q * (1.0 - q)
    return (p - q) * (p - q) / variance if variance > least else 0.0


@ParallelKernel
def ascend(first, last, data, model, strides, shape, lo, hi, passes, least, longest):
    """Move both ends of each box, one mode at a time, to the interval of the largest gain.

    data, model: running sums of P and Q. Modes of more than `longest` levels have one end moved at a time.
    """
    modes = len(shape)
    low, high = np.empty(modes, np.int64), np.empty(modes, np.int64)
    most = 0
    for d in range(modes):
        most = max(most, shape[d])
    p, q = np.empty(most + 1), np.empty(most + 1)
    if modes == 1:  # sums along the only mode are the running sums, for every box
        for x in range(most + 1):
            p[x], q[x] = data[x], model[x]
    for i in range(first, last):
        for d in range(modes):
            low[d], high[d] = lo[i, d] * strides[d], hi[i, d] * strides[d]
        settled = 0  # modes in a row that stayed as they were
        for turn in range(modes * passes):
            d = turn % modes
            if settled < modes:
                n, step = shape[d], strides[d]
                if modes > 1:
                    p[0], q[0], low[d] = 0.0, 0.0, 0
                    for x in range(1, n + 1):
                        high[d] = x * step
                        p[x] = _box(data, low, high)
                        q[x] = _box(model, low, high)
                a, b = lo[i, d], hi[i, d]
                best = _gain(p[b] - p[a], q[b] - q[a], least)
                if n <= longest:
                    top, under = best, 1.0  # the best gain so far as a fraction: to compare takes no division
                    for x in range(n):
                        for y in range(x + 1, n + 1):
                            mass = q[y] - q[x]
                            gap, variance = p[y] - p[x] - mass, mass - mass * mass
                            if gap * gap * under > top * variance and variance > least:
                                top, under, a, b = gap * gap, variance, x, y
                else:
                    for x in range(b):
                        found = _gain(p[b] - p[x], q[b] - q[x], least)
                        if found > best:
                            best, a = found, x
                    for y in range(a + 1, n + 1):
                        found = _gain(p[y] - p[a], q[y] - q[a], least)
                        if found > best:
                            best, b = found, y
                settled = settled + 1 if lo[i, d] == a and hi[i, d] == b else 1
                lo[i, d], hi[i, d] = a, b
                low[d], high[d] = a * step, b * step


@inner
def _orthant_row(sums, base, strides, shape, upward, out, found):
    """Sum over the orthants at the cells of one row along the last mode; `base` has its other coordinates."""
    modes, n = len(shape), shape[-1]
    for k in range(n + 1):
        out[k] = 0.0
    for corner in range(1 << (modes - 1)):
        at, sign, inside = 0, 1.0, True
        for d in range(modes - 1):
            end = base[d] if upward[d] else base[d] + 1
            if corner >> d & 1:  # the end at which sums are taken away: 0 where the orthant starts at the first level
                if not upward[d] or end == 0:
                    inside = False
                at += end * strides[d]
                sign = -sign
            else:
                at += (shape[d] if upward[d] else end) * strides[d]
        if inside:
            for k in range(n + 1):
                out[k] += sign * sums[at + k]
    for k in range(n):
        found[k] = out[n] - out[k] if upward[-1] else out[k + 1]


@ParallelKernel
def orthant_gains(first, last, data, model, strides, shape, upward, least, field):
    """Compute the gain of the orthant at each cell: from it on in the modes that go upward, up to it in the others.

    field: (first mode) x (all others)
    """
    modes, n = len(shape), shape[-1]
    base = np.zeros(modes, np.int64)
    room, p, q = np.empty(n + 1), np.empty(n), np.empty(n)
    for i in range(first, last):
        base[0] = i
        for row in range(field.shape[1] // n if modes > 1 else 1):
            rest = row
            for d in range(modes - 2, 0, -1):
                base[d] = rest % shape[d]
                rest //= shape[d]
            _orthant_row(data, base, strides, shape, upward, room, p)
            _orthant_row(model, base, strides, shape, upward, room, q)
            for k in range(n):
                field[i, row * n + k] = _gain(p[k], q[k], least)


@ParallelKernel
def peaks(first, last, field, length, after, mark):
    """Keep the marks of cells whose value along one mode is not below that of a neighbour; of equal ones the first."""
    for i in range(first, last):
        for j in range(length - 1):
            here = (i * length + j) * after
            for k in range(here, here + after):
                rises = field[k + after] > field[k]
                mark[k] = mark[k] and not rises
                mark[k + after] = mark[k + after] and rises
