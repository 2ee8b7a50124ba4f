"""Balancing: the e-projection of X onto the tensors with prescribed margins.

The model has the base measure X on the support X > 0, and the basis has all interactions within the modes of each
margin. The expectations eta_hat come from the margins, not from data. Everything else is an ordinary fit. Without X it
is the distribution of largest entropy, on a junction tree of any number of modes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import combinations
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Cells
from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.arguments import check_int, check_number, entries, is_whole
from legendre.core.cells import cell_name, find_rows, first_cell, freeze, other_modes
from legendre.core.errors import InvalidMargins, InvalidSetting, InvalidTensor, warn
from legendre.core.labels import Labels, Mode
from legendre.core.origin import PLAIN, Origin
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import sum_others
from legendre.core.sums.zeta import zeta
from legendre.core.text import NamedValues, Table, shape_name, shorten
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.data.checks import check_numeric, check_range, finder
from legendre.data.observation import Support
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names, unwrap
from legendre.data.sparse import Sparse
from legendre.engines.choose import check_fisher, choose_engine
from legendre.engines.junction import JunctionEngine
from legendre.engines.matrix import MatrixEngine
from legendre.engines.protocol import Point
from legendre.fitting.fit import Settings, fit_plan, plan_problem, show_progress, warn_if_not_converged
from legendre.model.dual import kl
from legendre.model.model import Cliques, running_order
from legendre.model.problem import Problem, list_within
from legendre.results.base import Certificate, ModelResult, modes_row
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import read_cells
from legendre.results.views import ArrayPair
from legendre.solvers.loop import Callback, Outcome, Solver, Status, Step, Target, run_in_turn
from legendre.solvers.newton import Closed, Natural, NaturalCG
from legendre.solvers.scaling import MatrixScaling, Scaling
from legendre.solvers.structure.faces import PRECISION, Face, find_vanishing, optimise, vanishing_cells
from legendre.solvers.structure.rank import independent

if TYPE_CHECKING:
    from legendre.results.plots import Plots
    from legendre.results.report import ReportContent

MarginsLike = Mapping[Any, Any] | Sequence[ArrayLike]
"""Keys are modes or tuples of modes: a mapping's key type is invariant, so no narrower type fits both."""


@frozen
class Margins:
    """The prescribed margins, which `read_margins` has checked: they agree with each other."""

    values: dict[Modes, FloatArray]  # by modes in increasing order; one axis for each mode, in the caller's units
    total: float  # the sum of the entries of each margin

    def normalise(self) -> dict[Modes, FloatArray]:
        """Return the margins that the fit needs, each divided by its own sum.

        A margin whose modes are a subset of another margin's is left out: the other one implies it.
        """
        largest = [modes for modes in self.values if not any(set(modes) < set(other) for other in self.values)]
        return {modes: freeze(self.values[modes] / self.values[modes].sum()) for modes in largest}

    def largest_error(self, tensor: FloatArray, *, relative: bool) -> float:
        """Return the largest absolute error of all margins of a tensor.

        If `relative`, each error is divided by the largest entry of its margin: `tol` is compared with that.
        """
        return max(
            float(np.abs(sum_others(tensor, modes) - wanted).max()) / (float(wanted.max()) if relative else 1.0)
            for modes, wanted in self.values.items()
        )


def key_of(modes: Modes) -> int | Modes:
    """Return modes as a caller writes them: a single mode as an integer, several as a tuple."""
    return modes[0] if len(modes) == 1 else modes


@frozen(repr=False)
class Balanced(ModelResult):
    """The tensor with the prescribed margins that is nearest to X: ``X(v) exp(sum of theta_u, u <= v)``.

    Attributes
    ----------
    log_factors
        A mapping from modes (an integer for a one-way margin, a tuple otherwise; only sets that are not part of another
        one) to logarithms of factors. The tensor is X times all factors, except that vanishing cells are 0. Entries
        whose margin is 0 have ``-inf``.
    margin_error
        The largest absolute error of a margin, in its own units.
    residual
        ``max|eta - eta_hat|`` on the basis, for the tensor divided by its sum.
    status, converged
        How it ended: converged when each margin is met to tol times its largest entry.
    vanishing_cells
        Cells with X > 0 that are 0 in every tensor with the margins.
    basis, theta, eta, eta_hat
        The cells of B (all interactions within the margins' modes), and both coordinate systems on it.
    gap
        Upper bound on KL(Q*, Q), where Q* is the tensor with exactly these margins; infinite if the solver has no
        bound.
    solver, history, n_iter, tol
        The solver, its steps and its tolerance.
    X, values
        X as it was read, and the balanced tensor, as NumPy arrays; `tensor()` returns it in the form of X.

    See Also
    --------
    balance : The nearest tensor with prescribed margins.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.balance([[1, 2], [3, 4]])
    <Balanced 2x2: CONVERGED after ... steps (matrix-scaling), largest margin error ...>
    """

    X: AnyArray
    margins: Margins
    values: FloatArray
    parts: dict[Modes, FloatArray]  # `log_factors`, with a tuple as the key of a single mode too
    status: Status
    vanishing_cells: IntArray
    gap: float
    solver: str
    history: tuple[Step, ...]
    tol: float
    origin: Origin = PLAIN

    @property
    def log_factors(self) -> dict[int | Modes, FloatArray]:
        """Log factors by modes."""
        return {key_of(modes): part for modes, part in self.parts.items()}

    @property
    def factors(self) -> dict[int | Modes, FloatArray]:
        """Factors by modes: for a matrix the diagonals of D1 and D2 in ``Q = D1 X D2``."""
        with np.errstate(over="ignore"):
            return {key: np.exp(part) for key, part in self.log_factors.items()}

    def tensor(self) -> Any:
        """Return the balanced tensor in the units of the margins and the form of X."""
        return self.origin.give(self.values)

    def weights(self, rows: ArrayLike | Sequence[Any], *, bounds: tuple[float, float] | None = None) -> FloatArray:
        """Return the factor by which balancing multiplied the cell of each row: raking weights of a sample.

        Rows are cells as in `Decomposition.log_prob`. With `bounds` (the least and the largest weight), the weights are
        those of the tensor nearest to X, in KL, among all with the margins whose weights keep the bounds.

        Examples
        --------
        >>> import legendre as ld
        >>> raked = ld.balance([[10, 20], [30, 40], [20, 10]], {0: [60, 50, 40], 1: [80, 70]})
        >>> raked.weights([[0, 0], [0, 1], [1, 1]]).round(3).tolist()
        [2.479, 1.76, 0.608]
        >>> raked.weights([[0, 0], [0, 1], [1, 1]], bounds=(0.5, 2.2)).round(3).tolist()
        [2.2, 1.9, 0.564]
        """
        at = tuple(read_cells(self.labels, rows, "weights").T)
        if bounds is not None:
            return np.asarray(self._keep_within(*bounds)[at])
        X, Q = self.X[at], self.values[at]
        return np.asarray(np.divide(Q, X, out=np.zeros(len(X)), where=X > 0))

    def _keep_within(self, low: float, high: float) -> FloatArray:
        """Return the weight of each cell, between `low` and `high` where X > 0 and 0 elsewhere.

        A weight is a product of factors, or a bound if the product is beyond it (Deville and Särndal 1992). Logarithms
        of the factors minimise a convex function, whose gradient is what the margins are off.
        """
        from scipy.optimize import minimize
        from scipy.sparse import eye_array, hstack

        check_number(low, "weights: the lower bound", 0)
        check_number(high, "weights: the upper bound", above=low)
        cells, parts = np.nonzero(self.X > 0), self.margins.values.items()
        places = [np.ravel_multi_index([cells[k] for k in modes], own.shape) for modes, own in parts]
        # which entries of margins a cell is in, cells x entries
        sums: Any = hstack([eye_array(own.size, format="csr")[at] for at, (_, own) in zip(places, parts, strict=True)])
        wanted = np.concatenate([own.ravel() for _, own in parts]) / self.margins.total
        shares, ends = self.X[cells] / self.margins.total, np.log([max(low, 1e-300), high])

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            """Return the convex function and its gradient."""
            logs = sums @ theta
            inside = np.clip(logs, *ends)
            q = shares * np.exp(inside)
            return float(q @ (1.0 + logs - inside) - wanted @ theta), sums.T @ q - wanted

        def curve(theta: FloatArray) -> FloatArray:
            """Return the second derivatives, to which cells at a bound add nothing."""
            logs = sums @ theta
            inside = np.clip(logs, *ends)
            return np.asarray((sums.T @ (sums * (shares * np.exp(inside) * (logs == inside))[:, None])).toarray())

        start = np.full(len(wanted), -math.log(shares.sum()) / len(places))
        theta = minimize(
            loss, start, jac=True, hess=curve, method="trust-exact", options={"gtol": 1e-9, "maxiter": 200}
        ).x
        for _ in range(2):  # Newton steps, which see differences that the loss is too coarse for
            theta -= np.linalg.lstsq(curve(theta), loss(theta)[1])[0]
        if (error := float(np.abs(loss(theta)[1]).max())) > 1e-8:
            raise InvalidMargins(
                f"no weights from {low:g} to {high:g} with these margins were found: one is still off by {error:.2g}, "
                "as a share of the total. Widen the bounds."
            )
        out = np.zeros(self.X.shape)
        out[cells] = np.exp(np.clip(sums @ theta, *ends))
        return out

    @cached_property
    def margin_error(self) -> float:
        """The largest absolute error of a margin."""
        return self.margins.largest_error(self.values, relative=False)

    @cached_property
    def kl_to_X(self) -> float:
        """KL(Q, X) in nats, both normalised: how much balancing changed X. No tensor with the margins has less."""
        return kl(self.values, self.X)

    @property
    def plot(self) -> Plots:
        """Pictures of the balanced tensor next to X, scaled to the same total: ``.margins()``, ``.slices()``, ..."""
        from legendre.results.plots import Plots

        return Plots(self, self._pair())

    def _pair(self) -> ArrayPair:
        """Return X, scaled to the total of the margins, beside the balanced tensor, for pictures and the report."""

        def arrays() -> tuple[FloatArray, FloatArray]:
            """Compute both arrays: only if something is drawn, since X is copied."""
            scale = self.margins.total / self.X.sum(dtype=np.float64)
            return np.asarray(self.X * scale, dtype=np.float64), self.values

        return ArrayPair(self.labels, arrays, "X, scaled", "balanced", may_count=False)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved about the tensor."""
        off = f"The margins are met to {self.margin_error:.1e} in their own units"
        n = len(self.vanishing_cells)
        gone = f"{n:,} cells with X > 0 are 0 in every tensor with these margins." if n else ""
        if not self.converged:
            return Certificate(False, "The margins are not met.", (f"{off}; tol is {self.tol:g}.", self.status.value))
        unique = "Of all tensors with these margins it is the nearest to X: the minimum of KL(Q, X), which is unique."
        return Certificate(True, "The margins are met.", tuple(filter(None, (f"{off}.", unique, gone))))

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the report page shows: X beside the balanced tensor, both with the same sum."""
        from legendre.results.report import ReportContent, refuse_data, shape_line

        refuse_data(data)
        return ReportContent(
            self,
            "Balanced tensor",
            f"{shape_line(self.labels)}; X is shown with the sum of the margins",
            "import legendre as ld\n\nbalanced = ld.balance(X, margins)\nbalanced.report('report.html')",
            self.labels,
            self.model.terms,
            self._pair(),
        )

    def tables(self) -> list[Table]:
        """List the result and its certificate."""
        wanted = ", ".join(str(key_of(modes)) for modes in self.margins.values)
        rows = [
            ("tensor", f"{shape_name(self.shape)}, {np.count_nonzero(self.X)} of {self.X.size} cells positive"),
            *modes_row(self.labels),
            ("margins", f"{wanted}; total {self.margins.total:.6g}"),
            ("KL(Q, X)", f"{self.kl_to_X:.10g}"),
            ("solver", f"{self.solver}, {self.n_iter} steps, tol {self.tol:g}"),
            ("max margin error", f"{self.margin_error:.2e}"),
            ("max|eta - eta_hat|", f"{self.residual:.2e}"),
            ("vanishing cells", str(len(self.vanishing_cells))),
            ("status", f"{self.status.name}: {self.status.value}"),
        ]
        return [NamedValues("Balanced tensor", [*rows, *(("note", note) for note in self.origin.notes)])]

    def __repr__(self) -> str:
        return (
            f"<Balanced {shape_name(self.shape)}: {self.status.name} after {self.n_iter} steps ({self.solver}), "
            f"largest margin error {self.margin_error:.1e}>"
        )


@overload
def balance(
    X: Decomposition | None,
    margins: MarginsLike,
    *,
    shape: Sequence[int] | None = None,
    slack: float = 0.0,
    names: Names = None,
    levels: Levels = None,
    tol: float = 1e-10,
    progress: bool | None = None,
) -> Decomposition: ...
@overload
def balance(
    X: TensorLike,
    margins: MarginsLike | None = None,
    *,
    modes: int | Iterable[Iterable[Mode]] | None = None,
    total: float | None = None,
    names: Names = None,
    levels: Levels = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
) -> Balanced: ...
def balance(
    X: TensorLike | Decomposition | None,
    margins: MarginsLike | None = None,
    *,
    shape: Sequence[int] | None = None,
    slack: float = 0.0,
    modes: int | Iterable[Iterable[Mode]] | None = None,
    total: float | None = None,
    names: Names = None,
    levels: Levels = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
) -> Balanced | Decomposition:
    """Find the tensor with prescribed margins that is nearest to X: ``Q(v) = X(v) exp(sum of theta_u, u <= v)``.

    Also known as matrix scaling, Sinkhorn-Knopp, iterative proportional fitting, raking. Q minimises KL(Q, X).

    Parameters
    ----------
    X
        A nonnegative tensor of any kind that `decompose` takes, without missing cells. Cells with X = 0 stay 0. Every
        cell is held in memory. ``None``: find the distribution of largest entropy with these margins, on a grid of any
        number of modes, if the margins couple few of them at a time. Modes that no margin covers are uniform. Or a fit,
        a `Decomposition` of any number of modes in which no cell vanishes: find the distribution nearest to it.
    margins
        ``{0: row_sums, 1: column_sums}``, ``{(0, 1): M, (1, 2): K}`` or a list of one-way margins, one per mode. Modes
        may be named, and margins labelled (a Series, a DataArray, a mapping of levels). Default: uniform margins.
    shape
        If X is ``None``, the number of levels of each mode.
    slack
        If X is ``None`` or a fit and margins are noisy, a positive number: they need not be met exactly. KL from
        uniform, or from the fit, plus the sum of squared errors of their entries, as shares of the total, divided by
        ``2 * slack`` is minimised. Margins may then contradict each other; where two differ in what they share, the
        first counts.
    modes
        Which margins are uniform when none are given: sets of modes, or an order (2: all two-way margins). Default:
        every mode by itself.
    total
        What uniform margins sum to. By default the entries of the first one are 1.
    names, levels
        Names of the modes of X and of their levels, see `decompose`.
    solver
        ``"auto"``, ``"matrix-scaling"`` (matrices: Sinkhorn's cycles, then Newton's steps), ``"scaling"`` (cycles
        only), ``"natural"``, ``"natural-cg"``, ``"gradient"``, or a solver object.
    tol
        Converged when each margin is met to tol times its largest entry (and so ``max|eta - eta_hat| <= tol``).
    max_iter
        The largest number of steps or cycles; by default the solver's own limit.
    callback
        Called with a `Step` at the start and after every step; a true return value stops.
    progress
        Show a line on standard error from the third second on; by default on a terminal.

    Returns
    -------
    Balanced or Decomposition
        Always, with a `ConvergenceWarning` where a margin was not met. Without X it is a `Decomposition` with the same
        answers and certificate as a fit; there is no X to compare with, so its `kl` and `rmse` are 0.

    Raises
    ------
    InvalidMargins
        When margins are malformed, contradict each other (where and by how much), or no tensor on X's support has
        them.

    See Also
    --------
    legendre.results.Balanced : The result of `balance`.
    decompose : Fit X by a model with some basis.

    Examples
    --------
    >>> import legendre as ld
    >>> result = ld.balance([[1, 2], [3, 4]])
    >>> result.tensor().round(6).tolist()
    [[0.44949, 0.55051], [0.55051, 0.44949]]
    >>> ld.balance([[1, 2], [3, 4]], {0: [30, 70], 1: [50, 50]}).tensor().sum(axis=1).round(8).tolist()
    [30.0, 70.0]
    >>> pairs = {(k, k + 1): [[4, 1], [1, 4]] for k in range(49)}
    >>> chain = ld.balance(None, pairs, shape=[2] * 50)
    >>> chain.status.name, chain.marginal([0, 2]).round(6).tolist()
    ('CONVERGED', [[0.34, 0.16], [0.16, 0.34]])
    >>> ld.balance(chain, {0: [0.9, 0.1]}).marginal(2).round(6).tolist()
    [0.644, 0.356]
    """
    settings, slack = Settings.read(solver, tol, max_iter, callback), check_number(slack, "slack", least=0)
    fit = X if isinstance(X, Decomposition) else None
    if (shape is None) == (X is None) or (X is not None and slack and fit is None):
        raise InvalidSetting("shape (and slack) belong to margins without X: ld.balance(None, margins, shape=(2, 3)).")
    with show_progress(progress, callback) as (step, _):
        settings = replace(settings, callback=step)
        if X is None or isinstance(X, Decomposition):
            sizes = tuple(check_int(n, "shape", 1) for n in shape or ())
            labels = Labels.read(sizes, names, levels) if fit is None else fit.labels
            wanted = read_margins(margins, modes, total, labels, np.inf if slack else settings.tol)
            return warn_if_not_converged(_find_largest_entropy(wanted, labels, settings, slack, fit))
        if isinstance(settings.solver, Closed):
            raise InvalidSetting(
                f"solver '{settings.solver.name}' needs a tensor with the margins, which is what balancing looks for. "
                "Use auto, gradient, natural, natural-cg, matrix-scaling, scaling."
            )
        data = read(X, names=names, levels=levels).in_memory("balance")
        if data.missing is not None:  # X is a base measure, which no cell can lack
            reason = (
                f"X has {int(data.missing.sum())} entries that are NaN; the first is "
                f"X{cell_name(first_cell(data.missing))}. Balancing multiplies each cell by a positive factor: entries "
                "must be >= 0, and a cell that must stay empty is 0."
            )
            raise InvalidTensor(" ".join([reason, *data.origin.notes]))  # notes say if X, a Series, does not list cells
        support = Support(data.values.shape, None if data.positive else data.values > 0)
        base = freeze(np.asarray(data.values, dtype=np.float64))
        prior = replace(data, support=support, base=base, positive=True)  # X is the base measure on its own support
        wanted = read_margins(margins, modes, total, prior.labels, settings.tol)
        shares = wanted.normalise()
        basis = interactions(list(shares)).select(prior)
        problem = Problem.with_margins(replace(prior, total=wanted.total), basis, shares)
        result = _project(prior.values, problem, wanted, settings)
        if result.status not in (Status.CONVERGED, Status.AT_BOUNDARY):
            text = f"{result.status.value} (largest margin error {result.margin_error:.2e}, tol = {result.tol:g}, "
            warn(f"{text}{result.n_iter} steps)")
        return result if prior.origin is PLAIN else replace(result, origin=prior.origin)


def _find_largest_entropy(
    margins: Margins, labels: Labels, settings: Settings, slack: float, prior: Decomposition | None = None
) -> Decomposition:
    """Fit the distribution of largest entropy with these margins, by messages in a junction tree of any size.

    It is that of a uniform X. If every clique of the tree lies within a margin, theta has a closed form. With a
    `prior`, it is the distribution with these margins that is nearest to the prior.
    """
    shape, shares = labels.shape, margins.normalise()
    nothing = np.empty((0, len(shape)), dtype=np.int64)
    origin = PLAIN if labels == Labels(shape) else Origin(labels=labels)
    total = margins.total
    even = Sparse(Support(shape), None, None, total, True, nothing, np.empty(0), total, origin=origin)
    recipe = interactions(list(shares))
    if prior is not None:
        if not prior.model.support.full or prior.model.base is not None or len(prior.vanishing_cells):
            raise InvalidSetting(
                "a fit can be balanced if it has no support, no base and no vanishing cells: smooth it."
            )
        if not slack:  # whether there is a distribution with these margins does not depend on a positive prior
            _find_largest_entropy(margins, labels, settings, slack)
        recipe = recipe | Cells(prior.basis)
    problem = Problem.with_margins(even, recipe.select(even), shares)
    model = problem.model
    tables, tree = model.tables, model.tables.tree
    if not tree.fits:
        raise InvalidMargins(tree.trouble())
    on_tables = Cliques(model.support, None, model.basis, model.quotient, model.positions, tables=tables)
    problem, start = replace(problem, model=on_tables), None
    if model.n_params and (slack or prior is not None):
        problem, start = _soften(problem, slack, prior)
        settings = replace(settings, solver=Natural())
    else:
        around = [next((group for group in shares if set(group) >= set(clique.modes)), ()) for clique in tree.cliques]
        if all(around):
            pairs = zip(around, tree.cliques, strict=True)
            sums = [sum_others(shares[group], [group.index(k) for k in clique.modes]) for group, clique in pairs]
            problem = replace(problem, clique_sums=freeze(tables.lay_out(sums)))
    fit = fit_plan(plan_problem(problem, recipe, settings), start)
    alive = fit._alive if isinstance(model, Cliques) or fit._alive is None else on_tables.on_grid(fit._alive)
    # there is no X: it counts as Q itself, so that KL from simple models is a difference of entropies
    entropy, every = fit.psi - float(fit.theta @ fit.eta), [fit.marginal(k) for k in range(len(shape))]
    alone = [-float((q[q > 0] * np.log(q[q > 0])).sum()) for q in map(np.asarray, every)]
    uniform = sum(map(math.log, shape))
    known = {"kl": 0.0, "rmse": 0.0, "kl_uniform": uniform - entropy, "kl_independence": sum(alone) - entropy}
    return replace(fit, model=model, _alive=alive, data=None, _measured=known)


def _soften(problem: Problem, slack: float, prior: Decomposition | None) -> tuple[Problem, FloatArray]:
    """Return the problem with the eta_hat at which `slack` and the `prior` leave it, and the theta that is its answer.

    Squared errors of entries of margins, ``|Z (eta - eta_hat)|^2 / (2 * slack)``, are minimised beside KL. The dual is
    a ridge on theta: ``slack / 2 * theta . K theta`` with K the inverse of Z'Z. Its minimum is where eta is
    ``eta_hat - slack * K theta``. Theta is counted from the prior's, and parameters outside all margins keep these.
    """
    from scipy.optimize import minimize

    model, k = problem.model, problem.model.n_params
    check_fisher(k, "slack or a prior needs", "Leave it out.")
    gram, held = np.zeros((k, k)), np.zeros(k)
    for modes, values in (problem.prescribed or {}).items():
        rows = list_within(model.positions, modes)
        at = np.ravel_multi_index(tuple(model.positions[rows][:, modes].T), values.shape)
        # an entry is a difference of eta along each mode
        differences: list[Any] = [np.eye(n) - np.eye(n, k=1) for n in values.shape]
        gram[np.ix_(rows, rows)] += reduce(np.kron, [d.T @ d for d in differences])[np.ix_(at, at)]
    if prior is not None:
        held[find_rows(prior.basis, model.basis)] = prior.theta
    free = gram.diagonal() > 0
    engine, ridge = JunctionEngine(model), slack * np.linalg.inv(gram + np.diag(~free))
    wanted = np.where(free, problem.eta_hat, 0.0)

    def penalised(theta: FloatArray) -> tuple[float, FloatArray]:
        """Compute the function to minimise, and its gradient."""
        point, pull = engine.at(theta), ridge @ (theta - held)
        return point.psi + float((theta - held) @ (0.5 * pull - wanted)), free * (point.eta + pull - wanted)

    def curvature(theta: FloatArray) -> AnyArray:
        """Compute its Hessian."""
        return ridge + np.where(np.outer(free, free), engine.fisher(engine.at(theta)), np.eye(k))

    theta = minimize(penalised, held, jac=True, hess=curvature, method="trust-exact", tol=1e-10).x
    eta_hat = np.where(free, wanted - ridge @ (theta - held), engine.at(theta).eta)
    return replace(problem, eta_hat=eta_hat, prescribed=None), theta


def _project(
    X: AnyArray, problem: Problem, margins: Margins, settings: Settings, least_share: float = 1e-12
) -> Balanced:
    """Find which cells can be positive in a tensor with the margins, and solve on these.

    A finite answer exists if and only if every cell of the support can be positive. If that is not known beforehand,
    solve on all cells first. Where this converges, the last Newton step yields a tensor with exactly these margins
    (`solvers.newton.newton_bound`). If no cell of it differs from the answer by more than the share `PROOF_TILT`, it is
    positive everywhere, which proves that all cells can be. The proof counts only above rounding: every cell must hold
    more than `least_share` of the smallest entry of a margin that it counts towards. Otherwise linear programs decide
    (`_decide`), and the fit is repeated if they leave out cells, or if it has not converged: only now may the slower
    solvers of `_solve` run.
    """
    face = _find_possible(problem)
    outcome = _solve(problem, face, settings, persist=face.certain)
    result = _build_result(X, problem, face, margins, outcome, settings.tol)
    if face.certain or outcome.status is Status.STOPPED:
        return result
    entries = (np.expand_dims(part, other_modes(modes, X.ndim)) for modes, part in margins.values.items())
    large = result.values > least_share * reduce(np.minimum, entries)
    alive = problem.model.quotient.spread(problem.model.on_face(face.alive).alive)
    if result.converged and outcome.tilt <= limits.PROOF_TILT and large[alive].all():
        decided = replace(face, certain=True)
    else:
        decided = _decide(problem, face)
        fewer_cells = decided.alive is not face.alive  # where nothing more vanishes, it is the same array
        if fewer_cells or not outcome.status.converged:
            outcome = _solve(problem, decided, settings, persist=True)
    return _build_result(X, problem, decided, margins, outcome, settings.tol)


def _solve(problem: Problem, face: Face, settings: Settings, *, persist: bool, max_steps: int = 400) -> Outcome:
    """Start at X itself (theta = 0) and run the caller's solver, or those that suit the structure and the size.

    If the first choice fails, as it may where the entries of X differ by many orders of magnitude, the slower general
    solvers start afresh. With ``persist=False`` they do not: there may be no finite answer, and linear programs should
    decide that first. A matrix gets at most `max_steps` steps before that: where there is an answer, Newton's method
    takes far fewer.
    """
    if settings.solver is not None:
        return _run_on_face([settings.solver], problem, face, settings)
    model = problem.model
    small = model.n_params <= limits.LARGEST_MATRIX
    # horizon: if more scaling cycles than this are still needed, steps with the Fisher matrix are cheaper
    general: list[Solver] = [Scaling(horizon=100 if small else 1_000), Natural() if small else NaturalCG()]
    solvers = general
    if MatrixEngine.applies(model):
        # where a finite answer is known to exist, no further Newton direction is needed to prove it
        solvers = [MatrixScaling(prove=not face.certain, max_iter=max_steps)]
    elif not model.n_params or (model.n_params < limits.SCALING_FROM and len(problem.prescribed or {}) > 1):
        solvers = general[1:]  # few parameters: no scaling, except for a single margin, which one cycle meets exactly
    outcome = _run_on_face(solvers, problem, face, settings)
    failed = outcome.status in (Status.STALLED, Status.OUT_OF_STEPS) and settings.max_iter is None
    return _run_on_face(general, problem, face, settings) if failed and persist else outcome


def _run_on_face(solvers: list[Solver], problem: Problem, face: Face, settings: Settings) -> Outcome:
    """Run solvers in turn on the cells that may be positive; `Outcome.full` has all parameters of the model.

    If the first solver cannot handle linearly dependent parameters, the fit is in a maximal independent set of them.
    The other parameters are 0 in the outcome.
    """
    # tol is for entries of margins, relative to the largest, but solvers bound the error of eta. An entry of a k-way
    # margin is an alternating sum of 2^k expectations, hence 0.5^k. Below 1e-14 is rounding, which `polish` lowers.
    model, margins = problem.model, problem.prescribed or {}
    shares = [float(m.max()) * 0.5 ** len(modes) for modes, m in margins.items()]
    tol = min(settings.tol, max(1e-14, settings.tol * min(shares)))
    on_face = model.on_face(face.alive)
    # `Natural` after `Scaling` gets dependent parameters too, and leaves them as they are: `factorise` finds a maximal
    # independent set, and a step is 0 in the others
    columns = np.arange(model.n_params) if solvers[0].accepts_dependent else independent(on_face)
    reduced = problem.reduce(face.alive, columns)
    matrix = isinstance(solvers[0], MatrixScaling) and MatrixEngine.applies(reduced.model)
    target = Target(MatrixEngine(reduced.model) if matrix else choose_engine(reduced.model), reduced, tol)
    if len(columns) < model.n_params:
        target = replace(target, full=Target(choose_engine(on_face), problem, tol), columns=columns)
    # memory bandwidth limits products of a matrix and a vector: `MatrixEngine` gains nothing from more BLAS threads
    with limit_blas(0 if matrix else len(columns)):
        start = np.zeros(len(columns))
        return run_in_turn(solvers, target, start, max_iter=settings.max_iter, callback=settings.callback)


def _build_result(
    X: AnyArray, problem: Problem, face: Face, margins: Margins, outcome: Outcome, tol: float
) -> Balanced:
    """Build the result: X times the factors that theta stands for, with the errors of rounding lowered by `polish`.

    The margins of this tensor, not the residual of the solver, decide whether it has converged.
    """
    model, status = problem.model, outcome.status
    alive = model.quotient.spread(model.on_face(face.alive).alive)  # from merged cells to the cells of X
    # if the caller stopped the solver or it ran out of steps, the result is the tensor at which it stopped
    cycles = 5 if status in (Status.CONVERGED, Status.STALLED) else 0
    parts = split_into_factors(problem, outcome.full, margins)
    tensor, parts, error = polish(X, alive, parts, margins, tol, cycles)
    vanishing = vanishing_cells(model, face.alive)
    if error <= tol:
        attained = Status.AT_BOUNDARY if len(vanishing) else Status.CONVERGED
        status = attained if face.certain else Status.UNDECIDED
    elif status is Status.CONVERGED:
        status = Status.STALLED
    return Balanced(
        X=X,
        margins=margins,
        values=freeze(tensor),
        parts=parts,
        model=model,
        theta=outcome.full.theta,
        eta=outcome.full.eta,
        psi=outcome.full.psi,
        eta_hat=problem.eta_hat,
        status=status,
        vanishing_cells=freeze(vanishing),
        gap=outcome.gap,
        solver=outcome.solver.name,
        history=outcome.history,
        tol=tol,
    )


# --- which cells can be positive -------------------------------------------------------------------------------------


# For a fit to data, `solvers.structure.faces` finds the cells that vanish: the data themselves are a tensor with the
# right expectations, so only cells where X is 0 can vanish. For margins no such tensor is known, and perhaps none
# exists; linear programs look for one.


def _find_possible(problem: Problem) -> Face:
    """Leave out the cells below entries of margins that are 0; refuse a positive entry that has no cell left.

    The face is certain if the margins are decomposable and every cell that no margin forces to 0 is in the support: the
    closed form of decomposable models is then a tensor with these margins that is positive on all of these cells.
    Otherwise `_decide` may have to find out.
    """
    model = problem.model
    shares = {modes: problem.margin(modes) for modes in problem.prescribed or {}}  # length 1 in all other modes
    allowed = np.ones(model.quotient.merged_shape, dtype=np.bool_)
    for wanted in shares.values():
        allowed &= wanted > 0
    alive = model.alive & allowed
    for modes, wanted in shares.items():
        unmet = np.argwhere((wanted > 0) & ~alive.any(axis=other_modes(modes, alive.ndim), keepdims=True))
        if len(unmet):
            place = tuple(unmet[0])
            raise InvalidMargins(
                f"margin {key_of(modes)} wants {wanted[place] * problem.data.total:.6g} at "
                f"{cell_name([place[k] for k in modes])}, but on all of its cells X is 0 or another margin is."
            )
    certain = running_order(list(shares)) is not None and bool((alive == allowed).all())
    return Face(None if (alive == model.alive).all() else alive, np.zeros(model.n_params), certain)


def _decide(problem: Problem, face: Face, resolved: float = 1e-8) -> Face:
    """Find by linear programs the cells that are positive in some tensor with the margins.

    Raise `InvalidMargins` if there is no such tensor. Return the given face, which stays uncertain, if the programs are
    too large or are not solved, or if margins (of sum 1) have positive entries below `resolved`: a program that is
    exact to 1e-10 cannot tell these from 0.
    """
    from scipy.sparse import csr_array, hstack

    margins, alive = problem.prescribed or {}, problem.model.on_face(face.alive).alive
    cells, blocks = np.argwhere(alive), list[Any]()
    if len(cells) * len(margins) > limits.LARGEST_PROGRAM:
        return face
    # the incidence matrix, cells x entries of margins in C order, margin after margin: 1 where a cell counts towards an
    # entry, which is one 1 in each row of a margin's block
    for modes, values in margins.items():
        entry = np.ravel_multi_index(tuple(cells[:, modes].T), values.shape)
        blocks.append(
            csr_array((np.ones(len(cells)), entry, np.arange(len(cells) + 1)), shape=(len(cells), values.size))
        )
    matrix, wanted = hstack(blocks, format="csr"), np.concatenate([values.ravel() for values in margins.values()])
    if not _has_tensor(problem, matrix, wanted) or wanted[wanted > 0].min() < resolved:
        return face
    if (answer := find_vanishing(matrix, wanted[None])) is None:
        return face
    if not answer[0].any():
        return replace(face, certain=True)
    left = alive.copy()
    left[alive] = ~answer[0]
    return replace(face, alive=left, certain=True)


def _has_tensor(problem: Problem, matrix: Any, wanted: FloatArray) -> bool:
    """Whether some tensor on these cells has the margins; raise `InvalidMargins` if there is none.

    False if the linear program could not be solved. By Farkas' lemma there is no tensor if and only if some
    multipliers, one for each entry of the margins (`wanted`, in the order of the columns of `matrix`), add up to at
    most 0 on every cell, yet ``multipliers . wanted > 0``. Because all margins have the same sum, a constant can be
    moved from one margin's multipliers to another's. So those of the first margin can be taken >= 0, the others <= 0.
    For a matrix the optimal ones are 0, 1 or -1: they mark rows and columns, which the error names.
    """
    margins = problem.prescribed or {}
    first, (cells, entries) = next(iter(margins.values())).size, matrix.shape
    bounds = [(0.0, 1.0)] * first + [(-1.0, 0.0)] * (entries - first)
    multipliers = optimise(-wanted, A_ub=matrix, b_ub=np.zeros(cells), bounds=bounds)
    # not > 0: the margins were rounded when they were written down, and once more when they were summed
    if multipliers is not None and float(wanted @ multipliers) > 10 * PRECISION:
        text = "no tensor that is 0 where X is 0 has these margins."
        if list(margins) == [(0,), (1,)] and problem.model.alive.ndim == 2:
            sides = [np.flatnonzero(np.abs(part) > 0.5) for part in np.split(multipliers, [first])]
            rows, columns = (shorten(", ".join(map(str, side)), 60) for side in sides)
            need, have = (margins[(k,)][side].sum() * problem.data.total for k, side in enumerate(sides))
            text += (
                f" X is 0 on rows {{{rows}}} outside columns {{{columns}}}, yet those rows need {need:.6g} and "
                f"those columns have only {have:.6g}."
            )
        raise InvalidMargins(text)
    return multipliers is not None


# --- margins: from whatever the caller has to checked ones that agree ------------------------------------------------


def read_margins(
    margins: MarginsLike | None,
    modes: int | Iterable[Iterable[Mode]] | None,
    total: float | None,
    labels: Labels,
    tol: float,
) -> Margins:
    """Read and check the arguments of `balance` that describe margins of a tensor with these modes and levels.

    With ``margins=None`` the margins are uniform; `modes` and `total` say which and how large. `tol` bounds how far
    margins may disagree, relative to the largest entry.
    """
    if margins is None:
        ones = {group: np.ones([labels.shape[k] for k in group]) for group in _read_sets(modes, labels)}
        size = float(next(iter(ones.values())).size)  # as the total it makes the entries of the first margin 1
        scale = size if total is None else check_number(total, "total", above=0, error=InvalidMargins)
        return Margins({group: part * (scale / part.size) for group, part in ones.items()}, scale)
    if modes is not None or total is not None:
        raise InvalidMargins("modes and total describe uniform margins; leave them out when margins are given.")
    if isinstance(margins, (list, tuple)) and len(margins) == len(labels.shape):
        margins = dict(enumerate(margins))
    if not isinstance(margins, Mapping) or not margins:
        raise InvalidMargins(
            f"margins must be a dict such as {{0: row_sums, 1: column_sums}}, or a list of {len(labels.shape)} one-way "
            f"margins, one per mode of X; got {margins!r:.80}."
        )
    values: dict[Modes, FloatArray] = {}
    for key, given in margins.items():
        group = _read_set(key, labels)
        ordered = tuple(sorted(group))
        if ordered in values:
            raise InvalidMargins(f"the margin of modes {key_of(ordered)} is given twice.")
        # the caller may name modes in any order, as (2, 0); the axes are put in increasing order
        values[ordered] = freeze(_read_margin(group, given, labels).transpose(np.argsort(group)))
    _check_agreement(values, tol)
    return Margins(values, float(next(iter(values.values())).sum()))


def _read_sets(modes: int | Iterable[Iterable[Mode]] | None, labels: Labels) -> list[Modes]:
    """Read which margins are uniform: every mode by itself (``None``), all sets of `modes` modes, or the sets given."""
    order, modes = len(labels.shape), 1 if modes is None else modes
    if is_whole(modes, 1) and modes <= order:
        return list(combinations(range(order), int(modes)))
    sets = entries(modes)
    if not sets:
        raise InvalidMargins(
            f"modes must be an order from 1 to {order} or sets of modes such as [(0, 1)], got {modes!r}. "
            "Margins of your own go to margins, e.g. {0: row_sums}."
        )
    return [tuple(sorted(_read_set(group, labels))) for group in sets]


def _read_set(group: object, labels: Labels) -> Modes:
    """Read the modes of one margin: a mode, by number or name, or a tuple of them."""
    found = tuple(labels.find_modes(group, "margins", InvalidMargins))
    if not found:
        raise InvalidMargins(f"margins: a margin is named by its modes, e.g. 0 or (0, 1); got {group!r}.")
    return found


def _read_margin(group: Modes, given: Any, labels: Labels) -> FloatArray:
    """Check one margin of the caller: its shape, entries and range; levels that it names are put in the order of X.

    The result has one axis for each mode of `group`, in that order.
    """
    name, expected = f"margin {key_of(group)}", tuple(labels.shape[k] for k in group)
    values = check_numeric(_order_levels(labels.part(group), given, name), name, InvalidMargins)
    if values.shape != expected:
        raise InvalidMargins(
            f"{name} has shape {values.shape}; X has shape {labels.shape}, so its margin over modes {key_of(group)} "
            f"has shape {expected}."
        )
    numbers = values.astype(np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        place = first_cell(wrong)
        raise InvalidMargins(f"{name}{cell_name(place)} = {numbers[place]:g}; entries must be finite and >= 0.")
    if not numbers.any():
        raise InvalidMargins(f"{name} sums to 0; the total must be > 0.")
    check_range(float(numbers[numbers > 0].min()), float(numbers.max()), finder(numbers), name, InvalidMargins)
    return numbers


def _order_levels(labels: Labels, given: Any, name: str) -> Any:
    """Put the entries of a labelled margin (a mapping of levels, Series, DataArray or table) in X's order of levels.

    `labels` are those of X for the modes of this margin. A margin without labels, or of another shape, is returned as
    it is. `name` is for errors: a level that X does not have, or that the margin lacks.
    """
    if isinstance(given, Mapping):
        given_labels, values = Labels.read((len(given),), None, [list(given)]), np.array(list(given.values()))
    else:
        values, origin = unwrap(given)
        if origin.labels is None or labels.levels is None or tuple(np.shape(values)) != labels.shape:
            return values
        given_labels = origin.labels
    for axis, size in enumerate(labels.shape):
        places = [
            labels.find_level(axis, value, name, InvalidMargins) for value in given_labels.levels_of(axis).tolist()
        ]
        if lost := set(range(size)).difference(places):
            raise InvalidMargins(f"{name} has no entry for {labels.level(axis, min(lost))!r}.")
        values = np.take(values, np.argsort(places), axis=axis)
    return values


def _check_agreement(values: dict[Modes, FloatArray], tol: float, rounding: float = 1e-12) -> None:
    """Refuse two margins that differ after each is summed to the modes that they share: no tensor could have both.

    Without shared modes these sums are the totals. Sums may differ by `tol` times their largest entry, and at least by
    `rounding` times it: the margins of one tensor, summed in different orders, differ that much.
    """
    for (a, first), (b, second) in combinations(values.items(), 2):
        shared = tuple(k for k in a if k in b)
        one, other = (sum_others(m, [group.index(k) for k in shared]) for m, group in ((first, a), (second, b)))
        off = np.abs(one - other)
        if off.max() <= max(tol, rounding) * one.max():
            continue
        place = np.unravel_index(int(off.argmax()), off.shape)
        sums = f"{one[place]:.12g} and {other[place]:.12g}"
        text = f"have different sums, {sums}. Both are the sum of one tensor: rescale one of them."
        if shared:
            where = f"the margin over modes {key_of(shared)}: {sums} at {cell_name(place)}"
            text = f"disagree about what they share, {where}, a difference of {off[place]:.3g}."
        raise InvalidMargins(f"margins {key_of(a)} and {key_of(b)} {text}")


# --- from theta to a tensor with the margins -------------------------------------------------------------------------


def split_into_factors(problem: Problem, point: Point, margins: Margins) -> dict[Modes, FloatArray]:
    """Turn theta into the log factors of `Balanced`: for each margin an array of its shape.

    They add up to ``log(total) + zeta(theta) - psi`` on each cell that is positive. The modes in which a
    parameter's cell is not 0 may lie in several margins: the first of them gets the parameter. The constant
    ``log(total) - psi`` goes to the first margin. A factor is 0, and its logarithm -inf, where the margin is 0.
    """
    positions, theta = problem.model.positions, point.theta.copy()
    log_factors: dict[Modes, FloatArray] = {}
    for modes in problem.prescribed or {}:
        rows, grid = list_within(positions, modes), np.zeros(margins.values[modes].shape)
        grid[tuple(positions[rows][:, modes].T)] = theta[rows]
        theta[rows] = 0.0  # later margins do not get them too
        part = zeta(grid)
        if not log_factors:
            part += np.log(margins.total) - point.psi
        part[margins.values[modes] == 0] = -np.inf
        log_factors[modes] = part
    return log_factors


def multiply(X: AnyArray, log_factors: dict[Modes, FloatArray], alive: BoolArray, widest: float = 400.0) -> FloatArray:
    """Multiply X by the factors of all margins; cells outside `alive` become 0.

    Where the product of some factors may be beyond ``exp(+-widest)``, logarithms are added instead: single factors
    could overflow although the product does not. float64 ends near ``exp(709)``; what is above `widest` is left to X.
    """
    logs = [np.expand_dims(part, other_modes(modes, X.ndim)) for modes, part in log_factors.items()]
    out = X.astype(np.float64)
    if sum(float(np.abs(log[np.isfinite(log)]).max(initial=0.0)) for log in logs) > widest:
        with np.errstate(divide="ignore"):
            out = np.exp(sum(logs, np.log(out)))
    else:
        for log in logs:
            out *= np.exp(log)
    out[~alive] = 0.0
    return out


def polish(
    X: AnyArray,
    alive: BoolArray,
    log_factors: dict[Modes, FloatArray],
    margins: Margins,
    tol: float,
    cycles: int,
) -> tuple[FloatArray, dict[Modes, FloatArray], float]:
    """Multiply X by the factors, then lower errors of the margins above tol by at most `cycles` cycles of scaling.

    Such errors remain where the rounding of eta hid them from the solver. A cycle multiplies by ``wanted / current``
    for each margin in turn (iterative proportional fitting). It is dropped, and no other tried, if it does not lower
    the error. Return the tensor, its log factors and its largest error, relative as in `Margins.largest_error`.
    """
    tensor = multiply(X, log_factors, alive)
    error = margins.largest_error(tensor, relative=True)
    for _ in range(cycles):
        if error <= tol:
            break
        trial, logs = tensor.copy(), {}
        for modes, part in log_factors.items():
            current, wanted = sum_others(trial, modes), margins.values[modes]
            ratio = np.divide(wanted, current, out=np.ones_like(current), where=(current > 0) & (wanted > 0))
            trial *= np.expand_dims(ratio, other_modes(modes, tensor.ndim))
            logs[modes] = part + np.log(ratio)
        after = margins.largest_error(trial, relative=True)
        if not after < error:
            break
        tensor, log_factors, error = trial, logs, after
    return tensor, log_factors, error
