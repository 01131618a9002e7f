# SPDX-License-Identifier: Apache-2.0
"""A kernel that is described instead of being launched in a body: Y += alpha X, twice."""

import ctypes

import cuda.stf._experimental as stf
import numpy as np

SOURCE = r"""
extern "C" __global__ void axpy(int n, double a, const double* x, double* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""


def compile_kernel():
    from cuda.core import Device, Program, ProgramOptions

    device = Device()
    device.set_current()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    return Program(SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("axpy")


def main():
    kernel, n = compile_kernel(), 1000
    x, y = np.ones(n), np.zeros(n)
    with stf.context() as ctx:
        lx, ly = ctx.logical_data(x), ctx.logical_data(y)
        for alpha in (1.0, 2.0):
            with ctx.cuda_kernel(lx.read(), ly.rw(), symbol="axpy") as k:
                dx, dy = k.get_arg(0), k.get_arg(1)
                k.launch(kernel, grid=(4,), block=(256,),
                         args=[ctypes.c_int(n), ctypes.c_double(alpha), dx, dy])  # fmt: skip
    return [(set(x), {1}), (set(y), {3})]
