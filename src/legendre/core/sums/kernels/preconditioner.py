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
from numba import prange

from legendre.core.compiled import ParallelKernel, compiled

TASKS = 256  # pieces of work handed to the threads; each brings its own scratch memory
DEPENDENT = 1e-12
"""Rounding in the look-ups and in U, relative to eta: a feature with less variance given others is dependent on them
(with less variance of its own: constant). Neighbours that would make it so are not chosen."""


FAST = {"contract"}  # multiply-add in one instruction; the only liberty taken with the arithmetic


@compiled()
def _load(ids, corner, ref, place, mean):
    """Copy what the kernels need of the features `ids`: place (N, n), coordinates times strides, and mean (n)."""
    for a in range(ids.size):
        mean[a] = ref[ids[a]]
        for d in range(corner.shape[1]):
            place[d, a] = corner[ids[a], d]


@compiled(fastmath=FAST)
def _covariance(b, lo, hi, place, mean, eta, at, row):
    """row[a] = G_ab for lo <= a < hi: the suffix sum at the elementwise maximum, less the product of the means."""
    at[lo:hi] = 0
    for d in range(place.shape[0]):
        own = place[d, b]
        for a in range(lo, hi):
            at[a] += max(own, place[d, a])
    for a in range(lo, hi):
        row[a] = eta[at[a]] - mean[b] * mean[a]


@compiled(fastmath=FAST)
def _eliminate(rows, s, b, lo, hi):
    """rows[s] -= sum over t < s of rows[t, b] rows[t], four at a time to spare loads and stores."""
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


@compiled(fastmath=FAST)
def _greedy(n, m, gain, eta, place, mean, at, rows, var, out):
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
def select(start, near, rank, m, gain, corner, eta, ref, chosen, count):
    """`_greedy` for features start, start+1, ...; row r of `near` lists the nearest features of start + r."""
    total, width = near.shape
    for task in prange(TASKS):
        ids = np.empty(width + 1, np.int64)
        place = np.empty((corner.shape[1], width + 1), np.int64)
        mean, var = np.empty(width + 1), np.empty(width + 1)
        at = np.empty(width + 1, np.int64)
        rows = np.empty((m + 1, width + 1))
        out = np.empty(m, np.int64)
        for r in range(task * total // TASKS, (task + 1) * total // TASKS):
            n = np.int64(0)
            for u in near[r]:
                if rank[u] < rank[start + r]:
                    ids[n] = u
                    n += 1
            ids[n] = start + r
            _load(ids[: n + 1], corner, ref, place, mean)
            count[r] = _greedy(n, m, gain, eta, place, mean, at, rows, var, out)
            for s in range(count[r]):
                chosen[r, s] = ids[out[s]]


@compiled(fastmath=FAST)
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
            row[s : n + 1] = 0.0
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
def factor(ptr, nbr, width, corner, eta, ref, diag, off):
    """Rows of U: diag (k) and off-diagonal values along `nbr`.

    A feature found dependent keeps its diagonal only, a constant one a zero row. (Keeping the coefficients over a
    floored variance is unstable: their single precision times 1 / floor sends theta along the null space.)
    """
    k = ref.size
    for task in prange(TASKS):
        ids = np.empty(width + 1, np.int64)
        place = np.empty((corner.shape[1], width + 1), np.int64)
        mean, c = np.empty(width + 1), np.empty(width)
        at = np.empty(width + 1, np.int64)
        low = np.empty((width + 1, width + 1))
        for i in range(task * k // TASKS, (task + 1) * k // TASKS):
            n = ptr[i + 1] - ptr[i]
            ids[:n] = nbr[ptr[i] : ptr[i + 1]]
            ids[n] = i
            _load(ids[: n + 1], corner, ref, place, mean)
            left = _regress(n, eta, place, mean, at, low, c)
            own = ref[i] * (1.0 - ref[i])
            if left > 0.0:
                diag[i] = 1.0 / math.sqrt(left)
                for a in range(n):
                    off[ptr[i] + a] = c[a] * diag[i]
            else:
                diag[i] = 1.0 / math.sqrt(own) if own > DEPENDENT * ref[i] else 0.0
                off[ptr[i] : ptr[i + 1]] = 0.0


@compiled()
def transpose(ptr, nbr, off, tptr, trow, tval):
    """Compressed columns of U's off-diagonal part, so that U' too is applied without two threads writing one entry."""
    k = ptr.size - 1
    tptr[:] = 0
    for a in range(nbr.size):
        tptr[nbr[a] + 1] += 1
    for i in range(k):
        tptr[i + 1] += tptr[i]
    fill = tptr[:-1].copy()
    for i in range(k):
        for a in range(ptr[i], ptr[i + 1]):
            at = fill[nbr[a]]
            trow[at] = i
            tval[at] = off[a]
            fill[nbr[a]] = at + 1


@ParallelKernel
def multiply(ptr, index, value, diag, x, out):
    """out_i = diag_i x_i - sum_a value_a x_index[a] over row i."""
    for i in prange(diag.size):
        total = diag[i] * x[i]
        for a in range(ptr[i], ptr[i + 1]):
            total -= value[a] * x[index[a]]
        out[i] = total
