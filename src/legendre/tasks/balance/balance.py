"""Balancing: the e-projection of X onto the tensors with prescribed margins.

The model has base measure X on the support X > 0 and the basis of all interactions within the margins' modes; only
the expectations are not those of data but of the margins. Everything else is an ordinary fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidSetting
from legendre.core.labels import Labels, Mode
from legendre.core.origin import PLAIN, Origin
from legendre.core.sums.linalg import limit_blas
from legendre.core.text import NamedValues, Table, shape_name
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Support
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.engines.choose import engine_for
from legendre.engines.matrix import MatrixEngine
from legendre.fitting.fit import Settings, show_progress
from legendre.model.model import Modes
from legendre.model.problem import Problem
from legendre.results.base import Certificate, ModelResult, modes_row
from legendre.results.views import ArrayPair
from legendre.solvers.loop import Callback, Outcome, Solver, Status, Step, Target, run_in_turn
from legendre.solvers.newton import Natural, NaturalCG
from legendre.solvers.scaling import MatrixScaling, Scaling
from legendre.solvers.structure.faces import vanishing_cells
from legendre.solvers.structure.rank import independent
from legendre.tasks.balance.feasible import Program
from legendre.tasks.balance.margins import Margins, MarginsLike, key_of, polish, read_margins, share_out

if TYPE_CHECKING:
    from legendre.results.plots.plots import Plots
    from legendre.results.report import ReportContent


@dataclass(frozen=True, eq=False, repr=False)
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
        Upper bound of KL(Q*, Q), where Q* is the tensor with exactly these margins; infinite if the solver has no
        bound.
    solver, history, n_iter, tol
        The solver that found it, and its steps.
    X, values
        X as it was read, and the balanced tensor, as arrays of NumPy; `tensor()` gives it in the form of X.

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
    parts: dict[Modes, FloatArray]
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

    @property
    def labels(self) -> Labels:
        """What the modes of X and their levels are called."""
        return self.origin.of(self.shape)

    @cached_property
    def margin_error(self) -> float:
        """The largest absolute error of a margin."""
        return self.margins.largest_error(self.values, relative=False)

    @cached_property
    def kl_to_X(self) -> float:
        """KL(Q, X) in nats, both normalised: how much balancing changed X, the least that meets the margins."""
        from scipy.special import rel_entr

        tensor = self.values
        q, x = tensor / tensor.sum(), self.X / self.X.sum(dtype=np.float64)
        return max(float(rel_entr(q, x).sum()), 0.0)  # rounding may leave -1e-17

    @property
    def plot(self) -> Plots:
        """Pictures of the balanced tensor beside X, scaled to the same total: ``.margins()``, ``.slices()``, ..."""
        from legendre.results.plots.plots import Plots

        return Plots(self, self._pair())

    def _pair(self) -> ArrayPair:
        """Return X with the sum of the margins, to be compared with the balanced tensor."""

        def arrays() -> tuple[FloatArray, FloatArray]:
            scale = self.margins.total / self.X.sum(dtype=np.float64)
            return np.asarray(self.X * scale, dtype=np.float64), self.values

        return ArrayPair(self.labels, arrays, "X, scaled", "balanced", may_count=False)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved of the tensor."""
        off = f"The margins are met to {self.margin_error:.1e} in their own units"
        n = len(self.vanishing_cells)
        gone = f"{n:,} cells with X > 0 are 0 in every tensor with these margins." if n else ""
        if not self.converged:
            return Certificate(False, "The margins are not met.", (f"{off}; tol is {self.tol:g}.", self.status.value))
        unique = "Of all tensors with these margins it is the nearest to X: the minimum of KL(Q, X), which is unique."
        return Certificate(True, "The margins are met.", tuple(filter(None, (f"{off}.", unique, gone))))

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the page shows: X beside the balanced tensor, both with the same sum."""
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
) -> Balanced:
    """Find the tensor with prescribed margins that is nearest to X: ``Q(v) = X(v) exp(sum of theta_u, u <= v)``.

    Also known as matrix scaling, Sinkhorn-Knopp, iterative proportional fitting, raking. Q minimises KL(Q, X).

    Parameters
    ----------
    X
        A nonnegative tensor of any kind that `decompose` takes, without missing cells. Cells with X = 0 stay 0. Every
        cell is held in memory.
    margins
        ``{0: row_sums, 1: column_sums}``, ``{(0, 1): M, (1, 2): K}`` or a list of one-way margins, one per mode. Modes
        may be named, and margins labelled (a Series, a DataArray, a mapping of levels). Default: uniform margins.
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
    Balanced
        Always, with a `ConvergenceWarning` where a margin was not met.

    Raises
    ------
    InvalidMargins
        When margins are malformed, contradict each other, or no tensor on X's support has them.

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
    """
    settings = Settings.read(solver, tol, max_iter, callback)
    with show_progress(progress, callback) as (step, _):
        settings = replace(settings, callback=step)
        if settings.solver is not None and settings.solver.needs_mass:
            raise InvalidSetting(
                f"solver '{settings.solver.name}' needs a tensor with the margins, which is what balancing looks for. "
                "Use auto, gradient, natural, natural-cg, matrix-scaling, scaling."
            )
        data = in_memory(read(X, prior=True, names=names, levels=levels), "balance")
        support = Support(data.values.shape, None if data.positive else data.values > 0)
        base = frozen(np.asarray(data.values, dtype=np.float64))
        prior = replace(data, support=support, base=base, positive=True)  # X is the base measure on its own support
        wanted = read_margins(margins, modes, total, prior.labels, settings.tol)
        shares = wanted.normalise()
        basis = interactions(list(shares)).select(prior)
        problem = Problem.with_margins(replace(prior, total=wanted.total), basis, shares)
        result = _project(prior.values, problem, wanted, settings)
        if result.status not in (Status.CONVERGED, Status.AT_BOUNDARY):
            text = f"{result.status.value} (largest margin error {result.margin_error:.2e}, tol = {result.tol:g}, "
            warnings.warn(f"{text}{result.n_iter} steps)", ConvergenceWarning, stacklevel=2)
        return result if prior.origin is PLAIN else replace(result, origin=prior.origin)


def _project(X: AnyArray, problem: Problem, margins: Margins, settings: Settings) -> Balanced:
    """Solve on the cells that can be positive.

    Whether all can is a linear program. Small ones take milliseconds and are solved first. Otherwise the answer itself
    is the proof, when it converges with a small tilt: the tensor behind its gap is positive and has the margins.
    """
    program = Program.of(problem)
    cheap = not program.certain and program.size <= 5_000
    if cheap:
        program = program.decide()
    outcome = _solve(program, settings)
    if not program.certain and outcome.status is not Status.STOPPED:
        result = _result(X, program, margins, outcome, settings.tol)
        if result.converged and outcome.tilt <= limits.PROOF_TILT:
            program = replace(program, certain=True)
        elif not cheap:
            decided = program.decide()
            if decided.certain and ((decided.alive != program.alive).any() or not outcome.status.converged):
                outcome = _solve(decided, settings)
            program = decided
    return _result(X, program, margins, outcome, settings.tol)


def _solve(program: Program, settings: Settings) -> Outcome:
    """Step from X itself; begin again with cycles if Newton's steps fail, as where cells of X are far apart."""
    if settings.solver is not None:
        return _run([settings.solver], program, settings)
    solvers = _choose_solvers(program.problem, prove=not program.certain)
    outcome = _run(solvers, program, settings)
    failed = outcome.status in (Status.STALLED, Status.OUT_OF_STEPS) and settings.max_iter is None
    # cycles left from which steps with a Fisher matrix are cheaper
    return _run([Scaling(horizon=100), *solvers], program, settings) if failed else outcome


def _run(solvers: list[Solver], program: Program, settings: Settings) -> Outcome:
    """Run solvers on the cells of the program, with independent parameters where the first one needs them."""
    problem, face = program.problem, program.face
    # A k-way entry is a sum of 2^k expectations, whose rounding error on a large grid is polished away.
    model, shares = problem.model, [float(m.max()) * 0.5 ** len(modes) for modes, m in program.margins.items()]
    tol = min(settings.tol, max(1e-14, settings.tol * min(shares)))
    first, columns = solvers[0], np.arange(model.n_params)
    if not first.accepts_dependent:
        columns = independent(model.on_face(face))
    reduced = problem.reduced(face, columns)
    matrix = first.needs_matrix and MatrixEngine.applies(reduced.model)
    engine = MatrixEngine(reduced.model) if matrix else engine_for(reduced.model)
    start = np.zeros(len(columns))
    target = Target(engine, reduced, tol)
    # products of a matrix and a vector wait for memory: more threads only wait for each other
    with limit_blas(0 if matrix else len(columns)):
        outcome = run_in_turn(solvers, target, start, max_iter=settings.max_iter, callback=settings.callback)
    if len(columns) < model.n_params:
        theta = np.zeros(model.n_params)
        theta[columns] = outcome.point.theta
        outcome = replace(outcome, point=Target(engine_for(model.on_face(face)), problem, tol).at(theta))
    return outcome


def _choose_solvers(problem: Problem, *, prove: bool, trial: int = 400) -> list[Solver]:
    """Choose by structure and size; a solver after the first goes on from where the one before it gave up.

    A matrix gets at most `trial` steps while it is not known whether there is an answer.
    """
    model = problem.model
    if MatrixEngine.applies(model):
        return [MatrixScaling(prove=True, max_iter=trial) if prove else MatrixScaling(prove=False)]
    small = model.n_params <= limits.LARGEST_MATRIX
    newton: Solver = Natural() if small else NaturalCG()
    if not model.n_params or (model.n_params < limits.SCALING_FROM and len(problem.prescribed or {}) > 1):
        return [newton]
    return [Scaling(horizon=100 if small else 1_000), newton]


def _result(X: AnyArray, program: Program, margins: Margins, outcome: Outcome, tol: float) -> Balanced:
    model, face, status = program.problem.model, program.face, outcome.status
    alive = None if face is None else model.quotient.spread(face)
    cycles = 5 if status in (Status.CONVERGED, Status.STALLED) else 0
    parts = share_out(model, outcome.point, margins)
    tensor, parts, error = polish(X, alive, parts, margins, tol, cycles)
    vanishing = vanishing_cells(model, face)
    if error <= tol and program.certain:
        status = Status.AT_BOUNDARY if len(vanishing) else Status.CONVERGED
    elif error <= tol:
        status = Status.UNDECIDED
    elif status is Status.CONVERGED:
        status = Status.STALLED
    return Balanced(
        X=X,
        margins=margins,
        values=frozen(tensor),
        parts=parts,
        model=model,
        theta=outcome.point.theta,
        eta=outcome.point.eta,
        psi=outcome.point.psi,
        eta_hat=program.problem.eta_hat,
        status=status,
        vanishing_cells=frozen(vanishing),
        gap=outcome.gap,
        solver=outcome.solver.name,
        history=outcome.history,
        tol=tol,
    )
