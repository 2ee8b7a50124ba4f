"""Tables of a summary as plain text, Markdown and LaTeX, and as HTML for notebooks and the report page.

Also lists and shapes in words, and `Printed`, the base class of what has such a summary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from legendre.core.errors import refuse_attribute

RULE = "border-bottom: 1px solid rgba(128, 128, 128, 0.35);"  # seen on white and on black
CELL = "padding: 2px 12px 2px 0; vertical-align: top; font-variant-numeric: tabular-nums; background: none;"


@dataclass(frozen=True)
class Table:
    """A title, columns with their names in the first row, and notes: one part of a summary."""

    title: str  # may be empty
    rows: Sequence[Sequence[str]]
    sides: str = "<"  # see `align`
    ruled: bool = False  # a rule under the names of the columns
    notes: Sequence[str] = ()  # lines below the table
    headed: ClassVar[bool] = True  # whether the first row holds the names of the columns

    def text(self) -> str:
        """Write title, aligned columns and notes as plain text."""
        lines = align(self.rows, self.sides)
        if self.ruled:
            lines.insert(1, "-" * max(map(len, lines)))
        return "\n".join([*([self.title] if self.title else []), *lines, *self.notes])

    def html(self) -> str:
        """Write the same as HTML.

        Styles are inside the tags, because a notebook has no style sheet of ours.
        """
        lines = ""
        for i, row in enumerate(self.rows):
            cells = ""
            for k, text in enumerate(row):
                # names are in the first row or in the first column; the last side holds for all further columns
                named, side = (i if self.headed else k) == 0, self.sides[min(k, len(self.sides) - 1)]
                tag = "th" if named else "td"
                style = f"{CELL} text-align: {'left' if side == '<' else 'right'}; {RULE if named else ''}"
                cells += f'<{tag} style="{style}">{escape(text)}</{tag}>'
            lines += f'<tr style="background: none;">{cells}</tr>'
        head = f'<div style="font-weight: 600; margin: 8px 0 2px;">{escape(self.title)}</div>' if self.title else ""
        table = f'<table style="font-size: inherit; border-collapse: collapse;"><tbody>{lines}</tbody></table>'
        notes = "".join(f'<div style="opacity: 0.75;">{escape(note)}</div>' for note in self.notes)
        return head + table + notes


class NamedValues(Table):
    """A title, and below it a name and its value in each row: the head of a summary."""

    headed = False

    def text(self) -> str:
        """Write a title, a rule, and a line for each name and its value; a long "note" is wrapped."""
        # the first line of a value is next to its name, further lines of a note are next to blanks
        lines = [
            line
            for name, value in self.rows
            for line in zip_longest([name], wrap(value, 92) if name == "note" else [value], fillvalue="")
        ]
        rule = "-" * max(24 + max(len(name) for name, _ in lines), len(self.title))  # 24: an ordinary value
        return "\n".join([self.title, rule, *align(lines, "<")])


def markdown(table: Table) -> str:
    r"""Write a table for Markdown; the title of a table with columns is a bold line above it.

    >>> print(markdown(Table("", [("a|b", "n"), ("x", "1")], "<>")))
    | a\|b | n |
    |:---|---:|
    | x | 1 |
    """
    rows, sides = _with_head(table)
    lines = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
    lines.insert(1, "|" + "|".join(":---" if side == "<" else "---:" for side in sides) + "|")
    title = [f"**{table.title}**", ""] if table.title and table.headed else []
    notes = ["", *table.notes] if table.notes else []
    return "\n".join([*title, *lines, *notes])


def latex(table: Table) -> str:
    r"""Write a table for LaTeX, with rules of the package booktabs; notes become comments below it.

    >>> print(latex(Table("", [("share", "%"), ("x_1", "5")], "<>")))
    \begin{tabular}{lr}
    \toprule
    share & \% \\
    \midrule
    x\_1 & 5 \\
    \bottomrule
    \end{tabular}
    """
    signs = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"}
    escapes = str.maketrans(signs | {sign: f"\\{sign}" for sign in "&%$#_{}"})
    rows, sides = _with_head(table)
    lines = [" & ".join(text.translate(escapes) for text in row) + r" \\" for row in rows]
    columns = "".join("l" if side == "<" else "r" for side in sides)
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    notes = ["", *(f"% {note}" for note in table.notes)] if table.notes else []
    return "\n".join([*body, r"\end{tabular}", *notes])


def _with_head(table: Table) -> tuple[list[list[str]], str]:
    """Return the rows, padded to the same length, and the side of each column, for Markdown and LaTeX.

    Both formats need names of columns in the first row. A table of named values has none, so its title is put there.
    """
    head = [] if table.headed else [["", table.title]]
    # transposing pads short rows with empty strings; transposing again makes rows of the columns
    columns = zip_longest(*head, *table.rows, fillvalue="")
    rows = [list(row) for row in zip(*columns, strict=True)]
    n = len(rows[0])
    return rows, table.sides.ljust(n, table.sides[-1])[:n]


def fragment(tables: Sequence[Table], words: Sequence[str] = ()) -> str:
    """Write tables as HTML, with the sentences `words` above them: what a notebook shows of a result.

    No colours are set, so that the text has those of the page around it.

    >>> fragment([NamedValues("Fit <1>", [("KL", "0.5")])]).count("&lt;1&gt;")
    1
    """
    said = "".join(f'<p style="margin: 4px 0;">{escape(word)}</p>' for word in words)
    style = "font-size: 13px; line-height: 1.45; max-width: 100%; overflow-x: auto;"
    return f'<div class="legendre" style="{style}">{said}{"".join(table.html() for table in tables)}</div>'


class Printed(ABC):
    """A result whose summary is a list of tables, printed as text, HTML (notebooks), Markdown or LaTeX."""

    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute

    @abstractmethod
    def tables(self) -> list[Table]:
        """List the tables of the summary."""

    def summary(self) -> str:
        """Return the summary as text."""
        return "\n\n".join(table.text() for table in self.tables())

    def to_markdown(self) -> str:
        """Return the summary as Markdown."""
        return "\n\n".join(map(markdown, self.tables()))

    def to_latex(self) -> str:
        """Return the tables of the summary as LaTeX, with rules of the package booktabs."""
        return "\n\n".join(map(latex, self.tables()))

    def _repr_html_(self) -> str:
        """Return the summary as HTML; notebooks call this method."""
        return fragment(self.tables())

    def __repr__(self) -> str:
        """Return the summary, so that a result in an interactive session shows it."""
        return self.summary()


def align(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Write rows as lines with aligned columns; a row may end early.

    `sides` has a character for each column: ``<`` aligns it left, ``>`` right. The last one holds for all further
    columns.
    """
    n_columns = max(map(len, rows))
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(n_columns)]
    sides = sides.ljust(n_columns, sides[-1])
    return [
        "  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=False)).rstrip()
        for row in rows
    ]


def shape_name(shape: Sequence[int]) -> str:
    """Write the shape of a tensor, e.g. 16x105x20; of more than 12 modes both ends and the number of modes."""
    if len(shape) > 12:
        return f"{shape[0]}x{shape[1]}x...x{shape[-1]} (order {len(shape)})"
    return "x".join(map(str, shape))


def shorten(text: str, most: int = 400) -> str:
    """Return a text without its middle if it is longer than `most` characters; its start and its end stay.

    Both ends often tell names apart.
    """
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 4 :]}"


def list_words(words: Sequence[str]) -> str:
    """Write words as part of a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
