# SPDX-License-Identifier: Apache-2.0
"""async_resources: what contexts share."""

import gc
import sys
import threading
import weakref

import millstream as stf
import numpy as np
import pytest


def open_and_use(machine, handle):
    """Numbers of the queues of ten tasks of one context, and how many queues it had."""
    with stf.context(handle=handle, machine=machine) as ctx:
        found = set()
        for _ in range(10):
            data = ctx.logical_data_empty((4,))
            with ctx.task(data.write()) as t:
                found.add(int(t.stream_ptr()))
        return found, ctx.stats()["queues"]


def test_contexts_share_the_streams_of_a_handle():
    machine = stf.machine("host", devices=2, seed=20_050)  # nobody else uses it
    handle = stf.async_resources()
    _, count = open_and_use(machine, handle)
    seen = set()
    for _ in range(20):
        seen |= open_and_use(machine, handle)[0]
    assert len(seen) <= count


def test_repr_shows_the_handle():
    one, two = stf.async_resources(), stf.async_resources()
    assert repr(one).startswith("async_resources(0x")
    assert repr(one) != repr(two)


def test_context_keeps_the_handle(machine):
    handle = stf.async_resources()
    watch = weakref.ref(handle)
    ctx = stf.context(handle=handle, machine=machine)
    del handle
    gc.collect()
    assert watch() is not None
    ctx.finalize()
    del ctx
    gc.collect()
    assert watch() is None


def test_other_handles_are_a_type_error(machine):
    for wrong in (1, "handle", stf.async_resources):
        with pytest.raises(TypeError, match=r"'handle'.*async_resources"):
            stf.context(handle=wrong, machine=machine)


def test_handle_may_come_by_position(machine):
    stf.context(False, False, None, stf.async_resources(), machine=machine).finalize()


def test_two_contexts_in_a_row_on_one_stream_need_no_wait_between(machine):
    handle, values = stf.async_resources(), np.ones(1000)
    with stf.context(machine=machine) as outer:
        stream = outer.fence()
        for factor in (3, 5):
            ctx = stf.context(stream=stream, handle=handle, machine=machine)
            data = ctx.logical_data(values)
            ctx.host_launch(data.rw(), fn=lambda x, f=factor: np.multiply(x, f, out=x))
            ctx.finalize()
        stf.synchronize(stream)
        assert (values == 15).all()


def run_lengths(machine, handle, lengths):
    """Stages of so many tasks each; what the context counted of its executables."""
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        data = ctx.logical_data_zeros((4,))
        ctx.fence()
        for length in lengths:
            for _ in range(length):
                ctx.submit(lambda *_: None, data.rw())
            ctx.fence()
        stats = ctx.stats()
        return stats["instantiations"], stats["updates"]


@pytest.mark.host_devices
def test_the_limit_of_kept_executables(host):
    handle = stf.async_resources(limit_bytes=0)
    assert run_lengths(host, handle, [2, 2, 2]) == (4, 0)
    assert (handle.executables, handle.executable_bytes) == (0, 0)
    handle = stf.async_resources()
    assert run_lengths(host, handle, [2, 2, 3]) == (3, 1)
    assert handle.executables == 3
    most = handle.executable_bytes
    assert most > 0
    handle = stf.async_resources(limit_bytes=most - 1)
    run_lengths(host, handle, [2, 2, 3])
    assert handle.executables == 2
    assert 0 < handle.executable_bytes < most


@pytest.mark.parametrize(
    ("limit", "raised"), [("1", TypeError), (None, TypeError), (1.5, TypeError), (-1, ValueError)]
)
def test_limits_that_are_none(limit, raised):
    with pytest.raises(raised, match="limit_bytes"):
        stf.async_resources(limit_bytes=limit)


# --- which executables are kept


def stage(ctx, length):
    """A stage of so many fills."""
    kept = [ctx.logical_data_zeros((4,)) for _ in range(length)]
    ctx.fence()
    return kept


def counts(ctx):
    stats = ctx.stats()
    names = ("hits", "updates", "instantiations")
    return tuple(stats[name] for name in names), {k: n for k, n in stats["misses"].items() if n}


def test_hits_are_counted(machine):
    with stf.context(use_graph=True, machine=machine) as ctx:
        for length in (1, 1, 2, 1, 2):
            stage(ctx, length)
        assert counts(ctx) == ((3, 3, 2), {"new shape": 2})
        assert ctx.stats()["stages"] == 5


def test_the_policy_is_asked_after_each_launch(machine):
    asked = []

    def policy(nodes, nbytes):
        asked.append((nodes, nbytes, handle.executables))
        return nodes > 1

    handle = stf.async_resources(policy=policy)
    assert handle.policy is policy
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        for length in (1, 2, 1, 2):
            stage(ctx, length)
        assert counts(ctx) == ((1, 1, 3), {"new shape": 2, "policy": 1})
        assert [(nodes, there) for nodes, _, there in asked] == [(1, 1), (2, 1), (1, 2), (2, 1)]
        assert all(type(nbytes) is int and nbytes > 0 for _, nbytes, _ in asked)
        assert handle.executable_bytes == asked[1][1]
    assert handle.executables == 1


def test_the_policy_may_be_changed(machine):
    handle = stf.async_resources()
    assert handle.policy is None
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        handle.policy = lambda nodes, nbytes: 0
        stage(ctx, 1)
        assert handle.executables == 0
        handle.policy = lambda nodes, nbytes: "yes"
        stage(ctx, 1)
        assert handle.executables == 1
        handle.policy = None
        stage(ctx, 1)
        assert (handle.policy, handle.executables) == (None, 1)
        assert counts(ctx) == ((1, 1, 2), {"new shape": 1, "policy": 1})


def test_a_policy_that_cannot_be_called_is_a_type_error():
    for wrong in (1, "all"):
        with pytest.raises(TypeError, match="'policy' is of type"):
            stf.async_resources(policy=wrong)
        handle = stf.async_resources()
        with pytest.raises(TypeError, match="'policy' is of type"):
            handle.policy = wrong
        assert handle.policy is None


@pytest.mark.parametrize("fault", ["raise", "answer", "arguments"])
def test_what_a_policy_raises_is_told_and_the_executable_is_kept(machine, monkeypatch, fault):
    class Odd:
        def __bool__(self):
            raise LookupError("no opinion")

    def policy(nodes, nbytes):
        if fault == "raise":
            raise LookupError("no opinion")
        return Odd()

    told = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda what: told.append((what.object, what.exc_type))
    )
    given = (lambda: True) if fault == "arguments" else policy
    handle = stf.async_resources(policy=given)
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        stage(ctx, 1)
        stage(ctx, 1)
        assert counts(ctx) == ((1, 1, 1), {"new shape": 1})
    assert told == [(given, TypeError if fault == "arguments" else LookupError)] * 2
    assert handle.executables == 1


def test_the_policy_may_use_the_context(machine):
    """It is asked once the call has let go of the context; here a stage is launched in a stage."""
    seen = []

    def policy(nodes, nbytes):
        seen.append((nodes, ctx.stats()["stages"]))
        if nodes == 2:
            stage(ctx, 3)
            seen.append("back")
        return True

    handle = stf.async_resources(policy=policy)
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        stage(ctx, 2)
        assert seen == [(2, 1), (3, 2), "back"]
        assert handle.executables == 2
        handle.policy = None


def test_the_policy_of_a_call_that_raises(machine):
    asked = []
    handle = stf.async_resources(policy=lambda *what: asked.append(what))
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        kept = ctx.logical_data_zeros((4,))
        with pytest.raises(RuntimeError):
            ctx.wait(ctx.logical_data_empty((4,)))
        ctx.wait(kept)
        assert len(asked) == ctx.stats()["stages"] == 1
    assert handle.executables == 0


def test_a_policy_that_waits_for_another_thread_on_the_context(machine):
    """The other thread needs the context's lock and the interpreter's."""
    answers = []

    def ask():
        answers.append(ctx.stats()["stages"])
        ctx.wait(other)

    def policy(nodes, nbytes):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return True

    handle = stf.async_resources()
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        other = ctx.logical_data_zeros((4,))
        ctx.fence()
        handle.policy = policy
        stage(ctx, 1)
        assert answers == [2]
        handle.policy = None


def test_contexts_of_two_threads_share_a_policy(machine):
    """Each is asked about its own launches, in its own thread."""
    asked = {"1": [], "2": []}
    stats = {}

    def policy(nodes, nbytes):
        asked[threading.current_thread().name].append(nodes)
        return nodes == 2

    handle = stf.async_resources(policy=policy)
    stages = 50
    together = threading.Barrier(2, timeout=60)

    def work(length):
        with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
            together.wait()
            for _ in range(stages):
                stage(ctx, length)
            stats[length] = ctx.stats()

    threads = [threading.Thread(target=work, args=(length,), name=str(length)) for length in (1, 2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert asked == {"1": [1] * stages, "2": [2] * stages}
    assert (stats[1]["hits"], stats[1]["instantiations"]) == (0, stages)
    assert (stats[2]["hits"], stats[2]["instantiations"]) == (stages - 1, 1)
    for each in stats.values():
        assert sum(each["misses"].values()) == each["instantiations"]
    assert handle.executables == 1


class Policy:
    def __call__(self, nodes, nbytes):
        return True


@pytest.mark.parametrize("through", ["resources", "context"])
def test_a_policy_that_leads_back_to_its_resources_is_collected(machine, through):
    handle = stf.async_resources()
    policy = Policy()
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        handle.policy = policy
        stage(ctx, 1)
    policy.back = handle if through == "resources" else ctx
    watches = [weakref.ref(each) for each in (policy, handle, ctx)]
    del policy, handle, ctx
    gc.collect()
    assert [watch() for watch in watches] == [None] * 3


def test_the_policy_of_an_open_context_is_not_collected(machine):
    handle = stf.async_resources(policy=Policy())
    watch = weakref.ref(handle.policy)
    watch().back = handle
    with stf.context(use_graph=True, machine=machine, handle=handle) as ctx:
        del handle
        gc.collect()
        stage(ctx, 1)
        assert watch() is not None
    del ctx
    gc.collect()
    assert watch() is None
