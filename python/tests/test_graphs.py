# SPDX-License-Identifier: Apache-2.0
"""Graphs that contexts give out (`to_graph`) and take in (`add_graph`)."""

from __future__ import annotations

import ctypes
import gc
import time
import weakref

import millstream as stf
import numpy as np
import pytest

pytestmark = pytest.mark.host_devices


def add(x: np.ndarray, value: float) -> None:
    x += value


def doubling(host, x: np.ndarray) -> stf.recorded_graph:
    ctx = stf.context(use_graph=True, machine=host)
    data = ctx.logical_data(x)
    ctx.submit(lambda v: np.multiply(v, 2, out=v), data.rw(), symbol="double")
    return ctx.to_graph()


def test_each_launch_does_all_of_it(host):
    x = np.ones(4)
    graph = doubling(host, x)
    np.testing.assert_array_equal(x, np.ones(4))
    for wanted in (2.0, 4.0, 8.0):
        stream = graph.launch()
        assert isinstance(stream, stf.CudaStream)
        stf.synchronize(stream)
        np.testing.assert_array_equal(x, np.full(4, wanted))
    assert graph.node_count == 3  # the copies to the device and back, and the function
    assert graph.handle == 0
    assert graph.machine is host
    assert graph.native_dot().startswith("digraph")
    assert repr(graph).startswith("recorded_graph(3 nodes, ")


def test_launches_on_a_stream_are_in_its_order(host):
    x = np.ones(4)
    graph = doubling(host, x)
    with stf.context(machine=host) as ctx:
        stream = ctx.fence()
    for _ in range(10):
        assert graph.launch(stream) == stream
    stf.synchronize(stream)
    np.testing.assert_array_equal(x, np.full(4, 1024.0))


def test_functions_and_arguments_are_used_again(host):
    seen = []
    ctx = stf.context(use_graph=True, machine=host)
    x = np.zeros(2)
    data = ctx.logical_data(x)
    ctx.submit(lambda v, step: seen.append((v[0], step)), data.read(), args=(7,))
    ctx.submit(add, data.rw(), args=(1.0,))
    graph = ctx.to_graph()
    for _ in range(3):
        stf.synchronize(graph.launch())
    assert seen == [(0.0, 7), (1.0, 7), (2.0, 7)]


def test_kernels_of_the_host_machine_are_called_at_each_launch(host):
    calls = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_double)(
        lambda address, value: calls.append(value)
    )
    ctx = stf.context(use_graph=True, machine=host)
    data = ctx.logical_data_zeros((4,))
    with ctx.cuda_kernel(data.rw()) as k:
        k.launch(function, grid=1, block=1, args=[k.get_arg_cai(0), 2.5])
    graph = ctx.to_graph()
    for _ in range(3):
        stf.synchronize(graph.launch())
    assert calls == [2.5] * 3


def test_the_context_is_finalized(host):
    ctx = stf.context(use_graph=True, machine=host)
    data = ctx.logical_data(np.zeros(2))
    graph = ctx.to_graph()
    for call in (lambda: ctx.submit(add, data.rw()), ctx.to_graph, lambda: ctx.add_graph(graph)):
        with pytest.raises(stf.UsageError, match="finalized"):
            call()
    ctx.finalize()
    assert ctx.stats()["stages"] == 0


def test_in_a_with_block_the_end_does_nothing(host):
    x = np.ones(2)
    with stf.context(use_graph=True, machine=host) as ctx:
        ctx.submit(add, ctx.logical_data(x).rw(), args=(1.0,))
        graph = ctx.to_graph()
    np.testing.assert_array_equal(x, np.ones(2))
    stf.synchronize(graph.launch())
    np.testing.assert_array_equal(x, np.full(2, 2.0))


def test_it_keeps_arrays_and_functions_until_it_is_gone(host):
    class Step:
        def __call__(self, v):
            v += 1

    class Array(np.ndarray):
        pass

    x = np.zeros(2).view(Array)
    step = Step()
    watched = [weakref.ref(each) for each in (x, step)]
    ctx = stf.context(use_graph=True, machine=host)
    ctx.submit(step, ctx.logical_data(x).rw())
    graph = ctx.to_graph()
    del ctx, x, step
    gc.collect()
    stf.synchronize(graph.launch())
    assert all(each() is not None for each in watched)
    assert watched[0]()[0] == 1.0
    del graph
    # Without the global lock an object ends on the thread that made it, which must not stand still.
    end = time.monotonic() + 60
    while any(each() is not None for each in watched) and time.monotonic() < end:
        time.sleep(0.001)
    assert [each() for each in watched] == [None, None]


def test_a_failure_spoils_its_launch_only(host):
    fails = []
    ctx = stf.context(use_graph=True, machine=host)
    x, y = np.zeros(2), np.zeros(2)
    a, b = ctx.logical_data(x), ctx.logical_data(y)

    def first(v):
        if fails:
            raise ValueError("boom-7")
        v += 1

    ctx.submit(first, a.rw(), symbol="first")
    ctx.submit(lambda v, w: np.copyto(w, v * 10), a.read(), b.write())
    graph = ctx.to_graph()
    stf.synchronize(graph.launch())
    graph.check_errors()
    fails.append(True)
    stf.synchronize(graph.launch())
    assert (x[0], y[0]) == (1.0, 10.0)
    with pytest.raises(ValueError, match="boom-7") as caught:
        graph.check_errors()
    assert "'first'" in caught.value.__notes__[0]
    fails.clear()
    stf.synchronize(graph.launch())
    assert (x[0], y[0]) == (2.0, 20.0)
    graph.check_errors()


def test_a_failure_nobody_asked_for_becomes_a_warning(host):
    ctx = stf.context(use_graph=True, machine=host)
    ctx.submit(lambda: 1 / 0, ctx.token().write(), symbol="bad")
    graphs = [ctx.to_graph()]
    stf.synchronize(graphs[0].launch())
    with pytest.warns(stf.TaskFailedWarning, match="'bad' failed with ZeroDivisionError"):
        graphs.clear()


@pytest.mark.parametrize("before", [0, 1])
def test_a_body_that_ran_by_itself_is_to_be_submitted(host, before):
    x = np.zeros(2)
    with stf.context(use_graph=True, machine=host) as ctx:
        data = ctx.logical_data(x)
        for _ in range(before):
            ctx.submit(add, data.rw(), args=(1.0,))
        with ctx.task(data.rw(), symbol="by caller") as (v,):
            v += 1
        with pytest.raises(
            stf.UsageError, match=r"after task 'by caller'.* had run by itself.*with ctx\.submit"
        ):
            ctx.to_graph()
    assert x[0] == 1.0 + before


def test_what_cannot_be_given_out(host):
    with stf.context(machine=host) as ctx:
        with pytest.raises(stf.UsageError, match="use_graph"):
            ctx.to_graph()
    x = np.zeros(2)
    with stf.context(use_graph=True, machine=host) as ctx:
        data = ctx.logical_data(x)
        with ctx.task(data.rw(), symbol="by caller") as (v,):
            with pytest.raises(stf.UsageError, match=r"task 'by caller'.* is open"):
                ctx.to_graph()
            v += 1
        with pytest.raises(stf.UsageError, match=r"after task 'by caller'.* had run by itself"):
            ctx.to_graph()
    assert x[0] == 1.0
    with stf.context(use_graph=True, machine=host) as ctx:
        ctx.submit(add, ctx.logical_data(x).rw(), args=(1.0,))
        ctx.fence()
        with pytest.raises(stf.UsageError, match="launched"):
            ctx.to_graph()


@pytest.mark.parametrize("use_graph", [False, True])
def test_a_graph_is_one_task_of_another_context(host, use_graph):
    x = np.ones(2)
    graph = doubling(host, x)
    log = []
    with stf.context(use_graph=use_graph, machine=host) as ctx:
        order = ctx.token()
        for _ in range(3):
            ctx.add_graph(graph, order.rw(), symbol="part")
            ctx.submit(lambda: log.append(x[0]), order.rw())
        del graph
    assert log == [2.0, 4.0, 8.0]
    if use_graph:
        assert ctx.stats()["nodes"] == 9  # a graph, a look at how it went, and the function, each
        assert ctx.stats()["stages"] == 1


@pytest.mark.parametrize("use_graph", [False, True])
def test_a_failure_inside_a_graph_is_that_of_the_task_that_took_it(host, use_graph):
    def raises(v):
        raise KeyError("inner")

    x, y, seen = np.ones(2), np.ones(2), []
    inner = stf.context(use_graph=True, machine=host)
    inner.submit(raises, inner.logical_data(x).rw())
    graph = inner.to_graph()
    ctx = stf.context(use_graph=use_graph, machine=host)
    data = ctx.logical_data(y)
    ctx.add_graph(graph, data.rw(stf.data_place.host()), symbol="part")
    ctx.submit(lambda v: seen.append(v[0]), data.read())
    with pytest.raises(KeyError, match="inner") as failed:
        ctx.finalize()
    assert any("task 'part'" in note for note in failed.value.__notes__)
    assert seen == []
    assert ctx.stats()["failed"] == 1
    with pytest.raises(KeyError, match="inner"):
        graph.check_errors()


class OfTorch:
    def __init__(self, handle):
        self.given = handle

    def raw_cuda_graph(self):
        return self.given


class WithHandle:
    def __init__(self, handle):
        self.handle = handle


@pytest.mark.parametrize("form", [int, OfTorch, WithHandle, ctypes.c_void_p])
def test_native_handles_are_errors_that_name_the_task(host, form):
    with stf.context(machine=host) as ctx:
        with pytest.raises(stf.UnsupportedError, match=r"task 'part'.*to_graph"):
            ctx.add_graph(form(4096), ctx.token().rw(), symbol="part")


class CUgraphExec(int):
    pass


@pytest.mark.parametrize("graph", [None, "graph", 1.5, True, object(), WithHandle(CUgraphExec(5))])
def test_what_is_no_graph_is_a_type_error(host, graph):
    with stf.context(machine=host) as ctx:
        with pytest.raises(TypeError, match="graph"):
            ctx.add_graph(graph, ctx.token().rw())
