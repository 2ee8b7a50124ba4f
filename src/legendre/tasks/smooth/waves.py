"""Cosine waves on a grid, and the variances of their coefficients.

A mode is level, free or a walk. Level: the same for all its coordinates. Free: coordinates have nothing to do with one
another. Walk: neighbours are alike, as in a random walk. A term says which for each mode, and has a variance: that of
log q, cell by cell. The waves diagonalise all terms at once, so that the variance of a coefficient is a sum over terms
of products over modes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import dct, idct

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray


@dataclass(frozen=True)
class Waves:
    """The cosine waves of a grid, orthonormal, and the spectra of its terms.

    Examples
    --------
    >>> waves = Waves((2, 3))
    >>> waves.to_cells(waves.to_waves(np.arange(6.0).reshape(2, 3))).round(9).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """

    shape: tuple[int, ...]

    @cached_property
    def matrices(self) -> tuple[FloatArray | None, ...]:
        """The waves of each mode, one per row; ``None`` for a long mode."""
        return tuple(_cosines(n) if n <= limits.LARGEST_COSINES else None for n in self.shape)

    def to_cells(self, a: FloatArray) -> FloatArray:
        """Sum the waves: from coefficients to cells. The adjoint is `to_waves`."""
        for rows in self.matrices:
            a = _transform(a, idct) if rows is None else _product(a, rows)
        return a

    def to_waves(self, h: FloatArray) -> FloatArray:
        """Compute the coefficients of a function on the grid."""
        for rows in self.matrices:
            h = _transform(h, dct) if rows is None else _product(h, rows.T)
        return h

    @cached_property
    def spectra(self) -> tuple[FloatArray, ...]:
        """For each mode the variances of its waves when it is level, free or a walk, each with mean 1 over the cells.

        One coordinate can be level only, and of two a walk is nothing else than free.

        Examples
        --------
        >>> Waves((1, 2, 3)).spectra[2].round(6).tolist()
        [[3.0, 0.0, 0.0], [0.0, 1.5, 1.5], [0.0, 2.25, 0.75]]
        """
        return tuple(_spectrum(n) for n in self.shape)

    @cached_property
    def terms(self) -> BoolArray:
        """True for terms that have a variance: all but the constant one, or those of few modes if that is too many.

        Examples
        --------
        >>> Waves((2, 3)).terms.tolist()
        [[False, True, True], [True, True, True]]
        """
        kinds = [len(rows) for rows in self.spectra]
        modes = np.zeros(kinds, dtype=np.int64)
        for kind in np.indices(kinds, sparse=True):
            modes += kind > 0
        most = max(
            m for m in range(1, len(kinds) + 1) if m == 1 or np.sum((modes > 0) & (modes <= m)) <= limits.MOST_TERMS
        )
        chosen: BoolArray = (modes > 0) & (modes <= most)
        return chosen

    def variances(self, tau: FloatArray) -> FloatArray:
        """Sum over terms: the variance of each coefficient.

        Examples
        --------
        >>> Waves((2,)).variances(np.array([0.0, 2.0])).tolist()
        [0.0, 4.0]
        """
        for rows in self.spectra:
            tau = _product(tau, rows)
        return tau

    def by_term(self, t: FloatArray) -> FloatArray:
        """Sum over coefficients: the adjoint of `variances`."""
        for rows in self.spectra:
            t = _product(t, rows.T)
        return t

    def name(self, term: tuple[int, ...]) -> str:
        """Name a term: the modes that are not level, with ~ for a walk.

        Examples
        --------
        >>> Waves((4, 5, 6)).name((0, 1, 2))
        '1 x 2~'
        """
        return " x ".join(f"{k}{'~' * (kind - 1)}" for k, kind in enumerate(term) if kind)


def _product(a: FloatArray, matrix: FloatArray) -> FloatArray:
    """Multiply the first mode by a matrix and make it the last one: done for all modes, each is in its place."""
    product: FloatArray = (a.reshape(len(a), -1).T @ matrix).reshape(*a.shape[1:], matrix.shape[1])
    return product


def _transform(a: FloatArray, by: Callable[..., FloatArray]) -> FloatArray:
    return np.moveaxis(by(a, norm="ortho", axis=0), 0, -1)


def _cosines(n: int) -> FloatArray:
    rows: FloatArray = np.cos(np.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n) * np.sqrt(2.0 / n)
    rows[0] = np.sqrt(1.0 / n)
    return rows


def _spectrum(n: int) -> FloatArray:
    wave = np.arange(1, n)
    steps = 2.0 - 2.0 * np.cos(np.pi * wave / n)  # the squared steps of a wave from neighbour to neighbour
    rows = np.zeros((min(n, 3), n))
    rows[0, 0] = 1.0
    rows[1:2, 1:] = 1.0
    rows[2:, 1:] = 1.0 / steps
    normal: FloatArray = n * rows / rows.sum(axis=1, keepdims=True)
    return normal
