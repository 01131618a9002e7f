# SPDX-License-Identifier: Apache-2.0
"""Whoever drops what first: what a submitted task uses lives as long as that needs, and no longer.

A garbage collection comes after every line of these tests (fixture `collect_always`) and inside
the bodies.
"""

import gc
import itertools
import sys
import threading
import weakref

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()


@pytest.fixture(autouse=True)
def small_heap():
    """What other tests and their frameworks left is not looked at again and again."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def collect_always(small_heap):
    """Gives a function that collects; it is called after every line of the running test, too."""
    before = sys.gettrace()

    def trace(frame, event, _):
        if frame.f_code.co_filename != __file__:
            return None
        gc.collect()
        return trace

    sys.settrace(trace)
    yield gc.collect
    sys.settrace(before)


class Kept(np.ndarray):
    """An array that can be watched and can be part of a cycle."""


def kept_array():
    array = np.zeros(2).view(Kept)
    array.self = array
    return array


class AddOne:
    """A function that can be watched; `self` makes it part of a cycle."""

    def __init__(self):
        self.self = self

    def __call__(self, a, *_):
        gc.collect()
        a += 1
        gc.collect()


def submitted(ctx, gate):
    """Objects of one submitted function behind a closed gate, and what tells that they are alive.

    No variable of the caller refers to them.
    """
    source, function, argument = kept_array(), AddOne(), AddOne()
    data = ctx.logical_data(source)
    order = ctx.token()
    ctx.host_launch(order.write(), fn=gate.hold)
    dep = data.rw()
    ctx.submit(function, dep, order.rw(), args=(argument,), place=HOST)
    parts = {"source": source, "function": function, "argument": argument, "data": data}
    watches = {name: weakref.ref(each) for name, each in parts.items()}
    return {**parts, "dep": dep, "order": order}, watches


@pytest.mark.fault("A01")
def test_what_was_handed_over_lives_until_it_ran(ctx, gate, collect_always):
    parts, watches = submitted(ctx, gate)
    parts.clear()
    collect_always()
    assert watches["source"]() is not None
    assert watches["function"]() is not None
    assert watches["argument"]() is not None
    result = watches["source"]()
    gate.open()
    ctx.finalize()
    assert result.tolist() == [1, 1]
    del result
    collect_always()
    assert [name for name, watch in watches.items() if watch() is not None] == []


@pytest.mark.parametrize("first", ["source", "function", "argument", "data", "dep", "order"])
def test_every_order_of_dropping_gives_the_result(machine, first):
    rest = {"source", "function", "argument", "data", "dep", "order"} - {first}
    for order in itertools.permutations(sorted(rest), 3):
        ctx, opened = stf.context(machine=machine), threading.Event()
        gate = type("Gate", (), {"hold": lambda self, *_, opened=opened: opened.wait()})()
        parts, watches = submitted(ctx, gate)
        result = parts["source"]
        for name in (first, *order):
            del parts[name]
        opened.set()
        ctx.finalize()
        assert result.tolist() == [1, 1]
        assert (watches["data"]() is not None) == bool({"data", "dep"} & parts.keys())


def test_the_context_may_go_before_its_tasks_ran(machine, gate, collect_always):
    ctx = stf.context(machine=machine)
    parts, watches = submitted(ctx, gate)
    ran = threading.Event()
    ctx.host_launch(parts["order"].rw(), fn=ran.set)
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        del ctx
    parts.clear()
    collect_always()
    assert watches["function"]() is not None
    gate.open()
    assert ran.wait(60)


def test_an_open_task_keeps_its_data(ctx, collect_always):
    memory = np.zeros(2)
    source = memory.view(Kept)
    watch = weakref.ref(source)
    task = ctx.task(HOST, ctx.logical_data(source).rw())
    del source
    task.start()
    (array,) = task.args()
    array += 1
    assert watch() is not None
    del array
    task.end()
    del task
    assert watch() is None
    assert memory.tolist() == [1, 1]


def test_data_that_went_have_no_watchers_of_their_own(ctx):
    told = []

    def watched(number):
        fresh = ctx.logical_data_empty((4,))
        return fresh, weakref.ref(fresh, lambda _: told.append(number))

    watches = []
    for number in range(300):
        fresh, watch = watched(number)
        assert watch() is fresh
        assert [each() for each in watches] == [None] * number
        watches.append(watch)
        del fresh
        assert told == list(range(number + 1))


def test_an_ended_task_keeps_no_data_alive(ctx):
    for _ in range(3):
        temporary = ctx.logical_data_empty((1000,), np.float64)
        with ctx.task(temporary.write()) as t:  # the name lives on in the next round
            pass
        del temporary
    assert ctx.stats()["allocations"] == 1
    assert "1 deps" in repr(t)


@pytest.mark.fault("A01")
def test_arrays_of_an_ended_task_keep_their_memory(ctx, collect_always):
    with ctx.task(HOST, ctx.logical_data(np.zeros(3)).rw()) as (array,):
        array += 1
    assert array.tolist() == [1, 1, 1]


def test_a_context_in_a_cycle_with_an_exception_it_keeps_is_collected(machine):
    def make():
        ctx = stf.context(machine=machine)

        def body():
            raise ValueError(ctx)

        ctx.submit(body, place=HOST)
        stf.synchronize(ctx.fence())
        return weakref.ref(ctx)

    watch = make()
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        gc.collect()
    assert watch() is None


def test_a_context_that_a_body_in_a_cycle_broke_is_collected(machine):
    def make():
        ctx = stf.context(machine=machine)
        with pytest.raises(KeyError), ctx.task(HOST, ctx.token().rw()):
            raise KeyError
        return weakref.ref(ctx)

    watch = make()
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        gc.collect()
    assert watch() is None


def test_the_object_of_a_callers_stream_lives_as_long_as_the_context(machine, collect_always):
    class Stream:
        def __init__(self, number):
            self.number = number

        def __cuda_stream__(self):
            return (0, self.number)

    outer = stf.context(machine=machine)
    stream = Stream(int(outer.fence()))
    watch = weakref.ref(stream)
    ctx = stf.context(machine=machine, stream=stream)
    del stream
    assert watch() is not None
    ctx.finalize()
    del ctx
    collect_always()
    assert watch() is None
    outer.finalize()


def test_a_callers_stream_in_a_cycle_with_its_context_is_collected(machine):
    class Stream:
        def __cuda_stream__(self):
            return (0, self.number)

    outer = stf.context(machine=machine)
    stream = Stream()
    stream.number = int(outer.fence())
    stream.ctx = stf.context(machine=machine, stream=stream)
    stream.ctx.finalize()
    watch = weakref.ref(stream)
    del stream
    gc.collect()
    assert watch() is None
    outer.finalize()


def test_threads_drop_while_another_collects(ctx):
    done, errors = threading.Event(), []

    def collect():
        while not done.is_set():
            gc.collect()

    def work():
        try:
            for _ in range(30):
                source, function = kept_array(), AddOne()
                data = ctx.logical_data(source)
                ctx.submit(function, data.rw(), args=(function,), place=HOST)
                del function
                with ctx.task(HOST, data.rw()) as (a,):
                    a += 1
                assert ctx.wait(data).tolist() == [2, 2]
        except BaseException as error:
            errors.append(error)

    gc.freeze()
    collector = threading.Thread(target=collect)
    workers = [threading.Thread(target=work) for _ in range(3)]
    collector.start()
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    done.set()
    collector.join()
    gc.unfreeze()
    assert errors == []


def test_cycles_that_are_left_at_exit_do_no_harm(run_clean):
    program = """
        import gc
        import threading
        import numpy as np
        import millstream as stf

        class Everything:
            def __call__(self, *_):
                self.seen = True

        gc.disable()
        it = Everything()
        it.ctx, it.hold = stf.context(), threading.Event()
        it.source = np.zeros(2)
        it.data = it.ctx.logical_data(it.source)
        it.dep, it.self, it.place = it.data.rw(), it, stf.exec_place.host()
        it.task = it.ctx.task(it.ctx.token().rw())
        it.ctx.host_launch(it.dep, fn=lambda a: it.hold.wait())
        it.ctx.submit(it, it.dep, args=(it,), place=it.place)
        del it
        print("end")
    """
    assert run_clean(program) == "end\n"
