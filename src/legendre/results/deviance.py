"""How far entries of X lie from those of Q, in terms of the deviance: for pictures, and for the page."""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray


def deviances(x: FloatArray, q: FloatArray) -> FloatArray:
    """Terms of the deviance, ``2 (x log(x / q) - x + q)``: 0 where x = q; NaN where x is not known.

    >>> deviances(np.array([2.0, 3.0]), np.array([2.0, 1.0])).round(4).tolist()
    [0.0, 2.5917]
    """
    from scipy.special import rel_entr

    with np.errstate(invalid="ignore"):
        terms = 2.0 * (rel_entr(x, q) - x + q)
    return np.asarray(np.maximum(terms, 0.0), dtype=np.float64)  # rounding may leave -1e-16


def signed_roots(x: FloatArray, q: FloatArray) -> FloatArray:
    """Square roots of the terms, with the sign of ``x - q``: for counts about standard normal if the model holds.

    >>> signed_roots(np.array([2.0, 3.0, 1.0]), np.array([2.0, 1.0, 2.0])).round(4).tolist()
    [0.0, 1.6099, -0.7834]
    """
    return np.asarray(np.sign(x - q) * np.sqrt(deviances(x, q)))
