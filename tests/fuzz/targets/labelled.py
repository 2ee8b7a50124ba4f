"""Estimators of rows that hold labels: texts, categories, numbers, by column name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from ..draw import chance, pick
from ..fit_rules import check_fit, close, need
from ..oracle import Problem
from ..rules import Trial
from . import Args, Target
from .tasks import counted

Array = Any
WORDS = ("yes", "no", "maybe", "ä", "", "10", "9", "None", "nan", "a b")


def draw_labelled(rng: np.random.Generator) -> Args:
    n, k = int(rng.integers(1, 30)), int(rng.integers(1, 4))
    columns: list[Any] = []
    for _ in range(k):
        levels = list(rng.permutation(len(WORDS))[: int(rng.integers(2, 4))])
        codes = rng.integers(0, len(levels), n)
        columns.append([WORDS[levels[c]] for c in codes])
    names = ["colour", "x y", "0"][:k]
    odd = k > 1 and chance(rng, 0.06)
    if odd:
        columns[0] = pick(rng, [None] * n, [[1]] * n, columns[0][:-1], [float("nan")] * n)
    given = {names[0]: columns[0][0] if columns[0] else "yes"}
    if chance(rng, 0.08):
        given = pick(rng, {"z": 1}, {names[0]: "never seen"}, {7: "yes"}, [1], {names[0]: None})
    return {
        "machine": chance(rng, 0.5),
        "form": pick(rng, "dict", "array", "pandas", "category"),
        "columns": columns,
        "names": names,
        "order": pick(rng, 1, 2, 2),
        "alpha": pick(rng, 0.0, 0.0, 0.5),
        "given": given,
        "odd": odd,
        "seed": int(rng.integers(1 << 30)),
    }


def frame_of(args: Args) -> Any:
    """Put the columns into the form that was drawn."""
    columns, names = args["columns"], args["names"]
    if args["form"] == "dict":
        return dict(zip(names, columns, strict=True))
    if args["form"] == "array":
        return np.array(columns, dtype=object).T if len({len(c) for c in columns}) == 1 else columns
    import pandas as pd

    frame = {name: pd.Series(column, dtype=object) for name, column in zip(names, columns, strict=True)}
    if args["form"] == "category" and not args["odd"]:
        frame = {
            name: pd.Categorical(column, sorted(set(column), reverse=True), ordered=True)
            for name, column in zip(names, columns, strict=True)
        }
    return pd.DataFrame(frame)


def in_order(texts: set[str]) -> list[str]:
    """Sort texts as numbers where all are, else by alphabet."""
    return sorted(texts, key=int if texts <= {"9", "10"} else str)


def try_labelled(args: Args, folder: Path) -> Trial:
    del folder
    columns, alpha = args["columns"], args["alpha"]
    rows = frame_of(args)
    ordered = args["form"] == "category"
    named = args["form"] != "array"

    def call() -> Any:
        made = (
            ld.BoltzmannMachine(args["order"], alpha=alpha)
            if args["machine"]
            else ld.LegendreDensity(args["order"], alpha=alpha)
        )
        made.fit(rows)
        given = args["given"]
        if not named and isinstance(given, dict):
            given = {0 if key == args["names"][0] else key: value for key, value in given.items()}
        several = len(columns) > 1
        return made, made.score_samples(rows), made.conditional(given) if several else made.conditional()

    def check(found: Any) -> str:
        made, scores, conditional = found
        need(not args["odd"], "columns that are none have an answer")
        levels = [sorted(set(column), reverse=True) if ordered else in_order(set(column)) for column in columns]
        codes = np.array(
            [[own.index(value) for value in column] for own, column in zip(levels, columns, strict=True)]
        ).T
        fit = made.decomposition_.without_labels()
        shape = tuple(map(len, levels))
        need(fit.shape == shape, f"the table has shape {fit.shape}, the columns {shape}")
        X = counted(codes, shape, None, alpha)
        problem = Problem.of(X, np.ones(shape, dtype=bool), fit.basis)
        kind = check_fit(fit, problem, np.random.default_rng(args["seed"]), steady=True)
        log_q = problem.on_grid(problem.log_q(fit.theta, problem.alive)[0])
        right = log_q[tuple(codes.T)]
        close(scores, right, 1e-10 * (1 + np.abs(right)), "score_samples")
        q = np.exp(log_q)
        if len(columns) > 1:
            part = q[codes[0, 0]]
            close(conditional, part / part.sum(), 1e-9, "conditional")
        else:
            close(conditional, q, 1e-9, "conditional")
        drawn = made.sample(5, rng=args["seed"] % 1000)
        for row in np.asarray(drawn, dtype=object):
            cell = tuple(own.index(value) for own, value in zip(levels, row, strict=True))
            need(bool(q[cell] > 0), f"sample drew {row.tolist()}, which has probability 0")
        if args["machine"]:
            _predicted(made, rows, codes, q)
        return kind

    def bits(found: Any) -> Any:
        return [found[1], found[2], found[0].decomposition_.theta]

    return Trial(call, check, (columns, args["given"]), bits)


def _predicted(machine: Any, rows: Any, codes: Array, q: Array) -> None:
    """Compare the levels of the first variable given all others, row by row."""
    found = machine.predict_proba(rows, 0)
    for i, code in enumerate(codes):
        part = q[(slice(None), *code[1:])]
        close(found[i], part / part.sum(), 1e-9, f"predict_proba[{i}]")


TARGETS = [Target("labelled", draw_labelled, try_labelled, 0.04)]
