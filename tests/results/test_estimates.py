"""Criteria, contrasts and small samples: numbers at the boundary that R's glm, or arithmetic, knows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln

import legendre as ld
from legendre.core import limits
from legendre.results.inference.result import draw_tables
from oracles import FloatArray

# --- criteria --------------------------------------------------------------------------------------------------------


def test_criteria_at_the_boundary_charge_for_every_parameter_of_the_support() -> None:
    """R: AIC(glm(n ~ Class * Sex + Age * Survived + ... all pairs, poisson, Titanic)) = 281.9902, 19 coefficients."""
    tests = ld.decompose(ld.datasets.titanic(), ld.interactions(2)).inference()
    assert (tests.rank, tests.fit.rank, tests.fit.status.name) == (18, 17, "AT_BOUNDARY")
    assert tests.aic == pytest.approx(281.9902, abs=1e-3)
    assert tests.bic - tests.aic == pytest.approx(19 * (np.log(2201) - 2))


@pytest.mark.parametrize("mean", [3.0, 0.4])
def test_the_path_of_a_basis_ends_with_the_criteria_of_its_inference(mean: float) -> None:
    X = np.random.default_rng(0).poisson(mean, (4, 4, 3))
    fit = ld.decompose(X, "adaptive(18)")
    tests = fit.inference()
    assert fit.path[-1].bic == pytest.approx(tests.bic, rel=1e-12)
    assert fit.path[-1].aic == pytest.approx(tests.aic, rel=1e-12)
    assert (tests.rank > fit.rank) == (mean < 1)
    for stage in fit.path:  # of the same scale, whatever the fit of a stage is
        fewer, further = fit.n_params - stage.n_params, stage.kl - fit.kl
        assert stage.bic == pytest.approx(tests.bic + 2 * fit.total * further - np.log(fit.total) * fewer, rel=1e-9)


# --- contrasts -------------------------------------------------------------------------------------------------------


def test_contrasts_without_a_limit_say_so() -> None:
    """The ratio of two cells that both vanish goes anywhere, that of one to a cell that stays to infinity."""
    tests = ld.decompose([[5, 0, 0], [3, 4, 6]], ld.full()).inference()
    cells = [[0, 0], [0, 1], [0, 2], [1, 1]]
    found = tests.contrast([[0, 1, -1, 0], [1, -1, 0, 0], [1, 0, 0, -1]], cells)
    assert np.isnan(found.estimate[0])
    assert found.estimate[1] == np.inf
    assert found.estimate[2] == pytest.approx(np.log(5 / 4))
    assert found.notes[0] == "not estimable: the cells with positive means do not determine it"
    assert found.notes[1] == "infinite, because of fitted zeros"
    assert "1 without s.e.: not estimable" in str(found)


def test_standard_errors_where_scaling_fits_dependent_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaling leaves dependent parameters at values of their own, and the Fisher matrix is that of all of them."""
    monkeypatch.setattr(limits, "SCALING_FROM", 5)
    random = np.random.default_rng(1)
    X, mask = random.poisson(8, (6, 5, 4)) + 1, random.random((6, 5, 4)) < 0.45
    fit = ld.decompose(X, ld.interactions(2), support=mask)
    assert fit.solver == "scaling"
    assert fit.rank < fit.n_params == np.count_nonzero(fit.theta)
    cells, mu = np.argwhere(mask), fit.tensor()[mask]
    Z: FloatArray = np.hstack([np.ones((len(cells), 1)), (fit.basis[None] <= cells[:, None]).all(axis=2) * 1.0])
    covariance = np.linalg.pinv(Z.T @ (mu[:, None] * Z), rcond=1e-10)
    found = fit.inference().contrast(np.eye(len(cells))[:5] - np.eye(len(cells))[1:6], cells)
    rows = Z[:5] - Z[1:6]
    assert_allclose(found.standard_error, np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows)), rtol=1e-6)


def test_odds_ratios_are_those_of_the_table() -> None:
    tests = ld.decompose(ld.datasets.hair_eye_color(), ld.full()).inference()
    table = ld.datasets.hair_eye_color().toarray().astype(float)
    found = tests.odds("hair", "eye", {"sex": "female"})
    assert len(found) == 9
    own = found["hair[brown/black]:eye[blue/brown] given sex female"]
    assert own == pytest.approx(table[1, 1, 1] * table[0, 0, 1] / (table[1, 0, 1] * table[0, 1, 1]))
    pairs = ld.decompose(ld.datasets.hair_eye_color(), ld.interactions(2)).inference()
    assert len(pairs.odds("hair", "eye")) == 9  # the same for both sexes
    assert len(tests.odds("hair", "eye")) == 18
    assert pairs.odds("hair", "eye", contrasts="treatment").names[1] == "hair[brown/black]:eye[hazel/brown]"


def test_what_cannot_be_asked_is_said() -> None:
    tests = ld.decompose(ld.datasets.drug_use(), ld.interactions(2)).inference()
    asked: list[tuple[Any, str]] = [
        (
            lambda: tests.coef("helmert"),  # type: ignore[arg-type]
            "contrasts must be 'treatment', 'sum' or 'local', got 'helmert'",
        ),
        (lambda: tests.coef("sum", reference={"alcohol": "no"}), "only treatment contrasts have a reference"),
        (lambda: tests.coef(reference={"alcohol": "maybe"}), "alcohol has no level 'maybe'"),
        (lambda: tests.coef(confidence=95), "confidence must be a finite number > 0 and < 1, got 95"),
        (lambda: tests.contrast([1, 2]), "one finite number for each of the 6 parameters"),
        (lambda: tests.contrast({"alcohol[yes]": 1}), "did you mean 'alcohol[no]'"),
        (lambda: tests.odds("alcohol", "alcohol"), "names a mode twice"),
        (lambda: tests.odds("alcohol", "cigarette", {"alcohol": "no"}), "cannot be given"),
        (lambda: tests.bootstrap(0), "n must be an integer >= 1, got 0"),
    ]
    for ask, text in asked:
        with pytest.raises(ld.LegendreError) as caught:
            ask()
        assert text in str(caught.value)


# --- words and small samples -----------------------------------------------------------------------------------------


def test_the_boundary_is_told_as_a_statistician_says_it() -> None:
    tests = ld.decompose(ld.datasets.titanic(), ld.interactions(2)).inference()
    text = " ".join(tests.summary().split())
    assert "the maximum likelihood estimate does not exist" in text
    assert "(class crew, sex male, age child, survived no)" in text
    assert "the limit is reported instead" in text
    assert not any("does not exist" in note for note in ld.decompose(DRUGS, "B1").inference().notes)


DRUGS = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])


def test_small_fitted_counts_are_told() -> None:
    sparse = np.random.default_rng(3).poisson(0.3, (5, 5, 4))
    note = ld.decompose(sparse, ld.interactions(1), support="all").inference().notes[-1]
    assert "of 100 fitted counts are below 5" in note
    assert "bootstrap() gives p-values without it" in note
    listed = ld.decompose(ld.from_coords(np.argwhere(sparse), sparse[sparse > 0], sparse.shape), ld.interactions(1))
    assert "of 100 fitted counts are below 5" in listed.inference().notes[-1]
    assert ld.decompose(DRUGS + 10, ld.interactions(1)).inference().notes == ()


def test_bootstrap_p_values_are_uniform_under_the_null() -> None:
    """A sparse table, for which the chi-square distribution of G2 is far off."""
    random, bootstrapped, asymptotic = np.random.default_rng(5), [], []
    q = np.outer(np.arange(1, 6) / 15, [0.4, 0.3, 0.2, 0.1]).ravel()
    for seed in range(50):
        tests = ld.decompose(random.multinomial(100, q).reshape(5, 4), "B1").inference()
        bootstrapped.append(tests.bootstrap(39, seed).g2_p_value)
        asymptotic.append(tests.g2_p_value)
    assert stats.kstest(bootstrapped, "uniform").pvalue > 0.1  # of 300 tables: 0.13, and of chi-square 2e-7
    assert stats.kstest(asymptotic, "uniform").pvalue < stats.kstest(bootstrapped, "uniform").pvalue


def tables_like(n: Any) -> list[Any]:
    """List every table of two variables with the same margins, by brute force."""
    rows, columns = n.sum(axis=1), n.sum(axis=0)
    free = [range(int(min(rows[i], columns[j])) + 1) for i in range(len(rows) - 1) for j in range(len(columns) - 1)]
    found = []
    for values in product(*free):
        table = np.zeros(n.shape, dtype=np.int64)
        table[:-1, :-1] = np.reshape(values, (len(rows) - 1, len(columns) - 1))
        table[:-1, -1] = rows[:-1] - table[:-1].sum(axis=1)
        table[-1] = columns - table[:-1].sum(axis=0)
        if (table >= 0).all():
            found.append(table)
    return found


def exact_p_value(tables: list[Any], own: float, statistic: Any) -> float:
    """Sum the probabilities of tables, which go like 1 / product of factorials, that are as far out."""
    weights = np.exp([-gammaln(table + 1.0).sum() for table in tables])
    return float(weights[[statistic(table) >= own - 1e-9 for table in tables]].sum() / weights.sum())


def test_tables_with_the_margins_of_x_give_exact_p_values() -> None:
    """Independence, and independence given a third variable, against every table with these margins."""
    n = np.array([[3, 1, 0], [1, 0, 4]])
    tests = ld.decompose(n, "B1").inference()
    told = exact_p_value(tables_like(n), tests.g2, lambda t: ld.decompose(t, "B1").inference().g2)
    assert tests.bootstrap(4000, 0, conditional=True).g2_p_value == pytest.approx(told, abs=0.015)
    layers = [np.array([[2, 1], [0, 3]]), np.array([[1, 2], [3, 0]])]
    m = ld.loglinear(np.stack(layers, axis=2), "[AC][BC]")
    both = [np.stack(pair, axis=2) for pair in product(*map(tables_like, layers))]
    told = exact_p_value(both, m.x2, lambda t: float(((t - m.fitted()) ** 2 / m.fitted()).sum()))
    found = m.bootstrap(4000, 1, conditional=True)
    assert found.x2_p_value == pytest.approx(told, abs=0.015)
    assert "Exact test given the margins" in repr(found)
    with pytest.raises(ld.LegendreError, match=r"is done for decomposable models .* such as \[AB\]\[BC\]"):
        ld.loglinear(np.ones((2, 2, 2), dtype=int), ".^2").bootstrap(9, 0, conditional=True)
    drawn = list(draw_tables(np.stack(layers, axis=2), [(0,)], 20, np.random.default_rng(2)))
    assert all((table.sum(axis=(1, 2)) == [6, 6]).all() for table in drawn)  # B and C are not in this model
    assert len({tuple(table.sum(axis=(0, 2))) for table in drawn}) > 2


def test_few_counts_are_told_to_whom_draws_from_the_fit() -> None:
    """With three counts for a parameter p-values of drawn tables are too small; given the margins they are not."""
    tests = ld.decompose(np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2]]), "B1").inference()
    note = "3.0 counts for each parameter: p-values are too small"
    assert note in " ".join(repr(tests.bootstrap(9, 0)).split())
    assert "note" not in repr(tests.bootstrap(9, 0, conditional=True))
    assert "note" not in repr(ld.decompose(DRUGS, "B1").inference().bootstrap(9, 0))


def test_p_values_of_the_bootstrap_are_near_those_of_chi_square_if_n_is_large() -> None:
    tests = ld.decompose(ld.datasets.car_workers(), ld.interactions(2)).inference()
    assert abs(tests.bootstrap(70, 1).g2_p_value - tests.g2_p_value) < 0.15


def test_levels_that_were_arranged_keep_their_names() -> None:
    """A basis that grows may arrange levels; contrasts of cells, references and notes speak of X all the same."""
    random = np.random.default_rng(2)
    X = random.poisson(np.outer([2, 9, 2, 9, 2], [1, 6, 1, 6]) + 1)
    X[0, 0] = 0
    fit = ld.decompose(X, ld.adaptive(14), names=["a", "b"], levels=[list("vwxyz"), list("klmn")])
    assert fit.labels.order is not None
    tests, q = fit.inference(), fit.tensor()
    mean = np.asarray(q)
    found = tests.contrast([[1, -1]], [[1, 1], [3, 2]])
    assert found.estimate[0] == pytest.approx(np.log(mean[1, 1] / mean[3, 2]), abs=1e-8)
    assert "a[y/v]:b[m/k]" in tests.odds("a", "b", contrasts="treatment").names
