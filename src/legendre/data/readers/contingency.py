"""`table`: anything that holds counts, or cases to be counted, as a contingency table."""

from __future__ import annotations

import string
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import entries
from legendre.core.array_libraries import host
from legendre.core.cells import frozen
from legendre.core.errors import InvalidSamples, InvalidTensor, unknown_name
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.origin import Origin
from legendre.core.types import AnyArray
from legendre.data.contingency_table import ContingencyTable
from legendre.data.observation import beyond_memory
from legendre.data.readers.columns import Table, read_table
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.readers.labelled import FRAMES, opened
from legendre.data.readers.missing import without_missing
from legendre.data.readers.tables import from_rows
from legendre.data.sparse_tensor import SparseTensor

COUNTED = ("freq", "frequency", "count", "counts", "n", "weight", "weights", "number")  # columns that may hold counts
ROWS = "rows"  # counts="rows": each row is one case, whatever its columns are called
WHOLE = 2.0**53


def table(
    data: Any,
    variables: str | Sequence[Hashable] | None = None,
    counts: ArrayLike | str | None = None,
    *,
    levels: Mapping[Any, Any] | None = None,
    names: Sequence[Hashable] | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
) -> ContingencyTable:
    """Make a contingency table from rows of cases, a list of frequencies, a cross table or an array of counts.

    Parameters
    ----------
    data
        A data frame (pandas, polars, pyarrow) or a mapping of names to columns, with a row for each case or for each
        cell; a cross table or a Series with a MultiIndex of pandas, a DataArray of xarray, a `SparseTensor`, an array
        of counts.
    variables
        Which variables, and in which order; the table is summed over the others. ``None`` is all of them.
    counts
        For a data frame: the column with the number of times each row was seen, or these numbers; ``"rows"`` counts
        every row once. If a column looks like frequencies and `counts` is not given, an error asks for it.
    levels
        For each variable its levels in order; by default those that occur, sorted (ordered categories keep their
        order).
    names
        Names of the variables of an array; by default A, B, C, ...
    missing
        What to do with rows of a data frame that lack a value: "refuse" is an error that names the first, "drop" leaves
        them out and says how many. (`loglinear` can use them: ``missing="em"``.)

    Returns
    -------
    ContingencyTable
        Variables with a single level are left out, and `notes` says so.

    See Also
    --------
    loglinear : Fit a model to a table.
    from_rows : Events as a sparse tensor.

    Examples
    --------
    >>> import legendre as ld
    >>> frame = {"Sex": ["m", "m", "f", "f"], "Survived": ["no", "yes", "no", "yes"], "Freq": [1364, 367, 126, 344]}
    >>> ld.table(frame, ["Sex", "Survived"], counts="Freq")
    Sex     no  yes
    f      126  344
    m    1,364  367
    2,201 cases; columns: Survived
    """
    variables = listed_variables(variables, "table")
    if missing not in ("refuse", "drop"):
        raise InvalidSamples(
            f'table(missing={missing!r}): it is "refuse" or "drop". Rows that lack values have no cell of the table; '
            'loglinear(frame, formula, missing="em") uses them.'
        )
    if isinstance(data, ContingencyTable):  # callers may pass what this function returned
        return data if variables is None else data.margin(variables)
    if has_rows(data, variables, counts):
        data, notes = without_missing(data, variables, counts) if missing == "drop" else (data, ())
        values, origin, more = _counted(data, variables, counts, levels)
        return checked_table(values, origin, (*notes, *more))
    if counts is not None:
        raise InvalidSamples(
            f"table(counts={_short(counts)}): only a data frame has a column of counts; a {type(data).__name__} is "
            "read as a table of counts itself."
        )
    found = checked_table(*_held(data, names, levels))
    return found if variables is None else found.margin(variables)


def listed_variables(variables: Any, asked: str) -> list[Any] | None:
    """List the variables that a caller names; a single name is one variable, ``None`` all of them."""
    if variables is None:
        return None
    if (listed := [variables] if isinstance(variables, str) else entries(variables)) is None:
        raise InvalidSamples(f"{asked}(variables={variables!r}): pass a list of names, such as ['a', 'b'].")
    return listed


def has_rows(data: Any, variables: Any, counts: Any) -> bool:
    """Whether data is a frame with a row for each case or cell, not a table whose entries are counts."""
    root, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, Mapping) or (isinstance(data, np.ndarray) and data.dtype.names is not None):
        return True
    if root not in FRAMES or kind not in ("DataFrame", "LazyFrame", "Table", "RecordBatch"):
        return False
    if root != "pandas" or counts is not None:
        return True
    columns = {str(name) for name in data.columns}
    if variables is not None and {str(name) for name in variables} <= columns:
        return True
    numbers = all(str(kind)[:3].lower() in ("int", "uin", "flo") for kind in data.dtypes)
    return not numbers or (type(data.index).__name__ == "RangeIndex" and data.columns.nlevels == 1)


def _counted(data: Any, variables: Any, counts: Any, levels: Any) -> tuple[AnyArray, Origin, tuple[str, ...]]:
    """Count the rows of a frame."""
    given = opened_rows(data, variables, counts)[1]
    try:
        found = from_rows(data, variables, given, levels)
    except InvalidSamples as problem:
        if "is missing in row" not in str(problem):
            raise
        raise InvalidSamples(
            f"{problem} missing='drop' leaves them out and says how many; loglinear(..., missing='em') uses them."
        ) from None
    return _whole(found)


def opened_rows(data: Any, variables: Any, counts: Any) -> tuple[Table, Any]:
    """Check the names of columns, and the counts; return the rows and the counts, ``None`` where each row is a case."""
    source = read_table(data, "frame")
    named = [str(name) for name in source.names]
    for name in variables or ():
        if name not in source.names:
            raise InvalidSamples(f"table: {unknown_name('column', str(name), named)}")
    if counts is None:
        _ask_for_counts(source, named, variables)
    given = None if isinstance(counts, str) and counts == ROWS and ROWS not in named else counts
    if isinstance(given, str) and given not in named:
        raise InvalidSamples(f"table: {unknown_name('column', given, named)} It was named as counts.")
    if given is not None:
        _check_column(source.column(given).rows() if isinstance(given, str) else np.asarray(given), given)
    return source, given


def _check_column(counts: AnyArray, given: Any) -> None:
    """Refuse counts of rows that are not whole numbers >= 0, before sums hide them."""
    if counts.dtype.kind not in "iuf" or counts.ndim != 1:
        return  # from_rows says what is wrong
    name = f"column {given!r}" if isinstance(given, str) else "counts"
    wrong = (counts < 0) | (counts != np.rint(counts))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidSamples(
            f"table: {name} holds {counts[row]:g} in row {row}; counts are whole numbers >= 0 ({int(wrong.sum())} of "
            f"{len(counts)} rows hold something else). If they were rescaled, pass the counts themselves."
        )


def _ask_for_counts(source: Any, named: list[str], variables: Any) -> None:
    """Refuse to guess whether a column of whole numbers says how often a row was seen."""
    wanted = [] if variables is None else [str(name) for name in variables]
    for name, text in zip(source.names, named, strict=True):
        if text.lower() not in COUNTED or text in wanted:
            continue
        column = source.column(name)
        if column.codes is None and column.values.dtype.kind in "iuf":
            raise InvalidSamples(
                f"the frame has a column {text!r} of numbers: if it says how often each row was seen, pass "
                f"counts={text!r}. If each row is one case, pass counts='rows' and name the variables."
            )


def _held(data: Any, names: Any, levels: Any) -> tuple[AnyArray, Origin, tuple[str, ...]]:
    """Take counts out of an object that is a table."""
    held, origin = opened(data, names, levels)
    listed = as_sparse_tensor(held)
    if listed is not None:
        values, own, notes = _whole(listed)
        return values, own if origin.labels is None else origin, (*notes, *origin.notes)
    values = np.asarray(host(held, "table", InvalidTensor))
    if values.ndim == 0 or values.dtype.kind not in "iuf":
        raise InvalidTensor(
            f"table: a {type(data).__name__} with dtype {values.dtype} and shape {values.shape} holds no counts."
        )
    return values, origin, origin.notes


def _whole(found: SparseTensor) -> tuple[AnyArray, Origin, tuple[str, ...]]:
    if (why := beyond_memory(found.shape)) is not None:
        raise InvalidTensor(
            f"table: {size_name(found.n_cells)} cells are too many for a table that is written out: it {why}. Name "
            "fewer variables, or fit a SparseTensor (from_rows), which loglinear and decompose take as it is."
        )
    return found.toarray(), found.origin, ()


def checked_table(values: AnyArray, origin: Origin, notes: tuple[str, ...]) -> ContingencyTable:
    """Check the counts, name what has no name, and leave out variables with a single level."""
    labels = _named(origin.of(values.shape))
    _check_counts(values, labels)
    counts = values.astype(np.int64)
    kept = [k for k, n in enumerate(values.shape) if n > 1]
    dropped = [labels.mode(k) for k in range(values.ndim) if k not in kept]
    if not kept:
        raise InvalidTensor(
            f"table: every variable has one level only ({', '.join(dropped)}): nothing can be compared."
        )
    notes += tuple(f"{name} has one level only and was left out." for name in dropped)
    counts = counts.reshape([values.shape[k] for k in kept])
    origin = replace(origin, labels=labels).part(kept)
    found = origin.of(counts.shape)
    for k in range(counts.ndim):
        for i in np.flatnonzero(counts.sum(axis=tuple(j for j in range(counts.ndim) if j != k)) == 0):
            notes += (
                f"{found.mode(k)} {found.level(k, int(i))} has no cases: its fitted counts are 0 in most models.",
            )
    return ContingencyTable(frozen(counts), replace(origin, notes=notes), notes, tuple(dropped))


def _named(labels: Labels) -> Labels:
    """Call variables without a name A, B, C, ... as textbooks do."""
    if labels.names is not None:
        return labels
    letters = string.ascii_uppercase
    names = [letters[k] if k < len(letters) else f"V{k}" for k in range(len(labels.shape))]
    return Labels(labels.shape, tuple(names), labels.levels)


def _check_counts(values: AnyArray, labels: Labels) -> None:
    numbers = values.astype(np.float64)
    for wrong, what in (
        (np.isnan(numbers), "has no number (NaN). Put 0 for a count of 0; leave a cell that cannot occur to support=."),
        (numbers < 0, "is negative; counts are whole numbers >= 0."),
        (
            numbers != np.rint(numbers),
            "is not whole; counts are. If the table was rescaled, pass the counts themselves.",
        ),
        (numbers >= WHOLE, "is too large for a count."),
    ):
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0])
            raise InvalidTensor(
                f"table: the count of ({labels.cell(place)}), {values[place]:g}, {what} ({int(wrong.sum())} of "
                f"{values.size} cells are like that)"
            )
    if not numbers.sum():
        raise InvalidTensor("table: every count is 0: there is nothing to fit.")


def _short(counts: Any) -> str:
    return repr(counts) if isinstance(counts, str) else f"<{type(counts).__name__}>"
