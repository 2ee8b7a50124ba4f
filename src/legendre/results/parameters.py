"""The table of parameters: what each one acts on, its standard error, and how much KL(P, Q) rises without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from legendre.core import limits
from legendre.core.arguments import check_choice, check_int, check_name
from legendre.core.cells import freeze
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
from legendre.core.text import Printed, Table, shorten
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.results.base import import_pandas
from legendre.results.inference.counts import why_no_inference
from legendre.results.inference.estimates import OPEN, Information, information
from legendre.solvers.structure.faces import theta_at_limit

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Asked = Literal["auto", "refit", "estimate"]
FEW_REFITS = 100  # parameters up to which a table of them may fit the model again without each in turn
QUICK_COVARIANCE = 3_000  # parameters up to which the Fisher matrix is inverted even if the user did not ask (2 s)
COLUMNS = ("theta", "factor", "eta", "eta_hat", "standard_error", "kl_lost")


@frozen(repr=False)
class Parameters(Printed):
    """The table of parameters: for each its name, theta, eta, standard error, and how much the fit loses without it.

    A parameter multiplies the probability of every cell at or above its own by `factor`: ``hour >= 8, dest >= SFO``
    acts on hour 8 and later together with SFO and the levels after it. Modes in which the parameter acts on all levels
    are not named.

    Attributes
    ----------
    names
        Each parameter in words: the levels on which it acts.
    labels, cells
        Names of modes and levels; the cell of each parameter, in the order of the rows: -1 in every mode for a tied
        one, which acts on several cells.
    theta, factor
        Natural parameters, infinite where they diverge, and ``exp(theta)``.
    eta, eta_hat
        The probability of all cells at or above the parameter's cell, in Q and in X; they are equal at the minimum. For
        a box: the probability of its cells. For other tied parameters: the mean of the feature minus its value at the
        first cell. (`Decomposition.eta` subtracts that value for boxes too: 1 for a box that holds the first cell.)
    standard_error
        For counts. NaN for other tensors, and where `notes` says why.
    kl_lost
        How much KL(P, Q) rises if the parameter is left out and the others are refitted, in nats.
    exact
        True if `kl_lost` comes from refitting. False if it is estimated from the curvature of KL at the minimum,
        ``theta^2 / (2 v)``, where v is the parameter's entry on the diagonal of the inverse Fisher matrix. The estimate
        is off by up to 15 % where theta is within 0.5 of 0, by 30 % within 1, and beyond 3 it is a tenth to three times
        the truth.
    notes
        For each parameter the reason why it has no standard error, or an empty string.

    See Also
    --------
    legendre.results.Effects : What each mode and each set of modes does.
    legendre.results.Inference : Standard errors and tests of fit.

    Examples
    --------
    >>> import legendre as ld
    >>> table = ld.decompose([[18, 7], [6, 19]], ld.full()).parameters()
    >>> print(table.sorted_by("kl_lost"))
    3 parameters
    parameter                theta  factor   s.e.   eta  KL lost
    mode 0 = 1, mode 1 = 1     2.1    8.14  0.646  0.38     0.12
    mode 0 = 1                -1.1   0.333  0.471   0.5   0.0628
    mode 1 = 1              -0.944   0.389  0.445  0.52   0.0501
    """

    names: tuple[str, ...]
    labels: Labels
    cells: IntArray
    theta: FloatArray
    eta: FloatArray
    eta_hat: FloatArray
    standard_error: FloatArray
    kl_lost: FloatArray
    exact: bool
    notes: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of parameters in the table."""
        return len(self.theta)

    @property
    def factor(self) -> FloatArray:
        """The factor by which each parameter multiplies the probability of the cells at or above its own."""
        with np.errstate(over="ignore"):
            return np.exp(self.theta)

    def sorted_by(self, column: str) -> Parameters:
        """Return the same rows, those with the largest absolute values in a column first, those without one last.

        Factors are sorted by the absolute value of theta, so that a factor of 1/8 counts as much as one of 8.
        """
        check_name("column of parameters", column, COLUMNS, InvalidQuery)
        sizes = np.abs(getattr(self, "theta" if column == "factor" else column))
        # NaN is sorted as -1, below every absolute value
        return self[np.argsort(-np.where(np.isnan(sizes), -1.0, sizes), kind="stable")]

    def __getitem__(self, rows: int | slice | Sequence[int] | IntArray) -> Parameters:
        """Return the table of some rows, given as an index of a NumPy array: a number, a slice, a list or a mask."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        parts: dict[str, Any] = {}
        for name, values in vars(self).items():
            if isinstance(values, np.ndarray):  # every array has an entry for each row
                parts[name] = freeze(values[chosen])
            elif name in ("names", "notes"):
                parts[name] = tuple(values[i] for i in chosen)
        return replace(self, **parts)

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, with a column for the level of each mode (up to 32 modes)."""
        pandas = import_pandas("parameters().to_frame()")
        columns: dict[str, Any] = {"parameter": list(self.names)}
        if self.labels.n_modes <= limits.MOST_AXES:
            for k, cells in enumerate(self.cells.T):
                levels = self.labels.levels_of(k)[cells]
                # tied parameters have no single cell: -1, which has no level
                columns[self.labels.mode(k)] = levels if (cells >= 0).all() else np.where(cells < 0, None, levels)
        columns |= {name: getattr(self, name) for name in COLUMNS}
        return pandas.DataFrame(columns | {"note": list(self.notes)})

    def tables(self, rows: int = 15) -> list[Table]:
        """List one table, of the first `rows` parameters; reasons why some have no standard error are its notes.

        A column in which all entries are NaN is left out.
        """
        check_int(rows, "parameters().summary: rows", 1)
        head = f"{len(self):,} parameter{'s' if len(self) != 1 else ''}"
        if not len(self):
            return [Table("", [[head]], "<")]
        shown = {"theta": self.theta, "factor": self.factor, "s.e.": self.standard_error, "eta": self.eta}
        shown["KL lost" if self.exact else "KL lost (estimate)"] = self.kl_lost
        columns = [["parameter", *(shorten(name, 60) for name in self.names[:rows])]]
        for name, values in shown.items():
            if not np.isnan(values).all():
                columns.append([name, *("" if math.isnan(v) else f"{v:.3g}" for v in values[:rows])])
        left = len(self) - rows
        more = [f"... and {left:,} more: sorted_by(...), to_frame(), summary(rows=...)"] if left > 0 else []
        reasons = dict.fromkeys(note for note in self.notes if note)
        notes = [f"{self.notes.count(why):,} without s.e.: {why}." for why in reasons]
        return [Table(head, list(zip(*columns, strict=True)), "<>", notes=[*more, *notes])]

    def summary(self, rows: int = 15) -> str:
        """Return the first rows as text; `sorted_by` chooses which come first."""
        return self.tables(rows)[0].text()


def parameters_of(fit: Decomposition, kl_lost: Asked | None) -> Parameters:
    """Make the table of a fit's parameters, for `Decomposition.parameters`.

    Standard errors, and estimates of `kl_lost`, need the inverse Fisher matrix. It is computed for few parameters, or
    if the caller asks for estimates. An exact `kl_lost` takes one fit for each parameter, which "auto" makes if that is
    quick. If neither is computed, the column is NaN.
    """
    if kl_lost is not None:
        check_choice(kl_lost, "parameters: kl_lost", get_args(Asked))
    refits = kl_lost == "refit" or (kl_lost == "auto" and _quick_to_refit(fit))
    inverted = fit.n_params <= QUICK_COVARIANCE or kl_lost == "estimate"
    found = information(fit) if inverted else None  # the covariance of theta, and which parameters have none
    reasons = ("",) * fit.n_params if found is None else found.reasons
    lost, errors = np.full((2, fit.n_params), np.nan)
    if refits:
        every = np.arange(fit.n_params)
        lost = np.array([max(fit._fit_part(np.delete(every, i)).kl - fit.kl, 0.0) for i in every.tolist()])
    elif found is not None and kl_lost is not None:
        # KL is about quadratic near its minimum: it rises by theta^2 / (2 v), where v is the entry on the diagonal of
        # the inverse Fisher matrix of one observation (half the squared Wald statistic, divided by the sum of X)
        variances = np.diagonal(found.covariance()) * fit.total
        # without a parameter that is not identified, the others give the same Q
        lost = np.where(np.array(reasons) == OPEN, 0.0, fit.theta**2 / (2.0 * variances))
    why_none = _explain_no_errors(fit, found)
    if not why_none and found is not None:
        errors = np.sqrt(np.diagonal(found.covariance()))
    short = fit.model.terms.as_ties().shortfall  # from eta of a box to its probability: 1 if it holds the first cell
    return Parameters(
        names=fit.model.terms.name_all(fit.labels, np.arange(fit.n_params)),
        labels=fit.labels,
        cells=fit.model.terms.single_cells(),
        theta=freeze(theta_at_limit(fit.theta, fit.recession)),
        eta=freeze(fit.eta + short),
        eta_hat=freeze(fit.eta_hat + short),
        standard_error=freeze(errors),
        kl_lost=freeze(lost),
        exact=refits,
        notes=tuple(reason or why_none for reason in reasons),
    )


def _quick_to_refit(fit: Decomposition) -> bool:
    """Decide whether fits without each parameter in turn would take less than about a second in all.

    A fit reads X once, and then sweeps the merged grid a few times.
    """
    if fit.data is None or fit.n_params > FEW_REFITS:
        return False
    entries = fit.data.entries
    read = math.prod(fit.shape) if entries is None else len(entries.values)
    # one reading of X, or one sweep, for each fit: 2^24 visits of cells take a tenth of a second or two
    return fit.n_params * max(read, fit.model.additions) <= 1 << 24


def _explain_no_errors(fit: Decomposition, found: Information | None) -> str:
    """Return the reason why no parameter of this fit has a standard error, or "" if the fit has standard errors.

    Standard errors treat X as counts and theta as the maximum likelihood estimate. `found` is None if the Fisher matrix
    was not inverted, because it is large and the caller did not ask for it.
    """
    if why := why_no_inference(fit):
        return why
    if not fit._observed.counts:
        return "X does not hold counts"
    if found is None:
        return (
            f"a matrix of {fit.n_params:,} x {fit.n_params:,} would have to be inverted; ask for "
            'parameters(kl_lost="estimate")'
        )
    if not fit._observed.origin.counted and fit.inference()._varies_too_little():
        return "X varies less than counts do, see inference().scaled(); if it holds counts: counts=True"
    return ""
