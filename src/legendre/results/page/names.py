"""Names of levels, of blocks of levels, of cells and of parameters, short enough for a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from legendre.core.labels import Labels
from legendre.core.text_table import shortened
from legendre.core.types import IntArray

LONGEST = 48  # characters of a name
LONGEST_CELL = 200  # characters of the name of a cell


def mode_name(labels: Labels, k: int) -> str:
    """Name a mode."""
    return shortened(labels.mode(k), LONGEST)


def level_name(labels: Labels, k: int, i: int) -> str:
    """Name a level."""
    return shortened(labels.level(k, i), LONGEST)


def block_names(labels: Labels, k: int, cuts: IntArray) -> list[str]:
    """Name blocks of neighbouring levels, given by the first level of each."""
    ends = np.append(cuts[1:], labels.shape[k])
    return [_block_name(labels, k, first, end) for first, end in zip(cuts.tolist(), ends.tolist(), strict=True)]


def _block_name(labels: Labels, k: int, first: int, end: int) -> str:
    if labels.order_of(k) is not None:
        return shortened(labels.together(k, first, end), LONGEST)
    return " to ".join(level_name(labels, k, i) for i in dict.fromkeys((first, end - 1)))


def cell_text(labels: Labels, cell: IntArray) -> str:
    """Name a cell."""
    return shortened(labels.cell(cell), LONGEST_CELL)


def parameter_text(labels: Labels, cell: IntArray) -> str:
    """Name what a parameter acts on: all cells at or above its own, in the modes in which that is not 0.

    >>> parameter_text(Labels.read((2, 24), ["dest", "hour"], {"dest": ["BOS", "SFO"]}), np.array([1, 8]))
    'dest = SFO, hour ≥ 8'
    """
    parts = [labels.from_on(k, int(cell[k]), "≥") for k in np.flatnonzero(cell).tolist()]
    return shortened(", ".join(parts), LONGEST_CELL)


def parameter_texts(cells: IntArray, titles: Sequence[str], labels: Labels) -> Callable[[int], str]:
    """Name parameters by their numbers: tied ones by their titles, others by their cells."""

    def name(i: int) -> str:
        return shortened(titles[i], LONGEST_CELL) if titles and titles[i] else parameter_text(labels, cells[i])

    return name
