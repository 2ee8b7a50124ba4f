"""Answers without the chi-square distribution: the parametric bootstrap, exact tests given the margins, the evidence.

The evidence is the marginal likelihood of a table under the conjugate prior of a decomposable log-linear model. The
prior density of theta is proportional to ``exp(sum of s log q)``, s being alpha imagined counts, the same in every
cell. With the table's own counts added it is the posterior, so the evidence is the ratio of two integrals of the
same kind (Massam, Liu and Dobra 2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.arguments import check_int, check_number, generator_from
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.core.text import NamedValues
from legendre.core.types import FloatArray, IntArray
from legendre.data.observation import beyond_memory
from legendre.model.model import Modes, generating_margins, in_running_order, is_decomposable
from legendre.results.inference.counts import counts_beside, counts_of
from legendre.results.inference.estimates import Coding, coefficients_of
from legendre.results.inference.printout import Printed, p_text

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Printed):
    """Statistics and parameters of tables that were drawn from a fitted model.

    Attributes
    ----------
    g2, x2
        The statistics of each table that was drawn.
    g2_p_value, x2_p_value
        The share of tables whose statistic is at least that of X, X among them.
    n, failed
        How many tables were drawn; and of how many the fit did not converge, which are left out.

    Notes
    -----
    Tables are drawn from the fitted model instead of the true one. With few counts for each parameter the p-values are
    too small: of 400 tables of independent variables 11 % were at or below 0.05 with two counts for each parameter, 7 %
    with six, 5 % with fourteen. That lies in the method, and more tables do not help. ``conditional=True`` draws tables
    that have the margins of X instead: the parameters play no part then, so these p-values hold for any N.

    Examples
    --------
    >>> import legendre as ld
    >>> tests = ld.decompose([[18, 7], [6, 19]], "B1").inference()
    >>> tests.bootstrap(99, 0)
    Parametric bootstrap
    ------------------------------
    tables  99
    G2      12.0330, p = 0.01
    X2      11.5385, p = 0.01
    """

    tests: Inference
    g2: FloatArray
    x2: FloatArray
    theta: FloatArray  # the constant log N - psi and theta of each table, n x (1 + |B|)
    recession: FloatArray  # likewise the direction to infinity, 0 where a table has a finite estimate
    failed: int
    conditional: bool = False  # whether the tables have the margins of X; they say nothing about parameters then

    @property
    def n(self) -> int:
        """How many tables were fitted."""
        return len(self.g2)

    @property
    def g2_p_value(self) -> float:
        """The share of tables with a `g2` at least that of X."""
        return _share(self.g2, self.tests.g2)

    @property
    def x2_p_value(self) -> float:
        """The share of tables with an `x2` at least that of X."""
        return _share(self.x2, self.tests.x2)

    def coef(
        self, contrasts: Coding = "treatment", *, reference: Mapping[Any, Any] | None = None, confidence: float = 0.95
    ) -> dict[str, tuple[float, float]]:
        """Return percentile intervals of the coefficients by name; infinite where estimates of tables are.

        Examples
        --------
        >>> import legendre as ld
        >>> ends = ld.decompose([[18, 7], [6, 19]], "B1").inference().bootstrap(99, 0).coef()["mode 0[1]"]
        >>> ends[0] < 0 < ends[1]
        True
        """
        check_number(confidence, "coef: confidence", above=0, below=1, error=InvalidQuery)
        if self.conditional:
            raise InvalidQuery(
                "tables that have the margins of X have its parameters too, and no intervals. Leave conditional out."
            )
        names, weights, constants, _ = coefficients_of(self.tests.fit, contrasts, reference)
        both = np.column_stack([constants, weights]).T
        # a direction of recession changes a combination by about 1, or not at all
        steep = self.recession @ both
        values = np.where(np.abs(steep) > 1e-6, np.copysign(np.inf, steep), self.theta @ both)
        tail = (1.0 - confidence) / 2.0
        with np.errstate(invalid="ignore"):
            ends = np.quantile(values, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
        return {name: (float(a), float(b)) for name, a, b in zip(names, *ends, strict=True)}

    def table(self) -> NamedValues:
        """Lay the p-values out for printing."""
        rows = [
            ("tables", f"{self.n:,}"),
            ("G2", f"{self.tests.g2:.4f}, p = {p_text(self.g2_p_value)}"),
            ("X2", f"{self.tests.x2:.4f}, p = {p_text(self.x2_p_value)}"),
        ]
        if self.failed:
            rows.append(("left out", f"{self.failed:,}, whose fit did not converge"))
        fit = self.tests.fit
        # 7 % of p-values are below 0.05 with 6 counts for each parameter, 11 % with 2
        if not self.conditional and fit.total < 5 * fit.rank:
            note = (
                f"{fit.total / fit.rank:.1f} counts for each parameter: p-values are too small, because tables are "
                "drawn from the fitted model instead of the true one. For decomposable models "
                "bootstrap(conditional=True) is exact."
            )
            rows.append(("note", note))
        return NamedValues("Exact test given the margins" if self.conditional else "Parametric bootstrap", rows)


def draw_tables(
    tests: Inference, n: int, rng: int | np.random.Generator | None, *, conditional: bool = False
) -> Bootstrap:
    """Draw and fit n tables; those with the margins of X have its fit."""
    fit = tests.fit
    check_int(n, "bootstrap: n", 1, InvalidQuery)
    random = generator_from(rng, InvalidQuery)
    if fit.data is None:
        raise InvalidQuery("bootstrap needs X, which a loaded result does not hold. Fit X again.")
    if (why := beyond_memory(fit.shape)) is not None:
        raise InvalidQuery(f"bootstrap draws all cells of tables, and X {why}. Sum modes out or merge levels first.")
    if conditional:
        return _draw_with_margins(tests, n, random)
    q = np.exp(fit._distribution.log_prob(fit.model.support.cells()))
    check_room(n * len(q), 8, "bootstrap: tables", "Draw fewer, or merge levels.")
    drawn = random.multinomial(round(fit.total), q / q.sum(), size=n).astype(np.float64)
    found = []
    for other in (fit._fit_to(table) for table in drawn):
        if other.converged:
            counts, level = counts_of(other), 0.0
            if other._alive is not None:  # by how much the recession raises the cells that keep probability
                level = float(other.model.below(other.recession)[other.model.on_grid(other._alive)].max())
            theta = np.append(float(np.log(other.total)) - other.psi, other.theta)
            found.append((counts.g2(), counts.x2(), theta, np.append(-level, other.recession)))
    if not found:
        raise InvalidQuery(f"bootstrap: of {n} tables none was fitted to the tolerance. Loosen tol.")
    g2, x2, thetas, recessions = (np.array(column) for column in zip(*found, strict=True))
    return Bootstrap(tests, g2, x2, thetas, recessions, n - len(found))


def _share(drawn: FloatArray, own: float, same: float = 1e-9) -> float:
    """Return the share of statistics that are at least X's own; equal ones may differ by the share `same`."""
    return (1.0 + float((drawn >= own * (1.0 - same) - same).sum())) / (1.0 + len(drawn))


# --- tables with the margins of X ------------------------------------------------------------------------------------


def _product_margins(fit: Decomposition) -> list[Modes] | None:
    """List the margins of a model that is a product of them on a full grid; ``None`` for others."""
    if not fit.model.support.full or fit.model.base is not None:
        return None
    if not fit.n_params:
        return []
    margins, merged = generating_margins(fit.model), fit.model.quotient.merged_shape
    if margins is None or not is_decomposable(margins):
        return None
    return margins if all(merged[k] == fit.shape[k] for group in margins for k in group) else None


def _draw_with_margins(tests: Inference, n: int, random: np.random.Generator) -> Bootstrap:
    """Draw tables with the margins of X, which have the same means."""
    fit, margins = tests.fit, _product_margins(tests.fit)
    counts = tests.counts.grid(fit.shape).astype(np.int64)
    if margins is None:
        raise InvalidQuery(
            "bootstrap(conditional=True) draws tables with the margins of X, which is done for decomposable models on "
            "all cells of a table: those whose margins form a tree, such as [AB][BC]. Leave conditional out."
        )
    found = []
    for table in tables_with_margins(counts, margins, n, random):
        cells = np.argwhere(table)
        drawn = counts_beside(fit, cells, table[tuple(cells.T)])
        found.append((drawn.g2(), drawn.x2()))
    none = np.empty((0, 1 + fit.n_params))
    g2, x2 = np.array(found).T
    return Bootstrap(tests, g2, x2, none, none, 0, conditional=True)


def tables_with_margins(
    counts: IntArray, margins: list[Modes], n: int, random: np.random.Generator
) -> Iterator[FloatArray]:
    """Draw tables from the distribution of a decomposable model given its margins, which has no parameters.

    Cases are dealt again, one margin after the other: those that agree in what a margin shares with the ones before it
    exchange their levels of what it adds. For two variables that is a permutation test.
    """
    cases = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0)
    # rows times these are numbers, the same for rows with the same levels of some modes
    strides = np.array([math.prod(counts.shape[k + 1 :]) for k in range(counts.ndim)])
    for _ in range(n):
        rows = np.zeros_like(cases)
        seen = list[int]()
        for group in in_running_order(margins):
            new, shared = [k for k in group if k not in seen], [k for k in group if k in seen]
            given, taken = (some[:, shared] @ strides[shared] for some in (cases, rows))
            dealt = cases[np.lexsort((random.random(len(cases)), given))]
            rows[np.argsort(taken, kind="stable")[:, None], new] = dealt[:, new]
            seen += new
        for k in range(counts.ndim):
            if k not in seen:
                rows[:, k] = random.integers(0, counts.shape[k], len(rows))
        yield np.bincount(rows @ strides, minlength=counts.size).reshape(counts.shape).astype(np.float64)


# --- evidence --------------------------------------------------------------------------------------------------------


def evidence_of(tests: Inference, alpha: float) -> float:
    """Return the log marginal likelihood of a decomposable model."""
    from scipy.special import gammaln

    check_number(alpha, "evidence: alpha, the weight of the prior in cases,", above=0, error=InvalidQuery)
    fit, margins = tests.fit, _product_margins(tests.fit)
    if (why := beyond_memory(fit.shape)) is not None:
        raise InvalidQuery(f"evidence needs every cell of the table, and X {why}. Sum modes out first.")
    if margins is None:
        raise InvalidQuery(
            "evidence is known in closed form for decomposable models on all cells of a table: those whose margins "
            "form a tree, such as [AB][BC]. Compare other models by AIC or BIC."
        )
    counts = tests.counts.grid(fit.shape)
    prior = np.full(fit.shape, float(alpha) / counts.size)
    ways = float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())  # possible orders of the cases
    uniform = math.prod(n for k, n in enumerate(fit.shape) if not any(k in group for group in margins))
    own = _integrate_closed(counts + prior, margins) - _integrate_closed(prior, margins)
    return ways + own - float(counts.sum()) * math.log(uniform)


def _integrate_closed(counts: FloatArray, margins: list[Modes]) -> float:
    """Integrate a product of Dirichlet densities: cliques less what they share with those before them."""
    from scipy.special import gammaln

    def of(modes: set[int]) -> float:
        others = tuple(k for k in range(counts.ndim) if k not in modes)
        return float(gammaln(counts.sum(axis=others)).sum())

    total, before = 0.0, set[int]()
    for group in map(set, in_running_order(margins)):
        total += of(group) - of(group & before)
        before |= group
    return total
