# SPDX-License-Identifier: Apache-2.0
"""Arrays out: streams, pointers and views of tasks on the CUDA machine."""

import millstream as stf
import numpy as np
import pytest

COUNT = 300


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(float(COUNT)), name="x")


def test_task_gives_a_stream_and_pointers(ctx, driver, x):
    with ctx.task(x.rw()) as t:
        stream = t.stream_ptr()
        assert isinstance(stream, stf.CudaStream)
        assert stream != 0
        assert stream.__cuda_stream__() == (0, int(stream))
        driver.scale(stream, t.get_arg(0), 2, COUNT)
    assert ctx.wait(x).tolist() == (2 * np.arange(COUNT)).tolist()


def test_view_has_the_cuda_array_interface(ctx, x):
    with ctx.task(x.rw()) as t:
        view = t.get_arg_cai(0)
        assert view.__cuda_array_interface__ == {
            "version": 3, "shape": (COUNT,), "typestr": "<f8", "data": (t.get_arg(0), False),
            "strides": None, "stream": None,
        }  # fmt: skip
        assert not hasattr(view, "__array_interface__")
        assert view["data"] == view.get("data") == (view.ptr, False)


def test_views_are_cached_and_are_what_args_gives(ctx, x):
    token, y = ctx.token(), ctx.logical_data(np.zeros(2))
    with ctx.task(x.read(), token.rw(), y.rw()) as t:
        first, second = t.args()
        assert first is t[0] is t[x] is t.get_arg_cai(0) is t.args_cai()[0]
        assert second is t[2] is t.get_arg_cai(2)
        assert list(t) == [first, second]
        with pytest.raises(RuntimeError, match="token"):
            t.get_arg_cai(1)
        with pytest.raises(IndexError):
            t.get_arg_cai(3)


def test_truth_about_writing_is_in_readonly(ctx, x):
    with ctx.task(x.read()) as t:
        view = t.args_cai()
        assert view.readonly
        assert view.__cuda_array_interface__["data"][1] is False
    with ctx.task(x.rw()) as t:
        assert not t.args_cai().readonly


def test_structured_view_has_a_description(ctx):
    data = ctx.logical_data(np.zeros(2, [("a", "i4"), ("b", "f8")]))
    with ctx.task(data.rw()) as t:
        assert t.args_cai()["descr"] == [("a", "<i4"), ("b", "<f8")]
        with pytest.raises(BufferError, match="structured"):
            t.args_cai().__dlpack__()


def test_dead_view_raises_and_names_its_task(ctx, x):
    with ctx.task(x.rw(), symbol="owner") as t:
        view = t.args_cai()
    uses = [
        lambda: view.ptr, lambda: view.__cuda_array_interface__, lambda: view["data"],
        lambda: view.__dlpack__(), lambda: view.__dlpack_device__(),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(stf.UsageError, match=r"(?s)'x'.*'owner'.*had ended"):
            use()


def test_dlpack_names_the_device(ctx, two_devices, x):
    for device in (0, 1):
        with ctx.task(stf.exec_place.device(device), x.read()) as t:
            assert t.args_cai().__dlpack_device__() == (2, device)


def test_dlpack_says_where_other_memory_is(ctx, machine, x):
    y = ctx.logical_data_empty((4,))
    with ctx.task(x.read(stf.data_place.host())) as t:
        assert t.args_cai().__dlpack_device__() == (3, 0)
    if "managed" in machine.capabilities:
        with ctx.task(y.write(stf.data_place.managed())) as t:
            assert t.args_cai().__dlpack_device__() == (13, 0)


def test_dlpack_has_two_forms(ctx, x):
    with ctx.task(x.rw()) as t:
        view = t.args_cai()
        assert '"dltensor"' in repr(view.__dlpack__(stream=-1))
        assert '"dltensor"' in repr(view.__dlpack__(stream=-1, max_version=(0, 8)))
        assert '"dltensor_versioned"' in repr(view.__dlpack__(stream=-1, max_version=(1, 1)))


def test_dlpack_refuses_what_it_cannot_do(ctx, x):
    with ctx.task(x.rw()) as t:
        view = t.args_cai()
        with pytest.raises(BufferError, match="copy"):
            view.__dlpack__(copy=True)
        with pytest.raises(BufferError, match="device"):
            view.__dlpack__(dl_device=(1, 0))
        for stream in (0, -2):
            with pytest.raises(ValueError, match="disallowed"):
                view.__dlpack__(stream=stream)
        with pytest.raises(TypeError, match="stream"):
            view.__dlpack__(stream="one")
        view.__dlpack__(stream=-1, dl_device=(2, 0), copy=False)


def test_hand_made_view_has_no_dlpack():
    view = stf.stf_cai(0x1000, (2,), "f4", stream=7)
    assert view["stream"] == 7
    with pytest.raises(BufferError, match="array interface"):
        view.__dlpack__()


def test_host_task_gives_numpy_arrays_and_a_stream(ctx, driver, x):
    with ctx.task(x.rw()) as t:
        driver.scale(t.stream_ptr(), t.get_arg(0), 3, COUNT)
    with ctx.task(stf.exec_place.host(), x.rw()) as t:
        assert isinstance(t[0], np.ndarray)
        assert t[0].tolist() == (3 * np.arange(COUNT)).tolist()
        assert t.args_cai().__dlpack_device__() == (1, 0)
        assert np.from_dlpack(t.args_cai()).ctypes.data == t.get_arg(0)
        assert t.stream_ptr() != 0
        t[0][:] = 1
    with ctx.task(stf.exec_place.host(), x.read()) as (values,):
        assert not values.flags.writeable
        assert values.sum() == COUNT


def test_what_a_host_task_puts_on_its_stream_belongs_to_it(ctx, driver, machine, x):
    with ctx.task(stf.exec_place.host(), x.read(stf.data_place.device(0))) as t:
        assert isinstance(t[0], stf.stf_cai)
    with ctx.task(stf.exec_place.host(), x.rw(stf.data_place.device(0))) as t:
        driver.spin(t.stream_ptr())
        driver.fill(t.stream_ptr(), t.get_arg(0), 7, COUNT)
    assert ctx.wait(x).tolist() == [7] * COUNT
