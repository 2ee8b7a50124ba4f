"""Build the wheel and the source archive, and try both on every supported Python that is found: ``make test-matrix``.

Each Python gets two environments, one with the oldest versions of packages that pyproject.toml allows and that have a
wheel for it, one with the newest. A supported Python that is not found is said, and does not fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13")
AGES = {"oldest": "lowest-direct", "newest": "highest"}
UV = [sys.executable, "-m", "uv"]


def candidates(version: str) -> list[str]:
    """List programs that may be this Python: on the path, or where pyenv keeps several."""
    named = shutil.which(f"python{version}")
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [*([named] if named else []), *map(str, sorted(kept.glob(f"{version}.*/bin/python")))]


def answers(program: str, version: str) -> bool:
    """Tell whether a program runs and is this Python."""
    asked = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source archive, and from it the wheel."""
    subprocess.run([*UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)
    (archive,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return archive, wheel


def try_out(program: str, package: Path, resolution: str, folder: Path) -> str:
    """Install a package into a fresh environment and run the smoke test there; return what it said."""
    python = folder / "bin" / "python"
    subprocess.run([*UV, "venv", "--quiet", "--python", program, str(folder)], check=True)
    install = [*UV, "pip", "install", "--quiet", "--python", str(python), "--resolution", resolution]
    # named here as well: uv takes the oldest versions of what it was asked for, not of what that asks for
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    built = [] if package.suffix == ".whl" else ["--no-binary", "legendre"]
    subprocess.run([*install, "--only-binary", ":all:", *built, str(package), *needed], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    smoke = [str(python), str(ROOT / "tools" / "smoke.py")]
    done = subprocess.run(smoke, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program}, {resolution} versions:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> None:
    """Try every combination, or those with the packages that the command names, and print a line for each."""
    ages = sys.argv[1:] or [*AGES]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive, wheel = build(folder / "dist")
        print(
            f"{archive.name} {archive.stat().st_size:,} bytes, {wheel.name} {wheel.stat().st_size:,} bytes", flush=True
        )
        tried = 0
        for version in SUPPORTED:
            program = next((found for found in candidates(version) if answers(found, version)), None)
            if program is None:
                print(f"python {version}: not found on this machine", flush=True)
                continue
            for age in ages:
                began = time.monotonic()
                said = try_out(program, wheel, AGES[age], folder / f"{version}-{age}")
                print(f"{age}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
                tried += 1
        if not tried:
            raise SystemExit("no supported Python was found.")
        said = try_out(sys.executable, archive, "highest", folder / "source")
        print(f"source archive: {said}")


if __name__ == "__main__":
    main()
