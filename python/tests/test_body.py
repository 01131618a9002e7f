# SPDX-License-Identifier: Apache-2.0
"""submit, host_launch and current_task."""

import gc
import threading
import weakref

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(4.0), name="x")


def test_submit_returns_none_and_runs_later(ctx, x, gate):
    token, seen = ctx.token(), []
    ctx.host_launch(token.rw(), fn=gate.hold)
    result = ctx.submit(lambda a: seen.append(a.sum()), token.rw(), x.read(), place=HOST)
    assert result is None
    assert seen == []
    gate.open()
    ctx.finalize()
    assert seen == [6]


@pytest.mark.host_devices
def test_function_gets_arrays_then_args(ctx, x):
    token, y, seen = ctx.token(), ctx.logical_data(np.zeros((1, 2), "i4")), []

    def body(*args):
        seen.extend((a.shape, a.flags.writeable) for a in args[:2])
        seen.extend(args[2:])

    ctx.submit(body, x.read(), token.rw(), y.rw(), args=["tail", 5])
    ctx.host_launch(x.read(), token.rw(), y.rw(), fn=body, args=("host",))
    ctx.finalize()
    arrays = [((4,), False), ((1, 2), True)]
    assert seen == [*arrays, "tail", 5, *arrays, "host"]


def test_args_are_captured_at_the_call(ctx, gate):
    seen, values, token = [], [1], ctx.token()
    ctx.host_launch(token.rw(), fn=gate.hold)
    for i in range(3):
        ctx.submit(seen.append, token.rw(), args=(i,), place=HOST)
    ctx.host_launch(token.rw(), fn=seen.append, args=values)
    values[0] = 99
    gate.open()
    ctx.finalize()
    assert seen == [0, 1, 2, 1]


@pytest.mark.host_devices
def test_two_devices_work_at_the_same_time(ctx):
    barrier = threading.Barrier(2, timeout=60)
    for number in range(2):
        ctx.submit(lambda: barrier.wait(), place=stf.exec_place.device(number))
    ctx.finalize()
    assert not barrier.broken


@pytest.mark.host_devices
def test_submission_order_is_kept_per_datum(ctx, x):
    def step(array, number):
        array[:] = (array * 3 + number) % 1009

    expected = np.arange(4.0)
    for number in range(100):
        ctx.submit(step, x.rw(), args=(number,), place=stf.exec_place.device(number % 2))
        step(expected, number)
    assert ctx.wait(x).tolist() == expected.tolist()


def test_host_launch_updates_the_buffer(ctx):
    source = np.zeros(2)
    data = ctx.logical_data(source)
    for _ in range(3):
        ctx.host_launch(data.rw(), fn=lambda a: np.add(a, 1, out=a))
    ctx.finalize()
    assert source.tolist() == [3, 3]


def test_host_launch_without_deps_runs(ctx):
    seen = []
    ctx.host_launch(fn=seen.append, args=(1,))
    ctx.finalize()
    assert seen == [1]


def test_place_host_makes_a_host_function(ctx):
    places = []
    ctx.submit(lambda: places.append(stf.current_task().place), place=stf.exec_place.host())
    ctx.host_launch(fn=lambda: places.append(stf.current_task().place))
    ctx.finalize()
    assert places == [stf.exec_place.host()] * 2


@pytest.mark.parametrize("fn", [None, 3, "print"])
def test_what_is_no_function_is_a_type_error_at_once(ctx, fn):
    with pytest.raises(TypeError, match="callable"):
        ctx.submit(fn)
    with pytest.raises(TypeError, match="callable"):
        ctx.host_launch(fn=fn)


def test_bad_arguments_are_refused_before_anything_is_made(ctx, x):
    calls = [
        lambda: ctx.submit(print, x),
        lambda: ctx.submit(print, x.rw(), 3),
        lambda: ctx.submit(print, args=3),
        lambda: ctx.submit(print, place=3),
        lambda: ctx.submit(print, symbol=3),
        lambda: ctx.host_launch(x.rw(), x, fn=print),
        lambda: ctx.host_launch(fn=print, args=3),
        lambda: ctx.host_launch(x.rw()),
    ]
    before = ctx.stats()["tasks"]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert ctx.stats()["tasks"] == before
    assert ctx.wait(x).sum() == 6


@pytest.mark.host_devices
def test_current_task_is_the_running_function(ctx, x):
    seen = []

    def body(array):
        task = stf.current_task()
        assert task[0] is array
        assert task[x] is array
        assert task.args()[0] is array
        assert task.args_cai().ptr == array.ctypes.data
        assert isinstance(task.stream_ptr(), stf.CudaStream)
        assert task.stream_ptr() != 0
        seen.extend([task, task.symbol, task.place])

    ctx.submit(body, x.read(), symbol="inner", place=stf.exec_place.device(1))
    ctx.finalize()
    task, symbol, place = seen
    assert (symbol, place) == ("inner", stf.exec_place.device(1))
    assert stf.current_task() is None
    for use in (task.stream_ptr, task.args, task.args_cai, lambda: task[0]):
        with pytest.raises(stf.UsageError, match="has ended"):
            use()


def test_function_and_args_are_released_after_the_run(ctx):
    class Payload:
        pass

    payload = Payload()
    watch = weakref.ref(payload)
    ctx.submit(lambda _: None, args=(payload,))
    del payload
    ctx.finalize()
    gc.collect()
    assert watch() is None


def test_skipped_function_is_released_too(ctx, x):
    class Payload:
        pass

    payload = Payload()
    watch = weakref.ref(payload)
    ctx.submit(lambda a: 1 / 0, x.rw())
    ctx.submit(lambda a, b: None, x.read(), args=(payload,))
    del payload
    with pytest.raises(ZeroDivisionError):
        ctx.finalize()
    gc.collect()
    assert watch() is None


def test_body_may_submit_to_its_own_context(ctx, x):
    seen = []

    def outer():
        ctx.submit(lambda a: seen.append(a.sum()), x.read(), place=HOST)
        seen.append("outer")

    ctx.submit(outer, place=HOST)
    ctx.finalize()
    assert sorted(map(str, seen)) == ["6.0", "outer"]  # in any order


def test_finalize_waits_for_chains_of_host_functions_that_submit(ctx):
    seen = []

    def link(left):
        seen.append(left)
        if left > 0:
            ctx.host_launch(fn=link, args=(left - 1,))

    for _ in range(3):
        ctx.host_launch(fn=link, args=(20,))
    ctx.finalize()
    assert sorted(seen) == sorted([*range(21)] * 3)


def test_host_function_may_wait_for_what_is_not_behind_it(ctx, x):
    seen = []
    ctx.submit(lambda a: np.add(a, 1, out=a), x.rw(), place=HOST)
    ctx.host_launch(fn=lambda: seen.append(ctx.wait(x).sum()))
    ctx.finalize()
    assert seen == [10]


def test_finalize_inside_a_body_is_refused(ctx):
    errors = []

    def body():
        try:
            ctx.finalize()
        except stf.DeadlockError as error:
            errors.append(str(error))

    ctx.submit(body, place=HOST)
    ctx.finalize()
    assert len(errors) == 1


def test_waiting_for_oneself_is_refused(ctx, x):
    errors = []

    def body(array):
        with pytest.raises(stf.DeadlockError) as caught:
            ctx.wait(x)
        errors.append(str(caught.value))

    ctx.submit(body, x.rw(), place=HOST, symbol="V")
    ctx.finalize()
    (text,) = errors
    assert text.startswith(f"a wait inside task 'V' ({__file__}:")
    assert text.endswith("would wait for that body itself; wait after that body has ended")


def test_thread_locals_survive_from_body_to_body(ctx):
    local, seen = threading.local(), []

    def body():
        local.count = getattr(local, "count", 0) + 1
        seen.append((threading.get_ident(), local.count))

    token = ctx.token()
    for _ in range(20):
        ctx.submit(body, token.rw())
    ctx.finalize()
    per_thread = {}
    for thread, count in seen:
        per_thread.setdefault(thread, []).append(count)
    for counts in per_thread.values():
        assert counts == list(range(1, len(counts) + 1))


@pytest.mark.fault("A34")
@pytest.mark.host_devices
def test_temporaries_of_a_loop_are_reclaimed(ctx):
    total = ctx.logical_data(np.zeros(1))
    mib = 2**20

    def touch(scratch):
        scratch[-1] = 1

    for _ in range(5000):
        scratch = ctx.logical_data_empty((4 * mib,), np.uint8)
        ctx.submit(touch, scratch.write())
        ctx.submit(lambda s, t: np.add(t, s[-1], out=t), scratch.read(), total.rw())
        del scratch
    assert ctx.wait(total).tolist() == [5000]
    # Were no block ever given back, the device would hold this much.
    assert ctx.stats()["allocations"] * 4 * mib < 512 * mib
