"""Numbers as JSON that a page can hold many of: tables in 16 bits a number, single numbers with six digits."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from legendre.core.types import AnyArray

CODES = 65534  # the largest code of a number; one more stands for no number
FAINT = 1e-4  # share of the largest entry below which nonnegative numbers have an absolute, not a relative, error


def packed(values: AnyArray) -> dict[str, Any]:
    """Write a table of numbers in 16 bits each, NaN and infinities as no number.

    Whole numbers from 0 to 65,534 are exact. Other nonnegative ones are ``unit * (exp(step * code) - 1)``, right to
    four digits from a ten-thousandth of the largest on; signed ones are ``low + step * code``.

    >>> packed(np.array([0.0, 3.0, 2.0]))["step"]
    1.0
    """
    table = np.asarray(values, dtype=np.float64).ravel()
    fine = np.isfinite(table)
    known = table[fine]
    low, high = float(known.min(initial=0.0)), float(known.max(initial=0.0))
    codes = np.full(table.shape, CODES + 1, dtype="<u2")
    if low >= 0 and high <= CODES and (known == np.rint(known)).all():
        form = {"low": 0.0, "step": 1.0}
        codes[fine] = known
    elif low >= 0:
        unit = FAINT * high
        step = math.log1p(1.0 / FAINT) / CODES
        form = {"unit": unit, "step": step}
        codes[fine] = np.rint(np.log1p(known / unit) / step)
    else:
        step = (high - low) / CODES
        form = {"low": low, "step": step}
        codes[fine] = np.rint((known - low) / step)
    return {**form, "codes": base64.b64encode(codes.tobytes()).decode("ascii")}


def rounded(value: float) -> float | None:
    """Keep six digits of a number; ``None`` for what JSON has no word for.

    >>> rounded(1 / 3), rounded(float("nan"))
    (0.333333, None)
    """
    return float(f"{value:.6g}") if math.isfinite(value) else None
