"""The string form of a basis, ``"B1 + B2(10) + B3(10)"``, and whatever else a caller may pass as one."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

from legendre.basis import ties
from legendre.basis.adaptive import adaptive, boxes
from legendre.basis.basis import B1, B2, B3, Basis, BasisLike, Sign, cells, empty, full
from legendre.basis.graph import graph
from legendre.basis.interactions import interactions
from legendre.core.arguments import check_name
from legendre.core.errors import InvalidBasis

_SIGNS: dict[type[ast.operator], Sign] = {ast.Add: "|", ast.BitOr: "|", ast.BitAnd: "&", ast.Sub: "-"}
_PLAIN = (B1, B2, B3, adaptive, boxes, cells, empty, full, graph, interactions)
BUILDERS: dict[str, Callable[..., Basis]] = {
    **{builder.__name__: builder for builder in _PLAIN},
    **{name: getattr(ties, name) for name in ties.__all__},
}
"""The functions and classes that a string may call, by name."""


def as_basis(basis: BasisLike) -> Basis:
    """Read a `Basis`, a string or index vectors.

    Strings hold builder names with their arguments, joined by ``+`` or ``|`` (union), ``&`` and ``-``, with
    Python's precedence: ``+`` and ``-`` bind tighter than ``&``, ``&`` tighter than ``|``.

    Examples
    --------
    >>> as_basis("B1 + B2(10) + B3(10)")
    B1() | B2(l=10, axis=-1) | B3(l=10, axis=-1)
    """
    if isinstance(basis, str):
        return _parse(basis)
    return basis if isinstance(basis, Basis) else cells(basis)


@lru_cache(maxsize=128)  # fits often use the same string again, and a basis is frozen, so it can be shared
def _parse(basis: str) -> Basis:
    """Read the string form of a basis; Python's own parser gives its syntax tree, and nothing is evaluated."""
    try:
        tree = ast.parse(basis.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidBasis(f"cannot read the basis {basis!r}. Write it like 'B1 + B2(10) + B3(10)'.") from None
    return _build(tree, basis)


def _build(node: ast.expr, text: str) -> Basis:
    """Build the basis of a node of the syntax tree; `text` is the complete string, for error messages.

    A node is a combination of two bases, a builder's name, or a call of a builder. Everything else is an error.
    """
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return _build(left, text).combine(_SIGNS[type(op)], _build(right, text))
        case ast.Name(id=name):
            return _call(name, [], {}, text)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if all(word.arg for word in keywords):  # `**x` has no name, and falls through to the error
                named = {str(word.arg): _literal(word.value, text) for word in keywords}
                if len(named) < len(keywords):  # Python's grammar refuses that only when code is compiled
                    raise InvalidBasis(f"{ast.unparse(node)!r} in the basis {text!r} names an argument twice.")
                return _call(name, [_literal(arg, text) for arg in args], named, text)
    raise InvalidBasis(
        f"cannot read {ast.unparse(node)!r} in the basis {text!r}. Write it like 'B1 + B2(10) + B3(10)'."
    )


def _literal(node: ast.expr, text: str) -> object:
    """Read an argument of a builder, which must be a literal: no code is executed."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        raise InvalidBasis(f"{ast.unparse(node)!r} in the basis {text!r} is not a number or a list of modes.") from None
    return value


def _call(name: str, args: list[object], named: dict[str, object], text: str) -> Basis:
    """Call a builder by name; if its arguments are wrong, raise InvalidBasis with the builder and Python's reason."""
    check_name("basis", name, BUILDERS, InvalidBasis)
    try:
        return BUILDERS[name](*args, **named)
    except TypeError as problem:
        reason = str(problem).removeprefix(f"{name}.__init__() ").removeprefix(f"{name}() ")
        raise InvalidBasis(f"{name} in the basis {text!r}: {reason}.") from None
