"""The house's rules, read from the source: what a reviewer would have to look for in every file."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import legendre
from legendre.solvers.choose import SOLVERS

ROOT = Path(legendre.__file__).parent
NODES = {
    path.relative_to(ROOT).as_posix(): list(ast.walk(ast.parse(path.read_text("utf-8"))))
    for path in sorted(ROOT.rglob("*.py"))
}
OWN = {node.name for nodes in NODES.values() for node in nodes if isinstance(node, ast.ClassDef)}
FITTING = ("model/", "engines/", "solvers/", "fitting/", "tasks/")  # packages through which settings travel
SETTINGS = {"settings", "options", "config", "kwargs"}
MAY_HOLD_ANYTHING = {"arrays", "features", "columns"}  # of files, the caller's own functions, a data frame's
COMPILED = ("compiled", "inner", "ParallelKernel")  # what marks a function that numba compiles
CHANGES = ("update", "setdefault", "pop", "popitem", "clear", "__setitem__")


def found(check: Callable[[ast.AST], bool], within: tuple[str, ...] = ("",)) -> list[str]:
    """List the places that a check refuses, each as its file, line and source."""
    nodes = [(name, node) for name, listed in NODES.items() if name.startswith(within) for node in listed]
    return [f"{name}:{node.lineno} {ast.unparse(node)}" for name, node in nodes if check(node)]  # type: ignore[attr-defined]


def writes_behind(node: ast.AST) -> bool:
    """Whether something gets round a frozen dataclass: by object.__setattr__, or through __dict__ or vars()."""
    if isinstance(node, ast.Attribute):
        changes = node.attr in CHANGES
    else:
        changes = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
    if changes:
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        return ast.unparse(node.value).startswith("vars(") or ast.unparse(node.value).endswith(".__dict__")
    whole = isinstance(node, ast.Attribute) and node.attr == "__dict__" and not isinstance(node.ctx, ast.Load)
    return whole or (isinstance(node, ast.Attribute) and node.attr in ("__setattr__", "__delattr__"))


def asks_for_our_class(node: ast.AST) -> bool:
    """Whether it is isinstance or issubclass with a class of this library."""
    if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass")):
        return False
    return bool(OWN & {getattr(part, "id", getattr(part, "attr", None)) for part in ast.walk(node.args[1])})


def compares_a_solvers_name(node: ast.AST) -> bool:
    """Whether it compares with the name of a solver, or a solver or its name with any text."""
    if not isinstance(node, ast.Compare):
        return False
    texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return bool(texts & SOLVERS.keys()) or (bool(texts) and "solver" in ast.unparse(node))


def _annotated(node: ast.AST) -> tuple[str, str]:
    """Return the name and the annotation of an argument, a field or a variable."""
    if isinstance(node, ast.arg):
        return node.arg, ast.unparse(node.annotation) if node.annotation is not None else ""
    return (ast.unparse(node.target), ast.unparse(node.annotation)) if isinstance(node, ast.AnnAssign) else ("", "")


def is_untyped_settings(node: ast.AST) -> bool:
    """Whether an argument that holds settings is a dictionary, or anything at all."""
    name, kind = _annotated(node)
    return isinstance(node, ast.arg) and name in SETTINGS and kind.startswith(("dict", "Mapping", "Any", "object"))


def is_a_dictionary_of_anything(node: ast.AST) -> bool:
    name, kind = _annotated(node)
    return kind.startswith(("dict[str, Any]", "Mapping[str, Any]")) and name not in MAY_HOLD_ANYTHING


def is_slow_to_compile(node: ast.AST) -> bool:
    """Whether it is a kernel that assigns more than one number to a slice, or searches by NumPy: seconds to compile."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    if not any(ast.unparse(mark).startswith(COMPILED) for mark in marks):
        return False
    return any(_slices_or_searches(part) for part in ast.walk(node))


def _slices_or_searches(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "searchsorted"
    if not isinstance(node, ast.Assign) or isinstance(node.value, ast.Constant):
        return False
    targets = [part for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Subscript)]
    return any(isinstance(part, ast.Slice) for target in targets for part in ast.walk(target.slice))


def test_nothing_is_written_behind_a_frozen_dataclass() -> None:
    """What is kept with an object is a `cached_property`."""
    assert found(writes_behind) == []


def test_ten_questions_at_most_for_the_class_of_an_object() -> None:
    """Objects answer for themselves; what remains reads arguments, of which a caller may pass several kinds."""
    places = found(asks_for_our_class)
    assert len(places) <= 10, places


def test_only_the_reading_of_arguments_compares_the_names_of_solvers() -> None:
    assert [place.partition(":")[0] for place in found(compares_a_solvers_name)] == ["solvers/choose.py"]


def test_settings_have_a_class() -> None:
    assert found(is_untyped_settings) == []
    assert found(is_a_dictionary_of_anything, FITTING) == []


def test_kernels_compile_fast() -> None:
    """An array assigned to a slice takes numba two seconds, for the text of an error that cannot occur."""
    assert [place.splitlines()[0] for place in found(is_slow_to_compile)] == []


def assigned_twice(body: list[ast.stmt]) -> list[str]:
    targets = [target for line in body if isinstance(line, ast.Assign) for target in line.targets]
    targets += [line.target for line in body if isinstance(line, ast.AnnAssign) and line.value is not None]
    names = Counter(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
    return [name for name, times in names.items() if times > 1]


def test_a_name_has_one_value() -> None:
    """A second constant of the same name silently takes the place of the first, wherever that is used."""
    assert assigned_twice(ast.parse("LONG = 1 << 20\nSHORT, LONG = 3, 256").body) == ["LONG"]
    for name, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, (ast.Module, ast.ClassDef)):
                assert assigned_twice(node.body) == [], name


def test_every_limit_is_used() -> None:
    limits = {node.id for node in NODES["core/limits.py"] if isinstance(node, ast.Name)}
    used = {node.attr for nodes in NODES.values() for node in nodes if isinstance(node, ast.Attribute)}
    assert limits - used == set()


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (writes_behind, "self.__dict__['kept'] = 1"),
        (writes_behind, "self.__dict__.update(kept=1)"),
        (writes_behind, "self.__dict__ = {}"),
        (writes_behind, "vars(self)['kept'] = 1"),
        (writes_behind, "object.__setattr__(self, 'kept', 1)"),
        (asks_for_our_class, "isinstance(x, (str, basis.Basis))"),
        (compares_a_solvers_name, "solver.name == 'scaling'"),
        (compares_a_solvers_name, "settings.solver in ('newton', 'auto')"),
        (is_untyped_settings, "def fit(X, **options: Any): ..."),
        (is_a_dictionary_of_anything, "how: dict[str, Any] = {}"),
        (is_slow_to_compile, "@compiled\ndef f(p, q): p[:], q[:] = q, p"),
        (is_slow_to_compile, "@inner\ndef f(p, x): return np.searchsorted(p, x)"),
    ],
)
def test_the_checks_see_what_is_forbidden(check: Callable[[ast.AST], bool], code: str) -> None:
    assert sum(map(check, ast.walk(ast.parse(code)))) == 1
