# SPDX-License-Identifier: Apache-2.0
"""The main job's flow through the CUDA machine, on the driver that MILLSTREAM_CUDA_DRIVER names.

The tile functions bring their tiles to the host, call those of kernels_cpu.py, and take them back,
all on the task's stream: on the look-alike driver a missing wait or copy is a wrong weight.
"""

import ctypes
import inspect
import os
from types import SimpleNamespace

import kernels_cpu
import numpy as np
import pytest
import reference
from flow import RidgeFlow, count_tasks
from tiles import BlockCyclic

stf = pytest.importorskip("millstream")
pytest.importorskip("millstream._core")
GAMMA, RIDGE = 0.2, 0.02
LIBRARY = os.environ.get("MILLSTREAM_CUDA_DRIVER")


class Driver:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def call(self, name, *arguments):
        answer = getattr(self.library, name)(*arguments)
        assert answer == 0, f"{name} answered {answer}"

    def copy(self, name, first, second, nbytes, stream):
        word = ctypes.c_uint64
        self.call(name, word(first), word(second), word(nbytes), ctypes.c_void_p(stream))

    def kernels(self):
        """The functions of kernels_cpu.py, on views of device memory."""
        functions = inspect.getmembers(kernels_cpu, inspect.isfunction)
        return SimpleNamespace(**{name: self.by_way_of_host(f) for name, f in functions})

    def by_way_of_host(self, function):
        def run(*arguments):
            views = [each for each in arguments if isinstance(each, stf.stf_cai)]
            stream = int(stf.current_task().stream_ptr())
            tiles = [np.empty(view.shape) for view in views]
            for view, tile in zip(views, tiles, strict=True):
                self.copy("cuMemcpyDtoHAsync_v2", tile.ctypes.data, view.ptr, tile.nbytes, stream)
            self.call("cuStreamSynchronize", ctypes.c_void_p(stream))
            function(*tiles, *arguments[len(views) :])
            for view, tile in zip(views, tiles, strict=True):
                if not view.readonly:
                    self.copy(
                        "cuMemcpyHtoDAsync_v2", view.ptr, tile.ctypes.data, tile.nbytes, stream
                    )
            self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

        return run


@pytest.fixture
def driver():
    if LIBRARY is None:
        pytest.skip("MILLSTREAM_CUDA_DRIVER names no driver")
    return Driver(LIBRARY)


@pytest.fixture(params=[0, 1, 2, 3])
def seed(request, driver):
    """The order of execution on the look-alike driver; a GPU has its own, once."""
    set_seed = getattr(driver.library, "fake_cuda_seed", None)
    if set_seed is None and request.param > 0:
        pytest.skip("a GPU chooses its order itself")
    if set_seed is not None:
        set_seed(ctypes.c_uint64(request.param))
    yield request.param
    if set_seed is not None:
        set_seed(ctypes.c_uint64(0))


def test_weights_and_tasks_are_those_of_the_host(driver, seed, digits):
    machine = stf.machine("cuda")
    with stf.context(machine=machine) as context:
        layout = BlockCyclic(machine.device_count)
        flow = RidgeFlow(context, driver.kernels(), layout, stf.exec_place.device, 32, GAMMA, RIDGE)
        weights, _ = flow.run(digits)
    expected = reference.solve(digits, GAMMA, RIDGE)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-10)
    assert context.stats()["tasks"] == count_tasks(len(digits.train), len(digits.test), 32)
