"""The e-projection onto prescribed margins: which cells can be positive, which solver, and the result."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.types import AnyArray, BoolArray
from legendre.engines.choose import engine_for
from legendre.engines.matrix import MatrixEngine
from legendre.fitting.plan import Settings
from legendre.model.problem import Problem
from legendre.solvers.before.faces import vanishing_cells
from legendre.solvers.before.rank import independent
from legendre.solvers.loop import Outcome, run_in_turn
from legendre.solvers.matrix_scaling import MatrixScaling
from legendre.solvers.natural import Natural
from legendre.solvers.natural_cg import NaturalCG
from legendre.solvers.protocol import Solver, Target
from legendre.solvers.scaling import Scaling
from legendre.solvers.status import Status
from legendre.tasks.balance.feasible import Reach, possible_cells, reach
from legendre.tasks.balance.margins import Margins
from legendre.tasks.balance.program import Program, whole_numbers
from legendre.tasks.balance.result import POLISH, Balanced, log_factors, multiplied, polished

LEVEL = 1e-14
"""Expectations on a large grid are not known better; what that leaves of the margins' errors is polished away."""


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
        cheap = not known.certain and self._cheap(Program(self.problem, known.alive))
        if cheap:
            known = self._decided(known)
        outcome, solver = self._solve(known)
        result = self._result(known, outcome, solver)
        if known.certain or outcome.status is Status.STOPPED:
            return result
        if result.converged and outcome.tilt <= limits.PROOF_TILT:
            return replace(result, status=_found(result))
        decided = known if cheap else self._decided(known)
        if decided.certain and (decided.alive != known.alive).any():
            outcome, solver = self._solve(decided)
        return self._result(decided, outcome, solver)

    @staticmethod
    def _cheap(program: Program) -> bool:
        if not program.bipartite:
            return program.size <= limits.SMALL_PROGRAM
        return program.size <= limits.SMALL_TRANSPORT or whole_numbers(program) is not None

    def _decided(self, known: Reach) -> Reach:
        alive = possible_cells(self.problem, known.alive)
        return known if alive is None else Reach(alive, certain=True)

    def _face(self, known: Reach) -> BoolArray | None:
        alive = self.problem.model.alive
        return None if known.alive is alive or np.array_equal(known.alive, alive) else known.alive

    def _solve(self, known: Reach) -> tuple[Outcome, str]:
        model, face, asked = self.problem.model, self._face(known), self.settings
        solvers = [asked.solver] if asked.solver else choose_for_margins(self.problem, prove=not known.certain)
        every = columns = np.arange(model.n_params)
        if not solvers[0].accepts_dependent:
            columns = independent(model.on_face(face))
        reduced = self.problem.reduced(face, columns)
        matrix = solvers[0].needs_matrix and MatrixEngine.applies(reduced.model)
        engine = MatrixEngine(reduced.model) if matrix else engine_for(reduced.model)
        target = Target(engine, reduced, self._eta_tol())
        start = np.zeros(len(columns))
        outcome = run_in_turn(solvers, target, start, max_iter=asked.max_iter, callback=asked.callback)
        if len(columns) < len(every):
            theta = np.zeros(len(every))
            theta[columns] = outcome.point.theta
            whole = Target(engine_for(model.on_face(face)), self.problem, target.tol)
            outcome = replace(outcome, point=whole.at(theta))
        return outcome, outcome.solver.name

    def _eta_tol(self) -> float:
        """How closely expectations must be met for the margins to be: a k-way entry is a sum of 2^k of them."""
        shares = [float(values.max()) * 0.5 ** len(modes) for modes, values in (self.problem.prescribed or {}).items()]
        tol = self.settings.tol
        return min(tol, max(LEVEL, tol * min(shares)))

    def _result(self, known: Reach, outcome: Outcome, solver: str) -> Balanced:
        model, face, tol = self.problem.model, self._face(known), self.settings.tol
        parts = log_factors(model, outcome.point, self.margins)
        alive = None if face is None else model.quotient.spread(face)
        cycles = POLISH if outcome.status in (Status.CONVERGED, Status.STALLED) else 0
        tensor, parts, error = polished(multiplied(self.X, parts, alive), parts, self.margins, tol, cycles)
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
            solver=solver,
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
