# SPDX-License-Identifier: Apache-2.0
"""Futures: context.done and logical_data.get."""

import asyncio
import concurrent.futures
import gc
import logging
import os
import signal
import sys
import threading
import weakref

import millstream as stf
import numpy as np
import pytest

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

HOST = stf.exec_place.host()


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(4.0), name="x")


def add_one(a):
    a += 1


def raises(error):
    def body(*_):
        raise error

    return body


def hold_back(ctx, gate, data=None):
    """A host function that ends when the gate opens; of `data`, if given."""
    ctx.host_launch(*([data.rw()] if data is not None else []), fn=gate.hold)
    gate.reached.wait()


# -- values --------------------------------------------------------------------------------------


def test_get_gives_a_new_array_of_the_content(ctx, x):
    ctx.submit(add_one, x.rw(), place=HOST)
    future = x.get()
    assert isinstance(future, stf.Future)
    assert isinstance(future, concurrent.futures.Future)
    value = future.result()
    assert (value.tolist(), value.dtype, value.flags.owndata) == ([1, 2, 3, 4], "f8", True)
    assert future.result() is value


def test_later_tasks_do_not_change_the_value(ctx, x, gate):
    hold_back(ctx, gate, x)
    futures = []
    for _ in range(5):
        ctx.submit(add_one, x.rw(), place=HOST)
        futures.append(x.get())
    assert not any(each.done() for each in futures)
    gate.open()
    assert [each.result()[0] for each in futures] == [1, 2, 3, 4, 5]


@pytest.mark.host_devices
def test_get_copies_from_a_device(ctx, x):
    for device in (0, 1):
        ctx.submit(add_one, x.rw(), place=stf.exec_place.device(device))
    assert x.get().result().tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "c16", "M8[s]", "S3", "i4, f8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_get_keeps_shape_and_dtype(ctx, dtype, shape):
    source = np.zeros(shape, dtype)
    value = ctx.logical_data(source).get().result()
    assert (value.shape, value.dtype) == (source.shape, source.dtype)
    assert value.tobytes() == source.tobytes()


def test_token_gives_none(ctx):
    assert ctx.token().get().result() is None


def test_done_gives_none_when_what_was_submitted_has_ended(ctx, x, gate):
    hold_back(ctx, gate)
    seen = []
    ctx.submit(seen.append, args=(1,), place=HOST)
    future = ctx.done()
    assert not future.done()
    gate.open()
    assert future.result() is None
    assert seen == [1]


def test_open_tasks_and_later_ones_are_not_waited_for(ctx, x, gate):
    with ctx.task(HOST, x.rw()):
        future = ctx.done()
        hold_back(ctx, gate)
        assert future.result() is None
    gate.open()


def test_get_of_data_in_an_open_task_of_the_same_thread_is_refused(ctx, x):
    with ctx.task(HOST, x.rw(), symbol="mine"), pytest.raises(stf.UsageError, match=r"get.*'mine'"):
        x.get()


def test_get_of_what_nothing_has_written_is_refused_at_once(ctx):
    data = ctx.logical_data_empty((2**45,), name="fresh")
    with pytest.raises(stf.NotWrittenError, match=r"^get reads 'fresh', which nothing") as caught:
        data.get()
    assert (caught.value.data, caught.value.file) == ("'fresh'", __file__)


def test_calls_after_finalize_are_refused(ctx, x):
    ctx.finalize()
    for call in (ctx.done, x.get):
        with pytest.raises(stf.UsageError, match="was finalized; open a new one"):
            call()


def test_the_null_machine_is_done_at_once(null_ctx):
    data = null_ctx.logical_data(np.zeros(3))
    assert data.get().result().shape == (3,)
    assert null_ctx.done().result() is None


# -- waiting -------------------------------------------------------------------------------------


def test_the_later_future_may_be_the_first_to_be_done(ctx, x, gate):
    hold_back(ctx, gate)
    slow, fast = ctx.done(), x.get()
    assert fast.result().tolist() == [0, 1, 2, 3]
    assert not slow.done()
    gate.open()
    slow.result()


def test_a_future_does_not_wait_for_unrelated_host_functions(ctx, x, gate):
    for _ in range(20):
        ctx.host_launch(fn=gate.hold)
    assert x.get().result()[1] == 1
    gate.open()


def test_time_limits(ctx, x, gate):
    hold_back(ctx, gate, x)
    future = x.get()
    for call in (future.result, future.exception):
        with pytest.raises(concurrent.futures.TimeoutError):
            call(timeout=0.001)
    gate.open()
    assert future.exception() is None
    assert future.result(timeout=60)[0] == 0


def test_finalize_comes_after_the_futures_are_done(machine, gate):
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(np.zeros(1))
        hold_back(ctx, gate, data)
        futures = [data.get() for _ in range(10)] + [ctx.done() for _ in range(10)]
        gate.open()
    assert all(each.done() for each in futures)


def test_futures_of_the_standard_library_know_it(ctx, x):
    futures = [x.get(), ctx.done()]
    done, left = concurrent.futures.wait(futures)
    assert (done, left) == (set(futures), set())
    assert set(concurrent.futures.as_completed(futures)) == set(futures)


def count_threads():
    return len(os.listdir("/proc/self/task"))


def test_no_future_has_a_thread_of_its_own(ctx, x, gate):
    hold_back(ctx, gate, x)
    x.get(), ctx.done()
    before = count_threads()
    done = [ctx.done() for _ in range(200)]
    assert count_threads() == before
    got = [x.get() for _ in range(200)]
    assert count_threads() <= before + 32  # lanes for copies
    gate.open()
    concurrent.futures.wait(done + got)


def test_ctrl_c_interrupts_result(ctx, x, gate):
    main = threading.main_thread().ident

    def body(_):
        while sys._current_frames()[main].f_code.co_name != "wait":
            pass
        os.kill(os.getpid(), signal.SIGINT)
        gate.hold()

    ctx.host_launch(x.rw(), fn=body)
    future = x.get()
    with pytest.raises(KeyboardInterrupt):
        future.result()
    gate.open()
    assert future.result()[0] == 0


def test_threads_wait_for_and_make_futures(ctx):
    data = ctx.logical_data(np.zeros(1, "i8"))
    errors = []

    def work():
        try:
            for number in range(50):
                ctx.submit(add_one, data.rw(), place=HOST)
                assert data.get().result()[0] > number
                ctx.done().result()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert data.get().result()[0] == 300


# -- host functions ------------------------------------------------------------------------------


def test_a_host_function_may_wait_for_a_future_that_does_not_need_it(ctx, x):
    seen = []
    ctx.submit(add_one, x.rw(), place=HOST)
    future = x.get()
    ctx.host_launch(fn=lambda: seen.append(future.result()[0]))
    ctx.finalize()
    assert seen == [1]


async def awaited(future):
    return await future


# Ways to wait for a future.
WAITS = {
    "result": lambda future: future.result(),
    "exception": lambda future: future.exception(),
    "await": lambda future: asyncio.run(awaited(future)),
    "await with a limit": lambda future: asyncio.run(asyncio.wait_for(awaited(future), 60)),
}


@pytest.mark.parametrize("how", WAITS)
@pytest.mark.parametrize("make", [lambda ctx, x: ctx.done(), lambda ctx, x: x.get()])
def test_a_host_function_that_waits_for_itself_is_refused(ctx, x, make, how):
    errors = []

    def body(_):
        with pytest.raises(stf.DeadlockError) as caught:
            WAITS[how](make(ctx, x))
        errors.append(str(caught.value))

    ctx.host_launch(x.rw(), fn=body, symbol="V")
    ctx.finalize()
    (text,) = errors
    assert text.startswith(f"waiting for a future inside task 'V' ({__file__}:")


def test_a_host_function_may_await_a_future_that_does_not_need_it(ctx, x, gate):
    hold_back(ctx, gate, x)
    seen, future = [], x.get()

    async def body():
        waiting = asyncio.create_task(awaited(future))
        await asyncio.sleep(0)  # it has begun, and the event loop is free
        gate.open()
        seen.append((await waiting).tolist())

    ctx.host_launch(fn=lambda: asyncio.run(body()))
    ctx.finalize()
    assert seen == [[0, 1, 2, 3]]


def test_a_future_made_in_a_host_function_is_done_after_it(ctx, x):
    futures = []
    ctx.host_launch(x.rw(), fn=lambda a: (add_one(a), futures.append(x.get())))
    ctx.finalize()
    assert futures[0].result().tolist() == [1, 2, 3, 4]


# -- callbacks -----------------------------------------------------------------------------------


def test_callbacks_are_called_once_with_the_future(ctx, x, gate):
    hold_back(ctx, gate, x)
    seen, future = [], x.get()
    for number in range(3):
        future.add_done_callback(lambda f, number=number: seen.append((number, f, f.result()[3])))
    gate.open()
    ctx.finalize()
    future.add_done_callback(lambda f: seen.append("at once"))
    assert seen == [(0, future, 3), (1, future, 3), (2, future, 3), "at once"]


def test_finalize_waits_for_what_callbacks_submit(machine):
    seen = []
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(np.zeros(1), name="x")

        def again(future):
            seen.append(future.result()[0])
            if len(seen) < 5:
                ctx.submit(add_one, data.rw(), place=HOST)
                data.get().add_done_callback(again)

        data.get().add_done_callback(again)
    assert seen == [0, 1, 2, 3, 4]


def test_a_callback_that_submits_behind_a_host_function_does_not_wait_for_it(ctx, x, gate):
    other, hold, submitted = ctx.logical_data(np.zeros(1)), threading.Event(), []

    def callback(_):
        ctx.submit(lambda a: None, other.rw())  # on a device, behind the host function
        submitted.append(gate.is_open())

    ctx.host_launch(x.rw(), fn=lambda a: hold.wait(60))
    x.get().add_done_callback(callback)
    hold_back(ctx, gate, other)
    hold.set()
    assert x.get().result()[0] == 0
    ctx.token().get().result()  # told after the callback has returned
    gate.open()
    ctx.finalize()
    assert submitted == [False]


def in_callback(ctx, gate, call):
    """What `call` raises in a callback, or None."""
    hold_back(ctx, gate)
    caught = []

    def callback(_):
        try:
            call()
            caught.append(None)
        except stf.Error as error:
            caught.append(error)

    future = ctx.done()
    future.add_done_callback(callback)
    gate.open()
    future.result()
    stf.synchronize(ctx.fence())
    ctx.finalize()
    return caught[0]


@pytest.mark.parametrize("call", [*WAITS, "finalize"])
def test_waiting_for_a_future_in_a_callback_is_refused(ctx, x, gate, call):
    other, second = ctx.logical_data(np.zeros(1)), threading.Event()

    def waiting():
        ctx.host_launch(other.rw(), fn=lambda a: second.wait(60))
        future = other.get()
        try:
            ctx.finalize() if call == "finalize" else WAITS[call](future)
        finally:
            second.set()

    error = in_callback(ctx, gate, waiting)
    assert isinstance(error, stf.DeadlockError)
    assert "inside a callback of a future" in str(error)


def test_context_wait_in_a_callback_works(ctx, x, gate):
    assert in_callback(ctx, gate, lambda: ctx.wait(x)) is None


def test_what_a_callback_raises_is_logged(ctx, x, gate, caplog):
    hold_back(ctx, gate, x)
    future = x.get()
    future.add_done_callback(raises(KeyError("in the callback")))
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        gate.open()
        ctx.finalize()
    assert "in the callback" in caplog.text
    assert future.result()[0] == 0


# -- errors --------------------------------------------------------------------------------------


def test_done_raises_the_users_own_exception_with_a_note(ctx, x):
    boom = ValueError("boom")
    ctx.submit(raises(boom), x.rw(), symbol="bad", place=HOST)
    ctx.submit(print, x.read(), place=HOST)
    future = ctx.done()
    with pytest.raises(ValueError, match="boom") as caught:
        future.result()
    assert caught.value is boom
    (note,) = boom.__notes__
    for part in ("'bad'", __file__, "'x'", "1 task was skipped"):
        assert part in note
    ctx.finalize()  # it was seen
    assert future.exception() is boom


def test_several_errors_are_a_group_in_submission_order(ctx, gate):
    errors = [ValueError("one"), KeyError("two")]
    hold_back(ctx, gate)
    for each in errors:
        ctx.submit(raises(each), place=HOST)
    future = ctx.done()
    ctx.submit(raises(TypeError("later")), place=HOST)
    gate.open()
    with pytest.raises(ExceptionGroup) as caught:
        future.result()
    assert list(caught.value.exceptions) == errors
    with pytest.raises(TypeError, match="later"):
        ctx.finalize()


def test_an_error_that_nobody_asked_for_is_raised_by_finalize(ctx, x):
    boom = ValueError("boom")
    ctx.submit(raises(boom), x.rw(), place=HOST)
    futures = [ctx.done(), x.get()]
    concurrent.futures.wait(futures)
    assert [repr(each) for each in futures] == [
        "Future(done(), ValueError)",
        "Future(get() of 'x', ValueError)",
    ]
    with pytest.raises(ValueError, match="boom"):
        ctx.finalize()
    assert len(boom.__notes__) == 1
    assert [each.exception() for each in futures] == [boom, boom]


def test_get_raises_the_error_of_its_data_only(ctx, x):
    other = ctx.logical_data(np.zeros(1))
    mine, theirs = ValueError("mine"), KeyError("theirs")
    ctx.submit(raises(theirs), other.rw(), place=HOST)
    assert x.get().result()[0] == 0
    ctx.submit(raises(mine), x.rw(), place=HOST)
    assert x.get().exception() is mine
    poisoned = x.get().exception()
    assert isinstance(poisoned, stf.PoisonedError)
    assert (poisoned.__cause__, poisoned.data) == (mine, "'x'")
    with pytest.raises(KeyError):
        ctx.finalize()


def test_a_write_heals_the_next_get(ctx, x):
    ctx.submit(raises(ValueError()), x.rw(), place=HOST)
    assert isinstance(x.get().exception(), ValueError)
    ctx.submit(lambda a: a.fill(7), x.write(), place=HOST)
    assert x.get().result().tolist() == [7] * 4


def test_done_does_not_raise_what_was_seen(ctx, x):
    ctx.submit(raises(ValueError()), x.rw(), place=HOST)
    with pytest.raises(ValueError):  # noqa: PT011
        ctx.wait(x)
    assert ctx.done().result() is None


def test_an_exception_dies_with_its_future(ctx, x):
    class Local:
        pass

    def make():
        local = Local()

        def body(_):
            raise ValueError(local)

        ctx.submit(body, x.rw(), place=HOST)
        future = ctx.done()
        with pytest.raises(ValueError):  # noqa: PT011
            future.result()
        return weakref.ref(local)

    gc.collect()
    watch = make()
    ctx.finalize()
    gc.collect()
    assert watch() is None


# -- giving up -----------------------------------------------------------------------------------


def test_cancel_gives_the_future_up_and_the_work_goes_on(ctx, x, gate):
    hold_back(ctx, gate, x)
    ctx.submit(add_one, x.rw(), place=HOST)
    seen, future = [], x.get()
    future.add_done_callback(seen.append)
    assert future.cancel()
    assert (future.cancelled(), seen) == (True, [future])
    assert repr(future) == "Future(get() of 'x', cancelled)"
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    gate.open()
    assert ctx.wait(x)[0] == 1
    done = x.get()
    done.result()
    assert not done.cancel()


def test_a_dropped_future_harms_nobody(ctx, x, gate):
    hold_back(ctx, gate, x)
    watch = weakref.ref(x.get())
    gate.open()
    ctx.finalize()
    gc.collect()
    assert watch() is None


def test_futures_of_a_dropped_context_complete(machine, gate):
    ctx = stf.context(machine=machine)
    data = ctx.logical_data(np.zeros(2))
    hold_back(ctx, gate, data)
    futures = [data.get(), ctx.done()]
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        del ctx
    del data
    gate.open()
    assert futures[0].result().tolist() == [0, 0]
    assert futures[1].result() is None


# -- asyncio -------------------------------------------------------------------------------------


def test_await(ctx, x, gate):
    hold_back(ctx, gate, x)

    async def main():
        got, done = x.get(), ctx.done()
        asyncio.get_running_loop().call_soon(gate.open)
        value = await got
        assert await got is value
        return value.tolist(), await done

    assert asyncio.run(main()) == ([0, 1, 2, 3], None)


def test_many_coroutines_await(ctx, x, gate):
    hold_back(ctx, gate, x)

    async def one(number):
        ctx.submit(add_one, x.rw(), place=HOST)
        return (await x.get())[0] == number + 1

    async def main():
        waiting = asyncio.gather(*(one(number) for number in range(50)))
        asyncio.get_running_loop().call_soon(gate.open)
        return await waiting

    assert all(asyncio.run(main()))


def test_await_raises_and_the_error_was_seen(ctx, x):
    ctx.submit(raises(ValueError("boom")), x.rw(), place=HOST)

    async def main():
        with pytest.raises(ValueError, match="boom"):
            await ctx.done()

    asyncio.run(main())
    ctx.finalize()


def test_await_wakes_up_for_a_stop_iteration(ctx, x):
    ctx.submit(raises(StopIteration()), x.rw(), place=HOST)

    async def main():
        with pytest.raises(RuntimeError, match="StopIteration"):
            await ctx.done()

    asyncio.run(main())


def test_a_cancelled_coroutine_leaves_the_future(ctx, x, gate):
    hold_back(ctx, gate, x)
    future = x.get()

    async def wait():
        return await future

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), 0.001)
        gate.open()
        return await future

    assert asyncio.run(main())[1] == 1
    assert not future.cancelled()


def test_a_loop_that_ended_is_not_woken(ctx, x, gate, caplog):
    hold_back(ctx, gate, x)
    future = x.get()

    async def main():
        waiting = asyncio.ensure_future(asyncio.wait_for(asyncio.shield(future._wake()), 60))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(main())
    gate.open()
    ctx.finalize()
    assert caplog.records == []
    assert future.result()[0] == 0


# -- the end of the process ----------------------------------------------------------------------


def test_futures_that_are_left_at_exit_are_unavailable(run_clean):
    program = """
        import atexit
        import threading
        import numpy as np
        import millstream

        futures = []

        def late():
            print(*(type(each.exception()).__name__ for each in futures))

        atexit.register(late)  # is called after our own handler
        ctx = millstream.context()
        data = ctx.logical_data(np.zeros(1))
        ctx.host_launch(data.rw(), fn=lambda a: threading.Event().wait())
        futures += [data.get(), ctx.done()]
        futures[0].add_done_callback(lambda f: print("called"))
    """
    assert run_clean(program) == "called\nUnavailableError UnavailableError\n"


def test_a_thread_that_waits_for_a_future_does_not_stop_the_exit(run_python):
    program = """
        import threading
        import millstream as stf

        ctx = stf.context()
        started = threading.Event()
        ctx.host_launch(fn=lambda: (started.set(), threading.Event().wait()))
        future = ctx.done()
        threading.Thread(target=future.result, daemon=True).start()
        started.wait()
        print("end")
    """
    done = run_python(program)
    assert (done.returncode, done.stdout) == (0, "end\n")


def test_a_future_never_completes_in_a_forked_child(run_clean):
    program = """
        import asyncio
        import os
        import threading
        import millstream as stf

        hold = threading.Event()
        ctx = stf.context()
        ctx.host_launch(fn=hold.wait)
        future = ctx.done()

        async def wait():
            await future

        if os.fork() == 0:
            refused = 0
            for call in (future.result, future.exception, lambda: asyncio.run(wait()), ctx.done):
                try:
                    call()
                except stf.UnavailableError:
                    refused += 1
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        hold.set()
        future.result()
        ctx.finalize()
    """
    assert run_clean(program, "-W", "ignore::DeprecationWarning") == "4\n"


def test_nothing_leaks(run_clean):
    program = """
        import gc
        import numpy as np
        import millstream as stf
        from millstream import _core

        _core._set_leak_warnings(True)

        def fail(*_):
            raise ValueError

        def main():
            with stf.context() as ctx:
                data = ctx.logical_data(np.zeros(4))
                for _ in range(10):
                    data.get().result()
                    ctx.done().cancel()
                    data.get().add_done_callback(lambda f: f.result())
                ctx.submit(fail, data.rw(), place=stf.exec_place.host())
                assert ctx.done().exception() is not None

        main()
        gc.collect()
    """
    run_clean(program)
