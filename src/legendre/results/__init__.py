"""What comes back: the classes of results, to look up what their fields and methods mean."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legendre.fitting.fit import Plan as Plan
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
    "fitting.fit": "Plan",
    "results.effects": "Effects",
    "results.graph": "InteractionGraph",
    "results.growth_path": "GrowthStep",
    "results.inference.result": "Inference",
    "results.parameters": "Parameters",
    "solvers.loop": "Status",
    "tasks.balance": "Balanced",
    "tasks.complete.crossval": "CrossValidation",
    "tasks.complete.complete": "Completion",
    "tasks.hidden": "HiddenDecomposition",
    "tasks.loglinear.anova": "Anova",
    "tasks.loglinear.loglinear": "LogLinear",
}
"""Where each class lives: it is imported when it is first used."""

__all__ = sorted(name for names in PLACES.values() for name in names.split())

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        place = next((place for place, names in PLACES.items() if name in names.split()), None)
        if place is None:
            raise AttributeError(f"module 'legendre.results' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"legendre.{place}"), name)
        return found


def __dir__() -> list[str]:
    return __all__
