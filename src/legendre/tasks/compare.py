"""Error against number of parameters: ours, and other libraries' decompositions with an equal number of them.

A peer has the smallest rank with at least as many parameters. Peers minimise other objectives (squared error, or
Poisson likelihood in CP-APR) and stop when theirs no longer moves, so that they have no residual; their reconstructions
are compared. Benchmarks and experiments run the same peers.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.basis import empty
from legendre.core.arguments import check_choice, check_int, check_number
from legendre.core.errors import ConvergenceWarning, InvalidSetting, InvalidSupport, unknown_name
from legendre.core.figures import sheet
from legendre.core.progress import Say, line, silent
from legendre.core.text import Columns, shape_name
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.data.dense import in_memory
from legendre.data.read import TensorLike, read
from legendre.fitting.fit import decompose
from legendre.fitting.growing.seriate import Unordered
from legendre.results.inference.printout import to_frame
from legendre.tasks.complete.complete import complete

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

    label: str  # for readers
    package: str  # which it is part of
    rank: Callable[[tuple[int, ...], int], int]  # from shape and number of parameters to the rank
    fit: Callable[[FloatArray, int, Effort, int, BoolArray | None], Factors]  # X, rank, effort, seed, observed cells
    takes_mask: bool = False  # it can leave cells out of the fit

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return find_spec(self.package) is not None


def attempt(
    peer: Peer, X: FloatArray, n_params: int, effort: Effort, seed: int, mask: BoolArray | None = None
) -> tuple[dict[str, Any], FloatArray | None]:
    """Run a peer on the cells of a mask; return fields of its row, and its reconstruction if there is one.

    An error or a warning inside it becomes a note.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = time.perf_counter()
            factors = peer.fit(X, peer.rank(X.shape, n_params), effort, seed, mask)
            seconds = time.perf_counter() - start
            Q = factors.multiply_out()
            if not np.isfinite(Q).all():
                raise ValueError("the reconstruction is not finite")
        except Exception as error:  # another library's, so of any kind
            return {"status": "FAILED", "note": f"{type(error).__name__}: {error}".splitlines()[0][:200]}, None
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


def _tensorly_peer(label: str, function: str, init: str = "random", *, takes_mask: bool = False) -> Peer:
    """Return a CP or Tucker decomposition by its function's name."""
    tucker = "tucker" in function

    def fit(X: FloatArray, rank: int, effort: Effort, seed: int, mask: BoolArray | None) -> Factors:
        tensorly, shape = import_module("tensorly"), X.shape
        left_out = {} if mask is None else {"mask": mask}
        answer, history = getattr(import_module("tensorly.decomposition"), function)(
            tensorly.tensor(X), np.minimum(shape, rank).tolist() if tucker else rank, n_iter_max=effort.max_iter,
            tol=effort.tol, init=init, random_state=seed, return_errors=True, **left_out,
        )  # fmt: skip
        n_params = tucker_params(shape, rank) if tucker else rank * sum(shape)
        multiply_out = tensorly.tucker_to_tensor if tucker else tensorly.cp_to_tensor
        return Factors(n_params, len(history), lambda: np.asarray(multiply_out(answer)))

    return Peer(label, "tensorly", tucker_rank if tucker else cp_rank, fit, takes_mask)


def _fit_cp_apr(X: FloatArray, rank: int, effort: Effort, seed: int, _: BoolArray | None) -> Factors:
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
"""Every peer by name, installed or not; all but the first start at random."""
COMPARED = ("cp-random", "cp-hals", "tucker", "tucker-hals", "cp-apr")
"""The peers of a comparison; each starts at random, so that seeds make a difference."""
UNIFORM, ADAPTIVE = "uniform", "adaptive"
LABELS = {UNIFORM: "uniform", ADAPTIVE: "Legendre, adaptive", **{name: peer.label for name, peer in PEERS.items()}}

# --- rows ------------------------------------------------------------------------------------------------------------


def score(X: AnyArray, Q: FloatArray) -> dict[str, float]:
    """Return two distances between X and a reconstruction, over the cells that are not missing.

    The root mean square error in X's units, and KL(P, Q) in nats, both tensors normalised, which is infinite where
    Q = 0 < P.

    >>> score(np.array([[0.0, 3.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 9.0]]))
    {'rmse': 0.816..., 'kl': 0.3040...}
    """
    from scipy.special import rel_entr

    known = ~np.isnan(X)
    x, q = np.asarray(X[known], dtype=np.float64), Q[known]
    kl = max(float(rel_entr(x / x.sum(), q / q.sum()).sum()), 0.0) if q.any() else np.inf
    return {"rmse": float(np.sqrt(np.square(x - q).mean())), "kl": kl}


@dataclass(frozen=True)
class Row:
    """One reconstruction, or the reason why there is none; None where a field does not apply."""

    method: str
    asked: int  # the number of parameters to compare at
    seed: int | None  # of a random start
    status: str = "SKIPPED"  # how a Legendre decomposition ended, or DONE, FAILED, SKIPPED, NOT INSTALLED
    n_params: int | None = None  # parameters used: at most `asked` of ours, at least `asked` of a peer
    n_iter: int | None = None
    rmse: float | None = None  # these two as in `score`
    kl: float | None = None
    held_out: float | None = None  # RMSE on cells held out of a second fit; None for a method that takes no mask
    seconds: float | None = None  # of the first fit alone
    residual: float | None = None  # max|eta - eta_hat|; peers have none
    note: str = ""  # why there is no reconstruction, or what a peer warned of

    @property
    def label(self) -> str:
        """The method's name for readers."""
        return LABELS.get(self.method, self.method)


@dataclass(frozen=True, repr=False)
class Comparison(Sequence[Row]):
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

    shape: tuple[int, ...]
    rows: tuple[Row, ...]

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def to_frame(self) -> Any:
        """Return the rows, of every seed, as a pandas data frame."""
        columns = {field.name: [getattr(row, field.name) for row in self.rows] for field in fields(Row)[1:]}
        return to_frame(columns, [row.method for row in self.rows], "method")

    def text(self) -> str:
        """Write a table with a line for each method and size; of several seeds the best errors and the mean time."""
        lines = [["method", "asked", "params", "seeds", "RMSE", "held out", "KL(P, Q)", "seconds", "residual"]]
        for method, asked in dict.fromkeys((row.method, row.asked) for row in self.rows):
            same = [row for row in self.rows if (row.method, row.asked) == (method, asked)]
            done = [row for row in same if row.rmse is not None]
            row = (done or same)[0]
            best = [
                min((value for row in done if (value := getattr(row, name)) is not None), default=None)
                for name in ("rmse", "held_out", "kl")
            ]
            seconds = sum(row.seconds or 0.0 for row in done) / len(done) if done else None
            lines.append(
                [
                    row.label, str(asked or ""), row.status.lower() if row.n_params is None else str(row.n_params),
                    "" if row.seed is None else str(len(done)),
                    *("" if value is None else f"{value:.4g}" for value in best),
                    "" if seconds is None else f"{seconds:.3g}",
                    "" if row.residual is None else f"{row.residual:.0e}",
                ]
            )  # fmt: skip
        notes = [f"{row.label}: {row.note}" for row in self.rows if row.note and (row.rmse is None or row.seed is None)]
        if any(row.seed is not None for row in self.rows):
            notes.append("Of several seeds the row shows the best errors and the mean time.")
        return Columns(shape_name(self.shape), lines, "<>", ruled=True, notes=list(dict.fromkeys(notes))).text()

    __repr__ = text

    def draw(self) -> Any:
        """Draw errors and time against the number of parameters, the mean of each method over its seeds."""
        made = sheet(13.5, 4.6)
        axes = made.subplots(1, 3)
        scored = [row for row in self.rows if row.rmse is not None and row.n_params]
        for axis, field, name in zip(
            axes, ("rmse", "held_out", "seconds"), ("RMSE", "held-out RMSE", "seconds"), strict=True
        ):
            for method in dict.fromkeys(row.method for row in scored):
                points = [(row.n_params, getattr(row, field)) for row in scored if row.method == method]
                sizes, values = np.array([p for p in points if p[1] is not None], dtype=float).reshape(-1, 2).T
                x, place = np.unique(sizes, return_inverse=True)
                width = 2.4 if method == ADAPTIVE else 1.3
                mean = np.bincount(place, values) / np.bincount(place)
                axis.plot(x, mean, marker="o", linewidth=width, label=LABELS[method])
            axis.set(xlabel="number of parameters", ylabel=name)
            if scored:  # a logarithmic axis needs a point
                axis.set(xscale="log", yscale="log" if field == "seconds" else "linear")
            axis.grid(visible=True, alpha=0.25)
        handles, labels = axes[0].get_legend_handles_labels()
        if handles:
            made.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
        made.suptitle(shape_name(self.shape), fontsize=11)
        return made


# --- the comparison --------------------------------------------------------------------------------------------------


def list_sizes(shape: tuple[int, ...], most: int = 5000) -> tuple[int, ...]:
    """Return the numbers of parameters of nonnegative CP of rank 1 to 16, at most a quarter of the cells, and `most`.

    >>> list_sizes((92, 112, 20)), list_sizes((2, 3))
    ((224, 448, 896, 1792, 3584), (1,))
    """
    one = sum(shape)
    limit = min(math.prod(shape) // 4, max(most, one))
    return tuple(n for n in (one, 2 * one, 4 * one, 8 * one, 16 * one) if n <= limit) or (max(1, limit),)


@dataclass(frozen=True, eq=False)
class Contest:
    """A tensor, and how methods are run on it."""

    X: FloatArray  # in double precision, NaN where it is missing or outside the sample space
    held_out: BoolArray  # cells that the second fits leave out
    effort: Effort
    unordered: Unordered

    @classmethod
    def of(cls, X: TensorLike, support: str, hold_out: float, effort: Effort | None, unordered: Unordered) -> Contest:
        """Read X; choose the cells to hold out, a share of those in the sample space."""
        check_choice(support, "support (cells that are to be left out may be NaN)", ("all", "nonzero"), InvalidSupport)
        check_number(hold_out, "hold_out", 0, below=1)
        data = in_memory(read(X, support), "compare")
        values = np.where(data.support.on_grid(), np.asarray(data.values, dtype=np.float64), np.nan)
        known = np.flatnonzero(~np.isnan(values))
        hidden = np.zeros(values.shape, dtype=np.bool_)
        hidden.flat[np.random.default_rng(0).permutation(known)[: int(hold_out * known.size)]] = True
        return cls(values, hidden, Effort() if effort is None else effort, unordered)

    def jobs(self, n_params: Sequence[int] | None, n_starts: int, peers: Sequence[str]) -> list[Row]:
        """Check what is to be compared; list rows to fill in: the uniform model, then ours and peers by size."""
        for name in peers:
            if name not in PEERS:
                raise InvalidSetting(unknown_name("peer", str(name), PEERS))
        sizes, cells = list_sizes(self.X.shape), int(np.count_nonzero(~np.isnan(self.X)))
        if n_params is not None:
            sizes = tuple(np.unique(n_params).tolist())
            for n in sizes or (0,):
                if check_int(n, "n_params: a number of parameters", 1) >= cells:
                    raise InvalidSetting(
                        f"n_params: {n} parameters are too many: the sample space has {cells} cells, so that "
                        f"{cells - 1} reproduce any X."
                    )
        seeds = range(check_int(n_starts, "n_starts", 1))
        notes = {name: self._obstacle(PEERS[name]) for name in peers}
        found = [Row(UNIFORM, 0, None), *(replace(note, method=name) for name, note in notes.items() if note)]
        for n in sizes:
            found.append(Row(ADAPTIVE, n, None))
            found += [Row(name, n, seed) for name, note in notes.items() if not note for seed in seeds]
        return found

    def _obstacle(self, peer: Peer) -> Row | None:
        """Return a row that says why a peer cannot run, if it cannot."""
        if not peer.installed:
            return Row("", 0, None, "NOT INSTALLED", note=f"needs {peer.package}: {ADVICE}")
        if self.X.ndim < 2:
            return Row("", 0, None, note="needs a tensor of two or more modes")
        if np.isnan(self.X).any() and not peer.takes_mask:
            return Row("", 0, None, note="cannot leave out cells that are missing or outside the sample space")
        return None

    def run(self, jobs: Sequence[Row], say: Say = silent) -> Iterator[Row]:
        """Fill the rows in."""
        for done, job in enumerate(jobs):
            say(f"fit {done + 1} of {len(jobs)}   {job.label}, {job.asked} parameters", done / len(jobs))
            yield job if job.note else self._run_peer(job) if job.method in PEERS else self._run_ours(job)

    def _run_ours(self, row: Row) -> Row:
        basis = adaptive(row.asked) if row.asked else empty()
        unordered = self.unordered if row.asked else None
        error = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row has status and residual
            start = time.perf_counter()
            fit = decompose(self.X, basis, unordered=unordered)
            seconds = time.perf_counter() - start
            if self.held_out.any():
                hidden = np.where(self.held_out, np.nan, self.X)
                second = decompose(hidden, basis, unordered=unordered)
                arrange = second.labels.arrange
                filled = complete(arrange(hidden), second.basis, undetermined="theta0").tensor()
                error = _rmse(arrange(self.X), filled, arrange(self.held_out))
        note = f"levels arranged: {fit.arrangement_bits:.0f} bits beside the parameters" if fit.arrangement else ""
        facts = score(self.X, fit.tensor())
        return replace(
            row, status=fit.status.name, n_params=fit.n_params, n_iter=fit.n_iter, seconds=seconds, held_out=error,
            residual=fit.residual, note=note, rmse=facts["rmse"], kl=facts["kl"],
        )  # fmt: skip

    def _run_peer(self, row: Row) -> Row:
        peer, seed = PEERS[row.method], row.seed or 0
        known = ~np.isnan(self.X)
        filled = np.where(known, self.X, 0.0)
        facts, Q = attempt(peer, filled, row.asked, self.effort, seed, None if known.all() else known)
        if Q is not None:
            facts |= score(self.X, Q)
            if peer.takes_mask and self.held_out.any():
                again = attempt(peer, filled, row.asked, self.effort, seed, known & ~self.held_out)[1]
                facts["held_out"] = None if again is None else _rmse(self.X, again, self.held_out)
        return replace(row, **facts)


def _rmse(X: AnyArray, Q: FloatArray, cells: BoolArray) -> float:
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
    """Compare error against number of parameters on a tensor: ours, nonnegative CP and Tucker, CP-APR.

    For each number of parameters n, ours is ``adaptive(n)``; a peer has the smallest rank with at least n, and several
    random starts.

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
        Names of peers, see `legendre.tasks.compare.PEERS`; by default all that start at random, ``()`` for none. One
        that is not installed is a row that says so.
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
        A row for the uniform distribution, then rows of ours and of the peers; printed as a table.

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
    contest = Contest.of(X, support, hold_out, effort, unordered)
    jobs = contest.jobs(n_params, n_starts, peers)
    with line("compare", progress) as say:
        return Comparison(contest.X.shape, tuple(contest.run(jobs, say)))
