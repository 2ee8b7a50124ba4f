"""The public names for type checkers: `__init__.py` imports each of them when it is first used."""

from legendre import results as results
from legendre import solvers as solvers
from legendre.basis import ties as ties
from legendre.basis.adaptive import adaptive as adaptive
from legendre.basis.adaptive import boxes as boxes
from legendre.basis.basis import B1 as B1
from legendre.basis.basis import B2 as B2
from legendre.basis.basis import B3 as B3
from legendre.basis.basis import Basis as Basis
from legendre.basis.basis import full as full
from legendre.basis.features import features as features
from legendre.basis.graph import graph as graph
from legendre.basis.interactions import interactions as interactions
from legendre.core import errors as errors
from legendre.core.errors import ConvergenceWarning as ConvergenceWarning
from legendre.core.errors import LegendreError as LegendreError
from legendre.data import datasets as datasets
from legendre.data.readers.coordinates import from_coords as from_coords
from legendre.data.readers.coordinates import read_tns as read_tns
from legendre.data.readers.rows import from_rows as from_rows
from legendre.data.sparse_tensor import SparseTensor as SparseTensor
from legendre.fitting.fit import decompose as decompose
from legendre.fitting.fit import plan as plan
from legendre.model import dual as dual
from legendre.results.decomposition import Decomposition as Decomposition
from legendre.results.files import load as load
from legendre.results.files import save as save
from legendre.tasks import geometry as geometry
from legendre.tasks.balance import balance as balance
from legendre.tasks.compare import compare as compare
from legendre.tasks.complete.complete import complete as complete
from legendre.tasks.estimators import BoltzmannMachine as BoltzmannMachine
from legendre.tasks.estimators import LegendreDensity as LegendreDensity
from legendre.tasks.hidden import hidden as hidden
from legendre.tasks.loglinear.anova import anova as anova
from legendre.tasks.loglinear.loglinear import loglinear as loglinear
from legendre.tasks.warm import warm as warm

__version__: str
__all__: list[str]
