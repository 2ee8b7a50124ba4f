"""The commands of ``legendre``. An error is one sentence on standard error, with exit code 2.

A fit whose residual is above tol has exit code 1; a command that was interrupted, 130.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import warnings
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Exit, Option, Typer, echo

from legendre import __version__
from legendre.basis.parse import as_basis
from legendre.cli.readers import ENDINGS, Options, read_input
from legendre.core.errors import ConvergenceWarning, InvalidFile, InvalidSetting, LegendreError
from legendre.core.files import replacing
from legendre.core.labels import Labels
from legendre.core.progress import line
from legendre.data.readers.labelled import unwrap
from legendre.fitting.fit import decompose
from legendre.results.files import load
from legendre.solvers.choose import SOLVERS
from legendre.tasks.compare import COMPARED, Comparison, Row, run_fits
from legendre.tasks.warm import warm

app = Typer(
    help="Legendre decomposition of nonnegative tensors: unique, exact, certified.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


TensorFile = Annotated[
    Path, Argument(help=f"X: a {ENDINGS} file; NaN (empty in CSV) is missing; - is CSV from standard input.")
]
Support = Annotated[str, Option(help="The cells to fit: 'all', or 'nonzero' to leave zeros out.")]
Variable = Annotated[str | None, Option("--variable", "--key", help="Which array, if the file holds several.")]
Columns = Annotated[str | None, Option(help="For a table: the columns to use as modes, e.g. carrier,dest,hour.")]
Counts = Annotated[str | None, Option(help="For a table: the column with the number of times each row occurred.")]
Separator = Annotated[str | None, Option(help="For a CSV file: the field separator, e.g. ';'.")]
Missing = Annotated[str, Option(help="For a table: 'error', or 'drop' to leave out rows that lack a label.")]
Wide = Annotated[bool, Option("--wide", help="For a CSV table with labels in the first columns, then numbers.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    """Print the version if ``--version`` is given; other options belong to the commands."""
    if version:
        echo(f"legendre {__version__}")
        raise Exit


@app.command()
def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
) -> None:
    """Decompose images of digits, and flights by carrier, destination and hour; print and draw the answers."""
    from legendre.cli.demo import run_demo

    run_demo(output)


@app.command()
def fit(
    tensor: TensorFile,
    basis: Annotated[
        str | None, Option("--basis", "-b", help="The basis, e.g. 'B1+B2(10)'; without it the data choose one.")
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Where to write the fit; by default X.fit.npz for X.csv."),
    ] = None,
    support: Support = "all",
    solver: Annotated[str, Option(help=f"{', '.join(['auto', *SOLVERS])}.")] = "auto",
    tol: Annotated[float, Option(help="Stop when max|eta - eta_hat| is at most this.")] = 1e-10,
    max_iter: Annotated[int | None, Option(help="The largest number of steps.")] = None,
    variable: Variable = None,
    columns: Columns = None,
    counts: Counts = None,
    wide: Wide = False,
    separator: Separator = None,
    missing: Missing = "error",
    unordered: Annotated[
        str | None,
        Option(
            help="Modes whose levels have no order, by name or counted from 0, e.g. carrier,dest; '' for none. Without "
            "it, where the data choose the basis: the modes whose labels are names."
        ),
    ] = None,
) -> None:
    """Decompose a tensor or a table from a file, write the result and print its summary."""
    options = Options(variable, columns, counts, wide, separator, missing)
    target = Path(f"{tensor.stem}.fit.npz") if output is None else output
    _check_output(target, tensor)
    # what is wrong here is reported before a large file is read
    if output is None and target.exists():  # the user did not name this file, so it is not overwritten
        raise InvalidFile(f"{target} is there already. To overwrite it, or to write elsewhere, give --output.")
    recipe = None if basis is None else as_basis(basis)
    X = read_input(tensor, options)
    names = (unwrap(X)[1].labels or Labels(())).names or ()
    modes = None if unordered is None else [word.strip() for word in unordered.split(",") if unordered.strip()]
    # a word of digits is the number of a mode, unless a mode has that name
    numbered = None if modes is None else [int(m) if m.isdecimal() and m not in names else m for m in modes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary and the exit code report it
        result = decompose(
            X, recipe, unordered=numbered, support=support, solver=solver, tol=tol, max_iter=max_iter,
            progress=sys.stderr.isatty(),
        )  # fmt: skip
    result.save(target)
    if result.reason is not None:
        echo(f"no --basis was given: {result.reason}", err=True)
    echo(f"{result.summary()}\nwritten to {target}")
    if not result.converged:
        raise Exit(1)


@app.command("warm")
def warm_up() -> None:
    """Compile what large fits need, and keep it on disk: when an image is built, say."""
    with line("compiling", sys.stderr.isatty()):
        folder = warm()
    if folder is None:
        raise InvalidFile("compiled code cannot be kept: no folder can be written to. Set NUMBA_CACHE_DIR to one.")
    echo(f"compiled code is in {folder}")


@app.command()
def compare(
    tensor: TensorFile,
    params: Annotated[str | None, Option(help="Numbers of parameters, e.g. 100,300,1000.")] = None,
    output: Annotated[Path, Option("--output", "-o", help="Folder for the table.")] = Path("compare"),
    starts: Annotated[int, Option(help="Random starts for each of the other methods.")] = 3,
    peers: Annotated[bool, Option("--peers/--no-peers", help="Run the other libraries' methods.")] = True,
    hold_out: Annotated[float, Option(help="Fraction of cells to hold out and predict.")] = 0.1,
    support: Support = "all",
    variable: Variable = None,
    columns: Columns = None,
    counts: Counts = None,
    wide: Wide = False,
    separator: Separator = None,
    missing: Missing = "error",
) -> None:
    """Compare errors of this method, nonnegative CP, Tucker and CP-APR at several numbers of parameters."""
    X = read_input(tensor, Options(variable, columns, counts, wide, separator, missing))
    try:
        listed = None if params is None else [int(word) for word in params.split(",")]
    except ValueError:
        raise InvalidSetting(
            f"--params {params!r}: give whole numbers with commas between, e.g. 100,300,1000."
        ) from None
    output.mkdir(parents=True, exist_ok=True)
    methods = COMPARED if peers else ()
    rows: list[Row] = []
    stopped = False
    try:
        with line("compare", sys.stderr.isatty()) as say:
            rows += run_fits(X, listed, support, methods, starts, hold_out, say)
    except KeyboardInterrupt:  # rows that were measured are still printed and written, below
        stopped = True
    echo(repr(Comparison(rows)))
    with (output / "compare.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([Row._fields, *rows])
    echo(f"rows: {output / 'compare.csv'}")
    if stopped:
        raise Exit(_fail(f"interrupted after {len(rows)} rows; they are kept.", 130))


@app.command()
def show(
    decomposition: Annotated[Path, Argument(help="A file that 'legendre fit' wrote.")],
    tensor: Annotated[Path | None, Option("--tensor", "-t", help="Write Q, in X's units, to this file (.npy).")] = None,
    as_json: Annotated[bool, Option("--json", help="Print numbers for programs instead of the summary.")] = False,
) -> None:
    """Print the summary of a saved decomposition; write its tensor with --tensor."""
    if tensor is not None:
        if tensor.suffix != ".npy":
            raise InvalidSetting("the tensor is a NumPy array: say where to write it with --tensor FILE.npy.")
        _check_output(tensor, decomposition)
    result = load(decomposition)
    if tensor is not None:
        if not hasattr(result, "tensor"):  # files hold results of every kind
            raise InvalidSetting(f"{decomposition} holds a {type(result).__name__}, which has no tensor.")
        with replacing(tensor) as stream:
            np.save(stream, result.without_labels().tensor())
    if as_json:
        echo(as_json_text(result))
    else:
        echo(result.summary() if tensor is None else f"{result.summary()}\ntensor written to {tensor}")


def as_json_text(result: Any) -> str:
    """Write a result as a JSON object, for ``show --json``: its kind, and each attribute in `names` that it has.

    The names cover results of all kinds. NaN and infinity, which are not valid JSON, become null.
    """
    names = (
        "recipe", "reason", "shape", "total", "n_params", "rank", "rank_is_bound", "kl", "kl_to_X", "rmse", "psi",
        "solver", "n_iter", "tol", "residual", "gap", "status", "converged", "n_vanishing", "criterion", "error",
        "variances", "margin_error", "log_likelihood", "g2", "x2", "df", "aic", "bic", "scores", "best", "path",
        "basis", "theta", "eta", "labels", "arrangement",
    )  # fmt: skip
    found = {
        name: value for name in names if (value := getattr(result, name, None)) is not None and not callable(value)
    }
    text = json.dumps({"kind": type(result).__name__, **found}, default=_as_plain)
    # Python writes NaN, Infinity and -Infinity, also within lists: reading the text again turns each into None
    return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)


def _as_plain(value: Any) -> Any:
    """Turn a value that the json module cannot write into one that it can, such as an array into a list."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


@app.command()
def report(
    result: Annotated[Path, Argument(help="A file that 'legendre fit' or a result's save() wrote.")],
    data: Annotated[Path | None, Option("--data", "-d", help="The file with X, to show slices and residuals.")] = None,
    output: Annotated[Path, Option("--output", "-o", help="Where to write the page.")] = Path("report.html"),
    variable: Variable = None,
    columns: Columns = None,
    counts: Counts = None,
    wide: Wide = False,
    separator: Separator = None,
    missing: Missing = "error",
) -> None:
    """Write one HTML page with everything about a saved result; it opens in any browser."""
    for source in (result, data):
        if source is not None:
            _check_output(output, source)
    options = Options(variable, columns, counts, wide, separator, missing)
    if data is None and options != Options():
        raise InvalidSetting("--variable, --columns and so on are about the file of X; name it with --data.")
    found = load(result)
    if not hasattr(found, "report"):
        raise InvalidSetting(
            f"{result} holds a result of type {type(found).__name__}, which has no report page. "
            f"Print its summary with: legendre show {result}"
        )
    found.report(output, None if data is None else read_input(data, options))
    echo(f"{output.stat().st_size / 1e6:.2f} MB written to {output}")


def _check_output(output: Path, source: Path) -> None:
    """Refuse an output that cannot be written, or that is the input file, before a fit that may take long."""
    if output.exists() and source.exists() and output.samefile(source):
        raise InvalidFile(f"the output {output} is the input; it would be overwritten. Choose another name.")
    if output.is_dir() or not output.parent.is_dir():
        reason = "it is a directory" if output.is_dir() else f"the folder {output.parent} does not exist"
        raise InvalidFile(f"cannot write {output}: {reason}.")


def main() -> None:
    """Run the command that the user typed; an error is printed as one sentence, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a letter that the terminal lacks, or a file name that cannot be decoded, must not raise an error
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_fail("interrupted.", 130))
    except LegendreError as problem:
        sys.exit(_fail(str(problem)))
    except OSError as problem:
        sys.exit(_fail(f"{problem.filename or 'cannot write'}: {problem.strerror or problem}."))
    except MemoryError as problem:
        sys.exit(_fail(f"not enough memory ({problem}). Try a smaller basis or tensor."))


def _fail(sentence: str, code: int = 2) -> int:
    """Print a sentence to standard error; return the exit code of the command."""
    echo(f"legendre: {sentence}", err=True)
    return code
