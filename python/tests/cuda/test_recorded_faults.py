# SPDX-License-Identifier: Apache-2.0
"""Faults that users of recorded graphs met, each as a small program on the CUDA machine."""

import ctypes
import gc
import inspect
import threading
import warnings

import millstream as stf
import numpy as np
import pytest
import scratch
from cuda_driver import KERNELS, DeviceArray

COUNT = 300
NOT_SUPPORTED = 801


def scale(ctx, driver, data, factor):
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), factor, COUNT)


def launch_axpy(ctx, driver, x, y, *factors, grid=4):
    kernel = driver._function("test_axpy_f64")
    with ctx.cuda_kernel(x.read(), y.rw(), symbol="axpy") as k:
        for factor in factors:
            k.launch(kernel, grid, 64, [k.get_arg(1), k.get_arg(0), factor, COUNT])


# --- A03


def test_a03_each_launch_keeps_its_arguments_in_each_replay(any_order, driver, machine):
    values = np.zeros(COUNT)
    with stf.context(use_graph=True, machine=machine) as ctx:
        x, y = ctx.logical_data(np.ones(COUNT)), ctx.logical_data(values)
        for stage in range(1, 5):
            launch_axpy(ctx, driver, x, y, *map(ctypes.c_double, (1, 10, 100)))
            gc.collect()
            assert ctx.wait(y).tolist() == [111.0 * stage] * COUNT
        assert ctx.stats()["updates"] >= 2


# --- A10


def fail_to_instantiate(driver, node_type):
    """None: the driver does not say which node it refuses."""
    if node_type is None:
        driver.library.fake_cuda_fail(b"cuGraphInstantiateWithParams", ctypes.c_uint64(1),
                                      NOT_SUPPORTED, 0)  # fmt: skip
    else:
        driver.library.fake_cuda_refuse_node(node_type)


KINDS = {
    None: r"of 3 nodes:",
    0: r"of 3 nodes \(a kernel node\):",
    2: r"of 3 nodes \(a fill node\):",
}


@pytest.mark.parametrize("node_type", KINDS)
def test_a10_a_failed_instantiation_is_the_only_error(look_alike, machine, node_type):
    """It names the tasks that were recorded, and the kind of node if the driver tells."""
    driver = look_alike
    ctx = stf.context(use_graph=True, machine=machine)
    x = ctx.logical_data_zeros((COUNT,), name="x")
    with ctx.task(x.rw(), symbol="one between") as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    with ctx.task(x.rw(), symbol="last one") as t:
        line = inspect.currentframe().f_lineno - 1
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    fail_to_instantiate(driver, node_type)
    destroyed = driver.count("cuGraphExecDestroy")
    ctx.fence()
    driver.library.fake_cuda_refuse_node(-1)
    with pytest.raises(
        stf.Error,
        match=r"what was recorded, task 'x' \(.*\) to task 'last one' "
        rf"\(.*test_recorded_faults.py:{line}\), could not be launched: .*instantiate a graph "
        rf"{KINDS[node_type]} .*NOT_SUPPORTED",
    ) as told:
        ctx.check_errors()
    assert "one between" not in str(told.value)
    assert told.value.__cause__ is None
    assert driver.count("cuGraphExecDestroy") == destroyed
    other = ctx.logical_data(np.ones(COUNT))
    scale(ctx, driver, other, 3)
    assert ctx.wait(other).tolist() == [3.0] * COUNT
    ctx.finalize()


@pytest.mark.parametrize(("tasks", "told"), [(63, "task 'task 0' "), (64, "tasks up to ")])
def test_a10_a_long_stage_is_named_by_its_last_task(look_alike, machine, tasks, told):
    driver = look_alike
    ctx = stf.context(use_graph=True, machine=machine)
    token = ctx.token()
    with ctx.task(token.rw(), symbol="of another stage") as t:
        driver.spin(t.stream_ptr(), 1)
    ctx.fence()
    for number in range(tasks):
        with ctx.task(token.rw(), symbol=f"task {number}") as t:
            driver.spin(t.stream_ptr(), 1)
    driver.library.fake_cuda_refuse_node(0)
    ctx.fence()
    driver.library.fake_cuda_refuse_node(-1)
    with pytest.raises(stf.Error, match=rf"recorded, {told}.*task 'task {tasks - 1}' .*, could"):
        ctx.check_errors()
    ctx.finalize()


# --- A11


def raise_at_the_first_task(ctx, driver, x):
    with ctx.task(x.rw()):
        raise ValueError("boom")


def raise_after_a_launch(ctx, driver, x):
    with ctx.cuda_kernel(x.rw()) as k:
        k.launch(driver._function("test_scale_f64"), 4, 64, [k.get_arg(0), 2.0, COUNT])
        raise ValueError("boom")


def raise_in_a_body_after_a_launch(ctx, driver, x):
    with ctx.task(x.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
        raise ValueError("boom")


def raise_in_an_argument(ctx, driver, x):
    def argument():
        raise ValueError("boom")

    ctx.host_launch(x.rw(), fn=lambda *_: None, args=(argument(),))


@pytest.mark.parametrize(
    "spoil",
    [
        raise_at_the_first_task,
        raise_after_a_launch,
        raise_in_a_body_after_a_launch,
        raise_in_an_argument,
    ],
)
def test_a11_a_recording_that_raises_leaves_nothing(driver, machine, spoil):
    stream = driver.make_stream()

    def fail():
        ctx = stf.context(use_graph=True, machine=machine, stream=stream)
        x = ctx.logical_data(np.ones(COUNT))
        with pytest.raises(ValueError, match="boom"):
            spoil(ctx, driver, x)
        assert not scratch.is_captured(driver, stream)
        ctx.finalize()

    def succeed():
        values = np.ones(COUNT)
        with stf.context(use_graph=True, machine=machine, stream=stream) as ctx:
            x = ctx.logical_data(values)
            for _ in range(3):
                scale(ctx, driver, x, 2)
                ctx.fence()
        driver.synchronize(stream)
        assert values.tolist() == [8.0] * COUNT

    for _ in range(2):
        fail()
        succeed()
    gc.collect()
    before = scratch.in_use(driver)
    for _ in range(50):
        fail()
    succeed()
    gc.collect()
    grown = scratch.in_use(driver) - before
    assert grown == 0 if driver.is_look_alike else grown < 1 << 20
    driver.end_stream(stream)


def test_a11_a_spoilt_capture_leaves_nothing(driver, machine):
    """50 times, with memory of the body's own in the spoilt graph."""

    def fail():
        ctx = stf.context(use_graph=True, machine=machine)
        x = ctx.logical_data(np.ones(COUNT))
        task = ctx.task(x.rw(), symbol="waits")
        task.start()
        stream = int(task.stream_ptr())
        with scratch.memory(driver, stream, COUNT * 8) as more:
            driver.axpy(stream, task.get_arg(0), more, 1, COUNT)
        driver.library.cuStreamSynchronize(ctypes.c_void_p(stream))  # not allowed here
        task.end()
        with pytest.raises(stf.Error, match=r"'waits'.*before the task"):
            ctx.check_errors()
        assert not scratch.is_captured(driver, stream)
        ctx.finalize()

    for _ in range(2):
        fail()
    before, used = scratch.in_use(driver), scratch.of_graphs(driver, scratch.USED)
    for _ in range(50):
        fail()
    grown = scratch.in_use(driver) - before
    assert grown == 0 if driver.is_look_alike else grown < 1 << 20
    assert scratch.of_graphs(driver, scratch.USED) == used


# --- A14, A15


@pytest.mark.parametrize("threshold", [None, 1])
def test_a14_a_dead_recording_is_collected_during_another(any_order, driver, machine, threshold):
    class Holder:
        pass

    def make_cycle():
        dead = Holder()
        dead.ctx = stf.context(use_graph=True, machine=machine)
        dead.data = dead.ctx.logical_data_empty((COUNT,), np.float64)
        with dead.ctx.task(dead.data.write()) as t:
            driver.fill(t.stream_ptr(), t.get_arg(0), 1, COUNT)
        dead.ctx.fence()
        dead.ctx.finalize()
        dead.cycle = dead

    usual = gc.get_threshold()
    values = np.ones(COUNT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            if threshold is not None:
                gc.set_threshold(threshold)
            with stf.context(use_graph=True, machine=machine) as ctx:
                x = ctx.logical_data(values)
                for _ in range(3):
                    make_cycle()
                    for _ in range(3):
                        with ctx.task(x.rw()) as t:
                            driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
                            gc.collect()
                    ctx.fence()
        finally:
            gc.set_threshold(*usual)
    assert values.tolist() == [2.0**9] * COUNT


def test_a15_another_thread_allocates_and_loads_meanwhile(driver, machine):
    stop, turns, failed = threading.Event(), [], []

    def disturb():
        try:
            driver.use(driver.primary())
            image = ctypes.c_char_p(KERNELS.read_bytes() + b"\0")
            while not stop.is_set():
                driver.free(driver.allocate(4096))
                module = driver.get(ctypes.c_void_p, "cuModuleLoadData", image)
                driver.end_stream(driver.make_stream())
                driver.call("cuModuleUnload", ctypes.c_void_p(module))
                turns.append(None)
        except BaseException as error:  # shown by the main thread
            failed.append(error)

    other = threading.Thread(target=disturb)
    other.start()
    values = np.zeros(COUNT)
    with stf.context(use_graph=True, machine=machine) as ctx:
        x, ones = ctx.logical_data(values), ctx.logical_data(np.ones(COUNT))
        for _ in range(200):
            with ctx.task(ones.read(), x.rw()) as t:
                driver.axpy(t.stream_ptr(), t.get_arg(1), t.get_arg(0), 1, COUNT)
            ctx.fence()
        while not turns and not failed:
            pass
    stop.set()
    other.join()
    assert failed == []
    assert values.tolist() == [200.0] * COUNT


# --- A28


def pending_error(driver):
    """What the runtime library, where there is one, keeps as the last error of this thread."""
    if driver.is_look_alike:
        return 0
    for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12"):
        try:
            return ctypes.CDLL(name).cudaPeekAtLastError()
        except OSError:
            continue
    return 0


def test_a28_six_runs_through_one_cache(any_order, driver, machine):
    shared = stf.async_resources()
    instantiated = updated = refused = 0
    ones = DeviceArray(driver, np.ones(COUNT))

    def run(tasks, grid):
        nonlocal instantiated, updated, refused
        values = np.zeros(COUNT)
        with stf.context(use_graph=True, handle=shared, machine=machine) as ctx:
            x, y = ctx.logical_data(ones), ctx.logical_data(values)
            for factor in range(1, tasks + 1):
                launch_axpy(ctx, driver, x, y, float(factor), grid=grid)
        stats = ctx.stats()
        instantiated += stats["instantiations"]
        updated += stats["updates"]
        refused += stats["refused_updates"]
        assert values.tolist() == [tasks * (tasks + 1) / 2] * COUNT
        return stats["instantiations"], stats["updates"]

    runs = [run(*each) for each in [(3, 4), (3, 4), (3, 4), (4, 4), (3, 8), (3, 4)]]
    assert runs == [(1, 0), (0, 1), (0, 1), (1, 0), (0, 1), (0, 1)]
    assert (instantiated, updated, refused) == (2, 4, 0)
    assert pending_error(driver) == 0
    driver.call("cuCtxSynchronize")


def test_a28_a_hash_that_is_equal_for_other_nodes(any_order, driver, machine):
    """Bodies are told apart by how many nodes they have, so that these two look alike. Both are
    kept, and where they take turns, it is known which one comes next."""
    values = np.ones(COUNT)
    ctx = stf.context(use_graph=True, machine=machine)
    x = ctx.logical_data(values)
    scale(ctx, driver, x, 1)
    ctx.fence()

    def as_kernel():
        scale(ctx, driver, x, 2)

    def as_fill():
        with ctx.task(x.rw()) as t:
            driver.call("cuMemsetD32Async", ctypes.c_uint64(t.get_arg(0)), 0,
                        ctypes.c_size_t(2), ctypes.c_void_p(int(t.stream_ptr())))  # fmt: skip

    expected = np.ones(COUNT)
    for body in (as_kernel, as_kernel, as_fill, as_fill, as_kernel):
        body()
        expected[:1] *= body is as_kernel
        expected *= 2 if body is as_kernel else 1
        assert ctx.wait(x).tolist() == expected.tolist()
    stats = ctx.stats()
    assert (stats["instantiations"], stats["hits"], stats["refused_updates"]) == (3, 3, 2)
    assert stats["misses"]["refused"] == 1
    for step in range(40):
        (as_fill, as_kernel)[step % 2]()
        ctx.fence()
        if step == 4:
            settled = ctx.stats()
    stats = ctx.stats()
    assert (stats["instantiations"], stats["hits"]) == (3, 43)
    assert stats["refused_updates"] == settled["refused_updates"]
    assert sum(stats["misses"].values()) == 3
    assert pending_error(driver) == 0
    ctx.finalize()
