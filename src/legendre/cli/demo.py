"""The demo: handwritten digits at several basis sizes, beside nonnegative CP with as many parameters; flights by name.

As in the paper's experiment on MNIST, cells that are 0 are left out of the sample space. That tells the model which
pixels are white, so the comparison gives the same to the others: the uniform distribution on the same cells, with no
parameter at all, and CP multiplied by the same mask.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from legendre.basis.interactions import interactions
from legendre.cli.app import comparison_table, group_by_seed
from legendre.core.errors import InvalidSetting
from legendre.core.figures import sheet
from legendre.core.types import FloatArray
from legendre.data.datasets import digits, flights
from legendre.data.sparse_tensor import SparseTensor
from legendre.fitting.fit import decompose
from legendre.results.decomposition import Decomposition
from legendre.tasks.compare import FAMILIES, OURS, Comparison, Effort, Row, save

DIGITS_REMARK = """\
Legendre: the paper's basis B1 + B2(l) + B3(l) for l = 1, 3, 8; adaptive: as many
cells, chosen by the data. Zeros are left out of the sample space, as in the paper.
Each Legendre row is the unique minimum of KL(P, Q) in its model: the residual
max|eta - eta_hat| proves it. NN-CP minimises the squared error instead; x mask: it is
told the same zeros, by multiplication with 1 where X > 0 and 0 elsewhere."""
FLIGHTS_REMARK = """\
Half of all flights: carriers and destinations, each tied to the hour. The picture shows
by what factor a carrier, a destination or an hour has more flights than the average,
and a pair of them more than its two parts tell."""


def run_demo(folder: Path) -> None:
    """Print the tables and write the pictures."""
    missing = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]
    if missing:
        raise InvalidSetting(f"the demo needs {' and '.join(missing)}. Install them with: pip install 'legendre[demo]'")
    folder.mkdir(parents=True, exist_ok=True)
    run_digits(folder)
    run_flights(folder)


def run_digits(folder: Path, sizes: tuple[int, ...] = (1, 3, 8), cp: str = "cp-hals", n_starts: int = 5) -> None:
    """Compare with CP, of whose random starts the best counts, for several l of B1 + B2(l) + B3(l)."""
    X: FloatArray = digits().toarray().astype(np.float64)
    images: dict[Row, FloatArray] = {}
    effort = Effort(max_iter=500, tol=1e-9)
    comparison = replace(Comparison.of(X, "nonzero", effort=effort), keep=images.__setitem__)
    n_params = [len(FAMILIES[comparison.family](size).select(comparison.data)) for size in sizes]
    jobs = comparison.jobs(n_params, n_starts, (*OURS, cp))
    rows = [row for some in comparison.rows(jobs) for row in some if row.method != cp or not row.scored]
    title = f"{X.shape[2]} images of handwritten digits, a tensor of {' x '.join(map(str, X.shape))} cells"
    print(f"{comparison_table(rows, title)}\n{DIGITS_REMARK}")
    scored = [[row for row in same if row.scored] for same in group_by_seed(rows)]
    best = [min(same, key=lambda row: row.rmse or 0.0) for same in scored if same]
    draw(X, {f"{row.label}\n{row.n_params} parameters": images[row] for row in best}, folder / "digits.png")
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
    save(made, path)


def run_flights(folder: Path) -> None:
    """Fit without choices, then a model with a meaning, and draw it."""
    X = flights()
    first = decompose(X)
    print(f"\n{X.values.sum():,} flights by {', '.join(X.names or ())}: a {' x '.join(map(str, X.shape))} tensor")
    print(f"ld.decompose(X), without a basis: {first.reason}")
    fit = fit_busiest(X)
    print(f"{fit!r}\n{fit.effects()}\n{FLIGHTS_REMARK}")
    save(fit.plot.effects(), folder / "flights.png")
    print(f"The picture is in {folder / 'flights.png'}")
    fit.report(folder / "flights.html")
    print(f"Effects, slices, residuals and parameters are on one page, {folder / 'flights.html'}: open it in a browser")


def fit_busiest(X: SparseTensor, sizes: tuple[int, ...] = (7, 16, 15)) -> Decomposition:
    """Fit pairs of carrier and hour, and of destination and hour, of the busiest: every pair has flights by day."""
    kept = [np.sort(np.argsort(-X.margin(k).toarray(), kind="stable")[:n]) for k, n in enumerate(sizes)]
    levels = [np.asarray(own)[some] for own, some in zip(X.levels or (), kept, strict=True)]
    pairs = interactions([("carrier", "hour"), ("dest", "hour")])
    return decompose(X.toarray()[np.ix_(*kept)], pairs, names=X.names, levels=levels)
