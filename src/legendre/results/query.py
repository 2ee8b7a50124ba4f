"""Questions to Q: marginals, conditionals, expectations, samples, the most probable cell.

On a full grid without a base measure all cells of a merged box have the same probability, so that the merged grid
answers; elsewhere Q is formed, some rows at a time where that is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room, rows_of
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.results import on_list as listed
from legendre.results.on_cliques import Law
from legendre.results.query_arguments import called, fixed, generator_from, given_modes, impossible, size_of, values_of
from legendre.results.tensor import check_formed, log_prob, on_merged, probability

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

TIE = 1e-12
"""Log probabilities closer than this are equal: what parts them is the rounding error of the running sums."""


def log_density(fit: Decomposition) -> FloatArray:
    """``log(q_v / r_v)`` on every merged cell; ``-inf`` where no cell carries probability."""
    log_q = on_merged(fit, fit.theta)
    log_q -= fit.psi
    if fit.alive is not None:
        log_q[~fit.alive] = -np.inf
    elif fit.model.measure is not None:
        log_q[~fit.model.alive] = -np.inf
    return log_q


def marginal(fit: Decomposition, modes: int | Sequence[int], given: Mapping[int, int] | None = None) -> FloatArray:
    """Sum Q, or Q given the indices of other modes, over all modes but the given ones."""
    kept = given_modes(modes, len(fit.shape))
    if given is not None:
        return _marginal_given(fit, kept, fixed(given, fit.shape))
    if fit.model.support.points is not None:
        return listed.marginal(fit, fit.model.support.points, kept)
    if _on_cliques(fit, kept):
        return Law(fit.model, fit.theta).marginal(kept)
    others = [k for k in range(len(fit.shape)) if k not in kept]
    in_order = sorted(kept)
    if fit.model.measure is None:
        grid = np.exp(log_density(fit))
        for k in reversed(others):
            grid = np.tensordot(grid, fit.model.quotient.lengths[k], axes=(k, 0))
        grid = _spread(fit, np.asarray(grid), in_order)
    else:
        grid = np.zeros([fit.shape[k] for k in in_order])
        for rows, q in _blocks(fit):
            grid[rows if 0 in kept else ...] += q.sum(axis=tuple(others))
    return np.array(grid.transpose([in_order.index(k) for k in kept]), order="C")


def _on_cliques(fit: Decomposition, modes: list[int]) -> bool:
    """Tell whether tables over cliques, one of them with these modes, answer better than the merged grid; or alone."""
    if fit.alive is not None or not fit.model.by_cliques:
        return False
    return not fit.model.formable or fit.model.cliques_with(modes).fits


def _marginal_given(fit: Decomposition, kept: list[int], at: dict[int, int]) -> FloatArray:
    if clash := sorted(set(kept) & set(at)):
        raise InvalidQuery(f"marginal: mode {clash[0]} is asked for and given.")
    rest = [k for k in range(len(fit.shape)) if k not in at]
    if fit.model.support.points is not None:
        return listed.condition(fit, fit.model.support.points, at, kept)
    if _on_cliques(fit, kept):
        return Law(fit.model, fit.theta).given(at).marginal([rest.index(k) for k in kept])
    q = condition(fit, at).sum(axis=tuple(i for i, k in enumerate(rest) if k not in kept))
    in_order = sorted(kept)
    return np.array(np.transpose(q, [in_order.index(k) for k in kept]), order="C")


def condition(fit: Decomposition, event: Mapping[int, int]) -> FloatArray:
    """Give Q on the modes left when the others are fixed; in the log domain, so that rare events are no trouble."""
    at = fixed(event, fit.shape)
    if fit.model.support.points is not None:
        return listed.condition(fit, fit.model.support.points, at, [k for k in range(len(fit.shape)) if k not in at])
    if not fit.model.formable and fit.model.by_cliques:
        rest = [k for k in range(len(fit.shape)) if k not in at]
        return _marginal_given(fit, rest, at) if rest else np.ones(())
    boxes = tuple(
        int(fit.model.quotient.boxes_along(k, np.array(at[k]))) if k in at else slice(None)
        for k in range(len(fit.shape))
    )
    cells = tuple(at.get(k, slice(None)) for k in range(len(fit.shape)))
    log_q = _spread(fit, np.asarray(log_density(fit)[boxes]), [k for k in range(len(fit.shape)) if k not in at])
    if fit.model.base is not None:
        with np.errstate(divide="ignore"):
            log_q = log_q + np.log(fit.model.base[cells])
    if fit.model.support.mask is not None:
        log_q = np.where(fit.model.support.mask[cells], log_q, -np.inf)
    peak = float(log_q.max())
    if peak == -np.inf:
        raise impossible(at)
    q = np.exp(log_q - peak)
    return np.asarray(q / q.sum())


def expectation(
    fit: Decomposition, f: ArrayLike | Callable[..., ArrayLike], modes: int | Sequence[int] | None = None
) -> float:
    """Sum ``q f`` over the cells with probability."""
    if modes is not None:
        table = marginal(fit, modes)
        if not table.ndim:
            raise InvalidQuery("expectation: modes is empty; name the modes that f depends on.")
        return _mean(f, table)
    if fit.model.support.points is not None:
        return listed.expectation(fit, fit.model.support.points, f)
    check_formed(fit, "expectation", "Name the modes that f depends on: expectation(f, modes=...).")
    read = partial(called, f, fit.shape) if callable(f) else values_of(f, fit.shape).__getitem__
    return sum(_summed(q, read(rows), rows.start) for rows, q in _blocks(fit))


def _mean(f: ArrayLike | Callable[..., ArrayLike], q: FloatArray) -> float:
    """Sum ``q f`` over a table of probabilities."""
    every = slice(0, q.shape[0])
    return _summed(q, called(f, q.shape, every) if callable(f) else values_of(f, q.shape), 0)


def _summed(q: FloatArray, values: AnyArray, start: int) -> float:
    bad = np.argwhere(~np.isfinite(values) & (q > 0))
    if len(bad):
        place, value = [bad[0][0] + start, *bad[0][1:]], values[tuple(bad[0])]
        raise InvalidQuery(
            f"expectation: f{cell_name(place)} = {value}; f must be finite wherever Q is positive. "
            "Cells of probability 0 do not count."
        )
    return float(np.sum(q * np.where(q > 0, values, 0.0)))


def sample(fit: Decomposition, n: int, rng: int | np.random.Generator | None) -> IntArray:
    """Draw cells from Q: a merged box first and then a cell of it, or a cell at once where cells of a box differ."""
    size, generator, quotient = size_of(n), generator_from(rng), fit.model.quotient
    if fit.model.support.points is not None:
        q = np.exp(log_prob(fit, fit.model.support.points))
        return fit.model.support.points[draw(q, size, generator)].astype(np.int64)
    if fit.model.by_cliques and fit.alive is None:
        return Law(fit.model, fit.theta).sample(size, generator)
    if fit.model.measure is not None:
        q = np.concatenate([q.ravel() for _, q in _blocks(fit)])
        return _unravelled(draw(q, size, generator), fit.shape)
    q = np.exp(log_density(fit))
    q *= fit.model.weights
    boxes = _unravelled(draw(q.ravel(), size, generator), quotient.merged_shape)
    cells = np.empty((size, len(fit.shape)), dtype=np.int64)
    for k, (cut, length) in enumerate(zip(quotient.cuts, fit.shape, strict=True)):
        ends = np.append(cut[1:], length)
        cells[:, k] = generator.integers(cut[boxes[:, k]], ends[boxes[:, k]])
    return cells


def mode(fit: Decomposition) -> tuple[int, ...]:
    """Find the most probable cell, the first in C order where several are."""
    if fit.model.support.points is not None:
        log_q = log_prob(fit, fit.model.support.points)
        return tuple(int(i) for i in fit.model.support.points[_first(log_q, float(log_q.max()))])
    if fit.model.by_cliques and fit.alive is None:
        return Law(fit.model, fit.theta).mode(TIE)
    if fit.model.measure is None:
        log_q = log_density(fit)
        box = np.unravel_index(_first(log_q, float(log_q.max())), log_q.shape)
        # corners of boxes come in the order of the boxes
        return tuple(int(cut[i]) for cut, i in zip(fit.model.quotient.cuts, box, strict=True))
    peak = max(float(log_q.max()) for _, log_q in _log_blocks(fit))
    rows, log_q = next(block for block in _log_blocks(fit) if block[1].max() >= peak - TIE)
    place = np.unravel_index(_first(log_q, peak), log_q.shape)
    return rows.start + int(place[0]), *(int(i) for i in place[1:])


def _first(log_q: FloatArray, peak: float) -> int:
    return int(np.argmax(log_q >= peak - TIE))


def _blocks(fit: Decomposition) -> Iterator[tuple[slice, FloatArray]]:
    """Q, some rows of the first mode at a time."""
    density = np.exp(log_density(fit))
    for rows in rows_of(fit.shape):
        yield rows, probability(fit, density, rows, fit.model.support.mask)


def _log_blocks(fit: Decomposition) -> Iterator[tuple[slice, FloatArray]]:
    for rows, q in _blocks(fit):
        with np.errstate(divide="ignore"):
            log_q = np.log(q)
        yield rows, log_q


def _spread(fit: Decomposition, grid: AnyArray, modes: Sequence[int]) -> AnyArray:
    """Copy each box's value to its cells, on a grid of some modes only."""
    size = math.prod(fit.shape[k] for k in modes)
    check_room(size, 8, f"a table over the modes {list(modes)}", "Ask for fewer modes.")
    for axis, k in enumerate(modes):
        if len(fit.model.quotient.cuts[k]) < fit.shape[k]:
            grid = grid.take(fit.model.quotient.box_of(k), axis=axis)
    return grid


def draw(q: FloatArray, n: int, generator: np.random.Generator) -> IntArray:
    """Invert the distribution function; ``random() < 1``, so that no entry of probability 0 is ever drawn."""
    cumulated = np.cumsum(q)
    found: IntArray = np.searchsorted(cumulated, generator.random(n) * cumulated[-1], side="right").astype(np.int64)
    return found


def _unravelled(flat: IntArray, shape: tuple[int, ...]) -> IntArray:
    return np.stack(np.unravel_index(flat, shape), axis=1).astype(np.int64)
