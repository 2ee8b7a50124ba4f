"""The stages of a basis that grows, and how they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from legendre.core.types import AnyArray, FloatArray


@dataclass(frozen=True)
class Round:
    """One stage of growing an adaptive basis.

    Parameters
    ----------
    n_params, kl, rmse
        The size of the basis and how well it fits; rmse is NaN where the basis grew on a coarser grid than X's.
    aic, bic
        ``2 N KL`` plus 2, or log N, for each parameter, N being the sum of X: meant for counts, and up to a constant of
        the data Akaike's and Schwarz's criterion.
    """

    n_params: int
    kl: float
    rmse: float
    aic: float
    bic: float

    @classmethod
    def measured(cls, k: int, kl: float, rmse: float, total: float) -> Round:
        """Add the criteria to the size of a basis and how well it fits."""
        deviance = 2.0 * total * kl
        return cls(k, kl, rmse, deviance + 2 * k, deviance + k * float(np.log(total)))


def pack_rounds(path: Sequence[Round]) -> FloatArray:
    """Write rounds as rows."""
    return np.array([astuple(step) for step in path]).reshape(len(path), len(fields(Round)))


def unpack_rounds(rows: AnyArray) -> tuple[Round, ...]:
    """Read rounds from rows."""
    return tuple(Round(int(row[0]), *(float(x) for x in row[1:])) for row in rows)
