"""The acceptance table: every kind of X, in every function that takes one, gives the answer of the NumPy array.

A new kind of X is one more row of INPUTS, a new function one more row of DOORS. It is done when this file passes; what
cannot be answered has its sentence in REFUSED.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sparse
import torch
import xarray as xr
from numpy.testing import assert_allclose

import legendre as ld
from legendre.core.origin import host
from legendre.core.types import AnyArray
from oracles import FloatArray

pytestmark = pytest.mark.usefixtures("one_thread", "double_precision")
pyttb: Any = import_module("pyttb")
ROUNDING = re.compile(r"\d(\.\d+)?e-(1[3-9]|[2-9]\d)|on the \w+ engine")
"""What may differ between texts: a number that is rounding error, and where the sums are taken."""
ABOUT_LABELS = re.compile(r"\n(modes .*|note ++[^\n]*(combinations of levels|cells of X are|arranged).*(\n {6,}\S.*)*)")
"""Lines of a summary that only a labelled X has."""


@cache
def counts(shape: tuple[int, ...]) -> FloatArray:
    """Return a table of counts in which some cells are 0 and every level occurs."""
    X = np.random.default_rng(4).integers(1, 9, shape).astype(np.float64)
    X.ravel()[1::5] = 0.0
    return X


# inputs


class Place(NamedTuple):
    """Where a kind of X may leave a file, and how it changes the library for the test."""

    folder: Path
    patch: pytest.MonkeyPatch


class Input(NamedTuple):
    """How X is made of a NumPy array of whole numbers; and what arrays of the answer are, if not NumPy's."""

    make: Callable[[FloatArray, Place], Any]
    library: type | tuple[type, ...] = np.ndarray
    numbers: Callable[[Any], Any] = host  # what a labelled answer holds, in C order
    matrix: bool = False  # it has two modes always
    gap: bool = False  # its last cell is missing


def mapped(X: FloatArray, place: Place) -> AnyArray:
    np.save(place.folder / "X.npy", X)
    return np.load(place.folder / "X.npy", mmap_mode="r")  # type: ignore[no-any-return]


def listed(X: FloatArray) -> ld.SparseTensor:
    return ld.from_coords(np.argwhere(X), X[X > 0], shape=X.shape)


def framed(X: FloatArray, library: Callable[[Any], Any] = lambda frame: frame) -> ld.SparseTensor:
    """Make a data frame with a row for each event, and count it."""
    cells = np.repeat(np.argwhere(X), X[X > 0].astype(int), axis=0)
    frame = pd.DataFrame(cells, columns=[f"mode {k}" for k in range(X.ndim)])
    return ld.from_rows(library(frame.sample(frac=1.0, random_state=0)))


def names_of(X: FloatArray) -> list[str]:
    return [f"mode {k}" for k in range(X.ndim)]


def series(X: FloatArray) -> Any:
    """Make a Series with a MultiIndex, which leaves out the zeros."""
    index = pd.MultiIndex.from_product([range(n) for n in X.shape], names=names_of(X))
    flat = pd.Series(X.ravel(), index=index)
    return flat[flat > 0].sample(frac=1.0, random_state=0)


def cross_table(X: FloatArray) -> Any:
    """Make a table with the first mode in its index and all others in its columns."""
    columns = pd.MultiIndex.from_product([range(n) for n in X.shape[1:]], names=names_of(X)[1:])
    rows = pd.Index(range(X.shape[0]), name="mode 0")
    return pd.DataFrame(
        X.reshape(len(X), -1), index=rows, columns=columns if X.ndim > 2 else columns.get_level_values(0)
    )


def data_array(X: FloatArray) -> xr.DataArray:
    return xr.DataArray(X, dims=names_of(X), coords={f"mode {k}": range(n) for k, n in enumerate(X.shape)})


def as_arrow(frame: Any) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def last_column(frame: Any) -> AnyArray:
    return np.asarray(frame.to_pandas().iloc[:, -1])


INPUTS: dict[str, Input] = {
    "list of lists": Input(lambda X, _: X.tolist()),
    "float64": Input(lambda X, _: X),
    "float32": Input(lambda X, _: X.astype(np.float32)),
    "int": Input(lambda X, _: X.astype(int)),
    "Fortran order": Input(lambda X, _: np.asfortranarray(X)),
    "memory-mapped": Input(mapped),
    "masked array": Input(lambda X, _: np.ma.masked_invalid(X), gap=True),
    "SciPy COO": Input(lambda X, _: scipy.sparse.coo_array(X), matrix=True),
    "SciPy CSR": Input(lambda X, _: scipy.sparse.csr_array(X), matrix=True),
    "pydata/sparse": Input(lambda X, _: sparse.COO(X)),
    "pyttb": Input(lambda X, _: pyttb.tensor(X).to_sptensor()),
    "SparseTensor": Input(lambda X, _: listed(X)),
    "rows of pandas": Input(lambda X, _: framed(X), pd.Series, np.asarray),
    "rows of polars": Input(lambda X, _: framed(X, pl.from_pandas), pl.DataFrame, last_column),
    "rows of pyarrow": Input(lambda X, _: framed(X, as_arrow), pa.Table, last_column),
    "Series": Input(lambda X, _: series(X), pd.Series, np.asarray),
    "cross table": Input(lambda X, _: cross_table(X), (pd.DataFrame, pd.Series), np.asarray),
    "DataArray": Input(lambda X, _: data_array(X), xr.DataArray, np.asarray),
    "DataArray of dask": Input(lambda X, _: data_array(X).chunk(2), xr.DataArray, np.asarray),
    "dask": Input(lambda X, _: da.from_array(X, chunks=2)),
    "torch": Input(lambda X, _: torch.asarray(X.copy()), torch.Tensor),
    "JAX": Input(lambda X, _: jnp.asarray(X), jax.Array),
}


# doors


class Answer(NamedTuple):
    """What is compared: arrays that are of X's library, then numbers and arrays of NumPy, and a text."""

    arrays: list[Any]
    numbers: list[Any]
    text: str = ""


class Door(NamedTuple):
    """A function of X, and the shape of the X that it is tried on; matrices have its first two modes."""

    answer: Callable[[Any, Path], Answer]
    shape: tuple[int, ...] = (4, 3, 2)


def fixed(X: Any) -> ld.Decomposition:
    return ld.decompose(X, "B1 + B2(1)")


def decompose(X: Any, _: Path) -> Answer:
    fit = fixed(X)
    return Answer([], [fit.basis, fit.theta, fit.eta, fit.psi, fit.kl, fit.rmse, fit.total], fit.summary())


def adaptive(X: Any, _: Path) -> Answer:
    fit = ld.decompose(X, ld.adaptive(4))
    return Answer([fit.tensor()], [fit.basis, fit.theta, fit.kl], fit.summary())


def boxes(X: Any, _: Path) -> Answer:
    fit = ld.decompose(X, ld.boxes(2))
    return Answer([fit.tensor()], [fit.theta, fit.eta, fit.kl], fit.summary())


def unordered(X: Any, _: Path) -> Answer:
    fit = ld.decompose(X, ld.adaptive(4), unordered=[0, 1])
    order = [places for places in fit.labels.order or () if places is not None]
    said = "levels of mode 0, mode 1 arranged by the data" in fit.summary()
    return Answer([fit.tensor(), fit.eta_tensor()], [fit.basis, fit.theta, fit.kl, said, *order])


def plan(X: Any, _: Path) -> Answer:
    return Answer([], [], str(ld.plan(X, "B1 + B2(1)")))


def complete(X: Any, _: Path) -> Answer:
    done = ld.complete(X, ["empty", "B1"], folds=3, rng=1)
    assert done.cv is not None
    scores = [score.rmse for score in done.cv.scores]
    return Answer([done.tensor()], [scores, done.fit.theta, done.determined, done.observed], done.summary())


def complete_nonzero(X: Any, _: Path) -> Answer:
    """Cells that a sparse X does not list are missing."""
    done = ld.complete(X, ["empty", "B1", "adaptive(6)"], folds=3, rng=1, support="nonzero")
    return Answer([done.tensor()], [done.theta])


def balance(X: Any, _: Path) -> Answer:
    done = ld.balance(X, {0: [4, 3, 2, 1]})
    return Answer([done.tensor()], [done.theta, done.kl_to_X, done.log_factors[0]])


def complete_without_basis(X: Any, _: Path) -> Answer:
    done = ld.complete(X, folds=3)
    return Answer(
        [done.tensor(), done.fit.tensor()], [done.fit.error, list(done.fit.variances.values()), done.observed]
    )


def hidden(X: Any, _: Path) -> Answer:
    order = len(ld.plan(X, "empty").problem.model.support.shape)
    found = ld.hidden(X, ld.interactions([(k, order) for k in range(order)]), 2, restarts=2, tol=1e-5)
    return Answer([found.tensor(), found.posterior()], [found.kl, found.log_likelihood, found.fit.theta])


def compare(X: Any, _: Path) -> Answer:
    rows = ld.compare(X, [3, 5], peers=())
    scores = [[row.rmse, row.held_out, row.kl] for row in rows]
    return Answer([], [scores], repr([(row.method, row.asked, row.n_params, row.status, row.note) for row in rows]))


def ladder(X: Any, _: Path) -> Answer:
    found = ld.anova(ld.decompose(X, "empty"), ld.decompose(X, ld.interactions(1)))
    return Answer([], [found.kl, found.explained, [test.df for test in found.tests]], found.summary())


def pythagoras(X: Any, _: Path) -> Answer:
    found = ld.geometry.pythagoras(fixed(X))
    return Answer([], [found.P, found.Q, found.R, found.kl_pq, found.kl_qr, found.kl_pr, found.defect])


def inference(X: Any, _: Path) -> Answer:
    found = fixed(X).inference()
    return Answer([], [found.g2, found.x2, found.df, found.aic, found.bic, found.standard_errors], found.summary())


def marginal(X: Any, _: Path) -> Answer:
    fit = fixed(X)
    return Answer([fit.marginal([1, 0]), fit.marginal([0], given={1: 2})], [])


def tensor(X: Any, _: Path) -> Answer:
    fit = fixed(X)
    return Answer([fit.tensor(), fit.tensor(extend=True), fit.theta_tensor(), fit.eta_tensor()], [])


def save_and_load(X: Any, folder: Path) -> Answer:
    fixed(X).save(folder / "fit.npz")
    fit = ld.load(folder / "fit.npz")
    return Answer(
        [], [fit.without_labels().tensor(), fit.theta, fit.eta, fit.kl, fit.rmse, fit.residual < 1e-10], fit.summary()
    )


def loglinear(X: Any, _: Path) -> Answer:
    found = ld.loglinear(X, ".")
    return Answer([], [found.g2, found.x2, found.df, found.aic, found.coef().estimate])


DOORS: dict[str, Door] = {
    "decompose": Door(decompose),
    "adaptive": Door(adaptive),
    "boxes": Door(boxes),
    "unordered": Door(unordered),
    "plan": Door(plan),
    "complete": Door(complete),
    "complete of cells > 0": Door(complete_nonzero),
    "balance": Door(balance),
    "complete without a basis": Door(complete_without_basis),
    "hidden": Door(hidden),
    "compare": Door(compare),
    "ladder": Door(ladder),
    "pythagoras": Door(pythagoras),
    "inference": Door(inference),
    "loglinear": Door(loglinear),
    "marginal": Door(marginal),
    "tensor": Door(tensor),
    "save": Door(save_and_load),
}
REFUSED: dict[tuple[str, str], str] = {
    ("masked array", "loglinear"): r"the count of \[3, 2, 0\] is NaN",
    ("masked array", "balance"): r"X has 2 entries that are NaN; the first is X\[3, 2, 0\]\.",
}
"""The sentences of the pairs that have no answer."""


# the table


@cache
def wanted_of(door: str, matrix: bool, gap: bool, folder: Path) -> Answer:
    """Give the answer for the NumPy array; `save` writes to `folder`."""
    return DOORS[door].answer(tensor_of(door, matrix, gap), folder)


def tensor_of(door: str, matrix: bool, gap: bool) -> FloatArray:
    X = counts(DOORS[door].shape[: 2 if matrix else None]).copy()
    if gap:
        X[-1, -1] = np.nan
    return X


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wanted")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", INPUTS)
def test_the_table(kind: str, door: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, given = DOORS[door].answer, INPUTS[kind]
    X = tensor_of(door, given.matrix, given.gap)
    if (kind, door) in REFUSED:
        with pytest.raises(ld.LegendreError, match=REFUSED[kind, door]):
            answer(given.make(X, Place(tmp_path, monkeypatch)), tmp_path)
        return
    wanted = wanted_of(door, given.matrix, given.gap, folder)
    found = answer(given.make(X, Place(tmp_path, monkeypatch)), tmp_path)
    assert ABOUT_LABELS.sub("", ROUNDING.sub("", found.text)) == ROUNDING.sub("", wanted.text)
    for array, same in zip(found.arrays, wanted.arrays, strict=True):
        assert isinstance(array, given.library)
        numbers = given.numbers(array)
        if kind == "cross table" and numbers.shape == same.shape[::-1]:  # the modes of its index stay there
            numbers = numbers.T
        assert numbers.dtype == np.float64
        assert_allclose(numbers.reshape(same.shape), same, rtol=1e-9, atol=1e-9)
    for number, same in zip(found.numbers, wanted.numbers, strict=True):
        assert_allclose(np.asarray(number, float), np.asarray(same, float), rtol=1e-9, atol=1e-9)


def test_sentences_are_of_pairs_that_exist() -> None:
    assert all(kind in INPUTS and door in DOORS for kind, door in REFUSED)


NAIVE = ld.interactions([(0, 2), (1, 2)])
TASKS: dict[str, Callable[[Any], Any]] = {
    "complete": lambda X: ld.complete(X, "B1"),
    "balance": ld.balance,
    "hidden": lambda X: ld.hidden(X, NAIVE, 2, restarts=1, tol=1e-3),
}
UNFIT: dict[str, tuple[Any, str]] = {
    "a large sparse tensor": (
        ld.from_coords([[0, 0], [5, 7]], [1, 2], shape=(10_000, 10_000)),
        r"^{task} needs every cell of X in memory, but X is sparse of shape \(10000, 10000\)",
    ),
    "a large dask array": (
        da.ones((10_000, 10_000), chunks=5_000, dtype="u1"),
        r"^{task} needs every cell of X in memory, but X is a dask array of shape \(10000, 10000\)",
    ),
    "sparse with NaN": (
        scipy.sparse.coo_array(([1.0, np.nan], ([0, 1], [1, 0]))),
        r"X\.data\[1\] = nan, the value of cell \[1, 0\]\. .* Leave the entry out",
    ),
    "torch sparse": (torch.eye(3).to_sparse(), r"cannot be read .* pass X\.to_dense\(\)"),
    "ragged": ([[1, 2], [3]], "not a rectangular array"),
    "text": (np.array([["a", "b"]]), "entries must be numbers"),
    "infinite": (np.array([[1, np.inf], [1, 1]]), r"1 infinite entries, the first at X\[0, 1\]"),
    "zero": (scipy.sparse.coo_array((3, 3)), "X is zero everywhere"),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", UNFIT)
def test_what_is_refused_is_refused_by_all_tasks_alike(kind: str, task: str) -> None:
    X, text = UNFIT[kind]
    with pytest.raises(ld.errors.InvalidTensor, match=text.format(task=task)):
        TASKS[task](X)


@pytest.mark.parametrize("task", TASKS)
def test_results_of_another_library_are_saved_and_read(task: str, tmp_path: Path) -> None:
    done = TASKS[task](torch.asarray(counts((4, 3)).copy()))
    done.save(tmp_path / "result.npz")
    again = ld.load(tmp_path / "result.npz")
    assert_allclose(again.tensor(), host(done.tensor()), rtol=0)
    assert_allclose(again.eta, done.eta, rtol=0)
