"""What a decomposition says of itself in text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from legendre.core.memory import size_name

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

LONG = 10**12
"""Numbers of cells from here on are written as powers of ten."""


def one_line(fit: Decomposition) -> str:
    """Say in one line: shape, parameters, how it ended, the certificate."""
    return (
        f"<Decomposition of {_shape(fit)}: {fit.n_params} parameters, {fit.status.name} after {fit.n_iter} steps, "
        f"max|eta - eta_hat| = {fit.residual:.1e}>"
    )


def summary(fit: Decomposition) -> str:
    """Tabulate what was asked, what came out, and how sure it is."""
    dependent = f" (rank {fit.rank})" if fit.rank < fit.n_params else ""
    rows = [
        ("tensor", f"{_shape(fit)}, sum {fit.total:.6g}"),
        ("support", _support(fit)),
        ("basis", _short(fit.recipe)),
        ("parameters", f"{fit.n_params}{dependent}"),
        ("KL(P, Q)", f"{fit.kl:.10g}"),
        ("RMSE", f"{fit.rmse:.6g}  (X's units)"),
        ("psi", f"{fit.psi:.10g}"),
        ("solver", f"{fit.solver}, {fit.n_iter} steps, tol {fit.tol:g}"),
        ("max|eta - eta_hat|", f"{fit.residual:.2e}"),
        ("KL above minimum", f"<= {fit.gap:.2e}"),
        ("status", f"{fit.status.name}: {fit.status.value}"),
    ]
    if fit.n_vanishing:
        rows.insert(-1, ("vanishing cells", str(fit.n_vanishing)))
    width = max(len(name) for name, _ in rows)
    body = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
    return f"Legendre decomposition\n{'-' * (width + 24)}\n{body}"


def _shape(fit: Decomposition) -> str:
    if len(fit.shape) > 12:
        return f"{fit.shape[0]}x{fit.shape[1]}x...x{fit.shape[-1]} (order {len(fit.shape)})"
    return "x".join(map(str, fit.shape)) + (" vector" if len(fit.shape) == 1 else "")


def _short(text: str, most: int = 400) -> str:
    """Leave the middle of a long text out."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 4 :]}"


def _support(fit: Decomposition) -> str:
    size, inside, alive = math.prod(fit.shape), fit.model.support.n_cells, fit.model.n_alive
    merged = f", merged into {alive if alive < LONG else size_name(alive)}"
    missing = f", {int(fit.missing.sum())} missing" if fit.missing is not None else ""
    if size >= LONG:
        return f"{size_name(inside)} of {size_name(size)} cells{missing}{merged}"
    return f"{inside} of {size} cells{missing}{merged}"
