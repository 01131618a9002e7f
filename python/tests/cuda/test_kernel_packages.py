# SPDX-License-Identifier: Apache-2.0
"""`cuda_kernel` with kernels as their packages compile them, on a GPU."""

import ctypes
import importlib

import millstream as stf
import numba_names
import numpy as np
import pytest

pytestmark = pytest.mark.gpu

N = 300
THREADS = 64
BLOCKS = -(-N // THREADS)
SOURCE = r"""extern "C" __global__ void axpy(int n, double a, const double* x, double* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] += a * x[i]; }"""


@pytest.fixture(params=[False, True], ids=["immediate", "recorded"])
def ctx(request, machine):
    context = stf.context(use_graph=request.param, machine=machine)
    yield context
    context.finalize()


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.ones(N), name="x")


@pytest.fixture
def y(ctx):
    return ctx.logical_data(np.zeros(N), name="y")


def launch_source(ctx, kernel, x, y, alpha):
    """A kernel that was compiled of SOURCE."""
    with ctx.cuda_kernel(x.read(), y.rw()) as k:
        args = [ctypes.c_int(N), ctypes.c_double(alpha), k.get_arg(0), k.get_arg(1)]
        k.launch(kernel, grid=(4,), block=(256,), args=args)


def test_kernel_of_cuda_core(ctx, x, y):
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    try:
        program = core.Program(SOURCE, code_type="c++", options=options)
    except Exception as missing:
        pytest.skip(f"needs NVRTC: {missing}")
    kernel = program.compile("cubin").get_kernel("axpy")
    launch_source(ctx, kernel, x, y, 1.0)
    launch_source(ctx, int(kernel._handle), x, y, 2.0)
    assert ctx.wait(y).tolist() == [3] * N


def test_raw_kernel_of_cupy(ctx, x, y):
    cupy = pytest.importorskip("cupy")
    kernel = cupy.RawKernel(SOURCE, "axpy")
    launch_source(ctx, kernel, x, y, 1.0)
    launch_source(ctx, kernel, x, y, 2.0)
    assert ctx.wait(y).tolist() == [3] * N


def test_compiled_kernel_of_numba(ctx, x, y):
    pytest.importorskip("numba_cuda")
    numba_names.add()
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit("void(float64[::1], float64[::1], float64)")
    def axpy(y, x, a):
        i = cuda.grid(1)
        if i < y.size:
            y[i] += a * x[i]

    for alpha in (1.0, 2.0):
        with ctx.cuda_kernel(x.read(), y.rw()) as k:
            k.launch(axpy, BLOCKS, THREADS, [k.get_arg_cai(1), k.get_arg_cai(0), alpha])
    assert ctx.wait(y).tolist() == [3] * N


def test_kernel_of_numba_on_a_matrix(ctx):
    pytest.importorskip("numba_cuda")
    numba_names.add()
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit("void(float32[:, ::1], int32)")
    def number(matrix, rows):
        i, j = cuda.grid(2)
        if i < rows and j < matrix.shape[1]:
            matrix[i, j] = 10 * i + j

    matrix = ctx.logical_data_empty((3, 5), np.float32)
    with ctx.cuda_kernel(matrix.write()) as k:
        k.launch(number, (1, 1), (8, 8), [k.get_arg_cai(0), 3])
    assert ctx.wait(matrix).tolist() == [[10 * i + j for j in range(5)] for i in range(3)]


def test_compiled_kernel_of_triton(ctx, x, y):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    axpy = importlib.import_module("triton_kernels").axpy
    kernel = axpy.warmup(torch.float64, torch.float64, 2.0, N, BLOCK=THREADS, grid=(1,))
    for alpha in (1.0, 2.0):
        with ctx.cuda_kernel(x.read(), y.rw()) as k:
            k.launch(kernel, BLOCKS, None, [k.get_arg(1), k.get_arg(0), alpha, N])
    assert ctx.wait(y).tolist() == [3] * N
