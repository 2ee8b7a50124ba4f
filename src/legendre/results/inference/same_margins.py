"""Tables with the margins of X: what a decomposable model is tested by exactly, however few the counts are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.types import FloatArray, IntArray
from legendre.model.margins import Modes, decomposable, generating_margins, in_running_order

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def product_margins(fit: Decomposition) -> list[Modes] | None:
    """List the margins of a model that is a product of them on a full grid; ``None`` for others."""
    if not fit.model.support.full or fit.model.base is not None:
        return None
    if not fit.n_params:
        return []
    margins = generating_margins(fit.model)
    return margins if margins is not None and decomposable(margins) and _whole(fit, margins) else None


def _whole(fit: Decomposition, margins: list[Modes]) -> bool:
    """Whether no two levels of a mode that takes part are merged: margins are then those of the table."""
    merged = fit.model.quotient.merged_shape
    return all(merged[k] == fit.shape[k] for group in margins for k in group)


def fixed_margins(fit: Decomposition) -> list[Modes]:
    """List the margins of a decomposable model; refuse any other."""
    margins = product_margins(fit)
    if margins is None:
        raise InvalidQuery(
            "bootstrap(conditional=True) draws tables with the margins of X, which is done for decomposable models on "
            "all cells of a table: those whose margins form a tree, such as [AB][BC]. Leave conditional out."
        )
    return margins


def tables_with_margins(
    counts: IntArray, margins: list[Modes], n: int, random: np.random.Generator
) -> Iterator[FloatArray]:
    """Draw tables from the distribution of a decomposable model given its margins, which has no parameters.

    Cases are dealt anew, one margin after the other: those that agree in what a margin shares with the ones before it
    exchange their levels of what it adds. For two variables that is a permutation test.
    """
    cases = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0)
    ordered = in_running_order(margins)
    free = [k for k in range(counts.ndim) if not any(k in group for group in margins)]
    for _ in range(n):
        rows = np.zeros_like(cases)
        seen = set[int]()
        for group in ordered:
            new = [k for k in group if k not in seen]
            shared = [k for k in group if k in seen]
            given, taken = _strata(cases, shared, counts.shape), _strata(rows, shared, counts.shape)
            dealt = cases[np.lexsort((random.random(len(cases)), given))]
            rows[np.argsort(taken, kind="stable")[:, None], new] = dealt[:, new]
            seen |= set(group)
        for k in free:
            rows[:, k] = random.integers(0, counts.shape[k], len(rows))
        flat = np.ravel_multi_index(tuple(rows.T), counts.shape)
        yield np.bincount(flat, minlength=counts.size).reshape(counts.shape).astype(np.float64)


def _strata(rows: IntArray, modes: list[int], shape: tuple[int, ...]) -> IntArray:
    """Give rows with the same levels of some modes the same number."""
    if not modes:
        return np.zeros(len(rows), dtype=np.int64)
    flat = np.ravel_multi_index(tuple(rows[:, modes].T), tuple(shape[k] for k in modes))
    return np.asarray(flat, dtype=np.int64)
