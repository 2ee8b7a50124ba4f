"""Many columns of levels, compiled: tables over a few of them, separation in a graph, products of conditional tables.

Columns are stored one after another (columns x rows) as levels counted from 0; any other value, at or above
the column's number of levels, is missing, and its row does not count for a table that needs it.
"""

from __future__ import annotations

import numpy as np

from legendre.core.compiled import compiled, inner

BLOCK = 1024  # rows whose cells are found at a time, so that they stay in the cache
GONE = -(1 << 40)  # more than any code can make up for


@inner
def find_cells(columns, sizes, chosen, start, stop, codes):
    """Find the cell of each row in a table over the chosen columns, the last one fastest; negative if one is lost."""
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
    """Return N I(a; b) in nats of a table of two columns, and the degrees of freedom of the levels that are seen."""
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
def pair_gains(both, sizes, starts, first, total, gains, dfs):
    """Find N I(a; b) in nats and its degrees of freedom for each pair of columns a > b.

    `both` has the weight of the rows with each two levels, those from `first` on are given. Where `first` is
    1, no row lacks a value, and level 0 has what the others leave of the total.
    """
    largest = sizes.max()
    table, noise = np.empty(largest * largest), 1e-12 * total  # of sums and differences
    for a in range(len(sizes)):
        for b in range(a):
            n_a, n_b, at_a, at_b, left = sizes[a], sizes[b], starts[a] - first, starts[b] - first, total
            for i in range(first, n_a):
                for j in range(first, n_b):
                    table[i * n_b + j] = both[at_a + i, at_b + j]
                    left -= both[at_a + i, at_b + j]
            if first:
                for i in range(1, n_a):
                    rest = both[at_a + i, at_a + i]
                    for j in range(1, n_b):
                        rest -= table[i * n_b + j]
                    table[i * n_b] = rest
                    left -= rest
                for j in range(1, n_b):
                    rest = both[at_b + j, at_b + j]
                    for i in range(1, n_a):
                        rest -= table[i * n_b + j]
                    table[j] = rest
                    left -= rest
                table[0] = left
            for cell in range(n_a * n_b):
                table[cell] = table[cell] if table[cell] > noise else 0.0
            gains[a, b], dfs[a, b] = table_gain(table, 0, n_a, n_b)


@compiled
def separates(near, degrees, blocked, a, b):
    """Whether every path from a to b meets a set; `near` lists the neighbours of each vertex, as many as `degrees`."""
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


@compiled
def complete_rows(
    codes, weights, sizes, offsets, owns, states, parents, links, link_starts, given, level_starts, expected, margins,
    chances, drawn,
):  # fmt: skip
    """Find what rows with gaps leave open, on a tree of families: messages to the roots, then back to the leaves.

    `given` has p(own column | parents) of each family, at `offsets`, each family after the one that holds its parents;
    `links` finds the parents' state in each cell of that family. Returned is the log-probability of what each row
    shows. Beside it, where these arrays are not empty: `expected` gets the expected number of rows in each cell,
    `margins` the distribution of each column of each row, and `drawn` a completion of each row by the numbers
    `chances`.
    """
    n_families = len(owns)
    value, message, share = np.empty(len(given)), np.empty(len(given)), np.empty(len(given))
    cell, out = np.zeros(n_families, np.int64), np.zeros(codes.shape[1])
    for t in range(codes.shape[1]):
        for f in range(n_families):
            size, level = sizes[owns[f]], codes[owns[f], t]
            for i in range(offsets[f], offsets[f + 1]):
                value[i] = given[i] if level >= size or (i - offsets[f]) % size == level else 0.0
        for f in range(n_families - 1, -1, -1):
            size, start, largest = sizes[owns[f]], offsets[f], 0.0
            for s in range(states[f]):
                message[start + s] = 0.0
                for j in range(size):
                    message[start + s] += value[start + s * size + j]
                largest = max(largest, message[start + s])
            if largest == 0.0:
                out[t] = -np.inf
                break
            out[t] += np.log(largest)
            for s in range(states[f]):
                message[start + s] /= largest
                for j in range(size):
                    value[start + s * size + j] /= largest
            if parents[f] >= 0:
                above = offsets[parents[f]]
                for i in range(offsets[parents[f] + 1] - above):
                    value[above + i] *= message[start + links[link_starts[f] + i]]
        if out[t] == -np.inf or not (len(drawn) or len(expected) or len(margins)):
            continue
        for f in range(n_families):
            size, start, first = sizes[owns[f]], offsets[f], link_starts[f]
            if len(drawn):
                s = links[first + cell[parents[f]]] if parents[f] >= 0 else 0
                left, j = chances[t, f] * message[start + s], 0
                while j < size - 1 and left >= value[start + s * size + j]:
                    left -= value[start + s * size + j]
                    j += 1
                while value[start + s * size + j] == 0.0:  # rounding went too far
                    j -= 1
                cell[f], drawn[t, owns[f]] = s * size + j, j
                continue
            for s in range(states[f]):
                share[s] = 1.0 if parents[f] < 0 else 0.0
            if parents[f] >= 0:
                for i in range(offsets[parents[f] + 1] - offsets[parents[f]]):
                    share[links[first + i]] += value[offsets[parents[f]] + i]
            for s in range(states[f]):
                scale = share[s] / message[start + s] if message[start + s] > 0 else 0.0
                for j in range(size):
                    i = start + s * size + j
                    value[i] *= scale
                    if len(expected):
                        expected[i] += weights[t] * value[i]
                    if len(margins):
                        margins[t, level_starts[owns[f]] + j] += value[i]
    return out
