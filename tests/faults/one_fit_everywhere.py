"""The same fits alone, in threads and in child processes of every kind: prints which ways gave other bits.

Run as a script by `test_processes.py`.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import legendre as ld


def fits(_: int = 0) -> str:
    """Fit what takes compiled kernels in parallel, LAPACK and BLAS; return a digest of all bits."""
    rng = np.random.default_rng(5)
    large = rng.uniform(0.1, 1.0, size=(2, 1024, 1024))  # above limits.ONE_THREAD, so that kernels start threads
    small = rng.uniform(0.1, 1.0, size=(12, 11, 10))
    cells = rng.permutation(np.argwhere(np.ones(small.shape))[1:])
    seen = np.where(rng.random(small.shape) < 0.4, small, 0.0)
    results: list[Any] = [
        ld.decompose(large, "B1"),
        ld.decompose(small, cells[:300]),
        ld.decompose(seen, "interactions(1)", support="nonzero"),
        ld.balance(rng.uniform(0.1, 1.0, size=(150, 120)), [np.ones(150), np.full(120, 1.25)]),
    ]
    digest = hashlib.sha256(np.array([result.kl for result in results[:3]]).tobytes())
    for result in results:
        digest.update(np.ascontiguousarray(result.theta).tobytes())
    return digest.hexdigest()


def in_threads(count: int) -> set[str]:
    """Fit in several threads at a time."""
    with ThreadPoolExecutor(count) as pool:
        return set(pool.map(fits, range(2 * count)))


def in_children(method: str) -> set[str]:
    """Fit in a child process of `multiprocessing`."""
    with multiprocessing.get_context(method).Pool(1) as pool:
        return {pool.apply(fits)}


def blas_threads() -> list[int]:
    """Count the threads of each BLAS library."""
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def numbas_threads() -> bool:
    """Whether numba has started threads of its own."""
    import numba

    try:
        return bool(numba.threading_layer())
    except ValueError:
        return False


def main() -> None:
    """Print what differs from the fits alone, and the number of BLAS threads before and after."""
    before, alone = blas_threads(), fits()
    answers = {"again": {fits()}, "fork": in_children("fork")}  # before there are other threads
    answers |= {"threads": in_threads(4), "spawn": in_children("spawn")}
    facts = {"started": numbas_threads(), "before": before, "after": blas_threads()}
    json.dump(facts | {"other": [way for way, found in answers.items() if found != {alone}]}, sys.stdout)


if __name__ == "__main__":
    main()
