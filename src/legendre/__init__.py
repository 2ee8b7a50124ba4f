"""Legendre decomposition: nonnegative tensors of any order, decomposed by information geometry.

The method of Sugiyama, Nakahara and Tsuda, *Legendre Decomposition for Tensors* (NeurIPS 2018): the answer is unique,
minimises the KL divergence, and comes with its certificate.
"""

from importlib import import_module

__version__ = "0.3.0"

_PLACES = {
    "basis.adaptive": "adaptive boxes",
    "basis.basis": "B1 B2 B3 Basis full",
    "basis.features": "features",
    "basis.graph": "graph",
    "basis.interactions": "interactions",
    "core.errors": "ConvergenceWarning LegendreError",
    "data.readers.coordinates": "from_coords",
    "data.readers.rows": "from_rows",
    "data.readers.tns": "read_tns",
    "data.sparse_tensor": "SparseTensor",
    "fitting.fit": "decompose plan",
    "results.decomposition": "Decomposition",
    "results.files": "load",
    "tasks.balance": "balance",
    "tasks.compare": "compare",
    "tasks.complete.complete": "complete",
    "tasks.estimators": "BoltzmannMachine LegendreDensity",
    "tasks.hidden": "hidden",
    "tasks.loglinear.anova": "anova",
    "tasks.loglinear.loglinear": "loglinear",
}
"""Where each public name lives: it is imported when it is first used, so that importing the package is quick."""


_SUBMODULES = {
    "datasets": "data.datasets",
    "dual": "model.dual",
    "errors": "core.errors",
    "geometry": "tasks.geometry",
    "results": "results",
    "solvers": "solvers",
    "ties": "basis.ties",
}
"""Where each public submodule lives."""

__all__ = sorted({name for names in _PLACES.values() for name in names.split()} | set(_SUBMODULES))


def __getattr__(name: str) -> object:
    """Import a public name or submodule when it is first used, and keep it."""
    place = next((place for place, names in _PLACES.items() if name in names.split()), _SUBMODULES.get(name))
    if place is None:
        raise AttributeError(f"module 'legendre' has no attribute {name!r}")
    module = import_module(f"legendre.{place}")
    globals()[name] = found = module if name in _SUBMODULES else getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
