# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries in host memory as data. Each test needs its library."""

import millstream as stf
import numpy as np
import pytest
from dlpack_capsule import CPU, Exporter

pytestmark = pytest.mark.filterwarnings("ignore")
ON_HOST = stf.exec_place.host()
PLAIN = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


def triple(x):
    np.multiply(x, 3, out=x, casting="unsafe")


# --- PyTorch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [*PLAIN, "complex64", "complex128", "float16"])
@pytest.mark.host_devices
def test_torch_tensors_get_the_result(ctx, torch, dtype):
    tensor = torch.tensor([1, 0, 1, 1], dtype=getattr(torch, dtype))
    data = ctx.logical_data(tensor)
    assert (data.shape, data.dtype) == ((4,), np.dtype(dtype))
    flip = np.logical_not if dtype == "bool" else np.negative
    if dtype == "uint8":
        flip = np.invert
    ctx.submit(lambda x: flip(x, out=x), data.rw(), place=stf.exec_place.device(1))
    ctx.finalize()
    assert tensor.tolist() == flip(np.array([1, 0, 1, 1], dtype)).tolist()


@pytest.mark.host_devices
def test_torch_tensors_of_any_layout_are_packed(ctx, torch):
    tensor = torch.arange(24.0).reshape(4, 6)
    twin = tensor.clone()
    with pytest.raises(ValueError, match=r"not C-contiguous.*copy=.pack"):
        ctx.logical_data(tensor.t())
    data = ctx.logical_data(tensor.t()[::2], copy="pack")
    assert data.shape == (3, 4)
    ctx.submit(triple, data.rw(), place=stf.exec_place.device(1))
    ctx.finalize()
    twin.t()[::2] *= 3
    assert torch.equal(tensor, twin)


def test_expanded_torch_tensors_are_read_only(ctx, torch):
    data = ctx.logical_data(torch.arange(3.0).expand(4, 3), copy="pack")
    assert data.readonly
    assert ctx.wait(data).tolist() == [[0, 1, 2]] * 4


def test_torch_tensors_that_stand_for_other_values_are_refused(ctx, torch):
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    imaginary = numbers.conj().imag  # the negative of what is in memory
    assert imaginary.is_neg()
    for how in ({}, {"copy": "pack"}):
        with pytest.raises(ValueError, match=r"is_neg\(\) is true\); register x.resolve_neg\(\)"):
            ctx.logical_data(imaginary, **how)
    with pytest.raises(ValueError, match=r"is_conj\(\) is true\); register x.resolve_conj\(\)"):
        ctx.logical_data(numbers.conj())
    data = ctx.logical_data(imaginary.resolve_neg())
    assert ctx.wait(data).tolist() == [-2, 4]


def test_torch_bfloat16_needs_ml_dtypes(ctx, torch):
    pytest.importorskip("ml_dtypes")
    data = ctx.logical_data(torch.tensor([1.5, -2], dtype=torch.bfloat16))
    assert str(data.dtype) == "bfloat16"
    assert ctx.wait(data).astype("f4").tolist() == [1.5, -2]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,) * 12])
def test_torch_shapes_are_kept(ctx, torch, shape):
    data = ctx.logical_data(torch.zeros(shape))
    assert data.shape == shape
    assert ctx.wait(data).shape == shape


def test_torch_tensors_that_need_gradients_are_refused_by_torch(ctx, torch):
    with pytest.raises(BufferError, match="detach"):
        ctx.logical_data(torch.zeros(2, requires_grad=True))


@pytest.mark.host_devices
def test_torch_takes_views_and_arrays(ctx, torch):
    data = ctx.logical_data(np.arange(4.0))
    with ctx.task(data.rw()) as t:
        for tensor in (torch.from_dlpack(t.args_cai()), torch.as_tensor(t[0])):
            assert tensor.data_ptr() == t.get_arg(0)
            tensor += 1
    assert ctx.wait(data).tolist() == [2, 3, 4, 5]


# --- JAX


@pytest.fixture
def jax(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "complex64", "float16"])
def test_jax_arrays_are_read_only_data(ctx, jax, dtype):
    array = jax.numpy.array([1, 0, 1], dtype)
    data = ctx.logical_data(array)
    assert (data.shape, data.dtype) == ((3,), np.dtype(dtype))
    assert ctx.wait(data).tolist() == array.tolist()
    assert data.readonly  # JAX shares arrays that it takes for constant
    with pytest.raises(ValueError, match="read-only"):
        data.rw()


def test_jax_bfloat16_is_data(ctx, jax):
    data = ctx.logical_data(jax.numpy.array([1.5, -2], "bfloat16"))
    assert str(data.dtype) == "bfloat16"
    assert ctx.wait(data).astype("f4").tolist() == [1.5, -2]


@pytest.mark.host_devices
def test_jax_takes_views(ctx, jax):
    data = ctx.logical_data(np.arange(4, dtype="f4"))
    with ctx.task(data.rw()) as t:
        assert jax.numpy.asarray(t[0]).tolist() == [0, 1, 2, 3]


# --- Warp


@pytest.fixture(scope="module")
def warp():
    warp = pytest.importorskip("warp")
    warp.config.quiet = True
    warp.init()
    return warp


@pytest.mark.host_devices
def test_warp_arrays_get_the_result(ctx, warp):
    array = warp.array(np.arange(6, dtype="f4").reshape(2, 3), dtype=float, device="cpu")
    data = ctx.logical_data(array)
    assert (data.shape, data.dtype) == ((2, 3), np.float32)
    ctx.submit(triple, data.rw(), place=stf.exec_place.device(1))
    ctx.finalize()
    assert array.numpy().tolist() == [[0, 3, 6], [9, 12, 15]]


@pytest.mark.host_devices
def test_warp_arrays_of_vectors_have_one_axis_more(ctx, warp):
    array = warp.zeros(4, dtype=warp.vec3, device="cpu")
    data = ctx.logical_data(array)
    assert (data.shape, data.dtype) == ((4, 3), np.float32)
    with ctx.task(data.rw()) as (x,):
        x[:, 1] = 2
    ctx.finalize()
    assert array.numpy()[:, 1].tolist() == [2] * 4


@pytest.mark.host_devices
def test_strided_warp_arrays_are_packed(ctx, warp):
    array = warp.array(np.arange(12, dtype="f8").reshape(3, 4), dtype=warp.float64, device="cpu")
    data = ctx.logical_data(array.transpose(), copy="pack")
    assert data.shape == (4, 3)
    ctx.submit(triple, data.rw())
    ctx.finalize()
    assert array.numpy().tolist() == (3 * np.arange(12.0).reshape(3, 4)).tolist()


@pytest.mark.host_devices
def test_warp_takes_views(ctx, warp):
    data = ctx.logical_data(np.arange(4, dtype="f4"))
    with ctx.task(data.rw()) as t:
        array = warp.from_dlpack(t.args_cai())
        assert array.ptr == t.get_arg(0)
        array.fill_(7)
    assert ctx.wait(data).tolist() == [7] * 4


# --- Numba


@pytest.mark.host_devices
def test_numba_compiles_for_arrays_of_tasks(ctx):
    numba = pytest.importorskip("numba")

    @numba.njit
    def running_sum(x, y):
        total = 0.0
        for i in range(x.size):
            total += x[i]
            y[i] = total

    x = ctx.logical_data(np.arange(5.0))
    y = ctx.logical_data_empty((5,))
    ctx.submit(running_sum, x.read(), y.write(), place=stf.exec_place.device(1))
    assert ctx.wait(y).tolist() == [0, 1, 3, 6, 10]


# --- ml_dtypes


@pytest.mark.parametrize(
    "name",
    [
        "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
        "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    ],
)  # fmt: skip
@pytest.mark.host_devices
def test_small_floats_go_there_and_back(ctx, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    source = np.array([1, 2, 4, 0.5], "f4").astype(dtype)
    expected = source[::-1].copy()
    data = ctx.logical_data(source)
    assert data.dtype == dtype

    def turn(x):
        assert x.dtype == dtype
        x[:] = x[::-1].copy()

    ctx.submit(turn, data.rw(), place=stf.exec_place.device(1))
    with ctx.task(data.read()) as t:
        assert '"dltensor_versioned"' in repr(t.args_cai().__dlpack__(max_version=(1, 0)))
    strided = np.array([1, 2, 4, 0.5], "f4").astype(dtype)
    ctx.submit(turn, ctx.logical_data(strided[::2], copy="pack").rw())
    ctx.finalize()
    assert source.tobytes() == expected.tobytes()
    assert strided.astype("f4").tolist() == [4, 2, 1, 0.5]
    full = stf.context(machine=stf.machine("host", devices=2))
    assert full.wait(full.logical_data_full((2,), 2, dtype)).astype("f4").tolist() == [2, 2]
    full.finalize()


# --- DLPack without an array


class Capsule:
    """What is left of an array when only its capsule was kept."""

    def __new__(cls, array, **options):
        return array.__dlpack__(**options)


@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}], ids=str)
def test_capsules_are_data(ctx, options):
    values = np.arange(6.0).reshape(2, 3)
    data = ctx.logical_data(Capsule(values, **options))
    assert (data.shape, data.dtype, data.readonly) == ((2, 3), np.float64, False)
    ctx.submit(triple, data.rw(), place=ON_HOST)
    ctx.finalize()
    assert values.ravel().tolist() == [0, 3, 6, 9, 12, 15]


def test_read_only_capsules_say_so(ctx):
    values = np.arange(3.0)
    values.flags.writeable = False
    assert ctx.logical_data(Capsule(values, max_version=(1, 0))).readonly


def test_used_and_other_capsules_are_refused(ctx):
    capsule = Capsule(np.arange(3.0))
    kept = ctx.logical_data(capsule)
    with pytest.raises(TypeError, match=r"used_dltensor.*new capsule"):
        ctx.logical_data(capsule)
    import datetime

    with pytest.raises(TypeError, match="datetime"):
        ctx.logical_data(datetime.datetime_CAPI)
    assert ctx.wait(kept).tolist() == [0, 1, 2]


HUGE = 2**62


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    ("shape", "options", "text"),
    [
        ((2, 3), {"rank": -1}, "of -1 dimensions"),
        ((2, 3), {"rank": 2**31 - 1}, "more than (32|64) dimensions"),
        ((2, -3), {}, "an extent of -3"),
        ((HUGE, HUGE), {}, "more bytes than an address can count"),
        ((2, 2), {"strides": (HUGE, 1)}, "a stride that leaves the memory"),
        ((2, 2), {"strides": (-HUGE, 1)}, "a stride that leaves the memory"),
        ((3, 2), {"strides": (2**59, 1)}, "leaves the memory"),
    ],
)
def test_dlpack_that_is_impossible_is_refused(ctx, shape, options, text, versioned):
    values = np.arange(6.0)
    array = Exporter(values.ctypes.data, shape, values.dtype, (CPU, 0), versioned=versioned,
                     **options)  # fmt: skip
    with pytest.raises(ValueError, match=text):
        ctx.logical_data(array, copy="pack")


def test_dlpack_without_memory_or_extents_is_refused(ctx):
    nowhere = Exporter(None, (2,), np.dtype("f8"), (CPU, 0), offset=8)
    with pytest.raises(ValueError, match="null pointer"):
        ctx.logical_data(nowhere)
    shapeless = Exporter(8, None, np.dtype("f8"), (CPU, 0), rank=2)
    with pytest.raises(ValueError, match="without its extents"):
        ctx.logical_data(shapeless)
