# SPDX-License-Identifier: Apache-2.0
"""Registering buffers and making data: dtypes, shapes, layouts, places, names."""

import array
import collections
import ctypes
import gc
import itertools

import millstream as stf
import numpy as np
import pytest

DTYPES = [
    "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "g",
    ">f8", "M8[s]", "m8[ns]", "S5", "U3", "V7", [("a", "i2"), ("b", "f8", (2,))],
]  # fmt: skip


Extents = collections.namedtuple("Extents", "planes rows columns")


def sample(dtype, count=6):
    """Six elements with bytes that differ."""
    raw = np.arange(count * np.dtype(dtype).itemsize, dtype=np.uint8) % 2
    return raw.view(dtype)


@pytest.mark.fault("A40")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.host_devices
def test_every_dtype_goes_there_and_back(ctx, dtype):
    source = sample(dtype)
    expected = source[::-1].copy()
    data = ctx.logical_data(source)
    assert (data.dtype, data.shape) == (source.dtype, source.shape)

    def reverse(x):
        assert (x.dtype, x.shape) == (expected.dtype, expected.shape)
        x[:] = x[::-1].copy()

    ctx.submit(reverse, data.rw(), place=stf.exec_place.device(1))
    assert ctx.wait(data).tobytes() == expected.tobytes()
    ctx.finalize()
    assert source.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["c8", "c16", "f2", "?", "i1", "u2", "u8"])
@pytest.mark.host_devices
def test_arithmetic_is_that_of_numpy(ctx, dtype):
    source = np.array([0, 1, 1, 0, 1], dtype=dtype)
    expected = np.logical_not(source) if dtype == "?" else source * np.dtype(dtype).type(3)
    data = ctx.logical_data(source)
    with ctx.task(data.rw()) as (x,):
        x[...] = np.logical_not(x) if dtype == "?" else x * np.dtype(dtype).type(3)
    ctx.finalize()
    np.testing.assert_array_equal(source, expected)


@pytest.mark.parametrize(
    "source",
    [
        np.array([None, 1], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", object)]),
    ],
    ids=["object", "record with object"],
)
def test_python_objects_as_elements_are_a_type_error(ctx, source):
    with pytest.raises(TypeError, match="Python objects"):
        ctx.logical_data(source)
    with pytest.raises(TypeError, match="Python objects"):
        ctx.logical_data_empty((2,), source.dtype)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="came with NumPy 2")
def test_strings_of_any_length_are_a_type_error(ctx):
    dtype = np.dtypes.StringDType()
    for make in (
        lambda: ctx.logical_data(np.array(["a", "bcd"], dtype)),
        lambda: ctx.logical_data_empty((2,), dtype),
        lambda: ctx.logical_data(np.array(["a", "bcd"], dtype)[::-1], copy="pack"),
    ):
        with pytest.raises(TypeError, match=r"strings of any length.*astype"):
            make()


def test_masked_arrays_are_refused_because_the_mask_would_be_lost(ctx):
    with pytest.raises(ValueError, match=r"mask.*register x\.data"):
        ctx.logical_data(np.ma.array([1.0, 2.0], mask=[False, True]))


@pytest.mark.parametrize(
    "make",
    [lambda: np.matrix([[1.0, 2.0]]), lambda: np.rec.array([(1, 2.0)], [("a", "i4"), ("b", "f8")])],
    ids=["matrix", "recarray"],
)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_are_data_of_plain_arrays(ctx, make):
    source = make()
    data = ctx.logical_data(source)
    assert (data.shape, data.dtype) == (source.shape, source.dtype)
    with ctx.task(stf.exec_place.host(), data.rw()) as (x,):
        assert type(x) is np.ndarray


@pytest.mark.parametrize(
    "scalar", [np.float32(3), np.datetime64("2020-02-02"), np.str_("ab"), np.bool_(True)], ids=repr
)
def test_scalars_are_read_only_data_of_rank_0(ctx, scalar):
    data = ctx.logical_data(scalar)
    assert (data.shape, data.dtype, data.readonly) == ((), scalar.dtype, True)
    assert ctx.wait(data) == scalar


@pytest.mark.fault("A35")
@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
@pytest.mark.host_devices
def test_zero_size_keeps_shape_and_order(ctx, shape):
    source, seen = np.zeros(shape, "f4"), []
    data = ctx.logical_data(source)
    with ctx.task(data.rw()) as (x,):
        assert (x.shape, x.dtype) == (shape, np.float32)
    ctx.submit(lambda x: seen.append((x.shape, x.dtype, x.sum())), data.write())
    ctx.host_launch(data.read(), fn=lambda x: seen.append(x.shape))
    assert ctx.wait(data).shape == shape
    ctx.finalize()
    assert seen == [(shape, np.float32, 0), shape]


@pytest.mark.fault("A36")
@pytest.mark.host_devices
def test_rank_0_stays_rank_0(ctx):
    source = np.array(3.0)
    data = ctx.logical_data(source)
    assert data.shape == ()
    with ctx.task(data.rw()) as (x,):
        assert x.shape == ()
        x += 1
    assert ctx.wait(data).shape == ()
    ctx.finalize()
    assert source == 4.0


@pytest.mark.host_devices
def test_rank_above_4_is_kept(ctx):
    source = np.arange(64.0).reshape((2,) * 6)
    expected = source.transpose().copy()
    data = ctx.logical_data(source)
    with ctx.task(data.rw()) as (x,):
        x[...] = x.transpose().copy()
    np.testing.assert_array_equal(ctx.wait(data), expected)


HIGHEST_RANK = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32


@pytest.mark.parametrize("rank", [5, 16, HIGHEST_RANK])
@pytest.mark.host_devices
def test_rank_up_to_the_limit_of_numpy(ctx, rank):
    shape = (2, *[1] * (rank - 2), 3)
    source = np.arange(6.0).reshape(shape)
    data = ctx.logical_data(source)
    packed = ctx.logical_data(np.arange(6.0).reshape(shape[::-1]).T, copy="pack")
    for each in (data, packed):
        assert each.shape == shape
        ctx.submit(lambda x: np.multiply(x, 2, out=x), each.rw(), place=stf.exec_place.device(1))
        assert ctx.wait(each).shape == shape
    with ctx.task(data.read()) as t:
        assert t[0].shape == t.args_cai().shape == shape
        assert np.from_dlpack(t.args_cai()).shape == shape
    ctx.finalize()
    assert source.ravel().tolist() == [0, 2, 4, 6, 8, 10]


STRIDED = {
    "every second column": lambda: np.zeros((4, 6))[:, ::2],
    "reversed": lambda: np.zeros(5)[::-1],
    "Fortran order": lambda: np.zeros((3, 4), order="F"),
    "transposed": lambda: np.zeros((3, 4)).T,
    "broadcast": lambda: np.broadcast_to(np.zeros(3), (2, 3)),
    "memoryview": lambda: memoryview(bytearray(8))[::2],
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_strided_source_is_refused_with_advice(ctx, make):
    with pytest.raises(ValueError, match=r"not C-contiguous.*ascontiguousarray"):
        ctx.logical_data(make())
    with pytest.raises(BufferError):
        ctx.logical_data(make())


def test_extents_of_one_do_not_count_as_strides(ctx):
    data = ctx.logical_data(np.zeros((3, 4))[:1, :])
    assert data.shape == (1, 4)


@pytest.mark.parametrize(
    "what", [[1, 2], 3, "text", None, object()], ids=lambda what: type(what).__name__
)
def test_other_objects_are_a_type_error(ctx, what):
    with pytest.raises(TypeError, match=r"neither the buffer protocol.*numpy.asarray"):
        ctx.logical_data(what)


BUFFERS = {
    "bytearray": (lambda: bytearray(b"abcd"), np.uint8, (4,)),
    "array.array": (lambda: array.array("d", [1, 2]), np.float64, (2,)),
    "memoryview": (lambda: memoryview(bytearray(8)).cast("i"), np.int32, (2,)),
    "ctypes": (lambda: (ctypes.c_short * 3 * 2)(), np.int16, (2, 3)),
    "bytes": (lambda: b"abc", np.uint8, (3,)),
}


@pytest.mark.parametrize(("make", "dtype", "shape"), BUFFERS.values(), ids=BUFFERS.keys())
def test_buffers_are_data(ctx, make, dtype, shape):
    source = make()
    data = ctx.logical_data(source)
    assert (data.dtype, data.shape) == (dtype, shape)
    assert data.readonly is isinstance(source, bytes)
    assert ctx.wait(data).tobytes() == bytes(memoryview(source))


@pytest.mark.host_devices
def test_buffer_gets_the_result(ctx):
    source = bytearray(4)
    data = ctx.logical_data(source)
    with ctx.task(data.rw()) as (x,):
        x += 7
    ctx.finalize()
    assert source == bytearray([7] * 4)


def test_buffer_is_exported_as_long_as_the_data_live(ctx):
    source = bytearray(4)
    data = ctx.logical_data(source)
    with pytest.raises(BufferError):
        source.extend(b"x")
    del data
    source.extend(b"x")


@pytest.mark.host_devices
def test_array_interface_objects_are_data(ctx):
    class Field:
        def __init__(self):
            self.values = np.arange(3.0)

        @property
        def __array_interface__(self):
            return self.values.__array_interface__

    field = Field()
    data = ctx.logical_data(field)
    with ctx.task(data.rw()) as (x,):
        x *= 2
    ctx.finalize()
    assert field.values.tolist() == [0, 2, 4]


def test_array_interface_that_gives_a_copy_is_refused(ctx):
    class Copying:
        def __array__(self, *args, **kwargs):
            return np.zeros(2)

    with pytest.raises(TypeError):
        ctx.logical_data(Copying())


def test_device_arrays_need_a_machine_with_gpus(host):
    class DeviceArray:
        __cuda_array_interface__ = {"version": 3}  # noqa: RUF012

    with stf.context(machine=host) as ctx:
        with pytest.raises(ValueError, match="'host' has not"):
            ctx.logical_data(DeviceArray())


def test_dlpack_objects_are_data(ctx):
    class Array:
        def __init__(self, values):
            self.__dlpack__, self.__dlpack_device__ = values.__dlpack__, values.__dlpack_device__

    values = np.arange(6.0).reshape(2, 3)
    data = ctx.logical_data(Array(values))
    assert (data.shape, data.dtype) == ((2, 3), np.float64)
    ctx.submit(lambda x: np.add(x, 1, out=x), data.rw(), place=stf.exec_place.host())
    ctx.finalize()
    assert values.ravel().tolist() == [1, 2, 3, 4, 5, 6]


def read_only(source):
    source.flags.writeable = False
    return source


@pytest.mark.fault("A39")
@pytest.mark.parametrize("make", [lambda: read_only(np.ones(3)), lambda: b"\1\1\1"])
@pytest.mark.host_devices
def test_read_only_source_can_only_be_read(ctx, make):
    source = make()
    data = ctx.logical_data(source)
    assert data.readonly
    with pytest.raises(ValueError, match="read-only"):
        data.write()
    with pytest.raises(ValueError, match="read-only"):
        data.rw()
    copy = ctx.logical_data_empty((3,), data.dtype)
    ctx.submit(lambda x, y: np.add(x, 1, out=y), data.read(), copy.write())
    assert ctx.wait(copy).tolist() == [2, 2, 2]
    ctx.finalize()
    assert bytes(memoryview(source)) == bytes(memoryview(make()))


@pytest.mark.host_devices
def test_source_lives_as_long_as_it_is_needed(ctx):
    def register():
        return ctx.logical_data(np.ones(100_000))

    data = register()
    gc.collect()
    rubbish = [np.full(100_000, 7.0) for _ in range(10)]
    with ctx.task(data.rw()) as (x,):
        x *= 2
    sums = []
    ctx.host_launch(data.read(), fn=lambda x: sums.append(x.sum()))
    ctx.finalize()
    assert sums == [200_000]
    assert len(rubbish) == 10


def test_source_is_released_when_the_context_ends(ctx):
    import weakref

    class Array(np.ndarray):
        pass

    source = np.ones(3).view(Array)
    watch = weakref.ref(source)
    data = ctx.logical_data(source)
    del source
    gc.collect()
    assert watch() is not None
    ctx.finalize()
    del data
    gc.collect()
    assert watch() is None


@pytest.mark.host_devices
def test_dropped_data_are_written_back(ctx):
    source = np.zeros(3)
    data = ctx.logical_data(source)
    with ctx.task(data.write()) as (x,):
        x[:] = 5
    del data, x
    ctx.finalize()
    assert source.tolist() == [5, 5, 5]


@pytest.mark.host_devices
def test_overlapping_registrations_are_refused_by_name(ctx):
    buffer = np.zeros(100)
    first = ctx.logical_data(buffer[0:60], name="first")
    with pytest.raises(ValueError, match=r"(?s)'second'.*overlap.*'first'|'first'.*'second'"):
        ctx.logical_data(buffer[40:100], name="second")
    with ctx.task(first.rw()) as (x,):
        x += 1
    ctx.finalize()
    assert buffer.sum() == 60


@pytest.mark.host_devices
def test_same_buffer_twice_is_one_datum(ctx):
    buffer = np.zeros(4)
    first, second = ctx.logical_data(buffer), ctx.logical_data(buffer.view("i8"))
    ctx.submit(lambda x: np.add(x, 1, out=x), first.rw())
    ctx.submit(lambda x: np.multiply(x, 0, out=x), second.rw(), place=stf.exec_place.device(1))
    ctx.submit(lambda x: np.add(x, 3, out=x), first.rw())
    ctx.finalize()
    assert buffer.tolist() == [3] * 4


def test_read_only_buffers_may_overlap(ctx):
    buffer = read_only(np.arange(10.0))
    low, high = ctx.logical_data(buffer[:8]), ctx.logical_data(buffer[2:])
    assert ctx.wait(low).sum() + ctx.wait(high).sum() == 28 + 44


def test_other_places_for_a_host_buffer_are_refused(ctx):
    ctx.logical_data(np.zeros(1), stf.data_place.host())
    for place in (stf.data_place.device(0), stf.data_place.managed(), stf.data_place.affine()):
        with pytest.raises(ValueError, match="leave dplace out"):
            ctx.logical_data(np.zeros(2), place)
    with pytest.raises(TypeError, match="dplace"):
        ctx.logical_data(np.zeros(2), "host")


def test_names_are_symbols(ctx):
    data = ctx.logical_data(np.zeros(2), name="field")
    assert data.symbol == "field"
    data.set_symbol("other")
    assert data.symbol == "other"
    assert ctx.token().symbol is None
    assert "other" in repr(data)
    with pytest.raises(ValueError, match=r"'name' has a NUL character"):
        data.set_symbol("ot\0her")
    assert data.symbol == "other"
    for wrong in (b"x", 3):
        with pytest.raises(TypeError, match="name"):
            data.set_symbol(wrong)
        with pytest.raises(TypeError, match="name"):
            ctx.logical_data(np.zeros(1), name=wrong)


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        (3, TypeError, "shape"),
        ((2.5,), TypeError, "integers"),
        (("a",), TypeError, "integers"),
        ((0,), ValueError, "positive"),
        ((3, -1), ValueError, "positive"),
        ((), ValueError, "at least one dimension"),
        ((2**62, 2**62), ValueError, "bytes"),
        ((0, "a"), ValueError, "positive"),
    ],
)
def test_shapes_for_new_data_are_checked(ctx, shape, error, text):
    for make in (ctx.logical_data_empty, ctx.logical_data_zeros, ctx.logical_data_ones):
        with pytest.raises(error, match=text):
            make(shape)
    with pytest.raises(error, match=text):
        ctx.logical_data_full(shape, 1.0)


def test_new_data_have_the_shape_and_dtype_asked_for(ctx):
    data = ctx.logical_data_empty([np.int32(2), True, 3])
    assert (data.shape, data.dtype, data.readonly) == ((2, 1, 3), np.float64, False)
    assert ctx.logical_data_empty((2,), "i4", name="n").symbol == "n"
    assert ctx.logical_data_empty((2,), "(3,)i4").shape == (2, 3)
    with pytest.raises(TypeError):
        ctx.logical_data_empty((2,), "no such dtype")
    with pytest.raises(ValueError, match="no bytes"):
        ctx.logical_data_empty((2,), "V0")


@pytest.mark.parametrize(
    "shape",
    [(2, 1, 3), (2, True, 3), (np.int64(2), 1, 3), Extents(2, 1, 3), [2, 1, 3], range(1, 4)],
)
def test_shapes_are_plain_tuples_of_int(ctx, shape):
    found = ctx.logical_data_empty(shape).shape
    assert found == tuple(int(each) for each in shape)
    assert type(found) is tuple
    assert {type(each) for each in found} == {int}


@pytest.mark.parametrize("rank", [4, 5, 32])
def test_shapes_of_many_dimensions(ctx, rank):
    shape = (2,) * 3 + (1,) * (rank - 4) + (3,)
    data = ctx.logical_data_zeros(shape, "i4")
    assert data.shape == shape
    assert ctx.wait(data).tolist() == np.zeros(shape, "i4").tolist()


def test_shapes_of_too_many_dimensions_are_refused(ctx):
    for shape in ((1,) * 65, [1] * 65):
        with pytest.raises(ValueError, match="dimensions"):
            ctx.logical_data_empty(shape)


RECORD = np.dtype([("a", "i4"), ("b", "f8", (4,))])
FILLS = [
    ("f4", 3.0), ("f8", -0.5), ("i8", -7), ("?", True), ("c16", 1 + 2j), ("c8", 1j), ("f2", 0.5),
    ("u2", 65535), ("M8[D]", np.datetime64("2020-02-02")), ("S3", b"abc"), ("U20", "twenty"),
    (RECORD, np.array((7, 2.5), RECORD)[()]), ("S40", b"x" * 40), ("g", 1.5),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value"), FILLS, ids=str)
def test_full_is_that_of_numpy(ctx, dtype, value):
    expected = np.full((3, 2), value, dtype=dtype)
    data = ctx.logical_data_full((3, 2), value, dtype)
    np.testing.assert_array_equal(ctx.wait(data), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_full_keeps_the_sign_of_zero(ctx, dtype):
    data = ctx.logical_data_full((3, 2), -0.0, dtype)
    assert ctx.wait(data).tobytes() == np.full((3, 2), -0.0, dtype).tobytes()


def test_full_takes_the_dtype_of_the_value(ctx):
    assert ctx.logical_data_full((2,), 3).dtype == np.int64
    assert ctx.logical_data_full((2,), np.float32(1)).dtype == np.float32
    with pytest.raises(TypeError):
        ctx.logical_data_full((2,), object())


@pytest.mark.usefixtures("two_devices")
def test_zeros_and_ones_on_a_device(ctx):
    place = stf.exec_place.device(1)
    zeros = ctx.logical_data_zeros((4,), np.float32, exec_place=place, name="z")
    ones = ctx.logical_data_ones((4,), np.float32, stf.data_place.device(1), place)
    assert (zeros.symbol, zeros.dtype) == ("z", np.float32)
    assert ctx.logical_data_zeros((1,)).dtype == np.float64
    assert (ctx.wait(zeros).tolist(), ctx.wait(ones).tolist()) == ([0] * 4, [1] * 4)


def test_filling_on_the_host_comes_later(ctx):
    with pytest.raises(NotImplementedError, match="exec_place"):
        ctx.logical_data_zeros((4,), exec_place=stf.exec_place.host())
    with pytest.raises(TypeError, match="exec_place"):
        ctx.logical_data_zeros((4,), exec_place="device")


def test_empty_like_copies_shape_and_dtype(ctx):
    source = ctx.logical_data(np.zeros((2, 3), "i2"), name="s")
    like = source.empty_like()
    assert (like.shape, like.dtype, like.symbol) == ((2, 3), np.int16, None)
    with pytest.raises(stf.NotWrittenError):
        ctx.wait(like)
    assert ctx.token().empty_like()._is_token


@pytest.mark.usefixtures("two_devices")
def test_tokens_order_without_content(ctx):
    token, seen = ctx.token(), []
    assert (token.shape, token.dtype, token._is_token) == (None, None, True)
    ctx.submit(seen.append, token.rw(), args=(1,))
    ctx.submit(seen.append, token.rw(), args=(2,), place=stf.exec_place.device(1))
    ctx.host_launch(token.read(), fn=lambda: seen.append(3))
    assert ctx.wait(token) is None
    ctx.finalize()
    assert seen == [1, 2, 3]


def test_static_factories(ctx):
    assert stf.logical_data.token(ctx)._is_token
    data = stf.logical_data.init_by_shape(ctx, (2,), np.int8, name="d")
    assert (data.shape, data.dtype, data.symbol) == ((2,), np.int8, "d")


def memory_available():
    with open("/proc/meminfo") as lines:
        kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    return kib * 1024


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "count"), [("u1", 2**31 + 16), ("f4", 2**30 + 8)])
@pytest.mark.host_devices
def test_more_than_two_to_the_31(ctx, dtype, count):
    # One instance, on device 0, and NumPy's own array of truth values.
    if memory_available() < count * np.dtype(dtype).itemsize + 2 * 2**30:
        pytest.skip("not enough free memory")
    data, total = ctx.logical_data_zeros((count,), dtype), ctx.logical_data_empty((1,))

    def mark(x):
        x[count - 9] = x[-1] = 1

    def count_marks(x, y):
        y[0] = np.count_nonzero(x)

    ctx.submit(mark, data.rw())
    ctx.submit(count_marks, data.read(), total.write())
    assert ctx.wait(total).tolist() == [2]


# --- shapes that no array has


def test_more_dimensions_than_numpy_has_are_refused(ctx):
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    assert ctx.logical_data_empty((1,) * most).shape == (1,) * most
    for rank in (most + 1, 1000):
        with pytest.raises(ValueError, match=f"more than {most} dimensions"):
            ctx.logical_data_empty((1,) * rank)
        with pytest.raises(ValueError, match=f"more than {most} dimensions"):
            stf.dlpack_export(None, 4096, (1,) * rank, 0, 8, 0)
    with pytest.raises(ValueError, match=f"more than {most} dimensions"):
        ctx.logical_data_empty(itertools.repeat(1))


def test_extent_of_zero_hides_no_overflow():
    with pytest.raises(ValueError, match="more bytes than an address can count"):
        stf.dlpack_export(None, 4096, (0, 2**40, 2**40), 2, 32, 0)
