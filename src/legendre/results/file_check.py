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
from legendre.engines.rounding import EPS, apart, rounding
from legendre.engines.tied import TiedEngine
from legendre.model.model import Model
from legendre.results.file_face import unpack_face
from legendre.results.file_format import Archive
from legendre.results.file_model import unpack_eta, unpack_model, unpack_origin, unpack_point
from legendre.results.growth_path import read_rounds
from legendre.results.least_excess import excess_at_least, excess_of_events
from legendre.solvers.status import Status
from legendre.solvers.structure.rank import independent, rank_of

SHARE = 1e-9  # by which two orders of summation may differ


def _sweeps(model: Model, alive: BoolArray | None) -> float:
    """How many evaluations of the model (on its face), in NumPy, may be made of it in about half a second."""
    space = model.space
    if space.form == "list":
        return limits.FEW_PAIRS / max(1, space.n_cells * model.n_params)
    if model.on_face(alive).space.form != "grid":
        return limits.LARGEST_CHECK / max(1, space.additions)
    if model.one_body:  # no grid is swept
        return max(1.0, limits.LARGEST_CHECK / sum(space.quotient.merged_shape))
    return limits.LARGEST_CHECK / (space.n_cells * len(space.quotient.shape))


def _engine(model: Model, alive: BoolArray | None) -> Engine:
    """Choose an engine for the model (on its face) for which nothing is compiled."""
    on_face = model.on_face(alive)
    grid = on_face.space.form == "grid" and not on_face.one_body
    engine: Engine = ReferenceEngine(on_face.untied) if grid else engine_for(on_face.untied)
    return engine if on_face.ties is None else TiedEngine(on_face, engine)


def evaluated(model: Model, theta: FloatArray, alive: BoolArray | None) -> Point | None:
    """Evaluate the model (on its face) at theta, without compiling anything; ``None`` where that takes seconds."""
    if _sweeps(model, alive) < 1.0:
        return None
    with np.errstate(all="ignore"):  # theta of a file may be anything
        return _engine(model, alive).at(theta)


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
    arrays: Archive, model: Model, point: Point, again: Point, eta_hat: FloatArray, status: Status
) -> None:
    """Refuse a status that says converged where max|eta - eta_hat| is above tol.

    Of eta in the file it is compared as it is, of eta that was computed anew (`again`) up to rounding.
    """
    tol = arrays.number("tol")
    if not tol >= 0.0:
        raise arrays.unfit(f"tol is {tol:g}")
    stored = 0.0 if "eta" in arrays else rounding(model, point)  # the first files did not have it
    for eta, known in ((point.eta, stored), (again.eta, rounding(model, again))):
        residual = float(np.abs(eta - eta_hat).max(initial=0.0))
        if status.converged and not residual <= tol + known:
            where = f"max|eta - eta_hat| at its theta is {residual:.2g}, above tol = {tol:g}"
            raise arrays.unfit(f"the status is {status.name}, but {where}")


def check_gap(arrays: Archive, model: Model, again: Point, eta_hat: FloatArray, alive: BoolArray | None) -> float:
    """Refuse a bound of KL(P, Q) above its minimum that is below what is proved to lie above it, which is returned."""
    gap, gradient, known = arrays.number("gap"), again.eta - eta_hat, rounding(model, again)
    least = excess_of_events(model, gradient, known)
    steps = int(min(limits.GAP_STEPS, model.n_params, _sweeps(model, alive) / limits.GAP_SHARE))
    if least > 0.0 and steps and again.cache is not None:
        least = max(least, excess_at_least(_engine(model, alive), again, gradient, known, steps))
    if not gap >= least:
        raise arrays.unfit(f"the gap is {gap:.2g}, but at its theta KL lies above its minimum by {least:.2g} or more")
    return least


def check_kl(arrays: Archive, model: Model, point: Point, eta_hat: FloatArray, least: float) -> None:
    """Refuse a KL(P, Q) that no X with these expectations has, or one that is nearer to its minimum than `least`.

    It is ``psi - theta . eta_hat`` less the entropy of P, which X alone tells; without a base measure that is 0 or
    more.
    """
    kl, terms = arrays.number("kl"), point.theta * eta_hat
    most = point.psi - float(terms.sum()) if model.base is None else math.inf
    slack = SHARE * (1.0 + abs(point.psi) + float(np.abs(terms).sum()))
    if model.ties is not None:  # their expectations are sums and differences of others, and of those a rounding error
        slack += EPS * float(np.abs(point.theta) @ model.ties.collect_sizes(np.ones(model.ties.n_cells)))
    if not math.isfinite(kl) or not least - slack <= kl <= most + slack:
        raise arrays.unfit(f"kl is {kl:g}, where theta and eta_hat leave {least:.2g} to {most:.4g}")


def check_rank(arrays: Archive, model: Model) -> None:
    """Refuse a number of independent parameters that is not that of the model on its face, or cannot be."""
    rank, bound, k = (
        arrays.whole("rank"),
        "rank_is_bound" in arrays and bool(arrays.whole("rank_is_bound")),
        model.n_params,
    )
    most, exact = k, model.plain
    if not exact and model.ties is None and k <= limits.RANK_CHECK and _sweeps(model, None) >= 1.0:
        found = rank_of(model, independent(model))
        most, exact = found.n, found.exact
    if rank > k or (exact and (rank < most or (rank > most and not bound))):
        counted = f", of which {most} are independent" if most < k or rank < k else ""
        raise arrays.unfit(f"the rank is {rank} of {k} parameters{counted}")


def check_recession(arrays: Archive, model: Model, alive: BoolArray | None) -> FloatArray:
    """Refuse a direction in which cells vanish where none do."""
    recession = arrays.floats("recession", model.n_params)
    if alive is None and recession.any():
        raise arrays.unfit("theta runs to infinity along its recession, but no cells vanish")
    return recession


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
    eta_hat, point = unpack_eta(arrays, "eta_hat", model), unpack_point(arrays, model, alive)
    again = check_point(arrays, model, point, alive)
    check_rank(arrays, model.on_face(alive))
    check_certificate(arrays, model, point, again, eta_hat, status)
    least = check_gap(arrays, model, again, eta_hat, alive)
    check_kl(arrays, model, point, eta_hat, least)
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
    recession = check_recession(arrays, model, alive)
    return found | {"recession": recession, "total": arrays.total(), "stored": stored}


def same(one: float, other: float, share: float = SHARE) -> bool:
    """Whether two numbers are the same up to a share of them, which two orders of summation may differ by."""
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or math.isinf(other):
        return one == other or (math.isnan(one) and math.isnan(other))
    return abs(one - other) <= share * max(1.0, abs(one), abs(other))
