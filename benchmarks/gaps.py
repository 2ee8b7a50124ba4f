"""Real tensors with observed cells hidden."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
FOLDER = Path(os.environ.get("LEGENDRE_DATA", "../shared/data"))


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor; its days, where it has a mode of them, can be laid out as weeks x days of the week."""

    name: str
    about: str
    read: Callable[[], Floats]
    weeks: tuple[int, ...] | None
    settings: tuple[tuple[str, float], ...]


def hide(X: Floats, pattern: str, rate: float, seed: int) -> Bools:
    """Hide observed cells, or whole fibres along the last mode, at random."""
    shape = (*X.shape[:-1], 1) if pattern == "fibres" else X.shape
    return np.broadcast_to(np.random.default_rng(seed).random(shape) < rate, X.shape) & ~np.isnan(X)


def airquality() -> Floats:
    """Month x day x variable, each variable divided by its mean."""
    with np.load(FOLDER / "missing_small.npz") as file:
        X = file["airquality"]
    return np.asarray(X / np.nanmean(X, axis=(0, 1)), dtype=np.float64)


def taxi_pairs() -> Floats:
    """Count trips by pick-up zone x drop-off zone x hour of the day, over 61 days."""
    with np.load(FOLDER / "nyc_taxi.npz") as file:
        return np.asarray(file["trips"].sum(axis=2), dtype=np.float64)


def taxi_days() -> Floats:
    """Count trips by pick-up zone x day x hour, to all zones; two days that are not there fill the ninth week."""
    with np.load(FOLDER / "nyc_taxi.npz") as file:
        counts = file["trips"].sum(axis=1).astype(np.float64)
    return np.concatenate([counts, np.full((30, 2, 24), np.nan)], axis=1)


def parking() -> Floats:
    """Car park x day x half-hour slot."""
    with np.load(FOLDER / "birmingham_parking.npz") as file:
        return np.where(file["observed"], file["occupancy"], np.nan)


HEADLINE = ("cells", 0.5)
SETTINGS = (HEADLINE, ("cells", 0.2), ("cells", 0.8), ("fibres", 0.2), ("fibres", 0.5))
SOURCES = (
    Source("airquality", "5 months x 31 days x 4 variables; fibres: days", airquality, None, SETTINGS),
    Source("taxi pairs", "30 x 30 zones x 24 hours, trips; fibres: pairs of zones", taxi_pairs, None, SETTINGS),
    Source("taxi days", "30 zones x 61 days x 24 hours, trips; fibres: a zone's day", taxi_days, (9, 7), SETTINGS),
    Source("parking", "30 car parks x 77 days x 18 slots; fibres: a car park's day", parking, (11, 7), SETTINGS),
)
