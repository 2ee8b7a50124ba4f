"""Tensors at an equal number of parameters: the package grows a basis, others take the smallest rank with as many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

from benchmarks.problems import DataMissing, data_folder

from .entrants import Case, Discipline, Entrant, Fitted, Floats, errors
from .rows import OURS

RULES = """\
Others have the smallest rank with at least as many parameters, one random start and at most 500 iterations. HALS,
Tucker and CP-ALS minimise the squared error; the package, CP-APR and GCP the divergence. KL is infinite where a
reconstruction is 0 or less and X is not. *unordered*: levels without an order are arranged first, which is timed too.
"""


def archive(file: str, key: str) -> Floats:
    """Read a data set that is not part of the project."""
    path = data_folder() / file
    if not path.is_file():
        raise DataMissing(f"{file} is not in the folder that LEGENDRE_DATA names")
    with np.load(path, allow_pickle=False) as opened:
        return np.asarray(opened[key], dtype=np.float64)


def bumps(side: int) -> Floats:
    """Draw counts around three separable bumps, which suit CP, and a ridge along a diagonal, which does not."""
    x, y, z = np.meshgrid(*[np.linspace(0.0, 1.0, side)] * 3, indexing="ij")
    rate = 40 * np.exp(-20 * (np.square(x - y) + np.square(y - z) / 4))
    for a, b, c in ((0.2, 0.7, 0.4), (0.8, 0.3, 0.6), (0.5, 0.9, 0.1)):
        rate += 60 * np.exp(-30 * (np.square(x - a) + np.square(y - b) + np.square(z - c)))
    return np.random.default_rng(7).poisson(rate + 1).astype(np.float64)


def cp_rank(shape: tuple[int, ...], params: int) -> int:
    """Return the smallest rank with so many parameters, as `legendre.tasks.compare.cp_rank` does."""
    return max(1, -(-params // sum(shape)))


def tucker_rank(shape: tuple[int, ...], params: int) -> int:
    """Return the smallest m such that an m x ... x m core and its factors have so many parameters."""
    return next(m for m in count(1) if m * sum(shape) + m ** len(shape) >= params)


def _ours(case: Case, X: Floats, *, arranged: bool) -> Fitted:
    ld: Any = import_module("legendre")
    params, modes = case.about
    fit = ld.decompose(X, ld.adaptive(params), unordered=modes if arranged else ())
    return Fitted(fit.tensor, fit.n_params, fit.n_iter, fit.status.name)


def _tensorly(case: Case, X: Floats, *, function: str) -> Fitted:
    tensorly: Any = import_module("tensorly")
    decompositions: Any = import_module("tensorly.decomposition")
    tucker = "tucker" in function
    m = (tucker_rank if tucker else cp_rank)(X.shape, case.about[0])
    answer, history = getattr(decompositions, function)(
        tensorly.tensor(X), [m] * X.ndim if tucker else m, n_iter_max=500, init="random", tol=1e-7, random_state=0,
        return_errors=True,
    )  # fmt: skip
    params = m * sum(X.shape) + (m**X.ndim if tucker else 0)
    out = tensorly.tucker_to_tensor if tucker else tensorly.cp_to_tensor
    return Fitted(lambda: np.asarray(out(answer)), params, len(history))


def _start(shape: tuple[int, ...], rank: int, total: float) -> Any:
    """Draw factors whose tensor has the total of X."""
    ttb: Any = import_module("pyttb")
    rng = np.random.default_rng(0)
    factors = [rng.random((side, rank)) for side in shape]
    mass = float(np.prod([factor.sum(axis=0) for factor in factors], axis=0).sum())
    return ttb.ktensor([factor * (total / mass) ** (1 / len(shape)) for factor in factors])


def _full(answer: Any) -> Callable[[], Floats]:
    return lambda: np.asarray(answer.full().double())


def _cp_apr(case: Case, X: Floats) -> Fitted:
    ttb: Any = import_module("pyttb")
    rank = cp_rank(X.shape, case.about[0])
    start = _start(X.shape, rank, X.sum())
    answer, _, info = ttb.cp_apr(ttb.tensor(X), rank, init=start, maxiters=500, stoptol=1e-4, stoptime=20.0, printitn=0)
    return Fitted(_full(answer), rank * sum(X.shape), len(info["times"]))


def _pyttb_gcp(case: Case, X: Floats) -> Fitted:
    ttb: Any = import_module("pyttb")
    poisson = import_module("pyttb.gcp.handles").Objectives.POISSON
    lbfgsb = import_module("pyttb.gcp.optimizers").LBFGSB(maxiter=500, maxfun=10_000)
    rank = cp_rank(X.shape, case.about[0])
    start = _start(X.shape, rank, X.sum())
    answer, _, info = ttb.gcp_opt(ttb.tensor(X), rank, poisson, lbfgsb, init=start, printitn=0)
    return Fitted(_full(answer), rank * sum(X.shape), int(info["nit"]))


def _pygenten(case: Case, X: Floats, *, method: str) -> Fitted:
    ttb: Any = import_module("pyttb")
    pygenten: Any = import_module("pygenten")
    rank = cp_rank(X.shape, case.about[0])
    if method == "cp_als":
        answer, _, info = pygenten.cp_als(ttb.tensor(X), rank=rank, maxiters=500, tol=1e-7, seed=0, printitn=0)
        return Fitted(_full(answer), rank * sum(X.shape), int(info.lastEntry().iteration))
    unit = float(X.mean())
    scaled = ttb.tensor(X / unit)
    answer, _, info = pygenten.gcp_sgd(scaled, rank=rank, type="poisson", maxiters=100, seed=0, printitn=0)
    epochs = int(info.lastEntry().iteration)
    return Fitted(lambda: unit * _full(answer)(), rank * sum(X.shape), epochs, "steps are epochs of 1,000 samples")


def _judge(case: Case, X: Floats, fitted: Fitted) -> dict[str, float]:
    del case
    return errors(X, fitted.answer())


def _case(name: str, shape: tuple[int, ...], data: Callable[[], Floats], params: int, modes: Any, family: str) -> Case:
    return Case(f"{name}, {params:,} parameters", int(np.prod(shape)), data, family, family, (params, modes))


FACES, TAXI = (92, 112, 20), (30, 30, 24)
DISCIPLINE = Discipline(
    "decompositions",
    "Decompositions at an equal number of parameters",
    RULES,
    (
        *(_case("faces", FACES, partial(archive, "orl_faces.npz", "faces"), n, (2,), "faces") for n in (800, 4000)),
        *(
            _case("taxi", TAXI, lambda: archive("nyc_taxi.npz", "trips").sum(axis=2), n, (0, 1), "taxi")
            for n in (300, 2000)
        ),
        *(_case(f"bumps {n}^3", (n,) * 3, partial(bumps, n), 12 * n, (), "bumps") for n in (32, 64, 128)),
    ),
    (
        Entrant(OURS, "legendre", partial(_ours, arranged=False), setting="adaptive(n)", compiles=True),
        Entrant(
            f"{OURS}, unordered", "legendre", partial(_ours, arranged=True), setting="adaptive(n), unordered=...",
            compiles=True, only=("faces", "taxi"),
        ),
        Entrant(
            "TensorLy NN-CP HALS", "tensorly", partial(_tensorly, function="non_negative_parafac_hals"),
            setting="random start", distributions=("tensorly",),
        ),
        Entrant(
            "TensorLy NN-Tucker HALS", "tensorly", partial(_tensorly, function="non_negative_tucker_hals"),
            setting="random start", distributions=("tensorly",),
        ),
        Entrant("pyttb cp_apr", "pyttb", _cp_apr, setting="multiplicative updates", distributions=("pyttb",)),
        Entrant("pyttb gcp_opt, Poisson", "pyttb", _pyttb_gcp, setting="L-BFGS-B", distributions=("pyttb",)),
        Entrant(
            "pygenten cp_als", "pygenten", partial(_pygenten, method="cp_als"), setting="OpenMP, one thread",
            distributions=("pygenten",),
        ),
        Entrant(
            "pygenten gcp_sgd, Poisson", "pygenten", partial(_pygenten, method="gcp_sgd"),
            setting="Adam, X divided by its mean", distributions=("pygenten",), only=("faces", "taxi"),
        ),
    ),
    _judge,
)  # fmt: skip
