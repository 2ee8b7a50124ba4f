"""Messages between cliques against enumeration, the reference engine, and closed forms of Markov chains."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import Case
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.observation import Support
from legendre.data.sparse import Sparse, observe_rows
from legendre.engines.choose import choose_engine
from legendre.engines.junction import JunctionEngine
from legendre.engines.reference import ReferenceEngine
from legendre.model.cliques.graph import clique_tree
from legendre.model.cliques.tables import Tables
from legendre.model.model import Cliques, Model
from legendre.model.problem import Problem
from legendre.results.distribution import CliqueDistribution
from oracles import distribution
from strategies import problems, seeds

Edges = list[tuple[int, int]]


@pytest.fixture
def on_cliques(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small problems take the way of those that no grid can hold."""
    monkeypatch.setattr("legendre.core.limits.CLIQUES_FROM", 0)
    monkeypatch.setattr("legendre.core.limits.CLIQUES_GAIN", 0)
    monkeypatch.setattr("legendre.core.limits.LARGEST_MASS", 0)


def model_of(shape: tuple[int, ...], basis: IntArray) -> Model:
    return Model.of(Support(shape), None, basis)


def chain(n: int) -> Edges:
    return [(i, i + 1) for i in range(n - 1)]


def lattice(rows: int, columns: int) -> Edges:
    across = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    return across + [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]


def partial_tree(n: int, k: int, rng: np.random.Generator, share: float = 1.0) -> Edges:
    """Draw a k-tree, in which each new node is joined to a clique of k nodes; keep a share of its edges."""
    edges = list(combinations(range(k + 1), 2))
    cliques = [list(range(k + 1))]
    for node in range(k + 1, n):
        chosen = sorted(rng.permutation(cliques[rng.integers(len(cliques))])[:k].tolist())
        edges += [(other, node) for other in chosen]
        cliques.append([*chosen, node])
    return [edge for edge in edges if rng.random() < share]


def pairwise(n: int, edges: Edges) -> IntArray:
    cells = np.zeros((n + len(edges), n), dtype=np.int64)
    cells[range(n), range(n)] = 1
    for row, edge in zip(cells[n:], edges, strict=True):
        row[list(edge)] = 1
    return cells


@st.composite
def graphs(draw: st.DrawFn) -> tuple[BoolArray, list[int]]:
    n = draw(st.integers(1, 9))
    levels = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    graph = np.zeros((n, n), dtype=np.bool_)
    for i, j in draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=14)):
        graph[i, j] = graph[j, i] = True
    return graph, levels


# ---------------------------------------------------------------- the tree


@given(graphs())
def test_cliques_cover_the_graph_and_meet_along_the_tree(drawn: tuple[BoolArray, list[int]]) -> None:
    graph, levels = drawn
    tree = clique_tree(graph, levels)
    sets = [set(clique.modes) for clique in tree.cliques]
    coupled = [k for k, length in enumerate(levels) if length > 1]
    for i, j in combinations(coupled, 2):
        assert not graph[i, j] or any({i, j} <= modes for modes in sets)
    assert not any(one < other for one in sets for other in sets)
    for c, clique in enumerate(tree.cliques):
        assert clique.parent < c
        assert clique.shape == tuple(levels[k] for k in clique.modes)
        common = clique.modes[: clique.shared]
        above = () if clique.parent < 0 else tree.cliques[clique.parent].modes
        assert common == tuple(k for k in above if k in clique.modes)
        earlier = set().union(*sets[:c]) & set(clique.modes)
        assert earlier == set(common)  # the running intersection property
    own = [k for clique in tree.cliques for k in clique.modes[clique.shared :]]
    assert sorted(own) == coupled
    assert [int(tree.home[k]) >= 0 for k in range(len(levels))] == [length > 1 for length in levels]


@pytest.mark.parametrize(
    ("n", "edges", "width"),
    [
        (100, chain(100), 2),
        (100, [(0, k) for k in range(1, 100)], 2),
        (100, [*chain(100), (0, 99)], 3),
        (100, lattice(5, 20), 6),
        (100, partial_tree(100, 5, np.random.default_rng(0)), 6),
        (70, [], 1),
    ],
)
def test_widths_of_known_graphs(n: int, edges: Edges, width: int) -> None:
    """Chains and stars have treewidth 1, cycles 2, a 5 x 20 lattice 5 and 5-trees 5: cliques have one mode more."""
    tree = tables_of(model_of((2,) * n, pairwise(n, edges))).tree
    assert max(len(clique.modes) for clique in tree.cliques) == width


# ---------------------------------------------------------------- the five questions


@given(seeds)
def test_the_answers_are_those_of_the_grid_engine(seed: int) -> None:
    """Ten modes with up to 6 levels of which some merge, coupled in twos and threes."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([1, 2, 2, 2, 3, 6], size=10).tolist())
    basis = np.zeros((25, 10), dtype=np.int64)
    for cell in basis:
        modes = rng.choice(10, size=rng.integers(1, 4), replace=False)
        cell[modes] = rng.integers(0, np.array(shape)[modes])
    basis = np.unique(basis[basis.any(axis=1)], axis=0)
    model = model_of(shape, rng.permutation(basis))
    junction, grid = JunctionEngine(model), ReferenceEngine(model)
    theta, x = rng.normal(size=(2, model.n_params))
    here, there = junction.at(theta), grid.at(theta)
    assert here.psi == pytest.approx(there.psi, abs=1e-12)
    assert_allclose(here.eta, there.eta, atol=1e-13)
    G = grid.fisher(there)
    assert_allclose(junction.fisher(here), G, atol=1e-13)
    assert_array_equal(junction.fisher(here), junction.fisher(here).T)
    assert_allclose(junction.fisher_product(here, x), G @ x, atol=1e-12)
    assert junction.swing(x) == pytest.approx(grid.swing(x), abs=1e-12)


def test_the_engine_is_chosen_by_size_and_width() -> None:
    assert isinstance(choose_engine(model_of((2,) * 100, pairwise(100, chain(100)))), JunctionEngine)
    assert isinstance(choose_engine(model_of((2,) * 21, pairwise(21, chain(21)))), JunctionEngine)
    assert isinstance(choose_engine(model_of((2,) * 12, pairwise(12, chain(12)))), ReferenceEngine)
    assert isinstance(
        choose_engine(model_of((2,) * 21, pairwise(21, list(combinations(range(21), 2))))), ReferenceEngine
    )


# ---------------------------------------------------------------- questions to Q


@given(problems(full_grid=True, max_cells=24), seeds)
def test_marginals_and_conditionals_by_enumeration(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = 2 * rng.normal(size=len(case.basis))
    q = distribution(case.Z, theta, case.r).reshape(case.X.shape)
    law = CliqueDistribution(model_of(case.X.shape, case.basis), theta)
    assert_allclose(law.log_prob(case.omega), np.log(q).ravel(), atol=1e-12)
    order = q.ndim
    modes = rng.permutation(order)[: rng.integers(1, order + 1)].tolist()
    others = tuple(k for k in range(order) if k not in modes)
    assert_allclose(law.marginal(modes, {}), _transposed(q.sum(axis=others), modes), atol=1e-13)
    event = {k: int(rng.integers(q.shape[k])) for k in others[: len(others) - 1]}
    left = [k for k in range(order) if k not in event]
    part = q[tuple(event.get(k, slice(None)) for k in range(order))]
    part = part.sum(axis=tuple(i for i, k in enumerate(left) if k not in modes)) / part.sum()
    assert_allclose(law.marginal(modes, event), _transposed(part, modes), atol=1e-12)


def _transposed(q: FloatArray, modes: list[int]) -> FloatArray:
    return np.transpose(q, [sorted(modes).index(k) for k in modes])


@given(problems(full_grid=True, max_cells=24), seeds)
def test_the_mode_is_a_largest_cell(case: Case, seed: int) -> None:
    """Small whole parameters make for many ties."""
    theta = np.random.default_rng(seed).integers(-1, 2, size=len(case.basis)).astype(np.float64)
    law = CliqueDistribution(model_of(case.X.shape, case.basis), theta)
    logs = law.log_prob(case.omega)
    assert law.log_prob(np.array([law.most_probable()]))[0] >= logs.max() - 1e-12


def test_samples_have_the_probabilities(rng: np.random.Generator) -> None:
    shape = (3, 2, 4, 2)
    model = model_of(shape, np.array([[1, 0, 0, 0], [2, 1, 0, 0], [0, 1, 2, 0], [0, 0, 3, 1], [0, 0, 0, 1]]))
    law, n = CliqueDistribution(model, rng.normal(size=5)), 40_000
    drawn = law.sample(n, np.random.default_rng(0), {})
    q = np.exp(law.log_prob(np.array(list(np.ndindex(shape)))))
    counts = np.bincount(np.ravel_multi_index(tuple(drawn.T), shape), minlength=q.size)
    chi_square = float(((counts - n * q) ** 2 / (n * q)).sum())
    assert chi_square < q.size - 1 + 5 * math.sqrt(2 * q.size)
    assert_array_equal(drawn, law.sample(n, np.random.default_rng(0), {}))


# ---------------------------------------------------------------- rows


def tables_of(model: Model) -> Tables:
    return JunctionEngine(model).tables


def expectations(rows: Sparse, model: Model) -> FloatArray:
    tables = tables_of(model)
    return tables.sums_above(tables.sum_entries(rows.entries, rows.total))


@given(problems(full_grid=True, zeros=True), st.booleans())
def test_rows_have_the_expectations_of_their_table(case: Case, weighted: bool) -> None:
    cells = case.omega if weighted else np.repeat(case.omega, case.on_omega(case.X).astype(int), axis=0)
    values = case.on_omega(case.X) if weighted else np.ones(len(cells))
    model = model_of(case.X.shape, case.basis)
    rows = observe_rows(cells, values, case.X.shape)
    assert_allclose(expectations(rows, model), case.eta_hat, atol=1e-14)
    mass = Problem.of(ld.plan(case.X, "B1").problem.data, case.basis).mass
    assert_allclose(rows.merged(model.quotient) / rows.total, mass, atol=1e-14)
    p = case.p[case.p > 0]
    assert rows.negentropy == pytest.approx(float(p @ np.log(p)), abs=1e-13)


def _on_the_grid(table: FloatArray, basis: ld.Basis) -> ld.Decomposition:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("legendre.core.limits.CLIQUES_FROM", 1 << 20)
        fit = ld.decompose(table, basis, tol=1e-12)
        assert not isinstance(fit.model, Cliques)
    return fit


@pytest.mark.usefixtures("on_cliques")
@pytest.mark.parametrize("even", [0.0, 3.0])
@pytest.mark.parametrize("solver", ["auto", "natural", "natural-cg"])
def test_rows_fit_like_their_table(even: float, solver: str, rng: np.random.Generator) -> None:
    shape, basis = (3, 2, 4, 2), ld.interactions([(0, 1), (1, 2), (2, 3)])
    cells = np.stack([rng.integers(0, n, size=3000) for n in shape], axis=1)
    cells[:, 1] |= (cells[:, 0] > 1) & (rng.random(3000) < 0.5)
    table = np.zeros(shape)
    np.add.at(table, tuple(cells.T), 1.0)
    rows = observe_rows(cells, np.ones(len(cells)), shape, even)
    fit = ld.decompose(rows, basis, solver=solver, tol=1e-12)
    twin = _on_the_grid(table + even / table.size, basis)
    assert (fit.status, fit.total) == (ld.results.Status.CONVERGED, twin.total)
    assert_allclose(fit.theta, twin.theta, atol=1e-9)
    assert_allclose([fit.psi, fit.kl, fit.rmse], [twin.psi, twin.kl, twin.rmse], rtol=1e-9)


@pytest.mark.usefixtures("on_cliques")
def test_what_is_not_known_beforehand_is_decided_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are seen in all four ways but triples are not: the fit itself shows whether the minimum is attained.

    If it shows nothing, a linear program over the tables decides, unless it is too large.
    """
    cells = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    basis = ld.interactions([(0, 1), (1, 2), (0, 2)])
    assert ld.decompose(observe_rows(cells, np.ones(4), (2, 2, 2)), basis).status is ld.results.Status.CONVERGED
    corners = np.array([v for v in product((0, 1), repeat=3) if len(set(v)) > 1])
    fit = ld.decompose(observe_rows(corners, np.ones(6), (2, 2, 2)), basis)
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.vanishing_cells.tolist() == [[0, 0, 0], [1, 1, 1]]
    monkeypatch.setattr("legendre.core.limits.LARGEST_FACE_PROGRAM", 0)
    with pytest.warns(ld.ConvergenceWarning, match="too large to decide whether a finite minimiser exists"):
        fit = ld.decompose(observe_rows(corners, np.ones(6), (2, 2, 2)), basis)
    assert fit.status is ld.results.Status.UNDECIDED


def test_cells_of_a_grid_of_fifty_modes_vanish() -> None:
    """Every pair of three columns is seen in all ways, but never all three levels 1 nor all three 0; 47 more copy."""
    corners = np.array([v for v in product((0, 1), repeat=3) if len(set(v)) > 1])
    cells = np.hstack([corners, np.repeat(corners, 16, axis=1)[:, :47]])
    rows = observe_rows(cells, np.ones(6), (2,) * 50)
    fit = ld.decompose(rows, ld.interactions([(0, 1), (1, 2), (0, 2), *((k, k + 1) for k in range(2, 49))]))
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert_allclose(fit.marginal([0, 1, 2])[[0, 1], [0, 1], [0, 1]], 0.0)


# ---------------------------------------------------------------- order 100


@pytest.fixture(scope="module")
def markov() -> IntArray:
    """Draw 2000 rows of a chain of 100 binary variables."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, size=(2000, 100))
    for k in range(1, 100):
        copy = rng.random(2000) < 0.4
        rows[copy, k] = rows[copy, k - 1]
    return rows


def pair_margins(rows: IntArray) -> FloatArray:
    return np.array([[[np.mean((rows[:, k] == a) & (rows[:, k + 1] == b)) for b in (0, 1)] for a in (0, 1)]
                     for k in range(rows.shape[1] - 1)])  # fmt: skip


def test_a_chain_of_order_100_is_its_closed_form(markov: IntArray) -> None:
    """``q = prod p(x_k, x_k+1) / prod p(x_k)`` over the inner nodes."""
    machine = ld.BoltzmannMachine(chain(100)).fit(markov)
    fit = machine.decomposition_
    assert (fit.status, fit.solver, fit.residual < 1e-13) == (ld.results.Status.CONVERGED, "closed", True)
    newton = ld.decompose(observe_rows(markov, np.ones(2000), (2,) * 100), fit.basis, solver="natural")
    assert_allclose(newton.theta, fit.theta, atol=1e-11)
    p = pair_margins(markov)
    log_pairs = np.log(p)[np.arange(99), markov[:, :-1], markov[:, 1:]].sum(axis=1)
    log_nodes = np.log(p.sum(axis=2))[np.arange(1, 99), markov[:, 1:-1]].sum(axis=1)
    assert_allclose(machine.score_samples(markov), log_pairs - log_nodes, atol=1e-10)
    odds = np.log(p[:, 1, 1] * p[:, 0, 0] / p[:, 0, 1] / p[:, 1, 0])
    assert_allclose(np.array([machine.weights_[edge] for edge in chain(100)], dtype=np.float64), odds, atol=1e-10)
    _, counts = np.unique(markov, axis=0, return_counts=True)
    entropy = -float(counts @ np.log(counts / 2000)) / 2000
    assert fit.kl == pytest.approx(-entropy - float(np.mean(log_pairs - log_nodes)), abs=1e-10)


def test_answers_at_order_100_follow_the_transfer_matrices(markov: IntArray) -> None:
    machine = ld.BoltzmannMachine(chain(100)).fit(markov)
    p = pair_margins(markov)
    step = p / p.sum(axis=2, keepdims=True)
    first = p[10].sum(axis=1)
    joint = np.diag(first) @ np.linalg.multi_dot(list(step[10:40]))
    assert_allclose(machine.conditional(of=[10, 40]), joint, atol=1e-12)
    assert_allclose(machine.conditional({10: 1}, of=40), joint[1] / joint[1].sum(), atol=1e-12)
    fit = machine.decomposition_
    covariance = joint[1, 1] - joint[1].sum() * joint[:, 1].sum()
    assert fit.fisher()[10, 40] == pytest.approx(covariance, rel=1e-8)
    assert fit.expectation(lambda i, j: i * j, modes=[40, 10]) == pytest.approx(joint[1, 1], abs=1e-12)
    assert fit.expectation(np.array([0.0, 1.0]), modes=10) == pytest.approx(first[1], abs=1e-12)
    proba = machine.predict_proba(markov[:50], of=10)
    around = step[9, markov[:50, 9]] * step[10, :, markov[:50, 11]]
    assert_allclose(proba, around / around.sum(axis=1, keepdims=True), atol=1e-12)
    drawn = machine.sample(20_000, rng=0)
    assert np.abs(drawn.mean(axis=0) - markov.mean(axis=0)).max() < 5 * 0.5 / math.sqrt(20_000)
    best, score = [], np.zeros(2)  # Viterbi
    for matrix in [np.log(p[0]), *np.log(step[1:])]:
        best.append((score[:, None] + matrix).argmax(axis=0))
        score = (score[:, None] + matrix).max(axis=0)
    path = [int(score.argmax())]
    for choice in reversed(best):
        path.append(int(choice[path[-1]]))
    assert fit.most_probable() == tuple(reversed(path))


@given(seeds)
def test_the_closed_form_on_trees(seed: int) -> None:
    """Margins of any positive distribution on the cliques of a random tree; the excess is a divergence."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 4, size=5).tolist())
    edges = [(int(rng.integers(k)), k) for k in range(1, 5)]
    cells = ld.interactions([*((k,) for k in range(5)), *edges]).select(
        observe_rows(np.zeros((1, 5), dtype=np.int64), np.ones(1), shape)
    )
    model = model_of(shape, rng.permutation(cells))
    assert tables_of(model).saturated
    for bias in np.flatnonzero((model.basis > 0).sum(axis=1) == 1):
        assert not tables_of(model.with_columns(np.delete(np.arange(model.n_params), bias))).saturated
    tables = tables_of(model)
    p = rng.random(shape) + 0.1
    rows = observe_rows(np.array(list(np.ndindex(shape))), p.ravel(), shape)
    sums = tables.sum_entries(rows.entries, rows.total)
    theta = tables.closed_form(sums)
    engine, other = JunctionEngine(model), theta + 0.01 * rng.normal(size=model.n_params)
    point = engine.at(other)
    assert_allclose(engine.at(theta).cache.margins, sums, atol=1e-13)
    grid = ReferenceEngine(model)
    m, q = (grid.probabilities(grid.at(t)) for t in (theta, other))
    gap, tilt = tables.excess(sums, point.cache.margins)
    assert gap == pytest.approx(float((m * np.log(m / q)).sum()), abs=1e-13)
    assert tilt >= np.abs(m / q - 1).max() - 1e-12


# ---------------------------------------------------------------- refusals


def test_wide_bases_are_refused_with_their_cliques() -> None:
    everything = list(combinations(range(40), 2))
    text = r"tables of 1,099,511,627,776 cells, .* largest of 1 cliques holds 40 modes \(0, 1, 2, 3, 4, 5, \.\.\.\)"
    with pytest.raises(ld.errors.InvalidBasis, match=text):
        model_of((2,) * 40, pairwise(40, everything))
    with pytest.raises(ld.errors.LegendreError, match=r"the basis couples modes so widely .* holds 100 modes"):
        ld.BoltzmannMachine(2).fit(np.zeros((3, 100), dtype=int))


def test_solvers_that_need_a_grid_say_so(markov: IntArray) -> None:
    rows = observe_rows(markov, np.ones(2000), (2,) * 100)
    with pytest.raises(ld.errors.InvalidSetting, match=r"Use solver='natural'"):
        ld.decompose(rows, ld.interactions(chain(100)), solver="scaling")
    engine = JunctionEngine(model_of((2,) * 100, pairwise(100, chain(100))))
    point = engine.at(np.zeros(engine.n_params))
    with pytest.raises(ld.errors.InvalidSetting, match=r"1\.3e30 probabilities, which are never formed"):
        engine.probabilities(point)


def test_empty_models() -> None:
    engine = JunctionEngine(model_of((3, 4), np.empty((0, 2), dtype=np.int64)))
    point = engine.at(np.zeros(0))
    assert point.psi == pytest.approx(math.log(12), abs=1e-14)
    assert engine.fisher(point).shape == (0, 0)
    law = CliqueDistribution(engine.model, point.theta)
    assert_allclose(law.marginal([1], {}), [0.25] * 4)
    assert law.most_probable() == (0, 0)
    assert set(map(tuple, law.sample(500, np.random.default_rng(0), {}).tolist())) == set(product(range(3), range(4)))
