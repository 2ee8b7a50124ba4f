"""Legendre decomposition: nonnegative tensors of any order, decomposed by information geometry.

The method of Sugiyama, Nakahara and Tsuda, *Legendre Decomposition for Tensors* (NeurIPS 2018): the answer is unique,
minimises the KL divergence, and comes with its certificate.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from legendre.basis import B1 as B1
from legendre.basis import B2 as B2
from legendre.basis import B3 as B3
from legendre.basis import Basis as Basis
from legendre.basis import adaptive as adaptive
from legendre.basis import boltzmann as boltzmann
from legendre.basis import cells as cells
from legendre.basis import empty as empty
from legendre.basis import full as full
from legendre.basis import interactions as interactions
from legendre.basis import rbm as rbm
from legendre.coordinates import entropy as entropy
from legendre.coordinates import from_eta as from_eta
from legendre.coordinates import from_theta as from_theta
from legendre.coordinates import kl as kl
from legendre.coordinates import psi as psi
from legendre.coordinates import to_eta as to_eta
from legendre.coordinates import to_theta as to_theta
from legendre.decompose import decompose as decompose
from legendre.decomposition import Decomposition as Decomposition
from legendre.decomposition import Round as Round
from legendre.decomposition import load as load
from legendre.errors import CheckpointWarning as CheckpointWarning
from legendre.errors import ConvergenceWarning as ConvergenceWarning
from legendre.errors import InvalidBasis as InvalidBasis
from legendre.errors import InvalidFile as InvalidFile
from legendre.errors import InvalidMargins as InvalidMargins
from legendre.errors import InvalidQuery as InvalidQuery
from legendre.errors import InvalidSamples as InvalidSamples
from legendre.errors import InvalidSetting as InvalidSetting
from legendre.errors import InvalidSupport as InvalidSupport
from legendre.errors import InvalidTensor as InvalidTensor
from legendre.errors import LegendreError as LegendreError
from legendre.errors import NotFitted as NotFitted
from legendre.errors import TooLarge as TooLarge
from legendre.inference import Inference as Inference
from legendre.inference import LikelihoodRatio as LikelihoodRatio
from legendre.inference import likelihood_ratio as likelihood_ratio
from legendre.plan import Plan as Plan
from legendre.plan import plan as plan
from legendre.solvers import Closed as Closed
from legendre.solvers import Gradient as Gradient
from legendre.solvers import MProjection as MProjection
from legendre.solvers import Natural as Natural
from legendre.solvers import NaturalCG as NaturalCG
from legendre.solvers import Potentials as Potentials
from legendre.solvers import Scaling as Scaling
from legendre.solvers import Step as Step
from legendre.sparse import Coordinates as Coordinates
from legendre.sparse import from_batches as from_batches
from legendre.sparse import from_coords as from_coords
from legendre.sparse import from_rows as from_rows
from legendre.sparse import read_tns as read_tns
from legendre.status import Status as Status

if TYPE_CHECKING:
    from legendre import geometry as geometry
    from legendre.balancing import balance as balance
    from legendre.balancing.result import Balanced as Balanced
    from legendre.comparison import compare as compare
    from legendre.completion import Completion as Completion
    from legendre.completion import complete as complete
    from legendre.completion.crossval import CrossValidation as CrossValidation
    from legendre.estimators.boltzmann import BoltzmannMachine as BoltzmannMachine
    from legendre.estimators.density import LegendreDensity as LegendreDensity
    from legendre.latent import hidden as hidden
    from legendre.latent.result import HiddenDecomposition as HiddenDecomposition
    from legendre.smoothing import smooth as smooth
    from legendre.smoothing.result import Smoothed as Smoothed

__version__ = "0.1.0"

_LATE = {
    "Balanced": "legendre.balancing.result",
    "BoltzmannMachine": "legendre.estimators.boltzmann",
    "Completion": "legendre.completion",
    "CrossValidation": "legendre.completion.crossval",
    "HiddenDecomposition": "legendre.latent.result",
    "LegendreDensity": "legendre.estimators.density",
    "Smoothed": "legendre.smoothing.result",
    "balance": "legendre.balancing",
    "compare": "legendre.comparison",
    "complete": "legendre.completion",
    "geometry": "legendre.geometry",
    "hidden": "legendre.latent",
    "smooth": "legendre.smoothing",
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
