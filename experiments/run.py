"""Run, draw, report: ``python -m experiments.run [--full] [--only NAME] [--fresh | --ours] [--page]``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.csv_records import append
from benchmarks.measure import OURS as BENCH_OURS
from benchmarks.problems import DataMissing
from benchmarks.rows import Row as BenchRow
from threadpoolctl import threadpool_limits

from . import faces, gradients, heldout, mnist, plots, recovery, scale
from .comparison import Row
from .heldout import HeldOut
from .jobs import OURS
from .page import CIRCUMSTANCES, Circumstances, write_page
from .recovery import Recovery
from .settings import DEFAULT, FULL, Level
from .store import RESULTS, Store


@dataclass(frozen=True)
class Experiment:
    """What is run, what its rows are, and what is drawn from them."""

    name: str
    kind: type[Any]
    run: Callable[[Store[Any], Level], None]
    ours: frozenset[str]  # methods of the package, which a new version computes again
    pictures: tuple[tuple[str, Callable[[Any, Path], None]], ...] = ()


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("gradient", Row, gradients.run, frozenset({"natural"}), (("gradient.png", plots.gradient),)),
        Experiment("scale", BenchRow, scale.run, frozenset({BENCH_OURS}), (("scale.png", plots.sizes),)),
        Experiment("faces", Row, faces.run, frozenset(OURS), (("faces.png", plots.faces),)),
        Experiment(
            "mnist", Row, mnist.run, frozenset(OURS), (("mnist.png", plots.mnist), ("digits.png", plots.digits))
        ),
        Experiment("heldout", HeldOut, heldout.run, frozenset(OURS), (("heldout.png", plots.held_out),)),
        Experiment("recovery", Recovery, recovery.run, frozenset({recovery.METHOD})),
    )
}


def main(arguments: list[str] | None = None) -> int:
    """Compute the rows that the files lack, draw, write the page; return 1 if data were missing."""
    options = _options(arguments)
    complete = True
    if not options.page:
        level = FULL if options.full else DEFAULT
        names = options.only or list(EXPERIMENTS)
        options.output.mkdir(parents=True, exist_ok=True)
        stamp = datetime.now(UTC).strftime("%Y-%m-%d")
        size = "full" if options.full else "default"
        facts = Circumstances(stamp, size, " ".join(names), machine.machine(), "BLAS 1", machine.versions())
        append(options.output / CIRCUMSTANCES, facts)
        with threadpool_limits(1):  # with more threads than idle cores every method is several times slower
            for name in names:
                complete &= _run(EXPERIMENTS[name], level, options.output, options)
    stores = {name: Store.open(options.output, name, e.kind).rows for name, e in EXPERIMENTS.items()}
    for name, experiment in EXPERIMENTS.items():
        for file, draw in experiment.pictures if stores[name] else ():
            draw(stores[name], options.output / file)
            print(f"drawn: {options.output / file}")
    if options.page or not options.elsewhere:
        print(f"written: {write_page(stores, options.output)}")
    return int(not complete)


def _run(experiment: Experiment, level: Level, folder: Path, options: argparse.Namespace) -> bool:
    start = time.monotonic()
    store: Store[Any] = Store.open(folder, experiment.name, experiment.kind, fresh=options.fresh)
    if options.ours:
        store.drop(lambda row: row.method in experiment.ours)
    try:
        experiment.run(store, level)
    except DataMissing as missing:
        print(f"{experiment.name}: {missing}")
        return False
    print(f"{experiment.name}: {time.monotonic() - start:.0f} s, {len(store.rows)} rows in {store.path}", flush=True)
    return True


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.run", description="The paper's experiments, again.")
    parser.add_argument("--full", action="store_true", help="all sizes, more seeds, converged peers: many hours")
    parser.add_argument("--only", choices=sorted(EXPERIMENTS), action="append", help="this experiment alone")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--fresh", action="store_true", help="compute rows again that are there")
    again.add_argument("--ours", action="store_true", help="compute the package's rows again, keep those of others")
    parser.add_argument(
        "--page", action="store_true", help="only draw and write docs/background/results.md from the rows there are"
    )
    parser.add_argument("--output", type=Path, help="folder of the CSV files and figures")
    options = parser.parse_args(arguments)
    options.elsewhere = options.output is not None
    if not options.elsewhere:  # rows of different efforts must not mix
        options.output = RESULTS / "full" if options.full else RESULTS
    return options


if __name__ == "__main__":
    raise SystemExit(main())
