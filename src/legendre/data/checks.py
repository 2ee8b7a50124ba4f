"""Checks of a dense X, its sample space and its base measure; each refusal says where, which value and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.cells import cell_name, first_cell, freeze
from legendre.core.errors import InvalidSupport, InvalidTensor, LegendreError, unknown_name
from legendre.core.memory import check_room
from legendre.core.origin import read_array
from legendre.core.types import AnyArray, BoolArray, Cell, FloatArray, IntArray, Shape
from legendre.data.readers.coordinates import as_sparse_tensor

SUPPORT_NAMES = ("all", "nonzero")
LEAST, MOST, SPREAD = 1e-100, 1e100, 1e18
"""Bounds on positive entries: the smallest and the largest allowed, and the largest allowed ratio of two entries."""


class Scan(NamedTuple):
    """What one pass over an array finds."""

    total: float  # not finite as soon as one entry is not
    smallest: float  # of the entries that are not NaN
    positive: float  # the smallest positive entry; inf if there is none
    largest: float  # -inf if every entry is NaN
    by_mode: tuple[FloatArray, ...] = ()  # of large arrays, X summed over all modes but one, for each
    last_ranking: IntArray | None = None  # of large ones in C order, the place of the largest entry of each last slice


def scan(values: AnyArray) -> Scan:
    """Find total and range of an array.

    Large arrays are read by compiled code in one pass. It needs at least two modes, because it goes row by row.
    """
    if values.size >= limits.COMPILED_CELLS and values.ndim > 1:
        from legendre.core.sums.kernels.scan import scan_large

        return Scan(*scan_large(values))
    with np.errstate(invalid="ignore", over="ignore"):
        total = float(values.sum(dtype=np.float64))
    numbers = values if math.isfinite(total) else values[~np.isnan(values)]  # a finite total contains no NaN
    if not numbers.size:
        return Scan(total, math.inf, math.inf, -math.inf)
    smallest = positive = float(numbers.min())
    if smallest <= 0:
        positives = numbers[numbers > 0]
        positive = float(positives.min()) if positives.size else math.inf
    return Scan(total, smallest, positive, float(numbers.max()))


def check_range(
    positive: float,
    largest: float,
    find: Callable[[float], Cell],
    name: str = "X",
    error: type[LegendreError] = InvalidTensor,
) -> None:
    """Refuse positive entries that are outside the bounds, or too far apart for float64 to add them.

    `positive` and `largest` are the smallest and the largest positive entry; `find` looks up the cell of a value, for
    the error message.
    """
    if positive < LEAST or largest > MOST:
        wrong = positive if positive < LEAST else largest
        raise error(
            f"{name}{cell_name(find(wrong))} = {wrong:g}; positive entries must lie between {LEAST:g} and {MOST:g}. "
            f"Multiply {name} by a constant, or set smaller entries to 0."
        )
    if largest > SPREAD * positive:
        raise error(
            f"{name}{cell_name(find(largest))} = {largest:g} is more than {SPREAD:g} times the smallest positive "
            f"entry, {name}{cell_name(find(positive))} = {positive:g}: float64 cannot add them. Set smaller entries "
            "to 0, and leave such cells out of the support if they are not zeros."
        )


def finder(values: Any) -> Callable[[float], Cell]:
    """Return a function that finds the first cell with some value in a NumPy or dask array: it is called on errors."""
    return lambda value: first_cell(values == value)


def check_numeric(X: ArrayLike, name: str, error: type[LegendreError]) -> AnyArray:
    """Return X as a dense array of real numbers with at least one cell; raise `error`, with the reason, if it is not.

    `name` is what the error calls X. Signs and NaN are checked later, in `check_entries`.
    """
    values: Any = X
    if type(X) is not np.ndarray:
        if (listed := as_sparse_tensor(X)) is not None:
            raise error(f"{name} is sparse ({listed!r}); this needs a dense array: {name}.toarray(), if that fits.")
        values = read_array(X, name, error, "Pad ragged rows with NaN: missing cells are left out.")
    if values.dtype.kind not in "iuf":
        raise error(f"{name} {_dtype_trouble(values, name)}")
    if values.ndim == 0:
        raise error(f"{name} is a single number, {values}; a tensor needs at least one mode, e.g. [{values}].")
    if values.ndim > limits.MOST_AXES:
        raise error(f"{name} has {values.ndim} modes; a dense array has at most {limits.MOST_AXES}.")
    if values.size == 0:
        raise error(f"{name} is empty: its shape is {values.shape}. Every mode needs at least one level.")
    return np.asarray(values)


def _dtype_trouble(values: AnyArray, name: str) -> str:
    """Describe the dtype of an array that does not hold real numbers, and how to convert it: the end of an error."""
    match values.dtype.kind:
        case "b":
            return "is boolean. If True counts as 1, pass it .astype(int); if it marks cells, pass it as support."
        case "c":
            return f"is complex ({values.dtype}); entries must be real and >= 0. Take .real or abs() if that is meant."
        case "O":
            # the first entry that is not a number
            strange = (place for place, entry in np.ndenumerate(values) if not isinstance(entry, (int, float)))
            place = next(strange, (0,) * values.ndim)
            what = values[place]
            return (
                f"holds Python objects (dtype object), e.g. {name}{cell_name(place) if place else ''} = {what!r} of "
                f"type {type(what).__name__}. Convert it to numbers first."
            )
        case _:
            return (
                f"has dtype {values.dtype}; entries must be numbers. Convert them with .astype(float); count labels "
                "with ld.from_rows."
            )


def check_entries(values: Any, found: Scan | None = None) -> Scan:
    """Refuse an X (NumPy or dask) with negative or infinite entries, or with nothing but NaN; return its scan.

    `found` is the scan, if it has been made: that of a dask array is made together with other sums.
    """
    found = found or scan(values)
    if found.smallest < 0:
        count, place = int((values < 0).sum()), first_cell(values == found.smallest)
        entries = "1 negative entry: it" if count == 1 else f"{count} negative entries; the smallest"
        raise InvalidTensor(
            f"X has {entries} is X{cell_name(place)} = {found.smallest:g}. X is read as unnormalised probabilities, so "
            "every entry must be >= 0. If X is on a log scale, pass np.exp(X). If negative marks a missing value, make "
            "it one: np.where(X < 0, np.nan, X)."
        )
    if found.largest == np.inf:
        infinite = values == np.inf
        raise InvalidTensor(
            f"X has {int(infinite.sum())} infinite entries, the first at X{cell_name(first_cell(infinite))}. "
            "If infinity marks a missing value, set those cells to NaN."
        )
    if found.largest < 0:  # -inf, the maximum of no numbers: negative entries have been refused above
        raise InvalidTensor("every entry of X is NaN, that is, missing: there is nothing to decompose.")
    return found


def support_mask(values: AnyArray, missing: BoolArray | None, support: str | ArrayLike) -> BoolArray | None:
    """Return the sample space that the `support` argument describes, as a mask without the missing cells.

    ``None`` means every cell.
    """
    if isinstance(support, str):
        check_support_name(support)
        if support == "all":
            return None if missing is None else ~missing
        mask = values > 0  # NaN > 0 is False: missing cells stay out
        if not mask.any():
            raise InvalidTensor("X has no entry > 0, so support='nonzero' leaves no cell: there is nothing to fit.")
        return None if mask.all() else mask
    mask = read_array(support, "support", InvalidSupport)
    check_mask(mask)
    check_beside(mask, "support", values.shape)
    if not mask.any():
        raise InvalidSupport("support is empty: no cell is True. At least one cell is needed.")
    mask = mask.copy() if missing is None else mask & ~missing
    return None if mask.all() else mask


def check_support_name(support: str) -> None:
    """Refuse a string that is not the name of a support."""
    if support not in SUPPORT_NAMES:
        raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES) + " Or pass a boolean array.")


def check_mask(mask: Any) -> None:
    """Refuse a mask (NumPy or dask) that is not boolean."""
    if mask.dtype != np.bool_:
        raise InvalidSupport(
            f"support has dtype {mask.dtype}; pass a boolean array (for 0/1 integers: support.astype(bool)), "
            "'all' or 'nonzero'."
        )


def check_beside(array: Any, name: str, shape: Shape) -> None:
    """Refuse a mask or a base measure whose shape differs from that of X."""
    if array.shape != shape:
        raise InvalidSupport(f"{name} has shape {array.shape}, X has shape {shape}; they must be equal.")


def base_measure(base: ArrayLike, values: AnyArray, mask: BoolArray | None) -> FloatArray:
    """Return the `base` argument as float64, checked against X (`values`) on the sample space `mask`."""
    given = check_numeric(base, "base", InvalidSupport)
    check_beside(given, "base", values.shape)
    # 12 bytes a cell: a copy in float64, and boolean arrays for its checks
    check_room(given.size, 12, "base: a measure", "Where it is 1 everywhere, leave it out; else merge levels first.")
    measure = given.astype(np.float64)
    check_base(measure, values, mask, scan(measure if mask is None else measure[mask]))
    return freeze(measure)


def check_base(measure: Any, values: Any, mask: Any, found: Scan) -> None:
    """Refuse a base measure (NumPy or dask) that is negative or not finite, or 0 where X is positive.

    `values` is X, `mask` the sample space, and `found` the scan of the measure there. If all of it is positive and
    finite, the scan shows that, and no array is formed. 0 is allowed where X is not positive: Omega lacks such cells.
    """
    if found.smallest <= 0 or not math.isfinite(found.total):
        wrong = ~(np.isfinite(measure) & ((measure > 0) | ((measure == 0) & ~(values > 0))))
        if place := first_cell(wrong if mask is None else mask & wrong):
            cell, value = cell_name(place), float(measure[place])
            if value != 0:
                raise InvalidSupport(f"base{cell} = {value:g}; a base measure must be finite and >= 0 on the support.")
            raise InvalidSupport(
                f"base{cell} = 0 where X{cell} = {float(values[place]):g} > 0: the model gives that cell probability "
                "0, so KL would be infinite. Leave the cell out of the support or give it a positive base."
            )
    check_range(found.positive, found.largest, finder(measure), "base", InvalidSupport)


def check_on_support(values: Any, inside: Scan, *, full: bool) -> None:
    """Refuse an X (NumPy or dask) without a positive entry on Omega, or with too large a range there.

    `inside` is the scan of X on Omega, and `full` tells whether that is every cell, for the error message.
    """
    if inside.largest < 0:  # -inf, the maximum of no entries: Omega has no cell
        raise InvalidSupport("no cell is left in the support once missing cells and cells of base 0 are left out.")
    if inside.total == 0:
        raise zero_everywhere("X" if full else "X on the support")
    check_range(inside.positive, inside.largest, finder(values))


def zero_everywhere(what: str = "X") -> InvalidTensor:
    """Make the error of an X without a positive entry."""
    return InvalidTensor(f"{what} is zero everywhere: its sum is 0, so it cannot be normalised to probabilities.")
