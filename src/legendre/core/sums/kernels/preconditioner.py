"""Compiled parts of a sparse inverse Cholesky factor of the Fisher matrix.

Vecchia's approximation, KL-optimal in the sense of Schaefer, Katzfuss and Owhadi (2021).

Feature i is regressed on a few of its predecessors, the *neighbours* S: ``x_i - c . x_S`` has variance d, and the rows
``(e_i - c) / sqrt(d)`` make U with ``U' U`` close to ``G^-1``. Any entry of G is one look-up in the suffix sums:
``G_uv = eta[max(u, v)] - eta_u eta_v``.

Arguments that the kernels share: `eta`, the suffix sums of q on the merged grid, flattened; `corner` (k x N), the
coordinates of the cells of B times the strides of that grid, so that a row's sum is the cell's place in `eta`; `ref`
(k,), the means of the features, which are eta on B.

Two choices matter (iterations for 6,400 parameters on 40^3, 20 neighbours): predecessors have a smaller coordinate
sum, that is, larger events (334; reversed 378, maximin 438), and among the nearest candidates the neighbours are chosen
greedily by what they add *given those already chosen* (111), not by their own correlation (334).
"""

import math

import numpy as np

from legendre.core.compiled import ParallelKernel, inner

DEPENDENT = 1e-12
"""Bound on the rounding errors of the look-ups and of U, relative to eta. A feature whose variance given others is less
than this share of its mean counts as dependent on them; if its own variance is less, as constant. Neighbours that would
make a feature dependent are not chosen."""


FAST = {"contract"}  # multiply-add in one instruction; the only liberty taken with the arithmetic


@inner
def _allocate(modes, n):
    """Allocate arrays for n features: their numbers, scaled coordinates (N, n), means and places of joins."""
    return np.empty(n, np.int64), np.empty((modes, n), np.int64), np.empty(n), np.empty(n, np.int64)


@inner
def _load(n, ids, corner, ref, place, mean):
    """Copy the scaled coordinates and the mean of the first n features `ids` to `place` (N, n) and `mean`.

    The loops over pairs of features then read consecutive numbers.
    """
    for a in range(n):
        mean[a] = ref[ids[a]]
        for d in range(corner.shape[1]):
            place[d, a] = corner[ids[a], d]


@inner(fastmath=FAST)
def _covariance(b, lo, hi, place, mean, eta, at, row):
    """Fill row[a] with the covariance G_ab of features a and b, for lo <= a < hi.

    It is the suffix sum `eta` at the join of their cells, minus the product of their means. The places of the joins are
    written to `at`, in loops that run in vectors.
    """
    for a in range(lo, hi):
        at[a] = 0
    for d in range(place.shape[0]):
        coordinate = place[d, b]
        for a in range(lo, hi):
            at[a] += max(coordinate, place[d, a])
    for a in range(lo, hi):
        row[a] = eta[at[a]] - mean[b] * mean[a]


@inner(fastmath=FAST)
def _eliminate(rows, s, b, lo, hi):
    """Subtract from rows[s] the sum of rows[t, b] * rows[t] over t < s: one step of a Cholesky factorisation.

    Only the columns lo <= a < hi are needed. Subtracting four rows at a time saves loads and stores of row s.
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
    """Choose up to m of the features 0..n-1 as neighbours of feature n, greedily; return how many, listed in `out`.

    Each choice is the feature that lowers the variance of feature n most, given those chosen before. `rows` (m + 1, n +
    1) is the pivoted Cholesky factor of the covariance matrix, one row for each choice; its row m holds the covariances
    with feature n given the choices so far, and `var` the variances given them. From m / 3 choices on, the next one
    must lower the variance left by the share `gain`.
    """
    cov, zero = rows[m], np.int64(0)  # with a literal 0 numba would compile the callees once more
    _covariance(n, zero, n + 1, place, mean, eta, at, cov)
    for a in range(n):
        var[a] = mean[a] * (1.0 - mean[a])
    variance_left = cov[n]
    floor = DEPENDENT * mean[n]
    for n_chosen in range(min(m, n)):
        # feature a lowers the variance by cov^2 / var, and by nothing if it depends on the choices (var is then 0)
        best, pick = 0.0, np.int64(-1)
        for a in range(n):
            if var[a] > 0.0 and cov[a] * cov[a] > best * var[a]:
                best, pick = cov[a] * cov[a] / var[a], a
        # stop if no feature helps, if feature n would become dependent on the choices, or if the gain is too small
        if pick < 0 or variance_left - best < floor or (n_chosen >= m // 3 and best < gain * variance_left):
            return n_chosen
        variance_left -= best
        out[n_chosen] = pick
        row = rows[n_chosen]
        _covariance(pick, zero, n, place, mean, eta, at, row)
        _eliminate(rows, n_chosen, pick, zero, n)
        # condition all covariances and variances on the new choice
        scale = 1.0 / math.sqrt(var[pick])
        weight = cov[pick] * scale
        for a in range(n):
            row[a] *= scale
            cov[a] -= weight * row[a]
            var[a] -= row[a] * row[a]
            if var[a] < DEPENDENT * mean[a]:
                var[a] = 0.0
        var[pick] = 0.0
    return min(m, n)


@ParallelKernel
def select(first, last, start, near, rank, m, gain, corner, eta, ref, chosen, count):
    """Choose the neighbours of the features start + first, ..., start + last - 1 greedily, at most m each.

    Row r of `near` lists the candidates of feature start + r, its nearest features. Only those with a lower `rank` are
    its predecessors. Its neighbours are written to row r of `chosen`, their number to ``count[r]``. A further neighbour
    must be worth `gain` (see `_choose_greedily`).
    """
    width = near.shape[1]
    ids, place, mean, at = _allocate(corner.shape[1], width + 1)
    var, rows, out = np.empty(width + 1), np.empty((m + 1, width + 1)), np.empty(m, np.int64)
    for r in range(first, last):
        n = np.int64(0)  # the number of predecessors among the candidates
        for c in range(width):
            u = near[r, c]
            if rank[u] < rank[start + r]:
                ids[n] = u
                n += 1
        ids[n] = start + r  # the feature itself comes last
        _load(n + 1, ids, corner, ref, place, mean)
        count[r] = _choose_greedily(n, m, gain, eta, place, mean, at, rows, var, out)
        for s in range(count[r]):
            chosen[r, s] = ids[out[s]]


@inner(fastmath=FAST)
def _regress(n, eta, place, mean, at, low, c):
    """Regress feature n on features 0..n-1; return the variance left, or 0 if feature n depends on them.

    The coefficients are written to c. `low` becomes the transposed Cholesky factor of the covariance matrix of all n +
    1 features, except that its last entry stays a variance. A neighbour that depends on those before it gets a row of
    zeros and so the coefficient 0: near-dependence costs neighbours, but the factorisation never fails.
    """
    for s in range(n + 1):
        row = low[s]
        _covariance(s, s, n + 1, place, mean, eta, at, row)
        _eliminate(low, s, s, s, n + 1)
        floor = DEPENDENT * mean[s]
        if not row[s] > floor:  # also if it is NaN
            for a in range(s, n + 1):
                row[a] = 0.0
        elif s < n:
            scale = 1.0 / math.sqrt(row[s])
            for a in range(s, n + 1):
                row[a] *= scale
    for s in range(n - 1, -1, -1):  # solve the triangular system for c, from the last unknown to the first
        value = low[s, n]
        for t in range(s + 1, n):
            value -= low[s, t] * c[t]
        c[s] = value / low[s, s] if low[s, s] > 0.0 else 0.0
    return low[n, n]


@ParallelKernel
def factor(first, last, ptr, nbr, width, corner, eta, ref, diag, off):
    """Compute the rows first..last-1 of U: the diagonal `diag` (k,), and `off`, minus the entry at each neighbour.

    Feature i is regressed on its neighbours ``nbr[ptr[i]:ptr[i + 1]]``, at most `width`; `off` has the same layout.

    A feature that depends on its neighbours keeps only its diagonal entry, a constant one gets a row of zeros. (It
    would be unstable to keep the coefficients and to raise the variance to a floor: their rounding error in single
    precision, divided by the floor, would move theta along the null space of G.)
    """
    ids, place, mean, at = _allocate(corner.shape[1], width + 1)
    c, low = np.empty(width), np.empty((width + 1, width + 1))
    for i in range(first, last):
        n = ptr[i + 1] - ptr[i]
        for a in range(n):
            ids[a] = nbr[ptr[i] + a]
        ids[n] = i
        _load(n + 1, ids, corner, ref, place, mean)
        left = _regress(n, eta, place, mean, at, low, c)
        alone = ref[i] * (1.0 - ref[i])  # the variance of feature i without the regression
        if left > 0.0:
            diag[i] = 1.0 / math.sqrt(left)
        else:
            diag[i] = 1.0 / math.sqrt(alone) if alone > DEPENDENT * ref[i] else 0.0
        for a in range(n):
            off[ptr[i] + a] = c[a] * diag[i] if left > 0.0 else 0.0


@ParallelKernel
def multiply(first, last, ptr, index, value, diag, x, out):
    """Multiply a sparse matrix by x: ``out_i = diag_i x_i - sum of value_a x[index_a]`` over the entries a of row i.

    Entries off the diagonal are stored with their signs changed, as `factor` writes them.
    """
    for i in range(first, last):
        total = diag[i] * x[i]
        for a in range(ptr[i], ptr[i + 1]):
            total -= value[a] * x[index[a]]
        out[i] = total
