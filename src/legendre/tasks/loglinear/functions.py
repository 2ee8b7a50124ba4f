"""Functions of variables in formulas: association models such as ``uniform(a, b)``, and features of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from inspect import signature
from typing import Any

from legendre.basis import ties
from legendre.basis.basis import Basis, is_basis
from legendre.basis.features import features as features_of
from legendre.core.errors import InvalidBasis, InvalidQuery, unknown_name
from legendre.core.labels import Labels
from legendre.tasks.loglinear.words import quoted

LOST = object()  # stands for a feature of a model that was read from a file, which does not hold it


@dataclass(frozen=True)
class FunctionTerm:
    """A function of variables in a formula, ``uniform(a, b)``: its name, and its arguments as they were written."""

    name: str
    args: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()
    feature: Any = field(default=None, compare=False, repr=False)  # the caller's own function, array or basis

    def __str__(self) -> str:
        if self.feature is not None and not self.args:
            return self.name
        written = [*map(_plain, self.args), *(f"{key}={_plain(value)}" for key, value in self.keywords)]
        return f"{self.name}({', '.join(written)})"

    def basis(self, labels: Labels) -> Basis:
        """Make its basis on a table with these labels."""
        if self.feature is None:
            return TERM_FUNCTIONS[self.name](self, labels)
        if self.feature is LOST:
            raise InvalidQuery(f"the feature {self.name!r} is not in the file that this model was loaded from.")
        if is_basis(self.feature):
            return self.feature
        return features_of({str(self): self.feature}, modes=self.args or None)


def _associated(make: Callable[..., Basis], term: FunctionTerm, labels: Labels) -> Basis:
    """Make the basis of an association model."""
    del labels  # it finds its variables by name when it sees the table
    try:
        return make(*term.args, **dict(term.keywords))
    except TypeError:
        wanted = ", ".join(signature(make).parameters)
        raise InvalidBasis(f"the formula has {term}; write {make.__name__}({wanted}).") from None


Builder = Callable[[FunctionTerm, Labels], Basis]
TERM_FUNCTIONS: dict[str, Builder] = {name: partial(_associated, getattr(ties, name)) for name in ties.__all__}
"""By the name of a function in a formula: who makes its basis, given the term and the labels of the table."""


def called(name: str, args: tuple[Any, ...], keywords: Any, features: Mapping[str, Any], formula: str) -> FunctionTerm:
    """Return a function that a formula names, one of the caller's own among them."""
    if name in features:
        feature = features[name]
        whole = is_basis(feature)
        if keywords or (args and whole) or not all(isinstance(arg, str) for arg in args):
            raise InvalidBasis(
                f"the formula {formula!r}: the feature {name} takes names of variables only"
                + (", and none where it is a basis." if whole else ".")
            )
        return FunctionTerm(name, args, (), feature)
    if name not in TERM_FUNCTIONS:
        unknown = unknown_name("function", name, [*TERM_FUNCTIONS, *features])
        own = f"A function of your own is passed as features={{{name!r}: ...}}."
        raise InvalidBasis(f"the formula {formula!r}: {unknown} {own}")
    return FunctionTerm(name, args, keywords)


def checked_features(features: Any, names: Sequence[str]) -> dict[str, Any]:
    """Read what a caller passes as features, given the names of the variables."""
    if features is None:
        return {}
    if not isinstance(features, Mapping) or not all(isinstance(name, str) and name.isidentifier() for name in features):
        raise InvalidBasis(
            "features must be a dict of names and functions or arrays, such as {'near': lambda a, b: abs(a - b) < 2}; "
            f"got {features!r}."
        )
    for name in features:
        if name in TERM_FUNCTIONS or name in names:
            what = "a variable" if name in names else "an association model"
            raise InvalidBasis(f"features: {name!r} is {what}. Give the feature another name.")
    return dict(features)


def check_used(features: Mapping[str, Any], functions: Sequence[FunctionTerm], formula: Any) -> None:
    """Refuse features that the formula does not name: one of them is misspelt."""
    for name in features:
        if all(term.name != name for term in functions):
            raise InvalidBasis(
                f"the formula {formula!r} does not name the feature {name!r}. Write {name}(a, b) with the variables "
                f"that it depends on, or {name} alone if it depends on all of them, in the order of the table."
            )


def _plain(value: Any) -> str:
    """Write an argument so that it is read back: names in quotes where they need them, numbers without exponents."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plain, value))}]"
    return quoted(value) if isinstance(value, str) else format(Decimal(repr(value)), "f")
