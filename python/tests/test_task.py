# SPDX-License-Identifier: Apache-2.0
"""task: building, running, arguments, misuse, failures of `with` bodies."""

import gc

import millstream as stf
import numpy as np
import pytest

HOST = stf.exec_place.host()


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(4.0), name="x")


@pytest.mark.host_devices
def test_chain_gives_the_sequential_result(ctx):
    x, y, z = np.ones(16), np.ones(16), np.ones(16)
    lx, ly, lz = ctx.logical_data(x), ctx.logical_data(y), ctx.logical_data(z)
    with ctx.task(lx.rw()) as (a,):
        a *= 2
    with ctx.task(lx.read(), ly.rw(), stf.exec_place.device(1)) as (a, b):
        b += 2 * a
    with ctx.task(stf.exec_place.device(0), lx.read(), lz.rw()) as (a, c):
        c += 2 * a
    with ctx.task(ly.read(), lz.rw(stf.data_place.device(1))) as (b, c):
        c += 2 * b
    ctx.finalize()
    assert (x[0], y[0], z[0]) == (2, 5, 15)


def test_task_without_anything_is_legal(ctx):
    with ctx.task() as t:
        assert t.args() == ()
        assert t.args_cai() is None
    task = ctx.task(symbol="empty")
    task.start()
    task.end()


@pytest.mark.host_devices
def test_arguments_by_position_and_by_datum(ctx, x):
    token, y = ctx.token(), ctx.logical_data(np.zeros(2))
    with ctx.task(token.rw(), x.read(), y.rw()) as t:
        a, b = t.args()
        assert t[1] is a
        assert t[x] is a
        assert t[2] is b
        assert t[-1] is b
        assert [id(each) for each in t] == [id(a), id(b)]
        assert t.args() is t.args()
        assert t.get_arg(1) == a.ctypes.data
        with pytest.raises(RuntimeError, match="token"):
            t[0]
        with pytest.raises(RuntimeError, match="token"):
            t[token]
        with pytest.raises(RuntimeError, match="token"):
            t.get_arg(0)
        with pytest.raises(RuntimeError, match="token"):
            t.get_arg_cai(0)


def test_wrong_index_is_an_index_error(ctx, x):
    with ctx.task(x.read()) as t:
        for index in (1, -2):
            with pytest.raises(IndexError):
                t[index]
        with pytest.raises(IndexError):
            t.get_arg(1)
        with pytest.raises(IndexError):
            t.get_arg_cai(1)
        with pytest.raises(OverflowError):
            t.get_arg(-1)
        with pytest.raises(TypeError):
            t.get_arg(0.0)
        with pytest.raises(TypeError):
            t["x"]


def test_other_data_are_a_key_error_with_advice(ctx, x):
    other = ctx.logical_data(np.zeros(1), name="other")
    with ctx.task(x.read()) as t, pytest.raises(KeyError) as caught:
        t[other]
    assert str(caught.value).startswith("'other' is no dependency of the task; add it")


@pytest.mark.fault("A39")
@pytest.mark.host_devices
def test_readers_get_read_only_arrays(ctx, x):
    with ctx.task(x.read()) as (a,), pytest.raises(ValueError, match="read-only"):
        a[0] = 1
    with ctx.task(x.rw()) as (a,):
        assert a.flags.writeable


@pytest.mark.host_devices
def test_arrays_have_shape_dtype_and_flags(ctx):
    source = np.zeros((2, 3), ">i4")
    with ctx.task(ctx.logical_data(source).rw()) as (a,):
        assert type(a) is np.ndarray
        assert (a.shape, a.dtype) == (source.shape, source.dtype)
        assert a.flags.c_contiguous
        assert a.flags.aligned
        assert not a.flags.owndata


@pytest.mark.host_devices
def test_repeated_data_are_one_instance_with_merged_mode(ctx):
    source = np.zeros(3)
    data = ctx.logical_data(source)
    for deps in [(data.read(), data.rw()), (data.rw(), data.read()), (data.write(), data.read())]:
        with ctx.task(*deps) as t:
            assert t.get_arg(0) == t.get_arg(1)
            writable = t[0] if deps[0].mode & stf.AccessMode.WRITE else t[1]
            writable += 1
    ctx.finalize()
    assert source.tolist() == [3, 3, 3]


@pytest.mark.usefixtures("two_devices")
def test_contradicting_places_for_one_datum_are_an_error(ctx, x):
    task = ctx.task(x.read(stf.data_place.device(0)), x.read(stf.data_place.device(1)))
    with pytest.raises(ValueError, match="'x'"):
        task.start()
    assert ctx.wait(x).tolist() == [0, 1, 2, 3]


def test_read_and_write_dependencies_wait_for_each_other(ctx, x, gate):
    ctx.host_launch(fn=gate.hold)
    ctx.host_launch(x.rw(), fn=lambda a: np.add(a, 1, out=a))
    gate.open()
    with ctx.task(HOST, x.read()) as (a,):
        assert a.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("what", [3, "x", None, object()], ids=lambda what: type(what).__name__)
def test_other_arguments_are_a_type_error(ctx, what):
    with pytest.raises(TypeError, match=r"^a task \(.*\) got an argument of type .*data\.read\(\)"):
        ctx.task(what)


def test_bare_data_are_refused_with_a_hint(ctx, x):
    with pytest.raises(TypeError, match="says nothing about access"):
        ctx.task(x)


def test_second_place_is_a_value_error(ctx, x):
    with pytest.raises(ValueError, match="two execution places"):
        ctx.task(stf.exec_place.device(0), x.read(), stf.exec_place.host())


@pytest.mark.parametrize("symbol", [3, b"x"])
def test_symbol_must_be_a_str(ctx, symbol):
    with pytest.raises(TypeError, match="symbol"):
        ctx.task(symbol=symbol)


@pytest.mark.parametrize("kind", [str, type("name", (str,), {})])
def test_only_a_plain_str_is_a_name(ctx, x, kind):
    name = kind("a")
    calls = [
        lambda: ctx.task(symbol=name),
        lambda: ctx.task().set_symbol(name),
        lambda: ctx.cuda_kernel(symbol=name),
        lambda: ctx.cuda_kernel().set_symbol(name),
        lambda: x.set_symbol(name),
        lambda: ctx.submit(lambda: None, symbol=name),
        lambda: ctx.host_launch(fn=lambda: None, symbol=name),
        lambda: ctx.logical_data_empty((1,), name=name),
        lambda: ctx.logical_data(bytearray(1), name=name),
    ]
    for call in calls:
        if kind is str:
            call()
        else:
            with pytest.raises(TypeError, match=r"'(name|symbol)' is of type name; pass a plain"):
                call()


def test_none_is_no_place(ctx, x):
    with pytest.raises(TypeError):
        ctx.task(x.read(), None)


def test_dep_parts_are_checked_when_the_task_takes_them(ctx, x):
    with pytest.raises(TypeError, match="must be a logical_data"):
        ctx.task(stf.read(3))
    with pytest.raises(TypeError, match="dplace"):
        ctx.task(x.read("host"))
    with pytest.raises(TypeError, match="pass accesses"):
        ctx.task().add_dep(x)
    with pytest.raises(TypeError, match="place"):
        ctx.task().set_exec_place(0)


def test_data_of_another_context_are_refused(ctx, host, x):
    with stf.context(machine=host) as other:
        with pytest.raises(ValueError, match="different context"):
            other.task(x.read())
        with pytest.raises(ValueError, match="different context"):
            other.submit(print, x.read())
        with pytest.raises(ValueError, match="different context"):
            other.host_launch(x.read(), fn=print)
        with pytest.raises(ValueError, match="different context"):
            other.wait(x)
    assert ctx.wait(x).sum() == 6


@pytest.mark.host_devices
def test_explicit_building_and_running(ctx, x):
    task = ctx.task()
    task.set_symbol("built")
    task.add_dep(x.rw())
    task.set_exec_place(stf.exec_place.device(1))
    task.start()
    task.args()[0][:] = 9
    task.end()
    assert "built" in repr(task)
    assert ctx.wait(x).tolist() == [9] * 4


def test_accessors_outside_of_the_body_raise(ctx, x):
    task = ctx.task(x.rw())
    accessors = [
        task.stream_ptr, task.args, task.args_cai, lambda: task.get_arg(0), lambda: task[0],
        lambda: task.get_arg_cai(0), lambda: list(task), lambda: task[x],
    ]  # fmt: skip
    for state in ("before start", "after end"):
        for access in accessors:
            with pytest.raises(stf.UsageError):
                access()
        if state == "before start":
            with task:
                pass


def test_place_with_one_member_has_one_stream_and_no_grid(ctx, x):
    task = ctx.task(x.rw())
    helpers = (task.get_stream_ptrs, task.get_grid_dims, lambda: task.get_stream_at_index(0))
    for helper in helpers:
        with pytest.raises(RuntimeError):
            helper()
    with task:
        streams = task.get_stream_ptrs()
        assert streams == [task.stream_ptr()]
        assert isinstance(streams[0], stf.CudaStream)
        assert streams[0] != 0
        assert task.get_grid_dims() is None
        with pytest.raises(RuntimeError, match=r"is no grid.*stream_ptr\(\)"):
            task.get_stream_at_index(0)
        with pytest.raises(TypeError, match="index"):
            task.get_stream_at_index("a")
    for helper in helpers:
        with pytest.raises(RuntimeError):
            helper()


def test_wrong_order_of_calls_raises(ctx, x):
    task = ctx.task(x.rw(), symbol="t")
    with pytest.raises(stf.UsageError, match="'t'"):
        task.end()
    task.start()
    for call in (
        task.start,
        lambda: task.add_dep(x.read()),
        lambda: task.set_exec_place(stf.exec_place.host()),
        lambda: task.set_symbol("u"),
    ):
        with pytest.raises(stf.UsageError, match="'t'"):
            call()
    task.end()
    for call in (task.start, task.end):
        with pytest.raises(stf.UsageError, match="'t'"):
            call()
    assert ctx.wait(x).sum() == 6


def test_ending_inside_the_block_is_enough(ctx, x):
    with ctx.task(x.rw()) as t:
        t.end()


def test_task_never_started_may_be_dropped(ctx, x):
    ctx.task(x.rw())
    assert ctx.wait(x).sum() == 6


def test_task_outlives_its_context(host):
    ctx = stf.context(machine=host)
    task = ctx.task(ctx.logical_data(np.zeros(1)).rw())
    ctx.finalize()
    with pytest.raises(RuntimeError, match="finalize"):
        task.start()
    del ctx
    gc.collect()
    del task


def test_host_task_gives_host_memory(ctx):
    source = np.zeros(3)
    data = ctx.logical_data(source)
    with ctx.task(stf.exec_place.host(), data.rw()) as (a,):
        assert a.ctypes.data == source.ctypes.data
        a += 1
    assert source.tolist() == [1, 1, 1]


def test_conflicting_open_task_in_the_same_thread_is_an_error(ctx, x):
    with ctx.task(x.read(), symbol="outer"):
        with ctx.task(x.read(), symbol="second reader"):
            pass
        with pytest.raises(stf.UsageError, match=r"(?s)'inner'.*'outer'"):
            ctx.task(x.rw(), symbol="inner").start()
    assert ctx.wait(x).sum() == 6


@pytest.mark.fault("A32")
def test_never_written_data_cannot_be_read(ctx):
    data = ctx.logical_data_empty((4,), name="fresh")
    for dep in (data.read(), data.rw()):
        with pytest.raises(stf.NotWrittenError, match=r"(?s)'reader'.*'fresh'|'fresh'.*'reader'"):
            ctx.task(dep, symbol="reader").start()
    with pytest.raises(stf.NotWrittenError, match="'fresh'"):
        ctx.wait(data)
    with ctx.task(HOST, data.write()) as (a,):
        a[:] = 1
    assert ctx.wait(data).sum() == 4


def test_body_that_raises_poisons_what_it_was_to_write(ctx, x):
    y = ctx.logical_data(np.zeros(2), name="y")
    boom = ValueError("boom")
    with pytest.raises(ValueError, match="boom") as caught, ctx.task(x.write(), symbol="maker"):
        raise boom
    assert caught.value is boom
    with pytest.raises(stf.PoisonedError, match=r"(?s)'user'.*'x'.*'maker'.*boom") as poisoned:
        ctx.task(x.read(), symbol="user").start()
    assert poisoned.value.__cause__ is boom
    assert isinstance(poisoned.value, RuntimeError)
    assert poisoned.value.task == "user"
    assert poisoned.value.file == __file__
    with pytest.raises(stf.PoisonedError) as waited:
        ctx.wait(x)
    assert waited.value.__cause__ is boom
    with ctx.task(HOST, y.rw()) as (b,):
        b += 1
    assert ctx.wait(y).tolist() == [1, 1]


def test_poisoned_buffer_is_not_written_back(host):
    def spoil(array):
        array += 1
        raise KeyError

    source = np.zeros(3)
    with stf.context(machine=host) as ctx:
        data = ctx.logical_data(source)
        with pytest.raises(KeyError), ctx.task(data.rw()) as (a,):
            spoil(a)
    assert source.tolist() == [0, 0, 0]


def test_successful_write_heals(ctx, x):
    with pytest.raises(KeyError), ctx.task(x.rw()):
        raise KeyError
    with ctx.task(HOST, x.write()) as (a,):
        a[:] = 2
    assert ctx.wait(x).tolist() == [2] * 4


def test_poison_reaches_what_depends_on_it(ctx, x):
    y, token, ran = ctx.logical_data_empty((4,)), ctx.token(), []
    with pytest.raises(KeyError), ctx.task(x.rw(), symbol="first"):
        raise KeyError("lost")
    ctx.submit(lambda *_: ran.append(1), x.read(), y.write(), token.rw())
    ctx.host_launch(token.read(), fn=lambda: ran.append(2))
    with pytest.raises(stf.PoisonedError, match="lost"):
        ctx.wait(y)
    with pytest.raises(stf.PoisonedError, match="lost"):
        ctx.wait(token)
    ctx.finalize()
    assert ran == []
    assert ctx.stats()["skipped"] == 2


def test_dropping_an_open_task_fails_it(ctx, x):
    task = ctx.task(x.rw())
    task.start()
    del task
    with pytest.raises(stf.PoisonedError):
        ctx.wait(x)


def test_too_large_data_are_a_memory_error(ctx, x):
    huge = ctx.logical_data_empty((2**37,), np.float64, name="huge")
    with pytest.raises(MemoryError, match=r"(?s)'writer'.*'huge'|'huge'.*'writer'"):
        ctx.task(huge.write(), symbol="writer").start()
    assert ctx.wait(x).sum() == 6
    with ctx.task(HOST, x.rw()) as (a,):
        a += 1
    assert ctx.wait(x).sum() == 10


def test_managed_place_works_or_says_that_it_does_not(ctx, x):
    task = ctx.task(HOST, x.rw(stf.data_place.managed()))
    if "managed" in ctx.machine.capabilities:
        with task as (a,):
            a += 1
        assert ctx.wait(x).sum() == 10
    else:
        with pytest.raises(stf.UnsupportedError):
            task.start()


@pytest.mark.filterwarnings("ignore")
def test_uninitialized_objects_are_refused(ctx):
    for cls in (stf.dep, stf.logical_data, stf.exec_place, stf.task):
        with pytest.raises(TypeError):
            ctx.task(cls.__new__(cls))


def test_exit_by_hand_with_a_class_only(ctx, x):
    task = ctx.task(x.rw())
    task.start()
    assert task.__exit__(ValueError, None, None) is False
    with pytest.raises(stf.PoisonedError, match="ValueError"):
        ctx.wait(x)


# --- one datum several times


@pytest.mark.fault("A30")
@pytest.mark.parametrize("second", ["read", "write", "rw"])
@pytest.mark.parametrize("first", ["read", "write", "rw"])
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.host_devices
def test_datum_that_one_task_names_twice(ctx, first, second, written):
    data = ctx.logical_data(np.ones(3)) if written else ctx.logical_data_empty((3,))
    deps = [getattr(data, first)(), getattr(data, second)()]
    modes = {first, second}
    if not written and modes != {"write"}:
        with pytest.raises(stf.NotWrittenError):
            ctx.task(*deps).start()
        return
    for _ in range(2):
        with ctx.task(*deps) as (a, b):
            assert a.ctypes.data == b.ctypes.data
            if modes != {"read"}:
                data_of = a if a.flags.writeable else b
                data_of[:] = 2
                assert b.tolist() == [2] * 3
    ctx.submit(lambda *arrays: arrays[0].sum(), *deps)
    assert ctx.wait(data).tolist() == [1 if modes == {"read"} else 2] * 3
