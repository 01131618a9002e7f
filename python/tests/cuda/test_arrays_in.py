# SPDX-License-Identifier: Apache-2.0
"""Arrays in: device arrays as data, by the CUDA Array Interface and by DLPack."""

import ctypes
import gc

import millstream as stf
import numpy as np
import pytest
from cuda_driver import LEGACY, DeviceArray
from dlpack_capsule import COPIED, CPU, CUDA, CUDA_HOST, CUDA_MANAGED, READONLY, Exporter

COUNT = 200


def pointer_in_task(ctx, data, place=None):
    parts = [data.read()] if place is None else [place, data.read()]
    with ctx.task(*parts) as t:
        return t.get_arg(0)


def exporter_of(driver, values, device=(CUDA, 0), **options):
    pointer = driver.allocate(values.nbytes)
    driver.upload(pointer, values)
    return Exporter(pointer, values.shape, values.dtype, device, **options), pointer


# --- the CUDA Array Interface


def test_device_array_is_used_where_it_is(ctx, driver):
    array = DeviceArray(driver, np.arange(float(COUNT)))
    data = ctx.logical_data(array, name="x")
    assert (data.shape, data.dtype, data.readonly) == ((COUNT,), np.float64, False)
    with ctx.task(data.rw()) as t:
        assert t.get_arg(0) == array.pointer
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    ctx.finalize()
    assert ctx.stats()["copies"] == 0
    assert array.get().tolist() == (2 * np.arange(COUNT)).tolist()


def test_result_comes_back_to_a_device_array(ctx, two_devices, driver):
    array = DeviceArray(driver, np.ones(COUNT))
    data = ctx.logical_data(array)
    with ctx.task(stf.exec_place.device(1), data.rw()) as t:
        assert t.get_arg(0) != array.pointer
        driver.scale(t.stream_ptr(), t.get_arg(0), 5, COUNT)
    assert driver.current() == driver.primary(0)
    ctx.finalize()
    assert array.get().tolist() == [5] * COUNT


def test_stream_zero_is_disallowed(ctx, driver):
    with pytest.raises(ValueError, match="disallowed"):
        ctx.logical_data(DeviceArray(driver, np.ones(3), stream=0))


def test_layout_must_be_plain(ctx, driver):
    values = np.arange(6.0).reshape(2, 3)
    ctx.logical_data(DeviceArray(driver, values, strides=(24, 8)))
    ctx.logical_data(DeviceArray(driver, values.reshape(2, 1, 3), strides=(24, 7, 8)))
    for strides in ((8, 16), (48, 8), (-24, 8), (0, 8)):
        with pytest.raises(ValueError, match=r"not C-contiguous.*ascontiguousarray"):
            ctx.logical_data(DeviceArray(driver, values, strides=strides))
    with pytest.raises(ValueError, match="1 strides"):
        ctx.logical_data(DeviceArray(driver, values, strides=(8,)))


def test_read_only_device_array_can_only_be_read(ctx, driver):
    data = ctx.logical_data(DeviceArray(driver, np.ones(3), readonly=True))
    assert data.readonly
    assert pointer_in_task(ctx, data) != 0
    for access in (data.write, data.rw):
        with pytest.raises(ValueError, match="read-only"):
            access()


@pytest.mark.parametrize(
    "dtype", ["c8", "c16", "f2", "?", "i1", "u2", "u8", [("a", "i4"), ("b", "f8")]]
)
def test_dtypes_survive(ctx, driver, dtype):
    data = ctx.logical_data(DeviceArray(driver, np.zeros((2, 3), dtype)))
    assert (data.dtype, data.shape) == (np.dtype(dtype), (2, 3))
    with ctx.task(data.rw()) as t:
        assert t.args_cai()["typestr"] == np.dtype(dtype).str


@pytest.mark.fault("A35", "A36")
@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_rank_zero_and_empty_arrays(ctx, driver, shape):
    data = ctx.logical_data(DeviceArray(driver, np.zeros(shape)))
    assert data.shape == shape
    with ctx.task(data.rw()) as t:
        assert t.args_cai().shape == shape


def test_interface_must_be_a_dictionary_with_its_entries(ctx):
    class Wrong:
        __cuda_array_interface__ = ()

    with pytest.raises(TypeError, match="dict"):
        ctx.logical_data(Wrong())
    Wrong.__cuda_array_interface__ = {"version": 3, "shape": (1,)}
    with pytest.raises(TypeError, match="data"):
        ctx.logical_data(Wrong())
    Wrong.__cuda_array_interface__ = {"version": 3, "data": (8, False), "shape": (1,),
                                      "typestr": "<f8", "mask": object()}  # fmt: skip
    with pytest.raises(ValueError, match="mask"):
        ctx.logical_data(Wrong())


# --- where it is


def test_place_is_that_of_the_pointer(ctx, two_devices, driver):
    on_host = ctx.logical_data(np.ones(4))
    driver.use(driver.primary(1))
    on_one = DeviceArray(driver, np.ones(4))
    driver.use(driver.primary(0))
    data = ctx.logical_data(on_one)
    assert pointer_in_task(ctx, data, stf.exec_place.device(1)) == on_one.pointer
    assert ctx.stats()["copies"] == 0
    assert pointer_in_task(ctx, data, stf.exec_place.device(0)) != on_one.pointer
    pointer_in_task(ctx, on_host)
    assert ctx.stats()["copies"] == 2


def test_gpu_that_is_no_device_of_the_machine_is_refused(two_devices, driver):
    driver.use(driver.primary(1))
    on_one = DeviceArray(driver, np.ones(4))
    driver.use(driver.primary(0))
    with stf.context(machine=stf.machine("cuda", devices=1)) as ctx:
        with pytest.raises(ValueError, match="memory of GPU 1, but has only 1 devices"):
            ctx.logical_data(on_one)


def test_managed_memory_is_everybodys(ctx, machine, driver):
    if "managed" not in machine.capabilities:
        pytest.skip("needs managed memory")
    pointer = driver.allocate_managed(8 * COUNT)
    driver.upload(pointer, np.ones(COUNT))
    array = Exporter(pointer, (COUNT,), np.dtype("f8"), (CUDA_MANAGED, 0))
    data = ctx.logical_data(array)
    with ctx.task(data.rw(stf.data_place.managed())) as t:
        assert t.get_arg(0) == pointer
        driver.scale(t.stream_ptr(), pointer, 3, COUNT)
    assert ctx.wait(data).tolist() == [3] * COUNT


def test_numpy_array_over_managed_memory_can_be_said_to_be_managed(ctx, machine, driver):
    if "managed" not in machine.capabilities:
        pytest.skip("needs managed memory")
    pointer = driver.allocate_managed(8 * COUNT)
    array = np.frombuffer((ctypes.c_double * COUNT).from_address(pointer))
    array[:] = 2
    data = ctx.logical_data(array, stf.data_place.managed())
    with ctx.task(data.rw(stf.data_place.managed())) as t:
        assert t.get_arg(0) == pointer
        driver.scale(t.stream_ptr(), pointer, 3, COUNT)
    assert ctx.wait(data).tolist() == [6] * COUNT
    with pytest.raises(ValueError, match="leave dplace out"):
        ctx.logical_data(np.ones(3), stf.data_place.managed())


@pytest.mark.parametrize("versioned", [True, False])
def test_bare_capsules_of_device_memory_come_behind_the_default_stream(ctx, driver, versioned):
    array, pointer = exporter_of(driver, np.ones(COUNT), versioned=versioned)
    driver.spin(LEGACY)
    driver.fill(LEGACY, pointer, 4, COUNT)
    options = {"max_version": (1, 0)} if versioned else {}
    data = ctx.logical_data(array.__dlpack__(**options))
    with ctx.task(data.rw()) as t:
        assert t.get_arg(0) == pointer
        driver.scale(t.stream_ptr(), pointer, 2, COUNT)
    assert ctx.wait(data).tolist() == [8] * COUNT
    ctx.finalize()
    del data, t
    gc.collect()


def test_bare_capsules_need_a_machine_that_has_their_memory(host, ctx, driver):
    array, _ = exporter_of(driver, np.ones(3))
    with stf.context(machine=host) as other:
        with pytest.raises(ValueError, match="memory of a GPU"):
            other.logical_data(array.__dlpack__(max_version=(1, 0)))
    elsewhere = Exporter(8, (1,), np.dtype("f8"), (10, 0))
    with pytest.raises(ValueError, match="device type 10"):
        ctx.logical_data(elsewhere.__dlpack__(max_version=(1, 0)))
    assert (array.released, elsewhere.released) == (1, 1)


def test_page_locked_memory_is_the_hosts(ctx, driver):
    pointer = driver.allocate_pinned(8 * COUNT)
    array = Exporter(pointer, (COUNT,), np.dtype("f8"), (CUDA_HOST, 0))
    data = ctx.logical_data(array)
    with ctx.task(stf.exec_place.host(), data.write()) as (values,):
        assert values.ctypes.data == pointer
        values[:] = 4
    assert ctx.wait(data).tolist() == [4] * COUNT


def host_arrays_over(pointer):
    memory = (ctypes.c_double * COUNT).from_address(pointer)
    array = np.frombuffer(memory)

    interface = {"version": 3, "shape": (COUNT,), "typestr": "<f8", "data": (pointer, False)}
    yield memory
    yield array[1:].reshape(-1, 1)
    yield type("Interface", (), {"__array_interface__": interface})()
    for device in (CPU, CUDA_HOST):
        yield Exporter(pointer, (COUNT,), np.dtype("f8"), (device, 0))
    yield Exporter(pointer, (COUNT,), np.dtype("f8"), (CPU, 0)).__dlpack__(max_version=(1, 0))


def test_device_memory_that_comes_as_the_hosts_is_refused(ctx, driver):
    pointer = driver.allocate(8 * COUNT)
    for array in host_arrays_over(pointer):
        with pytest.raises(ValueError, match=r"its address is of .*0.*__cuda_array_interface__"):
            ctx.logical_data(array)
    for array in host_arrays_over(driver.allocate_pinned(8 * COUNT)):
        ctx.logical_data(array, allow_overlap=True)


def test_place_that_is_given_must_be_the_arrays(ctx, driver):
    array = DeviceArray(driver, np.ones(4))
    for place in (stf.data_place.host(), stf.data_place.device(1), stf.data_place.managed()):
        with pytest.raises(ValueError, match="leave dplace out"):
            ctx.logical_data(array, place)
    ctx.logical_data(array, stf.data_place.device(0))
    with pytest.raises(ValueError, match="leave dplace out"):
        ctx.logical_data(np.ones(4), stf.data_place.device(0))


def test_machine_without_gpus_refuses_device_arrays(driver):
    array = DeviceArray(driver, np.ones(4))
    exporter, _ = exporter_of(driver, np.ones(4))
    for machine in (stf.machine("host", devices=2), stf.machine("null")):
        with stf.context(machine=machine) as ctx:
            for each in (array, exporter):
                with pytest.raises(ValueError, match="in memory of a GPU, which machine"):
                    ctx.logical_data(each)


# --- DLPack


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_array_is_used_where_it_is_and_let_go_once(machine, driver, versioned):
    array, pointer = exporter_of(driver, np.arange(float(COUNT)), versioned=versioned)
    ctx = stf.context(machine=machine)
    data = ctx.logical_data(array)
    with ctx.task(data.rw()) as t:
        assert t.get_arg(0) == pointer
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, COUNT)
    assert array.released == 0
    ctx.finalize()
    del data, t, ctx
    gc.collect()
    assert array.released == 1
    assert driver.download(pointer, COUNT).tolist() == (2 * np.arange(COUNT)).tolist()


def test_dlpack_export_is_asked_for_on_a_stream(ctx, driver):
    array, _ = exporter_of(driver, np.ones(4))
    ctx.logical_data(array)
    (asked,) = array.asked
    assert asked["stream"] > 2
    assert asked["max_version"] == (1, 0)
    driver.synchronize(asked["stream"])


def test_dlpack_of_host_memory_needs_no_stream(ctx):
    values = np.arange(6.0)
    array = Exporter(values.ctypes.data, (2, 3), values.dtype, (CPU, 0))
    data = ctx.logical_data(array)
    assert "stream" not in array.asked[0]
    with ctx.task(stf.exec_place.host(), data.rw()) as (x,):
        x += 1
    ctx.finalize()
    assert values.tolist() == [1, 2, 3, 4, 5, 6]


def test_dlpack_says_read_only(ctx, driver):
    array, _ = exporter_of(driver, np.ones(4), flags=READONLY)
    data = ctx.logical_data(array)
    assert data.readonly
    with pytest.raises(ValueError, match="read-only"):
        data.rw()


def test_dlpack_that_is_refused_is_given_back(ctx, driver):
    copied, _ = exporter_of(driver, np.ones(4), flags=COPIED)
    with pytest.raises(TypeError, match="copy"):
        ctx.logical_data(copied)
    strided, _ = exporter_of(driver, np.ones((2, 3)), strides=(1, 2))
    with pytest.raises(ValueError, match="not C-contiguous"):
        ctx.logical_data(strided)
    elsewhere = Exporter(8, (1,), np.dtype("f8"), (10, 0))
    with pytest.raises(ValueError, match="device type 10"):
        ctx.logical_data(elsewhere)
    assert elsewhere.asked == []


def test_dlpack_offset_and_compact_strides(ctx, driver):
    values = np.arange(8.0)
    pointer = driver.allocate(values.nbytes)
    driver.upload(pointer, values)
    part = Exporter(pointer, (2, 1, 3), values.dtype, (CUDA, 0), strides=(3, 99, 1), offset=16)
    data = ctx.logical_data(part)
    assert pointer_in_task(ctx, data) == pointer + 16
    assert ctx.wait(data).ravel().tolist() == [2, 3, 4, 5, 6, 7]


def test_views_make_the_round_trip(ctx, machine, driver):
    data = ctx.logical_data(np.arange(float(COUNT)), name="x")
    with ctx.task(data.read()) as t:
        view = t.args_cai()

        class OnlyDLPack:
            __dlpack__ = view.__dlpack__
            __dlpack_device__ = view.__dlpack_device__

        with stf.context(machine=machine) as other:
            for array in (view, OnlyDLPack()):
                seen = other.logical_data(array)
                assert (seen.shape, seen.dtype) == (data.shape, data.dtype)
                assert pointer_in_task(other, seen) == view.ptr
                assert other.wait(seen).tolist() == np.arange(COUNT).tolist()
                assert seen.readonly
                del seen


# --- arrays that are not C-contiguous


PACKED = {
    "transposed": (np.s_[:, :], (1, 0)),
    "every second": (np.s_[::2, 1::2], (0, 1)),
    "reversed": (np.s_[::-1, ::-3], (0, 1)),
    "one column": (np.s_[:, 2], (0,)),
}


def cut_of(driver, values, cut, axes, **options):
    """A device array that shows a part of a larger one, and the same part of the host's values."""
    whole = DeviceArray(driver, values)
    part = values[cut].transpose(axes)
    offset = part.__array_interface__["data"][0] - values.__array_interface__["data"][0]

    class Part:
        __cuda_array_interface__ = {  # noqa: RUF012
            "version": 3, "shape": part.shape, "typestr": values.dtype.str, "stream": None,
            "data": (whole.pointer + offset, False), "strides": part.strides, **options,
        }  # fmt: skip
        memory = whole

    return Part(), part


@pytest.mark.parametrize(("cut", "axes"), PACKED.values(), ids=PACKED.keys())
def test_packed_device_array_gets_the_result_element_by_element(ctx, driver, cut, axes):
    values = np.arange(35.0).reshape(5, 7)
    array, part = cut_of(driver, values, cut, axes)
    data = ctx.logical_data(array, copy="pack", name="x")
    assert (data.shape, data.readonly) == (part.shape, False)
    assert ctx.wait(data).tolist() == part.tolist()
    with ctx.task(data.rw()) as t:
        assert t.args_cai()["strides"] is None
        driver.scale(t.stream_ptr(), t.get_arg(0), 3, part.size)
    with ctx.task(stf.exec_place.host(), data.rw()) as (x,):
        x += 1
    ctx.finalize()
    part *= 3
    part += 1
    assert array.memory.get().tolist() == values.tolist()


def test_packed_dlpack_array(ctx, driver):
    values = np.arange(12.0)
    pointer = driver.allocate(values.nbytes)
    driver.upload(pointer, values)
    array = Exporter(pointer, (3, 4), values.dtype, (CUDA, 0), strides=(1, 3))
    data = ctx.logical_data(array, copy="pack")
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, 12)
    assert ctx.wait(data).tolist() == (2 * values.reshape(4, 3).T).tolist()
    ctx.finalize()
    assert driver.download(pointer, 12).tolist() == (2 * values).tolist()


def test_packed_host_array_goes_to_the_gpu_and_back(ctx, driver, any_order):
    values = np.arange(30.0).reshape(5, 6)
    twin = values.copy()
    data = ctx.logical_data(values[::-1, ::2].T, copy="pack")
    for _ in range(3):
        with ctx.task(data.rw()) as t:
            driver.scale(t.stream_ptr(), t.get_arg(0), 2, 15)
    ctx.finalize()
    twin[::-1, ::2] *= 8
    assert values.tolist() == twin.tolist()


def test_packed_device_array_waits_for_its_producer(ctx, driver, any_order):
    stream = driver.make_stream()
    values = np.zeros(6)
    array, _ = cut_of(driver, values, np.s_[::2], (0,), stream=stream)
    driver.spin(stream)
    driver.fill(stream, array.memory.pointer, 4, 6)
    data = ctx.logical_data(array, copy="pack")
    with ctx.task(data.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 2, 3)
    assert ctx.wait(data).tolist() == [8, 8, 8]
    ctx.finalize()
    assert array.memory.get().tolist() == [8, 4, 8, 4, 8, 4]


def test_body_may_drop_what_overlaps_its_data(ctx):
    array = np.zeros(10)
    kept = [ctx.logical_data(array[:6])]
    data = ctx.logical_data(array[4:], allow_overlap=True)
    ctx.submit(lambda view: kept.clear(), data.rw())
    ctx.finalize()
    assert kept == []


def test_overlapping_device_arrays_have_one_order(ctx, driver, any_order):
    values = np.zeros(12)
    whole = DeviceArray(driver, values)
    parts = []
    for first, past in ((0, 8), (4, 12)):

        class Part:
            __cuda_array_interface__ = {  # noqa: RUF012
                "version": 3, "shape": (past - first,), "typestr": "<f8", "strides": None,
                "data": (whole.pointer + 8 * first, False), "stream": None,
            }  # fmt: skip

        parts.append(Part())
    low = ctx.logical_data(parts[0], name="low")
    with pytest.raises(ValueError, match=r"(?s)'high'.*overlaps.*'low'"):
        ctx.logical_data(parts[1], name="high")
    high = ctx.logical_data(parts[1], allow_overlap=True)
    for _ in range(3):
        for data, place in ((low, stf.exec_place.device(0)), (high, stf.exec_place.host())):
            with ctx.task(place, data.rw()) as t:
                if place == stf.exec_place.host():
                    t[0][:] += 1
                else:
                    driver.scale(t.stream_ptr(), t.get_arg(0), 3, 8)
    ctx.finalize()
    for _ in range(3):
        values[:8] *= 3
        values[4:] += 1
    assert whole.get().tolist() == values.tolist()
