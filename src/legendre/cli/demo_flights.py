"""The demo's second part: flights from New York, with the names of carriers, destinations and hours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from legendre.basis.interactions import interactions
from legendre.core.types import AnyArray
from legendre.data.datasets import flights
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.decompose import decompose
from legendre.results.decomposition import Decomposition
from legendre.tasks.compare.plots import save

CARRIERS, DESTINATIONS = 7, 16
"""How many of them, the busiest, are drawn; with the hours of the day every pair has flights, so that Q is positive."""
FIRST, LAST = 6, 20
"""The hours that are drawn."""
REMARK = """\
Half of all flights: carriers and destinations, each tied to the hour. The picture shows
by what factor a carrier, a destination or an hour has more flights than the average,
and a pair of them more than its two parts tell."""


def run_flights(folder: Path) -> None:
    """Fit without choices, then a model with a meaning, and draw it."""
    X = flights()
    first = decompose(X)
    print(f"\n{X.values.sum():,} flights by {', '.join(X.names or ())}: a {' x '.join(map(str, X.shape))} tensor")
    print(f"ld.decompose(X), without a basis: {first.reason}")
    fit = busy_fit(X)
    print(f"{fit!r}\n{fit.effects()}\n{REMARK}")
    save(fit.plot.effects(), folder / "flights.png")
    print(f"The picture is in {folder / 'flights.png'}")
    fit.report(folder / "flights.html")
    print(f"Effects, slices, residuals and parameters are on one page, {folder / 'flights.html'}: open it in a browser")


def busy_fit(X: SparseTensor) -> Decomposition:
    """Fit the busiest part of the table: pairs of carrier and hour, and of destination and hour."""
    counts, levels = X.toarray(), [np.asarray(level) for level in X.levels or ()]
    hours = np.flatnonzero((levels[2] >= FIRST) & (levels[2] <= LAST))
    kept = [busiest(counts, 0, CARRIERS), busiest(counts, 1, DESTINATIONS), hours]
    part, names = counts[np.ix_(*kept)], [level[some] for level, some in zip(levels, kept, strict=True)]
    return decompose(part, interactions([("carrier", "hour"), ("dest", "hour")]), names=X.names, levels=names)


def busiest(counts: AnyArray, mode: int, n: int) -> AnyArray:
    """List the levels of a mode with the most flights, in their own order."""
    totals = counts.sum(axis=tuple(k for k in range(counts.ndim) if k != mode))
    return np.sort(np.argsort(-totals, kind="stable")[:n])
