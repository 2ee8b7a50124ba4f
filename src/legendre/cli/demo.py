"""The demo: handwritten digits, decomposed at several basis sizes, beside nonnegative CP with as many parameters.

As in the paper's experiment on MNIST, cells that are 0 are left out of the sample space. That tells the model which
pixels are white, so the comparison gives the same to the others: the uniform distribution on the same cells, with no
parameter at all, and CP multiplied by the same mask.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.basis import Basis, empty
from legendre.basis.paper import B1, B2, B3
from legendre.cli.compare import print_table
from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray
from legendre.fitting.decompose import decompose
from legendre.model.dual import kl
from legendre.tasks.compare.peers import PEERS, Effort, attempt
from legendre.tasks.compare.plots import figure, save

PER_DIGIT = 4
"""Images of each digit."""
SIZES = (1, 3, 8)
"""l of the paper's basis B1 + B2(l) + B3(l)."""
CP, CP_EFFORT, CP_STARTS = PEERS["cp-hals"], Effort(max_iter=500, tol=1e-9), 5
"""The other method, when it stops, and its random starts, of which the best counts."""

REMARK = """\
Legendre l: the paper's basis B1 + B2(l) + B3(l); adaptive: as many cells,
chosen by the data. Zeros are left out of the sample space, as in the paper.
Each Legendre row is the unique minimum of KL(P, Q) in its model: the residual
max|eta - eta_hat| proves it. NN-CP minimises the squared error instead; it is
the best of five random starts, given the same zeros; ms is for one start."""


@dataclass(frozen=True, eq=False)
class DemoRow:
    """One reconstruction: a line of the table and a row of the picture."""

    method: str
    n_params: int
    images: FloatArray
    steps: str
    certificate: str
    kl: float
    rmse: float
    seconds: float

    def line(self) -> list[str]:
        """Write the line of the table."""
        numbers = [f"{self.kl:.4f}", f"{self.rmse:.3f}", f"{1000 * self.seconds:.0f}"]
        return [self.method, str(self.n_params), self.steps, self.certificate, *numbers]


def run_demo(folder: Path) -> None:
    """Print the table and write the picture."""
    missing = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]
    if missing:
        raise InvalidSetting(f"the demo needs {' and '.join(missing)}. Install them with: pip install 'legendre[demo]'")
    folder.mkdir(parents=True, exist_ok=True)
    X = digits()
    rows = [legendre_row("uniform", X, empty())]
    for size in SIZES:
        paper = legendre_row(f"Legendre l={size}", X, B1() | B2(size) | B3(size))
        rows += [paper, legendre_row("Legendre, adaptive", X, adaptive(paper.n_params))]
        if CP.installed and (row := cp_row(X, paper.n_params)) is not None:
            rows.append(row)
    title = f"{X.shape[2]} images of handwritten digits, a {' x '.join(map(str, X.shape))} tensor"
    columns = ("params", "steps", "residual", "KL(P, Q)", "RMSE", "ms")
    print_table(title, columns, [row.line() for row in rows]).print(REMARK)
    picture = folder / "digits.png"
    draw(X, rows, picture)
    print(f"\nThe picture is in {picture}")


def digits() -> FloatArray:
    """Return row x column x image: the first images of each digit in scikit-learn's own data."""
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = np.concatenate([np.flatnonzero(data.target == digit)[:PER_DIGIT] for digit in range(10)])
    images: FloatArray = np.moveaxis(data.images[chosen], 0, -1).astype(np.float64)
    return images


def legendre_row(method: str, X: FloatArray, basis: Basis) -> DemoRow:
    """Fit a basis; zeros are left out of the sample space."""
    start = time.perf_counter()
    fit = decompose(X, basis, support="nonzero")
    seconds = time.perf_counter() - start
    proof = f"{fit.residual:.0e}" if fit.n_params else "exact"
    return DemoRow(method, fit.n_params, fit.tensor(), str(fit.n_iter), proof, fit.kl, fit.rmse, seconds)


def cp_row(X: FloatArray, n_params: int) -> DemoRow | None:
    """Nonnegative CP with at least as many parameters, the best of several random starts, times the mask X > 0.

    None if every start failed.
    """
    tried = [attempt(CP, X, n_params, CP_EFFORT, seed) for seed in range(CP_STARTS)]
    done = [(fit, np.where(X > 0, fit.Q, 0.0)) for fit in tried if fit.Q is not None]
    if not done:
        print(f"no row for {CP.label} with {n_params} parameters: {tried[0].note}")
        return None
    fit, images = min(done, key=lambda pair: float(((X - pair[1]) ** 2).sum()))
    seconds = sum(fit.seconds or 0.0 for fit, _ in done) / len(done)
    method, steps = f"NN-CP rank {CP.rank(X.shape, n_params)}, masked", f"<= {CP_EFFORT.max_iter}"
    rmse = float(np.sqrt(((X - images) ** 2).mean()))
    return DemoRow(method, fit.n_params or 0, images, steps, "none", kl(X, images), rmse, seconds)


def draw(X: FloatArray, rows: list[DemoRow], path: Path) -> None:
    """Draw the first image of each digit: the original, then each reconstruction."""
    shown = [("original", X)] + [(f"{row.method}\n{row.n_params} parameters", row.images) for row in rows]
    made = figure(11, 1.05 * len(shown) + 0.3)
    axes = made.subplots(len(shown), 10)
    for (title, images), line in zip(shown, axes, strict=True):
        for digit, axis in enumerate(line):
            axis.imshow(images[:, :, digit * PER_DIGIT], cmap="gray_r", vmin=0, vmax=X.max())
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
    save(made, path)
