"""How fast a linearly convergent method goes, how long it would still take, and how far to overstep."""

from __future__ import annotations

import math

WINDOW = 5
"""The rate is measured over so many residuals."""


def seen(residuals: tuple[float, ...], residual: float) -> tuple[float, ...]:
    """Keep the last residuals."""
    return (*residuals, residual)[-WINDOW:]


def rate(residuals: tuple[float, ...]) -> float | None:
    """Return the mean factor from one residual to the next; ``None`` while too few have been seen.

    Examples
    --------
    >>> round(rate((16.0, 8.0, 4.0, 2.0, 1.0)), 12)
    0.5
    """
    if len(residuals) < WINDOW:
        return None
    if not residuals[0] > 0:
        return 0.0
    factor: float = (residuals[-1] / residuals[0]) ** (1 / (WINDOW - 1))
    return factor


def cycles_left(residual: float, tol: float, factor: float) -> float:
    """Predict how many cycles are left at a given factor per cycle.

    Examples
    --------
    >>> round(cycles_left(1e-5, 1e-10, 0.1))
    5
    >>> cycles_left(1e-5, 1e-10, 1.0)
    inf
    """
    if residual <= tol or factor <= 0:
        return 0.0
    if tol == 0 or not factor < 1:
        return math.inf
    return math.log(residual / tol) / -math.log(factor)


def relaxation(factor: float, omega: float) -> float:
    """From the factor per cycle that was seen with overstepping by omega, find the best omega (Young's formulas).

    Alternating exact minimisation in two blocks is a Gauss-Seidel method near its limit. If it converges with factor
    rho, then ``omega = 2 / (1 + sqrt(1 - rho))`` is best, and converges with factor ``omega - 1``.

    Examples
    --------
    >>> relaxation(0.75, 1.0).__round__(6)
    1.333333
    """
    rho = (factor + omega - 1.0) ** 2 / (factor * omega**2) if factor > 0 else 0.0
    return 2.0 / (1.0 + math.sqrt(max(1.0 - rho, 0.0)))
