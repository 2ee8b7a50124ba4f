"""What a notebook shows of a result: escaped, self-contained HTML that takes the colours of the page it stands in."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Protocol

from legendre.core.labels import Labels
from legendre.core.text_table import Columns, NamedValues, Table
from legendre.core.types import FloatArray

RULE = "1px solid rgba(128, 128, 128, 0.35)"  # seen on white and on black
LINE = "#3b8fd4"  # a blue that is seen on white and on black
WIDTH, HEIGHT, EDGE = 132, 30, 3  # of a sparkline, in pixels
MOST_LINES = 8  # sparklines below each other
POINTS = 200  # of a sparkline: more levels are thinned out
CELL = "padding: 2px 12px 2px 0; vertical-align: top; background: none;"
NUMBER = "font-variant-numeric: tabular-nums;"


def fragment(tables: Sequence[Table], words: Sequence[str] = (), picture: str = "") -> str:
    """Write tables, sentences above them and a picture (already HTML) below them.

    >>> fragment([NamedValues("Fit <1>", [("KL", "0.5")])]).count("&lt;1&gt;")
    1
    """
    said = "".join(f'<p style="margin: 4px 0;">{escape(word)}</p>' for word in words)
    shown = "".join(table.written(named_table, column_table) for table in tables)
    return (
        '<div class="legendre" style="font-size: 13px; line-height: 1.45; max-width: 100%; overflow-x: auto;">'
        f"{said}{shown}{picture}</div>"
    )


def named_table(table: NamedValues) -> str:
    """Write names with their values under a title."""
    name_style = f"{CELL} text-align: left; font-weight: 500; opacity: 0.75; white-space: nowrap;"
    value_style = f"{CELL} {NUMBER} text-align: left; overflow-wrap: anywhere;"
    rows = "".join(
        f'<tr style="background: none;"><th scope="row" style="{name_style}">{escape(name)}</th>'
        f'<td style="{value_style}">{escape(value)}</td></tr>'
        for name, value in table.rows
    )
    return _table(table.title, rows)


def column_table(table: Columns) -> str:
    """Write rows under the names of their columns."""
    n_columns = max(map(len, table.rows))
    sides = ["left" if side == "<" else "right" for side in table.sides.ljust(n_columns, table.sides[-1])]
    head, *body = table.rows
    rows = f"<tr>{_cells(head, sides, 'th')}</tr>"
    rows += "".join(f'<tr style="background: none;">{_cells(row, sides, "td")}</tr>' for row in body)
    notes = "".join(f'<div style="opacity: 0.75;">{escape(note)}</div>' for note in table.notes)
    return _table(table.title, rows, table.lead) + notes


def _table(title: str, rows: str, lead: str = "") -> str:
    head = f'<div style="font-weight: 600; margin: 8px 0 2px;">{escape(title)}</div>' if title else ""
    lead = f"<div>{escape(lead)}</div>" if lead else ""
    style = f"font-size: inherit; border-collapse: collapse; border-top: {RULE}; border-bottom: {RULE};"
    return f'{head}{lead}<table style="{style}"><tbody>{rows}</tbody></table>'


def _cells(row: Sequence[str], sides: Sequence[str], tag: str) -> str:
    kind = ' scope="col"' if tag == "th" else ""
    rule = f" border-bottom: {RULE}; font-weight: 500;" if tag == "th" else ""
    return "".join(
        f'<{tag}{kind} style="{CELL}{NUMBER} text-align: {side};{rule}">{escape(text)}</{tag}>'
        for text, side in zip(row, sides, strict=False)
    )


class Line(Protocol):
    """An effect that can be drawn: what modes add to log Q."""

    @property
    def modes(self) -> tuple[int, ...]:
        """The modes, in rising order."""

    @property
    def share(self) -> float:
        """The share of the variance of log Q."""

    @property
    def values(self) -> FloatArray:
        """The effect at every level."""


def sparklines(effects: Sequence[Line], labels: Labels) -> str:
    """Draw the effects of single modes, those with the largest shares, as small lines."""
    alone = sorted((effect for effect in effects if len(effect.modes) == 1), key=lambda effect: -effect.share)
    drawn = sorted(alone[:MOST_LINES], key=lambda effect: effect.modes)
    lines = [_sparkline(e.values, labels.mode(e.modes[0]), f"{100 * e.share:.1f} %") for e in drawn]
    if len(alone) > MOST_LINES:
        lines.append(
            f'<div style="opacity: 0.75;">and {len(alone) - MOST_LINES:,} modes more, with smaller shares</div>'
        )
    head = "Effects of single modes on log Q, with their shares of its variance"
    return f'<div style="font-weight: 600; margin: 8px 0 2px;">{head}</div>{"".join(lines)}' if lines else ""


def _sparkline(values: FloatArray, name: str, note: str) -> str:
    """Draw a line through some numbers, a grey one at 0, with a name before it and a note behind it."""
    shown: list[float] = values[:: -(-len(values) // POINTS)].tolist()
    low, high = min(0.0, *shown), max(0.0, *shown)
    spread = (high - low) or 1.0
    across = (WIDTH - 2 * EDGE) / max(len(shown) - 1, 1)

    def height(value: float) -> float:
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - low) / spread

    points = " ".join(f"{EDGE + i * across:.1f},{height(value):.1f}" for i, value in enumerate(shown))
    zero = f"{height(0.0):.1f}"
    return (
        '<div style="display: flex; align-items: center; gap: 10px; margin: 2px 0;">'
        f'<span style="min-width: 8em; overflow-wrap: anywhere;">{escape(name)}</span>'
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">'
        f'<line x1="0" x2="{WIDTH}" y1="{zero}" y2="{zero}" stroke="currentColor" stroke-opacity="0.3"/>'
        f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="1.6" stroke-linejoin="round"/></svg>'
        f'<span style="opacity: 0.75; {NUMBER}">{escape(note)}</span></div>'
    )
