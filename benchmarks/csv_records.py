"""Records in CSV files: lines are only ever added, so that a run that is interrupted loses none."""

from __future__ import annotations

import csv
import os
import types
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CsvRecord = TypeVar("CsvRecord", bound="DataclassInstance")


def append(path: Path, record: DataclassInstance) -> None:
    """Add a line; a file with other columns is moved aside first, half a line at the end is cut off."""
    names = [field.name for field in fields(record)]
    if path.is_file() and _header(path) != names:
        set_aside(path)
    fresh = not path.is_file()
    if not fresh:
        content = path.read_bytes()
        os.truncate(path, content.rfind(b"\n") + 1)
    with path.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow({name: "" if value is None else value for name, value in asdict(record).items()})


def read(path: Path, kind: type[CsvRecord]) -> list[CsvRecord]:
    """Read all whole lines of a file; a file that is not there, or has other columns, has none."""
    if not path.is_file() or _header(path) != [field.name for field in fields(kind)]:
        return []
    hints = get_type_hints(kind)
    with path.open(newline="", encoding="utf-8") as stream:
        lines = csv.DictReader(line for line in stream if line.endswith("\n"))
        return [kind(**{name: _value(text, hints[name]) for name, text in line.items()}) for line in lines]


def set_aside(path: Path) -> Path:
    """Rename a file to the first free name with a number; return it."""
    number = 1
    while (other := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return path.replace(other)


def _value(text: str, hint: Any) -> Any:
    options = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    return None if text == "" and type(None) in options else options[0](text)


def _header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as stream:
        return next(csv.reader(stream), [])
