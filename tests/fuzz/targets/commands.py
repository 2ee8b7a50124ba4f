"""The command line: exit codes and one sentence, whatever files and arguments it is given."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..fit_rules import close, need
from ..rules import Trial, fingerprint
from . import Args, Target

CSV = (
    "1,2\n3,4\n",
    "1;2\n3;4\n",
    "a,b\n1,2\n",
    "1,2\n3\n",
    "",
    "1,,2\n3,NA,4\n",
    "1,2,\n3,4,\n",
    "\ufeff1,2\n3,4",
    "1e400,1\n1,1\n",
    "1_0,2\n3,4\n",
    "-1,2\n3,4\n",
    "nan,nan\nnan,nan\n",
    "0,0\n0,0\n",
    "1,2\n\n3,4\n",
    '"1",2\n3,"4"\n',
    "1,2\r\n3,4\r\n",
    "\0,1\n",
    "inf,1\n1,1\n",
)


def draw_commands(rng: np.random.Generator) -> Args:
    X = draw.values(rng, draw.shape(rng, 24, (1, 2, 2, 3)), pick(rng, "even", "counts", "sparse"))
    kind = pick(rng, "npy", "npz", "csv", "tns") if chance(rng, 0.8) else pick(rng, "none", "other", "folder", "bytes")
    content: Any = X
    if kind == "csv":
        content = (
            pick(rng, *CSV)
            if chance(rng, 0.5)
            else "\n".join(",".join(map(repr, map(float, row))) for row in np.atleast_2d(X.reshape(len(X), -1)))
        )
    if kind == "bytes":
        content = rng.bytes(int(rng.integers(0, 200)))
    options: list[str] = [
        "--basis",
        str(draw.basis_string(rng, X.shape) if chance(rng, 0.93) else pick(rng, "B9", "", "B1 +", "interactions(7)")),
    ]
    if chance(rng, 0.1):
        options = []  # left to the data
    for name, choices in {
        "--support": ("all", "nonzero", "some"),
        "--solver": ("auto", "natural", "newton"),
        "--tol": ("1e-8", "x", "-1", "nan", "0"),
        "--max-iter": ("0", "5", "-1", "1.5"),
        "--variable": ("X", "Y"),
        "--columns": ("a,b", "a", "a,,b"),
        "--counts": ("b", "n"),
    }.items():
        if chance(rng, 0.08):
            options += [name, pick(rng, *choices)]
    output = pick(rng, "fit.npz", "fit.npz", "fit.npz", "fit.npz", "no/fit.npz", "x.npy", ".", "a b.npz")
    return {
        "kind": kind,
        "content": content,
        "options": options,
        "output": output,
        "what": pick(rng, "fit", "fit", "fit", "show", "junk") if chance(rng, 0.98) else "compare",
        "show": [w for w in ("--extend",) if chance(rng, 0.2)]
        + (["--tensor", pick(rng, "q.npy", "q", "no/q.npy")] if chance(rng, 0.6) else []),
        "junk": pick(
            rng,
            [],
            ["--version"],
            ["--help"],
            ["fit"],
            ["fat"],
            ["fit", "--help"],
            ["show", "nothing.npz"],
            ["demo", "--output"],
            ["--nonsense"],
            ["compare", "nothing.npy"],
        ),
    }


def written(args: Args, folder: Path) -> Path:
    """Write the input file."""
    kind, content = args["kind"], args["content"]
    path = folder / f"x.{kind}"
    match kind:
        case "npy":
            np.save(path, content)
        case "npz":
            np.savez(path, X=content)
        case "csv":
            path.write_text(content, encoding="utf-8", newline="")
        case "tns":
            lines = [" ".join([*(str(i + 1) for i in v), repr(float(content[v]))]) for v in np.ndindex(content.shape)]
            path.write_text("\n".join(lines) + "\n")
        case "other":
            path = folder / "x.txt"
            path.write_text("1 2 3")
        case "folder":
            path.mkdir()
        case "bytes":
            path = folder / pick(np.random.default_rng(len(content)), "x.npy", "x.npz", "x.csv", "x.tns", "x.tns.gz")
            path.write_bytes(content)
    return path


def run(argv: list[str], folder: Path) -> tuple[int, str, str]:
    """Run the command line in this process."""
    from legendre.cli import main

    out, err, old = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["legendre", *argv]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
            code: Any = 0
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = old
    return (code if isinstance(code, int) else 0 if code is None else 1), out.getvalue(), err.getvalue()


def try_commands(args: Args, folder: Path) -> Trial:
    path = written(args, folder)
    fit = ["fit", path.name, *args["options"], "--output", args["output"]]
    runs = {
        "junk": [args["junk"]],
        "fit": [fit],
        "show": [fit, ["show", args["output"], *args["show"]]],
        "compare": [["compare", path.name, "--no-peers", "--params", "2", "--seeds", "1", "-o", "cmp"]],
    }[args["what"]]

    def call() -> Any:
        return [run(argv, folder) for argv in runs]

    def check(found: Any) -> str:
        for (code, out, err), argv in zip(found, runs, strict=True):
            need(code in (0, 1, 2), f"{argv} ends with code {code}")
            need("Traceback" not in out + err, f"{argv} shows a traceback: {err[-300:]}")
            if code == 2 and argv[:1] in (["fit"], ["show"], ["compare"]) and "Usage" not in err:
                need(
                    err.startswith("legendre: ") and len(err.strip().splitlines()) == 1,
                    f"code 2 without one sentence: {err!r}",
                )
            if argv and argv[0] == "fit" and code in (0, 1) and "--help" not in argv:
                result = ld.load(folder / args["output"])
                need(result.converged == (code == 0), f"code {code}, but {result.status.name}")
                need(result.summary() in out, "the summary is not printed")
        if args["what"] == "show" and all(code in (0, 1) for code, _, _ in found) and "--tensor" in args["show"]:
            result = ld.load(folder / args["output"])
            name = folder / args["show"][args["show"].index("--tensor") + 1]
            right = result.tensor(extend="--extend" in args["show"])
            close(np.load(name), right, 0.0, "the tensor that was written")
        return (
            "right"
            if all(code == 0 for code, _, _ in found)
            else "unconverged"
            if any(code == 1 for code, _, _ in found)
            else "refused"
        )

    return Trial(call, check, (), lambda found: fingerprint(sorted(code for code, _, _ in found)), twice=False)


TARGETS = [Target("commands", draw_commands, try_commands, 0.05)]
