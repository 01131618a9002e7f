# SPDX-License-Identifier: Apache-2.0
"""Bodies of recorded tasks that allocate, as libraries do, and what that leaves behind."""

import pathlib
import threading

import millstream as stf
import numpy as np
import pytest
import scratch
from cuda_driver import DeviceArray
from recording import Recording

COUNT = 300
BYTES = COUNT * 8
HERE = str(pathlib.Path(__file__).resolve().parent)


@pytest.fixture
def ctx(machine):
    context = stf.context(use_graph=True, machine=machine)
    yield context
    context.finalize()


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.zeros(COUNT), name="x")


def add_five(ctx, driver, data, symbol="five"):
    """By way of memory that is the body's own."""
    with ctx.task(data.rw(), symbol=symbol) as t:
        stream = t.stream_ptr()
        with scratch.memory(driver, stream, BYTES) as five:
            driver.fill(stream, five, 5, COUNT)
            driver.axpy(stream, t.get_arg(0), five, 1, COUNT)


def scale(ctx, driver, data, factor):
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), factor, COUNT)


# --- memory in stream order


def test_a17_memory_of_a_body(any_order, ctx, driver, x):
    add_five(ctx, driver, x)
    assert ctx.wait(x).tolist() == [5.0] * COUNT
    add_five(ctx, driver, x)
    assert ctx.wait(x).tolist() == [10.0] * COUNT
    add_five(ctx, driver, x)
    add_five(ctx, driver, x)
    assert ctx.wait(x).tolist() == [20.0] * COUNT
    assert ctx.stats()["child_graphs"] == 0


def test_a17_such_a_stage_is_instantiated_again_and_says_why(any_order, ctx, driver, x):
    for turn in range(1, 6):
        add_five(ctx, driver, x)
        ctx.fence()
        if turn > 2:  # the first stage has the copy, too
            assert "bodies allocate memory" in ctx.stats()["last_miss"]
    assert ctx.wait(x).tolist() == [25.0] * COUNT
    stats = ctx.stats()
    assert (stats["instantiations"], stats["updates"], stats["refused_updates"]) == (5, 0, 3)


def test_a17_two_threads(any_order, machine, driver):
    """The second body is captured beside the first and becomes a child, with its memory."""
    ctx = stf.context(use_graph=True, machine=machine)
    arrays = [np.zeros(COUNT), np.zeros(COUNT)]
    data = [ctx.logical_data(each, name=name) for each, name in zip(arrays, "xy", strict=True)]
    for each in data:  # a task that needs a copy waits for bodies of others
        scale(ctx, driver, each, 1)
    ctx.fence()
    both_open = threading.Barrier(2, timeout=30)

    def work(index):
        driver.use(driver.primary())
        with ctx.task(data[index].rw(), symbol=f"task {index}") as t:
            both_open.wait()
            stream = t.stream_ptr()
            with scratch.memory(driver, stream, BYTES) as five:
                driver.fill(stream, five, 5, COUNT)
                driver.axpy(stream, t.get_arg(0), five, 1, COUNT)
            both_open.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ctx.wait(each).tolist() for each in data] == [[5.0] * COUNT] * 2
    assert ctx.stats()["child_graphs"] == 1
    for _ in range(2):
        for each in data:
            add_five(ctx, driver, each)
    ctx.finalize()
    assert [each.tolist() for each in arrays] == [[15.0] * COUNT] * 2


# Two threads whose bodies allocate, with a driver that can only copy children.
OLDER_DRIVER = """
    import threading
    import millstream as stf
    import numpy as np

    import scratch
    from cuda_driver import LIBRARY, Driver

    COUNT, BYTES = 300, 2400
    driver = Driver(LIBRARY)
    driver.use(driver.primary())
    ctx = stf.context(use_graph=True, machine=stf.machine("cuda"))
    arrays = [np.zeros(COUNT), np.zeros(COUNT)]
    data = [ctx.logical_data(each) for each in arrays]
    for each in data:
        with ctx.task(each.rw()) as t:
            driver.scale(t.stream_ptr(), t.get_arg(0), 1, COUNT)
    ctx.fence()
    both_open = threading.Barrier(2, timeout=30)

    def add_five(t):
        stream = t.stream_ptr()
        with scratch.memory(driver, stream, BYTES) as five:
            driver.fill(stream, five, 5, COUNT)
            driver.axpy(stream, t.get_arg(0), five, 1, COUNT)

    def work(index):
        driver.use(driver.primary())
        with ctx.task(data[index].rw(), symbol=f"task {index}") as t:
            both_open.wait()
            add_five(t)
            both_open.wait()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        ctx.check_errors()
        assert False, "nothing was said"
    except stf.Error as told:
        assert "allocate before the recording" in str(told), told
        lost = int(str(told).split("'task ")[1][0])
    assert ctx.wait(data[1 - lost]).tolist() == [5.0] * COUNT
    try:
        ctx.wait(data[lost])
        assert False, "a lost value was given"
    except stf.PoisonedError as told:
        assert "task" in str(told), told
    for _ in range(2):
        with ctx.task(data[1 - lost].rw()) as t:
            add_five(t)
    ctx.finalize()
    assert arrays[1 - lost].tolist() == [15.0] * COUNT
"""


def test_a17_two_threads_with_an_older_driver(look_alike, run_clean):
    assert run_clean(OLDER_DRIVER, MILLSTREAM_FAKE_CUDA_VERSION="12080", PYTHONPATH=HERE) == ""


def test_memory_that_another_task_frees(any_order, ctx, driver, x):
    """In the same stage, and in a later one."""
    left = []
    for is_launched_between in (False, True):
        with ctx.task(x.rw()) as t:
            stream = t.stream_ptr()
            left.append(scratch.allocate(driver, stream, BYTES))
            driver.fill(stream, left[-1], 5, COUNT)
        if is_launched_between:
            ctx.fence()
        with ctx.task(x.rw()) as t:
            stream = t.stream_ptr()
            driver.axpy(stream, t.get_arg(0), left[-1], 1, COUNT)
            scratch.free(driver, stream, left[-1])
    assert ctx.wait(x).tolist() == [10.0] * COUNT


def test_a_body_cannot_free_what_is_from_outside(ctx, driver, x):
    stream = driver.make_stream()
    outside = scratch.allocate(driver, stream, BYTES)

    def free_it():
        with ctx.task(x.rw(), symbol="frees") as t:
            scratch.free(driver, t.stream_ptr(), outside)

    with pytest.raises(AssertionError, match="cuMemFreeAsync answered"):
        free_it()
    other = ctx.logical_data(np.ones(COUNT))
    scale(ctx, driver, other, 3)
    assert ctx.wait(other).tolist() == [3.0] * COUNT
    scratch.free(driver, stream, outside)
    driver.synchronize(stream)
    driver.end_stream(stream)


def test_the_driver_keeps_nothing_when_the_context_has_ended(machine, driver):
    scratch.forget_highest(driver)
    with stf.context(use_graph=True, machine=machine) as ctx:
        x = ctx.logical_data(np.zeros(COUNT))
        for _ in range(3):
            add_five(ctx, driver, x)
            ctx.fence()
        assert ctx.wait(x)[0] == 15
        assert scratch.of_graphs(driver, scratch.RESERVED) >= BYTES
    del ctx, x
    assert scratch.of_graphs(driver, scratch.RESERVED) == 0


# --- temporaries share their memory


def chain_with_data(ctx, driver, x, nbytes):
    """8 tasks, each with a datum of its own that dies with it."""
    for _ in range(8):
        temporary = ctx.logical_data_empty((nbytes // 8,), np.float64)
        with ctx.task(temporary.write(), x.rw()) as t:
            stream = t.stream_ptr()
            driver.fill(stream, t.get_arg(0), 5, nbytes // 8)
            driver.axpy(stream, t.get_arg(1), t.get_arg(0), 1, COUNT)
        del temporary


def chain_with_memory(ctx, driver, x, nbytes):
    """The same with memory in stream order."""
    for _ in range(8):
        with ctx.task(x.rw()) as t:
            stream = t.stream_ptr()
            with scratch.memory(driver, stream, nbytes) as five:
                driver.fill(stream, five, 5, nbytes // 8)
                driver.axpy(stream, t.get_arg(0), five, 1, COUNT)


@pytest.mark.parametrize("chain", [chain_with_data, chain_with_memory])
def test_a20_temporaries_of_a_chain_share_their_memory(driver, machine, chain):
    temporary = 1 << 20 if driver.is_look_alike else 128 << 20
    values = np.zeros(COUNT)
    scratch.forget_highest(driver)
    with stf.context(use_graph=True, machine=machine) as ctx:
        x = ctx.logical_data(values)
        scale(ctx, driver, x, 1)
        ctx.fence()
        ctx.wait(x)
        before = scratch.in_use(driver)
        chain(ctx, driver, x, temporary)
        assert ctx.wait(x).tolist() == [40.0] * COUNT
        taken = scratch.in_use(driver) - before
        if driver.is_look_alike:
            assert taken == temporary
        assert taken < 2 * temporary
        assert scratch.of_graphs(driver, scratch.USED_HIGH) < 2 * temporary


# --- a library's first call


def test_a16_the_first_call_of_a_library(any_order, ctx, driver, x):
    library = scratch.Library(driver)
    other = ctx.logical_data(np.ones(COUNT))
    with ctx.task(other.rw()) as t:
        library.scale(t.stream_ptr(), t.get_arg(0), 3, COUNT)
    with ctx.task(other.rw()) as t:
        library.scale(t.stream_ptr(), t.get_arg(0), 5, COUNT)
    assert ctx.wait(other).tolist() == [15.0] * COUNT
    library.close()


def test_a16_a_first_call_that_waits_is_told(machine, driver):
    library = scratch.Library(driver, waits=True)
    before = scratch.in_use(driver)
    ctx = stf.context(use_graph=True, machine=machine)
    x = ctx.logical_data(np.zeros(COUNT), name="x")
    task = ctx.task(x.rw(), symbol="product")
    task.start()
    stream = int(task.stream_ptr())
    library.set_up(stream)
    task.end()
    with pytest.raises(stf.Error, match=r"'product'.*could not be recorded.*before the task"):
        ctx.check_errors()
    assert not scratch.is_captured(driver, stream)
    other = ctx.logical_data(np.ones(COUNT))
    with ctx.task(other.rw()) as t:  # it is warm now
        library.scale(t.stream_ptr(), t.get_arg(0), 3, COUNT)
    assert ctx.wait(other).tolist() == [3.0] * COUNT
    library.close()
    del x, other, task, t
    ctx.finalize()
    assert scratch.in_use(driver) - before <= (0 if driver.is_look_alike else 4 << 20)


# --- what libraries keep for each stream


def test_independent_bodies_share_the_workspace_of_a_stream(any_order, machine, driver):
    library = scratch.WorkspacePerStream(driver, COUNT)
    arrays = [np.zeros(COUNT) for _ in range(24)]
    with stf.context(use_graph=True, machine=machine) as ctx:
        data = [ctx.logical_data(each) for each in arrays]
        for turn in range(3):
            for number, each in enumerate(data):
                with ctx.task(each.rw()) as t:
                    library.add(t.stream_ptr(), t.get_arg(0), number + turn)
            if turn != 1:
                ctx.fence()
    library.close()
    assert [each[0] for each in arrays] == [3 * number + 3 for number in range(24)]
    assert len(library.of_stream) <= 16


def test_memory_of_a_body_in_a_recording_of_the_callers_is_told(driver, machine):
    """The stage would have to be a part of what the caller records, which may own no memory."""
    stream = driver.make_stream()
    target = DeviceArray(driver, np.zeros(COUNT))
    with Recording(driver, stream) as recording:
        ctx = stf.context(use_graph=True, machine=machine, stream=stream)
        add_five(ctx, driver, ctx.logical_data(target), symbol="scratch")
        ctx.finalize()
        with pytest.raises(
            stf.Error, match=r"recorded, task 'scratch' .*allocate before the recording"
        ):
            ctx.check_errors()
    recording.launch()  # what the caller recorded besides is fine
    assert target.get().tolist() == [0.0] * COUNT
    with stf.context(use_graph=True, machine=machine, stream=stream) as ctx:
        add_five(ctx, driver, ctx.logical_data(target))
    driver.synchronize(stream)
    assert target.get().tolist() == [5.0] * COUNT
    driver.end_stream(stream)
