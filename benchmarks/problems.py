"""The named problems. Data sets are read from the folder that LEGENDRE_DATA names and are not part of the project.

Nothing of the package is imported here: `against_worker` makes the same problems for an older version of it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
LEVELS = ("quick", "default", "full")
PAPER_TOL = 1e-5
TIGHT_TOL = 1e-9


class DataMissing(Exception):
    """A data file that is not part of this project is not there."""


@dataclass(frozen=True)
class Problem:
    """A tensor, a basis and a tolerance.

    Parameters
    ----------
    name
        What the rows call it.
    shape
        The shape of X.
    basis
        In the string form of `legendre.decompose`.
    tol
        The fit has to reach ``max|eta - eta_hat| <= tol``.
    level
        The smallest set it belongs to: "quick" is in all, "full" only in the full one.
    source
        File and key of a data set; None is a uniform random float64 tensor, seed 0.
    support
        As in `legendre.decompose`.
    limit
        Seconds after which a measurement is given up.
    unordered, summed
        Modes whose levels have no order, as in `legendre.decompose`; modes of a data set that are summed over.
    task
        "decompose"; "list", the same for a list of cells; "balance", to row and column sums of 1; or "machine", a
        Boltzmann machine of a chain of columns.
    """

    name: str
    shape: tuple[int, ...]
    basis: str
    tol: float
    level: str = "default"
    source: tuple[str, str] | None = None
    support: str = "all"
    limit: float = 120.0
    unordered: tuple[int, ...] = ()
    summed: tuple[int, ...] = ()
    task: str = "decompose"

    @property
    def cells(self) -> int:
        """The number of cells of X."""
        return math.prod(self.shape)

    def tensor(self) -> NDArray[Any]:
        """Make or read X."""
        if self.source is None:
            return np.random.default_rng(0).random(self.shape)
        file, key = self.source
        path = data_folder() / file
        if not path.is_file():
            raise DataMissing(f"{file} is not in the folder that LEGENDRE_DATA names")
        with np.load(path, allow_pickle=False) as archive:
            values: NDArray[Any] = archive[key]
        return values.sum(axis=self.summed) if self.summed else values


def data_folder() -> Path:
    """Where the data sets lie."""
    named = os.environ.get("LEGENDRE_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def cube(side: int, basis: str, tol: float, level: str = "default", limit: float = 120.0) -> Problem:
    """Make a cubic uniform random problem."""
    suffix = "" if tol == PAPER_TOL else f" to {tol:.0e}".replace("e-0", "e-")
    return Problem(f"{side}^3 {basis}{suffix}", (side,) * 3, basis, tol, level, limit=limit)


GROWTH_SIDES = (20, 50, 100, 200, 300, 400, 500)
GROWTH_SIZES = (1, 4, 20, 100, 400, 1000)

CELLS_SWEEP = tuple(
    cube(side, "B3(1)", PAPER_TOL, "quick" if side in (20, 100, 200) else "default") for side in GROWTH_SIDES
)
"""One parameter per slice, more and more cells."""

PARAMS_SWEEP = tuple(
    cube(50, f"B3({size})", TIGHT_TOL, {20: "quick", 1000: "full"}.get(size, "default"), 300.0) for size in GROWTH_SIZES
)
"""The same tensor, more and more parameters."""

FACES = Problem(
    "faces B1+B2(20)+B3(20)",
    (92, 112, 20),
    "B1 + B2(20) + B3(20)",
    TIGHT_TOL,
    "quick",
    ("orl_faces.npz", "faces"),
)
MNIST = Problem(
    "MNIST 3 B3(10)", (28, 28, 500), "B3(10)", PAPER_TOL, "default", ("mnist500.npz", "digit_3"), support="nonzero"
)

SINGLE = (
    cube(500, "B1", PAPER_TOL),
    cube(20, "B3(20)", PAPER_TOL, "quick"),
    cube(20, "B3(40)", PAPER_TOL, "quick"),
    cube(200, "B3(30)", PAPER_TOL),
    cube(100, "B3(1000)", TIGHT_TOL, limit=180.0),
    cube(200, "B3(5000)", TIGHT_TOL, "full", limit=800.0),
    cube(100, "interactions(2)", TIGHT_TOL),
    Problem("29^4 interactions(2)", (29,) * 4, "interactions(2)", TIGHT_TOL, "quick"),
    FACES,
    MNIST,
)


def _grown(name: str, problem: Problem, sizes: tuple[int, ...], kind: str = "adaptive") -> tuple[Problem, ...]:
    return tuple(
        replace(problem, name=f"{name} {kind}({size})", basis=f"{kind}({size})", tol=1e-10, support="all", limit=300.0)
        for size in sizes
    )


TAXI = Problem("taxi", (30, 30, 24), "", 1e-10, source=("nyc_taxi.npz", "trips"), unordered=(0, 1), summed=(2,))
METRO = Problem("metro", (80, 25, 108), "", 1e-10, source=("hangzhou_metro.npz", "flow"), unordered=(0, 1))
FLIGHTS = Problem("flights3", (16, 105, 20), "", 1e-10, source=("flights.npz", "flights3"), unordered=(0, 1))
GROWN = (
    *_grown("faces", FACES, (279, 800, 2000, 4000)),
    *_grown("faces", FACES, (279, 800, 2000), "boxes"),
    *_grown("MNIST 0", replace(MNIST, source=("mnist500.npz", "digit_0"), unordered=(2,)), (2000,)),
    *_grown("MNIST 8", replace(MNIST, source=("mnist500.npz", "digit_8"), unordered=(2,)), (2000,)),
    *_grown("taxi", TAXI, (300,)),
    *_grown("metro", METRO, (300,)),
    *_grown("flights3", FLIGHTS, (300,)),
)
"""Bases that grow: only in `benchmarks.against`, which compares their KL too."""
TASKS = (
    Problem("balance 300x300", (300, 300), "", 1e-10, task="balance"),
    Problem("chain of 100 columns", (2000, 100), "", 1e-10, task="machine"),
    Problem(
        "flightsL B1+B3(5)",
        (4043, 105, 365),
        "B1 + B3(5) + B3(1, axis=0)",
        1e-9,
        source=("flights.npz", "flightsL_coords"),
        support="nonzero",
        limit=300.0,
        task="list",
    ),
)
"""Other tasks, only in `benchmarks.against`."""

PROBLEMS = {problem.name: problem for problem in (*CELLS_SWEEP, *SINGLE, *PARAMS_SWEEP)}


def selected(level: str) -> list[Problem]:
    """List the problems of a set."""
    return [problem for problem in PROBLEMS.values() if LEVELS.index(problem.level) <= LEVELS.index(level)]
