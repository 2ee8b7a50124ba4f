"""The result of a fit with hidden modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.types import FloatArray
from legendre.data.dense import Dense
from legendre.results.decomposition import Decomposition
from legendre.tasks.hidden.em import Run

SAME = 1e-4
"""Runs that end with a KL this close to the best count as having found the same minimum in the summary."""


@dataclass(frozen=True, eq=False, repr=False)
class HiddenDecomposition:
    """A decomposition with hidden modes: the best of several runs of expectation-maximisation.

    Attributes
    ----------
    fit
        The `Decomposition` on the grid of visible and hidden modes, of X shared out by the posterior.
    n_visible
        The number of visible modes, which come first.
    kl
        KL(P, Q) between X and the visible marginal of Q, in nats.
    residual, converged
        The largest entry of the gradient of that KL, and whether it is at most tol: a stationary point, which need not
        be the global minimum.
    runs
        A `Run` for each start, with its history of KL; the best is `best`.
    """

    fit: Decomposition
    data: Dense
    runs: tuple[Run, ...]
    best: int
    tol: float
    recipe: str

    @property
    def n_visible(self) -> int:
        """The number of visible modes."""
        return len(self.data.shape)

    @property
    def _modes(self) -> tuple[int, ...]:
        return tuple(range(self.n_visible, len(self.fit.shape)))

    @property
    def history(self) -> tuple[float, ...]:
        """KL(P, Q) at the start of the best run and after each of its steps; it never rises."""
        return self.runs[self.best].history

    @property
    def residual(self) -> float:
        """The largest entry of the gradient of KL(P, Q) in theta."""
        return self.runs[self.best].residual

    @property
    def converged(self) -> bool:
        """True when the gradient is at most tol, and the last fit to the completed data has converged too."""
        return self.residual <= self.tol and self.fit.converged

    @cached_property
    def kl(self) -> float:
        """KL(P, Q) of the visible modes, in nats."""
        p, q = self._observed
        with np.errstate(divide="ignore"):
            return max(float(p @ np.log(p / q)), 0.0)  # rounding may leave -1e-17

    @cached_property
    def log_likelihood(self) -> float:
        """``sum of X log q`` over the visible cells: the log-likelihood when X holds counts."""
        p, q = self._observed
        with np.errstate(divide="ignore"):
            return self.data.total * float(p @ np.log(q))

    @cached_property
    def _observed(self) -> tuple[FloatArray, FloatArray]:
        """P and Q on the visible cells that have data."""
        mask = self.data.support.mask
        inside = self.data.values > 0 if mask is None else mask & (self.data.values > 0)
        return self.data.values[inside] / self.data.total, self.tensor()[inside] / self.data.total

    def tensor(self, *, extend: bool = False) -> FloatArray:
        """Return the visible marginal of Q in X's units; `extend` as in `Decomposition.tensor`."""
        marginal: FloatArray = self.fit.tensor(extend=extend).sum(axis=self._modes)
        return marginal

    def posterior(self) -> FloatArray:
        """Return Q(hidden | visible) on the whole grid; NaN where the visible cell has probability 0."""
        q: FloatArray = self.fit.tensor()
        visible: FloatArray = q.sum(axis=self._modes, keepdims=True)
        return np.divide(q, visible, out=np.full_like(q, np.nan), where=visible > 0)

    def summary(self) -> str:
        """Return a table of the fit and its runs."""
        kls = [run.history[-1] for run in self.runs]
        same = sum(kl <= self.kl + SAME for kl in kls)
        sizes = [self.fit.shape[k] for k in self._modes]
        rows = [
            ("visible", f"{'x'.join(map(str, self.data.shape))}, sum {self.data.total:.6g}"),
            ("hidden", "x".join(map(str, sizes))),
            ("basis", self.recipe),
            (
                "parameters",
                f"{self.fit.n_params}" + (f" (rank {r})" if (r := self.fit.rank) < self.fit.n_params else ""),
            ),
            ("KL(P, Q)", f"{self.kl:.10g}"),
            ("log-likelihood", f"{self.log_likelihood:.10g}"),
            ("steps", str(len(self.history) - 1)),
            ("max|gradient|", f"{self.residual:.2e}, tol {self.tol:g}"),
            ("runs", f"{len(kls)}, of which {same} reached this KL; the worst {max(kls):.6g}"),
        ]
        body = "\n".join(f"{name:<16}{value}" for name, value in rows)
        return f"Legendre decomposition with hidden modes\n{'-' * 40}\n{body}"

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.data.shape))
        hidden = "x".join(str(self.fit.shape[k]) for k in self._modes)
        how = "converged" if self.converged else "not converged"
        return (
            f"<HiddenDecomposition of {shape} with hidden {hidden}: {self.fit.n_params} parameters, KL {self.kl:.4g}, "
            f"{how} after {len(self.history) - 1} steps, best of {len(self.runs)} runs>"
        )
