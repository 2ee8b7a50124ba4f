"""Legendre decomposition: nonnegative tensors of any order, decomposed by information geometry.

The method of Sugiyama, Nakahara and Tsuda, *Legendre Decomposition for Tensors* (NeurIPS 2018): the answer is unique,
minimises the KL divergence, and comes with its certificate.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legendre.basis.adaptive import adaptive as adaptive
from legendre.basis.basis import Basis as Basis
from legendre.basis.basis import cells as cells
from legendre.basis.basis import empty as empty
from legendre.basis.basis import full as full
from legendre.basis.boltzmann import boltzmann as boltzmann
from legendre.basis.boltzmann import rbm as rbm
from legendre.basis.interactions import interactions as interactions
from legendre.basis.paper import B1 as B1
from legendre.basis.paper import B2 as B2
from legendre.basis.paper import B3 as B3
from legendre.core.errors import CheckpointWarning as CheckpointWarning
from legendre.core.errors import ConvergenceWarning as ConvergenceWarning
from legendre.core.errors import InvalidBasis as InvalidBasis
from legendre.core.errors import InvalidFile as InvalidFile
from legendre.core.errors import InvalidMargins as InvalidMargins
from legendre.core.errors import InvalidQuery as InvalidQuery
from legendre.core.errors import InvalidSamples as InvalidSamples
from legendre.core.errors import InvalidSetting as InvalidSetting
from legendre.core.errors import InvalidSupport as InvalidSupport
from legendre.core.errors import InvalidTensor as InvalidTensor
from legendre.core.errors import LegendreError as LegendreError
from legendre.core.errors import NotFitted as NotFitted
from legendre.core.errors import TooLarge as TooLarge
from legendre.data.readers.batches import from_batches as from_batches
from legendre.data.readers.coordinates import from_coords as from_coords
from legendre.data.readers.tables import from_rows as from_rows
from legendre.data.readers.tns import read_tns as read_tns
from legendre.data.sparse_tensor import SparseTensor as SparseTensor
from legendre.fitting.decompose import decompose as decompose
from legendre.fitting.plan import Plan as Plan
from legendre.fitting.plan import plan as plan
from legendre.model.dual import entropy as entropy
from legendre.model.dual import from_eta as from_eta
from legendre.model.dual import from_theta as from_theta
from legendre.model.dual import kl as kl
from legendre.model.dual import psi as psi
from legendre.model.dual import to_eta as to_eta
from legendre.model.dual import to_theta as to_theta
from legendre.results.decomposition import Decomposition as Decomposition
from legendre.results.inference.ratio import LikelihoodRatio as LikelihoodRatio
from legendre.results.inference.ratio import likelihood_ratio as likelihood_ratio
from legendre.results.inference.result import Inference as Inference
from legendre.results.rounds import Round as Round
from legendre.solvers import Closed as Closed
from legendre.solvers import Gradient as Gradient
from legendre.solvers import MatrixScaling as MatrixScaling
from legendre.solvers import MProjection as MProjection
from legendre.solvers import Natural as Natural
from legendre.solvers import NaturalCG as NaturalCG
from legendre.solvers import Scaling as Scaling
from legendre.solvers import Step as Step
from legendre.solvers.status import Status as Status

if TYPE_CHECKING:
    from legendre.tasks import geometry as geometry
    from legendre.tasks.balance.balance import balance as balance
    from legendre.tasks.balance.result import Balanced as Balanced
    from legendre.tasks.compare.run import compare as compare
    from legendre.tasks.complete.complete import complete as complete
    from legendre.tasks.complete.crossval import CrossValidation as CrossValidation
    from legendre.tasks.complete.result import Completion as Completion
    from legendre.tasks.estimators.boltzmann import BoltzmannMachine as BoltzmannMachine
    from legendre.tasks.estimators.density import LegendreDensity as LegendreDensity
    from legendre.tasks.hidden.hidden import hidden as hidden
    from legendre.tasks.hidden.result import HiddenDecomposition as HiddenDecomposition
    from legendre.tasks.load import load as load
    from legendre.tasks.smooth.result import Smoothed as Smoothed
    from legendre.tasks.smooth.smooth import smooth as smooth

__version__ = "0.1.0"

_LATE = {
    "Balanced": "legendre.tasks.balance.result",
    "BoltzmannMachine": "legendre.tasks.estimators.boltzmann",
    "Completion": "legendre.tasks.complete.result",
    "CrossValidation": "legendre.tasks.complete.crossval",
    "HiddenDecomposition": "legendre.tasks.hidden.result",
    "LegendreDensity": "legendre.tasks.estimators.density",
    "Smoothed": "legendre.tasks.smooth.result",
    "balance": "legendre.tasks.balance.balance",
    "compare": "legendre.tasks.compare.run",
    "complete": "legendre.tasks.complete.complete",
    "geometry": "legendre.tasks.geometry",
    "hidden": "legendre.tasks.hidden.hidden",
    "load": "legendre.tasks.load",
    "smooth": "legendre.tasks.smooth.smooth",
}
"""Front doors that are opened when somebody comes: importing the package stays quick."""


if not TYPE_CHECKING:  # type checkers know the names from above, and complain of others

    def __getattr__(name: str) -> object:
        if name not in _LATE:
            raise AttributeError(f"module 'legendre' has no attribute {name!r}")
        module = import_module(_LATE[name])
        return module if name == "geometry" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
