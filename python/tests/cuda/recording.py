# SPDX-License-Identifier: Apache-2.0
"""Streams that are captured by somebody else, and tasks to be recorded there."""

import ctypes

import millstream as stf
from cuda_driver import RELAXED


def run_fill(driver, ctx, data, value):
    with ctx.task(data.write()) as t:
        driver.fill(t.stream_ptr(), t.get_arg(0), value, data.shape[0])


def run_add(driver, ctx, target, *sources):
    with ctx.task(target.write(), *[each.read() for each in sources]) as t:
        stream, count = t.stream_ptr(), target.shape[0]
        driver.fill(stream, t.get_arg(0), 0, count)
        for index in range(len(sources)):
            driver.axpy(stream, t.get_arg(0), t.get_arg(index + 1), 1, count)


class Recording:
    """What somebody else records of a stream, to be launched again and again."""

    def __init__(self, driver, stream, mode=RELAXED):
        self.driver, self.stream, self.mode = driver, stream, mode
        self.runnable = None

    def __enter__(self):
        self.driver.call("cuStreamBeginCapture_v2", ctypes.c_void_p(self.stream), self.mode)
        return self

    def __exit__(self, *_):
        graph = ctypes.c_void_p()
        self.driver.call("cuStreamEndCapture", ctypes.c_void_p(self.stream), ctypes.byref(graph))
        self.graph = graph.value
        self.runnable = self.driver.get(
            ctypes.c_void_p, "cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0)
        )

    def launch(self):
        self.driver.call("cuGraphLaunch", ctypes.c_void_p(self.runnable),
                         ctypes.c_void_p(self.stream))  # fmt: skip
        self.driver.synchronize(self.stream)

    def destroy(self):
        self.driver.call("cuGraphExecDestroy", ctypes.c_void_p(self.runnable))
        self.driver.call("cuGraphDestroy", ctypes.c_void_p(self.graph))


def record_sum(driver, machine, stream, arrays, use_graph=False):
    """c = a + b, where a and b are written by tasks without inputs."""
    with Recording(driver, stream) as recording:
        ctx = stf.context(stream=stream, machine=machine, use_graph=use_graph)
        a, b, c = (ctx.logical_data(each) for each in arrays)
        run_fill(driver, ctx, a, 1)
        run_fill(driver, ctx, b, 2)
        run_add(driver, ctx, c, a, b)
        ctx.finalize()
    return recording
