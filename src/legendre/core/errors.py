"""What can go wrong: every error says what, where, which value, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

__all__ = [
    "BasisWarning", "ConvergenceWarning", "ImpossibleEvent", "InvalidBasis", "InvalidFile",
    "InvalidLabels", "InvalidMargins", "InvalidQuery", "InvalidSamples", "InvalidSetting", "InvalidSupport",
    "InvalidTensor", "LegendreError", "NotFitted", "TooLarge",
]  # fmt: skip


class LegendreError(ValueError):
    """Base of every error that the library raises on purpose.

    See Also
    --------
    ConvergenceWarning : A fit that did not reach its tolerance.

    Examples
    --------
    >>> import legendre as ld
    >>> try:
    ...     ld.decompose([[1, -2], [3, 5]], "B1")
    ... except ld.LegendreError as error:
    ...     print(type(error).__name__)
    InvalidTensor
    """

    def __init__(self, message: str = "", most: int = 4000) -> None:
        """Say what is wrong; a text of more than `most` characters, such as a formula that is quoted, is cut."""
        super().__init__(message if len(message) <= most else f"{message[: most // 2]} ... {message[-most // 4 :]}")


class InvalidTensor(LegendreError):
    """X cannot be read as unnormalised probabilities.

    See Also
    --------
    legendre.errors.InvalidSupport : A sample space that does not fit X.
    legendre.errors.InvalidLabels : Names that do not fit X.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, -2], [3, 5]], "B1")
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidTensor: X has 1 negative entry: it is X[0, 1] = -2. X is read as ...
    """


class InvalidSupport(LegendreError):
    """The sample space (or the base measure on it) does not fit X.

    See Also
    --------
    legendre.errors.InvalidTensor : X cannot be read.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", support=[True, False])
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidSupport: support has shape (2,), X has shape (2, 2); they must be equal.
    """


class InvalidBasis(LegendreError):
    """The basis is not a set of cells of X's grid without the bottom.

    See Also
    --------
    legendre.errors.InvalidTensor : X cannot be read.
    legendre.errors.BasisWarning : A basis without a cell.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], [[0, 7]])
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidBasis: cell [0, 7] is outside the grid (2, 2). ...
    """


class InvalidLabels(LegendreError):
    """Names of modes or of levels do not fit X, or are not unique.

    See Also
    --------
    legendre.errors.InvalidTensor : X cannot be read.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", names=["row"])
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidLabels: names must hold a different, non-empty name for each of the 2 modes ...
    """


class InvalidMargins(LegendreError):
    """Prescribed margins are not valid, contradict each other, or no tensor on X's support has them.

    See Also
    --------
    legendre.errors.InvalidTensor : X cannot be read.
    legendre.balance : The nearest tensor with prescribed margins.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.balance([[1, 2], [3, 5]], {0: [1, 1], 1: [1, 2]})
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidMargins: margins 0 and 1 have different sums, 2 and 3. Both are the sum ...
    """


class InvalidSetting(LegendreError):
    """A solver, tolerance, limit or other setting is not valid.

    See Also
    --------
    legendre.errors.InvalidBasis : A basis that does not fit X.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver="natrual")
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidSetting: unknown solver 'natrual'; did you mean 'natural'? ...
    """


class InvalidQuery(LegendreError):
    """A question that this decomposition cannot answer.

    See Also
    --------
    legendre.errors.ImpossibleEvent : A condition of probability 0.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1").marginal(2)
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidQuery: marginal: 2 is not a mode of X, which has 2, counted from 0 to 1.
    """


class ImpossibleEvent(InvalidQuery):
    """Conditional probabilities were asked for, given an event of probability 0.

    See Also
    --------
    legendre.errors.InvalidQuery : A question without an answer.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [0, 0]], "B1").condition({0: 1})
    Traceback (most recent call last):
        ...
    legendre.core.errors.ImpossibleEvent: condition({0: 1}): the event has probability 0, so nothing ...
    """


class InvalidSamples(LegendreError):
    """Rows of observations cannot be read as cells of a grid.

    See Also
    --------
    legendre.errors.InvalidTensor : X cannot be read.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.LegendreDensity().fit([])
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidSamples: X must be 2-D, one row per observation; got shape (0,). ...
    """


class TooLarge(LegendreError, MemoryError):
    """An answer does not fit in memory; the message says how large it is, and what to ask for instead.

    See Also
    --------
    legendre.errors.InvalidQuery : A question without an answer.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose(ld.from_coords([[0, 0]], [1], (10**6, 10**8)), "empty").tensor()
    Traceback (most recent call last):
        ...
    legendre.core.errors.TooLarge: tensor: an array of 1e+14 cells needs 7.45e+05 GiB; ...
    """


class NotFitted(LegendreError, AttributeError):
    """An estimator has no answer before it is fitted.

    See Also
    --------
    legendre.errors.LegendreError : Base of all errors.
    legendre.LegendreDensity : The distribution of rows of categories.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.LegendreDensity().sample(1)
    Traceback (most recent call last):
        ...
    legendre.core.errors.NotFitted: this LegendreDensity is not fitted yet. Call fit first.
    """


class InvalidFile(LegendreError):
    """A file cannot be read or written as asked.

    See Also
    --------
    legendre.errors.InvalidTensor : X cannot be read.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.load("nothing.npz")
    Traceback (most recent call last):
        ...
    legendre.core.errors.InvalidFile: cannot read nothing.npz: No such file or directory.
    """


class ConvergenceWarning(UserWarning):
    """The result is returned, but without the certificate that was asked for.

    See Also
    --------
    legendre.results.Status : How a fit ended.
    LegendreError : Base of all errors.

    Examples
    --------
    >>> import warnings, legendre as ld
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit = ld.decompose([[1, 2], [3, 9]], "B1", solver="gradient", max_iter=1)
    >>> caught[0].category.__name__, fit.status.name
    ('ConvergenceWarning', 'OUT_OF_STEPS')
    """


class BasisWarning(UserWarning):
    """The basis has no cell on this sample space, so the fit does not depend on X.

    See Also
    --------
    legendre.errors.InvalidBasis : A basis that does not fit X.

    Examples
    --------
    >>> import warnings, legendre as ld
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit = ld.decompose([[0, 0, 0], [0, 5, 3], [0, 1, 2]], "B1", support="nonzero")
    >>> caught[0].category.__name__, fit.n_params
    ('BasisWarning', 0)
    """


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Give a warning that names the line of the user's call: the first caller that is not a module of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith("legendre."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, level)


def unknown_name(kind: str, name: str, valid: Iterable[object]) -> str:
    """Write an error message: that `name` is not a valid `kind`, which name was probably meant, and which are valid."""
    names = sorted(map(str, valid))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" did you mean '{close[0]}'?" if close else ""
    return f"unknown {kind} '{name}';{hint} Valid: {', '.join(names)}."


FOREIGN = {
    **dict.fromkeys(("factors", "weights", "components_", "loadings"), "effects() says what each mode does."),
    **dict.fromkeys(("params", "coefficients", "coef_"), "coef() has them."),
    **dict.fromkeys(("resid", "resid_pearson"), "residuals() has them."),
    **dict.fromkeys(("llf", "logLik", "loglik"), "It is log_likelihood, of loglinear(...) or of fit.inference()."),
    **dict.fromkeys(("df_resid", "df_residual"), "It is df, of loglinear(...) or of fit.inference()."),
    **dict.fromkeys(("pvalues", "bse", "tvalues"), "coef() has standard_error, z and p_value."),
    **dict.fromkeys(("trace", "verbose"), "The steps are in path of the result."),
    **dict.fromkeys(("heatmap", "imshow"), "There are slices(), margins(), effects(), residuals() and graph()."),
    "predict": "tensor() has the fitted values; complete(X) fills missing cells.",
    **dict.fromkeys(("vcov", "coef", "aic", "bic"), "loglinear(...) and fit.inference() have it."),
    "deviance": "It is g2, of loglinear(...) or of fit.inference().",
    **dict.fromkeys(
        ("confint", "conf_int"), "coef(profile=True) has profile likelihood intervals, coef() those of Wald."
    ),
    "fittedvalues": "fitted() has them.",
    "rank": "There is no rank: adaptive(n) as the basis has n parameters.",
    "mask": "Write NaN where nothing was measured, or pass support=.",
    "offset": "Pass the factors themselves, not their logarithms: base=exposure.",
    "family": "Counts are Poisson; scaled() is R's quasipoisson.",
    "k": "The penalty is the first argument: step(7.6).",
    "test": "Likelihood ratio tests are always made.",
}
"""Words of R, statsmodels, scikit-learn and TensorLy that are not attributes or arguments here, and what to write."""


def refuse_attribute(self: object, name: str) -> NoReturn:
    """Raise Python's error of a missing attribute, with a hint if the name is a word of another library.

    Results have it as ``__getattr__``, which Python calls for a name that it did not find.
    """
    said = f"{type(self).__name__!r} object has no attribute {name!r}"
    raise AttributeError(f"{said}. {FOREIGN[name]}" if name in FOREIGN else said, name=name, obj=self)


def refuse_arguments(call: str, others: Iterable[str]) -> None:
    """Raise Python's error of an unknown argument of a function, with a hint if it is a word of another library."""
    for name in others:
        raise TypeError(f"{call}() got an unexpected keyword argument {name!r}. {FOREIGN.get(name, '')}".rstrip())
