"""Every result in a file and in a pickle, and files that are damaged."""

from __future__ import annotations

import json
import pickle
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable
from datetime import date, datetime, time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import rbm

NAN = float("nan")
COUNTS = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])
GAPS = np.array([[1.0, 2.0, NAN, 4.0], [2.0, 5.0, 6.0, NAN], [3.0, 6.0, 9.5, 12.0], [1.0, NAN, 3.0, 4.5]])


def at_the_boundary() -> Any:
    X = np.array([[4.0, 1.0, NAN], [0.0, 0.0, 0.0], [2.0, 5.0, 3.0]])
    base = np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 3.0], [0.5, 1.0, 1.0]])
    return ld.decompose(X, "B1", base=base)


def a_list() -> Any:
    cells = [[0, 0, 0], [3, 19_999, 5], [7, 12, 5], [3, 12, 0], [7, 19_999, 0], [0, 12, 5]]
    return ld.from_coords(cells, [4, 1, 2, 6, 3, 5], (10, 20_000, 6))


def order_100() -> Any:
    rows = np.random.default_rng(0).integers(0, 2, (50, 100))
    return ld.decompose(ld.from_rows(rows), ld.interactions([(k, k + 1) for k in range(99)]))


def smoothed(**settings: Any) -> Any:
    x = np.linspace(0, 3, 6)
    X = np.exp(np.add.outer(np.sin(x), np.cos(x)))
    X[[0, 2, 4], [1, 5, 3]] = NAN
    return ld.complete(X, folds=3, **settings)


def unfinished() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        return ld.hidden(COUNTS, rbm(3, 1), restarts=2, max_iter=2)


def without_a_step() -> Any:
    with warnings.catch_warnings():  # pytest.warns sees the warnings of one thread at a time
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        return ld.decompose(COUNTS, ld.interactions(2), solver="gradient", max_iter=0)


RESULTS: dict[str, Callable[[], Any]] = {
    "decomposition": lambda: ld.decompose(COUNTS, ld.interactions(2)),
    "decomposition_at_the_boundary": at_the_boundary,
    "decomposition_of_a_list": lambda: ld.decompose(a_list(), ld.adaptive(3), support="nonzero"),
    "decomposition_of_order_100": order_100,
    "decomposition_grown": lambda: ld.decompose(COUNTS, ld.adaptive(3)),
    "balanced": lambda: ld.balance(COUNTS, {(0, 1): [[10, 20], [30, 40]], 2: [60, 40]}),
    "completion": lambda: ld.complete(GAPS, "B1"),
    "completion_with_cv": lambda: ld.complete(GAPS, ["B1", "empty"], folds=3),
    "cross_validation": lambda: ld.complete(GAPS, ["B1", "empty"], folds=3).cv,
    "smoothed": smoothed,
    "hidden": lambda: ld.hidden(COUNTS, rbm(3, 1), restarts=2, tol=1e-5),
    "hidden_unfinished": unfinished,
    "inference": lambda: ld.decompose(COUNTS, ld.interactions(2)).inference(),
    "inference_at_the_boundary": lambda: ld.decompose([[10, 20, 30], [0, 0, 0]], "B1").inference(),
    "inference_of_a_list": lambda: ld.decompose(a_list(), [[3, 0, 0], [0, 12, 0]]).inference(),
}
RESULTS["decomposition_of_a_part"] = lambda: ld.decompose(
    np.where(np.eye(4) > 0, NAN, 1.0 + np.arange(4.0)), "B1 + B2(3)"
)
RESULTS["decomposition_unfinished"] = without_a_step
KINDS = ("decomposition", "balanced", "completion", "smoothed", "hidden")
FITS = [name for name in RESULTS if name.startswith(KINDS)]


@cache
def made(name: str) -> Any:
    return RESULTS[name]()


def assert_same(one: Any, other: Any) -> None:
    """Compare types, texts and numbers, to the last bit."""
    assert type(one) is type(other)
    contents = []
    for result in (one, other):
        with tempfile.TemporaryDirectory() as folder:
            result.save(Path(folder) / "result.npz")
            contents.append(content_of(Path(folder) / "result.npz"))
    first, second = contents
    assert list(first) == list(second)
    for key, array in first.items():
        assert_array_equal(array, second[key], err_msg=key)
    assert one.summary() == other.summary()


@pytest.mark.parametrize("name", RESULTS)
def test_a_file_and_a_pickle_give_back_the_same_numbers(name: str, tmp_path: Path) -> None:
    made(name).save(tmp_path / "result.npz")
    assert_same(ld.load(tmp_path / "result.npz"), made(name))
    assert_same(pickle.loads(pickle.dumps(made(name))), made(name))


@pytest.mark.parametrize("name", FITS)
def test_what_all_results_share(name: str, tmp_path: Path) -> None:
    fit = made(name)
    fit.save(tmp_path / "result.npz")
    for result in (fit, ld.load(tmp_path / "result.npz")):
        assert result.theta.shape == result.eta.shape == (result.n_params,)
        assert isinstance(result.status, ld.results.Status)
        assert result.converged is result.status.converged
        assert [step.iteration for step in result.history] == list(range(result.n_iter + 1))
        assert result.residual >= 0
        assert result.gap >= 0
        if len(result.shape) < 64:
            assert result.tensor().shape == result.shape
            assert_allclose(result.tensor(), fit.tensor(), rtol=1e-12)


def test_the_gap_of_hidden_modes_is_kl_itself() -> None:
    assert made("hidden").gap == made("hidden").kl
    assert made("hidden_unfinished").status is ld.results.Status.OUT_OF_STEPS
    objectives = [step.objective for step in made("hidden").history]
    assert max(np.diff(objectives)) <= 1e-14


@pytest.mark.parametrize("solver", ["natural", "natural-cg", "scaling", "matrix-scaling", "gradient"])
def test_the_gap_of_balancing_bounds_the_divergence_from_the_exact_answer(solver: str) -> None:
    X = np.random.default_rng(1).gamma(1.0, size=(3, 4))
    exact = ld.balance(X, tol=1e-13)
    with pytest.warns(ld.ConvergenceWarning):
        early = ld.balance(X, solver=solver, max_iter=2)
    divergence = ld.dual.kl(exact.tensor(), early.tensor())
    assert 0 < divergence <= early.gap < 10 * divergence


# ---- damaged files


def content_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def change(path: Path, **changes: Any) -> None:
    """Write other arrays, or other values in the text, to a file; ``None`` leaves an array out."""
    arrays = content_of(path)
    head = json.loads(str(arrays["content"]))
    for name, value in changes.items():
        if name in head:
            head[name] = value
        elif name in head["result"] and name not in arrays:
            head["result"][name] = value
        else:
            arrays[name] = value
    arrays["content"] = np.array(json.dumps(head))
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "newer": ({"version": 99}, r"its format is legendre 99, this version of legendre reads 4\. Update"),
    "lost": ({"theta": None}, r"damaged or truncated .*'theta\.npy' in the archive"),
    "dtype": ({"theta": np.ones(6, dtype=np.int64)}, r"theta has shape \(6,\) and dtype int64"),
    "shape": ({"theta": np.ones(2)}, r"theta has shape \(2,\) and dtype float64"),
    "class": ({"result": {"$class": "Path", "of": "/"}}, "no result holds a Path"),
    "status": ({"status": {"$enum": "Status", "name": "GOOD"}}, "GOOD"),
    "unknown field": ({"result": {"$class": "Support", "size": 3}}, "damaged one"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_file_is_said(name: str, tmp_path: Path) -> None:
    changes, message = WRONG[name]
    path = tmp_path / "result.npz"
    made("decomposition").save(path)
    change(path, **changes)
    with pytest.raises(ld.errors.InvalidFile, match=message):
        ld.load(path)


def test_the_residual_at_theta_decides_the_status(tmp_path: Path) -> None:
    path, fit = tmp_path / "result.npz", made("decomposition")
    fit.save(path)
    change(path, theta=fit.theta + 1e-6)
    found = ld.load(path)
    assert found.status is ld.results.Status.STALLED
    assert not found.converged
    assert found.residual > 1e-8


def test_what_is_no_saved_result(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for content, message in [
        (b"", "or not a NumPy file. A saved result is an .npz file"),
        (pickle.dumps([1]), "or not a NumPy file"),
        (b"PK\x03\x04 and so on", "damaged or truncated"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ld.errors.InvalidFile, match=message):
            ld.load(path)
    np.savez(path, a=np.ones(2))
    with pytest.raises(ld.errors.InvalidFile, match=r"not a saved result \(it holds a\)"):
        ld.load(path)
    np.save(tmp_path / "x.npy", np.ones(2))
    with pytest.raises(ld.errors.InvalidFile, match="holds a single array"):
        ld.load(tmp_path / "x.npy")
    with pytest.raises(ld.errors.InvalidFile, match="No such file"):
        ld.load(tmp_path / "nothing.npz")
    np.savez(path, content=np.array([{"an": "object"}]))
    with pytest.raises(ld.errors.InvalidFile, match="damaged or truncated"):
        ld.load(path)


def test_a_file_that_was_cut_or_changed_is_an_error_of_the_library_or_harmless(tmp_path: Path) -> None:
    path, rng = tmp_path / "result.npz", np.random.default_rng(0)
    made("decomposition_grown").save(path)
    whole, refused = path.read_bytes(), 0
    for _ in range(150):
        content = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.3 else whole)
        content[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(content))
        try:
            assert_array_equal(ld.load(path).theta, made("decomposition_grown").theta)
        except ld.LegendreError:
            refused += 1
    assert refused > 100


def test_a_crafted_file_imports_no_module_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library of the rows was taken from the file, and imported: code beside the file ran."""
    (tmp_path / "payload.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    ld.decompose(ld.from_rows(pl.DataFrame({"a": [1, 2], "b": [1, 1]})), "B1").save("fit.npz")
    origin = json.loads(str(content_of(Path("fit.npz"))["content"]))["result"]["origin"]
    assert origin["library"] == "polars"
    change(Path("fit.npz"), origin=origin | {"library": "payload"})
    with pytest.raises(ld.errors.InvalidFile, match="library must be 'pandas', 'polars' or 'pyarrow', got 'payload'"):
        ld.load("fit.npz").tensor()
    assert not Path("ran").exists()


def test_a_small_archive_is_not_inflated_to_gigabytes(tmp_path: Path) -> None:
    """9 MB of zeros became 2 GB before they were refused."""
    path = tmp_path / "fit.npz"
    ld.decompose([[1, 2], [3, 4]], "B1").save(path)
    arrays = content_of(path)
    np.savez_compressed(path, **(arrays | {"theta": np.zeros(1 << 24)}))
    tracemalloc.start()
    with pytest.raises(ld.errors.InvalidFile, match="theta has 134,217,856 bytes"):
        ld.load(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


@pytest.mark.parametrize(
    "labels",
    [
        [date(2024, 1, 1), date(2024, 1, 2)],
        [datetime(2024, 1, 1, 5), datetime(2024, 1, 2)],
        [datetime.fromisoformat("2024-01-01T00:00+05:30"), datetime.fromisoformat("2024-01-02T00:00+05:30")],
        [time(8), time(9, 30)],
        [True, False],
        [True, "unknown"],
        [1, 2.5],
        np.array(["2024-01-01", "2024-01-02"], "M8[D]"),
    ],
    ids=str,
)
def test_dates_and_booleans_come_back_from_a_file_as_what_they_were(labels: Any, tmp_path: Path) -> None:
    fit = ld.decompose([[1, 2], [3, 4]], "B1", levels=[labels, None])
    fit.save(tmp_path / "fit.npz")
    own, back = (one.labels.levels_of(0) for one in (fit, ld.load(tmp_path / "fit.npz")))
    assert back.dtype == own.dtype
    assert [(type(x), x, getattr(x, "tzinfo", None)) for x in back.tolist()] == [
        (type(x), x, getattr(x, "tzinfo", None)) for x in own.tolist()
    ]
