"""Comparing: equal numbers of parameters, equal scores, failures as rows, and a command that keeps every row."""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legendre as ld
from legendre.cli import main
from legendre.core.types import FloatArray
from legendre.data.dense import observe
from legendre.tasks import compare as peers
from legendre.tasks.compare import (
    COMPARED,
    FAMILIES,
    PEERS,
    Comparison,
    Effort,
    Factors,
    Family,
    Peer,
    Row,
    draw,
    largest,
    score,
)

QUICK = Effort(max_iter=3, seconds=5.0)


def answer(value: float) -> Peer:
    """Make a peer that finds the same tensor everywhere."""

    def fit(X: FloatArray, rank: int, _: Effort, seed: int) -> Factors:
        return Factors(rank * sum(X.shape), 1, lambda: np.full(X.shape, value + seed))

    return Peer("cp-hals", "constant", "numpy", peers.cp_rank, fit)


def troubled(trouble: Callable[[], object]) -> Peer:
    """Make a peer that calls a function, which may raise, and then finds ones."""

    def fit(X: FloatArray, rank: int, *_: object) -> Factors:
        trouble()
        return Factors(rank, 1, lambda: np.ones(X.shape))

    return Peer("cp-hals", "troubled", "numpy", peers.cp_rank, fit)


def fails(error: Exception) -> Callable[[], object]:
    def trouble() -> None:
        raise error

    return trouble


@pytest.fixture
def X(rng: np.random.Generator) -> FloatArray:
    made = rng.gamma(2.0, size=(5, 4, 3))
    made[0, 1, 2] = made[3, 3, 1] = 0.0
    return made


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


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_the_largest_basis_is_found(family: Family, support: str, X: FloatArray) -> None:
    data = observe(X, support)
    sizes = [len(FAMILIES[family](size).select(data)) for size in range(1, 21)]  # 20 cells in a slice
    for n in range(1, 62):
        fitting = [size for size in sizes if size <= n]
        size, n_params = largest(data, n, family)
        assert (size, n_params) == ((size, fitting[-1]) if fitting else (0, sizes[0]))
        assert size == 0 or sizes[size - 1] == n_params


# --- scores


def test_scores_are_their_definitions(X: FloatArray, rng: np.random.Generator) -> None:
    Q = rng.random(X.shape) + 0.1
    X[2, 2, 2] = np.nan
    known = ~np.isnan(X)
    x, q = X[known], Q[known]
    p = x[x > 0] / x.sum()
    found = score(X, Q)
    assert found["rmse"] == pytest.approx(((x - q) ** 2).mean() ** 0.5, rel=1e-12)
    assert found["rmse_nonzero"] == pytest.approx(((x - q)[x > 0] ** 2).mean() ** 0.5, rel=1e-12)
    assert found["kl"] == pytest.approx(float((p * np.log(p * q.sum() / q[x > 0])).sum()), rel=1e-12)
    Q[1, 1, 1] = 0.0
    assert score(X, Q)["kl"] == np.inf
    assert score(X, np.zeros(X.shape))["kl"] == np.inf


# --- rows


def test_ours_never_has_more_parameters_and_a_peer_never_fewer(X: FloatArray) -> None:
    rows = ld.compare(X, [30, 12], n_starts=2, peers=[name for name in COMPARED if PEERS[name].installed], effort=QUICK)
    assert [row.method for row in rows[:3]] == ["uniform", "paper", "adaptive"]
    assert sorted({row.asked for row in rows}) == [0, 12, 30]
    for row in rows:
        if row.n_params is None:
            assert row.status in ("SKIPPED", "FAILED"), row
        elif row.seed is None:
            assert row.n_params <= row.asked
            assert row.residual is not None
            assert row.residual <= 1e-10
        else:
            assert row.n_params >= row.asked
    assert {row.seed for row in rows} == {None, 0, 1}


def test_a_seed_reaches_the_peer_and_the_mask_makes_a_second_row(
    X: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEERS, "cp-hals", answer(2.0))
    rows = [r for r in ld.compare(X, [12], peers=["cp-hals"], n_starts=2, support="nonzero") if r.seed is not None]
    assert [(row.method, row.seed) for row in rows] == [
        ("cp-hals", 0), ("cp-hals x mask", 0), ("cp-hals", 1), ("cp-hals x mask", 1)
    ]  # fmt: skip
    expected = [float(np.sqrt(((X - level) ** 2).mean())) for level in (2.0, 3.0)]
    np.testing.assert_allclose([rows[0].rmse or 0.0, rows[2].rmse or 0.0], expected, rtol=1e-12)
    uniform = ld.decompose(X, "empty", support="nonzero")
    np.testing.assert_allclose([rows[1].rmse or 0.0, rows[3].kl or 0.0], [uniform.rmse, uniform.kl], rtol=1e-10)


@pytest.mark.parametrize(
    ("trouble", "status", "note"),
    [
        (fails(np.linalg.LinAlgError("SVD did not converge")), "FAILED", "LinAlgError: SVD did not converge"),
        (fails(ValueError("first\nsecond")), "FAILED", "ValueError: first"),
        (fails(AssertionError()), "FAILED", "AssertionError: "),
        (lambda: warnings.warn("divide by zero", RuntimeWarning, 2), "DONE", "RuntimeWarning: divide by zero"),
    ],
)
def test_errors_and_warnings_of_a_peer_become_notes(
    trouble: Callable[[], object], status: str, note: str, X: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEERS, "cp-hals", troubled(trouble))
    row = ld.compare(X, [12], peers=["cp-hals"], n_starts=1)[-1]
    assert (row.method, row.status, row.note) == ("cp-hals", status, note)
    assert row.scored == (status == "DONE")


def test_missing_cells_skip_the_peers_and_not_ours(X: FloatArray) -> None:
    X[1, 1, 1] = np.nan
    rows = ld.compare(X, [12], peers=["cp-hals"])
    if not PEERS["cp-hals"].installed:
        pytest.skip("tensorly is not installed")
    assert rows[1].status == "SKIPPED"
    assert rows[1].note == "X has missing cells, which NN-CP HALS cannot leave out"
    fit = ld.decompose(X, ld.adaptive(12))
    np.testing.assert_allclose([rows[-1].rmse or 0.0, rows[-1].kl or 0.0], [fit.rmse, fit.kl], rtol=1e-10)


def test_a_peer_that_is_not_installed_has_one_row(X: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "cp-apr", replace(PEERS["cp-apr"], package="no_such_package"))
    rows = [row for row in ld.compare(X, [12, 20], peers=["cp-apr"]) if row.method == "cp-apr"]
    assert [(row.status, row.note) for row in rows] == [
        ("NOT INSTALLED", "needs no_such_package: pip install 'legendre[compare]'")
    ]


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
        ({"n_params": []}, ld.errors.InvalidSetting, "a number of parameters must be an integer >= 1, got 0."),
        ({"n_params": [0]}, ld.errors.InvalidSetting, "a number of parameters must be an integer >= 1, got 0."),
        ({"n_params": [60]}, ld.errors.InvalidSetting, "60 parameters are too many: the sample space has 60 cells"),
        ({"n_starts": 0}, ld.errors.InvalidSetting, "n_starts must be an integer >= 1, got 0."),
        ({"peers": ["cp-hal"]}, ld.errors.InvalidSetting, "unknown peer 'cp-hal'; did you mean 'cp-hals'?"),
        ({"support": "nonzeros"}, ld.errors.InvalidSupport, "must be 'all' or 'nonzero', got 'nonzeros'"),
        ({"support": np.ones((5, 4, 3), bool)}, ld.errors.InvalidSupport, "may be NaN"),
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


def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that no optional package is installed."""
    for name, peer in PEERS.items():
        monkeypatch.setitem(PEERS, name, replace(peer, package="no_such_package"))
    monkeypatch.setattr("legendre.cli.app.find_spec", lambda _: None)


def test_the_command_works_without_optional_packages(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent(monkeypatch)
    code, out, err = command("--params", "12,20")
    assert (code, err) == (0, "")
    assert "Legendre, adaptive" in out
    assert "CP-APR: needs no_such_package: pip install 'legendre[compare]'" in out
    assert "no picture: matplotlib is not installed. Install it with: pip install 'legendre[compare]'" in out
    assert not (tmp_path / "out" / "compare.png").exists()
    with (tmp_path / "out" / "compare.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["asked"] for row in rows if row["method"] == "adaptive"] == ["12", "20"]
    assert {row["problem"] for row in rows} == {"X.npy"}


def test_the_command_draws(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEERS, "cp-hals", answer(2.0))
    monkeypatch.setattr(peers, "COMPARED", ("cp-hals",))
    monkeypatch.setattr(peers, "NONZERO", "cp-hals")
    for support in ("all", "nonzero"):
        code, out, _ = command("--params", "20", "--starts", "2", "--support", support)
        assert code == 0
        assert "Of several seeds the row shows the best RMSE" in out
        assert ("NN-CP HALS x mask" in out) == (support == "nonzero")
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert "NN-CP HALS" not in command("--params", "20", "--no-peers")[1]


def test_an_interrupted_run_keeps_its_rows(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Comparison.rows

    def two(self: Comparison, jobs: list[object], _say: object) -> Iterator[tuple[Row, ...]]:
        rows = whole(self, jobs)  # type: ignore[arg-type]
        yield next(rows)
        yield next(rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(Comparison, "rows", two)
    code, _, err = command("--params", "20", "--no-peers")
    assert code == 130
    assert "interrupted after 2 rows; they are kept." in err
    assert (tmp_path / "out" / "compare.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--params", "10,many"), "--params '10,many': give whole numbers with commas between, e.g. 100,300,1000."),
        (("--support", "none"), "must be 'all' or 'nonzero', got 'none'"),
    ],
)
def test_the_command_refuses_in_one_sentence(
    words: tuple[str, ...], sentence: str, command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_peer_that_leaves_the_zeros_out_is_multiplied_by_the_mask() -> None:
    """On X = mask * (a rank-one tensor) it is exact, while a fit of the zeros cannot be."""
    rng = np.random.default_rng(2)
    one = np.einsum("i,j,k->ijk", *(rng.uniform(1, 3, size=n) for n in (5, 4, 3)))
    X = np.where(rng.random(one.shape) < 0.7, one, 0.0)
    rows = ld.compare(
        X, [10], support="nonzero", peers=("cp-hals", "cp-nonzero"), n_starts=1, effort=Effort(max_iter=2000)
    )
    errors = {row.method: row.rmse for row in rows if row.rmse is not None}
    assert "cp-nonzero" not in errors
    assert errors["cp-nonzero x mask"] < 1e-2 < 0.1 < errors["cp-hals x mask"]
    skipped = [row for row in ld.compare(X, [10], peers=("cp-nonzero",), n_starts=1) if row.method == "cp-nonzero"]
    assert [(row.status, row.note) for row in skipped] == [("SKIPPED", "only with support='nonzero'")]


def test_the_picture_shows_the_mean_of_the_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(peers, "save", lambda figure, _: made.append(figure))
    rows = [
        Row("uniform", 0, None, "CONVERGED", 0, rmse=9.0, kl=0.9, seconds=0.1),
        Row("adaptive", 10, None, "CONVERGED", 10, rmse=3.0, kl=0.3, seconds=0.2),
        Row("adaptive", 20, None, "CONVERGED", 20, rmse=1.0, kl=0.1, seconds=0.4),
        Row("cp-hals", 10, 0, "DONE", 12, rmse=5.0, kl=np.inf, seconds=1.0),
        Row("cp-hals", 10, 1, "DONE", 12, rmse=7.0, kl=0.5, seconds=3.0),
        Row("tucker", 10, 0, "FAILED", note="no answer"),
    ]
    draw(rows, tmp_path / "compare.png", "X, 4 x 3")
    panels = made[0].axes
    assert [panel.get_ylabel() for panel in panels] == ["RMSE", "KL(P, Q), nats", "seconds"]
    shown = [{line.get_label(): line.get_xydata().tolist() for line in panel.get_lines()} for panel in panels]
    ours, peer = "Legendre, adaptive", "NN-CP HALS"
    assert shown[0] == {ours: [[10, 3], [20, 1]], peer: [[12, 6]]}
    assert shown[1] == {ours: [[10, 0.3], [20, 0.1]], peer: [[12, 0.5]]}
    assert shown[2] == {ours: [[10, 0.2], [20, 0.4]], peer: [[12, 2]]}


@pytest.mark.parametrize("X", [[[5.0]], np.ones((2, 2))], ids=["one cell", "uniform"])
def test_tensors_without_parameters_can_be_drawn(X: Any, tmp_path: Path) -> None:
    rows = ld.compare(X, peers=())
    assert {row.n_params for row in rows} <= {0, None}
    draw(rows, tmp_path / "compare.png", "nothing to see")  # a warning would be an error
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
