# SPDX-License-Identifier: Apache-2.0
"""A kernel of Numba that is launched on data: Y += 2X."""

import cuda.stf._experimental as stf
import numpy as np
from cuda.stf._experimental.interop.numba import jit
from numba import cuda


@jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def main():
    x, y = np.ones(200, np.float32), np.ones(200, np.float32)
    with stf.context() as ctx:
        lx, ly = ctx.logical_data(x), ctx.logical_data(y)
        axpy[(4,), (64,)](2.0, lx.read(), ly.rw())
    return [(set(x), {1}), (set(y), {3})]
