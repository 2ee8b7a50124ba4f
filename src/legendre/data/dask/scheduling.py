"""One pass over a dask array: a function of every block, and the answers joined in a fixed order.

The order is that of the blocks, whichever is ready first: first within groups, then group after group. The same array
gives the same bits with threads, with processes, and when a worker dies and others do its work again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import Any, TypeVar, cast

import numpy as np

T = TypeVar("T")
Say = Callable[[str], None]

GROUP = 8  # blocks whose answers are joined before they leave the cluster
RETRIES = 3  # how often a cluster tries a block again that could not be read


def over_blocks(
    array: Any,
    compute: Callable[..., T],
    join: Callable[[T, T], T],
    arguments: dict[str, Any],
    watch: Say | None = None,
) -> T:
    """Call ``compute(block, start, **arguments)`` for every block of a dask array and join what comes back.

    The scheduler is the one that dask would take: a distributed client where there is one, else threads.
    """
    import dask

    answers = _answers(array, compute, arguments)
    joined = dask.delayed(join, pure=False)
    groups = [reduce(joined, answers[i : i + GROUP]) for i in range(0, len(answers), GROUP)]
    client = _client(array)
    if client is None:
        with _local_progress(watch, len(answers)):
            (whole,) = dask.compute(reduce(joined, groups))
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


def _client(array: Any) -> Any:
    """Return the distributed client that dask would take; ``None`` where it would compute by itself."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(collections=[array]), "__self__", None)
    return owner if hasattr(owner, "compute") and hasattr(owner, "scheduler_info") else None


def _local_progress(watch: Say | None, blocks: int) -> AbstractContextManager[Any]:
    """Report to `watch` how many blocks are done; dask counts tasks, of which each block has the same number or so."""
    if watch is None:
        return nullcontext()
    from dask.callbacks import Callback

    def count(key: object, result: object, graph: object, state: Any, worker: object) -> None:  # noqa: ARG001 - dask's
        done = len(state["finished"])
        left = sum(len(state[name]) for name in ("ready", "waiting", "running"))
        watch(f"reading X: {blocks * done // max(done + left, 1)} of {blocks} blocks")

    return Callback(posttask=count)  # type: ignore[no-any-return]  # dask is typed in part
