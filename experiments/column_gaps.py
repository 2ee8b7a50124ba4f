"""Gaps in rows of a hundred columns: ``python -m experiments.column_gaps`` hides values at random and fills them in.

The table is a part of docs/background/columns.md, which `experiments.columns` writes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.csv_records import append, read

import legendre as ld
from experiments.column_sets import load
from legendre.core.types import FloatArray

RESULTS = Path(__file__).parent / "results" / "column_gaps.csv"
SETS = ("jester", "accidents")
N_ROWS, HIDDEN = 3_000, 0.2


@dataclass(frozen=True)
class Row:
    """One method on one data set."""

    problem: str
    columns: int
    method: str
    rmse: float  # at the values that were hidden
    seconds: float  # of processor time, fitting and filling in


def by_means(gaps: FloatArray) -> FloatArray:
    """Fill in column means."""
    return np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)


def by_iterative_imputer(gaps: FloatArray) -> FloatArray:
    """Fill in by scikit-learn's IterativeImputer: a ridge regression of each column on all others, three rounds."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    filled: FloatArray = IterativeImputer(max_iter=3, random_state=0).fit_transform(gaps)
    return filled


def by_trees(gaps: FloatArray, leaf: int) -> FloatArray:
    """Fill in by a regression tree for each column, on all others; the tree takes missing values as they are."""
    from sklearn.tree import DecisionTreeRegressor

    out = gaps.copy()
    for k in range(gaps.shape[1]):
        lost, others = np.isnan(gaps[:, k]), np.delete(gaps, k, axis=1)
        tree = DecisionTreeRegressor(min_samples_leaf=leaf, random_state=0).fit(others[~lost], gaps[~lost, k])
        out[lost, k] = tree.predict(others[lost])
    return out


def by_density(gaps: FloatArray, classes: Any = None) -> FloatArray:
    """Fill in conditional means by this library."""
    density = ld.LegendreDensity(basis=ld.graph(), classes=classes).fit(gaps)
    return np.asarray(density.impute(gaps), dtype=float)


METHODS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "`ld.graph()`": by_density,
    '`ld.graph()`, `classes="auto"`': lambda gaps: by_density(gaps, "auto"),
    "IterativeImputer": by_iterative_imputer,
    **{f"trees, leaves of {leaf} rows": lambda gaps, leaf=leaf: by_trees(gaps, leaf) for leaf in (5, 20, 80)},  # type: ignore[misc]
    "column means": by_means,
}


def section() -> list[str]:
    """Write the lines of the page: a row for each method, the best first."""
    if not (rows := read(RESULTS, Row)):
        return []
    lines = [
        "\n## Gaps in rows\n",
        f"Of {N_ROWS:,} training rows, {100 * HIDDEN:.0f} % of the values are hidden at random and filled in again.",
        "RMSE is over hidden values. IterativeImputer (scikit-learn) runs three rounds of ridge regressions.",
        "Each column has a regression tree, which uses the other columns, gaps included.\n",
        "| data | columns | method | RMSE | seconds |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row.problem for row in rows):
        here = sorted((row for row in rows if row.problem == name), key=lambda row: row.rmse)
        lines += [f"| {r.problem} | {r.columns} | {r.method} | {r.rmse:.4f} | {r.seconds:.1f} |" for r in here]
    return [
        *lines,
        "\n`python -m experiments.column_gaps` measures this, and `python -m experiments.columns` writes it.",
    ]


def main(names: list[str]) -> None:
    """Run what is not in the file yet."""
    for name in names:
        train = load(name)[0][:N_ROWS].astype(float)
        hidden = np.random.default_rng(0).random(train.shape) < HIDDEN
        varied = np.ptp(np.where(hidden, 0.0, train), axis=0) > 0  # constant columns tell nothing
        train, hidden = train[:, varied], hidden[:, varied]
        gaps = np.where(hidden, np.nan, train)
        for method, fill in METHODS.items():
            if not any((row.problem, row.method) == (name, method) for row in read(RESULTS, Row)):
                fill(gaps[:200, :8]) if "graph" in method else None  # loads compiled code
                start = time.process_time()
                filled = fill(gaps)
                seconds = time.process_time() - start
                error = (filled - train)[hidden]
                append(RESULTS, Row(name, gaps.shape[1], method, float(np.sqrt(np.mean(error**2))), seconds))
                print(read(RESULTS, Row)[-1], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
