# SPDX-License-Identifier: Apache-2.0
"""Order at hand-overs between streams of other libraries and ours; the host never waits."""

from ctypes import c_void_p

import millstream as stf
import numpy as np
import pytest
from cuda_driver import LEGACY, DeviceArray
from dlpack_capsule import CUDA, Exporter

COUNT = 1000


@pytest.fixture
def producer(driver):
    stream = driver.make_stream()
    yield stream
    driver.synchronize(stream)
    driver.end_stream(stream)


def fill_late(driver, stream, pointer, value):
    driver.spin(stream)
    driver.fill(stream, pointer, value, COUNT)


def double_and_wait(driver, ctx, data):
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    return ctx.wait(data).tolist()


def test_first_task_comes_after_the_producer(any_order, driver, machine, producer):
    array = DeviceArray(driver, np.zeros(COUNT), stream=producer)
    with stf.context(machine=machine) as ctx:
        fill_late(driver, producer, array.pointer, 4)
        assert double_and_wait(driver, ctx, ctx.logical_data(array)) == [8] * COUNT


@pytest.mark.parametrize("number", [1, 2])
def test_default_streams_are_producers(any_order, driver, machine, number):
    array = DeviceArray(driver, np.zeros(COUNT), stream=number)
    with stf.context(machine=machine) as ctx:
        fill_late(driver, number, array.pointer, 4)
        assert double_and_wait(driver, ctx, ctx.logical_data(array)) == [8] * COUNT


def test_first_copy_comes_after_the_producer(any_order, driver, two_devices, producer):
    array = DeviceArray(driver, np.zeros(COUNT), stream=producer)
    with stf.context(machine=two_devices) as ctx:
        fill_late(driver, producer, array.pointer, 4)
        data = ctx.logical_data(array)
        with ctx.task(stf.exec_place.device(1), data.rw()) as t:
            driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
        assert ctx.wait(data).tolist() == [8] * COUNT


def test_first_host_look_comes_after_the_producer(any_order, driver, machine, producer):
    array = DeviceArray(driver, np.zeros(COUNT), stream=producer)
    with stf.context(machine=machine) as ctx:
        fill_late(driver, producer, array.pointer, 4)
        assert ctx.wait(ctx.logical_data(array)).tolist() == [4] * COUNT


def test_overwriting_task_comes_after_the_producer(any_order, driver, machine, producer):
    array = DeviceArray(driver, np.zeros(COUNT), stream=producer)
    with stf.context(machine=machine) as ctx:
        fill_late(driver, producer, array.pointer, 4)
        data = ctx.logical_data(array)
        with ctx.task(data.write()) as t:
            driver.fill(t.stream_ptr(), t.get_arg(0), 9, COUNT)
    driver.synchronize(producer)
    assert array.get().tolist() == [9] * COUNT


def test_array_without_a_stream_is_taken_as_it_is(look_alike, driver, ctx):
    array = DeviceArray(driver, np.ones(COUNT))
    before = look_alike.count("cuEventRecord")
    ctx.logical_data(array)
    assert look_alike.count("cuEventRecord") == before


def test_dlpack_producer_is_ordered_by_the_stream_it_was_asked_for(
    any_order, driver, machine, producer
):
    pointer = driver.allocate(8 * COUNT)
    driver.upload(pointer, np.zeros(COUNT))

    def order(consumer):  # as a framework does it
        mark = driver.get(c_void_p, "cuEventCreate", 2)
        driver.call("cuEventRecord", c_void_p(mark), c_void_p(producer))
        driver.call("cuStreamWaitEvent", c_void_p(consumer), c_void_p(mark), 0)
        driver.call("cuEventDestroy_v2", c_void_p(mark))

    array = Exporter(pointer, (COUNT,), np.dtype("f8"), (CUDA, 0), on_export=order)
    with stf.context(machine=machine) as ctx:
        fill_late(driver, producer, pointer, 4)
        assert double_and_wait(driver, ctx, ctx.logical_data(array)) == [8] * COUNT


def test_old_interface_with_dlpack_is_ordered_too(any_order, driver, machine, producer):
    class Tensor(DeviceArray):  # PyTorch's are like this: version 2 says nothing of streams
        def __dlpack_device__(self):
            return (CUDA, 0)

        def __dlpack__(self, *, stream=None, max_version=None):
            mark = self.driver.get(c_void_p, "cuEventCreate", 2)
            self.driver.call("cuEventRecord", c_void_p(mark), c_void_p(producer))
            self.driver.call("cuStreamWaitEvent", c_void_p(stream), c_void_p(mark), 0)
            return self.exporter.__dlpack__()

    array = Tensor(driver, np.zeros(COUNT), version=2)
    array.exporter = Exporter(array.pointer, (COUNT,), np.dtype("f8"), (CUDA, 0))
    with stf.context(machine=machine) as ctx:
        fill_late(driver, producer, array.pointer, 4)
        assert double_and_wait(driver, ctx, ctx.logical_data(array)) == [8] * COUNT


@pytest.mark.parametrize("consumer", ["own", 1, 2, None])
def test_consumer_of_a_view_comes_after_the_task(any_order, driver, machine, producer, consumer):
    stream = producer if consumer == "own" else consumer
    target = driver.allocate(8 * COUNT)
    driver.upload(target, np.zeros(COUNT))
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data_empty((COUNT,), name="x")
        with ctx.task(data.write()) as t:
            driver.spin(t.stream_ptr())
            driver.fill(t.stream_ptr(), t.get_arg(0), 6, COUNT)
            t.args_cai().__dlpack__(stream=stream, max_version=(1, 0))
            work_on = LEGACY if stream is None else stream
            driver.axpy(work_on, target, t.get_arg(0), 1, COUNT)
            driver.synchronize(work_on)
    assert driver.download(target, COUNT).tolist() == [6] * COUNT


def test_no_hand_over_waits_on_the_host(look_alike, machine, producer):
    arrays = [DeviceArray(look_alike, np.ones(COUNT), stream=each) for each in (producer, 1, 2)]
    exporter = Exporter(look_alike.allocate(8), (1,), np.dtype("f8"), (CUDA, 0))
    with stf.context(machine=machine) as ctx:
        before = look_alike.host_waits()
        for each in (*arrays, exporter):
            data = ctx.logical_data(each)
            with ctx.task(data.rw()) as t:
                view = t.args_cai()
                view.__cuda_array_interface__  # noqa: B018
                for stream in (None, -1, 1, 2, int(t.stream_ptr()), producer):
                    view.__dlpack__(stream=stream)
        assert look_alike.host_waits() == before


def test_export_to_the_tasks_own_stream_calls_nothing(look_alike, ctx):
    data = ctx.logical_data_empty((COUNT,))
    with ctx.task(data.write()) as t:
        view, stream = t.args_cai(), int(t.stream_ptr())
        before = look_alike.count(None)
        view.__dlpack__(stream=stream)
        view.__dlpack__(stream=-1)
        assert look_alike.count(None) == before


def test_contexts_of_a_handle_make_no_streams_of_their_own(machine, look_alike):
    handle = stf.async_resources()

    def use():
        with stf.context(handle=handle, machine=machine) as ctx:
            for _ in range(6):
                data = ctx.logical_data_empty((4,))
                with ctx.task(data.write()) as t:
                    look_alike.fill(t.stream_ptr(), t.get_arg(0), 1, 4)

    use()
    before = look_alike.count("cuStreamCreate"), look_alike.count("cuStreamDestroy")
    for _ in range(5):
        use()
    assert (look_alike.count("cuStreamCreate"), look_alike.count("cuStreamDestroy")) == before
