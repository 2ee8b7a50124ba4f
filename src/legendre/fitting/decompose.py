"""`decompose`: from a tensor and a basis to the nearest tensor of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.errors import InvalidSetting
from legendre.data.observation import Rankings
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.fitting.fit import fit_recipe, show_progress, warn_if_not_converged
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.solvers.loop import Callback, Solver

if TYPE_CHECKING:
    from legendre.fitting.growing.seriate import Unordered


def decompose(
    X: TensorLike,
    basis: Basis | str | ArrayLike | None = None,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    names: Names = None,
    levels: Levels = None,
    unordered: Unordered = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    start: ArrayLike | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
) -> Decomposition:
    """Fit a model with few parameters to X: the one nearest to X, which is unique (eq. (4) of the paper).

    Parameters
    ----------
    X
        A nonnegative tensor of any order. NaN means missing: such a cell is not in the sample space. A DataArray of
        xarray, a cross table or a Series with a MultiIndex of pandas keep their labels, and answers have the same form.
        Or a sparse one: `SparseTensor`, or a sparse array of SciPy or pydata/sparse. Tensors of torch, JAX and CuPy
        are copied to NumPy, and results go back to their device, in float64. A dask array is read block by block, by a
        distributed client where there is one; its sample space is the full grid.
    basis
        A `Basis`, a string such as ``"B1 + B2(10) + B3(10)"``, or cells (k x N, 0-based). ``None`` leaves it to the
        data: for counts a basis grown while it pays, ``adaptive("bic")``, for other tensors the smallest that predicts
        cells held out as well as the best does; `Decomposition.reason` and the summary say which it is and why.
    support
        The sample space Omega: ``"all"``, ``"nonzero"`` or a boolean array of X's shape.
    base
        A base measure r of X's shape: ``q_v`` is proportional to ``r_v exp(sum of theta_u, u <= v)``. Default 1.
    names, levels
        What the modes are called, and for each mode (a list, or by name) the labels of its levels, in order. A labelled
        X (xarray, pandas, `from_rows`) has its own; a plain array may be given some.
    unordered
        Modes whose levels have no order, such as names of places: ``["zone"]`` or their numbers. The data put these
        levels in an order before the fit, and all answers put them back as they were in X. ``{"zone": [...]}`` lists
        all levels in an order of your own. ``None``: where a basis grows, the modes whose labels are names; ``()``:
        no mode. Cells of `basis` count levels in the new order.
    solver
        ``"auto"`` (by structure and size; `plan` shows which), ``"natural"`` (Algorithm 2), ``"natural-cg"`` (the same
        without a Fisher matrix), ``"gradient"`` (Algorithm 1), ``"m-projection"``, ``"scaling"``, ``"closed"``, or a
        solver object with settings, e.g. ``ld.solvers.Gradient(learning_rate=0.1)``.
    tol
        The fit has converged exactly when `residual`, ``max|eta - eta_hat|`` on all of B at the theta that is
        returned, is at most tol. Sums of float64 are seldom better than 1e-16: a smaller tol (0 is allowed) mostly
        ends STALLED, as near as rounding lets it come.
    max_iter
        How many steps at most; by default what the solver thinks reasonable.
    start
        theta to start from; the answer does not depend on it. Default 0; for large grids the best product over modes.
    callback
        Called with a `Step` at the start and after every step; a true return value stops the fit.
    progress
        Show a line on the terminal while fitting, from the third second on. ``None``: only if no basis is named.

    Returns
    -------
    Decomposition
        Always, with a `ConvergenceWarning` where ``max|eta - eta_hat|`` stayed above tol.

    See Also
    --------
    Decomposition : The result of `decompose`.
    plan : Say beforehand which solver and engine a fit will use.
    adaptive : A basis that the data choose.
    interactions : All that sets of modes do together.
    complete : Fill missing cells by a model with some basis.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
    >>> fit.tensor().round(6).tolist()
    [[1.2, 1.8], [2.8, 4.2]]
    """
    settings, asked = Settings.read(solver, tol, max_iter, callback), None if basis is None else as_basis(basis)
    if start is not None and (asked is None or asked.grows):
        raise InvalidSetting("start has no meaning while a basis grows; adaptive(..., include=basis) names cells.")
    with show_progress(progress if asked is None else bool(progress), settings.callback) as (step, say):
        settings = replace(settings, callback=step)
        rankings = _rankings(asked)
        data = read(X, support, base, rankings=rankings, watch=say, names=names, levels=levels)
        if asked is None:
            from legendre.fitting.first_choice import explain, first_basis
        recipe = first_basis(data) if asked is None else asked
        if unordered is not None or recipe.grows:
            from legendre.fitting.growing.seriate import arrange

            data = arrange(data, unordered, say)
        fit = fit_recipe(data, recipe, settings, say, start=start)
        fit = explain(data, recipe, fit, settings, say) if asked is None else fit
    return warn_if_not_converged(fit, stacklevel=3)


def _rankings(recipe: Basis | None) -> Rankings | None:
    """Name the slices of X that will be ranked; none where the basis is not known yet."""
    growing = None if recipe is None else recipe.growing
    if growing is not None:
        from legendre.fitting.growing.select import rankings_while_growing

        return rankings_while_growing(growing)
    return None if recipe is None else recipe.rankings
