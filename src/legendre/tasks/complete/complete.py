"""Completion: fill in missing cells with the model's values, where the observed cells determine them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, is_basis, untied
from legendre.basis.parse import as_basis
from legendre.core.array_libraries import host
from legendre.core.cells import cell_name, frozen
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSetting, InvalidSupport, unknown_name
from legendre.core.tied_parameters import Terms
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.data.support import Support
from legendre.fitting.fit import fit_recipe, warned
from legendre.fitting.plan import Settings
from legendre.fitting.progress import shown
from legendre.results.decomposition import Decomposition
from legendre.results.on_grid import box_values, grid_rows, merged_log_density
from legendre.solvers.protocol import Solver
from legendre.solvers.structure.identifiability import identify
from legendre.tasks.complete.crossval import CRITERIA, Folding, HoldOut, Rng, select
from legendre.tasks.complete.result import Completion

UNDETERMINED = ("nan", "theta0")


def complete(
    X: TensorLike,
    basis: Basis | str | ArrayLike | Sequence[Basis | str],
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    names: Names = None,
    levels: Levels = None,
    undetermined: str = "nan",
    folds: int | None = None,
    hold_out: HoldOut = "cells",
    criterion: str = "deviance",
    rng: Rng = 0,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    progress: bool = False,
) -> Completion:
    """Fill in the missing cells of X by one convex fit to the observed cells.

    Parameters
    ----------
    X
        A nonnegative tensor of any kind that `decompose` takes; NaN means missing. In a sparse tensor, cells that are
        not listed are 0, or missing with ``support="nonzero"``. Every cell is held in memory.
    basis
        As in `decompose`, but laid out on the whole grid, missing cells included; or several candidates, a list of
        `Basis` objects and strings, from which cross-validation chooses, see `folds`. Parameters may be tied
        (`legendre.ties`, `features`, `boxes`): with fewer of them more cells are determined.
    support
        Which cells were observed: ``"all"`` that are numbers, ``"nonzero"`` (0 means missing), or a boolean array. A
        cell outside is missing, whatever its value in X.
    base
        As in `decompose`. It must be a number at missing cells too; where it is 0 the value is 0.
    names, levels
        What the modes and their levels are called, see `decompose`.
    undetermined
        What to put where the observed cells do not determine the model's value: ``"nan"``, or ``"theta0"``, the value
        if undetermined parameters are 0 (for large sets of margins, which scaling fits: if undetermined factors are 1);
        still NaN where theta diverges.
    folds
        The number of folds of observed cells that are held out in turn; ``None``: no cross-validation. For an
        ``adaptive(n)`` basis, the size is also chosen, among several up to n.
    hold_out
        ``"cells"``: hold out single cells. A mode or several, by name or counted from 0: hold out whole fibres along
        it, as if a sensor had failed.
    criterion
        ``"deviance"`` (Poisson) or ``"rmse"``: the candidate with the least is fitted to all observed cells.
    rng
        Assigns the observed cells to folds: an integer, a `numpy.random.Generator`, or ``None`` for other folds each
        time. The fit itself needs no random numbers.
    solver, tol, max_iter, progress
        As in `decompose`.

    Returns
    -------
    Completion

    See Also
    --------
    Completion : The result of `complete`.
    smooth : Fill missing cells without a basis.
    CrossValidation : How well candidates predict held-out cells.

    Examples
    --------
    >>> import legendre as ld
    >>> nan = np.nan
    >>> done = ld.complete([[1, 2, nan], [2, nan, 6], [3, 6, nan]], "B1")
    >>> done.tensor().round(6).tolist()
    [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]

    If nothing is observed in the third column, any multiple of the others fits equally well, and it stays NaN.

    >>> ld.complete([[1, 2, nan], [2, nan, nan]], "B1").tensor().round(6).tolist()
    [[1.0, 2.0, nan], [2.0, 4.0, nan]]
    """
    if undetermined not in UNDETERMINED:
        raise InvalidSetting(unknown_name("value of undetermined", str(undetermined), UNDETERMINED))
    if criterion not in CRITERIA:
        raise InvalidSetting(unknown_name("criterion", str(criterion), CRITERIA))
    if folds is None and not (isinstance(hold_out, str) and hold_out == "cells"):
        raise InvalidSetting(f"hold_out={hold_out!r} is of use with folds only: pass folds=5, or leave it out.")
    settings = Settings.read(solver, tol, max_iter)
    recipes = read_bases(basis, folds)
    with shown(None) if progress else nullcontext((None, None)) as (step, say):
        data, seen = read_gaps(X, support, base, "complete", names, levels)
        recipe, table = recipes[0], None
        if folds is not None:
            folding = Folding.read(folds, hold_out, rng, data.labels)
            recipe, table = select(data, seen, recipes, settings, folding, criterion, determined_values, say)
        fit = fit_recipe(data, recipe, replace(settings, callback=step), say)
    warned(fit, stacklevel=3)
    value, determined = extrapolate(fit, undetermined)
    tensor = frozen(np.where(seen, np.asarray(data.values, dtype=np.float64), value))
    if determined is None and not seen.all():
        warnings.warn(
            f"whether the {int((~seen).sum())} missing cells are determined was not checked: {fit.n_params} "
            "parameters are too many, or too nearly dependent. Where cells are not, their values depend on the "
            "choice of theta.",
            ConvergenceWarning,
            stacklevel=2,
        )
    known = None if determined is None else frozen(determined | seen)
    return Completion(tensor, fit, known, frozen(seen), table)


def read_gaps(
    X: TensorLike,
    support: str | ArrayLike,
    base: ArrayLike | None,
    task: str,
    names: Names = None,
    levels: Levels = None,
) -> tuple[Dense, BoolArray]:
    """Read X into memory and mark what was observed: cells of base measure 0 may be, though they are not in Omega."""
    data = in_memory(read(X, support, base, names=names, levels=levels), task)
    seen = np.ones(data.values.shape, dtype=np.bool_) if data.missing is None else ~data.missing
    if not isinstance(support, str):
        seen &= np.asarray(host(support))
    elif support == "nonzero":
        seen &= data.values > 0
    if data.base is not None and len(bad := np.argwhere(~seen & ~(np.isfinite(data.base) & (data.base >= 0)))):
        where = f"base{cell_name(bad[0])} = {data.base[tuple(bad[0])]:g} at a missing cell"
        raise InvalidSupport(f"{where}; to fill it in, it must be finite and >= 0 there.")
    return data, seen


def extrapolate(fit: Decomposition, undetermined: str = "nan") -> tuple[FloatArray, BoolArray | None]:
    """Compute the model's value at every cell in X's units, and mark where the support determines it.

    Where it does not, the value is NaN, or with ``"theta0"`` that of the model whose open parameters are 0. When the
    question is too large, the mark is ``None`` and no value is NaN.
    """
    spread, base = fit.model.quotient.spread, fit.model.base
    boxes = box_values(fit.model, merged_log_density(fit), fit.total)
    value = np.array(grid_rows(fit.model, boxes, slice(None), None, fit.total))
    if base is not None:
        value[base == 0] = 0.0
    found = identify(fit.model, fit.alive)
    if found is None:
        return value, None
    value[spread(found.zero)] = 0.0
    determined: BoolArray = np.array(spread(found.value | found.zero))
    if base is not None:
        determined |= base == 0
    if undetermined == "nan":
        value[~determined] = np.nan
    return value, determined


def determined_values(fit: Decomposition) -> FloatArray:
    """Compute the model's values, NaN where the support does not determine them."""
    return extrapolate(fit)[0]


@dataclass(frozen=True)
class OnGrid(Basis):
    """A basis laid out on the whole grid: a gap in X is no gap in the model.

    The paper's builders keep to the support, so that the slice of a missing cell would lose its parameter.
    """

    recipe: Basis

    def select(self, data: Observation) -> IntArray:
        """List the cells of a recipe without ties."""
        return untied(self.terms(data), self)

    def terms(self, data: Observation) -> Terms:
        """List the cells of the recipe, and how they are tied, as if missing cells were observed to be 0."""
        mask = data.support.mask
        if mask is None:
            return self.recipe.terms(data)
        dense = in_memory(data, "complete")
        filled = np.where(mask, dense.values, 0)
        return self.recipe.terms(replace(dense, values=filled, missing=None, support=Support(data.support.shape)))

    def __repr__(self) -> str:
        return repr(self.recipe)


def read_bases(basis: Basis | str | ArrayLike | Sequence[Basis | str], folds: int | None) -> list[Basis]:
    """Read one basis, or a list of several if there is a way to choose."""
    listed: list[Any] = list(basis) if isinstance(basis, (list, tuple)) else [basis]
    wrong = [item for item in listed if not (is_basis(item) or isinstance(item, str))]
    if len(wrong) == len(listed):
        return [_on_grid(as_basis(basis))]  # type: ignore[arg-type]  # a list of cells
    if wrong:
        raise InvalidBasis(f"a list of candidates holds Basis objects and strings; this one holds {wrong[0]!r}.")
    if len(listed) > 1 and folds is None:
        raise InvalidSetting(f"{len(listed)} candidate bases need cross-validation to choose from them: folds=5.")
    return [_on_grid(as_basis(item) if isinstance(item, str) else item) for item in listed]


def _on_grid(recipe: Basis) -> Basis:
    if (growing := recipe.growing) is not None:
        return replace(growing, start=OnGrid(as_basis(growing.start)))
    if (boxed := recipe.boxed) is not None:
        return boxed if boxed.start == "empty" else replace(boxed, start=OnGrid(as_basis(boxed.start)))
    return OnGrid(recipe)
