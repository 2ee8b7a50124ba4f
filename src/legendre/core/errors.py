"""What can go wrong: every error says what, where, which value and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BasisWarning", "CheckpointWarning", "ConvergenceWarning", "ImpossibleEvent", "InvalidBasis", "InvalidFile",
    "InvalidLabels", "InvalidMargins", "InvalidQuery", "InvalidSamples", "InvalidSetting", "InvalidSupport",
    "InvalidTensor", "LegendreError", "NotFitted", "TooLarge",
]  # fmt: skip


class LegendreError(ValueError):
    """Base of every error that the library raises on purpose."""


class InvalidTensor(LegendreError):
    """X cannot be read as unnormalised probabilities."""


class InvalidSupport(LegendreError):
    """The sample space (or the base measure on it) does not fit X."""


class InvalidBasis(LegendreError):
    """The basis is not a set of cells of X's grid without the bottom."""


class InvalidLabels(LegendreError):
    """Names of modes or of levels that do not fit X, or that do not tell them apart."""


class InvalidMargins(LegendreError):
    """Prescribed margins are no margins, contradict each other, or no tensor on X's support has them."""


class InvalidSetting(LegendreError):
    """A solver, tolerance, limit or other setting is not valid."""


class InvalidQuery(LegendreError):
    """A question that this decomposition cannot answer."""


class ImpossibleEvent(InvalidQuery):
    """Conditional probabilities were asked for, given an event of probability 0."""


class InvalidSamples(LegendreError):
    """Rows of observations cannot be read as cells of a grid."""


class TooLarge(LegendreError, MemoryError):
    """An answer does not fit in memory; the message says how much it takes, and which question has a smaller one."""


class NotFitted(LegendreError, AttributeError):
    """An estimator has no answer before it is fitted."""


class InvalidFile(LegendreError):
    """A file cannot be read or written as asked."""


class ConvergenceWarning(UserWarning):
    """The result is returned, but without the certificate that was asked for."""


class BasisWarning(UserWarning):
    """The fit is what was asked for, but the basis has no cell on this sample space: nothing of X was fitted."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit goes on without."""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """Say that `name` is not valid and which name was probably meant."""
    names = sorted(valid)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" did you mean '{close[0]}'?" if close else ""
    return f"unknown {kind} '{name}';{hint} Valid: {', '.join(names)}."
