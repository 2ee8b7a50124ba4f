"""Columns of a table as modes of a grid: levels of categories and ordinal numbers, bins of continuous ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core.errors import InvalidSamples
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.readers.columns import Column, level_list


@dataclass(frozen=True, eq=False)
class Levels:
    """Distinct values, in the order of the mode."""

    values: AnyArray

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.values)

    def codes(self, column: Column) -> IntArray:
        """Look each value up; -1 where it is no level."""
        return column.codes_in(self.values)

    def log_width(self, codes: IntArray) -> FloatArray:
        """Return the logarithm of the measure of each level, which is 1."""
        return np.zeros(len(codes))

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Return the value of each level."""
        del rng
        return np.asarray(self.values[codes])


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals between increasing edges; what lies beyond the outermost edges counts as lying on them."""

    edges: FloatArray

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    def codes(self, column: Column) -> IntArray:
        """Find the bin of each value."""
        try:
            numbers = column.rows().astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidSamples(f"a column that fit saw as numbers holds something else ({problem}).") from None
        return np.searchsorted(self.edges[1:-1], numbers, side="right").astype(np.int64)

    def log_width(self, codes: IntArray) -> FloatArray:
        """Return the logarithm of the bins' widths."""
        return np.asarray(np.log(np.diff(self.edges))[codes])

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Draw evenly within the bin."""
        return np.asarray(self.edges[codes] + rng.random(len(codes)) * np.diff(self.edges)[codes])


def learn_column(
    column: Column, weights: FloatArray | None, n_bins: int | None, given: Any, name: str
) -> Levels | Bins:
    """Learn levels that are given, bins if the column holds fractions and `n_bins` is set, else the column's levels."""
    values = column.values
    if given is not None:
        levels = level_list(given, f"categories of {name} must be")
        if (codes := column.codes_in(levels)).min() < 0:
            row = int(codes.argmin())
            raise InvalidSamples(f"{name} holds {column.at(row)!r} in row {row}, which categories does not list.")
        return Levels(levels)
    if n_bins is None or column.codes is not None or values.dtype.kind != "f" or (values == np.rint(values)).all():
        return Levels(column.levels(name))
    # with weights, a row of weight 2 is two rows
    cuts = np.linspace(0, 1, n_bins + 1)
    edges = np.unique(np.quantile(values, cuts, method="inverted_cdf", weights=weights))
    if len(edges) < 2:
        raise InvalidSamples(
            f"{name} holds one value only, {values[0]:g} (n_samples={len(values)}): bins need two different ones. "
            "Leave the column out."
        )
    return Bins(edges)
