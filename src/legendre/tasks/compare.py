"""Compare errors at equal numbers of parameters: this method, and decompositions of other libraries, the *peers*.

A peer has the smallest rank with at least as many parameters. Peers minimise other objectives (squared error, or
minus the Poisson log-likelihood in CP-APR) and stop when the objective no longer changes, so they have no residual
``max|eta - eta_hat|``; their reconstructions are compared. Benchmarks and experiments run the same peers.
"""

from __future__ import annotations

import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.adaptive import adaptive
from legendre.core.arguments import check_installed, check_int, check_name, check_number
from legendre.core.progress import Say
from legendre.core.text import Printed, Table
from legendre.core.types import AnyArray, FloatArray, IntArray, Shape, frozen
from legendre.data.read import TensorLike, read
from legendre.fitting.fit import decompose, show_progress
from legendre.model.dual import kl
from legendre.results.base import import_pandas

# --- the methods -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """When a peer stops."""

    max_iter: int = 500  # iterations at most
    tol: float = 1e-7  # TensorLy stops when its relative error changes by less
    seconds: float = 120.0  # CP-APR stops after this time; TensorLy has no such limit


@frozen
class Found:
    """What a method found. The tensor is formed later, so that the time of the fit does not include that."""

    n_params: int
    n_iter: int
    multiply_out: Callable[[], FloatArray]  # form the reconstruction of all cells, a tensor of X's shape
    status: str = "DONE"  # how a Legendre decomposition ended
    residual: float | None = None  # max|eta - eta_hat|; peers have none


@dataclass(frozen=True)
class Method:
    """A way to approximate a tensor by a given number of parameters: Legendre decomposition, or a peer."""

    label: str  # its name in tables
    package: str  # the library
    rank: Callable[[Shape, int], int]  # (shape, n_params) -> the smallest rank with that many parameters
    fit: Callable[[FloatArray, int, Effort, int], Found]  # (X, rank, effort, seed); cells that are NaN are left out
    takes_mask: bool = False  # whether it can leave cells out of the fit

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return find_spec(self.package) is not None


def attempt(
    method: Method, X: FloatArray, n_params: int, effort: Effort, seed: int
) -> tuple[dict[str, Any], FloatArray | None]:
    """Fit a method with about `n_params` parameters to the cells of X that are not NaN.

    Return fields of its `Row` (status, and if it succeeded n_params, n_iter, seconds and residual), and its
    reconstruction of all cells. If the fit fails, the comparison goes on: the error becomes the field note, and the
    reconstruction is ``None``. Warnings are hidden, because the row has the status.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            start = time.perf_counter()
            found = method.fit(X, method.rank(X.shape, n_params), effort, seed)
            seconds = time.perf_counter() - start
            Q = found.multiply_out()
            if not (np.isfinite(Q) & (Q >= 0)).all():
                raise ValueError("the reconstruction is not finite and nonnegative")
        except Exception as error:  # other libraries may raise anything
            return {"status": "FAILED", "note": f"{type(error).__name__}: {error}".splitlines()[0][:200]}, None
    facts = {"n_params": found.n_params, "n_iter": found.n_iter, "residual": found.residual}
    return {"status": found.status, "seconds": seconds, **facts}, Q


def _fit_legendre(X: FloatArray, n_params: int, *_: object) -> Found:
    """Run this library; without parameters Q is uniform. The effort and the seed of peers do not matter."""
    fit = decompose(X, adaptive(n_params) if n_params else "empty")
    return Found(fit.n_params, fit.n_iter, lambda: fit.tensor(extend=True), fit.status.name, fit.residual)


def cp_rank(shape: Shape, n_params: int) -> int:
    """Return the smallest CP rank with at least `n_params` parameters: each component has one for each level.

    >>> cp_rank((200, 200, 200), 6000)
    10
    """
    return max(1, -(-n_params // sum(shape)))


def tucker_rank(shape: Shape, n_params: int) -> int:
    """Return the smallest m such that Tucker with an m x ... x m core has at least `n_params` parameters.

    No mode has a rank above its length, so m is at most the length of the longest mode, even if that is too few.

    >>> tucker_rank((200, 200, 200), 6000), tucker_rank((4, 5, 2), 1000)
    (9, 5)
    """
    return next((m for m in range(1, max(shape)) if tucker_params(shape, m) >= n_params), max(shape))


def tucker_params(shape: Shape, m: int) -> int:
    """Count the entries of the factors and of the core of Tucker with side m, or the length of a mode if shorter."""
    ranks = np.minimum(shape, m)
    return int(np.dot(shape, ranks) + np.prod(ranks))


def _tensorly_peer(label: str, function: str, init: str = "random", *, takes_mask: bool = False) -> Method:
    """Make a peer from a function of `tensorly.decomposition` for nonnegative CP or Tucker.

    `function` is its name, which says which of the two it is; `init` is TensorLy's argument for the start.
    """
    tucker = "tucker" in function

    def fit(X: FloatArray, rank: int, effort: Effort, seed: int) -> Found:
        """Run TensorLy on X; a Tucker core has side `rank`, or the length of a mode that is shorter."""
        import tensorly

        known = ~np.isnan(X)
        left_out = {} if known.all() else {"mask": known}  # some functions take no mask
        answer, history = getattr(import_module("tensorly.decomposition"), function)(
            np.nan_to_num(X), np.minimum(X.shape, rank).tolist() if tucker else rank, n_iter_max=effort.max_iter,
            tol=effort.tol, init=init, random_state=seed, return_errors=True, **left_out,
        )  # fmt: skip
        # `history` has the error after each iteration
        n_params = tucker_params(X.shape, rank) if tucker else rank * sum(X.shape)
        multiply_out = tensorly.tucker_to_tensor if tucker else tensorly.cp_to_tensor
        return Found(n_params, len(history), lambda: np.asarray(multiply_out(answer)))

    return Method(label, "tensorly", tucker_rank if tucker else cp_rank, fit, takes_mask)


def _fit_cp_apr(X: FloatArray, rank: int, effort: Effort, seed: int) -> Found:
    """Fit nonnegative CP to counts by the Poisson likelihood, with CP-APR of pyttb (Chi and Kolda 2012).

    The start is random. It cannot leave cells out, so `run_fits` sees to it that no cell is NaN.
    """
    import pyttb

    rng = np.random.default_rng(seed)
    start = pyttb.ktensor([rng.random((side, rank)) for side in X.shape])
    answer, _, info = pyttb.cp_apr(
        pyttb.tensor(X), rank, init=start, maxiters=effort.max_iter, stoptime=effort.seconds, printitn=0
    )
    return Found(rank * sum(X.shape), len(info["times"]), lambda: np.asarray(answer.full().double()))


PEERS = {
    "cp": _tensorly_peer("NN-CP, default start", "non_negative_parafac", "svd", takes_mask=True),
    "cp-random": _tensorly_peer("NN-CP", "non_negative_parafac", takes_mask=True),
    "cp-hals": _tensorly_peer("NN-CP HALS", "non_negative_parafac_hals"),
    "tucker": _tensorly_peer("NN-Tucker", "non_negative_tucker"),
    "tucker-hals": _tensorly_peer("NN-Tucker HALS", "non_negative_tucker_hals"),
    "cp-apr": Method("CP-APR", "pyttb", cp_rank, _fit_cp_apr),
}
"""Every peer by its name in `compare`, installed or not; all but the first start at random."""
COMPARED = ("cp-random", "cp-hals", "tucker", "tucker-hals", "cp-apr")
"""The peers of a comparison; each starts at random, so results depend on the seed."""
UNIFORM, ADAPTIVE = "uniform", "adaptive"
OURS = {
    name: Method(label, "legendre", lambda _, n_params: n_params, _fit_legendre, takes_mask=True)
    for name, label in ((UNIFORM, "uniform"), (ADAPTIVE, "Legendre, adaptive"))
}
METHODS = ChainMap(OURS, PEERS)

# --- rows ------------------------------------------------------------------------------------------------------------


def score(X: AnyArray, Q: FloatArray) -> dict[str, float]:
    """Return two errors of a reconstruction Q of X, over the cells that are not missing (NaN) in X.

    They are the root mean square error in X's units, and KL(P, Q) in nats, with both tensors normalised over these
    cells. KL is infinite if Q is 0 in a cell with data.

    >>> score(np.array([[0.0, 3.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 9.0]]))
    {'rmse': 0.816..., 'kl': 0.3040...}
    """
    known = ~np.isnan(X)
    x, q = X[known], Q[known]
    return {"rmse": float(np.sqrt(np.square(x - q).mean())), "kl": kl(x, q) if q.any() else np.inf}


class Row(NamedTuple):
    """A row of a comparison: a method at one size. Fields that do not apply are None."""

    method: str
    asked: int  # the number of parameters to compare at
    status: str  # how a Legendre decomposition ended; DONE or FAILED for a peer
    n_params: int | None = None  # parameters used: at most `asked` of ours, at least `asked` of a peer
    n_iter: int | None = None
    rmse: float | None = None  # these two as in `score`
    kl: float | None = None
    held_out: float | None = None  # RMSE on cells held out of a second fit; None for a method that takes no mask
    seconds: float | None = None  # of the first fit alone
    residual: float | None = None  # max|eta - eta_hat|; peers have none
    note: str = ""  # why there is no reconstruction


class Comparison(Printed, tuple[Row, ...]):
    """The rows of a comparison, one for each method and size; printed as a table.

    See Also
    --------
    compare : Make one.

    Examples
    --------
    >>> import legendre as ld
    >>> found = ld.compare(np.add.outer(np.arange(6.0), np.arange(8.0)) + 1, [5], peers=())
    >>> found[1].method, found[1].n_params
    ('adaptive', 5)
    >>> found.to_frame()["n_params"].tolist()
    [0, 5]
    """

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame."""
        return import_pandas("to_frame()").DataFrame(self).set_index("method")

    def tables(self) -> list[Table]:
        """Return the table that is printed; notes below it say why a fit has failed."""
        lines = [["method", "asked", "params", "RMSE", "held out", "KL(P, Q)", "seconds", "residual"]]
        for row in self:
            size = row.status.lower() if row.n_params is None else str(row.n_params)
            numbers = row.rmse, row.held_out, row.kl, row.seconds, row.residual
            texts = ["" if value is None else f"{value:.3g}" for value in numbers]
            lines.append([METHODS[row.method].label, str(row.asked or ""), size, *texts])
        notes = [f"{METHODS[row.method].label}, {row.asked} parameters: {row.note}" for row in self if row.note]
        return [Table("Errors by number of parameters", lines, "<>", ruled=True, notes=notes)]


# --- the comparison --------------------------------------------------------------------------------------------------


def run_fits(
    X: TensorLike,
    n_params: Sequence[int] | None,
    support: str | ArrayLike,
    peers: Sequence[str],
    n_starts: int,
    hold_out: float,
    say: Say,
) -> Iterator[Row]:
    """Yield the rows of `compare`, each when its fits are done: the uniform distribution, then all methods by size.

    The command line uses this generator directly, so that it can keep the rows if the user interrupts it. `say` shows
    progress. Other arguments are as in `compare`.
    """
    for name in peers:
        check_name("peer", name, PEERS)
    check_installed("compare", sorted({PEERS[name].package for name in peers}), "'legendre[compare]', or pass peers=()")
    check_number(hold_out, "hold_out", 0, below=1)
    check_int(n_starts, "n_starts", 1)
    data = read(X, support).in_memory("compare")
    # cells outside the sample space are NaN, for all methods alike
    values = np.where(data.support.on_grid(), np.asarray(data.values, dtype=np.float64), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    if n_params is None:  # those of nonnegative CP; more than a quarter of the cells hardly summarise X
        limit = max(1, values.size // 4)
        n_params = sorted({min(rank * sum(values.shape), limit) for rank in (1, 2, 4, 8)})
    sizes = [check_int(n, "n_params: a number of parameters", 1) for n in n_params]
    # a share of the known cells, drawn with a fixed seed: the same cells for all methods
    held_out = np.random.default_rng(0).permutation(known)[: int(hold_out * len(known))]
    able = [name for name in peers if PEERS[name].takes_mask or len(known) == values.size]
    jobs = [(UNIFORM, 0), *((name, n) for n in sizes for name in (ADAPTIVE, *able))]
    for done, (name, n) in enumerate(jobs):
        say(f"fit {done + 1} of {len(jobs)}   {METHODS[name].label}, {n} parameters", done / len(jobs))
        rows = [_fit(name, n, seed, values, held_out) for seed in range(n_starts if name in PEERS else 1)]
        yield min(rows, key=lambda row: np.inf if row.rmse is None else row.rmse)


def _fit(name: str, n_params: int, seed: int, X: FloatArray, held_out: IntArray) -> Row:
    """Return the row of one fit to the cells of X that are not NaN, and of a second fit without `held_out`.

    `held_out` has the positions of these cells in C order. A method that cannot leave cells out has no second fit.
    """
    method = METHODS[name]
    facts, Q = attempt(method, X, n_params, Effort(), seed)
    if Q is not None:
        facts |= score(X, Q)
        if len(held_out) and method.takes_mask:
            incomplete = X.copy()
            incomplete.flat[held_out] = np.nan
            again = attempt(method, incomplete, n_params, Effort(), seed)[1]
            if again is not None:
                facts["held_out"] = float(np.sqrt(np.square(X - again).flat[held_out].mean()))
    return Row(name, n_params, **facts)


def compare(
    X: TensorLike,
    n_params: Sequence[int] | None = None,
    *,
    support: str | ArrayLike = "all",
    peers: Sequence[str] = COMPARED,
    n_starts: int = 3,
    hold_out: float = 0.1,
    progress: bool | None = None,
) -> Comparison:
    """Compare errors of this method, nonnegative CP, Tucker and CP-APR on a tensor, at several numbers of parameters.

    For each number of parameters n, this method is ``adaptive(n)``; a peer has the smallest rank with at least n, and
    several random starts.

    Parameters
    ----------
    X
        A nonnegative tensor, as in `decompose`; it must fit into memory as a dense array, which the peers need. Where
        cells are missing (NaN), only peers that take a mask are run.
    n_params
        Numbers of parameters; by default those of nonnegative CP of rank 1, 2, 4 and 8, at most a quarter of the cells.
    support
        As in `decompose`: ``"nonzero"`` leaves cells that are 0 out of every fit and of the errors.
    peers
        Names of peers, see `legendre.tasks.compare.PEERS`; by default all that start at random, ``()`` for none.
    n_starts
        Random starts of each peer; the one with the smallest root mean square error is in its row.
    hold_out
        The share of cells that a second fit of each method leaves out, to be predicted; 0 for none. The cells are
        drawn once, and are the same for every method that can leave cells out.
    progress
        Show a line on the terminal from the third second on. ``None``: if standard error is one.

    Returns
    -------
    Comparison
        A row for the uniform distribution, then rows for this method and for the peers; it prints as a table.

    See Also
    --------
    decompose : Fit X by a model with some basis.
    adaptive : A basis that the data choose.

    Examples
    --------
    >>> import legendre as ld
    >>> X = np.add.outer(np.arange(6.0), np.arange(8.0)) + 1
    >>> rows = ld.compare(X, [5, 20], peers=())
    >>> [(row.method, row.asked, row.n_params) for row in rows if row.method == "adaptive"]
    [('adaptive', 5, 5), ('adaptive', 20, 20)]
    """
    with show_progress(progress, None) as (_, say):
        return Comparison(run_fits(X, n_params, support, peers, n_starts, hold_out, say))
