# SPDX-License-Identifier: Apache-2.0
"""A block with tensors: Y = 2X."""

import cuda.stf._experimental as stf
import numpy as np
from cuda.stf._experimental.interop.pytorch import pytorch_task


def main():
    x, y = np.full(1 << 20, 3, np.float32), np.zeros(1 << 20, np.float32)
    with stf.context() as ctx:
        lx, ly = ctx.logical_data(x), ctx.logical_data(y)
        with pytorch_task(ctx, lx.read(), ly.rw()) as (x_tensor, y_tensor):
            y_tensor[:] = x_tensor * 2
    return [(set(x), {3}), (set(y), {6})]
