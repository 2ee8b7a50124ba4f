"""Legendre decomposition: nonnegative tensors of any order, decomposed by information geometry.

The method of Sugiyama, Nakahara and Tsuda, *Legendre Decomposition for Tensors* (NeurIPS 2018): the answer is unique,
minimises the KL divergence, and comes with its certificate.
"""

from importlib import import_module

__version__ = "0.3.0"

_PLACES = {
    "B1": "basis.basis",
    "B2": "basis.basis",
    "B3": "basis.basis",
    "Basis": "basis.basis",
    "BoltzmannMachine": "tasks.estimators",
    "ConvergenceWarning": "core.errors",
    "Decomposition": "results.decomposition",
    "LegendreDensity": "tasks.estimators",
    "LegendreError": "core.errors",
    "SparseTensor": "data.sparse_tensor",
    "adaptive": "basis.adaptive",
    "anova": "tasks.loglinear.anova",
    "balance": "tasks.balance",
    "boxes": "basis.adaptive",
    "compare": "tasks.compare",
    "complete": "tasks.complete.complete",
    "datasets": "data.datasets",
    "decompose": "fitting.fit",
    "dual": "model.dual",
    "errors": "core.errors",
    "features": "basis.features",
    "from_coords": "data.readers.coordinates",
    "from_rows": "data.readers.rows",
    "full": "basis.basis",
    "geometry": "tasks.geometry",
    "graph": "basis.graph",
    "hidden": "tasks.hidden",
    "interactions": "basis.interactions",
    "load": "results.files",
    "loglinear": "tasks.loglinear.loglinear",
    "plan": "fitting.fit",
    "read_tns": "data.readers.coordinates",
    "results": "results",
    "save": "results.files",
    "solvers": "solvers",
    "ties": "basis.ties",
    "warm": "tasks.warm",
}
"""The module of each public name, which is imported when the name is first used: importing the package is quick."""

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    """Import a public name, or a submodule that has the name itself, when it is first used, and keep it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'legendre' has no attribute {name!r}")
    module = import_module(f"legendre.{_PLACES[name]}")
    globals()[name] = found = getattr(module, name, module)
    return found


def __dir__() -> list[str]:
    return __all__
