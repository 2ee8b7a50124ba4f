"""The classes of results for type checkers: `__init__.py` imports each of them when it is first used."""

from legendre.fitting.fit import Plan as Plan
from legendre.results.classes import ClassEffects as ClassEffects
from legendre.results.effects import Effects as Effects
from legendre.results.graph import InteractionGraph as InteractionGraph
from legendre.results.growth_path import GrowthStep as GrowthStep
from legendre.results.inference.result import Inference as Inference
from legendre.results.parameters import Parameters as Parameters
from legendre.solvers.loop import Status as Status
from legendre.tasks.balance import Balanced as Balanced
from legendre.tasks.complete.complete import Completion as Completion
from legendre.tasks.complete.crossval import CrossValidation as CrossValidation
from legendre.tasks.hidden import HiddenDecomposition as HiddenDecomposition
from legendre.tasks.loglinear.anova import Anova as Anova
from legendre.tasks.loglinear.loglinear import LogLinear as LogLinear

PLACES: dict[str, str]
__all__: list[str]
