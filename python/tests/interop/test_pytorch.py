# SPDX-License-Identifier: Apache-2.0
"""The PyTorch adapter: tensors over the memory of tasks, and the order in which it cleans up."""

import sys
import types

import first_call
import millstream as stf
import numpy as np
import pytest
from millstream.interop import pytorch
from millstream.interop.pytorch import pytorch_task, tensor_arg, tensor_arguments

COUNT = 1000


# --- with PyTorch, on host memory


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_block_gets_tensors_over_the_data(host_ctx, torch):
    x, y = np.arange(COUNT, dtype=np.float32), np.zeros(COUNT, np.float32)
    lx, ly = host_ctx.logical_data(x), host_ctx.logical_data(y)
    with pytorch_task(host_ctx, lx.read(), ly.rw()) as tensors:
        assert isinstance(tensors, tuple)
        x_tensor, y_tensor = tensors
        assert (y_tensor.dtype, y_tensor.shape) == (torch.float32, (COUNT,))
        y_tensor[:] = x_tensor * 2
    host_ctx.finalize()
    assert y.tolist() == (2 * x).tolist()


@pytest.mark.parametrize("name", first_call.TORCH_CALLS)
def test_a16_the_first_call_may_be_made_in_a_recorded_task(run_clean, torch, name):
    assert run_clean(first_call.of_pytorch(name), MILLSTREAM_MACHINE="host").strip() == "right"


def test_one_array_is_still_a_tuple(host_ctx, torch):
    lx = host_ctx.logical_data(np.zeros(2))
    with pytorch_task(host_ctx, lx.rw()) as tensors:
        assert [type(each) for each in tensors] == [torch.Tensor]


def test_without_arrays_the_block_gets_none(host_ctx, torch):
    token = host_ctx.token()
    with pytorch_task(host_ctx, token.rw()) as tensors:
        assert tensors is None
    with pytorch_task(host_ctx) as tensors:
        assert tensors is None


def test_arguments_come_as_none_one_or_a_tuple(host_ctx, torch):
    lx, ly, token = (host_ctx.logical_data(np.ones(3)) for _ in range(3))
    token = host_ctx.token()
    with host_ctx.task(token.rw()) as t:
        assert tensor_arguments(t) is None
    with host_ctx.task(token.rw(), lx.rw()) as t:
        assert tensor_arguments(t).tolist() == [1, 1, 1]
        assert tensor_arg(t, 1).data_ptr() == t.get_arg(1)
        with pytest.raises(RuntimeError):
            tensor_arg(t, 0)
        with pytest.raises(IndexError):
            tensor_arg(t, 2)
    with host_ctx.task(ly.read(), token.rw(), lx.rw()) as t:
        first, second = tensor_arguments(t)
        assert (first.data_ptr(), second.data_ptr()) == (t.get_arg(0), t.get_arg(2))


def test_submitted_function_finds_its_tensors(host_ctx, torch):
    lx = host_ctx.logical_data(np.ones(COUNT))
    host_ctx.submit(lambda x: tensor_arguments(stf.current_task()).mul_(3), lx.rw())
    assert host_ctx.wait(lx).tolist() == [3] * COUNT


def test_submitted_function_finds_one_tensor(host_ctx, torch):
    lx, ly, token = host_ctx.logical_data(np.ones(3)), host_ctx.logical_data(b"abc"), None
    token = host_ctx.token()
    found = []

    def body(*_):
        task = stf.current_task()
        tensor_arg(task, 2).mul_(4)
        found.append(bytes(tensor_arg(task, 0).tolist()))
        found.append(tensor_arg(task, 2).data_ptr() == task.get_arg(2))
        for index, error in ((1, RuntimeError), (3, IndexError), (-1, OverflowError)):
            with pytest.raises(error):
                tensor_arg(task, index)
        found.append(task)

    host_ctx.submit(body, ly.read(), token.rw(), lx.rw())
    assert host_ctx.wait(lx).tolist() == [4] * 3
    assert found[:2] == [b"abc", True]
    for use in (lambda task: tensor_arg(task, 0), tensor_arguments, lambda task: task.get_arg(0)):
        with pytest.raises(RuntimeError, match="has ended"):
            use(found[2])


def test_number_of_calls_of_a_block(host_ctx, torch, calls_of):
    lx, ly = host_ctx.logical_data(np.ones(3)), host_ctx.logical_data(np.ones(3))

    def block():
        with pytorch_task(host_ctx, lx.read(), ly.rw()):
            pass

    block()
    assert calls_of(pytorch, block) == ["_new_tensors"]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64",
              "complex64", "complex128"]
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0, 3), (2, 3, 4), (1, 2, 1, 2, 1, 2)])
def test_elements_and_shapes(host_ctx, torch, dtype, shape):
    values = np.resize(np.array([0, 1], dtype), shape)
    lx = host_ctx.logical_data(values)
    for access in (lx.read(), lx.rw()):
        with pytorch_task(host_ctx, access) as (tensor,):
            assert str(tensor.dtype) == f"torch.{dtype}"
            assert tuple(tensor.shape) == shape
            assert np.array_equal(tensor.numpy(), values)


def test_bfloat16(host_ctx, torch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(8).astype(ml_dtypes.bfloat16)
    with pytorch_task(host_ctx, host_ctx.logical_data(values).rw()) as (tensor,):
        assert tensor.dtype == torch.bfloat16
        tensor *= 2
    host_ctx.finalize()
    assert values.astype(int).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_elements_that_pytorch_lacks_are_an_error(host_ctx, torch):
    lx = host_ctx.logical_data(np.zeros(2, [("a", "i4"), ("b", "f8")]))
    with pytest.raises(BufferError), pytorch_task(host_ctx, lx.read()):
        raise AssertionError("the block ran")


def test_what_one_block_does_to_its_tensor_is_not_seen_by_the_next(host_ctx, torch):
    lx = host_ctx.logical_data(np.ones((4, 4)))
    with pytorch_task(host_ctx, lx.rw()) as (tensor,):
        tensor.t_()
        tensor.unsqueeze_(0)
        tensor.requires_grad_()
        tensor.mark = 1
    with pytorch_task(host_ctx, lx.rw()) as (tensor,):
        assert (tuple(tensor.shape), tensor.stride()) == ((4, 4), (4, 1))
        assert not tensor.requires_grad
        assert not hasattr(tensor, "mark")


def test_inference_mode_of_one_block_is_not_seen_by_the_next(host_ctx, torch):
    lx = host_ctx.logical_data(np.ones(4))
    with torch.inference_mode(), pytorch_task(host_ctx, lx.rw()) as (tensor,):
        tensor += 1
    with pytorch_task(host_ctx, lx.rw()) as (tensor,):
        weight = torch.ones(4, requires_grad=True)
        (weight * tensor).sum().backward()
        assert weight.grad.tolist() == [2] * 4


# What a task on a GPU keeps, here over memory of the host.
def test_kept_tensor_shows_nothing_of_earlier_blocks(torch):
    memory, kept = torch.ones(4, 4), []

    def described(make):
        if not kept:
            view = types.SimpleNamespace(_capsule=lambda: torch.utils.dlpack.to_dlpack(memory))
            kept.append(make(view))
        return tuple(kept)

    task = types.SimpleNamespace(_described=described)
    with torch.inference_mode():
        tensor = tensor_arguments(task)
        tensor += 1
        tensor.t_()
    tensor = tensor_arguments(task)
    tensor.resize_(2, 3)
    tensor.requires_grad_()
    tensor.mark = 1
    tensor = tensor_arguments(task)
    assert (tuple(tensor.shape), tensor.stride()) == ((4, 4), (4, 1))
    assert not tensor.requires_grad
    assert not hasattr(tensor, "mark")
    assert tensor.data_ptr() == memory.data_ptr()
    weight = torch.ones(4, 4, requires_grad=True)
    (weight * tensor).sum().backward()
    assert weight.grad.tolist() == [[2] * 4] * 4


def test_backward_refuses_what_a_later_task_has_overwritten(torch):
    base = torch.ones(4)
    task = types.SimpleNamespace(_described=lambda _: (base,))
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * tensor_arguments(task)).sum()
    tensor_arguments(task).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_block_that_raises_fails_the_task(host_ctx, torch):
    lx = host_ctx.logical_data(np.ones(4))
    with pytest.raises(ZeroDivisionError), pytorch_task(host_ctx, lx.rw()):
        raise ZeroDivisionError
    with pytest.raises(stf.PoisonedError):
        host_ctx.wait(lx)


def test_wrong_arguments_are_those_of_task(host_ctx, torch):
    with pytest.raises(TypeError):
        pytorch_task(host_ctx, 3)


def test_messages_name_the_line_of_the_user(host_ctx, torch):
    empty = host_ctx.logical_data_empty((2,))
    with pytest.raises(stf.NotWrittenError) as caught, pytorch_task(host_ctx, empty.read()):
        pass
    assert caught.value.file == __file__


# The guide's chain, small: X*2, Y = X*2, Z = X*4 + 1, Y = Z*2 - 3.
def test_chain_of_blocks(host_ctx, torch):
    data = [np.ones(COUNT, np.float32) for _ in range(3)]
    x, y, z = (host_ctx.logical_data(each) for each in data)
    with pytorch_task(host_ctx, x.rw()) as (tx,):
        tx *= 2
    with pytorch_task(host_ctx, x.read(), y.write()) as (tx, ty):
        ty[:] = tx * 2
    with host_ctx.task(x.read(), z.write()) as t:
        tx, tz = tensor_arguments(t)
        tz[:] = tx * 4 + 1
    with pytorch_task(host_ctx, z.read(), y.rw()) as (tz, ty):
        ty[:] = ty * 2 - 3
    host_ctx.finalize()
    assert [set(each.tolist()) for each in data] == [{2}, {5}, {9}]


# --- without PyTorch


def test_missing_pytorch_says_what_to_install(host_ctx, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    lx = host_ctx.logical_data(np.zeros(2))
    with host_ctx.task(lx.rw()) as t, pytest.raises(ImportError, match="pip install torch"):
        tensor_arg(t, 0)
    with pytest.raises(ImportError, match="pip install torch"), pytorch_task(host_ctx, lx.rw()):
        pass
    host_ctx.finalize()


def test_importing_the_adapter_imports_no_framework(run_clean):
    assert run_clean("""
        import sys
        import millstream.interop.pytorch
        print([name for name in ("torch", "numpy", "millstream._core") if name in sys.modules])
    """) == "[]\n"  # fmt: skip


# --- streams, with stand-ins


class Trail:
    """Stand-ins for PyTorch and a task that note what is called, and fail where they are told."""

    def __init__(self, **failures):
        self.events = []
        self.failures = failures
        self.cuda = types.SimpleNamespace(ExternalStream=self.external, stream=self.scope)

    def note(self, event, result=None):
        self.events.append(event)
        if event in self.failures:
            raise self.failures[event]
        return result

    # the context and the task
    def task(self, *args):
        return self.note(("task", args), Task(self))

    # PyTorch
    def external(self, stream):
        return stream

    def scope(self, stream):
        trail = self

        class Scope:
            def __enter__(self):
                trail.note(f"enter {stream}")

            def __exit__(self, *raised):
                trail.note("leave")

        return Scope()

    def as_tensor(self, view):
        return self.note(f"tensor {view}", view.upper())


class Task:
    def __init__(self, trail):
        self.trail = trail

    def start(self):
        self.trail.note("start")

    def end(self):
        self.trail.note("end")

    def stream_ptr(self):
        return 7

    def args_cai(self):
        return ("x", "y")


class BodyError(Exception):
    pass


class StreamError(Exception):
    pass


class EndError(Exception):
    pass


def use(trail, monkeypatch, body=None):
    monkeypatch.setattr(pytorch, "_import_torch", lambda: trail)
    with pytorch_task(trail, "dep") as tensors:
        trail.note("body")
        assert tensors == ("X", "Y")


BEGIN = [("task", ("dep",)), "start", "enter 7", "tensor x", "tensor y"]


def test_order_of_a_block(monkeypatch):
    trail = Trail()
    use(trail, monkeypatch)
    assert trail.events == [*BEGIN, "body", "leave", "end"]


@pytest.mark.parametrize(
    ("failures", "seen"),
    [
        ({"leave": StreamError(), "end": EndError()}, StreamError),
        ({"end": EndError()}, EndError),
        ({"leave": StreamError()}, StreamError),
        ({"body": BodyError(), "leave": StreamError(), "end": EndError()}, BodyError),
    ],
)
def test_first_error_counts_and_all_is_cleaned_up(monkeypatch, failures, seen):
    trail = Trail(**failures)
    with pytest.raises(seen):
        use(trail, monkeypatch)
    assert trail.events == [*BEGIN, "body", "leave", "end"]


def test_error_while_making_tensors_ends_the_task(monkeypatch):
    trail = Trail(**{"tensor y": BodyError(), "leave": StreamError(), "end": EndError()})
    with pytest.raises(BodyError):
        use(trail, monkeypatch)
    assert trail.events == [*BEGIN, "leave", "end"]


def test_error_while_entering_the_stream_ends_the_task(monkeypatch):
    trail = Trail(**{"enter 7": StreamError(), "end": EndError()})
    with pytest.raises(StreamError):
        use(trail, monkeypatch)
    assert trail.events == [*BEGIN[:3], "end"]


def test_error_of_start_is_the_only_one(monkeypatch):
    trail = Trail(start=BodyError())
    with pytest.raises(BodyError):
        use(trail, monkeypatch)
    assert trail.events == BEGIN[:2]


# --- the two calls that make a stream current


@pytest.fixture
def gpu_torch(monkeypatch):
    """What the adapter uses of a PyTorch with a GPU; `current` is the stream of device 0."""
    torch = types.ModuleType("torch")
    torch.current = (0, 0, 1)
    torch.made = []
    torch.captured = False
    torch.Tensor = type("Tensor", (), {})

    def make_current(*number):
        torch.current = number

    def external(stream, device):
        torch.made.append((stream, device))
        return types.SimpleNamespace(stream_id=stream, device_index=device, device_type=1)

    torch._C = types.SimpleNamespace(
        _cuda_getCurrentStream=lambda device: torch.current, _cuda_setStream=make_current
    )
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 1,
        current_device=lambda: 0, init=lambda: None, ExternalStream=external,
        is_current_stream_capturing=lambda: torch.captured,
    )  # fmt: skip
    monkeypatch.setattr(pytorch, "_switches", {})
    return torch


def test_stream_is_made_current_and_given_back(gpu_torch):
    outer = pytorch.stream_switch(gpu_torch, 64, 0)
    inner = pytorch.stream_switch(gpu_torch, 80, 0)
    first = outer.enter(())
    assert gpu_torch.current == (64, 0, 1)
    second = inner.enter(())
    assert gpu_torch.current == (80, 0, 1)
    inner.leave(second)
    assert gpu_torch.current == (64, 0, 1)
    outer.leave(first)
    assert gpu_torch.current == (0, 0, 1)


def test_stream_is_wrapped_once(gpu_torch):
    switches = {pytorch.stream_switch(gpu_torch, 64, 0) for _ in range(3)}
    assert len(switches) == 1
    assert gpu_torch.made == [(64, 0)]


def test_device_that_pytorch_lacks_has_no_stream(gpu_torch):
    assert pytorch.stream_switch(gpu_torch, 64, 1) is None


@pytest.mark.fault("A43")
def test_allocator_is_told_of_arguments(gpu_torch):
    def tensor(is_cuda):
        made = gpu_torch.Tensor()
        made.is_cuda, made.used_on = is_cuda, []
        made.record_stream = lambda stream: made.used_on.append(stream.stream_id)
        return made

    on_gpu, on_cpu = tensor(True), tensor(False)
    pytorch.stream_switch(gpu_torch, 64, 0).enter((object(), on_gpu, on_cpu))
    assert (on_gpu.used_on, on_cpu.used_on) == ([64], [])
    gpu_torch.captured = True  # the recording keeps them, and PyTorch would ask the event
    pytorch.stream_switch(gpu_torch, 64, 0).enter((on_gpu,))
    assert on_gpu.used_on == [64]


def test_machine_without_gpu_streams_has_no_switch(host_ctx, gpu_torch):
    with host_ctx.task() as t:
        assert pytorch._find_switch(gpu_torch, t._where()) is None
    assert gpu_torch.made == []


def test_stream_of_a_gpu_task_is_found_by_its_number(gpu_torch):
    for _ in range(2):
        switch = pytorch._find_switch(gpu_torch, (stf.CudaStream(96), 0))
    assert switch is pytorch.stream_switch(gpu_torch, 96, 0)
    assert pytorch._switches == {(96, 0): switch}
    assert gpu_torch.made == [(96, 0)]
    on_host = pytorch._find_switch(gpu_torch, (stf.CudaStream(112), -1))
    assert on_host is pytorch.stream_switch(gpu_torch, 112, 0)


def test_block_shows_what_it_is(host_ctx):
    x = host_ctx.logical_data(np.zeros(2))
    text = repr(pytorch_task(host_ctx, x.rw()))
    assert text.startswith("pytorch_task(")
    assert text.endswith(", 1 deps, not started)")
