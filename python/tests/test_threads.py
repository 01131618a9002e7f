# SPDX-License-Identifier: Apache-2.0
"""Threads, the interpreter lock, Ctrl-C."""

import contextlib
import os
import signal
import sys
import threading

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()


def run_all(workers):
    errors = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.fault("A25")
def test_sixteen_threads_submit_to_one_context(ctx):
    shared = np.zeros(1, "i8")
    lshared = ctx.logical_data(shared)
    private = [np.zeros(1, "i8") for _ in range(16)]

    def add_one(a):
        a += 1

    def worker(source):
        mine = ctx.logical_data(source)
        for number in range(500):
            with ctx.task(HOST, mine.rw()) as (a,):
                a += 1
            if number % 5 == 0:
                ctx.submit(add_one, lshared.rw(), place=HOST)

    run_all([lambda source=source: worker(source) for source in private])
    ctx.finalize()
    assert [each[0] for each in private] == [500] * 16
    assert shared[0] == 1600


def test_threads_use_their_own_contexts(host):
    results = []

    def worker():
        source = np.zeros(1)
        for _ in range(50):
            with stf.context(machine=host) as ctx:
                ctx.host_launch(ctx.logical_data(source).rw(), fn=lambda a: np.add(a, 1, out=a))
        results.append(source[0])

    run_all([worker] * 4)
    assert results == [50] * 4


def test_waiting_lets_other_threads_run(ctx, gate):
    data = ctx.logical_data(np.zeros(1))
    ctx.host_launch(data.rw(), fn=gate.hold)

    def opener():
        gate.reached.wait()
        gate.open()

    thread = threading.Thread(target=opener)
    thread.start()
    ctx.wait(data)
    thread.join()


def test_start_waits_without_the_interpreter_lock(ctx, gate):
    data = ctx.logical_data(np.zeros(1))
    ctx.host_launch(data.rw(), fn=gate.hold)
    thread = threading.Thread(target=lambda: (gate.reached.wait(), gate.open()))
    thread.start()
    with ctx.task(HOST, data.rw()) as (a,):
        a += 1
    thread.join()
    assert ctx.wait(data)[0] == 1


def test_conflicting_task_of_another_thread_is_waited_for(ctx):
    source = np.zeros(1)
    data = ctx.logical_data(source)
    opened, order = threading.Event(), []

    def second():
        opened.wait()
        with ctx.task(HOST, data.rw()) as (a,):
            order.append("second")
            a *= 10

    thread = threading.Thread(target=second)
    thread.start()
    with ctx.task(HOST, data.rw()) as (a,):
        opened.set()
        order.append("first")
        a += 1
    thread.join()
    ctx.finalize()
    assert order == ["first", "second"]
    assert source[0] == 10


def interrupt_when_blocked(function_name):
    """A body that sends Ctrl-C once the main thread is blocked in a line that calls `function`."""
    main = threading.main_thread().ident

    def body(gate):
        def is_blocked():
            frame = sys._current_frames()[main]
            return frame.f_code.co_name == function_name

        while not is_blocked():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        gate.hold()

    return body


@pytest.mark.parametrize("call", ["wait", "finalize", "start", "synchronize"])
def test_ctrl_c_interrupts_a_blocked_call(ctx, gate, call):
    data = ctx.logical_data(np.zeros(1))

    def blocked():
        {
            "wait": lambda: ctx.wait(data),
            "finalize": ctx.finalize,
            "start": lambda: ctx.task(HOST, data.rw()).start(),
            "synchronize": lambda: stf.synchronize(ctx.fence()),
        }[call]()

    interrupt = interrupt_when_blocked("blocked" if call == "finalize" else "<lambda>")
    ctx.host_launch(data.rw(), fn=lambda a: interrupt(gate))
    with pytest.raises(KeyboardInterrupt):
        blocked()
    gate.open()
    ctx.host_launch(data.rw(), fn=lambda a: np.add(a, 1, out=a))
    assert ctx.wait(data)[0] == 1


@pytest.mark.parametrize("call", ["submit", "host_launch"])
def test_ctrl_c_interrupts_a_submission_behind_an_open_task(ctx, gate, call):
    data = ctx.logical_data(np.zeros(1))
    interrupt, opened = interrupt_when_blocked("<lambda>"), threading.Event()

    def owner():
        with ctx.task(stf.exec_place.host(), data.rw()) as (a,):
            opened.set()
            interrupt(gate)
            a += 1

    thread = threading.Thread(target=owner)
    thread.start()
    opened.wait()
    submit = {
        "submit": lambda: ctx.submit(print, data.rw()),
        "host_launch": lambda: ctx.host_launch(data.rw(), fn=print),
    }[call]
    with pytest.raises(KeyboardInterrupt):
        submit()
    gate.open()
    thread.join()
    ctx.host_launch(data.rw(), fn=lambda a: np.multiply(a, 10, out=a))
    assert ctx.wait(data)[0] == 10


def test_signal_handlers_that_return_do_not_end_the_wait(ctx, gate):
    data, handled = ctx.logical_data(np.zeros(1)), []
    before = signal.signal(signal.SIGUSR1, lambda *_: (handled.append(1), gate.open()))
    try:
        ctx.host_launch(data.rw(), fn=lambda a: (os.kill(os.getpid(), signal.SIGUSR1), gate.hold()))
        ctx.wait(data)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled == [1]


def test_exception_of_a_signal_handler_is_the_one_raised(ctx, gate):
    def handler(*_):
        raise LookupError("from the handler")

    def run():
        ctx.host_launch(data.rw(), fn=lambda a: (os.kill(os.getpid(), signal.SIGUSR1), gate.hold()))
        ctx.wait(data)

    data = ctx.logical_data(np.zeros(1))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(LookupError, match="from the handler"):
            run()
        gate.open()
        ctx.wait(data)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.fault("A25")
def test_data_dropped_by_other_threads(ctx):
    def worker():
        for _ in range(100):
            scratch = ctx.logical_data_empty((16,))
            ctx.host_launch(scratch.write(), fn=lambda s: s.fill(1))
            del scratch

    run_all([worker] * 4)
    ctx.finalize()
    assert ctx.stats()["tasks"] == 400


@pytest.mark.fault("A06")
def test_any_mix_of_threads_and_host_functions_comes_to_an_end(machine):
    contexts = [stf.context(machine=machine) for _ in range(2)]
    data = [[ctx.logical_data(np.zeros(1, "i8")) for _ in range(3)] for ctx in contexts]

    def add_one(a):
        a += 1

    # Not the data of open tasks: where such a task waits behind this function, that is refused.
    calm = [ctx.logical_data(np.zeros(1, "i8")) for ctx in contexts]

    def nested(mine, _):
        contexts[mine].host_launch(calm[mine].rw(), fn=add_one)
        contexts[mine].host_launch(fn=int)
        with contextlib.suppress(stf.DeadlockError):
            contexts[mine].wait(calm[mine])

    def worker(mine):
        ctx, own = contexts[mine], data[mine]
        for number in range(20):
            one = own[number % 3]
            ctx.host_launch(one.rw(), fn=add_one)
            ctx.host_launch(fn=nested, args=(mine, number % 3))
            one.get().add_done_callback(lambda f: ctx.host_launch(fn=int))
            with ctx.task(HOST, one.rw()) as (a,):
                a += 1
            ctx.done().result() if number % 4 == 0 else ctx.wait(one)

    run_all([lambda mine=mine: worker(mine) for mine in (0, 1, 0, 1)])
    run_all([each.finalize for each in contexts])
    for each in contexts:
        each.finalize()


@pytest.mark.host_devices
def test_threads_that_share_one_open_task(ctx):
    asks = [
        lambda t: t.args(),
        lambda t: t.args_cai(),
        lambda t: t[0],
        lambda t: t.get_arg(0),
        lambda t: t._capsules(),
        repr,
    ]
    failed = []

    def use(task):
        try:
            for ask in [*asks, lambda t: t.end()]:
                with contextlib.suppress(stf.UsageError):  # another thread has ended it
                    ask(task)
        except BaseException as error:
            failed.append(error)

    data = ctx.logical_data(np.zeros(3))
    for _ in range(50):
        task = ctx.task(data.rw())
        task.start()
        threads = [threading.Thread(target=use, args=(task,)) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert "ended" in repr(task)
    assert failed == []
    assert ctx.wait(data).tolist() == [0] * 3


@pytest.fixture(params=[False, True], ids=["immediate", "recorded"])
def any_ctx(request, machine):
    return stf.context(machine=machine, use_graph=request.param)


def test_finalize_ends_although_other_threads_go_on_submitting(any_ctx, gate):
    source, accepted, refused = np.zeros(1, "i8"), [], []
    data = any_ctx.logical_data(source)
    any_ctx.host_launch(fn=gate.hold)

    def add_one(a):
        a += 1

    def submit_until_refused():
        try:
            while True:
                any_ctx.host_launch(data.rw(), fn=add_one)
                accepted.append(1)
        except stf.UsageError as error:
            refused.append(str(error))
        if len(refused) == 3:
            gate.open()

    threads = [threading.Thread(target=submit_until_refused) for _ in range(3)]
    for thread in threads:
        thread.start()
    any_ctx.finalize()
    for thread in threads:
        thread.join()
    assert source[0] == len(accepted)
    assert len(refused) == 3
    for each in refused:
        assert "context that was finalized (it is being finalized now); the context handle" in each


def test_host_functions_submit_while_other_threads_may_not(any_ctx, gate):
    token, closing, ran = any_ctx.token(), threading.Event(), []

    def body():
        closing.wait()
        any_ctx.host_launch(fn=ran.append, args=("submitted",))
        with any_ctx.task(HOST, any_ctx.token().rw()):
            ran.append("task")

    def submit_for_ever():
        while True:
            any_ctx.host_launch(fn=int)

    def refused():
        for call in (
            submit_for_ever,
            any_ctx.token,
            any_ctx.done,
            any_ctx.fence,
            token.get,
            lambda: any_ctx.wait(token),
            lambda: any_ctx.logical_data(np.zeros(2)),
            lambda: any_ctx.submit(int),
            any_ctx.task(token.rw()).start,
        ):
            with pytest.raises(stf.UsageError, match="is being finalized now"):
                call()
        closing.set()

    any_ctx.host_launch(fn=body)
    thread = threading.Thread(target=lambda: run_all([refused]))
    thread.start()
    any_ctx.finalize()
    thread.join()
    assert sorted(ran) == ["submitted", "task"]


def test_contexts_may_be_finalized_by_several_threads_at_once(any_ctx, gate):
    source = np.zeros(1)
    data = any_ctx.logical_data(source)
    any_ctx.host_launch(data.rw(), fn=lambda a: (gate.hold(), np.add(a, 1, out=a)))
    seen = []

    def finalize():
        any_ctx.finalize()
        seen.append(source[0])

    threads = [threading.Thread(target=finalize) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.reached.wait()
    gate.open()
    for thread in threads:
        thread.join()
    assert seen == [1] * 4
