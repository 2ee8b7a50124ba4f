"""Claims of the paper beside our results, as sentences whose numbers are computed from the rows."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import OURS
from benchmarks.results import LABELS as BENCH_LABELS
from benchmarks.results import exponent
from benchmarks.rows import Row as BenchRow
from benchmarks.tables import number

from .comparison import ADAPTIVE, COMPARED, MASKED, NONZERO, PAPER, UNIFORM, Row
from .gradients import projected
from .heldout import HeldOut, table
from .scale import METHODS
from .settings import NAMES, UNORDERED
from .summary import MEASURES, Quantity, mean, of, over_tensors

NONE = "No rows yet."
HOLDS = {True: "**Holds.**", False: "**Does not hold here.**"}


def natural(rows: Sequence[Row]) -> list[str]:
    """Say how many iterations the natural gradient takes, and how much faster it is."""
    fast = {row.asked: row for row in rows if row.method == "natural"}
    slow = {row.asked: row for row in rows if row.method == "gradient"}
    if not fast or not slow:
        return [NONE]
    steps = sorted({row.n_iter or 0 for row in fast.values()})
    needed = {asked: projected(row) for asked, row in slow.items()}
    largest = max(fast.keys() & slow.keys())
    ratio = needed[largest][1] / (fast[largest].seconds or 1.0)
    lowest, highest = min(n for n, _ in needed.values()), max(n for n, _ in needed.values())
    stopped = sum(row.status != "CONVERGED" for row in slow.values())
    return [
        "*The natural gradient takes two or three iterations.* "
        f"{HOLDS[steps[-1] <= 3]} It took {steps[0]} to {steps[-1]}.",
        f"*Gradient descent needs more than 10^5 iterations.* {HOLDS[lowest > 1e5]} With the paper's rate of 0.1 it "
        f"needs {lowest:.1e} to {highest:.1e} passes over B. {stopped} of {len(slow)} runs were stopped by the clock; "
        "their number is that of the iteration linearised at the minimum, and their time is in proportion. The "
        "tolerance, max|eta - eta_hat| <= 1e-5, is ours: the paper names none.",
        "*More than six orders of magnitude faster at about 400 parameters.* "
        f"{HOLDS[ratio > 1e6]} At {largest} parameters the ratio of the times is {ratio:.1e}.",
    ]


def sizes(rows: Sequence[BenchRow]) -> list[str]:
    """Describe how time grows, and which method is faster at which size."""
    lines = {method: [row for row in rows if row.method == method and row.measured] for method in METHODS}
    ours = {row.problem: row for row in lines[OURS]}
    if not ours:
        return [NONE]
    large = [row for row in lines[OURS] if row.cells >= 10**6]
    power = exponent(large, lambda row: row.cells, lambda row: row.seconds)
    said = []
    if power is not None:
        said.append(
            f"*Time is linear in the size of the tensor.* {HOLDS[power <= 1.1]} From 100^3 on it grows with the power "
            f"{power:.2f} of the number of cells."
        )
    for method, claim in (
        ("cp-random", "Slower than NN-CP if tensors get larger."),
        ("tucker", "Slower than NN-Tucker if tensors get larger."),
        ("cp-apr", "Faster than CP-APR if the tensor is not large."),
    ):
        common = [row for row in lines[method] if row.problem in ours]
        if not common:
            continue
        last = max(common, key=lambda row: row.cells)
        ratio = (last.seconds or 0.0) / (ours[last.problem].seconds or 1.0)
        holds = (ratio < 1) == claim.startswith("Slower")
        said.append(
            f"*{claim}* {HOLDS[holds]} On {last.problem.split()[0]} {BENCH_LABELS[method]} takes {ratio:.3g} times as "
            "long."
        )
    return said


def faces(rows: Sequence[Row]) -> list[str]:
    """Say at which numbers of parameters ours has the smaller error."""
    if not rows:
        return [NONE]
    said = []
    for method in (PAPER, ADAPTIVE, UNORDERED):
        better, worse = _below(rows, method, MEASURES["RMSE"])
        if not better and not worse:
            continue
        holds = {n for n in better if n <= 2000} >= {n for n in better + worse if n <= 2000}
        claim = "*The smallest RMSE of all up to 2,000 parameters.* " if method == PAPER else ""
        said.append(
            f"{claim}{HOLDS[holds] + ' ' if claim else ''}{NAMES[method]}: the RMSE is below the best seed of every "
            f"other method at {_where(better, worse)}."
        )
    said += _times(rows)
    wide = [row for row in of(rows, PAPER, "all") if row.rmse is not None]
    if len(wide) > 1:
        best = min(wide, key=lambda row: row.rmse or 0.0)
        last = max(wide, key=lambda row: row.asked)
        if best is not last:
            said.append(
                f"More of the paper's basis is not always better: {last.note} has RMSE {number(last.rmse, '.4g')}, "
                f"{best.note} {number(best.rmse, '.4g')}. From l > I_k / 2 on B2(l) is the first l rows and columns."
            )
    return said


def mnist(rows: Sequence[Row]) -> list[str]:
    """Compare with the peers when they too know which cells are 0."""
    if not rows:
        return [NONE]
    quantity = MEASURES["RMSE"]
    said = []
    for text, support, suffix in (
        ("zeros left out, the others as they are", "nonzero", ""),
        ("zeros left out, the others multiplied by the same mask", "nonzero", MASKED),
        ("zeros left out, and of the fit of NN-CP too", "nonzero", None),
        ("zeros kept", "all", ""),
    ):
        for method in (PAPER, ADAPTIVE, UNORDERED):
            better, worse = _below(rows, method, quantity, support, suffix)
            if better or worse:
                claim = f"*The smallest RMSE.* {HOLDS[not worse]} " if (method, suffix) == (PAPER, "") else ""
                where = _where(better, worse)
                said.append(f"{claim}{NAMES[method]}, {text}: the mean RMSE is the smallest at {where}.")
    uniform = mean(over_tensors(rows, UNIFORM, "nonzero", None, quantity))
    best = _best_peer(rows, quantity, "nonzero", "")
    beaten = [n for n, value in best.items() if value > uniform]
    said.append(
        f"The uniform distribution on the mask, without any parameter, has RMSE {uniform:.4g}: the best of the others "
        f"as they are is worse than that at {_counts(beaten)}. There the claim is about the mask, which ours is given "
        "and they are not."
    )
    return said


def held_out(rows: Sequence[HeldOut]) -> list[str]:
    """Say who predicts the other half best, and by how much more it differs than the half that was fitted."""
    if not rows:
        return [NONE]
    said = []
    for problem in dict.fromkeys(row.problem for row in rows):
        found = table(rows, problem)
        parts = []
        for asked in sorted({asked for _, asked in found}):
            here = {method: row.kl_one_more or 0.0 for (method, n), row in found.items() if n == asked}
            best = min(here, key=lambda method: here[method])
            ours = [name for name in (ADAPTIVE, UNORDERED) if name in here]
            others = [name for name in here if name not in ours]
            rival = min(others, key=lambda name: here[name]) if best in ours and others else ADAPTIVE
            versus = f", {NAMES[rival]} {here[rival]:.4g}" if rival in here and rival != best else ""
            parts.append(f"at {asked:,} {NAMES[best]} ({here[best]:.4g}{versus})")
        said.append(f"{problem}: the smallest held-out KL has {'; '.join(parts)}.")
    return said


def _below(
    rows: Sequence[Row], method: str, quantity: Quantity, support: str = "all", suffix: str | None = ""
) -> tuple[list[int], list[int]]:
    peer_support = "nonzero" if any(row.support == "nonzero" for row in rows) else "all"
    best = _best_peer(rows, quantity, peer_support, suffix)
    ours = {n: mean(over_tensors(rows, method, support, n, quantity)) for n in best}
    known = [n for n in best if ours[n] == ours[n]]
    return [n for n in known if ours[n] < best[n]], [n for n in known if ours[n] >= best[n]]


def _best_peer(rows: Sequence[Row], quantity: Quantity, support: str, suffix: str | None) -> dict[int, float]:
    """Return the best mean at each size; without a suffix that of the peer that leaves the zeros out."""
    names = [NONZERO + MASKED] if suffix is None else [name + suffix for name in COMPARED]
    found = {}
    for asked in sorted({row.asked for row in rows if row.asked}):
        means = [mean(values) for name in names if (values := over_tensors(rows, name, support, asked, quantity))]
        if means:
            found[asked] = min(means)
    return found


def _times(rows: Sequence[Row]) -> list[str]:
    """Say where the paper's basis is faster than each of the others, as they stop."""

    def seconds(row: Row) -> float | None:
        return row.seconds

    ours = {n: mean(over_tensors(rows, PAPER, "all", n, seconds, mean)) for n in {row.asked for row in rows}}
    faster: dict[str, tuple[list[int], list[int]]] = {}
    for name in COMPARED:
        theirs = {n: mean(over_tensors(rows, name, "all", n, seconds, mean)) for n in ours}
        known = sorted(n for n in ours if ours[n] == ours[n] and theirs[n] == theirs[n])
        faster[name] = [n for n in known if ours[n] < theirs[n]], [n for n in known if ours[n] >= theirs[n]]
    if not any(better or worse for better, worse in faster.values()):
        return []
    largest = max(n for better, worse in faster.values() for n in (*better, *worse))
    holds = not faster["cp-apr"][1] and not any(largest in faster[name][0] for name in COMPARED if name != "cp-apr")
    text = "; ".join(f"than {NAMES[name]} at {_where(*where)}" for name, where in faster.items() if any(where))
    return [
        f"*Slower than Tucker and CP as the number of parameters grows, faster than CP-APR.* {HOLDS[holds]} The "
        f"paper's basis is faster {text}. Their times depend on when they stop."
    ]


def _where(better: Sequence[int], worse: Sequence[int]) -> str:
    if not worse:
        return "every number of parameters"
    return f"{_counts(better)}, not at {_counts(worse)}" if better else f"none of {_counts(worse)}"


def _counts(params: Sequence[int]) -> str:
    return f"{', '.join(f'{n:,}' for n in params)} parameters" if params else "no number of parameters"
