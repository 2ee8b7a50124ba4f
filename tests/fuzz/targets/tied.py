"""Parameters that act on many cells: association models, features, formulas, boxes, arranged levels."""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from legendre.basis.basis import cells

from .. import draw
from ..draw import chance, pick
from ..features import defined, features_of, is_box, same_features, steps
from ..fit_rules import close, need
from ..oracle import LONG, omega_mask
from ..rules import Trial
from . import Args, Target
from .fits import check_inference, fit_bits, judge_fit, moderate, problem_for, stored_alike, the_cells

Array = Any


def draw_spec(rng: np.random.Generator, dims: tuple[int, ...]) -> dict[str, Any]:
    """Draw a part of a basis."""
    order = len(dims)
    modes = tuple(int(k) for k in rng.permutation(order)[:2])
    kinds = ["features", "topological", "cells"]
    if order > 1:
        kinds += ["uniform", "linear", "rows", "columns"]
        if dims[modes[0]] == dims[modes[1]]:
            kinds += ["symmetric", "quasi_symmetric", "diagonal"] * 2
    match kind := pick(rng, *kinds):
        case "cells":
            return {"kind": kind, "cells": draw.basis_list(rng, dims, 4)}
        case "features":
            some = tuple(int(k) for k in rng.permutation(order)[: int(rng.integers(1, order + 1))])
            shape = tuple(dims[k] for k in some)
            tables = [
                rng.normal(size=shape) if chance(rng, 0.3) else rng.integers(-2, 3, shape).astype(float)
                for _ in range(int(rng.integers(1, 4)))
            ]
            return {"kind": kind, "modes": some, "tables": tables}
        case "topological":
            some = tuple(sorted(modes[: int(rng.integers(1, order + 1))]))
            return {"kind": kind, "modes": some, "levels": rng.integers(0, 3, tuple(dims[k] for k in some))}
        case "linear":
            scores = [rng.integers(-3, 6, dims[k]) * pick(rng, 1, 1, 0.5, 0.1) for k in modes]
            return {"kind": kind, "modes": modes, "scores": tuple(s.astype(float).tolist() for s in scores)}
    return {"kind": kind, "modes": modes}


def basis_of(specs: list[dict[str, Any]]) -> Any:
    """Build the basis by the library's own words."""
    return reduce(or_, map(_part, specs))


def _part(spec: dict[str, Any]) -> Any:
    kind, modes = spec["kind"], spec.get("modes", ())
    if kind == "interactions":
        return ld.interactions([tuple(group) for group in spec["sets"]])
    if kind == "cells":
        return cells(spec["cells"])
    if kind == "features":
        return ld.features({f"f{i}": t for i, t in enumerate(spec["tables"])}, modes=list(modes) if modes else None)
    if kind == "topological":
        return ld.ties.topological(spec["levels"], *modes)
    return getattr(ld.ties, kind)(*modes, **({"scores": spec["scores"]} if kind == "linear" else {}))


# --- ties ------------------------------------------------------------------------------------------------------------


def draw_ties(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 30, (1, 2, 2, 2, 3, 3, 4), 4)
    if chance(rng, 0.4):  # two modes with the same levels
        n = int(rng.integers(2, 5))
        dims = (n, n) if chance(rng, 0.6) else (n, n, 2)
    X = draw.tensor(rng, dims)
    specs: list[Any] = [draw_spec(rng, dims) for _ in range(int(rng.integers(1, 4)))]
    if chance(rng, 0.6):
        specs.insert(0, {"kind": "interactions", "sets": [(k,) for k in range(len(dims))]})
    return {
        **draw.question(rng, X),
        "specs": specs,
        "solver": pick(rng, "auto", "auto", "auto", "natural", "natural-cg", "gradient"),
        "tol": draw.tolerance(rng),
    }


def try_ties(args: Args, folder: Path) -> Trial:
    X, specs, solver = args["X"], args["specs"], args["solver"]

    def call() -> Any:
        given = {name: args[name] for name in ("support", "base", "tol")}
        steps_at_most = 400 if solver == "gradient" else None
        return ld.decompose(X, basis_of(specs), solver=solver, max_iter=steps_at_most, **given)

    def check(fit: Any) -> str:
        same_features(features_of(fit)[0], defined(specs, X.shape))
        problem = problem_for(fit, X, omega_mask(X, args["support"], args["base"]), args["base"])
        steady = moderate(problem) and solver in ("auto", "natural") and args["tol"] >= 1e-12 * problem.size
        stored_alike(fit, folder)
        return judge_fit(fit, args, steady, problem)[0]

    return Trial(call, check, (X, specs, args["support"], args["base"]), fit_bits)


# --- boxes -----------------------------------------------------------------------------------------------------------


def draw_boxes(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 30, (1, 2, 2, 2, 3, 3), 6)
    X = draw.tensor(rng, dims)
    start = pick(rng, "empty", "empty", "B1", "interactions(1)", draw.basis_list(rng, dims, 3))
    more = 0 if isinstance(start, str) and start == "empty" else 8
    return {**draw.question(rng, X), "size": int(rng.integers(1, 7)) + more, "start": start}


def try_boxes(args: Args, folder: Path) -> Trial:
    X, size, start = args["X"], args["size"], args["start"]

    def call() -> Any:
        return ld.decompose(X, ld.boxes(size, include=start), support=args["support"], base=args["base"])

    def check(fit: Any) -> str:
        mask = omega_mask(X, args["support"], args["base"])
        kind, _ = judge_fit(fit, args)
        first = the_cells(start, X, mask)
        need(fit.n_params <= max(size, len(first)), f"{fit.n_params} parameters, {size} were asked for")
        found, _ = features_of(fit)
        for j in range(fit.n_params):
            need(is_box(found[:, j], X.shape), f"parameter {j} acts on no box")
        given = steps(X.shape, np.array(sorted(first)).reshape(-1, X.ndim))
        for column in given.T:
            need(any(np.array_equal(column, other) for other in found.T), "a cell of the start is missing")
        falls = np.diff([r.kl for r in fit.path])
        need(bool((falls <= 1e-9 * (1 + fit.path[0].kl)).all()), "KL rises on the path")
        stored_alike(fit, folder)
        return kind

    return Trial(call, check, (X, args["support"], args["base"], start), fit_bits, twice=args["seed"] % 4 == 0)


# --- arranged --------------------------------------------------------------------------------------------------------


def draw_arranged(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 30, (1, 2, 2, 2, 3, 3), 6)
    X = draw.tensor(rng, dims)
    chosen: Any = [int(k) for k in rng.permutation(X.ndim)[: int(rng.integers(0, X.ndim + 1))]]
    if chance(rng, 0.3):
        chosen = {k: rng.permutation(X.shape[k]).tolist() for k in chosen}
    bases = *[f"adaptive({n})" for n in range(1, 6)], "boxes(2)", "B1", "B3(2)", "interactions(2)"
    return {**draw.question(rng, X), "unordered": chosen, "basis": pick(rng, *bases)}


def try_arranged(args: Args, folder: Path) -> Trial:
    X, name = args["X"], args["basis"]

    def call() -> Any:
        grown = {"adaptive": ld.adaptive, "boxes": ld.boxes}.get(name[:-3])
        basis = name if grown is None else grown(int(name[-2]))
        return ld.decompose(X, basis, unordered=args["unordered"], support=args["support"], base=args["base"])

    def check(fit: Any) -> str:
        for k, places in enumerate(fit.labels.order or ()):
            if places is None:
                continue
            need(sorted(places.tolist()) == list(range(X.shape[k])), f"mode {k} has no arrangement of its levels")
            if isinstance(args["unordered"], dict) and k in args["unordered"]:
                need(places.tolist() == list(args["unordered"][k]), f"mode {k} has another order than the given one")
        kind, problem = judge_fit(fit, args)
        if name == "interactions(2)":  # whole margins are what they are in any order
            plain = ld.decompose(X, name, support=args["support"], base=args["base"])
            if plain.converged and fit.converged:
                close(fit.kl, plain.kl, 1e-7 * (1 + plain.kl), "KL of another arrangement")
        stored_alike(fit, folder, problem)
        return kind

    held = (X, args["support"], args["base"], args["unordered"])
    return Trial(call, check, held, fit_bits, twice=args["seed"] % 4 == 0)


# --- formulas --------------------------------------------------------------------------------------------------------


def draw_formulas(rng: np.random.Generator) -> Args:
    """Draw a table, a formula, and the sets of modes and the functions that it stands for."""
    order = pick(rng, 1, 2, 2, 3, 3, 4)
    dims = tuple(int(rng.integers(2, 4)) for _ in range(order))
    X = draw.values(rng, dims, pick(rng, "counts", "counts", "ties")).astype(np.int64)
    if not X.any():
        X.flat[0] = 3
    names = ["a", "b", "some name", "d"][:order]
    groups: Any = [tuple(int(k) for k in rng.permutation(order)[: int(rng.integers(1, order + 1))]) for _ in range(3)]
    groups = groups[: int(rng.integers(1, 4))]
    quoted = [f"`{n}`" if " " in n else n for n in names]
    form = pick(rng, "star", "star", "brackets", "lists", "power", "dot")
    specs: list[Any] = []
    match form:
        case "star":
            formula: Any = " + ".join("*".join(quoted[k] for k in group) for group in groups)
        case "brackets":
            formula = "".join(f"[{' '.join(quoted[k] for k in group)}]" for group in groups)
        case "lists":
            formula = [[names[k] for k in group] for group in groups]
        case "power":
            n = int(rng.integers(1, order + 1))
            formula = f"({' + '.join(quoted)})^{n}"
            groups = [g for g in np.ndindex(*[2] * order) if 0 < sum(g) <= n]
            groups = [tuple(k for k, used in enumerate(g) if used) for g in groups]
        case _:
            formula, groups = ".", [(k,) for k in range(order)]
    if form in ("star", "power", "dot") and order > 1 and chance(rng, 0.4):
        one, other = (int(k) for k in rng.permutation(order)[:2])
        same = dims[one] == dims[other]
        kind = pick(rng, "uniform", "rows", "columns", *(["diagonal", "quasi_symmetric", "symmetric"] if same else []))
        formula += f" + {kind}({quoted[one]}, {quoted[other]})"
        specs.append({"kind": kind, "modes": (one, other)})
    if chance(rng, 0.04):
        formula, groups, specs = pick(rng, "1", "a - a"), [], []
    return {
        "X": X,
        "names": names,
        "formula": formula,
        "groups": groups,
        "specs": specs,
        "rows": chance(rng, 0.3),
        "offset": rng.normal(size=dims) if chance(rng, 0.15) else None,
        "support": rng.random(dims) < 0.8 if chance(rng, 0.15) else "all",
        "seed": int(rng.integers(1 << 30)),
    }


def try_formulas(args: Args, folder: Path) -> Trial:
    X, names, offset = args["X"], args["names"], args["offset"]
    base = None if offset is None else np.exp(offset)

    def call() -> Any:
        if not args["rows"]:
            return ld.loglinear(X, args["formula"], names=names, base=base, support=args["support"])
        cells = np.repeat(np.argwhere(np.ones(X.shape)), X.ravel(), axis=0)
        frame = {name: [f"l{i}" for i in cells[:, k]] for k, name in enumerate(names)}
        levels = {name: [f"l{i}" for i in range(X.shape[k])] for k, name in enumerate(names)}
        table = ld.from_rows(frame, names, levels=levels)
        return ld.loglinear(table, args["formula"], base=base, support=args["support"])

    def check(model: Any) -> str:
        fit, mask = model.fit, omega_mask(X, args["support"], base)
        specs = [{"kind": "interactions", "sets": args["groups"]}, *args["specs"]]
        same_features(features_of(fit)[0], defined(specs, X.shape))
        kind, problem = judge_fit(bare(fit), args, problem=problem_for(fit, X, mask, base))
        check_inference(model, problem, model.intervals(0.9), 0.9, None, "none")
        close(np.asarray(model.fitted(), dtype=LONG).sum(), LONG(X[mask].sum()), 1e-8 * X.sum(), "fitted counts")
        again = model.update(model.formula)
        close(again.g2, model.g2, 1e-7 * (1 + model.g2), f"G2 of its own formula {model.formula!r}")
        stored_model_alike(model, folder)
        return kind

    def bits(model: Any) -> Any:
        return [model.g2, model.x2, model.df, model.fit.theta, model.formula]

    return Trial(call, check, (X, offset, args["support"], args["formula"]), bits)


def stored_model_alike(model: Any, folder: Path) -> None:
    """Save and load a log-linear model: the same numbers."""
    model.save(folder / "model.npz")
    back = ld.load(folder / "model.npz")
    need(back.g2 == model.g2 and back.df == model.df and back.formula == model.formula, "the loaded model is another")
    need(bool(model.summary() and repr(model)), "no summary")


def bare(fit: Any) -> Any:
    """Take the labels off, so that answers are arrays and levels are counted."""
    return fit.without_labels()


TARGETS = [
    Target("ties", draw_ties, try_ties, 0.06),
    Target("boxes", draw_boxes, try_boxes, 0.03),
    Target("arranged", draw_arranged, try_arranged, 0.04),
    Target("formulas", draw_formulas, try_formulas, 0.05),
]
