"""What the file of a balanced tensor says, compared with what follows from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import BoolArray, FloatArray
from legendre.engines.rounding import EPS
from legendre.model.model import Model
from legendre.results.file_check import check_gap, check_point
from legendre.results.file_format import Archive
from legendre.solvers.status import Status
from legendre.tasks.balance.margins import Margins, other_modes

if TYPE_CHECKING:
    from legendre.tasks.balance.result import Balanced

AGREEING = 1e-9  # the share by which a tensor and the product of its factors, or two sums of a margin, may differ


def check_face(arrays: Archive, found: Balanced) -> BoolArray:
    """Refuse vanishing cells, a gap, or eta and psi of theta that cannot be; return the cells that do not vanish."""
    gone, X, status = found.vanishing_cells, found.X, found.status
    if (gone < 0).any() or (gone >= X.shape).any():
        raise arrays.unfit(f"vanishing cells lie outside the grid {X.shape}")
    alive: BoolArray = X > 0
    alive[tuple(gone.T)] = False
    if not alive.any() or int((X > 0).sum() - alive.sum()) != len(gone):
        raise arrays.unfit("cells vanish twice, or all of them, or where X is 0")
    if (status is Status.CONVERGED and len(gone)) or (status is Status.AT_BOUNDARY and not len(gone)):
        raise arrays.unfit(f"the status is {status.name}, and {len(gone)} cells vanish")
    face = found.model.quotient.merge(alive.astype(np.float64)) > 0
    on_face = face if len(gone) else None
    again = check_point(arrays, found.model, found.point, on_face)
    check_gap(arrays, found.model, again, found.eta_hat, on_face)
    return alive


def check_tensor(arrays: Archive, found: Balanced, again: FloatArray) -> None:
    """Refuse a tensor that is not X times its factors (`again`), or has not the margins that its status promises."""
    margins, tol = found.margins, found.tol
    for modes, values in margins.values.items():
        if not (np.isfinite(values) & (values >= 0)).all():
            raise arrays.unfit(f"the margin of the modes {modes} is no margin")
        if not np.isclose(values.sum(), margins.total, rtol=AGREEING + tol, atol=0.0):
            raise arrays.unfit(f"the margin of the modes {modes} does not sum to {margins.total:g}")
    if set(found.parts) != set(margins.largest_sets) or any(np.isnan(part).any() for part in found.parts.values()):
        raise arrays.unfit("the factors are not those of the margins")
    if not np.allclose(found.values, again, rtol=AGREEING, atol=AGREEING * float(found.values.max())):
        raise arrays.unfit("the tensor is not X times its factors")
    if not np.allclose(found.eta_hat, _expectations(found.model, margins), rtol=0.0, atol=AGREEING + tol):
        raise arrays.unfit("eta_hat is not that of the margins")
    error, name = margins.worst(found.values), found.status.name
    if found.converged and not error <= tol + EPS * found.X.size:
        raise arrays.unfit(f"the status is {name}, but a margin is missed by {error:.2g}, above tol = {tol:g}")


def _expectations(model: Model, margins: Margins) -> FloatArray:
    """Sum the margins, made to sum to 1, at or above the cells of B: each within the first margin with its modes."""
    cells, out = model.basis, np.zeros(model.n_params)
    for modes, values in reversed(margins.normalised().items()):
        own = ~(cells[:, other_modes(modes, cells.shape[1])] > 0).any(axis=1)
        out[own] = zeta_adjoint(values)[tuple(cells[own][:, modes].T)]
    return out
