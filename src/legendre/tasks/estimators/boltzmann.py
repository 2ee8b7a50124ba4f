"""Boltzmann machines of any order, learned exactly: no sampling, no learning rate (the paper's Section 2.4.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.graph import Graph
from legendre.basis.interactions import blocks, found_modes, mode_sets
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.arguments import check_int, check_number, entries, is_real, is_whole
from legendre.core.errors import InvalidBasis, InvalidSamples, InvalidSetting, InvalidTensor
from legendre.core.labels import Labels
from legendre.core.types import FloatArray
from legendre.data.dask import is_dask
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.readers.encode import Column
from legendre.data.sparse import observe_rows
from legendre.fitting.fit import Settings, fit_on, warn_if_not_converged
from legendre.fitting.graph_search import find_graph
from legendre.model.cliques.graph import clique_tree
from legendre.solvers.structure.faces import diverging
from legendre.tasks.estimators.base import (
    Estimator,
    Levels,
    observe_counts,
    read_rows,
    read_weights,
    say_too_large,
)

Name = str | int
Edges = int | Iterable[Iterable[Name]] | Basis
Weight = float | FloatArray


class BoltzmannMachine(Estimator):
    """A Boltzmann machine with any interactions, fitted exactly.

    ``p(x) = exp(sum of b_i x_i + sum of w_ij x_i x_j + ... - psi)``. The maximum of the likelihood is
    found exactly: on the grid of all states up to 26 binary variables, and beyond where the edges form small cliques,
    such as chains, trees, narrow grids: 100 variables and more.

    Parameters
    ----------
    edges
        An order (2: all pairs; 1: biases alone), or sets of columns such as ``[(0, 1), (1, 2), (0, 1, 2)]``, by
        number or by name; or ``ld.graph()``, which finds them. Every column has a bias.
    names
        Names of the columns; by default those of a data frame's columns, or else numbers.
    n_levels
        How many levels the columns have, one number for all or one each. Default 2. A column with L levels 0, ...,
        L-1 has L-1 biases, and the k-th counts once ``x_i >= k``; so for weights, ``w[a-1, b-1]`` counts once
        ``x_i >= a`` and ``x_j >= b``.
    alpha
        Observations added to the data, spread evenly over all states: a pseudo-count. Default none.
    tol
        As in `decompose`.

    Attributes
    ----------
    biases_, weights_
        By column, and by tuple of columns: a float, or an array where a column has more than two levels. Where no
        finite weight attains the maximum it is ``-inf`` or ``inf``; ``alpha > 0`` keeps all of them finite.
    psi_
        The logarithm of the partition function Z.
    decomposition_
        The `Decomposition`, with its certificate.
    names_, n_levels_, columns_, n_features_in_, feature_names_in_
        What the columns of the data are: names if they have some, numbers of levels, and how each is read: its
        `values`; the names of the table's own columns, by which other tables are read.

    See Also
    --------
    LegendreDensity : The distribution of rows of categories.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import legendre as ld
    >>> rows = [[0, 0], [0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [1, 1]]
    >>> machine = ld.BoltzmannMachine(2, names=["rain", "wet"]).fit(rows)
    >>> {key: round(weight, 6) for key, weight in machine.weights_.items()}
    {('rain', 'wet'): 1.791759}
    >>> machine.conditional({"wet": 1}).round(6).tolist()
    [0.25, 0.75]
    """

    biases_: dict[Name, Weight]
    weights_: dict[tuple[Name, ...], Weight]
    n_levels_: tuple[int, ...]
    psi_: float

    def __init__(
        self,
        edges: Edges = 2,
        *,
        names: Sequence[str] | None = None,
        n_levels: int | Sequence[int] | None = None,
        alpha: float = 0.0,
        tol: float = 1e-10,
    ) -> None:
        self.edges, self.names, self.n_levels, self.alpha, self.tol = edges, names, n_levels, alpha, tol

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from n rows of N levels (counted from 0) or labels. For a tensor of counts use `fit_tensor`."""
        del y
        table = read_rows(X)
        own = table.text_names
        if own is not None and self.names is not None and set(map(str, entries(self.names) or ())) == set(own):
            table = table.by_name(list(self.names), "X")
        names, sizes = self._read_columns(len(table.names))
        names = own if names is None else names
        read = table.complete_columns(names or table.names)
        columns = self._learn_levels(read, names or table.names, sizes)
        codes, shape = self._find_codes(read, columns, names or table.names), tuple(len(c.values) for c in columns)
        weights, alpha = read_weights(sample_weight, table.n), check_number(self.alpha, "alpha", 0)
        try:
            return self._learn(observe_counts(codes, shape, weights, alpha), columns, names, own)
        except InvalidBasis as problem:
            if (trouble := say_too_large(shape)) is None:
                raise
            raise InvalidSamples(f"{trouble} Rows on larger ones need narrow edges: {problem}") from None

    def fit_tensor(self, X: TensorLike) -> Self:
        """Learn from any tensor that `decompose` takes, one mode per column; NaN is a state not observed."""
        data, alpha = read(X), check_number(self.alpha, "alpha", 0)
        shape = data.shape
        names, sizes = self._read_columns(len(shape))
        if shape != tuple(sizes):
            remedy = f"If X is right, set n_levels={list(shape)}."
            if 1 in shape:
                remedy = f"Mode {shape.index(1)} of X has a single level, and so says nothing: leave it out."
            raise InvalidTensor(
                f"X has shape {shape}; {len(shape)} columns with these levels make a tensor of shape {tuple(sizes)}. "
                f"{remedy} Rows of samples go to fit."
            )
        if alpha and (listed := as_sparse_tensor(X)) is not None:
            data = observe_rows(listed.cells, listed.values, listed.shape, alpha)
        elif alpha:
            values: Any = X if is_dask(X) else in_memory(data, "alpha").values
            data = read(values.astype(np.float64) + alpha / math.prod(shape))
        return self._learn(data, [Levels(np.arange(n)) for n in shape], names, None)

    def _read_columns(self, n: int) -> tuple[list[str] | None, list[int]]:
        """Check names and numbers of levels against the number of columns."""
        names = None if self.names is None else entries(self.names)
        texts = all(isinstance(name, str) for name in names or ())
        if self.names is not None and (names is None or not texts or len(set(names)) < len(names) or len(names) != n):
            raise InvalidSetting(f"names must be {n} different strings, one per column; got {self.names!r}.")
        given: Any = 2 if self.n_levels is None else self.n_levels
        sizes = [given] * n if is_whole(given) else entries(given)
        if sizes is None or len(sizes) != n or not all(is_whole(size, 2) for size in set(sizes)):
            raise InvalidSetting(f"n_levels must be an integer >= 2 for all columns, or {n} of them; got {given!r}.")
        return names, [int(size) for size in sizes]

    def _learn_levels(self, columns: list[Column], names: Sequence[Any], sizes: list[int]) -> list[Levels]:
        """Take the values of columns of texts and categories as levels; other columns hold indices of levels."""
        out = []
        for column, name, size in zip(columns, names, sizes, strict=True):
            levels = np.arange(size) if column.codes is None else column.levels(f"column {name!r}")
            n = len(levels)
            if n < 2 or (self.n_levels is not None and n != size):
                raise InvalidSamples(
                    f"column {name!r} has {n} levels, {', '.join(map(repr, levels.tolist()[:5]))}, where "
                    f"{'at least 2' if self.n_levels is None else size} are expected. Leave "
                    f"{'it' if n < 2 else 'n_levels'} out."
                )
            out.append(Levels(levels))
        return out

    def _read_edges(self, data: Observation, labels: Labels) -> list[tuple[int, ...]]:
        """List the sets of two and more columns that interact, in the order given."""
        n, edges = len(labels.shape), self.edges
        if isinstance(edges, Graph):
            return [group for group in find_graph(edges, data).interactions(labels.shape) if len(group) > 1]
        if is_whole(edges):
            order = check_int(edges, "edges: the order", 1, InvalidBasis)
            return [group for size in range(2, min(order, n) + 1) for group in combinations(range(n), size)]
        if isinstance(edges, (bool, float, str, Iterator)):
            raise InvalidBasis(f"edges={edges!r}: pass an order such as 2, or edges such as [(0, 1), (1, 2)].")
        listed: Any = edges
        found = found_modes("edges", mode_sets("edges", listed), n, labels)
        seen = [frozenset(group) for group in found]
        for group, members in zip(found, seen, strict=True):
            if not group or seen.count(members) > 1:
                raise InvalidBasis(f"edges: {group} {'stands there twice' if group else 'names no column'}.")
        return [group for group in found if len(group) > 1]

    def _learn(self, data: Observation, columns: list[Levels], names: list[str] | None, own: list[str] | None) -> Self:
        shape = tuple(len(levels.values) for levels in columns)
        edges = self._read_edges(data, Labels(shape, None if names is None else tuple(names)))
        _check_states(shape, edges)
        groups = [*((k,) for k in range(len(shape))), *edges]  # biases first, then the groups in the order given
        basis = as_basis(blocks(shape, groups))
        fit = warn_if_not_converged(fit_on(data, basis, Settings.read(tol=self.tol)))
        self._keep(fit, columns, names, own)
        self.n_levels_, self.psi_ = shape, fit.psi
        # theta, infinite where it is on its way there: Q is the limit of theta + t * recession
        theta = np.where(diverging(fit.recession), np.copysign(np.inf, fit.recession), fit.theta)
        parts = np.split(theta, np.cumsum([math.prod(shape[k] - 1 for k in group) for group in groups])[:-1])
        keys: Sequence[Name] = range(len(shape)) if names is None else names
        weights: dict[tuple[Name, ...], Weight] = {}
        for group, part in zip(groups, parts, strict=True):
            sizes = [shape[k] - 1 for k in group]
            weights[tuple(keys[k] for k in group)] = float(part[0]) if set(sizes) == {1} else part.reshape(sizes)
        self.biases_ = {key[0]: weight for key, weight in weights.items() if len(key) == 1}
        self.weights_ = {key: weight for key, weight in weights.items() if len(key) > 1}
        return self

    def log_likelihood(self, X: ArrayLike) -> float:
        """Return the log-likelihood of all rows together, in nats."""
        return float(self.score_samples(X).sum())

    def _say_unknown(self, column: Column, value: Any, n_levels: int) -> str:
        if column.codes is not None or not is_real(value):
            return ", which was not seen in fit."
        hint = f"For more levels set n_levels, here at least {value + 1}. A tensor of counts goes to fit_tensor."
        if value == -1:
            hint = "If -1 and +1 are meant as 0 and 1, pass (X + 1) // 2."
        elif value < 0 or value % 1:
            hint = "Levels are integers counted from 0; bin continuous columns first."
        return f"; its levels are 0 to {n_levels - 1}. {hint}"


def _check_states(shape: tuple[int, ...], groups: Sequence[Sequence[int]]) -> None:
    """Refuse to learn what would be summed state by state for minutes: many columns that are all coupled."""
    n_states, graph = math.prod(shape), np.zeros((len(shape), len(shape)), dtype=np.bool_)
    if n_states <= limits.LARGEST_LEARNED:
        return
    for group in groups:
        graph[np.ix_(group, group)] = True
    tree = clique_tree(graph, shape)
    if n_states <= limits.MOST_SWEPT and limits.CLIQUES_GAIN * tree.n_cells > n_states:
        raise InvalidBasis(
            f"the edges couple {len(tree.largest.modes)} columns with each other: all {n_states:,} states would be "
            f"summed in every step, which takes minutes. Up to {limits.LARGEST_LEARNED:,} states are learned here. "
            "Take fewer columns or edges; decompose fits larger ones, and shows its progress."
        )
