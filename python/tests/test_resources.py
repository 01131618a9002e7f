# SPDX-License-Identifier: Apache-2.0
"""async_resources: what contexts share."""

import gc
import weakref

import millstream as stf
import numpy as np
import pytest


def open_and_use(machine, handle):
    """Numbers of the queues of ten tasks of one context, and how many queues it had."""
    with stf.context(handle=handle, machine=machine) as ctx:
        found = set()
        for _ in range(10):
            data = ctx.logical_data_empty((4,))
            with ctx.task(data.write()) as t:
                found.add(int(t.stream_ptr()))
        return found, ctx.stats()["queues"]


def test_contexts_share_the_streams_of_a_handle():
    machine = stf.machine("host", devices=2, seed=20_050)  # nobody else uses it
    handle = stf.async_resources()
    _, count = open_and_use(machine, handle)
    seen = set()
    for _ in range(20):
        seen |= open_and_use(machine, handle)[0]
    assert len(seen) <= count


def test_repr_shows_the_handle():
    one, two = stf.async_resources(), stf.async_resources()
    assert repr(one).startswith("async_resources(0x")
    assert repr(one) != repr(two)


def test_context_keeps_the_handle(machine):
    handle = stf.async_resources()
    watch = weakref.ref(handle)
    ctx = stf.context(handle=handle, machine=machine)
    del handle
    gc.collect()
    assert watch() is not None
    ctx.finalize()
    del ctx
    gc.collect()
    assert watch() is None


def test_other_handles_are_a_type_error(machine):
    for wrong in (1, "handle", stf.async_resources):
        with pytest.raises(TypeError, match=r"'handle'.*async_resources"):
            stf.context(handle=wrong, machine=machine)


def test_handle_may_come_by_position(machine):
    stf.context(False, False, None, stf.async_resources(), machine=machine).finalize()


def test_two_contexts_in_a_row_on_one_stream_need_no_wait_between(machine):
    handle, values = stf.async_resources(), np.ones(1000)
    with stf.context(machine=machine) as outer:
        stream = outer.fence()
        for factor in (3, 5):
            ctx = stf.context(stream=stream, handle=handle, machine=machine)
            data = ctx.logical_data(values)
            ctx.host_launch(data.rw(), fn=lambda x, f=factor: np.multiply(x, f, out=x))
            ctx.finalize()
        stf.synchronize(stream)
        assert (values == 15).all()


def run_lengths(machine, handle, lengths):
    """Stages of so many tasks each; what the context counted of its executables."""
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        data = ctx.logical_data_zeros((4,))
        ctx.fence()
        for length in lengths:
            for _ in range(length):
                ctx.submit(lambda *_: None, data.rw())
            ctx.fence()
        stats = ctx.stats()
        return stats["instantiations"], stats["updates"]


@pytest.mark.host_devices
def test_the_limit_of_kept_executables(host):
    handle = stf.async_resources(limit_bytes=0)
    assert run_lengths(host, handle, [2, 2, 2]) == (4, 0)
    assert (handle.executables, handle.executable_bytes) == (0, 0)
    handle = stf.async_resources()
    assert run_lengths(host, handle, [2, 2, 3]) == (3, 1)
    assert handle.executables == 3
    most = handle.executable_bytes
    assert most > 0
    handle = stf.async_resources(limit_bytes=most - 1)
    run_lengths(host, handle, [2, 2, 3])
    assert handle.executables == 2
    assert 0 < handle.executable_bytes < most


@pytest.mark.parametrize(
    ("limit", "raised"), [("1", TypeError), (None, TypeError), (1.5, TypeError), (-1, ValueError)]
)
def test_limits_that_are_none(limit, raised):
    with pytest.raises(raised, match="limit_bytes"):
        stf.async_resources(limit_bytes=limit)
