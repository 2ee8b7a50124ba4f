"""The slice viewer's data: X and Q on three modes, made small enough for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legendre.core.labels import Labels
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray
from legendre.results.deviance import deviances
from legendre.results.effects import Effect
from legendre.results.page.blocks import blocks
from legendre.results.page.names import block_names, mode_name
from legendre.results.page.packed import packed
from legendre.results.page.pairs import Pair

PIXELS = 128  # rows and columns of a picture at most: more levels are averaged
FEW = 6  # modes that are named one by one
MOST_SLICES = 1024  # slices that are compared; of more levels neighbours are averaged


def slices(pair: Pair, labels: Labels, effects: Sequence[Effect], budget: int) -> dict[str, Any]:
    """Sum X and Q onto the three most telling modes, average long ones, and keep at most `budget` cells.

    The mode with the fewest levels is the one that the slider runs over. Where not all of its slices can be kept, those
    in which X and Q differ most are.
    """
    shape = labels.shape
    modes = _modes(shape, effects)
    cuts = [np.zeros(1, dtype=np.int64) for _ in shape]
    for k, most in zip(modes, (MOST_SLICES, PIXELS, PIXELS), strict=True):
        if k is not None:
            cuts[k] = blocks(shape[k], most)
    quotient = Quotient(shape, tuple(cuts))
    x, q = (
        _arranged(table, modes, quotient) for table in pair.box(quotient, sorted(k for k in modes if k is not None))
    )
    levels = [[""] if k is None else block_names(labels, k, cuts[k]) for k in modes]
    most = max(1, budget // max(1, x[0].size))
    chosen = len(x) > most
    if chosen:
        kept = np.sort(np.argsort(-_misfits(x, q), kind="stable")[:most])
        x, q, levels[0] = x[kept], q[kept], [levels[0][i] for i in kept.tolist()]
    return {
        "modes": [None if k is None else mode_name(labels, k) for k in modes],
        "levels": levels,
        "shape": list(x.shape),
        "x": packed(x),
        "q": packed(q),
        "start": int(np.argmax(_misfits(x, q))),  # the slice that is shown first
        "fixed": chosen or modes[0] is None,
        "notes": _notes(labels, modes, quotient, len(x) if chosen else None),
    }


def _modes(shape: tuple[int, ...], effects: Sequence[Effect]) -> tuple[int | None, int | None, int | None]:
    """Choose up to three modes, those that take part in the largest effects: for the slider, rows and columns."""
    shares = np.zeros(len(shape))
    for effect in effects:
        shares[[k for k in effect.modes if k < len(shape)]] += effect.share  # others are hidden
    order = sorted(range(len(shape)), key=lambda k: (shape[k] == 1, -shares[k], -shape[k], k))
    kept = sorted(order[:3])
    if len(kept) == 1:
        return None, None, kept[0]
    if len(kept) == 2:
        return None, kept[0], kept[1]
    slider = min(kept, key=lambda k: (shape[k], -k))
    rows, columns = (k for k in kept if k != slider)
    return slider, rows, columns


def _arranged(table: FloatArray, modes: Sequence[int | None], quotient: Quotient) -> FloatArray:
    """Bring the axes into the order slider, rows, columns, and take means over the levels of each block."""
    kept = [k for k in modes if k is not None]
    out = np.transpose(table, [sorted(kept).index(k) for k in kept])
    for axis, k in enumerate(kept):
        out = out / np.expand_dims(quotient.lengths[k], [i for i in range(len(kept)) if i != axis])
    return np.asarray(out).reshape((1,) * (3 - len(kept)) + out.shape)


def _misfits(x: FloatArray, q: FloatArray) -> FloatArray:
    """Sum the terms of the deviance over each slice."""
    return np.asarray(np.nan_to_num(deviances(x, q), nan=0.0, posinf=0.0).sum(axis=(1, 2)))


def _notes(labels: Labels, modes: Sequence[int | None], quotient: Quotient, n_chosen: int | None) -> list[str]:
    kept = [k for k in modes if k is not None]
    notes = []
    others = [mode_name(labels, k) for k in range(len(labels.shape)) if k not in kept]
    if others:
        notes.append(f"X and Q are summed over {', '.join(others) if len(others) <= FEW else f'{len(others)} modes'}.")
    averaged = [mode_name(labels, k) for k in kept if len(quotient.cuts[k]) < labels.shape[k]]
    if averaged:
        notes.append(f"Neighbouring levels of {' and of '.join(averaged)} are averaged.")
    if n_chosen is not None and modes[0] is not None:
        of = len(quotient.cuts[modes[0]])
        notes.append(f"{n_chosen:,} of {of:,} slices are kept: those in which X and Q differ most.")
    return notes
