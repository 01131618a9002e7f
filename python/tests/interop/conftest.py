# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the adapters' tests.

Numba reads at its first import whether it simulates, so that one process has one or the other: on a
GPU (MILLSTREAM_MACHINE=cuda on a real driver) the real one, else the simulator.
"""

import importlib
import os
import pathlib
import sys

import millstream as stf
import numba_names
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))  # helpers of this folder

from where import ON_GPU

if not ON_GPU:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"


@pytest.fixture
def host_ctx(host):
    with stf.context(machine=host) as context:
        yield context


@pytest.fixture
def numba_cuda():
    """`numba.cuda`, for a machine on which its kernels run."""
    pytest.importorskip("numba_cuda")
    numba_names.add()
    cuda = pytest.importorskip("numba.cuda")
    if ON_GPU and not cuda.is_available():
        pytest.skip("Numba finds no GPU")
    return cuda


@pytest.fixture
def kernels(numba_cuda):
    return importlib.import_module("numba_kernels")


@pytest.fixture
def kernel_ctx(host, numba_cuda):
    """A context on the GPU if there is one, else on the host machine."""
    with stf.context(machine=stf.machine("cuda") if ON_GPU else host) as context:
        yield context
