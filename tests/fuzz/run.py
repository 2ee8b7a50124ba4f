"""Run the campaign, ``python -m tests.fuzz.run --cases 3000``; or one: ``--target decompose --seed 7 --case 1``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
BATCH = 25  # cases that a process is given at a time
MEMORY = Path("/dev/shm")  # where it is there, files are written to memory: no case waits for a disk
COLUMNS = ("right", "boundary", "unconverged", "refused", "wrong", "exception", "warning", "hang", "changed", "differs")
Found = tuple[str, int, str, str, float]  # target, number, kind, sentence, seconds


def arguments_of(target: str, seed: int, number: int) -> dict[str, Any]:
    """Draw the arguments of a case."""
    import numpy as np

    from .targets import all_targets

    rng = np.random.default_rng([seed, zlib.crc32(target.encode()), number])
    return all_targets()[target].draw(rng)


def to_text(target: str, args: dict[str, Any]) -> str:
    """Write a case down, so that it stays one when the generators change."""
    import numpy as np

    with np.printoptions(threshold=sys.maxsize, linewidth=118, floatmode="unique"):
        return f"{target}\n{args!r}\n"


def from_text(text: str) -> tuple[str, dict[str, Any]]:
    """Read the target and the arguments back."""
    import numpy as np

    def array(values: Any, dtype: Any = None, shape: Any = None) -> Any:
        made = np.array(values, dtype)
        return made if shape is None else made.reshape(shape)

    target, args = text.split("\n", 1)
    return target, eval(args, {**vars(np), "np": np, "array": array})


def run_case(target: str, args: dict[str, Any], seconds: float = 10.0) -> Any:
    """Judge one case within so much processor time, in a folder of its own; twice more if it may have compiled code."""
    from .rules import judge
    from .targets import all_targets

    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="fuzz", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
            verdict = judge(partial(all_targets()[target].trial, args, Path(folder)), seconds)
        if verdict.kind != "hang":
            break
    return verdict


def run_batch(target: str, seed: int, numbers: list[int]) -> list[Found]:
    """Judge some cases of one target."""
    verdicts = [(number, run_case(target, arguments_of(target, seed, number))) for number in numbers]
    return [(target, number, verdict.kind, verdict.said, verdict.seconds) for number, verdict in verdicts]


def campaign(cases: int, seed: int, jobs: int, names: list[str] | None, folder: Path) -> list[Found]:
    """Share the cases out among the targets and the targets' cases among the processes; keep those that fail.

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
    found: list[Found] = []
    begun = time.monotonic()
    one_thread = patch.dict(os.environ, dict.fromkeys(THREADS, "1"))  # for the processes that start
    with one_thread, ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run_batch, *batch): batch for batch in batches}
        for future in as_completed(futures):
            try:
                part = future.result()
            except Exception as problem:
                raise RuntimeError(f"{futures[future]}: {problem}") from problem
            found += part
            if len(found) % 5000 < len(part):
                print(f"{len(found):,} cases, {time.monotonic() - begun:.0f} s", flush=True)
            for name, number, kind, said, _ in filter(failed, part):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}-{seed}-{number}.txt").write_text(to_text(name, arguments_of(name, seed, number)))
                print(f"FAILED {kind}: --target {name} --seed {seed} --case {number}: {said[:300]}", flush=True)
    return found


def failed(case: Found) -> bool:
    """Whether a case broke a rule."""
    return case[2] in COLUMNS[4:]


def table(found: list[Found]) -> str:
    """Write the counts as a table of Markdown."""
    lines = [["target", "cases", *COLUMNS, "slowest (s)"], ["---", *["--:"] * (len(COLUMNS) + 2)]]
    for name in [*dict.fromkeys(case[0] for case in found), "all"]:
        own = [case for case in found if name in (case[0], "all")]
        kinds = Counter(case[2] for case in own)
        slowest = f"{max(case[4] for case in own):.2f}"
        lines.append([name, f"{len(own):,}", *(f"{kinds[kind]:,}" for kind in COLUMNS), slowest])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(argv: list[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--cases", type=int, default=3000, help="how many in all")
    parser.add_argument("--seed", type=int, help="by default a fresh one, which is printed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--target", action="append", help="one target or several; by default all")
    parser.add_argument("--case", type=int, help="run only this case of the target")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for cases that fail")
    given = parser.parse_args(argv)
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    begun = time.monotonic()
    if given.case is not None:
        print(to_text(given.target[0], arguments_of(given.target[0], seed, given.case)))
        found = run_batch(given.target[0], seed, [given.case])
        print(found[0][3])
    else:
        print(f"seed {seed}", flush=True)
        found = campaign(given.cases, seed, given.jobs, given.target, given.failures)
    print(
        f"{table(found)}\nseed {seed}, {len(found):,} cases, {time.monotonic() - begun:.0f} s on {given.jobs} processes"
    )
    return int(any(map(failed, found)))


if __name__ == "__main__":
    sys.exit(main())
