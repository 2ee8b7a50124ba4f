"""What README and docs say is so: examples run, calls in tables work, measured numbers are those of the files.

Examples with prompts are doctests, which pytest runs by itself; here nothing may hide from that.
"""

from __future__ import annotations

import csv
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

import legendre as ld

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_fenced_block_is_an_example_that_runs(page: Path) -> None:
    for language, block in FENCED.findall(page.read_text()):
        assert language == "python", block
        assert block.startswith(">>> "), block
        assert block.endswith("\n\n") or block.count("\n") == 1, f"doctest takes the fence for output:\n{block}"


def written(target: Path) -> Path:
    """Return what a page of the gallery is made from: it is there only after `make docs`."""
    parts = target.parts
    if "gallery" not in parts:
        return target
    inside = parts[parts.index("gallery") + 1 :]
    source = ROOT.joinpath("examples", *inside)
    return source.with_name("README.rst") if source.name == "index.rst" else source.with_suffix(".py")


def test_links_and_files_that_are_named_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert written(page.parent / target).exists(), f"{page.name}: {target}"
        for name in re.findall(r"`((?:tests|benchmarks|experiments|docs|src)/[\w/.]+)`", page.read_text()):
            assert name.endswith("/") or (ROOT / name).exists(), f"{page.name}: {name}"  # a folder may be empty


def table_of(page: str, heading: str) -> list[list[str]]:
    """Split the table whose first line begins in this way into rows of cells."""
    lines = (ROOT / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make what the calls of docs/start/calls.md speak of."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.tns").write_text("1 1 1 2.0\n2 3 1 1.0\n2 1 2 4.0\n")
    X = rng.poisson(5.0, size=(4, 5, 4)) + 1
    fit = ld.decompose(X, "B1")
    return {
        "ld": ld,
        "X": X,
        "P": X / X.sum(),
        "basis": "B1",
        "a": ld.B1(),
        "b": ld.interactions(2),
        "r": np.ones(X.shape),
        "rows": rng.integers(0, 2, size=(40, 4)),
        "table": rng.integers(0, 2, size=(40, 4)),
        "parts": [rng.integers(0, 2, size=(20, 4))],
        "rng": rng,
        "fit": fit,
        "result": fit,
        "small": fit,
        "large": ld.decompose(X, ld.interactions(2)),
        "columns": [1.0] * 5,
        "m0": ld.loglinear(X, "."),
        "m1": ld.loglinear(X, ".^2"),
    }


SPECIAL: dict[str, dict[str, Any]] = {
    "ld.hidden(X, ld.interactions([(k, 4) for k in range(4)]))": {"X": np.full((2,) * 4, 3.0)},
    "ld.complete(X, basis)": {"X": np.array([[1.0, 2.0], [2.0, np.nan]])},
    "ld.complete(X, [a, b], folds=5)": {"X": np.where(np.eye(6, 7) > 0, np.nan, np.arange(1.0, 43.0).reshape(6, 7))},
    "ld.complete(X)": {"X": np.where(np.eye(6, 7) > 0, np.nan, np.arange(1.0, 43.0).reshape(6, 7))},
    "ld.balance(X, {0: rows, 1: columns})": {"X": np.ones((4, 5)), "rows": [1.25] * 4},
    'ld.decompose(ld.read_tns("x.tns"), ld.adaptive(500))': {"skip": "cells of the file are fewer than 500"},
    'ld.decompose(da.from_zarr("x.zarr"), basis)': {"skip": "dask's door has tests of its own"},
}


def test_calls_of_the_table_work(names: dict[str, Any]) -> None:
    """Each is run once, on small data under the names that it uses; bases are used for a fit."""
    tried = 0
    for _, written in table_of("docs/start/calls.md", "| you want"):
        for call in re.findall(r"`([^`]+)`", written):
            special = SPECIAL.get(call, {})
            if "skip" in special or re.fullmatch(r"[a-z_.]+|\w+=.*|a [|&-] b|ld\.dual\.from_\w+", call):
                continue
            value = eval(call, {**names, **special})
            if isinstance(value, (str, list)) or hasattr(value, "select"):
                ld.decompose(np.ones((2, 2, 2)) if "boltzmann" in call else names["X"], value)
            tried += 1
    assert tried >= 30


def files_of_a_newcomer(folder: Path) -> None:
    """Write files of the three kinds that the front page names, with gaps and texts as people have them."""
    rng = np.random.default_rng(0)
    when = np.datetime64("2026-03-02") + rng.binomial(24, 0.6, 3_000) * np.timedelta64(3_599, "s")
    when += rng.integers(0, 28, 3_000) * np.timedelta64(1, "D")
    bought = np.where(rng.random(3_000) < 0.02, "", rng.choice(["beer", "bread", "Käse"], 3_000, p=[0.2, 0.6, 0.2]))
    rows = [f"{str(t).replace('T', ' ')},{name},{rng.lognormal():.2f}" for t, name in zip(when, bought, strict=True)]
    (folder / "orders.csv").write_text("\n".join(["timestamp,product,price", *rows]), encoding="utf-8")
    cells = [(e, a, v) for e in ("none", "school", "degree") for a in ("18-29", "30+") for v in ("yes", "no")]
    lines = [f"{e},{a},{v},{rng.poisson(90 if (e, v) == ('degree', 'yes') else 30)}" for e, a, v in cells]
    (folder / "survey.csv").write_text(
        "\n".join(["education,age group,voted,n", *lines, ",18-29,yes,7", "none,30+,no,"])
    )
    waves = np.arange(400, 700, 20)
    darker = np.linspace(1.0, 3.0, 8)[:, None]  # samples that differ by noise alone would have no effect
    table = rng.gamma(50, 1 / 50, (8, 15)) * np.exp(-(((waves - 550) / 60) ** 2)) / darker
    lines = [f"leaf {k}," + ",".join(f"{v:.4f}" for v in row) for k, row in enumerate(table)]
    (folder / "spectra.csv").write_text("\n".join(["sample," + ",".join(map(str, waves)), *lines]))


def test_recipes_of_the_front_page_lead_from_a_file_to_labelled_effects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_of_a_newcomer(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "index.md").read_text().split("## Your own file")[1].split("What you may have to say")[0]
    drawn = []
    for recipe in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE):
        exec(textwrap.dedent(recipe), {})
        Path("effects.png").unlink()  # it was written
        drawn.append({ax.get_xlabel() for ax in pyplot.gcf().axes} - {""})
        pyplot.close()
    assert [{name.partition(" (")[0] for name in names} for names in drawn] == [
        {"hour", "product"},
        {"education", "voted"},
        {"sample", "wavelength"},
    ]


def rows_of(name: str) -> list[dict[str, str]]:
    with (ROOT / "benchmarks" / "results" / f"{name}.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_tables_of_large_tensors_are_in_the_files_of_their_benchmarks() -> None:
    sparse = {(row["n_params"], f"{float(row['peak_gib']):.2f}", row["status"]) for row in rows_of("sparse")}
    for _, _, _, params, _, _, peak, _, status in table_of("docs/background/measured.md", "| X | zeros"):
        assert (params.replace(",", ""), peak, status) in sparse
    blocks = {f"{float(row['seconds']):.1f} s" for row in rows_of("blocks-1")}
    for _, total, fit, _, _ in table_of("docs/background/measured.md", "| | sum | fit"):
        assert {total, fit} - {""} <= blocks


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_fits_of_r_that_are_compared_are_counted(page: str) -> None:
    oracle = json.loads((ROOT / "tests" / "oracles" / "contingency_oracle.json").read_text())["tables"]
    n_fits = sum(len(table["models"]) for table in oracle.values())
    assert f"on all {n_fits} fits in the test suite" in " ".join((ROOT / page).read_text().split())
