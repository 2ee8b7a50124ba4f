"""The evidence: the marginal likelihood of a table under the conjugate prior of a log-linear model.

The prior density of theta is proportional to ``exp(sum of s log q)``, s being counts that were seen before, in thought:
alpha of them, the same in every cell. With the table's own counts added it is the posterior, so that the evidence is
the ratio of two integrals of the same kind (Massam, Liu and Dobra 2009).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_real
from legendre.core.errors import InvalidQuery
from legendre.core.types import FloatArray
from legendre.data.observation import beyond_memory
from legendre.engines.choose import check_fisher, engine_for
from legendre.model.margins import Modes, in_running_order
from legendre.results.inference.same_margins import product_margins
from legendre.solvers.structure.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference


def evidence_of(tests: Inference, alpha: float) -> float:
    """Return the log marginal likelihood, in closed form where there is one."""
    if not (is_real(alpha) and 0 < alpha < math.inf):
        raise InvalidQuery(f"evidence(alpha={alpha!r}): it is a number > 0, the weight of the prior in cases.")
    fit = tests.fit
    if (why := beyond_memory(fit.shape)) is not None:
        raise InvalidQuery(f"evidence needs every cell of the table, and X {why}. Sum modes out first.")
    inside = fit.model.support.on_grid()
    counts = tests.counts.grid(fit.shape)
    prior = np.where(inside, float(alpha) / int(inside.sum()), 0.0)
    ways = _orders(counts)
    margins = product_margins(fit)
    if margins is None:
        return ways + _laplace(fit, (counts + prior)[inside]) - _laplace(fit, prior[inside])
    uniform = math.prod(n for k, n in enumerate(fit.shape) if not any(k in group for group in margins))
    own = _closed(counts + prior, margins) - _closed(prior, margins)
    return ways + own - float(counts.sum()) * math.log(uniform)


def _orders(counts: FloatArray) -> float:
    """Return the logarithm of the number of orders in which the cases may have come."""
    from scipy.special import gammaln

    return float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())


def _closed(counts: FloatArray, margins: list[Modes]) -> float:
    """Integrate a product of Dirichlet densities: cliques less what they share with those before them."""
    from scipy.special import gammaln

    def of(modes: set[int]) -> float:
        others = tuple(k for k in range(counts.ndim) if k not in modes)
        return float(gammaln(counts.sum(axis=others)).sum())

    total, before = -float(gammaln(counts.sum())), set[int]()
    for i, group in enumerate(in_running_order(margins)):
        total += of(set(group)) - (of(set(group) & before) if i else 0.0)
        before |= set(group)
    return total if margins else 0.0


def _laplace(fit: Decomposition, counts: FloatArray) -> float:
    """Approximate the integral of ``exp(sum of counts log q)`` over theta, at its maximum."""
    check_fisher(fit.n_params, "evidence needs", "Take a smaller basis.")
    found = fit.fitted_to(counts)
    if not found.converged:
        raise InvalidQuery(f"evidence: the fit to the counts and the prior ended {found.status.name}.")
    columns = independent(found.model)
    engine = engine_for(found.model)
    fisher = engine.fisher(engine.at(found.theta))[np.ix_(columns, columns)]
    height = float(counts @ found.distribution.log_prob(found.model.support.cells()))
    _, volume = np.linalg.slogdet(found.total * fisher)
    return height + 0.5 * len(columns) * math.log(2.0 * math.pi) - 0.5 * float(volume)
