"""A model and a member of it, in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.basis.basis import inside_grid
from legendre.core.cells import cell_keys, frozen
from legendre.core.origin import PLAIN, Origin, read_origin
from legendre.core.tied_parameters import Ties
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.support import Support
from legendre.engines.choose import engine_for
from legendre.engines.protocol import Point
from legendre.model.model import Model
from legendre.results.file_face import pack_face
from legendre.results.file_format import ROUNDING, Archive, Arrays, nested, pack_plain, packed_mask
from legendre.results.growth_path import pack_rounds

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def pack_model(model: Model, point: Point) -> Arrays:
    """Write a model and a member of it."""
    some = {"base": model.base, "points": model.support.points}
    return {
        "shape": np.array(model.support.shape, dtype=np.int64),
        "basis": model.basis,
        "theta": point.theta,
        "eta": point.eta,
        "psi": point.psi,
        **packed_mask("support", model.support.mask),
        **{name: array for name, array in some.items() if array is not None},
        **_packed_ties(model.ties),
    }


def _packed_ties(ties: Ties | None) -> Arrays:
    """Write the entries of A and the names of its columns; nothing where no parameters are tied."""
    if ties is None:
        return {}
    parts = {"rows": ties.rows, "columns": ties.columns, "values": ties.values, "names": np.array(ties.names)}
    return nested("ties", parts)


def _unpack_ties(arrays: Archive, n_cells: int) -> Ties | None:
    """Read A, whose entries stand column after column and belong to cells of the basis."""
    part = arrays.part("ties")
    if "names" not in part:
        return None
    names = [str(name) for name in part.array("names", "U", (None,))]
    values = part.floats("values", None)
    rows, columns = (part.integers(name, len(values)).astype(np.int64) for name in ("rows", "columns"))
    inside = (rows >= 0) & (rows < n_cells) & (columns >= 0) & (columns < len(names))
    if not inside.all() or (np.diff(columns) < 0).any():
        raise arrays.unfit(f"the ties are not those of {n_cells} cells and {len(names)} parameters")
    if (np.diff(cell_keys(np.column_stack([columns, rows])[np.lexsort((rows, columns))])) == 0).any():
        raise arrays.unfit("the ties name a cell twice for one parameter")
    return Ties(n_cells, frozen(rows), frozen(columns), values, tuple(names))


def unpack_model(arrays: Archive, base: FloatArray | None = None) -> Model:
    """Read a model."""
    shape = arrays.shape()
    basis = arrays.integers("basis", None, len(shape))
    if len(inside_grid(basis, shape)) < len(basis):
        raise arrays.unfit(f"cells of the basis are repeated, or outside the grid {shape}")
    if base is None and "base" in arrays:
        base = arrays.floats("base", *shape, finite=False)
    support = Support(shape, arrays.mask("support", shape), _unpack_points(arrays, shape))
    inside = slice(None) if support.mask is None else support.mask
    if base is not None and (support.points is not None or not _measures(base[inside])):
        raise arrays.unfit("the base measure is no measure on the support")
    if base is None and support.mask is not None and not support.mask.any():
        raise arrays.unfit("the support is empty")
    return Model.of(support, base, basis, ties=_unpack_ties(arrays, len(basis)))


def _measures(base: FloatArray) -> bool:
    return bool(np.isfinite(base).all() and (base >= 0).all() and (base > 0).any())


def _unpack_points(arrays: Archive, shape: tuple[int, ...]) -> IntArray | None:
    """Read the cells of a listed support: inside the grid, in C order, none twice."""
    if "points" not in arrays:
        return None
    points = arrays.integers("points", None, len(shape))
    if not len(points) or (points < 0).any() or (points >= shape).any() or "support" in arrays:
        raise arrays.unfit(f"points of the support lie outside the grid {shape}")
    steps = np.diff(points.astype(np.int64), axis=0)
    first = np.argmax(steps != 0, axis=1)  # the first mode in which a cell differs from the one before it
    if (steps[np.arange(len(steps)), first] <= 0).any():
        raise arrays.unfit("points of the support are repeated, or not in order")
    return points


def unpack_point(arrays: Archive, model: Model, alive: BoolArray | None = None) -> Point:
    """Read the member of the model; where only theta was written, the rest is computed."""
    theta = arrays.floats("theta", model.n_params)
    if int(arrays.arrays["version"]) < 2:
        return engine_for(model.on_face(alive)).at(theta)
    psi = arrays.number("psi")
    if not np.isfinite(psi):
        raise arrays.unfit(f"{arrays.prefix}psi is {psi:g}")
    return Point(theta, unpack_eta(arrays, "eta", model), psi)


def unpack_eta(arrays: Archive, name: str, model: Model) -> FloatArray:
    """Read expectations of the features: probabilities, unless parameters are tied."""
    if model.ties is None:
        return arrays.expectations(name, model.n_params)
    found = arrays.floats(name, model.n_params)
    if (np.abs(found) > model.ties.size * (1 + ROUNDING)).any():
        raise arrays.unfit(f"{arrays.prefix}{name} holds numbers beyond the values of the features")
    return found


def pack_origin(origin: Origin) -> Arrays:
    """Write what X was, and its labels; nothing for an array without."""
    return nested("origin", origin.to_arrays())


def unpack_origin(arrays: Archive, shape: tuple[int, ...]) -> Origin:
    """Read what X was; files of arrays without labels hold nothing of it."""
    part = arrays.part("origin")
    if "about" not in part:
        return PLAIN
    held = part.part("levels")
    stored = {name: held.array(name, "UiufMmb", (None,)) for name in held.names()}
    try:
        order = part.integers("order", None) if "order" in part else np.empty(0, dtype=np.int64)
        return read_origin(part.text("about"), shape, stored, order)
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise arrays.unfit(f"its labels are none of a tensor of shape {shape} ({problem})") from None


def pack_fit(fit: Decomposition) -> Arrays:
    """List what of a decomposition cannot be computed again without X."""
    plain = pack_plain(fit)
    return {
        **pack_model(fit.model, fit.point),
        "gap": plain.pop("newton_gap"),
        **plain,
        "eta_hat": fit.eta_hat,
        "recession": fit.recession,
        "kl": fit.kl,
        "rmse": fit.rmse,
        **pack_origin(fit.origin),
        **packed_mask("missing", fit.missing),
        **pack_face(fit.model, fit.alive),
        **({"path": pack_rounds(fit.path)} if fit.path else {}),
    }
