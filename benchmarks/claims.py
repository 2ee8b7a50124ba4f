"""Promises about speed and memory, each beside the measured value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .determinism import BITS, THREADS
from .measure import NUMPY
from .problems import CELLS_SWEEP
from .results import LABELS, Results, exponent
from .rows import Row


@dataclass(frozen=True)
class Verdict:
    """A promise, what was measured, with which residual, and whether it holds; None: not measured."""

    claim: str
    measured: str
    residual: str
    holds: bool | None


Quantity = Callable[[Row], float | None]


def verdicts(results: Results) -> list[Verdict]:
    """Judge every promise."""
    return [
        _at_most(results, "500^3 B3(1)", "at most 10 x X.sum()", _to_sum, 10, "{:.1f} x"),
        _at_most(results, "500^3 B3(1)", "peak memory at most X + 15 %", _extra_share, 0.15, "X + {:.1%}"),
        _growth(results),
        _faster(results, "200^3 B3(1)", "cp", 20),
        _faster(results, "200^3 B3(1)", "cp-random", 1),
        _faster(results, "200^3 B3(1)", NUMPY, 20),
        _at_most(results, "500^3 B1", "at most 4 x X.sum()", _to_sum, 4, "{:.1f} x"),
        _at_most(results, "20^3 B3(20)", "under 8 ms", _milliseconds, 8, "{:.1f} ms"),
        _at_most(results, "20^3 B3(40)", "under 30 ms", _milliseconds, 30, "{:.1f} ms"),
        _at_most(results, "50^3 B3(100) to 1e-9", "a step at most 2 x dpotrf", _step_to_dpotrf, 2, "{:.2f} x"),
        _at_most(results, "50^3 B3(100) to 1e-9", "one |B| x |B| matrix", _matrices, 1.5, "{:.2f} matrices"),
        _at_most(results, "200^3 B3(30)", "under 5 s", _seconds, 5, "{:.2f} s"),
        _at_most(results, "100^3 B3(1000) to 1e-9", "under 20 s", _seconds, 20, "{:.1f} s"),
        _at_most(results, "100^3 B3(1000) to 1e-9", "under 1.5 GB with X", _gigabytes, 1.5, "{:.2f} GB"),
        _at_most(results, "200^3 B3(5000) to 1e-9", "under 10 minutes", _seconds, 600, "{:.0f} s"),
        _at_most(results, "200^3 B3(5000) to 1e-9", "under 8 GB with X", _gigabytes, 8, "{:.2f} GB"),
        _at_most(results, "100^3 interactions(2) to 1e-9", "under 1 s", _seconds, 1, "{:.3f} s"),
        _at_most(results, "29^4 interactions(2)", "to 1e-9, under 0.3 s", _seconds, 0.3, "{:.3f} s"),
        _at_most(results, "faces B1+B2(20)+B3(20)", "to 1e-9, under 0.5 s", _seconds, 0.5, "{:.3f} s"),
        _at_most(results, "MNIST 3 B3(10)", "zeros left out, under 6 s", _seconds, 6, "{:.2f} s"),
        _checked(results, "same input, same threads: bit-identical theta", BITS),
        _checked(results, "1 and 2 threads: Q equal to 1e-12, relative", THREADS),
        Verdict("the oracle tests pass with every engine and solver", "`make test`", "", None),
    ]


def _at_most(results: Results, problem: str, promise: str, quantity: Quantity, bound: float, form: str) -> Verdict:
    claim, row = f"{problem}: {promise}", results.ours(problem)
    if row is None:
        return Verdict(claim, "not measured", "", None)
    residual = f"{row.residual:.0e}" if row.residual is not None else ""
    value = quantity(row)
    if value is None:
        return Verdict(
            claim, f"{row.status} {row.note}".strip(), residual, None if row.status in ("NO DATA", "SKIPPED") else False
        )
    text = form.format(value) + _disturbed(row)
    return Verdict(
        claim, text if row.measured else f"{text}, but {row.status}", residual, row.measured and value <= bound
    )


def _faster(results: Results, problem: str, method: str, factor: float) -> Verdict:
    claim = f"{problem}: at least {factor:g} x as fast as {LABELS[method]}"
    row, other = results.ours(problem), results.of(method, problem)
    if row is None or other is None or row.seconds is None or other.seconds is None:
        return Verdict(claim, "not measured", "", None)
    ratio = other.seconds / row.seconds
    text = f"{ratio:.1f} x ({other.seconds:.3g} s / {row.seconds:.3g} s)"
    text += ("" if row.run == other.run else ", of two runs") + _disturbed(row, other)
    return Verdict(claim, text, f"{row.residual:.0e}", row.measured and ratio >= factor)


def _disturbed(*rows: Row) -> str:
    return ", busy machine" if any(row.busy for row in rows) else ""


def _growth(results: Results) -> Verdict:
    """Fit all sizes, and those from 200^3 on: a slow smallest size must not flatter the rest."""
    claim = "100^3 to 500^3, B3(1): time grows no faster than |Omega|^1.1"
    rows = results.line("legendre", [problem for problem in CELLS_SWEEP if problem.shape[0] >= 100])
    power = exponent(rows, lambda row: row.cells, _seconds)
    upper = exponent([row for row in rows if row.cells >= 200**3], lambda row: row.cells, _seconds)
    if power is None or upper is None:
        return Verdict(claim, "not measured", "", None)
    largest = max(row.residual or 0.0 for row in rows)
    text = f"|Omega|^{power:.2f}; from 200^3 on |Omega|^{upper:.2f}" + _disturbed(*rows)
    return Verdict(claim, text, f"{largest:.0e}", max(power, upper) <= 1.1)


def _checked(results: Results, claim: str, name: str) -> Verdict:
    values = [check for check in results.checks if check.check == name and check.value is not None]
    if not values:
        return Verdict(claim, "not measured", "", None)
    worst = max(check.value or 0.0 for check in values)
    bad = [check.problem for check in values if check.status != "HOLDS"]
    text = f"at most {worst:.1e} on {len(values)} problems" if worst else f"no difference on {len(values)} problems"
    return Verdict(claim, text + (f"; not {', '.join(bad)}" if bad else ""), "", not bad)


def _seconds(row: Row) -> float | None:
    return row.seconds


def _milliseconds(row: Row) -> float | None:
    return None if row.seconds is None else 1000 * row.seconds


def _to_sum(row: Row) -> float | None:
    return row.ratio_to_sum


def _extra_share(row: Row) -> float | None:
    if row.peak_extra_mb is None or not row.x_mb:
        return None
    return (row.peak_extra_mb + (row.loaded_mb or 0.0)) / row.x_mb


def _step_to_dpotrf(row: Row) -> float | None:
    return None if row.step_seconds is None or not row.dpotrf_seconds else row.step_seconds / row.dpotrf_seconds


def _matrices(row: Row) -> float | None:
    return None if row.peak_extra_mb is None or not row.params else 1e6 * row.peak_extra_mb / (8 * row.params**2)


def _gigabytes(row: Row) -> float | None:
    if row.peak_extra_mb is None or row.x_mb is None:
        return None
    return (row.peak_extra_mb + (row.loaded_mb or 0.0) + row.x_mb) / 1000
