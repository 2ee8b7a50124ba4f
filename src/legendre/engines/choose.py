"""Which engine for which model: by size and structure only, so that the same input gives the same answer."""

from __future__ import annotations

from legendre.core import limits
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.engines.junction import JunctionEngine
from legendre.engines.protocol import Engine
from legendre.engines.reference import CellListEngine, ReferenceEngine
from legendre.model.model import CellList, Cliques, Model


def choose_engine(model: Model, *, products: bool = False) -> Engine:
    """Choose the engine for a model, by its form and its size.

    With `products` the caller needs products of the Fisher matrix with vectors, which `SlabEngine` does not compute
    without forming the matrix; `TablesEngine` computes nothing else. Compiled engines load the compiler only when they
    are chosen. `MatrixEngine` is never chosen: balancing uses it directly, for `MatrixScaling`.
    """
    if model.ties is not None:
        from legendre.engines.tied import TiedEngine

        return TiedEngine(model, choose_engine(model.untied, products=True))
    k = len(model.basis)
    if isinstance(model, CellList):
        return CellListEngine(model)
    # Cliques whose grid can be formed are left to a grid only if B is too large for a Fisher matrix (and has no closed
    # form): conjugate gradients then need the preconditioner of `DenseEngine`.
    if model.one_body or (
        isinstance(model, Cliques)
        and (k <= limits.LARGEST_MATRIX or not (model.formable and model.whole) or model.tables.saturated)
    ):
        return JunctionEngine(model)
    short = max(model.quotient.merged_shape) <= limits.SHORT_MODE
    numpy_cells = limits.SHORT_MODE_CELLS if short else limits.NUMPY_CELLS
    if model.n_cells <= numpy_cells and k <= limits.LARGEST_MATRIX:
        return ReferenceEngine(model)
    from legendre.engines.compiled import SlabEngine, form_grid

    if products and model.tabled:
        from legendre.engines.tables import TablesEngine

        return TablesEngine(model)
    return SlabEngine(model) if not products and SlabEngine.applies(model) else form_grid(model)


def check_fisher(n_params: int, what: str, instead: str) -> None:
    """Raise `InvalidQuery` for a question that needs the Fisher matrix of too many parameters, before forming anything.

    `what` is the subject and verb of the message, such as "standard errors need"; `instead` is a sentence that names
    an alternative without this limit.
    """
    if n_params > limits.LARGEST_MATRIX:
        raise InvalidQuery(
            f"{what} a Fisher matrix of {n_params:,} x {n_params:,}; at most {limits.LARGEST_MATRIX:,} parameters are "
            f"allowed. {instead}"
        )
    check_room(n_params * n_params, 8, f"{what} a Fisher matrix; one", instead)
