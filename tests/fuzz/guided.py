"""Coverage-guided: atheris mutates bytes until they reach new lines of the parsers and readers of foreign text.

``python -m tests.fuzz.guided --target tns --minutes 5``; without a target each in turn, in a process of its own.
An input that breaks a rule is written to fuzz-failures/ and printed. atheris is in the extra ``fuzz``.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAILURES = Path("fuzz-failures")
MOST = 1 << 14  # bytes of an input: a saved fit has half as many
SECONDS = 10  # that one input may take


def basis(data: bytes) -> None:
    """Read bytes as a basis, and lay it out on a small tensor."""
    import numpy as np

    import legendre as ld
    from legendre.basis.parse import as_basis

    text = data.decode("utf-8", "surrogateescape")
    recipe = as_basis(text)
    if recipe.growing is None:
        ld.decompose(np.arange(1.0, 13.0).reshape(2, 3, 2), recipe, max_iter=3)


def tns(data: bytes) -> None:
    """Read bytes as a text file of a tensor."""
    import legendre as ld

    ld.read_tns(_file(data, ".tns"))


def load(data: bytes) -> None:
    """Read bytes as a saved result, and look at it."""
    import legendre as ld

    result = ld.load(_file(data, ".npz"))
    result.summary()


def csv(data: bytes) -> None:
    """Read bytes as a matrix in a CSV file."""
    from legendre.cli.read import read_input

    read_input(_file(data, ".csv"))


def margins(data: bytes) -> None:
    """Read bytes as a Python literal, and that as margins."""
    import numpy as np

    import legendre as ld

    try:
        given = ast.literal_eval(data.decode("utf-8", "replace"))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return
    ld.balance(np.arange(1.0, 7.0).reshape(2, 3), given, max_iter=20)


READERS: dict[str, Callable[[bytes], None]] = {"basis": basis, "tns": tns, "load": load, "csv": csv, "margins": margins}
SEEDS = {
    "basis": [b"B1 + B2(2) - B3(1, axis=0)", b"interactions([(0, 1), (2,)]) & full()", b"cells([[0, 1, 1]]) | empty"],
    "tns": [b"# c\n1 1 2 5\n2 1 1 0.5e-3\n", b"sptensor\n2\n2 3\n2\n1 1 1.0\n2 3 4\n", b"tensor\n2\n1 2\n3\n4\n"],
    "csv": [b"1,2\n3,4\n", b'"1",NA\r\n,4\r\n'],
    "margins": [b"{0: [1, 2], 1: [1, 1, 1]}", b"[[3, 3], [2, 2, 2]]", b"{(0, 1): [[1, 1, 1], [1, 1, 1]]}"],
}


def _file(data: bytes, ending: str) -> Path:
    path = Path(tempfile.gettempdir()) / f"legendre-guided-{os.getpid()}{ending}"
    path.write_bytes(data)
    return path


def obey(read: Callable[[bytes], None], data: bytes) -> None:
    """Read, and raise whatever is not a refusal of ours; warnings that are not ours are errors."""
    import legendre as ld

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (ld.errors.ConvergenceWarning, ld.errors.BasisWarning):
            warnings.simplefilter("ignore", kind)
        try:
            read(data)
        except ld.LegendreError as refusal:
            if len(str(refusal).split()) < 3:
                raise RuntimeError(f"this refusal is no sentence: {refusal!r}") from None


def seeds(name: str) -> list[bytes]:
    """List inputs to begin with; for `load` a small saved fit."""
    if name != "load":
        return SEEDS[name]
    import legendre as ld

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.npz"
        ld.decompose([[1, 2], [3, 4]], "B1").save(path)
        return [path.read_bytes()]


def fuzz(name: str, minutes: float) -> None:
    """Mutate until the time is over; atheris ends the process."""
    import atheris  # type: ignore[import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["legendre"]):
        import legendre.basis.parse
        import legendre.cli.read
        import legendre.data.readers.tns
        import legendre.results.file_format
        import legendre.tasks.balance.margins
        import legendre.tasks.load  # noqa: F401
    FAILURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for i, seed in enumerate(seeds(name)):
            (Path(corpus) / str(i)).write_bytes(seed)
        options = [
            f"-max_total_time={round(60 * minutes)}",
            f"-max_len={MOST}",
            f"-timeout={SECONDS}",
            "-rss_limit_mb=4096",
        ]
        read: Any = READERS[name]
        atheris.Setup(
            [sys.argv[0], corpus, f"-artifact_prefix={FAILURES}/{name}-", *options], lambda data: obey(read, data)
        )
        atheris.Fuzz()


def main(argv: list[str] | None = None) -> int:
    """Fuzz one reader, or each in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--target", choices=READERS)
    parser.add_argument("--minutes", type=float, default=1.0)
    given = parser.parse_args(argv)
    if given.target is not None:
        fuzz(given.target, given.minutes)
        return 0
    failed = []
    for name in READERS:
        command = [sys.executable, "-m", "tests.fuzz.guided", "--target", name, "--minutes", str(given.minutes)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print(f"broke a rule: {', '.join(failed)}" if failed else "no rule was broken", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
