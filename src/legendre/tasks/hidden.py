"""Hidden variables: modes that were not observed (the paper's Section 2.4.2 calls them ongoing research).

X is treated as counts of rows that all lack the values of the hidden modes. `tasks/em.py` maximises their likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, BasisLike, Cells
from legendre.basis.graph import Graph
from legendre.basis.parse import as_basis
from legendre.core.arguments import Rng, check_int, entries, generator_from, is_whole
from legendre.core.errors import InvalidBasis, InvalidSetting, warn
from legendre.core.labels import Labels
from legendre.core.origin import Origin
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.text import NamedValues, Table, shape_name
from legendre.core.types import AnyArray, FloatArray, IntArray, Shape, frozen
from legendre.data.dense import Dense, observe
from legendre.data.observation import Observation, beyond_memory
from legendre.data.partial_table import Pattern
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.fitting.columns import CodedRows, Network, fit_tables, learn_classes, read_columns, rows_as_tensor
from legendre.fitting.fit import Settings, show_progress
from legendre.results.base import Certificate, Result, of_fit, rank_name
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import read_cells, tensor
from legendre.results.effects import Effect
from legendre.results.views import FitPair
from legendre.solvers.loop import Status, Step
from legendre.tasks.balance import balance
from legendre.tasks.em import Ascent, Incomplete, Likelihood, ascend, finish

if TYPE_CHECKING:
    from legendre.results.plots import FitPlots
    from legendre.results.report import ReportContent


@frozen(repr=False)
class HiddenDecomposition(Result):
    """A decomposition with hidden modes: the best of several runs of expectation-maximisation.

    Attributes
    ----------
    fit
        The `Decomposition`, on visible and hidden modes, of the completed table: each entry of X, divided among the
        hidden levels in proportion to the posterior. It has theta and eta.
    n_visible
        The number of visible modes, which come first.
    total
        The sum of X over the support.
    kl, log_likelihood
        Between X and the visible marginal of Q: KL(P, Q) in nats, and ``sum of X log q``.
    residual, status, converged
        The largest entry of the gradient of that KL, how the best run ended, and whether the residual is at most tol: a
        stationary point, which need not be the global minimum.
    history, n_iter
        One `Step` for each step of the best run, the start first; the objective is KL(P, Q), which never rises.
    kls
        KL(P, Q) where the run from each start ended.

    See Also
    --------
    hidden : Fit a model with hidden modes.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.einsum("ka,kb,kc->abc", [[9, 1], [2, 8]], [[8, 2], [1, 9]], [[7, 3], [3, 7]])
    >>> mixture = ld.hidden(X, ld.interactions([(0, 3), (1, 3), (2, 3)]))
    >>> mixture.n_visible, mixture.kl < 1e-6
    (3, True)
    """

    fit: Decomposition
    n_visible: int
    kls: FloatArray
    history: tuple[Step, ...]
    residual: float
    status: Status
    tol: float
    recipe: str
    total: float
    kl: float
    log_likelihood: float

    @property
    def shape(self) -> Shape:
        """The shape of X."""
        return self.fit.shape[: self.n_visible]

    if not TYPE_CHECKING:  # `Result` declares their types
        theta = of_fit("theta", "Natural parameters on B.")
        eta = of_fit("eta", "Expectations on B, eq. (3).")

    @property
    def gap(self) -> float:
        """Upper bound on KL(P, Q) minus its minimum: KL(P, Q) itself, since the problem is not convex."""
        return self.kl

    def tensor(self, *, extend: bool = False) -> Any:
        """Return the visible marginal of Q in X's units and array library; `extend` as in `Decomposition.tensor`."""
        return self.fit.origin.part(range(self.n_visible)).give(
            visible_sums(tensor(self.fit, extend=extend), self.n_visible)
        )

    def posterior(self, rows: Any = None) -> Any:
        """Return Q(hidden | visible): on the grid of all modes, or for each of some rows; NaN where Q(visible) = 0.

        Rows are visible cells, as in `Decomposition.log_prob`; the result then has axes for rows and hidden modes.
        """
        if rows is not None:
            from scipy.special import softmax

            cells = read_cells(self.fit.labels.part(range(self.n_visible)), rows, "posterior")
            added = self.fit.shape[self.n_visible :]
            levels = np.indices(added).reshape(len(added), -1).T
            every = np.hstack([cells.repeat(len(levels), axis=0), np.tile(levels, (len(cells), 1))])
            logs = self.fit._distribution.log_prob(every).reshape(len(cells), -1)
            with np.errstate(invalid="ignore"):  # -inf - -inf
                return softmax(logs, axis=1).reshape(len(cells), *added)
        q = tensor(self.fit, extend=self.fit.missing is not None)  # missing cells have a posterior, too
        visible = visible_sums(q, self.n_visible, keepdims=True)
        shares = np.divide(q, visible, out=np.full_like(q, np.nan), where=visible > 0)
        return self.fit.origin.give(shares, what="probability")

    @property
    def plot(self) -> FitPlots:
        """Pictures: effects and graph of all modes, hidden ones too; slices, residuals and margins of visible ones."""
        from legendre.results.plots import FitPlots

        return FitPlots(self, FitPair(self.fit, self.n_visible), fit=self.fit)

    def certificate(self) -> Certificate:
        """Say in plain words what is known about the fit: with hidden modes there is no proof of a global minimum."""
        off = f"The largest entry of the gradient of KL(P, Q) is {self.residual:.1e}; the tolerance was {self.tol:g}."
        why = (
            "With hidden modes the problem is not convex: this is the best of "
            f"{len(self.kls)} starts, and a better one may exist."
        )
        if not self.converged:
            return Certificate(False, "This is not yet a stationary point.", (off, why, self.status.value))
        return Certificate(True, "This is a stationary point.", (off, why))

    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the report page shows: effects and parameters of all modes, X beside the visible sums of Q."""
        from legendre.results.report import content_of_fit, read_shaped, write_call

        with_data, n = self.fit, self.n_visible
        given = {"basis": self.recipe, "sizes": list(self.fit.shape[n:])}
        if data is not None:  # spread over the hidden levels in any way, it has the same sums over these
            x = read_shaped(data, self.shape).in_memory("report")
            with_data = replace(self.fit, data=_to_incomplete_rows(x, self.fit.shape[n:]).space)
        return replace(
            content_of_fit(self.fit),
            result=self,
            title="Legendre decomposition with hidden modes",
            pair=None if with_data.data is None else FitPair(with_data, n),
            call=write_call("hidden", self.shape, self.fit.origin.part(range(n)), given),
        )

    def _effects_to_draw(self) -> list[Effect]:
        """List effects of modes and of pairs of modes, visible and hidden ones."""
        return self.fit._effects_to_draw()

    def tables(self) -> list[Table]:
        """List the fit and its runs as one table of names and values, for the printed summary."""
        # runs that end in the same minimum stop at slightly different KL: within 0.01 % they count as equal
        same = int((self.kls <= (1.0 + 1e-4) * self.kls.min() + self.tol).sum())
        dependent = f" ({rank_name(self.fit)})" if self.fit.rank < self.n_params else ""
        rows = [
            ("visible", f"{shape_name(self.shape)}, sum {self.total:.6g}"),
            ("hidden", shape_name(self.fit.shape[self.n_visible :])),
            ("basis", self.recipe),
            ("parameters", f"{self.n_params}{dependent}"),
            ("KL(P, Q)", f"{self.kl:.10g}"),
            ("log-likelihood", f"{self.log_likelihood:.10g}"),
            ("steps", str(self.n_iter)),
            ("max|gradient|", f"{self.residual:.2e}, tol {self.tol:g}"),
            ("runs", f"{len(self.kls)}, of which {same} reached this KL; the worst {self.kls.max():.6g}"),
        ]
        return [NamedValues("Legendre decomposition with hidden modes", rows)]

    def __repr__(self) -> str:
        hidden = shape_name(self.fit.shape[self.n_visible :])
        ended = "converged" if self.converged else "not converged"
        return (
            f"<HiddenDecomposition of {shape_name(self.shape)} with hidden {hidden}: {self.n_params} parameters, "
            f"KL {self.kl:.4g}, {ended} after {self.n_iter} steps, best of {len(self.kls)} runs>"
        )


def hidden(
    X: TensorLike,
    basis: BasisLike,
    sizes: int | Sequence[int] = 2,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    names: Names = None,
    levels: Levels = None,
    restarts: int = 10,
    rng: Rng = 0,
    tol: float = 1e-8,
    max_iter: int | None = None,
    progress: bool | None = None,
) -> HiddenDecomposition:
    """Fit X by the visible marginal of a model with more modes than X has.

    Parameters
    ----------
    X, support, base, names, levels
        As in `decompose`; every cell is held in memory, unless the basis is ``graph(...)``.
    basis
        As in `decompose`, on X's modes followed by the hidden ones: on a tensor of order 3 the first hidden mode is 3.
        B1, B2 and B3 choose their cells on X spread evenly over the hidden levels. With ``graph(...)``, for rows of any
        number of columns without support and base, the data choose a graph of the columns, and one hidden mode is in
        every clique. Its levels, `sizes` of them or fewer, start as the classes of rows that `LegendreDensity` finds.
    sizes
        The number of levels of each hidden mode; at least 2.
    restarts
        The number of random starts. The problem is not convex, so the answer depends on the start. Each run continues
        until it reaches tol, or until its KL falls too slowly to become the best.
    rng
        Draws the starts: an integer, a `numpy.random.Generator`, or ``None`` for different starts each time.
    tol
        A run has converged when the gradient of KL(P, Q) in theta is at most tol everywhere.
    max_iter
        The largest number of steps of a run; by default 5000.
    progress
        Show a line on the terminal from the third second on. ``None``: if standard error is one.

    Returns
    -------
    HiddenDecomposition
        Always, with a `ConvergenceWarning` where the best run has not converged. Its KL is a local minimum; levels of a
        hidden mode come in no particular order.

    See Also
    --------
    legendre.results.HiddenDecomposition : The result of `hidden`.
    decompose : Fit X by a model with some basis.

    Examples
    --------
    One of two biased coins is picked and thrown three times:

    >>> import legendre as ld
    >>> coins = [0.5 * np.array([1 - p, p]) for p in (0.2, 0.7)]
    >>> X = sum(4.0 * np.einsum("i,j,k->ijk", c, c, c) for c in coins)
    >>> fit = ld.hidden(X, ld.interactions([(0, 3), (1, 3), (2, 3)]))
    >>> fit.kl < 1e-10, fit.tensor().shape
    (True, (2, 2, 2))
    """
    with limit_blas(), show_progress(progress, None) as (_, say):
        settings, added, recipe = Settings.read(tol=tol, max_iter=max_iter), _read_sizes(sizes), as_basis(basis)
        check_int(restarts, "restarts", 1)
        generators = generator_from(rng).spawn(restarts)
        graph, most = isinstance(recipe, Graph), 5000 if settings.max_iter is None else settings.max_iter
        data = read(rows_as_tensor(X) if graph else X, support, base, names=names, levels=levels)
        if isinstance(recipe, Graph):
            fit, path, highest = _fit_columns(data, recipe, added, tol, most)
            values, residuals = zip(*path, strict=True)
            ends, last = values[-1:], path[-1]
        else:
            data = data.in_memory("hidden")
            rows = _to_incomplete_rows(data, added)
            cells = _select_cells(recipe, rows.space, data.n_modes)
            runs = _race(_draw_starts(rows, cells, data.n_modes, generators), Cells(cells), settings.tol, most, say)
            say("the last fit, of the best start")
            best = int(np.argmax([run.path[-1] for run in runs]))
            winner = runs[best] = ascend(runs[best], Cells(cells), settings.tol, most=most)
            end = finish(winner, Cells(cells), settings.tol, most)
            highest = rows.value(rows.expect(rows.even))  # the log-likelihood of P itself
            fit, values, residuals = end.likelihood.fit, winner.path, winner.residuals
            ends, last = tuple(run.path[-1] for run in runs), (end.path[-1], end.residual)

        def to_kl(log_likelihoods: Sequence[float]) -> FloatArray:
            """Turn log-likelihoods, ``sum of X log q``, into KL(P, Q): how far they are below that of P, over N."""
            return np.maximum((highest - np.array(log_likelihoods)) / data.total, 0.0)  # rounding may leave -1e-17

        steps = enumerate(zip(to_kl(values).tolist(), residuals, strict=True))
        stopped = Status.OUT_OF_STEPS if len(values) > most else Status.STALLED
        result = HiddenDecomposition(
            fit=fit,
            n_visible=data.n_modes,
            kls=to_kl(ends),
            history=tuple(Step(i, kl, gradient, gradient, 1.0) for i, (kl, gradient) in steps),
            residual=residuals[-1],
            status=fit.status if last[1] <= settings.tol else stopped,
            tol=settings.tol,
            recipe=repr(recipe),
            total=data.total,
            kl=float(to_kl(last[:1])[0]),
            log_likelihood=last[0],
        )
        if not result.converged:
            warn(
                f"the best of {len(ends)} runs stopped after {result.n_iter} steps with a gradient of "
                f"{result.residual:.2e}, above tol = {tol:g}. Raise max_iter or loosen tol."
            )
        return result


def _fit_columns(
    data: Observation, recipe: Graph, added: Shape, tol: float, most: int
) -> tuple[Decomposition, list[tuple[float, float]], float]:
    """Fit rows of columns of which the last one, the hidden mode, lacks every value; any number of columns.

    The hidden mode is in every clique of a chordal graph, so the M step has a closed form. EM starts from classes of
    rows. Return the fit, the log-likelihood and the largest entry of the gradient at each step, and the log-likelihood
    of P.
    """
    if data.missing is not None or data.base is not None or not data.support.full or len(added) > 1:
        raise InvalidSetting("graph(...) takes one hidden mode, and no missing cells, support or base.")
    columns, n = read_columns(data), data.n_modes
    mixture = learn_classes(columns, None, replace(recipe, shared=True), added[0])[-1].mixture
    parts, shape = mixture.parts, (*data.shape, len(mixture.parts))
    start = Network(
        np.array(shape),
        [np.array([n]), *(np.append(n, family) for family in parts[0].families)],
        [np.exp(mixture.log_weights), *map(np.exp, map(np.stack, zip(*(part.tables for part in parts), strict=True)))],
    )
    rows = CodedRows.of(
        np.pad(columns.codes.T.astype(np.int64), ((0, 0), (0, 1)), constant_values=-1), columns.weights, shape
    )
    counts, path = fit_tables(start, rows, lambda counts: counts.with_pseudo_counts(0.0), tol, most + 1)
    # counts that tend to 0 are raised to what float64 can add to the others; those that are 0 stay 0
    tables = [np.where(table > 0, np.maximum(table, 1e-16 * columns.total), 0.0) for table in counts.tables]
    margins = {tuple(family.tolist()): table for family, table in zip(counts.families, tables, strict=True)}
    fit = balance(None, margins, shape=shape)
    origin = replace(_with_hidden(data.origin, shape), completed=True)
    return replace(fit, origin=origin), path, float(columns.weights @ np.log(columns.weights / columns.total))


def _to_incomplete_rows(data: Dense, added: Shape) -> Incomplete:
    """Turn X into counts of rows that all lack the hidden modes, whose numbers of levels are `added`.

    The sample space and the base measure are those of X, repeated for every hidden level. The entries of `space`, X
    spread evenly over the hidden levels, serve only bases such as B3 that choose their cells by X, and pictures. The
    origin is marked as completed: a table that EM completes holds no counts that inference could use.
    """
    shape = (*data.shape, *added)
    if problem := beyond_memory(shape):
        raise InvalidSetting(f"the table of visible and hidden modes {problem}. Use fewer hidden levels.")

    def repeat(grid: AnyArray) -> AnyArray:
        """Repeat an array of X's shape for every hidden level."""
        return np.broadcast_to(grid.reshape(*data.shape, *[1] * len(added)), shape)

    mask, base = data.support.mask, data.base
    even = repeat(data.values / math.prod(added))
    space = observe(even, "all" if mask is None else repeat(mask), None if base is None else repeat(base))
    counts = np.where(data.support.on_grid(), np.asarray(data.values, dtype=np.float64), 0.0)
    origin = replace(_with_hidden(data.origin, shape), completed=True, counted=data.counts)
    return Incomplete(replace(space, origin=origin), (Pattern(tuple(range(data.n_modes)), counts),))


def _draw_starts(
    rows: Incomplete, cells: IntArray, n_visible: int, generators: Sequence[np.random.Generator]
) -> list[Ascent]:
    """Draw a random theta for each run, only for parameters that involve a hidden mode; the others start at 0.

    If all parameters of a hidden mode were equal, its levels would be alike, and no step could make them differ.
    """
    # which cells vanish depends only on the zeros of X, so a rough fit from any q finds them for all starts
    likelihood = Likelihood(rows, rows.fit_expected(rows.even, Cells(cells), 1e-6))
    involves_hidden = (cells[:, n_visible:] > 0).any(axis=1)
    thetas = [np.where(involves_hidden, generator.normal(size=len(cells)), 0.0) for generator in generators]
    return [Ascent.at(likelihood, theta) for theta in thetas]


def _with_hidden(origin: Origin, shape: Shape) -> Origin:
    """Append "hidden 0", "hidden 1", ... to the names of X's modes, if these have names; `shape` has all modes."""
    if (labels := origin.labels) is None:
        return origin
    more = [f"hidden {k}" for k in range(len(shape) - labels.n_modes)]
    names = labels.names and (*labels.names, *more)
    levels = labels.levels and (*labels.levels, *[None] * len(more))
    own_names = origin.own_names and (*origin.own_names, *more)
    return replace(origin, labels=Labels(shape, names, levels), own_names=own_names)


def _race(starts: list[Ascent], basis: Basis, tol: float, most: int, say: Say, first: int = 60) -> list[Ascent]:
    """Run every start for `first` steps, then continue those that may still become the best; return all runs.

    A run is given up if ten more rises like that of its last ``first / 2`` steps would not bring its log-likelihood
    above the highest one by 1e-6 per row: such a run would take long and hardly win.
    """
    runs: list[Ascent] = []
    for i, start in enumerate(starts):
        say(f"start {i + 1} of {len(starts)}", i / len(starts))
        runs.append(ascend(start, basis, tol, most=min(first, most)))
    for i, run in enumerate(runs):
        highest = max(other.path[-1] for other in runs)
        rise = run.path[-1] - run.path[max(-1 - first // 2, -len(run.path))]
        if len(run.path) > first and run.path[-1] + 10 * rise > highest + 1e-6 * run.likelihood.data.total:
            say(f"following start {i + 1} of {len(starts)}")
            runs[i] = ascend(run, basis, tol, most=most)
    return runs


def visible_sums(grid: AnyArray, n_visible: int, *, keepdims: bool = False) -> FloatArray:
    """Sum a tensor over its hidden modes, which come last: the visible marginal."""
    return np.asarray(grid.sum(axis=tuple(range(n_visible, grid.ndim)), keepdims=keepdims))


def _select_cells(recipe: Basis, joint: Dense, n_visible: int) -> IntArray:
    """List the cells of the basis on visible and hidden modes, parameters x modes.

    Refuse a basis that grows, and one in which a hidden mode interacts with no other: it could not explain anything.
    """
    if recipe.growing is not None:
        raise InvalidBasis(
            "adaptive(...) cannot grow with hidden modes; give a basis of fixed cells, e.g. interactions([(0, 2)])."
        )
    try:
        cells = recipe.select(joint)
    except InvalidBasis as trouble:
        raise InvalidBasis(
            f"{trouble} The basis of a fit with hidden modes is laid out on visible and hidden modes together, here "
            f"{shape_name(joint.shape)}: modes {n_visible} and up are hidden, one for each entry of sizes."
        ) from None
    for k in range(n_visible, len(joint.shape)):
        interacts = (cells[:, k] > 0) & (np.delete(cells, k, axis=1) > 0).any(axis=1)
        if not interacts.any():
            raise InvalidBasis(
                f"no cell of the basis ties hidden mode {k} to another mode, so it cannot explain anything. "
                f"Hidden modes come after the visible ones, 0 to {n_visible - 1}; e.g. interactions([(0, {k})])."
            )
    return cells


def _read_sizes(sizes: int | Sequence[int]) -> Shape:
    """Read the number of levels of each hidden mode; one number is one mode."""
    listed = entries(sizes) or [sizes]
    if not all(is_whole(size, 2) for size in listed):
        raise InvalidSetting(
            f"sizes={sizes!r}: a hidden mode needs at least 2 levels, as an integer; a list has one for each mode. "
            "Without hidden modes use decompose."
        )
    return tuple(int(size) for size in listed)
