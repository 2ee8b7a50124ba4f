"""Counts of which half are held out: fitted to one half, judged by the other."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from benchmarks.problems import DataMissing, data_folder
from scipy.special import rel_entr

import legendre as ld
from legendre.core.types import FloatArray
from legendre.tasks.compare import ADAPTIVE, PEERS, attempt

from .settings import HELD_OUT_PARAMS, HELD_OUT_PEERS, UNORDERED, Level
from .store import Store


@dataclass(frozen=True)
class Source:
    """Counts, and which modes have no order of their own."""

    name: str
    read: Callable[[], FloatArray]
    modes: tuple[int, ...]


@dataclass(frozen=True)
class HeldOut:
    """One method fitted to one half of the counts.

    Parameters
    ----------
    problem, method, asked, seed, status, n_params, seconds
        As in the rows of a comparison.
    kl
        KL from the half that was fitted, normalised, to Q.
    kl_held_out
        KL from the other half to Q; infinite where Q is 0 and an event fell.
    kl_fitted, kl_one_more
        The same two with one event more in Q, spread evenly over all cells: finite for every method.
    missed
        The share of the held-out events that fell where Q is 0.
    """

    problem: str
    method: str
    asked: int
    seed: int | None
    status: str
    n_params: int | None = None
    seconds: float | None = None
    kl: float | None = None
    kl_held_out: float | None = None
    kl_fitted: float | None = None
    kl_one_more: float | None = None
    missed: float | None = None
    note: str = ""


def _counts(file: str, key: str) -> FloatArray:
    path = data_folder() / file
    if not path.is_file():
        raise DataMissing(f"{file} is not in the folder that LEGENDRE_DATA names")
    with np.load(path, allow_pickle=False) as archive:
        return np.asarray(archive[key], dtype=np.float64)


SOURCES = (
    Source("taxi 30 x 30 x 24", lambda: _counts("nyc_taxi.npz", "trips").sum(axis=2), (0, 1)),
    Source("hangzhou 80 x 25 x 108", partial(_counts, "hangzhou_metro.npz", "flow"), (0, 1)),
    Source("flights3 16 x 105 x 20", partial(_counts, "flights.npz", "flights3"), (0, 1)),
)
"""Zones; stations and days; carriers and destinations are unordered, hours are ordered."""


def split(X: FloatArray, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Deal every event to one of two halves by a fair coin.

    >>> one, other = split(np.array([4.0, 0.0, 10.0]))
    >>> (one + other).tolist()
    [4.0, 0.0, 10.0]
    """
    one = np.random.default_rng(seed).binomial(X.astype(np.int64), 0.5).astype(np.float64)
    return one, X - one


def scores(fitted: FloatArray, other: FloatArray, Q: FloatArray) -> dict[str, float]:
    """Judge Q by both halves."""
    q, n = Q / Q.sum(), float(fitted.sum())
    p = other / other.sum()
    one_more = (n * q + 1 / q.size) / (n + 1)
    return {
        "kl": float(rel_entr(fitted / n, q).sum()),
        "kl_held_out": float(rel_entr(p, q).sum()),
        "kl_fitted": float(rel_entr(fitted / n, one_more).sum()),
        "kl_one_more": float(rel_entr(p, one_more).sum()),
        "missed": float(p[q <= 0].sum()),
    }


def run(store: Store[HeldOut], level: Level) -> None:
    """Fit what the file lacks."""
    known = {(row.problem, row.method, row.asked, row.seed) for row in store.rows if row.status != "NOT INSTALLED"}
    for source in SOURCES:
        fitted, other = split(source.read())
        for method, asked, seed in _jobs(level):
            if (source.name, method, asked, seed) not in known:
                row = _row(source, fitted, other, method, asked, seed, level)
                store.add(row)
                print(f"{row.problem:24} {method:20} {asked:5} {row.status:12} {row.kl} {row.kl_held_out}", flush=True)


def table(rows: Sequence[HeldOut], problem: str) -> dict[tuple[str, int], HeldOut]:
    """Return a row for each method and size that got there: of a peer the seed that is best on the held-out half."""
    best: dict[tuple[str, int], HeldOut] = {}
    for row in rows:
        if row.problem == problem and row.kl_one_more is not None:
            old = best.get((row.method, row.asked))
            if old is None or old.kl_one_more is None or row.kl_one_more < old.kl_one_more:
                best[row.method, row.asked] = row
    return best


def _jobs(level: Level) -> Iterator[tuple[str, int, int | None]]:
    for asked in HELD_OUT_PARAMS:
        yield ADAPTIVE, asked, None
        yield UNORDERED, asked, None
        for method in HELD_OUT_PEERS:
            for seed in range(level.held_out_seeds):
                yield method, asked, seed


def _row(
    source: Source, fitted: FloatArray, other: FloatArray, method: str, asked: int, seed: int | None, level: Level
) -> HeldOut:
    if method in PEERS:
        if not PEERS[method].installed:
            return HeldOut(source.name, method, asked, seed, "NOT INSTALLED")
        facts, Q = attempt(PEERS[method], fitted, asked, level.held_out_effort, seed or 0)
        facts = {name: facts[name] for name in ("status", "n_params", "seconds", "note") if name in facts}
        found: dict[str, Any] = {} if Q is None else scores(fitted, other, Q)
        return HeldOut(source.name, method, asked, seed, **facts, **found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ld.ConvergenceWarning)  # the row has the status
        start = time.perf_counter()
        fit = ld.decompose(fitted, ld.adaptive(asked), unordered=source.modes if method == UNORDERED else ())
        seconds = time.perf_counter() - start
    found = scores(fitted, other, fit.tensor())
    return HeldOut(source.name, method, asked, seed, fit.status.name, fit.n_params, seconds, **found, note="")
