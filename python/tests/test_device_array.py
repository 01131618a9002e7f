# SPDX-License-Identifier: Apache-2.0
"""DeviceArray: arrays in the memory of a place, outside of tasks. On the default machine."""

import gc
import weakref

import millstream as stf
import numpy as np
import pytest

ON_DEVICE = stf.data_place.device(0)
PLACES = [stf.data_place.host(), ON_DEVICE]
DTYPES = ["f4", "f8", "i4", "i8", "u1", "?", "c8", "c16", "f2"]


@pytest.fixture
def default():
    return stf.machine()


@pytest.fixture
def is_host(default):
    return "host_memory" in default.capabilities


class CountingPlace:
    """A place that counts; what it does is done by another one."""

    def __init__(self, place=ON_DEVICE):
        self.place, self.kind = place, place.kind
        self.allocated, self.released = [], []

    def allocate(self, nbytes, stream=None):
        self.allocated.append((nbytes, stream))
        return self.place.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=None):
        self.released.append((ptr, nbytes, stream))
        self.place.deallocate(ptr, nbytes, stream)


# --- data_place.allocate


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind)
def test_places_give_memory_and_take_it_back(place):
    pointer = place.allocate(1000)
    assert isinstance(pointer, int)
    assert pointer % 256 == 0
    place.deallocate(pointer, 1000)
    assert place.allocate(0) == 0
    place.deallocate(0, 0)


def test_only_devices_allocate_in_the_order_of_a_stream():
    answers = [place.allocation_is_stream_ordered for place in (*PLACES, stf.data_place.managed())]
    assert answers == [False, True, False]
    assert all(type(each) is bool for each in answers)


def test_places_refuse_what_they_cannot_give():
    with pytest.raises(ValueError, match="non-negative"):
        ON_DEVICE.allocate(-1)
    with pytest.raises(TypeError, match="nbytes"):
        ON_DEVICE.allocate("many")
    with pytest.raises(TypeError, match="stream"):
        ON_DEVICE.allocate(8, "one")
    with pytest.raises(MemoryError, match="affine"):
        stf.data_place.affine().allocate(8)
    with pytest.raises(ValueError, match="device 1000 does not exist"):
        stf.data_place.device(1000).allocate(8)


# --- construction


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind)
def test_array_has_size_dtype_and_place(place):
    array = stf.DeviceArray(10, np.float32, place)
    assert (array.size, array.shape, array.nbytes, len(array)) == (10, (10,), 40, 10)
    assert array.dtype == np.dtype("f4")
    assert array.data_place is place
    assert repr(array).startswith("DeviceArray(size=10, dtype=float32, ptr=0x")
    assert place.kind in repr(array)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="non-negative"):
        stf.DeviceArray(-1, "f4", stf.data_place.host())
    with pytest.raises(TypeError, match="size"):
        stf.DeviceArray(2.5, "f4", ON_DEVICE)
    with pytest.raises(TypeError, match="dtype"):
        stf.DeviceArray(2, "no such", ON_DEVICE)
    with pytest.raises(TypeError, match="Python objects"):
        stf.DeviceArray(2, object, ON_DEVICE)
    with pytest.raises(MemoryError):
        stf.DeviceArray(2, "f4", stf.data_place.affine())


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.kind)
@pytest.mark.parametrize("dtype", [*DTYPES, "S3", "M8[s]", [("a", "i4"), ("b", "f8")]], ids=str)
def test_content_goes_there_and_back(place, dtype):
    values = (np.arange(6 * np.dtype(dtype).itemsize, dtype="u1") % 2).view(dtype)
    array = stf.DeviceArray.from_host(values, place)
    assert array.dtype == values.dtype
    assert array.copy_to_host().tobytes() == values.tobytes()
    array.copy_to_device(values[::-1])
    assert array.copy_to_host().tobytes() == values[::-1].tobytes()


def test_from_host_takes_one_dimension():
    assert stf.DeviceArray.from_host([1, 2, 3], ON_DEVICE).dtype == np.int64
    assert stf.DeviceArray.from_host(np.float32(7), ON_DEVICE).copy_to_host().tolist() == [7]
    assert stf.DeviceArray.from_host(np.arange(8)[::2], ON_DEVICE).copy_to_host().tolist() == [
        0, 2, 4, 6,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="1-D"):
        stf.DeviceArray.from_host(np.zeros((2, 2)), ON_DEVICE)


def test_copy_to_device_converts_and_counts_bytes():
    array = stf.DeviceArray(3, "f4", ON_DEVICE)
    array.copy_to_device([1, 2, 3])
    assert array.copy_to_host().tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"16 bytes.*of 12"):
        array.copy_to_device(np.zeros(4))


def test_arrays_without_elements():
    place = CountingPlace()
    array = stf.DeviceArray(0, "f4", place)
    assert place.allocated == []
    assert (array.shape, array.nbytes) == ((0,), 0)
    assert array.copy_to_host().shape == (0,)
    array.copy_to_device([])
    assert array[:].size == 0


# --- slices


def test_slices_share_memory_and_bounds_are_cut():
    array = stf.DeviceArray.from_host(np.arange(10), ON_DEVICE)
    part = array[2:6]
    assert part.copy_to_host().tolist() == [2, 3, 4, 5]
    part[1:3].copy_to_device([30, 40])
    assert array.copy_to_host().tolist() == [0, 1, 2, 30, 40, 5, 6, 7, 8, 9]
    assert array[-3:].copy_to_host().tolist() == [7, 8, 9]
    assert array[8:99].size == 2
    assert array[5:2].size == 0
    assert array[::1].size == 10


def test_other_keys_are_refused():
    array = stf.DeviceArray(4, "f4", ON_DEVICE)
    for step in (2, -1):
        with pytest.raises(IndexError, match="step"):
            array[::step]
    for key in (0, "a", (slice(2),)):
        with pytest.raises(TypeError, match="slice"):
            array[key]


# --- lifetime


def test_memory_is_given_back_once_after_the_last_user():
    place = CountingPlace()
    array = stf.DeviceArray(4, "f8", place)
    watch = array._finalizer_ref
    part = array[1:3]
    assert part._finalizer_ref is None
    assert part[1:]._base is array
    del array
    gc.collect()
    assert watch.alive
    assert place.released == []
    del part
    gc.collect()
    assert not watch.alive
    assert len(place.released) == 1
    assert place.released[0][1] == 32


def test_stream_is_kept_and_used():
    class Stream:
        def __cuda_stream__(self):
            return (0, number)

    with stf.context() as ctx:
        number = int(ctx.fence())
        stream, place = Stream(), CountingPlace()
        watch = weakref.ref(stream)
        array = stf.DeviceArray(4, "f8", place, stream)
        assert place.allocated == [(32, stream)]
        place.allocated.clear()
        del stream
        gc.collect()
        assert watch() is not None
        array.copy_to_device([1, 2, 3, 4])
        assert array.copy_to_host().tolist() == [1, 2, 3, 4]
        del array
        gc.collect()
        place.released.clear()
        gc.collect()
        assert watch() is None


def test_array_is_slotted_and_weakly_referenced():
    array = stf.DeviceArray(1, "f4", ON_DEVICE)
    assert not hasattr(array, "__dict__")
    assert weakref.ref(array)() is array


def test_array_left_alive_at_exit_is_no_trouble(run_clean):
    program = """
        import millstream as stf
        array = stf.DeviceArray.from_host([1, 2], stf.data_place.device(0))
        part = array[1:]
        print(part.copy_to_host())
    """
    assert run_clean(program) == "[2]\n"


# --- interfaces


def test_array_interface(is_host):
    array = stf.DeviceArray.from_host(np.arange(4.0), ON_DEVICE)
    name = "__array_interface__" if is_host else "__cuda_array_interface__"
    interface = getattr(array[1:], name)
    expected = {
        "version": 3, "shape": (3,), "typestr": "<f8", "data": (array._pointer + 8, False),
        "strides": None,
    }  # fmt: skip
    assert interface == (expected if is_host else {**expected, "stream": None})
    other = "__cuda_array_interface__" if is_host else "__array_interface__"
    assert not hasattr(array, other)
    records = stf.DeviceArray(2, [("a", "i4"), ("b", "f8")], ON_DEVICE)
    assert getattr(records, name)["descr"] == [("a", "<i4"), ("b", "<f8")]


@pytest.mark.host_devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_shares_the_memory_on_host_machines(is_host, dtype):
    if not is_host:
        pytest.skip("the default machine has GPUs")
    array = stf.DeviceArray.from_host(np.ones(3, dtype), ON_DEVICE)
    values = np.asarray(array)
    values[0] = 0
    assert array.copy_to_host().tolist() == [0, 1, 1]
    same = np.from_dlpack(array)
    assert same.ctypes.data == values.ctypes.data
    assert same.dtype == np.dtype(dtype)


def test_dlpack_device_is_that_of_the_memory(is_host):
    array = stf.DeviceArray(3, "f4", ON_DEVICE)
    assert array.__dlpack_device__() == ((1, 0) if is_host else (2, 0))
    host = stf.DeviceArray(3, "f4", stf.data_place.host())
    assert host.__dlpack_device__() == ((1, 0) if is_host else (3, 0))


def test_dlpack_refuses_in_this_order():
    array = stf.DeviceArray(3, "f4", ON_DEVICE)
    with pytest.raises(BufferError, match="copy"):
        array.__dlpack__(copy=True, dl_device=(9, 9))
    with pytest.raises(BufferError, match="device"):
        array.__dlpack__(dl_device=(9, 0), stream=-7)
    records = stf.DeviceArray(2, [("a", "i4")], ON_DEVICE)
    with pytest.raises(BufferError, match="structured"):
        records.__dlpack__(stream=-7)
    with pytest.raises(BufferError, match="datetime64"):
        stf.DeviceArray(2, "M8[s]", ON_DEVICE).__dlpack__()
    with pytest.raises(ValueError, match="disallowed"):
        array.__dlpack__(stream=-7)
    with pytest.raises(TypeError, match="stream"):
        array.__dlpack__(stream="one")


@pytest.mark.parametrize("stream", [None, -1])
@pytest.mark.parametrize("version", [None, (0, 8), (1, 1)])
def test_dlpack_capsule_is_the_unversioned_one(stream, version):
    array = stf.DeviceArray(3, "f4", ON_DEVICE)
    own = array.__dlpack_device__()
    capsule = array.__dlpack__(stream=stream, max_version=version, dl_device=own, copy=False)
    assert '"dltensor"' in repr(capsule)


def test_exports_keep_the_root_alive_each_for_itself():
    place = CountingPlace()
    array = stf.DeviceArray(4, "f4", place)
    capsules = [array.__dlpack__(stream=-1), array[1:].__dlpack__(stream=-1)]
    del array
    gc.collect()
    assert place.released == []
    capsules.pop()
    assert place.released == []
    capsules.pop()
    gc.collect()
    assert len(place.released) == 1


# --- as data


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_arrays_are_data(default, dtype):
    array = stf.DeviceArray.from_host(np.array([1, 0, 1], dtype), ON_DEVICE)
    with stf.context(machine=default) as ctx:
        data = ctx.logical_data(array)
        assert (data.shape, data.dtype) == ((3,), np.dtype(dtype))
        assert ctx.wait(data).tolist() == [1, 0, 1]
        with ctx.task(stf.exec_place.host(), data.rw()) as (x,):
            x[1] = 1
    assert array.copy_to_host().tolist() == [1, 1, 1]


def test_empty_device_array_is_data(default):
    with stf.context(machine=default) as ctx:
        assert ctx.wait(ctx.logical_data(stf.DeviceArray(0, "f4", ON_DEVICE))).shape == (0,)


# --- capsules by hand


@pytest.mark.parametrize(
    ("code", "bits", "dtype"),
    [(0, 32, "int32"), (1, 8, "uint8"), (2, 64, "float64"), (5, 64, "complex64"), (6, 8, "bool")],
)
def test_capsule_over_memory_of_an_owner(ctx, code, bits, dtype):
    owner = stf.DeviceArray(6 * bits // 8, np.uint8, stf.data_place.device(0))
    owner.copy_to_device(np.arange(6).astype(dtype).view(np.uint8))
    pointer, watch = owner._pointer, weakref.ref(owner)
    capsule = stf.dlpack_export(owner, pointer, [2, 3], code, bits, 0)
    assert '"dltensor"' in repr(capsule)
    del owner
    assert watch() is not None
    data = ctx.logical_data(capsule)
    assert (data.shape, data.dtype) == ((2, 3), np.dtype(dtype))
    assert np.array_equal(ctx.wait(data), np.arange(6).reshape(2, 3).astype(dtype))
    del data, capsule
    ctx.finalize()
    del ctx
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((None, 0, (1,), 99, 32, 0), TypeError),
        ((None, 0, (1,), 0, 3, 0), TypeError),
        ((None, 0, (1,), 256, 8, 0), ValueError),
        ((None, 0, (-1,), 0, 8, 0), OverflowError),
        ((None, -1, (1,), 0, 8, 0), OverflowError),
        ((None, 0, 3, 0, 8, 0), TypeError),
        ((None, 0, (2**40, 2**40), 0, 8, 0), ValueError),
    ],
)
def test_capsule_of_nonsense(arguments, error):
    with pytest.raises(error):
        stf.dlpack_export(*arguments)
