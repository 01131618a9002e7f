# SPDX-License-Identifier: Apache-2.0
"""Registered arrays that hold their own data: the collector of garbage ends such cycles as soon as
nothing else uses the data, whatever has become of the context."""

import gc
import time
import weakref

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()


@pytest.fixture(autouse=True)
def only_ours():
    """No collection but those of the tests, and of nothing but what they made."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


class Kept(np.ndarray):
    """An array with attributes."""


class WithEnd(Kept):
    """The same; it notes what it holds when it ends."""

    seen = None

    def __del__(self):
        if self.seen is not None:
            self.seen.append(self.tolist())


def array_of(memory, kind=Kept):
    return memory.view(kind)


def add_one(a):
    a += 1


def register(ctx, array):
    """The array in a cycle with its datum; gives what tells that the array is alive."""
    array.data_of_ours = ctx.logical_data(array)
    return weakref.ref(array)


def use_on_device(ctx, data):
    if ctx.machine.name == "host":
        ctx.submit(add_one, data.rw())
    else:
        with ctx.task(data.rw()):
            pass


USES = {
    "unused": lambda ctx, data: None,
    "read": lambda ctx, data: ctx.host_launch(data.read(), fn=lambda a: None),
    "written on the host": lambda ctx, data: ctx.host_launch(data.rw(), fn=add_one),
    "written on a device": use_on_device,
    "started": lambda ctx, data: ctx.task(HOST, data.rw()).__enter__().end(),
    "waited for": lambda ctx, data: ctx.wait(data),
    "fetched": lambda ctx, data: data.get().result(),
}


def all_done(ctx):
    """Nothing of the context runs any more, nor is anything of it kept by a thread of ours."""
    stf.synchronize(ctx.fence())
    ctx.done().result()
    ctx.token().get().result()


@pytest.mark.parametrize("use_graph", [False, True], ids=["immediate", "recorded"])
@pytest.mark.parametrize("use", USES)
def test_array_in_a_cycle_with_its_data_is_collected(machine, use, use_graph):
    ctx = stf.context(machine=machine, use_graph=use_graph)
    watch = register(ctx, array_of(np.zeros(2)))
    USES[use](ctx, watch().data_of_ours)
    all_done(ctx)
    gc.collect()
    all_done(ctx)  # lets go of what was written back
    ctx.token()
    ctx.logical_data(np.zeros(1))
    assert watch() is None
    ctx.finalize()


@pytest.mark.host_devices
def test_what_a_collected_array_shows_is_written_back(ctx):
    memory = np.zeros(2)
    watch = register(ctx, array_of(memory))
    ctx.submit(add_one, watch().data_of_ours.rw(), place=stf.exec_place.device(1))
    all_done(ctx)
    assert memory.tolist() == [0, 0]
    gc.collect()
    ctx.finalize()
    assert watch() is None
    assert memory.tolist() == [1, 1]


@pytest.mark.parametrize("use_graph", [False, True], ids=["immediate", "recorded"])
def test_array_of_a_task_in_flight_stays(machine, gate, use_graph):
    ctx, memory = stf.context(machine=machine, use_graph=use_graph), np.zeros(2)
    watch = register(ctx, array_of(memory))
    ctx.host_launch(watch().data_of_ours.rw(), fn=lambda a: (gate.hold(), add_one(a)))
    gc.collect()
    assert watch() is not None
    assert watch().data_of_ours is not None  # nothing was emptied
    if use_graph:
        ctx.done()
    gate.reached.wait()
    gc.collect()
    assert watch() is not None
    gate.open()
    all_done(ctx)
    gc.collect()
    assert watch() is None
    assert memory.tolist() == [1, 1]
    ctx.finalize()


def test_array_of_an_open_task_stays(ctx):
    memory = np.zeros(2)
    watch = register(ctx, array_of(memory))
    task = ctx.task(HOST, watch().data_of_ours.rw())
    gc.collect()
    assert watch() is not None
    task.start()
    (array,) = task.args()
    array += 1
    gc.collect()
    assert watch().data_of_ours is not None
    del array
    task.end()
    del task
    gc.collect()
    assert watch() is None
    assert memory.tolist() == [1, 1]


HOLDS = {
    "data": lambda ctx, memory, data: data,
    "dep": lambda ctx, memory, data: data.rw(),
    "again": lambda ctx, memory, data: ctx.logical_data(memory),
    "view": lambda ctx, memory, data: view_of_task(ctx, data),
    "future": lambda ctx, memory, data: data.get(),
}


def view_of_task(ctx, data):
    with ctx.task(HOST, data.rw()) as task:
        return task[0]


@pytest.mark.parametrize("hold", HOLDS)
def test_array_that_others_use_stays(ctx, gate, hold):
    memory = np.zeros(2)
    watch = register(ctx, array_of(memory))
    if hold == "future":
        ctx.host_launch(watch().data_of_ours.rw(), fn=gate.hold)
    held = HOLDS[hold](ctx, memory, watch().data_of_ours)
    gc.collect()
    assert watch().data_of_ours is not None
    gate.open()
    if hold == "future":
        held.result()
        all_done(ctx)
    del held
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("context", ["finalized", "dropped", "in the cycle"])
def test_the_context_may_have_ended(machine, use, context):
    ctx = stf.context(machine=machine)
    array = array_of(np.zeros(2))
    watch = register(ctx, array)
    USES[use](ctx, array.data_of_ours)
    all_done(ctx)
    gc.collect()
    if context == "finalized":
        ctx.finalize()
    elif context == "dropped":
        with pytest.warns(ResourceWarning, match="without an explicit finalize"):
            del ctx
    else:
        array.ctx = ctx
        del ctx
    gc.collect()
    assert watch() is array
    if context == "in the cycle":
        del array
        with pytest.warns(ResourceWarning, match="without an explicit finalize"):
            gc.collect()
    else:
        del array
        gc.collect()
    assert watch() is None


def test_array_of_a_dropped_context_stays_while_a_task_runs(machine, gate):
    ctx = stf.context(machine=machine)
    watch = register(ctx, array_of(np.zeros(2)))
    ctx.host_launch(watch().data_of_ours.rw(), fn=gate.hold)
    order = ctx.token()
    ctx.host_launch(order.rw(), watch().data_of_ours.rw(), fn=lambda a: None)
    done = ctx.done()
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        del ctx
    gc.collect()
    assert watch() is not None
    gate.open()
    done.result()
    del done, order
    gc.collect()
    assert watch() is None


@pytest.mark.host_devices
def test_array_with_an_end_of_its_own_sees_its_result(ctx):
    seen = []
    watch = register(ctx, array_of(np.zeros(2), WithEnd))
    watch().seen = seen
    ctx.submit(add_one, watch().data_of_ours.rw(), place=stf.exec_place.device(1))
    all_done(ctx)
    gc.collect()
    assert watch() is not None  # its write-back is still to come
    ctx.host_launch(watch().data_of_ours.read(), fn=lambda a: None)
    all_done(ctx)
    gc.collect()
    assert (watch(), seen) == (None, [[1, 1]])


def test_memory_of_others_stays_until_nothing_touches_it(ctx, gate):
    class Memory:
        """Frees its memory when it ends."""

        def __init__(self):
            self.array = np.zeros(2)
            self.__array_interface__ = self.array.__array_interface__

    memory = Memory()
    array = np.asarray(memory).view(Kept)
    array.memory = memory
    watch, at_end = register(ctx, array), []
    weakref.finalize(memory, at_end.append, "freed")
    ctx.host_launch(array.data_of_ours.rw(), fn=lambda a: (gate.hold(), add_one(a)))
    del memory, array
    gc.collect()
    assert (watch() is None, at_end) == (False, [])
    gate.open()
    all_done(ctx)
    gc.collect()
    assert (watch(), at_end) == (None, ["freed"])


def test_data_that_share_an_array_are_collected_together(ctx):
    memory = np.zeros(4)
    array = array_of(memory)
    array.parts = [ctx.logical_data(array[:3]), ctx.logical_data(array[1:], allow_overlap=True)]
    for part in array.parts:
        part_of = weakref.ref(part)
    ctx.host_launch(array.parts[0].rw(), fn=add_one)
    all_done(ctx)
    del array, part
    gc.collect()
    all_done(ctx)
    ctx.finalize()
    assert memory.tolist() == [1, 1, 1, 0]
    gc.collect()
    assert part_of() is None


def test_dlpack_producers_without_a_way_back_need_no_collector(ctx):
    class Producer:
        def __init__(self):
            self.array = np.zeros(2)

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

    producer = Producer()
    producer.data = ctx.logical_data(producer)
    watch = weakref.ref(producer)
    ctx.host_launch(producer.data.rw(), fn=add_one)
    del producer
    assert watch() is None


def test_dlpack_producers_with_a_way_back_stay_until_finalize(ctx):
    class Producer:
        def __init__(self):
            self.array = np.zeros(2).view(Kept)
            self.array.producer = self

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

    producer = Producer()
    producer.data = ctx.logical_data(producer)
    watch = weakref.ref(producer)
    del producer
    gc.collect()
    assert watch().data is not None
    ctx.finalize()
    gc.collect()
    assert watch() is None


def test_data_of_a_class_of_the_users(ctx):
    class Named(stf.logical_data):
        pass

    array = array_of(np.zeros(2))
    array.data_of_ours = Named(ctx, array)
    array.data_of_ours.array = array
    watches = [weakref.ref(array), weakref.ref(array.data_of_ours)]
    ctx.host_launch(array.data_of_ours.rw(), fn=add_one)
    all_done(ctx)
    del array
    gc.collect()
    assert [each() for each in watches] == [None, None]


def test_cycles_that_are_left_at_exit_do_no_harm(run_clean):
    assert run_clean("""
        import threading
        import numpy as np
        import millstream as stf

        class Kept(np.ndarray):
            pass

        def register(ctx):
            array = np.zeros(2).view(Kept)
            array.of_ours = ctx.logical_data(array)
            return array.of_ours

        ctx, hold = stf.context(), threading.Event()
        register(ctx)
        ctx.submit(lambda a: None, register(ctx).rw())
        ctx.host_launch(register(ctx).rw(), fn=lambda a: hold.wait())
        ctx.task(register(ctx).rw()).start()
        print("end")
    """, "-W", "ignore::ResourceWarning") == "end\n"  # fmt: skip


@pytest.mark.parametrize("hold", ["nothing", "the array", "the data"])
def test_what_the_collector_did_not_end_works_as_before(ctx, hold):
    memory = np.zeros(2)
    array = array_of(memory)
    watch = register(ctx, array)
    data = array.data_of_ours
    if hold != "the data":
        del data
    if hold != "the array":
        del array
    for _ in range(3):
        gc.collect()
    if hold == "nothing":
        assert watch() is None
        return
    data = watch().data_of_ours
    ctx.host_launch(data.rw(), fn=add_one)
    assert ctx.wait(data).tolist() == [1, 1]
    assert memory.tolist() == [1, 1]


class Trainer:
    """Holds a graph that calls one of its methods."""

    def __init__(self, machine, hand_over):
        self.x = np.ones(4)
        ctx = stf.context(machine=machine, use_graph=True)
        ctx.host_launch(ctx.logical_data(self.x).rw(), fn=hand_over(self.step), uses_device=False)
        self.graph = ctx.to_graph()

    def step(self, values):
        values *= 2


def weakly(method):
    found = weakref.WeakMethod(method)
    return lambda values: found()(values)


def test_a_graph_does_not_keep_what_its_function_holds_weakly(machine):
    """The way out where a graph would keep itself by its function, which is never collected."""
    trainer = Trainer(machine, weakly)
    stf.synchronize(trainer.graph.launch())
    assert trainer.x.tolist() == [2] * 4
    watch = weakref.ref(trainer)
    del trainer
    assert watch() is None


def test_a_graph_that_its_function_leads_to_works_until_it_is_dropped(machine):
    """The collector does not see what a graph keeps, since a launch may be on its way."""
    trainer = Trainer(machine, lambda method: method)
    stream = trainer.graph.launch()
    watch = weakref.ref(trainer)
    del trainer
    gc.collect()
    stf.synchronize(stream)
    stf.synchronize(watch().graph.launch())
    assert watch().x.tolist() == [4] * 4
    del watch().graph
    while watch() is not None:  # a thread of ours lets go of it
        time.sleep(0.001)
