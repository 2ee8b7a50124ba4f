"""Rows of observations and the grid they are counted on; drawing rows from a fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.arguments import is_real, is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.memory import size_name
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.readers.columns import Table, read_table
from legendre.results.decomposition import Decomposition


def samples_of(X: Any, name: str) -> Table:
    """Read rows of observations, at least one row and one column; `name` is what errors call them."""
    samples = read_table(X, name)
    shape = samples.n, len(samples.names)
    if 0 in shape:
        found = f"{shape[0]} sample(s) and {shape[1]} feature(s) (shape={shape})"
        raise InvalidSamples(f"Found array with {found} while a minimum of 1 is required.")
    return samples


def row_weights(weights: ArrayLike | None, n: int) -> FloatArray | None:
    """Check the weights of n rows."""
    if weights is None:
        return None
    w = rectangular(weights, "sample_weight", InvalidSamples)
    if w.dtype.kind not in "biuf" or w.shape != (n,):
        raise InvalidSamples(f"sample_weight must hold {n} numbers, one per row; got shape {w.shape}, dtype {w.dtype}.")
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        raise InvalidSamples(f"sample_weight[{bad[0]}] = {w[bad[0]]}; weights must be finite and >= 0.")
    if not w.any():
        raise InvalidSamples("every sample_weight is zero: there is nothing to fit.")
    return w.astype(np.float64)


def counts(cells: IntArray, shape: tuple[int, ...], weights: FloatArray | None, alpha: float) -> AnyArray:
    """Count the rows that fall on each cell, with `alpha` observations more spread evenly over the grid."""
    n_cells = math.prod(shape)
    flat = np.ravel_multi_index(tuple(cells.T), shape)
    counted: AnyArray = np.bincount(flat, weights=weights, minlength=n_cells).reshape(shape)
    return counted if alpha == 0 else counted + alpha / n_cells


def holds_grid(shape: tuple[int, ...]) -> bool:
    """Tell whether a grid can be held."""
    return len(shape) <= limits.MOST_AXES and math.prod(shape) <= limits.LARGEST_HELD


def grid_trouble(shape: tuple[int, ...], way_out: str) -> str:
    """Say why a grid cannot be held."""
    levels = " x ".join(map(str, shape if len(shape) <= 8 else (*shape[:6], "...", shape[-1])))
    return (
        f"{len(shape)} variables with {levels} levels make a grid of {size_name(math.prod(shape))} cells; at most "
        f"{limits.LARGEST_HELD:,} cells and {limits.MOST_AXES} variables can be held. {way_out}"
    )


def check_alpha(alpha: float) -> float:
    """Refuse a pseudo-count that is none."""
    if not (is_real(alpha) and 0 <= alpha < np.inf):
        raise InvalidSetting(f"alpha must be a finite number >= 0, got {alpha!r}.")
    return float(alpha)


def draw(fit: Decomposition, n: int, random_state: Any) -> IntArray:
    """Draw n cells from a fit, n x N."""
    if not is_whole(n, 1):
        raise InvalidSetting(f"n_samples must be an integer >= 1, got {n!r}.")
    return fit.sample(n, generator(random_state))


def generator(random_state: Any) -> np.random.Generator:
    """Read what scikit-learn calls a random_state: nothing, a seed, a Generator, or its older RandomState."""
    if hasattr(random_state, "randint"):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidSetting(f"random_state must be a seed >= 0 or a Generator, got {random_state!r}.") from None
