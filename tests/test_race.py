"""The race: our entrants reach the optimum, and the page says what the rows say."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.csv_records import read

from legendre.tasks import compare

pytest.importorskip("benchmarks", reason="the benchmarks are not part of the installed package")

from benchmarks.problems import ROOT
from benchmarks.race import claims, decompositions, page, run, worker
from benchmarks.race.disciplines import DISCIPLINES
from benchmarks.race.entrants import Case
from benchmarks.race.rows import OURS, Row

X = np.random.default_rng(3).random((3, 4, 2))


# --- the adapters


def test_ranks_are_those_of_the_comparison() -> None:
    for shape, params in product([(92, 112, 20), (30, 30, 24), (32,) * 3], (300, 800, 4000)):
        assert decompositions.cp_rank(shape, params) == compare.cp_rank(shape, params)
        assert decompositions.tucker_rank(shape, params) == compare.tucker_rank(shape, params)


def test_ours_gets_there_and_is_judged_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "REPEATS", 1)
    problem = Case("t", 24, lambda: X, "taxi", "", (5, (0,)))
    for entrant in decompositions.DISCIPLINE.entrants:
        if entrant.name.startswith(OURS):
            facts = worker.work(decompositions.DISCIPLINE, problem, entrant, first_only=False)
            assert facts["status"] == "DONE"
            assert facts["kl"] >= 0


# --- what the page says


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
