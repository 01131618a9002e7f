# SPDX-License-Identifier: Apache-2.0
"""Graphs of others as tasks, and graphs of contexts for others, by their handles."""

import ctypes

import millstream as stf
import numpy as np
import pytest
from cuda_driver import DeviceArray
from recording import Recording, run_add, run_fill

COUNT = 500


class OfTorch:
    def __init__(self, handle):
        self.given = handle

    def raw_cuda_graph(self):
        return self.given


class WithHandle:
    def __init__(self, handle):
        self.handle = handle


FORMS = [int, OfTorch, WithHandle, ctypes.c_void_p]


def capture_scaling(driver, stream, array, factor):
    """A CUgraph that somebody else made."""
    recording = Recording(driver, stream)
    with recording:
        driver.scale(stream, array.pointer, factor, COUNT)
    return recording.graph


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("use_graph", [False, True])
def test_a_graph_of_others_is_a_task(driver, machine, stream, form, use_graph):
    array = DeviceArray(driver, np.zeros(COUNT))
    graph = capture_scaling(driver, stream, array, 3)
    with stf.context(use_graph=use_graph, machine=machine) as ctx:
        data = ctx.logical_data(array)
        run_fill(driver, ctx, data, 2)
        ctx.add_graph(form(graph), data.rw(), symbol="scaling")
        other = ctx.logical_data_empty((COUNT,))
        run_add(driver, ctx, other, data, data)
        ctx.add_graph(form(graph), data.rw(), symbol="scaling")
        driver.call("cuGraphDestroy", ctypes.c_void_p(graph))
        assert ctx.wait(other).tolist() == [12] * COUNT
    assert array.get().tolist() == [18] * COUNT
    if use_graph:
        assert ctx.stats()["child_graphs"] == 0


def test_a_graph_is_embedded_by_its_handle(driver, machine, stream):
    array = DeviceArray(driver, np.zeros(COUNT))
    ctx = stf.context(use_graph=True, machine=machine)
    data, scratch = ctx.logical_data(array), ctx.logical_data_empty((COUNT,))
    run_fill(driver, ctx, scratch, 5)
    run_add(driver, ctx, data, scratch)
    graph = ctx.to_graph()
    handle = graph.handle
    runnable = driver.get(ctypes.c_void_p, "cuGraphInstantiateWithFlags",
                          ctypes.c_void_p(handle), ctypes.c_uint64(0))  # fmt: skip
    del graph, ctx, data, scratch
    for _ in range(3):
        driver.upload(array.pointer, np.zeros(COUNT))
        driver.call("cuGraphLaunch", ctypes.c_void_p(runnable), ctypes.c_void_p(stream))
        driver.synchronize(stream)
        assert array.get().tolist() == [5] * COUNT
    driver.call("cuGraphExecDestroy", ctypes.c_void_p(runnable))


def test_a_graph_is_launched_on_a_stream(any_order, driver, machine, stream):
    values = np.ones(COUNT)
    ctx = stf.context(use_graph=True, machine=machine)
    data = ctx.logical_data(values)
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    graph = ctx.to_graph()
    for wanted in (2, 4, 8):
        assert graph.launch(stream) == stream
        driver.synchronize(stream)
        assert values.tolist() == [wanted] * COUNT
    stf.synchronize(graph.launch())
    assert values.tolist() == [16] * COUNT


def test_a_graph_is_launched_inside_of_a_capture(driver, machine, stream):
    array = DeviceArray(driver, np.ones(COUNT))
    ctx = stf.context(use_graph=True, machine=machine)
    with ctx.task(ctx.logical_data(array).rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    graph = ctx.to_graph()
    with Recording(driver, stream) as recording:
        driver.fill(stream, array.pointer, 3, COUNT)
        graph.launch(stream)
        driver.scale(stream, array.pointer, 5, COUNT)
    del graph, ctx
    for _ in range(3):
        recording.launch()
        assert array.get().tolist() == [30] * COUNT


def test_a_host_function_is_no_part_of_it(machine):
    ctx = stf.context(use_graph=True, machine=machine)
    ctx.host_launch(ctx.logical_data(np.zeros(2)).rw(), fn=lambda v: None, symbol="by the host")
    with pytest.raises(stf.UsageError, match=r"'by the host'.* had run by itself"):
        ctx.to_graph()
    ctx.finalize()
