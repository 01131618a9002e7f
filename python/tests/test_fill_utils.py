# SPDX-License-Identifier: Apache-2.0
"""The module `fill_utils` of the drop-in name: data that are there are filled with a scalar."""

import sys

import millstream as stf
import numpy as np
import pytest
from millstream.compat import cuda_stf


@pytest.fixture
def init_logical_data():
    if not cuda_stf.install():
        pytest.skip("cuda.stf._experimental is installed here")
    from cuda.stf._experimental.fill_utils import init_logical_data

    yield init_logical_data
    cuda_stf.uninstall()
    assert "cuda.stf._experimental.fill_utils" not in sys.modules


@pytest.mark.parametrize("value", [0, -0.0, 1, 3, True])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64",
              "complex64", "complex128"]
)  # fmt: skip
def test_every_element_size(ctx, init_logical_data, dtype, value):
    data = ctx.logical_data_empty((3, 5), dtype)
    assert init_logical_data(ctx, data, value) is None
    found = ctx.wait(data)
    assert found.dtype == dtype
    assert np.array_equal(found, np.full((3, 5), value, dtype))


def test_registered_data_of_any_shape(ctx, init_logical_data):
    arrays = [np.ones(()), np.ones((0, 3)), np.ones(7)]
    for each in arrays:
        init_logical_data(ctx, ctx.logical_data(each), 2.5)
    ctx.finalize()
    assert [each.tolist() for each in arrays] == [2.5, [], [2.5] * 7]


def test_places(ctx, init_logical_data):
    data = ctx.logical_data_empty((4,), np.int32)
    device = stf.exec_place.device(0)
    init_logical_data(ctx, data, 7, stf.data_place.device(0), device)
    init_logical_data(ctx, data, 8, data_place=None, exec_place=device)
    assert ctx.wait(data).tolist() == [8] * 4
    with pytest.raises(NotImplementedError):
        init_logical_data(ctx, data, 0, exec_place=stf.exec_place.host())


def test_wrong_arguments(ctx, host, init_logical_data):
    data = ctx.logical_data_empty((4,), np.uint8)
    readonly = ctx.logical_data(b"abc")
    for wrong, value, error in (
        (ctx.token(), 1, TypeError),
        (stf.logical_data(), 1, TypeError),
        (3, 1, TypeError),
        (None, 1, TypeError),
        (readonly, 1, ValueError),
        (data, "abc", ValueError),
        (data, 300, ValueError),
        (data, object(), TypeError),
    ):
        with pytest.raises(error):
            init_logical_data(ctx, wrong, value)
    with stf.context(machine=host) as other, pytest.raises(ValueError, match="different context"):
        init_logical_data(other, data, 1)
    over = stf.context(machine=host)
    over.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        init_logical_data(over, data, 1)
