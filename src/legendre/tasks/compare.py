"""Compare errors at equal numbers of parameters: this method, and decompositions of other libraries, the *peers*.

A peer has the smallest rank with at least as many parameters. Peers minimise other objectives (squared error, or
minus the Poisson log-likelihood in CP-APR) and stop when the objective no longer changes, so they have no residual
``max|eta - eta_hat|``; their reconstructions are compared. Benchmarks and experiments run the same peers.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.core.arguments import check_choice, check_int, check_number
from legendre.core.errors import ConvergenceWarning, InvalidSetting, InvalidSupport, unknown_name
from legendre.core.progress import Say, line
from legendre.core.text import Columns
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.data.dense import in_memory
from legendre.data.read import TensorLike, read
from legendre.fitting.fit import decompose
from legendre.fitting.growing.seriate import Unordered
from legendre.results.base import import_pandas

ADVICE = "pip install 'legendre[compare]'"

# --- decompositions of other libraries -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """When a peer stops."""

    max_iter: int = 500  # iterations at most
    tol: float = 1e-7  # TensorLy stops when its relative error changes by less
    kkt_tol: float = 1e-4  # CP-APR stops when its optimality conditions are violated by less
    seconds: float = 120.0  # CP-APR stops after this time; TensorLy has no such limit


@dataclass(frozen=True, eq=False)
class Factors:
    """A peer's fit, as factors: the tensor is formed later, so that the time of the fit does not include that."""

    n_params: int
    n_iter: int
    multiply_out: Callable[[], FloatArray]  # form the reconstruction, a tensor of X's shape


@dataclass(frozen=True)
class Peer:
    """A decomposition of another library."""

    label: str  # its name in tables
    package: str  # the library
    rank: Callable[[tuple[int, ...], int], int]  # (shape, n_params) -> the smallest rank with that many parameters
    fit: Callable[[FloatArray, int, Effort, int, BoolArray | None], Factors]  # (X, rank, effort, seed, observed cells)
    takes_mask: bool = False  # whether it can leave cells out of the fit

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return find_spec(self.package) is not None


def attempt(
    peer: Peer, X: FloatArray, n_params: int, effort: Effort, seed: int, mask: BoolArray | None = None
) -> tuple[dict[str, Any], FloatArray | None]:
    """Fit a peer with at least `n_params` parameters to X on the cells of `mask`; ``None``: on all cells.

    Return fields of its `Row` (status, note, and if it succeeded n_params, n_iter and seconds), and its reconstruction.
    If the other library fails, the comparison goes on: the error becomes a note, and the reconstruction is ``None``.
    Warnings are hidden.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            start = time.perf_counter()
            factors = peer.fit(X, peer.rank(X.shape, n_params), effort, seed, mask)
            seconds = time.perf_counter() - start
            Q = factors.multiply_out()
            if not np.isfinite(Q).all():
                raise ValueError("the reconstruction is not finite")
        except Exception as error:  # other libraries may raise anything
            return {"status": "FAILED", "note": f"{type(error).__name__}: {error}".splitlines()[0][:200]}, None
    facts = {"n_params": factors.n_params, "n_iter": factors.n_iter, "seconds": seconds}
    note = f"stopped at {effort.max_iter} iterations" if factors.n_iter >= effort.max_iter else ""
    return {"status": "DONE", **facts, "note": note}, Q


def cp_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest CP rank with at least `n_params` parameters: each component has one for each level.

    >>> cp_rank((200, 200, 200), 6000)
    10
    """
    return max(1, -(-n_params // sum(shape)))


def tucker_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest m such that Tucker with an m x ... x m core has at least `n_params` parameters.

    No mode has a rank above its length, so m is at most the length of the longest mode, even if that is too few.

    >>> tucker_rank((200, 200, 200), 6000), tucker_rank((4, 5, 2), 1000)
    (9, 5)
    """
    return next((m for m in range(1, max(shape)) if tucker_params(shape, m) >= n_params), max(shape))


def tucker_params(shape: tuple[int, ...], m: int) -> int:
    """Count the entries of the factors and of the core of Tucker with side m, or the length of a mode if shorter."""
    ranks = np.minimum(shape, m)
    return int(np.dot(shape, ranks) + np.prod(ranks))


def _tensorly_peer(label: str, function: str, init: str = "random", *, takes_mask: bool = False) -> Peer:
    """Make a peer from a function of `tensorly.decomposition` for nonnegative CP or Tucker.

    `function` is its name, which says which of the two it is; `init` is TensorLy's argument for the start.
    """
    tucker = "tucker" in function

    def fit(X: FloatArray, rank: int, effort: Effort, seed: int, mask: BoolArray | None) -> Factors:
        """Run TensorLy on X; a Tucker core has side `rank`, or the length of a mode that is shorter."""
        tensorly, shape = import_module("tensorly"), X.shape
        left_out = {} if mask is None else {"mask": mask}
        answer, history = getattr(import_module("tensorly.decomposition"), function)(
            tensorly.tensor(X), np.minimum(shape, rank).tolist() if tucker else rank, n_iter_max=effort.max_iter,
            tol=effort.tol, init=init, random_state=seed, return_errors=True, **left_out,
        )  # fmt: skip
        # `history` has the error after each iteration
        n_params = tucker_params(shape, rank) if tucker else rank * sum(shape)
        multiply_out = tensorly.tucker_to_tensor if tucker else tensorly.cp_to_tensor
        return Factors(n_params, len(history), lambda: np.asarray(multiply_out(answer)))

    return Peer(label, "tensorly", tucker_rank if tucker else cp_rank, fit, takes_mask)


def _fit_cp_apr(X: FloatArray, rank: int, effort: Effort, seed: int, _: BoolArray | None) -> Factors:
    """Fit nonnegative CP to counts by the Poisson likelihood, with CP-APR of pyttb (Chi and Kolda 2012).

    The start is random. It cannot leave cells out, so `_obstacle` sees to it that there is no mask.
    """
    pyttb: Any = import_module("pyttb")
    rng = np.random.default_rng(seed)
    start = pyttb.ktensor([rng.random((side, rank)) for side in X.shape])
    answer, _, info = pyttb.cp_apr(
        pyttb.tensor(X),
        rank,
        init=start,
        maxiters=effort.max_iter,
        stoptol=effort.kkt_tol,
        stoptime=effort.seconds,
        printitn=0,
    )
    return Factors(rank * sum(X.shape), len(info["times"]), lambda: np.asarray(answer.full().double()))


PEERS = {
    "cp": _tensorly_peer("NN-CP, default start", "non_negative_parafac", "svd", takes_mask=True),
    "cp-random": _tensorly_peer("NN-CP", "non_negative_parafac", takes_mask=True),
    "cp-hals": _tensorly_peer("NN-CP HALS", "non_negative_parafac_hals"),
    "tucker": _tensorly_peer("NN-Tucker", "non_negative_tucker"),
    "tucker-hals": _tensorly_peer("NN-Tucker HALS", "non_negative_tucker_hals"),
    "cp-apr": Peer("CP-APR", "pyttb", cp_rank, _fit_cp_apr),
}
"""Every peer by its name in `compare`, installed or not; all but the first start at random."""
COMPARED = ("cp-random", "cp-hals", "tucker", "tucker-hals", "cp-apr")
"""The peers of a comparison; each starts at random, so results depend on the seed."""
UNIFORM, ADAPTIVE = "uniform", "adaptive"
LABELS = {UNIFORM: "uniform", ADAPTIVE: "Legendre, adaptive", **{name: peer.label for name, peer in PEERS.items()}}

# --- rows ------------------------------------------------------------------------------------------------------------


def score(X: AnyArray, Q: FloatArray) -> dict[str, float]:
    """Return two errors of a reconstruction Q of X, over the cells that are not missing (NaN) in X.

    They are the root mean square error in X's units, and KL(P, Q) in nats, with both tensors normalised over these
    cells. KL is infinite if Q is 0 in a cell with data.

    >>> score(np.array([[0.0, 3.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 9.0]]))
    {'rmse': 0.816..., 'kl': 0.3040...}
    """
    from scipy.special import rel_entr

    known = ~np.isnan(X)
    x, q = np.asarray(X[known], dtype=np.float64), Q[known]
    kl = max(float(rel_entr(x / x.sum(), q / q.sum()).sum()), 0.0) if q.any() else np.inf
    return {"rmse": _rmse(X, Q, known), "kl": kl}


@dataclass(frozen=True)
class Row:
    """A row of a comparison: one reconstruction, or the reason why there is none. Fields that do not apply are None."""

    method: str
    asked: int  # the number of parameters to compare at
    seed: int | None  # of a random start
    status: str = "SKIPPED"  # how a Legendre decomposition ended, or DONE, FAILED, SKIPPED
    n_params: int | None = None  # parameters used: at most `asked` of ours, at least `asked` of a peer
    n_iter: int | None = None
    rmse: float | None = None  # these two as in `score`
    kl: float | None = None
    held_out: float | None = None  # RMSE on cells held out of a second fit; None for a method that takes no mask
    seconds: float | None = None  # of the first fit alone
    residual: float | None = None  # max|eta - eta_hat|; peers have none
    note: str = ""  # why there is no reconstruction, or why a peer stopped

    @property
    def label(self) -> str:
        """The method's name for readers."""
        return LABELS.get(self.method, self.method)


class Comparison(tuple[Row, ...]):
    """The rows of a comparison; printed with a line for each method and size.

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
        """Return the rows, of every seed, as a pandas data frame."""
        return import_pandas("to_frame()").DataFrame(list(self)).set_index("method")

    def text(self) -> str:
        """Write a table with a line for each method and size; of several seeds, the one with the smallest RMSE.

        Notes below it say why a method has no reconstruction, and how many bits the arrangement of levels adds.
        """
        lines = [["method", "asked", "params", "RMSE", "held out", "KL(P, Q)", "seconds", "residual"]]
        for _, seeds in groupby(self, attrgetter("method", "asked")):  # rows of one method and size are consecutive
            row = min(seeds, key=lambda row: np.inf if row.rmse is None else row.rmse)
            size = row.status.lower() if row.n_params is None else str(row.n_params)
            numbers = row.rmse, row.held_out, row.kl, row.seconds, row.residual
            lines.append([row.label, str(row.asked or ""), size, *("" if v is None else f"{v:.3g}" for v in numbers)])
        notes = [f"{row.label}: {row.note}" for row in self if row.note and (row.rmse is None or row.seed is None)]
        notes += ["Of several seeds the best is shown."] if any(row.seed for row in self) else []
        title = "Errors by number of parameters"
        return Columns(title, lines, "<>", ruled=True, notes=list(dict.fromkeys(notes))).text()

    __repr__ = text


# --- the comparison --------------------------------------------------------------------------------------------------


def list_sizes(shape: tuple[int, ...], most: int = 5000) -> tuple[int, ...]:
    """Choose the numbers of parameters to compare at: those of nonnegative CP of rank 1, 2, 4, 8 and 16.

    They are at most a quarter of the cells, because more parameters hardly summarise X, and at most `most`, unless rank
    1 already has more. For a tiny X there is one number, a quarter of the cells.

    >>> list_sizes((92, 112, 20)), list_sizes((2, 3))
    ((224, 448, 896, 1792, 3584), (1,))
    """
    sizes = [sum(shape) * rank for rank in (1, 2, 4, 8, 16)]
    limit = min(math.prod(shape) // 4, max(most, sizes[0]))
    return tuple(n for n in sizes if n <= limit) or (max(1, limit),)


def run_fits(
    X: TensorLike,
    n_params: Sequence[int] | None,
    support: str,
    unordered: Unordered,
    peers: Sequence[str],
    n_starts: int,
    hold_out: float,
    effort: Effort,
    say: Say,
) -> Iterator[Row]:
    """Yield the rows of `compare`, each when its fits are done: the uniform distribution, then all methods by size.

    Each method is fitted to all cells and, if it can leave cells out, a second time without those that are held out.
    The command line uses this generator directly, so that it can keep the rows if the user interrupts it. `say` shows
    progress. Other arguments are as in `compare`.
    """
    check_choice(support, "support (cells that are to be left out may be NaN)", ("all", "nonzero"), InvalidSupport)
    check_number(hold_out, "hold_out", 0, below=1)
    data = in_memory(read(X, support), "compare")
    # cells outside the sample space are NaN, for all methods alike
    values = np.where(data.support.on_grid(), np.asarray(data.values, dtype=np.float64), np.nan)
    known = ~np.isnan(values)
    # a share of the known cells, drawn with a fixed seed: the same cells for all methods
    held_out = np.zeros(values.shape, dtype=np.bool_)
    held_out.flat[np.random.default_rng(0).permutation(np.flatnonzero(known))[: int(hold_out * known.sum())]] = True
    jobs = _list_jobs(values, n_params, n_starts, peers)
    for done, row in enumerate(jobs):
        say(f"fit {done + 1} of {len(jobs)}   {row.label}, {row.asked} parameters", done / len(jobs))
        # a row that has a note already is one of a peer that cannot run
        facts, Q = ({}, None) if row.note else _fit_cells(row, values, effort, unordered)
        if Q is not None:
            facts |= score(values, Q)
            if held_out.any() and (row.method not in PEERS or PEERS[row.method].takes_mask):
                again = _fit_cells(row, np.where(held_out, np.nan, values), effort, unordered)[1]
                facts["held_out"] = None if again is None else _rmse(values, again, held_out)
        yield replace(row, **facts)


def _list_jobs(X: FloatArray, n_params: Sequence[int] | None, n_starts: int, peers: Sequence[str]) -> list[Row]:
    """Check the caller's sizes, starts and peers; return the rows of the comparison, still without results.

    The list says how much work there is, before the first fit. A peer that cannot run has one row, whose note is the
    reason; other peers have a row for each size and random start.
    """
    sizes, cells = list_sizes(X.shape), int(np.count_nonzero(~np.isnan(X)))
    if n_params is not None:
        sizes = tuple(np.unique(n_params).tolist())
        for n in sizes or (0,):  # an empty list is refused like the size 0
            if check_int(n, "n_params: a number of parameters", 1) >= cells:
                raise InvalidSetting(
                    f"n_params: {n} parameters are too many: the sample space has {cells} cells, so "
                    f"{cells - 1} reproduce any X."
                )
    seeds = range(check_int(n_starts, "n_starts", 1))
    obstacles = {name: _obstacle(X, name) for name in peers}
    found = [Row(UNIFORM, 0, None), *(Row(name, 0, None, note=why) for name, why in obstacles.items() if why)]
    for n in sizes:
        found.append(Row(ADAPTIVE, n, None))
        found += [Row(name, n, seed) for name, why in obstacles.items() if not why for seed in seeds]
    return found


def _obstacle(X: FloatArray, name: str) -> str:
    """Return the reason why a peer cannot be fitted to X, or "" if it can; refuse a name that is not a peer's."""
    if name not in PEERS:
        raise InvalidSetting(unknown_name("peer", str(name), PEERS))
    peer = PEERS[name]
    if not peer.installed:
        return f"needs {peer.package}: {ADVICE}"
    if X.ndim < 2:
        return "needs a tensor of two or more modes"
    if np.isnan(X).any() and not peer.takes_mask:
        return "cannot leave out cells that are missing or outside the sample space"
    return ""


def _fit_cells(
    row: Row, X: FloatArray, effort: Effort, unordered: Unordered
) -> tuple[dict[str, Any], FloatArray | None]:
    """Fit the method of a row, with about `row.asked` parameters, to the cells of X that are not NaN.

    Return the fields of the row that the fit determines, and the reconstruction of all cells, which also predicts those
    that were held out; ``None`` if a peer failed.
    """
    if row.method in PEERS:
        known = ~np.isnan(X)
        mask = None if known.all() else known  # some peers take no mask
        return attempt(PEERS[row.method], np.nan_to_num(X), row.asked, effort, row.seed or 0, mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the row has status and residual
        start = time.perf_counter()
        fit = decompose(X, adaptive(row.asked), unordered=unordered) if row.asked else decompose(X, "empty")
        seconds = time.perf_counter() - start
    note = f"levels arranged: {fit.arrangement_bits:.0f} bits in addition to the parameters" if fit.arrangement else ""
    facts = {"status": fit.status.name, "n_params": fit.n_params, "n_iter": fit.n_iter, "seconds": seconds}
    return {**facts, "residual": fit.residual, "note": note}, fit.tensor(extend=True)


def _rmse(X: AnyArray, Q: FloatArray, cells: BoolArray) -> float:
    """Return the root mean square error over the marked cells, in X's units."""
    return float(np.sqrt(np.square(X[cells] - Q[cells]).mean()))


def compare(
    X: TensorLike,
    n_params: Sequence[int] | None = None,
    *,
    support: str = "all",
    unordered: Unordered = None,
    peers: Sequence[str] = COMPARED,
    n_starts: int = 3,
    hold_out: float = 0.1,
    effort: Effort | None = None,
    progress: bool = False,
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
        Numbers of parameters; by default those of nonnegative CP of rank 1, 2, 4, ...
    support
        ``"all"`` or ``"nonzero"``. The latter leaves cells that are 0 out of every fit and of the errors.
    unordered
        Modes whose levels have no order, as in `decompose`. Peers do not depend on it.
    peers
        Names of peers, see `legendre.tasks.compare.PEERS`; by default all that start at random, ``()`` for none. A peer
        that is not installed has a row that says so.
    n_starts
        Random starts of each peer.
    hold_out
        The share of cells that a second fit of each method leaves out, to be predicted; 0 for none. The cells are
        drawn once, and are the same for every method that can leave cells out.
    effort
        When the peers stop; `legendre.tasks.compare.Effort`.
    progress
        Show a line on the terminal from the third second on.

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
    with line("compare", progress) as say:
        rows = run_fits(X, n_params, support, unordered, peers, n_starts, hold_out, effort or Effort(), say)
        return Comparison(rows)
