"""Inference as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidQuery
from legendre.core.types import IntArray
from legendre.results.inference.chisquare import shown, stars
from legendre.results.inference.wald import INFINITE, OPEN
from legendre.solvers.status import Status

if TYPE_CHECKING:
    from legendre.results.inference.result import Inference

LEGEND = "p: *** < 0.001, ** < 0.01, * < 0.05"


def printout(tests: Inference, rows: int) -> str:
    """Write the tests of fit, then the parameters."""
    if not is_whole(rows, 1):
        raise InvalidQuery(f"summary(rows={rows!r}): rows must be an integer >= 1.")
    table = _fit_lines(tests)
    if tests.fit.n_params:
        table += ["", *_parameter_lines(tests, rows)]
    return "\n".join(table)


def _fit_lines(tests: Inference) -> list[str]:
    fit = tests.fit
    vanishing = f", {fit.n_vanishing} vanish" if fit.n_vanishing else ""
    dependent = f" (rank {fit.rank})" if fit.rank < fit.n_params else ""
    entries = [
        ("table", f"{'x'.join(map(str, fit.shape))}, N = {fit.total:.0f}"),
        ("cells", f"{int(tests.counts.support.sum())}{vanishing}"),
        ("model", fit.recipe),
        ("parameters", f"{fit.n_params}{dependent}"),
        ("G2 (deviance)", _chi_square(tests.g2, tests.df, tests.g2_p_value)),
        ("X2 (Pearson)", _chi_square(tests.x2, tests.df, tests.x2_p_value)),
        ("log-likelihood", f"{tests.log_likelihood:.3f}  (multinomial)"),
        ("AIC", f"{tests.aic:.3f}"),
        ("BIC", f"{tests.bic:.3f}"),
    ]
    if fit.path:
        entries.append(("note", "the data chose the basis: p-values are too small"))
    if fit.status is Status.UNDECIDED:
        entries.append(("note", "whether all theta are finite was not decided: standard errors may be far too large"))
    width = max(len(name) for name, _ in entries)
    body = [f"{name:<{width}}  {value}" for name, value in entries]
    return ["Log-linear model of counts", "-" * max(map(len, body)), *body]


def _chi_square(statistic: float, df: int, p: float) -> str:
    return f"{statistic:.4f} on {df} df" + (f", p = {shown(p)}".replace("= <", "< ") if df else "")


def _parameter_lines(tests: Inference, rows: int) -> list[str]:
    chosen = _chosen(tests, rows)
    table = [("cell", "theta", "s.e.", "z", "p", ""), *(_row(tests, i) for i in chosen.tolist())]
    widths = [max(len(row[c]) for row in table) for c in range(6)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[c].rjust(widths[c]) for c in range(1, 5)), row[5]]).rstrip()
        for row in table
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    left = tests.fit.n_params - len(chosen)
    if left:
        lines.append(f"... and {left} more with smaller |z|")
    counted = [(tests.reasons.count(reason), reason) for reason in (INFINITE, OPEN)]
    notes = [f"{count} without s.e.: {reason}." for count, reason in counted if count]
    return [*lines, LEGEND, *notes]


def _chosen(tests: Inference, rows: int) -> IntArray:
    """Take all parameters, or those that stand out, in the order of the basis."""
    if tests.fit.n_params <= rows:
        return np.arange(tests.fit.n_params)
    loudest = np.argsort(-np.nan_to_num(np.abs(tests.z), nan=-1.0), kind="stable")
    return np.sort(loudest[:rows])


def _row(tests: Inference, i: int) -> tuple[str, str, str, str, str, str]:
    cell, theta, reason = cell_name(tests.fit.basis[i]), tests.fit.theta[i], tests.reasons[i]
    if reason:
        limit = np.copysign(np.inf, tests.fit.recession[i]) if reason == INFINITE else theta
        return cell, f"{limit:.4f}", "-", "-", "-", ""
    p = float(tests.p_values[i])
    return cell, f"{theta:.4f}", f"{tests.standard_errors[i]:.4f}", f"{tests.z[i]:.2f}", shown(p), stars(p)
