# SPDX-License-Identifier: Apache-2.0
"""stf_cai: views of a task's arguments."""

import millstream as stf
import numpy as np
import pytest


@pytest.fixture
def x(ctx):
    return ctx.logical_data(np.arange(6.0).reshape(2, 3), name="x")


def test_view_tells_pointer_shape_and_dtype(ctx, x):
    with ctx.task(x.rw()) as t:
        view = t.get_arg_cai(0)
        assert isinstance(view, stf.stf_cai)
        assert (view.ptr, view.shape, view.dtype) == (t.get_arg(0), (2, 3), np.float64)
        assert (view.stream, view.readonly) == (0, False)
        assert t.get_arg_cai(0) is view


def test_args_cai_is_none_one_or_a_tuple(ctx, x):
    token, y = ctx.token(), ctx.logical_data(np.zeros(1))
    with ctx.task(token.rw()) as t:
        assert t.args_cai() is None
    with ctx.task(token.rw(), x.read()) as t:
        assert t.args_cai() is t.get_arg_cai(1)
    with ctx.task(x.read(), token.rw(), y.rw()) as t:
        assert t.args_cai() == (t.get_arg_cai(0), t.get_arg_cai(2))


@pytest.mark.host_devices
def test_numpy_takes_a_view_without_a_copy(ctx, x):
    with ctx.task(x.rw()) as t:
        array = np.asarray(t.args_cai())
        assert (array.ctypes.data, array.shape) == (t.get_arg(0), (2, 3))
        array[:] = 4
        del array
    assert ctx.wait(x).sum() == 24


@pytest.mark.host_devices
def test_read_only_view_says_so(ctx, x):
    with ctx.task(x.read()) as t:
        view = t.args_cai()
        assert view.readonly
        assert not np.asarray(view).flags.writeable


@pytest.mark.host_devices
def test_interface_is_that_of_the_memory(ctx, null_ctx, x):
    with ctx.task(x.rw()) as t:
        view = t.args_cai()
        assert not hasattr(view, "__cuda_array_interface__")
        interface = view.__array_interface__
        assert interface["version"] == view["version"] == 3
        assert view["data"] == (view.ptr, False)
        assert (view.get("shape"), view.get("none", 5), view.get("strides")) == ((2, 3), 5, None)
        assert interface["typestr"] == "<f8"
        assert "descr" not in interface
        with pytest.raises(KeyError):
            view["none"]
    with null_ctx.task(null_ctx.logical_data_empty((2,)).write()) as t:
        view = t.args_cai()
        assert not hasattr(view, "__array_interface__")
        assert view.__cuda_array_interface__["data"] == (view.ptr, False)
        assert view["stream"] is None
        assert t.args() == (view,)
        with pytest.raises(RuntimeError, match="memory"):
            view.__dlpack__()


@pytest.mark.host_devices
def test_structured_view_has_a_description(ctx):
    data = ctx.logical_data(np.zeros(2, [("a", "i4"), ("b", "f8")]))
    with ctx.task(data.rw()) as t:
        assert t.args_cai()["descr"] == [("a", "<i4"), ("b", "<f8")]
        np.asarray(t.args_cai())["b"] = 2
    assert ctx.wait(data)["b"].tolist() == [2, 2]


@pytest.mark.host_devices
def test_dlpack_of_a_view(ctx, x):
    with ctx.task(x.rw()) as t:
        view = t.args_cai()
        assert view.__dlpack_device__() == (1, 0)
        array = np.from_dlpack(view)
        assert array.ctypes.data == view.ptr


@pytest.mark.host_devices
def test_view_after_its_task_raises(ctx, x):
    with ctx.task(x.rw(), symbol="owner") as t:
        view = t.args_cai()
    uses = [
        lambda: view.ptr, lambda: view.__array_interface__, lambda: view["data"],
        lambda: view.get("data"), lambda: view.__dlpack__(),
    ]  # fmt: skip
    text = r"^a view of 'x' was used after its task 'owner' \(.*test_view\.py:\d+\) had ended; "
    for use in uses:
        with pytest.raises(stf.UsageError, match=text):
            use()
    assert "ended" in repr(view)
    assert view.shape == (2, 3)


def test_views_by_hand():
    view = stf.stf_cai(0x1000, (2, 3), "f4", stream=stf.CudaStream(7))
    assert (view.ptr, view.shape, view.dtype, view.stream) == (0x1000, (2, 3), np.float32, 7)
    assert view.__cuda_array_interface__ == {
        "version": 3, "shape": (2, 3), "typestr": "<f4", "data": (0x1000, False),
        "strides": None, "stream": 7,
    }  # fmt: skip
    assert stf.stf_cai(0, (1,), "f4")["stream"] is None
    with pytest.raises(TypeError, match="tuple"):
        stf.stf_cai(0, [1], "f4")
