"""Hide observed cells, fill them in, compare: ``python -m benchmarks.completion``.

Ours sees the hidden cells at no time, and is called in one way for all tensors. The others' settings are the best in
hindsight. One row per tensor, pattern, rate, seed and method goes to results/completion.csv; the table is printed.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

import legendre as ld
from legendre.results.views import deviance_terms

from .gaps import HEADLINE, SOURCES, Bools, Floats, Source, hide
from .imputers import OTHERS, RANKS, Task

RESULTS = Path(__file__).parent / "results" / "completion.csv"
OURS, WEEKS = "legendre", "legendre, weeks"
SEEDS = (101, 102, 103)
"""What hides the cells that are scored; the method was worked out on seeds 1 to 3."""


@dataclass(frozen=True)
class Row:
    """One method on one tensor with cells hidden.

    Parameters
    ----------
    tensor, pattern, rate, seed, hidden
        What was hidden: how many cells, or fibres' cells, and by which seed.
    method, detail
        Who filled it in, and the best setting in hindsight.
    rmse, deviance
        Errors on the hidden cells, in X's units and as Poisson deviance per cell.
    seconds
        With cross-validation, or with all settings.
    """

    tensor: str
    pattern: str
    rate: float
    seed: int
    hidden: int
    method: str
    detail: str
    rmse: float
    deviance: float
    seconds: float

    @property
    def key(self) -> tuple[object, ...]:
        """What a newer row replaces."""
        return self.tensor, self.pattern, self.rate, self.seed, self.method


@dataclass(frozen=True, eq=False)
class Trial:
    """A tensor with some of its observed cells hidden."""

    source: Source
    pattern: str
    rate: float
    seed: int
    X: Floats
    hidden: Bools

    @classmethod
    def of(cls, source: Source, pattern: str, rate: float, seed: int) -> Trial:
        """Read the tensor and hide cells."""
        X = source.read()
        return cls(source, pattern, rate, seed, X, hide(X, pattern, rate, seed))

    def error(self, filled: Floats) -> float:
        """Compute the root mean square error on the hidden cells."""
        return float(np.sqrt(np.mean((self.X - filled)[self.hidden] ** 2)))

    def row(self, method: str, detail: str, filled: Floats, seconds: float) -> Row:
        """Score what was filled in."""
        deviance = deviance_terms(self.X[self.hidden], np.maximum(filled[self.hidden], 0.0))
        named = self.source.name, self.pattern, self.rate, self.seed, int(self.hidden.sum())
        return Row(*named, method, detail, self.error(filled), float(np.mean(deviance)), seconds)

    def ours(self, method: str) -> Row | None:
        """Fill in with this package; nothing is chosen by hand but whether days are laid out by weeks."""
        shape = self.X.shape
        if method == WEEKS:
            if self.source.weeks is None:
                return None
            shape = (shape[0], *self.source.weeks, *shape[2:])
        Y = np.where(self.hidden, np.nan, self.X).reshape(shape)
        start = time.perf_counter()
        done = ld.complete(Y)
        return self.row(
            method, f"{done.fit.n_folds} folds", done.tensor().reshape(self.X.shape), time.perf_counter() - start
        )

    def other(self, method: str, ranks: Sequence[int]) -> Row | None:
        """Fill in with another package, and keep the settings with the least error."""
        start = time.perf_counter()
        best: Row | None = None
        task = Task(self.X, ~np.isnan(self.X) & ~self.hidden, ranks, self.error)
        for setting, filled in OTHERS[method](task):
            if best is None or self.error(filled) < best.rmse:
                best = self.row(method, setting, filled, 0.0)
        return None if best is None else replace(best, seconds=time.perf_counter() - start)


def synthetic() -> float:
    """Fill in a two-body tensor of 30^3 cells, half of them hidden; return the worst relative error."""
    rng = np.random.default_rng(1)
    X = np.exp(np.asarray(sum(np.expand_dims(rng.normal(size=(30, 30)), k) / 2 for k in range(3))))
    hidden = rng.random(X.shape) < 0.5
    done = ld.complete(np.where(hidden, np.nan, X), ld.interactions(2), tol=1e-13)
    return float(np.nanmax(np.abs(done.tensor() / X - 1)[hidden]))


def read(path: Path = RESULTS) -> list[Row]:
    """Read what was measured."""
    if not path.is_file():
        return []
    kinds = {field.name: {"str": str, "float": float, "int": int}[str(field.type)] for field in fields(Row)}
    with path.open(newline="") as stream:
        return [Row(**{name: kinds[name](text) for name, text in line.items()}) for line in csv.DictReader(stream)]


def keep(new: Row, path: Path = RESULTS) -> None:
    """Add a row to the file; a newer row replaces an older one of the same trial and method."""
    print(new, flush=True)
    rows = {row.key: row for row in [*read(path), new]}
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows.values())


def table(rows: Iterable[Row]) -> str:
    """Tabulate the error on the hidden cells, mean +- half of the range over the seeds, one line per setting."""
    methods = [OURS, WEEKS, *OTHERS]
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row.tensor, row.pattern, row.rate, row.method), []).append(row)
    lines = ["| tensor | hidden | " + " | ".join(methods) + " |", "| --- | --- | " + "--- | " * len(methods)]
    for pattern, rate in SOURCES[0].settings:
        for source in SOURCES:
            here = [found.get((source.name, pattern, rate, method), []) for method in methods]
            means = [float(np.mean([row.rmse for row in group])) if group else np.inf for group in here]
            cells = [_entry(group, mean == min(means)) for group, mean in zip(here, means, strict=True)]
            lines.append(f"| {source.name} | {pattern}, {rate:.0%} | " + " | ".join(cells) + " |")
    return "\n".join(line.rstrip() for line in lines)


def _entry(group: list[Row], best: bool) -> str:
    if not group:
        return ""
    errors = [row.rmse for row in group]
    number = f"{np.mean(errors):.4g}"
    spread = f" +- {np.ptp(errors) / 2:.2g}" if len(errors) > 1 else ""
    ranks = sorted({int(row.detail.split()[1].rstrip(",")) for row in group if row.detail.startswith("rank")})
    rank = f" (rank {', '.join(map(str, ranks))})" if ranks else ""
    return (f"**{number}**" if best else number) + spread + rank


def main() -> None:
    """Measure what the command line names, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[source.name for source in SOURCES], action="append", help="these tensors")
    parser.add_argument("--method", choices=[OURS, WEEKS, *OTHERS], action="append", help="these methods")
    parser.add_argument("--seed", type=int, action="append", help="these seeds")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="ranks of the others")
    parser.add_argument("--headline", action="store_true", help="half of the cells hidden, and nothing else")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of what was measured")
    parser.add_argument("--table", action="store_true", help="print the table of what was measured before")
    asked = parser.parse_args()
    if not asked.table:
        print(f"two-body 30^3, half of the cells hidden: worst relative error {synthetic():.1e}")
        _measure(asked)
    print(table(read(asked.results)))


def _measure(asked: argparse.Namespace) -> None:
    for setting in [HEADLINE] if asked.headline else SOURCES[0].settings:
        for source in SOURCES:
            for seed in asked.seed or SEEDS if not asked.only or source.name in asked.only else ():
                trial = Trial.of(source, *setting, seed)
                for method in asked.method or [OURS, WEEKS, *OTHERS]:
                    row = trial.other(method, asked.ranks) if method in OTHERS else trial.ours(method)
                    if row is not None:
                        keep(row, asked.results)


if __name__ == "__main__":
    main()
