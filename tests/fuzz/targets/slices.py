"""Features of slices: each is a problem of its own on a shared basis, so that brute force solves them one by one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..fit_rules import close, need, same_tensor
from ..oracle import EPS, LONG, Problem, basis_cells
from ..rules import Trial
from . import Args, Target
from .fits import moderate, the_cells

Array = Any


def draw_slices(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 18, (1, 2, 2, 3), 5)
    kinds = ("even", "even", "counts", "counts", "heavy", "ties", "sparse", "unit", "extreme")

    def some() -> Array:
        return np.stack([draw.values(rng, dims, pick(rng, *kinds)) for _ in range(int(rng.integers(1, 5)))])

    X, Y = some(), some()
    if chance(rng, 0.1):
        Y[0] = 0.0  # taken as an even slice
    if chance(rng, 0.04):
        Y = pick(rng, -Y, Y.ravel(), Y * np.nan, Y[:0], Y.astype(np.complex128), Y.astype(np.str_), np.ones((2, 99)))
    grown = chance(rng, 0.25)
    return {
        "X": X,
        "Y": Y,
        "dims": dims,
        "rows": chance(rng, 0.3),
        "basis": f"adaptive({int(rng.integers(1, 6))})" if grown else draw.basis(rng, dims),
        "features": pick(rng, "eta", "theta", "theta", "both") if chance(rng, 0.97) else "psi",
        "alpha": pick(rng, 0.0, 0.0, 0.0, 0.01, 0.5) if chance(rng, 0.97) else pick(rng, 1.0, -0.1, "a", None),
        "tol": draw.tolerance(rng),
        "sums": rng.uniform(0.5, 9.0, len(Y)) if chance(rng, 0.3) else None,
    }


def problem_of_slice(values: Array, alpha: float, cells: Array) -> Problem:
    """State the problem of one slice: divided by its sum, an even one mixed in; one of zeros is even."""
    p = values.astype(LONG) if values.any() else np.ones(values.shape, dtype=LONG)
    p = (1 - LONG(alpha)) * (p / p.sum()) + LONG(alpha) / values.size
    return Problem.of(p, np.ones(values.shape, dtype=bool), cells)


def cells_of(args: Args) -> Array | None:
    """List the cells of a basis that is no growing one; ``None`` where the arguments make no problem."""
    X, Y = args["X"], args["Y"]
    if Y.dtype.kind != "f" or Y.shape[1:] != X.shape[1:] or not len(Y) or not (Y >= 0).all() or X[0].size == 1:
        return None
    if args["features"] == "psi" or not isinstance(args["alpha"], float) or not 0 <= args["alpha"] < 1:
        return None
    whole = X.sum(axis=0)
    try:
        found = the_cells(args["basis"], whole, np.ones(whole.shape, dtype=bool))
    except Exception:
        return None
    return np.array(sorted(found), dtype=np.int64).reshape(len(found), whole.ndim)


def alike(values: Array) -> Array:
    """Rows of numbers, which is another form that slices may have."""
    return values.reshape(len(values), -1) if values.ndim > 1 and values.size else values


def try_slices(args: Args, folder: Path) -> Trial:
    del folder
    cells, alpha, dims = cells_of(args), args["alpha"], args["dims"]
    problems = [] if cells is None else [problem_of_slice(y, alpha, cells) for y in args["Y"]]
    seen = [] if cells is None else [problem_of_slice(x, 0.0, cells) for x in (*args["X"], args["X"].sum(axis=0))]
    easy = bool(problems) and all(map(moderate, [*problems, *seen]))
    finite = args["features"] == "eta" or all(problem.alive.all() for problem in problems)
    form = alike if args["rows"] else (lambda values: values)

    def call() -> Any:
        made = ld.LegendreTransformer(
            args["basis"], shape=dims if args["rows"] else None, features=args["features"], alpha=alpha, tol=args["tol"]
        )
        made.fit(form(args["X"]))
        found, told = listened(lambda: made.transform(form(args["Y"])))
        back, again = listened(lambda: made.inverse_transform(found, args["sums"]))
        return made, found, back, told or again

    def check(answer: Any) -> str:
        made, found, back, told = answer
        check_basis(args, made.basis_, cells)
        k, both = len(made.basis_), args["features"] == "both"
        need(found.shape == (len(args["Y"]), (1 + both) * k), f"features have shape {found.shape}")
        slices = back.reshape(len(found), -1) / (1.0 if args["sums"] is None else args["sums"][:, None])
        theta = found[:, :k] if args["features"] != "eta" else None
        eta = found[:, -k:] if args["features"] != "theta" and k else None
        gone = False
        for i, values in enumerate(args["Y"]):
            problem = problem_of_slice(values, alpha, made.basis_)
            gone |= not problem.alive.all()
            need(theta is None or bool(problem.alive.all()), f"slice {i} has a theta, though only an infinite one fits")
            if eta is not None:
                close(eta[i], problem.eta_hat, 16 * EPS * (values.size + 8), f"eta of slice {i}")
            check_slice(problem, None if theta is None else theta[i], slices[i], np.inf if told else args["tol"])
        need(not told or not easy or args["tol"] < 1e-12, "ordinary slices did not converge")
        return "unconverged" if told else "boundary" if gone else "right"

    held = tuple(args[name] for name in ("X", "Y", "basis", "sums"))
    ordinary = easy and finite and cells is not None and len(cells) > 0
    return Trial(call, check, held, lambda answer: [answer[0].basis_, *answer[1:3]], benign=ordinary)


def listened(call: Any) -> tuple[Any, bool]:
    """Make a call; say whether it warned that it did not converge. All else that it warns of is passed on."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = call()
    for w in heard:
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return found, any(issubclass(w.category, ld.ConvergenceWarning) for w in heard)


def check_basis(args: Args, found: Array, cells: Array | None) -> None:
    """Compare the cells with the definition; a growing basis has as many as were asked for, or fewer."""
    listed = {tuple(map(int, u)) for u in found}
    need(len(listed) == len(found), "the basis repeats cells")
    if isinstance(args["basis"], str) and args["basis"].startswith("adaptive"):
        whole = basis_cells("full", args["X"][0], np.ones(args["dims"], dtype=bool))
        need(listed <= whole, "cells that are none")
        need(len(listed) <= int(args["basis"][9:-1]), f"{len(listed)} cells for {args['basis']}")
        return
    need(cells is not None, "brute force finds no problem in these arguments, but there is an answer")
    need(listed == {tuple(map(int, u)) for u in np.asarray(cells)}, "the basis has other cells than its definition")


def check_slice(problem: Problem, theta: Array | None, q: Array, tol: float) -> None:
    """Q of one slice has the expectations of P; it is Q of theta; and where theta is finite, it is the minimum."""
    rounding = 16 * EPS * (len(problem.x) + 8)
    if theta is not None:
        need(bool(np.isfinite(theta).all()), "theta is not finite")
        rounding = problem.rounding(theta)
        log_q, _ = problem.log_q(theta, problem.alive)
        close(q, np.exp(log_q), 2 * rounding * np.exp(log_q) + 1e-300, "the slice of theta")
    need(bool((q >= 0).all()) and abs(float(q.sum()) - 1.0) <= len(q) * rounding + 1e-12, "no distribution")
    eta = problem.expectations(q.astype(LONG))
    off = float(np.abs(eta - problem.eta_hat).max(initial=0.0))
    if theta is None:
        rounding = problem.rounding(problem.best.theta)
    need(off <= tol + 4 * rounding, f"max|eta - eta_hat| is {off:.3g}, tol {tol:g}, rounding {rounding:.3g}")
    if problem.alive.all() and problem.best.residual < 1e-15:
        same_tensor(problem, q.astype(LONG), eta, rounding)


TARGETS = [Target("slices", draw_slices, try_slices, 0.03)]
