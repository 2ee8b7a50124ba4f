"""Tables in plain text: names with their values under a title, and aligned columns."""

from __future__ import annotations

from collections.abc import Sequence

BEYOND = 24  # by how many characters the rule under a title is longer than the column of names


def named_values(title: str, rows: Sequence[tuple[str, str]], *, fit_rule: bool = False) -> str:
    """Write a title, a rule, and a line for each name and its value; with `fit_rule` as long as the longest line."""
    width = max(len(name) for name, _ in rows)
    body = [f"{name:<{width}}  {value}" for name, value in rows]
    rule = max(map(len, body)) if fit_rule else max(width + BEYOND, len(title))
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
