"""The result of balancing: the tensor, its factors and the certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from legendre.core.cells import frozen
from legendre.core.labels import Labels
from legendre.core.origin import PLAIN, Origin
from legendre.core.text_table import NamedValues, Table, shape_name
from legendre.core.tied_parameters import Terms
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.read import TensorLike
from legendre.model.margins import Modes
from legendre.results.base import ModelResult
from legendre.results.certificate import Certificate
from legendre.results.file_format import Archive, Arrays, nested, pack_plain, read_plain
from legendre.results.file_model import pack_model, pack_origin, unpack_model, unpack_origin, unpack_point
from legendre.results.summary import modes_row
from legendre.results.views import ArrayPair
from legendre.solvers.loop import Step
from legendre.solvers.status import Status
from legendre.tasks.balance.factors import multiplied
from legendre.tasks.balance.file_check import check_face, check_tensor
from legendre.tasks.balance.margins import Margins, key_of

if TYPE_CHECKING:
    from legendre.results.plots.plots import Plots
    from legendre.results.report import ReportContent


@dataclass(frozen=True, eq=False, repr=False)
class Balanced(ModelResult):
    """The tensor with the prescribed margins that is nearest to X: ``X(v) exp(sum of theta_u, u <= v)``.

    Attributes
    ----------
    log_factors
        A mapping from modes (an integer for a one-way margin, a tuple otherwise; only sets that are not part of another
        one) to logarithms of factors. The tensor is X times all factors, except that vanishing cells are 0. Entries
        whose margin is 0 have ``-inf``.
    margin_error
        The largest absolute error of a margin, in its own units.
    residual
        ``max|eta - eta_hat|`` on the basis, for the tensor divided by its sum.
    status, converged
        How it ended: converged when each margin is met to tol times its largest entry.
    vanishing_cells
        Cells with X > 0 that are 0 in every tensor with the margins.
    basis, theta, eta, eta_hat
        The cells of B (all interactions within the margins' modes), and both coordinate systems on it.
    gap
        Upper bound of KL(Q*, Q), where Q* is the tensor with exactly these margins; infinite if the solver has no
        bound.
    solver, history, n_iter, tol
        The solver that found it, and its steps.
    X, values
        X as it was read, and the balanced tensor, as arrays of NumPy; `tensor()` gives it in the form of X.

    See Also
    --------
    balance : The nearest tensor with prescribed margins.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.balance([[1, 2], [3, 4]])
    <Balanced 2x2: CONVERGED after ... steps (matrix-scaling), largest margin error ...>
    """

    format: ClassVar[str] = "legendre-balanced"

    X: AnyArray
    margins: Margins
    values: FloatArray
    parts: dict[Modes, FloatArray]
    status: Status
    vanishing_cells: IntArray
    gap: float
    solver: str
    history: tuple[Step, ...]
    tol: float
    origin: Origin = PLAIN

    @property
    def log_factors(self) -> dict[int | Modes, FloatArray]:
        """Log factors by modes."""
        return {key_of(modes): part for modes, part in self.parts.items()}

    @property
    def factors(self) -> dict[int | Modes, FloatArray]:
        """Factors by modes: for a matrix the diagonals of D1 and D2 in ``Q = D1 X D2``."""
        with np.errstate(over="ignore"):
            return {key: np.exp(part) for key, part in self.log_factors.items()}

    def tensor(self) -> Any:
        """Return the balanced tensor in the units of the margins and the form of X."""
        return self.origin.give(self.values)

    @property
    def labels(self) -> Labels:
        """What the modes of X and their levels are called."""
        return self.origin.of(self.shape)

    @cached_property
    def margin_error(self) -> float:
        """The largest absolute error of a margin."""
        return max(self.margins.errors(self.values).values())

    @cached_property
    def kl_to_X(self) -> float:
        """KL(Q, X) in nats, both normalised: how much balancing changed X, the least that meets the margins."""
        from scipy.special import rel_entr

        tensor = self.values
        q, x = tensor / tensor.sum(), self.X / self.X.sum(dtype=np.float64)
        return max(float(rel_entr(q, x).sum()), 0.0)  # rounding may leave -1e-17

    @property
    def plot(self) -> Plots:
        """Pictures of the balanced tensor beside X, scaled to the same total: ``.margins()``, ``.slices()``, ..."""
        from legendre.results.plots.plots import Plots

        return Plots(self, self._pair())

    def _pair(self) -> ArrayPair:
        """Return X with the sum of the margins, to be compared with the balanced tensor."""

        def arrays() -> tuple[FloatArray, FloatArray]:
            scale = self.margins.total / self.X.sum(dtype=np.float64)
            return np.asarray(self.X * scale, dtype=np.float64), self.values

        return ArrayPair(self.labels, "X, scaled", "balanced", arrays=arrays, may_count=False)

    def certificate(self) -> Certificate:
        """Say in plain words what has been proved of the tensor."""
        off = f"The margins are met to {self.margin_error:.1e} in their own units"
        n = len(self.vanishing_cells)
        gone = f"{n:,} cells with X > 0 are 0 in every tensor with these margins." if n else ""
        if not self.converged:
            return Certificate(False, "The margins are not met.", (f"{off}; tol is {self.tol:g}.", self.status.value))
        unique = "Of all tensors with these margins it is the nearest to X: the minimum of KL(Q, X), which is unique."
        return Certificate(True, "The margins are met.", tuple(filter(None, (f"{off}.", unique, gone))))

    def content(self, data: TensorLike | None = None) -> ReportContent:
        """Gather what the page shows: X beside the balanced tensor, both with the same sum."""
        from legendre.results.report import ReportContent, refuse_data, shape_line

        refuse_data(data)
        return ReportContent(
            self,
            "Balanced tensor",
            f"{shape_line(self.labels)}; X is shown with the sum of the margins",
            "import legendre as ld\n\nbalanced = ld.balance(X, margins)\nbalanced.report('report.html')",
            self.labels,
            Terms(self.basis),
            self._pair(),
        )

    def tables(self) -> list[Table]:
        """List the result and its certificate."""
        wanted = ", ".join(str(key_of(modes)) for modes in self.margins.values)
        rows = [
            ("tensor", f"{shape_name(self.shape)}, {np.count_nonzero(self.X)} of {self.X.size} cells positive"),
            *modes_row(self.labels),
            ("margins", f"{wanted}; total {self.margins.total:.6g}"),
            ("KL(Q, X)", f"{self.kl_to_X:.10g}"),
            ("solver", f"{self.solver}, {self.n_iter} steps, tol {self.tol:g}"),
            ("max margin error", f"{self.margin_error:.2e}"),
            ("max|eta - eta_hat|", f"{self.residual:.2e}"),
            ("vanishing cells", str(len(self.vanishing_cells))),
            ("status", f"{self.status.name}: {self.status.value}"),
        ]
        return [NamedValues("Balanced tensor", [*rows, *(("note", note) for note in self.origin.notes)])]

    def to_arrays(self) -> Arrays:
        """List the result with X, which is its base measure."""
        arrays: Arrays = {
            **{name: array for name, array in pack_model(self.model, self.point).items() if name != "base"},
            **pack_plain(self),
            **pack_origin(self.origin),
            "X": self.X,
            "values": self.values,
            "total": self.margins.total,
            "eta_hat": self.eta_hat,
            "vanishing_cells": self.vanishing_cells,
        }
        return arrays | _by_modes("margins", self.margins.values) | _by_modes("log_factors", self.parts)

    @classmethod
    def from_arrays(cls, arrays: Archive) -> Self:
        """Put the result together again."""
        X = arrays.array("X", "iuf", arrays.shape())
        model = unpack_model(arrays, frozen(X.astype(np.float64)))
        found = cls(
            model=model,
            point=unpack_point(arrays, model),
            eta_hat=arrays.expectations("eta_hat", model.n_params),
            X=X,
            margins=Margins(_read_by_modes(arrays, "margins"), arrays.total()),
            values=arrays.floats("values", *X.shape),
            parts=_read_by_modes(arrays, "log_factors"),
            vanishing_cells=arrays.integers("vanishing_cells", None, X.ndim),
            origin=unpack_origin(arrays, X.shape),
            **read_plain(cls, arrays),
        )
        alive = check_face(arrays, found)
        with np.errstate(over="ignore", invalid="ignore"):
            check_tensor(arrays, found, multiplied(X, found.parts, alive if len(found.vanishing_cells) else None))
        return found

    def __repr__(self) -> str:
        return (
            f"<Balanced {shape_name(self.shape)}: {self.status.name} after {self.n_iter} steps ({self.solver}), "
            f"largest margin error {self.margin_error:.1e}>"
        )


def _by_modes(name: str, parts: dict[Modes, FloatArray]) -> Arrays:
    """Write arrays by the modes that they belong to, in their order: ``margins.0-2``."""
    return nested(name, {"-".join(map(str, modes)): part for modes, part in parts.items()})


def _read_by_modes(arrays: Archive, name: str) -> dict[Modes, FloatArray]:
    """Read arrays by modes, each of the lengths of its modes."""
    shape, part = arrays.shape(), arrays.part(name)
    found = {}
    for key in part.names():
        modes = tuple(int(k) for k in key.split("-"))
        if list(modes) != sorted({*modes} & {*range(len(shape))}):
            raise arrays.unfit(f"{name} of the modes {modes}")
        found[modes] = part.floats(key, *(shape[k] for k in modes), finite=False)
    if not found:
        raise arrays.damaged(f"'{name}' is missing")
    return found
