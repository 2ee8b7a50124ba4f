"""`Inference`: what counts say about a model (tests of fit, bootstrap, residuals); estimates are in `estimates.py`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import chdtr, gammaln

from legendre.core.arguments import Rng, check_choice, check_flag, check_int, check_number, generator_from
from legendre.core.cells import other_modes
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.core.text import NamedValues, Printed, Table, list_words, shape_name, shorten
from legendre.core.types import FloatArray, IntArray, Modes, frozen
from legendre.data.observation import beyond_memory
from legendre.model.model import generating_margins, running_order
from legendre.results.base import count_name, rank_name
from legendre.results.distribution import check_formed, read_cells
from legendre.results.inference.counts import (
    Counts,
    aic,
    chi_square_p,
    counts_of,
    degrees_of_freedom,
    deviances,
    p_text,
    pair_with_means,
    pearson,
    statistic_text,
    support_rank,
)
from legendre.results.inference.estimates import Combinations, Estimates, log_means
from legendre.solvers.loop import Status

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@frozen(repr=False)
class Inference(Estimates):
    """Tests of fit, standard errors and residuals of a decomposition whose X holds counts.

    X is treated as a multinomial sample of size N = `fit.total`, and Q as the maximum likelihood estimate. p-values and
    standard errors are the usual asymptotic ones.

    Attributes
    ----------
    g2, x2
        The likelihood ratio statistic (deviance) ``2 N KL(P, Q)`` and Pearson's statistic.
    df
        Degrees of freedom: the number of cells with positive fitted values, minus 1, minus `fit.rank`.
    g2_p_value, x2_p_value
        From the chi-square distribution; NaN without degrees of freedom.
    log_likelihood
        Multinomial, with all constants: ``log N! - sum log n! + sum n log(mu / N)``.
    rank
        The number of independent parameters on the support; NaN where it is not known. `fit.rank`, used in `df`,
        counts those on the cells with positive fitted values: at the boundary it is smaller, because parameters that
        only keep cells empty are left out.
    aic
        As in R's ``glm(family = poisson)``: ``-2 L + 2 (rank + 1)``, where L is the Poisson log-likelihood (independent
        counts, N random). It exceeds ``-2 log_likelihood + 2 rank`` by a number that depends on N alone.
    bic
        The same with ``log N`` in place of 2. (R's ``BIC`` takes the logarithm of the number of cells instead.)

    See Also
    --------
    anova : Compare nested models.
    legendre.results.Parameters : The table of all parameters.

    Examples
    --------
    >>> import legendre as ld
    >>> tests = ld.decompose([[18, 7], [6, 19]], "B1").inference()
    >>> round(tests.x2, 4), tests.standard_errors.round(4).tolist()
    (11.5385, [0.2831, 0.2828])
    """

    fit: Decomposition
    counts: Counts
    g2: float
    x2: float
    df: int
    log_likelihood: float
    aic: float
    rank: float
    missing: FloatArray | None = None  # information lost because rows lack values
    face_rank: int | None = None  # for such rows, the number of parameters they identify
    scale: float = 1.0  # the dispersion, by which variances are multiplied

    @classmethod
    def of(cls, fit: Decomposition, **others: Any) -> Self:
        """Compute the statistics of X against a fit Q of it; `others` are the fields that a subclass adds."""
        counts, rank = counts_of(fit), support_rank(fit)
        return cls(
            fit=fit,
            counts=counts,
            g2=counts.g2(),
            x2=counts.x2(),
            df=degrees_of_freedom(fit),
            log_likelihood=counts.log_likelihood(),
            aic=aic(counts.poisson_log_likelihood(), rank),
            rank=rank,
            **others,
        )

    @property
    def dispersion(self) -> float:
        """How much more the counts vary than Poisson counts: ``x2 / df``; NaN without degrees of freedom."""
        return self.x2 / self.df if self.df > 0 else math.nan

    def _varies_too_little(self, surely: float = 1e-4, least: int = 10) -> bool:
        """Return whether X varies much less than counts do, as measurements that were taken for counts may.

        That is so if X2 / df is below a half and so small an X2 has a probability below `surely`. With fewer than
        `least` degrees of freedom, or with small fitted counts, X2 is too noisy to decide. A user who asked for another
        dispersion knows it already.
        """
        if self.scale != 1.0 or self.df < least or not self.dispersion < 0.5 or _warn_of_small_counts(self):
            return False
        return bool(chdtr(float(self.df), self.x2) < surely)

    def scaled(self, dispersion: float | None = None) -> Self:
        """Return the same with variances multiplied by the dispersion, as in R's ``family = quasipoisson``.

        This changes standard errors, tests and intervals of coefficients, contrasts, odds ratios and means.

        Parameters
        ----------
        dispersion
            By default `dispersion`, Pearson's statistic over its degrees of freedom.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7, 9], [6, 19, 4]], "B1").inference()
        >>> round(tests.dispersion, 4), (tests.scaled().standard_errors / tests.standard_errors).round(4).tolist()
        (6.5738, [2.5639, 2.5639, 2.5639])
        """
        found = self.dispersion if dispersion is None else dispersion
        return replace(self, scale=check_number(found, "scaled: dispersion", above=0))

    @property
    def g2_p_value(self) -> float:
        """The p-value of `g2`."""
        return chi_square_p(self.g2, self.df)

    @property
    def x2_p_value(self) -> float:
        """The p-value of `x2`."""
        return chi_square_p(self.x2, self.df)

    @property
    def bic(self) -> float:
        """AIC with ``log N`` in place of 2."""
        return self._penalise(math.log(self.fit.total))

    def _penalise(self, price: float) -> float:
        """Return AIC with a penalty of `price`, not 2, for each parameter and the constant; `step` minimises it."""
        return self.aic + (price - 2.0) * (self.rank + 1.0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the numbers, as sentences, the most serious first; the summary prints them."""
        fit = self.fit
        notes = [*_warn_of_boundary(fit)]
        if fit.status is Status.UNDECIDED:
            notes.append("whether all theta are finite was not decided: standard errors may be far too large")
        notes += _warn_of_small_counts(self)
        if self._varies_too_little():
            notes.append(
                f"X2 / df = {self.dispersion:.2g}: X varies less than counts do. If it holds measurements, fit it with "
                "counts=False; scaled() multiplies standard errors by the square root of that number."
            )
        if fit._left_out:
            notes.append(f"{fit._left_out:,.0f} cases lie outside the support, and were left out")
        if fit._rounds:  # the basis was grown
            notes.append("the data chose the basis: p-values of fit are too large, those of parameters too small")
        return tuple(notes)

    def bootstrap(self, n: int = 999, rng: Rng = None, *, conditional: bool = False) -> Bootstrap:
        """Draw tables of N counts from Q, fit the model to each, and compare their `g2` and `x2` with those of X.

        The p-values do not rely on the chi-square distribution.

        Parameters
        ----------
        n
            The number of tables to draw.
        rng
            A seed or a generator.
        conditional
            For decomposable models, draw tables with the margins of X that the model fits. The p-values are then exact,
            however small the counts, as in R's ``chisq.test(simulate.p.value = TRUE)``.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[3, 1, 0], [1, 0, 4]], "B1").inference()
        >>> round(tests.g2_p_value, 4), tests.bootstrap(199, 0).g2_p_value
        (0.0196, 0.015)
        >>> tests.bootstrap(199, 0, conditional=True).g2_p_value
        0.1
        """
        self._check_table("bootstrap")
        fit, statistics = self.fit, []
        check_flag(conditional, "conditional")
        check_int(n, "bootstrap: n", 1)
        random = generator_from(rng)
        cells = fit.model.support.cells()
        tables: Iterable[FloatArray]
        if conditional:
            margins = _find_product_margins(
                fit,
                "bootstrap(conditional=True) draws tables with the margins of X, which is done",
                "Leave conditional out",
            )
            # here all cells are in the support, so a flattened table has the order of `cells`
            tables = map(np.ravel, draw_tables(self.counts.grid(fit.shape).astype(np.int64), margins, n, random))
        else:
            q = np.exp(fit._distribution.log_prob(cells))
            check_room(n * len(q), 8, "bootstrap: tables", "Draw fewer, or merge levels.")
            tables = random.multinomial(round(fit.total), q / q.sum(), size=n).astype(np.float64)
        for table in tables:
            # a table with the same margins as X has the same fit
            refit = fit if conditional else fit._fit_part(np.arange(fit.n_params), table)
            if refit.converged:
                counts = pair_with_means(refit, cells[table > 0], table[table > 0])
                statistics.append((counts.g2(), counts.x2()))
        if not statistics:
            raise InvalidQuery(f"bootstrap: of {n} tables none was fitted to the tolerance. Loosen tol.")
        g2, x2 = np.transpose(statistics)
        return Bootstrap(self, g2, x2, n - len(statistics), conditional)

    def evidence(self, alpha: float = 1.0) -> float:
        """Return the log marginal likelihood of the counts: their probability, averaged over the model's prior.

        The prior is the conjugate (hyper-Dirichlet) one, as if `alpha` cases in total had been seen before, spread
        evenly over the cells. The result is exact, but available only for decomposable models, whose margins form a
        tree. Differences between models are logarithms of Bayes factors.

        Notes
        -----
        The prior density of theta is proportional to ``exp(sum of s log q)``, where s is the same imagined count in
        every cell, alpha in total. If the table's own counts are added to s, it is the posterior, so the evidence is
        the ratio of two integrals of the same kind (Massam, Liu and Dobra 2009).

        Examples
        --------
        >>> import legendre as ld
        >>> alone, both = (ld.decompose([[18, 7], [6, 19]], b).inference() for b in ("B1", ld.full()))
        >>> round(both.evidence() - alone.evidence(), 3)      # the log Bayes factor for an association
        3.639
        """
        self._check_table("evidence")
        check_number(alpha, "evidence: alpha, the weight of the prior in cases,", above=0)
        fit = self.fit
        margins = _find_product_margins(fit, "evidence is known in closed form", "Compare other models by AIC or BIC")
        counts = self.counts.grid(fit.shape)
        prior = np.full(fit.shape, float(alpha) / counts.size)
        # the multinomial coefficient: in how many orders the cases can give this table
        ways = float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())
        # the model has no term for these variables: each case has any combination of their levels with equal chance
        uniform = math.prod(n for k, n in enumerate(fit.shape) if not any(k in group for group in margins))
        ratio = _compute_log_integral(counts + prior, margins) - _compute_log_integral(prior, margins)
        return ways + ratio - float(counts.sum()) * math.log(uniform)

    def residuals(self, kind: str = "pearson", cells: Any = None, *, indices: bool = False) -> Any:
        """Return the residuals of all cells, in the form of X, NaN outside the support; or those of some cells.

        Parameters
        ----------
        kind
            ``"pearson"``, ``(n - mu) / sqrt(mu)``; ``"deviance"``, signed square roots of the terms of `g2`; or
            ``"adjusted"``, Pearson's over ``sqrt(1 - leverage)``: about standard normal if the model holds. Cells that
            vanish have residual 0, but no adjusted residual (NaN), nor does any cell whose fitted mean always equals
            its count.
        cells
            Cells, one a row, for a vector of their residuals; this works even if X is too large for an array. Levels
            are given by labels, if there are any, as in `Decomposition.log_prob`.
        indices
            True: levels are given by their indices in X, even if they have labels.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1").inference().residuals("adjusted", [[0, 0], [1, 0]]).round(4).tolist()
        [3.3968, -3.3968]
        """
        self._check_complete("residuals")
        check_choice(kind, "residuals: kind", ("adjusted", "deviance", "pearson"))
        fit = self.fit
        if cells is None:
            check_formed(fit.shape, "residuals", "Name some cells: residuals(kind, cells).")
            index = fit.model.support.cells()
        else:
            index = read_cells(fit.labels, cells, "residuals", indices)
        log_mu = fit._distribution.log_prob(index) + math.log(fit.total)
        alive = log_mu > -np.inf
        # cells outside the support have NaN; those that vanish have mean and count 0, so residual 0, but none adjusted
        found = np.where(fit.model.support.contains(index) & (kind != "adjusted"), 0.0, np.nan)
        n, log_mu = self.counts.at(index[alive]), log_mu[alive]
        found[alive] = pearson(n, log_mu)
        if kind == "deviance":
            found[alive] = np.sign(found[alive]) * np.sqrt(deviances(n, log_mu))
        if kind == "adjusted":
            blocks = np.array_split(index[alive], 1 + len(log_mu) * fit.n_params // (1 << 22))  # to bound the memory
            root = self.information.root
            variances = [np.square(log_means(fit, block).weights @ root).sum(axis=1) for block in blocks]
            leverage = np.concatenate(variances) * np.exp(log_mu)  # the variance of log mu, times mu
            # a leverage of 1 up to rounding: the model fits such a count exactly, whatever it is
            found[alive] /= np.sqrt(np.where(leverage < 1.0 - 1e-9, 1.0 - leverage, np.nan))
        if cells is not None:
            return found
        out = np.full(fit.shape, np.nan)
        out[tuple(index.T)] = found
        return fit.origin.give(out, what="residual")

    def tables(self, rows: int = 30) -> list[Table]:
        """List the tables of the summary: tests of fit, then at most `rows` parameters with the largest ``|z|``."""
        check_int(rows, "summary: rows", 1)
        fit = self.fit
        if not fit.n_params:
            return [self._describe()]
        # the parameters with the largest |z|, in the order of the basis; those without a test are chosen last
        chosen = np.sort(np.argsort(-np.nan_to_num(np.abs(self.z), nan=-1.0), kind="stable")[:rows])
        # a combination for each: weight 1 for that parameter, after column 0 of the constant
        weights = (1 + chosen[:, None] == np.arange(1 + fit.n_params)).astype(np.float64)
        names = fit.model.terms.name_all(fit.labels, chosen)
        listed = self._estimate(Combinations(names, weights), 0.95, exp=False, what="parameter")
        return [self._describe(), listed.table(more=fit.n_params - len(chosen))]

    def _describe(self) -> NamedValues:
        """Lay out the table, tests of fit and all notes: the summary without parameters, which needs no covariance."""
        fit = self.fit
        vanishing = f", {fit.n_vanishing} vanish" if fit.n_vanishing else ""
        dependent = f" ({rank_name(fit)})" if fit.rank < fit.n_params else ""
        entries = [
            ("table", f"{shape_name(fit.shape)}, N = {fit.total:.0f}"),
            ("cells", f"{count_name(fit.model.support.n_cells)}{vanishing}"),
            ("model", shorten(fit.recipe)),
            ("parameters", f"{fit.n_params}{dependent}"),
            *self._statistic_rows(
                "G2 (deviance)", "X2 (Pearson)", ("log-likelihood", f"{self.log_likelihood:.3f}  (multinomial)")
            ),
            *(("note", note) for note in self.notes),
        ]
        return NamedValues("Log-linear model of counts", entries)

    def _statistic_rows(self, g2: str, x2: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
        """List the statistics for print, as pairs of name and text: G2, X2, dispersion, `more`, AIC and BIC.

        `g2` and `x2` are the names to print. Rows that lack values have no X2.
        """
        rows = [(g2, statistic_text(self.g2, self.df))]
        if self.missing is None:
            rows.append((x2, statistic_text(self.x2, self.df)))
        if self.scale != 1.0:
            rows.append(("dispersion", f"{self.scale:.4g}, by which variances are multiplied"))
        return [*rows, *more, ("AIC", f"{self.aic:.3f}"), ("BIC", f"{self.bic:.3f}")]

    def summary(self, rows: int = 30) -> str:
        """Return the tests of fit and the table of parameters as text, at most `rows` with the largest ``|z|``."""
        return "\n\n".join(table.text() for table in self.tables(rows))

    def __repr__(self) -> str:
        """Return the tests of fit as text; `summary` adds the parameters."""
        return self._describe().text()

    def __str__(self) -> str:
        """Return the summary; the repr shows the tests of fit alone."""
        return self.summary()


# --- without the chi-square distribution -----------------------------------------------------------------------------


@frozen(repr=False)
class Bootstrap(Printed):
    """Statistics of tables that were drawn from a fitted model.

    Attributes
    ----------
    g2, x2
        The statistics of each table that was drawn.
    g2_p_value, x2_p_value
        The share of tables whose statistic is at least that of X; X itself is counted as one of the tables.
    n, failed
        How many tables were fitted, and how many were left out because their fit did not converge.

    Notes
    -----
    Tables are drawn from the fitted model instead of the true one. With few counts for each parameter the p-values are
    too small: for 400 tables of independent variables, 11 % of the p-values were at or below 0.05 with two counts for
    each parameter, 7 % with six, and 5 % with fourteen. This is a property of the method; drawing more tables does not
    help. ``conditional=True`` draws tables that have the margins of X instead. Their distribution does not depend on
    the parameters, so these p-values are valid for any N.

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
    failed: int
    conditional: bool  # whether the tables have the margins of X

    @property
    def n(self) -> int:
        """How many tables were fitted."""
        return len(self.g2)

    @property
    def g2_p_value(self) -> float:
        """The share of tables with a `g2` at least that of X."""
        return _estimate_p_value(self.g2, self.tests.g2)

    @property
    def x2_p_value(self) -> float:
        """The share of tables with an `x2` at least that of X."""
        return _estimate_p_value(self.x2, self.tests.x2)

    def tables(self) -> list[Table]:
        """Lay out the statistics with their p-values, and a warning if these are too small."""
        rows = [
            ("tables", f"{self.n:,}"),
            ("G2", f"{self.tests.g2:.4f}, p = {p_text(self.g2_p_value)}"),
            ("X2", f"{self.tests.x2:.4f}, p = {p_text(self.x2_p_value)}"),
        ]
        if self.failed:
            rows.append(("left out", f"{self.failed:,}, whose fit did not converge"))
        fit = self.tests.fit
        # warn below 5 counts for each parameter: 7 % of p-values are at most 0.05 with 6 counts, 11 % with 2
        if not self.conditional and fit.total < 5 * fit.rank:
            note = (
                f"{fit.total / fit.rank:.1f} counts for each parameter: p-values are too small, because tables are "
                "drawn from the fitted model instead of the true one. For decomposable models "
                "bootstrap(conditional=True) is exact."
            )
            rows.append(("note", note))
        return [NamedValues("Exact test given the margins" if self.conditional else "Parametric bootstrap", rows)]


def _estimate_p_value(drawn: FloatArray, observed: float, same: float = 1e-9) -> float:
    """Return a Monte Carlo p-value: the share of drawn statistics that are at least X's, with X counted as one.

    Tables with equal statistics must count, so a statistic that is lower than X's by a relative or absolute `same` is
    taken as equal: rounding causes differences of that size.
    """
    return (1.0 + float((drawn >= observed * (1.0 - same) - same).sum())) / (1.0 + len(drawn))


def _find_product_margins(fit: Decomposition, asked: str, instead: str) -> list[Modes]:
    """List the margins (groups of modes) of a decomposable model, the cliques of its graph, in running order.

    The likelihood then is a product over these cliques and their separators, which exact draws and the evidence need.
    All cells must be in the support, with no base measure, and no levels may be merged. Other models are refused:
    `asked` begins the error, and `instead` ends it with advice.
    """
    found, merged_shape = generating_margins(fit.model) if fit.n_params else [], fit.model.quotient.merged_shape
    margins = None if found is None else running_order(found)
    if (
        not fit.model.support.full
        or fit.model.base is not None
        or margins is None
        or any(merged_shape[k] != fit.shape[k] for group in margins for k in group)
    ):
        raise InvalidQuery(
            f"{asked} for decomposable models on all cells of a table: those whose margins form a tree, such as "
            f"[AB][BC]. {instead}."
        )
    return margins


def draw_tables(counts: IntArray, margins: list[Modes], n: int, random: np.random.Generator) -> Iterator[FloatArray]:
    """Draw n tables that have the same margins as X, from their distribution under a decomposable model.

    Given these margins, the distribution has no parameters, so tests with such tables are exact. Each table is made
    from the cases of X, one margin after the other. A margin shares some modes with the margins before it and adds
    others. Cases with the same levels of the shared modes exchange their levels of the added modes at random. For two
    variables this is a permutation test.
    """
    cases = np.repeat(np.argwhere(counts), counts[counts > 0], axis=0)  # one row of levels for each case of X
    # the index of a case in the flattened table is the product of its levels with these
    strides = np.array(counts.strides) // counts.itemsize
    for _ in range(n):
        rows = np.zeros_like(cases)  # the levels of the cases that are drawn
        done = list[int]()  # the modes that `rows` has levels of
        for group in margins:
            new, shared = [k for k in group if k not in done], [k for k in group if k in done]
            of_cases, of_rows = (table[:, shared] @ strides[shared] for table in (cases, rows))
            # both are sorted by the shared levels, which occur equally often; X's cases in random order within each
            dealt = cases[np.lexsort((random.random(len(cases)), of_cases))]
            rows[np.argsort(of_rows, kind="stable")[:, None], new] = dealt[:, new]
            done += new
        # variables in no term have uniform levels
        for k in range(counts.ndim):
            if k not in done:
                rows[:, k] = random.integers(0, counts.shape[k], len(rows))
        yield np.bincount(rows @ strides, minlength=counts.size).reshape(counts.shape).astype(np.float64)


def _compute_log_integral(counts: FloatArray, margins: list[Modes]) -> float:
    """Return the log normalising constant of a hyper-Dirichlet density; `counts` are its parameters, one for each cell.

    It is a product over the cliques: the constant of a Dirichlet density on the clique's modes, divided by that on its
    separator, the modes it shares with the cliques before it (Dawid and Lauritzen 1993). The gamma function of the
    total cancels in these ratios, except where a separator is empty.
    """

    def sum_log_gamma(modes: set[int]) -> float:
        """Sum log gamma over the margin of some modes; of no modes, it is that of the total."""
        others = other_modes(modes, counts.ndim)
        return float(gammaln(counts.sum(axis=others)).sum())

    total, before = 0.0, set[int]()
    for group in map(set, margins):
        total += sum_log_gamma(group) - sum_log_gamma(group & before)
        before |= group
    return total


# --- notes -----------------------------------------------------------------------------------------------------------


def _warn_of_boundary(fit: Decomposition, most: int = 4) -> tuple[str, ...]:
    """Warn that there is no maximum likelihood estimate: which cells are the reason, and what is reported instead.

    Up to `most` vanishing cells are named; of more cells, only the number is given.
    """
    if fit.status is not Status.AT_BOUNDARY:
        return ()
    n = fit.n_vanishing
    cells = f"{n:,} cells without counts (fit.vanishing_cells lists them)"
    if 0 < n <= most:
        labels = fit.labels.restore_order()
        named = list_words([f"({labels.cell(cell)})" for cell in fit.vanishing_cells])
        cells = f"{'the cell' if n == 1 else 'the cells'} {named}"
    return (
        "the maximum likelihood estimate does not exist: the likelihood increases without attaining its maximum as the "
        f"means of {cells} go to 0, and some parameters to infinity with them.",
        "the limit is reported instead: fitted counts and the likelihood are its own, degrees of freedom are counted "
        "on the other cells, and parameters or contrasts that stay finite have their usual standard errors.",
    )


def _warn_of_small_counts(tests: Inference) -> tuple[str, ...]:
    """Warn of fitted counts that are too small for the chi-square distribution.

    Cochran's rule (1954): the distribution is good enough if all fitted counts are at least 1, and at most a fifth of
    them are below 5.
    """
    if not tests.df:
        return ()
    counts, fit = tests.counts, tests.fit
    mu, others = counts.mu, 0
    if beyond_memory(fit.shape) is None:
        mu = np.exp(fit._distribution.log_prob(fit.model.support.cells())) * fit.total
        mu = mu[mu > 0]
    else:  # only cells with counts are listed: nearly all others have small means
        others = fit.model.support.n_cells - fit.n_vanishing - len(mu)
    # the other cells count as below 5, and their mean stands for the smallest of them
    n, below = len(mu) + others, int((mu < 5).sum()) + others
    least = min(float(mu.min(initial=np.inf)), counts.rest / others if others else np.inf)
    if below <= 0.2 * n and least >= 1 - 1e-9:  # a mean of 1 may come out as 1 - 1e-16
        return ()
    advice = "differences of G2 between two models with few parameters are more reliable."
    few = f"{below:,} of {n:,} fitted counts are below 5, the smallest {least:.2g}: the chi-square distribution"
    if tests.missing is not None:  # there is no X2, and no bootstrap
        return (f"{few} of G2 is rough; {advice}",)
    return (
        f"{few} of G2 and X2 is rough, and where they disagree neither p-value can be trusted. bootstrap() gives "
        f"p-values without it; {advice}",
    )
