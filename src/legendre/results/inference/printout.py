"""Inference as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidQuery
from legendre.core.text import Columns, NamedValues, Table, shape_name, shortened
from legendre.results.base import count_name, rank_name
from legendre.results.inference.wald import INFINITE, OPEN

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

MANY = 12  # cells of more modes are named by their coordinates other than 0
LONG_NAME = 48  # characters of the name of a tied parameter
LARGE = 1e12  # statistics from here on are written with six digits
LEGEND = "p: *** < 0.001, ** < 0.01, * < 0.05"


def tables(tests: Inference, rows: int) -> list[Table]:
    """List the tests of fit, then the parameters."""
    if not is_whole(rows, 1):
        raise InvalidQuery(f"summary(rows={rows!r}): rows must be an integer >= 1.")
    return [_fit_table(tests), *([_parameters(tests, rows)] if tests.fit.n_params else [])]


def _fit_table(tests: Inference) -> NamedValues:
    fit = tests.fit
    vanishing = f", {fit.n_vanishing} vanish" if fit.n_vanishing else ""
    dependent = f" ({rank_name(fit)})" if fit.rank < fit.n_params else ""
    entries = [
        ("table", f"{shape_name(fit.shape)}, N = {fit.total:.0f}"),
        ("cells", f"{count_name(fit.model.support.n_cells)}{vanishing}"),
        ("model", shortened(fit.recipe)),
        ("parameters", f"{fit.n_params}{dependent}"),
        ("G2 (deviance)", tested(tests.g2, tests.df, tests.g2_p_value)),
        ("X2 (Pearson)", tested(tests.x2, tests.df, tests.x2_p_value)),
        ("log-likelihood", f"{tests.log_likelihood:.3f}  (multinomial)"),
        ("AIC", f"{tests.aic:.3f}"),
        ("BIC", f"{tests.bic:.3f}"),
    ]
    entries += [("note", note) for note in tests.notes]
    return NamedValues("Log-linear model of counts", entries, fit_rule=len(fit.shape) <= MANY)


def tested(statistic: float, df: int, p: float) -> str:
    """Write a statistic with its degrees of freedom and its p-value."""
    value = f"{statistic:.4f}" if statistic < LARGE else f"{statistic:.6g}"
    return f"{value} on {count_name(df)} df" + (f", p = {shown(p)}".replace("= <", "< ") if df else "")


def _parameters(tests: Inference, rows: int) -> Columns:
    """List all parameters, or those with the largest z, in the order of the basis."""
    largest = np.argsort(-np.nan_to_num(np.abs(tests.z), nan=-1.0), kind="stable")
    chosen = np.sort(largest[:rows])
    listed = [("cell", "theta", "s.e.", "z", "p", ""), *(_row(tests, i) for i in chosen.tolist())]
    left = tests.fit.n_params - len(chosen)
    more = [f"... and {left} more with smaller |z|"] if left else []
    counted = [(tests.reasons.count(reason), reason) for reason in (INFINITE, OPEN)]
    notes = [f"{count} without s.e.: {reason}." for count, reason in counted if count]
    return Columns("", listed, "<>>>><", ruled=True, notes=[*more, LEGEND, *notes])


def _row(tests: Inference, i: int) -> tuple[str, str, str, str, str, str]:
    theta, reason, cell = tests.fit.theta[i], tests.reasons[i], _name(tests.fit, i)
    if reason:
        limit = np.copysign(np.inf, tests.fit.recession[i]) if reason == INFINITE else theta
        return cell, f"{limit:.4f}", "-", "-", "-", ""
    p = float(tests.p_values[i])
    return cell, f"{theta:.4f}", f"{tests.standard_errors[i]:.4f}", f"{tests.z[i]:.2f}", shown(p), stars(p)


def _name(fit: Decomposition, i: int) -> str:
    """Name a parameter: a tied one by its title, any other by its cell."""
    if fit.ties is not None and fit.ties.names[i]:
        return shortened(fit.ties.names[i], LONG_NAME)
    index = fit.basis[i if fit.ties is None else fit.ties.own[i]]
    if len(index) > MANY:
        return "{" + ", ".join(f"{k}: {index[k]}" for k in np.flatnonzero(index)) + "}"
    return cell_name(index)


def stars(p: float) -> str:
    """Mark a p-value as statisticians do.

    >>> [stars(p) for p in (0.2, 0.03, 0.002, 1e-9)]
    ['', '*', '**', '***']
    """
    return "*" * sum(p < level for level in (0.05, 0.01, 0.001))


def shown(p: float) -> str:
    """Write a p-value; one below the resolution of float64 as an upper bound.

    >>> [shown(p) for p in (0.034567, 1e-20)]
    ['0.0346', '<2e-16']
    """
    return "<2e-16" if p < 2e-16 else f"{p:.3g}"
