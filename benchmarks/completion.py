"""Hide observed cells, fill them in, compare: ``python -m benchmarks.completion``.

Ours sees the hidden cells at no time: the basis is chosen by cross-validation on the cells that are left, and a cell
that it does not determine takes its value from the next best basis that does. The others' ranks and seeds are the best
in hindsight. One row per tensor, pattern, rate and method goes to results/completion.csv; the table is printed.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

import legendre as ld
from legendre.completion.crossval import poisson_deviance
from legendre.completion.extrapolate import determined_values
from legendre.fit import fit_on
from legendre.intake import observe

from .gaps import SOURCES, Bools, Floats, Source, hide
from .imputers import OTHERS

RESULTS = Path(__file__).parent / "results" / "completion.csv"
OURS = "legendre"
FOLDS = 5


@dataclass(frozen=True)
class Row:
    """One method on one tensor with cells hidden.

    Parameters
    ----------
    tensor, pattern, rate, hidden
        What was hidden.
    method, detail
        Who filled it in, and how: the basis, or the best rank and seed.
    rmse, deviance
        Errors on the hidden cells, in X's units and as Poisson deviance per cell.
    scored, undetermined
        Hidden cells that were scored, and those that the chosen basis left to the next best.
    seconds
        With cross-validation, or with all ranks and seeds.
    """

    tensor: str
    pattern: str
    rate: float
    hidden: int
    method: str
    detail: str
    rmse: float
    deviance: float
    scored: int
    undetermined: int
    seconds: float


def ours(X: Floats, hidden: Bools, source: Source, pattern: str) -> tuple[Floats, str, int]:
    """Choose by cross-validation, fill in; cells left open go to the next best basis."""
    Y = np.where(hidden, np.nan, X)
    folds: str | tuple[int, ...] = "cells" if pattern == "cells" else source.fibre
    done = ld.complete(Y, list(source.bases), cv=FOLDS, criterion="rmse", folds=folds, tol=1e-9)
    assert done.cv is not None
    filled = done.tensor.copy()
    left = int((hidden & np.isnan(filled)).sum())
    by_name = {repr(basis): basis for basis in source.bases}
    for score in sorted((s for s in done.cv.scores if s.rmse > 0), key=lambda s: s.rmse):
        if not (hidden & np.isnan(filled)).any():
            break
        if score.basis in by_name:
            following = fit_on(observe(Y), by_name[score.basis], tol=1e-9, ranked=False)
            filled = np.where(np.isnan(filled), determined_values(following), filled)
    return filled, done.fit.recipe, left


def synthetic() -> Row:
    """Fill in a two-body tensor of 30^3 cells, half of them hidden."""
    rng = np.random.default_rng(1)
    log_q = sum(np.expand_dims(rng.normal(size=(30, 30)), k) / 2 for k in range(3))
    X = np.exp(np.asarray(log_q))
    hidden = rng.random(X.shape) < 0.5
    start = time.perf_counter()
    done = ld.complete(np.where(hidden, np.nan, X), ld.interactions(2), tol=1e-13)
    seconds = time.perf_counter() - start
    scored = hidden & ~np.isnan(done.tensor)
    worst = float(np.abs(done.tensor / X - 1)[scored].max())
    counts = int(hidden.sum()), int(scored.sum())
    detail = f"interactions(2), worst relative error {worst:.1e}"
    return _row(
        "two-body 30^3", "cells", 0.5, OURS, detail, X, done.tensor, hidden, scored, counts[0] - counts[1], seconds
    )


def _row(
    tensor: str,
    pattern: str,
    rate: float,
    method: str,
    detail: str,
    X: Floats,
    filled: Floats,
    hidden: Bools,
    scored: Bools,
    left: int,
    seconds: float,
) -> Row:
    x, m = X[scored], np.maximum(filled[scored], 0.0)
    rmse, deviance = float(np.sqrt(np.mean((x - filled[scored]) ** 2))), float(np.mean(poisson_deviance(x, m)))
    return Row(
        tensor, pattern, rate, int(hidden.sum()), method, detail, rmse, deviance, int(scored.sum()), left, seconds
    )


def measure_ours(source: Source, pattern: str, rate: float) -> Row:
    """Fill in with this package."""
    X = source.read().reshape(source.split)
    hidden = hide(X, pattern, rate, source.fibre)
    start = time.perf_counter()
    filled, detail, left = ours(X, hidden, source, pattern)
    seconds = time.perf_counter() - start
    scored = hidden & ~np.isnan(filled)
    return _row(source.name, pattern, rate, OURS, detail, X, filled, hidden, scored, left, seconds)


def measure_other(source: Source, pattern: str, rate: float, method: str) -> Row | None:
    """Fill in with another package, and keep the settings with the least error."""
    X = source.read()
    hidden = hide(X.reshape(source.split), pattern, rate, source.fibre).reshape(X.shape)
    start = time.perf_counter()
    best: Row | None = None
    for setting, tensor in OTHERS[method](X, ~np.isnan(X) & ~hidden):
        spent = time.perf_counter() - start
        row = _row(source.name, pattern, rate, method, setting, X, tensor, hidden, hidden, 0, spent)
        best = row if best is None or row.rmse < best.rmse else best
    return None if best is None else replace(best, seconds=time.perf_counter() - start)


def read(path: Path = RESULTS) -> list[Row]:
    """Read what was measured."""
    if not path.is_file():
        return []
    kinds = {field.name: {"str": str, "float": float, "int": int}[str(field.type)] for field in fields(Row)}
    with path.open(newline="") as stream:
        return [Row(**{name: kinds[name](text) for name, text in line.items()}) for line in csv.DictReader(stream)]


def keep(new: list[Row], path: Path = RESULTS) -> None:
    """Add rows to the file; a newer row replaces an older one of the same setting and method."""
    for row in new:
        print(row, flush=True)
    rows = {(row.tensor, row.pattern, row.rate, row.method): row for row in [*read(path), *new]}
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows.values())


def table(rows: list[Row]) -> str:
    """Tabulate the error on the hidden cells, one line per setting."""
    methods = [OURS, *OTHERS]
    lines = [
        "| tensor | hidden | " + " | ".join(methods) + " | basis | undetermined |",
        "| --- | --- | " + "--- | " * len(methods) + "--- | --- |",
    ]
    found = {(row.tensor, row.pattern, row.rate, row.method): row for row in rows}
    for source in SOURCES:
        for pattern, rate in source.settings:
            here = {method: found.get((source.name, pattern, rate, method)) for method in methods}
            least = min((row.rmse for row in here.values() if row is not None), default=0.0)
            mine = here[OURS]
            how = ("", "") if mine is None else (_short(mine.detail), f"{mine.undetermined} of {mine.hidden}")
            cells = [_entry(row, least) for row in here.values()]
            lines.append(f"| {source.name} | {pattern}, {rate:.0%} | " + " | ".join([*cells, *how]) + " |")
    return "\n".join(lines)


def _entry(row: Row | None, least: float) -> str:
    if row is None:
        return ""
    number = f"**{row.rmse:.4g}**" if row.rmse == least else f"{row.rmse:.4g}"
    return f"{number} ({row.detail.partition(',')[0]})" if row.detail.startswith("rank") else number


def _short(basis: str) -> str:
    """Write sets of modes as words: (0, 1), (1, 2) is 01 12."""
    return (
        re.sub(r"(?<!\w)\((\d(?:, \d)*),?\)", lambda m: m[1].replace(", ", ""), basis).replace("[", "").replace("]", "")
    )


def main() -> None:
    """Measure what was asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [source.name for source in SOURCES]
    parser.add_argument("--only", choices=["synthetic", *names], action="append", help="measure these tensors only")
    parser.add_argument("--method", choices=[OURS, *OTHERS], action="append", help="measure these methods only")
    parser.add_argument("--table", action="store_true", help="print the table of what was measured before")
    asked = parser.parse_args()
    wanted = [] if asked.table else asked.only or ["synthetic", *names]
    if "synthetic" in wanted:
        keep([synthetic()])
    for source in SOURCES:
        for pattern, rate in source.settings if source.name in wanted else ():
            for method in asked.method or [OURS, *OTHERS]:
                row = (
                    measure_ours(source, pattern, rate)
                    if method == OURS
                    else measure_other(source, pattern, rate, method)
                )
                keep([] if row is None else [row])
    print(table(read()))


if __name__ == "__main__":
    main()
