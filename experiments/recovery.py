"""Whether adaptive("bic") finds the cells of the model that counts were drawn from, and no cells in noise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import legendre as ld
from legendre.core.types import FloatArray, IntArray

from .settings import Level
from .store import Store

SHAPES = ((12, 12), (8, 8, 8), (16, 16, 16), (5, 5, 5, 5))
TOTALS = (1_000, 10_000, 100_000)
N_CELLS = 5
METHOD = 'adaptive("bic")'
STRENGTH = 1.0
"""|theta| of each true cell; the signs are random."""


@dataclass(frozen=True)
class Recovery:
    """One random table of counts.

    Parameters
    ----------
    shape, total, draw, n_true
        What was drawn: `total` counts from the model with `n_true` cells, seeded by `draw`.
    found
        How many cells were chosen.
    exact, near
        True cells that were chosen; true cells with a chosen one at most one index away in every mode.
    spurious
        Chosen cells with no true one so near.
    kl_truth
        KL from the true distribution to the fitted one.
    seconds
        Of the fit.
    """

    shape: str
    total: int
    draw: int
    n_true: int
    found: int
    exact: int
    near: int
    spurious: int
    kl_truth: float
    seconds: float

    @property
    def method(self) -> str:
        """What chose the cells."""
        return METHOD


def run(store: Store[Recovery], level: Level) -> None:
    """Draw and fit whatever the file lacks."""
    known = {(row.shape, row.total, row.draw, row.n_true) for row in store.rows}
    for shape, total, draw, n_true in settings(level):
        name = " x ".join(map(str, shape))
        if (name, total, draw, n_true) not in known:
            row = recover(shape, total, draw, n_true)
            store.add(row)
            print(f"{name:14} N = {total:<7} true {n_true} found {row.found} exact {row.exact} {row.seconds:.2g} s")


def settings(level: Level) -> Iterator[tuple[tuple[int, ...], int, int, int]]:
    """List shape, number of counts, draw and number of true cells; with 0 cells the counts are noise."""
    for shape in SHAPES:
        for total in TOTALS:
            for draw in range(level.recovery_draws):
                yield shape, total, draw, N_CELLS
                yield shape, total, draw, 0


def recover(shape: tuple[int, ...], total: int, draw: int, n_true: int) -> Recovery:
    """Draw a table and fit it."""
    rng = np.random.default_rng([draw, total, n_true, *shape])
    truth = true_cells(rng, shape, n_true)
    P = distribution(rng, shape, truth)
    counts = rng.multinomial(total, P.ravel()).reshape(shape)
    start = time.perf_counter()
    fit = ld.decompose(counts, ld.adaptive("bic"))
    seconds = time.perf_counter() - start
    apart = np.abs(fit.basis[:, None, :] - truth[None, :, :]).max(axis=-1, initial=0)
    return Recovery(
        shape=" x ".join(map(str, shape)),
        total=total,
        draw=draw,
        n_true=n_true,
        found=fit.n_params,
        exact=int((apart == 0).any(axis=0).sum()),
        near=int((apart <= 1).any(axis=0).sum()),
        spurious=int((~(apart <= 1).any(axis=1)).sum()),
        kl_truth=ld.dual.kl(P, fit.tensor()),
        seconds=seconds,
    )


def true_cells(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> IntArray:
    """Draw different cells, not the bottom, from the lower half of each mode: each then changes many cells."""
    half = tuple(length // 2 + 1 for length in shape)
    flat = rng.choice(np.arange(1, int(np.prod(half))), size=count, replace=False)
    return np.stack(np.unravel_index(flat, half), axis=1).astype(np.int64)


def distribution(rng: np.random.Generator, shape: tuple[int, ...], cells: IntArray) -> FloatArray:
    """Build the model with theta = +-STRENGTH on the cells."""
    theta = np.zeros(shape)
    theta[tuple(cells.T)] = STRENGTH * rng.choice([-1.0, 1.0], size=len(cells))
    q: FloatArray = ld.dual.from_theta(theta)
    return q
