"""A result as JSON: its numbers, for programs that read them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from legendre.results.base import Storable

SHOWN = (
    "recipe", "reason", "shape", "total", "n_params", "rank", "rank_is_bound", "kl", "kl_to_X", "rmse", "psi", "solver",
    "n_iter", "tol", "residual", "gap", "status", "converged", "n_vanishing", "criterion", "error", "variances",
    "margin_error", "log_likelihood", "g2", "x2", "df", "aic", "bic", "scores", "best", "path", "basis", "theta", "eta",
)  # fmt: skip
"""What is printed of a result, if it has it."""


def described(result: Storable) -> str:
    """Write what a result found as JSON; numbers that are not finite are null."""
    found: dict[str, Any] = {"kind": type(result).__name__}
    for name in SHOWN:
        value = getattr(result, name, None)
        if value is not None and not callable(value):
            found[name] = plain(value)
    return json.dumps(found, indent=None if found.get("theta") else 2, allow_nan=False, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Turn a value into what JSON knows.

    >>> plain((np.float64(1.5), np.inf, np.arange(2), {"a": True}))
    [1.5, None, [0, 1], {'a': True}]
    """
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(name): plain(content) for name, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
