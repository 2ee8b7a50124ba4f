"""`legendre fit X.npy` and no more; JSON; the Tab key; Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_cli import run

import legendre as ld


def test_fit_without_a_basis_says_what_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    X = ld.datasets.titanic().toarray()
    np.save("titanic.npy", X)
    code, out, err = run(monkeypatch, capsys, "fit", "titanic.npy")
    fit = ld.decompose(X)
    assert code == 0
    assert err == f"no --basis was given: {fit.reason}\n"
    assert out == f"{fit.summary()}\nwritten to titanic.fit.npz\n"
    np.testing.assert_array_equal(ld.load("titanic.fit.npz").theta, fit.theta)


def test_a_file_that_nobody_named_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.ones((2, 2)))
    Path("X.fit.npz").write_text("precious")
    code, _, err = run(monkeypatch, capsys, "fit", "X.npy", "-b", "B1")
    assert (code, err) == (
        2,
        "legendre: X.fit.npz is there already. To overwrite it, or to write elsewhere, give --output.\n",
    )
    assert Path("X.fit.npz").read_text() == "precious"
    assert run(monkeypatch, capsys, "fit", "X.npy", "-b", "B1", "-o", "X.fit.npz")[0] == 0


def shown(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    code, out, err = run(monkeypatch, capsys, "show", path, "--json")
    assert (code, err) == (0, "")
    found: dict[str, object] = json.loads(out)
    return found


def test_show_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fit.npz"
    fit = ld.decompose([[18, 7, 3], [6, 19, 4]])
    fit.save(path)
    found = shown(path, monkeypatch, capsys)
    assert found["kind"] == "Decomposition"
    assert (found["status"], found["converged"], found["shape"]) == ("CONVERGED", True, [2, 3])
    assert (found["kl"], found["theta"], found["basis"]) == (fit.kl, fit.theta.tolist(), fit.basis.tolist())
    assert (found["recipe"], found["reason"]) == (fit.recipe, fit.reason)
    assert found["path"][-1]["n_params"] == fit.n_params  # type: ignore[index]


def test_json_of_other_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, gaps = tmp_path / "result.npz", np.array([[1, 2, np.nan], [2, np.nan, 6], [3, 6, 9.0]])
    ld.balance([[3.0, 2.0], [1.0, 4.0]]).save(path)
    assert shown(path, monkeypatch, capsys)["kind"] == "Balanced"
    ld.complete(gaps, "B1").save(path)
    assert shown(path, monkeypatch, capsys)["converged"] is True
    ld.decompose([[1, 2], [3, 4]], "B1").inference().save(path)
    assert "g2" in shown(path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rows.csv", "--columns", "a,nonsense"), "legendre: rows.csv: unknown column 'nonsense'"),
        (("rows.csv", "--solver", "nonsense"), "legendre: unknown solver 'nonsense'"),
        (("rows.csv", "--tol", "-1"), "legendre: tol must be a number >= 0"),
    ],
)
def test_a_fit_that_is_there_does_not_hide_mistakes(
    arguments: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They were named only once another output was given: the file in the way came first."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,b\nx,u\ny,v\n")
    Path("rows.fit.npz").write_text("precious")
    code, _, err = run(monkeypatch, capsys, "fit", *arguments)
    assert (code, err.startswith(said)) == (2, True), err
