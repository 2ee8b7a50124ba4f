"""Balancing: the e-projection of X onto the tensors with prescribed margins.

The model has base measure X on the support X > 0 and the basis of all interactions within the margins' modes; only
the expectations are not those of data but of the margins. Everything else is an ordinary fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidSetting
from legendre.core.labels import Mode
from legendre.core.origin import PLAIN
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.data.dense import Dense, in_memory
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.data.support import Support
from legendre.engines.choose import engine_for
from legendre.engines.matrix import MatrixEngine
from legendre.fitting.fit import show_progress
from legendre.fitting.plan import Settings
from legendre.model.problem import Problem
from legendre.solvers.loop import Callback, Outcome, run_in_turn
from legendre.solvers.newton import Natural, NaturalCG
from legendre.solvers.protocol import Solver, Target
from legendre.solvers.scaling import MatrixScaling, Scaling
from legendre.solvers.status import Status
from legendre.solvers.structure.faces import vanishing_cells
from legendre.solvers.structure.rank import independent
from legendre.tasks.balance.factors import POLISH, log_factors, polished
from legendre.tasks.balance.feasible import Program, Reach, possible_cells, reach
from legendre.tasks.balance.margins import Margins, MarginsLike, read_margins
from legendre.tasks.balance.result import Balanced
from legendre.tasks.balance.tempered import annealed

SOLVERS = ("gradient", "natural", "natural-cg", "matrix-scaling", "scaling")
"""The solvers that need no more of P than its margins."""
LEVEL = 1e-14  # the rounding error of expectations on a large grid; what it leaves in the margins is polished away


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
    progress: bool = False,
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
        Show a line on the terminal from the third second on.

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
    Balanced : The result of `balance`.
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
    with show_progress(bool(progress), callback) as (step, _):
        settings = replace(settings, callback=step)
        if settings.solver is not None and settings.solver.needs_mass:
            raise InvalidSetting(
                f"solver '{settings.solver.name}' needs a tensor with the margins, which is what balancing looks for. "
                f"Use auto, {', '.join(SOLVERS)}."
            )
        prior = _prior(X, names, levels)
        wanted = read_margins(margins, modes, total, prior.labels, settings.tol)
        shares = wanted.normalised()
        basis = interactions(list(shares)).select(prior)
        problem = Problem.with_margins(replace(prior, total=wanted.total), basis, shares)
        result = Projection(prior.values, problem, wanted, settings).balanced()
        if result.status not in (Status.CONVERGED, Status.AT_BOUNDARY):
            text = f"{result.status.value} (largest margin error {result.margin_error:.2e}, tol = {result.tol:g}, "
            warnings.warn(f"{text}{result.n_iter} steps)", ConvergenceWarning, stacklevel=2)
        return result if prior.origin is PLAIN else replace(result, origin=prior.origin)


def _prior(X: TensorLike, names: Names, levels: Levels) -> Dense:
    """Make X the base measure on its own support."""
    data = in_memory(read(X, prior=True, names=names, levels=levels), "balance")
    support = Support(data.values.shape, None if data.positive else data.values > 0)
    return replace(data, support=support, base=frozen(np.asarray(data.values, dtype=np.float64)), positive=True)


@dataclass(frozen=True, eq=False)
class Projection:
    """The arguments of `balance`, checked."""

    X: AnyArray
    problem: Problem
    margins: Margins
    settings: Settings

    def balanced(self) -> Balanced:
        """Solve on the cells that can be positive.

        Whether all can is a linear program or a flow. Cheap ones are solved first. Otherwise the answer itself is the
        proof, when it converges with a small tilt: the tensor behind its gap is positive and has the margins.
        """
        known = reach(self.problem)
        program = Program(self.problem, known.alive)
        cheap = not known.certain and (program.extreme or self._cheap(program))
        if cheap:
            known = possible_cells(program, known)
        outcome = self._solve(known)
        result = self._result(known, outcome)
        if known.certain or outcome.status is Status.STOPPED:
            return result
        if result.converged and outcome.tilt <= limits.PROOF_TILT:
            return replace(result, status=_found(result))
        decided = known if cheap else possible_cells(program, known)
        if decided.certain and ((decided.alive != known.alive).any() or not outcome.status.converged):
            outcome = self._solve(decided)
        return self._result(decided, outcome)

    @staticmethod
    def _cheap(program: Program) -> bool:
        if not program.bipartite:
            return program.small or program.size <= limits.SMALL_PROGRAM
        return program.size <= limits.SMALL_TRANSPORT or program.whole is not None

    def _face(self, known: Reach) -> BoolArray | None:
        alive = self.problem.model.alive
        return None if known.alive is alive or np.array_equal(known.alive, alive) else known.alive

    def _solve(self, known: Reach) -> Outcome:
        """Step from X itself; from near the answer where X is extreme, or where there is one and the steps failed."""
        program = Program(self.problem, known.alive)
        if program.extreme:
            return self._steps(known, *annealed(program, self._eta_tol()))
        outcome = self._steps(known, self.problem, np.zeros(self.problem.model.n_params))
        failed = outcome.status in (Status.STALLED, Status.OUT_OF_STEPS) and self.settings.max_iter is None
        if not (failed and known.certain and program.solvable):
            return outcome
        again = self._steps(known, *annealed(program, self._eta_tol()))
        return again if again.status is Status.CONVERGED else outcome

    def _steps(self, known: Reach, problem: Problem, ahead: FloatArray) -> Outcome:
        """Run the solvers from the problem's own base measure, which is `ahead` of X by this theta."""
        model, face, settings = self.problem.model, self._face(known), self.settings
        solvers = [settings.solver] if settings.solver else choose_for_margins(problem, prove=not known.certain)
        first, columns = solvers[0], np.arange(model.n_params)
        if not first.accepts_dependent:
            columns = independent(problem.model.on_face(face))
        reduced = problem.reduced(face, columns)
        matrix = first.needs_matrix and MatrixEngine.applies(reduced.model)
        engine = MatrixEngine(reduced.model) if matrix else engine_for(reduced.model)
        target = Target(engine, reduced, self._eta_tol())
        start = np.zeros(len(columns))
        outcome = run_in_turn(solvers, target, start, max_iter=settings.max_iter, callback=settings.callback)
        if len(columns) < model.n_params or problem is not self.problem:
            theta = ahead.copy()
            theta[columns] += outcome.point.theta
            whole = Target(engine_for(model.on_face(face)), self.problem, target.tol)
            outcome = replace(outcome, point=whole.at(theta))
        return outcome

    def _eta_tol(self) -> float:
        """Return how closely expectations must be met for the margins to be: a k-way entry is a sum of 2^k of them."""
        tol, margins = self.settings.tol, self.problem.prescribed or {}
        shares = [float(values.max()) * 0.5 ** len(modes) for modes, values in margins.items()]
        return min(tol, max(LEVEL, tol * min(shares)))

    def _result(self, known: Reach, outcome: Outcome) -> Balanced:
        model, face, tol = self.problem.model, self._face(known), self.settings.tol
        parts = log_factors(model, outcome.point, self.margins)
        alive = None if face is None else model.quotient.spread(face)
        cycles = POLISH if outcome.status in (Status.CONVERGED, Status.STALLED) else 0
        tensor, parts, error = polished(self.X, alive, parts, self.margins, tol, cycles)
        result = Balanced(
            X=self.X,
            margins=self.margins,
            values=frozen(tensor),
            parts=parts,
            model=model,
            point=outcome.point,
            eta_hat=self.problem.eta_hat,
            status=outcome.status,
            vanishing_cells=frozen(vanishing_cells(model, face)),
            gap=outcome.gap,
            solver=outcome.solver.name,
            history=outcome.history,
            tol=tol,
        )
        if error <= tol:
            return replace(result, status=_found(result) if known.certain else Status.UNDECIDED)
        return replace(result, status=Status.STALLED) if outcome.status is Status.CONVERGED else result


def _found(result: Balanced) -> Status:
    return Status.AT_BOUNDARY if len(result.vanishing_cells) else Status.CONVERGED


def choose_for_margins(problem: Problem, *, prove: bool) -> list[Solver]:
    """Choose by structure and size; a solver after the first goes on from where the one before it gave up."""
    model = problem.model
    if MatrixEngine.applies(model):
        return [MatrixScaling(prove=True, max_iter=limits.TRIAL_STEPS) if prove else MatrixScaling(prove=False)]
    small = model.n_params <= limits.LARGEST_MATRIX
    newton: Solver = Natural() if small else NaturalCG()
    if model.n_params and (model.n_params >= limits.SCALING_FROM or len(problem.prescribed or {}) == 1):
        return [Scaling(horizon=limits.SCALING_HORIZON if small else limits.SCALING_HORIZON_CG), newton]
    return [newton]
