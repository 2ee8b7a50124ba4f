"""Which engine for which model: by size and structure only, so that the same input gives the same answer."""

from __future__ import annotations

from legendre.core.memory import check_room
from legendre.engines.cell_list import CellListEngine
from legendre.engines.junction import JunctionEngine
from legendre.engines.product import ProductEngine
from legendre.engines.protocol import Engine
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model

SMALL_CELLS, SMALL_BASIS = 100_000, 1_500
"""Up to here NumPy takes milliseconds, and waiting for a compiler does not pay."""
SHORT_MODES, SHORT_CELLS = 4, 1 << 24
"""Where no mode has more levels than this, compiled sweeps along modes are all overhead: NumPy up to so many cells."""
LARGEST_MATRIX = 10_000
"""The largest basis for which a Fisher matrix is formed."""
COSTLY = 1 << 27
"""Merged cells from which on a sweep takes seconds, and none is made that is not needed."""
SLABS, SHEETS = 20, 5
"""Arrays of the size of a slab, or of the merged grid, that a sweep of the one or the other engine needs at least."""


def engine_for(model: Model, *, products: bool = False) -> Engine:
    """Choose an engine; `products` says that Fisher-vector products will be asked for.

    Compiled engines are imported only here, and only when they are chosen: that import loads the compiler. What is
    large and lives on another device is swept there.
    """
    if model.cells is not None:
        return CellListEngine(model)
    if ProductEngine.applies(model):
        return ProductEngine(model)
    if model.by_cliques and (model.n_params <= LARGEST_MATRIX or not model.formable):
        return JunctionEngine(model)
    short = max(model.quotient.merged_shape) <= SHORT_MODES
    if model.n_merged <= (SHORT_CELLS if short else SMALL_CELLS) and model.n_params <= SMALL_BASIS:
        return ReferenceEngine(model)
    if model.device is not None:
        from legendre.engines.device import DeviceEngine

        return DeviceEngine(model)
    if model.measure is None and model.n_params <= LARGEST_MATRIX and not products:
        slab = model.n_merged // max(model.quotient.merged_shape)
        check_room(slab, 8 * SLABS, "a slab of the merged grid", "Use a basis with fewer different coordinates.")
        from legendre.engines.slabs import SlabEngine

        return SlabEngine(model)
    check_room(
        model.n_merged,
        8 * SHEETS,
        f"a fit of {model.n_params:,} parameters on a merged grid",
        f"Up to {LARGEST_MATRIX:,} parameters on a full grid do without that grid.",
    )
    from legendre.engines.dense import DenseEngine

    return DenseEngine(model)
