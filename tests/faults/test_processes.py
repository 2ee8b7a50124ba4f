"""Forks, threads and read-only installations, each in a process of its own, which most would end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import legendre

SOURCE = Path(legendre.__file__).parent
EVERYWHERE = Path(__file__).with_name("one_fit_everywhere.py")


def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with changes to the environment; return what it printed and its exit code."""
    path = os.pathsep.join([env.pop("first", ""), str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]).strip(":")
    return subprocess.run(
        [sys.executable, "-W", "error", *map(str, words)],
        env=os.environ | {"PYTHONPATH": path} | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    """Fit alone, in threads and in children of every kind."""
    ended = run(EVERYWHERE, NUMBA_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_numbas_own_threads_are_never_started(facts: dict[str, Any]) -> None:
    """They end a forked child (GNU OpenMP) or a process whose threads meet in them ("workqueue")."""
    assert facts["started"] is False


def test_a_fit_has_the_same_bits_alone_and_in_children_of_every_kind(facts: dict[str, Any]) -> None:
    """With numba's own threads a forked child died by SIGTERM, or four threads by SIGABRT."""
    assert set(facts["other"]) <= {"threads"}  # fits at the same time share the number of BLAS threads


def test_concurrent_fits_leave_blas_with_its_threads(facts: dict[str, Any]) -> None:
    assert set(facts["before"]) == set(facts["after"]) == {2}


FORK_OF_OTHERS = """
import multiprocessing, sys
import numba, numpy as np

@numba.njit(parallel=True)
def theirs(x):
    for i in numba.prange(len(x)):
        x[i] += 1.0

def ours():
    import legendre as ld
    return ld.decompose(np.ones((2, 1024, 1024)), "B1").status.name

theirs(np.ones(10))
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.apply(ours))
"""


def test_a_child_forked_after_somebody_elses_parallel_code_can_fit() -> None:
    ended = run("-c", FORK_OF_OTHERS, NUMBA_THREADING_LAYER="omp", NUMBA_NUM_THREADS="2")
    assert (ended.returncode, ended.stdout) == (0, "CONVERGED\n"), ended.stderr


READ_X = """
import numpy as np
import legendre as ld
from legendre.core.sums.kernels.scan import _scan_rows

fit = ld.decompose(np.ones((600, 1000)), "B1")
print(ld.__file__, fit.status.name, _scan_rows._run.stats.cache_path)
"""


WARM = """
import pkgutil
from importlib import import_module
import legendre as ld
import legendre.core.sums.kernels as kernels

ld.warm()
for name in (module.name for module in pkgutil.iter_modules(kernels.__path__)):
    for key, function in vars(import_module(f"{kernels.__name__}.{name}")).items():
        found = getattr(function, "_run", function)
        if hasattr(found, "signatures") and found._cache.cache_path and not found.signatures:
            print(name, key)
"""


def test_warm_reaches_every_compiled_function() -> None:
    ended = run("-c", WARM)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """Copy the package, without anything compiled."""
    shutil.copytree(SOURCE, tmp_path / "legendre", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_read_only_installation_fits_more_than_half_a_million_cells(installation: Path) -> None:
    """No `__pycache__`, no home: numba has no place for machine code ("cannot cache function")."""
    for folder in [installation / "legendre", *(installation / "legendre").rglob("*/")]:
        if folder.is_dir():
            (folder / "__pycache__").touch()  # in the place of a folder, which keeps out root as well
    nowhere = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache", "first": str(installation)}
    ended = run("-c", READ_X, **nowhere)
    place = installation / "legendre" / "__init__.py"
    assert (ended.returncode, ended.stdout) == (0, f"{place} CONVERGED None\n"), ended.stderr
