"""The model's values outside the support, and where they are to be believed."""

from __future__ import annotations

import numpy as np

from legendre.core.types import BoolArray, FloatArray
from legendre.results.decomposition import Decomposition
from legendre.results.tensor import tensor
from legendre.solvers.before.identifiability import identify


def extrapolate(fit: Decomposition) -> tuple[FloatArray, BoolArray | None]:
    """Compute the model's value at every cell in X's units, and tell where the support determines it.

    Where it does not, parameters that are left open count as 0. ``None`` when the question is too large.

    Examples
    --------
    >>> import legendre as ld
    >>> value, determined = extrapolate(ld.decompose([[1, 2], [3, np.nan]], ld.interactions(1)))
    >>> value.round(9).tolist(), bool(determined.all())
    ([[1.0, 2.0], [3.0, 6.0]], True)
    """
    value = tensor(fit, extend=True)
    nowhere = None if fit.model.base is None else fit.model.base == 0
    if nowhere is not None:
        value[nowhere] = 0.0
    found = identify(fit.model, fit.alive)
    if found is None:
        return value, None
    spread = fit.model.quotient.spread
    value[spread(found.zero)] = 0.0
    determined: BoolArray = np.array(spread(found.value | found.zero))
    return value, determined if nowhere is None else determined | nowhere


def determined_values(fit: Decomposition) -> FloatArray:
    """Return the model's values, NaN where the support does not determine them; all of them when that is unknown."""
    value, determined = extrapolate(fit)
    if determined is not None:
        value[~determined] = np.nan
    return value
