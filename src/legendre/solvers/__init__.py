"""Solvers: small functions of a target (engine, expectations, tolerance) and a state; one loop runs them all."""

from legendre.solvers.choose import check_packs as check_packs
from legendre.solvers.choose import choose as choose
from legendre.solvers.choose import read_solver as read_solver
from legendre.solvers.closed import Closed as Closed
from legendre.solvers.gradient import Gradient as Gradient
from legendre.solvers.history import Outcome as Outcome
from legendre.solvers.history import Step as Step
from legendre.solvers.loop import run as run
from legendre.solvers.matrix_scaling import MatrixScaling as MatrixScaling
from legendre.solvers.mprojection import MProjection as MProjection
from legendre.solvers.natural import Natural as Natural
from legendre.solvers.natural_cg import NaturalCG as NaturalCG
from legendre.solvers.protocol import Solver as Solver
from legendre.solvers.scaling import Scaling as Scaling
