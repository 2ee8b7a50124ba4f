"""Checks of a caller's arguments, whose error messages name the argument, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, TypeGuard

import numpy as np

from legendre.core.errors import InvalidSetting, LegendreError, unknown_name

Rng = int | np.random.Generator | None  # a seed, a generator, or None for a seed at random


def check_installed(caller: str, packages: Iterable[str], source: str) -> None:
    """Raise an error if one of some packages is not installed; `source` is what pip installs to get them.

    `caller` is the public function that needs them.

    >>> check_installed("plot.graph", ["numpy", "no_such_package"], "'legendre[plot]'")
    Traceback (most recent call last):
    legendre.core.errors.InvalidSetting: plot.graph needs no_such_package. Install it with: pip install 'legendre[plot]'
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        it = "it" if len(missing) == 1 else "them"
        raise InvalidSetting(f"{caller} needs {' and '.join(missing)}. Install {it} with: pip install {source}")


def is_whole(value: object, least: float = -np.inf) -> TypeGuard[int]:
    """Whether a caller's value is an integer, and at least `least`; True and False do not count as integers."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def is_real(value: object) -> TypeGuard[float]:
    """Whether a caller's value is a real number, finite or not; True and False do not count."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:  # an integer beyond the range of float64
        return False
    return True


def entries(value: object) -> list[Any] | None:
    """List the entries of a caller's list, tuple, array or set; ``None`` for anything else, strings included."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        return None
    try:
        return list(value)
    except TypeError:  # an array without modes
        return None


def generator_from(rng: Rng) -> np.random.Generator:
    """Return a caller's generator of random numbers, or make one from a seed; ``None`` seeds it at random."""
    if not (rng is None or isinstance(rng, np.random.Generator) or is_whole(rng, 0)):
        raise InvalidSetting(f"rng must be None, an integer >= 0 or a numpy.random.Generator, got {rng!r}.")
    return np.random.default_rng(rng)


def check_flag(value: object, name: str) -> bool:
    """Return `value` as a bool; refuse anything but True and False.

    >>> check_flag(True, "indices")
    True
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidSetting(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_int(value: object, name: str, least: int = 0, error: type[LegendreError] = InvalidSetting) -> int:
    """Return a caller's integer; refuse anything else, and integers below `least`.

    >>> check_int(3, "folds", 2)
    3
    """
    if not is_whole(value, least):
        raise error(f"{name} must be an integer >= {least}, got {value!r}.")
    return int(value)


def check_number(
    value: object,
    name: str,
    least: float = -np.inf,
    *,
    above: float = -np.inf,
    below: float = np.inf,
    error: type[LegendreError] = InvalidSetting,
) -> float:
    """Return a caller's finite number, which is at least `least`, and strictly above `above` and below `below`.

    The error message lists those of the three bounds that are finite.

    >>> check_number(0.95, "confidence", above=0, below=1)
    0.95
    """
    if is_real(value) and np.isfinite(value) and least <= value and above < value < below:
        return float(value)
    bounds = [(">=", least), (">", above), ("<", below)]
    range_ = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if np.isfinite(bound))
    raise error(f"{name} must be a finite number{f' {range_}' if range_ else ''}, got {value!r}.")


def check_choice(value: object, name: str, choices: Iterable[str], error: type[LegendreError] = InvalidSetting) -> str:
    """Return a caller's string, which must be one of the choices.

    >>> check_choice("bic", "criterion", ("aic", "bic"))
    'bic'
    """
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    *first, last = (repr(choice) for choice in choices)
    raise error(f"{name} must be {', '.join(first)}{' or ' if first else ''}{last}, got {value!r}.")


def check_name(
    kind: str,
    name: object,
    valid: Collection[object],
    error: type[LegendreError] = InvalidSetting,
    door: str = "",
    more: str = "",
) -> None:
    """Refuse a name that is not one of the valid ones; the error says what `kind` of name it is, and suggests one.

    `door` is the public function, the argument or the file where the name was found; the message begins with it,
    and ends with `more`.

    >>> check_name("column", "count", ["counts", "dest"])
    Traceback (most recent call last):
    legendre.core.errors.InvalidSetting: unknown column 'count'; did you mean 'counts'? Valid: counts, dest.
    """
    if getattr(name, "shape", ()) or name not in valid:  # an array is no name, and cannot be compared with one
        raise error((f"{door}: " if door else "") + f"{unknown_name(kind, str(name), valid)} {more}".rstrip())
