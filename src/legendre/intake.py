"""From whatever the caller has to a checked tensor on its sample space; the only module that sees raw input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from legendre.arrays import AnyArray, BoolArray, FloatArray, cell_name, frozen
from legendre.errors import InvalidSupport, InvalidTensor, unknown_name
from legendre.support import Support

SUPPORT_NAMES = ("all", "nonzero")
MOST_MODES = 32
"""Several of NumPy's functions end here."""
LARGE = 1 << 19
"""Arrays of so many cells and more are read by compiled code, and held by reference; smaller ones are copied."""


@dataclass(frozen=True, eq=False)
class Observation:
    """X, checked: what every later stage takes for granted.

    Parameters
    ----------
    values
        X in its own dtype, never changed: a copy of a small X, a large one by reference.
    missing
        True where X is NaN; ``None`` when it is nowhere.
    support
        The sample space Omega: never holds a missing cell, nor one of base measure 0.
    base
        The base measure r on the grid, or ``None`` for the paper's r = 1.
    total
        The sum of X over Omega, so that ``P = X / total``.
    positive
        True when X > 0 on all of Omega: then the minimum is attained.
    first_margin
        X summed over all modes but the first, where reading X gave it away; only when Omega is the full grid.
    """

    values: AnyArray
    missing: BoolArray | None
    support: Support
    base: FloatArray | None
    total: float
    positive: bool
    first_margin: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid ``(I_1, ..., I_N)``."""
        return self.support.shape

    @cached_property
    def counts(self) -> bool:
        """True when every entry on Omega is a whole number."""
        if self.values.dtype.kind != "f":
            return True
        inside = self.values if self.support.mask is None else self.values[self.support.mask]
        return bool((inside == np.rint(inside)).all())


def observe(X: ArrayLike, support: str | ArrayLike = "all", base: ArrayLike | None = None) -> Observation:
    """Check X, find Omega and the total.

    Examples
    --------
    >>> data = observe([[1, 2], [float("nan"), 3]])
    >>> data.support.n_cells, data.total
    (3, 6.0)
    """
    values = _numeric(X, "X", InvalidTensor)
    seen = scan(values)
    missing = None if np.isfinite(seen.total) else _missing(values)
    _check_entries(values, seen, missing)
    mask = _support_mask(values, missing, support)
    mask = None if mask is not None and mask.all() else mask
    measure = None if base is None else _base_measure(base, values, mask)
    if measure is not None and not np.all(measure > 0):
        mask = (measure > 0) if mask is None else mask & (measure > 0)
    return Observation(
        values=frozen(values.copy() if values.size < LARGE else values),
        missing=missing,
        support=Support(values.shape, mask),
        base=measure,
        total=_total(values, mask, seen),
        positive=seen.smallest > 0 if mask is None else bool((values[mask] > 0).all()),
        first_margin=seen.first_margin if mask is None else None,
    )


class Scan(NamedTuple):
    """What one pass over X tells: its sum (not finite as soon as one entry is not) and its smallest number.

    For large arrays also the margin of the first mode, which that pass gives away.
    """

    total: float
    smallest: float
    first_margin: FloatArray | None = None


def scan(values: AnyArray) -> Scan:
    """Read X once; large arrays by compiled code, which needs one pass for what NumPy needs two."""
    if values.size >= LARGE:
        from legendre.kernels.reading import aggregate

        boxes = [np.arange(length) if k == 0 else np.zeros(length, dtype=int) for k, length in enumerate(values.shape)]
        found = aggregate(values, boxes)
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(found.sums.sum()) if not (found.missing or found.infinite) else float("nan")
        return Scan(total, found.minimum, found.sums.ravel())
    with np.errstate(invalid="ignore", over="ignore"):
        total = float(values.sum(dtype=np.float64))
    smallest = values.min() if np.isfinite(total) else np.nanmin(values, initial=np.inf)
    return Scan(total, float(smallest))


def _numeric(X: ArrayLike, name: str, error: type[InvalidTensor] | type[InvalidSupport]) -> AnyArray:
    """Return X as a real numeric array, or say why it is not one."""
    if isinstance(X, np.ma.MaskedArray):
        # np.asarray would drop the mask without a word
        X = np.where(np.ma.getmaskarray(X), np.nan, np.ma.getdata(X))
    try:
        values = np.asarray(X)
    except ValueError as problem:
        raise error(
            f"{name} is not a rectangular array ({problem}). Pad ragged rows with NaN: missing cells are left out."
        ) from None
    if values.dtype.kind not in "iuf":
        raise error(f"{name} {_dtype_trouble(values, name)}")
    if values.ndim == 0:
        raise error(f"{name} is a single number, {values}; a tensor needs at least one mode, e.g. [{values}].")
    if values.ndim > MOST_MODES:
        raise error(f"{name} has {values.ndim} modes; at most {MOST_MODES} fit a dense array here.")
    if values.size == 0:
        raise error(f"{name} is empty: its shape is {values.shape}. Every mode needs at least one level.")
    return values


def _dtype_trouble(values: AnyArray, name: str) -> str:
    match values.dtype.kind:
        case "b":
            return "is boolean. If True counts as 1, pass it .astype(int); if it marks cells, pass it as support."
        case "c":
            return f"is complex ({values.dtype}); entries must be real and >= 0. Take .real or abs() if that is meant."
        case "O":
            where, what = _first_non_number(values, name)
            return (
                f"holds Python objects (dtype object), e.g. {where} = {what!r} of type {type(what).__name__}. "
                "Convert it to numbers first; sparse arrays need .toarray()."
            )
        case _:
            return f"has dtype {values.dtype}; entries must be numbers. Convert it with .astype(float)."


def _first_non_number(values: AnyArray, name: str) -> tuple[str, Any]:
    for place, entry in np.ndenumerate(values):
        if not isinstance(entry, (int, float)):
            return (f"{name}{cell_name(place)}" if place else name), entry
    return name + cell_name([0] * values.ndim), values.flat[0]


def _missing(values: AnyArray) -> BoolArray | None:
    missing = np.isnan(values)
    if missing.all():
        raise InvalidTensor("every entry of X is NaN, that is, missing: there is nothing to decompose.")
    return missing if missing.any() else None


def _check_entries(values: AnyArray, seen: Scan, missing: BoolArray | None) -> None:
    if seen.smallest < 0:
        raise InvalidTensor(_negative_entries(values))
    if np.isfinite(seen.total) and missing is None:
        return
    infinite = np.argwhere(np.isinf(values))
    if len(infinite):
        raise InvalidTensor(
            f"X has {len(infinite)} infinite entries, the first at X{cell_name(infinite[0])}. "
            "If infinity marks a missing value, set those cells to NaN."
        )


def _negative_entries(values: AnyArray) -> str:
    with np.errstate(invalid="ignore"):
        count = int(np.count_nonzero(values < 0))
    place = np.unravel_index(int(np.nanargmin(values)), values.shape)
    entries = "1 negative entry: it" if count == 1 else f"{count} negative entries; the smallest"
    return (
        f"X has {entries} is X{cell_name(place)} = {values[place]:g}. X is read as unnormalised probabilities, so "
        "every entry must be >= 0. If negative marks a missing value, make it one: np.where(X < 0, np.nan, X)."
    )


def _support_mask(values: AnyArray, missing: BoolArray | None, support: str | ArrayLike) -> BoolArray | None:
    if isinstance(support, str):
        if support not in SUPPORT_NAMES:
            raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES) + " Or pass a boolean array.")
        if support == "all":
            return None if missing is None else ~missing
        return values > 0  # NaN > 0 is False: missing cells stay out
    mask = np.asarray(support)
    if mask.dtype != np.bool_:
        raise InvalidSupport(
            f"support has dtype {mask.dtype}; pass a boolean array (for 0/1 integers: support.astype(bool)), "
            "'all' or 'nonzero'."
        )
    if mask.shape != values.shape:
        raise InvalidSupport(f"support has shape {mask.shape}, X has shape {values.shape}; they must be equal.")
    if not mask.any():
        raise InvalidSupport("support is empty: no cell is True. At least one cell is needed.")
    return mask.copy() if missing is None else mask & ~missing


def _base_measure(base: ArrayLike, values: AnyArray, mask: BoolArray | None) -> FloatArray:
    measure = _numeric(base, "base", InvalidSupport).astype(np.float64)
    if measure.shape != values.shape:
        raise InvalidSupport(f"base has shape {measure.shape}, X has shape {values.shape}; they must be equal.")
    inside = np.ones(values.shape, dtype=np.bool_) if mask is None else mask
    bad = np.argwhere(inside & ~(np.isfinite(measure) & (measure >= 0)))
    if len(bad):
        place = tuple(bad[0])
        raise InvalidSupport(
            f"base{cell_name(place)} = {measure[place]:g}; a base measure must be finite and >= 0 on the support."
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(measure.sum(where=inside)):
            raise InvalidSupport(
                "the sum of base overflows float64. Divide it by its largest entry: only ratios matter."
            )
    clash = np.argwhere(inside & (measure == 0) & (values > 0))
    if len(clash):
        place = tuple(clash[0])
        raise InvalidSupport(
            f"base{cell_name(place)} = 0 where X{cell_name(place)} = {values[place]:g} > 0: the model gives that cell "
            "probability 0, so KL would be infinite. Leave the cell out of the support or give it a positive base."
        )
    return frozen(measure)


def _total(values: AnyArray, mask: BoolArray | None, seen: Scan) -> float:
    if mask is not None and not mask.any():
        raise InvalidSupport("no cell is left in the support once missing cells and cells of base 0 are left out.")
    with np.errstate(over="ignore"):
        total = seen.total if mask is None else float(values.sum(dtype=np.float64, where=mask))
    if total == 0:
        where = "X" if mask is None else "X on the support"
        raise InvalidTensor(f"{where} is zero everywhere: its sum is 0, so it cannot be normalised to probabilities.")
    if not np.isfinite(total):
        raise InvalidTensor(
            f"the sum of X overflows float64 (largest entry {np.nanmax(values):g}). Divide X by its largest entry."
        )
    if seen.smallest > 0 and seen.smallest / total == 0:
        raise InvalidTensor(
            f"the smallest entry of X, {seen.smallest:g}, underflows to 0 when it is divided by the sum {total:g}. "
            "Leave such cells out: support=(X > 0) after setting them to 0."
        )
    return total
