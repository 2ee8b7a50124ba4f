"""A short run of the campaign with a fixed seed; and that the campaign sees what is wrong."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legendre as ld

from .codec import from_json, to_json
from .oracle import Problem, basis_cells
from .rules import Trial, Wrong, judge
from .run import MARKS, Tally, arguments_of, campaign, report, run_case, table
from .targets import all_targets

SEED = 20180317
CASES = {"decompose": 40, "smooth": 3, "hidden": 4, "commands": 8}
EVERY = 12


@pytest.mark.parametrize("target", all_targets())
def test_a_short_run_breaks_no_rule(target: str) -> None:
    failed = []
    for number in range(CASES.get(target, EVERY)):
        verdict = run_case(target, arguments_of(target, SEED, number))
        if verdict.failed:
            failed.append(f"--target {target} --seed {SEED} --case {number}: {verdict.kind}: {verdict.said}")
    assert not failed, "\n".join(failed)


def test_a_campaign_counts_every_case_of_its_processes(tmp_path: Path) -> None:
    tally = campaign(3, 7, 1, ["queries"], tmp_path, quiet=True)
    assert sum(tally.counts["queries"].values()) == 3
    assert tally.failed == 0


def judged(call: Any, check: Any = lambda _: "right", held: Any = (), bits: Any = lambda x: x) -> str:
    return judge(lambda: Trial(call, check, held, bits), seconds=0.5).kind


def test_every_broken_rule_is_seen() -> None:
    import warnings

    held, ticks = np.zeros(3), iter(range(9))

    def write() -> None:
        held[0] += 1.0

    def refuse(text: str) -> Any:
        raise ld.errors.InvalidTensor(text)

    def spin() -> None:
        begun = time.process_time()
        while time.process_time() < begun + 1.0:
            pass

    def wrong(_: Any) -> str:
        raise Wrong("no")

    assert judged(lambda: 1) == "right"
    assert judged(lambda: refuse("X has one entry too few.")) == "refused"
    assert judged(lambda: refuse("bad")) == "wrong"
    assert judged(lambda: 1, wrong) == "wrong"
    assert judged(lambda: 1 // 0) == "exception"
    assert judged(lambda: warnings.warn("hot", RuntimeWarning, stacklevel=1)) == "warning"
    assert judged(lambda: warnings.warn("hot", ld.ConvergenceWarning, stacklevel=1)) == "right"
    assert judged(write, held=(held,)) == "changed"
    assert judged(lambda: next(ticks)) == "differs"
    assert judged(spin) == "hang"


def test_a_benign_refusal_is_wrong() -> None:
    def refuse() -> Any:
        raise ld.errors.InvalidTensor("X has one entry too few.")

    assert judge(lambda: Trial(refuse, lambda _: "right", benign=True)).kind == "wrong"


def test_the_oracle_knows_an_answer_by_hand() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    problem = Problem.of(X, np.ones((2, 2), dtype=bool), np.array([[0, 1], [1, 0]]))
    assert np.abs(np.exp(problem.best.log_q) * 10 - [1.2, 1.8, 2.8, 4.2]).max() < 1e-15
    assert problem.alive.all()
    assert problem.rank == 2


def test_the_oracle_finds_the_cells_that_vanish() -> None:
    X = np.array([[1.0, 0.0], [2.0, 0.0]])
    problem = Problem.of(X, np.ones((2, 2), dtype=bool), np.array([[0, 1], [1, 0]]))
    assert problem.alive.tolist() == [True, False, True, False]
    # an empty cell that the margins allow
    X = np.array([[1.0, 0.0], [2.0, 1.0]])
    assert Problem.of(X, np.ones((2, 2), dtype=bool), np.array([[0, 1], [1, 0]])).alive.all()


def test_the_oracle_reads_the_papers_bases() -> None:
    X = np.array([[1.0, 2.0], [3.0, 2.0]])
    assert basis_cells("B3(1)", X, X > 0) == {(0, 1), (1, 0)}
    assert basis_cells("B1 - cells([[0, 1]]) | full & empty", X, X > 0) == {(1, 0)}


def test_a_false_certificate_is_seen() -> None:
    """A fit whose theta was changed after it converged."""
    from dataclasses import replace

    from .fit_rules import check_fit

    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    fit = ld.decompose(X, "B1")
    problem = Problem.of(X, np.ones((2, 2), dtype=bool), fit.basis)
    assert check_fit(fit, problem, np.random.default_rng(0)) == "right"
    other = replace(fit, theta=fit.theta + 1e-6)
    with pytest.raises(Wrong, match=r"psi|eta"):
        check_fit(other, problem, np.random.default_rng(0))


@pytest.mark.parametrize("target", all_targets())
def test_arguments_survive_json(target: str) -> None:
    for number in range(5):
        args = arguments_of(target, 1, number)
        text = json.dumps(to_json(args))
        assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_the_table_and_the_report(tmp_path: Path) -> None:
    tally = Tally(7, tmp_path, quiet=True)
    tally.add("decompose", 0, "right", "", 0.01)
    tally.add("decompose", 1, "wrong", "kl is off", 0.02)
    assert tally.failed == 1
    kept = json.loads((tmp_path / "decompose-7-1.json").read_text())
    assert (kept["kind"], kept["said"], kept["seed"], kept["case"]) == ("wrong", "kl is off", 7, 1)
    summary = tally.summary() | {"minutes": 1.0, "jobs": 2}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    report(page, tmp_path)
    text = page.read_text()
    assert table(summary) in text
    assert "Seed 7, 2 cases, 1 minutes on 2 cores." in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
