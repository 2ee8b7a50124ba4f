"""The parametric bootstrap: tables drawn from the fitted model, fitted again, exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import generator_from, is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.core.text import NamedValues, fragment
from legendre.core.types import FloatArray
from legendre.data.observation import beyond_memory
from legendre.results.distribution import tensor
from legendre.results.inference.coding import Coding, Combinations, coefficients_of
from legendre.results.inference.counts import Counts, counts_of
from legendre.results.inference.estimates import check_level
from legendre.results.inference.printout import shown
from legendre.results.inference.same_margins import fixed_margins, tables_with_margins

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

SAME = 1e-9  # statistics of two tables that differ by this share are equal but for rounding
STEEP = 1e-6  # a direction of recession changes a combination by about 1, or not at all
FEW = 5  # counts for each parameter below which p-values are too small: 7 % below 0.05 with 6 of them, 11 % with 2
FEW_TOLD = (
    "{:.1f} counts for each parameter: p-values come out too small, as tables are drawn from the fitted model in place "
    "of the true one. For decomposable models bootstrap(conditional=True) is exact."
)
CHUNK = 64  # tables that a process fits before it reports


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
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
    Tables are drawn from the fitted model in place of the true one. With few counts for each parameter the p-values are
    too small: of 400 tables of independent variables 11 % were at or below 0.05 with two counts for each parameter, 7 %
    with six, 5 % with fourteen. That lies in the method, and more tables do not help. ``conditional=True`` draws tables
    that have the margins of X instead: the parameters play no part then, so that these p-values hold for any N.

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
    theta: FloatArray  # n x |B|
    constant: FloatArray  # log N - psi of each table
    recession: FloatArray  # n x |B|: 0 where a table has a finite estimate
    level: FloatArray  # by how much the recession raises the cells that keep probability
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
        self, contrasts: Coding = "treatment", *, reference: Mapping[Any, Any] | None = None, level: float = 0.95
    ) -> dict[str, tuple[float, float]]:
        """Return percentile intervals of the coefficients by name; infinite where estimates of tables are.

        Examples
        --------
        >>> import legendre as ld
        >>> ends = ld.decompose([[18, 7], [6, 19]], "B1").inference().bootstrap(99, 0).coef()["mode 0[1]"]
        >>> ends[0] < 0 < ends[1]
        True
        """
        check_level(level, "coef")
        if self.conditional:
            raise InvalidQuery(
                "tables that have the margins of X have its parameters too, and no intervals. Leave conditional out."
            )
        found = coefficients_of(self.tests.fit, contrasts, reference)
        drawn = self._estimates(found)
        tail = (1.0 - level) / 2.0
        with np.errstate(invalid="ignore"):
            ends = np.quantile(drawn, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
        return {name: (float(a), float(b)) for name, a, b in zip(found.names, *ends, strict=True)}

    def _estimates(self, found: Combinations) -> FloatArray:
        """Estimate combinations in every table, n x m; infinite where a table has no finite estimate."""
        values = self.theta @ found.weights.T + np.outer(self.constant, found.constants)
        steep = self.recession @ found.weights.T - np.outer(self.level, found.constants)
        return np.where(np.abs(steep) > STEEP, np.copysign(np.inf, steep), values)

    def table(self) -> NamedValues:
        """Lay the p-values out for printing."""
        rows = [
            ("tables", f"{self.n:,}"),
            ("G2", f"{self.tests.g2:.4f}, p = {shown(self.g2_p_value)}"),
            ("X2", f"{self.tests.x2:.4f}, p = {shown(self.x2_p_value)}"),
        ]
        if self.failed:
            rows.append(("left out", f"{self.failed:,}, whose fit did not converge"))
        if (each := self._few()) is not None:
            rows.append(("note", FEW_TOLD.format(each)))
        return NamedValues("Exact test given the margins" if self.conditional else "Parametric bootstrap", rows)

    def _few(self) -> float | None:
        """Return the number of counts for each parameter, where it is too small."""
        fit = self.tests.fit
        few = not self.conditional and fit.n_params and fit.total < FEW * fit.rank
        return fit.total / fit.rank if few else None

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return fragment([self.table()])


def bootstrapped(
    tests: Inference, n: int, rng: int | np.random.Generator | None, jobs: int, *, conditional: bool = False
) -> Bootstrap:
    """Draw and fit n tables; those with the margins of X have its fit."""
    fit = tests.fit
    for name, value in (("n", n), ("jobs", jobs)):
        if not is_whole(value, 1):
            raise InvalidQuery(f"bootstrap: {name}={value!r}; it must be an integer >= 1.")
    random = generator_from(rng, InvalidQuery)
    if fit.data is None:
        raise InvalidQuery("bootstrap needs X, which a loaded result does not hold. Fit X again.")
    if (why := beyond_memory(fit.shape)) is not None:
        raise InvalidQuery(f"bootstrap draws whole tables, and X {why}. Sum modes out or merge levels first.")
    if conditional:
        return _dealt(tests, n, random)
    q = np.exp(fit.distribution.log_prob(fit.model.support.cells()))
    check_room(n * len(q), 8, "bootstrap: tables", "Draw fewer, or merge levels.")
    drawn = random.multinomial(round(fit.total), q / q.sum(), size=n).astype(np.float64)
    parts = [drawn[i : i + CHUNK] for i in range(0, n, CHUNK)]
    rows = [row for part in _run(fit, parts, jobs) for row in part]
    good = [row for row in rows if row is not None]
    if not good:
        raise InvalidQuery(f"bootstrap: of {n} tables none was fitted to the tolerance. Loosen tol.")
    g2, x2, theta, constant, recession, level = (np.array(column) for column in zip(*good, strict=True))
    return Bootstrap(tests, g2, x2, theta, constant, recession, level, n - len(good))


def _dealt(tests: Inference, n: int, random: np.random.Generator) -> Bootstrap:
    """Draw tables with the margins of X, which have the same means."""
    fit, margins = tests.fit, fixed_margins(tests.fit)
    counts = tests.counts.grid(fit.shape).astype(np.int64)
    if counts.sum() * n > limits.LARGEST_HELD * 16:
        raise InvalidQuery(
            f"bootstrap(conditional=True): {n:,} tables of {counts.sum():,} cases would take long. With so many cases "
            "the tables need no margins: leave conditional out."
        )
    mu = tensor(fit, extend=False)
    alive = mu > 0
    drawn = [Counts(table[alive], mu[alive]) for table in tables_with_margins(counts, margins, n, random)]
    g2, x2 = np.array([table.g2() for table in drawn]), np.array([table.x2() for table in drawn])
    none = np.empty((0, fit.n_params))
    return Bootstrap(tests, g2, x2, none, none[:, 0], none, none[:, 0], 0, conditional=True)


def _run(fit: Decomposition, parts: list[FloatArray], jobs: int) -> list[Any]:
    every = np.arange(fit.n_params)
    if jobs == 1 or len(parts) == 1:
        return [_fitted(fit._refit, every, part) for part in parts]
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(jobs, len(parts)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(_fitted, *zip(*((fit._refit, every, part) for part in parts), strict=True)))


def _fitted(refit: Callable[..., Decomposition], every: Any, tables: FloatArray) -> list[Any]:
    """Fit some tables: what `Bootstrap` keeps of each, ``None`` where a fit did not converge."""
    return [_measured(refit(every, table)) for table in tables]


def _measured(fit: Decomposition) -> Any:
    if not fit.converged:
        return None
    counts = counts_of(fit)
    level = 0.0
    if fit.alive is not None:
        level = float(fit.model.space.below(fit.recession)[fit.model.space.on_grid(fit.alive)].max())
    return counts.g2(), counts.x2(), fit.theta, float(np.log(fit.total)) - fit.psi, fit.recession, level


def _share(drawn: FloatArray, own: float) -> float:
    return (1.0 + float((drawn >= own * (1.0 - SAME) - SAME).sum())) / (1.0 + len(drawn))
