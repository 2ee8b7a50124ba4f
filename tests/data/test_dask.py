"""Tensors as dask arrays: the same answers as from memory, however X is cut, and whoever reads the blocks."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.basis.basis import cells
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray
from legendre.data.dask import observe_blocks
from legendre.data.dense import observe
from legendre.data.observation import Support
from legendre.engines.choose import choose_engine
from legendre.model.model import Model, Packed
from oracles import FloatArray, IntArray

pytestmark = pytest.mark.usefixtures("one_thread")

# monkeypatch is undone only after all examples of a test, which is what is wanted here
PATCHED = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
BASES = ["B1 + B2(2) + B3(1)", "B1", "B3(3)", "B3(1, axis=0) + B3(2)", "interactions(2)", "empty"]
CHUNKS = (4, 3, 5)  # of 7 x 5 x 6 cells: every mode is cut


@pytest.fixture(autouse=True)
def _in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


@st.composite
def cut(draw: st.DrawFn, zeros: bool = True) -> tuple[AnyArray, Any]:
    """Draw whole numbers with many ties, and the same cut into blocks somehow."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0 if zeros else 1, 4, size=shape).astype(np.float64)
    X[tuple(rng.integers(0, shape))] += 1
    chunks = tuple(_pieces(draw, length) for length in shape)
    return X, da.from_array(X, chunks=chunks)


def _pieces(draw: st.DrawFn, length: int) -> tuple[int, ...]:
    inner = draw(st.lists(st.integers(0, length), max_size=3)) if length > 1 else []
    return tuple(np.diff([0, *sorted(inner), length]).tolist())


def ordered(cells: IntArray) -> IntArray:
    return cells[np.lexsort(cells.T[::-1])]


@st.composite
def gaps(draw: st.DrawFn, X: AnyArray) -> tuple[AnyArray, dict[str, Any]]:
    """Draw what leaves cells out: missing entries, zeros, a mask, a base measure with zeros; a cell with data stays."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kept = X.max() == X
    arguments: dict[str, Any] = {}
    if draw(st.booleans()):
        X = np.where((rng.random(X.shape) < 0.3) & ~kept, np.nan, X)
    if draw(st.booleans()):
        arguments["support"] = draw(st.sampled_from(["nonzero", (rng.random(X.shape) < 0.7) | kept]))
    if draw(st.booleans()):
        arguments["base"] = np.where(rng.random(X.shape) < 0.2, X > 0, rng.integers(1, 4, size=X.shape)).astype(float)
    return X, arguments


def in_blocks(chunks: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Turn arrays among some arguments into dask arrays."""
    return {
        name: da.from_array(value, chunks=chunks) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


@settings(max_examples=30, deadline=None)
@given(st.data(), cut(), st.integers(1, 5), st.booleans(), st.integers(0, 2**32 - 1))
def test_every_question_has_the_answer_of_the_array_in_memory(
    drawn: st.DataObject, both: tuple[AnyArray, Any], count: int, told: bool, seed: int
) -> None:
    chunks = both[1].chunks
    X, arguments = drawn.draw(gaps(both[0]))
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(X.ndim))
    blocks = da.from_array(X, chunks=chunks)
    data = observe_blocks(blocks, **in_blocks(chunks, arguments), ranked=((axis, count),) if told else ())
    dense = observe(X, **arguments)
    cells = rng.integers(0, X.shape, size=(7, X.ndim))
    quotient, _ = Quotient.of(X.shape, cells)
    assert (data.shape, data.total, data.positive, data.counts) == (X.shape, dense.total, dense.positive, True)
    assert (data.support.n_cells, data.n_numbers) == (dense.support.n_cells, dense.n_numbers)
    assert_array_equal(data.support.contains(cells), dense.support.contains(cells))
    assert_array_equal(data.support.merge(quotient, data.base), dense.support.merge(quotient, dense.base))
    assert_array_equal(data.merged(quotient), dense.merged(quotient))
    boxes = quotient.boxes(cells)
    if data.support.full and data.base is None:
        for found, margin in zip(data.margins(quotient), dense.margins(quotient), strict=True):
            assert_array_equal(found, margin)
        above = [X[tuple(slice(c, None) for c in cell)].sum() for cell in cells]
        assert_array_equal(data.above(quotient, boxes), above)
    assert_array_equal(data.at(cells), dense.at(cells))
    assert len(data.at(cells[:0])) == 0
    assert_array_equal(ordered(data.largest(count, axis)), ordered(dense.largest(count, axis)))
    assert data.negentropy == pytest.approx(dense.negentropy, abs=1e-14)
    held = data.as_dense()
    assert held is not None
    assert_array_equal(held.support.on_grid(), dense.support.on_grid())


def compare(blocks: Any, X: AnyArray, basis: str, chunks: Any = CHUNKS, **arguments: Any) -> None:
    fit, twin = ld.decompose(blocks, basis, **in_blocks(chunks, arguments)), ld.decompose(X, basis, **arguments)
    assert (fit.status, fit.rank, fit.model.support.n_cells) == (twin.status, twin.rank, twin.model.support.n_cells)
    assert_array_equal(fit.basis, twin.basis)
    assert_allclose(fit.theta, twin.theta, atol=1e-8)
    assert_allclose(fit.tensor(), twin.tensor(), rtol=1e-9)
    assert_allclose(fit.log_prob(fit.basis), twin.log_prob(fit.basis), atol=1e-9)
    assert_allclose(fit.marginal(0), twin.marginal(0), atol=1e-9)
    assert fit.kl == pytest.approx(twin.kl, abs=1e-9)
    assert fit.rmse == pytest.approx(twin.rmse, rel=1e-9)
    assert ("missing" in str(fit)) == ("missing" in str(twin))


@pytest.mark.parametrize("grid", [1 << 24, 0])
@pytest.mark.parametrize("basis", BASES)
def test_fits(basis: str, grid: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_MASS", grid)
    X = rng.gamma(2.0, size=(7, 5, 6))
    compare(da.from_array(X, chunks=CHUNKS), X, basis)


def test_margins_of_a_grid_too_large_to_form(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """The closed form was chosen, but X had not been summed onto its tables, so that the fit was refused."""
    for name in ("CLIQUES_FROM", "CLIQUES_GAIN", "LARGEST_MASS"):
        monkeypatch.setattr(f"legendre.core.limits.{name}", 0)
    X = rng.gamma(2.0, size=(7, 5, 6))
    for sets, solver in (([(0, 2), (1, 2)], "closed"), ([(0, 1), (1, 2), (0, 2)], "natural")):
        fit = ld.decompose(da.from_array(X, chunks=CHUNKS), ld.interactions(sets))
        assert (fit.solver, fit.converged) == (solver, True)
        for modes in sets:
            axis = tuple({0, 1, 2} - set(modes))
            assert_allclose(fit.tensor().sum(axis=axis), X.sum(axis=axis), rtol=1e-9)


@pytest.mark.parametrize(
    ("basis", "dtype"), [*((basis, "float64") for basis in BASES), (BASES[0], "float32"), (BASES[0], "int16")]
)
def test_fits_with_gaps(basis: str, dtype: str, rng: np.random.Generator) -> None:
    """Missing entries, zeros that do not count, masks and base measures, each alone and all together."""
    X = (rng.gamma(2.0, size=(7, 5, 6)) * 10 + 1).astype(dtype)
    zeros = np.where(rng.random(X.shape) < 0.2, 0, X).astype(dtype)
    mask, base = rng.random(X.shape) < 0.8, rng.gamma(3.0, size=X.shape)
    if dtype != "int16":
        X = np.where(rng.random(X.shape) < 0.1, np.nan, X).astype(dtype)
    blocks = da.from_array(X, chunks=CHUNKS)
    compare(blocks, X, basis)
    compare(blocks, X, basis, support=mask, base=base)
    compare(da.from_array(zeros, chunks=CHUNKS), zeros, basis, support="nonzero")
    fit = ld.decompose(blocks, basis, support=mask, base=base)  # arrays of NumPy beside one of dask
    assert_allclose(fit.theta, ld.decompose(X, basis, support=mask, base=base).theta, atol=1e-8)


@pytest.mark.parametrize("basis", ["B1", "B3(1)", "interactions(2)", "B1 + B2(2) + B3(1)"])
def test_a_large_grid_with_gaps_is_swept_with_its_mask_as_bits(
    basis: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Two numbers for each cell were held, and 8 GB with gaps were refused where memory is 2 GB."""
    for name in ("LARGEST_MASS", "NUMPY_CELLS", "SHORT_MODE_CELLS"):
        monkeypatch.setattr(f"legendre.core.limits.{name}", 0)
    for shape, chunks in (((7, 12, 5, 6), (3, 5, 5, 4)), ((9, 11), (4, 4)), ((40, 1), (9, 1))):
        X = rng.gamma(2.0, size=shape)
        X[rng.random(shape) < 0.15] = np.nan
        X[: shape[0] // 2] = rng.gamma(2.0, size=X[: shape[0] // 2].shape)  # blocks without gaps
        X.ravel()[0] = np.nan  # the bottom: it takes a Fisher matrix to see which parameters are independent
        blocks = da.from_array(X, chunks=chunks)
        compare(blocks, X, basis)
        model, twin = ld.plan(blocks, basis).problem.model, ld.plan(X, basis).problem.model
        assert isinstance(model, Packed)
        assert model.n_alive == twin.n_alive
        assert_array_equal(model.weights, twin.weights)
        assert_array_equal(model.carries(twin.positions), twin.carries(twin.positions))


@pytest.mark.parametrize("share", [0.0, 0.15])
def test_more_pairs_than_a_matrix_holds(
    share: float, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """All pairs of 8 GB, with more than 10,000 parameters, were refused."""
    for name in ("LARGEST_MASS", "LARGEST_GRID", "LARGEST_MATRIX"):
        monkeypatch.setattr(f"legendre.core.limits.{name}", 0)
    X = rng.gamma(2.0, size=(5, 9, 4))
    X[rng.random(X.shape) < share] = np.nan
    blocks = da.from_array(X, chunks=CHUNKS)
    compare(blocks, X, "interactions(2)", tol=1e-13)
    assert "tables engine" in repr(ld.plan(blocks, "interactions(2)"))


def test_a_fit_with_gaps_is_saved_and_loaded(tmp_path: Path, rng: np.random.Generator) -> None:
    X = np.where(rng.random((6, 5)) < 0.2, np.nan, rng.random((6, 5)) + 0.1)
    fit = ld.decompose(
        da.from_array(X, chunks=3),
        "B1",
        base=da.from_array(X[::-1] * 0 + 2, chunks=3).map_blocks(np.nan_to_num, nan=1.0),
    )
    fit.save(tmp_path / "fit.npz")
    again = ld.load(tmp_path / "fit.npz")
    assert_allclose(again.tensor(), fit.tensor(), rtol=1e-12)
    assert_array_equal(again.model.support.mask, ~np.isnan(X))


def test_more_than_a_quarter_of_a_billion_cells() -> None:
    """Every dask array above 2^28 cells was refused as "a view that repeats 1 numbers"."""
    X = da.ones((1000, 1000, 269), chunks=(250, 250, 269))
    with pytest.raises(ld.errors.InvalidSupport, match="support has shape"):  # what is checked next, before X is read
        ld.decompose(X, "B1", support=da.ones((3, 3), dtype=bool))


def test_a_basis_is_grown_on_a_coarser_grid(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    X = rng.poisson(5.0, size=(12, 10, 8)).astype(float)
    X[6:, 4:] += 20
    blocks = da.from_array(X, chunks=(5, 4, 8))
    fine = ld.decompose(blocks, ld.adaptive(6))
    assert_array_equal(fine.basis, ld.decompose(X, ld.adaptive(6)).basis)
    monkeypatch.setattr("legendre.core.limits.COARSE_BOXES", 100)
    fit = ld.decompose(blocks, ld.adaptive(10, include="B3(1, axis=2)", candidates=cells([[6, 4, 0], [3, 3, 3]])))
    assert fit.converged
    assert [6, 4, 0] in fit.basis.tolist()
    assert fit.path[-1].kl == fit.kl


def counted(X: AnyArray, chunks: tuple[int, ...], reads: list[int]) -> Any:
    """Cut X into blocks that tell when they are read."""

    def see(block: AnyArray) -> AnyArray:
        reads.append(block.size)
        return block

    return da.from_array(X, chunks=chunks).map_blocks(see, dtype=X.dtype, meta=np.empty((0,) * X.ndim))


def test_x_is_read_twice(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_MASS", 0)
    reads: list[int] = []
    X = rng.gamma(2.0, size=(8, 6, 5))
    fit = ld.decompose(counted(X, (3, 6, 5), reads), "B1 + B2(2) + B3(1) + B3(2, axis=0)")
    assert (len(reads), sum(reads)) == (2 * 3, 2 * X.size)
    assert min(fit.rmse, fit.kl) > 0
    assert len(reads) == 4 * 3
    reads.clear()
    ld.decompose(counted(X, (3, 6, 5), reads), "B1")
    assert len(reads) == 3


@pytest.mark.parametrize("workers", [2, 5])
def test_threads_give_the_same_bits(workers: int, rng: np.random.Generator) -> None:
    X = da.from_array(rng.gamma(2.0, size=(20, 15, 12)), chunks=(3, 4, 5))
    twin = ld.decompose(X, "B1 + B2(3) + B3(2)")
    for _ in range(3):
        with dask.config.set(scheduler="threads", num_workers=workers):
            fit = ld.decompose(X, "B1 + B2(3) + B3(2)", progress=True)
        assert_array_equal(fit.theta, twin.theta)
        assert pickle.loads(pickle.dumps(fit)).kl == twin.kl
        assert fit.rmse == twin.rmse


def mortal(block: FloatArray, folder: Path, block_id: tuple[int, ...] = ()) -> FloatArray:
    """Kill the process that reads one of the blocks, the first time."""
    mark = folder / "dead"
    if block_id == (1, 1, 0) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_that_dies_changes_nothing(tmp_path: Path, rng: np.random.Generator) -> None:
    distributed = pytest.importorskip("distributed")
    import dask.dataframe as dd

    held = rng.gamma(2.0, size=(20, 15, 12))
    X = da.from_array(np.where(held < 0.3, np.nan, held), chunks=(5, 5, 4))
    twin = ld.decompose(X, "B1 + B2(3) + B3(2)")
    frame = pd.DataFrame({"a": rng.integers(0, 5, 200), "b": rng.choice(["x", "y"], 200)})
    risky = X.map_blocks(mortal, folder=tmp_path, dtype=float, meta=np.empty((0, 0, 0)))
    # workers are forked from a process that has imported the libraries, which takes each of them six seconds
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed.nanny", "dask.array"])
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}, scheduler=None),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster),
    ):
        fit = ld.decompose(risky, "B1 + B2(3) + B3(2)")
        counted = ld.from_rows(dd.from_pandas(frame, npartitions=20))
    assert_array_equal(counted.toarray(), ld.from_rows(frame).toarray())
    assert (tmp_path / "dead").exists()
    assert_array_equal(fit.theta, twin.theta)


def test_masked_entries_are_missing() -> None:
    X = np.arange(24.0).reshape(6, 4) + 1
    X[4, 1] = X[5, 3] = np.nan
    fit, twin = ld.decompose(da.ma.masked_invalid(da.from_array(X, chunks=3)), "B1"), ld.decompose(X, "B1")
    assert_allclose(fit.tensor(), twin.tensor(), rtol=1e-9)


def _with(value: float, *cells: tuple[int, int]) -> Any:
    X = np.ones((6, 4))
    for cell in cells:
        X[cell] = value
    return da.from_array(X, chunks=(2, 3))


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (_with(-2.0, (5, 0), (1, 3)), {}, r"X has 2 negative entries; the smallest is X\[1, 3\] = -2\. "),
    (_with(np.inf, (5, 0), (2, 3)), {}, r"X has 2 infinite entries, the first at X\[2, 3\]"),
    (da.full((4, 3), 1e308, chunks=2), {}, r"X\[0, 0\] = 1e\+308; positive entries must lie between"),
    (da.ones((4, 3), chunks=2, dtype=bool), {}, r"X is boolean"),
    (da.from_array(np.array(3.0)), {}, r"X is a single number, 3\.0"),
    (_with(np.nan, *np.ndindex(6, 4)), {}, r"every entry of X is NaN"),
    (_with(1.0), {"base": _with(-1.0, (3, 2))}, r"base\[3, 2\] = -1; a base measure must be finite and >= 0"),
    (_with(2.0, (3, 2)), {"base": _with(0.0, (3, 2))}, r"base\[3, 2\] = 0 where X\[3, 2\] = 2 > 0"),
    (_with(1.0), {"base": _with(1e200, (3, 2))}, r"base\[3, 2\] = 1e\+200; positive entries must lie"),
    (_with(1.0), {"support": da.ones((4, 3), dtype=bool)}, r"support has shape \(4, 3\), X has shape"),
    (_with(1.0), {"support": _with(1.0) > 1}, r"no cell is left in the support"),
    (_with(0.0, (0, 0)), {"support": _with(0.0, (0, 0)) == 0}, r"X on the support is zero everywhere"),
    (da.ones(9, chunks=3)[da.ones(9, chunks=3) > 0], {}, r"blocks of unknown size.*compute_chunk_sizes"),
]


@pytest.mark.parametrize(("X", "named", "text"), REFUSED)
def test_refusals(X: Any, named: dict[str, Any], text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        ld.decompose(X, "B1", **named)


def test_what_no_engine_has_room_for_is_refused(rng: np.random.Generator) -> None:
    many, some = (np.column_stack([rng.permutation(n) for _ in range(3)]) for n in (10_200, 1_200))
    with pytest.raises(ld.errors.InvalidBasis, match=r"tables of 1,061,208,000,000 cells, and at most.*fewer distinct"):
        Model.of(Support((10_200,) * 3), None, many[many.any(axis=1)])
    with pytest.raises(ld.errors.TooLarge, match=r"parameters on a merged grid of 1\.73e\+09 cells needs"):
        choose_engine(Model.of(Support((1_200,) * 3), None, some[some.any(axis=1)]), products=True)
    data = observe_blocks(da.ones((2, 2)))
    huge = Quotient((10**6, 10**6), (np.arange(10**6), np.arange(10**6)))
    with pytest.raises(ld.errors.TooLarge, match=r"a merged grid of 1e\+12 cells needs"):
        data.merged(huge)


def test_the_benchmark(tmp_path: Path) -> None:
    pytest.importorskip("benchmarks", reason="the benchmarks are not part of the installed package")
    from benchmarks.blocks import TOL, Bench, Case, generate, row, with_threads

    case = Case((16, 6, 5, 4), (4, 6, 5, 4), 0.1, "B1 + B2(10) + B3(1)", ())
    generate(tmp_path / "x.zarr", case.shape, case.chunks, case.gaps)
    bench = Bench(tmp_path / "x.zarr", case, "now")
    lines = [*with_threads(bench, 2)]
    assert [line.case for line in lines] == ["sum, threads", "fit, threads"] * 2
    fits = lines[1::2]
    assert all(line.same and line.status == "CONVERGED" and (line.residual or 0.0) <= TOL for line in fits)
    assert row(lines[0]).startswith("| sum, threads |  | DONE |")
