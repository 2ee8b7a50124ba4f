"""Try an installed legendre as a newcomer would: every package is imported, small and compiled fits, files, commands.

It needs nothing but what the wheel itself asks for: ``python tools/smoke.py`` in any environment.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np

import legendre as ld

COMPILED = (60, 60, 60)  # cells that are swept by compiled code: see NUMPY_CELLS in core/limits.py


def imports() -> int:
    """Import every module of the package."""
    names = [module.name for module in pkgutil.walk_packages(ld.__path__, "legendre.")]
    for name in names:
        import_module(name)
    for name in ld.__all__:
        getattr(ld, name)
    return len(names)


def fits() -> None:
    """Fit by every way that needs no other package, and check what is known of the answers."""
    rng = np.random.default_rng(0)
    table = ld.datasets.drug_use()
    pairs = ld.decompose(table, ld.interactions(2))
    assert pairs.converged
    assert round(pairs.inference().g2, 3) == 0.374, "R's loglin gives 0.374"
    gaps = np.outer([1.0, 2, 3], [4.0, 5, 6])
    gaps[1, 2] = np.nan
    assert abs(float(ld.complete(gaps, "interactions(1)").tensor()[1, 2]) - 12) < 1e-9
    assert ld.balance([[4.0, 1.0], [2.0, 3.0]]).margin_error < 1e-10
    assert ld.decompose(rng.poisson(3.0, (8, 7, 6)), ld.adaptive(20)).n_params == 20
    assert ld.hidden(np.full((2, 2, 2), 3.0), ld.rbm(3, 1), restarts=1).kl < 1e-8
    chain = ld.from_rows(rng.integers(0, 2, (500, 60)), levels=2)
    assert ld.decompose(chain, ld.boltzmann([(k, k + 1) for k in range(59)])).converged
    large = ld.decompose(rng.gamma(2.0, size=COMPILED), "B1 + B3(2)")
    assert large.converged
    assert large.residual <= 1e-10


def files(folder: Path) -> None:
    """Save and load, and run the command on a table."""
    fit = ld.decompose([[1, 2], [3, 4]], "B1")
    fit.save(folder / "fit.npz")
    assert np.array_equal(ld.load(folder / "fit.npz").theta, fit.theta)
    (folder / "trips.csv").write_text("line,day\n" + "red,Mon\nred,Tue\ngreen,Mon\n" * 9)
    command_line = str(Path(sys.executable).with_name("legendre"))
    for arguments in (
        ["fit", "trips.csv", "--columns", "line,day"],
        ["show", "trips.fit.npz"],
        ["report", "trips.fit.npz"],
    ):
        subprocess.run([command_line, *arguments], cwd=folder, check=True, capture_output=True)
    assert (folder / "report.html").stat().st_size > 10_000


def main() -> None:
    """Do all of it."""
    n = imports()
    fits()
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder))
    versions = ", ".join(f"{name} {import_module(name).__version__}" for name in ("numpy", "scipy", "numba"))
    place = Path(ld.__file__).parent
    assert "site-packages" in place.parts, f"this is the source in {place}, not what was installed"
    print(f"legendre {ld.__version__}, python {sys.version.split()[0]}, {versions}: {n} modules, fits, files, commands")


if __name__ == "__main__":
    main()
