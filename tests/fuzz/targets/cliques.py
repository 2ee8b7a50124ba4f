"""Fits in tables over cliques: small problems that are made to take the way of those that no grid can hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from legendre.core import limits

from .. import draw
from ..draw import chance, pick
from ..fit_rules import cell_set, need, same_cells
from ..oracle import Problem, basis_cells
from ..rules import Trial
from . import Args, Target
from .fits import fit_bits, judge_fit, moderate, problem_for, stored_alike
from .tied import basis_of, draw_spec


@contextmanager
def only_cliques() -> Iterator[None]:
    """Set the sizes to 0 from which tables over cliques are taken, and above which no grid is looked at."""
    names = ("CLIQUES_FROM", "CLIQUES_GAIN", "LARGEST_MASS")
    before = {name: getattr(limits, name) for name in names}
    try:
        for name in names:
            setattr(limits, name, 0)
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)


def draw_cliques(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 36, (1, 2, 3, 3, 4, 4, 5), 3)
    X = draw.values(rng, dims, pick(rng, "even", "counts", "sparse", "sparse", "ties", "heavy"))
    order = len(dims)
    groups = [tuple(int(k) for k in rng.permutation(order)[: int(rng.integers(1, min(order, 3) + 1))])]
    for k in range(order):  # a tree of sets of modes
        if not any(k in group for group in groups):
            old = pick(rng, *groups)
            groups.append((*(int(j) for j in rng.permutation(old)[: int(rng.integers(0, min(len(old), 2) + 1))]), k))
    tree = chance(rng, 0.6)
    basis: Any = f"interactions({groups})" if tree else draw.basis_string(rng, dims)
    if not tree and chance(rng, 0.3):
        basis = draw.basis_list(rng, dims)
    return {
        "X": X,
        "basis": basis,
        "tree": tree,
        "specs": [] if tree or chance(rng, 0.6) else [draw_spec(rng, dims)],
        "solver": pick(rng, "auto", "auto", "auto", "natural", "natural-cg", "closed"),
        "seed": int(rng.integers(1 << 30)),
    }


def try_cliques(args: Args, folder: Path) -> Trial:
    X, basis, specs = args["X"], args["basis"], args.get("specs")
    mask = np.ones(X.shape, dtype=bool)
    cells = np.argwhere(X > 0)

    def call() -> Any:
        with only_cliques():
            whole = basis_of(specs) if specs else basis
            return ld.decompose(ld.from_coords(cells, X[X > 0], X.shape), whole, solver=args["solver"])

    def check(fit: Any) -> str:
        with only_cliques():
            if isinstance(basis, str) and not specs:
                same_cells(fit.basis, basis_cells(basis, X, mask))
            problem = problem_for(fit, X, mask)
            steady = args["tree"] and moderate(problem) and args["solver"] in ("auto", "natural")
            kind, _ = judge_fit(fit, args, steady, problem)
            if fit.status.name == "AT_BOUNDARY":
                need(fit.n_vanishing == len(fit.vanishing_cells), f"n_vanishing is {fit.n_vanishing}")
                _margins(fit, problem)
            stored_alike(fit, folder)
        return kind

    return Trial(call, check, (X, basis, cells), fit_bits)


def _margins(fit: Any, problem: Problem) -> None:
    """Entries of margins that vanish are those of which every cell does."""
    carries = problem.on_grid(problem.alive) > 0
    for modes, entries in fit.vanishing_margins.items():
        left = carries.any(axis=tuple(k for k in range(carries.ndim) if k not in modes))
        need(cell_set(entries) == cell_set(np.argwhere(~left)), f"margin {modes}")


TARGETS = [Target("cliques", draw_cliques, try_cliques, 0.05)]
