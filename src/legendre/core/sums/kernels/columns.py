"""Many columns of levels, compiled: tables over a few of them, separation in a graph, products of conditional tables.

`columns` is an array (columns x rows) of levels counted from 0; `sizes` has each column's number of levels, `weights`
the weight of each row. A value at or above the column's number of levels is missing; its row does not count in tables
over that column. `chosen` lists the columns of a table, whose cells are in C order.
"""

from __future__ import annotations

import numpy as np

from legendre.core.compiled import compiled, inner

BLOCK = 1024  # rows whose cells are found at a time, so that they stay in the cache
GONE = -(1 << 40)  # stands for a missing level: a code stays negative if later columns have at most 2^22 cells


@inner
def find_cells(columns, sizes, chosen, start, stop, codes):
    """Find the cell of each of the rows start..stop-1 in a table over the chosen columns.

    Its number in C order is written to `codes`; it is negative if one of the values is missing.
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
    """Return the contingency table over the chosen columns, flat: the total weight of the rows in each cell.

    Rows in which a chosen column is missing do not count.
    """
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
def table_gain(table, start, step, n_a, n_b):
    """Return N I(a; b) in nats for a table of two columns a and b, and its degrees of freedom.

    N is the table's total and I the mutual information, so this is what an edge a - b adds to the log-likelihood. The
    degrees of freedom count only levels that occur. The table is n_a x n_b and begins at `start` of the flat array
    `table`; its rows begin `step` entries apart.
    """
    # N I(a; b) = sum of n log n over cells, minus the same over rows and over columns, plus N log N
    gain, total, occurring_a, occurring_b = 0.0, 0.0, 0, 0
    for i in range(n_a):
        row = 0.0
        for j in range(n_b):
            entry = table[start + i * step + j]
            row += entry
            gain += xlogx(entry)
        gain -= xlogx(row)
        total += row
        occurring_a += row > 0
    if total == 0:
        return 0.0, 0
    for j in range(n_b):
        column = 0.0
        for i in range(n_a):
            column += table[start + i * step + j]
        gain -= xlogx(column)
        occurring_b += column > 0
    return gain + xlogx(total), (occurring_a - 1) * (occurring_b - 1)


@inner
def term_gain(table, n_a, n_b):
    """Return half of the largest Cochran-Mantel-Haenszel statistic of a single term, an estimate of its gain in nats.

    `table` holds tables of two columns a and b, one for each cell of S; it is overwritten. The statistic of levels i
    and j tests, over all cells of S together, whether ``a >= i`` goes with ``b >= j``: it is the score test of one
    parameter in the model in which a and b are independent given S.
    """
    excess, variance = np.zeros((n_a, n_b)), np.zeros((n_a, n_b))
    for above in table.reshape(-1, n_a, n_b):
        for i in range(n_a - 1, 0, -1):
            above[i - 1] += above[i]
        for j in range(n_b - 1, 0, -1):
            above[:, j - 1] += above[:, j]  # now above[i, j] is the weight of the rows with a >= i and b >= j
        total, p, q = above[0, 0], above[:, :1], above[:1]
        if total > 1:
            excess += above - p * q / total
            variance += p * (total - p) * q * (total - q) / (total * total * (total - 1))
    return (0.5 * excess**2 / np.where(variance > 0, variance, np.inf)).max()


@inner
def or_single(gain, df, table, n_a, n_b, penalty):
    """Return the gain of an edge and its degrees of freedom, or those of one term (`term_gain`) if that pays more.

    Each degree of freedom costs the `penalty`. The table is overwritten.
    """
    one = term_gain(table, n_a, n_b)
    if one - penalty > gain - penalty * df:
        return one, 1
    return gain, df


@compiled
def edge_gain(columns, weights, sizes, chosen, penalty, single):
    """Return N I(a; b | S) in nats and its degrees of freedom, where S, a and b are the chosen columns in this order.

    This is the gain in log-likelihood from an edge a - b whose ends have the common neighbours S (`fitting/columns.py`
    scores edges by it). It is summed over the cells of S; levels that never occur with a cell of S do not count there
    as degrees of freedom. If `single`, an edge may be for a single term, see `or_single`.
    """
    n_a, n_b = sizes[chosen[-2]], sizes[chosen[-1]]
    table, gain, df = count_table(columns, weights, sizes, chosen), 0.0, 0
    for start in range(0, len(table), n_a * n_b):
        table_nats, table_df = table_gain(table, start, n_b, n_a, n_b)
        gain += table_nats
        df += table_df
    return or_single(gain, df, table, n_a, n_b, penalty) if single else (gain, df)


@compiled
def pair_gains(both, starts, penalty, single, gains, dfs):
    """Fill ``gains[a, b]`` with N I(a; b) in nats, and ``dfs[a, b]`` with its degrees of freedom, for columns a > b.

    `both` is the table of every two levels of any columns: the weight of the rows that have both. The levels of column
    a have the rows and columns of `both` from ``starts[a]`` to ``starts[a + 1]``. If `single`, see `or_single`.
    """
    flat, step = both.ravel(), len(both)
    for a in range(len(starts) - 1):
        for b in range(a):
            n_a, n_b = starts[a + 1] - starts[a], starts[b + 1] - starts[b]
            gain, df = table_gain(flat, starts[a] * step + starts[b], step, n_a, n_b)
            if single:
                table = both[starts[a] : starts[a + 1], starts[b] : starts[b + 1]].copy()
                gain, df = or_single(gain, df, table.ravel(), n_a, n_b, penalty)
            gains[a, b], dfs[a, b] = gain, df


@compiled
def separates(near, degrees, blocked, a, b):
    """Return whether every path from a to b meets a vertex of `blocked`, by a search of the graph from a.

    If `blocked` are the common neighbours of a and b, a chordal graph stays chordal with an edge a - b exactly if this
    is true. The neighbours of v are the first ``degrees[v]`` entries of row v of `near`.
    """
    closed = np.zeros(len(near), np.bool_)  # vertices that the search has met, or must not enter
    for vertex in blocked:
        closed[vertex] = True
    closed[a] = True
    waiting = np.empty(len(near), np.int64)
    waiting[0], n_waiting = a, 1
    while n_waiting:
        n_waiting -= 1
        vertex = waiting[n_waiting]
        for t in range(degrees[vertex]):
            other = near[vertex, t]
            if other == b:
                return False
            if not closed[other]:
                closed[other] = True
                waiting[n_waiting] = other
                n_waiting += 1
    return True


@compiled
def add_entries(columns, sizes, chosen, table, out):
    """Add to ``out[row]`` the entry of a flat table at the row's cell; minus infinity where a value is missing.

    With the logarithms of conditional tables, one call for each, this gives the log-probability of each row.
    """
    codes = np.empty(BLOCK, np.int64)
    for start in range(0, columns.shape[1], BLOCK):
        stop = min(start + BLOCK, columns.shape[1])
        find_cells(columns, sizes, chosen, start, stop, codes)
        for t in range(stop - start):
            out[start + t] += table[codes[t]] if codes[t] >= 0 else -np.inf
