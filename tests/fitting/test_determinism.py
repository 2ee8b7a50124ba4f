"""The same input gives the same answer, whatever the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import NAMED

SCRIPT = """
import sys
import numpy as np
import legendre as ld
from legendre.engines.compiled import DenseEngine
from legendre.engines.compiled import SlabEngine
from legendre.core import limits
from legendre.core.sums.kernels.scan import scan_large
from legendre.model.model import Model
from legendre.data.support import Support

limits.ONE_THREAD = limits.ONE_BLOCK = 0  # blocks and threads even for small work
rng = np.random.default_rng(3)
X = rng.uniform(0.1, 1.0, size=(70, 60, 50))
basis = rng.permutation(np.argwhere(np.ones(X.shape))[1:])[:300]
model = Model.of(Support(X.shape), None, basis)
theta, x = rng.normal(size=(2, 300)) * 0.1
answers = {}
for engine in (DenseEngine(model), SlabEngine(model)):
    name = type(engine).__name__
    point = engine.at(theta)
    answers[name + "_psi"], answers[name + "_eta"] = point.psi, point.eta
    answers[name + "_fisher"], answers[name + "_swing"] = engine.fisher(point), engine.swing(x)
sheet = DenseEngine(model)
point = sheet.at(theta)
answers["product"] = sheet.fisher_product(point, x)
answers["preconditioned"] = sheet.preconditioner(point).apply(x)
answers["blocks"] = len(SlabEngine(model)._plan.bounds) - 1
answers["sums"] = np.concatenate(scan_large(X)[4])
small = X[:12, :10, :8]
fit_newton = ld.decompose(small, ld.B3(20), solver="natural")
fit_cg = ld.decompose(small, ld.B3(20), solver="natural-cg")
answers["fit_newton"], answers["fit_cg"] = fit_newton.tensor(), fit_cg.tensor()
np.savez(sys.argv[1], **answers)
"""


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Everything once with one thread and once with two."""
    folder = tmp_path_factory.mktemp("threads")

    @cache
    def answers(threads: str) -> dict[str, Any]:
        target = folder / f"{threads}.npz"
        names = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
        env = {**os.environ, **dict.fromkeys(names, threads)}
        subprocess.run([sys.executable, "-c", SCRIPT, str(target)], env=env, check=True)
        return dict(np.load(target))

    return [answers("1"), answers("2")]


KERNELS = ["psi", "eta", "fisher", "swing"]
EXACT = [f"{engine}Engine_{answer}" for engine in ("Dense", "Slab") for answer in KERNELS]


@pytest.mark.parametrize("name", [*EXACT, "product", "preconditioned", "sums"])
def test_compiled_answers_have_the_same_bits(name: str, by_threads: list[dict[str, Any]]) -> None:
    one, two = by_threads
    assert_array_equal(two[name], one[name])


def test_the_work_was_cut_into_blocks(by_threads: list[dict[str, Any]]) -> None:
    assert by_threads[0]["blocks"] == by_threads[1]["blocks"] > 1


@pytest.mark.parametrize("name", ["fit_newton", "fit_cg"])
def test_whole_fits_agree(name: str, by_threads: list[dict[str, Any]]) -> None:
    """LAPACK's last bits depend on its threads; the answer does not."""
    one, two = by_threads
    assert_allclose(two[name], one[name], rtol=1e-12)


def test_the_engines_agree_there(by_threads: list[dict[str, Any]]) -> None:
    found = by_threads[0]
    assert_allclose(found["SlabEngine_eta"], found["DenseEngine_eta"], rtol=1e-11)
    assert_allclose(found["SlabEngine_fisher"], found["DenseEngine_fisher"], atol=1e-13)
    assert found["SlabEngine_psi"] == pytest.approx(found["DenseEngine_psi"], rel=1e-14)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("solver", ["natural", "natural-cg", "auto"])
@pytest.mark.parametrize("engine", ["grid", "sheet", "stream"])
def test_the_same_fit_twice(engine: str, solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine != "grid":
        monkeypatch.setattr("legendre.core.limits.NUMPY_CELLS", 0)
        monkeypatch.setattr("legendre.core.limits.COMPILED_CELLS", 1)
    if engine == "sheet":
        monkeypatch.setattr("legendre.engines.choose.slabs_pay", lambda *_, **__: False)
    X = NAMED["few_cuts"].X
    for basis in (ld.B1() | ld.B3(3), ld.interactions(2)):
        first, second = (ld.decompose(X, basis, solver=solver) for _ in range(2))
        assert first.history == second.history
        assert_array_equal(second.theta, first.theta)
        assert_array_equal(second.tensor(), first.tensor())
        assert (second.psi, second.gap) == (first.psi, first.gap)
