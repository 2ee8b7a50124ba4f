"""Tables of a summary as plain text, and as HTML for a notebook and the report page; lists and shapes in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from legendre.core.labels import Labels
from legendre.core.types import FloatArray

RULE = "border-bottom: 1px solid rgba(128, 128, 128, 0.35);"  # seen on white and on black
CELL = "padding: 2px 12px 2px 0; vertical-align: top; font-variant-numeric: tabular-nums; background: none;"
HEAD = '<div style="font-weight: 600; margin: 8px 0 2px;">'
FAINT = '<div style="opacity: 0.75;">'


@dataclass(frozen=True)
class NamedValues:
    """A title, and below it a name and its value in each row."""

    title: str
    rows: Sequence[tuple[str, str]]
    fit_rule: bool = False  # the rule under the title is as long as the longest line

    def text(self) -> str:
        """Write a title, a rule, and a line for each name and its value; long notes go on in the next line."""
        width = max(len(name) for name, _ in self.rows)
        body = [
            f"{said:<{width}}  {line}"
            for name, value in self.rows
            for said, line in zip_longest([name], wrap(value, 92) if name == "note" else [value], fillvalue="")
        ]
        longest = max((width + 2 + len(value) for name, value in self.rows if name != "note"), default=0)
        rule = longest if self.fit_rule else max(width + 24, len(self.title))
        return "\n".join([self.title, "-" * rule, *body])

    def html(self) -> str:
        """Write the same as HTML."""
        name_style = f"{CELL} text-align: left; font-weight: 500; opacity: 0.75; white-space: nowrap; {RULE}"
        value_style = f"{CELL} text-align: left; overflow-wrap: anywhere; {RULE}"
        rows = "".join(
            f'<tr style="background: none;"><th scope="row" style="{name_style}">{escape(name)}</th>'
            f'<td style="{value_style}">{escape(value)}</td></tr>'
            for name, value in self.rows
        )
        return _html_table(self.title, rows)


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
        lead = ["-" * 40, self.lead] if self.lead else []
        return "\n".join([*([self.title] if self.title else []), *lead, *lines, *self.notes])

    def html(self) -> str:
        """Write the same as HTML."""
        n_columns = max(map(len, self.rows))
        sides = ["left" if side == "<" else "right" for side in self.sides.ljust(n_columns, self.sides[-1])]
        rows = ""
        for i, row in enumerate(self.rows):
            tag, rule = ("td", "") if i else ('th scope="col"', RULE)
            cells = (
                f'<{tag} style="{CELL} text-align: {side}; {rule}">{escape(text)}</{tag[:2]}>'
                for text, side in zip(row, sides, strict=False)
            )
            rows += f'<tr style="background: none;">{"".join(cells)}</tr>'
        lead = f"<div>{escape(self.lead)}</div>" if self.lead else ""
        return _html_table(self.title, rows, lead) + "".join(f"{FAINT}{escape(note)}</div>" for note in self.notes)


Table = NamedValues | Columns


def _html_table(title: str, rows: str, lead: str = "") -> str:
    head = f"{HEAD}{escape(title)}</div>" if title else ""
    return f'{head}{lead}<table style="font-size: inherit; border-collapse: collapse;"><tbody>{rows}</tbody></table>'


def fragment(tables: Sequence[Table], words: Sequence[str] = (), picture: str = "") -> str:
    """Write tables as HTML in the colours of the page around them, sentences above and a picture below them.

    >>> fragment([NamedValues("Fit <1>", [("KL", "0.5")])]).count("&lt;1&gt;")
    1
    """
    said = "".join(f'<p style="margin: 4px 0;">{escape(word)}</p>' for word in words)
    style = "font-size: 13px; line-height: 1.45; max-width: 100%; overflow-x: auto;"
    return f'<div class="legendre" style="{style}">{said}{"".join(table.html() for table in tables)}{picture}</div>'


def sparklines(effects: Sequence[Any], labels: Labels, most: int = 8) -> str:
    """Draw the effects of single modes, those with the largest shares, as small lines in SVG."""
    alone = sorted((effect for effect in effects if len(effect.modes) == 1), key=lambda effect: -effect.share)
    lines = [
        '<div style="display: flex; align-items: center; gap: 10px; margin: 2px 0;"><span style="min-width: 8em; '
        f'overflow-wrap: anywhere;">{escape(labels.mode(effect.modes[0]))}</span>{_sparkline(effect.values)}'
        f'<span style="opacity: 0.75;">{100 * effect.share:.1f} %</span></div>'
        for effect in sorted(alone[:most], key=lambda effect: effect.modes)
    ]
    if len(alone) > most:
        lines.append(f"{FAINT}and {len(alone) - most:,} modes more, with smaller shares</div>")
    head = f"{HEAD}Effects of single modes on log Q, with their shares of its variance</div>"
    return head + "".join(lines) if lines else ""


def _sparkline(values: FloatArray, width: int = 132, height: int = 30, edge: int = 3) -> str:
    """Draw a line through some numbers, of more than 200 every n-th, and a grey one at 0."""
    shown: list[float] = values[:: -(-len(values) // 200)].tolist()
    low, high = min(0.0, *shown), max(0.0, *shown)
    across, up = (width - 2 * edge) / max(len(shown) - 1, 1), (height - 2 * edge) / ((high - low) or 1.0)
    places = [height - edge - up * (value - low) for value in [0.0, *shown]]
    points = " ".join(f"{edge + i * across:.1f},{place:.1f}" for i, place in enumerate(places[1:]))
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f'<line x2="{width}" y1="{places[0]:.1f}" y2="{places[0]:.1f}" stroke="currentColor" stroke-opacity="0.3"/>'
        f'<polyline points="{points}" fill="none" stroke="#3b8fd4" stroke-width="1.6" stroke-linejoin="round"/></svg>'
    )


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
