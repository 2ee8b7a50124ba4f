"""The experiments resume where they stopped, and their page agrees with their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import legendre as ld

pytest.importorskip("experiments", reason="the experiments are not part of the installed package")

from experiments import arranged, gradients, heldout, recovery, summary
from experiments.comparison import Comparison, Row
from experiments.jobs import Runner
from experiments.page import write_page
from experiments.settings import DEFAULT, UNORDERED
from experiments.store import Store

LEVEL = replace(DEFAULT, seeds={"cp-hals": 2})


def test_rows_in_the_file_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorly")
    comparison = Comparison.of(np.random.default_rng(0).random((6, 5, 4)), "nonzero", "small")
    methods = ("uniform", "adaptive", "cp-hals")
    Runner(Store.open(tmp_path, "faces", Row), LEVEL).run(comparison, (12, 20), methods)
    store = Store.open(tmp_path, "faces", Row)
    assert len(store.rows) == 1 + 2 + 2 * 2 * 2  # each peer also multiplied by the mask
    lines = store.path.read_text().splitlines(keepends=True)
    store.path.write_text("".join([*lines[:-2], lines[-1][:9]]))  # killed while it wrote

    ran = []
    whole = Comparison.run
    monkeypatch.setattr(Comparison, "run", lambda self, job: ran.append(job) or whole(self, job))  # type: ignore[func-returns-value]
    Runner(Store.open(tmp_path, "faces", Row), LEVEL).run(comparison, (12, 20), methods)
    assert [(job.method, job.asked, job.seed) for job in ran] == [("cp-hals", 20, 1)]
    assert len(Store.open(tmp_path, "faces", Row, fresh=True).rows) == 0


@pytest.mark.parametrize("rate", [0.5, 4.0])
def test_the_computed_number_of_passes_is_that_of_algorithm_1(rate: float) -> None:
    X = np.random.default_rng(0).random((6, 6, 6))
    best = ld.decompose(X, "B3(1)")
    fit = ld.decompose(X, "B3(1)", solver=ld.solvers.Gradient(learning_rate=rate), tol=1e-5)
    computed = gradients.passes_needed(best.fisher(), best.theta, rate, 1e-5)
    assert computed == pytest.approx(fit.n_iter, rel=0.01, abs=1)


def test_a_strong_cell_is_recovered() -> None:
    row = recovery.recover((8, 8), 100_000, draw=0, n_true=1)
    assert (row.exact, row.near) == (1, 1)
    assert row.kl_truth < 1e-3
    assert recovery.recover((8, 8), 100_000, draw=0, n_true=0).found <= 1


def test_levels_without_an_order_are_arranged_and_come_back(tmp_path: Path) -> None:
    X = np.repeat([[9.0, 1.0], [1.0, 9.0]], 3, axis=0)[[0, 3, 1, 4, 2, 5]] * np.arange(1.0, 7.0)[:, None]
    store = Store.open(tmp_path, "faces", Row)
    Runner(store, LEVEL).run(arranged.Arranged.without_order(X, (0,), problem="small"), (3,), (UNORDERED,))
    (row,) = store.rows
    assert (row.method, row.asked, row.n_params, row.problem) == (UNORDERED, 3, 3, "small")
    assert row.kl is not None
    assert row.kl == pytest.approx(ld.decompose(X, ld.adaptive(3), unordered=[0]).kl)
    assert row.kl < ld.decompose(X, ld.adaptive(3)).kl


def test_held_out_events_are_the_other_half_of_all_events() -> None:
    X = np.random.default_rng(1).integers(0, 9, size=(5, 6)).astype(float)
    fitted, other = heldout.split(X)
    assert (fitted + other).tolist() == X.tolist()
    assert fitted.min() >= 0
    assert other.min() >= 0
    assert fitted.tolist() != other.tolist()


def rows_for(ours: float, others: dict[tuple[str, int], float]) -> list[Row]:
    made = [Row("adaptive", 10, None, "CONVERGED", 10, 3, ours, ours, ours, 1.0, 0.0, "t")]
    return made + [Row(name, 10, seed, "DONE", 12, 3, e, e, e, 1.0, None, "t") for (name, seed), e in others.items()]


def test_the_verdict_takes_the_best_peer_at_its_best_seed() -> None:
    rows = rows_for(2.0, {("cp-hals", 0): 5.0, ("cp-hals", 1): 1.5, ("tucker", 0): 3.0})
    found = summary.verdicts(rows, "all", peer_support="all")
    assert {v.measure for v in found} == {"RMSE", "RMSE, X > 0", "KL"}
    assert {(v.ours, v.best, v.peer, v.won, v.tensors, v.missing) for v in found} == {(2.0, 1.5, "cp-hals", 0, 1, 0)}


def test_the_page_counts_wins_and_losses(tmp_path: Path) -> None:
    rows = rows_for(2.0, {("cp-hals", 0): 5.0, ("cp-hals", 1): 1.5})
    stores = {"gradient": [], "scale": [], "mnist": [], "recovery": [], "heldout": [], "faces": rows}
    text = write_page(stores, tmp_path, tmp_path / "results.md").read_text()
    assert "Adaptive is better in 0 of 3 comparisons." in text
    assert "Others are ahead here: faces, 10 parameters, RMSE, NN-CP HALS (1.333); faces" in text
    assert "| faces | 10 | 2 | 1.5 NN-CP HALS | 0/1 | 2 | 1.5 NN-CP HALS | 0/1 |" in text
    assert "| NN-CP HALS | 1.5 |" in text
    assert text.count("No rows yet.") == 6
