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

import legendre as ld
from legendre.basis.parse import as_basis
from legendre.cli.readers import ENDINGS, Options, read_input
from legendre.core.arguments import check_installed
from legendre.core.errors import ConvergenceWarning, InvalidFile, InvalidSetting, LegendreError
from legendre.core.figures import new_figure
from legendre.core.files import replacing
from legendre.core.progress import line
from legendre.data.readers.labelled import unwrap
from legendre.solvers.choose import SOLVERS
from legendre.tasks.compare import COMPARED, Comparison, Row, run_fits

DIGITS_REMARK = """\
Legendre grows a basis of cells that the data choose. Each fit is the unique minimum of
KL(P, Q) in its model: the residual max|eta - eta_hat| proves it. NN-CP minimises the squared
error on the same cells. Zeros are left out of the sample space, as in the paper."""
FLIGHTS_REMARK = """\
Half of all flights: which carrier flies where, and at which hours. The picture shows by
what factor a carrier, a destination or an hour has more flights than the average, and a
carrier at a destination more than the two alone would predict. Grey pairs have no flights."""
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
        echo(f"legendre {ld.__version__}")
        raise Exit


@app.command()
def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
) -> None:
    """Decompose images of digits, and flights by carrier, destination and hour; print and draw the answers."""
    check_installed("the demo", ["sklearn", "matplotlib", "tensorly"], "'legendre[demo]'")
    output.mkdir(parents=True, exist_ok=True)
    _show_digits(output)
    _show_flights(output)


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
    # a large file is read, and fitted, only after the output and the basis have been checked
    _check_output(target, tensor)
    if output is None and target.exists():  # the user did not name this file, so it is not overwritten
        raise InvalidFile(f"{target} is there already. To overwrite it, or to write elsewhere, give --output.")
    recipe = None if basis is None else as_basis(basis)
    X = read_input(tensor, options)
    names = unwrap(X)[1].of(()).names or ()
    words = None if unordered is None else [word.strip() for word in unordered.split(",") if unordered.strip()]
    # a word of digits is the number of a mode, unless a mode has that name
    modes = None if words is None else [int(w) if w.isdecimal() and w not in names else w for w in words]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary and the exit code report it
        result = ld.decompose(
            X, recipe, unordered=modes, support=support, solver=solver, tol=tol, max_iter=max_iter,
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
        folder = ld.warm()
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
        sizes = None if params is None else [int(word) for word in params.split(",")]
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
            rows += run_fits(X, sizes, support, methods, starts, hold_out, say)
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
    result = ld.load(decomposition)
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
    found = ld.load(result)
    if not hasattr(found, "report"):
        raise InvalidSetting(
            f"{result} holds a result of type {type(found).__name__}, which has no report page. "
            f"Print its summary with: legendre show {result}"
        )
    found.report(output, None if data is None else read_input(data, options))
    echo(f"{output.stat().st_size / 1e6:.2f} MB written to {output}")


def _show_digits(folder: Path, sizes: tuple[int, ...] = (56, 224, 448)) -> None:
    """Compare with CP at several numbers of parameters; draw an image of each digit and its reconstructions.

    The tensor is rows x columns x images; images are sorted by digit, with equally many of each. As in the paper's
    experiment on MNIST, cells that are 0 are left out of the sample space, which tells the model which pixels are
    white. For a fair comparison, CP is fitted on the same cells, and the table has a row for the uniform distribution
    on them.
    """
    X = ld.datasets.digits().toarray().astype(np.float64)
    title = f"{X.shape[2]} images of handwritten digits, a tensor of {' x '.join(map(str, X.shape))} cells"
    found = ld.compare(X, sizes, support="nonzero", peers=("cp-random",), n_starts=5, hold_out=0.0)
    print(f"{title}\n{found}\n{DIGITS_REMARK}")
    pictures = {"original": X}
    for n in sizes:
        pictures[f"{n} parameters"] = ld.decompose(X, ld.adaptive(n), support="nonzero").tensor()
    # a line of ten images for the original and for each size: the first of every tenth of the images is a new digit
    figure = new_figure("the demo", (11, 1.05 * len(pictures) + 0.3))
    for (name, images), row in zip(pictures.items(), figure.subplots(len(pictures), 10), strict=True):
        for digit, axis in enumerate(row):
            axis.imshow(images[:, :, digit * X.shape[2] // 10], cmap="gray_r", vmin=0, vmax=X.max())
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    figure.savefig(folder / "digits.png", dpi=110)
    print(f"\nThe picture is in {folder / 'digits.png'}")


def _show_flights(folder: Path) -> None:
    """Fit flights twice: with a basis that the data choose, then the busiest levels with interactions of named modes.

    The second fit has 125 parameters that explain 77 % of KL from uniform, and effects that are easy to read: they are
    drawn, and a report page is written.
    """
    X = ld.datasets.flights()
    print(f"\n{X.values.sum():,} flights by {', '.join(X.names or ())}: a {' x '.join(map(str, X.shape))} tensor")
    print(f"ld.decompose(X), without a basis: {ld.decompose(X).reason}")
    # for each mode the indices of the levels with most flights, in their own order
    kept = [np.sort(np.argsort(-X.margin(k).toarray())[:n]) for k, n in enumerate((7, 16, 15))]
    levels = [np.asarray(labels)[places] for labels, places in zip(X.levels or (), kept, strict=True)]
    terms = ld.interactions([("carrier", "dest"), ("hour",)])
    fit = ld.decompose(X.toarray()[np.ix_(*kept)], terms, names=X.names, levels=levels)
    print(f"{fit!r}\n{fit.effects()}\n{FLIGHTS_REMARK}")
    fit.plot.effects().savefig(folder / "flights.png", dpi=110)
    print(f"The picture is in {folder / 'flights.png'}")
    fit.report(folder / "flights.html")
    print(f"Effects, slices, residuals and parameters are on one page, {folder / 'flights.html'}: open it in a browser")


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
