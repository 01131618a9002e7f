# SPDX-License-Identifier: Apache-2.0
"""Contexts on a stream of the caller's, also while somebody captures it."""

import ctypes
import gc
import time
import weakref

import millstream as stf
import numpy as np
import pytest
from cuda_driver import LEGACY, DeviceArray
from recording import Recording, record_sum, run_add, run_fill

COUNT = 500


class WithProtocol:
    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, self.handle)


@pytest.mark.parametrize("form", [int, WithProtocol, stf.CudaStream])
def test_stream_is_taken_in_every_form(driver, machine, stream, form):
    given = form(stream)
    with stf.context(stream=given, machine=machine) as ctx:
        del given
        gc.collect()
        assert ctx.fence() == stream


@pytest.mark.parametrize("stream", ["zero", object(), 1.5])
def test_what_is_no_stream_is_a_type_error(machine, stream):
    with pytest.raises(TypeError, match="stream"):
        stf.context(stream=stream, machine=machine)


def test_zero_is_the_default_stream(any_order, driver, machine):
    array = DeviceArray(driver, np.zeros(COUNT))
    driver.spin(LEGACY)
    driver.fill(LEGACY, array.pointer, 4, COUNT)
    ctx = stf.context(stream=0, machine=machine)
    data = ctx.logical_data(array)
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    assert ctx.fence() == 0
    ctx.finalize()
    driver.scale(LEGACY, array.pointer, 3, COUNT)
    stf.synchronize(0)
    assert array.get().tolist() == [24] * COUNT


def test_work_is_between_what_was_and_what_comes(any_order, driver, machine, stream):
    array = DeviceArray(driver, np.zeros(COUNT))
    driver.spin(stream)
    driver.fill(stream, array.pointer, 4, COUNT)
    with stf.context(stream=stream, machine=machine) as ctx:
        data = ctx.logical_data(array)
        parts = [ctx.logical_data_empty((COUNT,)) for _ in range(3)]
        for part in parts:
            run_add(driver, ctx, part, data)
        run_add(driver, ctx, data, *parts)
    driver.scale(stream, array.pointer, 2, COUNT)
    driver.synchronize(stream)
    assert array.get().tolist() == [24] * COUNT


def test_finalize_does_not_wait(look_alike, machine, stream):
    array = DeviceArray(look_alike, np.ones(COUNT))
    values = np.ones(COUNT)
    before = look_alike.host_waits()
    with stf.context(stream=stream, machine=machine) as ctx:
        run_fill(look_alike, ctx, ctx.logical_data(array), 3)
        ctx.fence()
    assert look_alike.host_waits() == before
    with stf.context(stream=stream, machine=machine) as ctx:
        run_fill(look_alike, ctx, ctx.logical_data(values), 5)
    look_alike.synchronize(stream)
    assert values.tolist() == [5] * COUNT


def test_wait_blocks_here_too(driver, machine, stream):
    with stf.context(stream=stream, machine=machine) as ctx:
        data = ctx.logical_data_empty((COUNT,))
        run_fill(driver, ctx, data, 3)
        assert ctx.wait(data).tolist() == [3] * COUNT


def test_failures_are_asked_for(machine, stream):
    ctx = stf.context(stream=stream, machine=machine)
    ctx.submit(lambda view: 1 / 0, ctx.logical_data_empty((2,)).write(), symbol="bad")
    ctx.finalize()
    with pytest.raises(ZeroDivisionError) as caught:
        ctx.check_errors()
    assert "'bad'" in caught.value.__notes__[0]
    ctx.check_errors()
    ctx.finalize()


def test_failures_nobody_asked_for_become_warnings(machine, stream):
    contexts = [stf.context(stream=stream, machine=machine)]
    token = contexts[0].token()
    contexts[0].submit(lambda: 1 / 0, token.write(), symbol="bad")
    contexts[0].finalize()
    with pytest.warns(stf.TaskFailedWarning, match="'bad' failed with ZeroDivisionError: division"):
        contexts.clear()


def test_failure_after_the_end_of_the_context_becomes_a_warning(driver, machine, stream, gate):
    def fail():
        gate.hold()
        raise ValueError("boom-42")

    contexts = [stf.context(stream=stream, machine=machine)]
    contexts[0].host_launch(fn=fail, symbol="late")
    contexts[0].finalize()

    def end():
        contexts.clear()
        gate.open()
        driver.synchronize(stream)

    with pytest.warns(stf.TaskFailedWarning, match="'late' failed with ValueError: boom-42"):
        end()


# --- under capture, by a context that records or does not


@pytest.fixture(params=[False, True], ids=["immediate", "recorded"])
def use_graph(request):
    return request.param


def test_context_inside_of_a_capture(any_order, driver, machine, stream, use_graph):
    arrays = [DeviceArray(driver, np.zeros(COUNT)) for _ in range(3)]
    recording = record_sum(driver, machine, stream, arrays, use_graph)
    for _ in range(3):
        for each in arrays:
            driver.upload(each.pointer, np.full(COUNT, -1.0))
        recording.launch()
        assert [each.get()[0] for each in arrays] == [1, 2, 3]
        assert arrays[2].get().tolist() == [3] * COUNT


def test_temporaries_of_a_recording_are_the_graphs(any_order, driver, machine, stream, use_graph):
    array = DeviceArray(driver, np.zeros(COUNT))
    with Recording(driver, stream) as recording:
        with stf.context(stream=stream, machine=machine, use_graph=use_graph) as ctx:
            data, scratch = ctx.logical_data(array), ctx.logical_data_empty((COUNT,))
            run_fill(driver, ctx, scratch, 5)
            run_add(driver, ctx, data, scratch)
    for _ in range(3):
        driver.upload(array.pointer, np.zeros(COUNT))
        recording.launch()
        assert array.get().tolist() == [5] * COUNT


def test_tokens_order_the_branches_of_a_recording(any_order, driver, machine, stream, use_graph):
    array = DeviceArray(driver, np.zeros(COUNT))
    with Recording(driver, stream) as recording:
        with stf.context(stream=stream, machine=machine, use_graph=use_graph) as ctx:
            left, right = ctx.token(), ctx.token()
            for token, factor in ((left, 3), (right, 4)):
                with ctx.task(token.write()) as t:
                    driver.spin(t.stream_ptr())
                    if factor == 3:
                        driver.fill(t.stream_ptr(), array.pointer, 3, COUNT)
            with ctx.task(left.read(), right.read()) as t:
                driver.scale(t.stream_ptr(), array.pointer, 2, COUNT)
    for _ in range(3):
        recording.launch()
        assert array.get().tolist() == [6] * COUNT


def streams_of_fills(driver, ctx, datas, value):
    streams = set()
    for data in datas:
        with ctx.task(data.write()) as t:
            streams.add(t.stream_ptr())
            driver.fill(t.stream_ptr(), t.get_arg(0), value, COUNT)
    return streams


# Libraries keep memory for each stream, which what was captured uses whenever it is launched.
def test_recording_outlives_all_that_was_captured_and_has_its_streams_alone(
    driver, machine, stream, use_graph
):
    arrays = [DeviceArray(driver, np.zeros(COUNT)) for _ in range(3)]
    with Recording(driver, stream) as recording:
        with stf.context(stream=stream, machine=machine, use_graph=use_graph) as ctx:
            datas = [ctx.logical_data(each) for each in arrays]
            used = streams_of_fills(driver, ctx, datas, 7) - {stream}
    assert used
    del ctx, datas
    gc.collect()
    for _ in range(3):
        for other_use_graph in (False, True):
            with stf.context(machine=machine, use_graph=other_use_graph) as other:
                datas = [other.logical_data_empty((COUNT,)) for _ in range(16)]
                assert not used & streams_of_fills(driver, other, datas, 1)
        for each in arrays:
            driver.upload(each.pointer, np.zeros(COUNT))
        recording.launch()
        assert [each.get().tolist() for each in arrays] == [[7] * COUNT] * 3


def launch_and_drop(driver, machine, stream, use_graph, array):
    """Fills the array by a kernel object that nobody else has; a weak reference to that."""

    class Kernel:
        def __init__(self):
            self._handle = driver._function("test_fill_f64")

    kernel = Kernel()
    with stf.context(stream=stream, machine=machine, use_graph=use_graph) as ctx:
        with ctx.cuda_kernel(ctx.logical_data(array).write()) as k:
            k.launch(kernel, (1,), (32,), [k.get_arg(0), 5.0, COUNT])
    return weakref.ref(kernel)


def test_recording_keeps_kernels_as_long_as_it_may_be_launched(driver, machine, stream, use_graph):
    array = DeviceArray(driver, np.zeros(COUNT))
    with Recording(driver, stream) as recording:
        alive = launch_and_drop(driver, machine, stream, use_graph, array)
    gc.collect()
    assert alive() is not None
    recording.launch()
    assert array.get().tolist() == [5] * COUNT
    recording.destroy()
    for _ in range(1000):  # the thread that drops it may come later
        gc.collect()
        if alive() is None:
            break
        time.sleep(0.005)
    assert alive() is None


def test_kernel_that_is_queued_in_a_callers_stream_outlives_its_context(
    look_alike, machine, stream, use_graph
):
    array = DeviceArray(look_alike, np.zeros(COUNT))
    is_set = look_alike.get(ctypes.c_void_p, "cuMemHostAlloc", ctypes.c_size_t(4), 0)
    word = ctypes.c_uint32.from_address(is_set)
    word.value = 0
    look_alike.launch("test_spin_until_set", stream, is_set, grid=1)
    alive = launch_and_drop(look_alike, machine, stream, use_graph, array)
    gc.collect()
    was_alive = alive() is not None
    word.value = 1
    look_alike.synchronize(stream)
    look_alike.call("cuMemFreeHost", ctypes.c_void_p(is_set))
    assert was_alive
    assert array.get().tolist() == [5] * COUNT


def test_waiting_inside_of_a_capture_is_an_error_and_leaves_it_whole(
    driver, machine, stream, use_graph
):
    array = DeviceArray(driver, np.zeros(COUNT))
    with Recording(driver, stream) as recording:
        with stf.context(stream=stream, machine=machine, use_graph=use_graph) as ctx:
            data = ctx.logical_data(array)
            run_fill(driver, ctx, data, 1)
            with pytest.raises(RuntimeError, match="captur"):
                ctx.wait(data)
    recording.launch()
    assert array.get().tolist() == [1] * COUNT


def test_producer_that_is_captured_needs_the_context_on_it(driver, machine, stream, ctx):
    array = DeviceArray(driver, np.zeros(COUNT), stream=stream)
    with Recording(driver, stream):
        with pytest.raises(RuntimeError, match="captured; open the context on it"):
            ctx.logical_data(array)
        with stf.context(stream=stream, machine=machine) as inside:
            run_fill(driver, inside, inside.logical_data(array), 1)


def test_view_is_handed_over_inside_of_a_capture(any_order, driver, machine, stream):
    array, target = (DeviceArray(driver, np.zeros(COUNT)) for _ in range(2))
    with Recording(driver, stream) as recording:
        with stf.context(stream=stream, machine=machine) as ctx:
            data = ctx.logical_data(array)
            other = ctx.token()
            with ctx.task(data.write(), other.write()) as t:
                own = t.stream_ptr()
                driver.fill(own, t.get_arg(0), 6, COUNT)
                t.args_cai().__dlpack__(stream=int(own))
                driver.axpy(own, target.pointer, t.get_arg(0), 1, COUNT)
    recording.launch()
    assert target.get().tolist() == [6] * COUNT
