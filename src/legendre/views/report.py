"""What a decomposition says of itself in text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legendre.decomposition import Decomposition


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
        ("basis", fit.recipe),
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
    return "x".join(map(str, fit.shape)) + (" vector" if len(fit.shape) == 1 else "")


def _support(fit: Decomposition) -> str:
    size = 1
    for length in fit.shape:
        size *= length
    inside = fit.model.support.n_cells
    merged = f", merged into {fit.model.n_alive}"
    missing = f", {int(fit.missing.sum())} missing" if fit.missing is not None else ""
    return f"{inside} of {size} cells{missing}{merged}"
