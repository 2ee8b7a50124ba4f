"""Where results are written."""

from __future__ import annotations

from pathlib import Path

from legendre.core.errors import InvalidFile


def check_output(output: Path, source: Path) -> None:
    """Check before the work is done that its result can be written."""
    if output.exists() and source.exists() and output.samefile(source):
        raise InvalidFile(f"the output {output} is the input; it would be overwritten. Choose another name.")
    if not output.parent.is_dir():
        raise InvalidFile(f"cannot write {output}: the folder {output.parent} does not exist.")
    if output.is_dir():
        raise InvalidFile(f"cannot write {output}: it is a directory. Give a file name.")
