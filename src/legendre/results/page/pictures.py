"""Effects, parameters, residuals, the path and the certificate as the data of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legendre.core.labels import Labels
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.results.deviance import signed_roots
from legendre.results.effects import Effect
from legendre.results.growth_path import Round
from legendre.results.page.blocks import block_sums, blocks
from legendre.results.page.names import block_names, cell_text, mode_name
from legendre.results.page.packed import packed, rounded
from legendre.results.page.pairs import Worst
from legendre.solvers.loop import Step

MOST_LINES, MOST_MAPS = 9, 6  # effects that are drawn: those with the largest shares
MOST_SHARES = 24  # effects whose shares are listed
POINTS, PIXELS = 400, 128  # levels of a line, and of each side of a map: of more, neighbours are averaged
LEAST_SHARE = 5e-4  # effects with a smaller share of the variance are listed, not drawn
LONG_HISTORY = 400  # steps that are drawn

Scarce = Callable[[Effect], BoolArray]  # which merged levels have hardly any data


def effects_data(effects: Sequence[Effect], labels: Labels, scarce: Scarce | None) -> dict[str, Any]:
    """List lines for single modes and maps for pairs, the largest shares first, and the shares of all."""
    order = sorted(effects, key=lambda effect: -effect.share)
    alone = [e for e in order if len(e.modes) == 1 and e.share >= LEAST_SHARE][:MOST_LINES]
    pairs = [e for e in order if len(e.modes) == 2 and e.share >= LEAST_SHARE][:MOST_MAPS]
    shares = [[_name(effect, labels), rounded(effect.share)] for effect in order[:MOST_SHARES]]
    rest = 1.0 - sum(effect.share for effect in order[:MOST_SHARES])
    if rest > LEAST_SHARE:
        shares.append(["everything else", rounded(rest)])
    return {
        "lines": [_line(effect, _known(effect, scarce), labels) for effect in alone],
        "maps": [_map(effect, _known(effect, scarce), labels) for effect in pairs],
        "shares": shares,
    }


def _name(effect: Effect, labels: Labels) -> str:
    return " × ".join(mode_name(labels, k) for k in effect.modes)


def _known(effect: Effect, scarce: Scarce | None) -> BoolArray:
    """Mark the merged levels of an effect that have some data."""
    return np.ones(effect.merged.shape, dtype=np.bool_) if scarce is None else ~scarce(effect)


def _line(effect: Effect, known: BoolArray, labels: Labels) -> dict[str, Any]:
    (k,) = effect.modes
    values, (cuts,) = _thinned(effect, known, POINTS)
    return {
        "name": mode_name(labels, k),
        "share": rounded(effect.share),
        "ordered": _ordered(labels, k),
        "levels": block_names(labels, k, cuts),
        "values": [rounded(value) for value in values.tolist()],
    }


def _ordered(labels: Labels, k: int) -> bool:
    """Whether levels follow each other: numbers and dates do, and texts that begin with a digit, such as times."""
    own = labels.levels_of(k)
    return own.dtype.kind not in "UO" or all(str(label)[:1].isdigit() for label in own)


def _map(effect: Effect, known: BoolArray, labels: Labels) -> dict[str, Any]:
    values, (row_cuts, column_cuts) = _thinned(effect, known, PIXELS)
    i, j = effect.modes
    return {
        "names": [mode_name(labels, i), mode_name(labels, j)],
        "share": rounded(effect.share),
        "levels": [block_names(labels, i, row_cuts), block_names(labels, j, column_cuts)],
        "most": rounded(float(np.nanmax(np.abs(values), initial=0.0))),
        "values": packed(values),
    }


def _thinned(effect: Effect, known: BoolArray, most: int) -> tuple[FloatArray, list[IntArray]]:
    """Spread merged levels to levels, of more than `most` neighbours averaged; NaN where none is known."""
    sums, numbers, all_cuts = np.where(known, effect.merged, 0.0), known.astype(np.float64), []
    for axis, lengths in enumerate(effect.lengths):
        starts, length = np.cumsum(lengths) - lengths, int(lengths.sum())
        all_cuts.append(blocks(length, most))
        sums = block_sums(sums, axis, starts, all_cuts[-1], length)
        numbers = block_sums(numbers, axis, starts, all_cuts[-1], length)
    return np.divide(sums, numbers, out=np.full(sums.shape, np.nan), where=numbers > 0), all_cuts


def parameters_data(name: Callable[[int], str], theta: FloatArray, eta: FloatArray, most: int) -> dict[str, Any]:
    """List parameters: number, what each acts on, theta and eta; of many those with the largest ``|theta|``."""
    shown = np.sort(np.argsort(-np.abs(theta), kind="stable")[:most])
    rows = [[i + 1, name(i), rounded(float(theta[i])), rounded(float(eta[i]))] for i in shown.tolist()]
    cut = f"The {len(rows):,} parameters with the largest |theta| of {len(theta):,} are listed."
    return {"rows": rows, "notes": [cut] if len(rows) < len(theta) else []}


def residuals_data(worst: Worst, labels: Labels) -> dict[str, Any]:
    """List the worst cells: name, X, Q, and the signed root of the term of the deviance."""
    terms = signed_roots(worst.x, worst.q)
    rows = [
        [cell_text(labels, cell), rounded(x), rounded(q), rounded(term)]
        for cell, x, q, term in zip(worst.cells, worst.x.tolist(), worst.q.tolist(), terms.tolist(), strict=True)
    ]
    return {"rows": rows, "notes": [worst.note] if worst.note else []}


def path_data(path: Sequence[Round]) -> dict[str, Any]:
    """List size and errors of each stage of growing; the last one is the fit."""
    columns = {name: [rounded(getattr(step, name)) for step in path] for name in ("kl", "rmse", "aic", "bic")}
    return {"n_params": [step.n_params for step in path], **columns}


def history_data(history: Sequence[Step], tol: float) -> dict[str, Any]:
    """List the residual after each step; of very many every n-th, and the last."""
    step = -(-len(history) // LONG_HISTORY)
    shown = [*history[:-1:step], history[-1]]
    return {
        "step": [at.iteration for at in shown],
        "residual": [rounded(at.residual) for at in shown],
        "tol": rounded(tol),
    }
