"""What single engines promise beyond the acceptance table: wide theta, blocks, domains, orders, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_acceptance import engines_of, model_of

from cases import NAMED
from legendre.data.observation import Support
from legendre.engines.reference import ReferenceEngine
from legendre.engines.tables import TablesEngine
from legendre.model.model import Model
from oracles import FloatArray, distribution, expectations, fisher_matrix

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_product_engine_knows_its_limits() -> None:
    full, axes = Support((3, 3)), np.array([[1, 0], [0, 2]])
    holes = Support((3, 3), ~np.eye(3, dtype=np.bool_))
    assert Model.of(full, None, axes).one_body
    assert not Model.of(full, None, np.array([[1, 0], [1, 1]])).one_body
    assert not Model.of(full, None, axes[:0]).one_body
    assert not Model.of(holes, None, axes).one_body
    assert not Model.of(full, np.full((3, 3), 2.0), axes).one_body
    # its cuts are those of both parameters, but only one of them is left
    assert not Model.of(full, None, axes).with_columns(np.array([1])).one_body


def test_columns_on_the_cuts_of_a_larger_basis(rng: np.random.Generator) -> None:
    case = NAMED["cube"]
    columns = np.array([5, 1, 2])
    theta = rng.normal(size=3)
    q = distribution(case.Z[:, columns], theta, case.r)
    small = model_of(case).with_columns(columns)
    for engine in engines_of(small):
        assert_allclose(engine.at(theta).eta, expectations(case.Z[:, columns], q), atol=1e-13)


def check_against_the_grid(model: Model, theta: FloatArray) -> None:
    """Where the definition's exponentials overflow the twin is the reference engine, which works in the log domain."""
    twin = ReferenceEngine(model)
    want = twin.at(theta)
    q = twin.probabilities(want)
    for engine in engines_of(model):
        point = engine.at(theta)
        assert point.psi == pytest.approx(want.psi, rel=1e-12, abs=1e-10)
        assert_allclose(point.eta, want.eta, rtol=1e-9, atol=1e-12)
        assert_allclose(engine.fisher(point), twin.fisher(want), atol=1e-12)
        assert_allclose(engine.fisher_product(point, theta), twin.fisher_product(want, theta), rtol=1e-6, atol=1e-7)
        assert_allclose(engine.probabilities(point), q, rtol=1e-9, atol=1e-300)
        if not isinstance(engine, TablesEngine):  # which bounds it
            assert engine.swing(theta) == pytest.approx(twin.swing(theta), rel=1e-12)


@pytest.mark.parametrize("size", [30.0, 400.0, 1e4])
@pytest.mark.parametrize("name", ["vector", "matrix", "thin", "cube", "order_4", "weighted", "few_cuts"])
def test_wide_theta(name: str, size: float, rng: np.random.Generator) -> None:
    case = NAMED[name]
    for sign in (1.0, -1.0):
        check_against_the_grid(model_of(case), sign * np.full(len(case.basis), size))
    check_against_the_grid(model_of(case), size * rng.normal(size=len(case.basis)))


WALL = np.array([(i, j) for i in range(1, 50) for j in (0, 7)])
"""Two parameters in each of 49 slabs."""
DOMAINS = {
    "large sum, small range: products": np.resize([30.0, 30.0, -30.0, -30.0], len(WALL)),
    "products of shifted logarithms": np.full(len(WALL), 6.0),
    "too wide": np.full(len(WALL), -1e4),
    "the two factors of one slab overflow": np.where(np.arange(len(WALL)) == 1, 700.0, 0.0),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_products_and_logarithms(name: str) -> None:
    check_against_the_grid(Model.of(Support((50, 50)), None, WALL), DOMAINS[name])


SHAPES = [(60,), (12, 9), (1, 8, 7), (7, 6, 5), (4, 1, 5, 3), (2, 3, 2, 2, 3, 2)]


@pytest.mark.uncompiled
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("size", [1.0, 40.0, 400.0])
def test_grids_of_any_order(shape: tuple[int, ...], size: float) -> None:
    rng = np.random.default_rng(len(shape))
    cells = np.argwhere(np.ones(shape))[1:]
    basis = rng.permutation(cells)[: min(40, len(cells))]
    check_against_the_grid(Model.of(Support(shape), None, basis), size * rng.normal(size=len(basis)))


@pytest.mark.parametrize("shape", [(1,), (1, 1, 1), (5, 1), (1, 4, 1, 3)])
def test_no_parameters(shape: tuple[int, ...]) -> None:
    model = Model.of(Support(shape), None, np.empty((0, len(shape)), dtype=np.int64))
    for engine in engines_of(model):
        point = engine.at(np.zeros(0))
        assert point.psi == pytest.approx(np.log(np.prod(shape)), abs=1e-14)
        assert point.eta.shape == (0,)
        assert engine.fisher(point).shape == (0, 0)
        assert engine.fisher_product(point, np.zeros(0)).shape == (0,)
        assert engine.swing(np.zeros(0)) == 0.0
        assert_allclose(engine.probabilities(point), np.ones((1,) * len(shape)), atol=1e-14)


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", ["vector", "cube", "order_4"])
def test_preconditioners_stay_finite_where_features_are_constant(name: str) -> None:
    """Far out eta rounds to 1 or to 0: a feature without variance must not turn a vector into NaN."""
    case = NAMED[name]
    k = len(case.basis)
    for engine in engines_of(model_of(case)):
        for size in (1e3, -1e3):
            pre = engine.preconditioner(engine.at(np.full(k, size)))
            assert np.isfinite(pre.apply(np.ones(k))).all()


@pytest.mark.uncompiled
def test_engines_do_not_change_what_they_are_given(rng: np.random.Generator) -> None:
    case = NAMED["cube"]
    theta, x = rng.normal(size=(2, len(case.basis)))
    theta.flags.writeable = x.flags.writeable = False
    for engine in engines_of(model_of(case)):
        point = engine.at(theta)
        first = engine.fisher(point)
        engine.fisher_product(point, x)
        engine.swing(x)
        engine.preconditioner(point).apply(x)
        assert_array_equal(engine.fisher(point), first)
        assert_array_equal(engine.at(theta).eta, point.eta)


@pytest.mark.parametrize("block", [1, 3, 128])
def test_blocks_do_not_change_the_fisher_matrix(block: int) -> None:
    case = NAMED["cube"]
    theta = np.linspace(-1, 1, len(case.basis))
    engine = ReferenceEngine(model_of(case))
    G = fisher_matrix(case.omega, case.basis, distribution(case.Z, theta, case.r))
    found = np.full_like(G, np.nan)
    engine.fill_fisher(engine.at(theta), found, block=block)
    assert_allclose(found, G, atol=1e-13)


@pytest.mark.parametrize("size", [800.0, -800.0, 1e5])
def test_no_theta_overflows(size: float) -> None:
    """exp(800) is infinite in float64; psi and eta are not: three cells have theta = size, one half, two nothing."""
    point = ReferenceEngine(model_of(NAMED["vector"])).at(np.array([size, -size / 2]))
    assert point.psi == pytest.approx(size + np.log(3) if size > 0 else np.log(2), rel=1e-15)
    assert_allclose(point.eta, [float(size > 0), 0.0], atol=1e-15)
