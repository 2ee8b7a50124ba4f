"""`loglinear`: a log-linear model of a contingency table, by a formula."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidBasis, InvalidSamples, InvalidSupport, InvalidTensor
from legendre.core.memory import size_name
from legendre.core.types import FloatArray, IntArray
from legendre.data.checks import support_mask
from legendre.data.observation import Observation, beyond_memory
from legendre.data.partial_table import PartialTable, has_rows, read_cases
from legendre.data.read import read
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.plan import Settings
from legendre.tasks.loglinear.em import Incomplete
from legendre.tasks.loglinear.formula import Model, left_side, names_in, read_formula
from legendre.tasks.loglinear.functions import check_used, checked_features
from legendre.tasks.loglinear.partial import PartialLogLinear, fitted_partial
from legendre.tasks.loglinear.result import LogLinear, fitted


def loglinear(
    data: Any,
    formula: str | Sequence[Any],
    *,
    counts: ArrayLike | str | None = None,
    variables: str | Sequence[Hashable] | None = None,
    levels: Mapping[Any, Any] | None = None,
    names: Sequence[Hashable] | None = None,
    missing: Literal["refuse", "drop", "em"] = "refuse",
    offset: ArrayLike | None = None,
    support: str | ArrayLike = "all",
    features: Mapping[str, Any] | None = None,
    hierarchical: bool = True,
    tol: float = 1e-10,
) -> LogLinear:
    """Fit a log-linear model to a contingency table by maximum likelihood.

    The likelihood is that of Poisson counts, or of a multinomial sample: the fit is the same.

    Parameters
    ----------
    data
        A data frame (pandas, polars, pyarrow) or a mapping of names to columns, with a row for each case or for each
        cell; a cross table or a Series with a MultiIndex of pandas, a DataArray of xarray, a `SparseTensor`, an array
        of counts.
    formula
        As in R: ``"Class*Sex + Survived"``, ``"(a + b + c)^2"``, ``".^2 - a:b"``, where a dot is all variables. By
        generators: ``"[AB][BC]"`` (names or their initials), or lists of names, ``[["a", "b"], ["c"]]``. Names with
        blanks are put in quotes. ``"1"`` is the model with equal means. Association models of `legendre.ties` are
        functions: ``"a + b + uniform(a, b)"``, ``"quasi_symmetric(a, b)"``, ``"a + b + diagonal(a, b)"``.
    counts
        For a data frame: the column of frequencies, or these numbers; ``"rows"`` counts every row once. It may also
        stand before a ``~`` in the formula. If a column looks like frequencies, an error asks for it.
    variables
        For a data frame: the variables of the table; by default those of the formula. Other data are taken whole: if
        the formula does not name a variable, the model gives its levels equal frequencies.
    levels
        For each variable its levels in order; by default those that occur, sorted (ordered categories keep their
        order).
    names
        Names of the variables of an array; by default A, B, C, ...
    missing
        What to do with rows of a data frame that lack a value. "refuse" is an error that names the first of them.
        "drop" leaves them out, and says how many. "em" uses them: each counts for the margin of the variables that it
        has, by expectation-maximisation, which is right if values are missing at random. The result is then a
        `PartialLogLinear`, unless all rows are complete.
    offset
        Known terms of the logarithms of the means: an array of the table's shape.
    support
        A boolean array of the table's shape, False at structural zeros (cells that cannot occur); or "nonzero", if
        every zero is structural.
    features
        Functions of your own, by their names in the formula: ``near(a, b)`` calls ``features["near"]`` with the levels
        of both (their labels, or numbers if there are none), as `legendre.features` does. An array is indexed by these
        levels. A name without brackets depends on all variables, in the order of the table, or is a basis. Each feature
        has one coefficient.
    hierarchical
        Add to each term the terms that it contains. False takes the terms literally; their meaning then depends on
        which levels come first.
    tol
        As in `decompose`.

    Returns
    -------
    LogLinear
        Tests of fit, coefficients, comparisons; `fit` is the decomposition, `inference` its tests and standard errors.
        With ``missing="em"`` and incomplete rows a `PartialLogLinear`, which is a `LogLinear` too.

    See Also
    --------
    from_rows : Count rows of raw data.
    anova : Compare models.
    decompose : Any tensor, any basis.

    Examples
    --------
    >>> import legendre as ld
    >>> m = ld.loglinear(ld.datasets.hair_eye_color(), "hair*eye + sex")
    >>> m
    Log-linear model [hair eye] [sex]
    ---------------------------------
    table   hair (4), eye (4), sex (2), N = 592
    G2      19.8566 on 15 df, p = 0.178
    X2      19.5671 on 15 df, p = 0.189
    AIC     192.735
    BIC     267.255
    status  the maximum likelihood estimate exists, and this is it
    """
    settings = Settings.read(tol=tol)
    variables = [variables] if isinstance(variables, str) else variables
    if missing not in ("refuse", "drop", "em"):
        raise InvalidSamples(f'loglinear(missing={missing!r}): it is "refuse", "drop" or "em".')
    framed = has_rows(data, variables, counts)
    if not framed and (left := left_side(formula)) is not None:
        raise InvalidBasis(
            f"the formula {formula!r} names {left!r} before ~, but a {type(data).__name__} is read as a table, which "
            "has its counts already. Leave out what stands before ~; only of a data frame it is the column of counts."
        )
    if _on_list(data):
        model = _model(formula, data.names, features, ())
        base = None if offset is None else _base(offset, data.shape)
        return fitted(read(data, support, base), model, data.names, hierarchical, settings)
    named = _of_frame(formula, counts, variables, features) if framed else (variables, counts)
    how: Any = {"refuse": "error", "em": "keep"}.get(missing, missing)
    rows = read_cases(data, *named, levels=levels, names=names, missing=how)
    if rows.complete < rows.total:
        return _partial(rows, formula, features, offset, support, hierarchical, settings)
    model = _model(formula, rows.names, features, rows.dropped)
    base = None if offset is None else _base(offset, rows.shape)
    table, called = rows.patterns[0].counts, rows.names
    if base is not None:
        _check_possible(base, table, offset, support)
    observed: Observation = read(table, support, base, names=called, levels=rows.origin.of(rows.shape).levels)
    observed = replace(observed, origin=rows.origin)
    return fitted(observed, model, called, hierarchical, settings)


def _model(formula: Any, names: tuple[str, ...], features: Any, dropped: tuple[str, ...]) -> Model:
    """Read the formula, with features of the caller's own; variables with a single level change nothing."""
    own = checked_features(features, names)
    model = read_formula(formula, names, own, dropped)
    check_used(own, model.functions, formula)
    return model


def _of_frame(formula: Any, counts: Any, variables: Any, features: Any) -> tuple[Any, Any]:
    """Return the variables and the counts of a data frame: what the formula names, where the caller does not."""
    named = names_in(formula) if variables is None else variables
    if variables is None and named is not None and isinstance(features, Mapping):
        named = [name for name in named if name not in features]
    left = left_side(formula)
    if left is not None and counts is not None and not (isinstance(counts, str) and counts == left):
        raise InvalidBasis(f"the formula {formula!r} names the counts {left!r}, and counts= is passed, too. Pass one.")
    return named, left if counts is None else counts


def _partial(
    rows: PartialTable, formula: Any, features: Any, offset: Any, support: Any, hierarchical: bool, settings: Settings
) -> PartialLogLinear:
    """Fit rows of which some lack values."""
    if isinstance(support, str) and support != "all":
        raise InvalidSupport(
            f"support={support!r} with missing='em': which cells are empty is not known where rows lack values. Pass a "
            "boolean array, False where a cell cannot occur."
        )
    base = None if offset is None else _base(offset, rows.shape)
    mask = None if isinstance(support, str) else support_mask(np.empty(rows.shape), None, support)
    model = _model(formula, rows.names, features, rows.dropped)
    return fitted_partial(Incomplete(rows, mask, base), model, rows.names, hierarchical, settings)


def _on_list(data: Any) -> bool:
    """Whether the table is a list of cells that is too large to be written out: its variables must have names."""
    # callers pass a list of cells, a table or rows
    if not isinstance(data, SparseTensor) or beyond_memory(data.shape) is None:
        return False
    if data.names is None:
        raise InvalidTensor(
            f"loglinear: this table, {size_name(math.prod(data.shape))} cells, is too large to be written out, and its "
            "variables have no names. Count the rows of a data frame by from_rows(frame), whose columns have names; or "
            "fit cells by decompose(X, interactions(...)), which counts modes from 0."
        )
    return True


def _base(offset: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    values = rectangular(offset, "offset", InvalidSupport)
    if values.shape != shape or values.dtype.kind not in "iuf":
        raise InvalidSupport(f"offset has shape {values.shape} and dtype {values.dtype}; the table has shape {shape}.")
    with np.errstate(over="ignore"):
        base = np.exp(values.astype(np.float64))
    if not np.isfinite(base).all():
        place = tuple(np.argwhere(~np.isfinite(base))[0].tolist())
        raise InvalidSupport(f"offset{list(place)} = {values[place]}: exp(offset) must be finite.")
    return base


def _check_possible(base: FloatArray, counts: IntArray, offset: Any, support: Any) -> None:
    """Refuse an offset that leaves a cell with counts no probability, unless the cell is outside the support."""
    impossible = (base == 0) & (counts > 0)
    inside = None if isinstance(support, str) else support_mask(np.empty(base.shape), None, support)
    lost = np.argwhere(impossible if inside is None else impossible & inside)
    if len(lost):
        place = tuple(lost[0].tolist())
        raise InvalidSupport(
            f"offset{list(place)} = {np.asarray(offset)[place]}: exp(offset) is 0, where the table counts "
            f"{counts[place]}. Leave the cell out by support=, or give it a finite offset."
        )
