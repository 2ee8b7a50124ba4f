"""What the shell offers when the Tab key is pressed; `legendre --install-completion` turns it on."""

from __future__ import annotations

from legendre.basis.parse import BUILDERS
from legendre.solvers.choose import SOLVERS


def basis_names(incomplete: str) -> list[str]:
    """Offer the bases whose names begin like the last one of a sum.

    >>> basis_names("B1+in"), basis_names("ad")
    (['B1+interactions'], ['adaptive'])
    """
    begun = max(incomplete.rfind(sign) for sign in "+|&- ") + 1
    return [incomplete[:begun] + name for name in sorted(BUILDERS) if name.startswith(incomplete[begun:])]


def solver_names(incomplete: str) -> list[str]:
    """Offer the solvers whose names begin in this way.

    >>> solver_names("nat")
    ['natural', 'natural-cg']
    """
    return [name for name in ("auto", *SOLVERS) if name.startswith(incomplete)]
