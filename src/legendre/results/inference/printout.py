"""Inference as tables, with what to know before the numbers are believed, in a statistician's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.text import NamedValues, Table, fragment, latex, list_words, markdown, shape_name, shorten
from legendre.data.observation import beyond_memory
from legendre.results.base import count_name, import_pandas, rank_name
from legendre.solvers.loop import Status

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

LEGEND = "p: *** < 0.001, ** < 0.01, * < 0.05"


class Printed:
    """A result that prints as its `table`."""

    table: Callable[[], Table]

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return fragment([self.table()])

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return markdown(self.table())

    def to_latex(self) -> str:
        """Return the table as LaTeX, with rules of the package booktabs."""
        return latex(self.table())


def fit_table(tests: Inference) -> NamedValues:
    """Lay the tests of fit out."""
    fit = tests.fit
    vanishing = f", {fit.n_vanishing} vanish" if fit.n_vanishing else ""
    dependent = f" ({rank_name(fit)})" if fit.rank < fit.n_params else ""
    entries = [
        ("table", f"{shape_name(fit.shape)}, N = {fit.total:.0f}"),
        ("cells", f"{count_name(fit.model.support.n_cells)}{vanishing}"),
        ("model", shorten(fit.recipe)),
        ("parameters", f"{fit.n_params}{dependent}"),
        *statistic_rows(tests, "G2 (deviance)", "X2 (Pearson)"),
        ("log-likelihood", f"{tests.log_likelihood:.3f}  (multinomial)"),
        ("AIC", f"{tests.aic:.3f}"),
        ("BIC", f"{tests.bic:.3f}"),
        *(("note", note) for note in tests.notes),
    ]
    return NamedValues("Log-linear model of counts", entries, fit_rule=len(fit.shape) <= 12)


def statistic_rows(tests: Inference, g2: str, x2: str) -> list[tuple[str, str]]:
    """Lay G2, X2 where there is one, and the dispersion out."""
    rows = [(g2, statistic_text(tests.g2, tests.df, tests.g2_p_value))]
    if tests.missing is None:
        rows.append((x2, statistic_text(tests.x2, tests.df, tests.x2_p_value)))
    if tests.scale != 1.0:
        rows.append(("dispersion", f"{tests.scale:.4g}, by which variances are multiplied"))
    return rows


def statistic_text(statistic: float, df: int, p: float) -> str:
    """Write a statistic with its degrees of freedom and its p-value."""
    value = f"{statistic:.4f}" if statistic < 1e12 else f"{statistic:.6g}"
    return f"{value} on {count_name(df)} df" + (f", p = {p_text(p)}".replace("= <", "< ") if df else "")


def stars(p: float) -> str:
    """Mark a p-value as statisticians do.

    >>> [stars(p) for p in (0.2, 0.03, 0.002, 1e-9)]
    ['', '*', '**', '***']
    """
    return "*" * sum(p < bound for bound in (0.05, 0.01, 0.001))


def p_text(p: float) -> str:
    """Write a p-value; one below the resolution of float64 as an upper bound.

    >>> [p_text(p) for p in (0.034567, 1e-20)]
    ['0.0346', '<2e-16']
    """
    return "<2e-16" if p < 2e-16 else f"{p:.3g}"


def to_frame(columns: Mapping[str, Any], names: Sequence[str], title: str) -> Any:
    """Make a pandas data frame with a row for each name."""
    pandas = import_pandas("to_frame()")
    return pandas.DataFrame(dict(columns), index=pandas.Index(names, name=title))


# --- notes -----------------------------------------------------------------------------------------------------------


def notes_of(tests: Inference) -> tuple[str, ...]:
    """List warnings about the numbers in sentences, the gravest first."""
    fit = tests.fit
    notes = [*_boundary(fit), *_small_counts(tests), *_dispersion(tests)]
    data = None if fit.data is None or fit.data.support.mask is None else fit.data.as_dense()
    if data is not None and (outside := int(np.nansum(np.where(data.support.on_grid(), 0, data.values)))):
        notes.append(f"{outside:,} cases lie outside the support, and were left out")
    if fit._rounds:
        notes.append("the data chose the basis: p-values of fit are too large, those of parameters too small")
    if fit.status is Status.UNDECIDED:
        notes.append("whether all theta are finite was not decided: standard errors may be far too large")
    return tuple(notes)


def _dispersion(tests: Inference, surely: float = 1e-4, least: int = 10) -> list[str]:
    """Name a dispersion that is small: its probability is below `surely`, on enough degrees of freedom."""
    from scipy.special import chdtr

    ratio = tests.dispersion  # NaN where it is not known
    if tests.scale == 1.0 and tests.df >= least and ratio < 0.5 and chdtr(float(tests.df), tests.x2) < surely:
        return [
            f"X2 / df = {ratio:.2g}: X varies less than counts do. If it holds measurements, fit it with counts=False; "
            "scaled() multiplies standard errors by the square root of that number."
        ]
    return []


def _boundary(fit: Decomposition, most: int = 4) -> tuple[str, ...]:
    """Say that there is no maximum likelihood estimate, which cells are the reason, and what is reported instead."""
    if fit.status is not Status.AT_BOUNDARY:
        return ()
    n = fit.n_vanishing
    named = []
    if n <= 1_000_000 and (fit.model.support.points is None or n <= most):
        labels = fit.labels.restore_order()
        named = [f"({labels.cell(cell)})" for cell in fit.vanishing_cells[:most]]
    cells = f"{n:,} cells without counts" + (f", {', '.join(named)} and others," if named else "")
    if 0 < n <= most:
        cells = f"{'the cell' if n == 1 else 'the cells'} {list_words(named)}"
    return (
        "the maximum likelihood estimate does not exist: the likelihood increases without attaining its maximum as the "
        f"means of {cells} go to 0, and some parameters to infinity with them.",
        "the limit is reported instead: fitted counts and the likelihood are its own, degrees of freedom are counted "
        "on the other cells, and parameters or contrasts that stay finite have their usual standard errors.",
    )


def _small_counts(tests: Inference) -> tuple[str, ...]:
    """Warn of fitted counts that are too small for the chi-square distribution.

    Cochran's rule: it is trusted while all fitted counts are at least 1, and at most a fifth of them below 5.
    """
    if not tests.df:
        return ()
    counts, fit = tests.counts, tests.fit
    mu, others = counts.mu, 0
    if beyond_memory(fit.shape) is None:
        mu = np.exp(fit._distribution.log_prob(fit.model.support.cells())) * fit.total
        mu = mu[mu > 0]
    else:  # so many cells without counts have small means
        others = fit.model.support.n_cells - fit.n_vanishing - len(mu)
    n, below = len(mu) + others, int((mu < 5).sum()) + others
    least = min(float(mu.min(initial=np.inf)), counts.rest / others if others else np.inf)
    least = float(f"{least:.9g}")  # without rounding errors
    if below <= 0.2 * n and least >= 1:
        return ()
    firmer = "differences of G2 between two models with few parameters are more reliable."
    few = f"{below:,} of {n:,} fitted counts are below 5, the smallest {least:.2g}: the chi-square distribution"
    if tests.missing is not None:  # there is no X2, and no bootstrap
        return (f"{few} of G2 is rough; {firmer}",)
    return (
        f"{few} of G2 and X2 is rough, and where they disagree neither p-value can be trusted. bootstrap() gives "
        f"p-values without it; {firmer}",
    )
