# SPDX-License-Identifier: Apache-2.0
"""Frameworks in bodies, and their arrays as data. Needs a real GPU and the framework."""

import ctypes

import millstream as stf
import numba_names
import numpy as np
import pytest
from millstream.interop.pytorch import pytorch_task, tensor_arg, tensor_arguments

pytestmark = pytest.mark.gpu
COUNT = 100_000


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(COUNT, dtype=np.float32), name="x")


@pytest.fixture
def doubled():
    return (2 * np.arange(COUNT, dtype=np.float32)).tolist()


# --- PyTorch


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    return torch


@pytest.mark.parametrize("take", ["as_tensor", "from_dlpack"])
def test_torch_takes_views_in_a_function(ctx, torch, x, doubled, take):
    def double(view):
        stream = stf.current_task().stream_ptr()
        assert torch.cuda.current_stream().cuda_stream == stream
        options = {"device": "cuda"} if take == "as_tensor" else {}
        tensor = getattr(torch, take)(view, **options)
        assert (tensor.data_ptr(), tensor.shape) == (view.ptr, (COUNT,))
        tensor *= 2

    before = torch.cuda.current_stream()
    ctx.submit(double, x.rw())
    assert torch.cuda.current_stream() == before
    assert ctx.wait(x).tolist() == doubled


def test_torch_takes_views_in_a_with_body(ctx, torch, x, doubled):
    with ctx.task(x.rw()) as t, torch.cuda.stream(torch.cuda.ExternalStream(t.stream_ptr())):
        tensor = torch.as_tensor(t[0], device="cuda")
        tensor *= 2
    assert ctx.wait(x).tolist() == doubled


def test_torch_tensor_of_one_block_is_not_that_of_the_next(ctx, torch):
    y = ctx.logical_data(np.ones((4, 6), np.float32))
    with torch.inference_mode(), pytorch_task(ctx, y.rw()) as (tensor,):
        tensor += 1
        tensor.t_()
    for _ in range(2):
        with pytorch_task(ctx, y.rw()) as (tensor,):
            assert (tuple(tensor.shape), tensor.stride()) == ((4, 6), (6, 1))
            assert not tensor.requires_grad
            weight = torch.ones((4, 6), device="cuda", requires_grad=True)
            (weight * tensor).sum().backward()
            tensor.copy_(weight.grad)
            tensor.requires_grad_()
    assert ctx.wait(y).tolist() == [[2] * 6] * 4


def test_torch_takes_views_that_are_only_read(ctx, torch, x):
    y = ctx.logical_data_empty((COUNT,), np.float32)

    def copy(target, source):
        torch.as_tensor(target, device="cuda").copy_(torch.as_tensor(source, device="cuda"))

    ctx.submit(copy, y.write(), x.read())
    assert ctx.wait(y).tolist() == list(range(COUNT))


@pytest.mark.fault("A43")
def test_torch_tensor_that_is_dropped_before_the_gpu_has_used_it(ctx, torch):
    def copy_slowly(view, tensor):
        torch.cuda._sleep(5_000_000)
        torch.as_tensor(view, device="cuda").copy_(tensor)

    results = [ctx.logical_data_empty((COUNT,), np.float32) for _ in range(20)]
    for number, each in enumerate(results):
        tensor = torch.full((COUNT,), float(number), device="cuda")
        torch.cuda.synchronize()
        ctx.submit(copy_slowly, each.write(), args=(tensor,))
        del tensor
        torch.full((COUNT,), -1.0, device="cuda")  # of the block that is free, if it is
    assert [set(ctx.wait(each)) for each in results] == [{float(n)} for n in range(20)]


def test_torch_tensor_is_used_where_it_is_and_waited_for(machine, torch):
    side = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(side):
            tensor = torch.zeros(COUNT, device="cuda")
            torch.cuda._sleep(2_000_000)
            tensor.fill_(4)
            with stf.context(machine=machine) as ctx:
                data = ctx.logical_data(tensor)
                assert (data.shape, data.dtype) == ((COUNT,), np.float32)
                ctx.submit(lambda view: torch.as_tensor(view, device="cuda").mul_(2), data.rw())
        assert tensor.cpu().tolist() == [8] * COUNT
    assert ctx.stats()["copies"] == 0


def test_torch_tensor_that_the_user_dropped_is_kept(machine, torch):
    sums = []
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(torch.ones(COUNT, dtype=torch.float64, device="cuda"))
        others = [torch.full((COUNT,), 7.0, device="cuda") for _ in range(10)]
        ctx.submit(lambda view: torch.as_tensor(view, device="cuda").mul_(2), data.rw())
        ctx.host_launch(data.read(), fn=lambda values: sums.append(values.sum()))
    assert sums == [2 * COUNT]
    assert len(others) == 10


def test_torch_layouts_are_checked(ctx, torch):
    tensor = torch.zeros((4, 6), device="cuda")
    with pytest.raises(ValueError, match="not C-contiguous"):
        ctx.logical_data(tensor.T)
    with pytest.raises(ValueError, match="not C-contiguous"):
        ctx.logical_data(tensor[:, ::2])
    with pytest.raises(BufferError):
        ctx.logical_data(torch.zeros(4, device="cuda", requires_grad=True))


def test_torch_host_tensor_is_data(machine, torch):
    tensor = torch.ones(COUNT)
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(tensor)
        ctx.submit(lambda view: torch.as_tensor(view, device="cuda").mul_(3), data.rw())
    assert tensor.tolist() == [3] * COUNT


def test_torch_stream_carries_a_context(machine, torch):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        tensor = torch.ones(COUNT, device="cuda")
        with stf.context(stream=stream, machine=machine) as ctx:
            data = ctx.logical_data(tensor)
            ctx.submit(lambda view: torch.as_tensor(view, device="cuda").mul_(3), data.rw())
        tensor += 1
    stream.synchronize()
    assert tensor.cpu().tolist() == [4] * COUNT


def test_torch_graph_records_a_context(machine, torch):
    tensor = torch.zeros(COUNT, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        stream = torch.cuda.current_stream()
        with stf.context(stream=stream, machine=machine) as ctx:
            left, right, total = (ctx.token() for _ in range(3))
            data = ctx.logical_data(tensor)
            ctx.submit(lambda view: torch.as_tensor(view, device="cuda").add_(1),
                       data.rw(), left.write(), right.write())  # fmt: skip
            ctx.submit(lambda view: torch.as_tensor(view, device="cuda").mul_(3),
                       data.rw(), left.read(), right.read(), total.write())  # fmt: skip
    for expected in (3, 12, 39):
        graph.replay()
        torch.cuda.synchronize()
        assert tensor.cpu().tolist() == [expected] * COUNT


# --- the PyTorch adapter


def test_torch_block_has_the_stream_and_the_data(ctx, torch, x, doubled):
    before = torch.cuda.current_stream()
    with pytorch_task(ctx, x.rw()) as (tensor,):
        assert tensor.is_cuda
        assert torch.cuda.current_stream() != before
        tensor *= 2
    assert torch.cuda.current_stream() == before
    assert ctx.wait(x).tolist() == doubled


def test_torch_stream_is_that_of_the_task(ctx, torch, x):
    with ctx.task(x.rw()) as task:  # a chain stays in its stream
        stream = int(task.stream_ptr())
    for _ in range(3):
        with pytorch_task(ctx, x.rw()):
            assert torch.cuda.current_stream().cuda_stream == stream


def test_torch_block_that_raises_gives_the_stream_back(ctx, torch, x):
    before = torch.cuda.current_stream()
    with pytest.raises(ZeroDivisionError), pytorch_task(ctx, x.rw()):
        raise ZeroDivisionError
    assert torch.cuda.current_stream() == before
    with pytest.raises(stf.PoisonedError):
        ctx.wait(x)


@pytest.mark.parametrize("place", ["affine", "managed", "host"])
def test_torch_tensor_is_on_the_gpu_wherever_the_memory_is(ctx, torch, x, doubled, place):
    with pytorch_task(ctx, x.rw(getattr(stf.data_place, place)())) as (tensor,):
        assert tensor.is_cuda
        tensor *= 2
    assert ctx.wait(x).tolist() == doubled


def test_torch_tensors_in_a_function_and_in_a_task(ctx, torch, x, doubled):
    ctx.submit(lambda view: tensor_arguments(stf.current_task()).mul_(4), x.rw())
    with ctx.task(x.rw()) as t:
        tensor = tensor_arg(t, 0)
        assert tensor.data_ptr() == t.get_arg(0)
        with torch.cuda.stream(torch.cuda.ExternalStream(t.stream_ptr())):
            tensor /= 2
    assert ctx.wait(x).tolist() == doubled


def test_torch_argument_that_is_dropped_is_used_before_its_memory(ctx, torch, x):
    def add(view, weight):
        torch.cuda._sleep(20_000_000)
        tensor_arguments(stf.current_task()).add_(weight)

    weight = torch.ones(COUNT, device="cuda")
    torch.cuda.synchronize()
    ctx.submit(add, x.rw(), args=(weight,))
    del weight
    others = [torch.full((COUNT,), 7.0, device="cuda") for _ in range(10)]
    assert ctx.wait(x).tolist() == list(range(1, COUNT + 1))
    assert len(others) == 10


def test_torch_block_on_the_second_device(two_devices, torch):
    with stf.context(machine=two_devices) as ctx:
        data = ctx.logical_data_empty((COUNT,))
        with pytorch_task(ctx, stf.exec_place.device(1), data.write()) as (tensor,):
            assert tensor.device.index == torch.cuda.current_device() == 1
            tensor.fill_(6)
        assert torch.cuda.current_device() == 0
        assert ctx.wait(data).tolist() == [6] * COUNT


# --- CuPy


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("take", ["asarray", "from_dlpack"])
def test_cupy_takes_views_in_a_function(ctx, cupy, x, doubled, take):
    def double(view):
        assert cupy.cuda.get_current_stream().ptr == stf.current_task().stream_ptr()
        array = getattr(cupy, take)(view)
        assert array.data.ptr == view.ptr
        array *= 2

    ctx.submit(double, x.rw())
    assert ctx.wait(x).tolist() == doubled


def test_cupy_array_is_used_where_it_is_and_waited_for(machine, cupy):
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(20):
            array = cupy.zeros(COUNT)
            for _ in range(50):
                array += 1
            with stf.context(machine=machine) as ctx:
                data = ctx.logical_data(array)
                ctx.submit(lambda view: cupy.asarray(view).__imul__(2), data.rw())
            assert ctx.stats()["copies"] == 0
            assert array.get().tolist() == [100] * COUNT


def test_cupy_page_locked_memory_is_data(ctx, cupy):
    memory = cupy.cuda.alloc_pinned_memory(8 * COUNT)
    values = np.frombuffer(memory, np.float64, COUNT)
    values[:] = 2
    data = ctx.logical_data(values)
    ctx.submit(lambda view: cupy.asarray(view).fill(5), data.write())
    ctx.finalize()
    assert values.tolist() == [5] * COUNT


def test_cupy_on_the_second_device(two_devices, cupy):
    with stf.context(machine=two_devices) as ctx:
        data = ctx.logical_data_empty((COUNT,))
        ctx.submit(lambda view: cupy.asarray(view).fill(6), data.write(),
                   place=stf.exec_place.device(1))  # fmt: skip
        assert ctx.wait(data).tolist() == [6] * COUNT


# --- Numba


@pytest.fixture
def cuda():
    pytest.importorskip("numba_cuda")
    numba_names.add()
    return pytest.importorskip("numba.cuda")


@pytest.fixture
def scale(cuda):
    @cuda.jit
    def scale(a, x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = a * x[i]

    return scale


def test_numba_takes_views(ctx, cuda, scale, x, doubled):
    with ctx.task(x.rw()) as t:
        array = cuda.from_cuda_array_interface(t.get_arg_cai(0), owner=None, sync=False)
        stream = cuda.external_stream(t.stream_ptr())
        scale[(COUNT + 127) // 128, 128, stream](np.float32(2), array)
    assert ctx.wait(x).tolist() == doubled


def test_numba_array_is_used_where_it_is_and_waited_for(machine, cuda, scale):
    stream = cuda.stream()
    for _ in range(20):
        array = cuda.to_device(np.ones(COUNT, np.float32), stream=stream)
        scale[(COUNT + 127) // 128, 128, stream](np.float32(3), array)
        with stf.context(machine=machine) as ctx:
            data = ctx.logical_data(array)
            with ctx.task(data.rw()) as t:
                view = cuda.from_cuda_array_interface(t.get_arg_cai(0), owner=None, sync=False)
                on = cuda.external_stream(t.stream_ptr())
                scale[(COUNT + 127) // 128, 128, on](np.float32(2), view)
        assert array.copy_to_host().tolist() == [6] * COUNT


# --- cuda.core


def test_cuda_core_launches_in_a_body(ctx, x, doubled):
    core = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()
    source = """extern "C" __global__ void scale(float* x, float a, unsigned long long n) {
        unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
        if (i < n) x[i] *= a;
    }"""
    program = core.Program(source, "c++", core.ProgramOptions(arch=f"sm_{device.arch}"))
    kernel = program.compile("cubin").get_kernel("scale")
    with ctx.task(x.rw()) as t:
        stream = core.Stream.from_handle(int(t.stream_ptr()))
        config = core.LaunchConfig(grid=(COUNT + 127) // 128, block=128)
        core.launch(stream, config, kernel, t.get_arg(0), ctypes.c_float(2), ctypes.c_uint64(COUNT))
    assert ctx.wait(x).tolist() == doubled


def test_cuda_core_stream_carries_a_context(machine):
    core = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    with stf.context(stream=stream, machine=machine) as inner:
        data = inner.logical_data_zeros((COUNT,), np.float32)
        assert inner.wait(data).sum() == 0
        assert inner.fence() == int(stream.handle)
    stream.sync()
