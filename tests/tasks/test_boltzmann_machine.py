"""Boltzmann machines against the enumeration of all their states."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import legendre as ld
from legendre.core.types import FloatArray, IntArray

Group = tuple[int, ...]


def ising(rng: np.random.Generator, n_rows: int, n: int) -> IntArray:
    """Draw rows in which neighbours agree more often than not."""
    rows = rng.integers(0, 2, size=(n_rows, n))
    for k in range(1, n):
        copy = rng.random(n_rows) < 0.4
        rows[copy, k] = rows[copy, k - 1]
    return rows


def keys_of(machine: ld.BoltzmannMachine) -> list[Any]:
    return list(machine.biases_)


def energy(machine: ld.BoltzmannMachine, state: tuple[int, ...]) -> float:
    """Sum biases and weights from the definition: a weight of levels (a, b) counts once x_i >= a and x_j >= b."""
    total = 0.0
    groups: dict[Any, Any] = {(name,): bias for name, bias in machine.biases_.items()} | dict(machine.weights_)
    for key, weight in groups.items():
        modes = [keys_of(machine).index(name) for name in key]
        array = np.reshape(weight, [machine.n_levels_[k] - 1 for k in modes])
        for level in np.ndindex(array.shape):
            if all(state[k] > a for k, a in zip(modes, level, strict=True)):
                total += float(array[level])
    return total


def enumerated(machine: ld.BoltzmannMachine) -> FloatArray:
    """Compute the probability of every state, on the grid."""
    weight = np.array([np.exp(energy(machine, x)) for x in product(*map(range, machine.n_levels_))])
    assert np.log(weight.sum()) == pytest.approx(machine.psi_, abs=1e-10)
    return np.asarray(weight / weight.sum(), dtype=np.float64).reshape(machine.n_levels_)


CASES: list[tuple[int, Any]] = [
    (1, 2),
    (3, 1),
    (4, 2),
    (4, 3),
    (5, [(0, 1), (1, 2), (0, 1, 2)]),
    (5, [(0, 4), (4, 0), (1, 2, 3), ()]),
    (12, [(k, k + 1) for k in range(11)]),
]


@pytest.mark.parametrize(("n", "edges"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)])
def test_a_machine_is_its_enumeration(n: int, edges: Any, rng: np.random.Generator) -> None:
    rows = ising(rng, 400 if n < 12 else 4000, n)
    machine = ld.BoltzmannMachine(edges).fit(rows)
    q = enumerated(machine)
    cells = tuple(rows.T)
    assert_allclose(machine.score_samples(rows), np.log(q[cells]), atol=1e-10)
    assert machine.log_likelihood(rows) == pytest.approx(float(np.log(q[cells]).sum()), abs=1e-8)
    assert machine.score(rows) == pytest.approx(float(np.log(q[cells]).mean()), abs=1e-10)
    # the gradient of the likelihood: expectations of the data less those of the machine
    states = np.array(list(product([0, 1], repeat=n)))
    for group in [(k,) for k in range(n)] + [tuple(keys_of(machine).index(v) for v in key) for key in machine.weights_]:
        on = states[:, list(group)].all(axis=1)
        assert float(q.ravel()[on].sum()) == pytest.approx(rows[:, list(group)].all(axis=1).mean(), abs=1e-10)


def test_ordinal_variables_have_arrays(rng: np.random.Generator) -> None:
    rows = np.column_stack([rng.integers(0, 3, 500), rng.integers(0, 2, 500), rng.integers(0, 4, 500)])
    rows[:, 2] = np.maximum(rows[:, 2], rows[:, 0])
    machine = ld.BoltzmannMachine([(2, 0), (0, 1)], n_levels=[3, 2, 4], alpha=3.0).fit(rows)
    assert [np.shape(b) for b in machine.biases_.values()] == [(2,), (), (3,)]
    assert {key: np.shape(w) for key, w in machine.weights_.items()} == {(2, 0): (3, 2), (0, 1): (2, 1)}
    q = enumerated(machine)
    assert_allclose(machine.conditional(), q, atol=1e-12)
    P = np.full((3, 2, 4), 3.0 / 24)
    np.add.at(P, tuple(rows.T), 1.0)
    P /= P.sum()
    for axis in ((1,), (2,)):  # the margins of both edges are fitted whole
        assert_allclose(q.sum(axis=axis), P.sum(axis=axis), atol=1e-12)


def test_conditionals_are_ratios_of_sums(rng: np.random.Generator) -> None:
    machine = ld.BoltzmannMachine(2).fit(dict(zip("abcd", ising(rng, 300, 4).T, strict=True)))
    q = enumerated(machine)
    assert_allclose(machine.conditional({"b": 1}), q[:, 1] / q[:, 1].sum(), atol=1e-12)
    given = q[:, 1, 0]
    assert_allclose(machine.conditional({"c": 0, 1: 1}, of=["d", "a"]), (given / given.sum()).T, atol=1e-12)
    assert_allclose(machine.conditional(of="c"), q.sum(axis=(0, 1, 3)), atol=1e-12)
    rows = np.array(list(product([0, 1], repeat=4)))
    proba = machine.predict_proba(rows, "b")
    for x, found in zip(rows.tolist(), proba, strict=True):
        both = [q[x[0], level, x[2], x[3]] for level in (0, 1)]
        assert_allclose(found, np.array(both) / sum(both), atol=1e-12)


def test_the_column_that_is_predicted_is_not_read(rng: np.random.Generator) -> None:
    rows = ising(rng, 80, 3)
    machine = ld.BoltzmannMachine().fit(rows)
    unknown = rows.astype(float)
    unknown[:, 1] = np.nan
    assert_array_equal(machine.predict_proba(unknown, 1), machine.predict_proba(rows, 1))
    assert np.isnan(unknown[:, 1]).all()
    with pytest.raises(ld.errors.InvalidSamples, match="contains NaN or infinity: column 1 is nan in row 0"):
        machine.predict_proba(unknown, 0)


def test_states_never_seen_have_infinite_weights() -> None:
    rows = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]])
    machine = ld.BoltzmannMachine([(0, 1)]).fit(rows)
    assert machine.decomposition_.status is ld.results.Status.AT_BOUNDARY
    assert machine.biases_[2] == -np.inf
    assert machine.weights_[0, 1] == -np.inf
    assert_allclose(machine.conditional(of=[0, 1]), [[0.5, 0.25], [0.25, 0.0]], atol=1e-12)
    assert machine.score([[1, 1, 0]]) == -np.inf
    assert set(map(tuple, machine.sample(50, 0).tolist())) <= {(0, 0, 0), (1, 0, 0), (0, 1, 0)}
    with pytest.raises(ld.errors.ImpossibleEvent, match="the event has probability 0"):
        machine.conditional({2: 1})
    with pytest.raises(ld.errors.InvalidSamples, match=r"row 0: the levels of the other columns have probability 0"):
        machine.predict_proba([[0, 0, 1]], 0)
    smooth = ld.BoltzmannMachine([(0, 1)], alpha=1.0).fit(rows)
    assert_allclose(smooth.conditional(), enumerated(smooth), atol=1e-12)  # all weights are finite
    assert smooth.conditional(of=2)[1] == pytest.approx(0.5 / 5)


def test_columns_are_found_by_name(rng: np.random.Generator) -> None:
    frame: Any = pandas.DataFrame(ising(rng, 50, 3), columns=["rain", "wet", "sun"])
    turned = frame[["sun", "rain", "wet"]]
    machine = ld.BoltzmannMachine().fit(frame)
    for table in (turned, turned.to_dict("list"), polars.from_pandas(turned)):
        assert_array_equal(machine.score_samples(table), machine.score_samples(frame))
        assert_array_equal(machine.predict_proba(table, "wet"), machine.predict_proba(frame, "wet"))
    assert machine.score(turned) == machine.score(frame.to_numpy())
    assert_array_equal(machine.predict_proba(turned[["sun", "rain"]], "wet"), machine.predict_proba(frame, "wet"))
    assert_array_equal(machine.predict_proba(turned[["sun", "rain"]], 1), machine.predict_proba(frame, "wet"))


def test_rows_of_labels() -> None:
    rng = np.random.default_rng(4)
    codes = np.column_stack([rng.integers(0, 2, 60), rng.integers(0, 2, 60), rng.integers(0, 2, 60)])
    codes[:, 2] |= codes[:, 0]
    frame = pandas.DataFrame(
        {
            "class": np.array(["1st", "crew"])[codes[:, 0]],
            "sex": pandas.Categorical.from_codes(codes[:, 1], ["man", "boy"], ordered=True),
            "survived": codes[:, 2],
        }
    )
    machine, plain = ld.BoltzmannMachine(2).fit(frame), ld.BoltzmannMachine(2).fit(codes)
    assert [levels.values.tolist() for levels in machine.columns_] == [["1st", "crew"], ["man", "boy"], [0, 1]]
    assert_array_equal(machine.decomposition_.theta, plain.decomposition_.theta)
    assert_array_equal(machine.score_samples(frame), plain.score_samples(codes))
    assert_array_equal(
        machine.conditional({"class": "crew", "sex": "man"}, of="survived"), plain.conditional({0: 1, 1: 0}, of=2)
    )
    assert_array_equal(machine.predict_proba(frame, "sex"), plain.predict_proba(codes, 1))
    assert set(machine.sample(200, rng=0)[:, 0]) == {"1st", "crew"}
    with pytest.raises(ld.errors.InvalidQuery, match=r"condition: class has no level 'crw'. Did you mean 'crew'"):
        machine.conditional({"class": "crw"})
    with pytest.raises(
        ld.errors.InvalidSamples, match=r"column 'class' holds '2nd' in row 0, which is not one of its levels"
    ):
        machine.score_samples(frame.assign(**{"class": "2nd"}))
    with pytest.raises(
        ld.errors.InvalidSamples, match=r"column 'survived' holds 'no' in row 0, which is not one of its levels"
    ):
        machine.score_samples(frame.assign(survived="no"))


def test_a_value_never_seen_and_a_file(tmp_path: Path, rng: np.random.Generator) -> None:
    codes = rng.integers(0, 3, (60, 2))
    machine = ld.BoltzmannMachine([(0, 1)], handle_unknown="-inf").fit(codes)
    assert machine.n_levels_ == (3, 3)  # up to the largest number
    ld.save(machine, tmp_path / "machine.npz")
    again = ld.load(tmp_path / "machine.npz")
    assert_array_equal(again.score_samples([[0, 1], [3, 1]]), [machine.score([[0, 1]]), -np.inf])
    assert again.weights_.keys() == machine.weights_.keys() == {(0, 1)}
    with pytest.raises(ld.errors.InvalidSamples, match="column 0 holds 2 in row"):  # in fit it is an error
        ld.BoltzmannMachine(n_levels=2, handle_unknown="-inf").fit(codes)
    with pytest.raises(ld.errors.InvalidSamples, match="column 0 has 1,000,000,000 cells"):
        ld.BoltzmannMachine().fit([[0], [10**9 - 1]])


def test_a_hundred_columns_are_not_joined_in_one_table(rng: np.random.Generator) -> None:
    machine = ld.BoltzmannMachine([(k, k + 1) for k in range(99)], alpha=20.0).fit(ising(rng, 300, 100))
    assert machine.conditional({0: 1}, of=[3, 2]).sum() == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ld.errors.InvalidQuery, match=r"the joint distribution of 99 modes: a table of 6\.3e29 cells"):
        machine.conditional({0: 1})


ROWS = [[0, 1], [1, 0], [1, 1], [0, 0]]
TROUBLE: list[tuple[dict[str, Any], Any, str]] = [
    ({"n_levels": 2}, [[0, 1], [2, 0]], "column 0 holds 2 in row 1, which .* Numbers are levels counted from 0"),
    ({}, [[0, -1], [1, 1]], r"column 1 holds -1 in row 0.*pass \(X \+ 1\) // 2"),
    ({}, [[0, 0.5]], "column 1 holds 0.5 in row 0.*bin continuous"),
    ({}, [["a", "b"]], "column 0 has 1 level, 'a', where at least 2 are expected. Leave it out."),
    ({"n_levels": 3}, [["a", "b"], ["c", "d"]], "column 0 has 2 levels, 'a', 'c', where 3 are expected. Leave n_l"),
    ({}, np.zeros((3, 40), dtype=int), "couples modes so widely .* holds 40 modes .* Leave interactions out"),
    ({"n_levels": 1}, ROWS, "n_levels must be an integer >= 2 for all columns, or 2 of them; got 1"),
    ({"n_levels": 2.5}, ROWS, "n_levels must be an integer >= 2 for all columns, or 2 of them; got 2.5"),
    ({"edges": [(0, 2)]}, ROWS, "2 is not a mode of X, which has 2, counted from 0 to 1"),
    ({"edges": [("rain", "wet")]}, {"rain": [0, 1], "wed": [0, 1]}, "unknown mode 'wet'; did you mean 'wed'"),
    ({"edges": [("rain", "wet")]}, ROWS, "'rain' is not a mode of X, which has 2, .* They have no names"),
    ({"edges": [(0, 0)]}, ROWS, "names a mode twice"),
    ({"edges": 0}, ROWS, "edges: the order must be an integer >= 1, got 0"),
    ({"edges": "pairs"}, ROWS, "edges: pass an order .* got 'pairs'"),
    ({"edges": [1, 2]}, ROWS, "edges: pass an order such as 2, or sets of modes"),
]  # fmt: skip


def test_scikit_learn_is_not_needed() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import legendre as ld\n"
        "m = ld.BoltzmannMachine(2).set_params(alpha=1.0).fit([[0, 1], [1, 1], [0, 0]])\n"
        "print(m, m.sample(2, 0).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "BoltzmannMachine(alpha=1.0) (2, 2)"


@pytest.mark.parametrize(("settings", "rows", "text"), TROUBLE, ids=range(len(TROUBLE)))
def test_trouble_is_named(settings: dict[str, Any], rows: Any, text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        ld.BoltzmannMachine(**settings).fit(rows)


QUESTIONS: list[tuple[Callable[[ld.BoltzmannMachine], object], str]] = [
    (lambda m: m.conditional({"a": 2}), "condition: a has no level 2"),
    (lambda m: m.conditional({"a": 1}, of=["a", "b"]), "marginal: a is asked for and given"),
    (lambda m: m.conditional({0: 1, "a": 0}), "condition: a is given twice"),
    (lambda m: m.conditional({"a": 1}, 1.5), "of: 1.5 is not a set of modes"),
    (lambda m: m.score([[0, 1]]), "X has 2 features, but BoltzmannMachine is expecting 3 features"),
    (lambda m: m.sample(0), "n_samples must be an integer >= 1, got 0"),
    (lambda m: m.sample(1, "seed"), "rng must be"),  # type: ignore[arg-type]
    (lambda m: m.fit([[0, 1, 1], [1, 0, 0]], sample_weight=[1, 2, 3]), "sample_weight .* must hold 2 numbers"),
    (lambda m: m.fit([[0, 1, 1], [1, 0, 0]], sample_weight=[[1], [1, 2]]), "sample_weight is not a rectangular array"),
    (lambda m: m.set_params(edge=2), "unknown parameter of BoltzmannMachine 'edge'; did you mean 'edges'"),
    (lambda _: ld.BoltzmannMachine().sample(), r"this BoltzmannMachine is not fitted yet\. Call fit first"),
]


@pytest.mark.parametrize(("ask", "text"), QUESTIONS, ids=range(len(QUESTIONS)))
def test_questions_out_of_place(
    ask: Callable[[ld.BoltzmannMachine], object], text: str, rng: np.random.Generator
) -> None:
    machine = ld.BoltzmannMachine().fit(dict(zip("abc", ising(rng, 60, 3).T, strict=True)))
    with pytest.raises(ld.LegendreError, match=text):
        ask(machine)


def test_scikit_learn_conventions(rng: np.random.Generator) -> None:
    edges = [(0, 1), (1, 2)]
    machine = ld.BoltzmannMachine(edges, alpha=1.0)
    assert machine.get_params() == {
        "alpha": 1.0, "edges": edges, "handle_unknown": "error", "n_levels": None, "tol": 1e-10,
    }  # fmt: skip
    assert repr(machine) == "BoltzmannMachine(edges=[(0, 1), (1, 2)], alpha=1.0)"
    rows = ising(rng, 400, 3)
    assert machine.fit(rows) is machine
    assert not hasattr(clone(machine), "decomposition_")
    assert_array_equal(pickle.loads(pickle.dumps(machine)).score_samples(rows), machine.score_samples(rows))
