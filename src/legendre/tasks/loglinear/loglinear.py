"""`loglinear`: a log-linear model of a contingency table, by a formula."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice
from legendre.core.errors import InvalidBasis, InvalidSamples, InvalidSupport, InvalidTensor
from legendre.core.memory import size_name
from legendre.data.checks import support_mask
from legendre.data.observation import beyond_memory
from legendre.data.partial_table import PartialTable, has_rows, read_cases
from legendre.data.read import read
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.plan import Settings
from legendre.tasks.em import Incomplete
from legendre.tasks.loglinear.formula import Formula, check_features, check_used, left_side, names_in, read_formula
from legendre.tasks.loglinear.result import LogLinear, fit_rows, fit_table


def loglinear(
    data: Any,
    formula: str | Sequence[Any],
    *,
    counts: ArrayLike | str | None = None,
    columns: str | Sequence[Hashable] | None = None,
    levels: Mapping[Any, Any] | None = None,
    names: Sequence[Hashable] | None = None,
    missing: Literal["error", "drop", "em"] = "error",
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
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
    columns
        For a data frame: the variables of the table; by default those of the formula. Other data are taken whole: if
        the formula does not name a variable, the model gives its levels equal frequencies.
    levels
        For each variable its levels in order; by default those that occur, sorted (ordered categories keep their
        order).
    names
        Names of the variables of an array; by default A, B, C, ...
    missing
        What to do with rows of a data frame that lack a value. "error" names the first of them.
        "drop" leaves them out, and says how many. "em" uses them: each counts for the margin of the variables that it
        has, by expectation-maximisation, which is right if values are missing at random.
    support
        A boolean array of the table's shape, False at structural zeros (cells that cannot occur); or "nonzero", if
        every zero is structural.
    base
        Known factors of the means, an array of the table's shape: ``base=exposure`` for R's ``offset(log(exposure))``.
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
        Tests of fit, coefficients, comparisons; `fit` is the decomposition.

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
    tol = Settings.read(tol=tol).tol
    columns = [columns] if isinstance(columns, str) else columns
    check_choice(missing, "missing", ("error", "drop", "em"), InvalidSamples)
    framed = has_rows(data, columns, counts)
    if not framed and (left := left_side(formula)) is not None:
        raise InvalidBasis(
            f"the formula {formula!r} names {left!r} before ~, but a {type(data).__name__} is read as a table, which "
            "has its counts already. Leave out what stands before ~; only of a data frame it is the column of counts."
        )
    if isinstance(data, SparseTensor) and beyond_memory(data.shape) is not None:  # it stays a list of cells
        if data.names is None:
            raise InvalidTensor(
                f"loglinear: this table, {size_name(math.prod(data.shape))} cells, is too large to be written out, and "
                "its variables have no names. Count the rows of a data frame by from_rows(frame), whose columns have "
                "names; or fit cells by decompose(X, interactions(...)), which counts modes from 0."
            )
        model = _read_model(formula, data.names, features, (), hierarchical)
        return fit_table(read(data, support, base), model, tol)
    named = _read_columns(formula, counts, columns, features) if framed else (columns, counts)
    how: Any = "keep" if missing == "em" else missing
    rows = read_cases(data, *named, levels=levels, names=names, missing=how)
    model = _read_model(formula, rows.names, features, rows.dropped, hierarchical)
    if rows.complete < rows.total:
        return fit_rows(_incomplete(rows, support, base), model, tol)
    observed = read(rows.patterns[0].counts, support, base, names=rows.names, levels=rows.origin.of(rows.shape).levels)
    return fit_table(replace(observed, origin=rows.origin), model, tol)


def _read_model(formula: Any, names: tuple[str, ...], features: Any, dropped: Any, hierarchical: bool) -> Formula:
    """Read the formula, with features of the caller's own; variables with a single level change nothing."""
    own = check_features(features, names)
    model = read_formula(formula, names, own, dropped)
    check_used(own, model, formula)
    return model.complete(hierarchical=hierarchical)


def _read_columns(formula: Any, counts: Any, columns: Any, features: Any) -> tuple[Any, Any]:
    """Return the variables and the counts of a data frame: what the formula names, where the caller does not."""
    named = names_in(formula) if columns is None else columns
    if columns is None and named is not None and isinstance(features, Mapping):
        named = [name for name in named if name not in features]
    left = left_side(formula)
    if left is not None and counts is not None and not (isinstance(counts, str) and counts == left):
        raise InvalidBasis(f"the formula {formula!r} names the counts {left!r}, and counts= is passed, too. Pass one.")
    return named, left if counts is None else counts


def _incomplete(rows: PartialTable, support: Any, base: Any) -> Incomplete:
    """Take rows of which some lack values, with their sample space and base measure."""
    if isinstance(support, str) and support != "all":
        raise InvalidSupport(
            f"support={support!r} with missing='em': which cells are empty is not known where rows lack values. Pass a "
            "boolean array, False where a cell cannot occur."
        )
    mask = None if isinstance(support, str) else support_mask(np.empty(rows.shape), None, support)
    checked = read(np.ones(rows.shape), "all" if mask is None else mask, base)
    origin = replace(rows.origin, completed=True)
    return Incomplete(rows.shape, rows.patterns, mask, checked.base, origin)
