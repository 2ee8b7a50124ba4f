"""Problems as users have them, each the first thing that a fresh process does: see `first_use`.

A data set that is not at hand (LEGENDRE_DATA) is drawn, with the same shape, dtype and about as many zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from legendre.data.sparse import observe_rows

from .problems import data_folder

Draw = Callable[[np.random.Generator, Path], Any]
Run = Callable[[Any], Any]
FLIGHTS = (4043, 105, 365)


def _read(file: str, key: str) -> Any:
    """Read a data set; None where it is not at hand."""
    path = data_folder() / file
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as archive:
        return archive[key]


def _smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Draw a tensor with broad bumps, so that there is something to find."""
    total: Any = rng.random(shape) * 0.1
    for _ in range(8):
        bumps = [np.exp(-(((np.arange(n) / n - rng.random()) / 0.2) ** 2)) for n in shape]
        part = bumps[0]
        for bump in bumps[1:]:
            part = np.multiply.outer(part, bump)
        total = total + part
    return total


def _cube(side: int) -> Draw:
    return lambda rng, _: rng.random((side,) * 3)


def _mapped(rng: np.random.Generator, folder: Path) -> Any:
    path = folder / "mapped.npy"
    np.save(path, rng.random((300, 300, 300), dtype=np.float32))
    return np.load(path, mmap_mode="r")


def _faces(rng: np.random.Generator, _: Path) -> Any:
    found = _read("orl_faces.npz", "faces")
    return (60 * _smooth(rng, (92, 112, 20))).astype(np.uint8) if found is None else found


def _digits(rng: np.random.Generator, _: Path) -> Any:
    found = _read("mnist500.npz", "digit_3")
    if found is not None:
        return found
    drawn = (60 * _smooth(rng, (28, 28, 500))).astype(np.uint8)
    return np.where(rng.random(drawn.shape) < 0.2, drawn, 0).astype(np.uint8)


def _metro(rng: np.random.Generator, _: Path) -> Any:
    found = _read("hangzhou_metro.npz", "flow")
    return rng.poisson(40 * _smooth(rng, (80, 25, 108))).astype(np.uint16) if found is None else found


def _flights(rng: np.random.Generator, _: Path) -> Any:
    if (cells := _read("flights.npz", "flightsL_coords")) is not None:
        return ld.from_coords(cells, _read("flights.npz", "flightsL_counts"), FLIGHTS)
    places = (rng.random((312_541, 3)) ** 2 * FLIGHTS).astype(np.int64)
    return ld.from_coords(places, rng.integers(1, 4, len(places)), FLIGHTS)


def _text(rng: np.random.Generator, folder: Path) -> Any:
    path = folder / "counts.tns"
    cells = (rng.random((300_000, 3)) ** 2 * (1_000, 1_000, 200)).astype(np.int64) + 1
    np.savetxt(path, np.column_stack([cells, rng.integers(1, 10, len(cells))]), fmt="%d")
    return path


def _rows(rng: np.random.Generator, _: Path) -> Any:
    """Draw 100 binary columns, each of which often repeats the one before it."""
    fresh = rng.random((20_000, 100)) < 0.5
    repeat = rng.random(fresh.shape) < 0.3
    for k in range(1, 100):
        fresh[:, k] = np.where(repeat[:, k], fresh[:, k - 1], fresh[:, k])
    return fresh.astype(np.int64)


def _gaps(rng: np.random.Generator, _: Path) -> Any:
    X = _smooth(rng, (100, 100, 100))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def _chain(rows: Any) -> Any:
    edges = [(k, k + 1) for k in range(99)]
    data = observe_rows(rows, np.ones(len(rows)), (2,) * 100)
    return ld.decompose(data, ld.interactions([*((k,) for k in range(100)), *edges]))


def _fit(basis: str | None, **settings: Any) -> Run:
    return lambda X: ld.decompose(X, basis, progress=False, **settings)


PROBLEMS: dict[str, tuple[Draw, Run]] = {
    "dense 20^3, B3(20)": (_cube(20), _fit("B3(20)")),
    "dense 200^3, B3(1)": (_cube(200), _fit("B3(1)")),
    "dense 100^3, B3(30)": (_cube(100), _fit("B3(30)")),
    "float32 300^3 from a file, B3(1)": (_mapped, _fit("B3(1)")),
    "faces, adaptive(279)": (_faces, _fit("adaptive(279)")),
    "faces, no basis named": (_faces, _fit(None)),
    "MNIST with its zeros, adaptive(300)": (_digits, _fit("adaptive(300)")),
    "50^3, interactions(2)": (_cube(50), _fit("interactions(2)")),
    "metro 80x25x108, boxes(100)": (_metro, _fit("boxes(100)")),
    "flights (sparse), adaptive(200)": (_flights, _fit("adaptive(200)", support="nonzero")),
    "text file, 3e5 entries": (_text, lambda path: ld.decompose(ld.read_tns(path), "B1", support="nonzero")),
    "100 binary columns, chain": (_rows, _chain),
    "complete 100^3 with gaps, B3(30)": (_gaps, lambda X: ld.complete(X, "B3(30)")),
    "50^3, 12,000 parameters": (_cube(50), _fit("B3(240)", tol=1e-6)),
    "balance 1000 x 1000": (
        lambda rng, _: rng.random((1000, 1000)),
        lambda X: ld.balance(X, {0: np.ones(1000), 1: np.ones(1000)}),
    ),
}


def tensor(name: str, folder: Path) -> Any:
    """Make or read what a problem begins with, always the same."""
    draw, _ = PROBLEMS[name]
    return draw(np.random.default_rng(0), folder)


def size(X: Any) -> int:
    """Count the cells of X, or the bytes of a file."""
    return X.stat().st_size if isinstance(X, Path) else math.prod(X.shape)
