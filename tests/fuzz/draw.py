"""Generators: tensors, sample spaces, base measures, bases and settings, over the range that is promised."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
Array = Any
SOLVERS = ("natural", "natural-cg", "gradient", "scaling", "closed", "matrix-scaling")


def chance(rng: Rng, share: float) -> bool:
    """Return True in a share of all cases."""
    return bool(rng.random() < share)


def pick(rng: Rng, *choices: Any) -> Any:
    """One of some choices, each as likely."""
    return choices[int(rng.integers(len(choices)))]


def shape(
    rng: Rng, most: int = 36, orders: tuple[int, ...] = (1, 2, 2, 2, 3, 3, 4, 5), longest: int = 6
) -> tuple[int, ...]:
    """Lengths of modes, 1 among them, with few cells in all."""
    room, out = int(most), []
    for _ in range(pick(rng, *orders)):
        length = int(rng.integers(1 if chance(rng, 0.15) else 2, longest + 1))
        out.append(max(1, min(length, room)))
        room //= out[-1]
    return tuple(out[i] for i in rng.permutation(len(out)))


def values(rng: Rng, shape: tuple[int, ...], kind: str | None = None) -> Array:
    """Nonnegative numbers, at least one of them positive."""
    match kind or pick(rng, "even", "even", "counts", "counts", "heavy", "ties", "sparse", "extreme", "unit"):
        case "even":
            X = rng.uniform(0.1, 4.0, shape)
        case "counts":
            X = rng.poisson(rng.uniform(0.3, 6.0), shape).astype(np.float64)
        case "heavy":
            X = np.exp(rng.normal(0.0, 3.0, shape))
        case "ties":
            X = rng.integers(0, 3, shape).astype(np.float64)
        case "sparse":
            X = rng.uniform(0.1, 4.0, shape) * (rng.random(shape) < 0.4)
        case "unit":
            X = rng.uniform(0.1, 4.0, shape) * 10.0 ** rng.integers(-98, 98)
        case _:
            X = 10.0 ** (rng.uniform(0.0, pick(rng, 5, 10, 17.9), shape) + rng.uniform(-99.0, 80.0))
    if not (X > 0).any():
        X[tuple(int(rng.integers(n)) for n in shape)] = 1.0
    return X


def tensor(rng: Rng, dims: tuple[int, ...] | None = None) -> Array:
    """X in any dtype and memory order, with missing cells or without."""
    X = values(rng, shape(rng) if dims is None else dims)
    dtype = pick(rng, *["f8"] * 8, "f4", "f4", "f2", "i8", "i4", "u1", "u8", "i2")
    if dtype[0] in "iu":
        X = np.clip(np.rint(X), 0, np.iinfo(dtype).max // 2).astype(dtype) if X.max() < 1e18 else X
        if not X.any():
            X.flat[int(rng.integers(X.size))] = 1
    elif X.max() < 1e4 and X.sum() < 6e4:
        X = X.astype(dtype)
    if X.dtype.kind == "f" and chance(rng, 0.2):
        X[rng.random(X.shape) < rng.uniform(0.05, 0.5)] = np.nan
    if chance(rng, 0.15):
        X = np.asfortranarray(X)
    if chance(rng, 0.05):
        X.flags.writeable = False
    return X


def out_of_range(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Draw numbers of which one is beyond what is promised."""
    X = rng.uniform(0.1, 2.0, shape)
    far = rng.uniform(-300, -101), rng.uniform(101, 300), rng.uniform(20, 99)
    X.flat[int(rng.integers(X.size))] = 10.0 ** pick(rng, *(far if X.size > 1 else far[:2]))
    return X


def support(rng: Rng, X: Array) -> Any:
    """Draw the sample space: a name or a mask."""
    kind = rng.random()
    if kind < 0.75:
        return "all" if kind < 0.6 else "nonzero"
    return rng.random(X.shape) < rng.uniform(0.4, 1.0)


def base(rng: Rng, X: Array) -> Array | None:
    """Draw the base measure, mostly none."""
    if chance(rng, 0.72):
        return None
    r = rng.uniform(0.5, 3.0, X.shape)
    match int(rng.integers(4)):
        case 0:
            with np.errstate(invalid="ignore"):
                r[(rng.random(X.shape) < 0.4) & ~(X > 0)] = 0.0
        case 1:
            r = 10.0 ** (rng.uniform(0.0, pick(rng, 3, 10, 17.9), X.shape) + rng.uniform(-99.0, 80.0))
        case 2:
            r = r * 10.0 ** rng.integers(-98, 98)
    return r


def question(rng: Rng, X: Array) -> dict[str, Any]:
    """X with a sample space, a base measure, and a seed for what is asked of the answer."""
    return {"X": X, "support": support(rng, X), "base": base(rng, X), "seed": int(rng.integers(1 << 30))}


def basis(rng: Rng, dims: tuple[int, ...]) -> Any:
    """Draw a string or a list of cells."""
    return basis_string(rng, dims) if chance(rng, 0.55) else basis_list(rng, dims)


def basis_list(rng: Rng, dims: tuple[int, ...], most: int = 12) -> Array:
    """Cells in any order, dependent ones and repeats among them."""
    cells = np.stack([rng.integers(0, n, most) for n in dims], axis=1)[: int(rng.integers(0, most + 1))]
    cells = cells[cells.any(axis=1)]
    if len(cells) and not chance(rng, 0.2):
        cells = np.unique(cells, axis=0)[rng.permutation(len(np.unique(cells, axis=0)))]
    return cells.astype(pick(rng, np.int64, np.int64, np.int32, np.uint8)).reshape(-1, len(dims))


def basis_string(rng: Rng, dims: tuple[int, ...], depth: int = 0) -> str:
    """Any sentence of the grammar."""
    order = len(dims)
    if depth < 2 and chance(rng, 0.35):
        left, right = basis_string(rng, dims, depth + 1), basis_string(rng, dims, depth + 1)
        sign = pick(rng, " + ", " | ", " - ", " & ", "+", "|", " |  ")
        return f"({left}){sign}{right}" if chance(rng, 0.3) else f"{left}{sign}{right}"
    axis = pick(rng, "", "", f", axis={int(rng.integers(-order, order))}", f", {int(rng.integers(0, order))}")
    subset = [int(k) for k in rng.permutation(order)[: int(rng.integers(1, order + 1))]]
    return str(
        pick(
            rng,
            "B1",
            "B1()",
            f"B2({int(rng.integers(1, 4))}{axis})",
            f"B3({int(rng.integers(1, 4))}{axis})",
            f"B3(l={int(rng.integers(1, 3))})",
            f"interactions({int(rng.integers(1, order + 1))})",
            f"interactions({[subset]})",
            f"interactions([{tuple(subset)}, ({subset[0]},)])",
            "full()",
            "full",
            "empty",
            "empty()",
            f"cells({basis_list(rng, dims, 4).tolist()})",
            f"interactions([{tuple(subset)}])",
        )
    )


def tolerance(rng: Rng) -> float:
    """Draw the default mostly; some that no float64 can reach."""
    return float(pick(rng, *[1e-10] * 7, 1e-6, 1e-12, 0.1, 1e-3, 0.0, 1e-300, 1e-14))


def settings(rng: Rng) -> dict[str, Any]:
    """Solver, tolerance and steps."""
    solver = "auto" if chance(rng, 0.55) else pick(rng, *SOLVERS)
    steps = int(rng.integers(0, 40)) if chance(rng, 0.12) else None
    if solver in ("gradient", "scaling", "matrix-scaling") and steps is None:
        steps = 400
    return {"solver": solver, "tol": tolerance(rng), "max_iter": steps}
