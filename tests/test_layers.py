"""Data flows one way: ten packages in a row, and no circle within them."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import legendre

ROOT = Path(legendre.__file__).parent

# A package imports from itself and from the packages before it.
PACKAGES = [
    "core",
    "data",
    "basis",
    "model",
    "engines",
    "solvers",
    "results",
    "fitting",
    "tasks",
    "cli",
]
MODULES = sorted(ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs when a module is imported: neither blocks that only type checkers read nor bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield child
        yield from run_time_nodes(child)


@cache
def imports(path: Path) -> list[str]:
    """List what a module imports of the package, `from package import submodule` resolved to the submodule."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[str]:
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


def package(module: str) -> int:
    return PACKAGES.index(module.split(".")[0])


def test_there_are_ten_packages() -> None:
    assert {module_name(path).split(".")[0] for path in MODULES} == {"", *PACKAGES}
    files = {"__init__.py", "__init__.pyi", "py.typed"}
    assert {path.name for path in ROOT.iterdir()} - {"__pycache__"} == {*files, *PACKAGES}


@pytest.mark.parametrize("path", [path for path in MODULES if module_name(path)], ids=module_name)
def test_packages_import_from_those_before_them(path: Path) -> None:
    here = module_name(path)
    for imported in imports(path):
        name = imported.removeprefix("legendre").removeprefix(".")
        if not name:
            assert package(here) == PACKAGES.index("cli"), f"{here} imports the package itself"
        else:
            assert package(name) <= package(here), f"{here} imports {name}"


def test_no_import_goes_round_in_a_circle() -> None:
    known = {module_name(path): path for path in MODULES}
    graph = {
        name: {imported.removeprefix("legendre.") for imported in imports(path)} & known.keys() - {name}
        for name, path in known.items()
        if name
    }
    tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError with the circle


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport numpy\nfrom legendre.results import base\n"
        "if TYPE_CHECKING:\n    from legendre.fitting.fit import decompose\n"
        "def late():\n    from legendre.solvers.loop import run\n"
    )
    assert imports(file) == ["legendre.results.base"]


def loaded_by(statement: str) -> set[str]:
    """List the modules that a fresh interpreter has loaded after the statement."""
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_is_light() -> None:
    heavy = {"numba", "matplotlib", "typer", "rich", "dask", "sklearn", "scipy.optimize", "scipy.sparse"}
    heavy |= {"torch", "jax", "array_api_compat"}
    assert loaded_by("import legendre") & heavy == set()


def test_decompose_loads_what_a_fit_needs() -> None:
    ours = {name for name in loaded_by("import legendre\nlegendre.decompose") if name.startswith("legendre.")}
    assert len(ours) <= 80
    assert not [name for name in ours if any(part in name for part in ("plots", "report", "inference", "growing"))]


def test_front_doors_open_when_somebody_comes() -> None:
    late = {
        "legendre.tasks.balance",
        "legendre.tasks.compare",
        "legendre.tasks.complete",
        "legendre.tasks.estimators",
        "legendre.tasks.geometry",
        "legendre.tasks.hidden",
    }
    assert loaded_by("import legendre") & late == set()
    calls = "legendre.compare([[1, 2], [3, 4]], [1], peers=()); legendre.compare; legendre.geometry; legendre.hidden"
    assert loaded_by(f"import legendre; {calls}; assert callable(legendre.compare)") >= {"legendre.tasks.compare"}
    assert {"balance", "decompose"} <= set(dir(legendre))
    with pytest.raises(AttributeError, match="module 'legendre' has no attribute 'balanced'"):
        _ = legendre.balanced  # type: ignore[attr-defined]


def test_fitting_a_positive_tensor_is_light() -> None:
    heavy = {"numba", "matplotlib", "typer", "rich", "dask", "sklearn", "scipy.optimize"}
    loaded = loaded_by("import legendre; legendre.decompose([[1, 2], [3, 4]], 'B1').summary()")
    assert loaded & heavy == set()


PUBLIC = """
    B1 B2 B3 Basis adaptive boxes features full graph interactions
    decompose Decomposition plan load save warm
    loglinear anova
    SparseTensor from_coords from_rows read_tns
    balance compare complete hidden
    BoltzmannMachine LegendreDensity LegendreError ConvergenceWarning
    datasets dual errors geometry results solvers ties
"""


def test_the_public_names() -> None:
    """What `dir` shows is what is promised, no more and no less: these names, and dunders."""
    assert {name for name in dir(legendre) if not name.startswith("__")} == set(PUBLIC.split()) == set(legendre.__all__)
    modules = {name for name in legendre.__all__ if isinstance(getattr(legendre, name), types.ModuleType)}
    assert modules == {"datasets", "dual", "errors", "geometry", "results", "solvers", "ties"}


def test_public_submodules_list_their_names() -> None:
    for module in (
        legendre.datasets,
        legendre.dual,
        legendre.errors,
        legendre.geometry,
        legendre.results,
        legendre.solvers,
        legendre.ties,
    ):
        assert set(module.__all__) <= set(dir(module))
        assert all(getattr(module, name) is not None for name in module.__all__)
