# SPDX-License-Identifier: Apache-2.0
"""Code of the user's that is called in the middle of a call of ours, and calls us again."""

import gc
import threading

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()


class Runs:
    """Does something whenever it is asked for a number, and is 0 or what it was told to be."""

    def __init__(self, what, number=0):
        self._what, self._number = what, number

    def __index__(self):
        self._what()
        gc.collect()
        return self._number


class RunsAtItsEnd:
    def __init__(self, what):
        self._what = what

    def __del__(self):
        self._what()


def in_a_thread(call):
    """Without a global lock an object ends on the thread that made it, while that is there.

    What this thread makes ends with its last reference.
    """
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


class Exports:
    """An array that does something while it is exported."""

    def __init__(self, what):
        self._array, self._what = np.ones(3), what

    def __dlpack_device__(self):
        self._what()
        gc.collect()
        return (1, 0)

    def __dlpack__(self, **options):
        self._what()
        gc.collect()
        return self._array.__dlpack__(**options)


@pytest.fixture
def open_ctx(machine):
    return stf.context(machine=machine)


def test_context_that_ends_while_it_reads_a_shape(open_ctx):
    with pytest.raises(stf.UsageError, match="finalized"):
        open_ctx.logical_data_empty((Runs(open_ctx.finalize, 3),))


def test_context_that_ends_while_an_array_is_exported(open_ctx):
    with pytest.raises(stf.UsageError, match="finalized"):
        open_ctx.logical_data(Exports(open_ctx.finalize))


def test_array_that_registers_others_while_it_is_exported(ctx):
    found = []
    data = ctx.logical_data(Exports(lambda: found.append(ctx.logical_data(np.zeros(2)))))
    assert (ctx.wait(data).tolist(), len(found)) == ([1] * 3, 2)


@pytest.mark.parametrize("use", ["get_arg", "get_arg_cai", "__getitem__"])
def test_task_that_ends_while_it_is_asked_for_an_argument(ctx, use):
    task = ctx.task(ctx.logical_data(np.zeros(2)).rw())
    task.start()
    task.args()
    with pytest.raises(stf.UsageError):
        getattr(task, use)(Runs(task.end))
    assert "ended" in repr(task)


@pytest.mark.parametrize(
    "use",
    [lambda t: t.args(), lambda t: t[0], lambda t: t[1], list],
    ids=["args", "0", "1", "list"],
)
@pytest.mark.host_devices
def test_task_cannot_end_while_its_arrays_are_made(host, monkeypatch, use):
    raised = []

    def guard(array, lease, index):
        with pytest.raises(stf.UsageError, match="while its arrays are being made") as caught:
            task.end()
        raised.append(caught.type)
        return array

    monkeypatch.setattr("millstream._checked.guard", guard)
    with stf.context(machine=host, check=True) as ctx:
        data = [ctx.logical_data(np.zeros(2)) for _ in range(2)]
        task = ctx.task(*(each.rw() for each in data))
        task.start()
        use(task)
        task.end()
    assert set(raised) == {stf.UsageError}


def test_objects_that_submit_at_their_end(ctx):
    called = []

    def at_the_end():
        ctx.host_launch(fn=called.append, args=(1,))

    def launch():
        ctx.host_launch(fn=lambda what: None, args=(RunsAtItsEnd(at_the_end),))

    for _ in range(5):
        in_a_thread(launch)
    ctx.finalize()
    assert called == [1] * 5


def test_objects_that_finalize_at_their_end(open_ctx, gate):
    raised = []

    def at_the_end():
        try:
            open_ctx.finalize()
        except stf.Error as error:
            raised.append(type(error))

    def launch():
        open_ctx.host_launch(fn=lambda what: gate.hold(), args=(RunsAtItsEnd(at_the_end),))

    in_a_thread(launch)
    gate.open()
    open_ctx.finalize()
    assert raised == [stf.DeadlockError]


def test_source_that_registers_at_its_end(open_ctx):
    made = []

    class Source(np.ndarray):
        def __del__(self):
            made.append(open_ctx.logical_data(np.zeros(3)))

    data = open_ctx.logical_data(np.zeros(3).view(Source))
    del data
    open_ctx.finalize()
    gc.collect()
    assert len(made) == 1


@pytest.mark.parametrize(
    "wait",
    [
        lambda ctx, data: ctx.wait(data),
        lambda ctx, data: data.get().result(),
        lambda ctx, data: ctx.done().result(),
        lambda ctx, data: stf.synchronize(ctx.fence()),
        lambda ctx, data: ctx.finalize(),
        lambda ctx, data: ctx.task(HOST, data.rw()).start(),
    ],
    ids=["wait", "get", "done", "fence", "finalize", "task"],
)
def test_body_that_waits_for_itself(ctx, wait):
    raised = []

    def body(_):
        try:
            wait(ctx, data)
        except stf.DeadlockError as error:
            raised.append(type(error))

    data = ctx.logical_data(np.zeros(2))
    ctx.host_launch(data.rw(), fn=body)
    ctx.finalize()
    assert raised == [stf.DeadlockError]


# nanobind warns before it refuses.
@pytest.mark.filterwarnings("ignore:nanobind:RuntimeWarning")
def test_objects_are_made_once(ctx):
    data = ctx.logical_data(np.zeros(2))
    view = stf.stf_cai(64, (1,), "f4")
    for made, arguments in ((ctx, ()), (data, (ctx, np.ones(3))), (view, (64, (1,), "f4"))):
        with pytest.raises(TypeError):
            made.__init__(*arguments)
    assert ctx.wait(data).tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore:nanobind:RuntimeWarning")
def test_classes_whose_constructor_was_skipped(ctx):
    class Half(stf.logical_data):
        def __init__(self):
            pass

    class HalfContext(stf.context):
        def __init__(self):
            pass

    for use in (
        lambda: ctx.task(Half().read()),
        lambda: ctx.task(stf.read(Half())),
        lambda: ctx.submit(print, stf.rw(Half())),
        lambda: ctx.wait(Half()),
        lambda: repr(Half()),
        lambda: HalfContext().token(),
        lambda: stf.logical_data(HalfContext(), np.zeros(2)),
        lambda: stf.logical_data.token(HalfContext()),
    ):
        with pytest.raises(TypeError):
            use()
    gc.collect()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_forked_child_drops_everything_without_a_word(run_clean):
    assert run_clean("""
        import gc, os, sys
        import numpy as np
        import millstream as stf

        ctx = stf.context()
        data = ctx.logical_data(np.zeros(2))
        task = ctx.task(data.rw())
        task.start()
        task.args()
        future = ctx.done()
        array = stf.DeviceArray(4, "f4", stf.data_place.host())
        view = array[1:]
        child = os.fork()
        if child == 0:
            del data, task, future, array, view
            gc.collect()
            sys.exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        task.end()
        ctx.finalize()
    """, "-W", "ignore::DeprecationWarning") == "5\n"  # fmt: skip
