"""Small problems sent down the paths that large ones take: the answers are the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import test_oracles_contingency as contingency
import test_oracles_legendre as explicit
from hypothesis import HealthCheck, given, settings
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from test_dense import BAD_TENSORS

import legendre as ld
from cases import NAMED, Case
from legendre.basis.basis import cells
from legendre.data.dense import observe
from legendre.engines.compiled import DenseEngine, SlabEngine
from legendre.engines.junction import JunctionEngine
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import generating_margins
from legendre.model.problem import Problem
from legendre.solvers.loop import Solver
from strategies import problems

pytestmark = pytest.mark.usefixtures("one_thread")

# monkeypatch is undone only after all examples of a test, which is what is wanted here
PATCHED = settings(max_examples=40, suppress_health_check=list(HealthCheck))


@pytest.fixture
def _compiled_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read every X by compiled code."""
    monkeypatch.setattr("legendre.core.limits.COMPILED_CELLS", 1)


def use_engine(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Send all but one-body bases on full grids to an engine (masked ones never to the slabs)."""
    if engine == "reference":
        return
    for name in ("NUMPY_CELLS", "SHORT_MODE_CELLS"):
        monkeypatch.setattr(f"legendre.core.limits.{name}", 0)
    slabs = engine == "slabs"
    monkeypatch.setattr(SlabEngine, "applies", lambda model: slabs and model.measure is None)


def subset() -> list[tuple[str, dict[str, Any]]]:
    """All models at the boundary, and every eighth of the others."""
    models = [(table, model) for table in sorted(contingency.ORACLE) for model in contingency.ORACLE[table]["models"]]
    inside = [entry for entry in models if entry[1]["mle_exists"]]
    return [entry for entry in models if not entry[1]["mle_exists"]] + inside[::8]


PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "natural_by_reference": ("reference", {"solver": "natural"}),
    "natural_dense": ("dense", {"solver": "natural"}),
    "natural_by_slabs": ("slabs", {"solver": "natural"}),
    "conjugate_gradients_by_reference": ("reference", {"solver": "natural-cg", "tol": 1e-13}),
    "conjugate_gradients_dense": ("dense", {"solver": "natural-cg", "tol": 1e-13}),
    "auto": ("slabs", {}),
}


@pytest.mark.usefixtures("_compiled_reading")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", explicit.CASES, ids=explicit.name)
def test_fits_of_explicit_bases(case: dict[str, Any], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, arguments = PATHS[path]
    use_engine(monkeypatch, engine)
    explicit.check(case, **arguments)


@pytest.mark.usefixtures("_compiled_reading")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("table", sorted(contingency.ORACLE))
def test_fits_of_margins(table: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, arguments = PATHS[path]
    use_engine(monkeypatch, engine)
    for name, model in subset():
        if name == table:
            contingency.check(contingency.TABLES[table], model, **arguments)


def is_scalable(table: str, model: dict[str, Any]) -> bool:
    """Tell whether the parameters that are left on the face are still nothing but margins."""
    X = contingency.TABLES[table]
    decided = ld.plan(X, ld.interactions(model["margins"]), support=contingency.support(model["omega"], X))
    return generating_margins(decided.target.problem.model) is not None


@pytest.mark.usefixtures("_compiled_reading")
@pytest.mark.parametrize("engine", ["reference", "dense"])
def test_fits_of_margins_by_scaling(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_engine(monkeypatch, engine)
    able = [(table, model) for table, model in subset() if is_scalable(table, model)]
    assert len(able) >= 50
    for table, model in able:
        contingency.check(contingency.TABLES[table], model, solver="scaling", tol=1e-13)


@pytest.mark.usefixtures("_compiled_reading")
def test_fits_of_one_body_margins_in_closed_form() -> None:
    models = [
        (contingency.TABLES[table], model)
        for table in contingency.ORACLE
        for model in contingency.ORACLE[table]["models"]
        if model["omega"] == "full" and model["mle_exists"] and all(len(group) == 1 for group in model["margins"])
    ]
    assert len(models) >= 10
    for X, model in models:
        contingency.check(X, model, solver="closed", tol=1e-13)


@pytest.mark.usefixtures("_compiled_reading")
@pytest.mark.parametrize("merging", [1e-9, 16.0])
@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_cases(name: str, merging: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a merged grid, masked or not, weighted or not."""
    case = NAMED[name]
    use_engine(monkeypatch, "slabs")
    monkeypatch.setattr("legendre.core.limits.MERGING", merging)
    fit = case.fit()
    assert fit.converged
    assert_allclose(case.q(fit), case.answer(), atol=1e-7)


@pytest.mark.usefixtures("_compiled_reading")
@PATCHED
@given(problems(max_order=6))
def test_expectations_of_random_problems(case: Case) -> None:
    data = observe(case.X, case.mask)
    problem = Problem.of(data, case.basis)
    assert_allclose(problem.eta_hat, case.eta_hat, rtol=1e-12, atol=1e-15)
    assert problem.mass.sum() == pytest.approx(1.0)
    assert data.total == pytest.approx(case.total, rel=1e-13)


@pytest.mark.usefixtures("_compiled_reading")
@pytest.mark.parametrize("shape", [(9,), (4, 5), (1, 6), (3, 4, 5), (7, 1, 2), (2, 3, 2, 3), (2, 2, 3, 1, 2, 2)])
def test_expectations_of_one_body_bases(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """They are read from margins, the first of which came with the check of X."""
    X = rng.uniform(0.1, 1.0, size=shape)
    for layout in (X, np.asfortranarray(X)):
        for basis in (ld.B1(), ld.B1() & cells(rng.permutation(np.argwhere(np.ones(shape))[1:])[:5])):
            data = observe(layout)
            problem = Problem.of(data, basis.select(data))
            eta = ld.dual.to_eta(X)[tuple(problem.model.basis.T)]
            assert_allclose(problem.eta_hat, eta, rtol=1e-12)


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_errors_read_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = BAD_TENSORS[name]
    with pytest.raises(ld.errors.InvalidTensor) as small:
        ld.decompose(X, "B1")
    monkeypatch.setattr("legendre.core.limits.COMPILED_CELLS", 1)
    with pytest.raises(ld.errors.InvalidTensor, match=f"^{re.escape(str(small.value))}$"):
        ld.decompose(X, "B1")


def inputs() -> dict[str, tuple[NDArray[Any], dict[str, Any]]]:
    rng = np.random.default_rng(11)
    X = rng.uniform(0.1, 4.0, size=(5, 4, 3))
    mask = rng.random(X.shape) < 0.8
    counts = rng.integers(0, 4, size=X.shape)
    return {
        "plain": (X, {}),
        "missing": (np.where(mask, X, np.nan), {}),
        "masked": (X, {"support": mask}),
        "missing_and_masked": (np.where(X < 1, np.nan, X), {"support": mask}),
        "fortran": (np.asfortranarray(X), {}),
        "reversed": (X[::-1, :, ::-1], {}),
        "single": (X.astype(np.float32), {}),
        "counts": (counts, {}),
        "bytes": (counts.astype(np.uint8), {}),
        "counts_on_their_support": (counts, {"support": "nonzero"}),
        "swapped": (X.astype(">f8"), {}),
        "half": (X.astype(np.float16), {}),
        "long": (X.astype(np.longdouble), {}),
        "weighted": (X, {"base": X[::-1]}),
        "weighted_and_masked": (X, {"base": X[::-1], "support": np.asfortranarray(mask)}),
    }


@pytest.mark.parametrize("basis", ["B1", "B1 + B3(1)", "B3(1, axis=0)", "B2(2)", "interactions(2)"])
@pytest.mark.parametrize("name", inputs())
def test_every_kind_of_input(name: str, basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, arguments = inputs()[name]
    before = X.copy()
    reference = ld.decompose(X, basis, **arguments)
    monkeypatch.setattr("legendre.core.limits.COMPILED_CELLS", 1)
    use_engine(monkeypatch, "slabs")
    fit = ld.decompose(X, basis, **arguments)
    assert_array_equal(fit.basis, reference.basis)
    assert (fit.status, fit.rank) == (reference.status, reference.rank)
    assert fit.total == pytest.approx(reference.total, rel=1e-13)
    assert_allclose(fit.eta_hat, reference.eta_hat, rtol=1e-12, atol=1e-16)
    assert_allclose(fit.tensor(), reference.tensor(), rtol=1e-7, atol=1e-12)
    assert fit.kl == pytest.approx(reference.kl, abs=1e-9)
    assert fit.rmse == pytest.approx(reference.rmse, abs=1e-7)
    assert_array_equal(X, before)


@pytest.mark.usefixtures("_compiled_reading")
@pytest.mark.parametrize(
    ("engine", "expected"), [("reference", ReferenceEngine), ("dense", DenseEngine), ("slabs", SlabEngine)]
)
def test_the_paths_are_those_meant(engine: str, expected: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is not taken is not tested."""
    use_engine(monkeypatch, engine)
    X = NAMED["cube"].X
    solver: Solver = ld.solvers.Natural()
    assert type(ld.plan(X, "B3(1)", solver=solver).target.engine) is expected
    assert type(ld.plan(X, "B1", solver=solver).target.engine) is JunctionEngine
    masked = ReferenceEngine if engine == "reference" else DenseEngine
    assert type(ld.plan(X, "B3(1)", support=X > 1).target.engine) is masked
