"""Data flows one way: a module imports only from modules above it in this list."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import legendre

ROOT = Path(legendre.__file__).parent

# One layer per line; a module imports from earlier lines only.
LAYERS = [
    ["errors"],
    ["arrays"],
    ["homes"],
    ["sweeps"],
    ["peers", "storage", "table"],
    ["checkpoint.record"],
    ["checkpoint.book"],
    ["checkpoint.section"],
    ["checkpoint"],
    ["kernels"],
    ["kernels.rectangle", "kernels.sheet", "kernels.text", "kernels.top", "kernels.vecchia"],
    ["kernels.dominance", "kernels.reading", "kernels.stream"],
    ["zeta"],
    ["dominance", "quotient"],
    ["sparse.bar", "sparse.columns", "sparse.keys"],
    ["sparse.checks", "sparse.lines"],
    ["sparse.blocks", "sparse.core"],
    ["sparse.convert", "sparse.lists", "sparse.rows", "sparse.text"],
    ["sparse.archive", "sparse.batches"],
    ["sparse"],
    ["support"],
    ["intake.checks", "intake.observation"],
    ["intake.dense"],
    ["intake.passes", "intake.pieces", "intake.remote", "intake.sparse"],
    ["intake.survey"],
    ["intake.blocks"],
    ["intake.reading"],
    ["intake"],
    ["basis.core"],
    ["basis.adaptive", "basis.interactions", "basis.paper"],
    ["basis.boltzmann"],
    ["basis.parse"],
    ["basis"],
    ["coordinates"],
    ["cliques"],
    ["cliques.graph"],
    ["model"],
    ["cliques.tables"],
    ["cliques.closed", "cliques.covariance", "cliques.sums"],
    ["hierarchy"],
    ["problem"],
    ["engines.protocol"],
    ["engines.grid", "engines.vecchia"],
    ["engines.junction", "engines.matrix", "engines.points", "engines.product", "engines.sheet", "engines.stream"],
    ["engines.device"],
    ["engines.choose"],
    ["engines"],
    ["linalg"],
    ["rank"],
    ["identify"],
    ["existence"],
    ["status"],
    ["solvers.protocol"],
    ["solvers.linesearch", "solvers.rate"],
    ["solvers.history"],
    ["solvers.loop"],
    ["solvers.natural"],
    [
        "solvers.closed",
        "solvers.natural_cg",
        "solvers.gradient",
        "solvers.mprojection",
        "solvers.potentials",
        "solvers.scaling",
    ],
    ["solvers.choose"],
    ["solvers"],
    ["plan"],
    ["progress"],
    ["views"],
    ["views.asked", "views.law", "views.pack", "views.report"],
    ["views.tensor"],
    ["views.listed", "views.remote"],
    ["views.query"],
    ["inference.chisquare", "inference.counts", "inference.wald"],
    ["inference.printout", "inference.ratio", "inference.residuals"],
    ["inference.result"],
    ["inference"],
    ["decomposition"],
    ["fit"],
    ["growing.coarse", "growing.scores"],
    ["growing.search"],
    ["growing.rounds"],
    ["growing.heldout"],
    ["growing"],
    ["decompose"],
    ["completion.candidates", "completion.crossval", "completion.extrapolate", "completion.folds", "completion.report"],
    ["completion.observed", "completion.selection"],
    ["completion"],
    ["smoothing.result", "smoothing.waves"],
    ["smoothing.penalised"],
    ["smoothing.tuning"],
    ["smoothing"],
    ["balancing.margins", "balancing.program"],
    ["balancing.feasible", "balancing.result"],
    ["balancing.projection"],
    ["balancing"],
    ["geometry.geodesics"],
    ["geometry.ladder", "geometry.triangle"],
    ["geometry.plots"],
    ["geometry"],
    ["comparison.rows", "comparison.scores", "comparison.sizes"],
    ["comparison.plots", "comparison.run"],
    ["comparison"],
    ["latent.em"],
    ["latent.result"],
    ["latent"],
    ["estimators"],
    ["estimators.base", "estimators.grid"],
    ["estimators.columns", "estimators.variables"],
    ["estimators.boltzmann", "estimators.density"],
    ["cli"],
]
LEVEL = {module: level for level, layer in enumerate(LAYERS) for module in layer}
MODULES = sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def level(module: str) -> int:
    """Find the layer; all of the command line is one layer, above everything."""
    return LEVEL["cli" if module.split(".")[0] == "cli" else module]


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the tree, except blocks that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from run_time_nodes(child)


def imports(path: Path) -> Iterator[str]:
    """List what a module imports of the package, `from package import submodule` resolved to the submodule."""
    for node in run_time_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "legendre")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            if node.module is not None and node.module.split(".")[0] == "legendre":
                for alias in node.names:
                    longer = f"{node.module}.{alias.name}"
                    inside = ROOT.joinpath(*longer.split(".")[1:])
                    yield longer if inside.is_dir() or inside.with_suffix(".py").is_file() else node.module


def test_every_module_is_listed() -> None:
    found = {module_name(path) for path in MODULES} - {""}
    below_cli = {module for module in found if module.split(".")[0] != "cli"}
    assert below_cli == set(LEVEL) - {"cli"}


@pytest.mark.parametrize("path", [path for path in MODULES if module_name(path)], ids=module_name)
def test_imports_point_upwards(path: Path) -> None:
    here = module_name(path)
    for imported in imports(path):
        name = imported.removeprefix("legendre").removeprefix(".")
        if not name:
            assert here.split(".")[0] == "cli", f"{here} imports the package itself"
            continue
        assert level(name) < level(here) or here.split(".")[0] == name.split(".")[0] == "cli", f"{here} imports {name}"


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport numpy\nfrom legendre.views import pack\n"
        "if TYPE_CHECKING:\n    from legendre.decompose import decompose\n"
        "def late():\n    from legendre.solvers.loop import run\n"
    )
    assert list(imports(file)) == ["legendre.views.pack", "legendre.solvers.loop"]


def loaded_by(statement: str) -> set[str]:
    """List the modules that a fresh interpreter has loaded after the statement."""
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_is_light() -> None:
    heavy = {"numba", "matplotlib", "typer", "rich", "dask", "sklearn", "scipy.optimize", "scipy.sparse"}
    heavy |= {"torch", "jax", "array_api_compat"}
    assert loaded_by("import legendre") & heavy == set()


def test_front_doors_open_when_somebody_comes() -> None:
    late = {
        "legendre.balancing",
        "legendre.comparison",
        "legendre.completion",
        "legendre.estimators",
        "legendre.geometry",
        "legendre.latent",
        "legendre.smoothing",
    }
    assert loaded_by("import legendre") & late == set()
    calls = (
        "legendre.compare([[1, 2], [3, 4]], [1], peers=()); legendre.compare; legendre.geometry.ladder; legendre.hidden"
    )
    assert loaded_by(f"import legendre; {calls}; assert callable(legendre.compare)") >= {"legendre.comparison"}
    assert {"balance", "decompose"} <= set(dir(legendre))
    with pytest.raises(AttributeError, match="module 'legendre' has no attribute 'balanced'"):
        _ = legendre.balanced  # type: ignore[attr-defined]


def test_fitting_a_positive_tensor_is_light() -> None:
    heavy = {"numba", "matplotlib", "typer", "rich", "dask", "sklearn", "scipy.optimize"}
    loaded = loaded_by("import legendre; legendre.decompose([[1, 2], [3, 4]], 'B1').summary()")
    assert loaded & heavy == set()


def test_the_public_names_are_there() -> None:
    expected = {
        "B1", "B2", "B3", "Basis", "boltzmann", "cells", "empty", "full", "interactions",
        "entropy", "from_eta", "from_theta", "kl", "psi", "to_eta", "to_theta",
        "balance", "Balanced", "compare", "complete", "Completion", "CrossValidation",
        "decompose", "Decomposition", "load",
        "Gradient", "MProjection", "Natural", "Potentials", "Step", "Status",
        "Inference", "LikelihoodRatio", "likelihood_ratio", "geometry",
        "CheckpointWarning", "ConvergenceWarning",
        "InvalidBasis", "InvalidFile", "InvalidMargins", "InvalidQuery", "InvalidSetting",
        "InvalidSamples", "InvalidSupport", "InvalidTensor", "LegendreError", "NotFitted",
        "Coordinates", "from_batches", "from_coords", "from_rows", "read_tns",
        "BoltzmannMachine", "LegendreDensity", "HiddenDecomposition", "hidden", "rbm",
    }  # fmt: skip
    assert {name for name in expected if hasattr(legendre, name)} == expected
