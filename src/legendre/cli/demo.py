"""The demo: handwritten digits at several basis sizes, beside nonnegative CP with as many parameters; flights by name.

As in the paper's experiment on MNIST, cells that are 0 are left out of the sample space. That tells the model which
pixels are white, so CP is fitted on the same cells, beside the uniform distribution on them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.interactions import interactions
from legendre.core.errors import InvalidSetting
from legendre.core.figures import save_figure, sheet
from legendre.core.text import Columns
from legendre.core.types import FloatArray
from legendre.data.datasets import digits, flights
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.fit import decompose
from legendre.results.decomposition import Decomposition
from legendre.tasks.compare import PEERS, Effort, attempt, score

DIGITS_REMARK = """\
Legendre: the paper's basis B1 + B2(l) + B3(l) for l = 1, 3, 8; adaptive: as many
cells, chosen by the data. Zeros are left out of the sample space, as in the paper.
Each Legendre row is the unique minimum of KL(P, Q) in its model: the residual
max|eta - eta_hat| proves it. NN-CP minimises the squared error on the same cells;
of five random starts the best is shown."""
FLIGHTS_REMARK = """\
Half of all flights: which carrier flies where, and at which hours. The picture shows by
what factor a carrier, a destination or an hour has more flights than the average, and a
carrier at a destination more than the two alone. Grey pairs have no flights."""


def run_demo(folder: Path) -> None:
    """Print the tables and write the pictures."""
    missing = [name for name in ("sklearn", "matplotlib", "tensorly") if find_spec(name) is None]
    if missing:
        raise InvalidSetting(f"the demo needs {' and '.join(missing)}. Install them with: pip install 'legendre[demo]'")
    folder.mkdir(parents=True, exist_ok=True)
    run_digits(folder)
    run_flights(folder)


def run_digits(folder: Path, sizes: tuple[int, ...] = (1, 3, 8), n_starts: int = 5) -> None:
    """Compare with CP, of whose random starts the best counts, for several l of B1 + B2(l) + B3(l)."""
    X: FloatArray = digits().toarray().astype(np.float64)
    observed = np.where(X > 0, X, np.nan)
    lines = [["", "parameters", "RMSE", "KL(P, Q)", "residual"]]
    images: dict[str, FloatArray] = {}

    def add(label: str, n_params: int, Q: FloatArray, residual: str = "") -> None:
        found = score(observed, Q)
        lines.append([label, str(n_params), f"{found['rmse']:.4g}", f"{found['kl']:.4g}", residual])
        images[f"{label}\n{n_params} parameters"] = np.where(X > 0, Q, 0.0)

    def add_fit(label: str, fit: Decomposition) -> None:
        add(label, fit.n_params, fit.tensor(), f"{fit.residual:.0e}")

    add_fit("uniform", decompose(X, "empty", support="nonzero"))
    for size in sizes:
        paper = decompose(X, f"B1 + B2({size}) + B3({size})", support="nonzero")
        add_fit("Legendre, paper's basis", paper)
        add_fit("Legendre, adaptive", decompose(X, adaptive(paper.n_params), support="nonzero"))
        runs = [attempt(PEERS["cp-random"], X, paper.n_params, Effort(), seed, X > 0) for seed in range(n_starts)]
        done = [(facts["n_params"], Q) for facts, Q in runs if Q is not None]
        if done:
            add("NN-CP", *min(done, key=lambda run: score(observed, run[1])["rmse"]))
    title = f"{X.shape[2]} images of handwritten digits, a tensor of {' x '.join(map(str, X.shape))} cells"
    print(f"{Columns(title, lines, '<>', ruled=True).text()}\n{DIGITS_REMARK}")
    draw(X, images, folder / "digits.png")
    print(f"\nThe picture is in {folder / 'digits.png'}")


def draw(X: FloatArray, answers: dict[str, FloatArray], path: Path) -> None:
    """Draw the first image of each digit: the original, then each reconstruction."""
    made, step = sheet(11, 1.05 * len(answers) + 1.35), X.shape[2] // 10
    axes = made.subplots(1 + len(answers), 10)
    for (title, images), line in zip({"original": X, **answers}.items(), axes, strict=True):
        for digit, axis in enumerate(line):
            axis.imshow(images[:, :, digit * step], cmap="gray_r", vmin=0, vmax=X.max())
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
    save_figure(made, path)


def run_flights(folder: Path) -> None:
    """Fit without choices, then a model with a meaning, and draw it."""
    X = flights()
    first = decompose(X)
    print(f"\n{X.values.sum():,} flights by {', '.join(X.names or ())}: a {' x '.join(map(str, X.shape))} tensor")
    print(f"ld.decompose(X), without a basis: {first.reason}")
    fit = fit_busiest(X)
    print(f"{fit!r}\n{fit.effects()}\n{FLIGHTS_REMARK}")
    save_figure(fit.plot.effects(), folder / "flights.png")
    print(f"The picture is in {folder / 'flights.png'}")
    fit.report(folder / "flights.html")
    print(f"Effects, slices, residuals and parameters are on one page, {folder / 'flights.html'}: open it in a browser")


def fit_busiest(X: SparseTensor, sizes: tuple[int, ...] = (7, 16, 15)) -> Decomposition:
    """Fit pairs of carrier and destination, and hours, of the busiest: 125 parameters, 77 % of KL from uniform.

    Pairs of carrier and hour, and of destination and hour, have 329 parameters and 22 %.
    """
    kept = [np.sort(np.argsort(-X.margin(k).toarray(), kind="stable")[:n]) for k, n in enumerate(sizes)]
    levels = [np.asarray(own)[some] for own, some in zip(X.levels or (), kept, strict=True)]
    terms = interactions([("carrier", "dest"), ("hour",)])
    return decompose(X.toarray()[np.ix_(*kept)], terms, names=X.names, levels=levels)
