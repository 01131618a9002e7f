# SPDX-License-Identifier: Apache-2.0
"""A block with arrays of Numba and an algorithm of cuda.compute: C = A + B."""

import cuda.stf._experimental as stf
import numpy as np
from cuda.stf._experimental.interop.numba import numba_task


def add(a, b, c, count, stream):
    import cuda.compute
    from cuda.compute import OpKind

    # The guide has no keywords here; cuda.compute takes nothing else since cuda-cccl 1.2.
    cuda.compute.binary_transform(
        d_in1=a, d_in2=b, d_out=c, op=OpKind.PLUS, num_items=count, stream=stream
    )


def main():
    count = 1000
    a, b, c = (np.full(count, value, np.int32) for value in (1, 2, 0))
    with stf.context() as ctx:
        la, lb, lc = (ctx.logical_data(each) for each in (a, b, c))
        with numba_task(ctx, la.read(), lb.read(), lc.rw()) as (args, stream):
            add(args[0], args[1], args[2], count, stream)
    return [(set(a), {1}), (set(b), {2}), (set(c), {3})]
