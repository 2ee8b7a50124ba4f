"""The commands. An error is one sentence on standard error and exit code 2; a fit that missed tol is exit code 1."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from legendre import __version__
from legendre.basis.parse import as_basis
from legendre.cli.compare import run_compare
from legendre.cli.completion import basis_names, solver_names
from legendre.cli.demo import run_demo
from legendre.cli.interrupt import INTERRUPTED, stopping
from legendre.cli.json_text import described
from legendre.cli.output import check_output
from legendre.cli.read import ENDINGS, Asked, modes_of, read_input
from legendre.cli.report import run_report
from legendre.core.errors import ConvergenceWarning, InvalidFile, InvalidSetting, LegendreError
from legendre.core.files import replacing
from legendre.fitting.decompose import decompose
from legendre.fitting.plan import Settings
from legendre.results.files import load
from legendre.solvers.choose import SOLVERS

app = typer.Typer(
    help="Legendre decomposition of nonnegative tensors: unique, exact, certified.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


TensorFile = Annotated[Path, typer.Argument(help=f"X: a {ENDINGS} file; NaN (empty in CSV) is missing.")]
Support = Annotated[str, typer.Option(help="The cells to fit: 'all', or 'nonzero' to leave zeros out.")]
Variable = Annotated[str | None, typer.Option("--variable", "--key", help="Which array, if the file holds several.")]
Columns = Annotated[str | None, typer.Option(help="For a table: the columns to use as modes, e.g. carrier,dest,hour.")]
Counts = Annotated[str | None, typer.Option(help="For a table: the column with the number of times each row occurred.")]
Wide = Annotated[bool, typer.Option("--wide", help="For a CSV table with labels in the first columns, then numbers.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"legendre {__version__}")
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures.")] = Path("demo"),
) -> None:
    """Decompose images of digits, and flights by carrier, destination and hour; print and draw the answers."""
    run_demo(output)


@app.command()
def fit(
    tensor: TensorFile,
    basis: Annotated[
        str | None,
        typer.Option(
            "--basis", "-b", autocompletion=basis_names, help="e.g. 'B1+B2(10)'; without it the data choose one."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the fit; without it that of X.csv goes to X.fit.npz."),
    ] = None,
    support: Support = "all",
    solver: Annotated[
        str, typer.Option(autocompletion=solver_names, help=f"{', '.join(['auto', *SOLVERS])}.")
    ] = "auto",
    tol: Annotated[float, typer.Option(help="Stop when max|eta - eta_hat| is at most this.")] = 1e-10,
    max_iter: Annotated[int | None, typer.Option(help="The largest number of steps.")] = None,
    variable: Variable = None,
    columns: Columns = None,
    counts: Counts = None,
    wide: Wide = False,
    unordered: Annotated[
        str | None,
        typer.Option(
            help="Modes whose levels have no order, by name or counted from 0, e.g. carrier,dest; '' for none. Without "
            "it, where the data choose the basis: the modes whose labels are names."
        ),
    ] = None,
) -> None:
    """Decompose a tensor or a table from a file, write the result and print its summary."""
    asked = Asked.read(variable, columns, counts, wide)
    target = Path(f"{tensor.stem}.fit.npz") if output is None else output
    check_output(target, tensor)
    Settings.read(solver, tol, max_iter)  # and the basis: mistakes are named before a file that is in the way
    if basis is not None:
        as_basis(basis)
    given = read_input(tensor, asked)
    modes = None if unordered is None else modes_of(given, unordered)
    if output is None and target.exists():
        raise InvalidFile(f"{target} is there already. To overwrite it, or to write elsewhere, give --output.")
    with warnings.catch_warnings(), _interruptible(), stopping() as stop:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary and the exit code report it
        result = decompose(
            given.X, basis, names=given.names, levels=given.levels, unordered=modes, support=support, solver=solver,
            tol=tol, max_iter=max_iter, progress=sys.stderr.isatty(), callback=stop,
        )  # fmt: skip
    result.save(target)
    if result.reason is not None:
        typer.echo(f"no --basis was given: {result.reason}", err=True)
    typer.echo(f"{result.summary()}\nwritten to {target}")
    if stop.asked:
        said = f"interrupted after {result.n_iter} steps; {target} has the fit as it stood."
        raise typer.Exit(_fail(said, INTERRUPTED))
    if not result.converged:
        raise typer.Exit(1)


@app.command()
def compare(
    tensor: TensorFile,
    params: Annotated[str | None, typer.Option(help="Numbers of parameters, e.g. 100,300,1000.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for table and picture.")] = Path("compare"),
    seeds: Annotated[int, typer.Option(help="Random starts of each other method.")] = 3,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Run the other libraries' methods.")] = True,
    support: Support = "all",
    variable: Variable = None,
    columns: Columns = None,
    counts: Counts = None,
    wide: Wide = False,
) -> None:
    """Compare errors of this method, nonnegative CP, Tucker and CP-APR at several numbers of parameters."""
    X = read_input(tensor, Asked.read(variable, columns, counts, wide)).X
    file = os.fsencode(tensor.name).decode(errors="backslashreplace")  # a file's name may be no text
    name = file if variable is None else f"{file} {variable}"
    raise typer.Exit(run_compare(X, name, output, params=params, seeds=seeds, peers=peers, support=support))


@app.command()
def show(
    decomposition: Annotated[Path, typer.Argument(help="A file that 'legendre fit' wrote.")],
    tensor: Annotated[Path | None, typer.Option("--tensor", "-t", help="Write Q in X's units here (.npy).")] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Write Q on every cell, not only on the sample space.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers for programs instead of the summary.")] = False,
) -> None:
    """Print the summary of a saved decomposition; write its tensor with --tensor."""
    if tensor is not None:
        if tensor.suffix != ".npy":
            raise InvalidSetting(f"--tensor {tensor}: the tensor is an array of NumPy; let the name end in .npy.")
        check_output(tensor, decomposition)
    elif extend:
        raise InvalidSetting("--extend is about the tensor that is written; say where with --tensor FILE.npy.")
    result = load(decomposition)
    held = f"{decomposition} holds a result of type {type(result).__name__}"
    if tensor is not None and not hasattr(result, "tensor"):
        raise InvalidSetting(f"{held}, which has no tensor. Leave --tensor out.")
    if extend and not hasattr(result, "recipe"):
        raise InvalidSetting(f"{held}, whose tensor has every cell. Leave --extend out.")
    if tensor is not None:
        with replacing(tensor) as stream:
            plain = result.without_labels()
            np.save(stream, plain.tensor(extend=True) if extend else plain.tensor())
    if as_json:
        typer.echo(described(result))
    else:
        typer.echo(result.summary() if tensor is None else f"{result.summary()}\ntensor written to {tensor}")


@app.command()
def report(
    result: Annotated[Path, typer.Argument(help="A file that 'legendre fit' or a result's save() wrote.")],
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="The file with X, to show slices and residuals.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page.")] = Path("report.html"),
    variable: Variable = None,
    columns: Columns = None,
    counts: Counts = None,
    wide: Wide = False,
) -> None:
    """Write one HTML page with everything about a saved result; it opens in any browser."""
    for source in (result, data):
        if source is not None:
            check_output(output, source)
    run_report(result, output, data, Asked.read(variable, columns, counts, wide))


@contextmanager
def _interruptible() -> Iterator[None]:
    """On Ctrl-C exit with code 130, as shells do."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(_fail("interrupted; nothing was kept.", INTERRUPTED)) from None


def main() -> None:
    """Run the command; what goes wrong is one sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # terminals without the letter, file names that are no text
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_fail("interrupted.", INTERRUPTED))
    except LegendreError as problem:
        sys.exit(_fail(str(problem)))
    except OSError as problem:
        sys.exit(_fail(f"{problem.filename or 'cannot write'}: {problem.strerror or problem}."))
    except MemoryError as problem:
        sys.exit(_fail(f"not enough memory ({problem}). Try a smaller basis or tensor."))


def _fail(sentence: str, code: int = 2) -> int:
    typer.echo(f"legendre: {sentence}", err=True)
    return code
