"""Growing a basis: time, accuracy, order, criteria and memory, each beside what is wanted of it.

    python -m benchmarks.growing              # all parts; some twenty minutes
    python -m benchmarks.growing faces mnist  # some of them

Parts: faces, mnist, tables, cutting, prefixes, criteria, large. Times are CPU seconds of one thread, which this script
sets itself, of the whole call (arranging, growing, the last certified fit), the compiler being warm; of faces the best
of three. Peers (TensorLy) run in the same process with as many parameters, and are left out where they are missing.
Data come from the folder that LEGENDRE_DATA names, by default ``../shared/data``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from legendre.tasks.compare import PEERS, Effort

DATA = Path(os.environ.get("LEGENDRE_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
FACES = {279: (28.9, 0.5), 800: (25.0, 0.8), 2000: (21.3, 1.6), 4000: (18.0, 5.5)}
"""Parameters: the largest RMSE and CPU seconds wanted."""
CP_STARTS = 6  # random starts of NN-CP HALS, whose number of iterations, and time, differ by a factor of three


def main(asked: Sequence[str]) -> None:
    """Run the parts that are asked for, in a process with one thread: libraries read their number when they load."""
    if not os.environ.items() >= ONE_THREAD.items():
        command = [sys.executable, "-m", "benchmarks.growing", *asked]
        os.execve(sys.executable, command, os.environ | ONE_THREAD)
    ld.decompose(_load("orl_faces", "faces")[:, :, :10], ld.adaptive(900))  # compiles
    for part in asked or PARTS:
        print(f"\n{part}", flush=True)
        PARTS[part]()


def _load(name: str, key: str) -> Any:
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as arrays:
        return arrays[key].astype(np.float64)


def _timed(call: Callable[[], Any], times: int = 1) -> tuple[Any, float]:
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        answer = call()
        best = min(best, time.process_time() - start)
    return answer, best


def _fit(X: Any, n: Any, unordered: Sequence[int] = (), times: int = 1, **how: Any) -> tuple[ld.Decomposition, float]:
    return _timed(lambda: ld.decompose(X, ld.adaptive(n, **how), unordered=unordered), times)


def _peer(name: str, X: Any, n: int, seed: int = 0) -> tuple[float, float]:
    """Return RMSE and CPU seconds of a peer with at least n parameters."""
    peer = PEERS[name]
    if not peer.installed:
        return np.nan, np.nan
    factors, seconds = _timed(lambda: peer.fit(X, peer.rank(X.shape, n), Effort(), seed))
    return float(np.sqrt(np.mean((factors.multiply_out() - X) ** 2))), seconds


def faces() -> None:
    """RMSE and time by the number of parameters."""
    X = _load("orl_faces", "faces")
    for n, (most, limit) in FACES.items():
        fit, seconds = _fit(X, n, times=3)
        cp, others = np.array([_peer("cp-hals", X, n, seed) for seed in range(CP_STARTS)]).T
        print(
            f"  {n:5}: RMSE {fit.rmse:.2f} (wanted {most}), {seconds:.2f} s (wanted {limit}), {fit.status.name}; "
            f"NN-CP HALS from {CP_STARTS} starts: RMSE at least {cp.min():.2f}, {others.min():.2f} to "
            f"{others.max():.2f} s, median {np.median(others):.2f}; ratio {seconds / np.median(others):.2f} to the "
            f"median, {seconds / others.min():.2f} to the fastest; NN-Tucker HALS {_peer('tucker-hals', X, n)[0]:.2f}",
            flush=True,
        )


def mnist() -> None:
    """Ten digits, zeros kept, images unordered."""
    for n in (500, 1000, 2000):
        rows = []
        for digit in range(10):
            X = _load("mnist500", f"digit_{digit}")
            fit, seconds = _fit(X, n, [2])
            tucker, _ = _peer("tucker-hals", X, n)
            rows.append((fit.rmse, seconds, tucker))
            print(f"  {n:5}, {digit}: RMSE {fit.rmse:.2f}, {seconds:.2f} s; NN-Tucker HALS {tucker:.2f}", flush=True)
        rmse, taken, others = np.array(rows).T
        print(
            f"  {n:5}: mean RMSE {rmse.mean():.2f} (wanted 42 at 2,000), at most {taken.max():.2f} s (wanted 5), below "
            f"NN-Tucker HALS on {int((rmse < others).sum())} of 10 (its mean {others.mean():.2f})",
            flush=True,
        )


def _tables() -> dict[str, tuple[Any, list[int], float]]:
    return {
        "taxi": (_load("nyc_taxi", "trips").sum(axis=2), [0, 1], 0.045),
        "hangzhou": (_load("hangzhou_metro", "flow"), [0, 1], 0.028),
        "flights3": (_load("flights", "flights3"), [0, 1], 0.80),
    }


def tables() -> None:
    """300 parameters, unordered modes arranged; the taxi zones in random orders."""
    for name, (X, unordered, most) in _tables().items():
        fit, seconds = _fit(X, 300, unordered)
        print(f"  {name} 300: KL {fit.kl:.4f} (wanted {most}), {seconds:.2f} s", flush=True)
    X = _tables()["taxi"][0]
    rng = np.random.default_rng(0)
    mixed = [np.ascontiguousarray(X[rng.permutation(30)][:, rng.permutation(30)]) for _ in range(5)]
    print(f"  taxi, zones in five random orders: KL {[round(_fit(Y, 300, [0, 1])[0].kl, 4) for Y in mixed]}")


def cutting() -> None:
    """Compare swaps on the way with growing past the size and cutting back."""
    ways: dict[str, dict[str, Any]] = {
        "default": {}, "no swap": {"swaps": 0}, "one swap": {"swaps": 1}
    }  # fmt: skip
    cases: dict[str, tuple[Any, list[int], int]] = {name: (X, modes, 300) for name, (X, modes, _) in _tables().items()}
    faces_X, three = _load("orl_faces", "faces"), _load("mnist500", "digit_3")
    cases |= {f"faces {n}": (faces_X, [], n) for n in (279, 2000)} | {
        f"MNIST 3 {n}": (three, [2], n) for n in (500, 2000)
    }
    for name, (X, unordered, n) in cases.items():
        found = {way: _fit(X, n, unordered, **how) for way, how in ways.items()}
        row = "; ".join(f"{way} KL {fit.kl:.5f}, {seconds:.2f} s" for way, (fit, seconds) in found.items())
        print(f"  {name}: {row}", flush=True)


def prefixes() -> None:
    """KL of the first m cells of a basis over KL of a basis grown to m."""
    cases: dict[str, tuple[Any, list[int], int]] = {
        "faces": (_load("orl_faces", "faces"), [], 800),
        "MNIST 3": (_load("mnist500", "digit_3"), [2], 400),
    } | {name: (X, modes, 300) for name, (X, modes, _) in _tables().items() if name != "hangzhou"}
    for name, (X, unordered, n) in cases.items():
        fit = _fit(X, n, unordered)[0]
        ratios = [round(fit.at(m).kl / _fit(X, m, unordered)[0].kl, 3) for m in (n // 10, n // 4, n // 2)]
        print(f"  {name} {n}: at n/10, n/4, n/2 {ratios} (wanted at most 1.10)", flush=True)


def criteria() -> None:
    """Count what criteria keep: cells that do not pay, noise, the truth; and time flights."""
    unpaid = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        theta = np.where(rng.random((6, 5, 3)) < 0.06, rng.normal(size=(6, 5, 3)), 0.0)
        X = rng.poisson([300, 3000, 30000][seed % 3] * np.asarray(ld.dual.from_theta(theta))).astype(float)
        fit = ld.decompose(X, ld.adaptive("bic"))
        sums = np.asarray(ld.dual.to_eta(X)).ravel()[1:]
        price = (np.log(X.sum()) + 2 * np.log(((sums > 0) & (sums < 1)).sum())) / (2 * X.sum())
        worth = [ld.decompose(X, np.delete(fit.basis, u, axis=0)).kl - fit.kl for u in range(fit.n_params)]
        unpaid += any(loss < price for loss in worth)
    print(f"  random tensors of 200 with a cell that does not pay: {unpaid} (wanted 0)", flush=True)
    exact = spurious = noise = 0
    for draw in range(24):
        rng = np.random.default_rng(draw)
        cells = {tuple(int(i) for i in cell) for cell in rng.integers(1, 8, (5, 3))}
        theta = np.zeros((8, 8, 8))
        theta[tuple(np.array(sorted(cells)).T)] = rng.choice([-1.0, 1.0], len(cells))
        X = rng.multinomial(100_000, np.ravel(ld.dual.from_theta(theta))).reshape(theta.shape)
        found = {tuple(cell) for cell in ld.decompose(X, ld.adaptive("bic")).basis.tolist()}
        exact, spurious = exact + len(found & cells), spurious + len(found - cells)
    print(f"  5 true cells: {exact / 24:.2f} found (wanted 4.6), {spurious / 24:.2f} spurious (wanted 0.2)", flush=True)
    for draw in range(240):
        X = np.random.default_rng(draw).poisson((1.0, 10.0, 100.0)[draw % 3], (6, 6, 6))
        noise += ld.decompose(X, ld.adaptive("bic")).n_params
    print(f"  240 tables of noise: {noise} cells (wanted at most 1)", flush=True)
    fit, seconds = _fit(_load("flights", "flights3"), "bic")
    print(f'  flights3, adaptive("bic"): {fit.n_params} cells, KL {fit.kl:.4f}, {seconds:.1f} s', flush=True)


def large() -> None:
    """Fit a memory-mapped X of 300^3 cells: time over that of B3(1), memory beyond X; each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(300, 300, 300))
        rng, waves = np.random.default_rng(0), [np.exp(np.sin(np.linspace(0, k, 300))) for k in (3, 5, 7)]
        for i in range(300):
            X[i] = waves[0][i] * np.outer(waves[1], waves[2]) * rng.gamma(5.0, size=(300, 300))
        del X
        found = {basis: _apart(path, basis) for basis in ("B3(1)", "adaptive(50)")}
    for basis, (seconds, megabytes) in found.items():
        print(f"  {basis}: {seconds:.2f} s, X + {megabytes - 216:.0f} MB", flush=True)
    print(f"  ratio {found['adaptive(50)'][0] / found['B3(1)'][0]:.1f} (wanted at most 3, and X + 300 MB)")


def _apart(path: Path, basis: str) -> tuple[float, float]:
    """Fit in a fresh process, once to compile, then the best of three; return CPU seconds and the most megabytes."""
    code = [sys.executable, "-m", "benchmarks.growing", "--fit", str(path), basis]
    seconds, kilobytes = subprocess.run(code, check=True, capture_output=True, text=True).stdout.split()[-2:]
    return float(seconds), float(kilobytes) / 1024


def _fit_here(path: str, basis: str) -> None:
    X = np.load(path, mmap_mode="r")
    _, seconds = _timed(lambda: ld.decompose(X, basis), 4)
    print(seconds, _most_kilobytes())


def _most_kilobytes() -> float:
    """Return the most memory that was in use; Linux's `ru_maxrss` counts the process, too, that began this one."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    own = [float(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return own[0] if own else float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


PARTS = {part.__name__: part for part in (faces, mnist, tables, cutting, prefixes, criteria, large)}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        _fit_here(*sys.argv[2:])
    else:
        main(sys.argv[1:])
