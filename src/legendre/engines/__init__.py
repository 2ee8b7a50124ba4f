"""Engines answer five questions about the model at theta; solvers know only those answers."""

from legendre.engines.choose import engine_for as engine_for
from legendre.engines.grid import GridEngine as GridEngine
from legendre.engines.protocol import Engine as Engine
from legendre.engines.protocol import Point as Point
