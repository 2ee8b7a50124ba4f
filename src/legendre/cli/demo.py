"""The demo: handwritten digits, decomposed at several basis sizes, beside nonnegative CP with as many parameters.

As in the paper's experiment on MNIST, cells that are 0 are left out of the sample space. That tells the model which
pixels are white, so the comparison gives the same to the others: the uniform distribution on the same cells, with no
parameter at all, and CP multiplied by the same mask.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from legendre.cli.compare import over_seeds, show
from legendre.cli.demo_flights import run_flights
from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray
from legendre.data.datasets import digits as labelled_digits
from legendre.tasks.compare.peers import Effort
from legendre.tasks.compare.plots import figure, save
from legendre.tasks.compare.rows import Row
from legendre.tasks.compare.run import OURS, Comparison
from legendre.tasks.compare.sizes import FAMILIES

PER_DIGIT = 4
"""Images of each digit."""
SIZES = (1, 3, 8)
"""l of the paper's basis B1 + B2(l) + B3(l)."""
CP, CP_EFFORT, CP_STARTS = "cp-hals", Effort(max_iter=500, tol=1e-9), 5
"""The other method, when it stops, and its random starts, of which the best counts."""
REMARK = """\
Legendre: the paper's basis B1 + B2(l) + B3(l) for l = 1, 3, 8; adaptive: as many
cells, chosen by the data. Zeros are left out of the sample space, as in the paper.
Each Legendre row is the unique minimum of KL(P, Q) in its model: the residual
max|eta - eta_hat| proves it. NN-CP minimises the squared error instead; x mask: it is
told the same zeros, by multiplication with 1 where X > 0 and 0 elsewhere."""


def run_demo(folder: Path) -> None:
    """Print the table and write the picture."""
    missing = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]
    if missing:
        raise InvalidSetting(f"the demo needs {' and '.join(missing)}. Install them with: pip install 'legendre[demo]'")
    folder.mkdir(parents=True, exist_ok=True)
    X, images = digits(), dict[Row, FloatArray]()
    comparison = replace(Comparison.of(X, "nonzero", effort=CP_EFFORT), keep=images.__setitem__)
    sizes = [len(FAMILIES[comparison.family](size).select(comparison.data)) for size in SIZES]
    jobs = comparison.jobs(sizes, CP_STARTS, (*OURS, CP))
    rows = [row for some in comparison.rows(jobs) for row in some if row.method != CP or not row.scored]
    show(rows, f"{X.shape[2]} images of handwritten digits, a tensor of {' x '.join(map(str, X.shape))} cells")
    print(REMARK)
    scored = [[row for row in same if row.scored] for same in over_seeds(rows)]
    best = [min(same, key=lambda row: row.rmse or 0.0) for same in scored if same]
    draw(X, {f"{row.label}\n{row.n_params} parameters": images[row] for row in best}, folder / "digits.png")
    print(f"\nThe picture is in {folder / 'digits.png'}")
    run_flights(folder)


def digits() -> FloatArray:
    """Return row x column x image: the first images of each digit in scikit-learn's own data."""
    images: FloatArray = labelled_digits(PER_DIGIT).toarray().astype(np.float64)
    return images


def draw(X: FloatArray, answers: dict[str, FloatArray], path: Path) -> None:
    """Draw the first image of each digit: the original, then each reconstruction."""
    made = figure(11, 1.05 * len(answers) + 1.35)
    axes = made.subplots(1 + len(answers), 10)
    for (title, images), line in zip({"original": X, **answers}.items(), axes, strict=True):
        for digit, axis in enumerate(line):
            axis.imshow(images[:, :, digit * PER_DIGIT], cmap="gray_r", vmin=0, vmax=X.max())
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
    save(made, path)
