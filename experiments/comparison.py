"""The paper's comparison: uniform, the paper's bases, adaptive, peers, and peers told which cells are 0."""

from __future__ import annotations

import math
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.basis import B1, B2, B3, Basis, empty
from legendre.core.errors import ConvergenceWarning
from legendre.core.types import AnyArray, FloatArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.fitting.fit import decompose
from legendre.results.decomposition import Decomposition
from legendre.tasks import compare
from legendre.tasks.compare import ADAPTIVE as ADAPTIVE
from legendre.tasks.compare import COMPARED as COMPARED
from legendre.tasks.compare import UNIFORM as UNIFORM
from legendre.tasks.compare import Effort as Effort
from legendre.tasks.compare import Method, attempt

# --- rows and scores -------------------------------------------------------------------------------------------------

PAPER = "paper"
OURS = (UNIFORM, PAPER, ADAPTIVE)
MASKED = " x mask"
"""Follows a peer's name where its reconstruction was multiplied by the mask X > 0 and rescaled."""
NONZERO = "cp-nonzero"
"""The peer that is fitted where X > 0 alone, as ours is with ``support="nonzero"``; then multiplied by the mask."""
PEERS: dict[str, Method] = compare.PEERS | {
    NONZERO: replace(compare.PEERS["cp-random"], label="NN-CP fitted where X > 0")
}
LABELS = {UNIFORM: "uniform", PAPER: "Legendre, paper's basis", ADAPTIVE: "Legendre, adaptive"} | {
    name + suffix: PEERS[name].label + suffix for suffix in ("", MASKED) for name in (*COMPARED, NONZERO)
}


@dataclass(frozen=True)
class Row:
    """One reconstruction, or the reason why there is none; None where a field does not apply."""

    method: str
    asked: int  # the number of parameters to compare at
    seed: int | None  # of a random start
    status: str  # how a Legendre decomposition ended, or DONE, FAILED, SKIPPED, NOT INSTALLED
    n_params: int | None = None  # parameters used: at most `asked` of ours, at least `asked` of a peer
    n_iter: int | None = None
    rmse: float | None = None  # these three as in `score`
    rmse_nonzero: float | None = None
    kl: float | None = None
    seconds: float | None = None  # of the fit alone
    residual: float | None = None  # max|eta - eta_hat|; peers have none
    problem: str = ""  # which tensor
    support: str = "all"  # what the sample space was
    note: str = ""  # why there is no reconstruction, which basis was taken, or what a peer warned of

    @property
    def label(self) -> str:
        """The method's name for readers."""
        return LABELS.get(self.method, self.method)

    @property
    def scored(self) -> bool:
        """Whether there is a reconstruction."""
        return self.rmse is not None


def score(X: AnyArray, Q: FloatArray) -> dict[str, float]:
    """Return the distances of `legendre.tasks.compare.score`, and RMSE over the cells where X > 0."""
    squares = np.square(X - Q)[X > 0]
    return {**compare.score(X, Q), "rmse_nonzero": float(np.sqrt(squares.mean()))}


def time_fit(fit: Callable[[], Decomposition], longest: float = 20.0) -> tuple[Decomposition, float]:
    """Run a fit, and once more if it took less than `longest` seconds: the first may load compiled code."""
    for _ in range(2):
        start = time.perf_counter()
        found = fit()
        seconds = time.perf_counter() - start
        if seconds > longest:
            break
    return found, seconds


def masked(X: AnyArray, Q: FloatArray) -> FloatArray:
    """Return Q where X > 0, rescaled to X's total; 0 elsewhere, and 0 everywhere if Q is 0 where X > 0."""
    kept = np.where(X > 0, Q, 0.0)
    return kept * (np.nansum(X) / kept.sum()) if kept.any() else kept


# --- numbers of parameters -------------------------------------------------------------------------------------------

Family = Literal["B1 + B2(l) + B3(l)", "B3(l)"]
FAMILIES: dict[Family, Callable[[int], Basis]] = {
    "B1 + B2(l) + B3(l)": lambda l: B1() | B2(l) | B3(l),  # noqa: E741 - the paper's name
    "B3(l)": lambda l: B3(l),  # noqa: E741 - the paper's name
}
"""The two families of the paper's experiments: of faces, and of MNIST."""


def largest(data: Observation, n_params: int, family: Family) -> tuple[int, int]:
    """Find the l whose basis is the largest with at most `n_params` cells; return l and that number of cells.

    The size grows with l, up to cells that two parts share, so bisection finds it. If all are too large, l is 0 and the
    size that of l = 1.

    >>> from legendre.data.dense import observe
    >>> largest(observe([[[1] * 4] * 5] * 6), 40, "B1 + B2(l) + B3(l)")
    (6, 39)
    """

    def size(l: int) -> int:  # noqa: E741 - the paper's name
        return len(FAMILIES[family](l).select(data))

    most = min(math.prod(data.shape[:-1]), n_params)  # a larger l would list a huge basis
    found = bisect_right(range(1, most + 1), n_params, key=size)
    return found, size(max(found, 1))


# --- the comparison --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """A tensor, and how methods are run on it."""

    data: Dense  # the tensor as it was read
    X: FloatArray  # the same in double precision, read-only, with NaN where it is missing
    support: str  # with "nonzero" every peer also has a row multiplied by the mask, which ours knows
    problem: str  # the tensor's name, for the rows
    family: Family  # which of the paper's bases
    effort: Effort  # when the peers stop

    @classmethod
    def of(
        cls,
        X: TensorLike,
        support: str = "all",
        problem: str = "",
        family: Family = "B1 + B2(l) + B3(l)",
        effort: Effort | None = None,
    ) -> Comparison:
        """Read X, and check the support."""
        data = read(X, support).in_memory("compare")
        values = np.asarray(data.values, dtype=np.float64)
        return cls(data, values, support, problem, family, Effort() if effort is None else effort)

    def jobs(self, n_params: Sequence[int], n_starts: int, methods: Sequence[str]) -> list[Row]:
        """List the fits, size by size: ours once, peers with every seed; one that is not installed has one job."""
        able = {name: PEERS[name].installed for name in methods if name in PEERS}
        found: list[tuple[str, int, int | None]] = [
            (name, 0, None) for name in methods if name == UNIFORM or not able.get(name, True)
        ]
        for n in n_params:
            found += [(method, n, None) for method in (PAPER, ADAPTIVE) if method in methods]
            found += [(name, n, seed) for name, can in able.items() if can for seed in range(n_starts)]
        return [Row(*job, "SKIPPED", problem=self.problem, support=self.support) for job in found]

    def run(self, job: Row) -> tuple[Row, ...]:
        """Run one job; the answer of a peer is a second row where it is also multiplied by the mask."""
        return (self._run_ours(job),) if job.method in OURS else self._run_peer(job)

    def _run_ours(self, row: Row) -> Row:
        basis, note = empty(), ""
        if row.method == ADAPTIVE:
            basis = adaptive(row.asked)
        elif row.method == PAPER:
            l, n_params = largest(self.data, row.asked, self.family)  # noqa: E741 - the paper's name
            if not l:
                return replace(row, note=f"the smallest basis {self.family} has {n_params} parameters")
            basis, note = FAMILIES[self.family](l), self.family.replace("(l)", f"({l})")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row has status and residual
            fit, seconds = time_fit(lambda: decompose(self.data, basis))
        done = replace(row, status=fit.status.name, n_params=fit.n_params, n_iter=fit.n_iter, seconds=seconds)
        return self._score(replace(done, residual=fit.residual, note=note), fit.without_labels().tensor())

    def _run_peer(self, row: Row) -> tuple[Row, ...]:
        peer = PEERS[row.method]
        if not peer.installed:
            return (
                replace(row, status="NOT INSTALLED", note=f"needs {peer.package}: pip install 'legendre[compare]'"),
            )
        X = np.where(self.X > 0, self.X, np.nan) if row.method == NONZERO else self.X
        facts, Q = attempt(peer, X, row.asked, self.effort, row.seed or 0)
        row = replace(row, **facts)
        if Q is None:
            return (row,)
        rows: tuple[Row, ...] = () if row.method == NONZERO else (self._score(row, Q),)
        if self.support == "nonzero":
            rows += (self._score(replace(row, method=row.method + MASKED), masked(self.X, Q)),)
        return rows

    def _score(self, row: Row, Q: FloatArray) -> Row:
        return replace(row, **score(self.X, Q))  # type: ignore[arg-type]  # three of its numbers
