# SPDX-License-Identifier: Apache-2.0
"""Kernels in the style of Numba. The simulator looks for `cuda` in the globals of a kernel."""

from millstream.interop.numba import jit
from numba import cuda


@jit
def scale(a, x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = a * x[i]


@jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@jit
def laplacian(u, out):
    i, j = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        out[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]


@jit(fastmath=True)
def add_one(x):
    x[0] += 1


@cuda.jit
def plain_double(source, target):
    i = cuda.grid(1)
    if i < source.size:
        target[i] = 2 * source[i]
