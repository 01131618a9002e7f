# SPDX-License-Identifier: Apache-2.0
"""The programs of the reference's guide, under its name and under ours.

The folder guide/ has programs with the same calls. Where there is no GPU, Numba's simulator takes
the stream from our adapter, and a line of NumPy stands for cuda.compute.
"""

import ctypes
import pathlib

import millstream as stf
import numpy as np
import pytest
from millstream.compat import cuda_stf
from millstream.interop.numba import external_stream
from where import ON_GPU

GUIDE = pathlib.Path(__file__).resolve().parent / "guide"
THEIR_NAME = "cuda.stf._experimental"


@pytest.fixture(params=["millstream", THEIR_NAME])
def load(request):
    """Runs the text of a program, with our name in place of theirs or not; gives its names."""
    if not ON_GPU and stf.machine().name != "host":
        pytest.skip("needs the host machine or a GPU")
    if request.param == THEIR_NAME and not cuda_stf.install():
        pytest.skip(f"{THEIR_NAME} is installed here")

    def load(program):
        path = GUIDE / f"{program}.py"
        text = path.read_text().replace(THEIR_NAME, request.param)
        names = {"__name__": program}
        exec(compile(text, str(path), "exec"), names)
        return names

    yield load
    cuda_stf.uninstall()


def check(found):
    for values, expected in found:
        assert values == expected


def test_chain_of_axpy(load, numba_cuda):
    names = load("axpy_chain")
    if not ON_GPU:
        names["external_stream"] = external_stream
    check(names["main"]())


def axpy_on_host(count, alpha, x, y):
    x, y = ((ctypes.c_double * count).from_address(each) for each in (x, y))
    for i in range(count):
        y[i] += alpha * x[i]


def test_described_kernel(load):
    names = load("described_kernel")
    if ON_GPU:
        pytest.importorskip("cuda.core")
    else:
        kernel = ctypes.CFUNCTYPE(
            None, ctypes.c_int, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p
        )
        names["compile_kernel"] = lambda: kernel(axpy_on_host)
    check(names["main"]())


def test_pytorch(load):
    pytest.importorskip("torch")
    check(load("pytorch_block")["main"]())


def test_numba_jit(load, numba_cuda):
    check(load("numba_kernel")["main"]())


def test_numba_task(load, numba_cuda):
    names = load("numba_block")
    if ON_GPU:
        pytest.importorskip("cuda.compute")
    else:
        names["add"] = lambda a, b, c, count, stream: np.add(a, b, out=c)
    check(names["main"]())
