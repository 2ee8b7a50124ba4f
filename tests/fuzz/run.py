"""Run the campaign, ``python -m tests.fuzz.run --cases 3000``; or one: ``--target decompose --seed 7 --case 1``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
FAILURES = Path("fuzz-failures")
LATEST = "summary.json"
BATCH = 25  # cases that a process is given at a time
MEMORY = Path("/dev/shm")  # where it is there, files are written to memory: no case waits for a disk
COLUMNS = ("right", "boundary", "unconverged", "refused", "wrong", "exception", "warning", "hang", "changed", "differs")
MARKS = ("<!-- the last long run: written by make fuzz-report -->", "<!-- the end of the last long run -->")
Found = tuple[str, int, str, str, float]  # target, number, kind, sentence, seconds


def arguments_of(target: str, seed: int, number: int) -> dict[str, Any]:
    """Draw the arguments of a case."""
    import numpy as np

    from .targets import all_targets

    rng = np.random.default_rng([seed, zlib.crc32(target.encode()), number])
    return all_targets()[target].draw(rng)


def run_case(target: str, args: dict[str, Any], seconds: float = 10.0) -> Any:
    """Judge one case within so much processor time; files that it writes are in a folder of its own."""
    from .rules import judge
    from .targets import all_targets

    with tempfile.TemporaryDirectory(prefix="fuzz", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        return judge(lambda: all_targets()[target].trial(args, Path(folder)), seconds)


def run_batch(target: str, seed: int, numbers: list[int]) -> list[Found]:
    """Judge some cases of one target."""
    verdicts = [(number, run_case(target, arguments_of(target, seed, number))) for number in numbers]
    return [(target, number, verdict.kind, verdict.said, verdict.seconds) for number, verdict in verdicts]


class Tally:
    """What has been found so far."""

    def __init__(self, seed: int, folder: Path, quiet: bool = False) -> None:
        self.seed, self.folder, self.quiet = seed, folder, quiet
        self.counts: dict[str, Counter[str]] = {}
        self.slowest: dict[str, tuple[float, int]] = {}
        self.seconds: Counter[str] = Counter()

    def add(self, target: str, number: int, kind: str, said: str, seconds: float) -> None:
        """Count a case; keep its arguments if it failed."""
        self.counts.setdefault(target, Counter())[kind] += 1
        self.seconds[target] += seconds  # type: ignore[assignment]
        self.slowest[target] = max(self.slowest.get(target, (0.0, 0)), (seconds, number))
        if kind in COLUMNS[4:]:
            self._keep(target, number, kind, said)

    def _keep(self, target: str, number: int, kind: str, said: str) -> None:
        from .codec import to_json

        self.folder.mkdir(parents=True, exist_ok=True)
        case = {
            "target": target,
            "seed": self.seed,
            "case": number,
            "kind": kind,
            "said": said,
        }
        try:
            case["args"] = to_json(arguments_of(target, self.seed, number))
        except Exception as problem:
            case["args"] = f"not kept: {problem}"
        (self.folder / f"{target}-{self.seed}-{number}.json").write_text(json.dumps(case, indent=1))
        if not self.quiet:
            print(f"FAILED {kind}: --target {target} --seed {self.seed} --case {number}: {said[:300]}", flush=True)

    @property
    def failed(self) -> int:
        """How many cases broke a rule."""
        return sum(count[kind] for count in self.counts.values() for kind in COLUMNS[4:])

    def summary(self) -> dict[str, Any]:
        """Return the counts, as they are written to a file."""
        rows = {
            name: {
                "cases": sum(count.values()),
                **{kind: count[kind] for kind in COLUMNS},
                "slowest": round(self.slowest[name][0], 3),
                "slowest_case": self.slowest[name][1],
                "mean_ms": round(1e3 * self.seconds[name] / max(1, sum(count.values())), 2),
            }
            for name, count in self.counts.items()
        }
        return {"seed": self.seed, "targets": rows}


def table(summary: dict[str, Any]) -> str:
    """Write the counts as a table of Markdown."""
    head = ["target", "cases", *COLUMNS, "slowest (s)"]
    rows = [
        [name, f"{row['cases']:,}", *(f"{row[kind]:,}" for kind in COLUMNS), f"{row['slowest']:.2f}"]
        for name, row in summary["targets"].items()
    ]
    every = summary["targets"].values()
    sums = [sum(row[kind] for row in every) for kind in ("cases", *COLUMNS)]
    rows.append(["all", *(f"{n:,}" for n in sums), f"{max((row['slowest'] for row in every), default=0.0):.2f}"])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        [text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))]
        for row in [head, *rows]
    ]
    rule = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def campaign(cases: int, seed: int, jobs: int, names: list[str] | None, folder: Path, quiet: bool = False) -> Tally:
    """Share the cases out among the targets and the targets' cases among the processes.

    A case that takes too long ends itself. A process that dies ends the campaign, and the error names its batch.
    """
    from .targets import all_targets

    chosen = {name: t for name, t in all_targets().items() if names is None or name in names}
    share = sum(t.share for t in chosen.values())
    batches = []
    for name, t in chosen.items():
        n = max(1, round(cases * t.share / share))
        batches += [(name, seed, list(range(i, min(i + BATCH, n)))) for i in range(0, n, BATCH)]
    batches.sort(key=lambda batch: batch[2][0])  # all targets side by side
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(THREADS, "1"))  # of the processes that start
    tally, begun, done = Tally(seed, folder, quiet), time.monotonic(), 0
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run_batch, *batch): batch for batch in batches}
        for future in as_completed(futures):
            try:
                found = future.result()
            except Exception as problem:
                raise RuntimeError(f"{futures[future]}: {problem}") from problem
            for case in found:
                tally.add(*case)
            done += len(found)
            if not quiet and done % 2000 < len(found):
                print(f"{done:,} cases, {tally.failed} failed, {time.monotonic() - begun:.0f} s", flush=True)
    for name in THREADS:
        os.environ.pop(name)
    os.environ.update(before)
    return tally


def report(page: Path, folder: Path) -> None:
    """Write the table of the last run into a page of the documentation."""
    summary = json.loads((folder / LATEST).read_text())
    cases = sum(row["cases"] for row in summary["targets"].values())
    text = page.read_text()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    said = f"Seed {summary['seed']}, {cases:,} cases, {summary['minutes']:.0f} minutes on {summary['jobs']} cores."
    page.write_text(f"{before}{MARKS[0]}\n\n{said}\n\n{table(summary)}\n\n{MARKS[1]}{after}")


def one_case(target: str, seed: int, number: int) -> int:
    """Run one case in this process and print all about it."""
    from .codec import to_json

    args = arguments_of(target, seed, number)
    print(json.dumps(to_json(args), indent=None)[:4000])
    verdict = run_case(target, args)
    print(f"{verdict.kind} after {verdict.seconds:.3f} s\n{verdict.said}")
    return int(verdict.failed)


def main(argv: list[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--cases", type=int, help="how many in all")
    parser.add_argument("--seed", type=int, help="by default a fresh one, which is printed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--target", action="append", help="one target or several; by default all")
    parser.add_argument("--case", type=int, help="run only this case of the target")
    parser.add_argument("--failures", type=Path, default=FAILURES, help="folder for failures and for the summary")
    parser.add_argument("--report", type=Path, help="write the table of the last run into this page")
    given = parser.parse_args(argv)
    if given.case is not None:
        return one_case(given.target[0], given.seed or 0, given.case)
    if given.cases is None and given.report is not None:
        report(given.report, given.failures)
        return 0
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    begun = time.monotonic()
    tally = campaign(given.cases or 3000, seed, given.jobs, given.target, given.failures)
    summary = tally.summary() | {"minutes": (time.monotonic() - begun) / 60.0, "jobs": given.jobs}
    given.failures.mkdir(parents=True, exist_ok=True)
    (given.failures / LATEST).write_text(json.dumps(summary, indent=1))
    print(f"{table(summary)}\nseed {seed}, {time.monotonic() - begun:.0f} s")
    if given.report is not None:
        report(given.report, given.failures)
    return int(tally.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
