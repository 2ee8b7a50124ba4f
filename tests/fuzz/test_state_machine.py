"""Whatever is done to a fit, in whatever order, it answers as before: save, load, pickle, at, queries, samples."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import legendre as ld

from .oracle import Problem


class Fits(RuleBasedStateMachine):
    """One fit, its copies by file and by pickle, and Q by brute force."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.fit: Any = None
        self.X: Any = None
        self.q: Any = None
        self.copies = 0
        self.grown = False  # by adaptive(...), with X at hand: parts of the basis can be fitted

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(
        seed=st.integers(0, 2**20),
        dims=st.sampled_from([(4,), (2, 3), (3, 2, 2), (2, 2, 2, 2)]),
        basis=st.sampled_from(["B1", "interactions(2)", "full()", "B3(1)", "adaptive(3)"]),
        zeros=st.booleans(),
    )
    def begin(self, seed: int, dims: tuple[int, ...], basis: str, zeros: bool) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.integers(0 if zeros else 1, 5, dims).astype(np.float64)
        self.X.flat[0] += 1.0
        basis = "interactions(1)" if len(dims) < 2 and basis == "interactions(2)" else basis
        self._take(ld.decompose(self.X, basis))
        self.grown = basis.startswith("adaptive")

    def _take(self, fit: Any) -> None:
        self.fit = fit
        problem = Problem.of(self.X, np.ones(self.X.shape, dtype=bool), fit.basis)
        gone = np.zeros(self.X.shape, dtype=bool)
        gone[tuple(fit.vanishing_cells.T)] = True
        log_q, _ = problem.log_q(fit.theta, ~gone.ravel())
        self.q = problem.on_grid(np.exp(log_q)).astype(np.float64)

    @rule()
    def through_a_file(self) -> None:
        self.copies += 1
        path = Path(self.folder.name) / f"{self.copies}.npz"
        self.fit.save(path)
        loaded = ld.load(path)
        assert np.array_equal(loaded.theta, self.fit.theta)
        assert (loaded.kl, loaded.rmse, loaded.status) == (self.fit.kl, self.fit.rmse, self.fit.status)
        self.fit, self.grown = loaded, False

    @rule()
    def through_a_pickle(self) -> None:
        copy = pickle.loads(pickle.dumps(self.fit))
        assert np.array_equal(copy.theta, self.fit.theta)
        self.fit = copy

    @precondition(lambda self: self.grown)
    @rule(share=st.floats(0.0, 1.0))
    def at(self, share: float) -> None:
        n = int(share * self.fit.n_params)
        part = self.fit.at(n)
        assert np.array_equal(part.basis, self.fit.basis[:n])
        assert part.kl >= self.fit.kl - 1e-9
        self._take(part)
        self.grown = False

    @rule(data=st.data())
    def condition(self, data: st.DataObject) -> None:
        k = data.draw(st.integers(0, self.q.ndim - 1))
        i = data.draw(st.integers(0, self.q.shape[k] - 1))
        part = self.q.take(i, axis=k)
        try:
            found = self.fit.condition({k: i})
        except ld.errors.ImpossibleEvent:
            assert part.sum() < 1e-300
            return
        assert np.abs(found - part / part.sum()).max() < 1e-11

    @rule(data=st.data())
    def marginal(self, data: st.DataObject) -> None:
        kept = data.draw(st.lists(st.integers(0, self.q.ndim - 1), unique=True, min_size=1))
        right = self.q.sum(axis=tuple(k for k in range(self.q.ndim) if k not in kept))
        found = self.fit.marginal(kept)
        assert np.abs(found - right.transpose(np.argsort(np.argsort(kept)))).max() < 1e-12

    @rule(n=st.integers(0, 20), seed=st.integers(0, 99))
    def sample(self, n: int, seed: int) -> None:
        drawn = self.fit.sample(n, seed)
        assert drawn.shape == (n, self.q.ndim)
        assert (self.q[tuple(drawn.T)] > 0).all()
        assert np.array_equal(drawn, self.fit.sample(n, seed))

    @invariant()
    def is_certified(self) -> None:
        if self.fit is not None:
            assert self.fit.converged
            assert self.fit.residual <= self.fit.tol
            assert np.abs(self.fit.tensor() / self.X.sum() - self.q).max() < 1e-12


TestFits = Fits.TestCase
TestFits.settings = settings(max_examples=15, stateful_step_count=8)
