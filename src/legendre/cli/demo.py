"""The demo: handwritten digits, compared with nonnegative CP; and flights, whose parameters have names.

As in the paper's experiment on MNIST, cells that are 0 are left out of the sample space of the digits. That tells the
model which pixels are white. For a fair comparison, CP is fitted on the same cells, and the table has a row for the
uniform distribution on them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from legendre.basis.adaptive import adaptive
from legendre.basis.interactions import interactions
from legendre.core.arguments import check_installed
from legendre.core.figures import new_figure
from legendre.data.datasets import digits, flights
from legendre.fitting.fit import decompose
from legendre.tasks.compare import compare

DIGITS_REMARK = """\
Legendre grows a basis of cells that the data choose. Each fit is the unique minimum of
KL(P, Q) in its model: the residual max|eta - eta_hat| proves it. NN-CP minimises the squared
error on the same cells. Zeros are left out of the sample space, as in the paper."""
FLIGHTS_REMARK = """\
Half of all flights: which carrier flies where, and at which hours. The picture shows by
what factor a carrier, a destination or an hour has more flights than the average, and a
carrier at a destination more than the two alone would predict. Grey pairs have no flights."""


def run_demo(folder: Path) -> None:
    """Run ``legendre demo``: print the tables, and write the pictures and a report page into a folder."""
    check_installed("the demo", ["sklearn", "matplotlib", "tensorly"], "'legendre[demo]'")
    folder.mkdir(parents=True, exist_ok=True)
    run_digits(folder)
    run_flights(folder)


def run_digits(folder: Path, sizes: tuple[int, ...] = (56, 224, 448)) -> None:
    """Compare with CP at several numbers of parameters; draw an image of each digit and its reconstructions.

    The tensor is rows x columns x images; images are sorted by digit, with equally many of each.
    """
    X = digits().toarray().astype(np.float64)
    title = f"{X.shape[2]} images of handwritten digits, a tensor of {' x '.join(map(str, X.shape))} cells"
    found = compare(X, sizes, support="nonzero", peers=("cp-random",), n_starts=5, hold_out=0.0)
    print(f"{title}\n{found}\n{DIGITS_REMARK}")
    pictures = {"original": X}
    for n in sizes:
        pictures[f"{n} parameters"] = decompose(X, adaptive(n), support="nonzero").tensor()
    # a line of ten images for the original and for each size: the first of every tenth of the images is a new digit
    made = new_figure("the demo", (11, 1.05 * len(pictures) + 0.3))
    axes = made.subplots(len(pictures), 10)
    for (name, images), line in zip(pictures.items(), axes, strict=True):
        for digit, axis in enumerate(line):
            axis.imshow(images[:, :, digit * X.shape[2] // 10], cmap="gray_r", vmin=0, vmax=X.max())
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    made.savefig(folder / "digits.png", dpi=110)
    print(f"\nThe picture is in {folder / 'digits.png'}")


def run_flights(folder: Path) -> None:
    """Fit flights twice: with a basis that the data choose, then the busiest levels with interactions of named modes.

    The second fit has 125 parameters that explain 77 % of KL from uniform, and effects that are easy to read: they are
    drawn, and a report page is written.
    """
    X = flights()
    print(f"\n{X.values.sum():,} flights by {', '.join(X.names or ())}: a {' x '.join(map(str, X.shape))} tensor")
    print(f"ld.decompose(X), without a basis: {decompose(X).reason}")
    # for each mode the indices of the levels with most flights, in their own order
    kept = [np.sort(np.argsort(-X.margin(k).toarray())[:n]) for k, n in enumerate((7, 16, 15))]
    levels = [np.asarray(own)[some] for own, some in zip(X.levels or (), kept, strict=True)]
    terms = interactions([("carrier", "dest"), ("hour",)])
    fit = decompose(X.toarray()[np.ix_(*kept)], terms, names=X.names, levels=levels)
    print(f"{fit!r}\n{fit.effects()}\n{FLIGHTS_REMARK}")
    fit.plot.effects().savefig(folder / "flights.png", dpi=110)
    print(f"The picture is in {folder / 'flights.png'}")
    fit.report(folder / "flights.html")
    print(f"Effects, slices, residuals and parameters are on one page, {folder / 'flights.html'}: open it in a browser")
