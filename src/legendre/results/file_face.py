"""Which cells carry probability at a boundary, in a file: marks of merged cells, or the empty entries of tables."""

from __future__ import annotations

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray
from legendre.model.cliques.tables import Part, on_grid, parts_of, with_parts
from legendre.model.model import Model
from legendre.results.file_format import Archive, Arrays, nested, packed_mask


def pack_face(model: Model, alive: BoolArray | None) -> Arrays:
    """Write which merged cells carry probability; of tables over cliques the merged cells that do not, by modes."""
    space = model.on_face(alive).space
    if alive is None or space.form != "cliques":
        return packed_mask("alive", alive)
    empty = {"_".join(map(str, modes)): np.argwhere(~marks) for modes, marks in parts_of(space.tables)}
    return nested("vanishing", empty)


def unpack_face(arrays: Archive, model: Model) -> BoolArray | None:
    """Read the same, in the form in which the model is summed."""
    space, merged_shape = model.space, model.quotient.merged_shape
    held = arrays.part("vanishing")
    if not held.names():
        return arrays.mask("alive", (space.n_cells,) if space.form == "list" else merged_shape)
    parts = [_part(held, name, merged_shape) for name in held.names()]
    if space.form == "cliques":
        tree = space.tables.tree
        if not all(set(modes) <= set(tree.cliques[tree.home_of(modes)].modes) for modes, _ in parts):
            raise arrays.unfit("cells vanish by modes that the basis does not couple")
        return with_parts(space.tables, parts).alive
    if not space.whole or space.n_cells > limits.LARGEST_GRID:
        raise arrays.unfit("cells vanish by tables over modes, but the basis has none")
    return on_grid(parts, merged_shape)


def _part(held: Archive, name: str, merged_shape: tuple[int, ...]) -> Part:
    """Read the entries of one table, whose name tells its modes."""
    words = name.split("_")
    modes = tuple(int(word) for word in words if word.isdecimal() and len(word) < 8)
    coupled = [k for k in modes if k < len(merged_shape) and merged_shape[k] > 1]
    if len(set(coupled)) < len(words):
        raise held.unfit(f"'{name}' names no modes of a tensor of {len(merged_shape)}")
    shape = tuple(merged_shape[k] for k in modes)
    cells = held.integers(name, None, len(modes)).astype(np.int64)
    if (cells < 0).any() or (cells >= shape).any() or np.prod(shape, dtype=float) > limits.LARGEST_CLIQUES:
        raise held.unfit(f"cells of '{name}' lie outside its table")
    marks = np.ones(shape, dtype=np.bool_)
    marks[tuple(cells.T)] = False
    return modes, marks
