# SPDX-License-Identifier: Apache-2.0
"""Arrays that are not C-contiguous: packed for tasks, written back element by element."""

import contextlib
import os

import millstream as stf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millstream._core import copy_from_memory, copy_to_memory

DEVICES = [stf.exec_place.device(0), stf.exec_place.device(1)]


def base(shape, dtype="f8"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


LAYOUTS = {
    "every second": lambda: base(12)[::2],
    "every second column": lambda: base((4, 6))[:, ::2],
    "reversed": lambda: base(7)[::-1],
    "both reversed": lambda: base((3, 4))[::-1, ::-1],
    "transposed": lambda: base((3, 5)).T,
    "Fortran order": lambda: np.asfortranarray(base((3, 4))),
    "inner block": lambda: base((6, 7, 8))[1:4, 2:5, 3:6],
    "axes exchanged": lambda: base((2, 3, 4, 5)).transpose(2, 0, 3, 1),
    "rank 6": lambda: base((2, 3, 2, 3, 2, 3)).transpose(5, 1, 3, 0, 2, 4)[::-1, :, ::2],
    "one column": lambda: base((5, 6))[:, 3],
    "one element of extent 1": lambda: base((4, 6))[1:2, ::5],
    "field of records": lambda: np.zeros(5, [("a", "i2"), ("b", "f8"), ("c", "u1")])["b"],
    "complex parts": lambda: (base(6) + 1j).astype("c16").imag,
    "memoryview": lambda: memoryview(bytearray(range(20)))[3:17:3],
    "negative memoryview": lambda: memoryview(bytearray(range(20)))[::-2],
}


def as_array(source):
    return source if isinstance(source, np.ndarray) else np.asarray(source)


def whole(array):
    while array.base is not None and isinstance(array.base, np.ndarray):
        array = array.base
    return array


@pytest.mark.fault("A38")
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.host_devices
def test_packed_array_gets_the_result_element_by_element(ctx, make):
    source, twin = make(), as_array(make())
    data = ctx.logical_data(source, copy="pack", name="x")
    assert (data.shape, data.dtype) == (twin.shape, twin.dtype)
    assert not data.readonly

    def step(x):
        assert x.flags.c_contiguous
        x[...] = x[..., ::-1].copy() * 3

    ctx.submit(step, data.rw(), place=DEVICES[1])
    with ctx.task(data.rw()) as (x,):
        np.add(x, 1, out=x)
    twin[...] = twin[..., ::-1].copy() * 3
    twin += 1
    assert ctx.wait(data).tobytes() == twin.tobytes()
    ctx.finalize()
    assert whole(as_array(source)).tobytes() == whole(twin).tobytes()


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_packed_content_can_be_looked_at_at_once(ctx, make):
    source = make()
    assert ctx.wait(ctx.logical_data(source, copy="pack")).tobytes() == as_array(source).tobytes()


@pytest.mark.host_devices
def test_only_what_was_written_is_written_back(ctx):
    source = base(8)
    data = ctx.logical_data(source[::2], copy="pack")
    ctx.submit(lambda x: None, data.read(), place=DEVICES[1])
    ctx.wait(data)
    source[:] = 7  # nobody writes the data, so this stays
    ctx.finalize()
    assert source.tolist() == [7] * 8


@pytest.mark.host_devices
def test_elements_between_are_left_alone(ctx):
    source = base(9)
    data = ctx.logical_data(source[1::2], copy="pack")
    with ctx.task(data.write()) as (x,):
        source[::2] = -1  # while the task runs
        x[:] = 5
    ctx.finalize()
    assert source.tolist() == [-1, 5, -1, 5, -1, 5, -1, 5, -1]


@pytest.mark.host_devices
def test_dropped_packed_data_are_written_back_and_can_be_registered_again(ctx):
    source = base((3, 4)).T
    for _ in range(20):
        data = ctx.logical_data(source, copy="pack")
        ctx.submit(lambda x: np.add(x, 1, out=x), data.rw(), place=DEVICES[1])
        del data
    ctx.finalize()
    assert (source == base((3, 4)).T + 20).all()


def test_contiguous_arrays_are_used_where_they_are(ctx):
    source = base(4)
    data = ctx.logical_data(source, copy="pack")
    with ctx.task(stf.exec_place.host(), data.rw(stf.data_place.host())) as (x,):
        assert x.ctypes.data == source.ctypes.data


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_packed_arrays_without_elements(ctx, shape):
    source = np.zeros((*shape, 2))[..., 0][::-1]
    data = ctx.logical_data(source, copy="pack")
    assert data.shape == shape
    assert ctx.wait(data).shape == shape


REPEATING = {
    "broadcast rows": lambda: np.lib.stride_tricks.as_strided(base(3), (4, 3), (0, 8)),
    "broadcast scalar": lambda: np.lib.stride_tricks.as_strided(base(1), (4, 3), (0, 0)),
    "sliding window": lambda: np.lib.stride_tricks.as_strided(base(6), (4, 3), (8, 8)),
    "bytes shared": lambda: np.lib.stride_tricks.as_strided(base(6), (4,), (4,)),
}


@pytest.mark.parametrize("make", REPEATING.values(), ids=REPEATING.keys())
def test_elements_with_several_indices_make_the_data_read_only(ctx, make):
    source = make()
    assert source.flags.writeable
    data = ctx.logical_data(source, copy="pack")
    assert data.readonly
    assert ctx.wait(data).tobytes() == source.tobytes()
    for access in (data.write, data.rw):
        with pytest.raises(ValueError, match="read-only"):
            access()


def test_interleaved_elements_do_not_count_as_shared(ctx):
    source = np.lib.stride_tricks.as_strided(base(8), (2, 3), (24, 16))  # bytes 0 16 32 24 40 56
    assert not ctx.logical_data(source, copy="pack").readonly


def test_numpy_broadcast_is_read_only_data(ctx):
    data = ctx.logical_data(np.broadcast_to(base(3), (2, 3)), copy="pack")
    assert data.readonly
    assert ctx.wait(data).tolist() == [[0, 1, 2], [0, 1, 2]]


def test_read_only_stays_read_only(ctx):
    source = base(6)
    source.flags.writeable = False
    assert ctx.logical_data(source[::2], copy="pack").readonly


@pytest.mark.parametrize("copy", ["packed", "", True, 1, False])
def test_other_words_for_copy_are_refused(ctx, copy):
    with pytest.raises((ValueError, TypeError), match=r"'copy'"):
        ctx.logical_data(base(4), copy=copy)


@pytest.mark.fault("A38")
def test_refusal_says_how_to_pack_and_whose_it_is(ctx):
    with pytest.raises(ValueError, match=r'copy="pack".*ascontiguousarray') as caught:
        ctx.logical_data(base((2, 3)).T, name="x")
    assert caught.value.data == "'x'"


@pytest.mark.host_devices
def test_packed_data_of_a_failed_task_are_left_as_they_were(ctx):
    source = base(6)
    data = ctx.logical_data(source[::-1], copy="pack")

    def fail(x):
        x[:] = 9
        raise ZeroDivisionError

    ctx.submit(fail, data.rw(), place=DEVICES[1])
    with pytest.raises(ZeroDivisionError):
        ctx.finalize()
    assert source.tolist() == base(6).tolist()


@pytest.mark.host_devices
def test_packed_data_are_checked_like_others(host):
    source = base(6)
    with stf.context(machine=host, check=True) as ctx:
        data = ctx.logical_data(source[::2], copy="pack")
        with ctx.task(data.write()) as (x,):
            assert x.view("u1").tolist() == [0xCB] * 24
            x[:] = 1
    assert source.tolist() == [1, 1, 1, 3, 1, 5]


# --- any dtype, shape and layout, bit for bit

DTYPES = [
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G",
    ">i4", ">f8", ">c8", "M8[us]", "m8[D]", "S3", "U2", ">U1", "V5",
    [("a", "i2"), ("b", "f4", (2,))],
    {"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [3, 8], "itemsize": 24},
    np.dtype([("a", "?"), ("b", "g"), ("c", [("d", "u1"), ("e", "M8[s]")])], align=True),
]  # fmt: skip
with contextlib.suppress(ImportError):
    import ml_dtypes

    DTYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
HIGHEST_RANK = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
ON_CUDA = os.environ.get("MILLSTREAM_MACHINE") == "cuda"


def opaque(array):
    """The same elements as plain bytes, those between the fields of records included."""
    return array.view(np.dtype((np.void, array.dtype.itemsize)))


def broadcast(draw, raw, array, axes):
    """`array` with other extents of these axes, whose elements are all the same."""
    shape, strides = list(array.shape), list(array.strides)
    for axis in axes:
        shape[axis], strides[axis] = draw(st.integers(0, 4)), 0
    offset = array.ctypes.data - raw.ctypes.data
    return np.ndarray(shape, array.dtype, raw.data, offset, strides)


@st.composite
def arrays(draw):
    """Memory, and an array of some of it: with steps, reversed axes, axes in another order, axes of
    extent 1, and broadcast ones."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.lists(st.integers(0, 5), min_size=0, max_size=6).map(tuple))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2, 3])) for _ in shape]
    margin = draw(st.sampled_from([0, 1]))
    room = tuple(extent * abs(step) + 2 * margin for extent, step in zip(shape, steps, strict=True))
    seed = draw(st.integers(0, 2**32 - 1))
    count = int(np.prod(room)) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, count, dtype="u1")
    if dtype.kind == "b":
        raw &= 1
    inner = tuple(slice(margin, end - margin) for end in room)
    array = np.ndarray(room, dtype, raw.data)[(*inner, ...)]
    array = array[(*(slice(None, None, step) for step in steps), ...)]
    more = draw(st.sampled_from([0, 0, 1, 3, HIGHEST_RANK - len(shape)]))
    array = array[(..., *[None] * more)]
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    single = [axis for axis in range(array.ndim) if array.shape[axis] == 1]
    if array.size > 0 and single:
        array = broadcast(draw, raw, array, draw(st.lists(st.sampled_from(single), max_size=3)))
    return raw, array


def turn(x):
    """Reverses the order of the elements."""
    flat = opaque(x).reshape(-1)
    flat[...] = flat[::-1].copy()


def run_there(ctx, body, dep, place):
    """`body` in a task: with the array itself, or on a GPU with a copy of it."""
    if not ON_CUDA or place.kind == "host":
        ctx.submit(body, dep, place=place)
        return
    data = dep.get_ld()
    content = np.empty(data.shape, data.dtype)
    with ctx.task(place, dep) as t:
        if content.size == 0:
            return
        copy_from_memory(content, t.get_arg(0), t.stream_ptr())
        body(content)
        if dep.mode & stf.AccessMode.WRITE:
            copy_to_memory(content, t.get_arg(0), t.stream_ptr())


def is_repeated(array):
    return array.size > 0 and any(
        extent > 1 and stride == 0
        for extent, stride in zip(array.shape, array.strides, strict=True)
    )


@pytest.mark.fault("A40")
@given(arrays(), st.lists(st.integers(0, 2), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_random_arrays_go_around_bit_for_bit(case, numbers):
    raw, array = case
    machine = stf.machine("cuda") if ON_CUDA else stf.machine("host", devices=2)
    places = [*DEVICES[: machine.device_count], stf.exec_place.host()]
    way = [places[number % len(places)] for number in numbers]
    content = opaque(array).tobytes()
    turned = opaque(array).reshape(-1)[::-1].tobytes()
    seen = []
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(array, copy="pack")
        assert (data.shape, data.dtype) == (array.shape, array.dtype)
        assert data.readonly == is_repeated(array)
        for place in way:
            run_there(ctx, lambda x: seen.append(opaque(x).tobytes()), data.read(), place)
            if not data.readonly:
                run_there(ctx, turn, data.rw(), place)
        left = turned if len(way) % 2 == 1 and not data.readonly else content
        assert opaque(ctx.wait(data)).tobytes() == left
        before = raw.tobytes()
    if array.size > 0:
        wanted = [content, content if data.readonly else turned]
        assert seen == [wanted[i % 2] for i in range(len(way))]
    twin_raw = np.frombuffer(before, "u1").copy()
    if not data.readonly:
        offset = array.ctypes.data - raw.ctypes.data if array.size else 0
        same = (array.shape, opaque(array).dtype, twin_raw.data, offset, array.strides)
        np.ndarray(*same)[...] = np.ndarray(array.shape, same[1], left)
    assert raw.tobytes() == twin_raw.tobytes()
