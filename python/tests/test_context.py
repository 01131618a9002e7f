# SPDX-License-Identifier: Apache-2.0
"""context: life cycle, waiting, errors of bodies, statistics."""

import gc
import sys
import weakref

import millstream as stf
import numpy as np
import pytest

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(4.0), name="x")


def raises(error):
    def body(*_):
        raise error

    return body


def test_empty_context_ends_quietly(host):
    ctx = stf.context(machine=host)
    ctx.finalize()
    ctx.finalize()


def test_with_finalizes(host):
    source = np.zeros(2)
    with stf.context(machine=host) as ctx:
        with ctx.task(ctx.logical_data(source).write()) as (a,):
            a[:] = 1
    assert source.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="context handle is NULL"):
        ctx.fence()


def test_two_contexts_live_side_by_side(host):
    one, two = np.zeros(1), np.zeros(1)
    with stf.context(machine=host) as first, stf.context(machine=host) as second:
        first.submit(lambda a: a.fill(1), first.logical_data(one).write())
        second.submit(lambda a: a.fill(2), second.logical_data(two).write())
    assert (one[0], two[0]) == (1, 2)


def test_every_call_after_finalize_raises(host):
    ctx = stf.context(machine=host, trace=True)
    data = ctx.logical_data(np.zeros(2))
    ctx.finalize()
    for call in (ctx.fence, lambda: ctx.wait(data)):
        with pytest.raises(RuntimeError, match="context handle is NULL"):
            call()
    calls = [
        ctx.task, ctx.token, lambda: ctx.submit(print), lambda: ctx.host_launch(fn=print),
        lambda: ctx.logical_data(np.zeros(1)), lambda: ctx.logical_data_empty((1,)),
        lambda: ctx.logical_data_full((1,), 1), lambda: ctx.logical_data_zeros((1,)),
        lambda: ctx.logical_data_ones((1,)), data.empty_like,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(stf.UsageError, match=r"was finalized; open a new one"):
            call()
    with pytest.raises(stf.UsageError, match=r"was finalized; open a new one"), ctx:
        pass
    assert ctx.check_errors() is None
    assert "finalized" in repr(ctx)
    assert ctx.graph().nodes == []
    assert data.shape == (2,)


def test_options_may_be_positional():
    with pytest.raises(ValueError, match="stream 0"):
        stf.context(False, False, 0, machine=stf.machine("host"))
    stf.context(0, 0, None, None).finalize()


def test_stream_of_a_host_machine_is_a_queue(host, gate):
    values = np.zeros(2)
    outer = stf.context(machine=host)
    outer.host_launch(outer.logical_data(values).rw(), fn=gate.hold)
    stream = outer.fence()
    with stf.context(stream=stream, machine=host) as inner:
        data = inner.logical_data_empty((2,))
        assert inner.fence() == stream
        inner.submit(lambda x: x.fill(3), data.write())
        copy = inner.logical_data_empty((2,))
        inner.submit(np.copyto, copy.write(), data.read())
    gate.open()
    stf.synchronize(stream)
    outer.finalize()


def test_failures_on_a_callers_stream_are_asked_for(host):
    outer = stf.context(machine=host)
    ctx = stf.context(stream=outer.fence(), machine=host)
    ctx.submit(lambda: 1 / 0, ctx.token().write(), symbol="bad")
    ctx.finalize()
    stf.synchronize(outer.fence())
    outer.finalize()
    with pytest.raises(ZeroDivisionError):
        ctx.check_errors()
    ctx.finalize()


def test_machine_must_be_a_machine():
    with pytest.raises(TypeError, match="machine"):
        stf.context(machine="host")


def test_dropping_a_live_context_warns(host):
    live = [stf.context(machine=host)]
    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        live.clear()


def test_children_do_not_keep_their_context_alive(host):
    def make():
        return stf.context(machine=host).logical_data(np.zeros(3), name="orphan")

    with pytest.warns(ResourceWarning, match="without an explicit finalize"):
        data = make()
    assert "orphan" in repr(data)
    with stf.context(machine=host) as other, pytest.raises(ValueError, match="different context"):
        other.task(data.read())


def test_children_can_be_dropped_in_any_order(host):
    for order in ("ctx first", "data first"):
        ctx = stf.context(machine=host)
        data, token, task = ctx.logical_data(np.zeros(2)), ctx.token(), ctx.task()
        dep = data.rw()
        ctx.finalize()
        if order == "ctx first":
            del ctx
        with stf.context(machine=host):
            del data, token, task
        del dep
        gc.collect()


def test_context_can_be_weakly_referenced(host):
    ctx = stf.context(machine=host)
    watch = weakref.ref(ctx)
    ctx.finalize()
    del ctx
    assert watch() is None


def test_wait_gives_a_copy_and_the_context_goes_on(ctx, x):
    first = ctx.wait(x)
    with ctx.task(stf.exec_place.host(), x.rw()) as (a,):
        a += 1
    assert first.tolist() == [0, 1, 2, 3]
    assert first.flags.owndata
    assert ctx.wait(x).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("what", [None, 3, np.zeros(1)], ids=["None", "int", "array"])
def test_wait_takes_only_logical_data(ctx, what):
    with pytest.raises(TypeError, match="wait"):
        ctx.wait(what)


@pytest.mark.fault("A07")
@pytest.mark.parametrize("launch", ["submit", "host_launch"])
def test_exception_of_a_function_comes_from_finalize_as_itself(host, launch):
    boom = ValueError("boom-42")
    ctx = stf.context(machine=host)
    data = ctx.logical_data(np.zeros(1), name="x")
    if launch == "submit":
        ctx.submit(raises(boom), data.rw(), symbol="fails")
    else:
        ctx.host_launch(data.rw(), fn=raises(boom), symbol="fails")
    ctx.submit(print, data.read())
    with pytest.raises(ValueError, match="boom-42") as caught:
        ctx.finalize()
    assert caught.value is boom
    (note,) = boom.__notes__
    for part in ("'fails'", __file__, "'x'", "1 task was skipped"):
        assert part in note
    ctx.finalize()
    with stf.context(machine=host) as after:
        seen = []
        after.submit(seen.append, args=(1,))
    assert seen == [1]


def test_finalize_completes_the_rest_before_it_raises(host):
    good, bad = np.zeros(2), np.zeros(2)
    watch = weakref.ref(owner := good.view(type("Owner", (np.ndarray,), {})))
    ctx = stf.context(machine=host)
    lgood, lbad = ctx.logical_data(owner), ctx.logical_data(bad)
    ctx.submit(raises(ValueError("boom")), lbad.rw(), symbol="broken")
    for _ in range(3):
        ctx.submit(lambda a: np.add(a, 1, out=a), lgood.rw())
    del owner
    with pytest.raises(ValueError, match="boom"):
        ctx.finalize()
    assert (good.tolist(), bad.tolist()) == ([3, 3], [0, 0])
    assert watch() is None
    ctx.finalize()
    assert ctx.check_errors() is None


def test_several_errors_behind_a_failing_block_become_one_note_each(host):
    def run():
        with stf.context(machine=host) as ctx:
            for number in range(2):
                ctx.host_launch(fn=raises(ValueError(number)), symbol=f"task {number}")
            raise mine

    mine = RuntimeError("mine")
    with pytest.raises(RuntimeError, match="mine"):
        run()
    assert [f"ValueError: {number}" in note for number, note in enumerate(mine.__notes__)] == [
        True,
        True,
    ]


def test_wait_raises_what_nobody_has_seen(ctx, x):
    other = ctx.logical_data(np.zeros(1))
    ctx.submit(raises(KeyError("k")), other.rw())
    ctx.submit(lambda a, b: None, other.read(), x.rw())
    with pytest.raises(KeyError, match="k"):
        ctx.wait(x)
    with pytest.raises(stf.PoisonedError):
        ctx.wait(x)
    ctx.host_launch(x.write(), fn=lambda a: a.fill(3))
    assert ctx.wait(x).tolist() == [3] * 4


@pytest.mark.parametrize("end", ["wait", "finalize"])
def test_wait_is_for_its_data_only(ctx, x, gate, end):
    other = ctx.logical_data(np.zeros(1))

    def fail(*_):
        gate.hold()
        raise KeyError("k")

    ctx.host_launch(other.rw(), fn=fail)
    ctx.host_launch(x.write(), fn=lambda a: a.fill(3))
    assert ctx.wait(x).tolist() == [3] * 4
    assert not gate.is_open()
    gate.open()
    with pytest.raises(KeyError, match="k"):
        ctx.wait(other) if end == "wait" else ctx.finalize()
    assert ctx.check_errors() is None


@pytest.mark.fault("A07")
@pytest.mark.usefixtures("two_devices")
def test_several_exceptions_are_a_group_in_submission_order(ctx, gate):
    errors = [ValueError("one"), KeyError("two"), TypeError("three")]
    ctx.host_launch(fn=gate.hold)
    ctx.submit(raises(errors[0]), place=stf.exec_place.device(0))
    ctx.submit(raises(errors[1]), place=stf.exec_place.device(1))
    ctx.submit(raises(errors[2]), place=stf.exec_place.host())
    gate.open()
    with pytest.raises(ExceptionGroup) as caught:
        ctx.finalize()
    assert list(caught.value.exceptions) == errors
    assert all(each.__notes__ for each in errors)


def test_check_errors_gives_the_oldest(ctx, x):
    assert ctx.check_errors() is None
    errors = [ValueError("one"), KeyError("two")]
    token = ctx.token()
    for error in errors:
        ctx.submit(raises(error), place=stf.exec_place.host())
    ctx.submit(print, token.rw(), args=("",))
    stf.synchronize(ctx.fence())
    for error in errors:
        with pytest.raises(type(error)) as caught:
            ctx.check_errors()
        assert caught.value is error
    assert ctx.check_errors() is None


def test_base_exceptions_of_bodies_are_kept_too(ctx):
    ctx.submit(raises(SystemExit(3)))
    with pytest.raises(SystemExit):
        ctx.finalize()


def test_exception_of_a_with_body_is_not_raised_again(host):
    with stf.context(machine=host) as ctx:
        with pytest.raises(KeyError), ctx.task(ctx.token().rw()):
            raise KeyError


def test_errors_behind_a_failing_block_become_notes(host):
    mine, theirs = RuntimeError("mine"), ValueError("theirs")
    source = np.zeros(2)

    def run():
        with stf.context(machine=host) as ctx:
            ctx.submit(lambda a: a.fill(1), ctx.logical_data(source).write())
            ctx.submit(raises(theirs), symbol="broken")
            raise mine

    with pytest.raises(RuntimeError, match="mine") as caught:
        run()
    assert caught.value is mine
    (note,) = mine.__notes__
    assert "ValueError: theirs" in note
    assert "'broken'" in note
    assert source.tolist() == [1, 1]


def test_finalize_with_an_open_task_is_refused_before_anything_changes(ctx, x):
    with ctx.task(stf.exec_place.host(), x.rw(), symbol="open one") as (a,):
        with pytest.raises(stf.UsageError, match="open one"):
            ctx.finalize()
        a += 1
    assert ctx.wait(x).sum() == 10


def test_exceptions_die_with_their_context(host):
    class Local:
        pass

    def fail(payload):
        raise ValueError

    def run():
        payload = Local()
        ctx = stf.context(machine=host)
        data = ctx.logical_data(np.zeros(1))
        ctx.submit(lambda a, p: fail(p), data.rw(), args=(payload,))
        with pytest.raises(ValueError):  # noqa: PT011
            ctx.finalize()
        return weakref.ref(payload), data

    watch, data = run()
    gc.collect()
    assert watch() is None
    assert data.shape == (1,)


def test_stats_count_exactly(null_ctx):
    data = [null_ctx.logical_data_empty((4,)) for _ in range(3)]
    before = null_ctx.stats()
    for each in data:
        with null_ctx.task(each.write()):
            pass
    for _ in range(5):
        with null_ctx.task(data[0].read(), data[1].rw()):
            pass
    after = null_ctx.stats()
    assert after["tasks"] - before["tasks"] == 8
    assert (after["copies"], after["failed"], after["skipped"]) == (0, 0, 0)


def test_chain_on_the_null_machine_never_synchronizes(null_ctx):
    data = null_ctx.logical_data_empty((4,))
    with null_ctx.task(data.write()):
        pass
    before = null_ctx.stats()
    for _ in range(100):
        with null_ctx.task(data.rw()):
            pass
    after = null_ctx.stats()
    for count in ("records", "waits", "host_waits", "allocations", "copies", "queues"):
        assert after[count] == before[count]


def test_repr_tells_the_state(host):
    with stf.context(machine=host, check=True, trace=True) as ctx:
        assert repr(ctx) == "context(machine('host', devices=2), check=True, trace=True, live)"
