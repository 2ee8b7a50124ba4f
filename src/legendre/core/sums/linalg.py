"""Symmetric positive semidefinite systems by LAPACK, and how many threads it and BLAS use.

Cholesky, pivoted where that fails, never an inverse.

The last bits of a product or a factor depend on the number of threads, and a BLAS library has one for the whole
process. So fits in several threads take turns: while one has changed the number, no other starts a product whose bits
would follow, and whoever changed it puts it back before the next. (Limits that overlap are put back in the wrong order;
threadpoolctl ignores those of a second thread, also where the first only waits for it inside a limit of its own.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from legendre.core import limits
from legendre.core.threads import most_threads
from legendre.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    from threadpoolctl import LibController

_HELD: ContextVar[int | None] = ContextVar("legendre_blas_threads", default=None)
"""The number of BLAS threads that a section around the present one has set, in this thread."""


@dataclass(frozen=True, eq=False)
class Factor:
    """``G = L L'`` on the independent rows `columns` of `size`, up to a scaling of rows and columns."""

    lower: FloatArray
    scale: FloatArray
    columns: IntArray
    size: int

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve ``G x = right``, k or k x m; dependent entries of x are 0, and infinite what float64 cannot hold."""
        out = np.zeros_like(right)
        if len(self.columns):
            scale = self.scale if right.ndim == 1 else self.scale[:, None]
            with _threads(len(self.columns)):
                solution, _ = lapack.dpotrs(self.lower, right[self.columns] * scale, lower=1)
            out[self.columns] = solution * scale
        return out

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of the inverse of G on the independent rows; 0 for the others."""
        out = np.zeros(self.size)
        if len(self.columns):
            with few_threads(len(self.columns), least=0):  # the bits of dpotri follow the threads at every size
                inverse, _ = lapack.dpotri(self.lower, lower=1)
            with np.errstate(over="ignore"):  # of a variance of 1e-310 the inverse is infinite
                out[self.columns] = np.diagonal(inverse) * self.scale**2
        return out


def factorise(g: FloatArray, n_cells: int) -> Factor:
    """Factorise a Fisher matrix g (k x k, symmetric, C order), which is overwritten.

    Cholesky does not mind that variances of features differ by many orders of magnitude. Where it meets a pivot at the
    level of rounding, the diagonal is scaled to 1 and LAPACK's pivoted Cholesky finds the numerical rank. The level
    depends on k and on the number of cells that were summed to get an entry of g.
    """
    k = len(g)
    if not k:
        return Factor(g, np.ones(0), np.arange(0), 0)
    level, diagonal = rounding_level(k, n_cells), np.diagonal(g).copy()
    with _threads(k):
        # in Fortran order LAPACK works in place, and leaves the other triangle as it was
        lower, info = lapack.dpotrf(g.T, lower=1, clean=0, overwrite_a=1)
        if info == 0 and float((np.diagonal(lower) ** 2 / diagonal).min()) > level:
            return Factor(lower, np.ones(k), np.arange(k), k)
        np.fill_diagonal(g, diagonal)
        g = np.tril(g)
        g += np.tril(g, -1).T
        scale = _scale_to_unit_diagonal(g)
        columns, lower = _pivoted(g, level)
    return Factor(lower, scale[columns], columns, k)


def independent_columns(g: FloatArray, n_cells: int) -> IntArray:
    """List a maximal set of linearly independent rows of a Gram matrix, in their order; `g` is overwritten."""
    _scale_to_unit_diagonal(g)
    with _threads(len(g)):
        columns, _ = _pivoted(g, rounding_level(len(g), n_cells))
    return np.sort(columns)


def rounding_level(size: int, n_cells: int) -> float:
    """Pivots of a unit-diagonal matrix below this are indistinguishable from 0."""
    return float(np.finfo(np.float64).eps) * max(size, int(np.sqrt(n_cells)), 16)


def _threads(size: int) -> AbstractContextManager[None]:
    """Limit the threads of a factor or a solution; below some size LAPACK takes one by itself."""
    return nullcontext() if size < limits.NO_BLAS_THREADS else few_threads(size)


def _scale_to_unit_diagonal(g: FloatArray) -> FloatArray:
    diagonal = np.diagonal(g)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(diagonal > 0, 1.0 / np.sqrt(diagonal), 0.0)
    g *= scale[:, None]
    g *= scale
    return scale


def _pivoted(g: FloatArray, tolerance: float) -> tuple[IntArray, FloatArray]:
    lower, pivots, rank, _ = lapack.dpstrf(g.T, tol=tolerance, lower=1)
    return (pivots[:rank] - 1).astype(np.int64), np.asfortranarray(lower[:rank, :rank])


@contextmanager
def few_threads(size: int, least: int = limits.NO_BLAS_THREADS) -> Iterator[None]:
    """Let one thread factorise a matrix of `size` rows, all of them a large one; below `least` rows one does anyway."""
    if size < least:
        yield
        return
    with all_threads():
        if size >= limits.ONE_BLAS_THREAD:
            yield
            return
        with _limited(1):
            yield


def one_thread() -> AbstractContextManager[None]:
    """Let one thread do all linear algebra: of matrices that are small, or read from memory more than computed with."""
    return few_threads(0, least=0)


def product_threads(rows: int, inner: int, columns: int) -> AbstractContextManager[object]:
    """Let one thread multiply matrices of these sizes, all of them large ones; tiny products never start any."""
    work = rows * inner * columns
    return one_thread() if limits.TINY_PRODUCT <= work < limits.LARGE_PRODUCT else all_threads()


def all_threads() -> AbstractContextManager[object]:
    """Wait until no other thread has changed the number of BLAS threads, and keep it as it is meanwhile.

    Where the caller allows fewer (`threads`), so many are used.
    """
    most = most_threads()
    return _turn(os.getpid()) if most is None else _limited(most)


@contextmanager
def _limited(most: int) -> Iterator[None]:
    """Take the turn, and use at most so many threads; inside a section that uses no more nothing need be done."""
    held = _HELD.get()
    if held is not None and held <= most:
        yield
        return
    with _turn(os.getpid()):
        above = [(library, threads) for library in _blas() if (threads := library.num_threads or 0) > most]
        token = _HELD.set(most)
        try:
            for library, _ in above:
                _set_threads(library, most)
            yield
        finally:
            for library, threads in above:
                _set_threads(library, threads)
            _HELD.reset(token)


def _set_threads(library: LibController, number: int) -> None:
    if hasattr(library, "clear_controlling_thread"):  # else it ignores all threads but the one that set it first
        library.clear_controlling_thread(force=True)
    library.set_num_threads(number)


def dot(a: FloatArray, b: FloatArray) -> float:
    """Sum the products of two vectors without BLAS, whose last bits depend on threads from 10,000 entries on."""
    return float(np.einsum("i,i->", a, b))


@cache
def _turn(process: int) -> AbstractContextManager[object]:  # noqa: ARG001
    """Return the lock of a process: a forked child would inherit one held by a thread that it does not have."""
    return RLock()


@cache
def _blas() -> tuple[LibController, ...]:
    """List the loaded BLAS libraries; finding them takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return tuple(library for library in ThreadpoolController().lib_controllers if library.user_api == "blas")
