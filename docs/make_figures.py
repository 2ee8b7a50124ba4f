"""Draw the pictures of the documentation: ``python docs/make_figures.py [folder]``.

Pictures of the front page, of "Five minutes" and of some guides come from the examples on these pages.

The tensors of real flights and passengers lie in the folder that LEGENDRE_DATA names; they are not part of the project,
and pictures of them are skipped where it is not set. The hours of the example are drawn here, with a fixed seed.
"""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

FOLDER = Path(__file__).parent / "figures"
# guides whose first picture their own examples draw
GUIDES = {
    "balancing": "balancing",
    "boxes": "boxes",
    "completion": "completion",
    "effects": "effects",
    "inference": "mosaic",
}


def metro(data: Path) -> ld.Decomposition:
    """Fit who left 80 stations of Hangzhou's metro, in slots of ten minutes from 6 to 24, 1 to 25 January 2019."""
    X = np.load(data / "hangzhou_metro.npz")["flow"]
    days = np.arange("2019-01-01", "2019-01-26", dtype="datetime64[D]")
    clock = [f"{6 + slot // 6:02}:{slot % 6}0" for slot in range(108)]
    levels = {"station": range(1, 81), "day": days, "time": clock}
    return ld.decompose(X, ld.adaptive(50), names=["station", "day", "time"], levels=levels)


def flights(data: Path) -> ld.Decomposition:
    """Fit all flights that left New York in 2013."""
    held = np.load(data / "flights.npz")
    names = ["carrier", "dest", "hour"]
    levels = {name: held[f"level_{name}"] for name in names}
    return ld.decompose(held["flights3"], ld.adaptive("bic", max_params=50), names=names, levels=levels)


def example() -> ld.Decomposition:
    """Fit the counts of docs/guides/figures.md."""
    rng = np.random.default_rng(0)
    hours, lines = np.arange(6, 24), ["red", "green", "blue", "night"]
    days = np.arange("2024-03-01", "2024-03-15", dtype="datetime64[D]")
    rush = 1 + 3 * np.exp(-((hours - 8) ** 2) / 4) + 2 * np.exp(-((hours - 17) ** 2) / 6)
    X = rng.poisson(np.multiply.outer(np.outer([60, 30, 20, 4], np.ones(14)), rush))
    X[:, [1, 2, 8, 9]] //= 3
    X[3, :, -3:] += 40
    return ld.decompose(X, ld.adaptive(25), names=["line", "day", "hour"], levels=[lines, days, hours])


def method() -> Any:
    """Draw what docs/background/method.md says: a block, two blocks, and the sums that are compared."""
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle

    one, both = np.ones((6, 6)), np.ones((6, 6))
    one[2:, 3:] *= 3
    both[2:, 3:] *= 3
    both[3:, 1:] *= 2
    drawn = np.random.default_rng(0).poisson(4 * both)
    shown = {"one parameter: a factor 3": one, "two parameters: 3 and 2": both, "data: sums of the same blocks": drawn}
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    for ax, (title, values) in zip(axes, shown.items(), strict=True):
        ax.pcolormesh(np.ma.masked_less(values, 0), cmap="Blues", vmin=0, vmax=1.6 * values.max(), edgecolors="white")
        for place, value in np.ndenumerate(values):
            ax.text(place[1] + 0.5, place[0] + 0.5, f"{value:g}", ha="center", va="center", size=12)
        for row, column in [(2, 3)] if values is one else [(2, 3), (3, 1)]:
            ax.add_patch(Rectangle((column, row), 6 - column, 6 - row, fill=False, edgecolor="#d55e00", linewidth=3))
            ax.text(column + 0.12, row + 0.12, "u", color="#d55e00", size=13, weight="bold")
        ax.set_title(title, size=13)
        ax.set(xticks=[], yticks=[], aspect="equal")
    return figure


def drawn_on(page: str) -> Iterator[Any]:
    """Run the examples of a page, and give the pictures that they call `figure` or `ax`, in order."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples((FOLDER.parent / page).read_text()):
        exec(compile(example.source, page, "single"), names)
        if example.source.startswith(("figure = ", "ax = ")) and ".plot." in example.source:
            yield names[example.source.split()[0]]


def save(picture: Any, folder: Path, name: str, dpi: int) -> None:
    """Write a figure, or the figure of some axes."""
    figure = picture if hasattr(picture, "savefig") else picture.figure
    figure.savefig(folder / f"{name}.png", dpi=dpi)
    print(f"{name}.png: {(folder / f'{name}.png').stat().st_size / 1000:.0f} kB")


def photograph_report(fit: ld.Decomposition, folder: Path) -> None:
    """Take a picture of a report page in chromium, where that is installed."""
    if (chromium := shutil.which("chromium")) is None:
        return
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "page.html"
        fit.report(page)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}/profile"]
        size = ["--window-size=1100,1750", "--hide-scrollbars", "--force-device-scale-factor=0.8"]
        shot = f"--screenshot={(folder / 'report.png').resolve()}"
        subprocess.run([chromium, *flags, *size, shot, page.as_uri()], check=True, capture_output=True)


def main(folder: Path) -> None:
    """Draw them all."""
    import matplotlib

    matplotlib.use("agg")
    folder.mkdir(parents=True, exist_ok=True)
    if named := os.environ.get("LEGENDRE_DATA"):
        save(metro(Path(named)).plot.effects(), folder, "metro_effects", 80)
        save(flights(Path(named)).plot.effects(), folder, "flights_effects", 80)
    for picture, name in zip(drawn_on("index.md"), ("door_tensor", "door_table", "door_events"), strict=True):
        save(picture, folder, name, 80)
    for picture in drawn_on("start/five-minutes.md"):
        save(picture, folder, "five_minutes", 80)
    for page in GUIDES:
        save(next(drawn_on(f"guides/{page}.md")), folder, page, 70)
    save(method(), folder, "method", 80)
    plot = example().plot
    for name in ("slices", "residuals", "margins", "graph", "path"):
        save(getattr(plot, name)(), folder, name, 70)
    photograph_report(plot.fit, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
