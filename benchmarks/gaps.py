"""Real tensors with cells hidden, and the bases that are offered for each.

A mode of time is split where that gives bases something to hold on to: 77 days are 11 weeks of 7 days, 24 hours are 4
quarters of 2 x 3 hours, 18 half hours 3 parts of 2 x 3. Interactions between a coarse part of a mode and another mode
are the coarse interactions of the tensor as it was; other methods get the tensor as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import legendre as ld

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FOLDER = Path(os.environ.get("LEGENDRE_DATA", "../shared/data"))


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor, how it is split, which modes a fibre runs along once it is, and the candidates."""

    name: str
    about: str
    read: Callable[[], Floats]
    split: tuple[int, ...]
    fibre: tuple[int, ...]
    bases: tuple[ld.Basis, ...]
    settings: tuple[tuple[str, float], ...]


def hide(X: Floats, pattern: str, rate: float, along: tuple[int, ...]) -> Bools:
    """Hide observed cells, or whole fibres, at random."""
    shape = [1 if pattern == "fibres" and k in along else n for k, n in enumerate(X.shape)]
    chosen = np.random.default_rng(1).random(shape) < rate
    return np.broadcast_to(chosen, X.shape) & ~np.isnan(X)


def parking() -> Floats:
    """Car park x day x half-hour slot."""
    with np.load(FOLDER / "birmingham_parking.npz") as file:
        return np.where(file["observed"], file["occupancy"], np.nan)


def taxi_pairs() -> Floats:
    """Count trips by pick-up zone x drop-off zone x hour of the day, over 61 days."""
    with np.load(FOLDER / "nyc_taxi.npz") as file:
        return np.asarray(file["trips"].sum(axis=2), dtype=np.float64)


def taxi_days() -> Floats:
    """Count trips by pick-up zone x day x hour, to all zones; two days that are not there fill the ninth week."""
    with np.load(FOLDER / "nyc_taxi.npz") as file:
        counts = file["trips"].sum(axis=1).astype(np.float64)
    return np.concatenate([counts, np.full((30, 2, 24), np.nan)], axis=1)


def airquality() -> Floats:
    """Month x day x variable, each variable divided by its mean."""
    with np.load(FOLDER / "missing_small.npz") as file:
        X = file["airquality"]
    return np.asarray(X / np.nanmean(X, axis=(0, 1)), dtype=np.float64)


def _interactions(*sets: str) -> ld.Basis:
    return ld.interactions([tuple(int(k) for k in group) for group in sets])


# modes of a split tensor: place 0, week 1, day of the week 2, part of the day 3, half of it 4, slot 5
DAYS = tuple(
    _interactions(*sets.split())
    for sets in (
        "012 0345",
        "012 0345 123",
        "012 0345 12345",
        "012 02345 123",
        "0123 0345 12345",
        "0123 0234 0345 1234 12345",
        "0123 0134 0234 0345 1234 12345",
        "01 02 0345 123",
        "01 023 0345 123",
        "01 02345 123",
        "01 02345 12345",
        "013 02345 1234",
        "02345 12345",
    )
)
# counts of every day: an hour of a day has its own level in all zones
DAYS_AND_HOURS = (*DAYS, _interactions("012", "02345", "1234"), _interactions("012", "02345", "12345"))
# from 0, to 1, quarter of the day 2, half of it 3, hour 4
PAIRS = tuple(
    _interactions(*sets.split())
    for sets in (
        "01 234",
        "01 0234",
        "01 0234 1234",
        "01 02 12 234",
        "01 023 123 234",
        "01 023 123 0234",
        "012 234",
        "012 0234",
        "012 0234 1234",
        "012 023 123 234",
        "02 12 234",
        "023 123 234",
        "0234 1234",
    )
)
AIR = (
    *(_interactions(*sets.split()) for sets in ("2", "0 1 2", "02", "02 1", "02 12", "01 2", "01 02")),
    ld.adaptive(60, start=ld.interactions([(0, 2)])),
    ld.adaptive(60, start=ld.interactions([(0, 2)]), candidates=ld.interactions(2)),
)
CELLS = (("cells", 0.2), ("cells", 0.5), ("cells", 0.8))
FIBRES = (("fibres", 0.2), ("fibres", 0.5))

SOURCES = (
    Source(
        "airquality",
        "5 months x 31 days x 4 variables; fibres: days",
        airquality,
        (5, 31, 4),
        (2,),
        AIR,
        CELLS + FIBRES,
    ),
    Source(
        "taxi pairs",
        "30 zones x 30 zones x 24 hours, trips; fibres: pairs of zones",
        taxi_pairs,
        (30, 30, 4, 2, 3),
        (2, 3, 4),
        PAIRS,
        CELLS + FIBRES[:1],
    ),
    Source(
        "parking",
        "30 car parks x 77 days x 18 slots; fibres: a car park's day",
        parking,
        (30, 11, 7, 3, 2, 3),
        (3, 4, 5),
        DAYS,
        CELLS + FIBRES[:1],
    ),
    Source(
        "taxi days",
        "30 zones x 61 days x 24 hours, trips; fibres: a zone's day",
        taxi_days,
        (30, 9, 7, 4, 2, 3),
        (3, 4, 5),
        DAYS_AND_HOURS,
        CELLS[1:2] + FIBRES[:1],
    ),
)
