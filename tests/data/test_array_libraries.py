"""Tensors of other array libraries: the same answers as NumPy's, and back where they came from."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.experimental.sparse import BCOO
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core.origin import HERE, device_of, host
from oracles import FloatArray

ALL = ["torch", "jax"]
DTYPES = [np.float32, np.float64, np.int32]
NAN = float("nan")
pytestmark = pytest.mark.usefixtures("double_precision")


def to(library: str, array: Any, dtype: Any = None) -> Any:
    """Make an array of a library."""
    values = np.array(array, dtype=dtype)
    return torch.asarray(values) if library == "torch" else jnp.asarray(values)


def table(shape: tuple[int, ...] = (4, 5, 3), seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).integers(1, 30, shape).astype(np.float64)


def agree(fit: ld.Decomposition, same: ld.Decomposition, atol: float = 1e-12) -> None:
    """Compare a fit with NumPy's."""
    assert isinstance(fit.theta, np.ndarray)
    assert isinstance(fit.eta, np.ndarray)
    assert fit.status is same.status
    assert_array_equal(fit.basis, same.basis)
    assert_allclose(fit.theta, same.theta, atol=atol)
    assert_allclose(fit.eta, same.eta, atol=atol)
    assert_allclose(host(fit.tensor()) / fit.total, same.tensor() / same.total, atol=atol)
    assert_allclose([fit.kl, fit.rmse, fit.psi], [same.kl, same.rmse, same.psi], rtol=atol, atol=atol)
    assert_array_equal(fit.vanishing_cells, same.vanishing_cells)


# Device


@pytest.mark.parametrize("library", ALL)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_cells_go_home_and_parameters_stay(library: str, dtype: Any) -> None:
    X = to(library, table(), dtype)
    fit, same = ld.decompose(X, "B1 + B2(1)"), ld.decompose(table().astype(dtype), "B1 + B2(1)")
    agree(fit, same)
    answer = fit.condition({1: 2})
    assert type(answer) is type(X)
    assert answer.device == X.device
    assert "float64" in str(answer.dtype)
    assert_allclose(host(answer), same.condition({1: 2}), atol=1e-12)
    assert fit.condition({0: 1, 1: 2, 2: 0}).shape == ()
    for array in (fit.basis, fit.fisher(), fit.log_prob([[1, 2, 0]]), fit.sample(3, 0)):
        assert type(array) is np.ndarray
    assert fit.summary() == same.summary()
    assert_array_equal(host(X), table().astype(dtype))


@pytest.mark.parametrize("library", ALL)
def test_arguments_may_be_of_the_library_too(library: str) -> None:
    X, mask, base = table((3, 4)), np.ones((3, 4), dtype=np.bool_), np.linspace(1, 2, 12).reshape(3, 4)
    mask[1, 2] = False
    cells, start = np.array([[0, 2], [2, 0], [1, 1]]), np.array([0.1, -0.2, 0.3])
    same = ld.decompose(X, cells, support=mask, base=base, start=start)
    own = [to(library, a) for a in (X, cells, mask, base, start)]
    fit = ld.decompose(own[0], own[1], support=own[2], base=own[3], start=own[4])
    agree(fit, same)
    agree(ld.decompose(own[0], cells, support=mask, base=base), same)  # NumPy's beside the library's
    assert type(ld.decompose(X, own[1], support=own[2], base=own[3]).tensor()) is np.ndarray
    assert_array_equal(fit.log_prob(own[1]), same.log_prob(cells))
    assert fit.expectation(own[3]) == pytest.approx(same.expectation(base), abs=1e-12)


@pytest.mark.parametrize("library", ALL)
def test_coordinates_are_of_the_library(library: str) -> None:
    square = table((3, 3))
    for there, back in ((ld.dual.to_theta, ld.dual.from_theta), (ld.dual.to_eta, ld.dual.from_eta)):
        coordinates = there(to(library, square))
        assert type(coordinates) is type(to(library, square))
        assert_array_equal(host(coordinates), there(square))
        assert type(back(coordinates)) is type(coordinates)
        assert_allclose(host(back(coordinates)), square / square.sum(), atol=1e-12)
    assert ld.dual.kl(to(library, square), square + 1) == ld.dual.kl(square, square + 1)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_fit_can_be_pickled_and_saved(library: str, tmp_path: Path) -> None:
    fit = ld.decompose(to(library, table()), "B1")
    again = pickle.loads(pickle.dumps(fit))
    assert type(again.tensor()) is type(fit.tensor())
    assert_array_equal(host(again.tensor()), host(fit.tensor()))
    fit.save(tmp_path / "fit.npz")
    assert type(ld.load(tmp_path / "fit.npz").tensor()) is np.ndarray


@pytest.mark.parametrize("X", [
    torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 5.0]])),
    torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.bfloat16),
    torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float16),
    torch.tensor([[1, 2], [3, 5]], dtype=torch.uint8),
    torch.tensor([[1.0, 3.0], [2.0, 5.0]]).T,
    jnp.asarray([[1, 2], [3, 5]], dtype=jnp.bfloat16),
], ids=["requires_grad", "bfloat16", "half", "uint8", "transposed", "jax-bfloat16"])  # fmt: skip
def test_any_real_dtype_is_read(X: Any) -> None:
    fit = ld.decompose(X, "B1")
    assert_allclose(host(fit.tensor()), np.outer([3, 8], [4, 7]) / 11, atol=1e-12)
    assert "float64" in str(fit.tensor().dtype)
    assert not getattr(fit.tensor(), "requires_grad", False)


# Refusals


def refusal(X: Any, **settings: Any) -> str:
    with pytest.raises(ld.LegendreError) as caught:
        ld.decompose(X, "B1", **settings)
    return str(caught.value)


@pytest.mark.parametrize("library", ALL)
def test_refusals_are_numpys(library: str) -> None:
    broken = {
        "negative": [[1.0, -2.0], [3.0, 4.0]],
        "infinite": [[1.0, np.inf], [3.0, 4.0]],
        "missing": [[NAN, NAN]],
        "zero": [[0.0, 0.0]],
        "complex": [[1 + 2j, 3]],
        "boolean": [[True, False]],
        "empty": np.empty((0, 2)),
        "number": 3.0,
    }
    for name, X in broken.items():
        with np.errstate(all="ignore"):
            assert refusal(to(library, X)) == refusal(np.array(X)), name
    mask = np.ones((3, 2), dtype=np.bool_)
    assert refusal(to(library, [[1.0, 2.0]]), support=to(library, mask)) == refusal([[1.0, 2.0]], support=mask)


def test_sparse_arrays_are_refused() -> None:
    X = torch.eye(2).to_sparse()
    assert "X is a torch array that cannot be read" in refusal(X)
    assert "pass support.to_dense()" in refusal([[1, 2], [3, 4]], support=X)
    other = BCOO((np.ones(1), np.zeros((1, 2), dtype=int)), shape=(2, 2))
    assert "= BCOO(" in refusal(other)


def test_traced_arrays_are_refused() -> None:
    with pytest.raises(ld.errors.InvalidTensor, match=r"^X is a jax array that cannot be read .* outside jit"):
        jax.jit(lambda X: ld.decompose(X, "B1").theta)(jnp.ones((2, 2)))


def test_arrays_without_values_are_refused() -> None:
    assert refusal(torch.empty((2, 2), device="meta")).startswith("X is a torch array that cannot be read (")


def test_single_precision_is_never_silent() -> None:
    with jax.enable_x64(False):
        text = refusal(jnp.ones((2, 2)))
        assert "jax.config.update('jax_enable_x64', True) at the start of the program, or pass np.asarray(X)." in text
        with pytest.raises(ld.errors.InvalidTensor, match="JAX is set to float32"):
            ld.balance(jnp.ones((2, 2)))


def test_what_only_looks_like_an_array_is_left_to_numpy() -> None:
    assert device_of(torch.float64) is HERE
    assert "holds Python objects" in refusal(torch.float64)
    assert device_of("B1") is HERE
