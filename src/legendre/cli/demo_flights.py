"""The demo's second part: flights from New York, with the names of carriers, destinations and hours."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from legendre.basis.interactions import interactions
from legendre.core.types import AnyArray, FloatArray
from legendre.data.datasets import flights
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.decompose import decompose
from legendre.results.decomposition import Decomposition
from legendre.tasks.compare.plots import figure, save

CARRIERS, DESTINATIONS = 7, 16
"""How many of them, the busiest, are drawn; with the hours of the day every pair has flights, so that Q is positive."""
FIRST, LAST = 6, 20
"""The hours that are drawn."""
MOST = 4
"""The factor from which on colours are the same: a few pairs that hardly ever fly would leave the rest pale."""
REMARK = """\
Half of all flights: carriers and destinations, each tied to the hour. The picture shows
by what factor each flies more (or less) at an hour than its own and the hour's average."""


def run_flights(folder: Path) -> None:
    """Fit without choices, then a model with a meaning, and draw it."""
    X = flights()
    first = decompose(X)
    print(f"\n{X.values.sum():,} flights by {', '.join(X.names or ())}: a {' x '.join(map(str, X.shape))} tensor")
    print(f"ld.decompose(X), without a basis: {first.reason}")
    fit = busy_fit(X)
    print(f"{fit!r}\n{fit.effects()}\n{REMARK}")
    draw(fit, folder / "flights.png")
    print(f"The picture is in {folder / 'flights.png'}")
    # Here the report page is written, once results have one: fit.report(folder / "flights.html").


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


def draw(fit: Decomposition, path: Path) -> None:
    """Draw two maps: carrier and destination against the hour, early risers on top."""
    made, labels = figure(11, 5.2), fit.labels
    effects, hours = fit.effects(), labels.levels_of(2)
    left, right = made.subplots(1, 2)
    for ax, mode in ((left, 0), (right, 1)):
        values: FloatArray = effects[mode, 2].values
        together = np.asarray(fit.marginal((mode, 2)))
        order = np.argsort(together @ np.arange(len(hours)) / together.sum(axis=1), kind="stable")  # by the mean hour
        image = ax.imshow(values[order], cmap="PuOr_r", vmin=-np.log(MOST), vmax=np.log(MOST), aspect="auto")
        ax.set_yticks(range(len(order)), [labels.level(mode, int(i)) for i in order])
        ax.set_xticks(range(len(hours)), [labels.level(2, j) for j in range(len(hours))])
        ax.set(xlabel=labels.mode(2), ylabel=labels.mode(mode))
        ax.set_title(
            f"{labels.mode(mode)} and {labels.mode(2)}: {100 * effects[mode, 2].share:.0f} % of the variance of log Q"
        )
    ticks = [1 / MOST, 1 / 2, 1, 2, MOST]
    bar = made.colorbar(image, ax=[left, right], label="factor", extend="both")
    bar.set_ticks(np.log(ticks), labels=[f"x {tick:g}" for tick in ticks])
    save(made, path)
