# SPDX-License-Identifier: Apache-2.0
"""Bodies on the CUDA machine: functions handed over, host functions, the current device."""

import sys
import threading
import types
from contextlib import contextmanager

import millstream as stf
import numpy as np
import pytest

COUNT = 300


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.ones(COUNT), name="x")


@pytest.fixture
def nothing_current(driver):
    driver.use(None)


def test_function_is_called_at_once_with_views(ctx, driver, x):
    seen = []

    def double(view, factor):
        task = stf.current_task()
        seen.append((type(view), task.symbol, task.place, view is task[0] is task.args_cai()))
        driver.scale(task.stream_ptr(), view.ptr, factor, COUNT)
        return "ignored"

    assert ctx.submit(double, x.rw(), args=(2,), symbol="twice") is None
    assert seen == [(stf.stf_cai, "twice", stf.exec_place.device(0), True)]
    assert stf.current_task() is None
    assert ctx.wait(x).tolist() == [2] * COUNT


def test_function_on_the_host_runs_later_with_numpy_arrays(ctx, driver, gate, x):
    main = threading.get_ident()
    seen = []

    def add(values):
        gate.hold()
        seen.append(threading.get_ident() != main)
        values += 1

    def scale(view, factor):
        driver.scale(stf.current_task().stream_ptr(), view.ptr, factor, COUNT)

    ctx.submit(scale, x.rw(), args=(3,))
    ctx.submit(add, x.rw(), place=stf.exec_place.host())
    assert seen == []
    gate.open()
    ctx.submit(scale, x.rw(), args=(2,))  # begins when the function has ended
    assert seen == [True]
    assert ctx.wait(x).tolist() == [8] * COUNT


def test_views_of_a_function_are_dead_afterwards(ctx, x):
    kept = []
    ctx.submit(kept.append, x.read(), symbol="keeper")
    with pytest.raises(stf.UsageError, match=r"'keeper'.*had ended"):
        kept[0].ptr  # noqa: B018


def test_exception_of_a_function_comes_from_the_next_wait(ctx, x):
    def fail(view):
        raise ValueError("boom")

    ctx.submit(fail, x.rw(), symbol="bad")
    with pytest.raises(ValueError, match="boom"):
        ctx.wait(x)
    ctx.submit(lambda view: None, x.write())


def test_body_finds_its_device_current(ctx, two_devices, driver, nothing_current):
    data = ctx.logical_data_empty((COUNT,))
    for device in (1, 0):
        with ctx.task(stf.exec_place.device(device), data.write()) as t:
            assert driver.current() is None
            t.get_arg(0)
            assert driver.current() == driver.primary(device)
            driver.fill(t.stream_ptr(), t.get_arg(0), device, COUNT)
        assert driver.current() is None
        ctx.submit(
            lambda view: driver.scale(stf.current_task().stream_ptr(), view.ptr, 3, COUNT),
            data.rw(), place=stf.exec_place.device(device),
        )  # fmt: skip
        assert driver.current() is None
        assert ctx.wait(data).tolist() == [3 * device] * COUNT
        assert driver.current() is None


def test_callers_device_comes_back_after_an_exception(ctx, two_devices, driver, x):
    home = driver.primary(0)
    task = ctx.task(stf.exec_place.device(1), x.rw())

    def fail():
        with task:
            task.stream_ptr()
            assert driver.current() == driver.primary(1)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert driver.current() == home
    x = ctx.logical_data(np.zeros(2))
    ctx.submit(lambda view: 1 / 0, x.rw(), place=stf.exec_place.device(1))
    assert driver.current() == home
    with pytest.raises(ZeroDivisionError):
        ctx.wait(x)


def test_tasks_that_overlap_leave_the_device_as_it_was(ctx, two_devices, driver):
    home = driver.primary(0)
    one, two = (ctx.task(stf.exec_place.device(device)) for device in (1, 0))
    for task in (one, two):
        task.start()
        task.stream_ptr()
    assert driver.current() == home
    one.end()
    assert driver.current() == home
    two.end()
    assert driver.current() == home
    one, two = (ctx.task(stf.exec_place.device(device)) for device in (0, 1))
    for task in (one, two):
        task.start()
        task.stream_ptr()
    one.end()
    assert driver.current() == driver.primary(1)
    two.end()
    assert driver.current() == home


def test_task_that_another_thread_ends_does_not_touch_its_device(ctx, two_devices, driver):
    task = ctx.task(stf.exec_place.device(1))
    task.start()
    task.args()
    other = driver.primary(0)
    seen = []

    def end():
        driver.use(other)
        task.end()
        seen.append(driver.current())

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert seen == [other]
    with ctx.task(stf.exec_place.device(0)) as task:
        task.stream_ptr()
    assert driver.current() == driver.primary(0)


def test_body_that_looks_at_nothing_makes_no_call(look_alike, ctx, x):
    place = stf.exec_place.device(0)
    with ctx.task(place, x.rw()):
        pass
    before = look_alike.count(None)
    with ctx.task(place, x.rw()):
        pass
    assert look_alike.count(None) == before


def test_task_without_a_place_runs_on_the_current_device(ctx, two_devices, driver):
    data = ctx.logical_data_empty((2,))
    for device in (1, 0):
        driver.use(driver.primary(device))
        assert stf.exec_place.current_device() == stf.exec_place.device(device)
        assert stf.data_place.current_device() == stf.data_place.device(device)
        with ctx.task(data.write()) as t:
            assert t.args_cai().__dlpack_device__() == (2, device)


def test_host_function_may_use_the_device(ctx, driver, x):
    def triple(values):
        driver.use(driver.primary())
        stream = stf.current_task().stream_ptr()
        scratch = driver.allocate(values.nbytes)
        driver.upload(scratch, values)
        driver.scale(stream, scratch, 3, COUNT)
        driver.synchronize(stream)
        values[:] = driver.download(scratch, COUNT)
        driver.free(scratch)

    ctx.host_launch(x.rw(), fn=triple)
    assert ctx.wait(x).tolist() == [3] * COUNT


# --- frameworks, as far as they can be seen without a GPU


class Recorder:
    """Scopes that say when they are entered and left."""

    def __init__(self):
        self.events = []

    @contextmanager
    def scope(self, *what):
        self.events.append(what)
        try:
            yield
        finally:
            self.events.append(("end", *what))


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def fake_torch(monkeypatch, recorder):
    for module in ("torch", "cupy"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    from millstream.interop import pytorch

    monkeypatch.setattr(pytorch, "_switches", {})
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1,
        ExternalStream=lambda stream, device: (stream, device),
        stream=lambda stream: recorder.scope("torch", *stream),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.fixture
def fake_cupy(monkeypatch, recorder):
    from millstream.interop import cupy as adapter

    monkeypatch.setattr(adapter, "_switches", {})
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        Stream=types.SimpleNamespace(from_external=lambda stream: CupyStream(recorder, stream)),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


class CupyStream:
    """What may be entered more than once, as a stream of CuPy."""

    def __init__(self, recorder, stream):
        assert stream.__cuda_stream__() == (0, int(stream))
        recorder.events.append(("made", int(stream)))
        self._what = (recorder, "cupy", int(stream))

    def __enter__(self):
        self._what[0].events.append(self._what[1:])

    def __exit__(self, *raised):
        self._what[0].events.append(("end", *self._what[1:]))


def test_stream_is_current_in_imported_frameworks(ctx, x, recorder, fake_torch, fake_cupy):
    def body(view):
        recorder.events.append("body")
        streams.append(int(stf.current_task().stream_ptr()))

    streams = []
    ctx.submit(body, x.rw())
    stream = streams[0]
    assert recorder.events == [
        ("made", stream), ("cupy", stream), ("torch", stream, 0), "body",
        ("end", "torch", stream, 0), ("end", "cupy", stream),
    ]  # fmt: skip


def test_stream_is_wrapped_once(ctx, x, recorder, fake_cupy, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    streams = set()
    for _ in range(3):
        ctx.submit(lambda view: streams.add(int(stf.current_task().stream_ptr())), x.rw())
    made = [each for each in recorder.events if each[0] == "made"]
    assert sorted(made) == sorted(("made", stream) for stream in streams)


def test_older_cupy_gets_an_external_stream(ctx, x, recorder, fake_cupy, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    fake_cupy.cuda.Stream = type("Stream", (), {})
    fake_cupy.cuda.ExternalStream = lambda stream, device: recorder.scope("old", device)
    ctx.submit(lambda view: None, x.rw())
    assert recorder.events == [("old", 0), ("end", "old", 0)]


def test_stream_is_taken_back_when_the_body_raises(ctx, x, recorder, fake_torch):
    ctx.submit(lambda view: 1 / 0, x.rw())
    assert [each[0] for each in recorder.events] == ["torch", "end"]
    with pytest.raises(ZeroDivisionError):
        ctx.wait(x)


def test_frameworks_that_cannot_use_the_device_are_left_alone(ctx, x, recorder, fake_torch):
    fake_torch.cuda.is_available = lambda: False
    ctx.submit(lambda view: None, x.rw())
    fake_torch.cuda = None
    ctx.submit(lambda view: None, x.rw())
    ctx.submit(lambda values: None, x.rw(), place=stf.exec_place.host())
    ctx.wait(x)
    assert recorder.events == []


def test_nothing_is_imported_for_frameworks(run_clean):
    assert run_clean("""
        import sys
        import millstream as stf
        with stf.context(machine=stf.machine("cuda")) as ctx:
            ctx.submit(lambda view: None, ctx.logical_data_empty((2,)).write())
        names = ("torch", "cupy", "millstream.interop.")
        print(sorted(each for each in sys.modules if each.startswith(names)))
    """) == "['millstream.interop._current']\n"  # fmt: skip
