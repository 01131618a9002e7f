# SPDX-License-Identifier: Apache-2.0
"""What the adapters make for tasks on a GPU and how often, with stand-ins for the frameworks."""

import contextlib
import functools
import gc
import sys
import types
import warnings
import weakref

import millstream as stf
import numpy as np
import pytest
from millstream.interop import numba, pytorch
from millstream.interop.numba import jit, numba_arguments, numba_task
from millstream.interop.pytorch import pytorch_task, tensor_arguments

TASKS = 5


class Described:
    """What a framework makes of a view or a capsule."""

    def __init__(self, of):
        self.of = of

    def detach(self):
        return Described(self)


class Compiled:
    """A kernel of Numba that notes with what it was configured and launched."""

    def __init__(self):
        self.configured, self.launched = [], []

    def __getitem__(self, configuration):
        self.configured.append(configuration)
        return lambda *args: self.launched.append((configuration, args))


@pytest.fixture
def gpu_numba(monkeypatch):
    cuda = types.SimpleNamespace(arrays=[], streams=[])

    def make(view, owner, sync):
        assert (owner, sync) == (None, False)
        cuda.arrays.append(view.ptr)
        return types.SimpleNamespace(ptr=view.ptr, shape=view.shape, dtype=view.dtype)

    def wrap(handle):
        cuda.streams.append(handle)
        return ("stream", handle)

    cuda.from_cuda_array_interface, cuda.external_stream = make, wrap
    monkeypatch.setattr(numba, "_import_numba_cuda", lambda: cuda)
    monkeypatch.setattr(numba, "_simulated", lambda: False)
    monkeypatch.setattr(numba, "_arrays", {})
    monkeypatch.setattr(numba, "_streams", {})
    return cuda


@pytest.fixture
def gpu_torch(monkeypatch):
    torch = types.SimpleNamespace(current=(0, 0, 1), tensors=[], streams=[], Tensor=Described)

    def read(capsule):
        torch.tensors.append(Described(capsule))
        return torch.tensors[-1]

    def make_current(*number):
        torch.current = number

    def wrap(stream, device):
        torch.streams.append(stream)
        return types.SimpleNamespace(stream_id=stream, device_index=device, device_type=1)

    torch.from_dlpack = read
    torch.inference_mode = lambda mode: contextlib.nullcontext()
    torch._C = types.SimpleNamespace(
        _cuda_getCurrentStream=lambda device: torch.current, _cuda_setStream=make_current
    )
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 2,
        current_device=lambda: 0, init=lambda: None, ExternalStream=wrap,
    )  # fmt: skip
    monkeypatch.setattr(pytorch, "_import_torch", lambda: torch)
    monkeypatch.setattr(pytorch, "_switches", {})
    return torch


@pytest.fixture
def two(ctx):
    data = [ctx.logical_data(np.ones((2, 3), np.float32)) for _ in range(2)]
    for each in data:
        with ctx.task(each.rw()):
            pass
    return data


# --- Numba


def test_numba_array_is_made_once_for_an_instance(ctx, gpu_numba, two):
    x, y = two
    addresses, streams = set(), set()
    for _ in range(TASKS):
        with numba_task(ctx, x.read(), ctx.token().rw(), y.rw()) as ((a, b), stream):
            addresses |= {a.ptr, b.ptr}
            numba.external_stream(stream)
            streams.add(int(stream))
        with ctx.task(y.rw()) as t:
            assert numba_arguments(t) is b
            assert (b.ptr, b.shape, b.dtype) == (t.get_arg(0), (2, 3), np.float32)
    assert sorted(gpu_numba.arrays) == sorted(addresses)
    assert sorted(gpu_numba.streams) == sorted(streams)


def test_kernel_is_configured_once_for_a_stream(ctx, gpu_numba, two, monkeypatch):
    @jit
    def kernel(*_):
        pass

    monkeypatch.setattr(kernel, "_compiled", Compiled())
    x, y = two
    for _ in range(TASKS):
        kernel[4, 32](x.read(), 2.0, y.rw())
        kernel[8, 32](y.rw())
    launched = kernel._compiled.launched
    assert len(launched) == 2 * TASKS
    assert set(kernel._compiled.configured) == {how for how, _ in launched}
    assert len(kernel._compiled.configured) == len(set(kernel._compiled.configured))
    assert len(gpu_numba.arrays) == 2
    for how, args in launched:
        assert how[:2] == ((4, 32) if len(args) == 3 else (8, 32))
        assert [each if type(each) is float else each.ptr for each in args] == [
            *([gpu_numba.arrays[0], 2.0] if len(args) == 3 else []), gpu_numba.arrays[1]
        ]  # fmt: skip


def test_number_of_kept_configurations_has_a_limit(ctx, gpu_numba, two, monkeypatch):
    @jit
    def kernel(_):
        pass

    monkeypatch.setattr(kernel, "_compiled", Compiled())
    monkeypatch.setattr(numba, "_MOST_LAUNCHERS", 3)
    for grid in range(1, 11):
        kernel[grid, 1](two[0].rw())
        assert len(kernel._launchers) <= 3
    assert [how[0] for how, _ in kernel._compiled.launched] == list(range(1, 11))


def test_token_is_no_argument_of_a_kernel(ctx, gpu_numba, two, monkeypatch):
    @jit
    def kernel(*_):
        pass

    monkeypatch.setattr(kernel, "_compiled", Compiled())
    with pytest.raises(RuntimeError, match="token"):
        kernel[1, 1](two[0].read(), ctx.token().rw())
    assert kernel._compiled.launched == []


# --- PyTorch


def test_tensor_is_read_once_for_an_instance_and_never_handed_out(ctx, gpu_torch, two):
    x, y = two
    seen = []
    for _ in range(TASKS):
        with pytorch_task(ctx, x.read(), ctx.token().rw(), y.rw()) as tensors:
            seen.append(tensors)
        with ctx.task(y.rw()) as t:
            seen.append((tensor_arguments(t),))
    assert len(gpu_torch.tensors) == 2
    assert all(each.of in gpu_torch.tensors for tensors in seen for each in tensors)
    assert len({id(each) for tensors in seen for each in tensors}) == 3 * TASKS
    assert len(gpu_torch.streams) == len(set(gpu_torch.streams))
    assert gpu_torch.current == (0, 0, 1)
    with pytorch_task(ctx, ctx.token().rw()) as tensors:
        assert tensors is None


def test_kept_tensor_dies_with_its_datum(ctx, gpu_torch):
    datum = ctx.logical_data(np.ones(4))
    with pytorch_task(ctx, datum.rw()):
        pass
    (base,) = map(weakref.ref, gpu_torch.tensors)
    gpu_torch.tensors.clear()
    assert base() is not None
    del datum
    stf.synchronize(ctx.fence())
    gc.collect()
    assert base() is None


def test_bare_capsule_keeps_nothing_alive(ctx):
    datum = ctx.logical_data_zeros((4,))
    with ctx.task(datum.rw()) as t:
        capsule = t.args_cai()._capsule()
        assert '"dltensor"' in repr(capsule)
    gone = weakref.ref(datum)
    del datum, t
    gc.collect()
    assert gone() is None


# --- what a task keeps for them


def pointer(view):
    return (view.ptr, view.shape, view.dtype)


def test_description_is_that_of_the_address(ctx):
    for number in range(1, 40):
        fresh = ctx.logical_data_empty((number % 7 + 1,), np.float32)
        with ctx.task(fresh.write()) as t:
            assert t._described(pointer) == ((t.get_arg(0), fresh.shape, fresh.dtype),)


def test_each_device_has_its_own(ctx, two_devices, two):
    for _ in range(TASKS):
        for device in (0, 1):
            with ctx.task(stf.exec_place.device(device), two[0].rw()) as t:
                assert t._described(pointer)[0][0] == t.get_arg(0)


def test_memory_of_no_device_is_not_described(ctx, host, two):
    with ctx.task(two[0].read(stf.data_place.host()), two[1].rw()) as t:
        assert t._described(pointer) is None
    with ctx.task(stf.exec_place.host(), two[0].rw()) as t:
        assert t._described(pointer) is None
    with stf.context(machine=host) as other, other.task(other.logical_data_zeros((2,)).rw()) as t:
        assert t._described(pointer) is None


def test_maker_that_raises_leaves_nothing(ctx, two):
    def refuse(view):
        raise KeyError(view.ptr)

    with ctx.task(two[0].rw()) as t:
        for _ in range(2):
            with pytest.raises(KeyError):
                t._described(refuse)
        assert t._described(pointer)[0][0] == t.get_arg(0)


def test_task_does_not_end_while_it_is_described(ctx, two):
    with ctx.task(two[0].rw()) as t:
        with pytest.raises(stf.UsageError, match="arrays are being made"):
            t._described(lambda _: t.end())
        t._described(pointer)
    with pytest.raises(stf.UsageError):
        t._described(pointer)


def test_number_of_kept_descriptions_has_a_limit(ctx, two):
    class Kept:
        pass

    def make(number, view):
        made = Kept()
        made.number = number
        return made

    made = []
    for number in range(100):
        with ctx.task(two[0].rw()) as t:
            (found,) = t._described(functools.partial(make, number))
            assert found.number == number
            made.append(weakref.ref(found))
            del found
        gc.collect()
        assert sum(each() is not None for each in made) <= 16


def test_submitted_function_finds_the_same(ctx, gpu_torch, two):
    for _ in range(TASKS):
        ctx.submit(lambda _: tensor_arguments(stf.current_task()), two[0].rw())
    assert len(gpu_torch.tensors) == 1


# --- what a block and a launch call in steady state


def test_number_of_calls_of_a_launch(ctx, gpu_numba, two, monkeypatch, calls_of):
    @jit
    def kernel(_):
        pass

    monkeypatch.setattr(kernel, "_compiled", Compiled())

    def launch():
        kernel[1, 1](two[0].rw())
        stf.synchronize(ctx.fence())

    launch()
    assert calls_of(numba, launch) == ["__getitem__"]


def test_number_of_calls_of_blocks(ctx, gpu_numba, gpu_torch, two, calls_of):
    def torch_block():
        with pytorch_task(ctx, two[0].read(), two[1].rw()):
            pass

    def numba_block():
        with numba_task(ctx, two[0].read(), two[1].rw()):
            pass

    for module, block in ((pytorch, torch_block), (numba, numba_block)):
        stf.synchronize(ctx.fence())
        for _ in range(TASKS):  # whatever stream it gets
            block()
        assert calls_of(module, block) == []


def test_calls_of_a_block_to_pytorch(ctx, gpu_torch, two, monkeypatch):
    calls = []

    def note(name, give):
        return lambda *args: calls.append((name, *args)) or give(*args)

    inner = gpu_torch._C
    for name in ("_cuda_getCurrentStream", "_cuda_setStream"):
        setattr(inner, name, note(name, getattr(inner, name)))
    monkeypatch.setattr(Described, "detach", note("detach", Described.detach))
    with pytorch_task(ctx, two[0].rw(), two[1].rw()) as tensors:
        stream = gpu_torch.current
        calls.append("block")
    assert [each.of for each in tensors] == gpu_torch.tensors
    assert calls == [
        ("_cuda_getCurrentStream", 0), ("_cuda_setStream", *stream),
        *(("detach", each) for each in gpu_torch.tensors),
        "block", ("_cuda_setStream", 0, 0, 1),
    ]  # fmt: skip
    assert stream[0] in gpu_torch.streams


def test_framework_is_asked_for_again_once_it_is_another(ctx, gpu_torch, two, monkeypatch):
    asked = []

    def use(times):
        monkeypatch.setattr(pytorch, "_import_torch", lambda: asked.append(1) or gpu_torch)
        for _ in range(times):
            with pytorch_task(ctx, two[0].rw()):
                pass

    use(TASKS)
    made = len(gpu_torch.tensors)  # each asks once more
    assert len(asked) == TASKS + made
    monkeypatch.setitem(sys.modules, "torch", gpu_torch)
    for _ in range(2):
        use(TASKS)
    assert len(asked) == TASKS + made + 2

    def refuse():
        raise ImportError("gone")

    monkeypatch.setattr(pytorch, "_import_torch", refuse)
    with pytest.raises(ImportError, match="gone"), pytorch_task(ctx, two[0].rw()):
        raise AssertionError("the block ran")
    with ctx.task(two[0].rw()):
        pass


def test_interrupt_while_the_stream_goes_back_leaves_no_task_open(ctx, gpu_torch, two):
    change = gpu_torch._C._cuda_setStream

    def change_back(*number):
        change(*number)
        if number == (0, 0, 1):
            raise KeyboardInterrupt

    gpu_torch._C._cuda_setStream = change_back
    block = pytorch_task(ctx, two[0].rw())
    with pytest.raises(KeyboardInterrupt), block:
        raise ValueError("body")
    with ctx.task(two[0].write()):
        pass


def test_garbage_cannot_end_a_block_whose_tensors_are_being_made(ctx, gpu_torch):
    refused = []

    class Ender:
        def __init__(self, block):
            self.block, self.cycle = block, self

        def __del__(self):
            try:
                self.block.__exit__(None, None, None)
            except stf.UsageError as error:
                refused.append(error)

    def block(data):
        return pytorch_task(ctx, *[each.rw() for each in data])

    many = [ctx.logical_data(np.ones(4, np.float32)) for _ in range(15)]
    with block(many):
        pass
    limits = gc.get_threshold()
    gc.disable()
    try:
        entered = block(many)
        Ender(entered)
        gc.set_threshold(1, 1, 1)
        gc.enable()
        tensors = entered.__enter__()
        gc.collect()
    finally:
        gc.set_threshold(*limits)
        gc.enable()
    assert [type(each) for each in tensors] == [Described] * 15
    # Later versions of Python collect between instructions only: there it may have ended after.
    if refused:
        entered.__exit__(None, None, None)


def test_configured_kernels_are_no_leak(gpu_numba):
    class Owner:
        pass

    def make():
        owner = Owner()

        @jit
        def kernel(_):
            return owner

        owner.launch = kernel[4, 32]
        kernel.small = kernel[1, 32]
        return weakref.ref(owner)

    alive = [make() for _ in range(3)]
    gc.collect()
    assert [each() for each in alive] == [None] * 3


def test_frame_whose_launch_failed_is_no_leak(gpu_numba, machine, monkeypatch):
    class Mark:
        pass

    @jit
    def kernel(_):
        pass

    def refuse(*_):
        raise ValueError("launch failed")

    compiled = Compiled()
    monkeypatch.setattr(Compiled, "__getitem__", lambda *_: refuse)
    monkeypatch.setattr(kernel, "_compiled", compiled)

    def work():
        mark = Mark()
        ctx = stf.context(machine=machine)
        data = ctx.logical_data(np.ones(4, np.float32))
        configured = kernel[1, 32, None, ctx]
        with pytest.raises(ValueError, match="launch failed"):
            configured(data.rw())
        return weakref.ref(mark)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the context is dropped
        alive = work()
        gc.collect()
    assert alive() is None


@pytest.mark.parametrize("where", ["stream", "tensor", "body", "leaving"])
def test_what_goes_wrong_fails_the_task_and_gives_the_stream_back(
    ctx, gpu_torch, two, where, monkeypatch
):
    class Stop(BaseException):
        pass

    inner, change = gpu_torch._C, gpu_torch._C._cuda_setStream

    def refuse(*_):
        raise Stop(where)

    def change_back(*number):
        change(*number)
        if number == (0, 0, 1):
            refuse()

    if where == "stream":
        inner._cuda_setStream = refuse
    elif where == "tensor":
        monkeypatch.setattr(Described, "detach", refuse)
    elif where == "leaving":
        inner._cuda_setStream = change_back

    def run():
        with pytorch_task(ctx, two[0].rw()):
            assert where in ("body", "leaving")
            if where == "body":
                refuse()

    with pytest.raises(Stop, match=where):
        run()
    assert gpu_torch.current == (0, 0, 1)
    with pytest.raises(stf.PoisonedError):
        ctx.wait(two[0])


def test_kernel_that_raises_fails_its_task_on_a_gpu(ctx, gpu_numba, two, monkeypatch):
    @jit
    def kernel(_):
        pass

    class Refuses:
        def __getitem__(self, configuration):
            def launch(*args, **options):
                raise ZeroDivisionError(options)

            return launch

    monkeypatch.setattr(kernel, "_compiled", Refuses())
    with pytest.raises(ZeroDivisionError, match="'a': 1"):
        kernel[1, 1](two[0].rw(), a=1)
    with pytest.raises(stf.PoisonedError):
        ctx.wait(two[0])


def test_launch_with_options_a_place_and_a_context(ctx, gpu_numba, two, monkeypatch):
    @jit
    def kernel(*_):
        pass

    launched = []

    class Notes:
        def __getitem__(self, configuration):
            return lambda *args, **options: launched.append((args, options))

    monkeypatch.setattr(kernel, "_compiled", Notes())
    kernel[1, 1, stf.exec_place.device(0), ctx](3, two[0].read(), [4], two[1].rw(), shared=5)
    kernel[1, 1, None, ctx](6)
    ((three, a, four, b), options), last = launched
    assert (three, four, options, last) == (3, [4], {"shared": 5}, ((6,), {}))
    assert [a.ptr, b.ptr] == gpu_numba.arrays


class Others:
    """A context that is not ours, with tasks that are."""

    def __init__(self, ctx):
        self._ctx = ctx

    def task(self, *args, **options):
        return self._ctx.task(*args, **options)


def test_blocks_of_a_context_that_is_not_ours(ctx, gpu_torch, gpu_numba, two):
    others = Others(ctx)
    for _ in range(TASKS):
        with pytorch_task(others, two[0].rw()) as (tensor,):
            assert tensor.of in gpu_torch.tensors
            assert gpu_torch.current[0] in gpu_torch.streams
        with numba_task(others, two[0].rw(), symbol="named") as ((array,), stream):
            assert array.ptr in gpu_numba.arrays
            assert int(stream) != 0
    assert (len(gpu_torch.tensors), len(gpu_numba.arrays)) == (1, 1)
    assert gpu_torch.current == (0, 0, 1)
    for block in (pytorch_task, numba_task):
        with pytest.raises(ZeroDivisionError), block(others, two[1].rw()):
            raise ZeroDivisionError
        with pytest.raises(stf.PoisonedError):
            ctx.wait(two[1])
        with block(ctx, two[1].write()):
            pass


def test_blocks_over_memory_of_the_host(ctx, gpu_torch, gpu_numba, two):
    gpu_torch.as_tensor = lambda view, device: Described((view.ptr, device))
    deps = two[0].read(stf.data_place.host()), two[1].rw()
    for number in range(TASKS):
        with pytorch_task(ctx, *deps) as (a, b):
            assert a.of[1] == "cuda"
            assert b in gpu_torch.tensors
        with numba_task(ctx, *deps) as ((c, d), _):
            assert (c.ptr, d.ptr) == (a.of[0], gpu_numba.arrays[1])
        assert len(gpu_torch.tensors) == number + 1
    del a, b, c, d
    gc.collect()
    assert len(gpu_numba.arrays) == 2


def test_number_of_calls_of_a_submitted_function(ctx, gpu_torch, two, monkeypatch, calls_of):
    from millstream.interop import _current

    monkeypatch.setitem(sys.modules, "torch", gpu_torch)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    told = []
    tensor = Described(None)
    tensor.is_cuda, tensor.record_stream = True, lambda stream: told.append(stream.stream_id)
    seen = []

    def submit(*args):
        ctx.submit(lambda *_: seen.append(gpu_torch.current), two[0].rw(), args=args)

    for _ in range(TASKS):
        submit()
    for module in (_current, pytorch):
        assert calls_of(module, submit) == []
    submit(3, tensor)
    assert {each[0] for each in seen} == set(gpu_torch.streams)
    assert told == [seen[-1][0]]
    ctx.submit(lambda *_: seen.append(1 / 0), two[0].rw())
    assert gpu_torch.current == (0, 0, 1)
    with pytest.raises(ZeroDivisionError):
        ctx.wait(two[0])
