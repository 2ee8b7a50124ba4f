"""The recipe of a basis whose interactions the data choose as a graph; `fitting.columns` finds it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from legendre.basis.basis import Basis
from legendre.core.arguments import check_choice, check_flag, check_int, check_number
from legendre.core.errors import InvalidBasis
from legendre.core.types import IntArray
from legendre.data.observation import Observation

Criterion = Literal["bic", "aic", "held-out"]


@dataclass(frozen=True)
class Graph(Basis):
    """Which edges a graph of the modes may have: what a parameter must gain, and how large a clique may be."""

    criterion: Criterion | float = "bic"
    cells: int | None = None
    shared: bool = False
    sparse: bool = False
    identifiers: bool = False

    def select(self, data: Observation) -> IntArray:
        """Find the graph of X, and list the cells of the interactions within its cliques, k x N.

        `decompose` keeps the graph as well (`fit_recipe`); this serves bases that combine it with others.
        """
        from legendre.fitting.columns import find_graph

        return find_graph(self, data).basis(data.shape)

    def penalty(self, n_rows: float) -> float:
        """Return how many nats of log-likelihood a parameter must gain, with this number of rows."""
        if isinstance(self.criterion, str):
            return 1.0 if self.criterion == "aic" else 0.5 * math.log(max(n_rows, 1.0))
        return float(self.criterion)

    def __repr__(self) -> str:
        more = "" if self.cells is None else f", cells={self.cells}"
        more += ", shared=True" if self.shared else ""
        more += ", terms='sparse'" if self.sparse else ""
        more += ", identifiers=True" if self.identifiers else ""
        return f"graph({self.criterion!r}{more})"


def graph(
    criterion: Criterion | float = "bic",
    *,
    cells: int | None = None,
    shared: bool = False,
    terms: Literal["tables", "sparse"] = "tables",
    identifiers: bool = False,
) -> Basis:
    """Let the data choose which modes interact: all interactions within the cliques of a chordal graph.

    The graph grows edge by edge. An edge between a and b gains ``N I(a; b | S)`` nats of log-likelihood, where S are
    their common neighbours, and may be added if S separates them, so that the graph stays chordal. The edge with the
    largest gain minus penalty is added, as long as that is positive. The fit then has a closed form. The greedy choice
    need not be the best of all graphs. It contains the best forest (Chow and Liu 1968) of such edges, unless edges are
    dropped again, see `cells`.

    With this basis `decompose` reads an array of two modes, and a data frame, as rows: a mode for each column.

    Parameters
    ----------
    criterion
        What a parameter must gain: ``"bic"``, half the logarithm of the number of rows; ``"aic"``, one nat; a number of
        nats; or ``"held-out"``, the share of ``"bic"`` that best predicts every tenth row when the others are fitted.
    cells
        The largest number of cells of a clique's table, at any time of the search. Two modes alone may have more, up to
        2^22. By default it is 256, but where that refuses edges that pay, the search goes on: cliques grow to at most
        4096 cells, then edges are dropped that no longer pay, or whose clique has more than 256 cells, and the graph
        grows again. That is repeated as long as the sum of gains minus penalties rises.
    shared
        For `LegendreDensity` with `classes`: whether all classes have the same graph, with tables of their own. This is
        one model in which the class is a hidden mode of every clique. By default each class has its own graph.
    terms
        ``"tables"``: all interactions within cliques. ``"sparse"``: all of single modes, and of those of two or three
        modes the cells that pay for themselves. An edge may then be admitted for a single parameter, of an association
        that is alike in all cells of S: its gain is half of the Cochran-Mantel-Haenszel statistic. Cells are chosen by
        score tests, those with the largest scores first. The fit takes Newton steps; there is no closed form.
    identifiers
        Whether a mode with a level of its own for each row may have edges. It would determine all other modes, so by
        default it has none, and the notes of the graph say so.

    See Also
    --------
    interactions : All that sets of modes do together.
    adaptive : A basis that the data choose.
    LegendreDensity : The distribution of rows of categories.

    Notes
    -----
    Edges have equal gains where columns determine each other. Gains are rounded to 1e-5 nats, and of equal ones the
    pair with the lowest numbers comes first, so the order of the columns decides.

    Examples
    --------
    >>> import legendre as ld
    >>> rows = [[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]] * 10
    >>> fit = ld.decompose(ld.from_rows(rows), ld.graph())
    >>> [(edge.a, edge.b) for edge in fit.graph.edges]
    [(1, 0)]
    >>> ld.decompose(ld.from_rows(rows), ld.graph(terms="sparse")).basis.tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    """
    check_choice(terms, "graph: terms", ("tables", "sparse"), InvalidBasis)
    if isinstance(criterion, str):
        check_choice(criterion, "graph: criterion (or a number of nats)", get_args(Criterion), InvalidBasis)
    else:
        check_number(criterion, "graph: criterion, the nats that a parameter must gain,", 0, error=InvalidBasis)
    check_flag(shared, "graph: shared")
    check_flag(identifiers, "graph: identifiers")
    if cells is not None:
        check_int(cells, "graph: cells", 4, InvalidBasis)
    return Graph(criterion, cells, shared, terms == "sparse", identifiers)
