# SPDX-License-Identifier: Apache-2.0
"""The tile functions on the CPU: one array per dependency, then plain arguments.

`kernels_torch.py` and `kernels_cupy.py` have the same functions for GPUs. Each of these modules
also says what its tiles are made of, at its end; `options.py` names the modules of each machine.
What lies above the diagonal of a tile that is or becomes triangular has no meaning.

Arrays are C-contiguous float64 tiles. BLAS and LAPACK are called through the function pointers
that SciPy exports for Cython, by way of ctypes: such a call lets go of the interpreter lock, so
that tiles on different devices overlap. (SciPy's Python wrappers keep it.) NumPy's `matmul` and
`exp` let go of it by themselves.

BLAS counts in columns. A row-major tile read by columns is its transpose, so each function below
asks for the transposed operation: "lower" becomes upper ("U"), left and right change places.
"""

import ctypes
import functools

import memory
import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack

_ONE = ctypes.byref(ctypes.c_double(1.0))
_MINUS_ONE = ctypes.byref(ctypes.c_double(-1.0))


def _load(module, name, argument_count):
    """The function `name` of a Cython module, as a ctypes function that takes only pointers."""
    capsule = module.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(capsule, get_name(capsule))
    # CFUNCTYPE (and not PYFUNCTYPE): the call is made without the interpreter lock.
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * argument_count)(address)


_dgemm = _load(scipy.linalg.cython_blas, "dgemm", 13)
_dsyrk = _load(scipy.linalg.cython_blas, "dsyrk", 10)
_dtrsm = _load(scipy.linalg.cython_blas, "dtrsm", 11)
_dpotrf = _load(scipy.linalg.cython_lapack, "dpotrf", 5)


@functools.cache
def _int(value):
    """A size as BLAS takes it. BLAS never changes sizes, so one object per value serves all."""
    return ctypes.byref(ctypes.c_int(value))


def _data(array):
    return array.__array_interface__["data"][0]


# --- the kernel matrix ---------------------------------------------------------------------------


def rbf(x, z, out, gamma):
    """out[a, b] = exp(-gamma |x[a] - z[b]|^2)."""
    np.matmul(x * (2.0 * gamma), z.T, out=out)
    out -= gamma * np.einsum("ij,ij->i", x, x)[:, np.newaxis]
    out -= gamma * np.einsum("ij,ij->i", z, z)
    np.minimum(out, 0.0, out=out)  # rounding must not make a distance negative
    np.exp(out, out=out)


def rbf_diagonal(x, out, gamma, ridge):
    """A tile on the diagonal: the kernel of `x` with itself, plus `ridge` on the diagonal."""
    rbf(x, x, out, gamma)
    out.flat[:: out.shape[1] + 1] = 1.0 + ridge


# --- Cholesky factorisation ----------------------------------------------------------------------


def potrf(a):
    """The lower triangle of a becomes L with L L^T = a."""
    n = _int(a.shape[0])
    info = ctypes.c_int(0)
    _dpotrf(b"U", n, _data(a), n, ctypes.byref(info))
    if info.value != 0:
        raise ArithmeticError(
            f"tile is not positive definite (minor {info.value}); raise the ridge"
        )


def trsm(l, a):  # noqa: E741
    """a = a L^-T, the panel below a factorised diagonal tile."""
    rows, columns = (_int(n) for n in a.shape)
    _dtrsm(b"L", b"U", b"T", b"N", columns, rows, _ONE, _data(l), columns, _data(a), columns)


def syrk(a, c):
    """The lower triangle of c becomes c - a a^T."""
    n, k = (_int(n) for n in a.shape)
    _dsyrk(b"U", b"T", n, k, _MINUS_ONE, _data(a), k, _ONE, _data(c), n)


def gemm(a, b, c):
    """c = c - a b^T."""
    rows, columns = (_int(n) for n in c.shape)
    k = _int(a.shape[1])
    _dgemm(
        b"T", b"N", columns, rows, k, _MINUS_ONE, _data(b), k, _data(a), k, _ONE, _data(c), columns
    )


# --- triangular solves ---------------------------------------------------------------------------


def _solve(transposed, l, y):  # noqa: E741
    rows, columns = (_int(n) for n in y.shape)
    _dtrsm(b"R", b"U", transposed, b"N", columns, rows, _ONE, _data(l), rows, _data(y), columns)


def _update(transposed, l, x, y):  # noqa: E741
    rows, columns = (_int(n) for n in y.shape)
    k, width = _int(x.shape[0]), _int(l.shape[1])
    _dgemm(
        b"N", transposed, columns, rows, k, _MINUS_ONE, _data(x), columns, _data(l), width,
        _ONE, _data(y), columns,
    )  # fmt: skip


def solve_forward(l, y):  # noqa: E741
    """y = L^-1 y."""
    _solve(b"N", l, y)


def update_forward(l, x, y):  # noqa: E741
    """y = y - l x."""
    _update(b"N", l, x, y)


def solve_backward(l, y):  # noqa: E741
    """y = L^-T y."""
    _solve(b"T", l, y)


def update_backward(l, x, y):  # noqa: E741
    """y = y - l^T x."""
    _update(b"T", l, x, y)


# --- prediction ----------------------------------------------------------------------------------


def predict_first(x, z, weights, out, gamma):
    """out = K(x, z) weights."""
    block = np.empty((x.shape[0], z.shape[0]))
    rbf(x, z, block, gamma)
    np.matmul(block, weights, out=out)


def predict_more(x, z, weights, out, gamma):
    """out = out + K(x, z) weights."""
    block = np.empty((x.shape[0], z.shape[0]))
    rbf(x, z, block, gamma)
    out += block @ weights


# --- what tiles are made of ----------------------------------------------------------------------

NAME = "NumPy and SciPy"
LARGEST_TILE = 512  # rows; for good_tile
WARM_UP_TILE = 16  # rows; makes threads and BLAS allocate their buffers


def missing():
    """Why these functions cannot be used here; None if they can."""
    return


def free_bytes(devices):
    """Memory for tiles on that many devices; None where the system does not say."""
    return memory.available_bytes()


def empty(shape):
    """A tile without content, for the run without a runtime."""
    return np.empty(shape)


def from_host(array):
    """An array of the host's as these functions take it; may share its memory."""
    return array


def to_host(tile):
    """The content of a tile, once all functions called so far have ended."""
    return tile
