"""The tasks: completion, smoothing, balancing, hidden modes, estimators."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..fit_rules import cell_set, close, need, same_cells, vanished
from ..oracle import EPS, LONG, Problem, basis_cells, omega_mask, possible, up_sums
from ..rules import Trial
from . import Args, Target
from .fits import fit_bits, judge_fit, the_cells

Array = Any


# --- complete --------------------------------------------------------------------------------------------------------


def gaps(rng: np.random.Generator, kind: str | None = None) -> Array:
    """Draw a tensor some of whose cells are missing."""
    X = draw.values(
        rng, draw.shape(rng, 30, (1, 2, 2, 3, 3, 4)), kind or pick(rng, "even", "counts", "heavy", "sparse", "unit")
    )
    X[rng.random(X.shape) < rng.uniform(0.0, 0.5)] = np.nan
    if not (np.nan_to_num(X) > 0).any():
        X.flat[0] = 2.0
    return X


def draw_complete(rng: np.random.Generator) -> Args:
    X, folds = gaps(rng), pick(rng, None, None, None, 2, 3)
    return {
        **draw.question(rng, X),
        "base": None,
        "basis": draw.basis(rng, X.shape),
        "undetermined": pick(rng, "nan", "nan", "theta0"),
        "folds": folds,
        "hold_out": "cells" if folds is None else pick(rng, "cells", "cells", 0, [0]),
        "criterion": pick(rng, "deviance", "rmse"),
    }


def try_complete(args: Args, folder: Path) -> Trial:
    del folder
    X = args["X"]

    def call() -> Any:
        names = ("support", "undetermined", "folds", "hold_out", "criterion")
        return ld.complete(X, args["basis"], **{name: args[name] for name in names})

    def check(done: Any) -> str:
        seen = omega_mask(X, args["support"], None)
        fit = done.fit
        same_cells(fit.basis, the_cells(args["basis"], np.where(seen, X, 0.0), np.ones(X.shape, dtype=bool)))
        kind, problem = judge_fit(fit, args)
        need(np.array_equal(done.observed, seen), "observed cells are others")
        filled = done.tensor()
        need(bool((filled[seen] == X[seen]).all()), "an observed cell was changed")
        if fit.converged and problem.alive.all() and done.determined is not None:
            _filled(done, problem, seen, args["undetermined"])
        return kind

    def bits(done: Any) -> Any:
        return [done.tensor(), fit_bits(done.fit)]

    return Trial(call, check, (X, args["support"]), bits, twice=args["folds"] is None)


def _filled(done: Any, problem: Problem, seen: Array, undetermined: str) -> None:
    """Check that what is determined is: rows of features that are combinations of observed ones, with sum 1."""
    fit = done.fit
    cells = np.argwhere(~seen)
    if not len(cells):
        return
    rows = (cells[:, None, :] >= problem.basis[None]).all(axis=2).astype(np.float64)
    A = np.hstack([np.ones((len(problem.Z), 1)), problem.Z])
    wanted = np.hstack([np.ones((len(rows), 1)), rows])
    fitted = wanted @ np.linalg.pinv(A) @ A
    known = np.abs(fitted - wanted).max(axis=1, initial=0.0) < 1e-7
    found = done.determined[tuple(cells.T)]
    need(np.array_equal(found, known), f"determined {found.tolist()}, brute force {known.tolist()}")
    _, psi = problem.log_q(fit.theta, np.ones(len(problem.x), dtype=bool))
    right = np.exp(rows.astype(LONG) @ fit.theta.astype(LONG) - psi) * problem.total
    at = known if undetermined == "nan" else np.ones(len(cells), dtype=bool)
    values = done.tensor()[tuple(cells.T)]
    reach = float(np.abs(fit.theta).sum())
    close(
        values[at], right[at], right[at] * (4 * problem.rounding(fit.theta) + 32 * EPS * (reach + 9)) + 1e-300, "filled"
    )
    if undetermined == "nan":
        need(bool(np.isnan(values[~known]).all()), "an undetermined cell has a value")


# --- smooth ----------------------------------------------------------------------------------------------------------


def draw_smooth(rng: np.random.Generator) -> Args:
    return {
        **draw.question(rng, gaps(rng)),
        "base": None,
        "folds": pick(rng, 2, 3),
        "hold_out": pick(rng, "cells", "cells", 0, [0]),
        "criterion": pick(rng, "deviance", "rmse"),
        "tol": pick(rng, 1e-10, 1e-10, 1e-6, 0.0),
        "max_iter": pick(rng, None, None, None, 0, 3),
    }


def try_smooth(args: Args, folder: Path) -> Trial:
    del folder
    X = args["X"]

    def call() -> Any:
        return ld.complete(X, **{name: value for name, value in args.items() if name not in ("X", "seed", "base")})

    def check(done: Any) -> str:
        seen = omega_mask(X, args["support"], None)
        need(np.array_equal(done.observed, seen), "observed cells are others")
        filled, means = done.tensor(), done.fit.tensor()
        need(bool((filled[seen] == X[seen]).all()), "an observed cell was changed")
        need(np.array_equal(filled[~seen], means[~seen]), "a missing cell has not the model's value")
        need(bool(np.isfinite(means).all()), "a mean is not finite")
        need(bool((means >= 0).all()), "a mean is negative")
        need(done.converged == (done.residual <= done.tol), f"{done.status.name} with residual {done.residual:.2e}")
        grid = np.zeros(X.shape, dtype=LONG)
        grid.flat[1:] = done.theta
        h = _below(grid)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_m = np.log(means.astype(LONG))
        here = means > 1e-290
        log_m = log_m[here] - log_m[here][0]
        reach = float(np.abs(done.theta).sum())
        close(h[here] - h[here][0], log_m, 64 * EPS * (reach + np.abs(log_m).max() + 9), "log of the means")
        q = np.where(seen, means, 0.0).astype(LONG)
        close(done.eta, up_sums(q / q.sum()).ravel()[1:], 1e-12, "eta")
        need(bool(done.summary()), "no summary")
        return "right" if done.converged else "unconverged"

    def bits(done: Any) -> Any:
        return [done.tensor(), done.theta, done.residual]

    return Trial(call, check, (X, args["support"]), bits, twice=X.size % 5 == 0)


def _below(grid: Array) -> Array:
    out = np.empty_like(grid)
    for v in np.ndindex(grid.shape):
        out[v] = grid[tuple(slice(0, i + 1) for i in v)].sum()
    return out


# --- balance ---------------------------------------------------------------------------------------------------------


def draw_balance(rng: np.random.Generator) -> Args:
    """X and the margins of some tensor on a part of its support, so that it is known which cells can be positive."""
    dims = draw.shape(rng, 24, (1, 2, 2, 2, 2, 3, 3, 4))
    X = draw.values(rng, dims)
    T = np.where(X > 0, draw.values(rng, dims, pick(rng, "even", "even", "heavy", "unit", "extreme")), 0.0)
    if chance(rng, 0.3):
        T = T * (rng.random(dims) < 0.7)
    if not T.any():
        T = (X > 0).astype(np.float64)
    order = len(dims)
    size = int(rng.integers(1, order + 1))
    groups = [g for s in range(1, size + 1) for g in combinations(range(order), s)]
    chosen = [groups[i] for i in rng.permutation(len(groups))[: int(rng.integers(1, 4))]]
    if chance(rng, 0.5):
        chosen = [(k,) for k in range(order)]
    margins = {(g[0] if len(g) == 1 else g): T.sum(axis=tuple(k for k in range(order) if k not in g)) for g in chosen}
    args: Args = {
        "X": X,
        "T": T,
        "margins": margins,
        "solver": "auto"
        if chance(rng, 0.6)
        else pick(rng, "natural", "natural-cg", "scaling", "matrix-scaling", "gradient", "closed"),
        "tol": pick(rng, 1e-10, 1e-10, 1e-10, 1e-6, 1e-12, 0.0),
        "max_iter": None,
    }
    if args["solver"] in ("gradient", "scaling", "matrix-scaling"):
        args["max_iter"] = 300
    if chance(rng, 0.08):  # margins that need not be those of any tensor on the support
        args["T"] = None
        args["margins"] = {k: rng.uniform(0.1, 2.0, np.shape(m)) for k, m in margins.items()}
        args["margins"] = {k: m / m.sum() for k, m in args["margins"].items()}
    return args


def try_balance(args: Args, folder: Path) -> Trial:
    del folder
    X, T, margins = args["X"], args["T"], args["margins"]
    positive = X[X > 0]
    wanted = [] if T is None else [np.asarray(m)[np.asarray(m) > 0] for m in margins.values()]
    calm = T is not None and _span(positive) < 1e8 and all(_span(m) < 1e6 for m in wanted)
    steady = calm and args["solver"] in ("auto", "natural") and args["tol"] >= 1e-12 and args["max_iter"] is None

    def call() -> Any:
        return ld.balance(X, margins, solver=args["solver"], tol=args["tol"], max_iter=args["max_iter"])

    def check(done: Any) -> str:
        Q = done.tensor()
        need(bool((Q >= 0).all() and np.isfinite(Q).all()), "the tensor is negative or not finite somewhere")
        need(not Q[X == 0].any(), "a cell with X = 0 is not 0")
        for key, m in margins.items():
            modes = (key,) if isinstance(key, int) else key
            others = tuple(k for k in range(X.ndim) if k not in modes)
            got = Q.astype(LONG).sum(axis=others).transpose(np.argsort(np.argsort(modes)))
            largest = float(np.max(m))
            if done.converged:
                close(got, np.asarray(m), (done.tol + 1e-13) * largest, f"the margin of {key}")
        _balanced_form(done, X, Q)
        # float64 sums do not carry a margin far below the largest: it is fitted to tol, its zeros are not decided
        decided = done.status.name != "UNDECIDED" or all(m.min() >= 1e-8 * m.sum() for m in wanted)
        if T is not None and done.converged and decided and _span(T[T > 0]) < 1e9:
            omega = np.argwhere(X > 0)
            sets = [(key,) if isinstance(key, int) else key for key in margins]
            basis = sorted(basis_cells(f"interactions({sets})", X, X > 0))
            alive = possible(Problem.of(X, X > 0, np.array(basis)).Z, T[X > 0] > 0)
            gone, right = cell_set(done.vanishing_cells), cell_set(omega[~alive])
            need(gone == right, f"vanish, but need not: {sorted(gone - right)[:4]}; must: {sorted(right - gone)[:4]}")
            need((done.status.name == "AT_BOUNDARY") == bool(gone), f"status {done.status.name}")
        elif steady and not done.converged:
            need(False, f"{done.status.name} though margins are those of a tensor: error {done.margin_error:.2e}")
        need(bool(done.summary() and repr(done)), "no summary")
        return {"CONVERGED": "right", "AT_BOUNDARY": "boundary"}.get(done.status.name, "unconverged")

    held = (X, margins)
    return Trial(call, check, held, lambda d: [d.tensor(), d.theta, d.status.name], benign=steady)


def _span(x: Array) -> float:
    """Divide the largest by the smallest."""
    return float(LONG(x.max()) / LONG(x.min()))


def _balanced_form(done: Any, X: Array, Q: Array) -> None:
    """Q is X times the exponentials of the factors."""
    log = np.zeros(X.shape, dtype=LONG)
    size = np.zeros(X.shape)
    for key, part in done.log_factors.items():
        modes = (key,) if isinstance(key, int) else key
        spread = np.expand_dims(part, tuple(k for k in range(X.ndim) if k not in modes))
        log = log + spread
        with np.errstate(invalid="ignore"):
            size = size + np.nan_to_num(np.abs(spread), posinf=0.0)
    right = np.where(X > 0, np.exp(np.log(np.where(X > 0, X, 1).astype(LONG)) + log), 0)
    for v in map(tuple, done.vanishing_cells):
        right[v] = 0
    close(Q, right, right * (64 * EPS * (size + 20)) + 1e-300, "X times the factors")


# --- hidden ----------------------------------------------------------------------------------------------------------


def draw_hidden(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 12, (1, 2, 2, 3), 3)
    X = draw.values(rng, dims, pick(rng, "even", "counts", "heavy", "unit"))
    n, sizes = X.ndim, pick(rng, 2, 2, [2], [3], [2, 2])
    ties = [(k, n) for k in range(n)]
    both = [(*range(n), n)]
    basis = pick(
        rng, f"interactions({ties})", f"interactions({ties})", f"interactions({both})", "interactions(2)", "B1"
    )
    return {
        **draw.question(rng, X),
        "basis": basis,
        "sizes": sizes,
        "restarts": int(rng.integers(1, 4)),
        "rng": int(rng.integers(9)),
        "tol": pick(rng, 1e-8, 1e-8, 1e-5),
        "max_iter": pick(rng, 200, 200, 20, 0, 1),
    }


def try_hidden(args: Args, folder: Path) -> Trial:
    del folder
    X = args["X"]

    def call() -> Any:
        given = {name: value for name, value in args.items() if name not in ("X", "basis", "sizes", "seed")}
        return ld.hidden(X, args["basis"], args["sizes"], **given)

    def check(done: Any) -> str:
        fit, n = done.fit, X.ndim
        mask = omega_mask(X, args["support"], args["base"])
        shape, hidden = fit.shape, tuple(range(n, len(fit.shape)))

        def spread(values: Array) -> Array:
            return np.broadcast_to(np.expand_dims(values, hidden), shape)

        base = None if args["base"] is None else spread(args["base"])
        joint = Problem.of(spread(np.where(mask, X, 0.0)), spread(mask), fit.basis, base)
        alive = vanished(fit, joint)
        log_q, _ = joint.log_q(fit.theta, alive)
        q = joint.on_grid(np.exp(log_q))
        visible = q.sum(axis=hidden)
        relative = 4 * joint.rounding(fit.theta) + 64 * EPS * q.size
        if not done.converged and relative > 1e-3:
            return "unconverged"  # a theta of 1e20 that did not converge, and said so, leaves no digit to a view
        x = X[mask].astype(LONG)
        total = x.sum()
        p, v = x / total, visible[mask]
        close(done.tensor()[mask], v * total, v * total * relative + float(total) * 1e-300 + 1e-307, "tensor")
        seen = p > 0
        need(bool((v[seen] > 0).all()), "a visible cell with X > 0 has probability 0")
        kl = (p[seen] * np.log(p[seen] / v[seen])).sum()
        close(done.kl, max(float(kl), 0.0), relative * 4, "kl")
        close(
            done.log_likelihood,
            (x[seen] * np.log(v[seen])).sum(),
            relative * float(np.abs(x[seen] * np.log(v[seen])).sum() + total),
            "log_likelihood",
        )
        kls = done.kls.tolist()
        lowest = min(kls) + 1e-9 * (1 + min(kls))
        need(not done.fit.converged or done.kl <= lowest, f"KL {done.kl!r} is above that of a run: {min(kls)!r}")
        if done.converged:
            # the gradient of KL in theta: expectations under Q less those under P shared out by the posterior
            share = np.where(
                visible > 0, np.where(mask, X, 0).astype(LONG) / total / np.where(visible > 0, visible, 1), 0
            )
            filled = q * np.expand_dims(share, hidden)
            gradient = joint.expectations((q - filled)[tuple(joint.omega.T)])
            worst = float(np.abs(gradient).max(initial=0.0))
            need(
                worst <= done.tol * 1.01 + 4 * relative + 1e-11,
                f"converged with a gradient of {worst:.2e}, tol {done.tol:g}",
            )
        posterior = done.posterior()
        positive = visible > 1e-290
        share = q[positive] / np.expand_dims(visible[positive], tuple(range(1, len(hidden) + 1)))
        close(posterior[positive], share, share * relative + 1e-12, "posterior")
        need(bool(done.summary()), "no summary")
        return "right" if done.converged else "unconverged"

    return Trial(
        call, check, (X, args["support"], args["base"]), lambda d: [d.theta, d.kl, d.tensor()], twice=args["rng"] == 0
    )


# --- estimators ------------------------------------------------------------------------------------------------------


def draw_estimators(rng: np.random.Generator) -> Args:
    n, k = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    levels = [int(rng.integers(2, 4)) for _ in range(k)]
    rows: Any = np.stack([rng.integers(0, m, n) for m in levels], axis=1)
    common = {
        "alpha": pick(rng, 0.0, 0.0, 0.5, 1.0),
        "weights": rng.integers(0, 3, n).astype(float) if chance(rng, 0.2) else None,
        "seed": int(rng.integers(1 << 30)),
    }
    if chance(rng, 0.5):
        pairs = [tuple(map(int, rng.permutation(k)[: int(rng.integers(2, k + 1))])) for _ in range(2)] if k > 1 else []
        edges: Any = pick(rng, 1, 2, 2, 3, pairs)
        given = pick(rng, None, levels, levels, levels)
        return {"kind": "machine", "rows": rows, "edges": edges, "levels": given, **common}
    if chance(rng, 0.3):  # every value is a level of its own unless they are binned
        few = rows[:6]
        rows, n = few + rng.random(few.shape), len(few)
        common["weights"] = None if common["weights"] is None else common["weights"][:n]
    return {
        "kind": "density",
        "rows": rows,
        "basis": pick(rng, 1, 2, 2, "B1", "full()"),
        "n_bins": pick(rng, None, 2, 3),
        **common,
    }


def try_estimators(args: Args, folder: Path) -> Trial:
    del folder
    return _machine(args) if args["kind"] == "machine" else _density(args)


def counted(rows: Array, shape: tuple[int, ...], weights: Array | None, alpha: float) -> Array:
    table = np.full(shape, alpha / np.prod(shape))
    for i, row in enumerate(rows):
        table[tuple(int(c) for c in row)] += 1.0 if weights is None else weights[i]
    return table


def _machine(args: Args) -> Trial:
    rows, seed = args["rows"], args["seed"]

    def call() -> Any:
        machine = ld.BoltzmannMachine(args["edges"], n_levels=args["levels"], alpha=args["alpha"])
        machine.fit(rows, sample_weight=args["weights"])
        return machine, machine.score_samples(rows)

    def check(found: Any) -> str:
        machine, scores = found
        fit = machine.decomposition_
        X = counted(rows, fit.shape, args["weights"], args["alpha"])
        edges, k = args["edges"], rows.shape[1]
        if isinstance(edges, int):
            edges = [g for size in range(2, min(edges, k) + 1) for g in combinations(range(k), size)]
        sets = [{i} for i in range(k)] + [set(g) for g in edges]
        same_cells(fit.basis, [v for v in np.ndindex(X.shape) if set(np.flatnonzero(v)) in sets])
        kind, problem = judge_fit(fit, {"X": X, "support": "all", "seed": seed}, True)
        log_q, _ = problem.log_q(fit.theta, problem.alive)
        grid = problem.on_grid(log_q)
        right = grid[tuple(rows.T.astype(int))]
        close(scores, right, 1e-11 * (1 + np.abs(np.where(np.isfinite(right), right, 0))), "score_samples")
        if k > 1 and np.isfinite(grid[tuple(rows[0].astype(int))]):
            part = np.exp(grid)[int(rows[0, 0])]
            close(machine.conditional({0: int(rows[0, 0])}), part / part.sum(), 1e-10, "conditional")
        drawn = machine.sample(5, rng=seed % 1000)
        need(bool(np.isfinite(grid[tuple(drawn.T)]).all()), "sample drew an impossible row")
        return kind

    return Trial(call, check, (rows, args["weights"]), lambda f: [f[1], f[0].psi_, f[0].decomposition_.theta])


def _density(args: Args) -> Trial:
    rows = args["rows"]

    def call() -> Any:
        density = ld.LegendreDensity(args["basis"], n_bins=args["n_bins"], alpha=args["alpha"])
        density.fit(rows, sample_weight=args["weights"])
        kept = rows if args["weights"] is None else rows[args["weights"] > 0]
        return density, density.score_samples(kept)

    def check(found: Any) -> str:
        density, scores = found
        fit = density.decomposition_
        weights = args["weights"]
        kept = rows if weights is None else rows[weights > 0]
        codes, widths = [], np.zeros(len(kept))
        for k, column in enumerate(density.columns_):
            if column.edges is not None:
                inner = column.edges[1:-1]
                code = np.array([int((inner <= x).sum()) for x in kept[:, k]])
                widths += np.log(np.diff(column.edges))[code]
            else:
                distinct = sorted(set(kept[:, k].tolist()))
                need(column.values.tolist() == distinct, "levels are not the sorted distinct values")
                code = np.array([distinct.index(x) for x in kept[:, k].tolist()])
            codes.append(code)
        cells = np.stack(codes, axis=1)
        X = counted(cells, fit.shape, None if weights is None else weights[weights > 0], args["alpha"])
        kind = "right"
        if X.size <= 300:
            kind, problem = judge_fit(fit, {"X": X, "support": "all", "seed": args["seed"]}, True)
            log_q, _ = problem.log_q(fit.theta, problem.alive)
            right = problem.on_grid(log_q)[tuple(cells.T)] - widths
            close(scores, right, 1e-10 * (1 + np.abs(right)), "score_samples")
        need(len(density.sample(3, rng=1)) == 3, "sample")
        return kind

    return Trial(call, check, (rows, args["weights"]), lambda f: [f[1], f[0].decomposition_.theta])


TARGETS = [
    Target("complete", draw_complete, try_complete, 0.08),
    Target("smooth", draw_smooth, try_smooth, 0.02),
    Target("balance", draw_balance, try_balance, 0.10),
    Target("hidden", draw_hidden, try_hidden, 0.02),
    Target("estimators", draw_estimators, try_estimators, 0.06),
]
