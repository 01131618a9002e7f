# SPDX-License-Identifier: Apache-2.0
"""The tile functions with CuPy, on GPUs; see kernels_cpu.py for what each does.

They queue work on CuPy's current stream, which in a task is the task's, and wait for nothing: a
tile that turns out not to be positive definite makes the result NaN.
"""

import cupy
import cupyx
from cupyx.scipy.linalg import solve_triangular

_array = cupy.asarray  # over the same memory

# --- the kernel matrix ---------------------------------------------------------------------------


def rbf(x, z, out, gamma):
    _rbf(_array(x), _array(z), _array(out), gamma)


def _rbf(x, z, out, gamma):
    cupy.matmul(x * (2.0 * gamma), z.T, out=out)
    out -= gamma * (x * x).sum(axis=1)[:, None]
    out -= gamma * (z * z).sum(axis=1)
    cupy.minimum(out, 0.0, out=out)
    cupy.exp(out, out=out)


def rbf_diagonal(x, out, gamma, ridge):
    rbf(x, x, out, gamma)
    _diagonal(_array(out))[:] = 1.0 + ridge


def _diagonal(a):
    """A view of the diagonal of a contiguous tile."""
    return a.reshape(-1)[:: a.shape[1] + 1]


# --- Cholesky factorisation ----------------------------------------------------------------------


def potrf(a):
    a = _array(a)
    with cupyx.errstate(linalg="ignore"):  # else it waits for the GPU's answer
        factor = cupy.linalg.cholesky(a)
    # Where the factorisation stopped, the diagonal has an entry that is not positive.
    stopped = ~(_diagonal(factor) > 0.0).all()
    a[...] = cupy.where(stopped, cupy.nan, factor)


def trsm(l, a):  # noqa: E741
    l, a = _array(l), _array(a)  # noqa: E741
    a[...] = solve_triangular(l, a.T, lower=True, check_finite=False).T


def syrk(a, c):
    gemm(a, a, c)


def gemm(a, b, c):
    c = _array(c)
    c -= _array(a) @ _array(b).T


# --- triangular solves ---------------------------------------------------------------------------


def _solve(transposed, l, y):  # noqa: E741
    y = _array(y)
    y[...] = solve_triangular(_array(l), y, trans=transposed, lower=True, check_finite=False)


def solve_forward(l, y):  # noqa: E741
    _solve(0, l, y)


def update_forward(l, x, y):  # noqa: E741
    y = _array(y)
    y -= _array(l) @ _array(x)


def solve_backward(l, y):  # noqa: E741
    _solve(1, l, y)


def update_backward(l, x, y):  # noqa: E741
    y = _array(y)
    y -= _array(l).T @ _array(x)


# --- prediction ----------------------------------------------------------------------------------


def _predictions(x, z, weights, gamma):
    x, z = _array(x), _array(z)
    block = cupy.empty((len(x), len(z)))
    _rbf(x, z, block, gamma)
    return block @ _array(weights)


def predict_first(x, z, weights, out, gamma):
    _array(out)[...] = _predictions(x, z, weights, gamma)


def predict_more(x, z, weights, out, gamma):
    out = _array(out)
    out += _predictions(x, z, weights, gamma)


# --- what tiles are made of ----------------------------------------------------------------------

NAME = f"CuPy {cupy.__version__}"
LARGEST_TILE = 1024
WARM_UP_TILE = 1024  # the libraries load their kernels by the size of a tile


def missing():
    return None if cupy.cuda.is_available() else f"{NAME} finds no GPU"


def free_bytes(devices):
    def free_of(device):
        with cupy.cuda.Device(device):
            return cupy.cuda.runtime.memGetInfo()[0]

    return sum(free_of(device) for device in range(devices))


def empty(shape):
    return cupy.empty(shape)


def from_host(array):
    return cupy.array(array)


def to_host(tile):
    return cupy.asnumpy(tile)
