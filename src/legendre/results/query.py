"""Questions to Q: marginals, conditionals, expectations, samples, the most probable cell.

Arguments are checked here; the answer comes from Q in the form that its sample space has: a grid, a list of cells, or
tables over cliques.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.errors import InvalidQuery
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.model import Model
from legendre.results.on_cliques import OnCliques
from legendre.results.on_grid import OnGrid, summed
from legendre.results.on_list import OnList
from legendre.results.query_arguments import called, fixed, generator_from, given_modes, size_of, values_of

Distribution = OnGrid | OnList | OnCliques


def distribution_of(model: Model, theta: FloatArray, psi: float, alive: BoolArray | None) -> Distribution:
    """Take Q in the form in which it answers questions; the one place that decides."""
    if model.support.points is not None:
        return OnList(model, theta, psi, alive)
    if model.space.form == "cliques" and alive is None:
        return OnCliques(model, theta)
    return OnGrid(model, theta, psi, alive)


def marginal(q: Distribution, modes: int | Sequence[int], given: Mapping[int, int] | None = None) -> FloatArray:
    """Sum Q, or Q given the indices of other modes, over all modes but the given ones."""
    shape = q.model.support.shape
    kept = given_modes(modes, len(shape))
    at = {} if given is None else fixed(given, shape)
    if clash := sorted(set(kept) & set(at)):
        raise InvalidQuery(f"marginal: mode {clash[0]} is asked for and given.")
    return q.marginal(kept, at)


def condition(q: Distribution, event: Mapping[int, int]) -> FloatArray:
    """Give Q on the modes left when the others are fixed."""
    shape = q.model.support.shape
    at = fixed(event, shape)
    return q.marginal([k for k in range(len(shape)) if k not in at], at)


def expectation(
    q: Distribution, f: ArrayLike | Callable[..., ArrayLike], modes: int | Sequence[int] | None = None
) -> float:
    """Sum ``q f`` over the cells with probability."""
    if modes is None:
        return q.expectation(f)
    table = marginal(q, modes)
    if not table.ndim:
        raise InvalidQuery("expectation: modes is empty; name the modes that f depends on.")
    every = slice(0, table.shape[0])
    return summed(table, called(f, table.shape, every) if callable(f) else values_of(f, table.shape))


def sample(q: Distribution, n: int, rng: int | np.random.Generator | None) -> IntArray:
    """Draw cells from Q."""
    return q.sample(size_of(n), generator_from(rng))
