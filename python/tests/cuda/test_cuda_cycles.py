# SPDX-License-Identifier: Apache-2.0
"""Arrays that hold their own data, on a GPU: see test_cycles.py."""

import gc
import weakref

import millstream as stf
import numpy as np
import pytest
from cuda_driver import DeviceArray

COUNT = 200
LARGE = 1 << 18  # elements; its pages are locked


class Kept(np.ndarray):
    """An array with attributes."""


@pytest.fixture(autouse=True)
def only_ours():
    """No collection but those of the tests, and of nothing but what they made."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def register(ctx, array):
    """The array in a cycle with its datum; gives what tells that the array is alive."""
    array.data_of_ours = ctx.logical_data(array)
    return weakref.ref(array)


def scale(ctx, driver, data, *place):
    with ctx.task(*place, data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 5, COUNT)


def test_device_array_in_a_cycle_is_collected(ctx, driver):
    watch = register(ctx, DeviceArray(driver, np.ones(COUNT)))
    gc.collect()
    assert watch() is None


def test_device_array_stays_until_its_last_use_is_known_to_have_ended(ctx, driver):
    watch = register(ctx, DeviceArray(driver, np.ones(COUNT)))
    scale(ctx, driver, watch().data_of_ours)
    gc.collect()
    assert watch() is not None
    assert ctx.wait(watch().data_of_ours).tolist() == [5] * COUNT
    gc.collect()
    assert watch() is None


def test_device_array_that_gets_its_result_later_stays(ctx, two_devices, driver):
    watch = register(ctx, DeviceArray(driver, np.ones(COUNT)))
    scale(ctx, driver, watch().data_of_ours, stf.exec_place.device(1))
    ctx.wait(watch().data_of_ours)
    gc.collect()
    array = watch()
    ctx.finalize()
    assert array.get().tolist() == [5] * COUNT
    del array
    gc.collect()
    assert watch() is None


def test_device_array_of_a_dropped_context_is_collected(driver):
    ctx = stf.context(machine=stf.machine("cuda"))
    watch = register(ctx, DeviceArray(driver, np.ones(COUNT)))
    scale(ctx, driver, watch().data_of_ours)
    ctx.wait(watch().data_of_ours)
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        del ctx
    gc.collect()
    assert watch() is None


def test_array_with_locked_pages_is_collected(ctx, driver):
    memory = np.ones(LARGE)
    watch = register(ctx, memory.view(Kept))
    scale(ctx, driver, watch().data_of_ours)
    gc.collect()
    ctx.finalize()  # waits until the pages are unlocked
    assert watch() is None
    assert memory[:COUNT].tolist() == [5] * COUNT
