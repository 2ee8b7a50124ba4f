"""Rows of which some lack values, ``loglinear(missing="em")``: the likelihood is summed row by row, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from ..draw import chance, pick
from ..features import FeatureProblem, defined, features_of, same_features
from ..fit_rules import close, need, vanished
from ..oracle import EPS, LONG, independent, omega_mask, rank_of
from ..rules import Trial
from . import Args, Target
from .fits import judge_fit, problem_for
from .tied import bare, draw_formulas, stored_model_alike

Array = Any
ROUNDS = 300  # of expectation-maximisation for the saturated model; the gap says how far that leads


def draw_lacking(rng: np.random.Generator) -> Args:
    """Draw a table and a formula, list its rows, and take values out of them."""
    args = draw_formulas(rng)
    X, names = args["X"], args["names"]
    codes = np.repeat(np.argwhere(np.ones(X.shape)), X.ravel(), axis=0)
    shares = [pick(rng, 0.0, 0.1, 0.4, 0.8) for _ in names]
    absent = rng.random(codes.shape) < shares
    if len(names) > 1 and chance(rng, 0.15):  # two variables that are never known together
        absent[:, :2] |= np.eye(2, dtype=bool)[rng.integers(0, 2, len(codes))]
    rows = [
        [None if gone else f"l{code}" for code, gone in zip(own, out, strict=True)]
        for own, out in zip(codes.tolist(), absent, strict=True)
    ]
    counts = rng.integers(0, 9, len(rows)).tolist() if chance(rng, 0.3) else None
    if counts is not None and chance(rng, 0.2):
        counts = [10**6 * n for n in counts]
    scale = pick(rng, 1.0, 1.0, 5.0, 40.0)
    return {
        **{name: args[name] for name in ("names", "formula", "groups", "specs", "support", "seed")},
        "dims": X.shape,
        "rows": rows,
        "form": pick(rng, "dict", "pandas"),
        "counts": counts,
        "offset": None if args["offset"] is None else scale * args["offset"],
    }


def frame_of(args: Args) -> Any:
    """Put the rows into a frame by columns."""
    frame = {name: [row[k] for row in args["rows"]] for k, name in enumerate(args["names"])}
    if args["counts"] is not None:
        frame["n"] = args["counts"]
    if args["form"] == "dict":
        return frame
    import pandas as pd

    return pd.DataFrame(frame)


@dataclass(frozen=True, eq=False)
class Rows:
    """Kinds of rows: which cells of Omega each may come from, and how many there are."""

    matrix: Array  # kinds x cells, 0 or 1
    n: Array
    whole: Array  # whether they lack nothing

    @classmethod
    def of(cls, args: Args, omega: Array) -> Rows:
        """List the cells that agree with all values that a row has; rows without any value say nothing."""
        found: dict[tuple[Any, ...], int] = {}
        for row, n in zip(args["rows"], weights(args), strict=True):
            if n and any(value is not None for value in row):
                found[tuple(row)] = found.get(tuple(row), 0) + n
        agree = [[all(v in (None, f"l{i}") for v, i in zip(row, u, strict=True)) for u in omega] for row in found]
        whole = np.array([None not in row for row in found], dtype=bool)
        matrix = np.array(agree, dtype=LONG).reshape(len(found), len(omega))
        return cls(matrix, np.array([*found.values()], dtype=LONG), whole)

    @property
    def total(self) -> Any:
        """The number of rows."""
        return self.n.sum()

    def value(self, q: Array) -> Any:
        """Return the log-likelihood, without constants."""
        with np.errstate(divide="ignore"):
            return self.n @ np.log(self.matrix @ q)

    def completed(self, q: Array) -> Array:
        """Share each row out among its cells in proportion to q."""
        return q * (self.matrix.T @ (self.n / (self.matrix @ q)))

    def saturated(self) -> tuple[Any, Any]:
        """Return what some probabilities reach, and by how much others may exceed it: the problem is concave."""
        q = np.full(self.matrix.shape[1], 1 / LONG(self.matrix.shape[1]))
        for _ in range(ROUNDS):
            q = self.completed(q) / self.total
        slopes = self.matrix.T @ (self.n / (self.matrix @ q))
        return self.value(q), max(slopes.max() - self.total, LONG(0))

    def missing(self, q: Array, features: Array) -> Array:
        """Return the covariance of the features given each row, summed over the rows, per row (Louis 1982)."""
        out = np.zeros((features.shape[1],) * 2, dtype=LONG)
        for agree, n in zip(self.matrix, self.n, strict=True):
            own = agree * q / (agree @ q)
            centred = features - own @ features
            out += n * (centred.T * own) @ centred
        return out / self.total


def try_lacking(args: Args, folder: Path) -> Trial:
    frame, names, offset = frame_of(args), args["names"], args["offset"]
    levels = {name: [f"l{i}" for i in range(args["dims"][k])] for k, name in enumerate(names)}
    counts = None if args["counts"] is None else "n"

    def call() -> Any:
        base = None if offset is None else np.exp(offset)
        given: Any = {"columns": names, "levels": levels, "counts": counts, "base": base}
        return ld.loglinear(frame, args["formula"], missing="em", support=args["support"], **given)

    def check(model: Any) -> str:
        fit, base = model.fit, None if offset is None else np.exp(offset)
        found, terms = features_of(fit)
        same_features(found, defined([{"kind": "interactions", "sets": args["groups"]}, *args["specs"]], args["dims"]))
        ones = np.ones(args["dims"])
        table = Rows.of(args, np.argwhere(ones))
        need((model.em is not None) != table.whole.all(), "rows lack values, or none does")
        if table.whole.all():
            X = (table.n @ table.matrix).astype(np.float64).reshape(args["dims"])
            whole = problem_for(fit, X, omega_mask(X, args["support"], base), base)
            return judge_fit(bare(fit), args, problem=whole)[0]
        problem = FeatureProblem.of_features(ones, omega_mask(ones, args["support"], base), found, terms, base)
        rows = Rows.of(args, problem.omega)
        check_partial(model, problem, rows)
        stored_model_alike(model, folder)
        return "unconverged" if not model.converged else "boundary" if fit.n_vanishing else "right"

    def bits(model: Any) -> Any:
        return [model.g2, model.df, model.fit.theta, model.formula]

    held = (args["rows"], args["counts"], offset, args["support"])
    return Trial(call, check, held, bits, twice=args["seed"] % 4 == 0, benign=ordinary(args))


def ordinary(args: Args) -> bool:
    """Whether a refusal is wrong: values in every column, rows that count, offsets near each other."""
    known = all(any(row[k] is not None for row in args["rows"]) for k in range(len(args["names"])))
    some = any(n and any(v is not None for v in row) for row, n in zip(args["rows"], weights(args), strict=True))
    near = args["offset"] is None or float(np.ptp(args["offset"])) < 30.0
    free = isinstance(args["support"], str) and args["support"] == "all"
    return known and some and near and free


def weights(args: Args) -> list[int]:
    """Return for how many cases each row stands."""
    return [1] * len(args["rows"]) if args["counts"] is None else args["counts"]


def check_partial(model: Any, problem: FeatureProblem, rows: Rows) -> None:
    """Judge what is said of the likelihood: its value, its gradient, its maximum, and the information in the rows."""
    theta, tol = model.fit.theta, model.tol
    alive = vanished(bare(model.fit), problem)
    need(bool(np.isfinite(theta).all()), "theta is not finite")
    rounding, N = problem.rounding(theta), rows.total
    log_q, _ = problem.log_q(theta, alive)
    q = np.exp(log_q)
    value = rows.value(q)
    need(bool(np.isfinite(value)), "a row that was seen has probability 0")
    rough = float(N) * 2 * rounding + 32 * EPS * abs(float(value))
    path = np.array(model.log_likelihoods)
    close(path[-1], value, rough, "the log-likelihood")
    need(bool((np.diff(path) >= -rough).all()), "the log-likelihood falls on the way")
    slope = problem.Z_long.T @ (rows.completed(q) / N - q)
    right = float(np.abs(slope).max(initial=0.0))
    close(model.residual, right, 4 * rounding * problem.size, "residual")
    need(model.converged == (model.residual <= tol), "converged is not what the residual says")
    close(bare(model.fit).tensor(), problem.on_grid(q * N), 2 * float(N) * rounding, "fitted counts")
    _compare(model, problem, rows, value, rough, alive)
    if model.converged:
        _information(model, problem, rows, q, alive)


def _compare(model: Any, problem: FeatureProblem, rows: Rows, value: Any, rough: float, alive: Array) -> None:
    """Compare the likelihood with that of the first step from an even table, and with the largest of any q."""
    even = np.full(len(problem.x), 1 / LONG(len(problem.x)))
    begun = rows.value(np.exp(replace(problem, x=rows.completed(even)).best.log_q))
    need(bool(value >= begun - rough - 1e-9 * abs(begun)), f"{float(value)} is below the first step's {float(begun)}")
    low, gap = rows.saturated()
    need(bool(value <= low + gap + rough), f"{float(value)} is above what any probabilities reach, {float(low + gap)}")
    close_to = 1e-10 * max(float(rows.total), 1e3)  # what is promised of the saturated model
    slack, g2 = 2 * rough + 4 * close_to, model.g2
    need(2 * float(low - value) - slack <= g2 <= 2 * float(low + gap - value) + slack, f"g2 is {g2}")
    if rows.whole.any():
        df = int(alive.sum()) - 1 - rank_of(problem.Z[alive])
        need(model.df == df, f"df is {model.df}, brute force {df}")


def _information(model: Any, problem: FeatureProblem, rows: Rows, q: Array, alive: Array) -> None:
    """Compare the share of the information that is missing: an eigenvalue of one covariance beside another."""
    from scipy.linalg import eigvalsh

    columns = independent(problem.Z[alive])
    if not len(columns):
        return
    F = problem.Z_long[:, columns]
    centred = F - q @ F
    whole = np.asarray((centred.T * q) @ centred, dtype=np.float64)
    if np.linalg.cond(whole) > 1e8:
        return
    lost = np.asarray(rows.missing(q, F), dtype=np.float64)
    # variances are differences of numbers up to 1
    rough = 1e-6 + 64 * EPS / float(np.diag(whole).min())
    close(model.missing_information, eigvalsh(lost, whole)[-1], rough, "missing_information")


TARGETS = [Target("lacking", draw_lacking, try_lacking, 0.03)]
