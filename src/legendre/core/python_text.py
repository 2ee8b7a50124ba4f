"""Expressions of Python in a text, parsed by one thread at a time.

Python 3.11 counts the depth of all the trees that it makes in one place, and ends in a SystemError where two threads
make some at the same time.
"""

from __future__ import annotations

import ast
import threading

_PARSING = threading.Lock()


def expression(text: str) -> ast.expr:
    """Parse an expression; what is wrong with it is Python's own error, a SyntaxError, ValueError, RecursionError, ...

    >>> type(expression("B1 + B2(10)")).__name__
    'BinOp'
    """
    with _PARSING:
        return ast.parse(text, mode="eval").body
