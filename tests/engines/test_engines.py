"""What single engines promise beyond the acceptance table: wide theta, blocks, domains, orders, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from test_acceptance import engines_of, model_of

from cases import NAMED, Case
from legendre.core.sums.kernels import slabs as kernels
from legendre.core.sums.kernels.slabs import plan_slabs
from legendre.data.observation import Support
from legendre.engines.compiled import SlabEngine
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model
from oracles import FloatArray, distribution, expectations
from strategies import problems, seeds

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


@given(problems(full_grid=True, max_order=4), seeds)
def test_the_order_of_the_basis_is_the_callers(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    turn = rng.permutation(len(case.basis))
    theta = rng.normal(size=len(case.basis))
    turned = Case(case.X, case.mask, case.basis[turn])
    for engine, other in zip(engines_of(model_of(case)), engines_of(model_of(turned)), strict=True):
        point, again = engine.at(theta), other.at(theta[turn])
        assert_allclose(again.eta, point.eta[turn], rtol=1e-13)
        assert_allclose(other.fisher(again), engine.fisher(point)[np.ix_(turn, turn)], atol=1e-15)


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
FLAT = np.ones(len(WALL))
DOMAINS: dict[str, tuple[FloatArray, bool]] = {
    "safe_by_its_sum": (FLAT, True),
    # far past the easy bound, yet the sums on the grid stay small
    "safe_by_its_range": (np.resize([30.0, 30.0, -30.0, -30.0], len(WALL)), True),
    "safe_but_shifted": (6.0 * FLAT, True),
    "too_wide": (30.0 * FLAT, False),
    "too_wide_below": (-1e4 * FLAT, False),
    # the range is 0 but for one slab, whose two factors alone overflow
    "too_wide_in_one_slab": (np.where(np.arange(len(WALL)) == 1, 700.0, 0.0), False),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_the_slab_engine_chooses_its_domain(name: str) -> None:
    theta, products = DOMAINS[name]
    model = Model.of(Support((50, 50)), None, WALL)
    plan = plan_slabs([np.ones(50), np.ones(8)], np.minimum(WALL, [49, 1]), 0)
    assert kernels._domain(plan, theta[plan.order])[0] is products
    check_against_the_grid(model, theta)


@pytest.mark.uncompiled
def test_running_products_and_logarithms_agree(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """The same theta in both domains."""
    model = Model.of(Support((9, 8, 7)), None, rng.permutation(np.argwhere(np.ones((9, 8, 7)))[1:])[:60])
    theta = rng.normal(size=60)
    engine = SlabEngine(model)
    products = engine.at(theta)
    G = engine.fisher(products)
    monkeypatch.setattr(kernels, "_domain", lambda plan, theta: (False, kernels.log_range(plan, theta)[1]))
    logs = engine.at(theta)
    assert logs.psi == pytest.approx(products.psi, rel=1e-14)
    assert_allclose(logs.eta, products.eta, rtol=1e-12)
    assert_allclose(engine.fisher(logs), G, atol=1e-14)


SHAPES = [(60,), (12, 9), (1, 8, 7), (7, 6, 5), (4, 1, 5, 3), (2, 3, 2, 2, 3, 2)]


@pytest.mark.uncompiled
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("size", [1.0, 40.0, 400.0])
def test_grids_of_any_order(shape: tuple[int, ...], size: float) -> None:
    rng = np.random.default_rng(len(shape))
    cells = np.argwhere(np.ones(shape))[1:]
    basis = rng.permutation(cells)[: min(40, len(cells))]
    check_against_the_grid(Model.of(Support(shape), None, basis), size * rng.normal(size=len(basis)))


@pytest.mark.uncompiled
def test_slabs_may_be_cut_across_any_mode(rng: np.random.Generator) -> None:
    shape = (5, 3, 6)
    positions = rng.permutation(np.argwhere(np.ones(shape))[1:])[:30]
    lengths = [rng.integers(1, 5, n).astype(np.float64) for n in shape]
    theta = rng.normal(size=30)
    answers = []
    for mode in range(3):
        plan = plan_slabs(lengths, positions, mode)
        gram = np.full((30, 30), 7.0)
        psi, eta = kernels.evaluate(plan, theta[plan.order], gram)
        again, same = kernels.evaluate(plan, theta[plan.order])
        assert again == psi
        assert_allclose(same, eta, rtol=1e-13)
        # LAPACK reads one triangle, and the other may hold anything
        assert (gram[np.triu_indices(30, 1)] == 7.0).all()
        back = np.argsort(plan.order)
        answers.append((psi, eta[back], (np.tril(gram) + np.tril(gram, -1).T)[np.ix_(back, back)]))
    for psi, eta, G in answers[1:]:
        assert psi == pytest.approx(answers[0][0], rel=1e-14)
        assert_allclose(eta, answers[0][1], rtol=1e-12)
        assert_allclose(G, answers[0][2], atol=1e-14)


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
