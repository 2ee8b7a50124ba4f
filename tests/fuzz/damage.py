"""Damaged files: changes of bytes and of arrays in saved results, checkpoints, sparse archives and .tns.gz files.

Each damaged file is read as a user would read it, and must be refused with an error of the library's, or be harmless:
what comes back is the original, or another result whose certificate is true, computed here from the definition.

    python -m tests.fuzz.damage --bytes 10000 --arrays 2000 --seed 1     # from the root of the repository
"""

from __future__ import annotations

import argparse
import gzip
import io
import math
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from legendre.cli.read import read_input as read_with_labels
from legendre.core.npz import checksum

Arrays = dict[str, Any]
COLUMNS = ("tried", "refused", "harmless", "wrong", "raw")
ROUNDING = 1e-9  # by which residuals computed here, by plain sums, may differ from the library's
SKEWED = np.random.default_rng(4).lognormal(sigma=2.0, size=(4, 3, 3))
COUNTS = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])
EVENTS = np.random.default_rng(5).poisson(np.where(np.indices((4, 3)).sum(axis=0) > 3, 60.0, 3.0))
GAPS = np.where(np.eye(4, dtype=bool)[::-1], np.nan, np.add.outer(np.arange(1.0, 5.0), [1.0, 2.0, 4.0, 3.0]))


def read_input(path: Path) -> Any:
    """Read X as the command line does."""
    return read_with_labels(path).X


# ---- what is damaged


@dataclass(frozen=True, eq=False)
class Kind:
    """A file and how a user reads it; `same` compares with the original, `true` checks the certificate of another."""

    name: str
    content: bytes
    read: Callable[[Path], Any]
    same: Callable[[Any, Any], bool]
    true: Callable[[Any], bool]
    ending: str = ".npz"
    original: list[Any] = field(default_factory=list)  # what the file itself gives, read once


def results() -> dict[str, Callable[[], Any]]:
    """Results of all kinds."""
    zeros = np.array([[4.0, 1.0, np.nan], [0.0, 0.0, 0.0], [2.0, 5.0, 3.0]])
    measure = np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 3.0], [0.5, 1.0, 1.0]])
    listed = ld.from_coords(
        [[0, 0, 0], [3, 999, 5], [7, 12, 5], [3, 12, 0], [7, 999, 0]], [4, 1, 2, 6, 3], (10, 10**3, 6)
    )
    smoothing = np.where(
        np.eye(5, dtype=bool), np.nan, np.exp(np.add.outer(np.linspace(0, 1, 5), np.linspace(1, 0, 5)))
    )
    return {
        "decomposition": lambda: ld.decompose(SKEWED, "B1 + B3(2)"),
        "decomposition at the boundary": lambda: ld.decompose(zeros, "B1", base=measure),
        "decomposition of a list": lambda: ld.decompose(listed, ld.adaptive(3), support="nonzero"),
        "decomposition out of steps": lambda: ld.decompose(SKEWED, "B1", solver="gradient", max_iter=2),
        "balanced": lambda: ld.balance(COUNTS, {(0, 1): [[10, 20], [30, 40]], 2: [60, 40]}),
        "completion": lambda: ld.complete(GAPS, ["B1", "empty"], folds=3),
        "cross-validation": lambda: ld.complete(GAPS, ["B1", "empty"], folds=3).cv,
        "smoothed": lambda: ld.smooth(smoothing, folds=3),
        "hidden": lambda: ld.hidden(COUNTS, ld.rbm(3, 1), restarts=2, tol=1e-5),
        "inference": lambda: ld.decompose(COUNTS, ld.interactions(2)).inference(),
        "ladder": lambda: ld.geometry.ladder(COUNTS),
        "likelihood ratio": lambda: ld.likelihood_ratio(
            ld.decompose(COUNTS, "B1"), ld.decompose(COUNTS, ld.interactions(2))
        ),
    }


def fits() -> dict[str, Callable[..., ld.Decomposition]]:
    """Fits that are interrupted and go on from a checkpoint."""
    return {
        "natural": partial(ld.decompose, SKEWED, "B1 + B3(2)", solver="natural"),
        "natural-cg": partial(ld.decompose, SKEWED, "B1 + B3(2)", solver="natural-cg"),
        "scaling": partial(ld.decompose, SKEWED, ld.interactions(2), solver="scaling"),
        "gradient": partial(ld.decompose, SKEWED, "B1", solver=ld.solvers.Gradient(form="batch", max_iter=60)),
        "m-projection": partial(ld.decompose, SKEWED, "B1", solver="m-projection"),
        "growth": partial(ld.decompose, SKEWED, ld.adaptive(8, swaps=2)),
        "folds": partial(ld.decompose, EVENTS, ld.adaptive("cv", folds=2)),
    }


def kinds() -> Iterator[Kind]:
    """List every kind of file, with a small example of it."""
    import scipy.sparse

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.npz"
        for name, make in results().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                make().save(path)
            yield Kind(name, path.read_bytes(), ld.load, same_result, true_result)
        for name, fit in fits().items():
            path = Path(folder) / f"{name}.ckpt"
            fit(checkpoint=path)
            whole = path.read_bytes()
            going_on = partial(_go_on, fit)
            yield Kind(f"checkpoint of {name}", whole, going_on, same_result, true_result, ".ckpt")
            path.unlink()
            _interrupted(fit, path)
            yield Kind(
                f"checkpoint of {name}, under way", path.read_bytes(), going_on, same_result, true_result, ".ckpt"
            )
        array: Any = scipy.sparse.random_array((6, 5), density=0.4, rng=np.random.default_rng(0), format="csr")
        for form in ("csr", "coo", "dia"):
            scipy.sparse.save_npz(Path(folder) / form, array.asformat(form))
            yield Kind(
                f"sparse archive, {form}",
                (Path(folder) / f"{form}.npz").read_bytes(),
                read_input,
                same_tensor,
                true_tensor,
            )
    lines = "".join(f"{i} {j} {k} {(i * j) % 7 + k / 4}\n" for i in range(1, 6) for j in range(1, 5) for k in (1, 3))
    yield Kind(".tns.gz", gzip.compress(lines.encode()), read_input, same_tensor, true_tensor, ".tns.gz")


def _go_on(fit: Callable[..., ld.Decomposition], path: Path) -> ld.Decomposition:
    return fit(checkpoint=path)


def _interrupted(fit: Callable[..., ld.Decomposition], path: Path) -> None:
    """Leave the checkpoint of a fit that was interrupted on its way: in a step, or where a basis grows in a round."""
    from legendre.core.checkpoint import Record

    calls, keep = [0], Record.keep

    def breaking(record: Record, pack: Any, *, now: bool = False) -> None:
        calls[0] += 1
        keep(record, pack, now=True)
        if calls[0] == 2 and not now:
            raise KeyboardInterrupt

    Record.keep = breaking  # type: ignore[method-assign, assignment]
    try:
        fit(checkpoint=path)
    except KeyboardInterrupt:
        pass
    finally:
        Record.keep = keep  # type: ignore[method-assign]


# ---- damage to bytes


def damaged_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Change one byte; or, once in ten times, cut the file off."""
    place = int(rng.integers(len(content)))
    if rng.random() < 0.1:
        return content[:place]
    other = (content[place] + int(rng.integers(1, 256))) % 256
    return content[:place] + bytes([other]) + content[place + 1 :]


# ---- damage to arrays


def _entry(array: Any, value: Any, rng: np.random.Generator) -> Any:
    out = np.array(
        array, dtype=np.result_type(array, type(value)) if np.asarray(array).dtype.kind in "iufb" else object
    )
    if out.dtype == object:
        return np.array(str(value))
    if out.size:
        out.reshape(-1)[int(rng.integers(out.size))] = value
    return out


CHANGES: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "float32": lambda a, _: a.astype(np.float32) if a.dtype.kind in "iufb" else a.astype("S"),
    "int64": lambda a, _: np.nan_to_num(a).astype(np.int64) if a.dtype.kind in "iufb" else np.zeros(a.shape, np.int64),
    "complex": lambda a, _: a.astype(np.complex128) if a.dtype.kind in "iufb" else np.zeros(a.shape, np.complex128),
    "bool": lambda a, _: a.astype(np.bool_) if a.dtype.kind in "iufb" else np.zeros(a.shape, np.bool_),
    "one axis more": lambda a, _: a[None],
    "flat": lambda a, _: a.reshape(-1),
    "shorter": lambda a, _: a[:-1] if a.ndim else a.reshape(1)[:0],
    "longer": lambda a, _: np.concatenate([a, a[-1:]]) if a.ndim and len(a) else np.stack([a, a]),
    "transposed": lambda a, _: a.T,
    "empty": lambda a, _: np.empty((0,) * max(a.ndim, 1), dtype=a.dtype),
    "nan": lambda a, r: _entry(a, math.nan, r),
    "inf": lambda a, r: _entry(a, math.inf, r),
    "minus inf": lambda a, r: _entry(a, -math.inf, r),
    "huge": lambda a, r: _entry(a, 10**18 if a.dtype.kind in "iu" else 1e300, r),
    "minus five": lambda a, r: _entry(a, -5, r),
    "zero": lambda a, r: _entry(a, 0, r),
    "half": lambda a, r: _entry(a, 2.5, r),
    "a little more": lambda a, _: a * (1 + 1e-6) if a.dtype.kind == "f" else np.roll(a, 1),
    "twice": lambda a, _: a * 2 if a.dtype.kind in "iuf" else np.char.add(a, "x"),
    "negative": lambda a, _: -a.astype(np.float64) if a.dtype.kind in "iuf" else np.char.upper(a),
    "zeros": lambda a, _: np.zeros_like(a),
    "permuted": lambda a, r: r.permutation(a.reshape(-1)).reshape(a.shape),
    "reversed": lambda a, _: a[::-1] if a.ndim else a + a if a.dtype.kind in "iuf" else a,
    "strings": lambda a, _: np.full(a.shape, "x"),
    "converged": lambda a, _: np.array("CONVERGED") if a.dtype.kind == "U" else np.ones_like(a),
    "a grid of 10^18": lambda a, _: np.full(a.shape, 10**9) if a.dtype.kind in "iu" else np.full(a.shape, 1e9),
}


def damaged_arrays(arrays: Arrays, rng: np.random.Generator) -> tuple[str, Arrays]:
    """Change one array, leave one out, add one or exchange two; return what was done, and all arrays."""
    names = list(arrays)
    name = names[int(rng.integers(len(names)))]
    other = names[int(rng.integers(len(names)))]
    turn = int(rng.integers(len(CHANGES) + 3))
    if turn == 0:
        return f"{name} missing", {key: array for key, array in arrays.items() if key != name}
    if turn == 1:
        return f"{name} twice", {**arrays, name + "x": arrays[name]}
    if turn == 2:
        return f"{name} and {other} exchanged", {**arrays, name: arrays[other], other: arrays[name]}
    change = list(CHANGES)[turn - 3]
    try:
        with np.errstate(all="ignore"):
            return f"{name}: {change}", {**arrays, name: CHANGES[change](arrays[name], rng)}
    except (TypeError, ValueError, OverflowError):  # texts have no half
        return f"{name}: another", {**arrays, name: np.array("another")}


def forged(arrays: Arrays) -> Arrays:
    """Write the checksum and the list of names anew: what somebody does who knows the format."""
    names = sorted(arrays)
    rest = {key: array for key, array in arrays.items() if key != "checksum"}
    if "names" in rest:
        rest["names"] = np.array([name for name in names if name not in ("format", "version", "names")])
    return {**rest, "checksum": np.array(checksum(rest))}


def packed(arrays: Arrays) -> bytes:
    """Write an npz file to memory."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def unpacked(content: bytes) -> Arrays:
    """Read one."""
    with np.load(io.BytesIO(content)) as archive:
        return dict(archive)


# ---- what comes back


def same_result(one: Any, other: Any) -> bool:
    """Whether two results are the same to the last bit."""
    if type(one) is not type(other):
        return False
    first, second = one.to_arrays(), other.to_arrays()
    return list(first) == list(second) and all(_equal(first[key], second[key]) for key in first)


def _equal(one: Any, other: Any) -> bool:
    a, b = np.asarray(one), np.asarray(other)
    return (
        a.dtype.kind == b.dtype.kind
        and a.shape == b.shape
        and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    )


def same_tensor(one: Any, other: Any) -> bool:
    """Whether two sparse tensors are the same."""
    return one.shape == other.shape and _equal(one.cells, other.cells) and _equal(one.values, other.values)


def true_tensor(X: Any) -> bool:
    """Whether what was read is a tensor at all; data have no certificate."""
    inside = (X.cells >= 0).all() and (X.cells < X.shape).all()
    return bool(inside and np.isfinite(X.values).all() and (X.values >= 0).all())


def true_result(result: Any) -> bool:
    """Use a result, and compute its certificate anew from the definition."""
    result.summary()
    repr(result)
    fit = getattr(result, "fit", result)
    if isinstance(fit, ld.Decomposition) and not true_fit(fit):
        return False
    if isinstance(result, ld.Balanced):
        tensor, worst = result.tensor(), 0.0
        for modes, wanted in result.margins.values.items():
            others = tuple(k for k in range(tensor.ndim) if k not in modes)
            worst = max(worst, float(np.abs(tensor.sum(axis=others) - wanted).max() / wanted.max()))
        return not result.converged or worst <= result.tol + ROUNDING
    if isinstance(result, (ld.Smoothed, ld.HiddenDecomposition)):
        return not result.converged or result.residual <= result.tol + ROUNDING
    return True


def true_fit(fit: ld.Decomposition) -> bool:
    """Whether eta is that of theta, and within tol of eta_hat where the fit says so: by a sum over every cell."""
    support = fit.model.support
    cells = support.points if support.points is not None else np.argwhere(support.on_grid())
    gone = {tuple(cell) for cell in fit.vanishing_cells.tolist()}
    cells = np.array([cell for cell in cells.tolist() if tuple(cell) not in gone])
    below = (fit.basis[None, :, :] <= cells[:, None, :]).all(axis=2)
    log_q = below @ fit.theta + (
        0.0 if fit.model.base is None else np.log(np.maximum(fit.model.base, 1e-320))[tuple(cells.T)]
    )
    q = np.exp(log_q - log_q.max())
    eta = (q / q.sum()) @ below
    residual = float(np.abs(eta - fit.eta_hat).max(initial=0.0))
    if not np.abs(eta - fit.eta).max(initial=0.0) <= ROUNDING or not 0 <= fit.rank <= fit.n_params:
        return False
    return not fit.converged or residual <= fit.tol + ROUNDING


# ---- the campaign


def verdict(kind: Kind, content: bytes, folder: Path, *, data: bool = False) -> tuple[str, str]:
    """Read a damaged file: refused, harmless, wrong or raw, and what was said. `data`: other data are no harm."""
    path = folder / f"file{kind.ending}"
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ld.ConvergenceWarning)
            if not kind.original:
                clean = folder / f"clean{kind.ending}"
                clean.write_bytes(kind.content)
                kind.original.append(kind.read(clean))
            found = kind.read(path)
            if kind.same(kind.original[0], found):
                return "harmless", "the same"
            if data and kind.true(found):
                return "harmless", "another, with a true certificate"
            return "wrong", repr(found)
    except ld.errors.LegendreError as problem:
        return "refused", str(problem)
    except Exception as problem:  # what is looked for
        return "raw", f"{type(problem).__name__}: {problem}"


def byte_campaign(every: list[Kind], count: int, seed: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield the kind, the damage, the verdict and what was said, for changes of bytes."""
    rng = np.random.default_rng([seed, 1])
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(count):
            kind = every[turn % len(every)]
            content = damaged_bytes(kind.content, rng)
            yield kind.name, f"{len(content)} of {len(kind.content)} bytes", *verdict(kind, content, Path(folder))


def array_campaign(every: list[Kind], count: int, seed: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield the same for changes of arrays: in every second file the checksum is written anew."""
    rng = np.random.default_rng([seed, 2])
    archives = [(kind, unpacked(kind.content)) for kind in every if kind.ending != ".tns.gz"]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(count):
            kind, arrays = archives[turn % len(archives)]
            what, changed = damaged_arrays(arrays, rng)
            anew = (turn // len(archives)) % 2 == 1 or "checksum" not in arrays
            changed = forged(changed) if anew and "checksum" in arrays else changed
            yield kind.name, f"{what}{', forged' * anew}", *verdict(kind, packed(changed), Path(folder), data=anew)


def table(counts: Counter[tuple[str, str]], names: list[str]) -> str:
    """Lay the verdicts out, a row for each kind."""
    rows: list[tuple[str, ...]] = [("", *COLUMNS)]
    for name in (*dict.fromkeys(names), "all"):
        found = [
            sum(n for (kind, v), n in counts.items() if v == column and name in (kind, "all")) for column in COLUMNS[1:]
        ]
        rows.append((name, str(sum(found)), *map(str, found)))
    return "\n".join(f"{row[0]:40}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def main() -> int:
    """Run both campaigns and print their tables; the exit status is 1 if anything was believed or raw."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("--bytes", 10_000), ("--arrays", 2_000), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    asked = parser.parse_args()
    begun, every, bad = time.monotonic(), list(kinds()), 0
    for title, campaign, count in (("bytes", byte_campaign, asked.bytes), ("arrays", array_campaign, asked.arrays)):
        counts: Counter[tuple[str, str]] = Counter()
        shown = 0
        for name, what, found, said in campaign(every, count, asked.seed):
            counts[name, found] += 1
            if found in ("wrong", "raw"):
                bad += 1
                shown += 1
                if shown <= 40:
                    print(f"{found}: {name}; {what}; {said[:200]}")
        print(f"\n{count} changes of {title}, seed {asked.seed}, {time.monotonic() - begun:.0f} s")
        print(table(counts, [kind.name for kind in every]))
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
