"""Hypothesis strategies: tensors of order 1 to 5 with random sample spaces and random bases."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cases import BoolArray, Case
from oracles import FloatArray, IntArray


@st.composite
def shapes(draw: st.DrawFn, max_cells: int = 36, max_order: int = 5, min_order: int = 1) -> tuple[int, ...]:
    order = draw(st.integers(min_order, max_order))
    shape: list[int] = []
    room = max_cells
    for _ in range(order):
        shape.append(draw(st.integers(1, max(1, min(room, 6)))))
        room //= shape[-1]
    return tuple(draw(st.permutations(shape)))


def positive_tensors(shape: tuple[int, ...]) -> st.SearchStrategy[FloatArray]:
    return hnp.arrays(np.float64, shape, elements=st.floats(0.125, 8.0, width=32), fill=st.nothing())


def count_tables(shape: tuple[int, ...]) -> st.SearchStrategy[FloatArray]:
    """Small counts, about half of them zero, at least one positive."""
    counts = st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 3.0])
    return hnp.arrays(np.float64, shape, elements=counts, fill=st.nothing()).filter(lambda x: bool(x.any()))


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> BoolArray:
    """Omega: all of the grid in one draw of three, otherwise any non-empty subset."""
    if draw(st.integers(0, 2)) == 0:
        return np.ones(shape, dtype=np.bool_)
    drawn = draw(hnp.arrays(np.bool_, shape, fill=st.nothing()))
    return drawn if drawn.any() else np.ones(shape, dtype=np.bool_)


@st.composite
def bases(draw: st.DrawFn, shape: tuple[int, ...], max_params: int = 12) -> IntArray:
    """Any cells of the grid but the bottom, in any order, inside Omega or not."""
    cells = [v for v in product(*map(range, shape)) if any(v)]
    chosen = draw(st.lists(st.sampled_from(cells), unique=True, max_size=max_params)) if cells else []
    return np.array(chosen, dtype=np.int64).reshape(len(chosen), len(shape))


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    max_cells: int = 36,
    max_order: int = 5,
    min_order: int = 1,
    max_params: int = 12,
    full_grid: bool = False,
    zeros: bool = False,
    weighted: bool = False,
) -> Case:
    """Positive data, or small counts with zeros; r = 1, or a base measure."""
    shape = draw(shapes(max_cells, max_order, min_order))
    mask = np.ones(shape, dtype=np.bool_) if full_grid else draw(masks(shape))
    X = draw(count_tables(shape) if zeros else positive_tensors(shape))
    if not X[mask].any():
        mask = np.ones(shape, dtype=np.bool_)
    base = draw(positive_tensors(shape)) if weighted else None
    return Case(X, mask, draw(bases(shape, max_params)), base)


seeds = st.integers(0, 2**32 - 1)
