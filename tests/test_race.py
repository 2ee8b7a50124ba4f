"""The race: every row ends with a status, an interrupted run continues, and the page says what the rows say."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from legendre.core.csv_records import append, read
from legendre.tasks.compare import peers

pytest.importorskip("benchmarks", reason="the benchmarks are not part of the installed package")

from benchmarks.problems import ROOT, DataMissing
from benchmarks.race import claims, decompositions, graphs, loglinear, losses, page, run, scaling, worker
from benchmarks.race.disciplines import DISCIPLINES, find, jobs
from benchmarks.race.entrants import Cannot, Case, Discipline, Entrant, Fitted
from benchmarks.race.networks import Network
from benchmarks.race.rows import OURS, Row

X = np.random.default_rng(3).random((3, 4, 2))


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat no call more than once."""
    monkeypatch.setattr(worker, "REPEATS", 1)


def row(method: str, seconds: float | None, **values: Any) -> Row:
    made = Row("2026-01-01T00:00:00Z", "balancing", "p", 12, method, "DONE", tol=1e-9, residual=1e-12, seconds=seconds)
    return replace(made, **values)


# --- the adapters


def test_ranks_are_those_of_the_comparison() -> None:
    for shape, params in product([(92, 112, 20), (30, 30, 24), (32,) * 3], (300, 800, 4000)):
        assert decompositions.cp_rank(shape, params) == peers.cp_rank(shape, params)
        assert decompositions.tucker_rank(shape, params) == peers.tucker_rank(shape, params)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_residual_is_that_of_the_definition(order: int) -> None:
    """Eta of a cell u is the sum over all v >= u; the basis has the cells with at most so many coordinates > 0."""
    P, Q = X / X.sum(), X**2 / (X**2).sum()
    cells = [u for u in product(*map(range, X.shape)) if 0 < sum(k > 0 for k in u) <= order]
    etas = [abs(sum((P - Q)[v] for v in product(*map(range, X.shape)) if all(np.array(v) >= u))) for u in cells]
    assert loglinear.residual(P, Q, order) == pytest.approx(max(etas), abs=1e-15)


@pytest.mark.parametrize(
    ("discipline", "problem"),
    [
        (decompositions.DISCIPLINE, Case("t", 24, lambda: X, "taxi", "", (5, (0,)))),
        (loglinear.DISCIPLINE, Case("t", 24, lambda: X, "", "", 2)),
        (scaling.DISCIPLINE, find("balancing", "raking 6x5x8x4: one two-way and two one-way margins", OURS)[1]),
    ],
)
def test_ours_gets_there_and_is_judged_from_outside(discipline: Discipline, problem: Case) -> None:
    for entrant in discipline.entrants:
        if entrant.name.startswith(OURS):
            facts = worker.work(discipline, problem, entrant, first_only=False)
            assert facts["status"] == "DONE"
            assert facts["kl"] >= 0


def test_pairs_of_rows_are_judged_by_their_margins() -> None:
    rows = np.array([[0, 0], [1, 1], [1, 0], [1, 1]])
    case = Case("two", 2, lambda: rows, "", "", Network("two", (2, 2), [(0, 1)]))
    exact = np.array([[1, 0], [1, 2]]) / 4
    for change, expected in ((0.0, 0.0), (0.25, 0.25)):
        margin = exact + np.diag([change, -change])
        assert graphs._judge(case, rows, Fitted(lambda _, margin=margin: margin))["residual"] == expected


# --- one row


def entrant(fit: Any, name: str = OURS, **settings: Any) -> Entrant:
    return Entrant(name, settings.pop("package", "numpy"), fit, **settings)


def discipline(error: float = 0.0, *entrants: Entrant) -> Discipline:
    case = Case("p", 1, lambda: 0)
    return Discipline("d", "title", "rules", (case,), entrants, lambda *_: {"residual": error}, 1e-9)


def raising(problem: BaseException) -> Any:
    def fit(_case: Case, _data: Any) -> Fitted:
        raise problem

    return fit


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (DataMissing("x.npz is not there"), "NO DATA"),
        (Cannot("knows no other margins than 1"), "CANNOT"),
        (MemoryError("4 TB"), "OUT OF MEMORY"),
        (ZeroDivisionError("by zero"), "ERROR"),
    ],
)
def test_whatever_goes_wrong_is_a_row(problem: Exception, status: str) -> None:
    made = discipline()
    facts = worker.attempt(lambda: worker.work(made, made.cases[0], entrant(raising(problem)), first_only=False))
    assert facts["status"] == status
    assert str(problem) in facts["note"]


def test_a_fit_above_the_tolerance_has_not_got_there() -> None:
    fine = entrant(lambda *_: Fitted(lambda: 0))
    for error, status in ((1e-10, "DONE"), (1e-8, "NOT REACHED")):
        made = discipline(error)
        assert worker.work(made, made.cases[0], fine, first_only=False)["status"] == status


def test_the_best_way_is_chosen_by_time_among_those_that_get_there() -> None:
    def way(error: float, work: int) -> Any:
        return lambda *_: Fitted(lambda: np.sort(np.random.default_rng(0).random(work))[0] * 0 + error)

    def judge(_case: Case, _data: Any, fitted: Fitted) -> dict[str, float]:
        return {"residual": float(fitted.answer())}

    made = replace(discipline(), judge=judge)
    for ways, best in (
        ({"rough": way(1e-3, 1), "exact": way(1e-12, 1)}, "exact"),
        ({"rough": way(1e-3, 1), "rougher": way(1e-2, 1)}, "rough"),
    ):
        assert worker.choose(made, made.cases[0], entrant(None, ways=ways)) == {"way": best}


@pytest.mark.parametrize(
    ("program", "status", "note"),
    [
        ('print(\'noise\'); print(\'{"status": "DONE", "note": "fine"}\')', "DONE", "fine"),
        ("while True: pass", "TIME LIMIT", "more than 0.2 s of processor time"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ERROR", "exit code -11: no message"),
        ("raise ValueError('of the library')", "ERROR", "exit code 1: ValueError: of the library"),
    ],
)
def test_whatever_becomes_of_a_process_is_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, status: str, note: str
) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\n{program}\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(run, "LIMIT", 0.2)
    monkeypatch.setattr(run, "POLL", 0.05)
    monkeypatch.setattr(run, "WALL", 600)
    assert run.call(["d", "p", OURS]) == {"status": status, "note": note}


# --- a run


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Make a race of three rows whose workers answer at once; the list fills with what they are asked."""
    case = [Case(f"p{k}", k, lambda: 0, "f", "g") for k in (1, 2)]
    ours, slow = entrant(None, compiles=True), entrant(None, "slow", package="no_such_package_here")
    made = Discipline("d", "title", "rules", tuple(case), (ours, slow), lambda *_: {}, None)
    asked: list[list[str]] = []

    def call(words: list[str], environment: Any = None) -> dict[str, Any]:
        del environment
        asked.append(words)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return {"first_seconds": 0.5, "seconds": 0.1, "status": "DONE"}

    monkeypatch.setattr(run, "jobs", lambda: [(made, c, e) for c in case for e in (ours, slow)])
    monkeypatch.setattr(run, "call", call)
    monkeypatch.setattr(run, "write_page", lambda rows: len(rows))
    return asked


def test_an_interrupted_race_continues_and_then_replaces_the_last_one(
    short: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / run.FINISHED
    append(old, row(OURS, 9.0))
    with pytest.raises(KeyboardInterrupt):
        run.main(["--output", str(tmp_path)])
    assert [r.method for r in read(tmp_path / run.UNFINISHED, Row)] == [OURS, "slow"]
    assert [r.seconds for r in read(old, Row)] == [9.0]
    assert run.main(["--output", str(tmp_path)]) == 0
    assert "2 rows are there" in capsys.readouterr().out
    assert [words[1] for words in short] == ["p1", "p1", "p2", "p2", "p2"]  # the row that was not finished runs again
    rows = read(old, Row)
    assert [(r.problem, r.method, r.status) for r in rows] == [
        ("p1", OURS, "DONE"), ("p1", "slow", "NOT INSTALLED"), ("p2", OURS, "DONE"), ("p2", "slow", "NOT INSTALLED"),
    ]  # fmt: skip
    assert len({r.run for r in rows}) == 1
    assert rows[0].empty_seconds == 0.5
    assert not (tmp_path / run.UNFINISHED).exists()


def test_who_ran_out_of_time_does_not_start_on_harder_problems(short: list[list[str]]) -> None:
    ((made, _, ours), _, (_, case, _), _) = vars(run)["jobs"]()
    late = row(OURS, None, status="TIME LIMIT", problem="p1")
    assert run._facts(made, case, ours, Path("nowhere"), [late]) == {"status": "SKIPPED", "note": "p1 took too long"}
    assert short == []


# --- what the page says


def test_a_loss_is_said_with_its_reason() -> None:
    rows = [row(OURS, 1.0), row("fast", 0.5), row("wrong", 0.1, status="NOT REACHED"), row("slow", 2.0)]
    (loss,) = losses.losses(rows)
    assert (loss.problem, loss.kind, loss.ours, loss.ahead) == ("p", "time", "1 s", "fast 0.5 s (0.5 x)")
    assert "Tried:" in loss.why
    assert losses.why("nothing known of it", "time") == "Nothing was tried."


def test_first_calls_and_memory_are_gathered() -> None:
    rows = [row(OURS, 1.0, first_seconds=2.0, problem=p) for p in ("p", "q", "r")]
    rows += [row("fast", 3.0, first_seconds=seconds, problem=p) for p, seconds in (("p", 1.0), ("q", 0.5), ("r", 4.0))]
    (loss,) = losses.losses(rows)
    assert (loss.problem, loss.kind) == ("balancing: 2 of 3 problems", "first call")
    assert (loss.ours, loss.ahead) == ("2 s", "fast on 2 (down to 0.25 x)")
    compiled_nothing = row(OURS, 1.0, first_seconds=0.5, empty_seconds=0.6)
    assert losses.losses([compiled_nothing, row("fast", 2.0, first_seconds=0.55)]) == []


def test_errors_are_compared_where_models_differ() -> None:
    rows = [row(OURS, 1.0, rmse=2.0, kl=0.1), row("other", 2.0, rmse=1.0, kl=0.2)]
    assert losses.losses(rows) == []
    (loss,) = losses.losses([replace(r, tol=None, discipline="decompositions") for r in rows])
    assert (loss.kind, loss.ahead) == ("RMSE", "other 1 (0.5 x)")


def test_every_time_that_a_row_lacks_has_a_reason_on_the_page() -> None:
    rows = [row(OURS, 1.0), row("POT", None, status="ERROR", note="exit code -11")]
    rows = [replace(r, problem=DISCIPLINES[2].cases[0].name) for r in rows]
    text = "\n".join(page.parts(rows))
    assert "| ERROR: exit code -11 |" in text
    assert f"{len(jobs()) - 2} of {len(jobs())} rows are missing" in text


def test_the_published_page_is_that_of_the_published_rows(tmp_path: Path) -> None:
    rows = read(run.RESULTS / run.FINISHED, Row)
    assert rows
    assert page.write_page(rows, tmp_path / "race.md").read_text() == page.PAGE.read_text()


# --- what the documentation says about speed

GENERATED = ("race.md", "performance.md", "results.md", "changelog.md")


def pages() -> dict[str, str]:
    """Return the README and the pages that people write, each in one line."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    written = [path for path in paths if path.name not in GENERATED and "_build" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): " ".join(path.read_text().split()) for path in written}


def test_every_sentence_that_compares_times_is_judged_by_a_row() -> None:
    known = {(discipline.name, case.name): discipline for discipline in DISCIPLINES for case in discipline.cases}
    methods = {case: {e.name for e in made.entrants} for (_, case), made in known.items()}
    rest = pages()
    for claim in claims.CLAIMS:
        assert {claim.faster, claim.slower} <= methods[claim.problem], claim
        assert claim.words in rest[claim.place], claim
        rest[claim.place] = rest[claim.place].replace(claim.words, "")
    assert [(place, word) for place, text in rest.items() for word in claims.WORDS if word in text] == []


def test_no_claim_is_against_its_row() -> None:
    found = claims.verdicts(read(run.RESULTS / run.FINISHED, Row))
    assert [verdict for verdict in found if verdict.holds == "NO"] == []


def test_a_claim_that_does_not_hold_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMS", (claims.Claim("docs/x.md", "faster than fast", "p", OURS, "fast"),))
    for others, holds in ((0.5, "NO"), (2.0, "yes")):
        assert claims.verdicts([row(OURS, 1.0), row("fast", others)])[0].holds == holds
    assert claims.verdicts([row(OURS, 1.0), row("fast", 0.5, status="NOT REACHED")])[0].holds == "yes"
    assert claims.verdicts([row(OURS, 1.0)])[0].holds == "-"
