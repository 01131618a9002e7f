# SPDX-License-Identifier: Apache-2.0
"""`cuda_kernel` on the host machine: kernels are functions of ctypes, or the addresses of some."""

import array
import collections
import ctypes
import gc
import shutil
import subprocess
import threading
import weakref

import millstream as stf
import numpy as np
import pytest

pytestmark = pytest.mark.host_devices

N = 64
POINTER = ctypes.c_void_p
SOURCE = """
void axpy(int n, double a, const double *x, double *y) {
  for (int i = 0; i < n; ++i) y[i] += a * x[i];
}
void add(double *y, double what) {
  for (int i = 0; i < 64; ++i) y[i] += what;
}
void scale(double *y, double by) {
  for (int i = 0; i < 64; ++i) y[i] *= by;
}
struct pair { float low; double high; };
void store(double *y, struct pair p, unsigned char flag, float f, short s) {
  y[0] = p.low; y[1] = p.high; y[2] = flag; y[3] = f; y[4] = s;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("kernels")
    source, target = folder / "kernels.c", folder / "kernels.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, source], check=True)
    return ctypes.CDLL(str(target))


@pytest.fixture(params=[False, True], ids=["immediate", "recorded"])
def ctx(request, machine):
    context = stf.context(use_graph=request.param, machine=machine)
    yield context
    context.finalize()


def address_of(function):
    return ctypes.cast(function, POINTER).value


@pytest.fixture
def y(ctx):
    return ctx.logical_data(np.zeros(N), name="y")


def launch_add(ctx, data, function, *values):
    with ctx.cuda_kernel(data.rw()) as k:
        for value in values:
            k.launch(function, 1, 32, [k.get_arg(0), value])


def launch_with_grids(ctx, data, function, *grids):
    with ctx.cuda_kernel(data.rw()) as k:
        for grid in grids:
            k.launch(function, grid, 1, [k.get_arg(0), 5.0])


def python_kernel(function, *types):
    return ctypes.CFUNCTYPE(None, *types)(function)


def test_function_of_a_library_is_called_once_with_exactly_its_arguments(ctx, library, y):
    x = ctx.logical_data(np.ones(N))
    for alpha in (1.0, 2.0):
        with ctx.cuda_kernel(x.read(), y.rw(), symbol="axpy") as k:
            dx, dy = k.get_arg(0), k.get_arg(1)
            k.launch(library.axpy, grid=(4,), block=(16,),
                     args=[ctypes.c_int(N), ctypes.c_double(alpha), dx, dy])  # fmt: skip
    assert ctx.wait(y).tolist() == [3] * N


def test_address_takes_its_types_from_the_arguments(ctx, library, y):
    launch_add(ctx, y, address_of(library.add), 2.5, np.float64(0.5), ctypes.c_double(1))
    assert ctx.wait(y).tolist() == [4] * N


def test_all_kinds_of_arguments_reach_an_address(ctx, library, y):
    class Pair(ctypes.Structure):
        _fields_ = (("low", ctypes.c_float), ("high", ctypes.c_double))

    with ctx.cuda_kernel(y.write()) as k:
        values = [k.get_arg_cai(0), Pair(1.5, 2.5), True, np.float32(3.5), np.int16(-4)]
        k.launch(address_of(library.store), 1, 1, values)
    assert ctx.wait(y)[:5].tolist() == [1.5, 2.5, 1, 3.5, -4]


def test_callback_runs_on_the_devices_thread_when_the_data_are_ready(ctx, gate, y):
    seen = []

    def body(address, what):
        values = (ctypes.c_double * N).from_address(address)
        seen.append((values[0], what, threading.get_ident() != main))
        values[0] = what

    main = threading.get_ident()
    kernel = python_kernel(body, POINTER, ctypes.c_double)
    ctx.submit(lambda a: (gate.hold(), a.fill(7)), y.write())
    with ctx.cuda_kernel(y.rw()) as k:
        k.launch(kernel, 1, 1, [k.get_arg(0), 5.0])
    assert seen == []
    gate.open()
    assert ctx.wait(y)[:2].tolist() == [5, 7]
    assert seen == [(7, 5, True)]


def test_launches_of_a_task_run_in_the_order_of_the_calls(ctx, library, y):
    with ctx.cuda_kernel(y.rw()) as k:
        pointer = k.get_arg(0)
        k.launch(library.add, 1, 1, [pointer, 2.0])
        k.launch(library.scale, 1, 1, [pointer, 10.0])
        k.launch(library.add, 1, 1, [pointer, 0.5])
        assert "3 launches" in repr(k)
    assert ctx.wait(y).tolist() == [20.5] * N


def test_fifty_accumulations(ctx, library, y):
    x = ctx.logical_data(np.ones(N))
    for i in range(50):
        place = stf.exec_place.device(i % 2)
        with ctx.cuda_kernel(place, x.read(), y.rw()) as k:
            k.launch(library.axpy, (1,), (N,), [ctypes.c_int(N), ctypes.c_double(i),
                                                k.get_arg(0), k.get_arg(1)])  # fmt: skip
    assert ctx.wait(y).tolist() == [50 * 49 / 2] * N


@pytest.mark.parametrize("collections", [0, 5])
def test_each_launch_keeps_its_own_arguments_a03(ctx, library, y, collections):
    changed = ctypes.c_double()
    with ctx.cuda_kernel(y.rw()) as k:
        for value in (1, 10, 100):
            changed.value = value
            k.launch(library.add, 1, 1, [k.get_arg(0), changed])
        k.launch(library.add, 1, 1, [k.get_arg(0), ctypes.c_double(1000)])
        changed.value = 77
        for _ in range(collections):
            gc.collect()
    assert ctx.wait(y).tolist() == [1111] * N


def test_functions_with_types_are_checked_when_launched(ctx, y):
    kernel = python_kernel(lambda address, count: None, ctypes.POINTER(ctypes.c_double),
                           ctypes.c_int)  # fmt: skip
    with ctx.cuda_kernel(y.rw()) as k:
        k.launch(kernel, 1, 1, [k.get_arg(0), 3])
        with pytest.raises(TypeError, match="takes 2 arguments, not 1"):
            k.launch(kernel, 1, 1, [k.get_arg(0)])
        with pytest.raises(TypeError, match="argument 1 of the kernel"):
            k.launch(kernel, 1, 1, [k.get_arg(0), 3.5])
        assert "1 launches" in repr(k)


@pytest.mark.parametrize("what", ["grid", "block"])
@pytest.mark.parametrize(
    ("extents", "raised", "text"),
    [
        (0, ValueError, "positive"),
        ((4, 0), ValueError, "positive"),
        ((1, 1, -1), ValueError, "positive"),
        ((), ValueError, "0 entries"),
        ((1, 1, 1, 1), ValueError, "4 entries"),
        (2.0, TypeError, "an int or up to three"),
        (None, TypeError, "an int or up to three|incompatible"),
        (("x",), ValueError, "invalid literal"),
    ],
)
def test_shapes_are_checked(ctx, library, y, what, extents, raised, text):
    with ctx.cuda_kernel(y.rw()) as k, pytest.raises(raised, match=text):
        k.launch(library.add, **{"grid": 1, "block": 1, what: extents}, args=[k.get_arg(0), 1.0])
    assert ctx.wait(y).tolist() == [0] * N


def test_shapes_may_be_integers_and_sequences_of_numbers(ctx, library, y):
    shapes = [1, np.int64(2), (2,), [2, 1], (1.9, np.int32(2), 1)]
    with ctx.cuda_kernel(y.rw()) as k:
        for shape in shapes:
            k.launch(library.add, shape, shape, (k.get_arg(0), 1.0), 16)
    assert ctx.wait(y).tolist() == [len(shapes)] * N


def test_kernel_is_checked_before_grid_before_block_before_arguments(ctx, library, y):
    with ctx.cuda_kernel(y.rw()) as k:
        with pytest.raises(TypeError, match="kernel of type object"):
            k.launch(object(), 0, 0, [object()])
        with pytest.raises(ValueError, match="'grid'"):
            k.launch(library.add, 0, 0, [object()])
        with pytest.raises(ValueError, match="'block'"):
            k.launch(library.add, 1, 0, [object()])
        with pytest.raises(TypeError, match="argument 0 of a kernel is of type object"):
            k.launch(library.add, 1, 1, [object()])
        for args in (3, "ab", None):
            with pytest.raises(TypeError, match=r"args|incompatible"):
                k.launch(library.add, 1, 1, args)
        with pytest.raises(OverflowError):
            k.launch(library.add, 1, 1, [], -1)
        with pytest.raises(ValueError, match="address 0"):
            k.launch(0, 1, 1, [])


def test_launch_attributes_are_checked_and_otherwise_unused_here(ctx, library, y):
    with ctx.cuda_kernel(y.rw()) as k:
        args = [k.get_arg(0), 1.0]
        k.launch(library.add, 4, 32, args, 64, cluster=2, cooperative=True, programmatic=True)
        with pytest.raises(ValueError, match="do not divide its grid"):
            k.launch(library.add, 4, 32, args, cluster=3)
        with pytest.raises(ValueError, match="'cluster'"):
            k.launch(library.add, 4, 32, args, cluster=(0,))
    assert ctx.wait(y).tolist() == [1] * N


def test_exception_of_launch_leaves_the_data_and_the_context_as_they_were(host, library):
    source, fresh = np.ones(N), None
    with stf.context(machine=host) as ctx:
        y, fresh = ctx.logical_data(source), ctx.logical_data_empty((N,), name="fresh")
        with pytest.raises(ValueError, match="positive"):
            launch_with_grids(ctx, y, library.add, 1, 0)
        with pytest.raises(ValueError, match="positive"), ctx.cuda_kernel(fresh.write()) as k:
            k.launch(library.add, 1, 0, [k.get_arg(0), 5.0])
        with pytest.raises(stf.NotWrittenError, match="'fresh'"):
            ctx.cuda_kernel(fresh.read()).start()
        launch_add(ctx, y, library.add, 2.0)
    assert source.tolist() == [3] * N


@pytest.mark.parametrize("name", ["kernel", "grid", "block", "args", "shmem"])
def test_none_is_refused_like_other_types(ctx, library, y, name):
    wanted = {"kernel": library.scale, "grid": 1, "block": 1, "shmem": 0}
    with pytest.raises(TypeError), ctx.cuda_kernel(y.rw()) as k:
        k.launch(**({**wanted, "args": [k.get_arg(0), 2.0]} | {name: None}))
    assert ctx.wait(y).tolist() == [0] * N


@pytest.mark.parametrize(
    "extents",
    [
        np.array([4]), np.array(4), np.array([4, 1], "u1"), np.int16(4), range(4, 5),
        collections.deque([2, 2]), array.array("i", [4, 1, 1]), memoryview(b"\4"),
    ],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_extents_may_be_any_sequence(ctx, library, y, extents):
    launch_with_grids(ctx, y, library.add, extents)
    with ctx.cuda_kernel(y.rw()) as k:
        k.launch(library.add, extents, extents, [k.get_arg(0), 5.0], cluster=extents)
    assert ctx.wait(y).tolist() == [10] * N


@pytest.mark.parametrize("extents", [np.array([]), np.ones((1, 2), "i4"), np.ones(4, "i4"), {1: 2}])
def test_arrays_that_are_no_extents_are_refused(ctx, library, y, extents):
    with pytest.raises((TypeError, ValueError)):
        launch_with_grids(ctx, y, library.add, extents)
    assert ctx.wait(y).tolist() == [0] * N


def test_other_exceptions_fail_the_task(ctx, library, y):
    boom = KeyError("boom")

    def interrupted(k):
        k.launch(library.add, 1, 1, [k.get_arg(0), 5.0])
        raise boom

    with pytest.raises(KeyError), ctx.cuda_kernel(y.rw(), symbol="maker") as k:
        interrupted(k)
    with pytest.raises(stf.PoisonedError, match="'maker'") as caught:
        ctx.wait(y)
    assert caught.value.__cause__ is boom
    with ctx.cuda_kernel(y.write()) as k:
        k.launch(library.add, 1, 1, [k.get_arg(0), 5.0])


def test_poisoned_input_skips_the_task_and_poisons_its_outputs(ctx, library, y):
    z = ctx.logical_data_empty((N,), name="z")
    with pytest.raises(KeyError), ctx.task(y.rw(), symbol="first"):
        raise KeyError("lost")
    with ctx.cuda_kernel(y.read(), z.write()) as k:
        assert k.get_arg(0) == k.get_arg(1) == 0
        assert k.get_arg_cai(1).shape == (N,)
        k.launch(library.add, 1, 1, [k.get_arg(1), 5.0])
        with pytest.raises(ValueError, match="positive"):
            k.launch(library.add, 0, 1, [k.get_arg(1), 5.0])
    with pytest.raises(stf.PoisonedError, match="'first'"):
        ctx.wait(z)
    assert ctx.stats()["skipped"] == 1


def test_poison_that_becomes_known_later_skips_the_call(ctx, gate, y):
    called = []
    kernel = python_kernel(called.append, POINTER)

    def fail(values):
        gate.hold()
        raise ValueError("late")

    ctx.submit(fail, y.rw())
    with ctx.cuda_kernel(y.rw()) as k:
        k.launch(kernel, 1, 1, [k.get_arg(0)])
    gate.open()
    with pytest.raises(ValueError, match="late"):
        ctx.wait(y)
    assert called == []


def test_exception_of_a_callable_belongs_to_the_task(ctx, y):
    def kernel(address, what):
        raise RuntimeError(f"kernel got {what}")

    with ctx.cuda_kernel(y.rw(), symbol="thrower") as k:
        k.launch(kernel, 1, 1, [k.get_arg(0), 3])
    with pytest.raises(RuntimeError, match="kernel got 3") as caught:
        ctx.wait(y)
    assert any("thrower" in note for note in caught.value.__notes__)


def test_views_may_be_passed_and_are_dead_afterwards(ctx, library, y):
    with ctx.cuda_kernel(y.rw()) as k:
        view = k.get_arg_cai(0)
        assert view.ptr == k.get_arg(0)
        assert (view.shape, view.dtype) == ((N,), np.float64)
        k.launch(library.add, 1, 1, [view, 4.0])
    with pytest.raises(stf.UsageError, match="had ended"):
        view.ptr  # noqa: B018
    assert ctx.wait(y).tolist() == [4] * N


def test_device_code_is_refused_on_the_host_machine(ctx, y):
    class Kernel:
        __module__ = "cuda.core._module"
        _handle = 4096

    with ctx.cuda_kernel(y.rw()) as k, pytest.raises(TypeError, match="function of ctypes"):
        k.launch(Kernel(), 1, 1, [k.get_arg(0)])


def test_building_and_running_step_by_step(ctx, library, y):
    token = ctx.token()
    k = ctx.cuda_kernel()
    k.set_symbol("built")
    k.add_dep(token.rw())
    k.add_dep(y.rw(stf.data_place.device(1)))
    k.set_exec_place(stf.exec_place.device(1))
    assert repr(k) == "cuda_kernel(task 'built', 2 deps, 0 launches, not started)"
    k.start()
    with pytest.raises(RuntimeError, match="token"):
        k.get_arg(0)
    with pytest.raises(IndexError):
        k.get_arg(2)
    with pytest.raises(IndexError):
        k.get_arg_cai(2)
    k.launch(library.add, 1, 1, [k.get_arg(1), 6.0])
    k.end()
    assert repr(k) == "cuda_kernel(task 'built', 2 deps, 1 launches, ended)"
    assert ctx.wait(y).tolist() == [6] * N


def test_wrong_order_of_calls_raises(ctx, library, y):
    k = ctx.cuda_kernel(y.rw(), symbol="k")
    before = [k.end, lambda: k.get_arg(0), lambda: k.get_arg_cai(0),
              lambda: k.launch(library.add, 1, 1, [])]  # fmt: skip
    for call in before:
        with pytest.raises(stf.UsageError, match="'k'"):
            call()
    k.start()
    for call in (k.start, lambda: k.add_dep(y.read()), lambda: k.set_symbol("x"),
                 lambda: k.set_exec_place(stf.exec_place.device(0))):  # fmt: skip
        with pytest.raises(stf.UsageError, match="'k'"):
            call()
    k.end()
    for call in before:
        with pytest.raises(stf.UsageError, match="'k'"):
            call()


def test_arguments_are_those_of_a_task(ctx, host, y):
    with pytest.raises(TypeError, match=r"data\.read\(\)"):
        ctx.cuda_kernel(3)
    with pytest.raises(TypeError, match="says nothing about access"):
        ctx.cuda_kernel(y)
    with pytest.raises(TypeError):
        ctx.cuda_kernel().add_dep(y)
    with pytest.raises(TypeError):
        ctx.cuda_kernel().set_exec_place(0)
    with pytest.raises(TypeError, match="symbol"):
        ctx.cuda_kernel(symbol=3)
    with pytest.raises(ValueError, match="two execution places"):
        ctx.cuda_kernel(stf.exec_place.device(0), y.read(), stf.exec_place.device(1))
    with stf.context(machine=host) as other, pytest.raises(ValueError, match="different context"):
        other.cuda_kernel(y.read())
    with pytest.raises(ValueError, match="leave the host place out"):
        ctx.cuda_kernel(stf.exec_place.host(), y.rw()).start()


def test_code_inside_of_launch_may_end_the_task(ctx, library, y):
    class Ends:
        def __int__(self):
            k.end()
            return 1

        __index__ = __int__

    for grid, args in (((Ends(),), []), (1, [])):
        k = ctx.cuda_kernel(y.rw(), symbol="k")
        k.start()
        shmem = Ends() if grid == 1 else 0
        with pytest.raises(stf.UsageError, match="'k' has ended"):
            k.launch(library.add, grid, 1, args, shmem)
    assert ctx.wait(y).tolist() == [0] * N


def test_it_has_no_stream_and_no_arrays(ctx, y):
    k = ctx.cuda_kernel(y.rw())
    for name in ("stream_ptr", "args_cai", "args", "get_grid_dims", "get_stream_at_index"):
        assert not hasattr(k, name)


def test_task_without_a_launch_or_without_anything(ctx, y):
    with ctx.cuda_kernel():
        pass
    with ctx.cuda_kernel(y.rw()):
        pass
    assert ctx.wait(y).tolist() == [0] * N


def test_dropped_and_finalized(host, y):
    ctx = stf.context(machine=host)
    data = ctx.logical_data(np.zeros(N))
    ctx.cuda_kernel(data.rw())
    k = ctx.cuda_kernel(data.rw())
    k.start()
    del k
    with pytest.raises(stf.PoisonedError):
        ctx.wait(data)
    never = ctx.cuda_kernel(data.rw())
    ctx.finalize()
    with pytest.raises(stf.UsageError, match="finalized"):
        ctx.cuda_kernel()
    with pytest.raises(RuntimeError, match="finalize"):
        never.start()


def test_arguments_are_let_go_when_the_call_is_over(ctx, y):
    class Argument:
        pass

    def kernel(address, argument):
        pass

    argument = Argument()
    alive = weakref.ref(argument)
    with ctx.cuda_kernel(y.rw()) as k:
        k.launch(kernel, 1, 1, [k.get_arg(0), argument])
    del argument
    ctx.wait(y)
    gc.collect()
    assert alive() is None


def test_recorded_task_is_a_node(host, library):
    source = np.zeros(N)
    with stf.context(use_graph=True, machine=host) as ctx:
        y = ctx.logical_data(source)
        for what in (1, 10, 100):
            with ctx.cuda_kernel(y.rw()) as k:
                k.launch(library.add, 1, 1, [k.get_arg(0), ctypes.c_double(what)])
        assert source.tolist() == [0] * N
        ctx.fence()
        counts = ctx.stats()
        assert (counts["stages"], counts["stage_breaks"]) == (1, 0)
        assert (counts["nodes"] - counts["copies"], counts["child_graphs"]) == (3, 0)
    assert source.tolist() == [111] * N


def test_kernel_task_is_in_the_trace(host, library):
    with stf.context(machine=host, trace=True) as ctx:
        y = ctx.logical_data(np.zeros(N), name="y")
        with ctx.cuda_kernel(y.rw(), symbol="one") as k:
            k.launch(library.add, 1, 1, [k.get_arg(0), 6.0])
        ctx.wait(y)
        nodes = ctx._trace_snapshot()["nodes"]
    found = [each for each in nodes if each["name"] == "one"]
    assert [each["kind"] for each in found] == ["cuda_kernel"]
    assert 0 < found[0]["began_ns"] <= found[0]["ended_ns"]
