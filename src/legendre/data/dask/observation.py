"""A tensor as a dask array: larger than memory, on one machine or many; read block by block and never formed.

What a pass finds in the blocks is joined in a fixed order, within groups and then group after group: the same array
gives the same bits with threads, with processes, and when a worker dies and others do its work again.
"""

from __future__ import annotations

import inspect
import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, TypeVar, cast

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name, cells_in_slices, frozen
from legendre.core.errors import InvalidSupport, InvalidTensor, unknown_name
from legendre.core.memory import check_room
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray, IntArray
from legendre.data.checks import SUPPORT_NAMES, infinite_entries, negative_entries, numeric, sound_total
from legendre.data.dask import per_block as pieces
from legendre.data.dask.per_block import Ranking, Survey, rank, survey
from legendre.data.dense import Dense
from legendre.data.observation import Comparable, Observation, beyond_memory
from legendre.data.support import Support

T = TypeVar("T")
Say = Callable[[str], None]

GROUP = 8  # blocks whose answers are joined before they leave the cluster
RETRIES = 3  # how often a cluster tries a block again that could not be read


@dataclass(frozen=True, eq=False)
class Blocks(Observation):
    """X as a dask array, on the full grid; what the first pass did not find is one more pass over it."""

    kind = "a dask array"

    array: Any
    by_mode: tuple[FloatArray, ...]  # X summed over all modes but one, for each mode
    rankings: dict[int, Ranking] = field(default_factory=dict)  # by mode, the largest entries of each of its slices
    watch: Say | None = None  # is called with the progress of a pass

    def __getstate__(self) -> dict[str, Any]:
        """Leave the terminal, and X formed here, behind when X goes to a file or another process."""
        return {name: part for name, part in self.__dict__.items() if name != "_dense"} | {"watch": None}

    def here(self) -> Dense | None:
        return None if beyond_memory(self.shape) else self._dense

    @cached_property
    def _dense(self) -> Dense:
        values = np.ma.getdata(self.array.compute())  # masked entries have been refused
        return Dense(self.support, self.base, self.missing, self.total, self.positive, values=frozen(values))

    @cached_property
    def counts(self) -> bool:
        return bool(self.array.dtype.kind != "f" or self._over_blocks(pieces.whole, operator.and_, {}))

    @property
    def compiled(self) -> bool:
        return math.prod(self.shape) >= limits.COMPILED_CELLS

    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        # the sum so far, the next part, and what becomes of them
        check_room(quotient.n_merged, 3 * 8, "a merged grid", "Use a basis with fewer different coordinates.")
        part = self._over_blocks(pieces.merge, pieces.BlockSums.join, {"quotient": quotient})
        return part.values if boxes is None else part.values[tuple(boxes.T)]

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        return [np.add.reduceat(own, cut) for own, cut in zip(self.by_mode, quotient.cuts, strict=True)]

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        columns = [cut[positions[:, k]] for k, cut in enumerate(quotient.cuts)]
        return self._over_blocks(pieces.above, np.add, {"cells": np.stack(columns, axis=1).astype(np.int64)})

    def at(self, cells: IntArray) -> FloatArray:
        return np.asarray(self.array.vindex[tuple(cells.T)].compute() if len(cells) else (), dtype=np.float64)

    def largest(self, count: int, axis: int) -> IntArray:
        """List the largest entries of each slice, from the first pass if it kept as many."""
        count = min(count, int(np.prod(self.shape)) // self.shape[axis])
        ranking = self.rankings.get(axis)
        if ranking is None or ranking.places.shape[1] < count:
            ranking = self._over_blocks(rank, Ranking.join, {"shape": self.shape, "axis": axis, "count": count})
        places = ranking.places[:, :count]
        return cells_in_slices(places.ravel(), np.repeat(np.arange(len(places)), places.shape[1]), self.shape, axis)

    def negentropy(self) -> float:
        return self._negentropy

    @cached_property
    def _negentropy(self) -> float:
        return float(self._over_blocks(pieces.negentropy, operator.add, {"total": self.total}))

    def squared_error(self, q: Comparable) -> float:
        return float(self._over_blocks(pieces.squares, operator.add, {"law": q.on_blocks()}))

    def _over_blocks(self, compute: Callable[..., T], join: Callable[[T, T], T], arguments: dict[str, Any]) -> T:
        return over_blocks(self.array, compute, join, arguments, self.watch)


def is_dask(X: object) -> bool:
    """Whether X is a dask array; dask is not imported, for an array of its own shows that it is loaded."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def observe_blocks(
    X: Any,
    support: object = "all",
    base: object = None,
    *,
    rankings: dict[int, int] | None = None,
    watch: Say | None = None,
) -> Blocks:
    """Check a dask array and find its total, margins and `rankings` (by mode, the number of entries) in one pass."""
    _check_kind(X)
    _check_space(support, base)
    shape = tuple(int(n) for n in X.shape)
    sizes = {axis: min(count, int(np.prod(shape)) // shape[axis]) for axis, count in (rankings or {}).items()}
    seen = over_blocks(X, survey, Survey.join, {"shape": shape, "rankings": sizes}, watch)
    _check_entries(seen, support)
    with np.errstate(over="ignore"):
        total = float(seen.margins[0].values.sum())
    sound_total(total, seen.smallest, lambda: float(X.max().compute()))
    by_mode = tuple(part.values for part in seen.margins)
    return Blocks(Support(shape), None, None, total, seen.smallest > 0, X, by_mode, seen.rankings, watch)


def _check_kind(X: Any) -> None:
    """Refuse arrays that are not numbers, or whose blocks are not NumPy's or have no known size."""
    if any(np.isnan(n) for n in X.shape):
        raise InvalidTensor(
            f"X is a dask array with blocks of unknown size: its shape is {X.shape}. Call X.compute_chunk_sizes()."
        )
    if not isinstance(X._meta, np.ndarray):
        raise InvalidTensor(
            f"X is a dask array whose blocks are of type {type(X._meta).__name__}; they must be NumPy arrays. "
            "Convert them: X.map_blocks(np.asarray), or for sparse ones X.map_blocks(lambda block: block.todense())."
        )
    if X.dtype.kind == "O":
        raise InvalidTensor("X holds Python objects (dtype object); convert it to numbers first: X.astype(float).")
    # a view of one number has X's shape and type, and no memory
    numeric(X.compute() if X.ndim == 0 else np.broadcast_to(np.zeros((), X.dtype), X.shape), "X", InvalidTensor)


def _check_space(support: object, base: object) -> None:
    if not isinstance(support, str):
        raise InvalidSupport(
            "X is a dask array, so that its sample space is the whole grid: leave support='all'. Where X fits in "
            "memory, X.compute() takes a mask."
        )
    if support not in SUPPORT_NAMES:
        raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES))
    if base is not None:
        raise InvalidSupport(
            "X is a dask array, which takes no base measure. Where X fits in memory, X.compute() takes one."
        )


def _check_entries(seen: Survey, support: object) -> None:
    if seen.smallest < 0:
        raise negative_entries(seen.negative.n, seen.negative.at, seen.smallest)
    if seen.infinite.n:
        raise infinite_entries(*seen.infinite)
    if seen.missing.n:
        raise InvalidTensor(
            f"X has {seen.missing.n} missing entries (NaN), the first at X{cell_name(seen.missing.at)}, and is a "
            "dask array, so that its sample space is the whole grid. If missing means 0, replace them: "
            "X.map_blocks(np.nan_to_num); where X fits in memory, X.compute() takes them as missing."
        )
    if support == "nonzero" and not seen.smallest > 0:
        raise InvalidSupport(
            "X is a dask array with zeros, so that its sample space is the whole grid, support='all'. For "
            "support='nonzero' pass the non-zero entries as a sparse tensor, or X.compute() where that fits in memory."
        )


def over_blocks(
    X: Any, compute: Callable[..., T], join: Callable[[T, T], T], arguments: dict[str, Any], watch: Say | None = None
) -> T:
    """Join ``compute(block, start, **arguments)`` of all blocks; on a cluster if dask has a client, else by threads."""
    import dask
    from dask.base import get_scheduler

    answers = _answers(X, compute, arguments)
    joined = dask.delayed(join, pure=False)
    groups = [reduce(joined, answers[i : i + GROUP]) for i in range(0, len(answers), GROUP)]
    scheduler = get_scheduler(collections=[X])
    client: Any = getattr(scheduler, "__self__", None)
    if not (hasattr(client, "compute") and hasattr(client, "scheduler_info")):  # not that of a cluster
        counted = {} if watch is None or not _reports(scheduler) else _local_progress(watch, len(answers))
        (whole,) = dask.compute(reduce(joined, groups), **counted)
        return cast(T, whole)
    # the answer of a group is fetched as soon as it is there: what a dying worker takes along is little
    futures = client.compute(groups, retries=RETRIES)
    futures.reverse()
    found: T = futures.pop().result()
    while futures:
        if watch is not None:
            watch(f"reading X: {(len(groups) - len(futures)) * GROUP} of {len(answers)} blocks")
        found = join(found, futures.pop().result())
    return found


def _answers(array: Any, compute: Callable[..., T], arguments: dict[str, Any]) -> list[Any]:
    """Compute on every block, in C order; reading a block and computing is one task, so no block is ever stored."""
    import dask

    offsets = [np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int).tolist() for lengths in array.chunks]

    def of_block(block: Any, arguments: dict[str, Any], block_id: tuple[int, ...]) -> T | None:
        start = tuple(offset[i] for offset, i in zip(offsets, block_id, strict=True))
        return compute(block, start, **arguments) if block.size else None

    answers = array.map_blocks(
        of_block,
        arguments=dask.delayed(arguments, traverse=False),
        chunks=tuple((1,) * len(lengths) for lengths in array.chunks),
        dtype=object,
        meta=np.empty((0,) * array.ndim, dtype=object),
    )
    sizes = reduce(np.multiply.outer, [np.asarray(lengths) for lengths in array.chunks])
    return [answer for answer, size in zip(answers.to_delayed().ravel(), sizes.ravel(), strict=True) if size]


def _reports(scheduler: Any) -> bool:
    """Whether a scheduler takes callbacks, as dask's own do; a function of the caller's may not."""
    taken = {} if scheduler is None else inspect.signature(scheduler).parameters
    return scheduler is None or "callbacks" in taken or any(p.kind is p.VAR_KEYWORD for p in taken.values())


def _local_progress(watch: Say, blocks: int) -> dict[str, list[Any]]:
    """Report to `watch` how many blocks are done; dask counts tasks, of which each block has the same number or so.

    Return what this is for dask's schedulers. They are told beside those callbacks that hold for all computations of
    the process, not as one of them: it would count the blocks that another thread reads.
    """
    from dask.callbacks import Callback

    def count(key: object, result: object, graph: object, state: Any, worker: object) -> None:  # noqa: ARG001 - dask's
        done = len(state["finished"])
        left = sum(len(state[name]) for name in ("ready", "waiting", "running"))
        watch(f"reading X: {blocks * done // max(done + left, 1)} of {blocks} blocks")

    return {"callbacks": [(None, None, None, count, None), *tuple(Callback.active)]}
