"""The report page as a file: its JSON, its HTML, its size, and what it says where something is missing."""

from __future__ import annotations

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
from legendre.results.report import call_of_fit, slices_data
from legendre.results.views import ArrayPair

COUNTS = np.random.default_rng(5).poisson(6.0, (5, 6, 4)) + 1
DATES = np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]")


def written(result: Any, folder: Path, data: Any = None) -> str:
    result.report(folder / "report.html", data)
    return (folder / "report.html").read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def table(box: dict[str, Any], name: str) -> FloatArray:
    return np.array(box[name], dtype=float).reshape(box["shape"])


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
    told = " ".join(" ".join(reader.texts).split())
    for row in fit.tables()[0].rows:
        assert " ".join(row[1].split()) in told
    assert "This is the minimum." in told
    assert "fit = ld.decompose(X, 'adaptive(12)')" in told


def test_the_data_of_the_page_are_those_of_the_fit(fit: Decomposition, tmp_path: Path) -> None:
    data = data_of(written(fit, tmp_path))
    box = data["slices"]
    assert (box["modes"], box["shape"]) == (["mode 2", "mode 0", "mode 1"], [4, 5, 6])
    assert_allclose(table(box, "x"), np.moveaxis(COUNTS, 2, 0), rtol=0)
    assert_allclose(table(box, "q"), np.moveaxis(fit.tensor(), 2, 0), rtol=1e-4)
    assert [row[0] for row in data["parameters"]] == list(range(1, 13))
    assert_allclose([row[2] for row in data["parameters"]], fit.theta, rtol=1e-5)
    assert_allclose([row[3] for row in data["parameters"]], fit.eta, rtol=1e-5)
    assert data["path"]["n_params"] == [step.n_params for step in fit.path]
    assert_allclose(data["path"]["bic"], [step.bic for step in fit.path], rtol=1e-5)
    assert data["history"]["tol"] == 1e-10
    effects = fit.effects()
    for drawn in data["effects"]["lines"] + data["effects"]["maps"]:
        effect = effects[[int(name.split()[1]) for name in drawn["names"]]]
        assert_allclose(drawn["values"], effect.values.ravel(), rtol=1e-4, atol=1e-9)
        assert drawn["share"] == pytest.approx(effect.share, rel=1e-5)
    assert math.fsum(share for _, share in data["effects"]["shares"]) == pytest.approx(1.0, abs=1e-3)


def test_the_worst_residuals_are_the_largest_terms_of_the_deviance(fit: Decomposition, tmp_path: Path) -> None:
    rows = data_of(written(fit, tmp_path))["residuals"]
    roots, cells = fit.inference().residuals("deviance"), np.array([json.loads(row[0]) for row in rows])
    assert_allclose([row[1] for row in rows], COUNTS[tuple(cells.T)])
    assert_allclose([row[2] for row in rows], fit.tensor()[tuple(cells.T)], rtol=1e-5)
    assert_allclose([row[3] for row in rows], roots[tuple(cells.T)], rtol=1e-5)
    assert_allclose([abs(row[3]) for row in rows], np.sort(np.abs(roots), axis=None)[:-51:-1], rtol=1e-5)
    page = written(ld.decompose(COUNTS, ld.full()), tmp_path)
    assert data_of(page)["residuals"] is None
    assert data_of(page)["notes"]["residuals"] == "X and Q agree in every cell, up to rounding."


def test_labels_reach_every_part_and_are_escaped(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script>"
    levels = {"line": ["A", "B", "C", "<b>D</b>", "E"]}
    fit = ld.decompose(COUNTS, "adaptive(12)", names=["line", "hour", nasty], levels=levels, unordered=())
    page = written(fit, tmp_path)
    assert page.count("<script") == 2
    data = data_of(page)
    assert data["slices"]["modes"] == [nasty, "line", "hour"]
    assert data["slices"]["levels"][1] == ["A", "B", "C", "<b>D</b>", "E"]
    assert any("line >= B" in row[1] or "line = E" in row[1] or "line >= C" in row[1] for row in data["parameters"])
    assert data["residuals"][0][0].startswith("line ")
    assert {line["names"][0]: line["ordered"] for line in data["effects"]["lines"]}["line"] is False


def test_a_fit_from_a_file_needs_x_for_slices(fit: Decomposition, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.npz")
    loaded = ld.load(tmp_path / "fit.npz")
    page = written(loaded, tmp_path)
    assert "does not hold X" in data_of(page)["notes"]["slices"]
    assert {"slices", "residuals"}.isdisjoint(data_of(page))
    assert data_of(written(loaded, tmp_path, COUNTS)) == data_of(written(fit, tmp_path))
    series = pd.DataFrame({"a": list("xxyyz"), "b": list("pqpqp"), "n": [3, 1, 4, 1, 5]}).set_index(["a", "b"])["n"]
    labelled = ld.decompose(series, "B1")
    labelled.save(tmp_path / "fit.npz")
    data = data_of(written(ld.load(tmp_path / "fit.npz"), tmp_path, series))
    assert data["slices"]["levels"][1:] == [["x", "y", "z"], ["p", "q"]]
    assert data == data_of(written(labelled, tmp_path))


def test_filled_gaps_are_not_taken_as_observed(tmp_path: Path) -> None:
    """The fit knows which cells X lacked, whatever stands there in the data that are given."""
    rng = np.random.default_rng(0)
    full = rng.random((6, 5, 4)) + 0.5
    X = np.where(rng.random(full.shape) < 0.2, np.nan, full)
    ld.decompose(X, "B1").save(tmp_path / "fit.npz")
    fit = ld.load(tmp_path / "fit.npz")
    pages = [written(fit, tmp_path, data) for data in (X, full, np.where(np.isnan(X), 1e6, X))]
    assert pages[0] == pages[1] == pages[2]


KINDS: dict[str, Callable[[AnyArray], Any]] = {
    "Completion": lambda X: ld.complete(np.where(X == 5, np.nan, X), ld.interactions(2)),
    "Balanced tensor": ld.balance,
    "Completion, no basis": lambda X: ld.complete(np.where(X == 5, np.nan, X)),
    "Legendre decomposition with hidden modes": lambda X: ld.hidden(X, "interactions(2)", [2]),
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


@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 1, 4), (2, 3, 2, 3)])
def test_every_order_has_a_picture(shape: tuple[int, ...], tmp_path: Path, rng: np.random.Generator) -> None:
    X = rng.random(shape) + 0.5
    data = data_of(written(ld.decompose(X, "B1"), tmp_path))
    x, q = (table(data["slices"], name) for name in "xq")
    assert x.ndim == 3
    assert_allclose(x.sum(), X.sum(), rtol=1e-3)
    assert_allclose(q.sum(), X.sum(), rtol=1e-3)
    assert ("summed over mode" in data["notes"]["slices"]) == (len(shape) == 4)


def test_order_100_has_a_page(tmp_path: Path, rng: np.random.Generator) -> None:
    rows = rng.integers(0, 2, (200, 100))
    data = data_of(
        written(ld.decompose(ld.from_rows(rows), ld.interactions([(k, k + 1) for k in range(99)])), tmp_path)
    )
    assert (data["slices"]["shape"], sum(data["slices"]["x"]), len(data["effects"]["lines"])) == ([2, 2, 2], 200, 9)
    assert "empty cells are not shown" in data["notes"]["residuals"]


def test_what_cannot_be_compared_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_HELD", 10)
    notes = data_of(written(ld.decompose(np.where(COUNTS > 2, COUNTS, 0), "B1", support="nonzero"), tmp_path))["notes"]
    assert notes["slices"].startswith("Slices are not shown: a table over 3 modes has 120 cells")
    assert notes["residuals"].startswith("Residuals are not shown: residuals need every cell: X has 120")


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda X: ld.decompose(X, "B1", tol=1e-6), "ld.decompose(X, 'B1()', tol=1e-06)"),
        (lambda X: ld.decompose(X, "B1", support=X != 3), "ld.decompose(X, 'B1()', support=support)"),
        (lambda X: ld.decompose(X, "B1", base=np.ones(X.shape)), "ld.decompose(X, 'B1()', base=base)"),
        (lambda X: ld.decompose(X, [[1, 0, 0]]), "ld.decompose(X, basis)"),
        (lambda X: ld.complete(np.where(X == 3, np.nan, X), "B1"), "ld.complete(X, 'B1()')"),
        (lambda X: ld.decompose(X, counts=False), "ld.decompose(X, counts=False)"),
        (lambda X: ld.decompose(X, "B1", levels=[None, None, DATES]), "ld.decompose(X, 'B1()', levels=levels)"),
        (
            lambda X: ld.complete(X, "adaptive(4)", names=list("abc")),
            "ld.complete(X, 'adaptive(4)', names=['a', 'b', 'c'])",
        ),
        (lambda X: ld.loglinear(X, "a*b", names=list("abc")), "ld.loglinear(X, 'a*b', names=['a', 'b', 'c'])"),
        (lambda X: ld.hidden(X, "interactions(2)", 3, restarts=1), "ld.hidden(X, 'interactions(2)', sizes=[3])"),
    ],
)
def test_how_to_repeat_it(call: Callable[[AnyArray], Any], wanted: str, tmp_path: Path) -> None:
    X = np.where(COUNTS == 4, 0, COUNTS)
    assert wanted in "".join(parsed(written(call(X), tmp_path)).texts)


def test_neighbouring_levels_of_long_modes_are_added_up(rng: np.random.Generator) -> None:
    x = rng.random((6, 300, 200))
    q = x.copy()
    q[4, :10] += 1.0
    pair = ArrayPair(Labels(x.shape), lambda: (x, q))
    box, note = slices_data(pair, max_cells=3 * 128 * 128)
    assert (box["shape"], box["levels"][0], box["start"]) == ((3, 128, 128), ["0 to 1", "2 to 3", "4 to 5"], 2)
    assert box["levels"][1][-1] == "297 to 299"
    assert note == "Neighbouring levels of mode 0 and of mode 1 and of mode 2 are added up."
    assert_allclose(box["x"][0], x[:2, :2, :1].sum(), rtol=1e-5)
    box, note = slices_data(pair, max_table=100_000)
    assert (box["shape"], note[:31]) == ((1, 128, 128), "X and Q are summed over mode 0.")


@pytest.mark.parametrize(
    ("result", "data", "words"),
    [
        (
            lambda: ld.decompose(COUNTS, "B1"),
            COUNTS[:, :, 0],
            r"data has shape \(5, 6\), but the fit is of .* \(5, 6, 4\)",
        ),
        (lambda: ld.decompose(COUNTS, "B1"), COUNTS + 1, r"data sums to .* Pass the X that was fitted"),
        (lambda: ld.balance(COUNTS), COUNTS, r"holds X itself\. Leave the data out"),
        (
            lambda: ld.hidden(np.full((2, 2), 3.0) + np.eye(2), "interactions(2)", [2]),
            [1, 2, 3],
            r"data has shape \(3,\)",
        ),
    ],
)
def test_other_data_are_refused(result: Callable[[], Any], data: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ld.LegendreError, match=words):
        result().report(tmp_path / "r.html", data)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("basis", "given"),
    [
        (None, {"names": ["a", "b"], "levels": [list("uvwx"), [1, 2, 3, 4, 5]], "unordered": ()}),
        (ld.adaptive(4), {"names": ["a", "b"], "levels": [list("uvwx"), [1, 2, 3, 4, 5]]}),
        (ld.adaptive(4), {"unordered": {0: [2, 0, 3, 1]}}),
    ],
)
def test_how_to_repeat_it_gives_the_same_fit(basis: Any, given: Any) -> None:
    """The call left names, levels and unordered out, and gave another fit."""
    X = np.random.default_rng(1).poisson(5 * np.exp(np.random.default_rng(0).normal(size=(4, 5))))
    fit = ld.decompose(X, basis, **given)
    scope: dict[str, Any] = {"X": X}
    exec(call_of_fit(fit).replace("fit.report", "str"), scope)
    again = scope["fit"]
    assert (again.labels.names, again.arrangement, again.n_params) == (fit.labels.names, fit.arrangement, fit.n_params)
    assert_allclose(again.tensor(), fit.tensor())


def test_the_path_shows_the_loss_that_chose_and_labels_have_few_digits(tmp_path: Path) -> None:
    X = np.add.outer(np.arange(6.0), np.arange(7.0)) / 7 + 1
    fit = ld.decompose(X, names=["a", "b"], levels=[None, np.arange(7) * 0.1])
    data = data_of(written(fit, tmp_path))
    assert "bic" not in data["path"], "which is meant for counts"
    assert any(loss is not None for loss in data["path"]["held_out"])
    assert data["slices"]["levels"][2][3] == "0.3", "not 0.30000000000000004"
