# SPDX-License-Identifier: Apache-2.0
"""Recorded contexts: `context(use_graph=True)`, on host machines and on CUDA alike."""

from __future__ import annotations

import gc
import threading
import weakref

import millstream as stf
import numpy as np
import pytest


@pytest.fixture
def ctx():
    with stf.context(use_graph=True) as made:
        yield made


def add(x: np.ndarray, value: float) -> None:
    x += value


def test_an_empty_context_opens_and_ends():
    ctx = stf.context(use_graph=True)
    ctx.finalize()
    ctx.finalize()
    assert ctx.stats()["stages"] == 0


def test_fences_give_streams_and_more_tasks_may_follow(ctx):
    token = ctx.token()
    for _ in range(3):
        stream = ctx.fence()
        assert isinstance(stream, int)
        assert stream != 0
        with ctx.task(token.rw()):
            pass


@pytest.mark.host_devices
def test_nothing_runs_before_the_recording_is_launched(host):
    ctx = stf.context(use_graph=True, machine=host)
    values = np.zeros(4)
    data = ctx.logical_data(values)
    ran = []
    ctx.submit(lambda x: (ran.append(1), add(x, 1.0)), data.rw())
    ctx.submit(lambda x: (ran.append(2), add(x, 2.0)), data.rw())
    assert ran == []
    ctx.finalize()
    assert ran == [1, 2]
    np.testing.assert_array_equal(values, np.full(4, 3.0))
    stats = ctx.stats()
    assert stats["stages"] == 1
    assert stats["instantiations"] == 1
    assert stats["child_graphs"] == 0


@pytest.mark.host_devices
def test_a_with_body_breaks_the_stage_and_sees_what_was_recorded(host):
    ctx = stf.context(use_graph=True, machine=host)
    values = np.ones(3)
    data = ctx.logical_data(values)
    ctx.submit(add, data.rw(), args=(1.0,))
    with ctx.task(data.rw()) as (x,):
        np.testing.assert_array_equal(x, np.full(3, 2.0))
        x *= 10
    ctx.submit(add, data.rw(), args=(1.0,))
    np.testing.assert_array_equal(ctx.wait(data), np.full(3, 21.0))
    ctx.finalize()
    stats = ctx.stats()
    assert stats["stage_breaks"] == 1
    assert stats["stages"] == 2


@pytest.mark.host_devices
def test_the_same_shape_again_is_an_update(host):
    ctx = stf.context(use_graph=True, machine=host)
    data = ctx.logical_data_zeros((4,))
    for _ in range(5):
        for _ in range(3):
            ctx.submit(add, data.rw(), args=(1.0,))
        ctx.fence()
    np.testing.assert_array_equal(ctx.wait(data), np.full(4, 15.0))
    stats = ctx.stats()
    assert stats["stages"] == 5
    assert stats["updates"] >= 3
    assert stats["refused_updates"] == 0
    ctx.finalize()


REASONS = ["new shape", "evicted", "too large", "policy", "busy", "refused", "lost"]


@pytest.mark.host_devices
def test_misses_are_counted_by_reason(host):
    def run(shared, *lengths):
        with stf.context(use_graph=True, machine=host, handle=shared) as ctx:
            data = ctx.logical_data_zeros((4,))
            ctx.fence()
            before = ctx.stats()["misses"]
            for length in lengths:
                for _ in range(length):
                    ctx.submit(add, data.rw(), args=(1.0,))
                ctx.fence()
        after = ctx.stats()["misses"]
        assert list(after) == REASONS
        return {reason: after[reason] - before[reason] for reason in REASONS}

    none = dict.fromkeys(REASONS, 0)
    assert run(stf.async_resources(), 3, 3, 4) == none | {"new shape": 2}
    assert run(stf.async_resources(limit_bytes=1), 3, 3) == none | {"new shape": 1, "too large": 1}


@pytest.mark.host_devices
def test_the_declaration_of_a_host_function_changes_nothing_on_a_host_machine(host):
    values = np.zeros(4)
    with stf.context(use_graph=True, machine=host) as ctx:
        data, other = ctx.logical_data(values), ctx.logical_data_zeros((4,))
        for uses_device in (True, False):
            ctx.host_launch(data.rw(), fn=add, args=(1.0,), uses_device=uses_device)
        ctx.submit(lambda x: ctx.submit(add, other.rw(), args=(1.0,)), data.rw(),
                   place=stf.exec_place.host(), uses_device=False)  # fmt: skip
    assert values.tolist() == [2.0] * 4
    assert ctx.stats()["stage_breaks"] == 0


@pytest.mark.host_devices
def test_contexts_with_one_handle_share_executables(host):
    shared = stf.async_resources()
    counts = []
    for _ in range(3):
        with stf.context(use_graph=True, handle=shared, machine=host) as ctx:
            values = np.zeros(2)
            data = ctx.logical_data(values)
            for _ in range(4):
                ctx.submit(add, data.rw(), args=(1.0,))
        np.testing.assert_array_equal(values, [4.0, 4.0])
        counts.append(ctx.stats()["instantiations"])
    assert counts == [1, 0, 0]


@pytest.mark.host_devices
def test_the_stream_of_a_recorded_task_can_be_waited_for(host):
    streams = []
    with stf.context(use_graph=True, machine=host) as ctx:
        data = ctx.logical_data(np.zeros(2))
        ctx.submit(lambda x: streams.append(stf.current_task().stream_ptr()), data.rw())
    assert streams[0] != 0
    stf.synchronize(streams[0])


@pytest.mark.host_devices
def test_host_functions_take_their_turn(host):
    seen = []
    with stf.context(use_graph=True, machine=host) as ctx:
        data = ctx.logical_data(np.zeros(2))
        ctx.submit(add, data.rw(), args=(1.0,))
        ctx.host_launch(data.read(), fn=lambda x: seen.append(x.copy()))
        ctx.submit(add, data.rw(), args=(2.0,))
        ctx.host_launch(data.read(), fn=lambda x: seen.append(x.copy()))
    np.testing.assert_array_equal(seen, [[1.0, 1.0], [3.0, 3.0]])


@pytest.mark.host_devices
def test_an_exception_of_a_recorded_task_is_raised_by_finalize(host):
    ctx = stf.context(use_graph=True, machine=host)
    values = np.ones(2)
    data = ctx.logical_data(values)
    ctx.submit(lambda x: 1 / 0, data.rw(), symbol="bad")
    ctx.submit(add, data.rw(), args=(1.0,))
    with pytest.raises(ZeroDivisionError) as caught:
        ctx.finalize()
    assert any("bad" in note for note in getattr(caught.value, "__notes__", []))
    np.testing.assert_array_equal(values, np.ones(2))


@pytest.mark.host_devices
def test_what_a_recorded_task_uses_lives_until_it_ran(host):
    class Box(np.ndarray):
        pass

    ctx = stf.context(use_graph=True, machine=host)
    source = np.arange(3.0).view(Box)
    gone = weakref.ref(source)
    data = ctx.logical_data(source)
    out = np.zeros(3)
    result = ctx.logical_data(out)
    ctx.submit(np.copyto, result.write(), data.read())
    del source, data
    gc.collect()
    assert gone() is not None
    ctx.finalize()
    gc.collect()
    np.testing.assert_array_equal(out, [0.0, 1.0, 2.0])
    assert gone() is None


@pytest.mark.host_devices
def test_threads_record_into_one_context(host):
    ctx = stf.context(use_graph=True, machine=host)
    values = np.zeros(1)
    data = ctx.logical_data(values)

    def work():
        for _ in range(50):
            ctx.submit(add, data.rw(), args=(1.0,))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ctx.finalize()
    assert values[0] == 200.0


@pytest.mark.host_devices
def test_the_picture_of_the_machine(host):
    ctx = stf.context(use_graph=True, machine=host, trace=True)
    data = ctx.logical_data(np.zeros(2))
    ctx.submit(add, data.rw(), args=(1.0,), symbol="one")
    ctx.finalize()
    graph = ctx.graph()
    assert [node.name for node in graph.nodes] == ["one"]
    assert graph.native_dot().startswith("digraph")


def test_an_immediate_context_has_no_picture_of_the_machine():
    with stf.context(trace=True) as ctx:
        graph = ctx.graph()
    with pytest.raises(RuntimeError, match="use_graph=True"):
        graph.native_dot()
    assert "stages" not in ctx.stats()
