"""Comparing: equal numbers of parameters, equal scores, failures as rows, and a command that keeps every row."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legendre as ld
from legendre.cli import main
from legendre.core.types import BoolArray, FloatArray
from legendre.tasks import compare as peers
from legendre.tasks.compare import (
    COMPARED,
    PEERS,
    Effort,
    Found,
    Method,
    Row,
    score,
)


def answer(value: float) -> Method:
    """Make a peer that finds the same tensor everywhere."""

    def fit(X: FloatArray, rank: int, _: Effort, seed: int) -> Found:
        return Found(rank * sum(X.shape), 1, lambda: np.full(X.shape, value + seed + np.isnan(X).any()))

    return Method("constant", "numpy", peers.cp_rank, fit, takes_mask=True)


@pytest.fixture
def X(rng: np.random.Generator) -> FloatArray:
    made = rng.gamma(2.0, size=(5, 4, 3))
    made[0, 1, 2] = made[3, 3, 1] = 0.0
    return made


def held_out(X: FloatArray, support: str) -> BoolArray:
    """Mark the tenth of the cells that is held out."""
    known = np.flatnonzero((X > 0) | (support == "all"))
    return np.isin(np.arange(X.size), np.random.default_rng(0).permutation(known)[: known.size // 10]).reshape(X.shape)


# --- equal numbers of parameters


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 400))
def test_ranks_are_the_smallest_with_enough_parameters(sides: list[int], n: int) -> None:
    shape = tuple(sides)
    rank = peers.cp_rank(shape, n)
    assert rank * sum(shape) >= n
    assert rank == 1 or (rank - 1) * sum(shape) < n
    m = peers.tucker_rank(shape, n)
    assert peers.tucker_params(shape, m) >= n or m == max(shape)
    assert m == 1 or peers.tucker_params(shape, m - 1) < n


# --- scores


def test_scores_are_their_definitions(X: FloatArray, rng: np.random.Generator) -> None:
    Q = rng.random(X.shape) + 0.1
    X[2, 2, 2] = np.nan
    known = ~np.isnan(X)
    x, q = X[known], Q[known]
    p = x[x > 0] / x.sum()
    found = score(X, Q)
    assert found["rmse"] == pytest.approx(((x - q) ** 2).mean() ** 0.5, rel=1e-12)
    assert found["kl"] == pytest.approx(float((p * np.log(p * q.sum() / q[x > 0])).sum()), rel=1e-12)
    Q[1, 1, 1] = 0.0
    assert score(X, Q)["kl"] == np.inf
    assert score(X, np.zeros(X.shape))["kl"] == np.inf


# --- rows


def test_ours_never_has_more_parameters_and_a_peer_never_fewer(X: FloatArray) -> None:
    rows = ld.compare(X, [12, 30], n_starts=1, peers=["cp-random", "tucker"])
    assert [row.method for row in rows[:2]] == ["uniform", "adaptive"]
    assert [row.asked for row in rows] == [0, *3 * [12], *3 * [30]]
    for row in rows:
        assert row.n_params is not None, row
        if row.method in PEERS:
            assert row.n_params >= row.asked
        else:
            assert row.n_params <= row.asked
            assert row.residual is not None
            assert row.residual <= 1e-10


def test_seeds_and_masks_reach_the_peer(X: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer answers 2 + seed, and 1 more where cells are left out: held out, or 0 with support="nonzero".

    The row has the better of two seeds, which is the first.
    """
    monkeypatch.setitem(PEERS, "cp-hals", answer(2.0))
    for support, level in (("all", 2.0), ("nonzero", 3.0)):
        row = ld.compare(X, [12], peers=["cp-hals"], n_starts=2, support=support)[-1]
        cells, hidden = X[(X > 0) | (support == "all")], X[held_out(X, support)]
        assert row.rmse == pytest.approx(float(np.sqrt(((cells - level) ** 2).mean())), rel=1e-12)
        assert row.held_out == pytest.approx(float(np.sqrt(((hidden - 3.0) ** 2).mean())), rel=1e-12)


def test_compare_returns_a_table(X: FloatArray) -> None:
    """Ours on held-out cells is the completion of a basis that has not seen them; peers that take no mask have none."""
    found = ld.compare(X, [12], peers=["cp-hals"], n_starts=1)
    assert [row.method for row in found] == ["uniform", "adaptive", "cp-hals"]
    hidden = held_out(X, "all")
    Y = np.where(hidden, np.nan, X)
    filled = ld.complete(Y, ld.decompose(Y, ld.adaptive(12)).basis, undetermined="theta0").tensor()
    assert found[1].held_out == pytest.approx(float(np.sqrt(((filled - X)[hidden] ** 2).mean())))
    assert found[2].held_out is None
    assert "held out" in repr(found)
    assert "held out" in found.to_markdown().splitlines()[2]
    assert "held out" in found.to_latex()
    assert ld.compare(X, [12], peers=(), hold_out=0)[1].held_out is None


def test_errors_of_a_peer_become_notes(X: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object) -> Found:
        raise ValueError("first\nsecond")

    monkeypatch.setitem(PEERS, "cp-hals", Method("troubled", "numpy", peers.cp_rank, fit))
    rows = ld.compare(X, [12], peers=["cp-hals"], n_starts=1)
    assert rows[-1] == Row("cp-hals", 12, "FAILED", note="ValueError: first")
    assert "NN-CP HALS" not in repr(rows)
    assert "troubled, 12 parameters: ValueError: first" in repr(rows)


def test_missing_cells_leave_peers_that_take_masks(X: FloatArray) -> None:
    """The issue: one NaN skipped every peer, though `non_negative_parafac` takes a mask."""
    X[1, 1, 1] = np.nan
    rows = {row.method: row for row in ld.compare(X, [12], peers=["cp-random", "cp-hals"], n_starts=1)}
    assert rows["cp-random"].status == "DONE"
    assert "cp-hals" not in rows
    fit = ld.decompose(X, ld.adaptive(12))
    ours = rows["adaptive"]
    np.testing.assert_allclose([ours.rmse or 0.0, ours.kl or 0.0], [fit.rmse, fit.kl], rtol=1e-10)


@pytest.mark.parametrize("name", COMPARED)
def test_each_peer_lowers_the_error_of_an_easy_tensor(name: str, rng: np.random.Generator) -> None:
    if not PEERS[name].installed:
        pytest.skip(f"{PEERS[name].package} is not installed")
    X = np.einsum("i,j,k->ijk", rng.random(5) + 1, rng.random(4) + 1, rng.random(3) + 1)
    facts, Q = peers.attempt(PEERS[name], X, 12, Effort(max_iter=50), seed=1)
    assert Q is not None, facts
    assert facts["n_params"] >= 12
    assert score(X, Q)["rmse"] < 0.02 * X.mean()
    again = peers.attempt(PEERS[name], X, 12, Effort(max_iter=50), seed=1)[1]
    np.testing.assert_array_equal(Q, again)


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        ({"n_params": [0]}, ld.errors.InvalidSetting, "a number of parameters must be an integer >= 1, got 0."),
        ({"hold_out": 1.0}, ld.errors.InvalidSetting, "hold_out must be"),
        ({"n_starts": 0}, ld.errors.InvalidSetting, "n_starts must be an integer >= 1, got 0."),
        ({"peers": ["cp-hal"]}, ld.errors.InvalidSetting, "unknown peer 'cp-hal'; did you mean 'cp-hals'?"),
        ({"support": "nonzeros"}, ld.errors.InvalidSupport, "unknown support 'nonzeros'; did you mean 'nonzero'?"),
    ],
)
def test_invalid_settings_are_refused(
    words: dict[str, object], error: type[Exception], sentence: str, X: FloatArray
) -> None:
    with pytest.raises(error) as raised:
        ld.compare(X, **words)  # type: ignore[arg-type]
    assert sentence in str(raised.value)


# --- the command


@pytest.fixture
def command(
    tmp_path: Path, X: FloatArray, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    np.save(tmp_path / "X.npy", X)

    def run(*words: object, file: str = "X.npy") -> tuple[int, str, str]:
        given = ["legendre", "compare", str(tmp_path / file), "-o", str(tmp_path / "out"), *map(str, words)]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_the_command_prints_and_writes_every_row(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEERS, "cp-hals", answer(2.0))
    monkeypatch.setattr("legendre.cli.app.COMPARED", ("cp-hals",))
    code, out, err = command("--params", "12,20", "--starts", "2")
    assert (code, err) == (0, "")
    assert "constant" in out
    with (tmp_path / "out" / "compare.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["asked"] for row in rows if row["method"] == "adaptive"] == ["12", "20"]
    assert [row["n_params"] for row in rows] == ["0", "12", "12", "20", "24"]


def test_an_interrupted_run_keeps_its_rows(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(*_: object, **__: object) -> Iterator[Row]:
        yield Row("uniform", 0, "CONVERGED")
        yield Row("adaptive", 20, "CONVERGED")
        raise KeyboardInterrupt

    monkeypatch.setattr("legendre.cli.app.run_fits", two)
    code, _, err = command("--params", "20")
    assert code == 130
    assert "interrupted after 2 rows; they are kept." in err
    assert (tmp_path / "out" / "compare.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--params", "10,many"), "--params '10,many': give whole numbers with commas between, e.g. 100,300,1000."),
        (("--support", "none"), "unknown support 'none'"),
    ],
)
def test_the_command_refuses_in_one_sentence(
    words: tuple[str, ...], sentence: str, command: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("X", [[[5.0]], np.ones((2, 2))], ids=["one cell", "uniform"])
def test_tensors_without_parameters_can_be_compared(X: Any) -> None:
    rows = ld.compare(X, peers=())
    assert {row.n_params for row in rows} <= {0, None}
    assert "uniform" in repr(rows)
