"""Rows on disk: what is there is not computed again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from benchmarks.csv_records import CsvRecord, append, read, set_aside
from benchmarks.problems import ROOT
from benchmarks.rows import drop_retired

RESULTS = ROOT / "experiments" / "results"


@dataclass(frozen=True, eq=False)
class Store(Generic[CsvRecord]):
    """The CSV file of an experiment, and the rows that it holds."""

    path: Path
    kind: type[CsvRecord]
    rows: list[CsvRecord] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, name: str, kind: type[CsvRecord], *, fresh: bool = False) -> Store[CsvRecord]:
        """Read what is there; `fresh` puts it aside and begins anew."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.csv"
        if fresh and path.is_file():
            set_aside(path)
        drop_retired(path)
        return cls(path, kind, read(path, kind))

    def drop(self, retired: Callable[[CsvRecord], bool]) -> None:
        """Forget rows, on disk first."""
        kept = [row for row in self.rows if not retired(row)]
        with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
            for row in kept:
                append(Path(folder) / self.path.name, row)
            if kept:
                (Path(folder) / self.path.name).replace(self.path)
            else:
                self.path.unlink(missing_ok=True)
        self.rows[:] = kept

    def add(self, row: CsvRecord) -> None:
        """Keep a row, on disk at once."""
        append(self.path, row)
        self.rows.append(row)
