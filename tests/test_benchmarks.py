"""The benchmark page agrees with its rows; two versions are measured in turns."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest

from legendre.core.csv_records import append, read

pytest.importorskip("benchmarks", reason="the benchmarks are not part of the installed package")

from benchmarks import against, first_use, tables
from benchmarks.against_worker import Measured
from benchmarks.page import write_page
from benchmarks.problems import ROOT
from benchmarks.results import PEER_ROWS, ROWS, Results, load
from benchmarks.rows import Row, read_rows

PROBLEM = "100^3 B3(1)"


def row(method: str, seconds: float | None, *, run: str = "2026-01-01", status: str = "CONVERGED") -> Row:
    return Row(run, method, PROBLEM, 10**6, status, 1e-5, 100, 1, 1e-8, seconds=seconds)


def written(folder: Path) -> dict[str, list[str]]:
    """Write the page and return the cells of its table of other methods, by method."""
    lines = write_page(load(folder), folder, folder / "performance.md").read_text().splitlines()
    table = lines[lines.index("## Others") + 4 :]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[: table.index("")]]
    return {line[1]: line for line in cells}


def test_the_ratio_is_that_of_the_two_times_on_the_page(tmp_path: Path) -> None:
    """A later run measured the package again, but not the peer."""
    append(tmp_path / ROWS, row("legendre", 0.036))
    append(tmp_path / PEER_ROWS, row("numpy", 0.0891))
    append(tmp_path / ROWS, row("legendre", 0.00577, run="2026-01-02"))
    lines = written(tmp_path)
    seconds, ratio = tables.PEER_COLUMNS.index("seconds"), tables.PEER_COLUMNS.index("/ legendre")
    ours, peer = lines["legendre"], lines["Algorithm 2 in NumPy"]
    assert (ours[seconds], ours[ratio]) == ("0.00577", "")
    assert (peer[seconds], peer[ratio]) == ("0.0891", "15.4")


def test_every_ratio_of_the_published_page_is_that_of_its_rows() -> None:
    text = (Path(__file__).parent.parent / "docs" / "background" / "performance.md").read_text()
    table = text.split("## Others\n\n")[1].split("\n\n")[0].splitlines()
    name, _, _, _, _, seconds, ratio, *_ = range(len(tables.PEER_COLUMNS))
    ours: dict[str, float] = {}
    checked = 0
    for line in table[2:]:
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        if cells[1] == "legendre":
            ours[cells[name]] = float(cells[seconds])
        elif cells[ratio]:
            # both times are printed with three digits
            assert float(cells[ratio]) == pytest.approx(float(cells[seconds]) / ours[cells[name]], rel=0.015), line
            checked += 1
    assert checked > 30


@pytest.mark.parametrize(
    ("ours", "peer"),
    [
        (row("legendre", 0.01, status="FAILED"), row("cp", 0.1)),
        (row("legendre", None, status="TIME LIMIT"), row("cp", 0.1)),
        (row("legendre", 0.01), row("cp", None, status="TIME LIMIT")),
        (None, row("cp", 0.1)),
    ],
)
def test_there_is_no_ratio_to_a_row_that_does_not_count(ours: Row | None, peer: Row) -> None:
    (line,) = tables.peer_lines([peer], lambda _: ours)
    assert line[tables.PEER_COLUMNS.index("/ legendre")] == ""


def test_files_with_the_stored_ratio_are_read_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / PEER_ROWS
    names = [field.name for field in fields(Row)]
    at = names.index("step_seconds")
    values = ["2026-01-01", "numpy", PROBLEM, "1000000", "CONVERGED", "1e-05", "100"] + [""] * (len(names) - 8)
    old = [[*names[:at], "ratio_to_ours", *names[at:]], [*values[:at], "2.48", *values[at:], '"a, note"']]
    path.write_text("\n".join(",".join(line) for line in old) + "\n2026-01-01,num")  # stopped while it wrote
    (found,) = read_rows(path)
    assert (found.method, found.params, found.step_seconds, found.note) == ("numpy", 100, None, "a, note")
    append(path, row("cp", 0.1))
    assert [row.method for row in read_rows(path)] == ["numpy", "cp"]
    assert [file.name for file in tmp_path.iterdir()] == [PEER_ROWS]


def test_the_newest_row_counts_and_a_skipped_one_displaces_nothing(tmp_path: Path) -> None:
    for made in (row("cp", 0.3), row("cp", 0.2, run="2026-01-02"), row("cp", None, status="SKIPPED")):
        append(tmp_path / PEER_ROWS, made)
    results: Results = load(tmp_path)
    found = results.of("cp", PROBLEM)
    assert found is not None
    assert found.seconds == 0.2


# --- what a first fit costs


def test_the_page_of_first_fits_is_that_of_its_rows() -> None:
    rows = read(first_use.RESULTS, first_use.FirstUse)
    assert first_use.PAGE.read_text() == first_use.page(rows)
    assert len({row.problem for row in rows}) >= 10
    assert all(row.kernels == 0 for row in rows if row.cache == "full")


# --- an older checkout against this one

ONE = Measured(seconds=1.0, repeats=3, residual=1e-9, n_params=20, kl=0.5, peak_mb=60.0, other_load=0.0, source="")


def pair(old: list[float], new: list[float], residual: float = 1e-9, note: str = "") -> against.Pair:
    found = {
        "old": [replace(ONE, seconds=seconds) for seconds in old],
        "new": [replace(ONE, seconds=seconds, residual=residual) for seconds in new],
    }
    return against.Pair("20^3 B3(1)", 1e-5, found, note)


@pytest.mark.parametrize(
    ("made", "holds"),
    [
        (pair([1.0, 1.0, 9.0], [1.14, 1.14, 1.14]), True),
        (pair([1.0, 1.0, 9.0], [1.16, 1.16, 0.1]), False),  # medians: one lucky round does not count
        (pair([1.0], [0.5], residual=1e-4), False),  # fast, but tol was not reached
        (pair([1.0], [], note="more than 300 s"), False),
        (pair([], [], note="NO DATA: orl_faces.npz is not there"), None),
    ],
)
def test_a_version_may_take_fifteen_per_cent_longer(made: against.Pair, holds: bool | None) -> None:
    assert made.holds is holds
    assert made.cells[-1] == {True: "yes", False: "NO", None: "-"}[holds]
    assert len(made.cells) == len(against.COLUMNS)


def test_a_line_shows_both_versions() -> None:
    made = pair([1.0, 2.0, 3.0], [4.0, 3.0, 2.0], residual=2e-9)
    assert made.cells == ["20^3 B3(1)", "20", "2", "3", "1.50", "1e-09", "2e-09", "0.5", "0.5", "60", "60", "NO"]


def test_versions_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def measure(self: against.Checkout, _: object) -> Measured:
        order.append(self.label)
        return ONE

    monkeypatch.setattr(against.Checkout, "measure", measure)
    old, new = against.Checkout("old", Path("a")), against.Checkout("new", Path("b"))
    against.compare(old, new, against.PROBLEMS["20^3 B3(1)"], 3)
    assert order == ["old", "new", "new", "old", "old", "new"]


def test_a_checkout_is_measured_in_processes_that_import_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older version is a package with one function, which fits nothing and returns a residual of its own."""
    old = tmp_path / "src" / "legendre"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text(
        "import types\n"
        "def decompose(X, basis, *, support, tol):\n"
        "    return types.SimpleNamespace(residual=3e-7, n_params=X.shape[-1], kl=1.0)\n"
    )
    monkeypatch.setattr(against, "LIMIT", float("inf"))
    assert against.main([str(tmp_path), "--only", "20^3 B3(1)", "--rounds", "1"]) == 0
    out = capsys.readouterr().out
    assert "3e-07" in out
    assert "20^3 B3(1)" in out
    monkeypatch.setattr(against, "LIMIT", 1.1)  # a real fit takes longer
    assert against.main([str(tmp_path), "--only", "20^3 B3(1)", "--rounds", "1", "--elapsed"]) == 1
    assert "perf_counter" in capsys.readouterr().out


def test_a_package_from_elsewhere_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = json.dumps(asdict(replace(ONE, source="/elsewhere/legendre/__init__.py")))
    monkeypatch.setattr(against.Checkout, "python", lambda *_, **__: other)
    old, new = against.Checkout("old", tmp_path), against.Checkout("new", ROOT)
    made = against.compare(old, new, against.PROBLEMS["20^3 B3(1)"], 1)
    assert made.note == f"/elsewhere/legendre/__init__.py was imported, which is not in {tmp_path / 'src'}"


def test_imports_are_compared_with_what_they_import_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(["0.3", "0.2", "0.1", "0.4", "0.3", "0.2"])
    monkeypatch.setattr(against.Checkout, "python", lambda *_, **__: next(times))
    old, new = against.Checkout("old", Path("a")), against.Checkout("new", Path("b"))
    lines = against.import_cells(against.import_seconds(old, new, 2))
    assert [line[:5] for line in lines] == [
        ["import legendre", "", "0.3000", "0.2000", "0.67"],
        ["  / import numpy, scipy.linalg", "", "3.00 x", "2.00 x", ""],
    ]
    assert {len(line) for line in lines} == {len(against.COLUMNS)}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["/no/such/folder"], "/no/such/folder has no src/legendre; give the folder of a checkout."),
        ([str(ROOT), "--rounds", "0"], "--rounds must be an integer >= 1, got 0."),
    ],
)
def test_what_cannot_be_measured_is_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        against.main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
