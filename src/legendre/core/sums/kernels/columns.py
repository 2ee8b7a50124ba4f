"""Many columns of levels, compiled: tables over a few of them, separation in a graph, products of conditional tables.

Columns are stored one after another (columns x rows) as levels counted from 0; any other value, at or above
the column's number of levels, is missing, and its row does not count for a table that needs it.
"""

from __future__ import annotations

import numpy as np

from legendre.core.compiled import compiled, inner

BLOCK = 1024  # rows whose cells are found at a time, so that they stay in the cache
GONE = -(1 << 40)  # the code of a missing value: what other columns add never makes up for it


@inner
def find_cells(columns, sizes, chosen, start, stop, codes):
    """Find the cell of each row in a table over the chosen columns, in C order; negative if a value is missing.

    The cells of rows `start` to `stop` are written to `codes`.
    """
    for t in range(stop - start):
        codes[t] = 0
    for k in chosen:
        size, column = sizes[k], columns[k]
        for t in range(stop - start):
            level = np.int64(column[start + t])
            codes[t] = codes[t] * size + (level if level < size else GONE)


@compiled
def count_table(columns, weights, sizes, chosen):
    """Add up the weights of rows in each cell of a table over the chosen columns."""
    n_cells = 1
    for k in chosen:
        n_cells *= sizes[k]
    table, codes = np.zeros(n_cells), np.empty(BLOCK, np.int64)
    for start in range(0, columns.shape[1], BLOCK):
        stop = min(start + BLOCK, columns.shape[1])
        find_cells(columns, sizes, chosen, start, stop, codes)
        for t in range(stop - start):
            if codes[t] >= 0:
                table[codes[t]] += weights[start + t]
    return table


@inner
def xlogx(x):
    """Return x log x, 0 at 0."""
    return x * np.log(x) if x > 0 else 0.0


@inner
def table_gain(table, start, n_a, n_b):
    """Return N I(a; b) in nats of a table of two columns, and the degrees of freedom of the levels that are seen.

    The table is n_a x n_b, in C order, and begins at `start`.
    """
    gain, total, seen_a, seen_b = 0.0, 0.0, 0, 0
    for i in range(n_a):
        row = 0.0
        for j in range(n_b):
            entry = table[start + i * n_b + j]
            row += entry
            gain += xlogx(entry)
        gain -= xlogx(row)
        total += row
        seen_a += row > 0
    if total == 0:
        return 0.0, 0
    for j in range(n_b):
        column = 0.0
        for i in range(n_a):
            column += table[start + i * n_b + j]
        gain -= xlogx(column)
        seen_b += column > 0
    return gain + xlogx(total), (seen_a - 1) * (seen_b - 1)


@compiled
def edge_gain(columns, weights, sizes, chosen):
    """Return N I(a; b | S) in nats and its degrees of freedom, where S, a and b are the chosen columns in this order.

    Only levels that are seen with a cell of S count for the degrees of freedom.
    """
    n_a, n_b = sizes[chosen[-2]], sizes[chosen[-1]]
    table, gain, df = count_table(columns, weights, sizes, chosen), 0.0, 0
    for start in range(0, len(table), n_a * n_b):
        own, own_df = table_gain(table, start, n_a, n_b)
        gain += own
        df += own_df
    return gain, df


@compiled
def pair_gains(both, starts, gains, dfs):
    """Find N I(a; b) in nats and its degrees of freedom for each pair of columns a > b.

    `both` has the weight of the rows with each two levels; those of column a begin at ``starts[a]``.
    """
    for a in range(len(starts) - 1):
        for b in range(a):
            table = both[starts[a] : starts[a + 1], starts[b] : starts[b + 1]].copy()
            gains[a, b], dfs[a, b] = table_gain(table.ravel(), 0, *table.shape)


@compiled
def separates(near, degrees, blocked, a, b):
    """Whether every path from a to b meets a vertex of `blocked`; the graph stays chordal with an edge a - b if so.

    Row v of `near` begins with the neighbours of v, of which there are ``degrees[v]``.
    """
    seen = np.zeros(len(near), np.bool_)
    for vertex in blocked:
        seen[vertex] = True
    seen[a] = True
    waiting = np.empty(len(near), np.int64)
    waiting[0], n_waiting = a, 1
    while n_waiting:
        n_waiting -= 1
        vertex = waiting[n_waiting]
        for t in range(degrees[vertex]):
            other = near[vertex, t]
            if other == b:
                return False
            if not seen[other]:
                seen[other] = True
                waiting[n_waiting] = other
                n_waiting += 1
    return True


@compiled
def add_entries(columns, sizes, chosen, table, out):
    """Add, to each row, the entry of a table over the chosen columns; minus infinity where a value is missing."""
    codes = np.empty(BLOCK, np.int64)
    for start in range(0, columns.shape[1], BLOCK):
        stop = min(start + BLOCK, columns.shape[1])
        find_cells(columns, sizes, chosen, start, stop, codes)
        for t in range(stop - start):
            out[start + t] += table[codes[t]] if codes[t] >= 0 else -np.inf
