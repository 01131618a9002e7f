# SPDX-License-Identifier: Apache-2.0
"""Many threads on one object of each kind. What is asked for must be exact, whatever the order;
what is misused may raise an error of ours, and must neither crash nor be left half done.

They run on every Python; one without the global lock is where they find most.
"""

import contextlib
import ctypes
import gc
import sys
import sysconfig
import threading

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()
THREADS = 4
WITHOUT_LOCK = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(autouse=True)
def frequent_switches():
    """Where there is a lock, it changes hands as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work, count=THREADS):
    """`work(number)` in that many threads, which begin at the same time; what each gave."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(number):
        try:
            barrier.wait()
            results[number] = work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    return results


def add_one(a):
    a += 1


@pytest.mark.skipif(not WITHOUT_LOCK, reason="this Python has the global lock")
def test_the_package_does_not_bring_the_lock_back(run_clean):
    program = """
    import sys
    import millstream as stf, millstream.compat.cuda_stf, millstream.viz
    import millstream._core, millstream.interop.numba, millstream.interop.pytorch
    stf.context(machine=stf.machine("host")).finalize()
    print(sys._is_gil_enabled())
    """
    assert run_clean(program, "-W", "error") == "False\n"


# --- contexts


def test_one_context(ctx):
    rounds = 60
    shared = np.zeros(1, "i8")
    lshared = ctx.logical_data(shared, name="shared")

    def work(number):
        own = np.zeros((number + 1, 2), "i8")
        lown = ctx.logical_data(own, name=f"own {number}")
        for step in range(rounds):
            with ctx.task(HOST, lown.rw(), symbol=f"open {number}") as (a,):
                a += 1
            ctx.host_launch(lshared.rw(), fn=add_one)
            ctx.host_launch(lown.rw(), lshared.read(), fn=lambda a, _: add_one(a))
            scratch = ctx.logical_data_empty((number + 1, 2), ["i4", "f8", "c16"][step % 3])
            ctx.host_launch(scratch.write(), fn=lambda a, step=step: a.fill(step))
            if step % 10 == 0:
                assert np.all(ctx.wait(scratch) == step)
                assert np.all(lown.get().result() == 2 * (step + 1))
            assert ctx.stats()["tasks"] > 0
            assert "live" in repr(ctx)
        return own

    owned = together(work)
    ctx.finalize()
    assert shared[0] == THREADS * rounds
    for each in owned:
        assert np.all(each == 2 * rounds)


def test_a_context_that_is_finalized_by_all(machine):
    for _ in range(20):
        ctx = stf.context(machine=machine)
        source = np.zeros(1, "i8")
        data = ctx.logical_data(source)
        for _ in range(5):
            ctx.host_launch(data.rw(), fn=add_one)

        def work(number, ctx=ctx, data=data):
            with contextlib.suppress(stf.UsageError):
                while number < 2:
                    ctx.logical_data_empty((2,))
                    data.borrow_ctx_handle().task(data.read())
            ctx.finalize()

        together(work)
        assert source[0] == 5
        assert "finalized" in repr(ctx)


def test_failures_are_given_out_once(ctx):
    class MineError(ValueError):
        pass

    rounds = 20

    def fail(number, step):
        raise MineError(number, step)

    def work(number):
        seen = []
        for step in range(rounds):
            ctx.host_launch(fn=fail, args=(number, step))
            try:
                ctx.check_errors()
            except MineError as error:
                seen.append(error.args)
            gc.collect(0)
        return seen

    seen = [each for found in together(work) for each in found]
    try:
        ctx.finalize()
    except MineError as error:
        seen.append(error.args)
    except BaseException as group:
        seen += [each.args for each in group.exceptions]
    assert sorted(seen) == [(number, step) for number in range(THREADS) for step in range(rounds)]


def test_errors_know_their_line(ctx):
    with stf.context(machine=stf.machine("null")) as others:
        foreign = others.logical_data_empty((1,))

        def work(number):
            for line in range(number + 1, 300, THREADS):
                text = "\n" * (line - 1) + "ctx.task(foreign.read())"
                code = compile(text, f"file {number}.py", "exec")
                with pytest.raises(stf.InvalidValueError) as caught:
                    exec(code, {"ctx": ctx, "foreign": foreign})
                assert (caught.value.file, caught.value.line) == (f"file {number}.py", line)

        together(work)


def test_machines_are_one_object_each():
    for seed in range(10, 20):
        found = together(lambda _, seed=seed: stf.machine("host", devices=3, seed=seed))
        assert all(each is found[0] for each in found)
        assert together(lambda _, on=found[0]: on.device_count) == [3] * THREADS


def test_contexts_of_one_handle(host):
    resources = stf.async_resources()

    def work(number):
        source = np.zeros(8, "i8")
        for _ in range(15):
            with stf.context(use_graph=number % 2 == 0, handle=resources, machine=host) as ctx:
                data = ctx.logical_data(source)
                for _ in range(3):
                    ctx.submit(add_one, data.rw())
                ctx.fence()
            assert resources.executable_bytes >= 0
            assert "async_resources" in repr(resources)
        return source

    for each in together(work):
        assert np.all(each == 45)


# --- data


def test_one_datum(ctx):
    source = np.arange(6.0).reshape(2, 3)
    data = ctx.logical_data(source)

    def work(number):
        for step in range(100):
            data.set_symbol(f"name {number} {step}")
            assert data.symbol.startswith("name ")
            assert data.shape == (2, 3)
            assert "name" in repr(data)
            for access in (data.read(), data.write(), data.rw(HOST.affine_data_place)):
                assert access.get_ld() is data
                assert next(iter(access)) is data
            like = data.empty_like()
            assert (like.shape, like.dtype) == (data.shape, data.dtype)
            with ctx.task(HOST, data.read()) as (a,):
                assert a.sum() == 15
        assert ctx.wait(data).tolist() == data.get().result().tolist() == source.tolist()

    together(work)


def test_kinds_of_elements(ctx):
    kinds = ["i1", "f4", "c16", "S5", [("a", "i4"), ("b", "f8")], ("f4", (3,))]

    def work(number):
        for step in range(60):
            kind = np.dtype(kinds[(number + step) % len(kinds)])
            data = ctx.logical_data_empty((2,), kind)
            assert data.dtype == kind.base
            assert data.shape == (2, *kind.shape)
            assert f"bytes={2 * kind.itemsize}" in repr(data)

    together(work)


@pytest.mark.host_devices
def test_one_capsule_has_one_taker(machine):
    for _ in range(50):
        source = np.zeros(3)
        capsule = source.__dlpack__()
        ctx = stf.context(machine=machine)

        def work(_, ctx=ctx, capsule=capsule):
            try:
                return ctx.logical_data(capsule)
            except stf.InvalidTypeError:
                return None

        taken = [each for each in together(work) if each is not None]
        assert len(taken) == 1
        ctx.host_launch(taken[0].rw(), fn=add_one)
        ctx.finalize()
        assert source.tolist() == [1, 1, 1]


# --- tasks


def is_refused(call):
    try:
        call()
    except stf.UsageError:
        return True
    return False


def test_a_task_is_not_for_others_while_it_waits_for_its_data(ctx):
    source = np.zeros(1)
    data = ctx.logical_data(source)
    opened, may_end = threading.Event(), threading.Event()

    def hold():
        with ctx.task(HOST, data.rw()) as (a,):
            opened.set()
            assert may_end.wait(60)
            a += 1

    task = ctx.task(HOST, data.rw())

    def wait_and_scale():
        assert opened.wait(60)
        with task as (a,):
            a *= 10

    threads = [threading.Thread(target=each) for each in (hold, wait_and_scale)]
    for each in threads:
        each.start()
    while not is_refused(lambda: task.set_symbol("begun")):
        pass
    for call in (task.start, task.end, task.args, lambda: task.add_dep(data.read())):
        assert is_refused(call)
    may_end.set()
    for each in threads:
        each.join()
    ctx.finalize()
    assert source[0] == 10


ASKS = [
    lambda task: task.args(),
    lambda task: task.args_cai(),
    lambda task: task.get_arg_cai(0),
    lambda task: task.get_arg(0),
    lambda task: task[0],
    lambda task: task.stream_ptr(),
    lambda task: task._capsules(),
    lambda task: task._where(),
    lambda task: task.get_grid_dims(),
    lambda task: next(iter(task)),
    repr,
]


@pytest.mark.host_devices
@pytest.mark.parametrize("check", [False, True])
def test_one_open_task(machine, check):
    ctx = stf.context(machine=machine, check=check)
    data = ctx.logical_data(np.zeros(3))

    def use(task, number):
        for step in range(len(ASKS)):
            with contextlib.suppress(stf.UsageError):
                ASKS[(number + step) % len(ASKS)](task)
        with contextlib.suppress(stf.UsageError):
            task.end()

    for _ in range(100):
        task = ctx.task(data.rw())
        task.start()
        together(lambda number, task=task: use(task, number))
        assert "ended" in repr(task)
    ctx.finalize()


@pytest.mark.host_devices
def test_one_task_from_its_making_to_its_end(ctx):
    data = [ctx.logical_data(np.zeros(1)) for _ in range(THREADS)]

    def use(task, number):
        calls = [
            lambda: task.add_dep(data[number].rw()),
            lambda: task.set_symbol(f"thread {number}"),
            lambda: task.set_exec_place(HOST),
            task.start,
            task.args,
            task.end,
            lambda: task.__exit__(None, None, None),
        ]
        done = 0
        for call in calls:
            with contextlib.suppress(stf.UsageError):
                call()
                done += 1
        return done

    for _ in range(100):
        task = ctx.task()
        together(lambda number, task=task: use(task, number))
        assert "ended" in repr(task)


def test_with_blocks_in_many_threads(ctx):
    data = [ctx.logical_data(np.zeros(1, "i8")) for _ in range(THREADS)]

    def work(number):
        own = data[number]
        for _ in range(200):
            with ctx.task(HOST, own.rw()) as outer, ctx.task(HOST) as inner:
                assert outer is not inner
                outer[0][0] += 1
            with pytest.raises(KeyError), ctx.task(HOST) as task:
                raise KeyError(number)
            assert "ended" in repr(task)
            assert callable(task.__enter__)
        return ctx.wait(own)[0]

    assert together(work) == [200] * THREADS


@pytest.mark.host_devices
def test_views_of_a_task_that_ends(ctx):
    data = ctx.logical_data(np.zeros((2, 3)))
    asks = [
        lambda view: view.__array_interface__["shape"],
        lambda view: view["shape"],
        lambda view: view.get("shape"),
        lambda view: view.ptr,
        lambda view: view.shape,
        lambda view: view.__dlpack__(),
        lambda view: view.__dlpack_device__(),
        repr,
    ]
    for _ in range(50):
        task = ctx.task(data.rw())
        task.start()
        view = task.get_arg_cai(0)

        def work(number, task=task, view=view):
            if number == 0:
                task.end()
                return
            for ask in asks * 3:
                with contextlib.suppress(stf.UsageError):
                    ask(view)

        together(work)
        with pytest.raises(stf.UsageError, match="was used after its task"):
            view.ptr  # noqa: B018


@pytest.mark.host_devices
@pytest.mark.parametrize("check", [False, True])
def test_a_running_task_that_is_shown_to_others(machine, check):
    ctx = stf.context(machine=machine, check=check)
    data = ctx.logical_data(np.zeros(3))

    def use(task, number):
        for step in range(40):
            ask = ASKS[(number + step) % len(ASKS)]
            with contextlib.suppress(stf.UsageError, AttributeError, TypeError):
                ask(task)

    for _ in range(30):
        shown, begun = [], threading.Event()

        def body(a, shown=shown, begun=begun):
            shown.append(stf.current_task())
            begun.set()
            a += 1

        def work(number, shown=shown, begun=begun, body=body):
            if number == 0:
                ctx.submit(body, data.rw())
            assert begun.wait(60)
            use(shown[0], number)

        together(work)
        ctx.wait(data)
        with pytest.raises(stf.UsageError):
            shown[0].args()
    assert ctx.wait(data).tolist() == [30] * 3
    ctx.finalize()


@pytest.mark.host_devices
@pytest.mark.parametrize("use_graph", [False, True])
def test_kernels(host, use_graph):
    ctx = stf.context(use_graph=use_graph, machine=host)
    called = [0] * THREADS

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def kernel(number):
        called[number] += 1

    def work(number):
        data = ctx.logical_data(np.zeros(1))
        for _ in range(50):
            with ctx.cuda_kernel(data.rw()) as task:
                task.launch(kernel, 1, 1, [number])
                assert task.get_arg(0) != 0

    together(work)
    for _ in range(20):
        task = ctx.cuda_kernel(ctx.logical_data(np.zeros(1)).rw())
        task.start()

        def share(number, task=task):
            for call in (lambda: task.launch(kernel, 1, 1, [number]), task.end, lambda: repr(task)):
                with contextlib.suppress(stf.UsageError):
                    call()

        together(share)
        assert "ended" in repr(task)
    ctx.finalize()
    assert all(each >= 50 for each in called)


@pytest.mark.host_devices
def test_one_recorded_graph(host):
    source = np.zeros(4, "i8")
    ctx = stf.context(use_graph=True, machine=host)
    ctx.submit(add_one, ctx.logical_data(source).rw())
    graph = ctx.to_graph()

    def work(_):
        for _ in range(20):
            stf.synchronize(graph.launch())
            assert graph.node_count > 0
            assert "recorded_graph" in repr(graph)
            graph.check_errors()

    together(work)
    assert source.tolist() == [20 * THREADS] * 4


# --- futures, arrays


def test_one_future(ctx, gate):
    data = ctx.logical_data(np.arange(3.0))
    for _ in range(30):
        hold = threading.Event()
        called = []
        ctx.host_launch(data.read(), fn=lambda _, hold=hold: hold.wait(60))
        futures = [ctx.done(), data.get()]

        def work(number, futures=futures, hold=hold, called=called):
            done, content = futures
            content.add_done_callback(lambda _: called.append(number))
            if number == 0:
                hold.set()
            assert "Future" in repr(done)
            assert done.result() is None
            return content.result()

        contents = together(work)
        assert all(each is contents[0] for each in contents)
        ctx.done().result()
        assert sorted(called) == list(range(THREADS))


def test_a_future_that_fails_for_all(ctx):
    def fail(a):
        raise KeyError("mine")

    for _ in range(20):
        data = ctx.logical_data_empty((2,))
        ctx.host_launch(data.write(), fn=fail)
        future = data.get()

        def work(_, future=future):
            with pytest.raises(KeyError, match="mine"):
                future.result()
            return future.exception()

        raised = together(work)
        assert all(each is raised[0] for each in raised)
    ctx.finalize()


def test_device_arrays():
    place = stf.data_place.device(0)
    shared = stf.DeviceArray.from_host(np.arange(64), place)

    def work(number):
        for step in range(40):
            part = shared[number : number + 8]
            assert part.copy_to_host().tolist() == list(range(number, number + 8))
            assert part.__dlpack__(stream=None) is not None
            assert part.__dlpack_device__() == shared.__dlpack_device__()
            own = stf.DeviceArray(step + 1, "i4", place)
            own.copy_to_device(np.full(step + 1, number, "i4"))
            assert own[step:].copy_to_host().tolist() == [number]
            del own, part

    together(work)
    assert shared.copy_to_host().tolist() == list(range(64))
