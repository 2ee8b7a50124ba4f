"""A decomposition as named arrays, and back."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.basis.basis import inside_grid
from legendre.core.types import AnyArray, BoolArray
from legendre.data.support import Support
from legendre.engines.choose import engine_for
from legendre.model.model import Model
from legendre.solvers.loop import pack_history, unpack_history
from legendre.solvers.status import Status

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

FORMAT = "legendre-decomposition"
VERSION = 1


class Unreadable(Exception):
    """The arrays are not a decomposition, or one from a newer version."""


def pack(fit: Decomposition) -> dict[str, Any]:
    """List what cannot be computed again without X."""
    arrays: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "shape": np.array(fit.shape, dtype=np.int64),
        "basis": fit.basis,
        "theta": fit.theta,
        "eta_hat": fit.eta_hat,
        "total": fit.total,
        "recession": fit.recession,
        "status": fit.status.name,
        "rank": fit.rank,
        "gap": fit.newton_gap,
        "solver": fit.solver,
        "tol": fit.tol,
        "recipe": fit.recipe,
        "history": pack_history(fit.history),
        "kl": fit.kl,
        "rmse": fit.rmse,
    }
    optional = {"support": fit.model.support.mask, "missing": fit.missing, "alive": fit.alive}
    arrays |= {name: np.packbits(mask) for name, mask in optional.items() if mask is not None}
    if fit.model.base is not None:
        arrays["base"] = fit.model.base
    if fit.model.support.points is not None:
        arrays["points"] = fit.model.support.points
    if fit.path:
        arrays["path"] = np.array([astuple(step) for step in fit.path])
    return arrays


def unpack(arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """Rebuild the fields of a decomposition; the model is merged and evaluated anew."""
    _check_format(arrays)
    _check_parts(arrays)
    shape = tuple(int(n) for n in arrays["shape"])
    support = Support(shape, _mask(arrays, "support", shape), arrays.get("points"))
    model = Model.of(support, arrays.get("base"), arrays["basis"])
    alive = _mask(arrays, "alive", model.quotient.merged_shape)
    return {
        "model": model,
        "point": engine_for(model.on_face(alive)).at(arrays["theta"]),
        "eta_hat": arrays["eta_hat"],
        "total": float(arrays["total"]),
        "alive": alive,
        "recession": arrays["recession"],
        "missing": _mask(arrays, "missing", shape),
        "status": Status[str(arrays["status"])],
        "rank": int(arrays["rank"]),
        "newton_gap": float(arrays["gap"]),
        "history": unpack_history(arrays["history"]),
        "solver": str(arrays["solver"]),
        "tol": float(arrays["tol"]),
        "recipe": str(arrays["recipe"]),
        "path": arrays.get("path", ()),
        "stored": {"kl": float(arrays["kl"]), "rmse": float(arrays["rmse"])},
    }


def _check_format(arrays: dict[str, AnyArray]) -> None:
    if str(arrays.get("format")) != FORMAT:
        names = ", ".join(sorted(arrays)[:5]) or "nothing"
        raise Unreadable(f"not a saved decomposition (it holds {names}).")
    if int(arrays["version"]) > VERSION:
        raise Unreadable(
            f"its format version is {int(arrays['version'])}, this library reads up to {VERSION}. Update legendre."
        )


def _check_parts(arrays: dict[str, AnyArray]) -> None:
    basis, total = arrays["basis"], arrays["total"]
    shape = tuple(int(n) for n in arrays["shape"])
    sound = basis.dtype.kind == "i" and basis.ndim == 2 and basis.shape[1] == len(shape)
    sound = sound and len(inside_grid(basis, shape)) == len(basis)
    for name in ("theta", "eta_hat", "recession"):
        part = arrays[name]
        sound = sound and part.shape == basis.shape[:1] and part.dtype.kind == "f" and bool(np.isfinite(part).all())
    if not (sound and len(arrays["history"]) and np.isfinite(total) and total > 0):
        raise Unreadable("a saved decomposition, but its parts do not fit together.")


def _mask(arrays: dict[str, AnyArray], name: str, shape: tuple[int, ...]) -> BoolArray | None:
    if name not in arrays:
        return None
    size, stored = math.prod(shape), arrays[name]
    if len(stored) != -(-size // 8):
        raise Unreadable(f"a saved decomposition, but its {name} has {len(stored)} bytes for {size} cells.")
    return np.unpackbits(stored, count=size).reshape(shape).astype(np.bool_)
