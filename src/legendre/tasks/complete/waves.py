"""Frames in which log q has independent coefficients: the waves of each mode, and the variances of their products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from scipy.fft import dct, idct

from legendre.core.labels import Labels
from legendre.core.types import AnyArray, BoolArray, FloatArray

LONGEST_LEARNED = 500
"""Levels up to which a mode's waves are learned; a longer mode keeps cosine waves, for which there is a transform."""


@dataclass(frozen=True, eq=False)
class Waves:
    """The waves of each mode, the constant first, and three spectra: variances of the waves' coefficients.

    A mode is level (the same for all its levels), free (levels have nothing to do with one another) or alike (levels
    are as alike as neighbours in a random walk, or as was learned). A term says which for each mode, and has a
    variance: that of log q, cell by cell. The variance of a coefficient is a sum over terms of products over modes.

    Parameters
    ----------
    matrices
        The waves, one per row; ``None`` for cosine waves of a long mode.
    spectra
        The variances of the waves' coefficients where the mode is level, free or alike, each with mean 1.
    weights
        The weights of the levels, with mean 1, for which the waves are orthonormal.
    """

    matrices: tuple[FloatArray | None, ...]
    spectra: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]

    @classmethod
    def cosine(cls, shape: tuple[int, ...]) -> Waves:
        """Make cosine waves, the waves of random walks."""
        steps = [2.0 - 2.0 * np.cos(np.pi * np.arange(1, n) / n) for n in shape]
        short = [dct(np.eye(n), norm="ortho", axis=0) if n <= LONGEST_LEARNED else None for n in shape]
        return cls(tuple(short), tuple(_spectra(1.0 / step) for step in steps), tuple(map(np.ones, shape)))

    def learned(self, covariances: Sequence[FloatArray | None], means: FloatArray) -> Waves:
        """Turn the waves so that the covariance of each mode's levels becomes diagonal; ``None``: leave its waves.

        They become orthonormal where a level weighs as much as its mean: the Hessian of the fit is then nearly
        diagonal, and the log of a small level varies more than that of a large one.
        """
        parts = list(zip(self.matrices, self.spectra, self.weights, strict=True))
        for k, covariance in enumerate(covariances):
            if covariance is None:
                continue
            level = means.mean(axis=tuple(j for j in range(means.ndim) if j != k))
            weights = np.maximum(level / level.mean(), 0.01)
            weights /= weights.mean()
            n, root = len(weights), np.sqrt(weights)
            half = root[:, None] * (np.eye(n) - weights / n)  # levels without their weighted mean
            product = half @ covariance @ half.T
            # root is in its null space: sent to the end of the spectrum and left out
            values, vectors = np.linalg.eigh(product - 10.0 * np.trace(product) / n * np.outer(root, root))
            values, vectors = values[:0:-1], vectors[:, :0:-1]
            rows = np.vstack([np.full(n, n**-0.5), vectors.T / root])
            parts[k] = rows, _spectra(np.maximum(values, 1e-9 * values[0])), weights
        return Waves(*zip(*parts, strict=True))

    @cached_property
    def single(self) -> Waves:
        """The same in single precision."""
        return replace(self, matrices=tuple(None if m is None else m.astype(np.float32) for m in self.matrices))

    def to_cells(self, a: FloatArray) -> FloatArray:
        """Sum the waves: from coefficients to cells. The adjoint is `to_waves`."""
        for rows in self.matrices:
            a = _transform(a, idct) if rows is None else multiply(a, rows)
        return a

    def to_waves(self, h: FloatArray) -> FloatArray:
        """Multiply a function on the cells by every wave."""
        for rows in self.matrices:
            h = _transform(h, dct) if rows is None else multiply(h, rows.T)
        return h

    def squares(self, weights: FloatArray) -> FloatArray:
        """Sum the squares of each wave, with weights for the cells."""
        for rows in self.matrices:
            if rows is None:  # on average each level has the same share of a cosine wave
                weights = np.repeat(weights.mean(axis=0)[..., None], len(weights), axis=-1)
            else:
                weights = multiply(weights, rows.T**2)
        return weights

    def coefficients(self, h: FloatArray) -> FloatArray:
        """Compute the coefficients of a function on the cells."""
        return self.to_waves(h * reduce(np.multiply.outer, self.weights))

    @cached_property
    def terms(self) -> BoolArray:
        """True for terms that have a variance: all but the constant one, or those of few modes if that is too many."""
        kinds = [len(rows) for rows in self.spectra]
        modes = np.zeros(kinds, dtype=np.int64)
        for kind in np.indices(kinds, sparse=True):
            modes += kind > 0
        chosen: list[BoolArray] = [(modes > 0) & (modes <= most) for most in range(1, len(kinds) + 1)]
        return max((terms for terms in chosen[1:] if terms.sum() <= 250), key=np.sum, default=chosen[0])

    def variances(self, tau: FloatArray) -> FloatArray:
        """Sum over terms: the variance of each coefficient; that of the constant is so large that it is free."""
        total = reduce(multiply, self.spectra, tau)
        total[(0,) * total.ndim] += 100.0 * total.size
        return total

    def by_term(self, t: FloatArray) -> FloatArray:
        """Sum over coefficients: the adjoint of `variances`."""
        return reduce(multiply, (rows.T for rows in self.spectra), t)

    def name(self, term: tuple[int, ...], labels: Labels) -> str:
        """Name a term by the modes that are not level, with ~ for levels that are alike: ``"1 x 2~"`` for (0, 1, 2)."""
        names = labels.names or range(len(term))
        return " x ".join(f"{name}{'~' * (kind - 1)}" for name, kind in zip(names, term, strict=True) if kind)


def multiply(a: AnyArray, matrix: AnyArray) -> AnyArray:
    """Multiply the first mode by a matrix and make it the last one: after all modes, each is in its place again."""
    product: AnyArray = a.reshape(len(a), -1).T @ matrix
    return product.reshape(*a.shape[1:], matrix.shape[1])


def _transform(a: FloatArray, by: Callable[..., FloatArray]) -> FloatArray:
    return np.moveaxis(by(a, norm="ortho", axis=0), 0, -1)


def _spectra(alike: FloatArray) -> FloatArray:
    """List the spectra of a mode. One level can be level only, and of two levels alike is nothing else than free."""
    n = len(alike) + 1
    rows = np.zeros((min(n, 3), n))
    rows[0, 0] = 1.0
    rows[1:2, 1:] = 1.0
    rows[2:, 1:] = alike
    scaled: FloatArray = n * rows / rows.sum(axis=1, keepdims=True)
    return scaled
