"""Expectation-maximisation for hidden modes: the posterior, then one step of a Legendre fit, over and over.

That step alone lowers the visible KL, but slowly where the data say little about the hidden modes; two accelerations,
each taken only where it lowers KL further, make the end quick. All works on merged cells: the posterior of a hidden
mode is the same in all cells of a box.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh

from legendre.basis.basis import Cells
from legendre.core import limits
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.engines.protocol import Point
from legendre.fitting.plan import Plan, Settings, plan_on, searched
from legendre.model.problem import Problem
from legendre.solvers.loop import Step, run
from legendre.solvers.protocol import Evaluation, Solver, State, Target
from legendre.solvers.structure.faces import features

FLATTEST = 1e-6  # curvatures (relative to G, so at most 1) below this count as this: they do not show how far to go
LENGTHS = (1.0, 0.25, 0.0625)  # shares of a Newton step that are tried


@dataclass(frozen=True, eq=False)
class Run:
    """One run from one start."""

    theta: FloatArray  # natural parameters on all of B where it ended
    residual: float  # ``max|eta - eta_hat|`` there, the gradient of the visible KL(P, Q): 0 at a stationary point
    history: tuple[Step, ...]  # the start and each step; the objective is the visible KL(P, Q), which never rises

    @property
    def kl(self) -> float:
        """The visible KL(P, Q) where it ended."""
        return self.history[-1].objective


@dataclass(frozen=True, eq=False)
class Completed(Target):
    """The data completed by a point of the model, for the next step to fit; and the visible KL(P, Q) at that point."""

    point: Evaluation
    kl: float

    def at(self, theta: FloatArray) -> Evaluation:
        """Evaluate the model at theta; at the point itself that has been done."""
        return self.point if theta is self.point.theta else self.evaluated(self.engine.at(theta))


@dataclass(frozen=True, eq=False)
class HiddenModel(Solver):
    """Expectation-maximisation, and all that stays the same from step to step.

    Which cells can vanish depends on the visible zeros alone.
    """

    name: ClassVar[str] = "expectation-maximisation"
    convex: ClassVar[bool] = False
    plan: Plan  # of a fit to X spread evenly over the hidden levels
    n_visible: int
    mass: FloatArray  # P on the merged visible cells, with length 1 in the hidden modes
    within: float  # KL(P, Q) less KL between the merged tensors: the divergence inside the boxes
    max_iter: int = 5000
    patience: int = sys.maxsize  # each step lowers KL, be it by next to nothing

    @classmethod
    def of(cls, joint: Dense, cells: IntArray, n_visible: int) -> HiddenModel:
        """Plan the fit; `joint` is X spread evenly over the hidden levels."""
        plan = searched(plan_on(joint, Cells(cells), Settings(tol=0.0)))
        mass = visible_sums(plan.problem.mass, n_visible, keepdims=True)
        return cls(plan, n_visible, mass, _divergence_within(joint, plan.problem, n_visible))

    def expectation(self, point: Point) -> Completed:
        """E-step: share the data among the hidden levels by their posterior probability.

        With a base measure a visible probability may be below the range of float64; its logarithm is not.
        """
        engine, problem = self.plan.target.engine, self.plan.target.problem
        log_q, inside, unit = engine.log_probabilities(point), self.mass > 0, 0.0
        q = np.exp(log_q)
        visible = visible_sums(q, self.n_visible, keepdims=True)
        if (visible[inside] < sys.float_info.min).any():
            peak = np.where(inside, log_q.max(axis=tuple(range(self.n_visible, log_q.ndim)), keepdims=True), 0.0)
            q, unit = np.exp(log_q - peak), float(self.mass[inside] @ peak[inside])
            visible = visible_sums(q, self.n_visible, keepdims=True)
        ratio = np.divide(self.mass, visible, out=np.zeros_like(visible), where=inside)
        target = Target(engine, problem.completed(q * ratio), 0.0)
        kl = float(self.mass[inside] @ np.log(ratio[inside])) - unit + self.within
        return Completed(engine, target.problem, 0.0, target.evaluated(point), kl)

    def run(self, theta: FloatArray, tol: float, max_iter: int) -> Run:
        """Alternate until ``max|eta - eta_hat| <= tol``, no step lowers KL any more, or the budget is spent."""
        columns = self.plan.columns
        outcome = run(self, replace(self.plan.target, tol=tol, whole=None), theta[columns], max_iter)
        everywhere = np.zeros(len(theta))
        everywhere[columns] = outcome.point.theta
        return Run(everywhere, outcome.history[-1].residual, outcome.history)

    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin at theta."""
        return _state((self.expectation(target.engine.at(theta)),), theta)

    def advance(self, target: Target, state: State) -> State | None:
        """Take two steps, then a Newton step or else a jump in their direction, over and over, while KL falls."""
        del target
        trail: tuple[Completed, ...] = state.memory
        if len(trail) == 3:
            jump = self._newton(trail[-1]) or self._jump(*trail)
            if jump is not None:
                return _state((jump,), state.point.theta)
            trail = trail[-1:]
        following = self._step(trail[-1])
        return None if following is None else _state((*trail, following), state.point.theta)

    @cached_property
    def _features(self) -> FloatArray | None:
        """Zeta on every merged cell, visible x hidden x |B|; ``None`` where that would be large."""
        model = self.plan.target.problem.model
        if model.n_merged * model.n_params > limits.LARGEST_FEATURES:
            return None
        every = np.ones(model.quotient.merged_shape, dtype=np.bool_)
        return features(model, every).reshape(-1, math.prod(every.shape[self.n_visible :]), model.n_params)

    def _newton(self, now: Completed) -> Completed | None:
        """Take Newton's step for the visible KL, shortened if need be; ``None`` where it does not lower it.

        The Hessian is G less the information that the hidden modes keep to themselves: the covariance of the features
        given the visible cell, averaged over the data (Louis 1982). A step of expectation-maximisation leaves that out.
        Where KL is not convex, the step goes down the axes of negative curvature, as far as their curvature allows.
        Three lengths are tried here, not by `solvers.linesearch`: that is for convex objectives, and the visible KL is
        not convex.
        """
        zeta_matrix = self._features
        if zeta_matrix is None:
            return None
        joint = now.problem.mass.reshape(zeta_matrix.shape[:2])
        visible = joint.sum(axis=1, keepdims=True)
        share = np.divide(joint, visible, out=np.zeros_like(joint), where=visible > 0)
        spread = zeta_matrix - np.einsum("vh,vhk->vk", share, zeta_matrix)[:, None, :]
        flat = spread.reshape(-1, spread.shape[2])
        G = now.engine.fisher(now.point)
        try:
            curvature, axes = eigh(G - flat.T @ (joint.reshape(-1, 1) * flat), G)
            slopes = axes.T @ now.point.gradient
            direction = axes @ (slopes / np.maximum(np.abs(curvature), FLATTEST))
        except np.linalg.LinAlgError:
            return None
        for length in LENGTHS:
            with np.errstate(all="ignore"):  # far out everything may overflow; such a step is not taken
                following = self.expectation(now.engine.at(now.point.theta - length * direction))
            if following.kl < now.kl:
                return following
        return None

    def _jump(self, start: Completed, first: Completed, second: Completed) -> Completed | None:
        """Extrapolate two steps (SQUAREM, Varadhan and Roland 2008); ``None`` where that does not lower KL further."""
        theta = start.point.theta
        change = first.point.theta - theta
        bend = second.point.theta - first.point.theta - change
        if not np.linalg.norm(change) > np.linalg.norm(bend) > 0:
            return None
        length = float(np.linalg.norm(change) / np.linalg.norm(bend))
        with np.errstate(all="ignore"):  # far out everything may overflow; such a jump is not taken
            following = self.expectation(start.engine.at(theta + 2 * length * change + length**2 * bend))
        return following if following.kl <= second.kl else None

    def _step(self, now: Completed) -> Completed | None:
        """M-step: one step of the solver towards the completed data: as KL to them falls, so does the visible KL."""
        solver = self.plan.solvers[0]
        with np.errstate(divide="ignore", invalid="ignore"):  # a margin may underflow to 0: such a step is not taken
            state = solver.advance(now, solver.start(now, now.point.theta))
        if state is None or not np.isfinite(state.point.theta).all():
            return None
        following = self.expectation(now.engine.at(state.point.theta))
        blur = 8 * float(np.finfo(np.float64).eps) * (1.0 + abs(following.point.psi))
        return following if following.kl <= now.kl + blur else None


def _state(trail: tuple[Completed, ...], before: FloatArray) -> State:
    """Stand at the end of a trail that begins with a start or a jump; the objective is the visible KL(P, Q).

    The length of a step is how far theta moved, for there is no full step to measure it by.
    """
    now = trail[-1]
    moved = float(np.linalg.norm(now.point.theta - before))
    return State(replace(now.point, objective=now.kl), memory=trail, step=moved)


def visible_sums(tensor: FloatArray, n_visible: int, *, keepdims: bool = False) -> FloatArray:
    """Sum a tensor over its hidden modes, which come last."""
    sums: FloatArray = tensor.sum(axis=tuple(range(n_visible, tensor.ndim)), keepdims=keepdims)
    return sums


def _divergence_within(joint: Dense, problem: Problem, n_visible: int) -> float:
    """``sum p log(p / r)`` over cells less the same over boxes, P being summed over the hidden modes."""
    levels = math.prod(joint.shape[n_visible:])
    first: Any = (..., *[0] * (len(joint.shape) - n_visible))
    with np.errstate(over="ignore"):  # entries outside the support may be anything
        p = joint.values[first] / joint.total * levels
    inside = p > 0 if joint.support.mask is None else joint.support.mask[first] & (p > 0)
    log_ratio = np.log(p[inside])  # logarithms are subtracted, for the ratio may leave the range of float64
    if joint.base is not None:
        log_ratio -= np.log(joint.base[first][inside])
    mass, measure = (visible_sums(part, n_visible) for part in (problem.mass, problem.model.weights / levels))
    full = mass > 0
    return float(p[inside] @ log_ratio) - float(mass[full] @ (np.log(mass[full]) - np.log(measure[full])))
