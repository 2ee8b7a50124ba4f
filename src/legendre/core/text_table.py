"""Tables of a summary, and how they are written as plain text; `core.html` writes the same tables for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap

BEYOND = 24  # by how many characters the rule under a title is longer than the column of names
LEAD_RULE = 40  # characters of the rule between a title and the sentence that leads a table
NOTE = 92  # characters of a note in a line; a longer one goes on in the next


@dataclass(frozen=True)
class NamedValues:
    """A title, and below it a name and its value in each row."""

    title: str
    rows: Sequence[tuple[str, str]]
    fit_rule: bool = False  # the rule under the title is as long as the longest line

    def text(self) -> str:
        """Write the table as plain text."""
        return named_values(self.title, self.rows, fit_rule=self.fit_rule)

    def written(self, named: Callable[[NamedValues], str], columns: Callable[[Columns], str]) -> str:
        """Write the table by the function that is for its kind."""
        del columns
        return named(self)


@dataclass(frozen=True)
class Columns:
    """Columns with their names in the first row; see `aligned` for `sides`."""

    title: str  # may be empty
    rows: Sequence[Sequence[str]]
    sides: str
    lead: str = ""  # a sentence between title and columns
    ruled: bool = False  # a rule under the names of the columns
    notes: Sequence[str] = ()  # lines below the table

    def text(self) -> str:
        """Write the table as plain text."""
        lines = aligned(self.rows, self.sides)
        if self.ruled:
            lines.insert(1, "-" * max(map(len, lines)))
        lead = ["-" * LEAD_RULE, self.lead] if self.lead else []
        return "\n".join([*([self.title] if self.title else []), *lead, *lines, *self.notes])

    def written(self, named: Callable[[NamedValues], str], columns: Callable[[Columns], str]) -> str:
        """Write the table by the function that is for its kind."""
        del named
        return columns(self)


Table = NamedValues | Columns


def named_values(title: str, rows: Sequence[tuple[str, str]], *, fit_rule: bool = False) -> str:
    """Write a title, a rule, and a line for each name and its value; with `fit_rule` as long as the longest line.

    Notes go on in the next line where they are long, and are longer than the rule.
    """
    width = max(len(name) for name, _ in rows)
    body = [
        f"{said:<{width}}  {line}"
        for name, value in rows
        for said, line in zip_longest([name], wrap(value, NOTE) if name == "note" else [value], fillvalue="")
    ]
    longest = max((width + 2 + len(value) for name, value in rows if name != "note"), default=0)
    rule = longest if fit_rule else max(width + BEYOND, len(title))
    return "\n".join([title, "-" * rule, *body])


def aligned(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Write rows as lines with aligned columns; a row may end early.

    `sides` has a character for each column: ``<`` aligns it left, ``>`` right. The last one holds for all that follow.
    """
    n_columns = max(map(len, rows))
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(n_columns)]
    sides = sides.ljust(n_columns, sides[-1])
    return [
        "  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=False)).rstrip()
        for row in rows
    ]


def shape_name(shape: Sequence[int]) -> str:
    """Write the shape of a tensor; of a long one both ends and the order."""
    if len(shape) > 12:
        return f"{shape[0]}x{shape[1]}x...x{shape[-1]} (order {len(shape)})"
    return "x".join(map(str, shape))


def shortened(text: str, most: int = 400) -> str:
    """Leave the middle of a long text out."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 4 :]}"


def listed_words(words: Sequence[str]) -> str:
    """Write words in a row: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
