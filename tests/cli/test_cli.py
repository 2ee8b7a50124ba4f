"""The command line: output, files, error messages and exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legendre as ld
import legendre.cli.demo
from legendre.cli import main
from legendre.cli.demo import fit_busiest
from legendre.core.types import AnyArray, FloatArray
from legendre.tasks.compare import PEERS, Factors, save


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Call the command line in this process; return exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["legendre", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0, out, err


@pytest.fixture
def tensor(tmp_path: Path, rng: np.random.Generator) -> Path:
    path = tmp_path / "X.npy"
    np.save(path, rng.random((4, 5, 3)))
    return path


def test_fit_writes_what_decompose_returns(
    tensor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "fit.npz"
    code, out, err = run(monkeypatch, capsys, "fit", tensor, "-b", "B1+B3(2)", "-o", target)
    assert (code, err) == (0, "")
    assert "CONVERGED" in out
    assert f"written to {target}" in out
    expected = ld.decompose(np.load(tensor), "B1 + B3(2)")
    assert np.array_equal(ld.load(target).theta, expected.theta)


def test_fit_takes_modes_without_an_order(
    tensor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "fit.npz"
    assert run(monkeypatch, capsys, "fit", tensor, "-b", "adaptive(4)", "--unordered", "0, 2", "-o", target)[0] == 0
    expected = ld.decompose(np.load(tensor), ld.adaptive(4), unordered=[0, 2])
    assert ld.load(target).arrangement == expected.arrangement
    assert np.array_equal(ld.load(target).theta, expected.theta)
    rows = [f"{who},{size},{n}" for who, size, n in zip("abcd" * 3, "xxxxyyyyzzzz", range(1, 13), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["2,size,n", *rows]))  # a column whose name is a number
    call = ("fit", tmp_path / "rows.csv", "--columns", "2,size", "--counts", "n", "-b", "adaptive(2)", "-o", target)
    asked = {None: ["2", "size"], "": [], "2": ["2"], "size": ["size"], "0": ["2"], " size , 0": ["2", "size"]}
    for text, arranged in asked.items():
        words = () if text is None else ("--unordered", text)
        assert run(monkeypatch, capsys, *call, *words)[0] == 0
        assert list(ld.load(target).arrangement) == arranged
    for text, sentence in {
        "sise": "legendre: unordered: unknown mode 'sise'; did you mean 'size'?",
        "5": "legendre: unordered: 5 is no mode of X, which has 2, counted from 0 to 1.",
    }.items():
        code, _, err = run(monkeypatch, capsys, *call, "--unordered", text)
        assert (code, err[: len(sentence)]) == (2, sentence)


def test_show_prints_the_summary_and_writes_the_tensor(
    tensor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ld.decompose(np.load(tensor), "B1")
    fit.save(tmp_path / "fit.npz")
    code, out, _ = run(monkeypatch, capsys, "show", tmp_path / "fit.npz", "-t", tmp_path / "Q.npy")
    assert code == 0
    assert out.startswith(fit.summary())
    np.testing.assert_allclose(np.load(tmp_path / "Q.npy"), fit.tensor(), rtol=1e-14)
    code, _, err = run(monkeypatch, capsys, "show", tmp_path / "fit.npz", "-t", tmp_path / "Q.csv")
    assert (code, "with --tensor FILE.npy." in err) == (2, True)
    assert not (tmp_path / "Q.csv").exists()


def test_show_knows_results_of_every_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, X = tmp_path / "result.npz", np.array([[3.0, 2.0], [1.0, 4.0]])
    balanced = ld.balance(X)
    balanced.save(path)
    code, out, _ = run(monkeypatch, capsys, "show", path, "-t", tmp_path / "Q.npy")
    assert (code, out.startswith(balanced.summary())) == (0, True)
    np.testing.assert_array_equal(np.load(tmp_path / "Q.npy"), balanced.tensor())
    code, _, err = run(monkeypatch, capsys, "show", path, "-t", tmp_path / "Q.npy", "--extend")
    assert (code, "holds a Balanced, which has no use for --extend." in err) == (2, True)


@pytest.mark.parametrize("ending", ["npy", "npz", "csv"])
def test_the_three_formats_agree(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X = np.array([[1.0, 2.0, np.nan], [4.0, 0.5, 6.0]])
    path = tmp_path / f"X.{ending}"
    writers: dict[str, Callable[[], object]] = {
        "npy": lambda: np.save(path, X),
        "npz": lambda: np.savez(path, X=X),
        "csv": lambda: path.write_text("1,2,\n4,0.5,6\n"),
    }
    writers[ending]()
    code, _, err = run(monkeypatch, capsys, "fit", path, "-b", "B1", "-o", tmp_path / "fit.npz")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(ld.load(tmp_path / "fit.npz").tensor(), ld.decompose(X, "B1").tensor(), rtol=1e-12)


def test_an_archive_with_several_arrays_needs_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "two.npz", first=np.ones((2, 2)), second=np.ones(3))
    words = ("fit", tmp_path / "two.npz", "-b", "B1", "-o", tmp_path / "fit.npz")
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert "holds 2 arrays: first, second. Choose one with --variable." in err
    code, _, err = run(monkeypatch, capsys, *words, "--variable", "frist")
    assert code == 2
    assert "did you mean 'first'?" in err
    assert run(monkeypatch, capsys, *words, "--key", "second")[0] == 0


@pytest.mark.parametrize("command", [("fit", "-b", "B1"), ("compare", "--no-peers")])
@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_a_name_without_an_archive_is_refused(
    command: tuple[str, ...], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / f"X.{ending}"
    np.save(path, np.ones((2, 2))) if ending == "npy" else path.write_text("1,2\n3,4\n")
    code, _, err = run(monkeypatch, capsys, *command, path, "-o", tmp_path / "out", "--key", "first")
    assert code == 2
    assert err.endswith(f"X.{ending}: --variable is for .npz, .nc, .zarr, .h5, .hdf5 files. Leave it out.\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "words", "sentence"),
    [
        (np.array([[1.0, -2.0]]), ("-b", "B1"), "X has 1 negative entry: it is X[0, 1] = -2."),
        (np.ones((2, 2)), ("-b", "B4"), "unknown basis 'B4'; did you mean"),
        (np.ones((2, 2)), ("-b", "B1 +"), "cannot read the basis"),
        (np.ones((2, 2)), ("-b", "B1", "--solver", "naturl"), "did you mean 'natural'?"),
        (np.ones((2, 2)), ("-b", "B1", "--support", "nonzeros"), "did you mean 'nonzero'?"),
        (np.ones((2, 2)), ("-b", "B1", "--tol", "-1"), "tol must be a number >= 0"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    content: AnyArray,
    words: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, target = tmp_path / "X.npy", tmp_path / "fit.npz"
    np.save(path, content)
    code, out, err = run(monkeypatch, capsys, "fit", path, *words, "-o", target)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("legendre: ")
    assert err.count("\n") == 1
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("absent.npy", None, "does not exist"),
        ("text.npy", b"hello, this is no array", "is not a NumPy file at all"),
        ("short.npz", b"PK\x03\x04 and then nothing", "damaged or truncated"),
        (
            "x.txt",
            b"1 2 3",
            "cannot read .txt; give a .npy, .npz, .csv, .parquet, .tns (.tns.gz), .nc, .zarr or .h5 (.hdf5)",
        ),
        (
            "head.csv",
            b"a,b\n1,2\n",
            "line 1 is a header (a, b). Say what the table is: one row for each event or cell: --columns",
        ),
        (
            "slip.csv",
            b"1,x\n2,3\n",
            "row 0 of column 1 holds 'x', not a number.",
        ),
        ("ragged.csv", b"1,2\n3,4\n5,6,7\n", "Expected 2 fields in line 3, saw 3"),
        ("latin.csv", "Ö,1\n".encode("latin1"), "Save it as UTF-8"),
        ("semicolons.csv", b"1;2\n3;4\n", "Fields are separated by commas"),
        ("typing.csv", b"1,2\n3,1_0\n", "row 1 of column 1 holds '1_0', not a number. Write NA for a missing value."),
        ("long" * 80 + ".npy", None, "File name too long"),
    ],
)
def test_unreadable_files_are_refused_in_one_sentence(
    name: str,
    content: bytes | None,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, _, err = run(monkeypatch, capsys, "fit", path, "-b", "B1", "-o", tmp_path / "fit.npz")
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    tensor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = {
        tmp_path / "no" / "fit.npz": "the folder",
        tmp_path: "it is a directory",
        tensor: "is the input; it would be overwritten",
    }
    before = tensor.read_bytes()
    for target, sentence in cases.items():
        code, _, err = run(monkeypatch, capsys, "fit", tensor, "-b", "B1", "-o", target)
        assert code == 2
        assert sentence in err
    assert tensor.read_bytes() == before


def test_an_unfinished_fit_is_written_with_exit_code_1(
    tensor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "fit.npz"
    code, out, _ = run(
        monkeypatch, capsys, "fit", tensor, "-b", "B1", "-o", target, "--max-iter", "1", "--solver", "natural"
    )
    assert code == 1
    assert "OUT_OF_STEPS: Stopped at max_iter" in out
    assert not ld.load(target).converged


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, capsys, "--version") == (0, f"legendre {ld.__version__}\n", "")


def test_the_demo_prints_a_table_and_writes_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[dict[str, FloatArray]] = []
    figures: list[Any] = []
    draw = legendre.cli.demo.draw

    def watched(X: FloatArray, answers: dict[str, FloatArray], path: Path) -> None:
        drawn.append(answers)
        draw(X, answers, path)

    def kept(made: Any, path: Path) -> None:
        figures.append(made)
        save(made, path)

    monkeypatch.setattr("legendre.cli.demo.draw", watched)
    monkeypatch.setattr("legendre.cli.demo.save", kept)
    code, out, _ = run(monkeypatch, capsys, "demo", "-o", tmp_path / "demo")
    assert code == 0
    table = out.splitlines()[3:13]
    lines = [re.split(r"  +", line)[:3] for line in table]
    ours = [["Legendre, paper's basis", n, n] for n in ("45", "183", "436")]
    adaptive = [["Legendre, adaptive", n, n] for n in ("45", "183", "436")]
    masked = [["NN-CP HALS x mask", n, m] for n, m in (("45", "56"), ("183", "224"), ("436", "448"))]
    rows = [row for rows in zip(ours, adaptive, masked, strict=True) for row in rows]
    assert lines[0][:2] == ["uniform", "0"]
    lines[0] = ["uniform", "", "0"]
    assert lines == [["uniform", "", "0"], *rows]
    assert list(drawn[0]) == [f"{label}\n{n_params} parameters" for label, _, n_params in lines]
    X = ld.datasets.digits().toarray().astype(float)
    fit = ld.decompose(X, "B1 + B2(3) + B3(3)", support="nonzero")
    np.testing.assert_allclose(drawn[0]["Legendre, paper's basis\n183 parameters"], fit.tensor(), atol=1e-9)
    assert all((images[X == 0] == 0).all() for images in drawn[0].values())
    assert (tmp_path / "demo" / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert "336,776 flights by carrier, dest, hour: a 16 x 105 x 20 tensor" in out
    assert "ld.decompose(X), without a basis: X holds counts: grown while each parameter lowered" in out
    assert (tmp_path / "demo" / "flights.png").read_bytes().startswith(b"\x89PNG")
    axes = {ax.get_title(): ax for ax in figures[-1].axes}
    carriers = axes["carrier: 24.6 %"]
    assert [tick.get_text() for tick in carriers.get_xticklabels()] == ["AA", "B6", "DL", "EV", "MQ", "UA", "US"]
    assert axes["carrier and hour: 10.6 %"].get_xlabel() == "hour"


def test_the_busiest_flights_have_a_finite_fit() -> None:
    fit = fit_busiest(ld.datasets.flights())
    assert (fit.status, fit.shape) == (ld.results.Status.CONVERGED, (7, 16, 15))


@pytest.mark.parametrize("package", ["no_such_package", "numpy"], ids=["not installed", "fails"])
def test_the_demo_names_the_reason_where_nonnegative_cp_cannot_run(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def trouble(*_: object) -> Factors:
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setitem(PEERS, "cp-hals", replace(PEERS["cp-hals"], package=package, fit=trouble))
    monkeypatch.setattr("legendre.cli.demo.run_flights", lambda _: None)  # the demo's other part
    code, out, _ = run(monkeypatch, capsys, "demo", "-o", tmp_path / "demo")
    assert code == 0
    assert "NN-CP HALS x mask" not in out
    reason = "LinAlgError: SVD did not converge" if package == "numpy" else f"needs {package}: pip install"
    assert f"NN-CP HALS: {reason}" in out


def test_the_demo_names_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("legendre.cli.demo.find_spec", lambda name: None if name == "sklearn" else name)
    code, _, err = run(monkeypatch, capsys, "demo", "-o", tmp_path)
    assert code == 2
    assert "the demo needs sklearn. Install them with: pip install 'legendre[demo]'" in err
