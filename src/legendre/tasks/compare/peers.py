"""Decompositions of other libraries at an equal number of parameters: the smallest rank that has at least as many.

They minimise other objectives (squared error, or Poisson likelihood in CP-APR) and stop when theirs no longer moves, so
that they have no residual; their reconstructions are compared.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from legendre.core.types import FloatArray

ADVICE = "pip install 'legendre[compare]'"


@dataclass(frozen=True)
class Effort:
    """When a peer stops."""

    max_iter: int = 500  # iterations at most
    tol: float = 1e-7  # TensorLy stops when its relative error changes by less
    kkt_tol: float = 1e-4  # CP-APR stops when its optimality conditions are violated by less
    seconds: float = 120.0  # CP-APR stops after this time; TensorLy has no such limit


@dataclass(frozen=True, eq=False)
class Factors:
    """A peer's answer, not yet multiplied out."""

    n_params: int
    n_iter: int
    multiply_out: Callable[[], FloatArray]


Fit = Callable[[Any, int, Effort, int], Factors]


@dataclass(frozen=True)
class Peer:
    """A decomposition of another library."""

    name: str  # in files
    label: str  # for readers
    package: str  # which it is part of
    rank: Callable[[tuple[int, ...], int], int]  # from shape and number of parameters to the rank
    prepare: Callable[[FloatArray], Any]  # from X to the library's own tensor type; not timed
    fit: Fit  # from that tensor, a rank, an effort and a seed to factors; timed

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return find_spec(self.package) is not None


@dataclass(frozen=True, eq=False)
class Attempt:
    """The outcome of a peer's run: its reconstruction, or in `note` the reason why it failed."""

    n_params: int | None = None
    n_iter: int | None = None
    seconds: float | None = None
    Q: FloatArray | None = None
    note: str = ""


def attempt(peer: Peer, X: FloatArray, n_params: int, effort: Effort, seed: int) -> Attempt:
    """Run a peer; an error or a warning inside it becomes a note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tensor = peer.prepare(X)
            start = time.perf_counter()
            factors = peer.fit(tensor, peer.rank(X.shape, n_params), effort, seed)
            seconds = time.perf_counter() - start
            Q = factors.multiply_out()
        except Exception as error:  # another library's, so of any kind
            return Attempt(note=f"{type(error).__name__}: {error}".splitlines()[0][:200])
    remarks = [f"{warning.category.__name__}: {warning.message}".splitlines()[0][:80] for warning in caught]
    if factors.n_iter >= effort.max_iter:
        remarks.insert(0, f"stopped at {effort.max_iter} iterations")
    if not np.isfinite(Q).all():
        return Attempt(factors.n_params, factors.n_iter, seconds, note="the reconstruction is not finite")
    return Attempt(factors.n_params, factors.n_iter, seconds, Q, "; ".join(dict.fromkeys(remarks)))


def cp_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest CP rank with at least `n_params` parameters.

    >>> cp_rank((200, 200, 200), 6000)
    10
    """
    return max(1, -(-n_params // sum(shape)))


def tucker_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest m such that Tucker with an m x ... x m core has at least `n_params` parameters.

    No mode has a rank above its length, so that m is at most the length of the longest mode.

    >>> tucker_rank((200, 200, 200), 6000)
    9
    >>> tucker_rank((4, 5, 2), 1000)
    5
    """
    return next((m for m in range(1, max(shape)) if tucker_params(shape, m) >= n_params), max(shape))


def tucker_ranks(shape: tuple[int, ...], m: int) -> list[int]:
    """Return m for each mode, or its length where that is less."""
    return [min(m, length) for length in shape]


def tucker_params(shape: tuple[int, ...], m: int) -> int:
    """Count the entries of factors and core."""
    ranks = tucker_ranks(shape, m)
    return int(np.dot(shape, ranks) + np.prod(ranks))


def _of_tensorly(name: str, label: str, function: str, init: str = "random", *, nonzero: bool = False) -> Peer:
    """Return a CP or Tucker decomposition by its function's name; `nonzero` fits it where X > 0 alone."""
    tucker = "tucker" in function

    def prepare(X: FloatArray) -> Any:
        return import_module("tensorly").tensor(X)

    def fit(X: Any, rank: int, effort: Effort, seed: int) -> Factors:
        tensorly, shape = import_module("tensorly"), X.shape
        answer, history = getattr(import_module("tensorly.decomposition"), function)(
            X, tucker_ranks(shape, rank) if tucker else rank, n_iter_max=effort.max_iter, init=init, tol=effort.tol,
            random_state=seed, return_errors=True, **({"mask": X > 0} if nonzero else {}),
        )  # fmt: skip
        n_params = tucker_params(shape, rank) if tucker else rank * sum(shape)
        multiply_out = tensorly.tucker_to_tensor if tucker else tensorly.cp_to_tensor
        return Factors(n_params, len(history), lambda: np.asarray(multiply_out(answer)))

    return Peer(name, label, "tensorly", tucker_rank if tucker else cp_rank, prepare, fit)


def _cp_apr(X: Any, rank: int, effort: Effort, seed: int) -> Factors:
    pyttb: Any = import_module("pyttb")
    rng = np.random.default_rng(seed)
    start = pyttb.ktensor([rng.random((side, rank)) for side in X.shape])
    answer, _, info = pyttb.cp_apr(
        X, rank, init=start, maxiters=effort.max_iter, stoptol=effort.kkt_tol, stoptime=effort.seconds, printitn=0
    )
    return Factors(rank * sum(X.shape), len(info["times"]), lambda: np.asarray(answer.full().double()))


PEERS = {
    peer.name: peer
    for peer in (
        _of_tensorly("cp", "NN-CP, default start", "non_negative_parafac", "svd"),
        _of_tensorly("cp-random", "NN-CP, random start", "non_negative_parafac"),
        _of_tensorly("cp-hals", "NN-CP HALS", "non_negative_parafac_hals"),
        _of_tensorly("tucker", "NN-Tucker", "non_negative_tucker"),
        _of_tensorly("tucker-hals", "NN-Tucker HALS", "non_negative_tucker_hals"),
        _of_tensorly("cp-nonzero", "NN-CP fitted where X > 0", "non_negative_parafac", nonzero=True),
        Peer("cp-apr", "CP-APR", "pyttb", cp_rank, lambda X: import_module("pyttb").tensor(X), _cp_apr),
    )
}
"""Every peer by name, installed or not; all but the first start at random."""
