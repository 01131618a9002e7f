# SPDX-License-Identifier: Apache-2.0
"""Tests of the package on the CUDA machine.

They run on the driver that MILLSTREAM_CUDA_DRIVER names, and are skipped when it names none:

    <build>/tests/fakes/cuda_driver/libmillstream_fake_cuda.so    the look-alike
    libcuda.so.1                                                  a GPU

Tests with the marker `gpu` use frameworks that need a real GPU, and are skipped on the look-alike;
tests with the fixture `look_alike` ask it what was called, and are skipped on a GPU. The fixture
`any_order` runs a test in several orders of execution on the look-alike, where a wait that is
missing becomes a wrong value, and once on a GPU.
"""

import gc
import pathlib
import sys

import millstream as stf
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # helpers of this folder

import cuda_driver  # noqa: E402

SEEDS = (0, 1, 2, 3, 5, 8, 13, 21)


def pytest_collection_modifyitems(items):
    here = [item for item in items if HERE in item.path.parents]
    if cuda_driver.LIBRARY is None:
        for item in here:
            item.add_marker(pytest.mark.skip("MILLSTREAM_CUDA_DRIVER names no driver"))


@pytest.fixture(scope="session")
def process_driver():
    return cuda_driver.Driver(cuda_driver.LIBRARY)


@pytest.fixture(autouse=True)
def driver(request, process_driver):
    """The driver, with the primary context of device 0 current as frameworks leave it."""
    if request.node.get_closest_marker("gpu") and process_driver.is_look_alike:
        pytest.skip("needs a real GPU")
    process_driver.use(process_driver.primary())
    yield process_driver
    gc.collect()
    process_driver.use(None)


@pytest.fixture
def look_alike(driver):
    if not driver.is_look_alike:
        pytest.skip("asks the look-alike driver what was called")
    return driver


@pytest.fixture(params=SEEDS)
def any_order(request, driver):
    if driver.is_look_alike:
        driver.library.fake_cuda_seed(cuda_driver.word(request.param))
    elif request.param != SEEDS[0]:
        pytest.skip("a GPU chooses its order itself")
    yield request.param
    if driver.is_look_alike:
        driver.library.fake_cuda_seed(cuda_driver.word(0))


@pytest.fixture
def machine(driver):
    return stf.machine("cuda")


@pytest.fixture
def ctx(machine):
    context = stf.context(machine=machine)
    yield context
    context.finalize()


@pytest.fixture
def stream(driver):
    """A stream of the test's own."""
    made = driver.make_stream()
    yield made
    driver.synchronize(made)
    driver.end_stream(made)
