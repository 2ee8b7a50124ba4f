"""A short run of the campaign with a fixed seed; that the campaign sees what is wrong; and what is out of range."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legendre as ld

from . import draw
from .fit_rules import check_fit
from .oracle import Problem, basis_cells
from .rules import Trial, Wrong, fingerprint, judge
from .run import arguments_of, campaign, failed, from_text, run_batch, table, to_text
from .targets import all_targets

SEED = 20180317
CASES = {"decompose": 80, "smooth": 3} | dict.fromkeys(
    ("adaptive", "boxes", "formulas", "hidden", "lacking", "sparse"), 12
)


@pytest.mark.parametrize("target", all_targets())
def test_a_short_run_breaks_no_rule(target: str) -> None:
    found = run_batch(target, SEED, list(range(CASES.get(target, 40))))
    assert not list(filter(failed, found)), f"--target {target} --seed {SEED}"


def test_a_campaign_counts_every_case_of_its_processes(tmp_path: Path) -> None:
    found = campaign(3, 7, 1, ["decompose"], tmp_path)
    assert sorted(case[1] for case in found) == [0, 1, 2]
    assert not any(map(failed, found))
    assert table(found).splitlines()[-1].startswith("| all | 3 |")


@pytest.mark.parametrize("target", all_targets())
def test_a_case_survives_as_text(target: str) -> None:
    for number in range(5):
        args = arguments_of(target, 1, number)
        assert fingerprint(from_text(to_text(target, args))) == fingerprint((target, args))


def test_a_thousand_tensors_out_of_range_are_refused_in_a_sentence() -> None:
    """Entries beyond 1e-100 or 1e100, or more than 18 decades apart: in X and in a base measure."""
    for seed in range(1_000):
        rng = np.random.default_rng(seed)
        X = draw.values(rng, draw.shape(rng))
        grid = draw.out_of_range(rng, X.shape)
        as_base = draw.chance(rng, 0.2)
        error = ld.errors.InvalidSupport if as_base else ld.errors.InvalidTensor
        with pytest.raises(error, match=r"^\S+( \S+){5,}\.$"):
            ld.decompose(X if as_base else grid, "B1", base=grid if as_base else None)


def test_every_broken_rule_is_seen() -> None:
    held, ticks = np.zeros(3), iter(range(9))

    def judged(call: Any, check: Any = lambda _: "right", **more: Any) -> str:
        return judge(lambda: Trial(call, check, bits=lambda x: x, **more), seconds=0.5).kind

    def write() -> None:
        held[0] += 1.0

    def refuse(text: str = "X has one entry too few.") -> Any:
        raise ld.errors.InvalidTensor(text)

    def spin() -> None:
        begun = time.process_time()
        while time.process_time() < begun + 1.0:
            pass

    def wrong(_: Any) -> str:
        raise Wrong("no")

    assert judged(lambda: 1) == "right"
    assert judged(refuse) == "refused"
    assert judged(refuse, benign=True) == "wrong"
    assert judged(lambda: refuse("bad")) == "wrong"
    assert judged(lambda: 1, wrong) == "wrong"
    assert judged(lambda: 1 // 0) == "exception"
    assert judged(lambda: warnings.warn("hot", RuntimeWarning, stacklevel=1)) == "warning"
    assert judged(lambda: warnings.warn("hot", ld.ConvergenceWarning, stacklevel=1)) == "right"
    assert judged(write, held=(held,)) == "changed"
    assert judged(lambda: next(ticks)) == "differs"
    assert judged(spin) == "hang"


def test_the_oracle_knows_answers_by_hand() -> None:
    X, mask, sides = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2), dtype=bool), np.array([[0, 1], [1, 0]])
    problem = Problem.of(X, mask, sides)
    assert np.abs(np.exp(problem.best.log_q) * 10 - [1.2, 1.8, 2.8, 4.2]).max() < 1e-15
    assert problem.alive.all()
    assert problem.rank == 2
    assert Problem.of(np.array([[1.0, 0.0], [2.0, 0.0]]), mask, sides).alive.tolist() == [True, False, True, False]
    assert Problem.of(np.array([[1.0, 0.0], [2.0, 1.0]]), mask, sides).alive.all()  # the margins allow the empty cell
    ties = np.array([[1.0, 2.0], [3.0, 2.0]])
    assert basis_cells("B3(1)", ties, mask) == {(0, 1), (1, 0)}
    assert basis_cells("B1 - cells([[0, 1]]) | full & empty", ties, mask) == {(1, 0)}


def test_a_false_certificate_is_seen() -> None:
    """A fit whose theta was changed after it converged."""
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    fit = ld.decompose(X, "B1")
    problem = Problem.of(X, np.ones((2, 2), dtype=bool), fit.basis)
    assert check_fit(fit, problem, np.random.default_rng(0)) == "right"
    with pytest.raises(Wrong, match=r"psi|eta"):
        check_fit(replace(fit, theta=fit.theta + 1e-6), problem, np.random.default_rng(0))
