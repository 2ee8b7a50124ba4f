"""The benchmark page agrees with its rows; two versions are measured in turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.csv_records import read

pytest.importorskip("benchmarks", reason="the benchmarks are not part of the installed package")

from benchmarks import against, first_use, tables
from benchmarks.against_worker import Measured


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
