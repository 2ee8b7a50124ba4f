"""What is written to disk: results of every kind."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import pick
from ..fit_rules import need
from ..rules import Trial, fingerprint
from . import Args, Target

KINDS = (
    "decompose",
    "decompose",
    "decompose",
    "complete",
    "balance",
    "hidden",
    "smooth",
    "inference",
    "adaptive",
)


def draw_files(rng: np.random.Generator) -> Args:
    X = draw.values(rng, draw.shape(rng, 20, (1, 2, 2, 3)), pick(rng, "even", "counts", "sparse", "unit"))
    kind = pick(rng, *KINDS)
    if kind == "inference":
        X = rng.poisson(3.0, X.shape) + 1.0
    return {
        "kind": kind,
        "X": X,
        "basis": draw.basis(rng, X.shape, 0.0),
        "support": draw.support(rng, X, 0.0),
        "base": draw.base(rng, X, 0.0) if kind in ("decompose", "complete") else None,
        "name": pick(rng, "fit.npz", "fit.npz", "fit", "a b.npz", "ä.npz", "fit.npy"),
    }


def made(args: Args) -> Any:
    """Compute a result of the kind that is to be stored."""
    X, basis = args["X"], args["basis"]
    match args["kind"]:
        case "complete":
            return ld.complete(X, basis, support=args["support"], base=args["base"])
        case "balance":
            return ld.balance(X)
        case "hidden":
            return ld.hidden(X, f"interactions({[(k, X.ndim) for k in range(X.ndim)]})", restarts=2, max_iter=30)
        case "smooth":
            return ld.complete(X, folds=2)
        case "inference":
            return ld.decompose(X, basis).inference()
        case "adaptive":
            return ld.decompose(X, ld.adaptive(3))
    return ld.decompose(X, basis, support=args["support"], base=args["base"])


def bits_of(path: Path) -> dict[str, str]:
    """All that a file holds, by name."""
    with np.load(path) as file:
        return {name: fingerprint(file[name]) for name in file.files}


def try_files(args: Args, folder: Path) -> Trial:
    path, again = folder / args["name"], folder / "again.npz"

    def call() -> Any:
        result = made(args)
        result.save(path)
        return result, ld.load(path), pickle.loads(pickle.dumps(result))

    def check(found: Any) -> str:
        result, *others = found
        need(not [p for p in folder.iterdir() if p != path], f"leftovers: {[p.name for p in folder.iterdir()]}")
        for other, how in zip(others, ("load", "pickle"), strict=True):
            need(type(other) is type(result), f"{how} gave a {type(other).__name__}")
            other.save(again)
            one, two = bits_of(path), bits_of(again)
            changed = [name for name in one | two if one.get(name) != two.get(name)]
            need(not changed, f"{how} changed {changed}")
            if hasattr(result, "tensor"):
                need(np.allclose(other.tensor(), result.tensor(), rtol=1e-9, equal_nan=True), f"{how}: tensor")
        return "right"

    return Trial(call, check, (args["X"], args["base"]), lambda _: sorted(bits_of(path).items()))


TARGETS = [Target("files", draw_files, try_files, 0.05)]
