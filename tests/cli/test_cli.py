"""The command line: output, files, error messages and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import legendre as ld
import legendre.cli

Command = Callable[..., tuple[int, str, str]]
X = np.random.default_rng(0).poisson(5.0, (4, 5, 3)) + 1.0


@pytest.fixture(autouse=True)
def _files(command: Command) -> None:
    """Write X, alone and beside another array, and saved results."""
    del command  # which goes to the folder
    np.save("X.npy", X)
    np.savez("two.npz", X=X, other=X[0])
    ld.decompose(X, "B1").save("fit.npz")
    ld.decompose(X, "B1").inference().save("tests.npz")
    ld.balance([[3.0, 2.0], [1.0, 4.0]]).save("balanced.npz")
    Path("rows.csv").write_text("a,b\nx,u\ny,v\n")
    Path("rows.fit.npz").write_text("precious")


def test_fit_writes_what_decompose_returns(command: Command) -> None:
    code, out, err = command("fit", "X.npy", "-b", "B1+B3(2)", "-o", "new.npz")
    assert (code, err) == (0, "")
    assert "CONVERGED" in out
    assert "written to new.npz" in out
    assert np.array_equal(ld.load("new.npz").theta, ld.decompose(X, "B1 + B3(2)").theta)
    code, out, _ = command("fit", "X.npy", "-b", "B1", "-o", "new.npz", "--max-iter", "1", "--solver", "natural")
    assert (code, "OUT_OF_STEPS: Stopped at max_iter" in out, ld.load("new.npz").converged) == (1, True, False)


def test_fit_without_a_basis_says_what_and_why(command: Command) -> None:
    counts = ld.datasets.titanic().toarray()
    np.save("titanic.npy", counts)
    fit = ld.decompose(counts)
    wanted = (0, f"{fit.summary()}\nwritten to titanic.fit.npz\n", f"no --basis was given: {fit.reason}\n")
    assert command("fit", "titanic.npy") == wanted
    np.testing.assert_array_equal(ld.load("titanic.fit.npz").theta, fit.theta)


def test_fit_takes_modes_without_an_order(command: Command) -> None:
    assert command("fit", "X.npy", "-b", "adaptive(4)", "--unordered", "0, 2", "-o", "new.npz")[0] == 0
    expected = ld.decompose(X, ld.adaptive(4), unordered=[0, 2])
    assert ld.load("new.npz").arrangement == expected.arrangement
    assert np.array_equal(ld.load("new.npz").theta, expected.theta)
    rows = [f"{who},{size},{n}" for who, size, n in zip("abcd" * 3, "xxxxyyyyzzzz", range(1, 13), strict=True)]
    Path("rows.csv").write_text("\n".join(["2,size,n", *rows]))  # a column whose name is a number
    call = ("fit", "rows.csv", "--columns", "2,size", "--counts", "n", "-b", "adaptive(2)", "-o", "new.npz")
    for text, arranged in {"": [], "2": ["2"], "size": ["size"], " size , 0": ["2", "size"]}.items():
        assert command(*call, "--unordered", text)[0] == 0
        assert list(ld.load("new.npz").arrangement) == arranged
    assert "unordered: unknown mode 'sise'; did you mean 'size'?" in command(*call, "--unordered", "sise")[2]


def test_show_prints_the_summary_and_writes_the_tensor(command: Command) -> None:
    for name in ("fit.npz", "balanced.npz"):
        result = ld.load(name)
        code, out, _ = command("show", name, "-t", "Q.npy")
        assert (code, out.startswith(result.summary())) == (0, True)
        np.testing.assert_allclose(np.load("Q.npy"), result.tensor(), rtol=1e-14)


def test_show_as_json(command: Command) -> None:
    fit = ld.decompose([[18, 7, 3], [6, 19, 4]])
    fit.save("new.npz")
    found = json.loads(command("show", "new.npz", "--json")[1])
    assert found["kind"] == "Decomposition"
    assert (found["status"], found["converged"], found["shape"]) == ("CONVERGED", True, [2, 3])
    assert (found["kl"], found["theta"], found["basis"]) == (fit.kl, fit.theta.tolist(), fit.basis.tolist())
    assert (found["recipe"], found["reason"]) == (fit.recipe, fit.reason)
    assert found["path"][-1]["n_params"] == fit.n_params
    ld.complete([[1, 2, np.nan], [2, np.nan, 6], [3, 6, 9.0]], "B1").save("new.npz")
    ld.decompose([[18, 7, 3], [6, 19, 4]], names=["sex", "age"], levels=[["f", "m"], [1, 2, 3]]).save("named.npz")
    named = json.loads(command("show", "named.npz", "--json")[1])
    assert (named["labels"]["names"], named["labels"]["levels"]) == (["sex", "age"], [["f", "m"], [1, 2, 3]])
    assert "arrangement" in named
    for name, field in {"new.npz": "converged", "balanced.npz": "margin_error", "tests.npz": "g2"}.items():
        assert field in json.loads(command("show", name, "--json")[1])


def test_report_writes_the_page_of_the_result(command: Command) -> None:
    code, out, err = command("report", "fit.npz")
    assert (code, re.sub(r"\d", "0", out), err) == (0, "0.00 MB written to report.html\n", "")
    assert "does not hold X" in Path("report.html").read_text(encoding="utf-8")
    for data in (["--data", "X.npy"], ["-d", "two.npz", "--key", "X"]):
        assert command("report", "fit.npz", *data, "-o", "page.html")[0] == 0
        ld.load("fit.npz").report("wanted.html", X)
        assert Path("page.html").read_bytes() == Path("wanted.html").read_bytes()
    Path("rows.csv").write_text("dest,hour\n" + "BOS,early\nBOS,late\nSFO,early\n" * 3)
    assert command("fit", "rows.csv", "--columns", "dest,hour", "-b", "B1", "-o", "rows.npz")[0] == 0
    assert command("report", "rows.npz", "--data", "rows.csv", "--columns", "dest,hour")[0] == 0
    assert '"levels":[[""],["BOS","SFO"],["early","late"]]' in Path("report.html").read_text(encoding="utf-8")


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"legendre {ld.__version__}\n", "")


INPUT = "is the input; it would be overwritten. Choose another name."
REFUSED: dict[str, str] = {
    "fit negative.npy -b B1": "X has 1 negative entry: it is X[0, 1] = -2.",
    "fit X.npy -b B4": "unknown basis 'B4'; did you mean",
    "fit X.npy -b B1 --solver naturl": "did you mean 'natural'?",
    "fit X.npy -b B1 --support nonzeros": "did you mean 'nonzero'?",
    "fit X.npy -b B1 --tol -1": "tol must be a number >= 0",
    "fit X.npy -b B1 -o no/fit.npz": "the folder no does not exist",
    "fit X.npy -b B1 -o .": "it is a directory",
    "fit X.npy -b B1 -o X.npy": f"the output X.npy {INPUT}",
    "fit X.npy -b B1 --key first": "X.npy: --variable is for .npz, .nc, .zarr, .h5, .hdf5 files. Leave it out.",
    "compare X.npy --no-peers --key first": "--variable is for .npz",
    "fit two.npz -b B1": "holds 2 arrays: X, other. Choose one with --variable.",
    "fit two.npz -b B1 --variable othre": "did you mean 'other'?",
    "fit rows.csv -b B1 --columns a,b": "rows.fit.npz is there already. To overwrite it, or to write elsewhere, give",
    "fit rows.csv --columns a,nonsense": "rows.fit.npz is there already",  # a large file would be read in vain
    "fit rows.csv --columns a,nonsense -o new.npz": "rows.csv: unknown column 'nonsense'",
    "show fit.npz -t Q.csv": "with --tensor FILE.npy.",
    "show tests.npz -t Q.npy": "holds a Inference, which has no tensor.",
    "report no.npz": "cannot read no.npz: No such file or directory.",
    "report X.npy": "cannot read X.npy: not a saved result (it holds a single array).",
    "report tests.npz": "holds a result of type Inference, which has no report page. Print its summary with: legendre",
    "report fit.npz -o fit.npz": f"the output fit.npz {INPUT}",
    "report fit.npz -d X.npy -o X.npy": f"the output X.npy {INPUT}",
    "report fit.npz -d no.npy": "no.npy does not exist.",
    "report fit.npz -d two.npz --key other": "data has shape (5, 3), but the fit is of a tensor of shape (4, 5, 3).",
    "report fit.npz --key X": "are about the file of X; name it with --data.",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(call: str, command: Command) -> None:
    np.save("negative.npy", [[1.0, -2.0]])
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, out, err = command(*call.split())
    assert (code, out) == (2, "")
    assert REFUSED[call] in err
    assert err.startswith("legendre: ")
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


UNREADABLE: dict[str, tuple[bytes | None, str]] = {
    "text.npy": (b"hello, this is no array", "or not a NumPy file"),
    "x.txt": (b"1 2 3", "cannot read .txt; give a .npy, .npz, .csv, .tsv, .parquet, .tns (.gz too), .nc, .zarr or .h5"),
    "head.csv": (b"a,b\n1,2\n", "line 1 is a header (a, b). Say what the table is: one row for each event or cell"),
    "slip.csv": (b"1,x\n2,3\n", "line 1 (blank lines not counted), column 1: 'x' is not a number. Write NA"),
    "ragged.csv": (b"1,2\n3,4\n5,6,7\n", "Expected 2 fields in line 3, saw 3"),
    "latin.csv": ("Ö,1\n".encode("latin1"), "Save it as UTF-8"),
    "semicolons.csv": (b"1;2\n3;4\n", "line 1 has no ','. If fields are separated by ';', pass that: --separator."),
    "long" * 80 + ".npy": (None, "File name too long"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_are_refused_in_one_sentence(name: str, command: Command) -> None:
    content, sentence = UNREADABLE[name]
    if content is not None:
        Path(name).write_bytes(content)
    code, _, err = command("fit", name, "-b", "B1", "-o", "new.npz")
    assert (code, err.count("\n")) == (2, 1)
    assert sentence in err


def test_the_demo_prints_tables_and_writes_pictures(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Any] = []
    save = Figure.savefig

    def kept(made: Figure, path: Path, **more: Any) -> None:
        figures.append(made)
        save(made, path, **more)

    monkeypatch.setattr(Figure, "savefig", kept)
    compare, once = ld.compare, {"n_starts": 1}  # CP takes most of the demo's time
    monkeypatch.setattr(ld, "compare", lambda X, sizes, **more: compare(X, sizes[:2], **more | once))
    code, out, _ = command("demo")
    assert code == 0
    lines = [re.split(r"  +", line)[:3] for line in out.splitlines()[4:9]]
    assert lines[0][0] == "uniform"
    assert lines[1:] == [[name, n, n] for n in ("56", "224") for name in ("Legendre, adaptive", "NN-CP")]
    digits = ld.datasets.digits().toarray().astype(float)
    fit = ld.decompose(digits, ld.adaptive(224), support="nonzero")
    shown = np.asarray(figures[0].axes[20].images[0].get_array())
    np.testing.assert_allclose(shown, fit.tensor()[:, :, 0], atol=1e-9)
    assert figures[0].axes[20].get_ylabel() == "224 parameters"
    assert "336,776 flights by carrier, dest, hour: a 16 x 105 x 20 tensor" in out
    assert "ld.decompose(X), without a basis: X holds counts: parameters were added as long as each lowered" in out
    for name in ("digits.png", "flights.png"):
        assert (Path("demo") / name).read_bytes().startswith(b"\x89PNG")
    axes = {ax.get_title().split(":")[0]: ax for ax in figures[-1].axes}
    ticks = axes["carrier"].get_xticklabels()
    assert {"AA", "UA"} <= {tick.get_text() for tick in ticks}


def test_warm_says_where_compiled_code_is(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.warm", lambda: "/here")
    assert command("warm") == (0, "compiled code is in /here\n", "")
    monkeypatch.setattr("legendre.warm", lambda: None)
    code, _, err = command("warm")
    assert code == 2
    assert "compiled code cannot be kept" in err


def test_the_command_names_what_it_needs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer and rich are an extra."""
    monkeypatch.setattr("legendre.core.arguments.find_spec", lambda name: None if name == "typer" else name)
    with pytest.raises(SystemExit) as ended:
        legendre.cli.main()
    assert ended.value.code == 2
    assert "the command legendre needs typer. Install it with: pip install 'legendre[cli]'" in capsys.readouterr().err


def test_the_demo_names_what_it_needs(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.core.arguments.find_spec", lambda name: None if name == "sklearn" else name)
    assert "the demo needs sklearn. Install it with: pip install 'legendre[demo]'" in command("demo")[2]
