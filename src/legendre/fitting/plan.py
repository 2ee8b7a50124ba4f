"""The plan: everything that is decided before the first step, and its price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Basis, most_of
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.arguments import is_real, is_whole
from legendre.core.checkpoint import UNRECORDED, Record
from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.types import FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.engines.choose import engine_for
from legendre.engines.product import ProductEngine
from legendre.model.margins import margins_that_are_the_model
from legendre.model.model import Model
from legendre.model.problem import Problem
from legendre.solvers.before.faces import Face, find_face
from legendre.solvers.before.rank import independent
from legendre.solvers.choose import choose, read_solver
from legendre.solvers.history import Callback, Outcome, Step, pack_outcome
from legendre.solvers.loop import run
from legendre.solvers.protocol import Solver, Target
from legendre.solvers.scaling import Scaling
from legendre.solvers.status import Status


@dataclass(frozen=True, eq=False)
class Plan:
    """A problem, the face it lives on, its independent parameters, an engine and the solvers that will run.

    Print it to see what a fit will cost. `whole` is the problem with all of its parameters, where some are dependent
    but the basis is a set of margins: scaling needs no matrix and does not mind, so that it is tried first.
    """

    recipe: Basis
    problem: Problem
    face: Face
    columns: IntArray
    target: Target
    solvers: tuple[Solver, ...]
    tol: float
    whole: Target | None = None

    def run(
        self, theta: FloatArray, max_iter: int | None, callback: Callback | None, record: Record = UNRECORDED
    ) -> tuple[Outcome, str]:
        """Run the solvers one after the other until one converges; return the outcome and who found it.

        theta has an entry for every parameter, the outcome one for every independent parameter (or for all of them,
        if scaling found it).
        """
        if self.whole is not None:
            record.claim(lambda: {"max_iter": "not set" if max_iter is None else "set"})
        if self.whole is not None and max_iter is None:
            scaling, leg = Scaling(max_iter=limits.DEPENDENT_CYCLES), record.section("whole")
            outcome = run(
                scaling, self.whole, theta, tol=self.tol, max_iter=scaling.max_iter, callback=callback, record=leg
            )
            if outcome.status in (Status.CONVERGED, Status.STOPPED):
                return outcome, scaling.name
            leg.close(pack_outcome(outcome), now=False)
        return run_in_turn(
            self.solvers,
            self.target,
            theta[self.columns],
            tol=self.tol,
            max_iter=max_iter,
            callback=callback,
            record=record,
        )

    def __str__(self) -> str:
        model, k = self.problem.model, len(self.columns)
        engine = type(self.target.engine).__name__.removesuffix("Engine").lower()
        names = [*(["scaling"] if self.whole is not None else []), *(solver.name for solver in self.solvers)]
        lines = [
            f"{size_name(model.support.n_cells)} cells in the sample space, merged into {size_name(model.n_alive)}",
            f"{model.n_params:,} parameters, {k:,} of them independent",
            f"solver {', then '.join(names)} on the {engine} engine",
            f"one sweep: {_additions(self.target.problem.model):.1e} additions",
        ]
        if model.by_cliques:
            tree = model.cliques
            lines.insert(3, f"{len(tree.cliques):,} cliques, the largest of {tree.largest.n_cells:,} cells")
        if self.solvers[0].name == "natural":
            lines.append(f"one step: a Fisher matrix of {8 * k * k / 2**20:,.1f} MiB, {k**3 / 3:.1e} flops to factor")
        return "\n".join(lines)


def _additions(model: Model) -> int:
    if not model.by_cliques:
        return model.n_merged * len(model.support.shape)
    return 2 * sum(clique.n_cells * len(clique.modes) for clique in model.cliques.cliques)


def run_in_turn(
    solvers: Sequence[Solver],
    target: Target,
    theta: FloatArray,
    *,
    tol: float,
    max_iter: int | None,
    callback: Callback | None,
    record: Record = UNRECORDED,
) -> tuple[Outcome, str]:
    """Run solvers one after the other until one converges; return the outcome and who found it."""
    history: tuple[Step, ...] = ()
    for turn, solver in enumerate(solvers):
        leg = record.section(f"{turn}")
        done = len(history[1:])
        limit = _limit(solver, None if max_iter is None else max_iter - done, last=solver is solvers[-1])
        watch = None if callback is None else _renumbered(callback, done)
        outcome = run(solver, target, theta, tol=tol, max_iter=limit, callback=watch, record=leg)
        fresh = outcome.history[1 if history else 0 :]
        history += tuple(replace(step, iteration=step.iteration + done) for step in fresh)
        if outcome.status in (Status.CONVERGED, Status.STOPPED) or len(history) - 1 == max_iter:
            break
        if solver is not solvers[-1]:
            leg.close(pack_outcome(outcome), now=False)
        if np.isfinite(outcome.point.theta).all():
            theta = outcome.point.theta
    return replace(outcome, history=history), solver.name


def _limit(solver: Solver, left: int | None, *, last: bool) -> int:
    if left is None:
        return solver.max_iter
    return left if last else min(left, solver.max_iter)


def _renumbered(callback: Callback, done: int) -> Callback:
    """Count a later solver's steps on from the earlier one's; its start was seen as the earlier one's end."""

    def watch(step: Step) -> bool | None:
        return None if done and not step.iteration else callback(replace(step, iteration=step.iteration + done))

    return watch


def plan(
    X: TensorLike,
    basis: Basis | str | ArrayLike,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
) -> Plan:
    """Decide everything that `decompose` decides before its first step, without taking it.

    Parameters are those of `decompose`.

    Examples
    --------
    >>> import legendre as ld
    >>> print(ld.plan(np.random.default_rng(0).random((20, 20, 20)), "B3(20)"))
    8,000 cells in the sample space, merged into 8,000
    400 parameters, 400 of them independent
    solver natural on the reference engine
    one sweep: 2.4e+04 additions
    one step: a Fisher matrix of 1.2 MiB, 2.1e+07 flops to factor
    """
    asked = read_solver(solver)
    check_tol(tol)
    recipe = as_basis(basis)
    return plan_on(read(X, support, base, rankings=rankings_of(recipe, X)), recipe, asked, float(tol))


def rankings_of(recipe: Basis, X: object) -> dict[int, int]:
    """Tell which slices of X a basis will rank, where X knows its shape before it is read."""
    shape = getattr(X, "shape", ())
    if not shape:
        return {}
    if isinstance(recipe, Adaptive):
        named = as_basis(recipe.start), as_basis(recipe.candidates or "empty")
        return most_of(*(part.rankings(shape) for part in named))
    return recipe.rankings(shape)


def plan_on(data: Observation, recipe: Basis, asked: Solver | None, tol: float, *, ranked: bool = True) -> Plan:
    """Plan for a tensor that has been read; ``asked = None`` leaves the choice of the solver to `choose`.

    With ``ranked = False`` large sets of margins are taken as they are: scaling does not need to know which parameters
    are independent, and finding out takes longer.
    """
    problem = Problem.of(data, recipe.select(data))
    face = find_face(problem)
    if asked is None and not ranked and _scales(problem):
        return _unranked(recipe, problem, face, tol)
    columns = independent(problem.model.on_face(face.alive))
    reduced = problem.reduced(face.alive, columns)
    seen = face.certain or (ProductEngine.applies(reduced.model) and reduced.sees_levels)
    solvers = choose(reduced.model, grid=problem.has_grid, seen=seen) if asked is None else [asked]
    engine = engine_for(reduced.model, products=solvers[-1].name == "natural-cg")
    whole = _whole(problem, face, columns, tol) if asked is None else None
    return Plan(recipe, problem, face, columns, Target(engine, reduced, tol), tuple(solvers), tol, whole)


def _whole(problem: Problem, face: Face, columns: IntArray, tol: float) -> Target | None:
    """Keep dependent parameters where scaling can do with them and a Fisher matrix would be large."""
    if len(columns) == problem.model.n_params or not _scales(problem):
        return None
    every = problem.reduced(face.alive, np.arange(problem.model.n_params))
    return Target(engine_for(every.model), every, tol)


def _scales(problem: Problem) -> bool:
    return (
        problem.has_grid
        and problem.model.n_params >= limits.SCALING_FROM
        and margins_that_are_the_model(problem.model) is not None
    )


def _unranked(recipe: Basis, problem: Problem, face: Face, tol: float) -> Plan:
    every = np.arange(problem.model.n_params)
    target = Target(engine_for(problem.model.on_face(face.alive)), problem.reduced(face.alive, every), tol)
    return Plan(recipe, problem, face, every, target, (Scaling(max_iter=limits.DEPENDENT_CYCLES),), tol)


def check_tol(tol: float) -> None:
    """Refuse a tolerance that is none."""
    if not (is_real(tol) and tol >= 0):
        raise InvalidSetting(f"tol must be a number >= 0, got {tol!r}.")


def check_callback(callback: Callback | None) -> None:
    """Refuse what cannot be called."""
    if callback is not None and not callable(callback):
        raise InvalidSetting(f"callback must be a function of a Step, got {callback!r}.")


def check_limit(max_iter: int | None) -> None:
    """Refuse a limit of steps that is none."""
    if max_iter is None:
        return
    if not is_whole(max_iter, 0):
        raise InvalidSetting(f"max_iter must be an integer >= 0, got {max_iter!r}.")
