"""What comes back: the classes of results, to look up what their fields and methods mean."""

from importlib import import_module

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


def __getattr__(name: str) -> object:
    if name not in PLACES:
        raise AttributeError(f"module 'legendre.results' has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"legendre.{PLACES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return __all__
