"""The benchmark page shows what its rows say."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from legendre.core.csv_records import append

pytest.importorskip("benchmarks", reason="the benchmarks are not part of the installed package")

from benchmarks import tables
from benchmarks.page import write_page
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
    text = (Path(__file__).parent.parent / "docs" / "performance.md").read_text()
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
