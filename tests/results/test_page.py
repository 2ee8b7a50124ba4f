"""The report page as a file: its JSON, its HTML, its size, and what it says where something is missing."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from test_notebook import parsed

import legendre as ld
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray
from legendre.results.decomposition import Decomposition
from legendre.results.page import write
from legendre.results.page.names import block_names
from legendre.results.page.packed import packed
from legendre.results.page.pairs import ArrayPair, FitPair
from legendre.results.page.slices import slices

COUNTS = np.random.default_rng(5).poisson(6.0, (5, 6, 4)) + 1


def written(result: Any, folder: Path, data: Any = None) -> str:
    result.report(folder / "report.html", data)
    return (folder / "report.html").read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def unpacked(table: dict[str, Any], shape: list[int]) -> FloatArray:
    codes = np.frombuffer(base64.b64decode(table["codes"]), "<u2").astype(np.float64)
    steps = table["step"] * codes
    values = table["unit"] * np.expm1(steps) if "unit" in table else table["low"] + steps
    return np.where(codes == 65535, np.nan, values).reshape(shape)


@pytest.fixture(scope="module")
def fit() -> Decomposition:
    return ld.decompose(COUNTS, "adaptive(12)")


def test_the_page_is_one_well_formed_file_that_names_no_address(fit: Decomposition, tmp_path: Path) -> None:
    page = written(fit, tmp_path)
    reader = parsed(page)
    assert {"h1", "nav", "main", "section", "script", "style"} <= set(reader.tags)
    assert "http:" not in page
    assert "https:" not in page
    assert "default-src 'none'" in page
    assert len(page.encode()) < 200_000
    anchors = re.findall(r'<a href="#([\w-]+)"', page)
    assert all(f'id="{anchor}"' in page for anchor in anchors)
    assert anchors == [
        "asked", "certificate", "effects", "slices", "residuals", "path", "parameters", "repeat",
    ]  # fmt: skip


def test_the_page_says_what_was_asked_and_how_sure_it_is(fit: Decomposition, tmp_path: Path) -> None:
    told = " ".join(" ".join(parsed(written(fit, tmp_path)).texts).split())
    for row in fit.tables()[0].rows:
        assert " ".join(row[1].split()) in told
    assert "This is the minimum." in told
    assert "fit = ld.decompose(X, 'adaptive(12)')" in told


def test_the_data_of_the_page_are_those_of_the_fit(fit: Decomposition, tmp_path: Path) -> None:
    data = data_of(written(fit, tmp_path))
    box = data["slices"]
    assert (box["modes"], box["shape"]) == (["mode 2", "mode 0", "mode 1"], [4, 5, 6])
    assert_allclose(unpacked(box["x"], box["shape"]), np.moveaxis(COUNTS, 2, 0), rtol=0)
    assert_allclose(unpacked(box["q"], box["shape"]), np.moveaxis(fit.tensor(), 2, 0), rtol=1e-4)
    assert [row[0] for row in data["parameters"]["rows"]] == list(range(1, 13))
    assert_allclose([row[2] for row in data["parameters"]["rows"]], fit.theta, rtol=1e-5)
    assert_allclose([row[3] for row in data["parameters"]["rows"]], fit.eta, rtol=1e-5)
    assert data["path"]["n_params"] == [step.n_params for step in fit.path]
    assert_allclose(data["path"]["bic"], [step.bic for step in fit.path], rtol=1e-5)
    assert data["history"]["tol"] == 1e-10
    effects = fit.effects()
    for line in data["effects"]["lines"]:
        effect = effects[int(line["name"].split()[1])]
        assert_allclose(line["values"], effect.values, rtol=1e-4)
        assert line["share"] == pytest.approx(effect.share, rel=1e-5)
    for table in data["effects"]["maps"]:
        modes = [int(name.split()[1]) for name in table["names"]]
        values = effects[modes].values
        assert_allclose(unpacked(table["values"], list(values.shape)), values, atol=1e-4)
    assert math.fsum(share for _, share in data["effects"]["shares"]) == pytest.approx(1.0, abs=1e-3)


def test_factors_of_hardly_any_data_are_left_out_where_cells_vanish(tmp_path: Path) -> None:
    X = ld.datasets.flights()
    fit = ld.decompose(X, ld.interactions([("carrier", "hour"), ("dest",)]))
    data = data_of(written(fit, tmp_path))
    effects, x = fit.effects(), X.toarray()
    by_name = {line["name"]: line["values"] for line in data["effects"]["lines"]}
    hours = np.array(by_name["hour"], dtype=float)
    assert_allclose(hours, np.where(x.sum(axis=(0, 1)) < 5, np.nan, effects["hour"].values), rtol=1e-4)
    assert by_name["hour"][0] is None
    (table,) = data["effects"]["maps"]
    expected = np.where(x.sum(axis=1) < 5, np.nan, effects["carrier", "hour"].values)
    assert_allclose(unpacked(table["values"], list(expected.shape)), expected, atol=1e-3)
    assert table["most"] == pytest.approx(np.nanmax(np.abs(expected)), rel=1e-5)


def test_the_worst_residuals_are_the_largest_terms_of_the_deviance(fit: Decomposition, tmp_path: Path) -> None:
    rows = data_of(written(fit, tmp_path))["residuals"]["rows"]
    roots = fit.inference().residuals("deviance")
    q, n = fit.tensor(), COUNTS
    terms = 2 * (n * np.log(n / q) - n + q)
    order = np.argsort(-terms, axis=None)[:50]
    wanted = [str([int(i) for i in np.unravel_index(k, n.shape)]) for k in order]
    assert [row[0] for row in rows] == wanted
    assert_allclose([row[1] for row in rows], n.ravel()[order])
    assert_allclose([row[3] for row in rows], (np.sqrt(terms) * np.sign(n - q)).ravel()[order], rtol=1e-4)
    assert np.sign(roots.ravel()[order]).tolist() == np.sign([row[3] for row in rows]).tolist()


def test_labels_reach_every_part_and_are_escaped(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script>"
    levels = {"line": ["A", "B", "C", "<b>D</b>", "E"]}
    fit = ld.decompose(COUNTS, "adaptive(12)", names=["line", "hour", nasty], levels=levels, unordered=())
    page = written(fit, tmp_path)
    assert page.count("<script") == 2
    data = data_of(page)
    assert data["slices"]["modes"] == [nasty, "line", "hour"]
    assert data["slices"]["levels"][1] == ["A", "B", "C", "<b>D</b>", "E"]
    assert any(
        "line ≥ B" in row[1] or "line = E" in row[1] or "line ≥ C" in row[1] for row in data["parameters"]["rows"]
    )
    assert data["residuals"]["rows"][0][0].startswith("line ")
    assert {line["name"]: line["ordered"] for line in data["effects"]["lines"]}["line"] is False


def test_a_fit_from_a_file_needs_x_for_slices(fit: Decomposition, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.npz")
    loaded = ld.load(tmp_path / "fit.npz")
    page = written(loaded, tmp_path)
    assert "does not hold X" in page
    assert {"slices", "residuals"}.isdisjoint(data_of(page))
    assert data_of(written(loaded, tmp_path, COUNTS)) == data_of(written(fit, tmp_path))


def test_data_with_labels_are_taken_in_the_form_of_x(tmp_path: Path) -> None:
    series = pd.DataFrame({"a": list("xxyyz"), "b": list("pqpqp"), "n": [3, 1, 4, 1, 5]}).set_index(["a", "b"])["n"]
    fit = ld.decompose(series, "B1")
    fit.save(tmp_path / "fit.npz")
    data = data_of(written(ld.load(tmp_path / "fit.npz"), tmp_path, series))
    assert data["slices"]["levels"][1:] == [["x", "y", "z"], ["p", "q"]]
    assert data == data_of(written(fit, tmp_path))


def test_other_data_are_refused(fit: Decomposition, tmp_path: Path) -> None:
    with pytest.raises(ld.LegendreError, match=r"data has shape \(5, 6\), but the fit is of .* shape \(5, 6, 4\)"):
        fit.report(tmp_path / "r.html", COUNTS[:, :, 0])
    with pytest.raises(ld.LegendreError, match=r"data sums to .* Pass the X that was fitted"):
        fit.report(tmp_path / "r.html", COUNTS + 1)
    with pytest.raises(ld.LegendreError, match=r"holds X itself\. Leave the data out"):
        ld.balance(COUNTS).report(tmp_path / "r.html", COUNTS)
    with pytest.raises(ld.LegendreError, match=r"data has shape \(3,\), but"):
        ld.hidden(np.full((2, 2), 3.0) + np.eye(2), ld.rbm(2, 1)).report(tmp_path / "r.html", [1, 2, 3])
    assert not (tmp_path / "r.html").exists()


def test_a_file_that_cannot_be_written_is_a_sentence_and_the_old_one_stays(
    fit: Decomposition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ld.LegendreError, match=r"cannot write .* it is a directory\. .*, e\.g\. .*report\.html\.$"):
        fit.report(tmp_path)
    with pytest.raises(ld.LegendreError, match=r"cannot write .*No such file or directory"):
        fit.report(tmp_path / "no" / "report.html")
    page = tmp_path / "report.html"
    page.write_text("old")

    def full(path: Path, target: Path) -> Path:
        raise OSError(28, f"No space left on device {path.name} {target.name}")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ld.LegendreError, match=r"cannot write .*No space left"):
        fit.report(page)
    assert page.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


KINDS: dict[str, Callable[[AnyArray], Any]] = {
    "Completion": lambda X: ld.complete(np.where(X == 5, np.nan, X), ld.interactions(2)),
    "Balanced tensor": ld.balance,
    "Completion, no basis": lambda X: ld.complete(np.where(X == 5, np.nan, X)),
    "Legendre decomposition with hidden modes": lambda X: ld.hidden(X, ld.rbm(3, 1)),
}


@pytest.mark.parametrize("title", list(KINDS))
def test_other_results_have_a_page_with_the_sections_that_apply(title: str, tmp_path: Path) -> None:
    X = np.full((2, 2, 2), 6.0) + np.eye(2) if "hidden" in title else COUNTS.astype(np.float64)
    result = KINDS[title](X)
    page = written(result, tmp_path)
    data, told = data_of(page), parsed(page).texts
    assert title.partition(",")[0] in told
    assert result.certificate().verdict in told
    assert {"effects", "slices", "history"} <= set(data)
    assert ("parameters" in data) == ("no basis" not in title)
    result.save(tmp_path / "result.npz")
    again = data_of(written(ld.load(tmp_path / "result.npz"), tmp_path))
    assert ("slices" in again) == ("hidden" not in title)
    if "hidden" in title:
        assert data_of(written(ld.load(tmp_path / "result.npz"), tmp_path, X))["slices"]["shape"] == [2, 2, 2]


def test_missing_cells_are_no_numbers_on_the_page(tmp_path: Path) -> None:
    X = COUNTS.astype(np.float64)
    X[1, 2, 3] = np.nan
    box = data_of(written(ld.complete(X, "B1"), tmp_path))["slices"]
    x, q = (np.moveaxis(unpacked(box[name], box["shape"]), 0, 2) for name in "xq")
    assert np.argwhere(np.isnan(x)).tolist() == [[1, 2, 3]]
    assert np.isfinite(q).all()
    box = data_of(written(ld.decompose(np.nan_to_num(X), "B1", support="nonzero"), tmp_path))["slices"]
    q = np.moveaxis(unpacked(box["q"], box["shape"]), 0, 2)
    assert np.argwhere(np.isnan(q)).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 1, 4), (2, 3, 2, 3)])
def test_every_order_has_a_picture(shape: tuple[int, ...], tmp_path: Path, rng: np.random.Generator) -> None:
    X = rng.random(shape) + 0.5
    fit = ld.decompose(X, "B1")
    box = data_of(written(fit, tmp_path))["slices"]
    x, q = (unpacked(box[name], box["shape"]) for name in "xq")
    assert x.ndim == 3
    assert_allclose(x.sum(), X.sum(), rtol=1e-3)
    assert_allclose(q.sum(), X.sum(), rtol=1e-3)
    if len(shape) == 4:
        assert "summed over mode" in box["notes"][0]


def as_sparse(X: AnyArray) -> Any:
    cells = np.argwhere(X > 0)
    return ld.from_coords(cells, X[tuple(cells.T)], shape=X.shape)


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_a_sparse_x_gives_the_page_of_the_dense_one(support: str, tmp_path: Path) -> None:
    X = np.where(COUNTS > 5, COUNTS, 0)
    dense, listed = (ld.decompose(x, "interactions(2)", support=support) for x in (X, as_sparse(X)))
    one, other = (data_of(written(fit, tmp_path)) for fit in (dense, listed))
    for name in "xq":
        x, y = (unpacked(data["slices"][name], data["slices"]["shape"]) for data in (one, other))
        assert_allclose(x, y, rtol=1e-3, atol=1e-6)
    assert [row[:2] for row in one["residuals"]["rows"][:5]] == [row[:2] for row in other["residuals"]["rows"][:5]]


def test_order_100_has_a_page(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = rng.integers(0, 2, (200, 100))
    fit = ld.decompose(ld.from_rows(rows), ld.interactions([(k, k + 1) for k in range(99)]))
    data = data_of(written(fit, tmp_path))
    assert data["slices"]["shape"] == [2, 2, 2]
    assert unpacked(data["slices"]["x"], [2, 2, 2]).sum() == 200
    assert "Only cells with X > 0" in data["residuals"]["notes"][0]
    assert len(data["effects"]["lines"]) == 9


def test_long_modes_are_averaged_and_the_most_telling_slices_kept(rng: np.random.Generator) -> None:
    x = rng.random((6, 300, 200))
    q = x.copy()
    q[4, :10] += 1.0
    q[1, :10] += 2.0
    box = slices(ArrayPair(x, q), Labels(x.shape), [], 2 * 128 * 128)
    assert (box["shape"], box["levels"][0], box["fixed"]) == ([2, 128, 128], ["1", "4"], True)
    assert box["levels"][1][-1] == "297 to 299"
    assert "2 of 6 slices are kept" in box["notes"][1]
    kept = unpacked(box["x"], box["shape"])
    assert_allclose(kept[0, 0, 0], x[1, :2, :1].mean(), rtol=1e-3)
    assert box["start"] == 0


def test_a_page_stays_small_whatever_x_and_its_labels(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rng.random((90, 80, 70)) + 0.1
    fit = ld.decompose(X, "B1")
    size = len(written(fit, tmp_path).encode())
    assert 500_000 < size < 3_000_000
    monkeypatch.setattr(write, "LARGEST_PAGE", 300_000)
    monkeypatch.setattr(write, "MOST_PARAMETERS", 300)
    page = written(fit, tmp_path)
    assert len(page.encode()) <= 300_000
    assert "slices are kept" in page
    assert "parameters with the largest |theta|" in page


def test_q_on_a_grid_too_large_for_a_table_is_said(
    fit: Decomposition, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("legendre.results.page.pairs.LARGEST_TABLE", 10)
    monkeypatch.setattr("legendre.results.page.pairs.EVERY_CELL", 10)
    masked = ld.decompose(np.where(COUNTS > 2, COUNTS, 0), "B1", support="nonzero")
    page = written(masked, tmp_path)
    assert "Slices are not shown: a table of Q over the modes [0, 1, 2] has 120 cells" in page
    assert "Residuals are not listed: X has 120 cells" in page
    assert "slices" in data_of(written(fit, tmp_path))


def test_sums_of_q_over_boxes_do_not_depend_on_the_way(fit: Decomposition, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fit.data is not None
    pair = FitPair(fit, fit.data)
    quick = slices(pair, fit.labels, [], 1000)["q"]
    monkeypatch.setattr("legendre.core.limits.LARGEST_GRID", 0)
    slow = slices(pair, fit.labels, [], 1000)["q"]
    assert_allclose(unpacked(quick, [120]), unpacked(slow, [120]), rtol=1e-4)


def test_an_exact_fit_has_no_residuals(tmp_path: Path) -> None:
    page = written(ld.decompose(COUNTS, ld.full()), tmp_path)
    assert "X and Q agree in every cell" in page
    assert "residuals" not in data_of(page)


def test_a_model_without_parameters_has_a_page(tmp_path: Path) -> None:
    data = data_of(written(ld.decompose(COUNTS, ld.empty()), tmp_path))
    assert data["parameters"]["rows"] == []
    assert "effects" not in data


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda X: ld.decompose(X, "B1", tol=1e-6), "ld.decompose(X, 'B1()', tol=1e-06)"),
        (lambda X: ld.decompose(X, "B1", support="nonzero"), "ld.decompose(X, 'B1()', support='nonzero')"),
        (lambda X: ld.decompose(X, "B1", support=X != 3), "ld.decompose(X, 'B1()', support=mask)"),
        (lambda X: ld.decompose(X, "B1", base=np.ones(X.shape)), "ld.decompose(X, 'B1()', base=base)"),
        (lambda X: ld.decompose(X, [[1, 0, 0]]), "ld.decompose(X, cells)"),
        (lambda X: ld.decompose(as_sparse(X), "B1", support="nonzero"), "ld.decompose(X, 'B1()', support='nonzero')"),
        (lambda X: ld.complete(np.where(X == 3, np.nan, X), "B1"), "ld.complete(X, 'B1()')"),
    ],
)
def test_how_to_repeat_it(call: Callable[[AnyArray], Any], wanted: str, tmp_path: Path) -> None:
    X = np.where(COUNTS == 4, 0, COUNTS)
    assert wanted in "".join(parsed(written(call(X), tmp_path)).texts)


@pytest.mark.parametrize(
    "values",
    [[0.0, 1.0, 65534.0], [0.0, 0.5, 1e9], [-3.0, 0.1, 7.0], [0.0, 0.0], [1e-300, 2e-300], [np.nan, 2.5, np.inf]],
    ids=str,
)
def test_numbers_survive_16_bits(values: list[float]) -> None:
    found = unpacked(packed(np.array(values)), [len(values)])
    for value, back in zip(values, found.tolist(), strict=True):
        if not math.isfinite(value):
            assert math.isnan(back)
        elif all(v == round(v) and v >= 0 for v in values if math.isfinite(v)):
            assert back == value
        else:
            assert back == pytest.approx(value, rel=2e-4, abs=1e-4 * max(abs(v) for v in values if math.isfinite(v)))


def test_filled_gaps_are_not_taken_as_observed(tmp_path: Path) -> None:
    """The fit knows which cells X lacked, whatever stands there in the data that are given."""
    rng = np.random.default_rng(0)
    full = rng.random((6, 5, 4)) + 0.5
    X = np.where(rng.random(full.shape) < 0.2, np.nan, full)
    ld.decompose(X, "B1").save(tmp_path / "fit.npz")
    fit, page = ld.load(tmp_path / "fit.npz"), tmp_path / "page.html"
    pages = []
    for data in (X, full, np.where(np.isnan(X), 1e6, X)):
        fit.report(page, data=data)
        pages.append(page.read_text(encoding="utf-8"))
    assert pages[0] == pages[1] == pages[2]


def test_blocks_of_arranged_levels_are_listed() -> None:
    labels = Labels.read((6,), ["zone"], [list("abcdef")])
    cuts = np.array([0, 1, 5])
    assert block_names(labels, 0, cuts) == ["a", "b to e", "f"]
    assert block_names(labels.arranged([np.array([3, 1, 5, 0, 2, 4])]), 0, cuts) == ["d", "b, f, a and 1 more", "e"]
