"""Solvers, and what it takes to write one: derive from `Solver`, define `start` and `advance`."""

from legendre.engines.protocol import Point
from legendre.solvers.gradient import Gradient
from legendre.solvers.loop import Evaluation, Solver, State, Step, Target
from legendre.solvers.newton import Closed, Natural, NaturalCG
from legendre.solvers.scaling import MatrixScaling, Scaling

__all__ = [
    "Closed",
    "Evaluation",
    "Gradient",
    "MatrixScaling",
    "Natural",
    "NaturalCG",
    "Point",
    "Scaling",
    "Solver",
    "State",
    "Step",
    "Target",
]
