"""Checkpoints: a fit that was ended anywhere goes on to the same bits, or says why not."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_cli import run as run_command

import legendre as ld
from legendre.core import limits
from legendre.core.checkpoint import EVERY, Book, Record
from legendre.core.files import read_arrays
from legendre.core.npz import checksum
from legendre.core.sums.linalg import factorise
from legendre.data.dense import observe
from legendre.engines.matrix import MatrixEngine
from legendre.engines.preconditioner import Vecchia
from legendre.fitting.adaptive.candidates import chosen
from legendre.model.problem import Problem
from legendre.solvers.loop import Outcome, run
from legendre.solvers.protocol import Solver, Target

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::legendre.core.errors.ConvergenceWarning"),
]

RNG = np.random.default_rng(4)
SKEWED = RNG.lognormal(sigma=2.0, size=(6, 5, 4))
COUNTS = RNG.poisson(0.8, size=(6, 5, 4)).astype(float)
SPARSE = np.random.default_rng(0).poisson(0.2, size=(12, 11, 10))
EVENTS = RNG.poisson(np.where(np.indices((5, 4, 3)).sum(axis=0) > 5, 12.0, 3.0))


def facts(fit: ld.Decomposition) -> tuple[Any, ...]:
    """All that a fit consists of, down to the last bit."""
    arrays = (fit.basis, fit.theta, fit.eta, fit.recession, fit.eta_hat)
    numbers = (fit.psi, fit.newton_gap, fit.status, fit.rank, fit.solver, fit.history, fit.path, fit.kl)
    return (*(array.tobytes() for array in arrays), *numbers)


@contextmanager
def every_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Copy the file after every write: what a kill at any later moment would have left."""
    copies: list[Path] = []
    write = Book._write

    def copying(book: Book, arrays: Any) -> None:
        write(book, arrays)
        copies.append(Path(shutil.copy(path, path.with_name(f"copy{len(copies)}"))))

    with monkeypatch.context() as patch:
        patch.setattr(Book, "_write", copying)
        yield copies


def some(copies: list[Path], most: int = 4) -> list[Path]:
    """Take the first, some in between and the last three: the last step leans on what the one before has left."""
    places = {round(i) for i in np.linspace(0, len(copies) - 1, most)}
    return [copies[i] for i in sorted(places | {len(copies) - 2, len(copies) - 3})]


def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, X: Any, basis: Any, **settings: Any) -> list[Path]:
    """Fit without a checkpoint, with one, and from what was written on the way: all the same."""
    plain = facts(ld.decompose(X, basis, **settings))
    path = tmp_path / "fit.ckpt"
    with every_write(path, monkeypatch) as copies:
        assert facts(ld.decompose(X, basis, checkpoint=path, checkpoint_every=0, **settings)) == plain
    assert len(copies) > 2
    for copy in some(copies):
        assert facts(ld.decompose(X, basis, checkpoint=copy, **settings)) == plain
    return copies


SOLVERS: dict[str, Solver] = {
    "natural": ld.solvers.Natural(),
    "natural-cg": ld.solvers.NaturalCG(),
    "sweep": ld.solvers.Gradient(max_iter=12),
    "batch": ld.solvers.Gradient(form="batch", max_iter=25),
    "rate": ld.solvers.Gradient(form="batch", learning_rate=0.5, max_iter=10),
    "m-projection": ld.solvers.MProjection(),
}


@pytest.mark.parametrize("tol", [1e-10, 0.0])
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_goes_on_with_the_same_bits(
    name: str, tol: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tol = 0 fits stall, and end with the best state on the way rather than the last."""
    check(tmp_path, monkeypatch, SKEWED, "B1 + B3(5)", solver=SOLVERS[name], tol=tol)


@pytest.mark.parametrize(
    ("X", "basis", "settings"),
    [
        (SKEWED, ld.interactions(2), {"solver": "scaling"}),
        (SKEWED, ld.interactions(2), {"solver": ld.solvers.Scaling(), "tol": 0.0, "max_iter": 20}),
        (SKEWED, "B1", {"solver": "closed", "tol": 0.0}),
        (SKEWED, "B1", {"tol": 0.0}),  # closed, then natural
        (RNG.lognormal(sigma=3, size=(12, 12, 11)), ld.interactions(2), {}),  # scaling, then natural
        (SPARSE, ld.interactions(2), {}),  # dependent parameters: scaling with all of them
        (COUNTS, ld.interactions(2), {}),  # at the boundary
        (COUNTS, "B3(8)", {"support": "nonzero", "base": COUNTS + 0.5}),
        (SKEWED, "B3(4)", {"start": np.linspace(-1, 1, 16), "solver": "natural-cg"}),
    ],
    ids=["scaling", "cycles", "closed", "turns", "long_turns", "dependent", "boundary", "nonzero", "start"],
)
def test_every_plan_goes_on_with_the_same_bits(
    X: Any, basis: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path, monkeypatch, X, basis, **settings)


@pytest.mark.parametrize("engine", ["stream", "sheet"])
@pytest.mark.parametrize("solver", ["natural", "natural-cg"])
def test_compiled_engines_go_on_with_the_same_bits(
    engine: str, solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legendre.core.limits.NUMPY_CELLS", 0)
    monkeypatch.setattr("legendre.core.limits.SHORT_MODE", 0)
    if engine == "sheet":
        monkeypatch.setattr("legendre.engines.choose.slabs_pay", lambda *_, **__: False)
        few = partial(Vecchia, m=4, candidates=12)  # so few neighbours that it matters where they were selected
        monkeypatch.setattr("legendre.engines.dense.Vecchia", few)
    X = np.random.default_rng(5).lognormal(sigma=4, size=(8, 8, 8))
    copies = check(tmp_path, monkeypatch, X, "B3(8)", solver=solver, tol=0.0)
    if (engine, solver) == ("sheet", "natural-cg"):  # the preconditioner was selected once and factorised several times
        origins = [len(read_arrays(c).get("under_way/fit.0/state.origins", ())) for c in copies]
        assert max(origins) > 1


@pytest.mark.parametrize(
    ("X", "basis"),
    [
        (SKEWED, ld.adaptive(30, start="B1", swaps=0)),
        (SKEWED, ld.adaptive(30, start="B1", swaps=3)),
        (COUNTS, ld.adaptive(25, candidates="B3(20)")),
        (EVENTS, ld.adaptive("aic", swaps=2)),
        (EVENTS, ld.adaptive("cv", folds=2)),
    ],
    ids=["forward", "swaps", "zeros", "aic", "cv"],
)
def test_growing_goes_on_with_the_same_bits(
    X: Any, basis: ld.Basis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = check(tmp_path, monkeypatch, X, basis)
    phases = {str(part) for copy in copies for name, part in read_arrays(copy).items() if name.endswith("/phase")}
    assert phases >= {"forward"}
    if "swaps=3" in repr(basis):
        assert phases == {"forward", "swap"}
    if "cv" in repr(basis):
        assert any("under_way/fit.growth.folds/1_cells" in read_arrays(copy) for copy in copies)


def test_growing_goes_on_without_fisher_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits on the way come from the dense engine, which would not be chosen for anything but products."""
    monkeypatch.setattr(limits, "LARGEST_MATRIX", 0)
    monkeypatch.setattr("legendre.core.limits.NUMPY_CELLS", 0)
    monkeypatch.setattr("legendre.core.limits.SHORT_MODE", 0)
    check(tmp_path, monkeypatch, SKEWED, ld.adaptive(20))


def test_potentials_go_on_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`decompose` does not run them, but the loop does."""
    n = 60
    W = np.random.default_rng(2).lognormal(sigma=6.0, size=(n, n))
    axes = np.array([[i, 0] for i in range(1, n)] + [[0, i] for i in range(1, n)])
    problem = Problem.with_margins(observe(W, base=W), axes, {(0,): np.full(n, 1 / n), (1,): np.full(n, 1 / n)})
    target = Target(MatrixEngine(problem.model), problem, 1e-12)

    def solved(path: Path) -> Outcome:
        record, theta = Record(Book.open(path, 0)), np.zeros(target.engine.n_params)
        record.claim(dict)
        return run(ld.solvers.MatrixScaling(), target, theta, 200, record=record)

    with every_write(tmp_path / "fit", monkeypatch) as copies:
        whole = solved(tmp_path / "fit")
    omegas = {step.step for step in whole.history}
    assert len(omegas) > 3  # cycles, overstepped cycles and Newton's steps
    for copy in some(copies, 12):
        again = solved(copy)
        assert_array_equal(again.point.theta, whole.point.theta)
        assert_array_equal(again.point.eta, whole.point.eta)
        assert (again.history, again.gap, again.status) == (whole.history, whole.gap, whole.status)


CHILD = """
import json, os, signal, sys
import numpy as np
import legendre as ld

basis, settings, path, out, die_at = sys.argv[1:]
writes = 0
save = np.savez

def dying(stream, **arrays):
    global writes
    writes += 1
    if writes == int(die_at):
        stream.write(b"PK and then nothing but the first half")
        stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    save(stream, **arrays)

np.savez = dying
X = np.random.default_rng(7).lognormal(sigma=2.0, size=(9, 8, 7))
print("ready", flush=True)
settings = json.loads(settings)
if "max_iter" in settings:
    settings["solver"] = ld.solvers.Gradient(max_iter=settings.pop("max_iter"))
fit = ld.decompose(X, eval(basis), checkpoint=path, checkpoint_every=0, **settings)
with open(out, "wb") as stream:
    save(stream, theta=fit.theta, eta=fit.eta, basis=fit.basis, history=len(fit.history), gap=fit.newton_gap)
"""


@pytest.mark.parametrize(
    ("basis", "settings"), [("ld.B3(6)", {"max_iter": 80}), ("ld.adaptive(60)", {})], ids=["steps", "growth"]
)
@pytest.mark.thread_unsafe(reason="starts processes")
def test_killed_processes(basis: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """Killed while writing, then at random moments; the last process finds the answer of one that was left alone."""
    path, out = tmp_path / "fit.ckpt", tmp_path / "out.npz"

    def child(die_at: int) -> subprocess.Popen[str]:
        asked = [basis, json.dumps(settings), str(path), str(out), str(die_at)]
        words = [sys.executable, "-W", "ignore", "-c", CHILD, *asked]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    process = child(die_at=6)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".fit.ckpt.*.tmp"))) == 1  # the half-written file, beside a whole one
    chance = random.Random(basis)
    kills = 0
    for _ in range(2):
        process = child(die_at=0)
        time.sleep(chance.uniform(0.0, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills
    process = child(die_at=0)
    process.communicate()
    assert process.returncode == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fit.ckpt", "out.npz"]
    X = np.random.default_rng(7).lognormal(sigma=2.0, size=(9, 8, 7))
    solver = ld.solvers.Gradient(max_iter=settings["max_iter"]) if settings else "auto"
    alone = ld.decompose(X, eval(basis), solver=solver)
    found = np.load(out)
    assert_array_equal(found["basis"], alone.basis)
    assert_array_equal(found["theta"], alone.theta)
    assert_array_equal(found["eta"], alone.eta)
    assert (found["history"], found["gap"]) == (len(alone.history), alone.newton_gap)


def test_a_finished_fit_is_returned_at_once(tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    first = ld.decompose(SKEWED, "B3(5)", checkpoint=path)
    before = path.read_bytes()
    seen: list[ld.solvers.Step] = []
    again = ld.decompose(SKEWED, "B3(5)", checkpoint=str(path), callback=seen.append)
    assert facts(again) == facts(first)
    assert seen == []
    assert path.read_bytes() == before


@dataclass
class Breaks:
    """A callback that raises at a step; `seen` are the numbers of the steps it was called with."""

    at: int
    error: type[BaseException] = KeyboardInterrupt
    seen: list[int] = field(default_factory=list)

    def __call__(self, step: ld.solvers.Step) -> None:
        self.seen.append(step.iteration)
        if step.iteration == self.at:
            raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupt_leaves_what_was_done_and_says_so(error: type[BaseException], tmp_path: Path) -> None:
    """No write is due after a few milliseconds: the interrupt itself has it written."""
    path = tmp_path / "fit.ckpt"
    interrupted, resumed = Breaks(4, error), Breaks(-1)
    with pytest.raises(error) as caught:
        ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path, callback=interrupted)
    assert caught.value.__notes__ == [f"{path} keeps the fit as it stood: the same call goes on from there."]
    fit = ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path, callback=resumed)
    assert interrupted.seen == [0, 1, 2, 3, 4]
    assert resumed.seen == list(range(4, fit.n_iter + 1))  # it is told where the fit goes on, and every step from there
    assert facts(fit) == facts(ld.decompose(SKEWED, "B3(5)", solver="natural"))


def test_an_interrupt_between_solvers_numbers_steps_on(tmp_path: Path) -> None:
    path, X = tmp_path / "fit.ckpt", np.random.default_rng(1).lognormal(sigma=3, size=(12, 12, 11))
    plain = ld.decompose(X, ld.interactions(2))
    assert (plain.solver, plain.n_iter > 61) == ("natural", True)  # 60 cycles of scaling, then steps
    with pytest.raises(KeyboardInterrupt):
        ld.decompose(X, ld.interactions(2), checkpoint=path, callback=Breaks(61))
    resumed = Breaks(-1)
    fit = ld.decompose(X, ld.interactions(2), checkpoint=path, callback=resumed)
    assert resumed.seen == list(range(61, fit.n_iter + 1))
    assert facts(fit) == facts(plain)


def test_an_interrupt_in_the_middle_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix of the last factor is half overwritten by then."""
    calls = 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return factorise(*arguments)

    path = tmp_path / "fit.ckpt"
    with monkeypatch.context() as patch:
        patch.setattr("legendre.solvers.natural.factorise", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path)
    fit = ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path)
    assert facts(fit) == facts(ld.decompose(SKEWED, "B3(5)", solver="natural"))


@pytest.mark.parametrize("basis", [ld.adaptive(30), ld.adaptive(30, swaps=2), ld.adaptive("cv", folds=2)], ids=repr)
@pytest.mark.parametrize("moment", [0, 1, 7])
def test_an_interrupt_while_growing(
    basis: ld.Basis, moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rounds = tmp_path / "fit.ckpt", 0

    def interrupted(*arguments: Any) -> Any:
        nonlocal rounds
        rounds += 1
        if rounds == moment + 1:
            raise KeyboardInterrupt
        return chosen(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("legendre.fitting.adaptive.one_round.chosen", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ld.decompose(EVENTS, basis, checkpoint=path)
    assert facts(ld.decompose(EVENTS, basis, checkpoint=path)) == facts(ld.decompose(EVENTS, basis))


def test_a_fit_out_of_steps_goes_on_when_it_is_given_more(tmp_path: Path) -> None:
    path, solver = tmp_path / "fit.ckpt", ld.solvers.Gradient(form="batch")
    stopped = ld.decompose(SKEWED, "B3(5)", solver=solver, max_iter=20, checkpoint=path)
    assert stopped.status is ld.Status.OUT_OF_STEPS
    same = ld.decompose(SKEWED, "B3(5)", solver=solver, max_iter=20, checkpoint=path)
    assert facts(same) == facts(stopped)
    with pytest.raises(
        ld.errors.InvalidSetting, match="has 20 steps of gradient behind it, and max_iter leaves 19 to it"
    ):
        ld.decompose(SKEWED, "B3(5)", solver=solver, max_iter=19, checkpoint=path)
    longer = ld.decompose(SKEWED, "B3(5)", solver=solver, max_iter=35, checkpoint=path)
    assert facts(longer) == facts(ld.decompose(SKEWED, "B3(5)", solver=solver, max_iter=35))


def test_a_fit_that_was_stopped_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    stopped = ld.decompose(
        SKEWED, "B3(5)", solver="natural", checkpoint=path, callback=lambda step: step.iteration == 3
    )
    assert (stopped.status, stopped.n_iter) == (ld.Status.STOPPED, 3)
    fit = ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path)
    assert facts(fit) == facts(ld.decompose(SKEWED, "B3(5)", solver="natural"))


def test_a_limit_that_changes_the_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    ld.decompose(SPARSE, ld.interactions(2), checkpoint=path)
    with pytest.raises(ld.errors.InvalidFile, match=r"another problem \(max_iter: not set there, set here\)"):
        ld.decompose(SPARSE, ld.interactions(2), checkpoint=path, max_iter=1000)


def test_scaling_that_gives_up_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DEPENDENT_CYCLES", 5)
    copies = check(tmp_path, monkeypatch, SPARSE, ld.interactions(2))
    assert [copy for copy in copies if "finished/fit.whole/theta" in read_arrays(copy)]


OTHER = np.roll(SKEWED, 1)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"X": SKEWED[:5]}, r"\(shape of X: 6x5x4 there, 5x5x4 here; sum of X: .* there, .* here\)"),
        ({"X": SKEWED * 2}, r"\(sum of X: [\d.]+ there, [\d.]+ here\)"),
        ({"X": SKEWED[::-1]}, r"\(X as the basis sees it: <\w{12}> there, <\w{12}> here\)"),
        ({"basis": [[1, 0, 0], [0, 2, 3]]}, r"\(basis: 2 cells <\w+> there, 2 cells <\w+> here; X as"),
        ({"basis": ld.adaptive(2)}, r"\(adaptive basis: none there, adaptive\(2\) here\)"),
        ({"support": np.arange(120).reshape(6, 5, 4) > 3}, r"support: all there, <\w{12}> here"),
        ({"base": SKEWED}, r"\(base: none there, <\w{12}> here\)"),
        ({"solver": "natural"}, r"\(solver: auto there, Natural\(max_iter=500, patience=5\) here\)"),
        ({"tol": 1e-8}, r"\(tol: 1e-10 there, 1e-08 here\)"),
        ({"start": [0.0, 1.0]}, r"\(start: <\w{12}> there, <\w{12}> here\)"),
    ],
)
def test_another_problem_is_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    asked: dict[str, Any] = {"X": SKEWED, "basis": [[1, 0, 0], [0, 2, 2]]}
    ld.decompose(**asked, checkpoint=path)
    before = path.read_bytes()
    way_out = r".* Repeat the call that wrote it\. To start anew, give another path or delete the file\."
    with pytest.raises(
        ld.errors.InvalidFile, match=r"cannot go on from .*: it belongs to another problem .*" + said + way_out
    ):
        ld.decompose(**asked | changed, checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"basis": ld.adaptive(5)}, r"adaptive basis: adaptive\(4\) there, adaptive\(5\) here"),
        ({"X": SKEWED[::-1]}, "X as those cells see it: "),
    ],
)
def test_another_growth_is_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"X": SKEWED, "basis": ld.adaptive(4)}
    ld.decompose(**asked, checkpoint=tmp_path / "fit.ckpt")
    with pytest.raises(ld.errors.InvalidFile, match=said):
        ld.decompose(**asked | changed, checkpoint=tmp_path / "fit.ckpt")


def test_candidates_that_print_alike_are_told_apart(tmp_path: Path) -> None:
    one, other = (ld.adaptive(1, candidates=cells) for cells in ([[1, 0, 0], [2, 2, 2]], [[1, 0, 0], [2, 2, 3]]))
    ld.decompose(SKEWED, one, checkpoint=tmp_path / "fit.ckpt")
    with pytest.raises(ld.errors.InvalidFile, match="cells to choose from: "):
        ld.decompose(SKEWED, other, checkpoint=tmp_path / "fit.ckpt")


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fit.ckpt"
    ld.decompose(SKEWED, "B1", checkpoint=path)
    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.version", lambda _: "99.0")
        with pytest.raises(ld.errors.InvalidFile, match=r"another problem \(legendre: \S+ there, 99\.0 here\)"):
            ld.decompose(SKEWED, "B1", checkpoint=path)
    parts: dict[str, Any] = {**read_arrays(path), "version": 7}
    np.savez(tmp_path / "new.npz", **parts)
    with pytest.raises(
        ld.errors.InvalidFile, match=r"its format version is 7, this library reads 1\. Finish with the library"
    ):
        ld.decompose(SKEWED, "B1", checkpoint=tmp_path / "new.npz")


@pytest.fixture
def half_done(tmp_path: Path) -> Path:
    path = tmp_path / "fit.ckpt"
    with pytest.raises(KeyboardInterrupt):
        ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path, callback=Breaks(3))
    return path


@pytest.mark.thread_unsafe(reason="one file")
def test_truncated_files_are_refused_and_stay(half_done: Path) -> None:
    whole = half_done.read_bytes()
    for kept in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        half_done.write_bytes(whole[:kept])
        with pytest.raises(
            ld.errors.InvalidFile, match=r"cannot read .*fit\.ckpt: .* No fit can go on from it\. To start anew"
        ):
            ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=half_done)
        assert half_done.read_bytes() == whole[:kept]


@pytest.mark.thread_unsafe(reason="one file")
def test_a_flipped_bit_is_refused_or_harmless(half_done: Path) -> None:
    """Every part of the file is summed up in it; only the frame around the parts holds bits that no one needs."""
    whole, expected = half_done.read_bytes(), facts(ld.decompose(SKEWED, "B3(5)", solver="natural"))
    refused = 0
    for place in range(0, len(whole), 149):
        half_done.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        try:
            assert facts(ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=half_done)) == expected
        except ld.errors.InvalidFile:
            refused += 1
    assert refused > 10


def test_parts_that_do_not_fit_are_refused(half_done: Path, tmp_path: Path) -> None:
    arrays = read_arrays(half_done)
    name = "under_way/fit.0/state.theta"
    bad: list[dict[str, Any]] = [
        {key: part for key, part in arrays.items() if key != name},
        {**arrays, name: arrays[name][:-1]},
        {**arrays, name: np.append(arrays[name], 0.0)},
        {**arrays, "under_way/fit.0/watch": np.zeros(2)},
        {**arrays, "claims": np.array("{")},
        {key: part for key, part in arrays.items() if key != "version"},
    ]
    for number, parts in enumerate(bad):
        path = tmp_path / f"bad{number}.npz"
        np.savez(path, **parts)
        with pytest.raises(
            ld.errors.InvalidFile, match=r"bad\d\.npz: a checkpoint, but a damaged one \(.*\)\. To start anew"
        ):
            ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path)


def rewritten(path: Path, changes: dict[str, Any], to: Path) -> Path:
    """Change arrays of a checkpoint, and its checksum with them; ``None`` leaves one out."""
    arrays = {
        key: part for key, part in {**read_arrays(path), **changes}.items() if key != "checksum" and part is not None
    }
    with to.open("wb") as stream:
        np.savez(stream, **arrays, checksum=np.array(checksum(arrays)))
    return to


FINISHED: dict[str, tuple[Any, str]] = {
    "theta": (np.zeros(20), "eta and psi are not those of theta"),
    "theta_nan": (np.full(20, np.nan), "theta is not finite everywhere"),
    "theta_short": (np.ones(19), r"theta has shape \(19,\) and dtype float64"),
    "theta_text": (np.full(20, "x"), r"theta has shape \(20,\) and dtype <U1"),
    "theta_missing": (None, "theta is missing"),
    "eta": (np.full(20, 0.5), "eta and psi are not those of theta"),
    "psi": (1.0, "eta and psi are not those of theta"),
    "status": ("FINE", "FINE"),
    "gap": (-1.0, "gap is -1"),
    "history": (np.ones((0, 4)), "history is empty"),
}


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_fit_is_evaluated_before_it_is_believed(name: str, tmp_path: Path) -> None:
    path, (value, said) = tmp_path / "fit.ckpt", FINISHED[name]
    ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path)
    rewritten(path, {f"finished/fit.0/{name.split('_')[0]}": value}, path)
    before = path.read_bytes()
    with pytest.raises(
        ld.errors.InvalidFile, match=rf"fit\.ckpt: a checkpoint, but a damaged one \(.*{said}.*\)\. To start anew"
    ):
        ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path)
    assert path.read_bytes() == before


def test_a_finished_fit_of_another_theta_is_not_converged(tmp_path: Path) -> None:
    """Even where eta and psi are those of the other theta."""
    path = tmp_path / "fit.ckpt"
    ld.decompose(SKEWED, "B1", solver="natural", checkpoint=path)
    with pytest.warns(ld.ConvergenceWarning):
        other = ld.decompose(SKEWED, "B1", solver="natural", max_iter=0)
    changes = {f"finished/fit.0/{name}": getattr(other, name) for name in ("theta", "eta", "psi")}
    with pytest.raises(ld.errors.InvalidFile, match=r"CONVERGED with max\|eta - eta_hat\| = 0\.\d+ and tol = 1e-10"):
        ld.decompose(SKEWED, "B1", solver="natural", checkpoint=rewritten(path, changes, path))


def test_a_history_that_ends_elsewhere_is_refused(half_done: Path) -> None:
    """The loop stops by the last residual of the history."""
    rows = read_arrays(half_done)["under_way/fit.0/history"].copy()
    rows[-1, 1] = 0.0
    rewritten(half_done, {"under_way/fit.0/history": rows}, half_done)
    with pytest.raises(ld.errors.InvalidFile, match="the history ends elsewhere than the state"):
        ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=half_done)


def test_theta_so_large_that_rounding_would_explain_anything_is_refused(half_done: Path) -> None:
    theta = read_arrays(half_done)["under_way/fit.0/state.theta"].copy()
    theta[0] = 1e300
    rewritten(half_done, {"under_way/fit.0/state.theta": theta}, half_done)
    with pytest.raises(ld.errors.InvalidFile, match="the history ends elsewhere than the state"):
        ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=half_done)


def test_a_checkpoint_with_a_wrong_checksum_is_refused(half_done: Path) -> None:
    arrays: dict[str, Any] = read_arrays(half_done)
    arrays["under_way/fit.0/state.anchor"] = arrays["under_way/fit.0/state.anchor"] * 2  # which nothing else depends on
    with half_done.open("wb") as stream:
        np.savez(stream, **arrays)
    with pytest.raises(ld.errors.InvalidFile, match="content is not what was written: the checksum is another"):
        ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=half_done)


@pytest.mark.parametrize("name", ["finished", "under_way"])
def test_checkpoints_of_version_1_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by 0.1.0, before there were checksums; another version of the library refuses them."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.1.0")
    path = tmp_path / "fit.ckpt"
    shutil.copy(Path(__file__).parent / "files" / f"checkpoint_v1_{name}.npz", path)
    X = np.random.default_rng(4).lognormal(sigma=2.0, size=(6, 5, 4))
    seen: list[int] = []
    fit = ld.decompose(X, "B3(5)", solver="natural", checkpoint=path, callback=lambda step: seen.append(step.iteration))
    assert fit.converged
    assert seen[:1] == ([] if name == "finished" else [3])
    assert_allclose(fit.theta, ld.decompose(X, "B3(5)", solver="natural").theta, rtol=1e-9, atol=1e-12)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    fit = ld.decompose(SKEWED, "B1")
    fit.save(tmp_path / "fit.npz")
    with pytest.raises(
        ld.errors.InvalidFile, match=r"fit\.npz is no checkpoint \(it holds basis, .*\)\. Give another path"
    ):
        ld.decompose(SKEWED, "B1", checkpoint=tmp_path / "fit.npz")
    assert_array_equal(ld.load(tmp_path / "fit.npz").theta, fit.theta)
    np.save(tmp_path / "X.npy", SKEWED)
    with pytest.raises(ld.errors.InvalidFile, match=r"X\.npy holds a single array; a checkpoint is an \.npz file"):
        ld.decompose(SKEWED, "B1", checkpoint=tmp_path / "X.npy")
    ld.decompose(SKEWED, "B1", checkpoint=tmp_path / "fit.ckpt")
    with pytest.raises(ld.errors.InvalidFile, match="not a saved result"):
        ld.load(tmp_path / "fit.ckpt")


def test_places_that_cannot_be_written_to_are_refused_before_the_first_step(tmp_path: Path) -> None:
    for path, said in [
        (
            tmp_path / "no" / "fit.ckpt",
            r"cannot write .*: No such file or directory\. Choose a folder you may write to",
        ),
        (tmp_path, "it is a directory"),
        (Path("/proc/fit.ckpt"), r"cannot write /proc/fit\.ckpt: .* Choose a folder you may write to"),
    ]:
        seen: list[ld.solvers.Step] = []
        with pytest.raises(ld.errors.InvalidFile, match=said):
            ld.decompose(SKEWED, "B3(5)", checkpoint=path, callback=seen.append)
        assert seen == []


def test_bad_arguments_leave_no_file(tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    with pytest.raises(ld.errors.InvalidTensor):
        ld.decompose([[1.0, -1.0]], "B1", checkpoint=path)
    with pytest.raises(ld.errors.InvalidSetting, match=r"checkpoint_every must be a number of seconds >= 0, got -1"):
        ld.decompose(SKEWED, "B1", checkpoint=path, checkpoint_every=-1)
    with pytest.raises(ld.errors.InvalidSetting, match=r"checkpoint_every is how often .* checkpoint=path"):
        ld.decompose(SKEWED, "B1", checkpoint_every=3)
    for bad in (5, "", True):
        with pytest.raises(
            ld.errors.InvalidSetting, match=re.escape(f"checkpoint must be the path of a file, got {bad!r}.")
        ):
            ld.decompose(SKEWED, "B1", checkpoint=bad)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_solver_of_ones_own_goes_on_by_its_theta(tmp_path: Path) -> None:
    class Own(Solver):
        start, advance = ld.solvers.Gradient(learning_rate=1.0).start, ld.solvers.Gradient(learning_rate=1.0).advance
        name, max_iter = "own", 5000

    own: list[Any] = [Own(), Own()]  # two that print their addresses, and nothing else to tell them apart
    fits = [ld.decompose(SKEWED, "B1", solver=solver, checkpoint=tmp_path / "own.ckpt") for solver in own]
    assert fits[0].converged
    assert facts(fits[0]) == facts(fits[1])


def test_a_disk_that_fills_up_does_not_end_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = tmp_path / "fit.ckpt", np.savez
    written = 0

    def full(*arguments: Any, **arrays: Any) -> None:
        nonlocal written
        written += 1
        if written > 3:
            raise OSError(28, "No space left on device")
        real(*arguments, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.warns(
            ld.errors.CheckpointWarning,
            match=r"not up to date: cannot write .* No space left .* unchanged\. The fit goes on\.",
        ):
            fit = ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path, checkpoint_every=0)
    plain = facts(ld.decompose(SKEWED, "B3(5)", solver="natural"))
    assert facts(fit) == plain
    seen = Breaks(-1)
    assert facts(ld.decompose(SKEWED, "B3(5)", solver="natural", checkpoint=path, callback=seen)) == plain
    assert seen.seen[0] == 1  # the head, the start and the first step found room


def test_writing_takes_little_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr("legendre.core.checkpoint.time.monotonic", lambda: clock)

    def slowly(seconds: float) -> Callable[[], dict[str, Any]]:
        def pack() -> dict[str, Any]:
            nonlocal clock
            clock += seconds
            return {"x": 1}

        return pack

    book = Book.open(tmp_path / "fit.ckpt", None)
    clock = EVERY - 1
    assert not book.due()
    clock = EVERY
    assert book.due()
    book.write("fit", slowly(0.01))
    clock += EVERY - 0.1
    assert not book.due()
    clock += 0.1
    book.write("fit", slowly(3.0))  # a large state: 1 % of the time is once in 300 seconds
    clock += 299
    assert not book.due()
    clock += 1
    assert book.due()
    eager = Book.open(tmp_path / "other.ckpt", 0.0)
    eager.write("fit", slowly(3.0))
    assert eager.due()


def test_the_state_under_way_is_not_held_in_memory(tmp_path: Path) -> None:
    book = Book.open(tmp_path / "fit.ckpt", 0.0)
    part = Record(book)
    part.keep(lambda: {"q": np.ones(5)})
    again = Record(Book.open(tmp_path / "fit.ckpt", 0.0))
    first, second = again.take(), again.take()
    assert first is not None
    assert_array_equal(first["q"], np.ones(5))
    assert second is None
    assert not book.finished
    assert not book.under_way


def test_the_command_line_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor, path, out = tmp_path / "X.npy", tmp_path / "fit.ckpt", tmp_path / "fit.npz"
    np.save(tensor, SKEWED)
    words = ("fit", tensor, "-b", "B3(5)", "-o", out, "--solver", "natural", "--checkpoint", path)
    advance, steps = ld.solvers.Natural.advance, 0

    def interrupted(solver: ld.solvers.Natural, *arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise KeyboardInterrupt
        return advance(solver, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ld.solvers.Natural, "advance", interrupted)
        code, _, err = run_command(monkeypatch, capsys, *words)
    assert code == 130
    assert err == f"legendre: interrupted; {path} keeps the fit as it stood. The same command goes on from there.\n"
    assert not out.exists()
    assert run_command(monkeypatch, capsys, *words)[0] == 0
    assert_array_equal(ld.load(out).theta, ld.decompose(SKEWED, "B3(5)", solver="natural").theta)
    code, _, err = run_command(monkeypatch, capsys, *words, "--tol", "1e-3")
    assert code == 2
    assert "belongs to another problem (tol: 1e-10 there, 0.001 here)" in err


def test_the_command_line_refuses_names_that_clash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor, out = tmp_path / "X.npy", tmp_path / "fit.npz"
    np.save(tensor, SKEWED)
    words = ("fit", tensor, "-b", "B1", "-o", out, "--checkpoint")
    code, _, err = run_command(monkeypatch, capsys, *words, out)
    assert (code, "is the output; it would be overwritten" in err) == (2, True)
    code, _, err = run_command(monkeypatch, capsys, *words, tensor)
    assert (code, "is the input; it would be overwritten" in err) == (2, True)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("legendre.cli.app.decompose", interrupted)
    code, _, err = run_command(monkeypatch, capsys, *words[:-1])
    assert code == 130
    assert "interrupted; nothing was kept. With --checkpoint FILE a fit can go on later." in err
