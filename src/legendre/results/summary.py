"""A decomposition in text: one line, or a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.text_table import NamedValues, Table, shape_name, shortened

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

LONG = 10**12  # numbers of cells from here on are written as powers of ten


def count_name(n: int) -> str:
    """Write a number of cells, a very large one as a power of ten."""
    return str(n) if n < LONG else size_name(n)


def rank_name(fit: Decomposition) -> str:
    """Write the number of independent parameters, or that it is only known to be no larger."""
    return f"rank at most {fit.rank}" if fit.rank_is_bound else f"rank {fit.rank}"


def one_line(fit: Decomposition) -> str:
    """Write shape, parameters, how the fit ended and the certificate in one line."""
    return (
        f"<Decomposition of {_shape(fit)}: {fit.n_params} parameters, {fit.status.name} after {fit.n_iter} steps, "
        f"max|eta - eta_hat| = {fit.residual:.1e}>"
    )


def tables(fit: Decomposition) -> list[Table]:
    """Tabulate the problem, the fit and its certificate."""
    dependent = f" ({rank_name(fit)})" if fit.rank < fit.n_params or fit.rank_is_bound else ""
    rows = [
        ("tensor", f"{_shape(fit)}, sum {fit.total:.6g}"),
        *modes_row(fit.labels),
        ("support", _support(fit)),
        ("basis", shortened(fit.recipe)),
        ("parameters", f"{fit.n_params}{dependent}"),
        ("KL(P, Q)", f"{fit.kl:.10g}"),
        ("RMSE", f"{fit.rmse:.6g}  (X's units)"),
        ("psi", f"{fit.psi:.10g}"),
        ("solver", f"{fit.solver}, {fit.n_iter} steps, tol {fit.tol:g}"),
        ("max|eta - eta_hat|", f"{fit.residual:.2e}"),
        ("KL above minimum", f"<= {fit.gap:.2e}"),
        ("status", f"{fit.status.name}: {fit.status.value}"),
    ]
    if fit.reason is not None:
        rows.insert(3, ("why this basis", fit.reason))
    if fit.arrangement:
        rows.insert(-7, ("arrangement", f"{fit.arrangement_bits:.0f} bits, not counted in AIC and BIC"))
    if fit.n_vanishing:
        rows.insert(-1, ("vanishing cells", str(fit.n_vanishing)))
    return [NamedValues("Legendre decomposition", [*rows, *(("note", note) for note in fit.origin.notes)])]


def modes_row(labels: Labels) -> list[tuple[str, str]]:
    """Name the modes, where they have names, with their numbers of levels."""
    if labels.names is None:
        return []
    pairs = zip(labels.names, labels.shape, strict=True)
    return [("modes", shortened(", ".join(f"{name} ({size})" for name, size in pairs), 160))]


def _shape(fit: Decomposition) -> str:
    return shape_name(fit.shape) + (" vector" if len(fit.shape) == 1 else "")


def _support(fit: Decomposition) -> str:
    size, inside = math.prod(fit.shape), fit.model.support.n_cells
    missing = f", {int(fit.missing.sum())} missing" if fit.missing is not None else ""
    cells = f"{inside} of {size}" if size < LONG else f"{size_name(inside)} of {size_name(size)}"
    return f"{cells} cells{missing}, merged into {count_name(fit.model.n_alive)}"
