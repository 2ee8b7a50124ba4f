"""Compiled parts of a sparse inverse Cholesky factor of the Fisher matrix.

Vecchia's approximation, KL-optimal in the sense of Schaefer, Katzfuss and Owhadi (2021).

Feature i is regressed on a few of its predecessors S: ``x_i - c . x_S`` has variance d, and the rows
``(e_i - c) / sqrt(d)`` make U with ``U' U`` close to ``G^-1``. Any entry of G is one look-up in the suffix sums:
``G_uv = eta[max(u, v)] - eta_u eta_v``.

Two choices matter (iterations for 6,400 parameters on 40^3, 20 neighbours): predecessors have a smaller coordinate
sum, that is, larger events (334; reversed 378, maximin 438), and among the nearest candidates the neighbours are chosen
greedily by what they add *given those already chosen* (111), not by their own correlation (334).
"""

import math

import numpy as np

from legendre.core.compiled import ParallelKernel, inner

DEPENDENT = 1e-12
"""Rounding in the look-ups and in U, relative to eta: a feature with less variance given others is dependent on them
(with less variance of its own: constant). Neighbours that would make it so are not chosen."""


FAST = {"contract"}  # multiply-add in one instruction; the only liberty taken with the arithmetic


@inner
def _scratch(modes, n):
    """Make room for n features: their numbers, places (N, n), means and places of joins."""
    return np.empty(n, np.int64), np.empty((modes, n), np.int64), np.empty(n), np.empty(n, np.int64)


@inner
def _load(n, ids, corner, ref, place, mean):
    """Copy what the kernels need of the first n features `ids`: place, coordinates times strides, and mean."""
    for a in range(n):
        mean[a] = ref[ids[a]]
        for d in range(corner.shape[1]):
            place[d, a] = corner[ids[a], d]


@inner(fastmath=FAST)
def _covariance(b, lo, hi, place, mean, eta, at, row):
    """Fill row[a] with the covariance G_ab of features a and b, for lo <= a < hi.

    It is the suffix sum `eta` at the join of their cells less the product of their means. `at` has room for the places
    of joins.
    """
    for a in range(lo, hi):
        at[a] = 0
    for d in range(place.shape[0]):
        own = place[d, b]
        for a in range(lo, hi):
            at[a] += max(own, place[d, a])
    for a in range(lo, hi):
        row[a] = eta[at[a]] - mean[b] * mean[a]


@inner(fastmath=FAST)
def _eliminate(rows, s, b, lo, hi):
    """Subtract from rows[s] the sum of rows[t, b] * rows[t] over t < s: one step of a Cholesky factorisation.

    Four rows at a time spare loads and stores.
    """
    row = rows[s]
    t = 0
    while t + 4 <= s:
        x0, x1, x2, x3 = rows[t, b], rows[t + 1, b], rows[t + 2, b], rows[t + 3, b]
        r0, r1, r2, r3 = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        for a in range(lo, hi):
            row[a] -= (x0 * r0[a] + x1 * r1[a]) + (x2 * r2[a] + x3 * r3[a])
        t += 4
    while t < s:
        x0, r0 = rows[t, b], rows[t]
        for a in range(lo, hi):
            row[a] -= x0 * r0[a]
        t += 1


@inner(fastmath=FAST)
def _choose_greedily(n, m, gain, eta, place, mean, at, rows, var, out):
    """Choose up to m of the features 0..n-1, each time the one that lowers the variance of feature n most.

    Returns how many; `out` lists them. `rows` is the pivoted Cholesky factor of the covariance, one row per choice;
    row m tracks the covariance with feature n given the choices so far.
    """
    cov, zero = rows[m], np.int64(0)  # for a literal 0 numba would compile the callees once more
    _covariance(n, zero, n + 1, place, mean, eta, at, cov)
    for a in range(n):
        var[a] = mean[a] * (1.0 - mean[a])
    left = cov[n]
    floor = DEPENDENT * mean[n]
    for s in range(min(m, n)):
        best, b = 0.0, np.int64(-1)
        for a in range(n):
            if var[a] > 0.0 and cov[a] * cov[a] > best * var[a]:
                best, b = cov[a] * cov[a] / var[a], a
        if b < 0 or left - best < floor or (s >= m // 3 and best < gain * left):
            return s
        left -= best
        out[s] = b
        row = rows[s]
        _covariance(b, zero, n, place, mean, eta, at, row)
        _eliminate(rows, s, b, zero, n)
        scale = 1.0 / math.sqrt(var[b])
        c = cov[b] * scale
        for a in range(n):
            row[a] *= scale
            cov[a] -= c * row[a]
            var[a] -= row[a] * row[a]
            if var[a] < DEPENDENT * mean[a]:
                var[a] = 0.0
        var[b] = 0.0
    return min(m, n)


@ParallelKernel
def select(first, last, start, near, rank, m, gain, corner, eta, ref, chosen, count):
    """Choose the neighbours of the features start + first, ..., start + last - 1 greedily, among lower ranks.

    Row r of `near` lists the nearest features of start + r. Its neighbours go to row r of `chosen`, their number to
    ``count[r]``.
    """
    width = near.shape[1]
    ids, place, mean, at = _scratch(corner.shape[1], width + 1)
    var, rows, out = np.empty(width + 1), np.empty((m + 1, width + 1)), np.empty(m, np.int64)
    for r in range(first, last):
        n = np.int64(0)
        for c in range(width):
            u = near[r, c]
            if rank[u] < rank[start + r]:
                ids[n] = u
                n += 1
        ids[n] = start + r
        _load(n + 1, ids, corner, ref, place, mean)
        count[r] = _choose_greedily(n, m, gain, eta, place, mean, at, rows, var, out)
        for s in range(count[r]):
            chosen[r, s] = ids[out[s]]


@inner(fastmath=FAST)
def _regress(n, eta, place, mean, at, low, c):
    """Regress feature n on features 0..n-1: coefficients in c; returns the variance left (0: dependent on them).

    `low` is the transposed Cholesky factor of the covariance. A neighbour that depends on those before it gets a
    zero row and so the coefficient 0: near-dependent features lose neighbours, never break the factor.
    """
    for s in range(n + 1):
        row = low[s]
        _covariance(s, s, n + 1, place, mean, eta, at, row)
        _eliminate(low, s, s, s, n + 1)
        floor = DEPENDENT * mean[s]
        if not row[s] > floor:
            for a in range(s, n + 1):
                row[a] = 0.0
        elif s < n:
            scale = 1.0 / math.sqrt(row[s])
            for a in range(s, n + 1):
                row[a] *= scale
    for s in range(n - 1, -1, -1):
        x = low[s, n]
        for t in range(s + 1, n):
            x -= low[s, t] * c[t]
        c[s] = x / low[s, s] if low[s, s] > 0.0 else 0.0
    return low[n, n]


@ParallelKernel
def factor(first, last, ptr, nbr, width, corner, eta, ref, diag, off):
    """Compute the rows first..last-1 of U: `diag` (k), and `off` with the value at each neighbour of `nbr`.

    Each feature is regressed on its neighbours, those of row i at ``nbr[ptr[i]:ptr[i + 1]]``, at most `width`.

    A feature found dependent keeps its diagonal only, a constant one a zero row. (Keeping the coefficients over a
    floored variance is unstable: their single precision times 1 / floor sends theta along the null space.)
    """
    ids, place, mean, at = _scratch(corner.shape[1], width + 1)
    c, low = np.empty(width), np.empty((width + 1, width + 1))
    for i in range(first, last):
        n = ptr[i + 1] - ptr[i]
        for a in range(n):
            ids[a] = nbr[ptr[i] + a]
        ids[n] = i
        _load(n + 1, ids, corner, ref, place, mean)
        left = _regress(n, eta, place, mean, at, low, c)
        own = ref[i] * (1.0 - ref[i])
        if left > 0.0:
            diag[i] = 1.0 / math.sqrt(left)
        else:
            diag[i] = 1.0 / math.sqrt(own) if own > DEPENDENT * ref[i] else 0.0
        for a in range(n):
            off[ptr[i] + a] = c[a] * diag[i] if left > 0.0 else 0.0


@ParallelKernel
def multiply(first, last, ptr, index, value, diag, x, out):
    """Multiply a sparse matrix by x: ``out_i = diag_i x_i - sum of value_a x[index_a]`` over the entries a of row i."""
    for i in range(first, last):
        total = diag[i] * x[i]
        for a in range(ptr[i], ptr[i + 1]):
            total -= value[a] * x[index[a]]
        out[i] = total
