"""What a file says of a fit, compared with what can be computed from theta: a certificate is not believed but checked.

X is not in the file. But eta and psi follow from theta, the residual from eta and the expectations of X, and the status
from the residual: one evaluation of the model shows whether they belong together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray
from legendre.engines.choose import engine_for
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.engines.rounding import apart, rounding
from legendre.engines.tied import TiedEngine
from legendre.model.model import Model
from legendre.results.file_face import unpack_face
from legendre.results.file_format import Archive
from legendre.results.file_model import unpack_eta, unpack_model, unpack_origin, unpack_point
from legendre.results.growth_path import read_rounds
from legendre.solvers.status import Status


def evaluated(model: Model, theta: FloatArray, alive: BoolArray | None) -> Point | None:
    """Evaluate the model (on its face) at theta, without compiling anything; ``None`` where that takes seconds."""
    space = model.space
    if space.form == "list":
        affordable = space.n_cells * model.n_params <= limits.FEW_PAIRS
    elif model.on_face(alive).space.form == "grid":
        affordable = model.one_body or space.n_cells * len(space.quotient.shape) <= limits.LARGEST_CHECK
    else:
        affordable = space.additions <= limits.LARGEST_CHECK
    if not affordable:
        return None
    on_face = model.on_face(alive)
    grid = on_face.space.form == "grid" and not on_face.one_body
    engine: Engine = ReferenceEngine(on_face.untied) if grid else engine_for(on_face.untied)
    engine = engine if on_face.ties is None else TiedEngine(on_face, engine)
    with np.errstate(all="ignore"):  # theta of a file may be anything
        return engine.at(theta)


def check_point(arrays: Archive, model: Model, point: Point, alive: BoolArray | None = None) -> Point:
    """Refuse a member of a model whose eta and psi are not those of its theta; where that is too large, take them.

    Returns the point that the residual is computed from: the evaluation, or else what was stored.
    """
    again = evaluated(model, point.theta, alive)
    if again is None:
        return point
    if not (off := apart(again, point)) <= rounding(model, point):
        raise arrays.unfit(f"eta and psi are not those of theta, but differ by up to {off:.2g}")
    return again


def check_certificate(
    arrays: Archive, model: Model, again: Point, eta_hat: FloatArray, status: Status, tol: float
) -> None:
    """Refuse a status that says converged where max|eta - eta_hat| is above tol by more than rounding."""
    residual = float(np.abs(again.eta - eta_hat).max(initial=0.0))
    if status.converged and not residual <= tol + rounding(model, again):
        raise arrays.unfit(
            f"the status is {status.name}, but max|eta - eta_hat| at its theta is {residual:.2g}, above tol = {tol:g}"
        )


def check_face(arrays: Archive, model: Model, alive: BoolArray | None, status: Status) -> None:
    """Refuse a face that is empty or leaves the sample space, or that the status contradicts."""
    if (status is Status.CONVERGED and alive is not None) or (status is Status.AT_BOUNDARY and alive is None):
        raise arrays.unfit(
            f"the status is {status.name} {'with' if alive is not None else 'without'} cells that vanish"
        )
    whole = model.space.whole
    if alive is not None and (not alive.any() or (not whole and (alive & ~model.alive).any())):
        raise arrays.unfit("alive marks no cell, or cells outside the support")


def read_fit(arrays: Archive, model: Model, alive: BoolArray | None, status: Status) -> tuple[Point, FloatArray]:
    """Read the member of a model that a fit found and the expectations that it should have, and check both."""
    check_face(arrays, model, alive, status)
    if (rank := arrays.whole("rank")) > model.n_params:
        raise arrays.unfit(f"the rank is {rank} of {model.n_params} parameters")
    eta_hat, point = unpack_eta(arrays, "eta_hat", model), unpack_point(arrays, model, alive)
    again = check_point(arrays, model, point, alive)
    check_certificate(arrays, model, again, eta_hat, status, arrays.number("tol"))
    return point, eta_hat


def fit_fields(arrays: Archive, status: Status) -> dict[str, Any]:
    """Read the parts of a decomposition that are no plain numbers or texts."""
    model = unpack_model(arrays)
    alive, missing = unpack_face(arrays, model), arrays.mask("missing", model.support.shape)
    point, eta_hat = read_fit(arrays, model, alive, status)
    if missing is not None and (missing & model.support.on_grid()).any():
        raise arrays.unfit("cells of the support are missing")
    stored = {name: arrays.number(name) for name in ("kl", "rmse")}
    path = read_rounds(arrays, model.n_params, stored["kl"]) if "path" in arrays else ()
    found: dict[str, Any] = {
        "model": model,
        "point": point,
        "eta_hat": eta_hat,
        "alive": alive,
        "missing": missing,
        "path": path,
    }
    found["origin"] = unpack_origin(arrays, model.support.shape)
    return found | {"recession": arrays.floats("recession", model.n_params), "total": arrays.total(), "stored": stored}


def same(one: float, other: float, share: float = 1e-9) -> bool:
    """Whether two numbers are the same up to a share of them, which two orders of summation may differ by."""
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or math.isinf(other):
        return one == other or (math.isnan(one) and math.isnan(other))
    return abs(one - other) <= share * max(1.0, abs(one), abs(other))
