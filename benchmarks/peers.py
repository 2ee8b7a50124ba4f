"""Other decompositions at an equal number of parameters: the smallest rank that has at least as many as the basis.

They minimise other objectives (squared error, or Poisson likelihood in CP-APR) and stop when theirs no longer moves, so
a row has no residual; it has the root mean square error and the KL divergence of the reconstruction instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

Floats = NDArray[np.float64]
MAX_ITER = 100
TOL = 1e-5


@dataclass(frozen=True, eq=False)
class Factors:
    """A peer's answer, not yet multiplied out."""

    n_params: int
    n_iter: int
    multiply_out: Callable[[], Floats]


@dataclass(frozen=True)
class Peer:
    """A decomposition of another library.

    Parameters
    ----------
    name, label
        In the CSV, and for readers.
    package
        Which package it comes from.
    rank
        From shape and number of parameters to the rank.
    prepare
        From X to the library's own tensor type; not timed.
    fit
        From that tensor and a rank to factors; timed.
    """

    name: str
    label: str
    package: str
    rank: Callable[[tuple[int, ...], int], int]
    prepare: Callable[[Floats], Any]
    fit: Callable[[Any, int], Factors]

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        return find_spec(self.package) is not None


def cp_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest CP rank with at least so many parameters.

    >>> cp_rank((200, 200, 200), 6000)
    10
    """
    return max(1, -(-n_params // sum(shape)))


def tucker_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest m such that Tucker with an m x ... x m core has at least so many parameters.

    >>> tucker_rank((200, 200, 200), 6000)
    9
    """
    return next(m for m in itertools.count(1) if tucker_params(shape, m) >= n_params)


def tucker_params(shape: tuple[int, ...], m: int) -> int:
    """Count the entries of factors and core."""
    return int(sum(shape) * m + m ** len(shape))


def errors(X: Floats, Q: Floats) -> tuple[float, float]:
    """Return root mean square error and KL(P, Q), both tensors normalised for the latter; slice by slice."""
    total_x, total_q = float(X.sum()), float(Q.sum())
    square, divergence = 0.0, 0.0
    for x, q in zip(X, Q, strict=True):
        square += float(np.square(x - q).sum())
        divergence += float(rel_entr(x / total_x, q / total_q).sum()) if total_q > 0 else np.inf
    return float(np.sqrt(square / X.size)), divergence


def _tensorly(X: Floats) -> Any:
    import tensorly

    return tensorly.tensor(X)


def _cp(init: str) -> Callable[[Any, int], Factors]:
    def fit(X: Any, rank: int) -> Factors:
        import tensorly
        from tensorly.decomposition import non_negative_parafac

        answer, history = non_negative_parafac(
            X, rank, n_iter_max=MAX_ITER, init=init, tol=TOL, random_state=0, return_errors=True
        )
        return Factors(rank * sum(X.shape), len(history), lambda: np.asarray(tensorly.cp_to_tensor(answer)))

    return fit


def _tucker(function: str) -> Callable[[Any, int], Factors]:
    def fit(X: Any, rank: int) -> Factors:
        import tensorly
        import tensorly.decomposition as methods

        answer, history = getattr(methods, function)(
            X, [rank] * X.ndim, n_iter_max=MAX_ITER, init="random", tol=TOL, random_state=0, return_errors=True
        )
        return Factors(
            tucker_params(X.shape, rank), len(history), lambda: np.asarray(tensorly.tucker_to_tensor(answer))
        )

    return fit


def _pyttb(X: Floats) -> Any:
    return import_module("pyttb").tensor(X)


def _cp_apr(X: Any, rank: int) -> Factors:
    pyttb: Any = import_module("pyttb")
    rng = np.random.default_rng(0)
    start = pyttb.ktensor([rng.random((side, rank)) for side in X.shape])
    answer, _, info = pyttb.cp_apr(X, rank, init=start, maxiters=MAX_ITER, printitn=0)
    return Factors(rank * sum(X.shape), len(info["times"]), lambda: np.asarray(answer.full().double()))


PEERS = {
    peer.name: peer
    for peer in (
        Peer("cp", "NN-CP, default start", "tensorly", cp_rank, _tensorly, _cp("svd")),
        Peer("cp-random", "NN-CP, random start", "tensorly", cp_rank, _tensorly, _cp("random")),
        Peer("tucker", "NN-Tucker, random start", "tensorly", tucker_rank, _tensorly, _tucker("non_negative_tucker")),
        Peer(
            "tucker-hals",
            "NN-Tucker HALS, random start",
            "tensorly",
            tucker_rank,
            _tensorly,
            _tucker("non_negative_tucker_hals"),
        ),
        Peer("cp-apr", "CP-APR, random start", "pyttb", cp_rank, _pyttb, _cp_apr),
    )
}
