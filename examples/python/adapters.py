# SPDX-License-Identifier: Apache-2.0
"""Tasks written with Numba and PyTorch: kernels and tensors over the data of a context.

On a machine without GPUs the kernel runs in Numba's simulator and the tensors are in host memory.
What is not installed is left out, and the program says so.

    python examples/python/adapters.py
"""

import os

import millstream as stf
import numpy as np

HAS_GPU = stf.machine().name == "cuda"
if not HAS_GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before Numba is imported

try:
    from numba import cuda
except (ImportError, AttributeError) as missing:  # the latter with a NumPy that is too new for it
    cuda, why_no_numba = None, missing
try:
    import torch
except ImportError as missing:
    torch, why_no_torch = None, missing

COUNT = 64


def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def run_numba(ctx, lx, ly):
    """Y += 2X by a kernel, then Y -= X by whatever takes arrays and a stream."""
    from millstream.interop.numba import external_stream, jit, numba_task

    jit(axpy)[(COUNT + 31) // 32, 32](2.0, lx.read(), ly.rw())
    by_hand = cuda.jit(axpy)
    with numba_task(ctx, lx.read(), ly.rw()) as ((x, y), stream):
        by_hand[(COUNT + 31) // 32, 32, external_stream(stream)](-1.0, x, y)


def run_torch(ctx, lx, ly):
    """Y += 2X, then Y -= X, as operations on tensors."""
    from millstream.interop.pytorch import pytorch_task, tensor_arguments

    with pytorch_task(ctx, lx.read(), ly.rw()) as (x, y):
        y += 2 * x

    def subtract(*_):
        x, y = tensor_arguments(stf.current_task())
        y -= x

    ctx.submit(subtract, lx.read(), ly.rw())


def check(run):
    x, y = np.arange(COUNT, dtype=np.float32), np.ones(COUNT, np.float32)
    with stf.context() as ctx:
        run(ctx, ctx.logical_data(x, name="x"), ctx.logical_data(y, name="y"))
    assert np.array_equal(y, x + 1)
    assert np.array_equal(x, np.arange(COUNT))


def main():
    if cuda is None:
        print(f"Numba: left out ({why_no_numba})")
    else:
        check(run_numba)
        print(f"Numba: as expected, {'on the GPU' if HAS_GPU else 'in its simulator'}")
    if torch is None:
        print(f"PyTorch: left out ({why_no_torch})")
    else:
        check(run_torch)
        print(f"PyTorch: as expected, {'on the GPU' if HAS_GPU else 'in host memory'}")


if __name__ == "__main__":
    main()
