"""Boltzmann machines of any order, learned exactly: no sampling, no learning rate (the paper's Section 2.4.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import cells
from legendre.basis.interactions import block, boltzmann
from legendre.core import limits
from legendre.core.arguments import entries, is_whole
from legendre.core.errors import ImpossibleEvent, InvalidBasis, InvalidSamples, InvalidTensor
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dask.observation import is_dask
from legendre.data.dense import in_memory, observe
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.data.readers.columns import Table
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.sparse import observe_rows
from legendre.fitting.fit import fit_on, warned
from legendre.fitting.plan import Settings
from legendre.model.cliques.graph import clique_tree
from legendre.solvers.structure.faces import diverging
from legendre.tasks.estimators.base import (
    Estimator,
    counts,
    generator,
    grid_trouble,
    holds_grid,
    row_weights,
    samples_of,
)
from legendre.tasks.estimators.variables import Edges, Name, Variables

Weight = float | FloatArray


class BoltzmannMachine(Estimator):
    """A Boltzmann machine with any interactions, fitted exactly.

    ``p(x) = exp(sum of b_i x_i + sum of w_ij x_i x_j + ... - psi)``. The maximum of the likelihood is
    found exactly: on the grid of all states up to 26 binary variables, and beyond where the edges form small cliques,
    such as chains, trees, narrow grids: 100 variables and more.

    Parameters
    ----------
    edges
        An order (2: all pairs; 1: biases alone), or sets of variables such as ``[(0, 1), (1, 2), (0, 1, 2)]``, by
        number or by name. Every variable has a bias.
    names
        Names of the variables; by default those of a data frame's columns, or else numbers.
    levels
        How many levels the variables have, one number for all or one each. Default 2. A variable with L levels 0, ...,
        L-1 has L-1 biases, and the k-th counts once ``x_i >= k``; so for weights, ``w[a-1, b-1]`` counts once
        ``x_i >= a`` and ``x_j >= b``.
    alpha
        Observations added to the data, spread evenly over all states: a pseudo-count. Default none.
    tol
        As in `decompose`.

    Attributes
    ----------
    biases_, weights_
        By variable, and by tuple of variables: a float, or an array where a variable has more than two levels. Where no
        finite weight attains the maximum it is ``-inf`` or ``inf``; ``alpha > 0`` keeps all of them finite.
    psi_, log_partition_
        The logarithm of the partition function Z.
    decomposition_
        The `Decomposition`, with its certificate.
    names_, levels_, categories_, n_features_in_, feature_names_in_
        What the columns of the data are: names, numbers of levels, and their labels where they are texts or categories;
        the names of the table's own columns, by which other tables are read.

    See Also
    --------
    boltzmann : Biases and couplings of a Boltzmann machine.
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
    names_: tuple[Name, ...]
    levels_: tuple[int, ...]
    categories_: tuple[AnyArray | None, ...] | None
    psi_: float
    log_partition_: float
    n_features_in_: int

    def __init__(
        self,
        edges: Edges = 2,
        *,
        names: Sequence[str] | None = None,
        levels: int | Sequence[int] | None = None,
        alpha: float = 0.0,
        tol: float = 1e-10,
    ) -> None:
        self.edges, self.names, self.levels, self.alpha, self.tol = edges, names, levels, alpha, tol

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from n rows of N levels (counted from 0) or labels. For a tensor of counts use `fit_tensor`."""
        del y
        samples = samples_of(X, "samples")
        own = samples.text_names
        names = own if self.names is None else self.names
        if own is not None and self.names is not None and set(map(str, entries(names) or ())) == set(own):
            samples = samples.by_name(list(names or ()), "samples")
        variables = Variables.learned(samples, names, self.levels)
        weights, alpha = row_weights(sample_weight, samples.n), self._pseudo_count()
        states = variables.cells(samples)
        if math.prod(variables.shape) < limits.COMPILED_CELLS:  # beyond, empty states are not read one by one
            return self._learn(observe(counts(states, variables.shape, weights, alpha)), variables, samples)
        try:
            _check_states(variables, variables.groups(self.edges))
            return self._learn(observe_rows(states, weights, variables.shape, alpha), variables, samples)
        except InvalidBasis as problem:
            if holds_grid(variables.shape):
                raise
            trouble = grid_trouble(variables.shape)
            raise InvalidSamples(f"{trouble} Rows on larger ones need narrow edges: {problem}") from None

    def fit_tensor(self, X: TensorLike) -> Self:
        """Learn from any tensor that `decompose` takes, one mode per variable; NaN is a state not observed."""
        data, alpha = read(X), self._pseudo_count()
        shape, variables = data.shape, Variables.of(len(data.shape), self.names, self.levels)
        if shape != variables.shape:
            way_out = f"If X is right, set levels={list(shape)}."
            if 1 in shape:
                way_out = f"Mode {shape.index(1)} of X has a single level, and so is no variable: leave it out."
            raise InvalidTensor(
                f"X has shape {shape}; {len(shape)} variables with these levels make a tensor of shape "
                f"{variables.shape}. {way_out} Rows of samples go to fit."
            )
        _check_states(variables, variables.groups(self.edges))
        return self._learn(_with_pseudo_count(X, data, alpha) if alpha else data, variables)

    def _learn(self, X: Observation, variables: Variables, samples: Table | None = None) -> Self:
        singles, groups = [(k,) for k in range(len(variables.names))], variables.groups(self.edges)
        blocks = [*singles, *groups]  # biases first, then the groups in the order given
        binary = set(variables.shape) == {2}
        basis = boltzmann(groups) if binary else cells(np.concatenate([block(variables.shape, g) for g in blocks]))
        fit = warned(fit_on(X, basis, Settings.read(tol=self.tol)))
        self.decomposition_, self.psi_, self.log_partition_ = fit, fit.point.psi, fit.point.psi
        self.names_, self.levels_, self.n_features_in_ = variables.names, variables.shape, len(variables.names)
        self.categories_ = variables.categories
        self._keep_names(None if samples is None else samples.text_names)
        # theta, infinite where it is on its way there: Q is the limit of theta + t * recession
        theta = np.where(diverging(fit.recession), np.copysign(np.inf, fit.recession), fit.point.theta)
        found = _by_group(theta, [[variables.shape[k] - 1 for k in group] for group in blocks])
        self.biases_ = dict(zip(variables.names, found, strict=False))
        names = [tuple(variables.names[k] for k in group) for group in groups]
        self.weights_ = dict(zip(names, found[len(singles) :], strict=True))
        return self

    def _labels(self) -> Labels:
        return self._variables.labels()

    @property
    def _variables(self) -> Variables:
        self._check_fitted()
        return Variables(self.names_, self.levels_, self.categories_)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return the log probability of each row; columns that have names are found by them, in whatever order."""
        states = self._states(X)
        return self.decomposition_.log_prob(states)

    def _states(self, X: ArrayLike, unread: int | None = None) -> IntArray:
        """Read rows; the variable `unread` is read as 0, and a table with names may lack it."""
        variables = self._variables
        return variables.cells(self._as_fitted(samples_of(X, "samples"), "samples", unread), unread)

    def _column_names(self) -> list[str] | None:
        named = [name for name in self.names_ if isinstance(name, str)]
        return super()._column_names() or (named if len(named) == len(self.names_) else None)

    def log_likelihood(self, X: ArrayLike) -> float:
        """Return the log-likelihood of all rows together, in nats."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> AnyArray:
        """Draw n independent rows from the machine, n x N; labels as in `fit`."""
        drawn = self._draw(n_samples, generator(random_state))
        if self.categories_ is None:
            return drawn
        labels = self._labels()
        return np.stack([labels.levels_of(k)[drawn[:, k]].astype(object) for k in range(len(self.names_))], axis=1)

    def conditional(
        self, given: Mapping[Name, Any] | None = None, of: Name | Sequence[Name] | None = None
    ) -> FloatArray:
        """Return the joint distribution of some variables given others; the rest is summed out.

        Parameters
        ----------
        given
            Levels of variables, by name or number, ``{"class": "crew"}``; none for a marginal distribution.
        of
            One variable or several: the modes of the result, in this order. By default all that are not given.

        Examples
        --------
        >>> import legendre as ld
        >>> rows = {"class": ["1st", "1st", "crew", "crew", "crew"], "survived": ["yes", "no", "no", "no", "yes"]}
        >>> ld.BoltzmannMachine().fit(rows).conditional({"class": "crew"}, of="survived").round(4).tolist()
        [0.6667, 0.3333]
        """
        variables = self._variables
        if given is not None and not isinstance(given, Mapping):
            raise InvalidSamples(f"given must be a dict such as {{{self.names_[0]!r}: 1}}, got {given!r}.")
        fixed = {variables.index(name): level for name, level in (given or {}).items()}
        for k in [k for k in fixed if self.categories_ is not None and self.categories_[k] is not None]:
            fixed[k] = self._labels().find_level(k, fixed[k], "given", InvalidSamples)
        if len(fixed) < len(given or {}):
            raise InvalidSamples(f"given names a variable twice, by name and by number: {dict(given or {})}.")
        for k, level in fixed.items():
            top = self.levels_[k] - 1
            if not is_whole(level, 0) or level > top:
                raise InvalidSamples(f"{self.names_[k]!r} cannot be {level!r}: its levels are 0 to {top}.")
        listed = [k for k in range(len(self.names_)) if k not in fixed] if of is None else entries(of)
        wanted = [variables.index(name) for name in ([of] if listed is None else listed)]
        if len({*wanted, *fixed}) < len(wanted) + len(fixed) or not wanted:
            raise InvalidSamples(f"of={of!r} must name variables once each, and none that is given.")
        try:
            return np.asarray(self.decomposition_.without_labels().marginal(wanted, given=fixed or None))
        except ImpossibleEvent:
            raise InvalidSamples(f"what is given, {dict(given or {})}, has probability 0 in this machine.") from None

    def predict_proba(self, X: ArrayLike, of: Name) -> FloatArray:
        """Return the probability of each level of one variable given all others, row by row, n x levels.

        An array has a column for that variable too, whose values do not matter: NaN will do. A table with names need
        not have it.
        """
        k = self._variables.index(of)
        states = self._states(X, unread=k)
        log_q = np.empty((len(states), self.levels_[k]))
        for level in range(self.levels_[k]):
            states[:, k] = level
            log_q[:, level] = self.decomposition_.log_prob(states)
        peak = log_q.max(axis=1, keepdims=True)
        impossible = np.flatnonzero(peak == -np.inf)
        if len(impossible):
            raise InvalidSamples(
                f"samples[{impossible[0]}]: the other variables' levels have probability 0 in this machine, "
                f"so that nothing follows for {of!r}. With alpha > 0 every state has a probability."
            )
        q = np.exp(log_q - peak)
        return np.asarray(q / q.sum(axis=1, keepdims=True))


def _check_states(variables: Variables, groups: Sequence[Sequence[int]]) -> None:
    """Refuse to learn what would be summed state by state for minutes: many variables that are all coupled."""
    shape = variables.shape
    n_states, graph = math.prod(shape), np.zeros((len(shape), len(shape)), dtype=np.bool_)
    if n_states <= limits.LARGEST_LEARNED:
        return
    for group in groups:
        graph[np.ix_(group, group)] = True
    tree = clique_tree(graph, shape)
    swept = n_states <= limits.MOST_SWEPT and limits.CLIQUES_GAIN * tree.n_cells > n_states
    if swept:
        minutes = limits.USUAL_STEPS * n_states * len(shape) * limits.SWEEP_TIME / 6e10
        raise InvalidBasis(
            f"the edges couple {len(tree.largest.modes)} variables with each other: all {n_states:,} states are "
            f"summed in every step: about {minutes:,.0f} minutes. Up to {limits.LARGEST_LEARNED:,} states are learned "
            "here. Take fewer variables or edges; decompose fits larger ones, and shows its progress."
        )


def _with_pseudo_count(X: Any, data: Observation, alpha: float) -> Observation:
    """Spread `alpha` observations evenly over all cells."""
    if (listed := as_sparse_tensor(X)) is not None:
        return observe_rows(listed.cells, listed.values, listed.shape, alpha)
    values = X if is_dask(X) else in_memory(data, "alpha").values
    return read(values.astype(np.float64) + alpha / math.prod(data.shape))


def _by_group(theta: FloatArray, sizes: list[list[int]]) -> list[Weight]:
    """Cut theta into the parts of groups with these numbers of levels above 0; a part of one number is a float."""
    parts = np.split(theta, np.cumsum([math.prod(size) for size in sizes])[:-1])
    return [float(part[0]) if set(size) == {1} else part.reshape(size) for size, part in zip(sizes, parts, strict=True)]
