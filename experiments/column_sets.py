"""Public data sets of many columns, in three parts: densities.npz in the folder that LEGENDRE_DATA names."""

from __future__ import annotations

import numpy as np
from benchmarks.problems import data_folder

from legendre.core.types import IntArray

FOUR = "dna, 60 columns of 4 levels"


def load(name: str) -> tuple[IntArray, ...]:
    """Read the three parts of a data set; dna also as the 60 letters that its bits stand for."""
    with np.load(data_folder() / "densities.npz", allow_pickle=False) as opened:
        key = "dna" if name == FOUR else name
        n = int(opened[f"{key}_columns"])
        parts = [np.unpackbits(opened[f"{key}_{part}"], axis=1)[:, :n] for part in ("train", "valid", "test")]
    if name == FOUR:
        parts = [part.reshape(len(part), 60, 3) @ np.array([1, 2, 3]) for part in parts]
    return tuple(part.astype(np.int64) for part in parts)
