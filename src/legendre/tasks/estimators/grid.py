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
from legendre.results.decomposition import Decomposition


def table(samples: ArrayLike, name: str = "samples") -> AnyArray:
    """Return rows of observations as a 2-D array that holds at least one row and one column."""
    if hasattr(samples, "toarray"):
        raise InvalidSamples(f"{name} is sparse; rows of observations are dense. Pass {name}.toarray().")
    rows = rectangular(samples, name, InvalidSamples)
    if rows.ndim != 2:
        raise InvalidSamples(
            f"{name} must be 2-D, one row per observation; got shape {rows.shape}. Reshape your data: "
            "for one variable .reshape(-1, 1), for one observation .reshape(1, -1)."
        )
    if 0 in rows.shape:
        found = f"{rows.shape[0]} sample(s) and {rows.shape[1]} feature(s) (shape={rows.shape})"
        raise InvalidSamples(f"Found array with {found} while a minimum of 1 is required.")
    if rows.dtype.kind == "c":
        raise InvalidSamples(f"Complex data not supported: {name} has dtype {rows.dtype}.")
    return rows


def column_names(samples: ArrayLike) -> list[str] | None:
    """Read the names of a data frame's columns; ``None`` where there are none, or they are not strings."""
    names = list(getattr(samples, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None


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


def check_grid(shape: tuple[int, ...], way_out: str) -> None:
    """Refuse a grid too large to be held."""
    if not holds_grid(shape):
        raise InvalidSamples(grid_trouble(shape, way_out))


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
