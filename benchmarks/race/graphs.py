"""A hundred modes: rows of categories, and the margins of some pairs; the problems of `networks`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import ROOT

from .entrants import Cannot, Case, Discipline, Entrant, Fitted
from .networks import NETWORKS, Edges
from .rows import OURS

TOL = 1e-9
BLOCKS, PATIENCE = 4000, 40.0
"""Blocks of 50 steps, and seconds, after which mbi is stopped."""
RULES = """\
10^5 rows, drawn from a member of the model: all single columns and the pairs that are joined in a graph. The residual
max|eta - eta_hat| must be at most 1e-9. Counting the rows is part of the time. mbi (MirrorDescent on the L2 loss in
float64, the one of four estimators that got there on every graph) takes steps in blocks of 50; it compiles for every
new graph, so that its first call is what a single fit costs. pyAgrum fits Bayesian networks: a chain is one.
"""


CHAIN = "chain, binary"


def rows_of(name: str) -> NDArray[np.int64]:
    """Draw the rows in a process of its own, for drawing imports the package."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        subprocess.run([sys.executable, "-m", "benchmarks.race.graphs", name, str(path)], cwd=ROOT, check=True)
        rows: NDArray[np.int64] = np.load(path)
    return rows


def _ours(case: Case, rows: NDArray[np.int64]) -> Fitted:
    ld: Any = import_module("legendre")
    data = import_module("legendre.data.sparse").observe_rows(rows, np.ones(len(rows)), case.about.levels)
    fit = ld.decompose(data, case.about.basis(), tol=TOL)
    return Fitted(lambda pair: np.asarray(fit.marginal(pair)), fit.n_params, fit.n_iter, fit.status.name)


def _with_compiled(case: Case, rows: NDArray[np.int64]) -> Any:
    """Return the rows with a place for what one call compiles and the next one uses."""
    del case
    return rows, {}


class _Enough(Exception):
    """The margins are right, or the time is up."""


def _mbi(case: Case, given: Any) -> Fitted:
    rows, memory = given
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    lib: Any = import_module("mbi")
    names = [f"x{k}" for k in range(rows.shape[1])]
    domain = lib.Domain(names, list(case.about.levels))
    data = lib.Dataset({name: rows[:, k] for k, name in enumerate(names)}, domain)
    pairs = [(names[i], names[j]) for i, j in case.about.edges]
    wanted = {pair: np.asarray(data.project(pair).values, dtype=np.float64) / len(rows) for pair in pairs}
    if "loss" not in memory:  # compiled for this loss: a second fit with another one would compile again
        asked = [lib.LinearMeasurement(margin.ravel(), pair) for pair, margin in wanted.items()]
        memory["loss"] = lib.marginal_loss.from_linear_measurements(asked, domain)
        memory["solve"] = lib.estimation.MirrorDescent().estimate
    best: dict[str, Any] = {"error": np.inf, "blocks": 0}
    end = time.process_time() + PATIENCE

    def watch(margins: Any) -> None:
        found = {pair: np.asarray(margins[pair].values, dtype=np.float64) for pair in pairs}
        error = max(largest_sum(found[pair] - wanted[pair]) for pair in pairs)
        best["blocks"] += 1
        if error < best["error"]:
            best.update(error=error, margins=found)
        if error <= TOL or time.process_time() > end:
            raise _Enough

    with suppress(_Enough):
        memory["solve"](domain, memory["loss"], 1.0, iters=50 * BLOCKS, callback_fn=watch)
    margins = best["margins"]
    return Fitted(
        lambda pair: margins[names[pair[0]], names[pair[1]]], _params(case), 50 * best["blocks"],
        "MirrorDescent, L2 loss",
    )  # fmt: skip


def _frame(case: Case, rows: NDArray[np.int64]) -> Any:
    """Make the data frame that pyAgrum reads."""
    del case
    pandas: Any = import_module("pandas")
    return pandas.DataFrame(rows, columns=[f"x{k}" for k in range(rows.shape[1])])


def _pyagrum(case: Case, frame: Any) -> Fitted:
    if "chain" not in case.name:
        raise Cannot("has no fit of a Markov random field that is not a Bayesian network")
    gum: Any = import_module("pyagrum")
    names = list(frame.columns)
    net = gum.BayesNet()
    for name, levels in zip(names, case.about.levels, strict=True):
        net.add(gum.RangeVariable(name, "", 0, levels - 1))
    for i, j in case.about.edges:
        net.addArc(names[i], names[j])
    learner = gum.BNLearner(frame, net)
    learner.useNoPrior()
    learner.setNumberOfThreads(1)
    fitted = learner.learnParameters(net.dag())

    def margin(pair: tuple[int, int]) -> NDArray[np.float64]:
        first, second = names[pair[0]], names[pair[1]]
        table = gum.getPosterior(fitted, target=first, evs={}) * fitted.cpt(second)
        rows, columns = (range(case.about.levels[k]) for k in pair)
        return np.array([[table[{first: a, second: b}] for b in columns] for a in rows])

    return Fitted(margin, _params(case), None, "Bayesian network, closed form")


def _params(case: Case) -> int:
    """Count the free parameters of the model."""
    levels: tuple[int, ...] = case.about.levels
    edges: Edges = case.about.edges
    return sum((levels[i] - 1) * (levels[j] - 1) for i, j in edges) + sum(levels) - len(levels)


def largest_sum(change: NDArray[np.float64]) -> float:
    """Return the largest sum over the cells at or above one: the error of an expectation on the basis."""
    return float(np.abs(change[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)).max())


def _judge(case: Case, rows: NDArray[np.int64], fitted: Fitted) -> dict[str, float]:
    worst = 0.0
    for i, j in case.about.edges:
        shape = case.about.levels[i], case.about.levels[j]
        counts = np.bincount(shape[1] * rows[:, i] + rows[:, j], minlength=shape[0] * shape[1])
        worst = max(worst, largest_sum(fitted.answer((i, j)) - counts.reshape(shape) / len(rows)))
    return {"residual": worst}


def _binary_chain(name: str) -> bool:
    return name.startswith("chain") and name.endswith("binary")


DISCIPLINE = Discipline(
    "order 100",
    "Up to a hundred modes",
    RULES,
    tuple(
        Case(name, len(graph.levels), partial(rows_of, name), CHAIN if _binary_chain(name) else "", "", graph)
        for name, graph in NETWORKS.items()
    ),
    (
        Entrant(OURS, "legendre", _ours, setting="interactions of the graph's edges", compiles=True),
        Entrant("mbi", "mbi", _mbi, _with_compiled, "MirrorDescent", warms=True, distributions=("mbi", "jax")),
        Entrant("pyAgrum", "pyagrum", _pyagrum, _frame, "BNLearner", distributions=("pyagrum",)),
    ),
    _judge,
    TOL,
)


if __name__ == "__main__":
    np.save(sys.argv[2], NETWORKS[sys.argv[1]].rows())
