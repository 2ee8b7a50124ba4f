"""Which of several arrays or columns in a file, and which library reads it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from legendre.core.errors import InvalidFile, InvalidSetting, unknown_name


class Input(NamedTuple):
    """X, and what its modes and levels are called where X itself does not say so."""

    X: Any
    names: Sequence[str] | None = None
    levels: Sequence[Any] | None = None


def chosen(path: Path, names: Sequence[str], variable: str | None) -> str:
    """Return the name of the array to read: the only one, or the one that the user names."""
    if not names:
        raise InvalidFile(f"{path} holds no array of numbers.")
    if variable is None:
        if len(names) != 1:
            raise InvalidFile(f"{path} holds {len(names)} arrays: {', '.join(names)}. Choose one with --variable.")
        return names[0]
    if variable not in names:
        raise InvalidFile(f"{path}: {unknown_name('variable', variable, names)}")
    return variable


def needs(path: Path, *packages: str) -> None:
    """Refuse a file whose library is not installed, and say what to install."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise InvalidSetting(
            f"{path}: reading {path.suffix} files needs {' and '.join(missing)}. Install them with: "
            "pip install 'legendre[files]'"
        )


def mode_columns(path: Path, names: list[str], columns: tuple[str, ...] | None, counts: str | None) -> list[str]:
    """Check the columns that a user names; all but that of the counts where he names none of the modes."""
    if columns is None and counts is None:
        raise InvalidSetting(
            f"{path} is a table with the columns {', '.join(names)}. Name those that are modes: --columns A,B,C; "
            "add --counts N if a column says how often a row counts."
        )
    for name in [*(columns or ()), *([] if counts is None else [counts])]:
        if name not in names:
            raise InvalidSetting(f"{path}: {unknown_name('column', name, names)}")
    modes = [name for name in names if name != counts] if columns is None else list(columns)
    if counts in modes or len(set(modes)) < len(modes) or not modes:
        raise InvalidSetting(f"{path}: --columns must be different, and not that of --counts; got {', '.join(modes)}.")
    return modes
