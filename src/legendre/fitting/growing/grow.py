"""Growing a basis: add a few features a round, swap those that matter least, cut back, drop those that do not pay.

A feature *pays* if it lowers KL by more than the `price` of a parameter, which a criterion such as BIC sets. Without a
criterion the price is 0, and the number of parameters is given.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.errors import InvalidBasis
from legendre.core.memory import size_name
from legendre.core.progress import Say, show_nothing
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, frozen
from legendre.data.dense import Dense
from legendre.fitting.growing.candidates import NOTHING, add_boxes, add_cells
from legendre.fitting.growing.state import ROUGH, DataGrid, FactoredCorrelations, Features, State
from legendre.results.growth_path import GrowthStep


@frozen
class Search:
    """What to grow: the data, the features that stay, the candidates, and what a parameter must gain.

    Its methods are the moves that `grow` puts together: each takes a fitted state and returns another.
    """

    grid: DataGrid
    start: Features  # the recipe's `include`: the first features of every basis, never dropped
    candidates: BoolArray | None  # see `_mark_candidates`; None: boxes are added
    most: int  # the largest number of parameters, with those of the start
    size_given: bool = True  # whether `most` is the size to reach, or only a limit
    price: float = 0.0  # the gain in KL (nats) that a parameter must bring to pay for itself

    @classmethod
    def of(cls, data: Dense, recipe: Adaptive) -> Search:
        """Prepare to grow by a recipe: compute suffix sums of X, mark the candidates, and check the size asked for."""
        grid = DataGrid.of(data, boxes=recipe.boxed)
        start = grid.box_features(as_basis(recipe.include).select(data))
        candidates = None if recipe.boxed else _mark_candidates(data, recipe, start)
        size_given = isinstance(recipe.n, int)
        most = recipe.n if isinstance(recipe.n, int) else recipe.max_params
        # the size with all candidates; boxes are too many to count, so that theirs is the limit of any basis
        largest = limits.LARGEST_GROWN if candidates is None else len(start) + int(candidates.sum())
        most = largest if most is None else most
        size = most if candidates is None else min(most, largest)  # the size that will be reached
        if size_given and size > limits.LARGEST_GROWN:
            raise InvalidBasis(
                f"{recipe!r}: {size_name(size)} {'boxes' if recipe.boxed else 'cells'} would be chosen a few at a "
                f"time, with a fit in every round; a basis grows up to {limits.LARGEST_GROWN:,} parameters. Ask for "
                "fewer, name fewer candidates, or take a basis that need not grow, such as interactions(2), B3(n) or "
                "full()."
            )
        if len(start) > most:
            raise InvalidBasis(f"{recipe!r}: the basis to include already has {len(start)} parameters.")
        return cls(grid, start, candidates, most, size_given)

    def exclude_certain(self) -> Search:
        """Leave out candidates with none or all of the counts at or above them, if cells are added.

        A basis with such a cell makes cells vanish, and no sample shows that an event is impossible.
        """
        if self.candidates is None:
            return self
        return replace(self, candidates=self.candidates & (self.grid.eta_hat > 0) & (self.grid.eta_hat < 1))

    def cost(self, state: State) -> float:
        """Return KL plus the price of all parameters: what a criterion minimises, up to a factor and a constant.

        Bases of different sizes are compared by it; without a criterion the price is 0, and it is KL.
        """
        return state.kl + self.price * state.theta.size

    def fit_start(self) -> State:
        """Return the fit with the features of the start alone, from which growing begins; it has a factor.

        It is more precise than fits between rounds, whose precision depends on the gain of a round.
        """
        return State.of(self.grid, self.start, np.zeros(len(self.start))).fit(1e-10, 60)[0].with_factor()

    @property
    def large_rounds(self) -> bool:
        """Whether rounds may add more features at once: cells are added, and at least half of the grid has data.

        A poor choice in an early round is then made up for later. Where most cells are empty, an early choice decides
        which cells vanish.
        """
        observed = self.grid.observed
        return self.candidates is not None and (observed is None or 2 * len(observed) >= self.grid.eta_hat.size)

    def add_features(self, state: State, most: int | None = None, turn: int = 0) -> State | None:
        """Add the features of a round and fit roughly; ``None`` when the size is reached or no candidate pays.

        A round adds a tenth of the basis, because features are scored once a round, each given those before it, and a
        score gets worse as Q moves. The first rounds add a 40th of the size to reach, up to 8; one feature if there is
        only a limit. With `large_rounds` it is up to 16, and a seventh of the basis until it has a quarter of its size.
        `most` replaces the search's own limit. Boxes of another size are tried in each round, by its number `turn`.
        """
        left = (self.most if most is None else most) - state.theta.size
        if left <= 0:
            return None
        count = min(max(self.most // 40, 1), 16 if self.large_rounds else 8) if self.size_given else 1
        early = self.large_rounds and self.size_given and 4 * state.theta.size < self.most
        count = max(count, state.theta.size // (7 if early else 10))
        count = left if left < 1.5 * count else count  # no small round at the end
        if self.candidates is None:
            return add_boxes(state, count, self.price, turn)
        return add_cells(state, self.candidates, count, self.price)

    def estimate_losses(self, state: State, inverse: AnyArray) -> FloatArray:
        """Estimate how much KL rises without each feature, (k,); infinite for features that must not be dropped.

        These are the start, and the features that make cells vanish, for which the estimate would be wrong.
        """
        loss = losses(state, inverse)
        loss[: len(self.start)] = np.inf
        loss[state.recession != 0] = np.inf
        return loss

    def drop_features(self, state: State, fewest: int | None = None, below: float = math.inf) -> State | None:
        """Drop 15 % of the features, those whose loss matters least, and fit the others roughly.

        At least `fewest` features stay, by default those of the start. A caller that wants to swap features sets
        `below`: then ``None`` is returned if no estimated loss is less than that, or if KL comes out at more than four
        times the estimate, because a swap would begin from too bad a fit.
        """
        fewest = len(self.start) if fewest is None else fewest
        count, inverse = int(0.15 * state.theta.size), state.factored.factor.inverse()
        count, loss = min(max(1, count), state.theta.size - fewest), self.estimate_losses(state, inverse)
        gone = select_to_drop(state, inverse, loss, count, below)
        del inverse  # before a new factor takes as much memory
        if not len(gone):  # no feature may be dropped: if some must go, then those that were added last
            return None if below < math.inf else self._drop(state, np.arange(fewest, state.theta.size), loss)
        less = self._drop(state, gone, loss)
        return None if below < math.inf and less.kl > 4.0 * (state.kl + float(loss[gone].sum())) + NOTHING else less

    def _drop(self, state: State, gone: IntArray, loss: FloatArray) -> State:
        """Return a rough fit without the features `gone`, as precise as their estimated losses ask for.

        An infinite loss counts as the present KL, and a loss of 0 as 1e-12, so that the fit can reach its target.
        """
        lost = max(float(np.minimum(loss[gone], state.kl).sum()), 1e-12)
        return state.without(gone).settle(ROUGH * lost)

    def prune(self, state: State, precision: float = 1e-6, large: int = 500) -> State:
        """Drop the features that do not pay: without one, and the others fitted again, KL rises by less than the price.

        Each pass fits the basis without one feature, for each feature with a small estimated loss (for at most 32 of a
        basis of more than `large`, to save time), and drops those that do not pay. It ends when all that were tried
        pay. Fits are on the merged grid, to `precision` times the price.
        """
        target = precision * self.price
        now, kept = state.on_merged_grid().fit(target, 60)[0].with_factor(), np.arange(state.theta.size)
        while True:
            inverse = now.factored.factor.inverse()
            loss, estimate = np.full(now.theta.size, np.inf), losses(now, inverse)
            estimate[now.recession != 0] = 0.0  # the estimate is wrong if cells vanish: always try these
            estimate[: len(self.start)] = np.inf
            tried = np.argsort(estimate, kind="stable")[: 32 if now.theta.size > large else None]
            tried = tried[estimate[tried] < 4.0 * self.price]  # beyond that a feature surely pays: no fit
            loss[tried] = fit_without(now, tried, target) - now.kl
            if not (loss < self.price).any():  # back on the grid of the given state
                return State.of(state.grid, state.features.take(kept), now.theta).with_factor()
            now, gone = self._drop_unpaid(now, inverse, loss, target)
            kept = np.delete(kept, gone)

    def _drop_unpaid(self, state: State, inverse: AnyArray, loss: FloatArray, target: float) -> tuple[State, IntArray]:
        """Drop the features whose loss is less than the price; return the fit, see `State.fit`, and their positions.

        Together they may cost more than they save, if they replace each other. Then half as many are dropped, at last
        only one: its loss is that of an exact fit, so it surely pays to drop it.
        """
        count = int((loss < self.price).sum())
        while True:
            gone = select_to_drop(state, inverse, loss, count, self.price)
            less = state.without(gone).fit(target, 40)[0].with_factor()
            if count == 1 or self.cost(less) < self.cost(state):
                return less, gone
            count = max(len(gone) // 2, 1)

    def finish(self, state: State) -> tuple[State, FactoredCorrelations | None]:
        """Fit to half of the default ``tol`` of `decompose`, so that the last fit, `fit_on`, starts at its answer.

        For a large basis the factor is returned too: the last fit bounds its gap with it, and needs none of its own.
        Where cells vanish, parameters are dependent, and it would be of no use. If four factors are not enough, theta
        is on its way to infinity; the last fit will find which cells vanish.
        """
        fit = state.fit(1e-14, 40, tol=5e-11, factors=4)[0]
        return fit, fit.factored if fit.theta.size >= limits.INVERSE_KEPT and fit.vanished is None else None


def _mark_candidates(data: Dense, recipe: Adaptive, start: Features) -> BoolArray:
    """Mark the cells that may be added, over the flat grid: those of the support, or those of them that a recipe names.

    The start is not marked, and neither is the bottom cell, whose feature is constant.
    """
    marks = data.support.on_grid().copy()
    if recipe.candidates is not None:
        named = np.zeros(data.shape, dtype=np.bool_)
        named[tuple(as_basis(recipe.candidates).select(data).T)] = True
        marks &= named
    marks = marks.ravel()
    marks[0] = False
    marks[start.places] = False
    return marks


def grow(search: Search, recipe: Adaptive, say: Say = show_nothing) -> tuple[State, list[GrowthStep]]:
    """Add features until the size is reached, no candidate is left or none pays; return the fit and all rounds.

    Features chosen early may become needless, so choices are revised. A basis of a given size of up to 500 grows to 1.5
    times that size, and the features that matter least are dropped. For a larger one, and with a criterion, features
    are swapped at some sizes (`_sizes`): 15 % are dropped, and the basis grows again; if its cost is lower, it is kept.
    With a criterion, features that do not pay are dropped at the end.
    """
    most, swaps, over = search.most, recipe.swaps or 0, 1.0
    if recipe.swaps is None and search.candidates is not None:  # boxes are not swapped
        over = 1.5 if search.size_given and most <= 500 else 1.0
        swaps = int(over == 1.0)

    state = search.fit_start()
    rounds = [state.measure()]

    def forward(size: int) -> None:
        """Add features, round by round, up to a size."""
        nonlocal state, rounds
        while (larger := search.add_features(state, size, len(rounds) - 1)) is not None:
            state, rounds = larger, [*rounds, larger.measure()]
            say(f"growing   {state.theta.size} of {size} parameters   KL = {rounds[-1].kl:.4g}")

    # Grow, and swap features at some sizes. Whatever may turn out worse is compared with what was there before. That is
    # kept without its factor, which is large, and computed again where it is needed.
    for size in _sizes(search) if swaps else [most]:
        forward(size)
        for _ in range(swaps):
            before = replace(state, last_factored=None), rounds
            # a feature whose loss would multiply KL by five is not worth trying to replace
            less = search.drop_features(state, below=4.0 * state.kl + NOTHING)
            if less is None:
                break
            state, less = less, None  # no other name keeps its factor
            forward(size)
            if search.cost(state) >= search.cost(before[0]):
                state, rounds = before[0].with_factor(), before[1]
                break
        if state.theta.size < size:  # no candidate is left or none pays, so no larger size is reached either
            break
    # grow past the size and cut back, unless candidates ran out before the size was reached
    if int(over * most) > most == state.theta.size:
        before = replace(state, last_factored=None), rounds
        forward(int(over * most))
        while state.theta.size > most:
            state = search.drop_features(state, most) or state
        state, rounds = (state, [*rounds, state.measure()]) if state.kl < before[0].kl else before
    if search.price:
        state = search.prune(state)
        while True:  # pruning changes which candidates pay: add and prune again while that lowers the cost by 1 %
            rounds = [*rounds, state.measure()]
            before = state, rounds
            forward(most)
            if state.theta.size > before[0].theta.size:
                state = search.prune(state)
            if not search.cost(state) < 0.99 * search.cost(before[0]):
                state, rounds = before
                break
    return state, rounds


def _sizes(search: Search) -> list[int]:
    """List the sizes, rising, at which features are swapped: the last one, and 0.7 of it if most cells have data.

    With a criterion nobody knows where growing will end. Sizes then start 20 above the included features and rise by a
    factor of 1.4, so that features were swapped not long before the end.
    """
    if not search.price:
        return [int(0.7 * search.most), search.most] if search.large_rounds else [search.most]
    sizes, size = list[int](), len(search.start) + 20
    while size < search.most:
        sizes.append(size)
        size = int(1.4 * size) + 1
    return [*sizes, search.most]


def losses(state: State, inverse: AnyArray) -> FloatArray:
    """Estimate for each feature how much KL would rise without it, the others fitted again, (k,).

    `inverse` is that of the state's factor.
    Wald's form ``theta^2 / (2 (G^-1)_uu)`` is right for a small theta and tends to 0 for a large one. It is multiplied
    by a correction: the exact rise over Wald's form if no other parameter moves. With f the feature, of mean eta, that
    is ``log E exp(-theta f) + theta eta`` over ``theta^2 var(f) / 2``.
    """
    theta, eta, scale = state.theta, state.mean, state.scale
    with np.errstate(all="ignore"):
        scaled = np.where(scale > 0, theta / scale, 0.0)  # theta in units of 1 / standard deviation
        # the squares in each column of the inverse of L sum to the diagonal of the inverse of L L', the correlations
        wald = scaled**2 / (2.0 * np.einsum("ij,ij->j", inverse, inverse))
        alone = np.logaddexp(np.log1p(-eta), np.log(eta) - theta) + theta * eta
        # near theta = 0 the correction tends to 1, but is computed from rounding errors
        ratio = np.where(np.abs(theta) > 1e-3, 2.0 * alone / scaled**2, 1.0)
    ratio = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)
    return np.where(np.isfinite(wald * ratio), wald * ratio, 0.0)


def select_to_drop(state: State, inverse: AnyArray, loss: FloatArray, count: int, below: float = math.inf) -> IntArray:
    """List the positions of up to `count` features to drop together, the least useful first.

    `inverse` is that of the state's factor, and `loss` has the estimated loss of each feature alone. If two features
    can replace each other, either can go, but not both. So after each choice u the losses of the others v are estimated
    anew, as if theta_u were 0 and the others had been fitted again: with C the inverse of the Fisher matrix, ``theta_v
    -= C_uv theta_u / C_uu`` and ``C_vv -= C_uv^2 / C_uu``. The list ends when no loss is less than `below`.
    """
    # only the least useful features are examined, a few more than can be chosen: `covariance` stays small
    listed = np.argsort(loss, kind="stable")[: int(1.3 * count) + 8]
    theta, part = state.theta[listed], inverse[:, listed]
    # C, rows and columns of the listed features: the variances and covariances of the estimates of theta
    covariance = (part.T @ part) * np.outer(state.scale[listed], state.scale[listed])
    variance, now = covariance.diagonal().copy(), loss[listed].copy()
    with np.errstate(all="ignore"):
        # the loss over Wald's form, which stays as it is; 0 where the loss is infinite or theta is 0
        ratio = np.nan_to_num(2.0 * variance * now / theta**2, posinf=0.0)
    count = min(count, len(listed))
    rows, gone = np.empty((count, len(theta))), list[int]()
    while len(gone) < count:
        u, done = int(now.argmin()), len(gone)
        if not now[u] < below:
            break
        gone.append(u)
        now[u] = np.inf
        row = covariance[u] - rows[:done, u] @ rows[:done]  # row u of C after the choices before; `rows` are Cholesky's
        rows[done] = row / np.sqrt(row[u]) if row[u] > 0 else 0.0
        if row[u] > 0:
            theta = theta - row * (theta[u] / row[u])
            variance = variance - rows[done] ** 2
            # infinite losses, of features that stay or are gone, are left as they are
            free = np.isfinite(now) & (variance > 0) & (ratio > 0)
            now[free] = theta[free] ** 2 / (2.0 * variance[free]) * ratio[free]
    return listed[gone]


def fit_without(state: State, tried: IntArray, target: float) -> FloatArray:
    """Return KL of the fits without one feature each, for the features `tried`: what `losses` only estimates.

    See `State.fit` for `target`.
    """
    return np.array([state.without(np.array([u])).fit(target, 40)[0].kl for u in tried.tolist()])


def order_features(search: Search, state: State, singly: int = 64) -> IntArray:
    """Return the positions of the features of a basis, so that for every m the first m are a good basis.

    It is backward elimination. While more than `singly` features are left, the tenth that matters least is dropped
    together, and the others are fitted again. Then they go one at a time, by KL of fits without one of them. The last
    to go come first, after those of the start. `Decomposition.order` and `Decomposition.at` need it.
    """
    first, left, dropped = len(search.start), np.arange(state.theta.size), list[IntArray]()
    state = state.on_merged_grid().fit(1e-14, 40, tol=1e-9)[0].with_factor()
    merged_at = state.theta.size
    while state.theta.size > first + 1:
        if state.theta.size <= 0.7 * merged_at:  # fewer features cut the grid into fewer boxes
            merged_at = state.theta.size
            state = state.on_merged_grid().with_factor()
        loose, inverse = state.theta.size - first, state.factored.factor.inverse()  # `loose` features may be dropped
        loss = search.estimate_losses(state, inverse)
        gone = select_to_drop(state, inverse, loss, min(loose // 10, loose - singly)) if loose > singly else left[:0]
        if not len(gone):
            # at most 24 features are tried, fewer on a large grid, which bounds the time
            tried = np.argsort(loss, kind="stable")[: min(24, max(1, (1 << 20) // state.grid.eta_hat.size), loose)]
            target = max(1e-2 * float(losses(state, inverse)[tried].max()), 1e-13)  # precise enough to compare them
            gone = tried[[int(fit_without(state, tried, target).argmin())]]
        dropped.append(left[gone])
        left = np.delete(left, gone)
        state = search._drop(state, gone, loss).with_factor()
    return np.concatenate([left, *(gone[::-1] for gone in reversed(dropped))])
