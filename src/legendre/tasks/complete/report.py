"""What a completion says of itself in text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.array_libraries import host
from legendre.core.text_table import named_values, shape_name
from legendre.core.types import BoolArray
from legendre.solvers.status import Status

if TYPE_CHECKING:
    from legendre.tasks.complete.result import Completion

NAMED = 8
"""Slices that are named one by one; more are counted."""


def gaps_report(done: Completion) -> str:
    """Tabulate what was filled in and what could not be, then the cross-validation and the fit."""
    seen = done.observed
    missing = ~seen
    rows = [
        ("tensor", f"{shape_name(seen.shape)}, {int(seen.sum())} cells observed, {int(missing.sum())} missing"),
        ("filled in", _filled(done, missing)),
    ]
    rows += [("undetermined", text) for text in _undetermined(done)]
    rows += [("nothing observed", text) for text in _slices(~seen, whole=True)]
    rows += [("parameters", f"{done.n_params}, {_rank(done)}")]
    if done.fit.status is Status.UNDECIDED:
        rows += [("note", "which parameters diverge was too large to decide; some values may be 0 or open")]
    parts = [named_values("Completion", rows)]
    if done.cv is not None:
        parts.append(done.cv.summary())
    return "\n\n".join([*parts, done.fit.summary()])


def _rank(done: Completion) -> str:
    """Independent parameters leave no cell open: a full rank beside open cells is one that was not computed."""
    unknown = done.determined is None or not done.determined.all()
    if unknown and done.rank == done.n_params:
        return "rank not computed"
    return f"rank {done.rank} on the observed cells"


def _filled(done: Completion, missing: BoolArray) -> str:
    count = int((missing & ~np.isnan(host(done.values))).sum())
    return f"{count}, not checked whether they are determined" if done.determined is None else str(count)


def _undetermined(done: Completion) -> list[str]:
    if done.determined is None or done.determined.all():
        return []
    unknown = ~done.determined
    filled = int((unknown & ~np.isnan(host(done.values))).sum())
    kept = f"; {filled} of them filled in with open parameters at 0" if filled else ", left NaN"
    return [f"{int(unknown.sum())} cells{kept}", *_slices(unknown, whole=False)]


def _slices(cells: BoolArray, *, whole: bool) -> list[str]:
    """Name, mode by mode, the slices that hold such cells (or nothing else); modes where all do say nothing."""
    lines = []
    for mode, length in enumerate(cells.shape):
        others = tuple(k for k in range(cells.ndim) if k != mode)
        found = np.flatnonzero(cells.all(axis=others) if whole else cells.any(axis=others))
        if len(found) and (whole or len(found) < length):
            named = ", ".join(map(str, found[:NAMED])) + (", ..." if len(found) > NAMED else "")
            lines.append(f"mode {mode}: {len(found)} of {length} slices ({named})")
    return lines
