"""How many threads BLAS and compiled kernels use: one for small matrices."""

from __future__ import annotations

import os
import subprocess
import sys

INSIDE = """
import scipy.linalg
from threadpoolctl import threadpool_info
from legendre.core import compiled
from legendre.core.sums.linalg import limit_blas

def blas():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

def within(section):
    with section:
        return blas()

assert blas() == {2}
assert within(limit_blas(1_999)) == {1}
assert within(limit_blas(2_000)) == {2}
assert compiled.available_threads() == 2
assert blas() == {2}
"""


def test_what_runs_in_how_many_threads() -> None:
    names = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    env = {**os.environ, **dict.fromkeys(names, "2")}
    subprocess.run([sys.executable, "-c", INSIDE], env=env, check=True)
