# SPDX-License-Identifier: Apache-2.0
"""Recorded contexts on the CUDA machine: bodies that launch by themselves become nodes."""

import ctypes
import pathlib
import threading

import millstream as stf
import numpy as np
import pytest

COUNT = 300
HERE = str(pathlib.Path(__file__).resolve().parent)


@pytest.fixture
def ctx(machine):
    context = stf.context(use_graph=True, machine=machine)
    yield context
    context.finalize()


@pytest.fixture
def x(ctx):
    data = ctx.logical_data(np.ones(COUNT), name="x")
    with ctx.task(data.rw()) as t:  # so that it is on the device
        t.get_arg(0)
    ctx.fence()
    return data


def scale(ctx, driver, data, factor):
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), factor, COUNT)


def test_a_body_with_one_kernel_is_one_node(ctx, driver, x, any_order):
    before = ctx.stats()["nodes"]
    for _ in range(10):
        scale(ctx, driver, x, 2)
    assert ctx.wait(x).tolist() == [1024.0] * COUNT
    stats = ctx.stats()
    assert stats["nodes"] - before == 10
    assert stats["child_graphs"] == 0


def test_a_body_that_launches_nothing_is_no_node(ctx, driver, x):
    before = ctx.stats()["nodes"]
    scale(ctx, driver, x, 3)
    with ctx.task(x.rw()) as t:
        t.stream_ptr()
    scale(ctx, driver, x, 5)
    assert ctx.wait(x).tolist() == [15.0] * COUNT
    assert ctx.stats()["nodes"] - before == 2


def test_functions_handed_over_are_recorded(ctx, driver, x, any_order):
    def body(view, factor):
        driver.scale(stf.current_task().stream_ptr(), view.ptr, factor, COUNT)

    for factor in (2, 3, 5):
        ctx.submit(body, x.rw(), args=(factor,))
    assert ctx.wait(x).tolist() == [30.0] * COUNT


def test_several_tasks_are_open_at_once(ctx, driver, any_order):
    arrays = [np.full(COUNT, 1.0 + i) for i in range(4)]
    data = [ctx.logical_data(each) for each in arrays]
    tasks = [ctx.task(each.rw()) for each in data]
    for task in tasks:
        task.start()
    streams = {task.stream_ptr() for task in tasks}
    assert len(streams) == 4
    for factor, task in enumerate(tasks, 2):
        driver.scale(task.stream_ptr(), task.get_arg(0), factor, COUNT)
    for task in reversed(tasks):
        task.end()
    with ctx.task(data[0].rw(), *(each.read() for each in data[1:])) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 10, COUNT)
    ctx.finalize()
    assert [each[0] for each in arrays] == [20.0, 6.0, 12.0, 20.0]
    assert ctx.stats()["child_graphs"] == 0


def test_the_same_shape_again_is_one_update(ctx, driver, x):
    for _ in range(2):
        for _ in range(5):
            scale(ctx, driver, x, 1)
        ctx.fence()
    before = ctx.stats()
    for _ in range(10):
        for _ in range(5):
            scale(ctx, driver, x, 1)
        ctx.fence()
    after = ctx.stats()
    assert after["instantiations"] == before["instantiations"]
    assert after["updates"] - before["updates"] == 10
    assert after["refused_updates"] == 0


def test_a_changed_shape_is_instantiated_anew_a28(ctx, driver, x):
    expected = 1.0
    for tasks in (3, 5, 3, 4, 5):
        for _ in range(tasks):
            scale(ctx, driver, x, 2)
        expected *= 2.0**tasks
        assert ctx.wait(x).tolist() == [expected] * COUNT
    other = ctx.logical_data(np.ones(COUNT))
    scale(ctx, driver, x, 2)
    scale(ctx, driver, other, 3)
    scale(ctx, driver, x, 2)
    assert ctx.wait(x).tolist() == [expected * 4] * COUNT
    assert ctx.wait(other).tolist() == [3.0] * COUNT
    assert ctx.stats()["refused_updates"] == 0


def test_two_threads_record_into_one_context(ctx, driver, any_order):
    arrays = [np.ones(COUNT), np.ones(COUNT)]
    data = [ctx.logical_data(each) for each in arrays]
    for each in data:  # a task that needs a copy waits for bodies of others
        scale(ctx, driver, each, 1)
    both_open = threading.Barrier(2, timeout=30)
    failed = []

    def work(index):
        try:
            driver.use(driver.primary())
            for turn in range(4):
                with ctx.task(data[index].rw()) as t:
                    if turn == 0:
                        both_open.wait()
                    driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
                    if turn == 0:
                        both_open.wait()
        except BaseException as error:  # shown by the main thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    ctx.finalize()
    assert [each.tolist() for each in arrays] == [[16.0] * COUNT] * 2
    assert ctx.stats()["child_graphs"] >= 1


def test_a_body_that_raises_poisons_and_the_rest_goes_on(ctx, driver, x):
    other = ctx.logical_data(np.ones(COUNT))

    def fail():
        with ctx.task(x.rw(), symbol="bad") as t:
            driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    scale(ctx, driver, other, 3)
    assert ctx.wait(other).tolist() == [3.0] * COUNT
    with pytest.raises(stf.PoisonedError, match="bad"):
        ctx.wait(x)


def test_the_error_of_a_submitted_body_says_that_it_was_recorded(ctx, x):
    def refuse(_):
        raise RuntimeError("not while a stream is captured")

    ctx.submit(refuse, x.rw(), symbol="offender")
    with pytest.raises(RuntimeError, match="not while a stream is captured") as caught:
        ctx.wait(x)
    (note,) = caught.value.__notes__
    assert "'offender'" in note
    assert "belong before the recording, or into a context without use_graph" in note


def test_a_call_that_spoils_the_recording_is_told_a11(ctx, driver, x):
    other = ctx.logical_data(np.ones(COUNT))
    task = ctx.task(x.rw(), symbol="spoiler")
    task.start()
    stream = task.stream_ptr()
    driver.library.cuStreamSynchronize(ctypes.c_void_p(int(stream)))  # not allowed here
    task.end()
    with pytest.raises(stf.Error, match=r"'spoiler'.*could not be recorded"):
        ctx.check_errors()
    with pytest.raises(stf.PoisonedError, match="spoiler"):
        ctx.wait(x)
    capturing = ctypes.c_int(-1)
    driver.call("cuStreamIsCapturing", ctypes.c_void_p(int(stream)), ctypes.byref(capturing))
    assert capturing.value == 0
    scale(ctx, driver, other, 3)
    assert ctx.wait(other).tolist() == [3.0] * COUNT


def test_a_spoilt_recording_names_all_that_may_have_done_it(ctx, driver, x):
    """Whoever ends first finds it, which tells nothing of who made the call."""
    y, z = (ctx.logical_data(np.ones(COUNT), name=name) for name in "yz")
    for each in (y, z):
        scale(ctx, driver, each, 1)
    ctx.fence()
    with ctx.task(z.rw(), symbol="before"):
        pass
    innocent, offender = ctx.task(x.rw(), symbol="innocent"), ctx.task(y.rw(), symbol="offender")
    innocent.start()
    offender.start()
    driver.library.cuStreamSynchronize(ctypes.c_void_p(int(offender.stream_ptr())))
    innocent.end()
    offender.end()
    with pytest.raises(
        stf.Error,
        match=r"'innocent'.*could not be recorded.*; task 'offender' .*, open then, too, may have",
    ) as told:
        ctx.check_errors()
    assert "'before'" not in str(told.value)
    ctx.check_errors()


@pytest.mark.parametrize("checked", ["0", "1"])
def test_a_branch_that_a_body_left_is_told_with_its_task(look_alike, run_clean, checked):
    """By the first and the last task of the stage, or alone where each body is checked."""
    program = f"""
        import ctypes, sys
        sys.path.insert(0, {HERE!r})
        import cuda_driver, millstream as stf
        driver = cuda_driver.Driver(cuda_driver.LIBRARY)
        driver.use(driver.primary())
        ctx = stf.context(use_graph=True)
        side, event = driver.make_stream(), driver.get(ctypes.c_void_p, "cuEventCreate", 2)
        tokens = [ctx.token() for _ in range(3)]

        def run(token, symbol, leaves=False):
            with ctx.task(token.rw(), symbol=symbol) as t:
                driver.spin(t.stream_ptr())
                if leaves:
                    driver.call("cuEventRecord", ctypes.c_void_p(event),
                                ctypes.c_void_p(int(t.stream_ptr())))
                    driver.call("cuStreamWaitEvent", ctypes.c_void_p(side), ctypes.c_void_p(event),
                                0)
                    driver.spin(side)

        run(tokens[0], "first")
        run(tokens[1], "leaves", leaves=True)
        try:
            run(tokens[2], "last")
            ctx.fence()
            ctx.check_errors()
        except stf.Error as told:
            print([name for name in ("first", "leaves", "last") if f"'{{name}}'" in str(told)])
        ctx.finalize()
    """
    told = run_clean(program, MILLSTREAM_CHECK_BODIES=checked)
    assert told == ("['leaves']\n" if checked == "1" else "['first', 'last']\n")


# --- A42: what other libraries do with a view, they do while a stream is captured


def wait_for_the_producer(driver, view):
    """What Numba and CuPy do with an array whose interface names a stream."""
    stream = view.__cuda_array_interface__["stream"]
    if stream is not None:
        driver.library.cuStreamSynchronize(ctypes.c_void_p(stream))


def register_elsewhere(driver, view):
    """A context on the stream takes the view, as a library that is written with one may."""
    stream = stf.current_task().stream_ptr()
    with stf.context(stream=stream, machine=stf.machine("cuda")) as inside:
        scale(inside, driver, inside.logical_data(view), 1)


CONSUMERS = {
    "array interface": wait_for_the_producer,
    "DLPack without an order": lambda driver, view: view.__dlpack__(stream=-1),
    "another context": register_elsewhere,
}


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a42_a_consumer_of_a_view_waits_for_nothing(ctx, look_alike, x, consumer):
    driver = look_alike
    before = driver.host_waits()

    def body(view):
        stream = stf.current_task().stream_ptr()
        driver.scale(stream, view.ptr, 2, COUNT)
        CONSUMERS[consumer](driver, view)
        driver.scale(stream, view.ptr, 3, COUNT)

    ctx.submit(body, x.rw())
    ctx.check_errors()
    assert driver.host_waits() == before
    assert ctx.wait(x).tolist() == [6.0] * COUNT


def test_a42_the_same_consumer_and_a_view_that_names_the_stream(ctx, look_alike, x):
    """Which is the fault: it waits, and the recording is spoilt."""
    driver = look_alike
    before = driver.host_waits()
    with ctx.task(x.rw(), symbol="spoilt") as t:
        named = stf.stf_cai(t.get_arg(0), (COUNT,), "f8", stream=t.stream_ptr())
        wait_for_the_producer(driver, named)
    assert driver.host_waits() == before + 1
    with pytest.raises(stf.Error, match=r"'spoilt' .*could not be recorded"):
        ctx.check_errors()


def test_a42_dlpack_for_the_stream_of_the_task(ctx, look_alike, x):
    driver = look_alike
    before = driver.host_waits()
    with ctx.task(x.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
        t.args_cai().__dlpack__(stream=int(t.stream_ptr()))
    assert driver.host_waits() == before
    assert ctx.wait(x).tolist() == [2.0] * COUNT


@pytest.mark.parametrize("asked", [None, 1, 2, "another one"])
def test_dlpack_for_a_stream_that_is_not_recorded_is_refused(ctx, driver, x, stream, asked):
    """What is queued there would run now; the body may go on."""
    number = stream if asked == "another one" else asked
    with ctx.task(x.rw(), symbol="wraps") as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
        with pytest.raises(
            stf.UsageError,
            match=rf"task 'wraps' .*is being recorded, and stream {number or 1} is not, .* make "
            rf"the task's stream \({int(t.stream_ptr())}\) the current one",
        ):
            t.args_cai().__dlpack__(stream=number)
        driver.scale(t.stream_ptr(), t.get_arg(0), 3, COUNT)
    assert ctx.wait(x).tolist() == [6.0] * COUNT


def test_dlpack_for_a_stream_that_the_body_forked(ctx, driver, x, stream, any_order):
    """It is recorded, too, and comes after what the task's stream has by then."""
    event = driver.get(ctypes.c_void_p, "cuEventCreate", 2)

    def join(later, earlier):
        driver.call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(int(earlier)))
        driver.call("cuStreamWaitEvent", ctypes.c_void_p(int(later)), ctypes.c_void_p(event), 0)

    with ctx.task(x.rw()) as t:
        join(stream, t.stream_ptr())
        driver.fill(t.stream_ptr(), t.get_arg(0), 5, COUNT)
        t.args_cai().__dlpack__(stream=stream)
        driver.scale(stream, t.get_arg(0), 2, COUNT)
        join(t.stream_ptr(), stream)
    assert ctx.wait(x).tolist() == [10.0] * COUNT


def test_host_functions_take_their_turn(ctx, driver, x, any_order):
    seen = []
    scale(ctx, driver, x, 2)
    ctx.host_launch(x.rw(), fn=lambda values: (seen.append(values[0]), values.__iadd__(1)))
    scale(ctx, driver, x, 3)
    assert ctx.wait(x).tolist() == [9.0] * COUNT
    assert seen == [2.0]


def test_contexts_on_one_stream_share_executables(machine, driver):
    shared = stf.async_resources()
    values = np.ones(COUNT)
    stream = driver.make_stream()
    for _ in range(2):
        with stf.context(use_graph=True, stream=stream, handle=shared, machine=machine) as ctx:
            scale(ctx, driver, ctx.logical_data(values), 3)
    driver.synchronize(stream)
    assert values.tolist() == [9.0] * COUNT
    assert ctx.stats()["updates"] == 1
    driver.end_stream(stream)
