"""Symmetric positive semidefinite linear systems by LAPACK, and the number of threads that it and BLAS use.

Fisher matrices are factorised by Cholesky, pivoted where that fails; no inverse is formed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from scipy.linalg import lapack

from legendre.core.types import FloatArray, IntArray, frozen


@frozen
class Factor:
    """A Cholesky factor of a k x k matrix G: ``S G S = L L'`` on r independent rows and columns, S = diag(scale)."""

    lower: FloatArray  # L, r x r; entries above the diagonal are not used
    scale: FloatArray  # r factors, all 1 if G needed no scaling
    columns: IntArray  # the independent rows of G, in the order of the rows of L

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve ``G x = right`` (k or k x m): ``x = S (L L')^-1 S right`` on independent rows.

        Entries of x at dependent rows are 0; entries beyond the range of float64 are infinite.
        """
        out = np.zeros_like(right)
        if len(self.columns):
            scale = self.scale if right.ndim == 1 else self.scale[:, None]
            solution, _ = lapack.dpotrs(self.lower, right[self.columns] * scale, lower=1)
            out[self.columns] = solution * scale
        return out


def factorise(g: FloatArray, n_cells: int) -> Factor:
    """Factorise a Fisher matrix g (k x k, symmetric, C order), which is overwritten.

    Plain Cholesky is tried first; it is accurate even if variances of features differ by many orders of magnitude. If
    a pivot is as small as rounding errors, parameters are dependent: the diagonal is scaled to 1, and LAPACK's pivoted
    Cholesky finds the numerical rank and independent rows. The size of rounding errors depends on k and on `n_cells`,
    the number of cells that were summed to get an entry of g; see `rounding_level`.
    """
    k = len(g)
    if not k:
        return Factor(g, np.ones(0), np.arange(0))
    level, diagonal = rounding_level(k, n_cells), np.diagonal(g).copy()
    # in Fortran order LAPACK works in place; the transpose has that order, and its upper triangle is not written to
    lower, info = lapack.dpotrf(g.T, lower=1, clean=0, overwrite_a=1)
    # a squared diagonal entry of L over the variance is the share of it that the features before do not explain
    if info == 0 and float((np.diagonal(lower) ** 2 / diagonal).min()) > level:
        return Factor(lower, np.ones(k), np.arange(k))
    # restore g from its saved diagonal and the triangle that LAPACK left, which is the lower one of g itself
    np.fill_diagonal(g, diagonal)
    g = np.tril(g)
    g += np.tril(g, -1).T
    scale = _scale_to_unit_diagonal(g)
    columns, lower = _factorise_pivoted(g, level)
    return Factor(np.asfortranarray(lower), scale[columns], columns)


def solve(g: FloatArray, n_cells: int, right: FloatArray) -> tuple[Factor, FloatArray]:
    """Factorise a Fisher matrix g (k x k), which is overwritten; return the factor and the solution of ``G x = right``.

    `n_cells` is as in `factorise`.
    """
    factor = factorise(g, n_cells)
    return factor, factor.solve(right)


def independent_columns(g: FloatArray, n_cells: int) -> IntArray:
    """List a maximal set of linearly independent rows of a Gram matrix g (k x k), ascending; `g` is overwritten.

    `n_cells` is the number of cells that were summed to get an entry of g.
    """
    _scale_to_unit_diagonal(g)
    columns, _ = _factorise_pivoted(g, rounding_level(len(g), n_cells))
    return np.sort(columns)


def rounding_level(size: int, n_cells: int) -> float:
    """Bound the rounding error of a pivot of a matrix with unit diagonal: smaller pivots count as 0.

    `size` is the number of rows; the elimination of each adds a rounding error. Entries of the matrix were summed over
    `n_cells` cells, and errors of such a sum grow with the square root of their number. Small problems get 16 eps.
    """
    return float(np.finfo(np.float64).eps) * max(size, int(np.sqrt(n_cells)), 16)


def _scale_to_unit_diagonal(g: FloatArray) -> FloatArray:
    """Scale rows and columns of a Gram matrix, in place, so that its diagonal is 1; return the factors (k).

    A pivot is then the share of a feature's variance that the features before it do not explain, so that pivots of all
    features can be compared with one tolerance. Rows with variance 0 become 0.
    """
    diagonal = np.diagonal(g)
    with np.errstate(divide="ignore", invalid="ignore"):  # np.where computes both branches everywhere
        scale = np.where(diagonal > 0, 1.0 / np.sqrt(diagonal), 0.0)
    g *= scale[:, None]
    g *= scale
    return scale


def _factorise_pivoted(g: FloatArray, tolerance: float) -> tuple[IntArray, FloatArray]:
    """Return the r rows whose pivots are above the tolerance, and the Cholesky factor L (r x r) of their submatrix.

    The row with the largest remaining variance is eliminated next (LAPACK's dpstrf). L is a view of g, which is
    overwritten.
    """
    lower, pivots, rank, _ = lapack.dpstrf(g.T, tol=tolerance, lower=1, overwrite_a=1)  # `pivots` count from 1
    return (pivots[:rank] - 1).astype(np.int64), lower[:rank, :rank]


def limit_blas(rows: int = 0, large: int = 2_000) -> AbstractContextManager[None]:
    """Return a context in which BLAS and LAPACK use one thread, unless matrices have at least `large` `rows`.

    On a busy machine two threads were up to 50 times slower on smaller factors. Entering the context takes 30
    microseconds, so a fit, and whatever else multiplies small matrices many times, enters it once, not for each
    product. Compiled kernels have their own number of threads, see `legendre.core.compiled`.
    """
    return nullcontext() if rows >= large else _blas_limit()


class _BlasLimit:
    """Limits BLAS to one thread from when the first fit enters, in any thread of Python, until the last one leaves.

    The number of threads belongs to the process, and fits may overlap. Limits of threadpoolctl do not count their
    users: a second fit would save the limit of the first as the number to restore, and it would never be lifted.
    """

    def __init__(self) -> None:
        """Find the BLAS libraries that are loaded; nothing is limited yet."""
        from threadpoolctl import ThreadpoolController

        self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        self._before: list[tuple[Any, int]] = []  # libraries that use several threads, and how many
        self._lock, self._users = Lock(), 0

    def __enter__(self) -> None:
        """Set the limit if no other fit has; remember the numbers of threads before."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = [(one, n) for one in self._libraries if (n := one.num_threads) > 1]
                for library, _ in self._before:
                    _set_threads(library, 1)

    def __exit__(self, *_: object) -> None:
        """Restore the numbers of threads from before if no other fit needs the limit."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for library, number in self._before:
                    _set_threads(library, number)


def _set_threads(library: Any, number: int) -> None:
    """Set the number of threads of a BLAS library, from any thread of Python."""
    if hasattr(library, "clear_controlling_thread"):  # such a library obeys only the thread that set it first
        library.clear_controlling_thread(force=True)
    library.set_num_threads(number)


@cache
def _blas_limit() -> _BlasLimit:
    """Return the limit that all fits share; to find the loaded BLAS libraries takes milliseconds."""
    return _BlasLimit()
