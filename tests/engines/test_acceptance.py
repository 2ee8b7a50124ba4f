"""The acceptance table: every engine, on every case that it applies to, gives the six answers of the definition.

A new engine is one more row of ENGINES. It is done when this file passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from cases import NAMED, Case
from legendre.core import limits
from legendre.data.observation import Support
from legendre.engines.choose import choose_engine
from legendre.engines.compiled import DenseEngine, SlabEngine
from legendre.engines.junction import JunctionEngine
from legendre.engines.matrix import MatrixEngine
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import CellListEngine, ReferenceEngine
from legendre.engines.tables import TablesEngine
from legendre.model.model import CellList, Model
from oracles import FloatArray, distribution, expectations, fisher_matrix, normaliser
from strategies import positive_tensors, problems, seeds, shapes

pytestmark = pytest.mark.usefixtures("one_thread")


class Row(NamedTuple):
    """How an engine is made, and for which models it is meant."""

    make: Callable[[Model], Engine]
    applies: Callable[[Model], bool]


def on_a_grid(model: Model) -> bool:
    return not isinstance(model, CellList)


def on_a_full_grid(model: Model) -> bool:
    return model.measure is None


def identity_ties(model: Model) -> Engine:
    """Tie every cell to a parameter of its own."""
    return choose_engine(replace(model, ties=model.terms.as_ties()))


ENGINES: dict[str, Row] = {
    "reference": Row(ReferenceEngine, on_a_grid),
    "dense": Row(DenseEngine, on_a_grid),
    "slabs": Row(SlabEngine, on_a_full_grid),
    "tables": Row(
        TablesEngine, lambda model: on_a_full_grid(model) and {0} < {0, *map(len, model.patterns)} <= {0, 1, 2}
    ),
    "matrix": Row(MatrixEngine, lambda model: on_a_grid(model) and MatrixEngine.applies(model)),
    "junction": Row(JunctionEngine, on_a_full_grid),
    "tied": Row(identity_ties, lambda _: True),
    "cell_list": Row(CellListEngine, lambda model: isinstance(model, CellList)),
}


class Truth(NamedTuple):
    """The answers at theta, from the definition; `x` is the vector of G x and of the swing."""

    psi: float
    eta: FloatArray
    log_q: FloatArray
    G: FloatArray | None
    x: FloatArray
    swing: float


def check_psi(engine: Engine, point: Point, truth: Truth) -> None:
    assert engine.n_params == len(point.theta)
    assert point.psi == pytest.approx(truth.psi, abs=1e-10)


def check_eta(_: Engine, point: Point, truth: Truth) -> None:
    assert_allclose(point.eta, truth.eta, atol=1e-12)


def check_fisher(engine: Engine, point: Point, truth: Truth) -> None:
    if truth.G is None:
        return
    found = engine.fisher(point)
    assert_allclose(found, truth.G, atol=1e-13)
    assert_array_equal(found, found.T)
    old = np.full_like(truth.G, np.nan)
    engine.fill_fisher(point, old)
    assert_array_equal(old, found)


def check_fisher_product(engine: Engine, point: Point, truth: Truth) -> None:
    if truth.G is None:
        return
    for column, unit in zip(truth.G.T, np.eye(len(truth.G)), strict=True):
        assert_allclose(engine.fisher_product(point, unit), column, atol=1e-13)
    assert_allclose(engine.fisher_product(point, truth.x), truth.G @ truth.x, atol=1e-12)


def check_probabilities(engine: Engine, point: Point, truth: Truth) -> None:
    assert_allclose(engine.probabilities(point), np.exp(truth.log_q), rtol=1e-10, atol=1e-300)


def check_swing(engine: Engine, _: Point, truth: Truth) -> None:
    found = engine.swing(truth.x)
    assert found >= truth.swing - 1e-12
    if not isinstance(engine, (MatrixEngine, TablesEngine)):  # which bound it
        assert found == pytest.approx(truth.swing, abs=1e-10)


CHECKS: dict[str, Callable[[Engine, Point, Truth], None]] = {
    "psi": check_psi,
    "eta": check_eta,
    "G": check_fisher,
    "G x": check_fisher_product,
    "q": check_probabilities,
    "swing": check_swing,
}


def model_of(case: Case) -> Model:
    """Form the merged grid."""
    mask = None if case.mask.all() else case.mask
    return Model.of(Support(case.X.shape, mask), case.base, case.basis)


PATCHING = Lock()  # limits belong to all threads


def models_of(case: Case) -> list[Model]:
    """Return the model on a grid, and on a list of cells where it can be: lists have no base measure."""
    if case.base is not None:
        return [model_of(case)]
    with PATCHING, pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "ALWAYS_A_GRID", 0)
        patch.setattr(limits, "LARGEST_GRID", 0)
        return [model_of(case), Model.of(Support(case.X.shape, None, case.omega), None, case.basis)]


def engines_of(model: Model) -> list[Engine]:
    return [row.make(model) for row in ENGINES.values() if row.applies(model)]


def definition(case: Case, model: Model, theta: FloatArray, *, fisher: bool = True) -> Truth:
    q = distribution(case.Z, theta, case.r)
    grid = np.zeros(case.X.shape)
    grid[tuple(case.omega.T)] = q
    merged = model.quotient.merge(grid)
    x = np.cos(np.arange(len(theta)))
    tilt = case.Z @ x
    with np.errstate(divide="ignore"):
        return Truth(
            psi=normaliser(case.Z, theta, case.r),
            eta=expectations(case.Z, q),
            log_q=np.log(merged[tuple(model.cells.T)] if isinstance(model, CellList) else merged),
            G=fisher_matrix(case.omega, case.basis, q) if fisher else None,
            x=x,
            swing=float(tilt.max() - tilt.min()),
        )


def thetas_of(case: Case) -> dict[str, FloatArray]:
    """Any theta; and two for which some engines have closed forms."""
    theta = np.random.default_rng(20180317).normal(size=len(case.basis))
    return {"any": theta, "zero": 0.0 * theta, "product": theta * ((case.basis > 0).sum(axis=1) == 1)}


@cache
def known(name: str, listed: int, theta: str) -> tuple[Model, FloatArray, Truth]:
    """Return a named case's model, on a grid or listed, and the truth at one of its thetas."""
    case = NAMED[name]
    model, values = models_of(case)[listed], thetas_of(case)[theta]
    return model, values, definition(case, model, values, fisher=case.X.size <= 100)


TABLE = [
    pytest.param(engine, case, listed, id=f"{engine}-{case}")
    for engine, row in ENGINES.items()
    for case in sorted(NAMED)
    for listed, model in enumerate(models_of(NAMED[case]))
    if row.applies(model)
]


@pytest.mark.uncompiled
@pytest.mark.parametrize("what", CHECKS)
@pytest.mark.parametrize(("engine", "case", "listed"), TABLE)
def test_the_table(engine: str, case: str, listed: int, what: str) -> None:
    row = ENGINES[engine]
    for name in thetas_of(NAMED[case]):
        model, theta, truth = known(case, listed, name)
        made = row.make(model)
        point = made.at(theta)
        assert point.theta is theta
        CHECKS[what](made, point, truth)


def test_every_engine_has_cases() -> None:
    assert {str(param.values[0]) for param in TABLE} == set(ENGINES)


def check_answers(case: Case, theta: FloatArray, *, fisher: bool) -> None:
    """All answers of all engines against the definition."""
    for model in models_of(case):
        truth = definition(case, model, theta, fisher=fisher)
        for engine in engines_of(model):
            point = engine.at(theta)
            for check in CHECKS.values():
                check(engine, point, truth)


@given(problems(max_order=6, weighted=True), seeds)
def test_random_cases_with_a_base_measure(case: Case, seed: int) -> None:
    check_answers(case, np.random.default_rng(seed).normal(size=len(case.basis)), fisher=False)


@given(problems(max_order=6, full_grid=True), seeds)
def test_random_cases_on_full_grids(case: Case, seed: int) -> None:
    check_answers(case, np.random.default_rng(seed).normal(size=len(case.basis)), fisher=False)


@settings(max_examples=30)
@given(problems(max_cells=20, max_order=6, max_params=6), seeds)
def test_fisher_matrices_of_random_cases(case: Case, seed: int) -> None:
    check_answers(case, np.random.default_rng(seed).normal(size=len(case.basis)), fisher=True)


@settings(max_examples=30)
@given(problems(max_cells=20, max_params=6, weighted=True), seeds)
def test_fisher_matrices_with_a_base_measure(case: Case, seed: int) -> None:
    check_answers(case, np.random.default_rng(seed).normal(size=len(case.basis)), fisher=True)


@settings(max_examples=30)
@given(problems(max_cells=20, max_order=6, max_params=6, full_grid=True), seeds)
def test_the_uniform_distribution_and_products_over_modes(case: Case, seed: int) -> None:
    """Both have closed forms."""
    theta = np.random.default_rng(seed).normal(size=len(case.basis)) * ((case.basis > 0).sum(axis=1) == 1)
    check_answers(case, np.zeros(len(case.basis)), fisher=True)
    check_answers(case, theta, fisher=True)


@st.composite
def one_body(draw: st.DrawFn) -> Case:
    """Any cells on the axes of a full grid, in any order."""
    shape = draw(shapes(max_cells=40, max_order=6))
    axes = [tuple(i * (k == j) for j in range(len(shape))) for k, n in enumerate(shape) for i in range(1, n)]
    chosen = draw(st.lists(st.sampled_from(axes), unique=True, min_size=1)) if axes else []
    basis = np.array(chosen, dtype=np.int64).reshape(len(chosen), len(shape))
    return Case(draw(positive_tensors(shape)), np.ones(shape, dtype=np.bool_), basis)


@given(one_body(), seeds)
def test_one_body_bases(case: Case, seed: int) -> None:
    if len(case.basis):
        assert model_of(case).one_body
    check_answers(case, np.random.default_rng(seed).normal(size=len(case.basis)), fisher=True)


@st.composite
def both_axes(draw: st.DrawFn) -> Case:
    """Draw a matrix of weights, one of them left out, with a parameter for every row and column."""
    rows, columns = draw(st.tuples(st.integers(2, 5), st.integers(2, 5)))
    basis = [(i, 0) for i in range(1, rows)] + [(0, j) for j in range(1, columns)]
    mask = np.ones((rows, columns), dtype=np.bool_)
    mask[draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))] = False
    weights = draw(positive_tensors((rows, columns)))
    return Case(np.ones((rows, columns)), mask, np.array(draw(st.permutations(basis))), weights)


@settings(max_examples=30)
@given(both_axes(), seeds)
def test_matrices_of_weights(case: Case, seed: int) -> None:
    assert MatrixEngine.applies(model_of(case))
    check_answers(case, np.random.default_rng(seed).normal(size=len(case.basis)), fisher=True)
