"""Symmetric positive semidefinite systems by LAPACK, and how many threads it and BLAS use.

Cholesky, pivoted where that fails, never an inverse.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from scipy.linalg import lapack

from legendre.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Factor:
    """``G = L L'`` on the independent rows `columns`, up to a scaling of rows and columns."""

    lower: FloatArray
    scale: FloatArray
    columns: IntArray

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve ``G x = right`` (k or k x m); entries of dependent rows are 0, entries beyond float64 are infinite."""
        out = np.zeros_like(right)
        if len(self.columns):
            scale = self.scale if right.ndim == 1 else self.scale[:, None]
            solution, _ = lapack.dpotrs(self.lower, right[self.columns] * scale, lower=1)
            out[self.columns] = solution * scale
        return out


def factorise(g: FloatArray, n_cells: int) -> Factor:
    """Factorise a Fisher matrix g (k x k, symmetric, C order), which is overwritten.

    Cholesky does not mind that variances of features differ by many orders of magnitude. Where it meets a pivot at the
    level of rounding, the diagonal is scaled to 1 and LAPACK's pivoted Cholesky finds the numerical rank. The level
    depends on k and on the number of cells that were summed to get an entry of g.
    """
    k = len(g)
    if not k:
        return Factor(g, np.ones(0), np.arange(0))
    level, diagonal = rounding_level(k, n_cells), np.diagonal(g).copy()
    # in Fortran order LAPACK works in place, and leaves the other triangle as it was
    lower, info = lapack.dpotrf(g.T, lower=1, clean=0, overwrite_a=1)
    if info == 0 and float((np.diagonal(lower) ** 2 / diagonal).min()) > level:
        return Factor(lower, np.ones(k), np.arange(k))
    np.fill_diagonal(g, diagonal)
    g = np.tril(g)
    g += np.tril(g, -1).T
    scale = _scale_to_unit_diagonal(g)
    columns, lower = _factorise_pivoted(g, level)
    return Factor(lower, scale[columns], columns)


def solve(g: FloatArray, n_cells: int, right: FloatArray) -> tuple[Factor, FloatArray]:
    """Factorise a Fisher matrix, which is overwritten, and solve ``G x = right`` with it."""
    factor = factorise(g, n_cells)
    return factor, factor.solve(right)


def independent_columns(g: FloatArray, n_cells: int) -> IntArray:
    """List a maximal set of linearly independent rows of a Gram matrix, in their order; `g` is overwritten."""
    _scale_to_unit_diagonal(g)
    columns, _ = _factorise_pivoted(g, rounding_level(len(g), n_cells))
    return np.sort(columns)


def rounding_level(size: int, n_cells: int) -> float:
    """Bound the rounding error of a pivot of a matrix with unit diagonal: smaller pivots count as 0.

    `size` is the number of rows. An entry was summed over `n_cells` cells, whose errors grow with the square root of
    their number.
    """
    return float(np.finfo(np.float64).eps) * max(size, int(np.sqrt(n_cells)), 16)


def _scale_to_unit_diagonal(g: FloatArray) -> FloatArray:
    """Scale rows and columns of a Gram matrix, in place, so that its diagonal is 1; return the factors.

    Pivots then say how much of a feature's variance is left, whatever that variance is.
    """
    diagonal = np.diagonal(g)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(diagonal > 0, 1.0 / np.sqrt(diagonal), 0.0)
    g *= scale[:, None]
    g *= scale
    return scale


def _factorise_pivoted(g: FloatArray, tolerance: float) -> tuple[IntArray, FloatArray]:
    """Return the rows whose pivots are above the tolerance, and the Cholesky factor L of these rows and columns."""
    lower, pivots, rank, _ = lapack.dpstrf(g.T, tol=tolerance, lower=1)
    return (pivots[:rank] - 1).astype(np.int64), np.asfortranarray(lower[:rank, :rank])


def limit_blas(rows: int = 0, large: int = 2_000) -> AbstractContextManager[None]:
    """Let BLAS and LAPACK use one thread inside, unless matrices have at least `large` rows.

    On a busy machine two threads were up to 50 times slower on smaller factors. A fit, and whatever else multiplies
    small matrices many times, sets the limit once (30 microseconds), not for each product. Compiled kernels have their
    own number of threads, see `legendre.core.compiled`.
    """
    return nullcontext() if rows >= large else _blas_limit()


class _BlasLimit:
    """One BLAS thread for the process until the last of the fits that ask for it, in any thread, has ended.

    The limits of threadpoolctl itself do not count: of two fits that overlap, the second would restore the limit of
    the first.
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
        """Restore these numbers if no other fit needs the limit."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for library, number in self._before:
                    _set_threads(library, number)


def _set_threads(library: Any, number: int) -> None:
    """Set the number of threads of a BLAS library, from any thread."""
    if hasattr(library, "clear_controlling_thread"):  # else it obeys only the thread that set it first
        library.clear_controlling_thread(force=True)
    library.set_num_threads(number)


@cache
def _blas_limit() -> _BlasLimit:
    """Find the loaded BLAS libraries, once: it takes milliseconds."""
    return _BlasLimit()
