"""What a page is about: the parts of a result that it tells, and X where that is at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.box_features import short_of_boxes
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
from legendre.core.text_table import Table
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.results.base import Certificate
from legendre.results.effects import Effect
from legendre.results.growth_path import Round
from legendre.results.page.names import mode_name
from legendre.results.page.pairs import ArrayPair, FitPair, Pair
from legendre.results.page.repeat import call_of_fit
from legendre.results.plots.scarce import is_scarce
from legendre.solvers.loop import Step

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

MOST_NAMED = 8  # modes that the title lists
SAME_TOTAL = 1e-6  # share by which the sum of X may differ from that of the fit: X may have been stored as float32
WITHOUT_X = "This result was read from a file, which does not hold X. Pass the data for slices and residuals."


@dataclass(frozen=True, eq=False)
class Subject:
    """What a page tells."""

    title: str
    line: str  # one sentence under the title
    tables: Sequence[Table]
    certificate: Certificate
    labels: Labels  # of X
    history: Sequence[Step]
    tol: float
    effects: Sequence[Effect]
    effect_labels: Labels  # of the modes that effects and parameters are about
    basis: IntArray | None  # None where parameters are not listed
    theta: FloatArray
    eta: FloatArray
    call: str  # how to repeat it
    path: Sequence[Round] = ()
    titles: tuple[str, ...] = ()  # names of tied parameters; empty for those that their cells name
    pair: Pair | None = None
    without: str = WITHOUT_X  # why there is no pair
    scarce: Callable[[Effect], BoolArray] | None = None  # which merged levels of an effect have hardly any data


def subject_of_fit(fit: Decomposition, data: TensorLike | None) -> Subject:
    """Tell of a decomposition; of X where the fit holds it or it is given."""
    x = fit.data if data is None else read_again(fit, data)
    return Subject(
        title="Legendre decomposition",
        line=f"{shape_line(fit.labels)}, {fit.n_params:,} parameters",
        tables=fit.tables(),
        certificate=fit.certificate(),
        labels=fit.labels,
        history=fit.history,
        tol=fit.tol,
        effects=fit.small_effects(),
        effect_labels=fit.labels,
        basis=fit.model.terms.own_cells(),
        titles=fit.model.terms.titles(),
        theta=fit.theta,
        eta=fit.eta + short_of_boxes(fit.model.terms, fit.shape),
        path=fit.path,
        pair=None if x is None else FitPair(fit, x),
        call=call_of_fit(fit, x),
        scarce=partial(is_scarce, fit, x),
    )


def shape_line(labels: Labels) -> str:
    """Write names and sizes of the modes."""
    if len(labels.shape) > MOST_NAMED:
        return f"order {len(labels.shape)}"
    if len(labels.shape) == 1:
        return f"{mode_name(labels, 0)} of {labels.shape[0]:,} levels"
    sizes = " × ".join(f"{n:,}" for n in labels.shape)
    return sizes if labels.names is None else f"{' × '.join(labels.names)} ({sizes})"


def own_pair(x: FloatArray, q: FloatArray, data: TensorLike | None) -> ArrayPair:
    """Compare X with Q where a result holds both; X is then not taken from the caller."""
    if data is not None:
        raise InvalidQuery("report: this result holds X itself. Leave the data out.")
    return ArrayPair(x, q)


def read_again(fit: Decomposition, data: TensorLike) -> Observation:
    """Read the X that a fit was made of; refuse another shape, or another sum."""
    support, base, found = fit.model.support, fit.model.base, read_shaped(data, fit.shape)
    straight = fit.labels.straighten
    if support.points is not None:
        found = read(data, "nonzero")
    elif support.mask is not None or base is not None:
        found = read(data, straight(support.on_grid()), None if base is None else straight(base))
    if not abs(found.total - fit.total) <= SAME_TOTAL * fit.total:
        raise InvalidQuery(
            f"report: data sums to {found.total:.6g}, but the fit is of a tensor whose sum is {fit.total:.6g}. "
            "Pass the X that was fitted."
        )
    _check_levels(fit.labels.straight(), found.labels)
    return found if fit.labels.order is None else found.arranged(fit.labels.order)


def _check_levels(own: Labels, given: Labels) -> None:
    """Refuse data whose levels are called otherwise than those of the fit, or stand in another order."""
    for k in range(len(own.shape)):
        if own.levels is None or given.levels is None or own.levels[k] is None or given.levels[k] is None:
            continue
        if not np.array_equal(own.levels_of(k).astype(str), given.levels_of(k).astype(str)):
            raise InvalidQuery(
                f"report: data has other levels of {own.mode(k)} than the fit, or the same in another order "
                f"({given.level(k, 0)} comes first, {own.level(k, 0)} in the fit). Pass the X that was fitted."
            )


def read_shaped(data: TensorLike, shape: tuple[int, ...]) -> Observation:
    """Read the X that a caller gives for a fit; refuse one of another shape."""
    found = read(data)
    if found.shape != shape:
        raise InvalidQuery(f"report: data has shape {found.shape}, but the fit is of a tensor of shape {shape}.")
    return found
