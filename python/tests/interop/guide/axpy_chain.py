# SPDX-License-Identifier: Apache-2.0
"""Four kernels of Numba in tasks: X = 2X, Y += 2X, Z += 2X, Z += 2Y."""

import cuda.stf._experimental as stf
import numpy as np
from cuda.stf._experimental.interop.numba import numba_arguments
from numba import cuda

external_stream = cuda.external_stream


@cuda.jit
def scale(a, x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = a * x[i]


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def main():
    x, y, z = (np.ones(16, np.float32) for _ in range(3))
    ctx = stf.context()
    lx, ly, lz = (ctx.logical_data(each) for each in (x, y, z))

    with ctx.task(lx.rw()) as t:
        scale[1, 16, external_stream(t.stream_ptr())](2.0, numba_arguments(t))
    for source, target in ((lx, ly), (lx, lz), (ly, lz)):
        with ctx.task(source.read(), target.rw()) as t:
            d_source, d_target = numba_arguments(t)
            axpy[1, 16, external_stream(t.stream_ptr())](2.0, d_source, d_target)

    ctx.finalize()
    return [(set(x), {2}), (set(y), {5}), (set(z), {15})]
