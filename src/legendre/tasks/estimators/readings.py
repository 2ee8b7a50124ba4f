"""How a density reads a column: as levels, or as bins of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core.arguments import is_real
from legendre.core.errors import InvalidSamples
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.readers.columns import Column


@dataclass(frozen=True, eq=False)
class Levels:
    """Distinct values, in the order of the mode."""

    values: AnyArray

    def codes(self, column: Column) -> IntArray:
        """Look each value up; -1 where it is not a level."""
        return column.codes_in(self.values)

    def place(self, value: Any, labels: Labels, k: int) -> int:
        """Find the level of one value, which column k holds."""
        return labels.find_level(k, value, "given", InvalidSamples)

    @property
    def names(self) -> AnyArray:
        """What the levels are called."""
        return self.values

    @property
    def log_widths(self) -> FloatArray:
        """The logarithm of the measure of each level, which is 1."""
        return np.zeros(len(self.values))

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Return the value of each level."""
        del rng
        return np.asarray(self.values[codes])


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals between increasing edges; what lies beyond the outermost edges counts as lying on them."""

    edges: FloatArray

    def codes(self, column: Column) -> IntArray:
        """Find the bin of each value."""
        try:
            numbers = column.rows().astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidSamples(f"a column that fit saw as numbers holds something else ({problem}).") from None
        return np.searchsorted(self.edges[1:-1], numbers, side="right").astype(np.int64)

    def place(self, value: Any, labels: Labels, k: int) -> int:
        """Find the bin of one value, which column k holds."""
        if not is_real(value) or value != value:
            raise InvalidSamples(f"given: {labels.mode(k)} holds numbers, which were put in bins; got {value!r}.")
        return int(np.searchsorted(self.edges[1:-1], float(value), side="right"))

    @property
    def names(self) -> AnyArray:
        """What the bins are called: their middles."""
        return (self.edges[:-1] + self.edges[1:]) / 2

    @property
    def log_widths(self) -> FloatArray:
        """The logarithm of each bin's width."""
        return np.log(np.diff(self.edges))

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Draw evenly within the bin."""
        return np.asarray(self.edges[codes] + rng.random(len(codes)) * np.diff(self.edges)[codes])
