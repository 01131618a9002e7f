# SPDX-License-Identifier: Apache-2.0
"""PyTorch and CuPy in bodies of recorded tasks, on a GPU."""

import gc

import first_call
import millstream as stf
import numpy as np
import pytest
import scratch

pytestmark = pytest.mark.gpu

SIZE = 64


@pytest.mark.parametrize("name", first_call.TORCH_CALLS)
def test_a16_the_first_call_of_pytorch(run_python, name):
    pytest.importorskip("torch")
    done = run_python(first_call.of_pytorch(name))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in first_call.OUTCOMES


# CuPy refuses to call cuBLAS while a stream is captured, each time.
@pytest.mark.parametrize(
    ("call", "expected", "refused"),
    [("cupy.add(a, b, out=c)", "a + b", False), ("cupy.matmul(a, b, out=c)", "a @ b", True)],
)
def test_a16_the_first_call_of_cupy(run_python, call, expected, refused):
    pytest.importorskip("cupy")
    done = run_python(first_call.of_cupy(call, expected, refused))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in first_call.OUTCOMES


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    one = found.ones((2, 2), dtype=found.float64, device="cuda")
    found.linalg.cholesky_ex(one @ one + 4 * found.eye(2, dtype=found.float64, device="cuda"))
    found.cuda.synchronize()
    return found


@pytest.fixture
def ctx(machine):
    context = stf.context(use_graph=True, machine=machine)
    yield context
    context.finalize()


def tensors():
    from millstream.interop.pytorch import tensor_arguments

    return tensor_arguments(stf.current_task())


def test_independent_products_with_temporaries(torch, machine):
    """Workspaces and temporaries are those of the bodies' streams."""
    rng = np.random.default_rng(0)
    left = [rng.standard_normal((SIZE, SIZE)) for _ in range(24)]
    result = [np.zeros((SIZE, SIZE)) for _ in left]

    def body(*_):
        a, c = tensors()
        c.copy_((a @ a.mT) @ (a + a.mT))

    with stf.context(use_graph=True, machine=machine) as ctx:
        pairs = [
            (ctx.logical_data(a), ctx.logical_data(c)) for a, c in zip(left, result, strict=True)
        ]
        for _ in range(5):
            for a, c in pairs:
                ctx.submit(body, a.read(), c.write())
            ctx.fence()
    for a, c in zip(left, result, strict=True):
        np.testing.assert_allclose(c, (a @ a.T) @ (a + a.T), rtol=1e-10)


def test_the_allocator_grows_while_a_body_is_captured(torch, ctx):
    torch.cuda.empty_cache()
    count = 8 << 20
    x = ctx.logical_data(np.ones(count))

    def body(*_):
        tensor = tensors()
        larger = torch.empty(2 * count, dtype=torch.float64, device="cuda")
        larger.fill_(3)
        tensor.mul_(larger[count:])

    for _ in range(3):
        ctx.submit(body, x.rw())
        ctx.fence()
    assert set(ctx.wait(x)) == {27.0}


def test_blocks_that_wait_for_other_streams_are_polled_meanwhile(torch, ctx):
    """The allocator asks their events at each allocation, those of the capture included."""
    side = torch.cuda.Stream()
    x = ctx.logical_data(np.ones(SIZE))

    def body(*_):
        tensor = tensors()
        tensor.copy_(tensor.repeat(4).reshape(4, SIZE).sum(0))

    for turn in range(1, 6):
        for _ in range(10):
            made = torch.full((1 << 16,), 1.0, device="cuda")
            made.record_stream(side)
            with torch.cuda.stream(side):
                made.add_(1)
            del made
        ctx.submit(body, x.rw())
        ctx.fence()
        assert set(ctx.wait(x)) == {4.0**turn}
    torch.cuda.synchronize()


def test_a43_tensors_in_args_live_until_the_graph_has_run(torch, machine):
    values = np.zeros(SIZE)

    def body(_, added):
        tensors().add_(added)

    with stf.context(use_graph=True, machine=machine) as ctx:
        x = ctx.logical_data(values)
        for _ in range(200):
            added = torch.full((SIZE,), 1.0, dtype=torch.float64, device="cuda")
            torch.cuda.current_stream().synchronize()
            ctx.submit(body, x.rw(), args=(added,))
            del added
            gc.collect()
            torch.full((SIZE,), -1.0, dtype=torch.float64, device="cuda")  # takes its place
            torch.cuda.current_stream().synchronize()
    assert set(values) == {200.0}


@pytest.mark.parametrize("call", ["item", "random"])
def test_what_cannot_be_captured_is_told(torch, machine, call):
    ctx = stf.context(use_graph=True, machine=machine)
    x = ctx.logical_data(np.ones(SIZE), name="x")
    other = ctx.logical_data(np.ones(SIZE))
    streams = []

    def body(*_):
        streams.append(int(stf.current_task().stream_ptr()))
        tensor = tensors()
        if call == "item":
            tensor.mul_(tensor.sum().item())
        else:
            tensor.add_(torch.rand(SIZE, device="cuda"))

    def scale(*_):
        tensors().mul_(3)

    ctx.submit(body, x.rw(), symbol="offender")
    with pytest.raises((stf.Error, RuntimeError)) as told:
        ctx.check_errors()
    assert "offender" in str(told.value) + str(getattr(told.value, "__notes__", ""))
    assert not torch.cuda.is_current_stream_capturing()
    with torch.cuda.stream(torch.cuda.ExternalStream(streams[0])):
        assert not torch.cuda.is_current_stream_capturing()
    ctx.submit(scale, other.rw())
    assert set(ctx.wait(other)) == {3.0}
    ctx.finalize()
    assert torch.ones(4, device="cuda").sum().item() == 4


def test_rounds_leave_no_memory(torch, machine, driver):
    def body(*_):
        tensor = tensors()
        tensor.copy_(tensor @ tensor.mT)

    def run():
        with stf.context(use_graph=True, machine=machine) as ctx:
            x = ctx.logical_data(np.eye(SIZE))
            for _ in range(3):
                ctx.submit(body, x.rw())
                ctx.fence()
            assert ctx.wait(x).trace() == SIZE

    for _ in range(3):
        run()
    torch.cuda.empty_cache()
    before = scratch.in_use(driver)
    for _ in range(30):
        run()
    torch.cuda.empty_cache()
    assert scratch.in_use(driver) - before < 1 << 20


def test_a_training_step_is_updated(torch, machine):
    values = np.full(SIZE, 2.0)

    def step(*_):
        weight = tensors()
        with torch.enable_grad():
            leaf = weight.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(leaf.square().sum(), leaf)
        weight.sub_(gradient, alpha=0.25)

    with stf.context(use_graph=True, machine=machine) as ctx:
        x = ctx.logical_data(values)
        for _ in range(5):
            ctx.submit(step, x.rw())
            ctx.fence()
        stats = ctx.stats()
    assert set(values) == {2.0 / 32}
    assert (stats["instantiations"], stats["updates"]) == (2, 3)
