# SPDX-License-Identifier: Apache-2.0
"""Each tile function of each library against NumPy, on tiles that need not be square where allowed.

PyTorch works on the CPU here. CuPy cannot, so NumPy and SciPy stand in for it: what is tested is
what the functions ask for.
"""

import importlib
import sys
from types import ModuleType

import kernels_cpu
import numpy as np
import pytest
import scipy.linalg

RNG = np.random.default_rng(7)
CLOSE = {"rtol": 0, "atol": 1e-12}


def standing_in_for_cupy(monkeypatch):
    cupyx = ModuleType("cupyx")
    cupyx.errstate = lambda linalg: np.errstate()
    monkeypatch.setitem(sys.modules, "cupy", np)
    monkeypatch.setitem(sys.modules, "cupyx", cupyx)
    monkeypatch.setitem(sys.modules, "cupyx.scipy", ModuleType("cupyx.scipy"))
    monkeypatch.setitem(sys.modules, "cupyx.scipy.linalg", scipy.linalg)
    monkeypatch.delitem(sys.modules, "kernels_cupy", raising=False)


@pytest.fixture(params=["kernels_cpu", "kernels_torch", "kernels_cupy"])
def tile(request, monkeypatch):
    if request.param == "kernels_torch":
        pytest.importorskip("torch")
    if request.param == "kernels_cupy":
        standing_in_for_cupy(monkeypatch)
    yield importlib.import_module(request.param)
    if request.param == "kernels_cupy":
        del sys.modules["kernels_cupy"]


@pytest.fixture
def spd():
    """A positive definite tile and its factor."""
    a = RNG.random((37, 37))
    matrix = a @ a.T + 37 * np.eye(37)
    return matrix, np.linalg.cholesky(matrix)


def test_rbf_is_the_gaussian_of_all_distances(tile):
    x, z = RNG.random((7, 64)), RNG.random((5, 64))
    out = np.full((7, 5), np.nan)
    tile.rbf(x, z, out, 0.3)
    distances = ((x[:, None] - z[None]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(out, np.exp(-0.3 * distances), **CLOSE)


def test_rbf_of_equal_images_is_never_above_one(tile):
    x = np.repeat(RNG.random((1, 64)), 9, axis=0)
    out = np.empty((9, 9))
    tile.rbf(x, x, out, 5.0)
    assert out.max() <= 1.0


def test_diagonal_tile_has_the_ridge_on_its_diagonal(tile):
    x = RNG.random((6, 64))
    out = np.empty((6, 6))
    tile.rbf_diagonal(x, out, 0.2, 0.5)
    np.testing.assert_array_equal(np.diag(out), np.full(6, 1.5))
    np.testing.assert_allclose(out, out.T, **CLOSE)


def test_potrf_factorises_the_lower_triangle(tile, spd):
    matrix, lower = spd
    a = np.tril(matrix)
    tile.potrf(a)
    np.testing.assert_allclose(np.tril(a), lower, **CLOSE)


def test_potrf_says_which_minor_is_not_positive():
    a = np.diag([1.0, 1.0, -1.0])
    with pytest.raises(ArithmeticError, match=r"minor 3.*raise the ridge"):
        kernels_cpu.potrf(a)


def test_potrf_of_torch_gives_nothing_but_nan_where_a_minor_is_not_positive():
    pytest.importorskip("torch")
    a = np.diag([1.0, 1.0, -1.0])
    importlib.import_module("kernels_torch").potrf(a)
    assert np.isnan(a).all()


def test_trsm_divides_by_the_transposed_factor(tile, spd):
    _, lower = spd
    before = RNG.random((11, 37))
    a = before.copy()
    tile.trsm(lower, a)
    np.testing.assert_allclose(a @ lower.T, before, **CLOSE)


def test_triangular_functions_ignore_what_is_above_the_diagonal(tile, spd):
    _, lower = spd
    dirty = lower + np.triu(np.full(lower.shape, np.nan), 1)
    a, y = RNG.random((5, 37)), RNG.random((37, 10))
    for function, argument in (
        (tile.trsm, a), (tile.solve_forward, y), (tile.solve_backward, y)
    ):  # fmt: skip
        clean, other = argument.copy(), argument.copy()
        function(lower, clean)
        function(dirty, other)
        np.testing.assert_array_equal(clean, other)


def test_syrk_updates_the_lower_triangle(tile):
    a, before = RNG.random((9, 14)), RNG.random((9, 9))
    c = before.copy()
    tile.syrk(a, c)
    np.testing.assert_allclose(np.tril(c), np.tril(before - a @ a.T), **CLOSE)


def test_gemm_subtracts_the_product_with_the_transpose(tile):
    a, b, before = RNG.random((9, 14)), RNG.random((6, 14)), RNG.random((9, 6))
    c = before.copy()
    tile.gemm(a, b, c)
    np.testing.assert_allclose(c, before - a @ b.T, **CLOSE)


def test_solves_undo_the_factor_and_its_transpose(tile, spd):
    _, lower = spd
    before = RNG.random((37, 10))
    forward, backward = before.copy(), before.copy()
    tile.solve_forward(lower, forward)
    tile.solve_backward(lower, backward)
    np.testing.assert_allclose(lower @ forward, before, **CLOSE)
    np.testing.assert_allclose(lower.T @ backward, before, **CLOSE)


def test_updates_subtract_a_tile_times_solved_rows(tile):
    block = RNG.random((9, 14))
    x, y = RNG.random((14, 10)), RNG.random((9, 10))
    down, up = y.copy(), x.copy()
    tile.update_forward(block, x, down)
    tile.update_backward(block, y, up)
    np.testing.assert_allclose(down, y - block @ x, **CLOSE)
    np.testing.assert_allclose(up, x - block.T @ y, **CLOSE)


def test_predictions_are_summed_over_training_tiles(tile):
    x, z, weights = RNG.random((4, 64)), RNG.random((6, 64)), RNG.random((6, 10))
    block = np.empty((4, 6))
    tile.rbf(x, z, block, 0.2)
    out = np.full((4, 10), np.nan)
    tile.predict_first(x, z, weights, out, 0.2)
    tile.predict_more(x, z, weights, out, 0.2)
    np.testing.assert_allclose(out, 2 * block @ weights, **CLOSE)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_inputs_may_be_read_only(tile):
    a, b, c = RNG.random((8, 8)), RNG.random((8, 8)), np.zeros((8, 8))
    a.flags.writeable = b.flags.writeable = False
    tile.gemm(a, b, c)
    np.testing.assert_allclose(c, -a @ b.T, **CLOSE)


@pytest.mark.parametrize("name", ["_dgemm", "_dsyrk", "_dtrsm", "_dpotrf"])
def test_blas_is_called_without_the_interpreter_lock(name):
    python_api = 4  # FUNCFLAG_PYTHONAPI: ctypes keeps the lock only for functions with this flag
    assert getattr(kernels_cpu, name)._flags_ & python_api == 0
