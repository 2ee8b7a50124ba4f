"""Completion: fill in missing cells with the model's values, where the observed cells determine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, BasisLike, Cells, TieableBasis
from legendre.basis.parse import as_basis
from legendre.core.arguments import Rng, check_choice, check_int, check_number, generator_from
from legendre.core.cells import freeze
from legendre.core.errors import InvalidBasis, InvalidQuery, InvalidSetting, refuse_arguments, warn
from legendre.core.labels import Event, Labels, Mode
from legendre.core.sums.quotient import sum_others
from legendre.core.text import NamedValues, Table, shape_name
from legendre.core.tied_parameters import Terms
from legendre.core.types import BoolArray, FloatArray, frozen
from legendre.data.dense import observe
from legendre.data.observation import Observation, Support
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.fitting.fit import Settings, fit_recipe, show_progress, warn_if_not_converged
from legendre.fitting.growing.seriate import find_names
from legendre.results.base import Certificate, Result, of_fit, rank_name
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor as model_tensor
from legendre.results.effects import Effect, Effects
from legendre.results.views import ArrayPair
from legendre.solvers.loop import Solver, Status
from legendre.tasks.complete.crossval import CrossValidation, HoldOut, deal, extrapolate, read_modes, select
from legendre.tasks.complete.penalised import PenalisedFit, fit_penalised

if TYPE_CHECKING:
    from legendre.results.plots import FitPlots
    from legendre.results.report import ReportContent


@frozen(repr=False)
class Completion(Result):
    """A tensor with its missing cells filled in, and which are determined; theta, eta, status, ... are those of `fit`.

    Attributes
    ----------
    values
        The filled tensor as a NumPy array; `tensor()` returns it in the form of X.
    fit
        The decomposition of the observed cells; without a basis the `PenalisedFit`, with the variances of its terms and
        the error on held-out cells. ``fit.tensor()`` has the model's values.
    determined
        True where the observed cells determine the model's value; ``None`` if the problem is too large to decide.
        Without a basis, the penalty determines all cells.
    observed
        True where X was observed.
    rank, n_params
        The number of parameters that are independent on the observed cells, and the number of all parameters.
    cv
        The table of the cross-validation, if there was one.

    See Also
    --------
    complete : Fill missing cells, by a model with a basis or without.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.outer([1.0, 2, 3], [4.0, 5, 6])
    >>> X[1, 2] = np.nan
    >>> done = ld.complete(X, "B1")
    >>> round(float(done.tensor()[1, 2]), 6), bool(done.determined[1, 2])
    (12.0, True)
    """

    values: FloatArray
    fit: Any  # a Decomposition, or a PenalisedFit
    determined: BoolArray | None
    observed: BoolArray
    cv: CrossValidation | None = None

    def tensor(self) -> Any:
        """Return X where it was observed and the model's value elsewhere, in the form of X.

        Cells that the observed ones do not determine are NaN, unless `undetermined` asked for a value.
        """
        return self.fit.origin.give(self.values)

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Return intervals for the missing cells of a completion without a basis: two tensors in the form of X.

        A bound is so many of the model's standard deviations away that a share `level` of the held-out cells, in gaps
        of the same shape, was inside. Observed cells are their own bounds.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> X = np.add.outer(np.arange(8.0), np.arange(9.0)) + 20
        >>> X[2, 3] = np.nan
        >>> lower, upper = ld.complete(X).interval(0.9)
        >>> bool(lower[2, 3] < 25 < upper[2, 3]), float(lower[0, 0])
        (True, 20.0)
        """
        if not isinstance(self.fit, PenalisedFit):
            raise InvalidQuery("interval needs a completion without a basis: ld.complete(X).interval().")
        check_number(level, "level", above=0, below=1, error=InvalidQuery)
        ends = [np.where(self.observed, self.values, end) for end in self.fit.interval(level)]
        return self.fit.origin.give(ends[0]), self.fit.origin.give(ends[1])

    @cached_property
    def filled(self) -> Decomposition:
        """The filled tensor as a distribution over all cells, which answers the questions that a decomposition does.

        ``done.filled.marginal("hour")``, ``.expectation(...)`` and so on include the cells that were filled in; `fit`
        leaves them out.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> done = ld.complete([[1.0, 2.0], [3.0, np.nan]], "interactions(1)")
        >>> done.filled.marginal(0).round(3).tolist(), done.fit.marginal(0).round(3).tolist()
        ([0.25, 0.75], [0.5, 0.5])
        """
        if np.isnan(self.values).any():
            raise InvalidQuery("filled: some missing cells are not determined; complete(..., undetermined='theta0').")
        # without parameters Q is the base measure: with the filled tensor as base, Q is the filled tensor
        fit = fit_recipe(observe(self.values, "all", self.values), as_basis("empty"), Settings())
        return replace(fit, origin=self.fit.origin)

    def marginal(self, modes: Mode | Sequence[Mode], *, given: Event | None = None) -> Any:
        """Return the shares of the filled tensor over some modes; see `Decomposition.marginal`."""
        return self.filled.marginal(modes, given=given)

    def condition(self, given: Event) -> Any:
        """Return the shares of the filled tensor, given the levels of some modes; see `Decomposition.condition`."""
        return self.filled.condition(given)

    def sample(self, n: int, rng: Rng = None) -> Any:
        """Draw cells of the filled tensor, each as often as its share; see `Decomposition.sample`."""
        return self.filled.sample(n, rng)

    def effects(self) -> Effects:
        """Write the logarithm of the model's values at all cells as a sum of effects of modes, pairs, and so on.

        Each level has the weight that it has in the filled tensor, see `Decomposition.effects`. If some cells have no
        value, the effects are those of `fit`.

        Examples
        --------
        >>> import legendre as ld
        >>> X = [[10.0, 20.0, 30.0], [np.nan, 40.0, 60.0], [20.0, 40.0, 60.0]]
        >>> ld.complete(X, "interactions(1)").effects()[0].values.round(3).tolist()
        [-0.555, 0.139, 0.139]
        """
        return self._described.effects()

    @cached_property
    def _described(self) -> Decomposition:
        """A fit to the model's values at all cells, which explains X as well as the model does.

        It is `fit` itself, the observed cells, if some of the missing ones have no value.
        """
        model: Decomposition = self.fit
        if isinstance(self.fit, PenalisedFit):
            model = self.fit.on_full_basis
        elif np.isnan(self.values).any():
            return model
        else:
            means, recipe = observe(model_tensor(model, extend=True), "all"), Cells(model.basis, model.ties)
            model = replace(fit_recipe(means, recipe, Settings()), origin=model.origin)
        # without parameters it knows how far X is from the uniform distribution and from independence
        uniform = fit_recipe(observe(self.values, self.observed), as_basis("empty"), Settings())
        known = {"kl": self.kl, "kl_uniform": uniform.kl_uniform, "kl_independence": uniform.kl_independence}
        return replace(model, data=None, _measured=known)

    def _effects_to_draw(self) -> list[Effect]:
        """List effects of modes and of pairs, which the report page draws."""
        return list(self._described._effects_to_draw())

    if not TYPE_CHECKING:  # `Result` declares their types
        labels = of_fit("labels", "Names of the modes of X and of their levels.")
        theta = of_fit("theta", "Natural parameters on B.")
        eta = of_fit("eta", "Expectations on B, on the observed cells.")
        residual = of_fit("residual", "``max|eta - eta_hat|`` on B.")
        gap = of_fit("gap", "Upper bound on KL(P, Q) minus its minimum.")
        status = of_fit("status", "How the fit to the observed cells ended.")
        history = of_fit("history", "One `Step` for each iteration of the fit, the start first.")

    shape = of_fit("shape", "The shape of X.")
    kl = of_fit("kl", "KL(P, Q) on the observed cells, in nats.")
    tol = of_fit("tol", "The tolerance of the fit.")
    rank = of_fit("rank", "The number of independent parameters on the observed cells; `fit.rank_is_bound`: a bound.")

    @property
    def plot(self) -> FitPlots:
        """Pictures, as for a decomposition, with missing cells marked: ``.slices()``, ``.effects()``, ..."""
        from legendre.results.plots import FitPlots

        return FitPlots(self.fit, self._pair(), fit=self._described)

    def _pair(self) -> ArrayPair:
        """Return X, NaN at missing cells, beside the model's values, for pictures and the report.

        Without a basis it has the widths of the 90 % intervals at missing cells too.
        """
        fit, observed = self.fit, np.where(self.observed, self.values, np.nan)
        if not isinstance(fit, PenalisedFit):
            return ArrayPair(self.labels, lambda: (observed, model_tensor(fit, extend=True)))
        lower, upper = fit.interval(0.9)
        width = np.where(self.observed, np.nan, upper - lower)
        return ArrayPair(self.labels, lambda: (observed, fit.means), width=width)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved about the fit, and about the cells that were filled in."""
        known = self.fit.certificate()
        if self.determined is None:
            more = "The problem is too large to decide whether the observed cells determine all that was filled in."
        elif isinstance(self.fit, PenalisedFit):
            more = "Every missing cell has a value, also where the observed cells do not determine it."
        elif self.determined.all():
            more = "The observed cells determine the value of every missing one."
        else:
            more = f"The observed cells leave {int((~self.determined).sum()):,} missing ones undetermined."
        return Certificate(known.good, known.verdict, (*known.words, more))

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the report page shows: that of the fit, with a title of its own and the missing cells marked."""
        from legendre.results.report import call_of_fit, refuse_data

        refuse_data(data)
        known: ReportContent = self.fit._content()
        call = call_of_fit(self.fit, "complete") if isinstance(self.fit, Decomposition) else known.call
        return replace(
            known,
            result=self,
            title="Completion",
            line=f"{known.line}, {int((~self.observed).sum()):,} cells missing",
            pair=self._pair(),
            call=call,
            fit=replace(self._described, _rounds=getattr(self.fit, "path", ())),
        )

    def tables(self) -> list[Table]:
        """List the tables of the summary: what was filled in and what could not be, the cross-validation, the fit."""
        observed, numbers = self.observed, ~np.isnan(self.values)
        counts = f"{int(observed.sum())} cells observed, {int((~observed).sum())} missing"
        rows = [("tensor", f"{shape_name(self.shape)}, {counts}")]
        unknown = np.zeros_like(observed) if self.determined is None else ~self.determined
        checked = ", not checked whether they are determined" if self.determined is None else ""
        rows += [("filled in", f"{int((~observed & numbers).sum())}{checked}")]
        if unknown.any():
            kept = int((unknown & numbers).sum())
            fate = f"; {kept} of them filled in with open parameters at 0" if kept else ", left NaN"
            rows += [("undetermined", f"{int(unknown.sum())} cells{fate}")]
        rows += [("nothing observed", text) for text in _name_empty_slices(observed, self.labels)]
        if isinstance(self.fit, Decomposition):
            rows += [("parameters", f"{self.n_params}, {rank_name(self.fit)} on the observed cells")]
        if self.status is Status.UNDECIDED:
            rows += [("note", "which parameters diverge was too large to decide; some values may be 0 or open")]
        scores = [] if self.cv is None else self.cv.tables()
        return [NamedValues("Completion", rows), *scores, *self.fit.tables()]

    def __repr__(self) -> str:
        missing = int(np.count_nonzero(~self.observed))
        left = "not checked" if self.determined is None else f"{int(np.count_nonzero(~self.determined))} undetermined"
        return f"<Completion of {shape_name(self.shape)}: {missing} cells missing, {left}; {self.fit!r}>"


def _name_empty_slices(observed: BoolArray, labels: Labels, named: int = 8) -> list[str]:
    """Write for each mode a line about its slices in which nothing was observed: their number, and the first `named`.

    They explain in the summary why cells are undetermined. A mode without such slices has no line.
    """
    lines = []
    for mode, length in enumerate(observed.shape):
        found = np.flatnonzero(sum_others(observed, [mode]) == 0)
        if len(found):
            text = ", ".join(labels.level(mode, i) for i in found[:named]) + (", ..." if len(found) > named else "")
            lines.append(f"{labels.mode(mode)}: {len(found)} of {length} slices ({text})")
    return lines


def complete(
    X: TensorLike,
    basis: BasisLike | Sequence[Basis | str] | None = None,
    *,
    support: str | ArrayLike = "all",
    names: Names = None,
    levels: Levels = None,
    undetermined: str = "nan",
    folds: int | None = None,
    hold_out: HoldOut = None,
    criterion: str = "deviance",
    rng: Rng = 0,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    progress: bool | None = None,
    **others: Never,
) -> Completion:
    """Fill in the missing cells of X by one convex fit to the observed cells.

    Without a basis the model has all interactions, with a penalty that is learned from X by EM: how much each term (a
    set of modes) varies, which levels of a mode are alike, and how noisy the data are. Given what was learned, the fit
    is convex: it minimises ``w n KL(P, Q) + sum of a_c^2 / (2 v_c)``, where a are the coordinates of log Q in the
    learned waves, which are linear functions of theta. `Completion.interval` gives intervals for the cells that were
    filled in.

    Parameters
    ----------
    X
        A nonnegative tensor of any kind that `decompose` takes; NaN means missing. In a sparse tensor, cells that are
        not listed are 0, or missing with ``support="nonzero"``. Every cell is held in memory.
    basis
        ``None``: all interactions, with a penalty; every cell gets a value, also where the observed cells do not
        determine it. Otherwise as in `decompose`, but on all cells, missing ones included; or several candidates, a
        list of `Basis` objects and strings, from which cross-validation chooses, see `folds`. Parameters may be tied
        (`legendre.ties`, `features`, `boxes`): with fewer of them more cells are determined.
    support
        Which cells were observed: ``"all"`` that are numbers, ``"nonzero"`` (0 means missing), or a boolean array. A
        cell outside is missing, whatever its value in X.
    names, levels
        Names of the modes and of their levels, see `decompose`.
    undetermined
        What to put where the observed cells do not determine the model's value: ``"nan"``, or ``"theta0"``, the value
        if undetermined parameters are 0 (for large sets of margins, which scaling fits: if undetermined factors are 1);
        still NaN where theta diverges.
    folds
        The number of folds of observed cells that are held out in turn; ``None``: no cross-validation, or 5 without a
        basis. For an ``adaptive(n)`` basis, the size is also chosen, among several up to n. Without a basis, folds
        decide after how many rounds to stop and how wide intervals are; for a large tensor only some of them are held
        out.
    hold_out
        What is held out together. ``None``: the shapes in which cells are missing, single cells, fibres, slabs or
        blocks, in the same proportions; the summary says which. ``"cells"``: single cells. A mode or several, by name
        or counted from 0: an entire fibre along it, as if a sensor had failed.
    criterion
        ``"deviance"`` (Poisson) or ``"rmse"``: the candidate with the lowest one is fitted to all observed cells.
        Without a basis, learning goes on while it falls.
    rng
        Assigns the observed cells to folds: an integer, a `numpy.random.Generator`, or ``None`` for different folds
        each time. The fit itself needs no random numbers.
    solver, tol, max_iter, progress
        As in `decompose`; without a basis there is one solver, and tol bounds the largest entry of the gradient, for a
        total of 1 and coordinates of standard deviation 1.

    Returns
    -------
    Completion

    See Also
    --------
    legendre.results.Completion : The result of `complete`.
    legendre.results.CrossValidation : How well candidates predict held-out cells.

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

    Without a basis neighbours help.

    >>> x = np.linspace(0, 3, 12)
    >>> X = np.exp(np.add.outer(np.sin(x), np.cos(x)))
    >>> hidden = np.random.default_rng(0).random(X.shape) < 0.5
    >>> done = ld.complete(np.where(hidden, nan, X))
    >>> bool((abs(done.tensor() / X - 1) < 0.1).all())
    True
    """
    refuse_arguments("complete", others)
    check_choice(undetermined, "undetermined", ("nan", "theta0"))
    check_choice(criterion, "criterion", ("deviance", "rmse"))
    if basis is not None and folds is None and hold_out is not None:
        raise InvalidSetting(f"hold_out={hold_out!r} is used only with folds: pass folds=5, or leave it out.")
    settings = Settings.read(solver, tol, max_iter)
    if basis is None and solver != "auto":
        raise InvalidSetting(f"solver={solver!r} needs a basis; without one there is nothing to choose. Leave it out.")
    if folds is not None:
        check_int(folds, "folds", 2)
    recipes = [] if basis is None else read_bases(basis, folds)
    with show_progress(progress, None) as (step, say):
        data = read(X, support, names=names, levels=levels).in_memory("complete")
        observed = data.support.on_grid()  # the sample space is the observed cells
        values = np.where(observed, np.asarray(data.values, dtype=np.float64), 0.0)
        along, generator = read_modes(hold_out, data.labels), generator_from(rng)
        if basis is None or folds is not None:
            dealt = deal(values, observed, folds, along, generator, find_names(data))
        if basis is None:
            penalised = fit_penalised(data, values, observed, dealt, criterion, settings, say)
            filled = freeze(np.where(observed, values, penalised.means))
            return Completion(filled, penalised, freeze(np.ones_like(observed)), freeze(observed))
        recipe, table = recipes[0], None
        if folds is not None:
            recipe, table = select(data, values, observed, recipes, settings, dealt, criterion, say)
        fit = fit_recipe(data, recipe, replace(settings, callback=step), say)
    warn_if_not_converged(fit)
    value, determined = extrapolate(fit, undetermined)
    if determined is None and not observed.all():
        warn(
            f"whether the {int((~observed).sum())} missing cells are determined was not checked: {fit.n_params} "
            "parameters are too many, or too nearly dependent. Where cells are not, their values depend on the "
            "choice of theta.",
        )
    known = None if determined is None else freeze(determined | observed)
    return Completion(freeze(np.where(observed, values, value)), fit, known, freeze(observed), table)


@dataclass(frozen=True)
class OnGrid(TieableBasis):
    """A basis that is laid out on all cells of the grid, missing ones included, so that the model has a value there.

    The paper's builders choose cells of the support only. A basis cell whose entry of X happens to be missing would be
    dropped, and its parameter with it.
    """

    recipe: Basis

    def terms(self, data: Observation) -> Terms:
        """List the cells of the recipe, and how they are tied: X is 0 at missing cells, and every cell is support."""
        mask = data.support.mask
        if mask is None:
            return self.recipe.terms(data)
        dense = data.in_memory("complete")
        filled = np.where(mask, dense.values, 0)
        return self.recipe.terms(replace(dense, values=filled, missing=None, support=Support(data.support.shape)))

    def __repr__(self) -> str:
        return repr(self.recipe)


def read_bases(basis: BasisLike | Sequence[Basis | str], folds: int | None) -> list[Basis]:
    """Read the argument `basis` of `complete`: one basis, or candidates, which need `folds` to choose among them.

    A list without a basis or a string in it is one basis, given by its cells. Each basis is laid out on all cells.
    """
    listed: list[Any] = list(basis) if isinstance(basis, (list, tuple)) else [basis]
    others = [item for item in listed if not isinstance(item, (Basis, str))]
    if len(others) == len(listed):
        return [_on_grid(as_basis(basis))]  # type: ignore[arg-type]  # a list of cells
    if others:
        raise InvalidBasis(f"a list of candidates holds Basis objects and strings; this one holds {others[0]!r}.")
    if len(listed) > 1 and folds is None:
        raise InvalidSetting(f"{len(listed)} candidate bases need cross-validation to choose from them: folds=5.")
    return [_on_grid(as_basis(item) if isinstance(item, str) else item) for item in listed]


def _on_grid(recipe: Basis) -> Basis:
    """Lay a basis out on all cells of the grid; of an adaptive one only the part `include`.

    The other cells of an adaptive basis are chosen by their gain on the observed cells, so they need no layout.
    """
    growing = recipe.growing
    if growing is None:
        return OnGrid(recipe)
    return growing if growing.include == "empty" else replace(growing, include=OnGrid(as_basis(growing.include)))
