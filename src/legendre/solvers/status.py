"""How a fit ended: each status is its own message."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How the fit ended and what to do next.

    It speaks of ``max|eta - eta_hat|`` as the result reports it, over all of B, dependent parameters included. That
    number is at most tol if and only if the fit has `converged`.

    See Also
    --------
    Decomposition : The result of `decompose`.
    legendre.errors.ConvergenceWarning : A fit that did not reach its tolerance.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 5]], "B1")
    >>> fit.status is ld.results.Status.CONVERGED, fit.status.converged
    (True, True)
    """

    CONVERGED = "max|eta - eta_hat| <= tol, and a finite minimiser exists."
    AT_BOUNDARY = (
        "max|eta - eta_hat| <= tol, but no finite theta attains the minimum: the result is the limit Q, in which "
        "`vanishing_cells` have probability 0. Leave them out of the support for an ordinary fit with the same Q."
    )
    UNDECIDED = (
        "max|eta - eta_hat| <= tol, but the problem is too large to decide whether a finite minimiser exists. "
        "Q is right to tol; some parameters may be on their way to infinity. support='nonzero' rules that out."
    )
    OUT_OF_STEPS = "Stopped at max_iter with max|eta - eta_hat| above tol. Raise max_iter or loosen tol."
    STALLED = (
        "No step brought max|eta - eta_hat| further down. What remains is rounding error (loosen tol to the residual "
        "reached), or a learning rate was too large (lower it)."
    )
    STOPPED = "The callback asked to stop before max|eta - eta_hat| <= tol."

    @property
    def converged(self) -> bool:
        """True when max|eta - eta_hat| <= tol."""
        return self in (Status.CONVERGED, Status.AT_BOUNDARY, Status.UNDECIDED)
