"""Hidden cells of eight tensors: ``python -m experiments.gap_race`` writes docs/background/gap_race.md, losses first.

No method sees a hidden cell. What the others need chosen, a rank or a kind of mean, is chosen by cells that are held
out of the observed ones as `complete` holds them out. What was measured before is not measured again: methods that the
command line names (``complete decompose CP ...``) are.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import legendre as ld
from legendre.tasks.complete.crossval import deal

Floats = NDArray[np.float64]
DATA = Path(os.environ.get("LEGENDRE_DATA", "../shared/data"))
PAGE = Path(__file__).parents[1] / "docs" / "background" / "gap_race.md"
STORE = Path(__file__).parent / "results" / "gap_race.json"
RANKS = (1, 2, 3, 5, 8, 12)
HEAD = """# Hidden cells of eight tensors

Cells of eight tensors are hidden in five ways, and filled in by `ld.complete(X)` without a setting and by others.
Figures are root mean square errors on the hidden cells, over the root mean square of those cells; seconds are of
processor time.

- CP and NN-CP are TensorLy's masked `parafac` and `non_negative_parafac` (100 steps, from one random start). *Additive*
  is the better of an additive model and of a log-additive one (`interactions(1)`). *Means* are those over some of the
  modes. The rank (one of 1, 2, 3, 5, 8, 12) and the kind of mean are chosen by one fold of held-out cells, dealt as
  `complete` deals its own. Nothing is chosen by hidden cells.
- `decompose` is `ld.decompose(X)`, a short description of X; the column after it is NN-CP with as many parameters.
- IL-2, serology (10**X, every third sample), kinetic (every fourth measurement, every third time, negative readings
  as 0) and Indian Pines (every fifth pixel, every eighth band) come with TensorLy. Flights (to the 30 largest
  destinations) and taxi trips are counts of New York. Barley-like (varieties x sites x years, repeated) and ozone-like
  (a smooth field by latitude, longitude and month) are drawn.
- Tensors were thinned to save time, after a first run on larger ones. There `complete` lost on serology with 10 % of
  the cells hidden (0.480; NN-CP 0.412). The rule by which `complete` stops learning was changed a little afterwards.
- Hidden are single cells (10, 30, 50 %), fibres along the last mode (20 %), and both: 10 % of the fibres, 20 % of the
  cells.
- Where few cells are hidden, the share of them inside the intervals depends on the mask. On the barley-like tensor, 30
  masks of 30 % of the cells (about 108) gave 90.1 % on average, with a standard deviation of 4 %.
"""


def il2() -> Floats:
    """Ligands x times x doses x cells."""
    from tensorly.datasets import load_IL2data

    return np.asarray(load_IL2data().tensor, dtype=np.float64)


def serology() -> Floats:
    """Antibodies by sample x antigen x receptor."""
    from tensorly.datasets import load_covid19_serology

    return np.asarray(10.0 ** load_covid19_serology().tensor[::3])


def kinetic() -> Floats:
    """Measurements x emission x excitation x time."""
    from tensorly.datasets import load_kinetic

    return np.asarray(np.maximum(load_kinetic().tensor[::4, :, :, ::3], 0.0), dtype=np.float64)


def pines() -> Floats:
    """Pixels x pixels x bands."""
    from tensorly.datasets import load_indian_pines

    return np.asarray(load_indian_pines().tensor[::5, ::5, ::8], dtype=np.float64)


def barley() -> Floats:
    """Draw varieties x sites x years x repeats: few cells, main effects, one pair, noise."""
    rng = np.random.default_rng(31)
    log_q = sum(np.expand_dims(rng.normal(0.0, sd, n), axes) for n, sd, axes in ((10, 0.08, (1, 2)), (6, 0.25, (0, 2))))
    pair = rng.normal(0.0, 0.15, (1, 6, 2))
    return np.asarray(34.0 * np.exp((log_q + pair)[..., None] + rng.normal(0.0, 0.12, (10, 6, 2, 3))))


def ozone() -> Floats:
    """Draw latitude x longitude x month: a smooth field with a season, rounded to units of 2."""
    rng = np.random.default_rng(32)
    y, x, t = np.meshgrid(np.linspace(-1, 1, 20), np.linspace(-1, 1, 20), np.arange(36), indexing="ij")
    field = 280 + 30 * y**2 + 14 * y * np.sin(2 * np.pi * t / 12) + 5 * np.sin(3 * x + 0.2 * t)
    for _ in range(6):
        a, b, c, phase = rng.normal(size=4)
        field = field + 3 * np.sin(2 * a * x + 2 * b * y + 0.3 * c * t + phase)
    return np.asarray(2.0 * np.round((field + rng.normal(0.0, 3.0, field.shape)) / 2.0))


def flights() -> Floats:
    """Count departures by carrier x destination x hour."""
    with np.load(DATA / "flights.npz") as file:
        X = np.asarray(file["flights3"], dtype=np.float64)
    return X[:, np.sort(np.argsort(-X.sum(axis=(0, 2)))[:30])]


def taxi() -> Floats:
    """Count trips by pick-up zone x drop-off zone x hour."""
    with np.load(DATA / "nyc_taxi.npz") as file:
        return np.asarray(file["trips"].sum(axis=2), dtype=np.float64)


TENSORS = {
    "IL-2": il2,
    "serology": serology,
    "kinetic": kinetic,
    "Pines": pines,
    "barley-like": barley,
    "ozone-like": ozone,
    "flights": flights,
    "taxi": taxi,
}
MASKS = ("cells 10 %", "cells 30 %", "cells 50 %", "fibres 20 %", "fibres 10 %, cells 20 %")


def hide(X: Floats, mask: str, seed: int) -> NDArray[np.bool_]:
    """Choose observed cells to hide."""
    rng, hidden = np.random.default_rng(seed), np.zeros(X.shape, dtype=np.bool_)
    for part in mask.split(", "):
        kind, rate, _ = part.split(" ")
        shape = X.shape if kind == "cells" else (*X.shape[:-1], 1)
        hidden = hidden | (rng.random(shape) < int(rate) / 100)
    return hidden & ~np.isnan(X)


def fill_by_cp(X: Floats, rank: int, *, nonnegative: bool) -> Floats:
    """Fit CP by TensorLy, with missing cells masked."""
    from tensorly.decomposition import non_negative_parafac, parafac

    seen = ~np.isnan(X)
    unit = float(X[seen].mean())
    fit = non_negative_parafac if nonnegative else parafac
    start: dict[str, Any] = {"init": "random", "random_state": 0, "n_iter_max": 100, "mask": seen.astype(np.float64)}
    cp = fit(np.where(seen, X / unit, 0.0), rank, **start)
    return np.asarray(unit * cp.to_tensor(), dtype=np.float64)


def fill_by_means(X: Floats, over: tuple[int, ...]) -> Floats:
    """Fill cells with means over some modes; where nothing was observed, with the mean of all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = np.nanmean(X, axis=over, keepdims=True)
    return np.broadcast_to(np.where(np.isnan(means), np.nanmean(X), means), X.shape)


def fill_by_sums(X: Floats) -> Floats:
    """Fit an additive model by backfitting."""
    fit = np.full(X.shape, np.nanmean(X))
    for _ in range(30):
        for k in range(X.ndim):
            others = tuple(j for j in range(X.ndim) if j != k)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                fit = fit + np.nan_to_num(np.nanmean(X - fit, axis=others, keepdims=True))
    return np.asarray(np.maximum(fit, 0.0), dtype=np.float64)


def fill_by_products(X: Floats) -> Floats:
    """Fit a log-additive model."""
    filled = ld.complete(X, "interactions(1)", undetermined="theta0").fit.tensor(extend=True)
    return np.asarray(np.nan_to_num(filled, nan=float(np.nanmean(X))), dtype=np.float64)


def fill_by_decompose(X: Floats) -> tuple[Floats, str]:
    """Describe X by as many parameters as the library chooses, and extrapolate."""
    fit = ld.decompose(X)
    return np.asarray(fit.tensor(extend=True)), str(fit.n_params)


def candidates(method: str, X: Floats) -> dict[str, Callable[[Floats], Floats]]:
    """List the settings of a method."""
    match method:
        case "CP" | "NN-CP":
            return {f"rank {r}": partial(fill_by_cp, rank=r, nonnegative=method == "NN-CP") for r in RANKS}
        case "additive":
            return {"sums": fill_by_sums, "products": fill_by_products}
        case _:
            sets = [s for size in range(1, X.ndim) for s in combinations(range(X.ndim), size)]
            return {f"over {s}": partial(fill_by_means, over=s) for s in sets}


def fill(method: str, X: Floats, known: dict[str, Any]) -> tuple[Floats, str]:
    """Fill in; choose a setting by one fold of held-out cells where there are several."""
    if method == "complete":
        done = ld.complete(X)
        known["interval"] = done.interval(0.9)
        return np.asarray(done.tensor()), f"{done.fit.rounds} rounds"
    if method == "decompose":
        return fill_by_decompose(X)
    if method == "NN-CP of equal size":
        rank = max(1, round(int(known["decompose"]["detail"]) / sum(X.shape)))
        return fill_by_cp(X, rank, nonnegative=True), f"rank {rank}"
    choices, seen = candidates(method, X), ~np.isnan(X)
    folds = deal(np.where(seen, X, 0.0), seen)
    held = folds.restore(folds.held[0]) >= 0
    part = np.where(held, np.nan, X)
    errors = {name: float(np.nanmean((choice(part) - X)[held] ** 2)) for name, choice in choices.items()}
    best = min(errors, key=lambda name: errors[name])
    return choices[best](X), best


OTHERS = ("CP", "NN-CP", "additive", "means")
METHODS = (*OTHERS, "complete", "decompose", "NN-CP of equal size")


def measure(name: str, mask: str, again: list[str], known: dict[str, Any], seed: int = 41) -> None:
    """Fill the gaps by the methods that were not measured yet, or that are to be measured again."""
    X = TENSORS[name]()
    hidden = hide(X, mask, seed)
    for method in again or METHODS:
        if method in known and method not in again:
            continue
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            filled, detail = fill(method, np.where(hidden, np.nan, X), known)
        error = float(np.sqrt(np.mean((filled - X)[hidden] ** 2) / np.mean(X[hidden] ** 2)))
        known[method] = {"error": error, "detail": detail, "seconds": round(time.process_time() - start, 1)}
        if method == "complete":
            lower, upper = known.pop("interval")
            known[method]["coverage"] = round(float(np.mean((lower <= X) & (upper >= X), where=hidden)), 3)
        print(f"{name}, {mask}, {method}: {error:.4f}, {detail}, {known[method]['seconds']} s", flush=True)


def page(found: dict[str, dict[str, Any]]) -> str:
    """Write the page; rows in which another method is better come first."""
    rows, won, equal, coverages = [], 0, 0, []
    for case, known in ((case, known) for case, known in found.items() if set(METHODS) <= set(known)):
        name = min(OTHERS, key=lambda method: known[method]["error"])
        ours, best = known["complete"], known[name]
        small, same = known["decompose"], known["NN-CP of equal size"]
        coverages.append(ours["coverage"])
        won += ours["error"] <= 1.05 * best["error"]
        equal += small["error"] <= same["error"]
        detail = f" {best['detail']}" if name.endswith("CP") else ""
        entries = [
            f"{ours['error']:.4f} ({ours['seconds']:.0f} s)",
            f"{ours['coverage']:.3f}",
            f"{best['error']:.4f} ({name}{detail}, {best['seconds']:.0f} s)",
            f"{small['error']:.4f} ({small['detail']} parameters, {small['seconds']:.0f} s)",
            f"{same['error']:.4f} ({same['detail']})",
        ]
        rows.append((ours["error"] / best["error"], f"| {case} | {' | '.join(entries)} |"))
    counted = (
        f"`complete` is the best of all, or within 5 % of the best, in {won} of {len(rows)}; `decompose` is at least "
        f"as good as NN-CP of equal size in {equal} of {len(rows)}. The 90 % intervals of `complete` hold between "
        f"{min(coverages):.1%} and {max(coverages):.1%} of the hidden cells, {np.mean(coverages):.1%} on average."
    )
    left = len(TENSORS) * len(MASKS) - len(rows)
    if left:
        counted += f" {left} cases have not been measured yet."
    table = [
        "| hidden | complete | inside intervals | best of the others | decompose | NN-CP of equal size |",
        "| --- " * 6 + "|",
    ]
    lines = [line for _, line in sorted(rows, reverse=True)]
    return "\n".join([HEAD, counted, "", *table, *lines, "", "Made by `python -m experiments.gap_race`.", ""])


def main() -> None:
    """Measure what is missing or named, and write the page."""
    found: dict[str, dict[str, Any]] = json.loads(STORE.read_text()) if STORE.is_file() else {}
    named = [word for word in sys.argv[1:] if word in TENSORS]
    again = [word for word in sys.argv[1:] if word in METHODS]
    for mask in MASKS:
        for name in named or TENSORS:
            measure(name, mask, again, found.setdefault(f"{name}, {mask}", {}))
            STORE.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
