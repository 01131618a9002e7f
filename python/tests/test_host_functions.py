# SPDX-License-Identifier: Apache-2.0
"""Host functions that are independent of each other and wait for each other all the same."""

import threading

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()
MANY = 24


def fill_one(view):
    view.fill(1)


def read_by_wait(ctx, data):
    return ctx.wait(data)[0]


def read_by_future(ctx, data):
    return data.get().result()[0]


def read_by_task(ctx, data):
    with ctx.task(data.rw(), HOST) as (view,):
        return view[0]


@pytest.mark.parametrize("read", [read_by_wait, read_by_future, read_by_task])
def test_functions_read_what_later_ones_write(ctx, gate, read):
    every = [ctx.logical_data_zeros((1,)) for _ in range(MANY)]
    seen = []

    def reader(data):
        gate.hold()
        seen.append(read(ctx, data))

    for data in every:
        ctx.host_launch(fn=reader, args=(data,))
    for data in every:
        ctx.host_launch(data.rw(), fn=fill_one)
    gate.open()
    ctx.finalize()
    assert seen == [1] * MANY


def test_functions_wait_for_what_the_engine_does_not_see(ctx, gate):
    for _ in range(MANY):
        ctx.host_launch(fn=gate.hold)
    ctx.host_launch(fn=gate.open)
    ctx.finalize()
    assert gate.is_open()


def test_functions_submit_behind_an_open_task(ctx, gate):
    data = ctx.logical_data(np.zeros(1))
    begun = threading.Semaphore(0)

    def add_one(view):
        view += 1

    def submits():
        begun.release()
        gate.hold()
        ctx.host_launch(data.rw(), fn=add_one)

    def opens_and_adds(view):
        for _ in range(MANY):
            begun.acquire()
        gate.open()
        view += 1

    for _ in range(MANY):
        ctx.host_launch(fn=submits)
    ctx.host_launch(data.rw(), fn=opens_and_adds)
    with ctx.task(data.rw(), HOST) as (view,):
        view += 1
    assert ctx.wait(data).tolist() in ([n] for n in range(2, MANY + 3))
    ctx.finalize()


def test_memory_of_an_unfinished_function_is_left_alone(ctx, gate):
    data = ctx.logical_data_empty((1,))

    def holds(view):
        gate.hold()

    ctx.host_launch(data.write(), fn=holds)
    del data
    fresh = ctx.logical_data_empty((1,))
    ctx.host_launch(fresh.write(), fn=fill_one)
    assert ctx.wait(fresh).tolist() == [1]
    gate.open()
    ctx.finalize()
