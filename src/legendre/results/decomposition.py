"""The result of `decompose`: the fit, how it ended, its certificate, and queries, tables and plots made from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import Rng, is_whole
from legendre.core.cells import freeze
from legendre.core.errors import InvalidQuery, InvalidSetting
from legendre.core.labels import Event, Mode, ordered_parts_bits
from legendre.core.origin import PLAIN, Origin
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.text import NamedValues, Table, shape_name, shorten
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.data.observation import Observation
from legendre.data.read import TensorLike
from legendre.engines.choose import check_fisher, choose_engine
from legendre.model.model import Model
from legendre.results import distribution as queries
from legendre.results.base import Certificate, ModelResult, cells_have, count_name, modes_row, rank_name
from legendre.results.graph import InteractionGraph
from legendre.results.growth_path import Grown, GrowthStep, measure_rounds
from legendre.results.views import margin_of
from legendre.solvers.loop import Status, Step
from legendre.solvers.structure.faces import n_vanishing, vanishing_cells, vanishing_margins

if TYPE_CHECKING:
    from legendre.results.effects import Effects, Measure
    from legendre.results.inference.result import Inference
    from legendre.results.parameters import Asked, Parameters
    from legendre.results.plots import FitPlots
    from legendre.results.report import ReportContent

MEASURED = ("kl", "rmse", "kl_uniform", "kl_independence")  # computed from X, so files hold them: X is not in files
VERDICTS = {
    Status.CONVERGED: "This is the minimum.",
    Status.AT_BOUNDARY: "This is the minimum, reached in a limit.",
    Status.UNDECIDED: "Q is the minimum to the tolerance; its parameters may not be.",
    Status.OUT_OF_STEPS: "This is not yet the minimum.",
    Status.STALLED: "This is not quite the minimum.",
    Status.STOPPED: "This is not yet the minimum.",
}


@frozen(repr=False)
class Decomposition(ModelResult):
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
        ``max|eta - eta_hat|``, which is 0 exactly at the minimum of KL(P, Q); an upper bound on the excess of KL(P, Q)
        over that minimum; how the fit ended; whether the residual is at most tol; one `Step` for each iteration, the
        start first.
    rank, rank_is_bound
        The number of independent parameters on the support; at the boundary, on the cells that keep probability. Beyond
        10,000 parameters it may be an upper bound: then `rank_is_bound` is True.
    vanishing_cells
        Cells of the support that have probability 0 in the limit; empty unless the status is AT_BOUNDARY.
    path
        For an adaptive basis one `GrowthStep` per stage of growing; cells of `basis` are in the order of their
        choice. `order` sorts them by importance, and `at` fits the most important ones.
    graph
        For a basis `graph` the `InteractionGraph` that was found: its edges, with gains and tests, and its cliques.
    reason
        If no basis was named, a sentence that says which was chosen and why; otherwise ``None``.
    recession
        A direction in theta along which those cells lose probability: Q is the limit of ``theta + t * recession``.
    labels, origin
        The names of modes and levels; and the type of X: a DataArray, a pandas Series or cross table, a torch tensor,
        ... Tensors of cells (`tensor`, `theta_tensor`, `eta_tensor`, `marginal`, `condition`) have the same type; what
        has the length of the basis is a NumPy array.

    See Also
    --------
    decompose : Fit X by a model with some basis.
    legendre.results.Effects : What each mode and each set of modes does.
    legendre.results.Parameters : The table of all parameters.
    legendre.results.Inference : Standard errors and tests of fit.
    load : Read a result back from its file.

    Notes
    -----
    `kl`, `rmse` and `path` read X when they are first used. A small X is copied; an X of half a million cells or more
    is held by reference, so use them before you change it.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
    >>> fit
    <Decomposition of 2x2: 2 parameters that explain 96.2 % of KL from uniform and 0.0 % of KL from independence, ...>
    >>> fit.tensor().round(6).tolist()
    [[1.2, 1.8], [2.8, 4.2]]
    """

    _stored: ClassVar[tuple[str, ...]] = (
        "model", "theta", "eta_hat", "total", "_alive", "recession", "missing", "status", "rank", "rank_is_bound",
        "_newton_gap", "history", "solver", "tol", "recipe", "reason", "path", "graph", "origin", *MEASURED,
    )  # fmt: skip

    total: float
    _alive: BoolArray | None  # True for the merged cells that carry probability; None when all do
    recession: FloatArray
    missing: BoolArray | None
    status: Status
    rank: int
    _newton_gap: float  # an upper bound on KL(P, Q) minus its minimum; infinite if none is known
    history: tuple[Step, ...]
    solver: str
    tol: float
    recipe: str
    data: Observation | None = None
    _rounds: tuple[GrowthStep, ...] = ()  # `path` as measured while the basis grew; of a loaded fit, `path` itself
    rank_is_bound: bool = False
    reason: str | None = None
    graph: InteractionGraph | None = None
    origin: Origin = PLAIN
    _grown: Grown | None = None  # what `order` needs; None: the cells of B are already in that order
    _settings: Any = None  # how it was fitted, see `fitting.fit.Settings`; for fits of some of its parameters
    _boxes: Any = None  # X summed over boxes (`BoxTotals`), so that such a fit need not read X again
    _measured: Mapping[str, float] = field(default_factory=dict)  # of a loaded fit, the values of MEASURED

    @classmethod
    def _restore(cls, *, theta: FloatArray, path: Sequence[GrowthStep], **fields: Any) -> Self:
        """Make the fit from what a file holds, the fields in `_stored`; `legendre.load` calls it.

        eta and psi, and so the residual, are recomputed from theta. If the residual is above tol, for example because
        the file was changed, the status becomes STALLED: a loaded fit never claims a minimum that it does not have.
        """
        measured = {name: fields.pop(name) for name in MEASURED}
        model, rounding = fields["model"], 1e-11  # by which two evaluations of eta at the same theta may differ
        for vector in (theta, fields["eta_hat"], fields["recession"]):
            if vector.shape != (model.n_params,):
                raise ValueError(f"{vector.shape} numbers for {model.n_params} parameters")
        with np.errstate(all="ignore"):  # theta of a damaged file may be anything
            point = choose_engine(model.on_face(fields["_alive"])).at(theta)
        fit = cls(theta=theta, eta=point.eta, psi=point.psi, _rounds=tuple(path), _measured=measured, **fields)
        met = fit.residual <= fit.tol + rounding
        return fit if met or not fit.status.converged else replace(fit, status=Status.STALLED)

    @cached_property
    def gap(self) -> float:
        """Upper bound on KL(P, Q) minus its minimum: the squared Newton decrement, or KL(P, Q) if that is less."""
        return self._newton_gap if self._newton_gap < np.inf else self.kl

    @cached_property
    def kl(self) -> float:
        """KL(P, Q) in nats."""
        if self.data is None:
            return self._measured["kl"]
        # the sum of p log(p / base), minus that of p log(q / base), which is theta @ eta_hat - psi; not -1e-17
        return max(self.data.negentropy + self.psi - float(self.theta @ self.eta_hat), 0.0)

    @cached_property
    def rmse(self) -> float:
        """Root mean square error in X's units over all cells of X that are not NaN; Q = 0 outside the support."""
        if self.data is None:
            return self._measured["rmse"]
        square = self.data.squared_error(queries.FittedTensor(self))
        # by logarithms, because the number of cells may be beyond the range of float64
        return math.exp(0.5 * (math.log(square) - math.log(self.data.n_numbers))) if square > 0 else 0.0

    @cached_property
    def kl_uniform(self) -> float:
        """KL from P to the model without parameters, in nats: the uniform distribution, or the base measure."""
        if self.data is None:
            return self._measured["kl_uniform"]
        support, base = self.model.support, self.model.base
        size = math.log(support.n_cells) if base is None else math.log(float(base[support.on_grid()].sum()))
        return max(self.data.negentropy + size, 0.0)

    @cached_property
    def kl_independence(self) -> float:
        """KL from P to the best product of functions of single modes, in nats.

        On the full grid it is the product of the margins. Otherwise, or with a base measure, it has to be fitted.
        """
        if self.data is None:
            return self._measured["kl_independence"]
        if self.model.support.full and self.model.base is None:
            # the sum of p log p over cells, minus the same sums over the margins
            margins = [margin_of(self.data, (k,)) / self.total for k in range(len(self.shape))]
            return max(self.data.negentropy - sum(float((p[p > 0] * np.log(p[p > 0])).sum()) for p in margins), 0.0)
        from legendre.basis.interactions import interactions
        from legendre.fitting.fit import Settings, fit_on

        return fit_on(self.data, interactions(1), Settings()).kl

    @property
    def explained(self) -> str:
        """The shares of KL from simple models that the fit explains, as text.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 12]], "B1").explained
        '98.4 % of KL from uniform and 0.0 % of KL from independence'
        """
        simple = {"uniform" if self.model.base is None else "the base measure": self.kl_uniform}
        if len(self.shape) > 1:
            simple["independence"] = self.kl_independence
        exact = 1e-12  # a KL up to this is a rounding error of 0
        # a simple model that is exact leaves nothing to explain: it is named only if Q is exact too
        shares = {name: 1.0 - self.kl / kl for name, kl in simple.items() if kl > exact}
        if self.kl <= exact:
            shares = dict.fromkeys(simple, 1.0)
        # Q may be farther from X than a simple model is: then the share is below 0
        return " and ".join(
            f"{f'{100 * max(share, 0.0):.1f} %' if share > -5e-4 else 'none'} of KL from {name}"
            for name, share in shares.items()
        )

    @cached_property
    def path(self) -> tuple[GrowthStep, ...]:
        """The stages in which an adaptive basis grew, measured at first use; empty for other bases."""
        if self.data is None or not self._rounds:
            return self._rounds
        return measure_rounds(self._rounds, self)

    @cached_property
    def _distribution(self) -> queries.Distribution:
        """Q as a distribution, which answers all queries; it is kept, because it caches messages and lists of cells."""
        return queries.distribution_of(self)

    @cached_property
    def _left_out(self) -> float:
        """The sum of X outside the support, in cells that the caller left out; 0 if X is not in memory."""
        data = None if self.data is None or self.data.support.mask is None else self.data.as_dense()
        return 0.0 if data is None else float(np.nansum(np.where(data.support.on_grid(), 0, data.values)))

    @cached_property
    def vanishing_cells(self) -> IntArray:
        """Cells of the support that have probability 0 in the limit, in C order."""
        return freeze(self.labels.indices(vanishing_cells(self.model, self._alive)))

    @property
    def _face(self) -> Model:
        """The model without the merged cells that vanish in the limit."""
        return self.model.on_face(self._alive)

    @property
    def n_vanishing(self) -> int:
        """The number of cells of the support whose probability is 0 in the limit."""
        return 0 if self._alive is None else n_vanishing(self.model, self._alive)

    @cached_property
    def vanishing_margins(self) -> dict[Modes, IntArray]:
        """Entries of the margins that B fits that are 0 in Q: for each set of modes their indices, n x len(modes).

        On grids that are too large to be formed, all cells of Q that are 0 are in one of these.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 0], [2, 0]], "B1")
        >>> {modes: entries.tolist() for modes, entries in fit.vanishing_margins.items()}
        {(1,): [[1]]}
        """
        found = vanishing_margins(self.model, self._alive)
        return {modes: freeze(self.labels.part(list(modes)).indices(entries)) for modes, entries in found.items()}

    @property
    def arrangement(self) -> dict[Any, list[Any]]:
        """The levels of each mode that was arranged, in the order to which cells of `basis` refer.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[9, 1], [1, 9], [8, 2], [2, 8]], ld.adaptive(2), unordered=[0])
        >>> fit.arrangement
        {0: [1, 3, 2, 0]}
        """
        labels, order = self.labels, self.labels.order or ()
        return {labels.key(k): labels.levels_of(k).tolist() for k, by in enumerate(order) if by is not None}

    @property
    def arrangement_bits(self) -> float:
        """The information in `arrangement` on which Q depends, in bits.

        Q is constant between two cuts of the basis, so it depends on which levels lie there, not on their order. AIC
        and BIC do not count this information.
        """
        lengths, order = self.model.quotient.lengths, self.labels.order or ()
        return ordered_parts_bits([lengths[k].astype(int).tolist() for k, by in enumerate(order) if by is not None])

    def tensor(self, *, extend: bool = False) -> Any:
        """Return Q in X's units.

        Parameters
        ----------
        extend
            False: Q on the sample space, 0 outside it, and NaN where X was missing, since Q says nothing about these
            cells; `complete` fills them. True: the model's value everywhere.

        Notes
        -----
        A cell outside the support gets the value of observed cells that no parameter distinguishes it from. If
        ``rank < n_params``, some parameters are not determined by the observed cells and count as 0 (or as scaling left
        them): check `rank` before you trust such a cell. At the boundary a cell may have no limit; it is then NaN.
        """
        return self.origin.give(queries.tensor(self, extend=extend))

    def theta_tensor(self) -> Any:
        """Return theta on the grid: -psi at the bottom, 0 outside B, so that ``log q = zeta(theta)`` (eq. 2).

        Levels are in the order of X. The bottom, `basis` and eq. (2) refer to levels as arranged; ``labels.arrange``
        puts arrays in that order.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose([[9, 1], [1, 9], [8, 2], [2, 8]], ld.adaptive(2), unordered=[0])
        >>> T, log_q = map(fit.labels.arrange, (fit.theta_tensor(), np.log(fit.tensor() / fit.total)))
        >>> bool((T[tuple(fit.basis.T)] == fit.theta).all()), np.allclose(T.cumsum(0).cumsum(1), log_q)
        (True, True)
        """
        queries.check_formed(self.shape, "theta_tensor", "Its entries are theta, at the cells of basis.")
        out = np.zeros(self.shape)
        out[tuple(self.basis.T)] = self.model.on_cells(self.theta)
        out[(0,) * out.ndim] = -self.psi
        return self.origin.give(out)

    def eta_tensor(self) -> Any:
        """Return eta of every cell, eq. (3): the probability at or above it, as arranged. Levels are in X's order."""
        n_merged = self.model.quotient.n_merged
        queries.check_formed(self.shape, "eta_tensor", "On the basis its entries are eta.", n_merged, copies=2)
        return self.origin.give(zeta_adjoint(np.nan_to_num(queries.tensor(self, extend=False) / self.total)))

    def fisher(self) -> FloatArray:
        """Return the Fisher information matrix G of theta, eq. (5): the covariance of the features under Q, k x k."""
        check_fisher(self.n_params, "fisher() needs", "The variance of a feature that is 0 or 1 is eta * (1 - eta).")
        engine = choose_engine(self._face)
        return engine.fisher(engine.at(self.theta))

    def log_prob(self, cells: ArrayLike | Sequence[Any], *, indices: bool = False) -> FloatArray:
        """Return the log probability of cells (k x N, or one cell); ``-inf`` outside the support.

        Parameters
        ----------
        cells
            Rows of labels, or of indices counted from 0 for modes without labels. Columns of a data frame or of a
            mapping are found by the names of the modes.
        indices
            Whether all of them are indices in X, also of modes with labels.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose([[1, 2], [3, 4]], ld.full(), levels=[["no", "yes"], [200, 404]])
        >>> np.exp(fit.log_prob([["yes", 200], ["no", 404]])).round(12).tolist()
        [0.3, 0.2]
        >>> np.exp(fit.log_prob([[1, 0], [0, 1]], indices=True)).round(12).tolist()
        [0.3, 0.2]
        """
        return self._distribution.log_prob(queries.read_cells(self.labels, cells, "log_prob", indices))

    def marginal(self, modes: Mode | Sequence[Mode], *, given: Event | None = None) -> Any:
        """Return the probabilities over some modes, in the order given: Q summed over all other modes.

        Parameters
        ----------
        modes
            One mode or several, by name or counted from 0.
        given
            ``{mode: level, ...}``: modes that are fixed, for conditional probabilities. A level is given by its label,
            or by its index if the mode has no labels.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").marginal(0).round(12).tolist()
        [0.3, 0.7]
        """
        return self._probabilities(self.labels.find_modes(modes, "marginal"), given)

    def condition(self, given: Event) -> Any:
        """Return the probabilities of the other modes, given the levels of some: ``{mode: level, ...}``.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], ld.full()).condition({0: 1}).round(12).tolist()
        [0.428571428571, 0.571428571429]
        """
        return self._probabilities(None, given)

    def _probabilities(self, modes: list[int] | None, given: Event | None) -> Any:
        """Return probabilities over `modes`, by default all that are not in `given`, in the type of X.

        It is the common part of `marginal` and `condition`.
        """
        kept, table = queries.marginal(self._distribution, self.labels, modes, given)
        return self.origin.give(table, kept, "probability")

    def expectation(
        self, f: ArrayLike | Callable[..., ArrayLike], *, modes: Mode | Sequence[Mode] | None = None
    ) -> float:
        """Return the mean of f under Q: the sum of ``q f`` over all cells of positive probability.

        Parameters
        ----------
        f
            An array that broadcasts to X's shape, finite wherever Q is positive (booleans give the probability of an
            event); or a function that returns one, and is called with one array of levels for each mode (labels, or
            indices if there are none), the k-th along the k-th axis.
        modes
            The modes that f depends on, if not all: its axes or arguments, in the order given.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
        >>> round(fit.expectation(lambda i, j: i + j), 12)
        1.3
        """
        return queries.expectation(self._distribution, self.labels, f, modes)

    def sample(self, n: int, rng: Rng = None, given: Event | None = None) -> Any:
        """Draw n cells from Q, or from Q given levels of some modes; the same integer `rng` gives the same cells.

        Returns an array of indices, n x N; for a labelled X a data frame with a column of labels for each mode.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 0], [0, 4]], ld.full()).sample(3, rng=0).tolist()
        [[1, 1], [1, 1], [0, 0]]
        """
        return self.origin.give_cells(
            queries.sample(self._distribution, n, rng, queries.read_event(self.labels, given))
        )

    def most_probable(self) -> tuple[Any, ...]:
        """Return the most probable cell, by labels if there are any; of several (equal to 1e-12) the first.

        On grids that are never formed it is one of these.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").most_probable()
        (1, 1)
        """
        return self.labels.values_at(self._distribution.most_probable())

    def inference(self) -> Inference:
        """Treat X as counts and Q as a log-linear model: tests of fit, standard errors, residuals.

        Examples
        --------
        >>> import legendre as ld
        >>> tests = ld.decompose([[18, 7], [6, 19]], "B1").inference()
        >>> round(tests.g2, 4), tests.df, round(tests.g2_p_value, 4)
        (12.033, 1, 0.0005)
        """
        from legendre.results.inference.result import Inference

        return Inference.of(self)

    def effects(self, *, measure: Measure = "fitted", max_order: int | None = None) -> Effects:
        """Write log Q as a sum of effects of modes, pairs of modes, and so on, up to sets of `max_order` modes.

        Effects have mean 0 under `measure`: "fitted" weights levels by the margins of Q, "uniform" weights all equally.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 12]], "B1").effects()[0].values.round(4).tolist()
        [-1.3412, 0.2682]
        """
        from legendre.results.effects import effects_of

        return effects_of(self, measure, max_order)

    def parameters(self, *, kl_lost: Asked | None = "auto") -> Parameters:
        """Return the table of parameters: name, theta, factor, standard error (for counts), eta, KL lost without it.

        Parameters
        ----------
        kl_lost
            "refit": refit without each parameter in turn, which is exact. "estimate": from the curvature at the
            minimum. "auto": refit if that takes about a second at most, otherwise estimate. None: leave it out.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 12]], "B1").parameters().sorted_by("theta").names
        ('mode 0 = 1', 'mode 1 = 1')
        """
        from legendre.results.parameters import parameters_of

        return parameters_of(self, kl_lost)

    @property
    def plot(self) -> FitPlots:
        """Pictures: ``fit.plot.effects()``, ``.slices()``, ``.residuals()``, ``.margins()``, ``.graph()``, ..."""
        from legendre.results.plots import FitPlots
        from legendre.results.views import FitPair

        return FitPlots(self, FitPair(self), fit=self)

    def order(self) -> IntArray:
        """Return the places in `basis` of the cells that `adaptive` chose, those that matter most first.

        For every m, the first m are a good basis of m cells. The least important cells are dropped and the others
        refitted, again and again; the last to be dropped come first. Cells of `adaptive(..., include=)` stay in front,
        and the parameters of `boxes` stay in the order in which they were chosen. The order is computed at first use,
        in about the time of growing.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2, 2], [3, 12, 9], [3, 12, 14]], ld.adaptive(3))
        >>> [fit.basis[place].tolist() for place in fit.order()]
        [[1, 1], [1, 0], [2, 2]]
        """
        return self._order.copy()

    @cached_property
    def _order(self) -> IntArray:
        """What `order` returns, computed once: `at` needs it too."""
        if not self._rounds:
            raise InvalidSetting(
                "this basis was not grown by adaptive(...). Fit the cells that you want: ld.decompose(X, cells)."
            )
        data = self._observed  # refuses a fit that was loaded
        if self._grown is None:
            return np.arange(self.n_params)  # boxes stay in the order of choice
        from legendre.fitting.growing.select import order_basis

        return order_basis(data, self.basis, self.theta, self._grown)

    def at(self, n_params: int) -> Decomposition:
        """Return the exact fit with the `n_params` cells of an adaptive basis that matter most, see `order`.

        Examples
        --------
        >>> import legendre as ld
        >>> fit = ld.decompose([[1, 2, 2], [3, 12, 9], [3, 12, 14]], ld.adaptive(3))
        >>> fit.at(2).basis.tolist()
        [[1, 1], [1, 0]]
        """
        order = self._order
        if not is_whole(n_params, 0) or n_params > self.n_params:
            raise InvalidSetting(f"at({n_params!r}): the path has 0 to {self.n_params} parameters.")
        return self._fit_part(order[:n_params])

    @property
    def _observed(self) -> Observation:
        """X as it was read; a fit that was loaded from a file has none, and what needs it is refused here."""
        if self.data is None:
            raise InvalidQuery(
                "this needs X, which a result loaded from a file does not hold. Fit X again, or ask before you save."
            )
        return self.data

    def _fit_part(self, columns: IntArray, counts: FloatArray | None = None) -> Decomposition:
        """Return the exact fit with some of the parameters, given by their indices in `theta`.

        It is a fit to X, or to other counts: a vector with an entry for each cell of the support, in C order.
        """
        from legendre.fitting.fit import refit

        return replace(refit(self, columns, counts), origin=self.origin)

    def certificate(self) -> Certificate:
        """Return what has been proved about Q; its ``text()`` is in plain words.

        KL(P, Q) is convex in theta with gradient ``eta - eta_hat``, so the residual alone proves the minimum, and the
        gap bounds how far KL is above it. Other sentences are about parameters: infinite, undecided or dependent ones.
        """
        unique = "The problem is convex: every start and every solver leads to this Q."
        words = [
            f"On the basis the expectations of Q differ from those of X by at most {self.residual:.1e}; the tolerance "
            f"was {self.tol:g}.",
            unique if self.converged else self.status.value,
        ]
        if math.isfinite(self.gap):
            words.append(f"KL(P, Q) exceeds its minimum by at most {self.gap:.1e} nats.")
        if self.status is Status.AT_BOUNDARY:
            words.append(f"No finite parameters attain it: {cells_have(self.n_vanishing)} probability 0 in the limit.")
        if self.status is Status.UNDECIDED:
            words.append("Whether finite parameters attain the minimum could not be decided: the problem is too large.")
        if self.rank < self.n_params:
            words.append(
                f"Of the {self.n_params:,} parameters {self.rank:,} are independent on this sample space: Q is unique, "
                "theta is not."
            )
        return Certificate(self.converged, VERDICTS[self.status], tuple(words))

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the report page shows; X is the one that the fit holds, or `data`."""
        from legendre.results.report import content_of_fit

        return content_of_fit(self, data)

    def tables(self) -> list[Table]:
        """Return the summary as one table: the problem, the fit and its certificate."""
        support, missing = self.model.support, "" if self.missing is None else f", {int(self.missing.sum())} missing"
        cells = f"{count_name(support.n_cells)} of {count_name(math.prod(self.shape))} cells{missing}"
        dependent = f" ({rank_name(self)})" if self.rank < self.n_params or self.rank_is_bound else ""
        bits = f"{self.arrangement_bits:.0f} bits, not counted in AIC and BIC"
        rows = [
            ("tensor", f"{shape_name(self.shape)}, sum {self.total:.6g}"),
            *modes_row(self.labels),
            ("support", f"{cells}, merged into {count_name(self.model.n_alive)}"),
            ("why this basis", self.reason),
            ("basis", shorten(self.recipe)),
            ("parameters", f"{self.n_params}{dependent}"),
            ("arrangement", bits if self.arrangement else None),
            ("KL(P, Q)", f"{self.kl:.10g}"),
            ("explained", self.explained),
            ("RMSE", f"{self.rmse:.6g}  (X's units)"),
            ("psi", f"{self.psi:.10g}"),
            ("solver", f"{self.solver}, {self.n_iter} steps, tol {self.tol:g}"),
            ("max|eta - eta_hat|", f"{self.residual:.2e}"),
            ("KL above minimum", f"<= {self.gap:.2e}"),
            ("vanishing cells", str(self.n_vanishing) if self.n_vanishing else None),
            ("status", f"{self.status.name}: {self.status.value}"),
            ("note", f"{self._left_out:,.6g} of the sum of X lie outside the support" if self._left_out else None),
            *(("note", note) for note in (*self._notes_on_missing(), *self.origin.notes)),
        ]
        return [NamedValues("Legendre decomposition", [(name, value) for name, value in rows if value is not None])]

    def _notes_on_missing(self) -> list[str]:
        """Return notes for the summary if cells of X are missing: what answers are about, and a trap of the basis B1.

        B1 has a parameter for each cell on an axis of X that is in the support. Where such a cell is missing, its level
        has no parameter, which a user would not expect.
        """
        if self.missing is None:
            return []
        notes = [
            f"{int(self.missing.sum()):,} cells are missing: every answer is about the others, and tensor() is NaN "
            "there; ld.complete(X, basis) fills them"
        ]
        # the number of cells on the axes, without the first cell, minus those in B
        lost = sum(self.shape) - len(self.shape) - self.n_params
        if self.recipe == "B1()" and lost > 0:
            notes.append(
                f"B1 has no parameter for the {lost} missing cells on the axes, so their levels are not fitted; "
                "interactions(1) has one for each level"
            )
        return notes

    def __repr__(self) -> str:
        """Return one line: size, what the fit explains, and how it ended. `tables` has the rest."""
        return (
            f"<Decomposition of {shape_name(self.shape)}: {self.n_params} parameters that explain {self.explained}, "
            f"{self.status.name} {f'after {self.n_iter} steps' if self.n_iter else 'without a step'}, "
            f"max|eta - eta_hat| = {self.residual:.1e}>"
        )
