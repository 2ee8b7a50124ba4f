"""What completion gives back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.labels import Labels
from legendre.core.text_table import NamedValues, Table, shape_name
from legendre.core.types import BoolArray, FloatArray
from legendre.data.read import TensorLike
from legendre.results.base import Result, of_fit
from legendre.results.certificate import Certificate
from legendre.results.decomposition import Decomposition
from legendre.results.effects import Effect
from legendre.results.page.subject import Subject, own_pair, subject_of_fit
from legendre.results.plots.pair import TensorPair
from legendre.results.plots.plots import FitPlots
from legendre.results.summary import rank_name
from legendre.results.tensor import tensor as model_tensor
from legendre.solvers.status import Status
from legendre.tasks.complete.crossval import CrossValidation

FILLED = 1e-9  # by which a value of the model may differ when it is computed again
NAMED = 8  # the number of slices that the summary names one by one


@dataclass(frozen=True, eq=False, repr=False)
class Completion(Result):
    """A tensor with its missing cells filled in, and which are determined; theta, eta, status, ... are those of `fit`.

    Attributes
    ----------
    values
        The filled tensor as an array of NumPy; `tensor()` gives it in the form of X.
    fit
        The decomposition of the observed cells.
    determined
        True where the observed cells determine the model's value; ``None`` if that was too large to decide.
    observed
        True where X was observed.
    rank, n_params
        The number of parameters that are independent on the observed cells, and of all parameters.
    cv
        The table of the cross-validation, if there was one.

    See Also
    --------
    complete : Fill missing cells by a model with some basis.
    Smoothed : The result of `smooth`.

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
    fit: Decomposition
    determined: BoolArray | None
    observed: BoolArray
    cv: CrossValidation | None = None

    def tensor(self) -> Any:
        """Return X where it was observed and the model's value elsewhere, in the form of X.

        Cells that the observed ones do not determine are NaN, unless `undetermined` asked for a value.
        """
        return self.fit.origin.give(self.values)

    @property
    def labels(self) -> Labels:
        """What the modes of X and their levels are called."""
        return self.fit.labels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.observed.shape

    if not TYPE_CHECKING:  # `Result` declares their types
        theta = of_fit("theta", "Natural parameters on B.")
        eta = of_fit("eta", "Expectations on B, on the observed cells.")
        residual = of_fit("residual", "``max|eta - eta_hat|`` on B.")
        gap = of_fit("gap", "Upper bound of KL(P, Q) above its minimum.")
        status = of_fit("status", "How the fit to the observed cells ended.")
        history = of_fit("history", "One `Step` for each iteration of the fit, the start first.")

    @property
    def kl(self) -> float:
        """KL(P, Q) on the observed cells, in nats."""
        return self.fit.kl

    @property
    def rank(self) -> int:
        """The number of independent parameters on the observed cells (on the face, at the boundary).

        With more than 10,000 parameters it may not have been counted, and is then a bound (`fit.rank_is_bound`).
        """
        return self.fit.rank

    @property
    def plot(self) -> FitPlots:
        """Pictures as of a decomposition, with missing cells marked: ``.slices()``, ``.effects()``, ..."""

        def arrays() -> tuple[Any, BoolArray, Any]:
            return (
                self.values,
                self.observed,
                np.where(self.observed, model_tensor(self.fit, extend=False), self.values),
            )

        return FitPlots(self.fit, TensorPair(self.fit.labels, arrays=arrays), fit=self.fit)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved of the fit, and of the cells that were filled in."""
        known = self.fit.certificate()
        if self.determined is None:
            more = "Whether the observed cells determine all that was filled in was too large a question to decide."
        elif self.determined.all():
            more = "The observed cells determine the value of every missing one."
        else:
            more = f"The observed cells leave {int((~self.determined).sum()):,} missing ones open."
        return Certificate(known.good, known.verdict, (*known.words, more))

    def subject(self, data: TensorLike | None = None) -> Subject:
        """Gather what the page tells: the fit beside the observed cells, and what it fills in."""
        known = np.where(self.observed, self.values, np.nan)
        told = subject_of_fit(self.fit, None)
        return replace(
            told,
            title="Completion",
            line=f"{told.line}, {int((~self.observed).sum()):,} cells missing",
            tables=self.tables(),
            certificate=self.certificate(),
            pair=own_pair(known, model_tensor(self.fit, extend=True), data),
            call=told.call.partition("\n\n# or")[0].replace("fit = ld.decompose(", "fit = ld.complete("),
        )

    def small_effects(self) -> list[Effect]:
        """List what single modes and pairs do to the fit."""
        return self.fit.small_effects()

    def tables(self) -> list[Table]:
        """List what was filled in, what could not be, the cross-validation and the fit."""
        seen, missing = int(self.observed.sum()), int((~self.observed).sum())
        rows = [
            ("tensor", f"{shape_name(self.shape)}, {seen} cells observed, {missing} missing"),
            *_filled(self),
            *(("nothing observed", text) for text in _slices(~self.observed, self.labels, whole=True)),
            ("parameters", f"{self.n_params}, {rank_name(self.fit)} on the observed cells"),
        ]
        if self.status is Status.UNDECIDED:
            rows += [("note", "which parameters diverge was too large to decide; some values may be 0 or open")]
        scores = [] if self.cv is None else self.cv.tables()
        return [NamedValues("Completion", rows), *scores, *self.fit.tables()]

    def __repr__(self) -> str:
        missing = int(np.count_nonzero(~self.observed))
        left = "not checked" if self.determined is None else f"{int(np.count_nonzero(~self.determined))} undetermined"
        return f"<Completion of {shape_name(self.shape)}: {missing} cells missing, {left}; {self.fit!r}>"


def _filled(done: Completion) -> list[tuple[str, str]]:
    """Count the cells that were filled in, and those that are not determined, with their slices."""
    numbers = ~np.isnan(done.values)
    count = int((~done.observed & numbers).sum())
    if done.determined is None:
        return [("filled in", f"{count}, not checked whether they are determined")]
    unknown = ~done.determined
    if not unknown.any():
        return [("filled in", str(count))]
    kept = int((unknown & numbers).sum())
    fate = f"; {kept} of them filled in with open parameters at 0" if kept else ", left NaN"
    lines = [f"{int(unknown.sum())} cells{fate}", *_slices(unknown, done.labels, whole=False)]
    return [("filled in", str(count)), *(("undetermined", line) for line in lines)]


def _slices(cells: BoolArray, labels: Labels, *, whole: bool) -> list[str]:
    """Name, mode by mode, the slices with such cells unless all have some; with `whole` those with no other cells."""
    lines = []
    for mode, length in enumerate(cells.shape):
        others = tuple(k for k in range(cells.ndim) if k != mode)
        found = np.flatnonzero(cells.all(axis=others) if whole else cells.any(axis=others))
        if len(found) and (whole or len(found) < length):
            named = ", ".join(labels.level(mode, i) for i in found[:NAMED]) + (", ..." if len(found) > NAMED else "")
            lines.append(f"{labels.mode(mode)}: {len(found)} of {length} slices ({named})")
    return lines
