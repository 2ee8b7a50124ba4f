"""The Fisher matrix of tied parameters on a grid, from eta at the joins of their cells, without a matrix of cells."""

from legendre.core.compiled import ParallelKernel, inner


@inner
def _tied_row(i, eta, corner, starts, values, ref, g):
    """Fill row i up to the diagonal; the entries of all columns before it lie one after the other."""
    modes = corner.shape[1]
    lo, hi = starts[i], starts[i + 1]
    for j in range(i + 1):
        total = 0.0
        for a in range(lo, hi):
            part = 0.0
            for b in range(starts[j], starts[j + 1]):
                at = 0
                for d in range(modes):
                    at += max(corner[a, d], corner[b, d])
                part += values[b] * eta[at]
            total += values[a] * part
        g[i, j] = total - ref[i] * ref[j]


@ParallelKernel
def fill_tied(first, last, eta, corner, starts, values, ref, g):
    """Fill the lower triangle; rows are paired, long with short, to balance the threads.

    corner: for each entry of A its cell, coordinates times strides (entries, N); starts: where columns begin.
    """
    m = ref.size
    for task in range(first, last):
        for side in range(2):
            _tied_row(task if side == 0 else m - 1 - task, eta, corner, starts, values, ref, g)


@ParallelKernel
def tied_variances(first, last, eta, corner, starts, values, ref, out):
    """Compute the diagonal of the same matrix."""
    modes = corner.shape[1]
    for i in range(first, last):
        total = 0.0
        for a in range(starts[i], starts[i + 1]):
            for b in range(starts[i], starts[i + 1]):
                at = 0
                for d in range(modes):
                    at += max(corner[a, d], corner[b, d])
                total += values[a] * values[b] * eta[at]
        out[i] = total - ref[i] * ref[i]
