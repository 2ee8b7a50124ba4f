"""What one block of a large X tells of sums over boxes and above cells, and of Q.

Blocks are read by threads or by other machines: everything here is a function of its arguments, and runs in the thread
that calls it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legendre.core.memory import BLOCK
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, FloatArray, IntArray

Cell = tuple[int, ...]  # an index vector of the whole grid, or the sides of a rectangle


class BlockSums(NamedTuple):
    """Sums on a rectangle of a grid, and where the rectangle begins."""

    start: Cell
    values: FloatArray

    def join(self, other: BlockSums) -> BlockSums:
        """Add up on the smallest rectangle that holds both."""
        start = tuple(map(min, self.start, other.start))
        values = np.zeros([max(a, b) - o for a, b, o in zip(self.stop, other.stop, start, strict=True)])
        for part in (self, other):
            rows = (slice(a - o, b - o) for a, b, o in zip(part.start, part.stop, start, strict=True))
            values[tuple(rows)] += part.values
        return BlockSums(start, values)

    @property
    def stop(self) -> Cell:
        """Where the rectangle ends."""
        return tuple(o + n for o, n in zip(self.start, self.values.shape, strict=True))


def merge(block: AnyArray, start: Cell, quotient: Quotient) -> BlockSums:
    """Sum a block over the boxes that it meets."""
    from legendre.core.sums.kernels.box_sums import sums_over_boxes_alone

    x = numbers(block)
    boxes = boxes_of(quotient, start, x.shape)
    first = [int(box[0]) for box in boxes]
    return BlockSums(tuple(first), sums_over_boxes_alone(x, [box - low for box, low in zip(boxes, first, strict=True)]))


def boxes_of(quotient: Quotient, start: Cell, shape: Cell) -> list[IntArray]:
    """Find the interval of each coordinate of a block, mode by mode."""
    return [quotient.boxes_along(k, np.arange(o, o + n)) for k, (o, n) in enumerate(zip(start, shape, strict=True))]


def above(block: AnyArray, start: Cell, cells: IntArray) -> FloatArray:
    """Sum what a block has above each of some cells of the whole grid."""
    from legendre.core.sums.kernels.suffix_sums import suffix_sums

    x = numbers(block)
    out = np.zeros(len(cells))
    reached, local = meeting(cells, start, x.shape)
    if len(local):
        quotient = Quotient.of(x.shape, local)
        out[reached] = suffix_sums(x, quotient.cuts, quotient.boxes(local), alone=True)
    return out


def meeting(cells: IntArray, start: Cell, shape: Cell) -> tuple[IntArray, IntArray]:
    """List the cells that some cell of a block is above, and the least such cell, counted from the block's corner."""
    reached = np.flatnonzero((cells < np.add(start, shape)).all(axis=1))
    return reached, np.maximum(cells[reached] - np.array(start, dtype=np.int64), 0)


def squares(block: AnyArray, start: Cell, law: FittedModel) -> float:
    """Sum ``(p - q)^2`` over a block."""
    x = numbers(block)
    total = 0.0
    difference = law.on(start, x.shape)
    difference -= x / np.float64(law.total)  # in float64, whatever the type of X is
    for piece in pieces(difference):
        total += float(np.einsum("i,i->", piece, piece))
    return total


class FittedModel(NamedTuple):
    """Q as a function of where it is asked: theta on some cells, psi, and the merged cells that carry probability."""

    cells: IntArray
    theta: FloatArray
    psi: float
    total: float
    quotient: Quotient
    alive: Any = None

    def on(self, start: Cell, shape: Cell) -> FloatArray:
        """Return Q on a rectangle of the grid: running sums of the parameters that reach it (eq. 2)."""
        reached, local = meeting(self.cells, start, shape)
        quotient = Quotient.of(shape, local)
        grid = np.zeros(quotient.merged_shape)
        np.add.at(grid, tuple(quotient.boxes(local).T), self.theta[reached])
        q: FloatArray = np.array(quotient.spread(np.exp(zeta(grid) - self.psi)), dtype=np.float64)
        if self.alive is not None:
            q[~self.alive[np.ix_(*boxes_of(self.quotient, start, shape))]] = 0.0
        return q


def negentropy(block: AnyArray, start: Cell, total: float) -> float:  # noqa: ARG001 - every reader is told its place
    """Sum ``p log p`` over a block."""
    own = 0.0
    for piece in pieces(numbers(block)):
        p = piece[piece > 0] / np.float64(total)  # in float64, whatever the type of X is
        own += float((p * np.log(p)).sum())
    return own


def whole(block: AnyArray, start: Cell) -> bool:  # noqa: ARG001 - every reader is told its place
    """Tell whether every entry of a block is a whole number."""
    return all(bool((piece == np.rint(piece)).all()) for piece in pieces(numbers(block)))


def numbers(block: AnyArray) -> AnyArray:
    """Return a block in C order, in a type that compiled code reads; masked entries are NaN."""
    from legendre.core.sums.kernels.memory_walk import plain

    if isinstance(block, np.ma.MaskedArray):
        block = np.where(np.ma.getmaskarray(block), np.nan, np.ma.getdata(block))
    return np.ascontiguousarray(plain(np.asarray(block)))


def pieces(x: AnyArray) -> list[AnyArray]:
    """Cut a block in C order into vectors of moderate length."""
    flat = x.reshape(-1)
    return [flat[i : i + BLOCK // 16] for i in range(0, len(flat), BLOCK // 16)]
