"""Error against number of parameters: ours, and other libraries' decompositions with an equal number of them.

A peer has the smallest rank with at least as many parameters. Peers minimise other objectives (squared error, or
Poisson likelihood in CP-APR) and stop when theirs no longer moves, so that they have no residual; their reconstructions
are compared. Benchmarks and experiments run the same peers.
"""

from __future__ import annotations

import math
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.basis import B1, B2, B3, Basis, empty
from legendre.core.arguments import check_choice, check_int
from legendre.core.errors import ConvergenceWarning, InvalidSetting, InvalidSupport, unknown_name
from legendre.core.figures import sheet
from legendre.core.files import replacing
from legendre.core.progress import Say, line, silent
from legendre.core.types import AnyArray, FloatArray
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.fitting.fit import decompose
from legendre.fitting.growing.seriate import Unordered
from legendre.results.decomposition import Decomposition

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
    """A peer's answer, not yet multiplied out."""

    n_params: int
    n_iter: int
    multiply_out: Callable[[], FloatArray]


@dataclass(frozen=True)
class Peer:
    """A decomposition of another library."""

    name: str  # in files
    label: str  # for readers
    package: str  # which it is part of
    rank: Callable[[tuple[int, ...], int], int]  # from shape and number of parameters to the rank
    fit: Callable[[FloatArray, int, Effort, int], Factors]  # from X, a rank, an effort and a seed to factors

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return find_spec(self.package) is not None


def attempt(
    peer: Peer, X: FloatArray, n_params: int, effort: Effort, seed: int
) -> tuple[dict[str, Any], FloatArray | None]:
    """Run a peer; return fields of its row, and its reconstruction if there is one.

    An error or a warning inside it becomes a note.
    """
    failed = {"status": "FAILED"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = time.perf_counter()
            factors = peer.fit(X, peer.rank(X.shape, n_params), effort, seed)
            seconds = time.perf_counter() - start
            Q = factors.multiply_out()
        except Exception as error:  # another library's, so of any kind
            return {**failed, "note": f"{type(error).__name__}: {error}".splitlines()[0][:200]}, None
    if not np.isfinite(Q).all():
        return {**failed, "note": "the reconstruction is not finite"}, None
    remarks = [f"{warning.category.__name__}: {warning.message}".splitlines()[0][:80] for warning in caught]
    if factors.n_iter >= effort.max_iter:
        remarks.insert(0, f"stopped at {effort.max_iter} iterations")
    facts = {"n_params": factors.n_params, "n_iter": factors.n_iter, "seconds": seconds}
    return {"status": "DONE", **facts, "note": "; ".join(dict.fromkeys(remarks))}, Q


def cp_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest CP rank with at least `n_params` parameters.

    >>> cp_rank((200, 200, 200), 6000)
    10
    """
    return max(1, -(-n_params // sum(shape)))


def tucker_rank(shape: tuple[int, ...], n_params: int) -> int:
    """Return the smallest m such that Tucker with an m x ... x m core has at least `n_params` parameters.

    No mode has a rank above its length, so that m is at most the length of the longest mode.

    >>> tucker_rank((200, 200, 200), 6000), tucker_rank((4, 5, 2), 1000)
    (9, 5)
    """
    return next((m for m in range(1, max(shape)) if tucker_params(shape, m) >= n_params), max(shape))


def tucker_params(shape: tuple[int, ...], m: int) -> int:
    """Count the entries of factors and core."""
    ranks = np.minimum(shape, m)
    return int(np.dot(shape, ranks) + np.prod(ranks))


def _tensorly_peer(name: str, label: str, function: str, init: str = "random", *, nonzero: bool = False) -> Peer:
    """Return a CP or Tucker decomposition by its function's name; `nonzero` fits it where X > 0 alone."""
    tucker = "tucker" in function

    def fit(X: FloatArray, rank: int, effort: Effort, seed: int) -> Factors:
        tensorly, shape = import_module("tensorly"), X.shape
        answer, history = getattr(import_module("tensorly.decomposition"), function)(
            tensorly.tensor(X), np.minimum(shape, rank).tolist() if tucker else rank, n_iter_max=effort.max_iter,
            tol=effort.tol, init=init, random_state=seed, return_errors=True, **({"mask": X > 0} if nonzero else {}),
        )  # fmt: skip
        n_params = tucker_params(shape, rank) if tucker else rank * sum(shape)
        multiply_out = tensorly.tucker_to_tensor if tucker else tensorly.cp_to_tensor
        return Factors(n_params, len(history), lambda: np.asarray(multiply_out(answer)))

    return Peer(name, label, "tensorly", tucker_rank if tucker else cp_rank, fit)


def _fit_cp_apr(X: FloatArray, rank: int, effort: Effort, seed: int) -> Factors:
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
    peer.name: peer
    for peer in (
        _tensorly_peer("cp", "NN-CP, default start", "non_negative_parafac", "svd"),
        _tensorly_peer("cp-random", "NN-CP, random start", "non_negative_parafac"),
        _tensorly_peer("cp-hals", "NN-CP HALS", "non_negative_parafac_hals"),
        _tensorly_peer("tucker", "NN-Tucker", "non_negative_tucker"),
        _tensorly_peer("tucker-hals", "NN-Tucker HALS", "non_negative_tucker_hals"),
        _tensorly_peer("cp-nonzero", "NN-CP fitted where X > 0", "non_negative_parafac", nonzero=True),
        Peer("cp-apr", "CP-APR", "pyttb", cp_rank, _fit_cp_apr),
    )
}
"""Every peer by name, installed or not; all but the first start at random."""

# --- rows and scores -------------------------------------------------------------------------------------------------

UNIFORM, PAPER, ADAPTIVE = OURS = ("uniform", "paper", "adaptive")
MASKED = " x mask"
"""Follows a peer's name where its reconstruction was multiplied by the mask X > 0 and rescaled."""
COMPARED = ("cp-random", "cp-hals", "tucker", "tucker-hals", "cp-apr")
"""The peers of a comparison; each starts at random, so that seeds make a difference."""
NONZERO = "cp-nonzero"
"""The peer that is fitted where X > 0 alone, as ours is with ``support="nonzero"``; then multiplied by the mask."""
LABELS = {UNIFORM: "uniform", PAPER: "Legendre, paper's basis", ADAPTIVE: "Legendre, adaptive"} | {
    name + suffix: PEERS[name].label.removesuffix(", random start") + suffix
    for suffix in ("", MASKED)
    for name in (*COMPARED, NONZERO)
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
    """Return three distances between X and a reconstruction, over the cells that are not missing.

    The root mean square error over all cells, in X's units; the same over the cells where X > 0; and KL(P, Q) in nats,
    both tensors normalised, which is infinite where Q = 0 < P.

    >>> score(np.array([[0.0, 3.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 9.0]]))
    {'rmse': 0.816..., 'rmse_nonzero': 0.707..., 'kl': 0.3040...}
    """
    from scipy.special import rel_entr

    known = ~np.isnan(X)
    x, q = np.asarray(X[known], dtype=np.float64), Q[known]
    squares = np.square(x - q)
    rmse, rmse_nonzero = (float(np.sqrt(some.mean())) for some in (squares, squares[x > 0]))
    kl = max(float(rel_entr(x / x.sum(), q / q.sum()).sum()), 0.0) if q.any() else np.inf
    return {"rmse": rmse, "rmse_nonzero": rmse_nonzero, "kl": kl}


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


def ladder(shape: tuple[int, ...], most: int = 5000) -> tuple[int, ...]:
    """Return the numbers of parameters of nonnegative CP of rank 1 to 16, at most a quarter of the cells, and `most`.

    >>> ladder((92, 112, 20)), ladder((2, 3))
    ((224, 448, 896, 1792, 3584), (1,))
    """
    one = sum(shape)
    limit = min(math.prod(shape) // 4, max(most, one))
    return tuple(n for n in (one, 2 * one, 4 * one, 8 * one, 16 * one) if n <= limit) or (max(1, limit),)


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
    keep: Callable[[Row, FloatArray], None] = lambda _row, _Q: None  # is given every reconstruction
    unordered: Unordered = None  # modes whose levels are arranged before a basis grows, as in `decompose`

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
        check_choice(support, "support (cells that are to be left out may be NaN)", ("all", "nonzero"), InvalidSupport)
        data = in_memory(read(X, support), "compare")
        values = np.asarray(data.values, dtype=np.float64)
        return cls(data, values, support, problem, family, Effort() if effort is None else effort)

    def jobs(
        self, n_params: Sequence[int] | None = None, n_starts: int = 1, methods: Sequence[str] | None = None
    ) -> list[Row]:
        """Check what is to be compared; list the fits, size by size: ours once, peers with every seed.

        A job is a row that is to be filled in. A peer that cannot run has one job in all.
        """
        if methods is None:
            methods = (*OURS, *COMPARED, NONZERO) if self.support == "nonzero" else (*OURS, *COMPARED)
        able = {name: self.data.missing is None for name in methods if name not in OURS}
        for name in able:
            if name not in PEERS:
                raise InvalidSetting(unknown_name("peer", str(name), PEERS))
            able[name] &= PEERS[name].installed
        sizes, cells = ladder(self.data.shape), self.data.support.n_cells
        if n_params is not None:
            sizes = tuple(np.unique(n_params).tolist())
            for n in sizes or (0,):
                if check_int(n, "n_params: a number of parameters", 1) >= cells:
                    raise InvalidSetting(
                        f"n_params: {n} parameters are too many: the sample space has {cells} cells, so that "
                        f"{cells - 1} reproduce any X."
                    )
        seeds = range(check_int(n_starts, "n_starts", 1))
        found: list[tuple[str, int, int | None]] = [
            (name, 0, None) for name in methods if name == UNIFORM or not able.get(name, True)
        ]
        for n in sizes:
            found += [(method, n, None) for method in (PAPER, ADAPTIVE) if method in methods]
            found += [(name, n, seed) for name, can in able.items() if can for seed in seeds]
        return [Row(*job, "SKIPPED", problem=self.problem, support=self.support) for job in found]

    def rows(self, jobs: Sequence[Row], say: Say = silent) -> Iterator[tuple[Row, ...]]:
        """Run the jobs."""
        for done, job in enumerate(jobs):
            say(f"fit {done + 1} of {len(jobs)}   {job.label}, {job.asked} parameters", done / len(jobs))
            yield self.run(job)

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
            fit, seconds = time_fit(
                lambda: decompose(self.data, basis, unordered=self.unordered if row.method == ADAPTIVE else None)
            )
        if modes := ", ".join(map(str, fit.arrangement)):
            note = f"levels of {modes} arranged: {fit.arrangement_bits:.0f} bits beside the parameters"
        done = replace(row, status=fit.status.name, n_params=fit.n_params, n_iter=fit.n_iter, seconds=seconds)
        return self._score(replace(done, residual=fit.residual, note=note), fit.without_labels().tensor())

    def _run_peer(self, row: Row) -> tuple[Row, ...]:
        peer = PEERS[row.method]
        if not peer.installed:
            return (replace(row, status="NOT INSTALLED", note=f"needs {peer.package}: {ADVICE}"),)
        note = ""
        if row.method == NONZERO and self.support != "nonzero":
            note = "only with support='nonzero'"
        elif len(self.data.shape) < 2:
            note = "needs a tensor of two or more modes"
        elif self.data.missing is not None:
            note = f"X has missing cells, which {peer.label} cannot leave out"
        if note:
            return (replace(row, note=note),)
        facts, Q = attempt(peer, self.X, row.asked, self.effort, row.seed or 0)
        row = replace(row, **facts)
        if Q is None:
            return (row,)
        rows: tuple[Row, ...] = () if row.method == NONZERO else (self._score(row, Q),)
        if self.support == "nonzero":
            rows += (self._score(replace(row, method=row.method + MASKED), masked(self.X, Q)),)
        return rows

    def _score(self, row: Row, Q: FloatArray) -> Row:
        row = replace(row, **score(self.X, Q))  # type: ignore[arg-type]  # three of its numbers
        self.keep(row, Q)
        return row


def compare(
    X: TensorLike,
    n_params: Sequence[int] | None = None,
    *,
    support: str = "all",
    unordered: Unordered = None,
    peers: Sequence[str] | None = None,
    n_starts: int = 3,
    effort: Effort | None = None,
    progress: bool = False,
) -> list[Row]:
    """Compare error against number of parameters on a tensor: ours, nonnegative CP and Tucker, CP-APR.

    For each number of parameters n, ours is fitted with the largest basis of the paper's form that has at most n and
    with ``adaptive(n)``; a peer has the smallest rank with at least n, and several random starts.

    Parameters
    ----------
    X
        A nonnegative tensor, as in `decompose`; it must fit into memory as a dense array, which the peers need. Where
        cells are missing (NaN) the peers are skipped: they cannot leave cells out.
    n_params
        Numbers of parameters; by default those of nonnegative CP of rank 1, 2, 4, ...
    support
        ``"all"`` or ``"nonzero"``. With the latter ours knows which cells are 0, so each peer then has a second row,
        multiplied by the same mask.
    unordered
        Modes whose levels have no order, as in `decompose`, for the rows of ``adaptive(n)``, whose notes then say so;
        the paper's bases keep the order of X, and the peers do not depend on it.
    peers
        Names of peers, see `legendre.tasks.compare.PEERS`; by default all that start at random, ``()`` for none. One
        that is not installed is a row that says so.
    n_starts
        Random starts of each peer.
    effort
        When the peers stop; `legendre.tasks.compare.Effort`.
    progress
        Show a line on the terminal from the third second on.

    Returns
    -------
    list of Row
        The uniform distribution first, then ours, then the peers.

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
    comparison = replace(Comparison.of(X, support, effort=effort), unordered=unordered)
    jobs = comparison.jobs(n_params, n_starts, None if peers is None else (*OURS, *peers))
    with line("compare", progress) as say:
        return [row for rows in comparison.rows(jobs, say) for row in rows]


# --- pictures --------------------------------------------------------------------------------------------------------

STYLES = {
    ADAPTIVE: ("#b2182b", "o", 2.4),
    PAPER: ("#ef8a62", "s", 1.8),
    "cp": ("#1b7837", "^", 1.3),
    "cp-random": ("#5aae61", "v", 1.3),
    "cp-hals": ("#00441b", "<", 1.3),
    "tucker": ("#762a83", "D", 1.3),
    "tucker-hals": ("#9970ab", "d", 1.3),
    "cp-nonzero": ("#4d9221", "X", 1.6),
    "cp-apr": ("#b35806", "P", 1.3),
}
"""Colour, marker and width of each method, the same in all pictures."""


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write the picture of a comparison: the mean of each method over its seeds."""
    made = sheet(13.5, 4.6)
    axes = made.subplots(1, 3)
    scored = [row for row in rows if row.scored and row.n_params]
    for axis, field, name in zip(axes, ("rmse", "kl", "seconds"), ("RMSE", "KL(P, Q), nats", "seconds"), strict=True):
        for method in dict.fromkeys(row.method for row in scored):
            points = [(row.n_params, getattr(row, field)) for row in scored if row.method == method]
            sizes, values = np.array([point for point in points if np.isfinite(point[1])], dtype=float).reshape(-1, 2).T
            x, place = np.unique(sizes, return_inverse=True)
            color, marker, width = STYLES[method.removesuffix(MASKED)]
            axis.plot(
                x, np.bincount(place, values) / np.bincount(place), linestyle=":" if MASKED in method else "-",
                color=color, marker=marker, linewidth=width, label=LABELS[method],
            )  # fmt: skip
        axis.set(xlabel="number of parameters", ylabel=name)
        if scored:  # a logarithmic axis needs a point
            axis.set(xscale="log", yscale="log" if name == "seconds" else "linear")
        axis.grid(visible=True, alpha=0.25)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        made.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    made.suptitle(title, fontsize=11)
    save(made, path)


def save(made: Any, path: Path) -> None:
    """Write a picture whole or not at all."""
    with replacing(path) as stream:
        made.savefig(stream, dpi=110, format="png")
