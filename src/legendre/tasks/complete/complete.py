"""Completion: fill in missing cells with the model's values, where the observed cells determine them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.core.array_libraries import home_of
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidSetting, unknown_name
from legendre.data.dense import observe
from legendre.fitting.decompose import decompose
from legendre.fitting.plan import Settings
from legendre.solvers.protocol import Solver
from legendre.tasks.complete.candidates import read_bases
from legendre.tasks.complete.crossval import CRITERIA
from legendre.tasks.complete.extrapolate import extrapolate
from legendre.tasks.complete.folds import Folding
from legendre.tasks.complete.observed import check_base, observed_cells
from legendre.tasks.complete.result import Completion
from legendre.tasks.complete.selection import select

UNDETERMINED = ("nan", "theta0")


def complete(
    X: ArrayLike,
    basis: Basis | str | ArrayLike | Sequence[Basis | str],
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    undetermined: str = "nan",
    cv: int | None = None,
    folds: str | int | Sequence[int] = "cells",
    criterion: str = "deviance",
    seed: int = 0,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    progress: bool = False,
) -> Completion:
    """Fill in the missing cells of X: one convex fit on the observed cells, no iteration over guesses.

    Parameters
    ----------
    X
        A nonnegative tensor; NaN means missing.
    basis
        As in `decompose`, but laid out on the whole grid, missing cells included; or several candidates, a list of
        `Basis` objects and strings, from which `cv` chooses.
    support
        What was observed: ``"all"`` that is a number, ``"nonzero"`` (0 means missing), or a boolean array. A cell
        outside is missing whatever X says there.
    base
        As in `decompose`. It must be a number at missing cells too; where it is 0 the value is 0.
    undetermined
        What to put where the observed cells leave the model's value open: ``"nan"``, or ``"theta0"``: the value that
        the model has when parameters that are left open count as 0 (for large sets of margins, which scaling fits:
        when factors that are left open count as 1); NaN still where theta diverges.
    cv
        Number of folds of observed cells that are held out in turn. With an ``adaptive(n)`` basis the size is chosen
        too, out of several up to n.
    folds
        ``"cells"``: single cells are held out. A mode or several: whole fibres along it are, as when a sensor fails.
    criterion
        ``"deviance"`` (Poisson) or ``"rmse"``: the candidate with the least is fitted to all that was observed.
    seed
        Deals the observed cells into folds. The fit itself needs no seed.
    solver, tol, max_iter, progress
        As in `decompose`.

    Returns
    -------
    Completion

    Examples
    --------
    >>> import legendre as ld
    >>> nan = np.nan
    >>> done = ld.complete([[1, 2, nan], [2, nan, 6], [3, 6, nan]], "B1")
    >>> done.tensor().round(6).tolist()
    [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]

    In the third column nothing is observed: no multiple of the others is more likely than any other.

    >>> ld.complete([[1, 2, nan], [2, nan, nan]], "B1").tensor().round(6).tolist()
    [[1.0, 2.0, nan], [2.0, 4.0, nan]]
    """
    _check_names(undetermined, criterion)
    Settings.read(solver, tol, max_iter)
    recipes = read_bases(basis, cv)
    home, data = home_of(X), observe(X, support, base)
    seen = observed_cells(data, support)
    check_base(data, seen)
    settings: dict[str, Any] = {"base": base, "solver": solver, "tol": tol, "max_iter": max_iter}
    recipe, table = recipes[0], None
    if cv is not None:
        folding = Folding.read(cv, folds, seed, len(data.shape))
        recipe, table = select(data, seen, recipes, settings, folding, criterion)
    fit = decompose(X, recipe, support=support, progress=progress, **settings)
    value, determined = extrapolate(fit)
    if undetermined == "nan" and determined is not None:
        value[~determined] = np.nan
    tensor = np.where(seen, np.asarray(data.values, dtype=np.float64), value)
    if determined is None and not seen.all():
        warnings.warn(
            f"whether the {int((~seen).sum())} missing cells are determined was not checked: {fit.n_params} parameters "
            "are too many, or too nearly dependent. Where cells are not, their values depend on the choice of theta.",
            ConvergenceWarning,
            stacklevel=2,
        )
    known = None if determined is None else frozen(determined | seen)
    return Completion(home.bring(frozen(tensor)), fit, known, frozen(seen), table)


def _check_names(undetermined: str, criterion: str) -> None:
    if undetermined not in UNDETERMINED:
        raise InvalidSetting(unknown_name("value of undetermined", str(undetermined), UNDETERMINED))
    if criterion not in CRITERIA:
        raise InvalidSetting(unknown_name("criterion", str(criterion), CRITERIA))
