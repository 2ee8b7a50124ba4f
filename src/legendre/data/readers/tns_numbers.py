"""Lines of indices and a value, read byte by byte: compiled, for files of millions of lines."""

from __future__ import annotations

import numpy as np

from legendre.core.compiled import compiled, inner

NEWLINE, HASH, PLUS, MINUS, POINT = 10, 35, 43, 45, 46
DONE, UNUSUAL = 0, 1
EXACT = 1 << 53  # whole numbers up to here are float64 numbers
PLAIN, HARD, STRANGE = 0, 1, 2


@inner
def _blank(byte):
    """Whether a byte separates fields: space, tab, or one of 11 to 13."""
    return byte == 32 or byte == 9 or (11 <= byte <= 13)


@inner
def _digits(text, at, mantissa, count):
    """Add digits to the mantissa; the count is that of its significant digits."""
    stop = len(text)
    while at < stop and 48 <= text[at] <= 57:
        if count < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[at] - 48)
        count += 1 if mantissa > 0 else 0
        at += 1
    return at, mantissa, count


@inner
def _exponent(text, at):
    """Read the digits after e; at is -1 if there are none, or more than an exponent has."""
    sign = 1
    if at < len(text) and (text[at] == PLUS or text[at] == MINUS):
        sign = -1 if text[at] == MINUS else 1
        at += 1
    begin, power = at, 0
    while at < len(text) and 48 <= text[at] <= 57 and at - begin < 5:
        power = power * 10 + np.int64(text[at] - 48)
        at += 1
    return (at if at > begin else -1), sign * power


@inner
def _number(text, at, powers):
    """Read a number that begins at `at`: kind, value, where it ends.

    PLAIN: mantissa < 2^53 and |exponent| <= 22, so that one product or quotient of two float64 numbers gives it,
    rounded once. HARD: a number, but not such a one. STRANGE: signs and all that is no number.
    """
    begin = at
    at, mantissa, count = _digits(text, at, np.uint64(0), 0)
    figures, power = at - begin, 0
    if at < len(text) and text[at] == POINT:
        begin = at + 1
        at, mantissa, count = _digits(text, begin, mantissa, count)
        figures += at - begin
        power = begin - at
    if figures == 0:
        return STRANGE, 0.0, at
    if at < len(text) and (text[at] == 101 or text[at] == 69):
        at, more = _exponent(text, at + 1)
        power += more
    if at < 0 or (at < len(text) and not (_blank(text[at]) or text[at] == NEWLINE or text[at] == HASH)):
        return STRANGE, 0.0, at
    if count > 19:
        return HARD, 0.0, at
    while mantissa >= EXACT and mantissa % np.uint64(10) == 0:
        mantissa //= np.uint64(10)
        power += 1
    if mantissa >= EXACT or power < -22 or power > 22:
        return HARD, 0.0, at
    if power < 0:
        return PLAIN, np.float64(mantissa) / powers[-power], at
    return PLAIN, np.float64(mantissa) * powers[power], at


@inner
def _index(text, at, powers):
    """Read an index: most are a few digits, which need no general number."""
    begin, index = at, 0
    while at < len(text) and 48 <= text[at] <= 57 and at - begin < 18:
        index = index * 10 + np.int64(text[at] - 48)
        at += 1
    if at > begin and at < len(text) and _blank(text[at]):
        return index, at
    kind, value, at = _number(text, begin, powers)
    if kind != PLAIN or value >= EXACT or value != np.floor(value):
        return -1, at
    return np.int64(value), at


@inner
def _skip(text, at):
    while at < len(text) and _blank(text[at]):
        at += 1
    return at


@inner
def _line(text, at, start, sizes, powers, cell):
    """Read one entry: kind, value, where the value begins and ends, where the line ends."""
    for k in range(len(sizes)):
        index, at = _index(text, _skip(text, at), powers)
        if index < start or index - start >= sizes[k]:
            return STRANGE, 0.0, at, at, at
        cell[k] = index - start
    begin = _skip(text, at)
    kind, value, at = _number(text, begin, powers)
    if kind == STRANGE:
        return kind, value, begin, at, at
    stop = _skip(text, at)
    if stop < len(text) and text[stop] == HASH:
        while stop < len(text) and text[stop] != NEWLINE:
            stop += 1
    if stop < len(text) and text[stop] != NEWLINE:
        return STRANGE, 0.0, begin, at, at
    return kind, value, begin, at, stop


@compiled
def parse(text, at, start, sizes, powers, cells, values, spans, rows):
    """Read whole lines from `at` on into columns of `cells` and into values, from entry `rows` on.

    Returns state, where the next line begins, lines read, entries so far. A HARD value is left to the caller:
    ``spans`` (zeros before) holds where in the text it begins and ends. Stops before a line that it cannot read
    (UNUSUAL).
    """
    lines = 0
    cell = np.empty(len(sizes), np.int64)
    while at < len(text):
        first = _skip(text, at)
        if first >= len(text) or text[first] == NEWLINE or text[first] == HASH:
            while first < len(text) and text[first] != NEWLINE:
                first += 1
            at = first + 1
            lines += 1
            continue
        kind, value, begin, end, stop = _line(text, first, start, sizes, powers, cell)
        if kind == STRANGE:
            return UNUSUAL, at, lines, rows
        for k in range(len(sizes)):
            cells[k, rows] = cell[k]
        values[rows] = value
        if kind == HARD:
            spans[0, rows] = begin
            spans[1, rows] = end
        rows += 1
        lines += 1
        at = stop + 1
    return DONE, at, lines, rows
