"""What smoothing gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core.cells import frozen
from legendre.core.labels import Labels
from legendre.core.origin import PLAIN, Origin
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.text_table import NamedValues, Table, shape_name
from legendre.core.types import BoolArray, FloatArray
from legendre.data.read import TensorLike
from legendre.results.base import Result
from legendre.results.certificate import Certificate
from legendre.results.effects import Effect
from legendre.results.page.subject import Subject, own_pair, shape_line
from legendre.results.plots.pair import TensorPair
from legendre.results.plots.plots import Plots
from legendre.results.small_effects import effects_of_tensor
from legendre.results.summary import modes_row
from legendre.solvers.loop import Step
from legendre.solvers.status import Status

NAMED = 8  # terms that the summary names: those of the largest variance


@dataclass(frozen=True, eq=False, repr=False)
class Smoothed(Result):
    """A tensor with its gaps filled by a smooth model.

    Attributes
    ----------
    values, means
        The filled tensor and the model's values as arrays of NumPy; `tensor()` and `fitted()` give them in X's form.
    observed
        True where X was observed.
    theta, eta, n_params
        Natural parameters and expectations on the full basis: every cell but the bottom, in C order. Expectations are
        those of Q on the observed cells.
    variances
        By term, the variance of log Q: the modes that it involves, with ``~`` where neighbours in a mode are alike.
    criterion, error
        The criterion on held-out cells and its value: the Poisson deviance per cell, or the root mean square error. The
        variances were chosen by these cells, so the value is a little too good.
    n_held_out, n_folds
        How many cells were held out, in how many folds.
    residual, tol
        How exact the fit is: the largest entry of the gradient, penalty included, for a total of 1; and the tolerance.
    gap
        Upper bound of the excess of ``KL(P, Q) + penalty / n`` over its minimum, for n observed cells.

    See Also
    --------
    smooth : Fill missing cells without a basis.
    Completion : The result of `complete`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.where(np.eye(5, 6) > 0, np.nan, np.add.outer(np.arange(1.0, 6), np.arange(6.0)))
    >>> done = ld.smooth(X)
    >>> done.tensor().shape, bool(np.isfinite(done.tensor()).all())
    ((5, 6), True)
    """

    values: FloatArray
    means: FloatArray
    observed: BoolArray
    theta: FloatArray
    variances: dict[str, float]
    criterion: str
    error: float
    n_held_out: int
    n_folds: int
    residual: float
    gap: float
    status: Status
    history: tuple[Step, ...]
    tol: float
    origin: Origin = PLAIN

    @property
    def labels(self) -> Labels:
        """What the modes of X and their levels are called."""
        return self.origin.of(self.shape)

    def tensor(self) -> Any:
        """Return X where it was observed, the model's value elsewhere, in the form of X."""
        return self.origin.give(self.values)

    def fitted(self) -> Any:
        """Return the model's value at every cell, in X's units and form."""
        return self.origin.give(self.means)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.observed.shape

    @cached_property
    def eta(self) -> FloatArray:
        """Expectations on every cell but the bottom, eq. (3): Q lives on the observed cells."""
        q = np.where(self.observed, self.means, 0.0)
        return frozen(zeta_adjoint(q / q.sum()).ravel()[1:])

    @property
    def plot(self) -> Plots:
        """Pictures of the smooth model beside X, with the cells that were missing marked: ``.slices()``, ..."""
        pair = TensorPair(self.labels, made="smoothed", arrays=lambda: (self.values, self.observed, self.means))
        return Plots(self, pair, "largest entry of the gradient")

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved of the model."""
        off = f"The largest entry of the gradient is {self.residual:.1e}; {self.tol:g} was asked for."
        why = "For the chosen variances the problem is convex; the variances were chosen by cells that were held out."
        if not self.converged:
            return Certificate(False, "This is not yet the minimum.", (off, self.status.value))
        return Certificate(True, "This is the minimum of divergence and penalty together.", (off, why))

    def subject(self, data: TensorLike | None = None) -> Subject:
        """Gather what the page tells; parameters, one for each cell, are not listed."""
        labels = self.labels
        return Subject(
            title="Smoothing",
            line=f"{shape_line(labels)}, {int((~self.observed).sum()):,} cells filled in",
            tables=self.tables(),
            certificate=self.certificate(),
            labels=labels,
            history=self.history,
            tol=self.tol,
            effects=self.small_effects(),
            effect_labels=labels,
            basis=None,
            theta=self.theta,
            eta=self.eta,
            pair=own_pair(np.where(self.observed, self.values, np.nan), self.means, data),
            call="import legendre as ld\n\nsmoothed = ld.smooth(X)\nsmoothed.report('report.html')",
        )

    def small_effects(self) -> list[Effect]:
        """List what single modes and pairs do to the logarithm of the model's values; none where one is 0."""
        return effects_of_tensor(self.means, self.origin)

    def tables(self) -> list[Table]:
        """List what was filled in, how well held-out cells were, and which terms matter."""
        seen, missing = int(self.observed.sum()), int((~self.observed).sum())
        largest = sorted(self.variances, key=lambda name: -self.variances[name])[:NAMED]
        rows = [
            ("tensor", f"{shape_name(self.shape)}, {seen} cells observed, {missing} filled in"),
            *modes_row(self.labels),
            ("held out", f"{self.n_held_out} cells in {self.n_folds} folds: {self.criterion} {self.error:.5g}"),
            ("fit", f"residual {self.residual:.1e} after {self.n_iter} steps"),
            *(
                (f"term {self._term(name)}", f"standard deviation of log Q {np.sqrt(self.variances[name]):.3g}")
                for name in largest
            ),
        ]
        return [NamedValues("Smoothing", [*rows, *(("note", note) for note in self.origin.notes)])]

    def _term(self, name: str) -> str:
        """Name a term by the names of its modes, where they have names."""
        if self.labels.names is None:
            return name
        modes = ((part.rstrip("~"), "~" * part.count("~")) for part in name.split(" x "))
        return " x ".join(f"{self.labels.mode(int(k))}{walk}" for k, walk in modes)

    def __repr__(self) -> str:
        shape, missing = shape_name(self.shape), int((~self.observed).sum())
        return f"<Smoothed {shape}: {missing} cells filled in, held-out {self.criterion} {self.error:.5g}>"
