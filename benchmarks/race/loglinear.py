"""Log-linear models of tables: the same model in every library, so that the residual is the same for all."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np

from .decompositions import archive
from .entrants import Case, Discipline, Entrant, Fitted, Floats, errors
from .rows import OURS

TOL = 1e-9
RULES = """\
The Poisson regression of the counts on all effects of one mode, `interactions(1)`, or of all pairs of modes,
`interactions(2)`: one model, one answer. Others get the table as a data frame of one row a cell, made beforehand.
The residual max|eta - eta_hat|, from each library's fitted values, must be at most 1e-9. pyfixest has the pairs as
interacted fixed effects (`a^b`), which it sweeps out and does not list; glum and statsmodels estimate all coefficients.
"""
LETTERS = "abcd"


def table(shape: tuple[int, ...]) -> Floats:
    """Draw counts, 10 a cell on average and none of the margins 0."""
    rng = np.random.default_rng(11)
    return rng.poisson(5 * rng.gamma(2.0, size=shape)).astype(np.float64)


def _taxi() -> Floats:
    trips: Floats = archive("nyc_taxi.npz", "trips").sum(axis=2)
    return trips


def _frame(case: Case, X: Floats) -> Any:
    """Make the long table, with categories, which is how a user of these libraries has it."""
    del case
    pandas: Any = import_module("pandas")
    places = np.indices(X.shape).reshape(X.ndim, -1)
    columns = {LETTERS[k]: pandas.Categorical(places[k]) for k in range(X.ndim)}
    return pandas.DataFrame(columns | {"n": X.ravel()}), X.shape


def _ours(case: Case, X: Floats) -> Fitted:
    ld: Any = import_module("legendre")
    fit = ld.decompose(X, ld.interactions(case.about), tol=TOL)
    return Fitted(fit.tensor, fit.n_params, fit.n_iter, fit.status.name)


def _glum(case: Case, given: Any) -> Fitted:
    frame, shape = given
    glum: Any = import_module("glum")
    names = list(LETTERS[: len(shape)])
    model = glum.GeneralizedLinearRegressor(
        family="poisson", alpha=0, solver="irls-ls", drop_first=True, gradient_tol=1e-9, max_iter=100,
        formula="+".join(names) if case.about == 1 else f"({'+'.join(names)})**2",
    )  # fmt: skip
    model.fit(frame[names], frame["n"])
    return Fitted(lambda: np.asarray(model.predict(frame[names])).reshape(shape), len(model.coef_), int(model.n_iter_))


def _pyfixest(case: Case, given: Any) -> Fitted:
    frame, shape = given
    pyfixest: Any = import_module("pyfixest")
    names = LETTERS[: len(shape)]
    terms = ["^".join(some) for some in combinations(names, case.about)]
    fit = pyfixest.fepois(f"n ~ 1 | {' + '.join(terms)}", frame, iwls_tol=1e-10, fixef_tol=1e-10, iwls_maxiter=100)
    return Fitted(lambda: np.asarray(fit.predict(type="response")).reshape(shape))


def _statsmodels(case: Case, given: Any) -> Fitted:
    frame, shape = given
    api: Any = import_module("statsmodels.api")
    formulas: Any = import_module("statsmodels.formula.api")
    names = "+".join(LETTERS[: len(shape)])
    formula = f"n ~ {names}" if case.about == 1 else f"n ~ ({names})**2"
    fit = formulas.glm(formula, frame, family=api.families.Poisson()).fit(tol=1e-12, maxiter=100)
    return Fitted(lambda: np.asarray(fit.fittedvalues).reshape(shape), len(fit.params) - 1)


def residual(P: Floats, Q: Floats, order: int) -> float:
    """Return ``max|eta - eta_hat|`` over the basis of all interactions of so many modes, from the definition of eta.

    >>> residual(np.array([[0.5, 0.0], [0.0, 0.5]]), np.full((2, 2), 0.25), 2)
    0.25
    >>> residual(np.array([[0.5, 0.0], [0.0, 0.5]]), np.full((2, 2), 0.25), 1)
    0.0
    """
    worst = 0.0
    for kept in combinations(range(P.ndim), min(order, P.ndim)):
        others = tuple(k for k in range(P.ndim) if k not in kept)
        change = (P - Q).sum(axis=others)
        for k in range(change.ndim):
            change = np.flip(np.flip(change, k).cumsum(axis=k), k)
        worst = max(worst, float(np.abs(change).max()))
    return worst


def _judge(case: Case, X: Floats, fitted: Fitted) -> dict[str, float]:
    Q = fitted.answer()
    return errors(X, Q) | {"residual": residual(X / X.sum(), Q / X.sum(), case.about)}


def _case(shape: tuple[int, ...], order: int) -> Case:
    family = f"interactions({order}), {len(shape)} modes"
    name = "x".join(map(str, shape)) if len(set(shape)) > 1 else f"{shape[0]}^{len(shape)}"
    group = f"interactions({order})"
    return Case(f"{name}, {group}", int(np.prod(shape)), partial(table, shape), family, group, order)


DISCIPLINE = Discipline(
    "log-linear models",
    "Log-linear models: interactions(1) and interactions(2)",
    RULES,
    (
        *(_case((n,) * 3, 1) for n in (20, 40, 80)),
        *(_case((n,) * 3, 2) for n in (10, 20, 40)),
        _case((12,) * 4, 2),
        Case("taxi 30x30x24, interactions(2)", 21_600, _taxi, "", "interactions(2)", 2),
    ),
    (
        Entrant(OURS, "legendre", _ours, compiles=True),
        Entrant("glum", "glum", _glum, _frame, "irls-ls, drop_first", distributions=("glum",)),
        Entrant("pyfixest", "pyfixest", _pyfixest, _frame, "fepois", compiles=True, distributions=("pyfixest",)),
        Entrant("statsmodels", "statsmodels", _statsmodels, _frame, "GLM, IRLS", distributions=("statsmodels",)),
    ),
    _judge,
    TOL,
)
