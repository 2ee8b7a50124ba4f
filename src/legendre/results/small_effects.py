"""Effects of single modes and of pairs, for pictures: of a model, or of a tensor that has none."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.errors import LegendreError
from legendre.core.origin import PLAIN, Origin
from legendre.core.types import FloatArray
from legendre.results.effects import Effect, effects_of


def effects_for_pictures(fit: Any) -> list[Effect]:
    """List effects of at most two modes; none where they would be too many.

    A large model has its shares from all of its effects, which takes no pass over pairs of parameters.
    """
    try:
        quick = fit.n_params**2 * len(fit.shape) <= limits.QUICK_PAIRS
        found = effects_of(fit, "uniform", 2 if quick else None)
    except LegendreError:
        return []
    return [effect for effect in found if len(effect.modes) <= 2]


def effects_of_tensor(q: FloatArray, origin: Origin = PLAIN) -> list[Effect]:
    """List effects of at most two modes on the logarithm of a tensor; none where an entry is 0.

    >>> [round(effect.share, 12) for effect in effects_of_tensor(np.outer([1.0, 2.0], [1.0, 1.0, 1.0]))]
    [1.0, 0.0, 0.0]
    """
    if not (np.isfinite(q) & (q > 0)).all() or q.ndim > limits.MOST_AXES:
        return []
    log_q = np.log(q)
    log_q -= log_q.mean()
    total = float(np.square(log_q).mean())
    alone = {k: log_q.mean(axis=tuple(j for j in range(q.ndim) if j != k)) for k in range(q.ndim)}
    tables: dict[tuple[int, ...], FloatArray] = {(k,): effect for k, effect in alone.items()}
    for i, j in combinations(range(q.ndim), 2):
        joint = log_q.mean(axis=tuple(k for k in range(q.ndim) if k not in (i, j)))
        tables[i, j] = joint - alone[i][:, None] - alone[j]
    found = []
    for modes, table in tables.items():
        variance = float(np.square(table).mean())
        lengths = tuple(np.ones(n, dtype=np.int64) for n in table.shape)
        found.append(Effect(modes, table, variance, variance / total if total else 0.0, lengths, origin.part(modes)))
    return found
