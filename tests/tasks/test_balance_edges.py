"""Balancing at the edges of the promised range: X and margins whose entries differ by up to 18 powers of ten.

Questions are generated from a tensor T that has the margins, so that a positive cell of T can be positive. What an
answer must be is checked from the definition: margins met, ``log Q - log X`` a sum of functions of the margins' modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import legendre as ld
from legendre.core.types import BoolArray, FloatArray

Modes = tuple[int, ...]
SHOWN = 1e-11  # a cell below this share of a margin's entry leaves no trace in the entry
LONGEST = {2: 6, 3: 4, 4: 3}  # the longest mode, by order


@dataclass(frozen=True, eq=False)
class Question:
    """X, a tensor with the margins, and the margins."""

    X: FloatArray
    T: FloatArray
    margins: dict[Modes, FloatArray]

    def spread(self, modes: Modes, values: FloatArray) -> FloatArray:
        return np.expand_dims(values, tuple(k for k in range(self.X.ndim) if k not in modes))

    @property
    def shown(self) -> BoolArray:
        """The cells of T that leave a trace in each margin."""
        traces = [SHOWN * self.spread(modes, values) < self.T for modes, values in self.margins.items()]
        return np.asarray(np.all(traces, axis=0))


def drawn(seed: int) -> Question:
    """Draw a question; with the same seed the same one."""
    rng = np.random.default_rng([20240, seed])
    order = int(rng.integers(2, 5))
    shape = tuple(int(n) for n in rng.integers(1, LONGEST[order] + 1, size=order))
    kind = rng.choice(["plain", "tiny", "huge", "integer", "units"])
    X = _prior(rng, shape)
    T = _tensor(rng, np.where(X > 0, 1.0, 0.0), str(kind))
    sets = _sets(rng, order)
    margins = {modes: T.sum(axis=tuple(k for k in range(order) if k not in modes)) for modes in sets}
    return Question(X, T, margins)


def _prior(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    exponent = float(rng.choice([0.0, 2.0, 8.9], p=[0.2, 0.3, 0.5]))
    X = 10.0 ** rng.uniform(-exponent, exponent, size=shape)
    if exponent > 8 and rng.random() < 0.4:
        X = 10.0 ** rng.choice([-exponent, 0.0, exponent], size=shape)
    X *= rng.choice([1.0, 1e-90, 1e90])
    if rng.random() < 0.5:
        X = X * (rng.random(shape) < rng.choice([0.5, 0.7, 0.9]))
    return X if X.any() else np.ones(shape)


def _tensor(rng: np.random.Generator, inside: FloatArray, kind: str) -> FloatArray:
    shape = inside.shape
    if kind == "integer":
        T = inside * rng.integers(0, 6, size=shape)
    elif kind == "tiny":  # whole levels are tiny
        T = inside * rng.integers(1, 16, size=shape)
        for k, n in enumerate(shape):
            powers = rng.integers(0, 14 // len(shape), size=n) * (rng.random(n) < 0.4)
            T = T * (10.0**-powers).reshape([-1 if j == k else 1 for j in range(len(shape))])
    else:
        T = inside * rng.uniform(0.1, 1.0, size=shape) * {"plain": 1.0, "huge": 1e80, "units": 1e-80}[kind]
    if rng.random() < 0.3:
        k = int(rng.integers(len(shape)))
        np.moveaxis(T, k, 0)[int(rng.integers(shape[k]))] = 0.0
    return T if T.any() else inside


def _sets(rng: np.random.Generator, order: int) -> list[Modes]:
    way = rng.random()
    if way < 0.5:
        return [(k,) for k in range(order)]
    if order > 2 and way < 0.75:
        return list(combinations(range(order), 2))
    groups = list(chain.from_iterable(combinations(range(order), n) for n in range(1, order + 1)))
    chosen = rng.choice(len(groups), size=min(len(groups), int(rng.integers(1, 4))), replace=False)
    return [groups[i] for i in chosen]


def must_vanish(question: Question) -> BoolArray:
    """Maximise cell after cell over all tensors with the margins, which are small whole numbers."""
    X, margins = question.X, question.margins
    cells = list(np.ndindex(X.shape))
    entries = [(modes, index) for modes, values in margins.items() for index in np.ndindex(values.shape)]
    A = np.array([[float(tuple(cell[k] for k in modes) == index) for cell in cells] for modes, index in entries])
    b = np.concatenate([values.ravel() for values in margins.values()])
    bounds = [(0.0, None if x > 0 else 0.0) for x in X.ravel()]
    seen = np.zeros(X.size, dtype=np.bool_)
    for i in np.flatnonzero(X):
        if not seen[i]:
            answer = linprog(-np.eye(X.size)[i], A_eq=A, b_eq=b, bounds=bounds, method="highs")
            seen |= np.asarray(answer.x) > 1e-6
    return (X > 0) & ~seen.reshape(X.shape)


def check(question: Question) -> None:
    """Balance, and compare with what the definition says."""
    X, margins = question.X, question.margins
    result = ld.balance(X, margins)
    assert result.converged, result.status
    smallest = min(values[values > 0].min() / values.sum() for values in margins.values())
    if smallest > 1e-8:  # a linear program tells such entries from 0
        assert result.status is not ld.results.Status.UNDECIDED
    Q = np.asarray(result.tensor())
    for modes, values in margins.items():
        sums = Q.sum(axis=tuple(k for k in range(X.ndim) if k not in modes))
        assert np.abs(sums - values).max() <= 1.01e-10 * values.max()
    vanishing = np.zeros(X.shape, dtype=np.bool_)
    vanishing[tuple(result.vanishing_cells.T)] = True
    wrong = vanishing & question.shown
    assert not wrong.any(), f"cells {np.argwhere(wrong).tolist()} can be positive"
    if question.T.max() < 20 and (np.rint(question.T) == question.T).all():
        assert (vanishing == must_vanish(question)).all()
    assert _beside_the_span(question, Q) <= 1e-8


def _beside_the_span(question: Question, Q: FloatArray) -> float:
    """How far ``log Q - log X`` is from a sum of functions of the margins' modes, where Q has all its digits."""
    inside = Q > 1e-290
    if not inside.any():
        return 0.0
    logs = np.log(Q[inside]) - np.log(question.X[inside])
    parts = []
    for modes in question.margins:
        _, label = np.unique(np.argwhere(inside)[:, modes], axis=0, return_inverse=True)
        parts.append(np.eye(label.max() + 1)[label.ravel()])
    functions = np.concatenate(parts, axis=1)
    fitted = functions @ np.linalg.lstsq(functions, logs, rcond=None)[0]
    return float(np.abs(fitted - logs).max() / max(1.0, np.abs(logs).max()))


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_generated_edges(start: int) -> None:
    for seed in range(start, start + 40):
        question = drawn(seed)
        try:
            check(question)
        except Exception as trouble:
            raise AssertionError(f"seed {seed}: {trouble}") from trouble


def test_cells_of_a_tiny_margin_are_not_listed_as_vanishing() -> None:
    X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [1.0, 1.0, 0.0]])
    T = np.where(X > 0, 1.0, 0.0) * np.array([1e-14, 1.0, 1.0])[:, None]
    result = ld.balance(X, [T.sum(axis=1), T.sum(axis=0)])
    assert result.status is ld.results.Status.CONVERGED
    assert len(result.vanishing_cells) == 0
    assert_allclose(result.tensor()[0].sum(), 2e-14, rtol=1e-3)
