"""All 699 log-linear fits of R's `loglin` on twelve published tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import BoolArray

FOLDER = Path(__file__).parents[1] / "oracles"
ORACLE: dict[str, Any] = json.loads((FOLDER / "contingency_oracle.json").read_text())["tables"]
TABLES = dict(np.load(FOLDER / "contingency.npz", allow_pickle=False))


def omega(name: str, X: np.ndarray[Any, np.dtype[Any]]) -> BoolArray:
    if name == "offdiag":
        return ~np.eye(len(X), dtype=np.bool_)
    return np.asarray(X > 0) if name == "support" else np.ones(X.shape, dtype=np.bool_)


def support(name: str, X: np.ndarray[Any, np.dtype[Any]]) -> str | BoolArray:
    """Say the sample space as a caller would."""
    return {"full": "all", "support": "nonzero"}.get(name, omega(name, X))


def check(X: np.ndarray[Any, np.dtype[Any]], model: dict[str, Any], **settings: Any) -> None:
    told = f"margins {model['margins']} on omega {model['omega']}"
    fit = ld.decompose(X, ld.interactions(model["margins"]), support=support(model["omega"], X), **settings)
    inside = omega(model["omega"], X)
    reference = np.array(model["fit"]).reshape(X.shape)
    gone = np.argwhere(inside & (reference == 0))
    exists = bool(model["mle_exists"])
    assert fit.status is (ld.results.Status.CONVERGED if exists else ld.results.Status.AT_BOUNDARY), told
    assert exists == (len(gone) == 0), told
    assert_array_equal(fit.vanishing_cells, gone, err_msg=told)
    assert_allclose(fit.tensor(), reference, rtol=1e-7 if exists else 1e-5, atol=0, err_msg=told)
    assert fit.kl == pytest.approx(model["KL"], rel=0, abs=1e-9), told
    assert 2 * fit.total * fit.kl == pytest.approx(model["G2"], rel=0, abs=1e-6), told
    assert fit.total == model["N"], told
    assert fit.rank == model["rank"] - 1, told
    assert fit.n_params == model["n_B"], told


@pytest.mark.parametrize("table", sorted(ORACLE))
def test_every_model_of_the_table(table: str) -> None:
    for model in ORACLE[table]["models"]:
        check(TABLES[table], model)


def test_nothing_is_left_out() -> None:
    models = [model for table in ORACLE.values() for model in table["models"]]
    assert set(ORACLE) == set(TABLES)
    assert len(models) == 699
    assert sum(not model["mle_exists"] for model in models) == 92
    assert {model["omega"] for model in models} == {"full", "support", "offdiag"}


def test_quasi_independence_as_published() -> None:
    """Glass without its diagonal: the value printed in the vignette "mosaics" of vcdExtra."""
    fit = ld.decompose(TABLES["Glass"], "B1", support=~np.eye(5, dtype=np.bool_))
    assert round(2 * fit.total * fit.kl, 2) == 235.78
    assert fit.model.support.n_cells - 1 - fit.rank == 11
