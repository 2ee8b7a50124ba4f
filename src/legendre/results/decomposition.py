"""The result of `decompose`: the fit, how it ended, its certificate, and all that can be computed from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.labels import Labels
from legendre.core.origin import PLAIN, Origin
from legendre.core.sums.linalg import dot
from legendre.core.text_table import Table
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.data.read import TensorLike
from legendre.engines.choose import check_fisher, engine_for
from legendre.engines.protocol import Point
from legendre.model.cliques.tables import parts_of
from legendre.results import summary
from legendre.results import tensor as tensors
from legendre.results.certificate import Certificate, certificate_of
from legendre.results.effect_tables import Measure
from legendre.results.effects import Effects, effects_of
from legendre.results.growth_path import Round
from legendre.results.inference.result import Inference, infer
from legendre.results.on_cliques import OnCliques
from legendre.results.on_grid import OnGrid, OnList
from legendre.results.page.subject import Subject, subject_of_fit
from legendre.results.parameters import Asked, Parameters, parameters_of
from legendre.results.plots.pair import FitPair
from legendre.results.plots.plots import FitPlots
from legendre.results.refits import Refits
from legendre.solvers.loop import Step
from legendre.solvers.status import Status
from legendre.solvers.structure.faces import n_vanishing, vanishing_cells, vanishing_margins

REPEATED = 1e-11  # by which the residual of another evaluation of the same theta may differ
FAR = 4096.0  # theta beyond this times the rounding error of eta_hat is seen in KL, which is then summed cell by cell


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Refits):
    """The Legendre decomposition Q of a tensor, in both coordinate systems, with its certificate.

    Attributes
    ----------
    basis, theta, eta, psi
        The cells of the basis B (k x N, 0-based); the natural parameters and the expectations of these cells; the
        normaliser. If the status is AT_BOUNDARY, the best theta is infinite, and this one is one of many finite vectors
        that give Q where it is positive. For counts ``inference().coef()`` says which coefficients are infinite.
    ties
        ``None`` if each cell of B has a parameter of its own. Otherwise a `Ties` with names and ``matrix()``, A: theta
        and eta have an entry for each column of A, `theta_tensor` one for each cell; eta is ``A' eta`` of the cells,
        and counts features from their value at the first cell.
    total
        The sum of X over the support; ``X ~ total * q``.
    residual, gap, status, converged, history
        ``max|eta - eta_hat|``, which is 0 exactly at the minimum of KL(P, Q); an upper bound of the excess of KL(P, Q)
        over that minimum; how the fit ended; whether the residual is at most tol; one `Step` per iteration, the start
        first.
    rank, rank_is_bound
        The number of independent parameters on the support; at the boundary, on the cells that keep probability. Beyond
        10,000 parameters it may be an upper bound: then `rank_is_bound` is True.
    vanishing_cells
        Cells of the support that have probability 0 in the limit; empty unless the status is AT_BOUNDARY.
    path
        For an adaptive basis one `Round` per stage of growing; cells of `basis` are in the order in which they were
        chosen. `order` sorts them by importance, and `at` fits the most important ones.
    reason
        If no basis was named, a sentence that says which was chosen and why; otherwise ``None``.
    recession
        A direction in theta along which those cells lose probability: Q is the limit of ``theta + t * recession``.
    labels, origin
        The names of modes and levels; and the type of X: a DataArray, a Series or a cross table of pandas, an array of
        torch, ... Tensors of cells (`tensor`, `theta_tensor`, `eta_tensor`, `marginal`, `condition`) have the same
        type; what has the length of the basis is a NumPy array.

    See Also
    --------
    decompose : Fit X by a model with some basis.
    Effects : What each mode and each set of modes does.
    Parameters : The table of all parameters.
    Inference : Standard errors and tests of fit.
    load : Read a result back from its file.

    Notes
    -----
    `kl`, `rmse` and `path` read X when they are first used. A small X is copied; one of half a million cells or more is
    held by reference: use them before you change it.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
    >>> fit
    <Decomposition of 2x2: 2 parameters, CONVERGED after 0 steps, max|eta - eta_hat| = ...>
    >>> fit.tensor().round(6).tolist()
    [[1.2, 1.8], [2.8, 4.2]]
    """

    _stored: ClassVar[tuple[str, ...]] = (
        "model", "theta", "eta_hat", "total", "alive", "recession", "missing", "status", "rank", "rank_is_bound",
        "newton_gap", "history", "solver", "tol", "recipe", "reason", "path", "origin", "kl", "rmse",
    )  # fmt: skip
    total: float
    alive: BoolArray | None
    recession: FloatArray
    missing: BoolArray | None
    status: Status
    rank: int
    newton_gap: float
    history: tuple[Step, ...]
    solver: str
    tol: float
    recipe: str
    data: Observation | None = None
    path: Sequence[Round] = ()
    _refit: Callable[..., Decomposition] | None = None  # fit some of the parameters again, see `refitted`
    ranking: Callable[[], IntArray] | None = None  # put the cells of a grown basis in order; None: they are
    stored: dict[str, float] = field(default_factory=dict)
    rank_is_bound: bool = False
    reason: str | None = None
    origin: Origin = PLAIN

    @cached_property
    def gap(self) -> float:
        """Upper bound of KL(P, Q) minus its minimum: the squared Newton decrement, or KL(P, Q) if that is less."""
        return self.newton_gap if self.newton_gap < np.inf else self.kl

    @cached_property
    def kl(self) -> float:
        """KL(P, Q) in nats."""
        if self.data is None:
            return self.stored["kl"]
        negentropy, space = self.data.negentropy(), self.model.space
        if space.form != "grid" or np.abs(self.theta).max(initial=0.0) <= FAR or space.n_cells > limits.NUMPY_CELLS:
            return max(negentropy + self.psi - dot(self.theta, self.eta_hat), 0.0)  # not -1e-17
        mass = self.data.merged(self.model.quotient).ravel() / self.total
        log_density = OnGrid(self.model, self.theta, self.psi, self.alive).log_density().ravel()
        return max(negentropy - dot(mass[mass > 0], log_density[mass > 0]), 0.0)

    @cached_property
    def rmse(self) -> float:
        """Root mean square error in X's units over every cell of X that is a number; Q = 0 outside the support."""
        return self.stored["rmse"] if self.data is None else tensors.rmse(self, self.data)

    @cached_property
    def distribution(self) -> OnGrid | OnCliques:
        """Q in the form in which it answers questions; what one answer computes is kept for the next."""
        space = self.model.on_face(self.alive).space
        if space.form == "cliques":
            return OnCliques(self.model.untied, space.on_cells(self.theta), parts_of(space.tables))
        form = OnGrid if self.model.support.points is None else OnList
        return form(self.model, self.theta, self.psi, self.alive)

    @cached_property
    def vanishing_cells(self) -> IntArray:
        """Cells of the support that have probability 0 in the limit, in C order."""
        return frozen(self.labels.indices(vanishing_cells(self.model, self.alive)))

    @property
    def labels(self) -> Labels:
        """Names of the modes of X and of their levels."""
        return self.origin.of(self.shape)

    @property
    def n_vanishing(self) -> int:
        """The number of cells of the support whose probability is 0 in the limit."""
        return n_vanishing(self.model, self.alive)

    @cached_property
    def vanishing_margins(self) -> dict[tuple[int, ...], IntArray]:
        """Entries of the margins that B fits, by modes, that are 0 in Q. On large grids no other cells of Q are 0.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 0], [2, 0]], "B1")
        >>> {modes: entries.tolist() for modes, entries in fit.vanishing_margins.items()}
        {(1,): [[1]]}
        """
        found = vanishing_margins(self.model, self.alive)
        return {modes: frozen(self.labels.part(list(modes)).indices(entries)) for modes, entries in found.items()}

    def tensor(self, *, extend: bool = False) -> Any:
        """Return Q in X's units.

        Parameters
        ----------
        extend
            True: the model's value everywhere. False: 0 outside the support, except in cells that were NaN.

        Notes
        -----
        A cell outside the support gets the value of observed cells that no parameter distinguishes it from. If
        ``rank < n_params``, some parameters are not determined by the observed cells and count as 0 (or as scaling left
        them): check `rank` before you trust such a cell. At the boundary a cell may have no limit; it is then NaN.
        """
        if self.origin.device.remote and self.origin.form == "array" and self.labels.order is None:
            return tensors.tensor_on_device(self, extend=extend)
        return self.origin.give(tensors.tensor(self, extend=extend))

    def inference(self) -> Inference:
        """Treat X as counts and Q as a log-linear model: tests of fit, standard errors, residuals.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 19]], "B1").inference()
        >>> round(tests.g2, 4), tests.df, round(tests.g2_p_value, 4)
        (12.033, 1, 0.0005)
        """
        return infer(self)

    def effects(self, *, measure: Measure = "uniform", max_order: int | None = None) -> Effects:
        """Write log Q as a sum of effects of modes, pairs of modes, and so on, up to sets of `max_order` modes.

        Effects have mean 0 under `measure`: "uniform" weights all levels equally, "fitted" by the margins of Q.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 12]], "B1").effects()[0].values.round(4).tolist()
        [-0.8047, 0.8047]
        """
        return effects_of(self, measure, max_order)

    def parameters(self, *, kl_lost: Asked | None = "auto") -> Parameters:
        """Return the table of parameters: name, theta, factor, standard error (for counts), eta, KL lost without it.

        Parameters
        ----------
        kl_lost
            "refit": fit again without each parameter in turn, exact. "estimate": from the curvature at the minimum.
            "auto": refit if that takes about a second at most, otherwise estimate. None: leave it out.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 12]], "B1").parameters().sorted_by("theta").names
        ('mode 0 = 1', 'mode 1 = 1')
        """
        return parameters_of(self, kl_lost)

    @property
    def plot(self) -> FitPlots:
        """Pictures: ``fit.plot.effects()``, ``.slices()``, ``.residuals()``, ``.margins()``, ``.graph()``, ..."""
        return FitPlots(self, FitPair(self.labels, fit=self), fit=self)

    def theta_tensor(self) -> Any:
        """Return theta on the grid: -psi at the bottom, 0 outside B, so that ``log q = zeta(theta)`` (eq. 2).

        Levels stand as in X. Bottom, `basis` and eq. (2) count them as arranged: ``labels.arrange`` puts arrays so.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose([[9, 1], [1, 9], [8, 2], [2, 8]], ld.adaptive(2), unordered=[0])
        >>> T, log_q = map(fit.labels.arrange, (fit.theta_tensor(), np.log(fit.tensor() / fit.total)))
        >>> bool((T[tuple(fit.basis.T)] == fit.theta).all()), np.allclose(T.cumsum(0).cumsum(1), log_q)
        (True, True)
        """
        return self.origin.give(tensors.theta_tensor(self))

    def eta_tensor(self) -> Any:
        """Return eta of every cell, eq. (3): the probability at or above it, as arranged; levels stand as in X."""
        return self.origin.give(tensors.eta_tensor(self))

    def fisher(self) -> FloatArray:
        """Return the Fisher information matrix G on B, eq. (5)."""
        check_fisher(self.n_params, "fisher() needs", "The variance of a feature that is 0 or 1 is eta * (1 - eta).")
        engine = engine_for(self.model.on_face(self.alive))
        return engine.fisher(engine.at(self.theta))

    def certificate(self) -> Certificate:
        """Return what has been proved about Q; its ``text()`` is in plain words."""
        return certificate_of(self, n_vanishing=self.n_vanishing, rank=self.rank, n_params=self.n_params)

    def subject(self, data: TensorLike | None = None) -> Subject:
        """Gather what the page tells, of X too where the fit holds it or it is given."""
        return subject_of_fit(self, data)

    def tables(self) -> list[Table]:
        """List the problem, the fit and its certificate."""
        return summary.tables(self)

    def __repr__(self) -> str:
        return summary.one_line(self)

    @classmethod
    def _restore(cls, *, theta: FloatArray, kl: float, rmse: float, **fields: Any) -> Self:
        """Make the fit of what a file holds; eta, psi and so the residual are computed anew from theta."""
        model, status = fields["model"], fields["status"]
        for vector in (theta, fields["eta_hat"], fields["recession"]):
            if vector.shape != (model.n_params,):
                raise ValueError(f"{vector.shape} numbers for {model.n_params} parameters")
        with np.errstate(all="ignore"):  # theta of a damaged file may be anything
            point = engine_for(model.on_face(fields["alive"])).at(theta)
        fit = cls(point=Point(theta, point.eta, point.psi), stored={"kl": kl, "rmse": rmse}, **fields)
        met = fit.residual <= fit.tol + REPEATED
        return fit if met or not status.converged else replace(fit, status=Status.STALLED)
