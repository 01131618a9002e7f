# SPDX-License-Identifier: Apache-2.0
"""The Numba adapter: arrays of tasks, kernels as tasks, and the order in which it cleans up.

Kernels run on a GPU if there is one, else in Numba's simulator on the host machine.
"""

import gc
import pathlib
import sys
import threading
import types
import weakref

import millstream as stf
import numba_names
import numpy as np
import pytest
from millstream.interop import numba as adapter
from millstream.interop.numba import (
    external_stream,
    get_arg_numba,
    jit,
    numba_arguments,
    numba_task,
    stf_kernel_decorator,
)

COUNT = 64


def ones(ctx, count=1):
    data = [np.ones(COUNT, np.float32) for _ in range(count)]
    return data, [ctx.logical_data(each) for each in data]


# --- kernels as tasks


def test_chain_of_kernels(kernel_ctx, kernels):
    data, (x, y, z) = ones(kernel_ctx, 3)
    kernels.scale[2, 32](2.0, x.rw())
    kernels.axpy[2, 32](2.0, x.read(), y.rw())
    kernels.axpy[2, 32, stf.exec_place.device(0)](2.0, x.read(), z.rw())
    kernels.axpy[2, 32](2.0, y.read(), z.rw(stf.data_place.device(0)))
    kernel_ctx.finalize()
    assert [set(each.tolist()) for each in data] == [{2}, {5}, {15}]


def test_grid_in_two_dimensions(kernel_ctx, kernels):
    side = 1024 if not adapter._simulated() else 12
    u, out = np.random.default_rng(1).random((side, side)), np.zeros((side, side))
    blocks = (side + 15) // 16
    kernels.laplacian[(blocks, blocks), (16, 16)](
        kernel_ctx.logical_data(u).read(), kernel_ctx.logical_data(out).rw()
    )
    kernel_ctx.finalize()
    expected = np.zeros_like(u)
    expected[1:-1, 1:-1] = (
        u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    )
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


def test_context_may_be_named(kernel_ctx, kernels):
    (array,), (x,) = ones(kernel_ctx)
    kernels.add_one[1, 1, None, kernel_ctx](x.rw())
    kernels.add_one[[1, 1, stf.exec_place.device(0), kernel_ctx]](x.rw())
    kernel_ctx.finalize()
    assert array[0] == 3


def test_task_has_the_name_of_the_kernel(kernel_ctx, kernels):
    with pytest.raises(stf.NotWrittenError, match="'scale'") as caught:
        kernels.scale[1, 1](2.0, kernel_ctx.logical_data_empty((2,)).rw())
    assert caught.value.file == __file__


def test_launch_returns_none_and_compiles_once(kernel_ctx, kernels):
    _, (x,) = ones(kernel_ctx)
    assert kernels.scale[2, 32](2.0, x.rw()) is None
    compiled = kernels.scale._get_compiled_kernel()
    kernels.scale[2, 32](2.0, x.rw())
    assert kernels.scale._get_compiled_kernel() is compiled
    assert kernels.scale.__name__ == "scale"


def test_options_go_to_numba(host_ctx, gpu_numba):
    @jit("void(float32[:])", fastmath=True)
    def kernel(x):
        pass

    assert isinstance(kernel, stf_kernel_decorator)
    assert kernel._get_compiled_kernel() == (
        ("void(float32[:])",),
        {"fastmath": True},
        kernel._function,
    )


def test_kernel_that_raises_fails_its_task(host_ctx, monkeypatch):
    @jit
    def kernel(x):
        pass

    class Compiled:
        def __getitem__(self, configuration):
            return self

        def __call__(self, x):
            raise ZeroDivisionError

    monkeypatch.setattr(kernel, "_compiled", Compiled())
    _, (x,) = ones(host_ctx)
    pytest.importorskip("numba")
    with pytest.raises(ZeroDivisionError):
        kernel[1, 1](x.rw())
    with pytest.raises(stf.PoisonedError):
        host_ctx.wait(x)


# --- recorded on the host machine


def recording(ctx):
    stats = ctx.stats()
    return stats["nodes"], stats["stages"], stats["stage_breaks"]


@pytest.fixture
def simulated_kernels(host, kernels):
    if not adapter._simulated():
        pytest.skip("kernels of Numba run on the host machine in its simulator only")
    return kernels


def test_recorded_kernels_are_nodes_of_one_stage(host, simulated_kernels):
    k = simulated_kernels
    x, y = np.ones(COUNT), np.zeros(COUNT)
    with stf.context(use_graph=True, machine=host) as ctx:
        lx, ly = ctx.logical_data(x), ctx.logical_data(y)
        ctx.submit(lambda v: np.add(v, 1, out=v), ly.rw())
        for factor in (1.0, 2.0, 3.0):
            k.axpy[2, 32](factor, lx.read(), ly.rw())
        ctx.submit(lambda v: np.multiply(v, 2, out=v), ly.rw())
        assert recording(ctx) == (0, 0, 0)
        ctx.fence()
        # The copies of x and y to the device, two functions, three kernels.
        assert recording(ctx) == (7, 1, 0)
    assert set(y.tolist()) == {14}


def test_recorded_kernel_is_called_again_by_each_launch_of_a_graph(host, simulated_kernels):
    x, y = np.ones(COUNT), np.zeros(COUNT)
    ctx = stf.context(use_graph=True, machine=host)
    lx, ly = ctx.logical_data(x), ctx.logical_data(y)
    simulated_kernels.axpy[2, 32](2.0, lx.read(), ly.rw())
    graph = ctx.to_graph()
    assert set(y.tolist()) == {0}
    for wanted in (2, 4, 6):
        stf.synchronize(graph.launch())
        assert set(y.tolist()) == {wanted}
    x[:] = 3
    stf.synchronize(graph.launch())
    assert set(y.tolist()) == {12}


def test_the_same_kernels_again_are_an_update(host, simulated_kernels):
    x = np.ones(COUNT)
    with stf.context(use_graph=True, machine=host) as ctx:
        lx = ctx.logical_data(x)
        for factor in (2.0, 3.0, 5.0, 7.0):
            simulated_kernels.scale[2, 32](factor, lx.rw())
            ctx.fence()
        stats = ctx.stats()
        assert (stats["stages"], stats["stage_breaks"]) == (4, 0)
        # The first one has the copy to the device, too.
        assert (stats["instantiations"], stats["updates"]) == (2, 2)
    assert set(x.tolist()) == {210}


def test_recorded_kernel_runs_where_and_in_which_context_it_says(host, simulated_kernels):
    x = np.ones(COUNT)
    with stf.context(use_graph=True, machine=host, trace=True) as ctx:
        lx = ctx.logical_data(x)
        simulated_kernels.scale[2, 32, stf.exec_place.device(1), ctx](2.0, lx.rw())
        ctx.wait(lx)
        (node,) = [each for each in ctx._trace_snapshot()["nodes"] if each["name"] == "scale"]
        assert (node["file"], node["place"]) == (__file__, 1)
    assert set(x.tolist()) == {2}


def test_recorded_kernel_that_raises_is_told_by_the_next_wait(host, monkeypatch):
    pytest.importorskip("numba")

    @jit
    def kernel(x):
        pass

    class Compiled:
        def __getitem__(self, configuration):
            return self

        def __call__(self, x):
            raise ZeroDivisionError

    monkeypatch.setattr(kernel, "_compiled", Compiled())
    with stf.context(use_graph=True, machine=host) as ctx:
        x = ctx.logical_data(np.ones(COUNT))
        kernel[1, 1](x.rw())
        with pytest.raises(ZeroDivisionError) as caught:
            ctx.wait(x)
        assert "'kernel'" in caught.value.__notes__[0]


def test_token_is_no_argument_of_a_recorded_kernel(host, simulated_kernels):
    with stf.context(use_graph=True, machine=host) as ctx:
        with pytest.raises(RuntimeError, match="dependency 0 of kernel 'add_one' is a token"):
            simulated_kernels.add_one[1, 1](ctx.token().rw())
        assert ctx.stats()["tasks"] == 0


def test_recorded_kernel_does_not_keep_data_that_are_dropped(host, simulated_kernels):
    with stf.context(use_graph=True, machine=host) as ctx:
        x = np.ones(COUNT)
        lx = ctx.logical_data(x)
        watch = weakref.ref(lx)
        simulated_kernels.scale[2, 32](2.0, lx.rw())
        del lx
        gc.collect()
        assert watch() is None
        ctx.fence()
    assert set(x.tolist()) == {2}


# --- wrong use of kernels, without Numba


@jit
def unused(x):
    raise AssertionError("this kernel is never launched")


@pytest.fixture
def no_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setitem(sys.modules, "numba.cuda", None)


def test_call_without_a_configuration():
    with pytest.raises(RuntimeError, match="launch configuration"):
        unused(1)


@pytest.mark.parametrize(
    "configuration", [3, "ab", (1,), [1], (1, 1, None, None, None), {1: 1, 2: 2}]
)
def test_configuration_that_is_none(configuration):
    with pytest.raises(TypeError, match=r"kernel\[grid, block\]"):
        unused[configuration]


def test_place_and_context_are_checked(host_ctx):
    with pytest.raises(TypeError, match="exec_place"):
        unused[1, 1, stf.data_place.host()]
    with pytest.raises(TypeError, match="context"):
        unused[1, 1, None, host_ctx.machine]
    first, second = unused[1, 1], unused[1, 1]
    assert first is not second


def test_launch_without_a_context_is_an_error_before_compiling(no_numba):
    with pytest.raises(TypeError, match="No STF context could be inferred"):
        unused[1, 1](1.0, [2])


def test_launch_of_a_finalized_context(host_ctx):
    x = host_ctx.logical_data(np.ones(2))
    host_ctx.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        unused[1, 1](x.rw())


def test_token_is_no_argument_of_a_kernel(kernel_ctx):
    token = kernel_ctx.token()
    with pytest.raises(RuntimeError, match="token"):
        unused[1, 1](token.rw())


# --- arrays and streams


def test_arguments_come_as_none_one_or_a_tuple(kernel_ctx):
    _, (x, y) = ones(kernel_ctx, 2)
    token = kernel_ctx.token()
    with kernel_ctx.task(token.rw()) as t:
        assert numba_arguments(t) is None
    with kernel_ctx.task(token.rw(), x.rw()) as t:
        assert numba_arguments(t).shape == (COUNT,)
        assert get_arg_numba(t, 1).dtype == np.float32
        with pytest.raises(RuntimeError, match="token"):
            get_arg_numba(t, 0)
        with pytest.raises(IndexError):
            get_arg_numba(t, 2)
    with kernel_ctx.task(y.read(), token.rw(), x.rw()) as t:
        assert [each.shape for each in numba_arguments(t)] == [(COUNT,)] * 2


def test_numpy_arrays_on_the_host_machine(host_ctx):
    pytest.importorskip("numba")
    _, (x, y) = ones(host_ctx, 2)
    with numba_task(host_ctx, x.read(), y.rw()) as ((a, b), stream):
        assert type(a) is type(b) is np.ndarray
        b += 2 * a
        assert isinstance(stream, stf.CudaStream)
        assert stream != 0
    assert host_ctx.wait(y).tolist() == [3] * COUNT


def test_submitted_function_finds_its_arrays(host_ctx):
    pytest.importorskip("numba")
    _, (x,) = ones(host_ctx)

    def double(_):
        array = numba_arguments(stf.current_task())
        array *= 2

    host_ctx.submit(double, x.rw())
    assert host_ctx.wait(x).tolist() == [2] * COUNT


def test_submitted_function_finds_one_array(host_ctx):
    pytest.importorskip("numba")
    _, (x, y) = ones(host_ctx, 2)
    token = host_ctx.token()
    found = []

    def body(*_):
        task = stf.current_task()
        get_arg_numba(task, 2)[:] += 2 * get_arg_numba(task, 0)
        for index, error in ((1, RuntimeError), (3, IndexError), (-1, OverflowError)):
            with pytest.raises(error):
                get_arg_numba(task, index)
        found.append(task)

    host_ctx.submit(body, x.read(), token.rw(), y.rw())
    assert host_ctx.wait(y).tolist() == [3] * COUNT
    with pytest.raises(RuntimeError, match="has ended"):
        get_arg_numba(found[0], 0)


def test_kernels_of_several_threads_take_turns_in_the_simulator(kernel_ctx, kernels):
    threads, launches = 4, 5
    data, handles = ones(kernel_ctx, threads)
    failed = []

    def launch(x):
        try:
            for _ in range(launches):
                kernels.scale[2, 32](2.0, x.rw())
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=launch, args=(each,)) for each in handles]
    for each in running:
        each.start()
    for each in running:
        each.join()
    kernel_ctx.finalize()
    assert failed == []
    assert [set(each.tolist()) for each in data] == [{2.0**launches}] * threads


def test_number_of_calls_of_a_block_and_of_a_launch(host_ctx, monkeypatch, calls_of):
    @jit
    def kernel(x):
        pass

    class Compiled:
        def __getitem__(self, configuration):
            return lambda *args: None

    monkeypatch.setattr(kernel, "_compiled", Compiled())
    pytest.importorskip("numba")
    _, (x,) = ones(host_ctx)

    def block():
        with numba_task(host_ctx, x.rw()):
            pass

    block()
    array = ["_to_array", "_to_host_array", "_import_numba"]
    assert calls_of(adapter, block) == ["_arrays_of", *array]
    kernel[1, 1](x.rw())
    assert calls_of(adapter, lambda: kernel[1, 1](x.rw())) == [
        "__getitem__", "_launch", "_get_compiled_kernel", "_arrays_of", *array, "_call",
        "_values_of",
    ]  # fmt: skip


def test_kernel_of_numba_with_the_arrays_and_the_stream(kernel_ctx, kernels):
    _, (x, y) = ones(kernel_ctx, 2)
    with numba_task(kernel_ctx, x.read(), y.write(), symbol="double") as (arrays, stream):
        kernels.plain_double[2, 32, external_stream(stream)](*arrays)
    assert kernel_ctx.wait(y).tolist() == [2] * COUNT
    assert kernel_ctx.wait(x).tolist() == [1] * COUNT


def test_function_compiled_for_the_cpu(host_ctx):
    numba = pytest.importorskip("numba")

    @numba.njit
    def add(source, target):
        for i in range(source.size):
            target[i] += source[i]

    _, (x, y) = ones(host_ctx, 2)
    with host_ctx.task(x.read(), y.rw()) as t:
        add(*numba_arguments(t))
    assert host_ctx.wait(y).tolist() == [2] * COUNT


class GpuView:
    """A view of device memory as a task gives it."""

    def __init__(self, ptr, shape=(4,), device=0):
        self.ptr, self.shape, self.dtype = ptr, shape, np.dtype(np.float32)
        self.device = device

    @property
    def _key(self):
        return (self.ptr, self.shape, self.dtype, 2, self.device)


@pytest.fixture
def gpu_numba(monkeypatch):
    """What the adapter uses of `numba.cuda` with a GPU."""
    cuda = types.SimpleNamespace(
        made=[],
        from_cuda_array_interface=lambda view, owner, sync: (
            cuda.made.append((view.ptr, owner, sync)) or object()
        ),
        external_stream=lambda handle: cuda.made.append(handle) or object(),
        jit=lambda *args, **options: lambda function: (args, options, function),
    )
    monkeypatch.setattr(adapter, "_import_numba_cuda", lambda: cuda)
    monkeypatch.setattr(adapter, "_simulated", lambda: False)
    monkeypatch.setattr(adapter, "_arrays", {})
    monkeypatch.setattr(adapter, "_streams", {})
    return cuda


def test_device_array_is_made_once_for_an_address(gpu_numba):
    first = adapter._to_array(GpuView(64))
    assert adapter._to_array(GpuView(64)) is first
    others = [GpuView(128), GpuView(64, shape=(2, 2)), GpuView(64, device=1)]
    assert len({first, *(adapter._to_array(each) for each in others)}) == 4
    assert gpu_numba.made == [(64, None, False), (128, None, False), *[(64, None, False)] * 2]


def test_number_of_kept_arrays_has_a_limit(gpu_numba, monkeypatch):
    monkeypatch.setattr(adapter, "_MOST_ARRAYS", 3)
    for address in range(10):
        adapter._to_array(GpuView(address))
        assert len(adapter._arrays) <= 3


@pytest.mark.parametrize("simulated", ["0", "1"])
def test_simulator_is_told_from_the_real_one(run_clean, simulated):
    pytest.importorskip("numba_cuda")
    program = """
        import numba_names
        numba_names.add()
        from millstream.interop import numba
        print(numba._simulated())
        from numba import cuda
        print(numba._simulated())
    """
    folder = pathlib.Path(numba_names.__file__).parent
    found = run_clean(program, NUMBA_ENABLE_CUDASIM=simulated, PYTHONPATH=str(folder))
    assert found.split() == ["False", str(simulated == "1")]


def test_stream_is_wrapped_once(gpu_numba):
    first = external_stream(stf.CudaStream(96))
    assert external_stream(96) is first
    assert external_stream(112) is not first
    assert [type(each) for each in gpu_numba.made] == [int, int]


# --- the order of a block, with stand-ins


class Task:
    def __init__(self, **failures):
        self.events, self.failures = [], failures

    def note(self, event):
        self.events.append(event)
        if event in self.failures:
            raise self.failures[event]

    def task(self, *args, symbol):
        self.note(("task", args, symbol))
        return self

    def start(self):
        self.note("start")

    def end(self):
        self.note("end")

    def args_cai(self):
        self.note("args")

    def stream_ptr(self):
        return stf.CudaStream(7)


class BodyError(Exception):
    pass


class EndError(Exception):
    pass


def use(trail):
    with numba_task(trail, "dep", symbol="s") as (arrays, stream):
        assert (arrays, stream) == ((), 7)
        trail.note("body")


@pytest.mark.parametrize(
    ("failures", "seen", "events"),
    [
        ({"args": BodyError(), "end": EndError()}, BodyError, ["start", "args", "end"]),
        ({"body": BodyError(), "end": EndError()}, BodyError, ["start", "args", "body", "end"]),
        ({"end": EndError()}, EndError, ["start", "args", "body", "end"]),
        ({"start": BodyError()}, BodyError, ["start"]),
    ],
)
def test_first_error_counts_and_the_task_is_ended(failures, seen, events):
    trail = Task(**failures)
    with pytest.raises(seen):
        use(trail)
    assert trail.events == [("task", ("dep",), "s"), *events]


def test_task_is_made_at_once():
    trail = Task()
    numba_task(trail, "dep")
    assert trail.events == [("task", ("dep",), None)]


# --- without Numba


def test_missing_numba_says_what_to_install(host_ctx, no_numba):
    _, (x,) = ones(host_ctx)
    with host_ctx.task(x.rw()) as t, pytest.raises(ImportError, match="pip install numba-cuda"):
        get_arg_numba(t, 0)
    with pytest.raises(ImportError, match="pip install numba-cuda"):
        unused[1, 1](x.rw())
    with pytest.raises(ImportError, match="pip install numba-cuda"):
        external_stream(3)


def test_importing_the_adapter_imports_no_framework(run_clean):
    assert run_clean("""
        import sys
        import millstream.interop.numba
        print([name for name in ("numba", "numpy", "millstream._core") if name in sys.modules])
    """) == "[]\n"  # fmt: skip


# --- borrowed contexts


def test_collector_takes_nothing_from_an_exception_with_a_borrowed_context(host):
    def fail(_):
        raise ValueError("a body failed")

    ctx = stf.context(machine=host)
    _, (x,) = ones(ctx)
    lent = [x.borrow_ctx_handle() for _ in range(3)]
    ctx.submit(fail, x.rw())
    stf.synchronize(ctx.fence())
    for _ in range(3):
        gc.collect()
    with pytest.raises(ValueError, match="a body failed") as caught:
        ctx.finalize()
    assert caught.value.__traceback__ is not None
    assert [repr(each).count("borrowed") for each in lent] == [1, 1, 1]


def test_borrowed_context_does_all_but_finalize(host_ctx):
    (array,), (x,) = ones(host_ctx)
    with x.borrow_ctx_handle() as lent:
        assert "borrowed" in repr(lent)
        with lent.task(x.rw()) as (a,):
            a *= 2
        with pytest.raises(RuntimeError, match="cannot finalize borrowed context"):
            lent.finalize()
    del lent
    with host_ctx.task(x.rw()) as (a,):
        a += 1
    host_ctx.finalize()
    assert array.tolist() == [3] * COUNT
    with pytest.raises(RuntimeError, match="finalized"):
        x.borrow_ctx_handle()


def test_kernels_and_blocks_show_what_they_are(host_ctx):
    assert repr(unused) == "stf_kernel_decorator('unused')"
    assert repr(unused[2, (4, 1)]) == "configured_kernel('unused', grid=2, block=(4, 1))"
    place = stf.exec_place.device(1)
    assert repr(unused[1, 1, place, host_ctx]) == (
        f"configured_kernel('unused', grid=1, block=1, {place!r}, {host_ctx!r})"
    )
    x = host_ctx.logical_data(np.ones(COUNT))
    block = numba_task(host_ctx, x.rw(), symbol="one")
    assert repr(block) == "numba_task(task 'one', 1 deps, not started)"
