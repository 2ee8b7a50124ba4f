"""How a fit is repeated: the call in Python, and on the command line where that can say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.basis.parse import as_basis
from legendre.core.errors import LegendreError
from legendre.data.observation import Observation

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

USUAL_TOL = 1e-10  # of `decompose`


def call_of_fit(fit: Decomposition, data: Observation | None) -> str:
    """Write the call of `decompose` that gives this fit again."""
    written = _written(fit.recipe)
    support = _support(fit, data)
    tied = fit.ties is not None
    words = ["X", repr(fit.recipe) if written else "basis" if tied else "cells"]
    words += [f"support={support}"] if support else []
    words += ["base=base"] if fit.model.base is not None else []
    words += [f"tol={fit.tol:g}"] if fit.tol != USUAL_TOL else []
    cells = "" if written else "cells = ld.load('fit.npz').basis    # the cells that were chosen\n"
    cells = f"# basis: {fit.recipe}\n" if tied and not written else cells
    call = f"import legendre as ld\n\n{cells}fit = ld.decompose({', '.join(words)})\nfit.report('report.html')"
    if not written or support not in ("", "'nonzero'") or fit.model.base is not None:
        return call
    options = " --support nonzero" if support else ""
    options += f" --tol {fit.tol:g}" if fit.tol != USUAL_TOL else ""
    return (
        f'{call}\n\n# or on the command line\nlegendre fit X.npy -b "{fit.recipe}"{options} -o fit.npz\n'
        "legendre report fit.npz --data X.npy --output report.html"
    )


def _written(recipe: str) -> bool:
    """Whether the text of a basis says all of it."""
    try:
        return repr(as_basis(recipe)) == recipe
    except LegendreError:
        return False


def _support(fit: Decomposition, data: Observation | None) -> str:
    """Write the sample space as an argument; empty for every cell that is a number."""
    support = fit.model.support
    if support.points is not None:
        return "'nonzero'"
    if support.mask is None or (fit.missing is not None and np.array_equal(support.mask, ~fit.missing)):
        return ""
    dense = None if data is None else data.here()
    if dense is not None and np.array_equal(support.mask, dense.values > 0):
        return "'nonzero'"
    return "mask"
