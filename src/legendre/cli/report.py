"""The report page of a saved result."""

from __future__ import annotations

from pathlib import Path

import typer

from legendre.cli.read import Asked, read_input
from legendre.core.errors import InvalidSetting
from legendre.results.files import load


def run_report(result: Path, output: Path, data: Path | None, asked: Asked) -> None:
    """Read a result, and X where it is given, and write the page."""
    if data is None and asked != Asked():
        raise InvalidSetting("--variable, --columns, --counts and --wide are about the file of X; name it with --data.")
    found = load(result)
    if not hasattr(found, "report"):
        raise InvalidSetting(
            f"{result} holds a result of type {type(found).__name__}, which has no report page. "
            f"Print its summary with: legendre show {result}"
        )
    found.report(output, None if data is None else read_input(data, asked).X)
    typer.echo(f"{output.stat().st_size / 1e6:.2f} MB written to {output}")
