"""The tables of effects: steps of parameters multiplied out into functions of sets of modes, each with mean 0.

``log(Q / base)`` is a sum of steps, ``theta_u`` wherever a cell is at or above u. A step is a product over the modes in
which u is not 0, and each factor is its mean plus a centred function of one mode. Multiplied out, every step gives
something to each set of those modes: the effects, in time proportional to the basis, without a tensor of X's shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from legendre.core import limits
from legendre.core.errors import TooLarge
from legendre.core.memory import rows_of, size_name
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Modes = tuple[int, ...]
Measure = Literal["uniform", "fitted"]


def weights_of(fit: Decomposition, measure: Measure) -> list[FloatArray]:
    """Give each interval of each mode its weight under the measure; the weights of a mode sum to 1."""
    quotient = fit.model.quotient
    if measure == "uniform":
        return [lengths / lengths.sum() for lengths in quotient.lengths]
    margins = [np.asarray(fit.distribution.marginal([k], {})) for k in range(len(fit.shape))]
    return [np.add.reduceat(margin, cuts) for margin, cuts in zip(margins, quotient.cuts, strict=True)]


def tables_of(
    quotient: Quotient, positions: IntArray, theta: FloatArray, weights: list[FloatArray], max_order: int | None
) -> tuple[dict[Modes, FloatArray], float]:
    """Multiply out the steps of all parameters: a table of merged levels for each set of modes, and the mean."""
    beyond = [np.cumsum(w[::-1])[::-1] for w in weights]  # the measure at or above each interval
    steps: dict[Modes, FloatArray] = {}
    means = [0.0]
    groups = _by_modes(positions)
    _check_sizes(groups, quotient.merged_shape, max_order)
    for modes, rows in groups.items():
        for kept in _subsets(modes, max_order):
            share = theta[rows].copy()
            for k in modes:
                if k not in kept:
                    share *= beyond[k][positions[rows, k]]
            if kept:
                table = steps.setdefault(kept, np.zeros(tuple(quotient.merged_shape[k] for k in kept)))
                np.add.at(table, tuple(positions[rows, k] for k in kept), share)
            else:
                means.append(float(share.sum()))
    centred = {modes: _centred(table, [weights[k] for k in modes]) for modes, table in steps.items()}
    return centred, math.fsum(means)


def _by_modes(positions: IntArray) -> dict[Modes, IntArray]:
    """Group the parameters by the modes in which their cells are not 0."""
    if not len(positions):
        return {}
    patterns, inverse = np.unique(positions > 0, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(inverse.ravel()))[:-1])
    return {tuple(np.flatnonzero(p).tolist()): rows for p, rows in zip(patterns, groups, strict=True)}


def _subsets(modes: Modes, max_order: int | None) -> Iterator[Modes]:
    most = len(modes) if max_order is None else min(max_order, len(modes))
    return chain.from_iterable(combinations(modes, n) for n in range(most + 1))


def _check_sizes(groups: dict[Modes, IntArray], merged_shape: tuple[int, ...], max_order: int | None) -> None:
    """Refuse more tables, or larger ones, than can be formed, and say which order can be had."""
    n_tables = n_cells = 0
    for modes in groups:
        most = len(modes) if max_order is None else min(max_order, len(modes))
        n_tables += sum(math.comb(len(modes), n) for n in range(most + 1))
        largest = sorted((merged_shape[k] for k in modes), reverse=True)[:most]
        n_cells += math.prod(largest)
    if max(n_tables, n_cells) > limits.LARGEST_EFFECTS:
        raise TooLarge(
            f"effects: {size_name(n_tables)} sets of modes with {size_name(n_cells)} cells or more; at most "
            f"{size_name(limits.LARGEST_EFFECTS)} are formed. Ask for effects(max_order=2), or 1."
        )


def _centred(steps: FloatArray, weights: list[FloatArray]) -> FloatArray:
    """Sum steps up along each axis, and take the mean along it away."""
    table = steps
    for axis, w in enumerate(weights):
        table = np.cumsum(table, axis=axis)
        mean = np.tensordot(table, w, axes=(axis, 0))
        table = table - np.expand_dims(mean, axis)
    return table


def variance_of(table: FloatArray, weights: list[FloatArray]) -> float:
    """Return the mean square of a table whose mean is 0."""
    squares = table * table
    for w in reversed(weights):
        squares = squares @ w
    return float(squares)


def total_variance(positions: IntArray, theta: FloatArray, weights: list[FloatArray]) -> float:
    """Compute the variance of log Q from pairs of parameters, where not all effects are formed."""
    beyond = [np.cumsum(w[::-1])[::-1] for w in weights]
    means = np.prod([b[positions[:, k]] for k, b in enumerate(beyond)], axis=0)
    total = 0.0
    for rows in rows_of((len(theta), len(theta))):
        joint = np.ones((len(theta[rows]), len(theta)))
        for k, b in enumerate(beyond):
            joint *= b[np.maximum.outer(positions[rows, k], positions[:, k])]
        total += float(theta[rows] @ (joint - np.outer(means[rows], means)) @ theta)
    return max(total, 0.0)
