"""Tail probabilities."""

from __future__ import annotations


def chi_square_p(statistic: float, df: int) -> float:
    """Probability that a chi-square variable is at least so large; NaN without degrees of freedom.

    Examples
    --------
    >>> round(chi_square_p(3.841459, 1), 6)
    0.05
    """
    from scipy.special import chdtrc

    return float(chdtrc(df, statistic)) if df > 0 else float("nan")


def stars(p: float) -> str:
    """Mark a p-value as statisticians do.

    Examples
    --------
    >>> [stars(p) for p in (0.2, 0.03, 0.002, 1e-9)]
    ['', '*', '**', '***']
    """
    return "*" * sum(p < level for level in (0.05, 0.01, 0.001))


def shown(p: float) -> str:
    """Write a p-value: what is below the resolution of float64 is only said to be so.

    Examples
    --------
    >>> [shown(p) for p in (0.034567, 1e-20)]
    ['0.0346', '<2e-16']
    """
    return "<2e-16" if p < 2e-16 else f"{p:.3g}"
