"""The questions that a decomposition answers: marginals, conditionals, expectations, samples, by labels or indices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode, ordered_parts_bits
from legendre.core.origin import Origin
from legendre.core.types import FloatArray
from legendre.results import query_arguments as query
from legendre.results import tensor as tensors
from legendre.results.base import ModelResult
from legendre.results.on_cliques import OnCliques
from legendre.results.on_grid import OnGrid


class Questions(ModelResult):
    """What is asked of Q as a distribution; answers have the form of X."""

    origin: Origin

    @property
    @abstractmethod
    def labels(self) -> Labels:
        """What the modes of X and their levels are called."""

    @property
    def arrangement(self) -> dict[Any, list[Any]]:
        """The levels of each mode that was arranged, in the order in which cells of `basis` count them.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[9, 1], [1, 9], [8, 2], [2, 8]], ld.adaptive(2), unordered=[0])
        >>> fit.arrangement
        {0: [1, 3, 2, 0]}
        """
        labels, order = self.labels, self.labels.order or ()
        return {
            k if labels.names is None else labels.names[k]: labels.levels_of(k).tolist()
            for k, by in enumerate(order)
            if by is not None
        }

    @property
    def arrangement_bits(self) -> float:
        """The information in `arrangement` that Q depends on, in bits: which levels lie between two cuts of the basis.

        Criteria do not count it.
        """
        lengths, order = self.model.quotient.lengths, self.labels.order or ()
        return ordered_parts_bits([lengths[k].astype(int).tolist() for k, by in enumerate(order) if by is not None])

    @property
    @abstractmethod
    def distribution(self) -> OnGrid | OnCliques:
        """Q in the form in which it answers questions."""

    def log_prob(self, cells: ArrayLike | Sequence[Any]) -> FloatArray:
        """Return the log probability of cells (k x N, or one cell); ``-inf`` outside the support.

        Parameters
        ----------
        cells
            Indices counted from 0, or labels. If some entries are texts or dates, all are read as labels, integers too.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose([[1, 2], [3, 4]], ld.full(), levels=[["no", "yes"], [200, 404]])
        >>> np.exp(fit.log_prob([["yes", 200], ["no", 404]])).round(12).tolist()
        [0.3, 0.2]
        >>> np.exp(fit.log_prob([[1, 0], [0, 1]])).round(12).tolist()
        [0.3, 0.2]
        """
        given = rectangular(cells, "cells", InvalidBasis)
        named = query.cells_by_labels(self.labels, cells, given)
        if named is not None:
            return self.distribution.log_prob(named)
        return self.distribution.log_prob(self.labels.places(tensors.checked_cells(given, self.shape)))

    def marginal(self, modes: Mode | Sequence[Mode], *, given: Mapping[Any, Any] | None = None) -> Any:
        """Return the probabilities over some modes, in the order given: Q summed over all other modes.

        Parameters
        ----------
        modes
            One mode or several, by name or counted from 0.
        given
            ``{mode: level, ...}``: modes that are fixed, for conditional probabilities. A level is given by its label,
            or by its index if the mode has no labels.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").marginal(0).round(12).tolist()
        [0.3, 0.7]
        """
        kept, at = query.asked(self.labels, modes, given)
        return self.origin.give(query.marginal(self.distribution, self.labels, kept, at), kept, "probability")

    def condition(self, given: Mapping[Any, Any]) -> Any:
        """Return the probabilities of the other modes, given the levels of some: ``{mode: level, ...}``.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], ld.full()).condition({0: 1}).round(12).tolist()
        [0.428571428571, 0.571428571429]
        """
        at = query.event(self.labels, given)
        left = [k for k in range(len(self.shape)) if k not in at]
        return self.origin.give(query.marginal(self.distribution, self.labels, left, at), left, "probability")

    def expectation(
        self, f: ArrayLike | Callable[..., ArrayLike], *, modes: Mode | Sequence[Mode] | None = None
    ) -> float:
        """Return the mean of f under Q: the sum of ``q f`` over all cells of positive probability.

        Parameters
        ----------
        f
            An array of X's shape, finite wherever Q is positive (booleans give the probability of an event); or a
            function that is called with one array of levels per mode (their labels, or indices where there are none),
            the k-th along the k-th axis, and returns what broadcasts to the grid.
        modes
            The modes that f depends on, if not on all: its axes or arguments are these, in the order given.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
        >>> round(fit.expectation(lambda i, j: i + j), 12)
        1.3
        """
        return query.expectation(self.distribution, self.labels, f, modes)

    def sample(self, n: int, rng: int | np.random.Generator | None = None) -> Any:
        """Draw n cells from Q; the same integer `rng` gives the same cells.

        Returns an array of indices, n x N; for a labelled X a data frame with a column of labels for each mode.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 0], [0, 4]], ld.full()).sample(3, rng=0).tolist()
        [[1, 1], [1, 1], [0, 0]]
        """
        return self.origin.give_cells(query.sample(self.distribution, n, rng))

    def most_probable(self) -> tuple[Any, ...]:
        """Return the most probable cell, by labels if there are any; of several (equal to 1e-12) the first.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").most_probable()
        (1, 1)
        """
        return self.labels.values_at(self.distribution.most_probable())
