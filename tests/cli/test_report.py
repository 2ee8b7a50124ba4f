"""``legendre report``: the page of a saved result, and what is said of files that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_cli import run

import legendre as ld


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).poisson(5.0, (4, 5, 3)) + 1
    np.save("X.npy", X)
    np.savez("two.npz", X=X, other=X[0])
    ld.decompose(X, "B1").save("fit.npz")
    ld.decompose(X, "B1").inference().save("tests.npz")
    return tmp_path


def test_it_writes_the_page_of_the_result(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(monkeypatch, capsys, "report", "fit.npz")
    assert (code, out, err) == (0, "0.04 MB written to report.html\n", "")
    assert "does not hold X" in (folder / "report.html").read_text(encoding="utf-8")
    for data in (["--data", "X.npy"], ["-d", "two.npz", "--key", "X"]):
        assert run(monkeypatch, capsys, "report", "fit.npz", *data, "-o", "page.html")[0] == 0
        page = (folder / "page.html").read_text(encoding="utf-8")
        ld.load("fit.npz").report("wanted.html", np.load("X.npy"))
        assert page == (folder / "wanted.html").read_text(encoding="utf-8")


OVERWRITTEN = "is the input; it would be overwritten. Choose another name."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no.npz"], "cannot read no.npz: No such file or directory."),
        (["X.npy"], "cannot read X.npy: not a saved result (it holds a single array)."),
        (
            ["tests.npz"],
            "tests.npz holds a result of type Inference, which has no report page. "
            "Print its summary with: legendre show tests.npz",
        ),
        (["fit.npz", "-o", "no/report.html"], "cannot write no/report.html: the folder no does not exist."),
        (["fit.npz", "-o", "."], "cannot write .: it is a directory."),
        (["fit.npz", "-o", "fit.npz"], f"the output fit.npz {OVERWRITTEN}"),
        (["fit.npz", "-d", "X.npy", "-o", "X.npy"], f"the output X.npy {OVERWRITTEN}"),
        (["fit.npz", "-d", "no.npy"], "no.npy does not exist."),
        (
            ["fit.npz", "-d", "two.npz", "--key", "other"],
            "report: data has shape (5, 3), but the fit is of a tensor of shape (4, 5, 3).",
        ),
        (
            ["fit.npz", "--key", "X"],
            "--variable, --columns, --counts and --wide are about the file of X; name it with --data.",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    code, out, err = run(monkeypatch, capsys, "report", *words)
    assert (code, out, err) == (2, "", f"legendre: {sentence}\n")
    assert not (folder / "report.html").exists()


def test_a_table_of_rows_is_read_as_fit_reads_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{a},{b}" for a in ("BOS", "SFO") for b in ("early", "late") for _ in range(3 + len(a + b) % 4)]
    (folder / "rows.csv").write_text("\n".join(["dest,hour", *lines]) + "\n")
    table = ["rows.csv", "--columns", "dest,hour"]
    assert run(monkeypatch, capsys, "fit", *table, "-b", "B1", "-o", "rows.npz")[0] == 0
    code, _, err = run(monkeypatch, capsys, "report", "rows.npz", "--data", *table)
    assert (code, err) == (0, "")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "dest × hour (2 × 2)" in page
    assert '"levels":[[""],["BOS","SFO"],["early","late"]]' in page
