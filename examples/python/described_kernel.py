# SPDX-License-Identifier: Apache-2.0
"""Y += alpha X by a kernel that is described to the context: on GPUs, one node for each launch.

The same program runs on GPUs, where the kernel is device code (compiled by cuda.core or CuPy,
whichever is there), and elsewhere, where it is a function of ctypes.

    python examples/python/described_kernel.py
"""

import ctypes

import millstream as stf
import numpy as np

COUNT, STEPS = 1000, 4
SOURCE = r"""
extern "C" __global__ void axpy(int n, double a, const double* x, double* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""


def compile_for_gpus():
    try:
        from cuda.core import Device, Program, ProgramOptions
    except ImportError:
        import cupy

        return cupy.RawKernel(SOURCE, "axpy")
    device = Device()
    device.set_current()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    return Program(SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("axpy")


def axpy_on_host(n, a, x, y):
    """Called once for a launch, with exactly its arguments."""
    x, y = (np.ctypeslib.as_array((ctypes.c_double * n).from_address(each)) for each in (x, y))
    y += a * x


def make_kernel():
    if stf.machine().name == "cuda":
        return compile_for_gpus()
    return ctypes.CFUNCTYPE(
        None, ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p
    )(axpy_on_host)  # fmt: skip


def run(kernel):
    x, y = np.ones(COUNT), np.zeros(COUNT)
    with stf.context(use_graph=True) as ctx:
        lx, ly = ctx.logical_data(x), ctx.logical_data(y)
        for _ in range(STEPS):
            with ctx.cuda_kernel(lx.read(), ly.rw(), symbol="axpy") as k:
                dx, dy = k.get_arg(0), k.get_arg(1)
                for alpha in (1.0, 10.0, 100.0):  # one after the other
                    args = [ctypes.c_int(COUNT), ctypes.c_double(alpha), dx, dy]
                    k.launch(kernel, grid=(4,), block=(256,), args=args)
            ctx.fence()  # launches what was recorded
        stats = ctx.stats()
    assert set(y) == {111.0 * STEPS}
    # The first step brings the data to the device, so its graph is another one.
    assert (stats["instantiations"], stats["updates"]) == (2, STEPS - 2), stats
    return f"Y = {y[0]:g} after {STEPS} steps, {stats['updates']} of them updates of a graph"


def main():
    try:
        kernel = make_kernel()
    except (ImportError, RuntimeError) as missing:
        print(f"left out: GPUs need cuda.core or CuPy here ({missing})")
    else:
        print(run(kernel))


if __name__ == "__main__":
    main()
