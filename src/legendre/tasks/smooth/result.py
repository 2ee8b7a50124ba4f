"""What smoothing gives back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core.types import BoolArray, FloatArray

NAMED = 8
"""Terms that the summary names: those of the largest variance."""


@dataclass(frozen=True, eq=False, repr=False)
class Smoothed:
    """A tensor with its gaps filled by a smooth model.

    Attributes
    ----------
    tensor
        X where it was observed, the model's value elsewhere.
    model
        The model's value at every cell, in X's units.
    observed
        True where X was observed.
    variances
        By term, the variance of log Q: the modes that it involves, with ``~`` where neighbours in a mode are alike.
    criterion, error
        What was made least, and what came out: the Poisson deviance per held-out cell, or the root mean square error.
        The variances were chosen by these cells, so that it is a little too good.
    n_held_out, n_folds
        How many cells were held out, in how many folds.
    residual, tol, n_iter
        How exact the fit is: the largest entry of the gradient for a total of 1, what was asked for, Newton steps.
    """

    tensor: FloatArray
    model: FloatArray
    observed: BoolArray
    variances: dict[str, float]
    criterion: str
    error: float
    n_held_out: int
    n_folds: int
    residual: float
    tol: float
    n_iter: int

    @property
    def converged(self) -> bool:
        """True when the residual is at most tol."""
        return self.residual <= self.tol

    def summary(self) -> str:
        """Return a table of what was filled in, how well held-out cells were, and which terms matter."""
        seen, missing = int(self.observed.sum()), int((~self.observed).sum())
        largest = sorted(self.variances, key=lambda name: -self.variances[name])[:NAMED]
        rows = [
            ("tensor", f"{'x'.join(map(str, self.tensor.shape))}, {seen} cells observed, {missing} filled in"),
            ("held out", f"{self.n_held_out} cells in {self.n_folds} folds: {self.criterion} {self.error:.5g}"),
            ("fit", f"residual {self.residual:.1e} after {self.n_iter} steps"),
            *((f"term {name}", f"standard deviation of log Q {np.sqrt(self.variances[name]):.3g}") for name in largest),
        ]
        width = max(len(name) for name, _ in rows)
        body = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
        return f"Smoothing\n{'-' * (width + 24)}\n{body}"

    def __repr__(self) -> str:
        shape, missing = "x".join(map(str, self.tensor.shape)), int((~self.observed).sum())
        return f"<Smoothed {shape}: {missing} cells filled in, held-out {self.criterion} {self.error:.5g}>"
