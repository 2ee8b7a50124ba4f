"""The result of a fit with hidden modes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.text import NamedValues, Table, shape_name
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.read import TensorLike
from legendre.results.base import Certificate, Result, of_fit, rank_name
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor
from legendre.results.effects import Effect
from legendre.results.views import ArrayPair
from legendre.solvers.loop import Step
from legendre.solvers.status import Status
from legendre.tasks.hidden.em import Run, visible_sums

if TYPE_CHECKING:
    from legendre.results.plots.plots import FitPlots
    from legendre.results.report import ReportContent


ROUNDING = 1e-9  # by which KL of the last fit may be above that of the run: the fit is one more step, which lowers it
SAME = 1e-4  # runs whose KL is above the best by this share of it, or by tol, count as having reached it in the summary

FAINT = 1e-290  # visible sums, in X's units, below which entries of Q may have lost digits to underflow


@dataclass(frozen=True, eq=False, repr=False)
class HiddenDecomposition(Result):
    """A decomposition with hidden modes: the best of several runs of expectation-maximisation.

    Attributes
    ----------
    fit
        The `Decomposition` of X shared out by the posterior, on visible and hidden modes; it has theta and eta.
    n_visible
        The number of visible modes, which come first.
    total
        The sum of X over the support.
    kl, log_likelihood
        Between X and the visible marginal of Q: KL(P, Q) in nats, and ``sum of X log q``.
    residual, status, converged
        The largest entry of the gradient of that KL, how the best run ended, and whether the residual is at most tol: a
        stationary point, which need not be the global minimum.
    history, n_iter
        One `Step` for each step of the best run, the start first; the objective is KL(P, Q), which never rises.
    runs
        A `Run` for each start, with its own history; the best is `best`.

    See Also
    --------
    hidden : Fit a model with hidden modes.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.einsum("ka,kb,kc->abc", [[9, 1], [2, 8]], [[8, 2], [1, 9]], [[7, 3], [3, 7]])
    >>> mixture = ld.hidden(X, ld.interactions([(0, 3), (1, 3), (2, 3)]))
    >>> mixture.n_visible, mixture.kl < 1e-6
    (3, True)
    """

    fit: Decomposition
    n_visible: int
    runs: tuple[Run, ...]
    best: int
    status: Status
    tol: float
    recipe: str
    total: float
    kl: float
    log_likelihood: float

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.fit.shape[: self.n_visible]

    if not TYPE_CHECKING:  # `Result` declares their types
        theta = of_fit("theta", "Natural parameters on B.")
        eta = of_fit("eta", "Expectations on B, eq. (3).")

    @property
    def history(self) -> tuple[Step, ...]:
        """The best run: its start and each of its steps; the objective is KL(P, Q), which never rises."""
        return self.runs[self.best].history

    @property
    def residual(self) -> float:
        """The largest entry of the gradient of KL(P, Q) in theta."""
        return self.runs[self.best].residual

    @property
    def gap(self) -> float:
        """Upper bound of KL(P, Q) minus its minimum: KL(P, Q) itself, since the problem is not convex."""
        return self.kl

    def tensor(self, *, extend: bool = False) -> Any:
        """Return the visible marginal of Q in X's units and array library; `extend` as in `Decomposition.tensor`."""
        return self.fit.origin.part(range(self.n_visible)).give(
            visible_sums(tensor(self.fit, extend=extend), self.n_visible)
        )

    def posterior(self) -> Any:
        """Return Q(hidden | visible) on the whole grid; NaN where the visible cell has probability 0."""
        q = tensor(self.fit, extend=False)
        visible = visible_sums(q, self.n_visible, keepdims=True)
        shares = np.divide(q, visible, out=np.full_like(q, np.nan), where=visible > 0)
        faint = np.argwhere(visible_sums(q, self.n_visible) < FAINT)
        if len(faint):
            hidden_shape = q.shape[self.n_visible :]
            shares[tuple(faint.T)] = self._by_logarithms(faint, hidden_shape)
        return self.fit.origin.give(shares, what="probability")

    def _by_logarithms(self, visible: IntArray, hidden_shape: tuple[int, ...]) -> FloatArray:
        """Compute Q(hidden | visible) of some visible cells (n x modes) whose probability is below float64's range."""
        levels = np.indices(hidden_shape).reshape(len(hidden_shape), -1).T
        cells = np.concatenate([np.repeat(visible, len(levels), axis=0), np.tile(levels, (len(visible), 1))], axis=1)
        log_q = self.fit.log_prob(cells).reshape(len(visible), -1)
        peak = log_q.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):  # -inf less -inf: a visible cell of probability 0
            q = np.exp(log_q - peak)
        return np.asarray((q / q.sum(axis=1, keepdims=True)).reshape(len(visible), *hidden_shape))

    @property
    def plot(self) -> FitPlots:
        """Pictures: effects and graph of all modes, hidden ones too; slices, residuals and margins of visible ones."""
        from legendre.results.plots.plots import FitPlots

        return FitPlots(self, self._pair(None), "largest entry of the gradient", fit=self.fit)

    def _pair(self, data: TensorLike | None) -> ArrayPair:
        """Return X, or the data that are given for it, beside the visible sums of Q."""
        from legendre.results.report import read_shaped

        def arrays() -> tuple[FloatArray, FloatArray]:
            omega = self.fit.model.support.on_grid()
            if data is not None:
                x = in_memory(read_shaped(data, self.shape), "report").values
            elif self.fit.data is not None:
                x = visible_sums(np.where(omega, in_memory(self.fit.data, "plot").values, 0.0), self.n_visible)
            else:
                raise InvalidQuery("this picture compares Q with X, which a loaded result does not hold. Fit X again.")
            seen = omega.reshape(*self.shape, -1)[..., 0]
            return np.where(seen, x, np.nan), visible_sums(tensor(self.fit, extend=False), self.n_visible)

        return ArrayPair(self.fit.labels.part(range(self.n_visible)), arrays=arrays)

    def certificate(self) -> Certificate:
        """Say in plain words what is known of the fit: with hidden modes there is no proof of a global minimum."""
        off = f"The largest entry of the gradient of KL(P, Q) is {self.residual:.1e}; {self.tol:g} was asked for."
        why = (
            "With hidden modes the problem is not convex: this is the best of "
            f"{len(self.runs)} starts, and a better one may exist."
        )
        if not self.converged:
            return Certificate(False, "This is not yet a stationary point.", (off, why, self.status.value))
        return Certificate(True, "This is a stationary point.", (off, why))

    def content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the page shows: effects and parameters of all modes, X beside the visible sums."""
        from legendre.results.report import content_of_fit, read_shaped

        if data is not None:
            read_shaped(data, self.shape)
        return replace(
            content_of_fit(self.fit),
            result=self,
            title="Legendre decomposition with hidden modes",
            pair=None if data is None and self.fit.data is None else self._pair(data),
            call=f"import legendre as ld\n\nfit = ld.hidden(X, {self.recipe!r})\nfit.report('report.html')",
        )

    def small_effects(self) -> list[Effect]:
        """List what single modes and pairs do, visible and hidden ones."""
        return self.fit.small_effects()

    def tables(self) -> list[Table]:
        """List the fit and its runs."""
        kls = [run.kl for run in self.runs]
        same = sum(kl <= (1.0 + SAME) * kls[self.best] + self.tol for kl in kls)
        dependent = f" ({rank_name(self.fit)})" if self.fit.rank < self.n_params else ""
        rows = [
            ("visible", f"{shape_name(self.shape)}, sum {self.total:.6g}"),
            ("hidden", shape_name(self.fit.shape[self.n_visible :])),
            ("basis", self.recipe),
            ("parameters", f"{self.n_params}{dependent}"),
            ("KL(P, Q)", f"{self.kl:.10g}"),
            ("log-likelihood", f"{self.log_likelihood:.10g}"),
            ("steps", str(self.n_iter)),
            ("max|gradient|", f"{self.residual:.2e}, tol {self.tol:g}"),
            ("runs", f"{len(kls)}, of which {same} reached this KL; the worst {max(kls):.6g}"),
        ]
        return [NamedValues("Legendre decomposition with hidden modes", rows)]

    def __repr__(self) -> str:
        hidden = shape_name(self.fit.shape[self.n_visible :])
        how = "converged" if self.converged else "not converged"
        return (
            f"<HiddenDecomposition of {shape_name(self.shape)} with hidden {hidden}: {self.n_params} parameters, "
            f"KL {self.kl:.4g}, {how} after {self.n_iter} steps, best of {len(self.runs)} runs>"
        )
