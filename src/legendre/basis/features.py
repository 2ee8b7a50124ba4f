"""Tied parameters: `features`, where any function of cells has a parameter, and `Tied`, which all tied bases use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from sys import float_info

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, TieableBasis
from legendre.basis.interactions import look_up_modes, mode_sets
from legendre.core.errors import InvalidBasis, LegendreError
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room
from legendre.core.origin import Origin, read_array
from legendre.core.sums.zeta import moebius
from legendre.core.tied_parameters import Column, Terms, box_corners, column_terms
from legendre.core.types import AnyArray, FloatArray, IntArray, frozen
from legendre.data.observation import Observation
from legendre.data.read import align_with

Feature = ArrayLike | Callable[..., ArrayLike]
Columns = Callable[[str, Labels], Iterable[Column]]  # features of a basis, from its name and the labels of its modes


@frozen
class Tied(TieableBasis):
    """A basis of some modes whose parameters act on several cells at once."""

    name: str  # of the builder, for messages
    modes: tuple[Mode, ...]  # empty: all modes
    columns: Columns = field(repr=False)
    arguments: str = ""  # the arguments of the builder, as a caller writes them
    within: tuple[Mode, ...] = ()  # modes: each of their levels has its own parameters

    def terms(self, data: Observation) -> Terms:
        """List the parameters on the grid of X: the feature of each is a sum of features of cells, with coefficients.

        `columns` lists cells of the modes `modes` only. Coordinates of all other modes are 0, so that a parameter acts
        on all of their levels equally. With `within`, each combination of levels of those modes gets parameters of its
        own: the features are multiplied by the indicator of that combination.
        """
        order, labels = data.n_modes, data.labels
        modes, within = look_up_modes(self.name, [self.modes, self.within], order, labels)
        modes = modes if self.modes else tuple(range(order))
        # modes without names keep their numbers
        labels_of_modes = replace(labels.part(modes), names=tuple(map(labels.mode, modes)))
        lengths = np.array([labels.shape[k] for k in within], dtype=np.int64)
        columns = []
        for levels in np.ndindex(*lengths):  # once, with no levels, if there are no modes in `within`
            inside = ", ".join(f"{labels.mode(k)} {labels.level(k, i)}" for k, i in zip(within, levels, strict=True))
            # The indicator of these levels is a sum of features of cells, with signs. The product of two features is
            # that of the join, and here the cells have their non-zero coordinates in different modes: set both.
            low = np.array(levels, dtype=np.int64)
            corners, signs = box_corners(low, low + 1, lengths)
            for cells, coefficients, name in self.columns(self.name, labels_of_modes):
                joins = np.zeros((len(corners), len(cells), order), dtype=np.int64)
                joins[:, :, modes] = cells
                joins[:, :, within] = corners[:, None]
                if within:
                    title = name or ", ".join(labels_of_modes.from_on(k, int(u)) for k, u in enumerate(cells[0]) if u)
                    name = f"{inside}: {title}"
                columns.append((joins.reshape(-1, order), np.outer(signs, coefficients).ravel(), name))
        return column_terms(columns, order)

    def __repr__(self) -> str:
        """Write the basis as the builder was called; recipes, reports and errors show it."""
        return ":".join([*map(repr, self.within), f"{self.name}({self.arguments})"])


def features(functions: Mapping[str, Feature], *, modes: Sequence[Mode] | Mode | None = None) -> Basis:
    """Give each of some functions of cells a parameter: ``beta_j f_j`` is added to ``log q``.

    Parameters
    ----------
    functions
        By name: arrays of real numbers that broadcast to X's shape; or functions that are called with one array of
        levels for each mode (labels, or indices if there are none), the k-th along the k-th axis.
    modes
        The modes that the functions depend on, if not all: their axes or arguments, in the order given.

    Notes
    -----
    Normalisation removes constants, so a feature's value at the first cell of X is subtracted from it: theta does not
    change, and eta is the expectation minus that value. Features may depend on each other linearly; `rank` says how
    many are independent.

    See Also
    --------
    interactions : All parameters of sets of modes.
    legendre.ties.uniform : A feature that is a product of levels.

    Examples
    --------
    >>> import legendre as ld
    >>> near = ld.features({"near": lambda i, j: abs(i - j) <= 1})
    >>> fit = ld.decompose([[8, 4, 1], [4, 6, 4], [1, 4, 8]], ld.interactions(1) | near)
    >>> fit.n_params, fit.parameters().names[-1], round(float(fit.theta[-1]), 4)
    (5, 'near', 1.9304)
    """
    if not isinstance(functions, Mapping) or not all(isinstance(name, str) and name for name in functions):
        raise InvalidBasis(
            f"features: pass a dict of names and functions or arrays, such as {{'near': lambda i, j: abs(i - j) < 2}}; "
            f"got {functions!r}."
        )
    group = () if modes is None else mode_sets("features", [[modes] if isinstance(modes, (int, str)) else modes])[0]
    among = f", modes={list(group)}" if group else ""
    arguments = f"{{{', '.join(map(repr, functions))}}}{among}"
    return Tied("features", group, partial(_list_features, dict(functions)), arguments)


def _list_features(functions: dict[str, Feature], caller: str, labels: Labels) -> Iterator[Column]:
    """Evaluate the functions on the levels of their modes; yield each as a sum of features of cells (a `Column`)."""
    check_room(math.prod(labels.shape), 24, "features: a table of the modes", "Name fewer modes: modes=[...].")
    for name, f in functions.items():
        table = tabulate(f, labels, f"{caller}[{name!r}]")
        if not np.isfinite(table).all():
            raise InvalidBasis(f"{caller}[{name!r}] is not finite everywhere. Leave cells out with support=.")
        yield *corners(table), name


def corners(table: FloatArray) -> tuple[IntArray, FloatArray]:
    """Write a table as a sum of features ``1[v >= u]`` of cells u: return the cells (n x modes) and coefficients (n,).

    This is Möbius inversion; terms whose coefficient is 0 up to rounding are left out.

    >>> [part.tolist() for part in corners(np.array([[0.0, 0.0], [0.0, 1.0]]))]
    [[[1, 1]], [1.0]]
    """
    inverse = moebius(table)
    # differences below this are the rounding errors of the table's values
    rounding = 8 * float_info.epsilon * float(np.abs(table).max(initial=0.0))
    inverse[np.abs(inverse) <= rounding] = 0.0
    cells = np.argwhere(inverse)
    return cells.astype(np.int64), inverse[tuple(cells.T)]


def tabulate(f: Feature, labels: Labels, name: str, error: type[LegendreError] = InvalidBasis) -> AnyArray:
    """Evaluate a caller's function, or read a caller's array, as a table with an entry for each cell of its modes.

    It reads features, and what `Decomposition.expectation` takes the mean of. The table has the modes' internal order
    of levels, which may differ from that of the caller's X. Errors, of type `error`, call the caller's value `name`.
    """
    shape, table, modes = labels.shape, f, ", ".join(labels.mode(k) for k in range(labels.n_modes))
    if callable(f):  # with the levels of mode k along axis k, so that the results broadcast
        levels = [labels.levels_of(k) for k in range(len(shape))]
        try:
            table = f(*np.meshgrid(*levels, indexing="ij", sparse=True))
        except TypeError as problem:
            raise error(
                f"{name} is called with the levels of {modes}, {len(shape)} in all ({problem}). Name the modes that it "
                "depends on."
            ) from problem
    found = read_array(align_with(table, Origin(labels.restore_order()), name), name, error)
    if found.dtype.kind not in "biuf":
        raise error(f"{name} has dtype {found.dtype}; it must hold real numbers.")
    try:
        values = np.broadcast_to(found, shape).astype(np.float64)
    except ValueError:
        raise error(
            f"{name} has shape {found.shape}, where {shape} is expected: one entry for each level of {modes}."
        ) from None
    return values if callable(f) else labels.arrange(values)  # a function was called with levels in order
