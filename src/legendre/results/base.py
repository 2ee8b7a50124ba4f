"""What all results share: a summary as text and in notebooks, a file, and the certificate of a fit in plain words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from legendre.core.arguments import check_installed, check_int
from legendre.core.errors import LegendreError
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.text import Printed, fragment, shorten
from legendre.core.tied_parameters import Ties
from legendre.core.types import FloatArray, IntArray, PathName, Shape, frozen
from legendre.data.read import TensorLike
from legendre.model.model import Model
from legendre.solvers.loop import Status, Step

if TYPE_CHECKING:
    from legendre.results.effects import Effect
    from legendre.results.report import ReportContent


class Storable(Printed):
    """A result that can also be written to a file, which `legendre.load` reads."""

    def save(self, path: PathName) -> None:
        """Write the result to an npz file, which `legendre.load` reads; if writing fails, an existing file is kept.

        X itself is not written, unless it is part of the result. A result that is read from a file has NumPy arrays.
        """
        from legendre.results import files

        files.save(self, path)


class Result(Storable):
    """What the result of every fit has.

    Fields of some results and properties of others: the `shape` of X; `theta` and `eta` on the basis; `residual`, how
    far the fit is from the exact condition, ``max|eta - eta_hat|`` unless the result says otherwise; `gap`, an upper
    bound on how far the objective is above its minimum; `status` and `history`.
    """

    theta: FloatArray  # natural parameters on B
    eta: FloatArray  # expectations on B, eq. (3)
    status: Status
    tol: float  # the residual that was asked for
    if TYPE_CHECKING:  # at run time a subclass that is a dataclass would take this property as the field's default

        @property
        def history(self) -> tuple[Step, ...]:
            """One `Step` for each iteration, the start first."""

    @abstractmethod
    def tensor(self) -> Any:
        """Return the result as a tensor in X's units."""

    def without_labels(self) -> Self:
        """Return the same result without labels: answers are NumPy arrays, modes and levels are numbers."""
        # the labels are in `origin`; a result of a task has no origin of its own, but that of the `fit` it holds
        result: Any = self
        if hasattr(self, "fit"):
            return cast(Self, replace(result, fit=result.fit.without_labels()))
        return cast(Self, replace(result, origin=result.origin.drop_labels()))

    @property
    def labels(self) -> Labels:
        """Names of the modes of X and of their levels."""
        result: Any = self  # a dataclass with an origin
        labels: Labels = result.origin.of(result.shape)
        return labels

    def worst_cells(self, most: int = 20) -> Any:
        """List the cells where Q differs most from X, as a pandas data frame: their levels, X, Q and the residual.

        For counts the residual is in standard deviations (the signed square root of the cell's term of the deviance),
        otherwise it is ``X - Q``. The largest comes first. `plot.residuals` draws the same.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[18, 7], [6, 19]], "B1", names=["sex", "vote"]).worst_cells(2).round(2)
           sex  vote  observed  fitted  residual
        0    1     0       6.0    12.0     -1.92
        1    0     1       7.0    13.0     -1.83
        """
        from legendre.results.views import find_worst

        result: Any = self
        pair, pandas = result.plot.pair, import_pandas("worst_cells()")
        labels, (found, places, residuals) = pair.labels, find_worst(pair, check_int(most, "worst_cells: most", 0))
        cells = [labels.values_at(found.cell(i)) for i in places.tolist()]
        frame = pandas.DataFrame(cells, columns=[labels.key(k) for k in range(len(labels.shape))])
        return frame.assign(observed=found.x[places], fitted=found.q[places], residual=residuals[places])

    @abstractmethod
    def certificate(self) -> Certificate:
        """Say in plain words what has been proved about the result."""

    def _repr_html_(self) -> str:
        """Return the certificate in words and the tables of the summary, for a notebook."""
        return fragment(self.tables(), [self.certificate().text()])

    def report(self, path: PathName = "report.html", data: TensorLike | None = None) -> None:
        """Write one HTML page with everything about the result; it needs no network and opens in any browser.

        It shows the settings and results, the certificate in words, effects, slices of X and Q, the worst residuals,
        the path of a basis that grew, the parameters, and how to repeat the fit. If X is large, the page shows a part,
        and says which.

        Parameters
        ----------
        path
            Where to write it; an existing file is replaced. If writing fails, that file is kept.
        data
            X, for a decomposition that was read from a file, which does not hold it.

        Examples
        --------
        >>> import legendre as ld, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = pathlib.Path(folder) / "report.html"
        ...     ld.decompose([[1, 2], [3, 4]], "B1").report(page)
        ...     "This is the minimum." in page.read_text(encoding="utf-8")
        True
        """
        from legendre.results.report import write_page

        write_page(path, self._content(data))

    @abstractmethod
    def _content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the report page shows, see `ReportContent`; `data` is X, for a result that does not hold it."""

    @abstractmethod
    def _effects_to_draw(self) -> list[Effect]:
        """List the effects of single modes and of pairs, which the report page draws; none if they are too many."""

    @property
    def n_params(self) -> int:
        """The size of the basis."""
        return len(self.theta)

    @property
    def n_iter(self) -> int:
        """The number of steps (or cycles)."""
        return self.history[-1].iteration

    @property
    def converged(self) -> bool:
        """True when the residual is at most tol."""
        return self.status.converged


def of_fit(name: str, doc: str) -> property:
    """Make a property of a result that returns the attribute `name` of its `fit`, with docstring `doc`.

    Results of tasks that hold a decomposition have several of its attributes as their own.
    """
    return property(attrgetter(f"fit.{name}"), doc=doc)


@frozen(repr=False)
class ModelResult(Result):
    """A result that is one member of a model: its parameters, its expectations, and those that it should have."""

    model: Model
    theta: FloatArray
    eta: FloatArray
    psi: float
    eta_hat: FloatArray

    @property
    def basis(self) -> IntArray:
        """The cells of B, k x N."""
        return self.model.basis

    @property
    def ties(self) -> Ties | None:
        """How the parameters of the cells are tied; ``None`` if each cell has its own parameter."""
        return self.model.ties

    @property
    def shape(self) -> Shape:
        """The shape of X."""
        return self.model.support.shape

    def _effects_to_draw(self) -> list[Effect]:
        """List the effects of single modes and of pairs, which the report page draws; none if they take too long."""
        from legendre.results.effects import effects_of

        fit: Any = self  # a decomposition or a balanced tensor
        try:
            return list(effects_of(fit, "fitted", 2, quick=True))
        except LegendreError:  # such as TooLarge; the page is then written without effects
            return []

    @cached_property
    def residual(self) -> float:
        """``max|eta - eta_hat|`` on B."""
        return float(np.abs(self.eta - self.eta_hat).max(initial=0.0))


@dataclass(frozen=True)
class Certificate:
    """What has been proved about a result: a verdict in one sentence, and the reasons, in further sentences."""

    good: bool  # whether what was asked for has been reached
    verdict: str
    words: tuple[str, ...]

    def text(self) -> str:
        """Write it as one paragraph."""
        return " ".join([self.verdict, *self.words])


def count_name(n: int) -> str:
    """Write a number of cells for a summary: its digits, or from 10^12 on as a power of ten."""
    return str(n) if n < 10**12 else size_name(n)


def cells_have(n: int) -> str:
    """Write the subject of a sentence about so many cells: "1 cell has" or "3 cells have"."""
    return f"{n:,} cell{' has' if n == 1 else 's have'}"


def rank_name(fit: Any) -> str:
    """Write the number of independent parameters for a summary; "at most" if only an upper bound is known."""
    return f"rank at most {fit.rank}" if fit.rank_is_bound else f"rank {fit.rank}"


def modes_row(labels: Labels) -> list[tuple[str, str]]:
    """Return the row "modes" of a summary: names and numbers of levels. No row if the modes have no names."""
    if labels.names is None:
        return []
    pairs = zip(labels.names, labels.shape, strict=True)
    return [("modes", shorten(", ".join(f"{name} ({size})" for name, size in pairs), 160))]


def import_pandas(caller: str) -> Any:
    """Import pandas, or raise an error that says how to install it; `caller` is the method that needs it."""
    check_installed(caller, ["pandas"], "pandas")
    return import_module("pandas")


def to_frame(columns: Mapping[str, Any], names: Sequence[str], title: str) -> Any:
    """Make a pandas data frame with a row for each name; `title` heads the index, in which the names are.

    Tables of coefficients and of comparisons are returned in this form.
    """
    pandas = import_pandas("to_frame()")
    return pandas.DataFrame(dict(columns), index=pandas.Index(names, name=title))
