"""Run each method at each number of parameters; a method that fails has a row that says why."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.basis import empty
from legendre.core.arguments import entries, expect, is_whole
from legendre.core.errors import ConvergenceWarning, InvalidSetting, InvalidSupport, unknown_name
from legendre.core.progress import Say, line, silent
from legendre.core.types import FloatArray
from legendre.data.checks import SUPPORT_NAMES
from legendre.data.dense import Dense, in_memory
from legendre.data.read import TensorLike, read
from legendre.fitting.decompose import decompose
from legendre.fitting.growing.seriate import Unordered
from legendre.tasks.compare.peers import ADVICE, PEERS, Effort, attempt
from legendre.tasks.compare.rows import (
    ADAPTIVE,
    COMPARED,
    LABELS,
    MASKED,
    NONZERO,
    PAPER,
    UNIFORM,
    Job,
    Row,
    masked,
    score,
)
from legendre.tasks.compare.sizes import FAMILIES, Family, checked_params, largest

OURS = (UNIFORM, PAPER, ADAPTIVE)


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
        """Check X, the support and the effort."""
        if not isinstance(support, str):
            raise InvalidSupport(
                "compare: support is 'all' or 'nonzero'. To leave out other cells, make them NaN, that is, missing."
            )
        if support not in SUPPORT_NAMES:
            raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES))
        effort = Effort() if effort is None else effort
        expect(effort, Effort, f"effort must be a legendre.tasks.compare.peers.Effort, got {effort!r}.")
        data = in_memory(read(X, support), "compare")
        return cls(data, np.asarray(data.values, dtype=np.float64), support, problem, family, effort)

    def checked_jobs(self, params: Sequence[int] | None, seeds: int, peers: Sequence[str] | None) -> list[Job]:
        """Check what a caller wants compared, and list the fits of ours and of the peers."""
        if not is_whole(seeds, 1):
            raise InvalidSetting(f"seeds must be an integer >= 1, got {seeds!r}.")
        methods = (*OURS, *_checked_peers(peers, self.support))
        return self.jobs(checked_params(params, self.data), int(seeds), methods)

    def jobs(self, params: Sequence[int], seeds: int, methods: Sequence[str]) -> list[Job]:
        """List the fits, size by size: ours once, peers with every seed; a peer that cannot run has one job in all."""
        able = {name: self.data.missing is None and PEERS[name].installed for name in methods if name not in OURS}
        found = [Job(UNIFORM, 0)] if UNIFORM in methods else []
        found += [Job(name, 0) for name, can in able.items() if not can]
        for n in params:
            found += [Job(method, n) for method in (PAPER, ADAPTIVE) if method in methods]
            found += [Job(name, n, seed) for name, can in able.items() if can for seed in range(seeds)]
        return found

    def rows(self, jobs: Sequence[Job], say: Say = silent) -> Iterator[tuple[Row, ...]]:
        """Run the jobs."""
        warm: set[str] = set()
        for done, job in enumerate(jobs):
            say(f"fit {done + 1} of {len(jobs)}   {LABELS[job.method]}, {job.asked} parameters", done / len(jobs))
            yield self.warmed(job, warm)

    def warmed(self, job: Job, warm: set[str]) -> tuple[Row, ...]:
        """Run a job; the paper's basis always, adaptive the first time, twice: a first run may load compiled code."""
        rows = self.run(job)
        again = job.method == PAPER or (job.method == ADAPTIVE and ADAPTIVE not in warm)
        if again and rows[0].scored:
            warm.add(job.method)
            rows = self.run(job)
        return rows

    def run(self, job: Job) -> tuple[Row, ...]:
        """Run one job."""
        row = Row(job.method, job.asked, job.seed, "SKIPPED", problem=self.problem, support=self.support)
        return (self._ours(row),) if job.method in OURS else self._peer(row)

    def _ours(self, row: Row) -> Row:
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
            start = time.perf_counter()
            fit = decompose(self.data, basis, unordered=self.unordered if row.method == ADAPTIVE else None)
            seconds = time.perf_counter() - start
        if modes := ", ".join(map(str, fit.arrangement)):
            how = "as given" if isinstance(self.unordered, Mapping) else "by the data"
            note = f"levels of {modes} arranged {how}: {fit.arrangement_bits:.0f} bits beside the parameters"
        done = replace(row, status=fit.status.name, n_params=fit.n_params, n_iter=fit.n_iter, seconds=seconds)
        return self._scored(replace(done, residual=fit.residual, note=note), fit.without_labels().tensor())

    def _peer(self, row: Row) -> tuple[Row, ...]:
        peer, missing = PEERS[row.method], self.data.missing
        if not peer.installed:
            return (replace(row, status="NOT INSTALLED", note=f"needs {peer.package}: {ADVICE}"),)
        if row.method == NONZERO and self.support != "nonzero":
            return (replace(row, note="only with support='nonzero'"),)
        if len(self.data.shape) < 2:
            return (replace(row, note="needs a tensor of two or more modes"),)
        if missing is not None:
            text = f"X has {int(missing.sum())} missing cells, which {peer.label} cannot leave out"
            return (replace(row, note=text),)
        done = attempt(peer, self.X, row.asked, self.effort, row.seed or 0)
        status = "FAILED" if done.Q is None else "DONE"
        row = replace(
            row, status=status, n_params=done.n_params, n_iter=done.n_iter, seconds=done.seconds, note=done.note
        )
        if done.Q is None:
            return (row,)
        rows: tuple[Row, ...] = () if row.method == NONZERO else (self._scored(row, done.Q),)
        if self.support == "nonzero":
            rows += (self._scored(replace(row, method=row.method + MASKED), masked(self.X, done.Q)),)
        return rows

    def _scored(self, row: Row, Q: FloatArray) -> Row:
        row = replace(row, **asdict(score(self.X, Q)))
        self.keep(row, Q)
        return row


def compare(
    X: TensorLike,
    params: Sequence[int] | None = None,
    *,
    support: str = "all",
    unordered: Unordered = None,
    peers: Sequence[str] | None = None,
    seeds: int = 3,
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
    params
        Numbers of parameters; by default those of nonnegative CP of rank 1, 2, 4, ...
    support
        ``"all"`` or ``"nonzero"``. With the latter ours knows which cells are 0, so each peer then has a second row,
        multiplied by the same mask.
    unordered
        Modes whose levels have no order, as in `decompose`, for the rows of ``adaptive(n)``, whose notes then say so;
        the paper's bases keep the order of X, and the peers do not depend on it.
    peers
        Names of peers, see `peers.PEERS`; by default all that start at random, ``()`` for none. One that is
        not installed is a row that says so.
    seeds
        Random starts of each peer.
    effort
        When the peers stop; `legendre.tasks.compare.peers.Effort`.
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
    jobs = comparison.checked_jobs(params, seeds, peers)
    with line("compare", progress) as say:
        return [row for rows in comparison.rows(jobs, say) for row in rows]


def _checked_peers(peers: Sequence[str] | None, support: str) -> tuple[str, ...]:
    """Return the names of the peers; by default those that suit the support."""
    if peers is None:
        return (*COMPARED, NONZERO) if support == "nonzero" else COMPARED
    listed = [peers] if isinstance(peers, str) else entries(peers)
    if listed is None:
        raise InvalidSetting(f"peers must be names such as ['cp-hals'], got {peers!r}.")
    for name in listed:
        if not isinstance(name, str) or name not in PEERS:
            raise InvalidSetting(unknown_name("peer", str(name), PEERS))
    return tuple(listed)
