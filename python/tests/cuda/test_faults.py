# SPDX-License-Identifier: Apache-2.0
"""Faults that users of such systems met, each as a small program on the CUDA machine."""

import gc
import pathlib
import threading

import millstream as stf
import numpy as np
import pytest
from cuda_driver import DeviceArray
from recording import Recording, record_sum, run_fill

COUNT = 100_000
LIMIT_S = 60


def doubled_sum(driver, ctx, data):
    sums = []
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    ctx.host_launch(data.read(), fn=lambda values: sums.append(values.sum()))
    ctx.finalize()
    return sums


def test_a01_array_that_the_user_dropped_is_kept(any_order, driver, machine):
    def register(ctx):
        return ctx.logical_data(np.ones(COUNT))

    ctx = stf.context(machine=machine)
    data = register(ctx)
    gc.collect()
    others = [np.full(COUNT, 7.0) for _ in range(10)]
    assert doubled_sum(driver, ctx, data) == [2 * COUNT]
    assert len(others) == 10


def test_a01_device_array_that_the_user_dropped_is_kept(any_order, driver, machine):
    freed = []

    class Owned(DeviceArray):
        def __del__(self):
            freed.append(self.pointer)
            self.driver.use(self.driver.primary())
            self.driver.free(self.pointer)

    def register(ctx):
        return ctx.logical_data(Owned(driver, np.ones(COUNT)))

    ctx = stf.context(machine=machine)
    data = register(ctx)
    gc.collect()
    others = [DeviceArray(driver, np.full(COUNT, 7.0)) for _ in range(10)]
    assert freed == []
    assert doubled_sum(driver, ctx, data) == [2 * COUNT]
    del data, ctx
    gc.collect()
    assert len(freed) == 1
    for each in others:
        driver.free(each.pointer)


def test_a06_lock_of_the_interpreter_and_of_the_driver(driver, machine):
    stop = threading.Event()
    ran = {"submit": threading.Event(), "context": threading.Event()}
    failed = []

    def spin(kind, once):
        try:
            driver.use(driver.primary())
            while not stop.is_set():
                once()
                ran[kind].set()
        except BaseException as error:
            failed.append(error)
            ran[kind].set()

    def submit():
        with stf.context(machine=machine) as ctx:
            data = ctx.logical_data_empty((64,))
            run_fill(driver, ctx, data, 3)
            assert ctx.wait(data).tolist() == [3] * 64

    def open_and_close():
        stream = driver.make_stream()
        stf.context(machine=machine).finalize()
        driver.synchronize(stream)
        driver.end_stream(stream)

    threads = [threading.Thread(target=spin, args=each, daemon=True)
               for each in (("submit", submit), ("context", open_and_close))]  # fmt: skip
    for each in threads:
        each.start()
    called = []
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(np.zeros(64))
        for number in range(200):
            with ctx.task(data.rw()) as t:
                driver.scale(t.stream_ptr(), t.get_arg(0), 1, 64)
            ctx.host_launch(data.rw(), fn=lambda values, n: called.append(n), args=(number,))
    assert all(each.wait(LIMIT_S) for each in ran.values())
    stop.set()
    for each in threads:
        each.join(LIMIT_S)
        assert not each.is_alive()
    assert (failed, called) == ([], list(range(200)))


PROLOGUE = f"""
    import sys
    sys.path.insert(0, {str(__file__.rsplit("/", 1)[0])!r})
    import numpy as np
    import millstream as stf
    from cuda_driver import Driver, DeviceArray, LIBRARY
    from recording import record_sum
    driver = Driver(LIBRARY)
    driver.use(driver.primary())
    arrays = [DeviceArray(driver, np.zeros(500)) for _ in range(3)]
    driver._function("test_fill_f64"), driver._function("test_axpy_f64")
    stream = driver.make_stream()
"""


# In programs of their own: whoever waits with the lock of the interpreter stops the tests, too.
A06_PAGES = """
    import millstream as stf
    import numpy as np

    x, y = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
    for _ in range(3):
        with stf.context(machine=stf.machine("cuda")) as ctx:
            with ctx.task(ctx.logical_data(x).read(), ctx.logical_data(y).rw()) as t:
                t.args_cai()
    print(int(x.sum()), int(y.sum()))
"""


def test_a06_buffers_whose_pages_were_locked_are_let_go_without_the_lock(run_clean):
    assert run_clean(A06_PAGES) == "1048576 0\n"


A06_CALLBACK = """
    import ctypes
    import time
    import sys
    sys.path.insert(0, {folder!r})
    import cuda_driver
    import millstream as stf
    import numpy as np

    driver = cuda_driver.Driver(cuda_driver.LIBRARY)
    driver.use(driver.primary())
    stream = driver.make_stream()
    seen = []

    # As libraries do that call Python functions from a stream.
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def callback(_):
        time.sleep(0.01)
        seen.append(len(seen))

    def queue_callback():
        driver.call("cuLaunchHostFunc", ctypes.c_void_p(stream), callback, None)

    place = getattr(stf.data_place, {place!r})(*{index})
    queue_callback()
    array = stf.DeviceArray(1 << 20, np.float32, place, stream)
    queue_callback()
    array.copy_to_device(np.ones(1 << 20, np.float32))
    queue_callback()
    print(int(array.copy_to_host().sum()))
    queue_callback()
    del array
    queue_callback()
    stf.synchronize(stream)
    driver.synchronize(stream)
    print(seen)
"""


@pytest.mark.parametrize(("place", "index"), [("device", (0,)), ("managed", ()), ("host", ())])
def test_a06_callbacks_of_others_run_while_memory_is_used(run_clean, place, index):
    folder = str(pathlib.Path(__file__).parent)
    program = A06_CALLBACK.format(folder=folder, place=place, index=index)
    found = run_clean(program, MILLSTREAM_MACHINE="cuda")
    assert found == "1048576\n[0, 1, 2, 3, 4]\n"


@pytest.mark.parametrize("use_graph", [False, True])
def test_a13_first_use_of_the_library_is_inside_of_a_capture(run_clean, use_graph):
    program = (
        PROLOGUE
        + f"""
    recording = record_sum(driver, stf.machine("cuda"), stream, arrays, use_graph={use_graph})
    for _ in range(3):
        recording.launch()
        print(arrays[2].get().sum())
    """
    )
    assert run_clean(program) == "1500.0\n" * 3


@pytest.mark.parametrize("use_graph", [False, True])
def test_a13_resources_used_outside_of_the_capture_do_no_harm(driver, machine, use_graph):
    shared = stf.async_resources()
    arrays = [DeviceArray(driver, np.zeros(500)) for _ in range(2)]
    with stf.context(use_graph=True, handle=shared, machine=machine) as ctx:
        run_fill(driver, ctx, ctx.logical_data(arrays[0]), 4)
    stream = driver.make_stream()
    with Recording(driver, stream) as recording:
        ctx = stf.context(stream=stream, handle=shared, use_graph=use_graph, machine=machine)
        run_fill(driver, ctx, ctx.logical_data(arrays[1]), 5)
        ctx.finalize()
    for _ in range(3):
        driver.upload(arrays[1].pointer, np.full(500, -1.0))
        recording.launch()
        assert arrays[1].get().tolist() == [5] * 500


@pytest.mark.parametrize("use_graph", [False, True])
def test_a12_capture_runs_again_with_other_contents(driver, machine, use_graph):
    arrays = [DeviceArray(driver, np.zeros(500)) for _ in range(3)]
    stream = driver.make_stream()
    recording = record_sum(driver, machine, stream, arrays, use_graph)
    for _ in range(3):
        for each in arrays:
            driver.upload(each.pointer, np.full(500, -1.0))
        recording.launch()
        assert arrays[2].get().tolist() == [3] * 500


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["global", "thread", "relaxed"])
def test_a15_captures_of_others_survive_what_we_do(driver, machine, mode):
    """Another thread opens contexts and runs tasks while this one captures."""
    array = DeviceArray(driver, np.zeros(64))
    stream = driver.make_stream()
    driver.scale(stream, array.pointer, 1, 64)  # loads it
    driver.synchronize(stream)
    failed = []
    ready, stop = threading.Event(), threading.Event()

    def work():
        try:
            driver.use(driver.primary())
            while not stop.is_set():
                values = np.ones(64)
                with stf.context(machine=machine) as ctx:
                    data = ctx.logical_data(values)
                    scratch = ctx.logical_data_empty((4096,))
                    ctx.submit(lambda view: None, scratch.write())
                    ctx.host_launch(data.rw(), fn=lambda x: np.add(x, 1, out=x))
                assert values.tolist() == [2] * 64
                ready.set()
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(LIMIT_S)
    results = []
    for _ in range(20):
        with Recording(driver, stream, mode) as recording:
            for _ in range(3):
                driver.scale(stream, array.pointer, 2, 64)
        driver.upload(array.pointer, np.ones(64))
        recording.launch()
        results.append(array.get().tolist())
    stop.set()
    thread.join(LIMIT_S)
    assert failed == []
    assert results == [[8] * 64] * 20


def test_a38_layouts_that_are_not_plain_are_refused_with_advice(ctx, driver):
    values = np.arange(12.0).reshape(3, 4)
    for array in (values[:, ::2], values[::-1], values.T, np.broadcast_to(values[0], (3, 4))):
        with pytest.raises(ValueError, match=r"not C-contiguous.*ascontiguousarray"):
            ctx.logical_data(array)
        with pytest.raises(ValueError, match=r"not C-contiguous.*ascontiguousarray"):
            ctx.logical_data(DeviceArray(driver, array, strides=array.strides))


def test_a39_read_only_array_is_never_written(ctx, two_devices, driver):
    values = np.ones(64)
    values.flags.writeable = False
    device_values = DeviceArray(driver, np.ones(64), readonly=True)
    copies = []
    for array in (values, device_values):
        data = ctx.logical_data(array)
        with pytest.raises(ValueError, match="read-only"):
            data.rw()
        copy = ctx.logical_data_empty((64,))
        with ctx.task(stf.exec_place.device(1), data.read(), copy.write()) as t:
            driver.fill(t.stream_ptr(), t.get_arg(1), 1, 64)
            driver.axpy(t.stream_ptr(), t.get_arg(1), t.get_arg(0), 1, 64)
        copies.append(copy)
    assert [ctx.wait(copy).tolist() for copy in copies] == [[2] * 64] * 2
    ctx.finalize()
    assert values.tolist() == device_values.get().tolist() == [1] * 64


@pytest.mark.parametrize("dtype", ["c8", "c16", "f2", "?", "i1", "u2", "u8"])
def test_a40_every_dtype_makes_the_round_trip(ctx, dtype):
    values = np.arange(16).astype(dtype)
    expected = ~values if dtype == "?" else values * np.array(3, dtype)
    data = ctx.logical_data(values)
    with ctx.task(data.rw()) as t:
        assert t.args_cai()["typestr"] == values.dtype.str
        t.args_cai().__dlpack__(stream=-1)
    with ctx.task(stf.exec_place.host(), data.rw()) as (x,):
        x[:] = ~x if dtype == "?" else x * np.array(3, dtype)
    with ctx.task(data.rw()):
        pass
    ctx.finalize()
    assert values.tobytes() == expected.tobytes()


def test_a41_array_is_not_read_before_its_producer_is_done(any_order, driver, machine):
    stream = driver.make_stream()
    for _ in range(12):
        array = DeviceArray(driver, np.zeros(1000), stream=stream)
        driver.spin(stream, 500)
        driver.fill(stream, array.pointer, 4, 1000)
        with stf.context(machine=machine) as ctx:
            data = ctx.logical_data(array)
            with ctx.task(data.rw()) as t:
                driver.scale(t.stream_ptr(), t.get_arg(0), 2, 1000)
        assert array.get().tolist() == [8] * 1000
        driver.free(array.pointer)


@pytest.mark.parametrize("device", [0, 1])
def test_a46_current_context_and_device_stay(driver, machine, device):
    if device >= machine.device_count:
        pytest.skip("needs two devices")
    # On one device a context of our own shows the same.
    before = driver.primary() if device else driver.make_context()
    driver.use(before)
    seen = []

    def note(_):
        seen.append(driver.current() == driver.primary(device))

    def fail(_):
        raise RuntimeError("on purpose")

    def body_that_raises(task):
        with task as t:
            t.stream_ptr()
            fail(t)

    place = stf.exec_place.device(device)

    def check(step):
        assert driver.current() == before, step

    with stf.context(machine=machine) as ctx:
        check("context")
        data = ctx.logical_data(np.ones(COUNT), name="data")
        temporary = ctx.logical_data_empty((COUNT,), name="temporary")
        check("logical_data")
        ctx.submit(note, data.rw(), place=place)
        check("submit")
        with ctx.task(temporary.write(), place) as t:
            driver.fill(t.stream_ptr(), t.get_arg(0), 3, COUNT)
        check("task")
        with pytest.raises(RuntimeError, match="on purpose"):
            body_that_raises(ctx.task(data.rw(), place))
        check("a task that raised")
        ctx.submit(fail, temporary.rw(), place=place)
        check("a function that raised")
        with pytest.raises(RuntimeError, match="on purpose"):
            ctx.wait(temporary)
        check("wait")
        del temporary
        check("the end of data")
        with pytest.raises(RuntimeError, match="on purpose"):
            ctx.wait(data)
    check("finalize")
    assert seen == [True]


A48_OUT_OF_MEMORY = """
    import millstream as stf
    import numpy as np

    with stf.context(machine=stf.machine("cuda")) as ctx:
        kept = ctx.logical_data(np.ones(8), name="kept")
        huge = ctx.logical_data_empty((2**37,), name="huge")  # 1 TiB
        try:
            with ctx.task(huge.write(), symbol="writer"):
                print("began")
        except MemoryError as error:
            print("writer" in str(error), "huge" in str(error), error.task, error.data)
        with ctx.task(kept.rw()):
            pass
        print(ctx.wait(kept).sum())
"""


def test_a48_memory_that_is_not_there_is_an_error_and_the_context_goes_on(run_clean):
    assert run_clean(A48_OUT_OF_MEMORY).splitlines() == ["True True writer 'huge'", "8.0"]


A48_ILLEGAL_ADDRESS = """
    import sys
    sys.path.insert(0, {folder!r})
    import cuda_driver
    import millstream as stf
    import numpy as np

    driver = cuda_driver.Driver(cuda_driver.LIBRARY)
    driver.use(driver.primary())
    ctx = stf.context(machine=stf.machine("cuda"))
    data = ctx.logical_data(np.ones(8), name="data")
    other = ctx.logical_data(np.ones(8), name="other")
    with ctx.task(other.rw(), symbol="innocent") as t:
        driver.fill(t.stream_ptr(), t.get_arg(0), 3, 8)
    ctx.wait(other)
    with ctx.task(data.rw(), symbol="culprit") as t:
        driver.launch("test_touch", t.stream_ptr(), 64)
    if {several}:
        with ctx.task(other.rw(), symbol="bystander") as t:
            driver.fill(t.stream_ptr(), t.get_arg(0), 3, 8)

    def tell(call):
        try:
            call()
            print("nothing")
        except stf.DeviceLostError as error:
            print(str(error).partition("what failed is ")[2].replace(__file__, "program"))

    def task():
        with ctx.task(data.rw(), symbol="next"):
            pass

    tell(lambda: ctx.wait(data))
    tell(task)
    tell(lambda: ctx.wait(data))
    tell(ctx.fence)
    tell(ctx.finalize)
    ctx.finalize()
    print("end")
"""


@pytest.mark.parametrize(
    ("several", "suspects"),
    [
        (False, "task 'culprit' (program:16)"),
        (True, "one of task 'culprit' (program:16), task 'bystander' (program:19)"),
    ],
)
def test_a48_illegal_address_names_the_task_and_the_program_ends_well(
    run_python, several, suspects
):
    folder = str(pathlib.Path(__file__).parent)
    done = run_python(A48_ILLEGAL_ADDRESS.format(folder=folder, several=several))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [suspects] * 5 + ["end"]
