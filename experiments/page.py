"""docs/background/results.md, written from the rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.csv_records import read
from benchmarks.machine import older
from benchmarks.problems import ROOT
from benchmarks.tables import markdown, number

from . import findings
from .arranged import arrangement_bits
from .comparison import ADAPTIVE, COMPARED, MASKED, NONZERO, PAPER, UNIFORM, Effort, Row
from .prose import HELD_OUT, INTRODUCTION, LEFT_OUT, READING, ZEROS_KEPT
from .recovery import STRENGTH, Recovery
from .settings import DEFAULT, FULL, NAMES, UNORDERED, Level
from .summary import MEASURES, Quantity, mean, over_tensors, verdicts

PAGE = ROOT / "docs" / "background" / "results.md"
CIRCUMSTANCES = "runs.csv"
SHOWN = ("RMSE", "KL")
"""Measures in the tables; losses are listed for all."""
ALL = (UNIFORM, PAPER, ADAPTIVE, UNORDERED, *COMPARED, *(name + MASKED for name in (*COMPARED, NONZERO)))


@dataclass(frozen=True)
class Circumstances:
    """When and where something was run."""

    date: str
    level: str
    experiments: str
    machine: str
    threads: str
    versions: str


def write_page(rows: Mapping[str, Any], folder: Path, path: Path = PAGE) -> Path:
    """Write the page; `folder` has the figures."""
    where = Path(os.path.relpath(folder, path.parent)).as_posix()
    last = next(reversed(read(folder / CIRCUMSTANCES, Circumstances)), None)
    parts = [
        INTRODUCTION,
        _circumstances(last),
        "## Adaptive against the best of the others",
        _verdicts(rows["faces"], rows["mnist"]),
        "## Figure 4a, b: natural gradient against gradient descent",
        _claims(findings.natural(rows["gradient"])),
        _picture(where, "gradient.png", rows["gradient"]),
        "## Figure 4c: time against the size of the tensor",
        _claims(findings.sizes(rows["scale"])),
        _picture(where, "scale.png", rows["scale"]),
        "## Figure 5a, b: faces",
        _claims(findings.faces(rows["faces"])),
        _picture(where, "faces.png", rows["faces"]),
        _faces(rows["faces"]),
        "## Figure 5c, d: MNIST",
        _claims(findings.mnist(rows["mnist"])),
        _picture(where, "mnist.png", rows["mnist"]),
        ZEROS_KEPT if rows["mnist"] else "",
        _mnist(rows["mnist"]),
        _picture(where, "digits.png", rows["mnist"]),
        "## Held-out events",
        HELD_OUT,
        _claims(findings.held_out(rows["heldout"])),
        _picture(where, "heldout.png", rows["heldout"]),
        '## Does adaptive("bic") find the true cells?',
        _recovery(rows["recovery"]),
        LEFT_OUT.format(arrangements=_arrangements()),
        _reading(FULL if last is not None and last.level == "full" else DEFAULT),
    ]
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return path


def _circumstances(last: Circumstances | None) -> str:
    if last is None:
        return findings.NONE
    run = f"Last run {last.date} ({last.level}) on {last.machine} (threads: {last.threads}). {last.versions}."
    return older(last.versions) + run


def _claims(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _picture(where: str, file: str, rows: Sequence[object]) -> str:
    return f"![{file}]({where}/{file})" if rows else ""


def _verdicts(faces: Sequence[Row], mnist: Sequence[Row]) -> str:
    """Table every number of parameters: ours, the best peer at its best seed, and the ratio."""
    parts = {
        "faces": verdicts(faces, "all", peer_support="all"),
        "MNIST, zeros left out; others as they are": verdicts(mnist, "nonzero", peer_support="nonzero"),
        "MNIST, zeros left out; others x mask": verdicts(mnist, "nonzero", peer_support="nonzero", masked=True),
        "MNIST, zeros left out of both fits": verdicts(
            mnist, "nonzero", peer_support="nonzero", masked=True, peers=(NONZERO,)
        ),
        "MNIST, zeros kept": verdicts(mnist, "all", peer_support="nonzero"),
        "faces, people unordered": verdicts(faces, "all", peer_support="all", method=UNORDERED),
        "MNIST, zeros kept, images unordered": verdicts(mnist, "all", peer_support="nonzero", method=UNORDERED),
    }
    judged = [(data, v) for data, found in parts.items() for v in found]
    if not judged:
        return findings.NONE
    lost = [
        f"{data}, {v.asked:,} parameters, {v.measure}, {NAMES[v.peer]} ({v.ours / v.best:.3f})"
        for data, v in judged
        if v.ours >= v.best
    ]
    text = (
        f"Adaptive is better in {len(judged) - len(lost)} of {len(judged)} comparisons. The other side is the best of "
        f"{len(COMPARED)} methods, each at the best of its seeds, with at least as many parameters; on MNIST both are "
        "means over the digits. *won* counts the tensors on which adaptive is better."
    )
    text += f" Others are ahead here: {'; '.join(lost)}.\n\n" if lost else " Others are ahead in none.\n\n"
    lines = []
    for data, asked in dict.fromkeys((data, v.asked) for data, v in judged):
        if asked not in _spread_out(v.asked for name, v in judged if name == data):
            continue
        line = [data, f"{asked:,}"]
        for v in (v for name, v in judged if (name, v.asked) == (data, asked) and v.measure in SHOWN):
            line += [number(v.ours, ".4g"), f"{number(v.best, '.4g')} {NAMES[v.peer]}", f"{v.won}/{v.tensors}"]
        lines.append(line)
    columns = ("data", "parameters", *(f"{name}{m}" for m in SHOWN for name in ("", "best other ", "won ")))
    absent = [data for data, found in parts.items() if not found]
    rest = f"\n\nNo line, for want of fits of ours or of others: {'; '.join(absent)}." if absent else ""
    return text + markdown(columns, lines) + rest


def _faces(rows: Sequence[Row]) -> str:
    return _by_size(rows, "RMSE", MEASURES["RMSE"])


def _mnist(rows: Sequence[Row]) -> str:
    parts = [_by_size(rows, "RMSE, zeros left out", MEASURES["RMSE"], "nonzero")]
    lost = [row for row in rows if row.method in (PAPER, ADAPTIVE) and row.seed is None and row.rmse is None]
    lost = [row for row in lost if row.status != "SKIPPED"]
    unsound = [row for row in rows if row.status in ("STALLED", "OUT_OF_STEPS")]
    if lost or unsound:
        parts.append(
            f"{len(lost)} fits of ours were given up after the time limit and {len(unsound)} did not converge; they "
            "are left out of the tables and figures."
        )
    return "\n\n".join(part for part in parts if part)


def _spread_out(sizes: Iterable[int]) -> list[int]:
    """Return the sizes that tables show, at most four; the figures and the rows have all of them."""
    known = sorted(set(sizes))
    return known[:: max(1, (len(known) - 1) // 3)]


def _by_size(
    rows: Sequence[Row],
    name: str,
    quantity: Quantity,
    support: str = "all",
) -> str:
    """Table a measure, methods down and sizes across; of peers the best seed."""
    sizes = _spread_out(row.asked for row in rows if row.asked)
    lines = []
    for method in ALL:
        cells = []
        for asked in sizes:
            best = mean(over_tensors(rows, method, support, asked, quantity))
            cells.append("" if best != best else f"{best:.4g}")
        if any(cells):
            lines.append([NAMES[method], *cells])
    return markdown((name, *(f"{n:,}" for n in sizes)), lines) if lines else ""


def _arrangements() -> str:
    """Say what the orders of people and of images are worth."""
    found = [(name, arrangement_bits(levels)) for name, levels in (("20 people", 20), ("500 images", 500))]
    return " and ".join(f"{bits:,.0f} bits for {name}, as much as {bits / 64:.1f} parameters" for name, bits in found)


def _recovery(rows: Sequence[Recovery]) -> str:
    if not rows:
        return findings.NONE
    lines = []
    for shape, total in dict.fromkeys((row.shape, row.total) for row in rows):
        here = [row for row in rows if (row.shape, row.total) == (shape, total)]
        signal, noise = [row for row in here if row.n_true], [row for row in here if not row.n_true]
        true = sum(row.n_true for row in signal)
        lines.append(
            [
                shape,
                f"{total:,}",
                f"{sum(row.exact for row in signal) / true:.0%}" if true else "",
                f"{mean(row.found for row in signal):.1f}",
                f"{mean(row.spurious for row in signal):.2f}",
                f"{mean(row.kl_truth for row in signal):.1e}",
                f"{mean(row.found for row in noise):.2f}",
            ]
        )
    n_true = max(row.n_true for row in rows)
    text = (
        f"Counts drawn from models with {n_true} cells of theta = +-{STRENGTH:g} in the lower half of each mode. "
        "*exact*: the share of true cells that are chosen; *spurious*: chosen cells more than one index away from "
        "all true ones, for each tensor; *in noise*: cells chosen for counts from the uniform distribution.\n\n"
    )
    columns = ("shape", "counts", "exact", "chosen", "spurious", "KL(truth, fit)", "in noise")
    return text + markdown(columns, lines)


def _reading(level: Level) -> str:
    faces, mnist = _efforts(level.seeds, level.efforts), _efforts(level.mnist_seeds, level.mnist_efforts)
    return READING.format(faces=faces, mnist=mnist)


def _efforts(seeds: Mapping[str, int], efforts: Mapping[str, Effort]) -> str:
    return "; ".join(
        f"{NAMES[name]} {seeds[name]} x {effort.max_iter}"
        + (f" (about {effort.seconds:.0f} s)" if name == "cp-apr" else "")
        for name, effort in efforts.items()
    )
