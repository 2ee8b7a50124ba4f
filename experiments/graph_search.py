"""Graphs learned from rows of known networks: ``python -m experiments.graph_search`` fits, scores, writes the page.

The networks are those that pgmpy ships (the Bayesian network repository), the rows are drawn by pyAgrum. All libraries
get the same rows, with one thread. pyAgrum, pgmpy and mbi must be installed; mbi searches for no graph,
so it gets the cliques that were found here.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.csv_records import append, read
from benchmarks.problems import ROOT

import legendre as ld
from legendre.core.types import FloatArray, IntArray

RESULTS = Path(__file__).parent / "results" / "graph_search.csv"
PAGE = ROOT / "docs" / "background" / "graph_search.md"
NETWORKS = ("insurance", "water", "alarm")
N_ROWS = 10_000
Pairs = set[frozenset[int]]


@dataclass(frozen=True)
class Row:
    """One method on the rows of one network."""

    network: str
    columns: int
    method: str
    test: float  # the mean log-likelihood of a row that was not fitted, in nats
    edges: int
    found: int  # edges of the true network, without directions, that the method has
    arcs: int  # of the true network
    beyond: int  # edges between columns that neither interact in the true network nor have a common child there
    seconds: float  # of processor time, for the search and the fit


@dataclass(frozen=True)
class Problem:
    """Rows of a known network, as numbers of levels."""

    name: str
    network: Any  # pyAgrum's
    columns: list[str]
    shape: tuple[int, ...]
    train: IntArray
    test: IntArray


@dataclass(frozen=True)
class Found:
    """What a method found."""

    edges: Iterable[tuple[int, int]]
    log_prob: Callable[[IntArray], FloatArray]  # of each row


def load(name: str) -> Problem:
    """Read a network that pgmpy ships, and draw rows, always the same."""
    pgmpy, gum = import_module("pgmpy"), import_module("pyagrum")
    packed = Path(str(pgmpy.__file__)).parent / "utils" / "example_models" / f"{name}.bif.gz"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.bif"
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        network = gum.loadBN(str(path))
    gum.initRandom(2018)
    generator = gum.BNDatabaseGenerator(network)
    generator.drawSamples(2 * N_ROWS)
    frame, columns = generator.to_pandas(), sorted(network.names())
    levels = {column: list(network.variable(column).labels()) for column in columns}
    codes = np.stack([frame[c].astype(str).map({v: i for i, v in enumerate(levels[c])}) for c in columns], axis=1)
    rows, shape = codes.astype(np.int64), tuple(len(levels[c]) for c in columns)
    return Problem(name, network, columns, shape, rows[:N_ROWS], rows[N_ROWS:])


def _score_network(network: Any, columns: list[str], rows: IntArray) -> FloatArray:
    """Sum the logarithms of pyAgrum's conditional tables."""
    logs = np.zeros(len(rows))
    with np.errstate(divide="ignore"):
        for column in columns:
            table = network.cpt(column)
            places = [columns.index(name) for name in reversed(table.names)]  # the array has the axes in reverse order
            logs += np.log(table.toarray()[tuple(rows[:, places].T)])
    return logs


def _arcs(network: Any, columns: list[str]) -> list[tuple[int, int]]:
    """List the arcs of one of pyAgrum's networks as pairs of columns."""
    name = network.variable
    return [(columns.index(name(a).name()), columns.index(name(b).name())) for a, b in network.arcs()]


def _moral(arcs: Iterable[tuple[int, int]]) -> Pairs:
    """Join parents with their children, and with the other parents of these."""
    pairs, parents = set(), dict[int, set[int]]()
    for a, b in arcs:
        parents.setdefault(b, set()).add(a)
    for child, above in parents.items():
        family = sorted({child, *above})
        pairs |= {frozenset((u, v)) for u in family for v in family if u < v}
    return pairs


# --- the methods: each gets rows, and returns edges and a log-probability ---------------------------------------------


def _density(problem: Problem, basis: Any) -> ld.LegendreDensity:
    """Find the graph and its tables by this library; all levels of the columns are known."""
    return ld.LegendreDensity(basis, levels=[list(range(n)) for n in problem.shape]).fit(problem.train)


def legendre(problem: Problem, basis: Any) -> Found:
    """Find the graph and its tables by this library."""
    density = _density(problem, basis)
    return Found([(int(edge.a), int(edge.b)) for edge in density.graph_.edges], density.score_samples)


def _learner(problem: Problem) -> Any:
    """Make pyAgrum's learner, with all levels of the columns."""
    gum, pandas = import_module("pyagrum"), import_module("pandas")
    template = gum.BayesNet()
    for column, n in zip(problem.columns, problem.shape, strict=True):
        template.add(gum.RangeVariable(column, "", 0, n - 1))
    learner = gum.BNLearner(pandas.DataFrame(problem.train, columns=problem.columns), template)
    learner.setNumberOfThreads(1)
    return learner


def pyagrum_greedy(problem: Problem) -> Found:
    """Search greedily for the network with the best BIC."""
    learner = _learner(problem)
    learner.useGreedyHillClimbing()
    learner.useScoreBIC()
    return _from_pyagrum(problem, learner)


def pyagrum_miic(problem: Problem) -> Found:
    """Find the network by MIIC."""
    learner = _learner(problem)
    learner.useMIIC()
    return _from_pyagrum(problem, learner)


def _from_pyagrum(problem: Problem, learner: Any) -> Found:
    """Find a network by pyAgrum, then fit its tables, with one pseudo-count in each cell."""
    dag = learner.learnDAG()
    learner.useSmoothingPrior(1.0)
    network = learner.learnParameters(dag)
    return Found(_arcs(network, problem.columns), lambda rows: _score_network(network, problem.columns, rows))


def pgmpy_hill_climb(problem: Problem) -> Found:
    """Search greedily for the network with the best BIC by pgmpy; its BDeu pseudo-counts, five for each table."""
    pandas, search = import_module("pandas"), import_module("pgmpy.estimators")
    states = {column: list(map(str, range(n))) for column, n in zip(problem.columns, problem.shape, strict=True)}
    frame = pandas.DataFrame(problem.train, columns=problem.columns).astype(str)  # numbers would be continuous
    dag = search.HillClimbSearch(frame, state_names=states).estimate(scoring_method="bic-d", show_progress=False)
    network = import_module("pgmpy.models").DiscreteBayesianNetwork(dag.edges())
    network.add_nodes_from(problem.columns)
    fitter = search.BayesianEstimator(network, frame, state_names=states)
    tables = fitter.get_parameters(prior_type="BDeu", equivalent_sample_size=5, n_jobs=1)
    place = problem.columns.index

    def log_prob(rows: IntArray) -> FloatArray:
        logs = np.zeros(len(rows))
        for table in tables:
            # the axes are the column and its parents; states are in the order of state_names
            logs += np.log(np.asarray(table.values)[tuple(rows[:, [place(name) for name in table.variables]].T)])
        return logs

    return Found([(place(a), place(b)) for a, b in dag.edges()], log_prob)


def mbi_on_our_cliques(problem: Problem) -> Found:
    """Fit the cliques that this library found by mbi's mirror descent, 1000 steps; only the fit is timed by it."""
    lib, jax = import_module("mbi"), import_module("jax")
    jax.config.update("jax_enable_x64", True)
    density = _density(problem, ld.graph())
    names = [f"x{k}" for k in range(len(problem.shape))]
    domain = lib.Domain(names, list(problem.shape))
    data = lib.Dataset({name: problem.train[:, k] for k, name in enumerate(names)}, domain)
    families = [(*parents, v) for v, parents in density.graph_.families]
    cliques = [tuple(names[int(k)] for k in clique) for clique in density.graph_.cliques]
    asked = [lib.LinearMeasurement(np.asarray(data.project(c).values, dtype=float).ravel(), c) for c in cliques]
    loss = lib.marginal_loss.from_linear_measurements(asked, domain)
    fitted = lib.estimation.MirrorDescent().estimate(domain, loss, float(N_ROWS), iters=1000)
    tables = [np.asarray(fitted.project([names[k] for k in family]).values, dtype=float) for family in families]

    def log_prob(rows: IntArray) -> FloatArray:
        logs = np.zeros(len(rows))
        with np.errstate(divide="ignore", invalid="ignore"):
            for family, table in zip(families, tables, strict=True):
                logs += np.log((table / table.sum(axis=-1, keepdims=True))[tuple(rows[:, list(family)].T)])
        return np.nan_to_num(logs, nan=-np.inf, neginf=-np.inf)

    return Found([(int(e.a), int(e.b)) for e in density.graph_.edges], log_prob)


METHODS: dict[str, Callable[[Problem], Found]] = {
    'legendre, `ld.graph("bic")`': lambda problem: legendre(problem, ld.graph("bic")),
    'legendre, `ld.graph("held-out")`': lambda problem: legendre(problem, ld.graph("held-out")),
    "pyAgrum, greedy hill climbing, BIC": pyagrum_greedy,
    "pyAgrum, MIIC": pyagrum_miic,
    "pgmpy, hill climbing, BIC": pgmpy_hill_climb,
    "mbi, cliques of `ld.graph()`": mbi_on_our_cliques,
}


def run(problem: Problem, method: str) -> Row:
    """Fit, and score the rows that were not fitted."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[method](problem)
    seconds = time.process_time() - start
    pairs = {frozenset(pair) for pair in found.edges}
    arcs = _arcs(problem.network, problem.columns)
    test = float(found.log_prob(problem.test).mean())
    true = sum(frozenset(arc) in pairs for arc in arcs)
    beyond = len(pairs - _moral(arcs))
    return Row(problem.name, len(problem.shape), method, test, len(pairs), true, len(arcs), beyond, seconds)


def write_page(rows: list[Row], path: Path = PAGE) -> Path:
    """Write a table for each network, the best log-likelihood first."""
    text = [
        "# Graph search on known networks\n",
        f"{N_ROWS:,} rows of networks of the Bayesian network repository, drawn by pyAgrum; the score is the mean",
        f"log-likelihood of {N_ROWS:,} other rows. All methods get the same rows, with one thread. These",
        "networks are directed. Our graphs are chordal: two causes of one effect need an edge between them, which a",
        "directed network does not need.\n",
        "- *true*: edges of the network, without directions, that were found",
        "- *beyond*: edges between columns that are neither joined in the network nor share an effect",
        "- *seconds*: processor time of search and fit, with code already compiled; mbi's times include compilation",
        "  for each new graph, and our search, because mbi has none\n",
        "| network | columns | method | test | edges | true | beyond | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for network in dict.fromkeys(row.network for row in rows):
        for r in sorted((row for row in rows if row.network == network), key=lambda row: -row.test):
            text.append(  # noqa: PERF401
                f"| {r.network} | {r.columns} | {r.method} | {r.test:.3f} | {r.edges} | {r.found} of {r.arcs} "
                f"| {r.beyond} | {r.seconds:.2f} |"
            )
    text += [
        "\nEach library smooths tables in its own way: a pseudo-count that is chosen (legendre), one in each cell",
        "(pyAgrum), five for each table (pgmpy), none (mbi). What pgmpy finds differs a little from run to run.",
        "legendre and mbi were measured with graphs whose search did not yet look beyond its limit on cells.\n",
        "`python -m experiments.graph_search` makes this page.",
    ]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def main(names: list[str]) -> None:
    """Run what is not in the file yet; write the page."""
    for name in names:
        problem = load(name)
        for method in ["the network itself", *METHODS]:
            if any((row.network, row.method) == (name, method) for row in read(RESULTS, Row)):
                continue
            if method not in METHODS:
                arcs = _arcs(problem.network, problem.columns)
                test = float(_score_network(problem.network, problem.columns, problem.test).mean())
                row = Row(name, len(problem.shape), method, test, len(arcs), len(arcs), len(arcs), 0, 0.0)
            else:
                METHODS[method](problem) if method.startswith("legendre") else None  # loads compiled code
                row = run(problem, method)
            append(RESULTS, row)
            print(row, flush=True)
    write_page(read(RESULTS, Row))


if __name__ == "__main__":
    main(sys.argv[1:] or list(NETWORKS))
