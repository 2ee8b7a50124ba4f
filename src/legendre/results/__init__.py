"""What comes back: the classes of results, to look up what their fields and methods mean."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

PLACES = {
    "Plan": "fitting.fit",
    "ClassEffects": "results.classes",
    "Effects": "results.effects",
    "InteractionGraph": "results.graph",
    "GrowthStep": "results.growth_path",
    "Inference": "results.inference.result",
    "Parameters": "results.parameters",
    "Status": "solvers.loop",
    "Balanced": "tasks.balance",
    "CrossValidation": "tasks.complete.crossval",
    "Completion": "tasks.complete.complete",
    "HiddenDecomposition": "tasks.hidden",
    "Anova": "tasks.loglinear.anova",
    "LogLinear": "tasks.loglinear.loglinear",
}
"""The module of each class: it is imported when it is first used."""

__all__ = sorted(PLACES)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in PLACES:
            raise AttributeError(f"module 'legendre.results' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"legendre.{PLACES[name]}"), name)
        return found


def __dir__() -> list[str]:
    return __all__
